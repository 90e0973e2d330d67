"""The pilot: a uniform sample of rows over the whole source, and the basis made from it.

Row numbers are drawn first, then only the fragments that hold them are read: a sorted file biases
nothing, and a file of ten thousand row groups is not read twice for a thousand rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.notices import log, notice
from nysketch._support.seeds import require_seed
from nysketch.accumulators.dropped import DroppedRows
from nysketch.accumulators.unknown import unknown_in
from nysketch.basis.base import Basis
from nysketch.basis.encoding import fit_kinds
from nysketch.basis.fit import fit_rows
from nysketch.basis.layout import Layout
from nysketch.basis.options import AUTO, BasisOptions
from nysketch.columns import total_width
from nysketch.engines.protocol import Check
from nysketch.engines.threads import Threads, engine_of
from nysketch.errors import InputError, SchemaError, UsageError, option
from nysketch.kinds import parse_kinds
from nysketch.passes.chunks import pilot_policy
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.left_out import uninformative
from nysketch.passes.task import FragmentTask
from nysketch.sketches.losses import dropped_in_words, many_dropped
from nysketch.sources.identifiers import (
    SERIAL,
    SampledRows,
    constant_columns,
    constant_in_words,
    notes_on_constants,
    serial_columns,
)
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadKeywords, ReadOptions
from nysketch.sources.protocol import Fragment, Source, row_width
from nysketch.sources.queries import QuerySource
from nysketch.sources.selection import notes_on_left_out, notes_on_no_features, shorten

_PILOT_BYTES = 32 << 20

# Columns of which a basis remembers why they were left out.
MOST_REMEMBERED = 1000

# Where nearly all rows are dropped, stop looking for more: the numbers of so many rows take 128 MiB.
_MAX_DRAWN = 1 << 24


def default_pilot_rows(m: int, d: int) -> int:
    """Return how many pilot rows to draw for m landmarks: ten each, but not too many wide ones."""
    return max(m, min(max(10 * m, 10_000), _PILOT_BYTES // (8 * d)))


def pilot_rows_for(options: BasisOptions, d: int) -> int:
    """Return how many pilot rows to draw for a basis of d features."""
    return options.pilot_rows or default_pilot_rows(options.most, d)


@dataclass(frozen=True)
class Pilot(SampledRows):
    """Rows that were drawn and can be used, and which others were dropped.

    `texts` are those of categories, by column and by the numbers that rows have for them.
    """

    dropped: DroppedRows
    texts: Mapping[str, Mapping[float, str]]


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
    basis = fit_basis(source, wanted, seed=seed, nulls=nulls, execution=Execution(Threads(threads)))
    say_no_features(source, basis)
    say_losses_of_pilot(basis)
    return basis


def fit_basis(
    source: Source,
    options: BasisOptions,
    *,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> Basis:
    """Make a basis from a uniform sample of the rows of `source`; serial numbers and constants are left out.

    It may have fewer columns than the source: `reading_columns_of` reads those it has.
    """
    pilot = read_pilot_for(source, options, seed=seed, nulls=nulls, execution=execution)
    basis, _ = fit_pilot(source, pilot, options, seed=seed, execution=execution)
    return basis


def fit_pilot(
    source: Source, pilot: Pilot, options: BasisOptions, *, seed: int, execution: Execution
) -> tuple[Basis, NDArray[Any]]:
    """Make a basis from rows of `source`; also return what its columns hold in these rows."""
    no_features, constants = _no_features(source, pilot)
    columns = [column for column in source.columns if column.name not in no_features]
    if not columns:
        told = shorten(f"{name} ({why})" for name, why in no_features.items())
        raise SchemaError(
            f"no columns to sketch: the numeric ones say nothing of a row. Left out: {told}. Name those to "
            "use anyway in `columns`"
        )
    rows = pilot.rows
    if no_features:
        taken = [np.full(column.width, column.name not in no_features) for column in source.columns]
        # In the order in memory that they had: means are summed in it, and their last bits depend on it.
        by_column = rows.flags.f_contiguous and not rows.flags.c_contiguous
        rows = rows[:, np.concatenate(taken)]
        rows = np.asfortranarray(rows) if by_column else np.ascontiguousarray(rows)
    of_rows, choosing = rows_to_draw_from(source), execution.choosing
    if not columns[0].text:
        columns, rows = fit_kinds(rows, columns, pilot.texts, parse_kinds(options.kinds))
    basis = fit_rows(rows, columns, options, seed=seed, of_rows=of_rows, progress=choosing)
    # Those that were found here come first: the list is cut where a table has thousands of others.
    left_out = dict(itertools.islice({**no_features, **source.left_out}.items(), MOST_REMEMBERED))
    origin = basis.origin | {"left_out": left_out} if left_out else basis.origin
    origin = origin | {"constants": constants} if constants else origin
    if pilot.dropped.count:
        origin |= {"pilot_dropped": {"dropped": pilot.dropped.count, "rows": len(pilot)}}
    if basis.encoded:
        unknown = unknown_in(rows, basis).by_column(basis)
        origin |= {"pilot_unknown": unknown} if unknown else {}
    return replace(basis, origin=origin), rows


def _no_features(source: Source, pilot: Pilot) -> tuple[dict[str, str], dict[str, float]]:
    """Return the columns to leave out with the reasons, and the values of those that are constant."""
    if not source.optional:
        return {}, {}
    left_out = uninformative(pilot.rows, source.columns, pilot.texts, source.optional)
    numbers = frozenset(c.name for c in source.columns if c.name in source.optional and c.kind is None)
    constants = constant_columns(pilot, source.columns, numbers)
    # A flag may be set in one row of a million: the pilot shows a constant, but statistics know better.
    known = source.extremes(list(constants)) if constants else {}
    constants = {
        name: value for name, value in constants.items() if known.get(name, (value, value)) == (value, value)
    }
    constants = dict(itertools.islice(constants.items(), MOST_REMEMBERED))
    serial = serial_columns(pilot, source.columns, numbers)
    found = left_out | dict.fromkeys(serial, SERIAL)
    found |= {name: constant_in_words(value) for name, value in constants.items()}
    return {c.name: found[c.name] for c in source.columns if c.name in found}, constants


def reading_columns_of(basis: Basis, source: Source) -> Source:
    """Return a source of the columns that a basis has, which was made from it."""
    if source.columns == basis.columns:
        return source
    here, why = {column.name for column in basis.columns}, basis.origin.get("left_out", {})
    gone = {c.name: why.get(c.name, "") for c in source.columns if c.name not in here}
    fewer = source.without(gone) if gone else source
    return fewer if fewer.columns == basis.columns else fewer.with_kinds(basis.columns)


def say_no_features(source: Source, basis: Basis) -> None:
    """Say which columns of a source are left out because of what they hold."""
    for note in notes_on_no_features(reading_columns_of(basis, source).left_out, but=source.left_out):
        notice("%s", note)


def say_losses_of_pilot(basis: Basis) -> None:
    """Warn if many of the rows that a basis was to be made from were dropped."""
    if many_dropped(basis):
        log.warning("of the pilot, %s", dropped_in_words(**basis.origin["pilot_dropped"]))


def notes_on_constants_of(basis: Basis, source: Source) -> list[str]:
    """Say which columns that were left out as constants have other values in this source."""
    constants = basis.origin.get("constants", {})
    return notes_on_constants(constants, source.extremes(list(constants))) if constants else []


def read_pilot_for(
    source: Source,
    options: BasisOptions,
    *,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> Pilot:
    """Return as many rows, drawn uniformly from the source, as it takes to make a basis."""
    require_seed(seed)
    nulls = pilot_policy(nulls, text=options.text)
    wanted = pilot_rows_for(options, row_width(source))
    # To find the number of landmarks, a pilot may well be smaller than the largest.
    at_least = 1 if options.m == AUTO else options.most
    if wanted < at_least:
        raise UsageError(f"a pilot of {wanted} rows is too small for {options.m} landmarks")
    return sample_rows(source, wanted, at_least=at_least, seed=seed, nulls=nulls, execution=execution)


def rows_to_draw_from(source: Source) -> int:
    """Return the number of rows of a source that can be read twice; raise UsageError for a stream."""
    if source.rows is None or not source.rereadable:
        raise UsageError(
            "this source can be read only once, so its landmarks must come from elsewhere: make a basis "
            "with `nysketch.Basis.fit` from a file with some of its rows, and sketch with `basis`"
        )
    return source.rows


def read_pilot(
    source: Source, wanted: int, *, seed: int = 0, nulls: str = "error", execution: Execution = HERE
) -> NDArray[Any]:
    """Return about `wanted` rows drawn uniformly from the source, in its order: a matrix, or strings."""
    return sample_rows(source, wanted, seed=seed, nulls=nulls, execution=execution).rows


def sample_rows(
    source: Source,
    wanted: int,
    *,
    at_least: int = 1,
    seed: int = 0,
    nulls: str = "error",
    execution: Execution = HERE,
) -> Pilot:
    """Return about `wanted` rows drawn uniformly from the source, in its order, with their numbers.

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
        raise InputError(
            f"{which} contain nulls, NaN or infinities: nothing to sketch{_culprit(source, rows.dropped)}"
        )
    return rows


