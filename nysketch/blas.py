"""How many threads linear algebra may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread for matrix products and decompositions.

    Workers are the parallelism of a pass. Elsewhere, threads that wait for each other made seconds of a busy
    machine's work twenty, and sums are rounded otherwise on another number of threads.
    """
    import scipy.linalg  # noqa: F401 - brings a BLAS of its own: a limit holds for those that are loaded
    import threadpoolctl

    with threadpoolctl.threadpool_limits(1):
        yield
