"""Spans: kernel sums over spans of consecutive rows, beside those over random blocks.

Blocks say how sure the sums are if rows are independent of each other. Spans show where they are not: rows
that resemble their neighbours, sorted rows, a burst of bad ones.

Which span a row is in is decided by its address (span_addresses.py), so that neither the order of rows nor
that of merging has an effect; and as the sums are exact (_support/exact.py), spans add to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nysketch._support.exact import ExactSum
from nysketch._types import Arrays, Floats, Indices
from nysketch.accumulators.grids import GRID_FINE, grid_exponent_of_spans
from nysketch.accumulators.limits import Limits, require_weights
from nysketch.accumulators.options import MOST_SPANS, PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, Statistic, is_count
from nysketch.accumulators.span_addresses import (
    COARSEST,
    FINEST,
    INPUT_BITS,
    ROW_BITS,
    Places,
    coarser,
    first_of_each,
    fitting_level,
    level_of_rows,
    place_of_input,
)
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


@dataclass(frozen=True, eq=False)
class Spans(Statistic):
    """Rows, weight and kernel sums of each span, sorted: neighbours in an input are neighbours here.

    A span is there once any of its rows was read, even if all of them were dropped.
    """

    capacity: int  # most spans that are kept
    level: int
    where: Places  # c × 2: the number of the input, that of the span in it
    rows: NDArray[np.int64]  # c
    weights: ExactSum | None  # c; None where rows have no weights
    sums: ExactSum  # c × m

    noun = "spans of rows"
    absent_description: ClassVar = {"runs": None}
    absent_summary: ClassVar = {"runs": None}
    absent_settings: ClassVar = {"runs": 0}

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self | None:
        """Return the spans of no rows; None if they are not wanted."""
        return cls.none(options.runs, basis.m, weighted=options.weighted) if options.runs else None

    @classmethod
    def none(cls, capacity: int, m: int, *, weighted: bool) -> Self:
        """Return the spans of no rows, with room for so many."""
        return cls(
            capacity,
            FINEST,
            np.zeros((0, 2), np.int64),
            np.zeros(0, np.int64),
            ExactSum.zeros(0) if weighted else None,
            ExactSum.zeros((0, m)),
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def weight(self) -> Floats:
        """The weight of each span: its number of rows where they have no weights."""
        return self.rows.astype(np.float64) if self.weights is None else self.weights.high

    @property
    def rows_per_span(self) -> int | None:
        """How many rows of an input a span has room for; None where spans are whole inputs."""
        return 1 << self.level if self.level <= ROW_BITS else None

    def coarsened(self, level: int) -> Self:
        """Return the spans at another level, which cannot be finer."""
        if not self.level <= level <= COARSEST:
            raise ValueError(f"the level must be between {self.level} and {COARSEST}, not {level}")
        if level == self.level:
            return self
        where = coarser(self.where, self.level, level)
        return self._united(self.capacity, level, where, self.rows, self.weights, self.sums)

    def _beside(self, other: Self) -> Self:
        """Return the spans of both at a level that has room for them."""
        capacity = min(self.capacity, other.capacity)
        level = max(self.level, other.level)
        both = np.vstack([coarser(spans.where, spans.level, level) for spans in (self, other)])
        fitting = fitting_level(both, level, capacity)
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = _stacked(self.weights, other.weights)
        return self._united(
            capacity,
            fitting,
            coarser(both, level, fitting),
            np.concatenate([self.rows, other.rows]),
            weights,
            _stacked(self.sums, other.sums),
        )

    def __add__(self, other: Self) -> Self:
        return self._beside(other)

    def __neg__(self) -> Self:
        weights = None if self.weights is None else -self.weights
        return type(self)(self.capacity, self.level, self.where, -self.rows, weights, -self.sums)

    def __sub__(self, other: Self) -> Self:
        """Take away rows that are among these.

        The level stays as coarse as that of the coarser, though fewer rows might be told apart at a finer
        one. It gets coarser still if there are spans that had fewer rows than are taken away: the rows were
        read from another file then, and only larger spans are known to have had them.
        """
        left = self._beside(-other)
        while (left.rows < 0).any() and left.level < COARSEST:
            left = left.coarsened(left.level + 1)
        some = (left.rows != 0) | left.sums.high.any(axis=1)
        if left.weights is not None:
            some |= left.weights.high != 0
        return type(self)(
            left.capacity,
            left.level,
            left.where[some],
            left.rows[some],
            None if left.weights is None else _chosen(left.weights, some),
            _chosen(left.sums, some),
        )

    @classmethod
    def _united(
        cls,
        capacity: int,
        level: int,
        where: Places,
        rows: Indices,
        weights: ExactSum | None,
        sums: ExactSum,
    ) -> Self:
        """Sort spans by address, and unite those with the same."""
        order = np.lexsort((where[:, 1], where[:, 0]))
        firsts = first_of_each(where[order])
        sizes = np.diff(np.append(firsts, len(order)))
        counts = np.add.reduceat(rows[order], firsts) if len(firsts) else rows[:0]
        return cls(
            capacity,
            level,
            where[order][firsts],
            counts,
            None if weights is None else _summed(weights, order, firsts, sizes),
            _summed(sums, order, firsts, sizes),
        )

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"runs": {"capacity": self.capacity, "level": self.level}}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        weights = {} if self.weights is None else self.weights.arrays("runs.weights")
        return {
            "runs.where": self.where,
            "runs.rows": self.rows,
            **weights,
            **self.sums.arrays("runs.sums"),
        }

    @classmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool
    ) -> Self | None:
        """Rebuild from what `describe` and `arrays` returned; files of format versions 1 to 3 have none."""
        about = description.get("runs")
        if about is None:
            return None
        weights = ExactSum.from_arrays("runs.weights", arrays) if weighted else None
        sums = ExactSum.from_arrays("runs.sums", arrays)
        where, rows = arrays["runs.where"], arrays["runs.rows"]
        count = len(sums.high)
        if rows.shape != (count,) or where.shape != (count, 2):
            raise ValueError(f"its addresses or counts do not match {count} spans")
        if sums.high.shape != (count, basis.m) or (weights is not None and weights.high.shape != (count,)):
            raise ValueError("the sums of its spans do not match the landmarks")
        return cls(about["capacity"], about["level"], where, rows, weights, sums)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be the spans of these rows."""
        if not is_count(self.capacity) or not 1 <= self.capacity <= MOST_SPANS or len(self) > self.capacity:
            raise ValueError("it has more spans than its settings allow")
        if not is_count(self.level) or not FINEST <= self.level <= COARSEST:
            raise ValueError("the level of its spans is impossible")
        self._check_places()
        rows = self.rows
        if rows.dtype != np.int64 or (rows < 0).any() or sum(rows.tolist()) != tally.rows:
            raise ValueError("its spans and its blocks count different rows")
        self.sums.check("runs.sums")
        if self.weights is not None:
            self.weights.check("runs.weights")
            require_weights("the weights of its spans", self.weights.high, rows, exact=tally.exact)
        limits, weighted = Limits.of(basis, tally.ranges), self.weights is not None
        limits.require("the sums of its spans", self.sums.high, self.weight, weighted=weighted)
        # What a subtraction leaves was rounded when there were more rows; of the last one nothing is known.
        if tally.exact:
            weight = self.weight
            if (weight < 0).any() or weight[rows == 0].any() or self.sums.high[rows == 0].any():
                raise ValueError("the weights of its spans are impossible")
            if not np.isclose(weight.sum(), tally.total_weight, rtol=1e-6):
                raise ValueError("its spans and its blocks have different weights")
            apart = np.abs(self.sums.high.sum(axis=0) - tally.blocks.sums.total().high)
            if (apart > limits.slack(tally.total_weight, weighted=weighted)).any():
                raise ValueError("its spans and its blocks have different sums")

    def _check_places(self) -> None:
        """Raise ValueError unless spans are where spans of their level can be, in order."""
        where = self.where
        if where.dtype != np.int64:
            raise ValueError("the addresses of its spans are not integers")
        # Beyond the bits of rows, the level takes away those of inputs.
        taken = max(self.level, ROW_BITS) - ROW_BITS
        bounds = [1 << (INPUT_BITS - taken), 1 << (ROW_BITS - min(self.level, ROW_BITS))]
        if (where < 0).any() or (where >= bounds).any():
            raise ValueError("the addresses of its spans are out of range")
        before, after = where[:-1], where[1:]
        same = before[:, 0] == after[:, 0]
        if not ((before[:, 0] < after[:, 0]) | (same & (before[:, 1] < after[:, 1]))).all():
            raise ValueError("its spans are out of order")

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether no count is negative."""
        return not (self.rows < 0).any()

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return how the rows are cut."""
        return {"runs": {"count": len(self), "level": self.level, "rows_per_run": self.rows_per_span}}

    @classmethod
    def info_line(cls, facts: dict[str, Any]) -> tuple[str, str] | None:
        """Say how the rows are cut."""
        spans = facts["runs"]
        if spans is None:
            return None
        if spans["rows_per_run"] is None:
            return "spans", f"{spans['count']:,}, each with all rows of one or more inputs"
        return "spans", f"{spans['count']:,} of up to {spans['rows_per_run']:,} consecutive rows"

    def settings(self) -> dict[str, Any]:
        """Return the spans there is room for, as an option."""
        return {"runs": self.capacity}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of the sums: high and low parts, in snapshots, and coarser ones on their way."""
        if not options.runs:
            return Memory()
        sums, block_sums = 8 * options.runs * size.m, 8 * options.blocks * size.m
        return Memory(
            fixed=6 * sums,
            # Those of a fragment, one by one and together; block sums of the span that is being read.
            per_thread=2 * sums + block_sums,
            stored=int(1.5 * sums) if size.weighted else sums,  # only sums of weights need more digits
        )

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what cuts fragments into spans."""
        return lambda chunk_rows: _Collector(self.capacity)

    def running(self, basis: Basis, options: PassOptions) -> _Running:
        """Return a running total that starts from this."""
        return _Running(self, basis, options)


