"""The kernel sums of a fragment by span of consecutive rows, while it is read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nysketch._types import Floats, Indices
from nysketch.tiles.sums import FragmentSums


class SpansByRow(NamedTuple):
    """Spans that an evaluator adds rows to, besides blocks: which span a row is in, and the sums of all."""

    span_of: Indices
    sums: Floats


class LongSpans:
    """Spans that chunks fit into, one after the other: each has arrays of its own while it is read.

    One row may be as large as all others together, and only the sums of its own span may lose digits to it.
    When a span ends, they are moved to the sums of the fragment.
    """

    def __init__(self, level: int, first_row: int, into: FragmentSums, current: FragmentSums) -> None:
        """Begin with the first row; `current` is `into` itself if all rows will be in one span."""
        self.level, self.first = level, first_row >> level
        self.cut: int | None = 1 << level  # chunks must not go across
        self._into, self._current = into, current
        self._span = self.first
        self._rows, self._weights = list[int](), list[float]()
        self._totals: list[list[Floats]] = [[] for _ in into.values]

    def sums_from(self, row: int) -> FragmentSums:
        """Return the sums to add rows to that begin with this one and are in the same span."""
        if row >> self.level != self._span:
            self._finish_span()
            self._span = row >> self.level
        return self._current

    def _finish_span(self) -> None:
        current = self._current
        self._rows.append(int(current.rows.sum()))
        self._weights.append(float(current.weights.sum()))
        totals = current.totals() if current is self._into else current.move_into(self._into)
        for column, total in zip(self._totals, totals, strict=True):
            column.append(total)

    def finished(self) -> tuple[Indices, Floats, list[Floats]]:
        """Return rows, weights and values of all spans, once all rows were added."""
        self._finish_span()
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

    def finished(self) -> tuple[Indices, Floats, list[Floats]]:
        """Return rows, weights and values of all spans, once all rows were added."""
        return self.rows, self.weights, self.values
