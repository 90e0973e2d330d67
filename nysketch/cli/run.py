"""`nysketch run`: update a store of sketches; made for cron."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import INPUT, OUTPUT, RUNNING, option
from nysketch.cli._sections import command as sectioned

if TYPE_CHECKING:
    from nysketch.jobs.store import Store
    from nysketch.jobs.summary import Summary

log = logging.getLogger("nysketch")


def _seconds_or_none(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    return None if value is None else common.seconds(ctx, param, value)


@sectioned(example="nysketch run taxi.toml --lock-wait 600 --log-format json")
@click.argument("job", type=click.Path(path_type=Path), metavar="JOB.toml")
@option(
    "--set",
    "changes",
    section=INPUT,
    multiple=True,
    metavar="TABLE.KEY=VALUE",
    help="Override a setting of the job file. Repeat it for several. Entries of lists go by name: "
    "comparisons.previous.alpha=0.01.",
)
@option(
    "--show-config",
    section=OUTPUT,
    is_flag=True,
    help="Print all settings as a job file (or JSON) and exit.",
)
@option(
    "--dry-run",
    section=RUNNING,
    is_flag=True,
    help="Show what the run would do. Write nothing and read no rows.",
)
@option(
    "--threads",
    section=RUNNING,
    type=click.IntRange(min=1),
    metavar="N",
    help="Worker threads. Default: threads in [job].",
)
@option(
    "--lock-wait",
    section=RUNNING,
    type=float,
    metavar="SECONDS",
    callback=_seconds_or_none,
    help="How long to wait if another run is using the store. Default: lock_wait in [job], or 0.",
)
@common.as_json
@common.reporting
def command(
    job: Path,
    changes: tuple[str, ...],
    show_config: bool,
    dry_run: bool,
    threads: int | None,
    lock_wait: float | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Update the store of the job JOB.toml: sketches, windows, comparisons, models, report.

    Only new and changed inputs are read. After a crash, the next run continues. Settings come from flags,
    NYSKETCH_RUN_TABLE_KEY variables, the job file and defaults, in this order. The exit code is 7 if a
    comparison with `alarm = true` found a difference, and 6 if inputs were skipped. The guide to
    nightly jobs explains each exit code; the reference of settings lists every key of a job file.
    """
    from nysketch.jobs.config import as_toml, load_job
    from nysketch.jobs.run import run_job

    given = changes if threads is None else (*changes, f"job.threads={threads}")
    loaded = load_job(job, changes=given)
    if show_config:
        if as_json:
            _output.print_json(loaded.settings)
        else:
            click.echo(as_toml(loaded.settings).rstrip("\n"))
        return 0
    log_as_json = click.get_current_context().params.get("log_format") == "json"

    def announce(summary: Summary) -> None:
        _announce(summary, as_json=as_json, log_as_json=log_as_json, quiet=quiet)

    with _output.progress_bar("sketch", " rows", quiet=quiet) as bar:
        summary = run_job(
            loaded,
            write_report=_write_report,
            dry_run=dry_run,
            lock_wait=lock_wait,
            progress=_by_rows(bar),
            announce=announce,
        )
    return summary.exit_code


def _write_report(store: Store, output: Path) -> None:
    """Write the report of a store; pictures and pages are loaded only by runs that have one to write."""
    from nysketch.report.write import write_report

    write_report(store, output)


def _by_rows(bar: Callable[[int, int | None], None]) -> Callable[[str, int, int | None], None]:
    """Show the rows of one partition after the other."""

    def progress(name: str, done: int, total: int | None) -> None:
        del name
        bar(done, total)

    return progress


def _announce(summary: Summary, *, as_json: bool, log_as_json: bool, quiet: bool) -> None:
    facts: dict[str, Any] = summary.describe()
    for name, why in summary.skipped.items():
        log.warning("skipped %s: %s", name, why)
    for path in summary.waiting:
        log.info("left for the next run, because it was modified just now: %s", path)
    for error in summary.errors:
        log.error("%s", error)
    for alarm in summary.alarms:
        log.warning("alarm: %s", _sentence(alarm))
    for found in summary.undecided:
        # Where every night has few rows, this is no news.
        log.log(logging.WARNING if found["unusual"] else logging.INFO, "undecided: %s", _unseen(found))
    if log_as_json:
        log.info("%s", summary.sentence(), extra={"fields": {"summary": facts}})
    if as_json:
        _output.print_json(facts)
    elif not quiet and not log_as_json:
        _output.echo(summary.sentence())


def _unseen(found: dict[str, Any]) -> str:
    """Say what a comparison could not see."""
    what = f"{found['partition']} cannot be told from {found['other']} in comparison {found['name']!r}"
    if found["detectable"] is None:
        return what
    return f"{what}: a true MMD below {found['detectable']:.2g} may go unseen"


def _sentence(alarm: dict[str, Any]) -> str:
    p = "" if alarm["p_value"] is None else f" (p {alarm['p_value']:.3g})"
    return (
        f"{alarm['partition']} differs from {alarm['other']} by an MMD of {alarm['mmd']:.4g}{p}, "
        f"in comparison {alarm['name']!r}"
    )
