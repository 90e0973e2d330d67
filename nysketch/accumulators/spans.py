"""Spans: kernel sums over spans of consecutive rows, beside those over random blocks.

Blocks say how sure the sums are if rows are independent of each other. Spans show where they are not: rows
that resemble their neighbours, sorted rows, a burst of bad ones.

Every row has an address: a number that stands for its input, and its own number in that input. A span is all
rows whose addresses agree but for the last bits, as many as the `level` says; beyond the bits of row numbers,
whole inputs are put together. So spans of any level are made of those of any finer one, and the level can be
what the rows alone decide: the finest at which they are in no more spans than wanted. Then neither the order
of rows nor that of merging shows, and as the sums are exact (exact.py), spans add to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.accumulators.exact import ExactSum

Places = NDArray[np.int64]

DEFAULT_SPANS = 64
MOST_SPANS = 65_536

# Spans of fewer than 16 rows would say little, and take as much room as the rows do.
FINEST = 4
ROW_BITS, INPUT_BITS = 48, 62
COARSEST = ROW_BITS + INPUT_BITS  # all rows of all inputs

_WORD = 2**64 - 1


def place_of_input(key: int) -> int:
    """Return the number that stands for an input with this key, whose first bits are as good as random."""
    word = (key + 0x9E3779B97F4A7C15) & _WORD  # splitmix64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return (word ^ (word >> 31)) >> (64 - INPUT_BITS)


def level_of_rows(rows: int, capacity: int) -> int:
    """Return the finest level at which so many rows of one input are in at most `capacity` spans."""
    level = FINEST
    while -(-rows >> level) > capacity and level < ROW_BITS:  # rounded up
        level += 1
    return level


def coarser(where: Places, level: int, to: int) -> Places:
    """Return the addresses, at a coarser level, of spans at a level."""
    inputs, numbers = where[:, 0], where[:, 1]
    inputs = inputs >> (max(to, ROW_BITS) - max(level, ROW_BITS))
    numbers = np.zeros_like(numbers) if to > ROW_BITS else numbers >> (to - level)
    return np.stack([inputs, numbers], axis=1)


def fitting_level(where: Places, level: int, capacity: int) -> int:
    """Return the finest level from this one on at which the spans `where` are in at most `capacity` spans."""
    start, finest = where, level
    while len(where) > capacity and len(_firsts(where := _sorted(where))) > capacity:
        level += 1
        where = coarser(start, finest, level)
    return level


def _sorted(where: Places) -> Places:
    return where[np.lexsort((where[:, 1], where[:, 0]))]


def _firsts(where: Places) -> NDArray[np.int64]:
    """Return where in sorted addresses another one begins."""
    if not len(where):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.append(True, (where[1:] != where[:-1]).any(axis=1)))


@dataclass(frozen=True, eq=False)
class Spans:
    """Rows, weight and kernel sums of each span, sorted: neighbours in an input are neighbours here.

    A span is there once any of its rows was read, even if all of them were dropped.
    """

    capacity: int  # most spans that are kept
    level: int
    where: Places  # c × 2: the number of the input, that of the span in it
    rows: NDArray[np.int64]  # c
    weights: ExactSum | None  # c; None where rows have no weights
    sums: ExactSum  # c × m

    @classmethod
    def none(cls, capacity: int, m: int, *, weighted: bool) -> Spans:
        """Return the spans of no rows."""
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

    def coarsened(self, level: int) -> Spans:
        """Return the spans at another level, which cannot be finer."""
        if not self.level <= level <= COARSEST:
            raise ValueError(f"the level must be between {self.level} and {COARSEST}, not {level}")
        if level == self.level:
            return self
        where = coarser(self.where, self.level, level)
        return _united(self.capacity, level, where, self.rows, self.weights, self.sums)

    def _beside(self, other: Spans) -> Spans:
        """Return the spans of both at a level that has room for them."""
        capacity = min(self.capacity, other.capacity)
        level = max(self.level, other.level)
        both = np.vstack([coarser(spans.where, spans.level, level) for spans in (self, other)])
        fitting = fitting_level(both, level, capacity)
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = _stacked(self.weights, other.weights)
        return _united(
            capacity,
            fitting,
            coarser(both, level, fitting),
            np.concatenate([self.rows, other.rows]),
            weights,
            _stacked(self.sums, other.sums),
        )

    def __add__(self, other: Spans) -> Spans:
        return self._beside(other)

    def __neg__(self) -> Spans:
        weights = None if self.weights is None else -self.weights
        return Spans(self.capacity, self.level, self.where, -self.rows, weights, -self.sums)

    def __sub__(self, other: Spans) -> Spans:
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
        return Spans(
            left.capacity,
            left.level,
            left.where[some],
            left.rows[some],
            None if left.weights is None else _chosen(left.weights, some),
            _chosen(left.sums, some),
        )

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"capacity": self.capacity, "level": self.level}

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
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, m: int, *, weighted: bool) -> Spans:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where they do not fit."""
        weights = ExactSum.from_arrays("runs.weights", arrays) if weighted else None
        sums = ExactSum.from_arrays("runs.sums", arrays)
        where, rows = arrays["runs.where"], arrays["runs.rows"]
        count = len(sums.high)
        if rows.shape != (count,) or where.shape != (count, 2):
            raise ValueError(f"addresses or counts do not fit {count} runs")
        if sums.high.shape != (count, m) or (weights is not None and weights.high.shape != (count,)):
            raise ValueError("the sums of spans do not fit the landmarks")
        return cls(description["capacity"], description["level"], where, rows, weights, sums)


def _chosen(sums: ExactSum, which: NDArray[Any]) -> ExactSum:
    return ExactSum(sums.high[which], sums.low[which])


def _stacked(one: ExactSum, other: ExactSum) -> ExactSum:
    return ExactSum(np.concatenate([one.high, other.high]), np.concatenate([one.low, other.low]))


def _united(
    capacity: int,
    level: int,
    where: Places,
    rows: NDArray[np.int64],
    weights: ExactSum | None,
    sums: ExactSum,
) -> Spans:
    """Sort spans by address, and unite those with the same."""
    order = np.lexsort((where[:, 1], where[:, 0]))
    firsts = _firsts(where[order])
    sizes = np.diff(np.append(firsts, len(order)))
    counts = np.add.reduceat(rows[order], firsts) if len(firsts) else rows[:0]
    return Spans(
        capacity,
        level,
        where[order][firsts],
        counts,
        None if weights is None else _summed(weights, order, firsts, sizes),
        _summed(sums, order, firsts, sizes),
    )


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
