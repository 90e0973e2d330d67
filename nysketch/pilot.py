"""The pilot: a uniform sample of rows over the whole source, and the basis made from it.

Row numbers are drawn first, then only the fragments that hold them are read: a sorted file biases
nothing, and a file of ten thousand row groups is not read twice for a thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from nysketch.basis import DEFAULT_LANDMARKS, Basis
from nysketch.engines.local import available_threads
from nysketch.errors import InputError, UsageError
from nysketch.reading import ChunkReader
from nysketch.sources import Fragment, Source

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]


def default_pilot_rows(m: int) -> int:
    """Return how many pilot rows to draw for m landmarks."""
    return max(10 * m, 10_000)


def fit_basis(
    source: Source,
    *,
    m: int = DEFAULT_LANDMARKS,
    scaling: str = "standard",
    bandwidth: float | str = "median",
    seed: int = 0,
    pilot_rows: int | None = None,
    nulls: str = "error",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Basis:
    """Make a basis from a uniform sample of the rows of `source`."""
    if m < 1:
        raise UsageError(f"the number of landmarks must be at least 1, not {m}")
    wanted = pilot_rows or default_pilot_rows(m)
    if wanted < m:
        raise UsageError(f"a pilot of {wanted} rows cannot give {m} landmarks")
    rows = read_pilot(source, wanted, at_least=m, seed=seed, nulls=nulls, threads=threads, progress=progress)
    return Basis.from_rows(rows, source.columns, m=m, scaling=scaling, bandwidth=bandwidth, seed=seed)


def read_pilot(
    source: Source,
    wanted: int,
    *,
    at_least: int = 1,
    seed: int = 0,
    nulls: str = "error",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Floats:
    """Return about `wanted` rows drawn uniformly from the source, in its order.

    Dropped rows are missing from the result; if fewer than `at_least` are left, more are drawn.
    """
    if source.rows is None or not source.rereadable:
        raise UsageError(
            "this source can be read only once, so its landmarks must come from elsewhere: "
            "make a basis with `nysketch basis` and pass it with --basis"
        )
    draw = wanted
    while True:
        draw = min(draw, source.rows)
        numbers = np.sort(
            np.random.default_rng([seed, 0]).choice(source.rows, draw, replace=False, shuffle=False)
        )
        rows = _read_rows(source, numbers, nulls, threads, progress)
        if len(rows) >= min(at_least, wanted) or draw == source.rows:
            break
        # Mostly nulls: aim at the missing rest, with something to spare.
        draw = int(draw * min(100.0, 1.5 * at_least / max(len(rows), 1))) + 1
    if not len(rows):
        raise InputError(f"all {source.rows:,} rows hold nulls, NaN or infinities: nothing to sketch")
    return rows


def _read_rows(
    source: Source,
    numbers: NDArray[np.int64],
    nulls: str,
    threads: int | None,
    progress: Progress | None,
) -> Floats:
    """Return the valid ones among the rows with these (sorted) global numbers."""
    tasks: list[tuple[Fragment, NDArray[np.int64]]] = []
    for fragment in source.fragments():
        begin, end = np.searchsorted(numbers, [fragment.first_row, fragment.first_row + fragment.rows])
        if end > begin:
            tasks.append((fragment, numbers[begin:end]))

    def read(task: tuple[Fragment, NDArray[np.int64]]) -> Floats:
        fragment, wanted = task
        found = []
        for chunk in ChunkReader(source, nulls=nulls).chunks(fragment):
            inside = wanted[(wanted >= chunk.first_row)] - chunk.first_row
            inside = inside[inside < len(chunk.rows)]
            found.append(chunk.rows[inside[chunk.keep[inside]]])
            if chunk.first_row + len(chunk.rows) > wanted[-1]:
                break  # the rest of the fragment holds no row of the pilot
        return np.concatenate(found)

    parts = []
    with ThreadPoolExecutor(threads or available_threads()) as pool:
        futures = [pool.submit(read, task) for task in tasks]
        try:
            for done, future in enumerate(futures, start=1):
                parts.append(future.result())
                if progress is not None:
                    progress(done, len(tasks))
        finally:
            for future in futures:
                future.cancel()
    return np.concatenate(parts)
