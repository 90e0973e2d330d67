"""The local engine: threads. The heavy work releases the interpreter lock, so they run in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from threadpoolctl import threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")


class Stopped(Exception):
    """Raised inside a worker that was told to stop; never leaves this module."""


def available_threads() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    work: Callable[[Task, Callable[[], None]], Result],
    tasks: Iterable[Task],
    *,
    threads: int,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[tuple[Task, Result], None, None]:
    """Yield (task, work(task, check)) as tasks finish, with at most 2 × threads of them in flight.

    `work` calls `check` now and then; it raises once the caller has gone away, so that neither an error
    nor Ctrl-C waits for fragments that take minutes. `meanwhile` is called about twice a second.
    """
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Stopped

    pending: dict[Future[Result], Task] = {}
    # One BLAS thread per worker: the workers are the parallelism.
    with threadpool_limits(1), ThreadPoolExecutor(threads, thread_name_prefix="nysketch") as pool:
        try:
            for task in tasks:
                pending[pool.submit(work, task, check)] = task
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