def _culprit(source: Source, dropped: DroppedRows) -> str:
    """Name the column that is invalid in most rows, where there are others."""
    if dropped.invalid is None or len(source.columns) < 2:
        return ""
    worst = int(np.argmax(dropped.invalid[:-1]))
    name, count = source.columns[worst].name, int(dropped.invalid[worst])
    return f". Column {name!r} is invalid in {count:,} of them: leave it out with {option('exclude', name)}"


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


def _read_rows(source: Source, numbers: NDArray[np.int64], nulls: str, execution: Execution) -> Pilot:
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
    parts: dict[int, Pilot] = {}
    with closing(engine.run(reader, fragments)) as finished:
        for fragment, rows in finished:
            parts[fragment.number] = rows
            if progress is not None:
                progress(len(parts), count)
    ordered = [parts[number] for number in sorted(parts)]
    return Pilot(
        np.concatenate([part.rows for part in ordered]),
        np.concatenate([part.numbers for part in ordered]),
        np.concatenate([part.starts for part in ordered]),
        sum((part.dropped for part in ordered), DroppedRows()),
        _united(part.texts for part in ordered),
    )


def _united(parts: Iterable[Mapping[str, Mapping[float, str]]]) -> dict[str, dict[float, str]]:
    """Return the texts of several parts together."""
    found: dict[str, dict[float, str]] = {}
    for texts in parts:
        for name, known in texts.items():
            found.setdefault(name, {}).update(known)
    return found