def _chosen(sums: ExactSum, which: NDArray[Any]) -> ExactSum:
    return ExactSum(sums.high[which], sums.low[which])


def _stacked(one: ExactSum, other: ExactSum) -> ExactSum:
    return ExactSum(np.concatenate([one.high, other.high]), np.concatenate([one.low, other.low]))


def _summed(
    sums: ExactSum, order: NDArray[np.int64], firsts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> ExactSum:
    """Add up, exactly, sums that follow each other in this order, `sizes` at a time."""
    total = _chosen(sums, order[firsts])
    for more in range(1, sizes.max(initial=1)):
        longer = np.flatnonzero(sizes > more)
        part = _chosen(total, longer) + _chosen(sums, order[firsts[longer] + more])
        total.high[longer], total.low[longer] = part.high, part.low
    return total


@dataclass(frozen=True)
class _Part:
    """The spans that a fragment has rows of, at a level that its input decides."""

    level: int
    where: Places
    rows: Indices
    weights: Floats
    sums: Floats


class _Collector:
    """Has the evaluation cut a fragment into spans, and takes their sums."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        # How long spans are depends on the input alone, whose rows may be in many fragments: the sums that
        # are rounded to the grid must be the same whatever the input is read together with.
        evaluation.cut(level_of_rows(evaluation.where.input_rows, self._capacity))
        self._evaluation = evaluation

    def add(self, chunk: EvaluatedChunk) -> None:
        """The evaluation has added its rows."""

    def finish(self) -> _Part | None:
        found = self._evaluation.spans()
        if found is None:
            return None
        level, first, rows, weights, sums = found
        place = place_of_input(self._evaluation.where.key)
        where = np.stack([np.full(len(rows), place), np.arange(first, first + len(rows))], axis=1)
        return _Part(level, where, rows, weights, sums)


class _Running:
    """Sums stay where they are, in the order in which spans were first seen: a fragment has few of them."""

    limit = None

    def __init__(self, start: Spans, basis: Basis, options: PassOptions) -> None:
        from nysketch.tiles.sums import grid_of

        self._capacity, self._m = start.capacity, basis.m
        exponent = grid_exponent_of_spans(options.precision, weighted=options.weighted)
        self._grid = grid_of(exponent, basis.m, basis.magnitudes())
        self._weights_grid = np.array([2.0**GRID_FINE])
        self._weighted = start.weights is not None
        self._take(start)

    def _take(self, spans: Spans) -> None:
        """Go on from these."""
        self._level = spans.level
        self._slots = {(place[0], place[1]): slot for slot, place in enumerate(spans.where.tolist())}
        self._rows = np.zeros(self._capacity, np.int64)
        self._rows[: len(spans)] = spans.rows
        self._weights = _with_room(spans.weights, (self._capacity, 1))
        self._sums = _with_room(spans.sums, (self._capacity, self._m))

    def holds(self, part: _Part | None) -> bool:
        from nysketch.tiles.sums import can_hold

        return part is None or can_hold(part.sums, self._grid)

    def add(self, part: _Part | None) -> None:
        from nysketch.tiles.sums import add_some_on_grid

        if part is None:
            return
        level = max(self._level, part.level)
        where = coarser(part.where, part.level, level)
        new = set(map(tuple, where.tolist())) - self._slots.keys()
        if level > self._level or len(self._slots) + len(new) > self._capacity:
            seen = coarser(self._where(), self._level, level)
            level = fitting_level(np.vstack([seen, where]), level, self._capacity)
            self._take(self.snapshot().coarsened(level))
            where = coarser(part.where, part.level, level)
        slots = [self._slots.setdefault((h, r), len(self._slots)) for h, r in where.tolist()]
        to = np.array(slots, np.int64)
        np.add.at(self._rows, to, part.rows)
        add_some_on_grid(part.sums, to, self._grid, self._sums.high, self._sums.low)
        if self._weighted:
            total, terms = self._weights, part.weights[:, None]
            add_some_on_grid(terms, to, self._weights_grid, total.high, total.low)

    def _where(self) -> Places:
        return np.array(list(self._slots), np.int64).reshape(-1, 2)

    def snapshot(self) -> Spans:
        where = self._where()
        order = np.lexsort((where[:, 1], where[:, 0]))
        weights = ExactSum(self._weights.high[order, 0], self._weights.low[order, 0])
        return Spans(
            self._capacity,
            self._level,
            where[order],
            self._rows[order],
            weights if self._weighted else None,
            ExactSum(self._sums.high[order], self._sums.low[order]),
        )


def _with_room(sums: ExactSum | None, shape: tuple[int, int]) -> ExactSum:
    """Return a copy with rows for more."""
    room = ExactSum.zeros(shape)
    if sums is not None:
        room.high[: len(sums.high)] = sums.high.reshape(-1, shape[1])
        room.low[: len(sums.low)] = sums.low.reshape(-1, shape[1])
    return room
