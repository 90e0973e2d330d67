"""The Dask engine: the same fragments on the workers of a cluster, and so the same result.

Here are the cluster and its workers: are they there, and fit for the work? What is done with them is in
session.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nysketch.engines.dask.batching import SECONDS, Groups
from nysketch.engines.dask.session import ANSWER, ClusterMonitor, Session, lost_without_scheduler
from nysketch.engines.dask.worker import PIECES, RESULTS, TOTAL, look, unfit
from nysketch.engines.protocol import Summing, Total, Work, nothing
from nysketch.errors import ClusterError, UsageError
from nysketch.provenance import Input
from nysketch.sources.protocol import Fragment

log = logging.getLogger("nysketch")

Result = TypeVar("Result")
Piece = TypeVar("Piece")
Run = TypeVar("Run")

DEFAULT_PATIENCE = 60.0
_RETRIES = 3
# Totals that one worker adds up at a time.
FAN_IN = 8
# Rows of a group whose pieces are sent here, which takes memory.
_MOST_ROWS = 1 << 20
# Files that each worker is asked for before it is given anything.
_FILES_LOOKED_AT = 8


@contextmanager
def cluster(
    scheduler: str | None = None,
    *,
    workers: int | None = None,
    patience: float = DEFAULT_PATIENCE,
    **options: Any,
) -> Iterator[DaskEngine]:
    """Connect to a scheduler (an address, or its JSON file), or start so many workers on this machine."""
    if (scheduler is None) == (workers is None):
        raise UsageError("name a scheduler, or a number of workers to start on this machine")
    try:
        import distributed
    except ImportError as error:
        raise UsageError(f"the Dask engine needs Dask: pip install 'nysketch[dask]' ({error})") from error
    # What happens to workers is told by this module, where it matters.
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.nanny"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if scheduler is not None:
        with closing(_connected(distributed, scheduler, patience)) as client:
            yield DaskEngine(client, patience=patience, **options)
        return
    from nysketch.engines.threads import available_threads

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


def _connected(distributed: Any, scheduler: str, patience: float) -> Any:
    """Return a client of a scheduler."""
    how: dict[str, Any] = {"address": scheduler}
    if scheduler.endswith(".json"):
        if not Path(scheduler).is_file():
            raise ClusterError(f"{scheduler}: no such file; the scheduler writes it with --scheduler-file")
        how = {"scheduler_file": scheduler}
    try:
        limit = min(ANSWER, max(patience, 1.0))
        return distributed.Client(**how, timeout=limit, set_as_default=False, name="nysketch")
    except (OSError, ValueError, TypeError) as error:  # of time-outs, too
        raise ClusterError(
            f"no Dask scheduler answers at {scheduler}: {error}. Start one with `dask scheduler`, or leave "
            "out --engine dask"
        ) from error


class DaskEngine:
    """Runs fragments on the workers of a `distributed.Client`'s cluster.

    It waits for `patience` seconds if there is no worker, tries fragments again `retries` times if reading
    them failed, and makes groups of fragments that take about `seconds`.
    """

    def __init__(
        self,
        client: Any,
        *,
        patience: float = DEFAULT_PATIENCE,
        retries: int = _RETRIES,
        seconds: float = SECONDS,
        fan_in: int = FAN_IN,
    ) -> None:
        if fan_in < 2:
            raise UsageError(f"totals must be added up by two at least, not by {fan_in}")
        self._client, self._patience = client, patience
        self._retries, self._seconds, self._fan_in = retries, seconds, fan_in
        self._session_now: Session | None = None

    @property
    def rows_elsewhere(self) -> int:
        """How many rows of the current run were read by workers."""
        return 0 if self._session_now is None else self._session_now.rows

    def run(
        self, work: Work[Result], fragments: Iterable[Fragment], *, meanwhile: Callable[[], None] = nothing
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and what came of them, as they finish."""

        def results() -> Generator[tuple[Fragment, Result], None, None]:
            with self._session(work, RESULTS, meanwhile) as session:
                for outcome in session.as_they_finish(Groups(fragments, seconds=self._seconds)):
                    yield from zip(outcome.done, outcome.value, strict=True)

        return self._begun(results())

    def run_in_order(
        self,
        work: Work[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces that come of fragments, in the order of these; until then, workers have them."""
        del size, most  # here, there is one group at a time

        def pieces() -> Generator[Piece, None, None]:
            groups = Groups(fragments, seconds=self._seconds, most_rows=_MOST_ROWS)
            with self._session(work, PIECES, meanwhile) as session:
                for outcome in session.in_order(groups):
                    for some in outcome.value:
                        yield from some

        return self._begun(pieces())

    def run_together(
        self,
        work: Summing[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield some fragments and their total, added up by the workers."""

        def totals() -> Generator[tuple[Sequence[Fragment], Any], None, None]:
            groups = Groups(fragments, seconds=self._seconds)
            with self._session(work, TOTAL, meanwhile, rows) as session:
                for outcome in session.as_they_finish(groups, self._fan_in):
                    yield outcome.done, outcome.value

        return self._begun(totals())

    def _begun(self, run: Run) -> Run:
        """Count rows from nothing now, and not only when the first result is asked for."""
        self._session_now = None
        return run

    @contextmanager
    def _session(
        self, work: Work[Any], how: str, meanwhile: Callable[[], None], rows: int | None = None
    ) -> Iterator[Session]:
        if not work.source.is_files:
            raise UsageError("a cluster reads files: this source is one of this process alone")
        work.source.inputs()  # what workers compare their files with
        files = work.source.some_files(_FILES_LOOKED_AT)

        def inspect(new: Sequence[str]) -> None:
            self._require_fit(new, files)

        overseer = ClusterMonitor(self._client, self._patience, meanwhile, inspect)
        overseer.await_workers()
        # Who comes later is asked for a file when it reads from it: others can go on.
        files = ()
        session = Session(self._client, overseer, work, how, retries=self._retries, rows=rows)
        self._session_now = session
        try:
            yield session
        finally:
            session.close()

    def _require_fit(self, workers: Sequence[str], files: Sequence[tuple[Any, Input]]) -> None:
        """Ask workers for their software and for some files; refuse those that lack any, by name."""
        with lost_without_scheduler(self._client):
            looks = self._client.run(look, files, workers=list(workers), on_error="return")
        # Whoever goes now is not there any more: others will do.
        looks = {name: found for name, found in looks.items() if not isinstance(found, OSError)}
        cannot, may_differ = unfit(looks)
        if cannot:
            raise ClusterError(
                f"{len(cannot)} of {len(looks)} workers cannot take part: {' | '.join(cannot[:5])}"
                f"{f' and {len(cannot) - 5} more' if len(cannot) > 5 else ''}. Install the same version of "
                "nysketch there and give them the same files at the same place, or stop them"
            )
        for text in may_differ[:5]:
            log.warning("worker %s: sums may differ in their last digits", text)