class _RowsByNumber(FragmentTask[Pilot]):
    """Reads the rows of a fragment that have certain (sorted) global numbers."""

    def __init__(self, source: Source, numbers: NDArray[np.int64], nulls: str) -> None:
        super().__init__(source, nulls=nulls)
        self._numbers = numbers

    def wanted(self, fragment: Fragment) -> NDArray[np.int64]:
        """Return the numbers of the rows to read from a fragment."""
        begin, end = np.searchsorted(self._numbers, [fragment.first_row, fragment.first_row + fragment.rows])
        return self._numbers[begin:end]

    def __call__(self, fragment: Fragment, check: Check) -> Pilot:
        """Return the valid ones among them."""
        columns, wanted = self.source.columns, self.wanted(fragment)
        text = any(column.text for column in columns)
        found = [np.empty(0, object) if text else np.empty((0, total_width(columns)))]
        numbers, dropped = [np.empty(0, np.int64)], DroppedRows()
        texts: list[Mapping[str, Mapping[float, str]]] = []
        for chunk in self.chunks(fragment, check):
            inside = wanted[(wanted >= chunk.first_row)] - chunk.first_row
            inside = inside[inside < len(chunk.rows)]
            if chunk.invalid is not None:
                gone = np.isin(np.flatnonzero(~chunk.keep), inside)
                dropped = dropped + DroppedRows.of(chunk.invalid[gone])
            inside = inside[chunk.keep[inside]]
            found.append(chunk.rows[inside])
            if self.reader.texts:
                texts.append(self._texts_of(found[-1]))
            numbers.append(chunk.first_row + inside)
            if chunk.first_row + len(chunk.rows) > wanted[-1]:
                break  # the rest of the fragment holds no row of the pilot
        kept = np.concatenate(numbers)
        start = fragment.first_row - fragment.row_in_input
        starts = np.full(len(kept), start, np.int64)
        return Pilot(np.concatenate(found), kept, starts, dropped, _united(texts))

    def _texts_of(self, rows: NDArray[Any]) -> Mapping[str, Mapping[float, str]]:
        """Return the texts of the categories of some rows: of a column of names, a chunk has thousands."""
        known = self.reader.texts
        return {
            place.column.name: {
                number: known[place.column.name][number]
                for number in np.unique(rows[:, place.numbers.start]).tolist()
                if number in known[place.column.name]  # missing values have no text, nor have long ones
            }
            for place in Layout.of(self.source.columns).places
            if place.column.name in known
        }
