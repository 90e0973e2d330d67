"""The pilot: a uniform sample of rows over the whole source, and the basis made from it.

Row numbers are drawn first, then only the fragments that hold them are read: a sorted file biases
nothing, and a file of ten thousand row groups is not read twice for a thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.notices import notice
from nysketch._support.seeds import require_seed
from nysketch.basis.base import Basis
from nysketch.basis.fit import fit_rows
from nysketch.basis.options import AUTO, BasisOptions
from nysketch.columns import total_width
from nysketch.engines.protocol import Check
from nysketch.engines.threads import Threads, engine_of
from nysketch.errors import InputError, UsageError
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.task import FragmentTask
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadKeywords, ReadOptions
from nysketch.sources.protocol import Fragment, Source, row_width
from nysketch.sources.queries import QuerySource
from nysketch.sources.selection import notes_on_left_out

_PILOT_BYTES = 32 << 20

# Where nearly all rows are dropped, stop looking for more: the numbers of so many rows take 128 MiB.
_MAX_DRAWN = 1 << 24


def default_pilot_rows(m: int, d: int) -> int:
    """Return how many pilot rows to draw for m landmarks: ten each, but not too many wide ones."""
    return max(m, min(max(10 * m, 10_000), _PILOT_BYTES // (8 * d)))


def pilot_rows_for(options: BasisOptions, d: int) -> int:
    """Return how many pilot rows to draw for a basis of d features."""
    return options.pilot_rows or default_pilot_rows(options.most, d)


def basis_of_data(
    data: Any,
    reading: ReadKeywords,
    options: Mapping[str, Any],
    *,
    seed: int,
    nulls: str,
    threads: int | None,
) -> Basis:
    """Open data and make a basis from a pilot of it: what `Basis.fit` does."""
    wanted = BasisOptions(**options)
    source = open_source(data, ReadOptions(**reading).for_basis(wanted))
    for note in notes_on_left_out(source.left_out):
        notice("%s", note)
    return fit_basis(source, wanted, seed=seed, nulls=nulls, execution=Execution(Threads(threads)))


def fit_basis(
    source: Source,
    options: BasisOptions,
    *,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> Basis:
    """Make a basis from a uniform sample of the rows of `source`."""
    rows = read_pilot_for(source, options, seed=seed, nulls=nulls, execution=execution)
    of_rows = rows_to_draw_from(source)
    return fit_rows(rows, source.columns, options, seed=seed, of_rows=of_rows, progress=execution.choosing)


def read_pilot_for(
    source: Source,
    options: BasisOptions,
    *,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> NDArray[Any]:
    """Return as many rows, drawn uniformly from the source, as it takes to make a basis."""
    require_seed(seed)
    wanted = pilot_rows_for(options, row_width(source))
    # To find the number of landmarks, a pilot may well be smaller than the largest.
    at_least = 1 if options.m == AUTO else options.most
    if wanted < at_least:
        raise UsageError(f"a pilot of {wanted} rows is too small for {options.m} landmarks")
    return read_pilot(source, wanted, at_least=at_least, seed=seed, nulls=nulls, execution=execution)


def rows_to_draw_from(source: Source) -> int:
    """Return the number of rows of a source that can be read twice; raise UsageError for a stream."""
    if source.rows is None or not source.rereadable:
        raise UsageError(
            "this source can be read only once, so its landmarks must come from elsewhere: make a basis "
            "with `nysketch.Basis.fit` from a file with some of its rows, and sketch with `basis`"
        )
    return source.rows


def read_pilot(
    source: Source,
    wanted: int,
    *,
    at_least: int = 1,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> NDArray[Any]:
    """Return about `wanted` rows drawn uniformly from the source, in its order: a matrix, or strings.

    Dropped rows are missing from the result; if fewer than `at_least` are left, more are drawn.
    """
    available = rows_to_draw_from(source)
    if not available:
        raise InputError("the source has no rows")
    draw, most = wanted, min(available, max(wanted, _MAX_DRAWN))
    while True:
        draw = min(draw, most)
        numbers = draw_rows(available, draw, seed)
        rows = _read_rows(source, numbers, nulls, execution)
        if len(rows) >= min(at_least, wanted) or draw == most:
            break
        # Mostly nulls: aim at the missing rest, with something to spare.
        draw = int(draw * min(100.0, 1.5 * at_least / max(len(rows), 1))) + 1
    if not len(rows):
        which = f"all {draw:,} rows" if draw == available else f"all {draw:,} rows of the pilot"
        raise InputError(f"{which} contain nulls, NaN or infinities: nothing to sketch")
    return rows


def draw_rows(rows: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return `count` of the numbers below `rows`, drawn uniformly without replacement, sorted."""
    rng = np.random.default_rng([seed, 0])
    if 4 * count > rows:
        return np.sort(rng.choice(rows, count, replace=False, shuffle=False))
    # Generator.choice may list all numbers; this needs memory for those drawn only. The first `count`
    # different ones of a sequence of independent draws are a uniform sample.
    numbers = np.unique(rng.integers(rows, size=count))
    while len(numbers) < count:
        more = rng.integers(rows, size=count - len(numbers))
        numbers = np.unique(np.concatenate([numbers, more]))
    return numbers


def _read_rows(source: Source, numbers: NDArray[np.int64], nulls: str, execution: Execution) -> NDArray[Any]:
    """Return the valid ones among the rows with these (sorted) global numbers."""
    engine, progress = engine_of(execution.engine), execution.pilot_progress
    reader = _RowsByNumber(source, numbers, nulls)
    fragments: Iterable[Fragment] = (part for part in source.fragments() if len(reader.wanted(part)))
    count = None
    if not isinstance(source, QuerySource):  # whose fragments carry their rows: too many for a list
        fragments = list(fragments)
        count = len(fragments)
    if progress is not None:
        progress(0, count)
    parts: dict[int, NDArray[Any]] = {}
    with closing(engine.run(reader, fragments)) as finished:
        for fragment, rows in finished:
            parts[fragment.number] = rows
            if progress is not None:
                progress(len(parts), count)
    return np.concatenate([parts[number] for number in sorted(parts)])


class _RowsByNumber(FragmentTask[NDArray[Any]]):
    """Reads the rows of a fragment that have certain (sorted) global numbers."""

    def __init__(self, source: Source, numbers: NDArray[np.int64], nulls: str) -> None:
        super().__init__(source, nulls=nulls)
        self._numbers = numbers

    def wanted(self, fragment: Fragment) -> NDArray[np.int64]:
        """Return the numbers of the rows to read from a fragment."""
        begin, end = np.searchsorted(self._numbers, [fragment.first_row, fragment.first_row + fragment.rows])
        return self._numbers[begin:end]

    def __call__(self, fragment: Fragment, check: Check) -> NDArray[Any]:
        """Return the valid ones among them."""
        columns, wanted = self.source.columns, self.wanted(fragment)
        text = any(column.text for column in columns)
        found = [np.empty(0, object) if text else np.empty((0, total_width(columns)))]
        for chunk in self.chunks(fragment, check):
            inside = wanted[(wanted >= chunk.first_row)] - chunk.first_row
            inside = inside[inside < len(chunk.rows)]
            found.append(chunk.rows[inside[chunk.keep[inside]]])
            if chunk.first_row + len(chunk.rows) > wanted[-1]:
                break  # the rest of the fragment holds no row of the pilot
        return np.concatenate(found)
