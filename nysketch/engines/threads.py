"""The local engine: threads of this process.

The heavy work (NumPy, numba, Arrow) releases the interpreter lock, so threads run in parallel. Pieces that
must come out in order wait in a buffer of bounded size.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nysketch._support import signals
from nysketch._support.blas import one_thread
from nysketch._support.cancel import stoppable
from nysketch._support.notices import log
from nysketch.engines.protocol import Engine, FragmentWork, SummingWork, Total, nothing
from nysketch.errors import UsageError

if TYPE_CHECKING:
    from nysketch.sources.protocol import Fragment


Task = TypeVar("Task")
Result = TypeVar("Result")
Piece = TypeVar("Piece")


class Stopped(Exception):
    """Raised inside a worker thread to stop it; never leaves this module."""


def available_threads() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def log_fewer_threads(threads: int, memory: int) -> None:
    """Log that a budget of so many bytes leaves processors idle, if it does."""
    available = available_threads()
    if threads < available:
        log.info(
            "using %d of %d processors to stay within %.0f MB; allow more with `memory`",
            threads,
            available,
            memory / 1e6,
        )


class Threads:
    """The local engine; by default with as many threads as there are processors."""

    rows_elsewhere = 0

    def __init__(self, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise UsageError(f"`threads` must be at least 1, not {count}")
        self.count = available_threads() if count is None else count

    def run(
        self,
        work: FragmentWork[Result],
        fragments: Iterable[Fragment],
        *,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and their results, as they finish."""
        return run(work, fragments, threads=self.count, meanwhile=meanwhile)

    def run_in_order(
        self,
        work: FragmentWork[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces of results in the order of the fragments."""
        return run_in_order(work, fragments, threads=self.count, size=size, most=most, meanwhile=meanwhile)

    def run_together(
        self,
        work: SummingWork[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield fragments one by one; the caller adds up their results."""
        with closing(self.run(work, fragments, meanwhile=meanwhile)) as finished:
            for fragment, part in finished:
                yield (fragment,), part


def engine_of(engine: Engine | None, threads: int | None = None) -> Engine:
    """Return the engine that was given, or else threads."""
    if engine is None:
        return Threads(threads)
    if threads is not None:
        raise UsageError("`threads` is for this process: an engine has its own workers")
    return engine


def run(
    work: Callable[[Task, Callable[[], None]], Result],
    tasks: Iterable[Task],
    *,
    threads: int,
    meanwhile: Callable[[], None] = nothing,
) -> Generator[tuple[Task, Result], None, None]:
    """Yield (task, work(task, check)) as tasks finish, with at most 2 × threads of them in flight.

    `work` calls `check` now and then; it raises once the caller has left, so that neither an error nor Ctrl-C
    waits for fragments that take minutes. `meanwhile` is called about twice a second.
    """
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Stopped

    def stoppable_work(task: Task) -> Result:
        with stoppable(check):  # so that retries of remote files stop, too
            return work(task, check)

    pending: dict[Future[Result], Task] = {}
    # One BLAS thread per worker: the workers are the parallelism.
    with one_thread(), ThreadPoolExecutor(threads, thread_name_prefix="nysketch") as pool:
        try:
            for task in tasks:
                pending[pool.submit(stoppable_work, task)] = task
                while len(pending) >= 2 * threads:
                    yield from _finished(pending)
                    meanwhile()
                    signals.check()
            while pending:
                yield from _finished(pending)
                meanwhile()
                signals.check()
        finally:
            stop.set()
            for future in pending:
                future.cancel()


def _finished(pending: dict[Future[Result], Task]) -> Iterator[tuple[Task, Result]]:
    # A wait without a time-out would block signals on some platforms.
    done, _ = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
    # Yield all successes before raising an error. If several tasks failed, the one submitted first is raised.
    in_order = [future for future in pending if future in done]
    for future in sorted(in_order, key=lambda future: future.exception() is not None):
        yield pending.pop(future), future.result()


def run_in_order(
    work: Callable[[Task, Callable[[], None]], Iterable[Piece]],
    tasks: Iterable[Task],
    *,
    threads: int,
    size: Callable[[Piece], int] = lambda _: 0,
    most: int = 0,
    meanwhile: Callable[[], None] = nothing,
) -> Generator[Piece, None, None]:
    """Yield the pieces that work(task, check) yields, in the order of the tasks.

    Workers run ahead of the caller, with at most 2 × threads tasks in flight, until the pieces that wait have
    a total `size` of `most`. From then on, only the task that the caller is waiting for adds another piece.
    """
    buffer = _OrderedBuffer(size, most)
    lanes: deque[_Lane[Piece]] = deque()

    def fill(task: Task, lane: _Lane[Piece]) -> None:
        try:
            with stoppable(buffer.check):
                for piece in work(task, buffer.check):
                    buffer.put(lane, piece)
        finally:
            buffer.end(lane)

    with one_thread(), ThreadPoolExecutor(threads, thread_name_prefix="nysketch") as pool:
        try:
            for task in tasks:
                lane = _Lane[Piece]()
                lane.filling = pool.submit(fill, task, lane)
                lanes.append(lane)
                if len(lanes) >= 2 * threads:
                    yield from buffer.drain(lanes.popleft(), meanwhile)
            while lanes:
                yield from buffer.drain(lanes.popleft(), meanwhile)
        finally:
            buffer.stop()
            for lane in lanes:
                if lane.filling is not None:
                    lane.filling.cancel()


@dataclass(eq=False)
class _Lane(Generic[Piece]):
    """The pieces of one task that wait for their turn; `ended` when no more will come."""

    pieces: deque[Piece] = field(default_factory=deque)
    ended: bool = False
    filling: Future[None] | None = None


class _OrderedBuffer(Generic[Piece]):
    """Holds the pieces of several tasks until it is their turn, a lane for each task.

    The total size of the pieces is at most `most`, except that the lane being drained may always add one
    piece.
    """

    def __init__(self, size: Callable[[Piece], int], most: int) -> None:
        self._size, self._most = size, most
        self._changed = threading.Condition()
        self._held = 0
        self._turn: _Lane[Piece] | None = None  # the lane being drained
        self._stopped = False

    def check(self) -> None:
        if self._stopped:
            raise Stopped

    def put(self, lane: _Lane[Piece], piece: Piece) -> None:
        """Append a piece to a lane, once there is room for it."""
        size = self._size(piece)

        def has_room() -> bool:
            # The caller waits for the lane being drained. If it is empty, it may add a piece even when the
            # buffer is full of later ones: otherwise, caller and workers would wait for each other for ever.
            is_awaited = lane is self._turn and not lane.pieces
            return self._stopped or is_awaited or self._held + size <= self._most

        with self._changed:
            self._changed.wait_for(has_room)
            self.check()
            lane.pieces.append(piece)
            self._held += size
            self._changed.notify_all()

    def end(self, lane: _Lane[Piece]) -> None:
        with self._changed:
            lane.ended = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def drain(self, lane: _Lane[Piece], meanwhile: Callable[[], None]) -> Iterator[Piece]:
        """Yield the pieces of a lane until it has ended; raise the error of its task, if any."""
        with self._changed:
            self._turn = lane
            self._changed.notify_all()
        while True:
            with self._changed:
                # With a time-out, so that `meanwhile` is called and signals are handled.
                self._changed.wait_for(lambda: lane.pieces or lane.ended, timeout=0.5)
                taken = [lane.pieces.popleft()] if lane.pieces else []
                self._held -= sum(map(self._size, taken))
                self._changed.notify_all()
                finished = lane.ended and not taken
            yield from taken
            meanwhile()
            signals.check()
            if finished:
                break
        assert lane.filling is not None
        lane.filling.result()
