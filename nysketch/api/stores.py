"""`nysketch.run`, `status` and `write_report`: stores of sketches that jobs keep up to date."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nysketch._support.outputs import overwriting
from nysketch.api._data import AnyPath
from nysketch.jobs import status as jobs_status
from nysketch.jobs.config import load_job
from nysketch.jobs.run import PartitionProgress, run_job
from nysketch.jobs.store import Store
from nysketch.jobs.summary import Summary
from nysketch.report import write
from nysketch.report.write import Report


def run(
    job: AnyPath,
    *,
    set: Mapping[str, object] | None = None,
    dry_run: bool = False,
    threads: int | None = None,
    lock_wait: float | None = None,
    progress: PartitionProgress | None = None,
) -> Summary:
    """Bring the store of a job up to date: sketches, windows, comparisons, models, report.

    Only new and changed inputs are read; a run that was killed is continued by the next one.

    Parameters
    ----------
    job : path
        The job file, in TOML.
    set : dict, optional
        Settings to change, by table and key: `{"basis.landmarks": 500}`.
    dry_run : bool
        Find out what would be done, and do nothing.
    threads : int, optional
        Worker threads. Default: as the job says.
    lock_wait : float, optional
        Seconds to wait for another run on the same store. Default: as the job says.
    progress : callable, optional
        Called with a partition, its rows that were read, and the rows there are.

    Returns
    -------
    Summary
        With `new`, `changed`, `skipped`, `alarms`, `errors` and the `exit_code` of the command.

    Examples
    --------
    >>> nysketch.run("taxi.toml").alarms

    """
    given = {} if set is None else dict(set)
    if threads is not None:
        given["job.threads"] = threads
    loaded = load_job(Path(job), changes=[f"{key}={value}" for key, value in given.items()])
    return run_job(loaded, write_report=_write, dry_run=dry_run, lock_wait=lock_wait, progress=progress)


def _write(store: Store, output: Path) -> None:
    write.write_report(store, output)


def status(store: AnyPath) -> dict[str, Any]:
    """Describe what a store holds: partitions, missing dates, drift, windows, models, the last run.

    Reads the store only, and needs no lock: it may be called during a run.

    Parameters
    ----------
    store : path
        Directory of the store.

    Returns
    -------
    dict
        Plain values, as `nysketch status --json` prints them.

    Examples
    --------
    >>> nysketch.status("store")["rows"]

    """
    return jobs_status.status(Store.open(Path(store)))


def write_report(store: AnyPath, output: AnyPath, *, if_exists: str = "overwrite") -> Report:
    """Write what a store holds as one HTML file that needs nothing else.

    Parameters
    ----------
    store : path
        Directory of the store.
    output : path
        HTML file to write.
    if_exists : {"overwrite", "fail"}
        What to do if `output` exists.

    Returns
    -------
    Report
        With the `headline`, and the number of `alarms` of the newest partition.

    Examples
    --------
    >>> nysketch.write_report("store", "report.html").headline

    """
    return write.write_report(Path(store), Path(output), overwrite=overwriting(if_exists))
