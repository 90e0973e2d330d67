"""The Dask engine: connecting to a cluster, checking its workers, and running fragments on them.

The result is that of threads, since both run the same work on the same fragments. How tasks are submitted and
retried is in session.py, what workers run in worker.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nysketch._support.notices import log
from nysketch.engines.dask.batching import SECONDS, Groups
from nysketch.engines.dask.monitor import ANSWER, ClusterMonitor, lost_without_scheduler
from nysketch.engines.dask.session import Session
from nysketch.engines.dask.worker import PIECES, RESULTS, TOTAL, inspect_worker, unfit_workers
from nysketch.engines.protocol import FragmentWork, SummingWork, Total, nothing
from nysketch.engines.threads import available_threads
from nysketch.errors import ClusterError, UsageError
from nysketch.provenance import Input
from nysketch.sources.protocol import Fragment

Result = TypeVar("Result")
Piece = TypeVar("Piece")
Run = TypeVar("Run")

DEFAULT_PATIENCE = DEFAULT_SILENCE = 60.0
_RETRIES = 3
# Totals that one worker adds up at a time.
FAN_IN = 8
# Rows of a group whose pieces are sent here, which takes memory.
_MOST_ROWS = 1 << 20
# Files that each worker is asked for before it gets a task.
_FILES_COMPARED = 8
# Loggers of Dask that report what happens to workers, which this package reports itself where it matters.
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.nanny")


@contextmanager
def cluster(
    scheduler: str | None = None,
    *,
    workers: int | None = None,
    patience: float = DEFAULT_PATIENCE,
    **options: Any,
) -> Iterator[DaskEngine]:
    """Connect to a scheduler (an address, or its JSON file), or start workers on this machine.

    Dask logs nothing while the engine is open; afterwards its loggers have their levels of before.
    """
    if (scheduler is None) == (workers is None):
        raise UsageError("give a `scheduler`, or a number of `workers` to start on this machine")
    try:
        import distributed
    except ImportError as error:
        raise UsageError(f"the Dask engine needs Dask: pip install 'nysketch[dask]' ({error})") from error
    with _silenced(_LOGGERS):
        if scheduler is not None:
            with closing(_connect(distributed, scheduler, patience)) as client:
                yield DaskEngine(client, patience=patience, **options)
            return
        assert workers is not None
        with (
            distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=max(1, available_threads() // workers),
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            ) as started,
            distributed.Client(started, set_as_default=False) as client,
        ):
            yield DaskEngine(client, patience=patience, **options)


@contextmanager
def _silenced(names: Sequence[str]) -> Iterator[None]:
    """Set loggers to CRITICAL, and back to their levels on leaving."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _connect(distributed: Any, scheduler: str, patience: float) -> Any:
    """Return a client of a scheduler."""
    how: dict[str, Any] = {"address": scheduler}
    if scheduler.endswith(".json"):
        if not Path(scheduler).is_file():
            raise ClusterError(
                f"{scheduler}: no such file; `dask scheduler --scheduler-file FILE` writes one"
            )
        how = {"scheduler_file": scheduler}
    try:
        limit = min(ANSWER, max(patience, 1.0))
        return distributed.Client(**how, timeout=limit, set_as_default=False, name="nysketch")
    except (OSError, ValueError, TypeError) as error:  # time-outs are OSErrors
        raise ClusterError(
            f"no Dask scheduler answers at {scheduler}: {error}. Start one with `dask scheduler`, or leave "
            'out `engine="dask"`'
        ) from error


