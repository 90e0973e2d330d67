"""The local engine: threads. The heavy work releases the interpreter lock, so they run in parallel."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nysketch._support.blas import one_thread
from nysketch._support.cancel import stoppable
from nysketch.engines.protocol import Engine, Summing, Total, Work, nothing
from nysketch.errors import UsageError

if TYPE_CHECKING:
    from nysketch.sources.protocol import Fragment

log = logging.getLogger("nysketch")

Task = TypeVar("Task")
Result = TypeVar("Result")
Piece = TypeVar("Piece")


class Stopped(Exception):
    """Raised inside a worker that was told to stop; never leaves this module."""


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
            "using %d of %d processors to stay within %.0f MB; allow more with --memory",
            threads,
            available,
            memory / 1e6,
        )


class Threads:
    """The local engine; by default with as many threads as there are processors."""

    rows_elsewhere = 0

    def __init__(self, count: int | None = None) -> None:
        if count is not None and count < 1:
            raise UsageError(f"the number of threads must be at least 1, not {count}")
        self.count = available_threads() if count is None else count

    def run(
        self, work: Work[Result], fragments: Iterable[Fragment], *, meanwhile: Callable[[], None] = nothing
    ) -> Generator[tuple[Fragment, Result], None, None]:
        """Yield fragments and what came of them, as they finish."""
        return run(work, fragments, threads=self.count, meanwhile=meanwhile)

    def run_in_order(
        self,
        work: Work[Iterator[Piece]],
        fragments: Iterable[Fragment],
        *,
        size: Callable[[Piece], int] = lambda _: 0,
        most: int = 0,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[Piece, None, None]:
        """Yield the pieces that come of fragments, in the order of these."""
        return run_in_order(work, fragments, threads=self.count, size=size, most=most, meanwhile=meanwhile)

    def run_together(
        self,
        work: Summing[Total],
        fragments: Iterable[Fragment],
        *,
        rows: int | None = None,
        meanwhile: Callable[[], None] = nothing,
    ) -> Generator[tuple[Sequence[Fragment], Any], None, None]:
        """Yield fragments one by one: their results are added up by the caller, who alone has the total."""
        with closing(self.run(work, fragments, meanwhile=meanwhile)) as finished:
            for fragment, part in finished:
                yield (fragment,), part


def engine_of(engine: Engine | None, threads: int | None = None) -> Engine:
    """Return the engine that a user meant: so many threads, or another one."""
    if engine is None:
        return Threads(threads)
    if threads is not None:
        raise UsageError("threads are those of this process: an engine has workers of its own")
    return engine


def run(
    work: Callable[[Task, Callable[[], None]], Result],
    tasks: Iterable[Task],
    *,
    threads: int,
    meanwhile: Callable[[], None] = nothing,
) -> Generator[tuple[Task, Result], None, None]:
    """Yield (task, work(task, check)) as tasks finish, with at most 2 × threads of them in flight.

    `work` calls `check` now and then; it raises once the caller has gone away, so that neither an error
    nor Ctrl-C waits for fragments that take minutes. `meanwhile` is called about twice a second.
    """
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Stopped

    def stoppable_work(task: Task) -> Result:
        with stoppable(check):  # nor for files far away that do not answer
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
            while pending:
                yield from _finished(pending)
                meanwhile()
        finally:
            stop.set()
            for future in pending:
                future.cancel()


def _finished(pending: dict[Future[Result], Task]) -> Iterator[tuple[Task, Result]]:
    # Waiting without a limit would also keep signals from being seen on some platforms.
    done, _ = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
    # What succeeded is handed out before an error ends it all; of several errors, that of the first task.
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
    """Yield the pieces that work(task, check) makes, task by task in the order of the tasks.

    Workers run ahead of the caller, with at most 2 × threads tasks in flight, until the pieces that wait
    have a `size` of `most` together; from then on only the task whose turn it is makes another.
    """
    shelf = _OrderedBuffer(size, most)
    rows: deque[_Row[Piece]] = deque()

    def fill(task: Task, row: _Row[Piece]) -> None:
        try:
            with stoppable(shelf.check):
                for piece in work(task, shelf.check):
                    shelf.put(row, piece)
        finally:
            shelf.end(row)

    with one_thread(), ThreadPoolExecutor(threads, thread_name_prefix="nysketch") as pool:
        try:
            for task in tasks:
                row = _Row[Piece]()
                row.filling = pool.submit(fill, task, row)
                rows.append(row)
                if len(rows) >= 2 * threads:
                    yield from shelf.empty(rows.popleft(), meanwhile)
            while rows:
                yield from shelf.empty(rows.popleft(), meanwhile)
        finally:
            shelf.stop()
            for row in rows:
                if row.filling is not None:
                    row.filling.cancel()


@dataclass(eq=False)
class _Row(Generic[Piece]):
    """The pieces of one task that wait; `ended` when no more will come."""

    pieces: deque[Piece] = field(default_factory=deque)
    ended: bool = False
    filling: Future[None] | None = None


class _OrderedBuffer(Generic[Piece]):
    """Where the pieces of several tasks wait until it is their turn."""

    def __init__(self, size: Callable[[Piece], int], most: int) -> None:
        self._size, self._most = size, most
        self._changed = threading.Condition()
        self._held = 0
        self._turn: _Row[Piece] | None = None
        self._stopped = False

    def check(self) -> None:
        if self._stopped:
            raise Stopped

    def put(self, row: _Row[Piece], piece: Piece) -> None:
        """Put a piece at the end of a row, once there is room for it."""
        size = self._size(piece)

        def has_room() -> bool:
            # Whoever is waited for always may put one, or nobody would ever go on.
            next_to_go = row is self._turn and not row.pieces
            return self._stopped or next_to_go or self._held + size <= self._most

        with self._changed:
            self._changed.wait_for(has_room)
            self.check()
            row.pieces.append(piece)
            self._held += size
            self._changed.notify_all()

    def end(self, row: _Row[Piece]) -> None:
        with self._changed:
            row.ended = True
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def empty(self, row: _Row[Piece], meanwhile: Callable[[], None]) -> Iterator[Piece]:
        """Yield the pieces of a row, those to come as well; raise what ended it early."""
        with self._changed:
            self._turn = row
            self._changed.notify_all()
        while True:
            with self._changed:
                # Not for ever: the caller wants to hear of time that passes, and of signals.
                self._changed.wait_for(lambda: row.pieces or row.ended, timeout=0.5)
                taken = [row.pieces.popleft()] if row.pieces else []
                self._held -= sum(map(self._size, taken))
                self._changed.notify_all()
                finished = row.ended and not taken
            yield from taken
            meanwhile()
            if finished:
                break
        assert row.filling is not None
        row.filling.result()
