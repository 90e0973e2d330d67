"""How many threads linear algebra may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_lock = threading.Lock()
_holders = 0
_limit = ExitStack()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for matrix products and decompositions.

    Workers are the parallelism of a pass. Elsewhere, threads that wait for each other made seconds of a busy
    machine's work twenty, and sums are rounded otherwise on another number of threads.

    The limit is one of the whole process: it holds until the last of those who asked for it are done.
    """
    global _holders
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own: a limit holds for those that are loaded
    import threadpoolctl

    with _lock:
        if not _holders:
            _limit.enter_context(threadpoolctl.threadpool_limits(1))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders:
                _limit.close()