class DaskEngine:
    """Runs fragments on the workers of a `distributed.Client`'s cluster.

    It waits `patience` seconds for a worker if there is none, has others do the work of one that was silent
    for `silence` seconds, retries a fragment `retries` times if reading it fails, and submits groups of
    fragments that take about `seconds`. Workers add up `fan_in` totals at a time.
    """

    def __init__(
        self,
        client: Any,
        *,
        patience: float = DEFAULT_PATIENCE,
        silence: float = DEFAULT_SILENCE,
        retries: int = _RETRIES,
        seconds: float = SECONDS,
        fan_in: int = FAN_IN,
    ) -> None:
        if fan_in < 2:
            raise UsageError(f"totals must be added at least two at a time, not {fan_in}")
        self._client, self._patience, self._silence = client, patience, silence
        self._retries, self._seconds, self._fan_in = retries, seconds, fan_in
        self._session_now: Session | None = None

    @property
    def rows_elsewhere(self) -> int:
        """How many rows of the current run were read by workers."""
        return 0 if self._session_now is None else self._session_now.rows

    def run(
        self,
        work: FragmentWork[Result],
        fragments: Iterable[Fragment],
        *,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and their results, as they finish."""

        def results() -> Generator[tuple[Fragment, Result], None, None]:
            with self._session(work, RESULTS, meanwhile) as session:
                for result in session.as_completed(Groups(fragments, seconds=self._seconds)):
                    yield from zip(result.done, result.value, strict=True)

        return self._begun(results())

    def run_in_order(
        self,
        work: FragmentWork[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces of results in the order of the fragments; until their turn, workers hold them."""
        del size, most  # this process holds one group at a time

        def pieces() -> Generator[Piece, None, None]:
            groups = Groups(fragments, seconds=self._seconds, most_rows=_MOST_ROWS)
            with self._session(work, PIECES, meanwhile) as session:
                for result in session.in_order(groups):
                    for some in result.value:
                        yield from some

        return self._begun(pieces())

    def run_together(
        self,
        work: SummingWork[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield some fragments and their total, added up by the workers."""

        def totals() -> Generator[tuple[Sequence[Fragment], Any], None, None]:
            groups = Groups(fragments, seconds=self._seconds)
            with self._session(work, TOTAL, meanwhile, rows) as session:
                for result in session.as_completed(groups, self._fan_in):
                    yield result.done, result.value

        return self._begun(totals())

    def _begun(self, run: Run) -> Run:
        """Reset `rows_elsewhere` now, and not only when the first result is asked for."""
        self._session_now = None
        return run

    @contextmanager
    def _session(
        self, work: FragmentWork[Any], how: str, meanwhile: Callable[[], None], rows: int | None = None
    ) -> Iterator[Session]:
        if not work.source.is_files:
            raise UsageError("a cluster can only read files, and this source exists in this process only")
        work.source.inputs()  # what workers compare their files with
        files = work.source.some_files(_FILES_COMPARED)

        def inspect(new: Sequence[str]) -> None:
            self._require_fit(monitor, new, files)

        monitor = ClusterMonitor(self._client, self._patience, self._silence, meanwhile, inspect)
        monitor.await_workers()
        # Workers that come later compare a file when they read it: one that lacks it does not end the run.
        files = ()
        with Session(self._client, monitor, work, how, retries=self._retries, rows=rows) as session:
            self._session_now = session
            yield session

    def _require_fit(
        self, monitor: ClusterMonitor, workers: Sequence[str], files: Sequence[tuple[Any, Input]]
    ) -> None:
        """Compare the software and some files of workers with ours; raise an error that names unfit ones."""

        def ask() -> dict[str, Any]:
            found: dict[str, Any] = self._client.run(
                inspect_worker, files, workers=list(workers), on_error="return"
            )
            return found

        asked = monitor.waited_for(ask)
        with lost_without_scheduler(self._client):
            reports = asked.result()
        # A worker that has gone meanwhile does not matter.
        reports = {name: found for name, found in reports.items() if not isinstance(found, OSError)}
        cannot, may_differ = unfit_workers(reports)
        if cannot:
            raise ClusterError(
                f"{len(cannot)} of {len(reports)} workers cannot take part: "
                f"{' | '.join(cannot[:5])}{f' and {len(cannot) - 5} more' if len(cannot) > 5 else ''}. "
                "Install the same version of nysketch there, make the same files available at the same "
                "paths, or stop these workers"
            )
        for text in may_differ[:5]:
            log.warning("worker %s: sums may differ in their last digits", text)
