"""Kernel sums of chunks of rows: rows are assigned to blocks, evaluated, and added up.

`RowSummer` belongs to a process, a `Workspace` to a thread, an `Evaluation` to a fragment while it is read.
Statistics other than kernel sums take what they need from the evaluated chunks (accumulators/protocol.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nysketch._types import Floats, Indices
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis, numeric_landmarks
from nysketch.tiles.chunk import Chunk
from nysketch.tiles.evaluators import Evaluator, evaluators_of, in_order
from nysketch.tiles.gaussian import GaussianTiles
from nysketch.tiles.hashing import assign_blocks
from nysketch.tiles.points import PointMaker, Points
from nysketch.tiles.spans import LongSpans, ShortSpans, SpansByRow
from nysketch.tiles.sums import FragmentSums


@dataclass(frozen=True)
class EvaluatedChunk:
    """A chunk whose kernel values were summed, and what came up on the way. Views of reused buffers."""

    chunk: Chunk
    points: Points
    key: int  # of the input
    order: Indices  # the rows that are kept, sorted by block
    weights: Floats  # of these, in this order; ones where rows have no weights
    nearest: Indices | None  # of every row of the chunk the landmark; m if there is none near enough
    out_of_range: int  # how many rows have none


class Workspace:
    """The buffers of one thread."""

    def __init__(self, evaluators: list[Evaluator], finder: GaussianTiles | None, chunk_rows: int) -> None:
        self.chunk_rows = chunk_rows
        self.order = np.empty(chunk_rows, np.int64)
        self.block_of = np.empty(chunk_rows, np.int64)
        self.parts = [evaluator.workspace(chunk_rows) for evaluator in evaluators]
        self.finding: Any = None
        if finder is not None:
            shared = finder in evaluators
            self.finding = self.parts[evaluators.index(finder)] if shared else finder.workspace(chunk_rows)


class RowSummer:
    """Adds the values of chunks of rows to per-block sums. Shared by threads, never written.

    With `nearest`, the landmark nearest to each row is found, too, if landmarks are points in space.
    """

    def __init__(
        self, basis: Basis, *, blocks: int, seed: int, precision: str, nearest: bool = False
    ) -> None:
        self.basis, self.blocks = basis, blocks
        self._seed = seed
        self._points = PointMaker(basis)
        self._evaluators = evaluators_of(basis, precision)
        landmarks = numeric_landmarks(basis) if nearest else None
        self._finder = None if landmarks is None else _finder(landmarks, self._evaluators)

    def workspace(self, chunk_rows: int) -> Workspace:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        return Workspace(self._evaluators, self._finder, chunk_rows)

    def zeros(self) -> FragmentSums:
        """Return sums to add to."""
        return FragmentSums(len(self._evaluators), self.blocks, self.basis.m)

    def short_spans(self, level: int, first_row: int, rows: int) -> ShortSpans:
        """Return spans to add rows to one by one."""
        return ShortSpans(level, first_row, rows, len(self._evaluators), self.basis.m)

    def add(
        self,
        chunk: Chunk,
        into: FragmentSums,
        ws: Workspace,
        *,
        key: int = 0,
        spans: LongSpans | ShortSpans | None = None,
    ) -> EvaluatedChunk:
        """Add the rows of a chunk of the input `key` to the sums of their blocks.

        With long spans, all of these rows must be in one.
        """
        first_row, weights = chunk.row_in_input, chunk.weights
        if isinstance(spans, LongSpans):
            into = spans.sums_from(first_row)
        seed = np.uint64((self._seed + key) % 2**64)
        count = assign_blocks(first_row, chunk.keep, seed, self.blocks, ws.order, ws.block_of)
        order, block_of = ws.order[:count], ws.block_of[:count]
        into.rows += np.bincount(block_of, minlength=self.blocks)
        row_weights = np.ones(count)
        if weights is not None:
            row_weights = weights[order]
            into.weights += np.bincount(block_of, row_weights, minlength=self.blocks)
        by_row: list[SpansByRow | None] = [None] * len(self._evaluators)
        if isinstance(spans, ShortSpans):
            span_of = ((first_row + order) >> spans.level) - spans.first
            spans.rows += np.bincount(span_of, minlength=len(spans.rows))
            if weights is not None:
                spans.weights += np.bincount(span_of, row_weights, minlength=len(spans.rows))
            by_row = [SpansByRow(span_of, values) for values in spans.values]
        points = self._points(chunk.rows)
        for evaluator, sums, part, span in zip(self._evaluators, into.values, ws.parts, by_row, strict=True):
            evaluator.add(points, order, block_of, row_weights, sums, part, span)
        return self._evaluated(chunk, points, key, order, row_weights, ws)

    def _evaluated(
        self, chunk: Chunk, points: Points, key: int, order: Indices, row_weights: Floats, ws: Workspace
    ) -> EvaluatedChunk:
        if self._finder is None:
            return EvaluatedChunk(chunk, points, key, order, row_weights, None, 0)
        if self._finder not in self._evaluators:
            self._finder.find(points, order, ws.finding)
        found = ws.finding.search
        nearest = found.nearest[: len(chunk.rows)]
        return EvaluatedChunk(chunk, points, key, order, row_weights, nearest, found.beyond)

    def sums(self, of: FragmentSums) -> Floats:
        """Return blocks × functions, in the order of the basis."""
        return self.ordered(of.values)

    def ordered(self, values: list[Floats]) -> Floats:
        """Return such values, of one array for each evaluator, in the order of the basis."""
        return in_order(self._evaluators, values)


def _finder(basis: NystromBasis, evaluators: list[Evaluator]) -> GaussianTiles:
    """Return the evaluator whose tiles tell the nearest landmark anyway, or tiles for this alone."""
    useful = [e for e in evaluators if isinstance(e, GaussianTiles) and e.tell_nearest]
    finder = useful[0] if useful else GaussianTiles.of_distances(basis)
    finder.find_nearest(basis)
    return finder


@dataclass(frozen=True)
class FragmentRows:
    """Which rows a fragment has: numbered from `first_row` in the input `key` of `input_rows` rows."""

    key: int
    first_row: int
    rows: int
    input_rows: int


class Evaluation:
    """The kernel sums of one fragment while it is read: by block, and by span if it is cut into spans.

    `add` every chunk, then `finish`, then read the sums.
    """

    def __init__(self, summer: RowSummer, ws: Workspace, where: FragmentRows) -> None:
        self.summer, self.where = summer, where
        self.sums = summer.zeros()
        self._ws = ws
        self._spans: LongSpans | ShortSpans | None = None
        self._span_totals: tuple[Indices, Floats, list[Floats]] | None = None

    def cut(self, level: int) -> None:
        """Keep sums by span of this level, too."""
        first, rows = self.where.first_row, self.where.rows
        if not rows:
            return
        alone = first >> level == (first + rows - 1) >> level
        if alone or 1 << level >= self._ws.chunk_rows:
            self._spans = LongSpans(level, first, self.sums, self.sums if alone else self.summer.zeros())
        else:
            self._spans = self.summer.short_spans(level, first, rows)

    @property
    def span_rows(self) -> int | None:
        """No chunk may have rows of two spans of so many rows; None: any may."""
        return None if self._spans is None else self._spans.cut

    def add(self, chunk: Chunk) -> EvaluatedChunk:
        """Add the rows of the next chunk."""
        return self.summer.add(chunk, self.sums, self._ws, key=self.where.key, spans=self._spans)

    def finish(self) -> None:
        """Note that all rows were added: the sums of the last span are now among those of the blocks."""
        if self._spans is not None:
            self._span_totals = self._spans.finished()

    def spans(self) -> tuple[int, int, Indices, Floats, Floats] | None:
        """Return level, number of the first span, rows, weights and sums of each, if there are any."""
        if self._spans is None or self._span_totals is None:
            return None
        rows, weights, values = self._span_totals
        return self._spans.level, self._spans.first, rows, weights, self.summer.ordered(values)
