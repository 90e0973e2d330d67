"""Sums of one fragment and of all fragments so far, by span of consecutive rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.grids import GRID_FINE
from nysketch.accumulators.spans import Spans, coarser, fitting_level
from nysketch.tiles.sums import FragmentSums, add_some_on_grid, can_hold, grid_of


@dataclass(frozen=True)
class FragmentSpans:
    """The spans that a fragment has rows of, at a level that its input decides: what it adds."""

    level: int
    where: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: Floats
    sums: Floats


class SpansByRow(NamedTuple):
    """Spans that an evaluator adds rows to, besides blocks: which span a row is in, and the sums of all."""

    span_of: NDArray[np.int64]
    sums: Floats


class LongSpans:
    """Spans that chunks fit into, one after the other: each has arrays of its own while it is read.

    One row may be as large as all others together, and only the sums of its own span may lose digits to it.
    When a span ends, they are moved to the sums of the fragment.
    """

    def __init__(self, level: int, first_row: int, into: FragmentSums, current: FragmentSums) -> None:
        """Begin with the first row; `current` is `into` itself if all rows will be in one run."""
        self.level, self.first = level, first_row >> level
        self.cut: int | None = 1 << level  # chunks must not go across
        self._into, self._current = into, current
        self._run = self.first
        self._rows, self._weights = list[int](), list[float]()
        self._totals: list[list[Floats]] = [[] for _ in into.values]

    def sums_from(self, row: int) -> FragmentSums:
        """Return the sums to add rows to that begin with this one and are in the same run."""
        if row >> self.level != self._run:
            self._finish_run()
            self._run = row >> self.level
        return self._current

    def _finish_run(self) -> None:
        current = self._current
        self._rows.append(int(current.rows.sum()))
        self._weights.append(float(current.weights.sum()))
        totals = current.totals() if current is self._into else current.move_into(self._into)
        for column, total in zip(self._totals, totals, strict=True):
            column.append(total)

    def finished(self) -> tuple[NDArray[np.int64], Floats, list[Floats]]:
        """Return rows, weights and values of all spans, once all rows were added."""
        self._finish_run()
        return np.array(self._rows), np.array(self._weights), [np.vstack(column) for column in self._totals]


class ShortSpans:
    """Spans of which a chunk has many: every row is added to the sums of its span, and those of its block.

    To cut chunks as short as that would cost several times as much: tiles would never be full.
    """

    def __init__(self, level: int, first_row: int, rows: int, evaluators: int, m: int) -> None:
        self.level, self.first = level, first_row >> level
        self.cut = None
        count = ((first_row + rows - 1) >> level) - self.first + 1
        self.rows, self.weights = np.zeros(count, np.int64), np.zeros(count)
        self.values = [np.zeros((count, m)) for _ in range(evaluators)]

    def finished(self) -> tuple[NDArray[np.int64], Floats, list[Floats]]:
        """Return rows, weights and values of all spans, once all rows were added."""
        return self.rows, self.weights, self.values


class RunningSpans:
    """The spans of all fragments so far; `add` is exact, so their order does not matter.

    Sums stay where they are, in the order in which the spans were first seen: a fragment has few of them.
    """

    def __init__(self, start: Spans, grid_exponent: int, magnitudes: Floats) -> None:
        """Add on this grid; for values of other magnitudes than 1, on one that is so many times coarser."""
        self._capacity, self._m = start.capacity, start.sums.high.shape[1]
        self._grid = grid_of(grid_exponent, self._m, magnitudes)
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

    def holds(self, part: FragmentSpans) -> bool:
        """Tell whether the sums of a fragment's spans can be added exactly; beyond that, order would show."""
        return can_hold(part.sums, self._grid)

    def add(self, part: FragmentSpans) -> None:
        """Add the spans of one fragment."""
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

    def _where(self) -> NDArray[np.int64]:
        return np.array(list(self._slots), np.int64).reshape(-1, 2)

    def snapshot(self) -> Spans:
        """Return the spans as they are now."""
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
