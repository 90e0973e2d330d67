"""The hot loop: sums over rows of the functions of a basis. The only place that knows about speed.

hashing.py       which block a row belongs to, and whether to the sample
sample.py      the sample of a chunk of rows
gaussian.py      Gaussian kernels: one float32 matrix product and an exponential
general.py       all other kernels of numbers, and Fourier features
reference.py     plain float64: the slow reference (`precision="float64"`), and strings
evaluators.py    which of these three evaluates a basis
nearest.py       the nearest landmark of a row, and the sums of its cell
float64.py        values in float64, for coresets and second moments
vector_math.py   exp2, cosine and sine that vectorise
sums.py          sums of a fragment, and of all fragments so far
spans.py          the same by run of consecutive rows
accumulators/groups.py        the same for groups of columns
second_moments.py       products of two values, summed
float64.py        values in float64, one by one
hsic/_shifted.py        products of groups that were shifted against each other
sizes.py        how large tiles are

Every value depends on its row and its landmark only, not on where in a tile the row stands, and is added
in float64. So batches, fragments and threads change nothing beyond 1e-15.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.cells import key_of_distance, numeric_landmarks
from nysketch.accumulators.groups import Subset, grouped
from nysketch.accumulators.sample import RowSample
from nysketch.accumulators.spans import place_of_input
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.tiles.evaluators import Evaluator, evaluators_of, in_order
from nysketch.tiles.gaussian import GaussianTiles
from nysketch.tiles.groups import FragmentGroups, GroupSummer
from nysketch.tiles.hashing import assign_blocks
from nysketch.tiles.nearest import add_to_cells
from nysketch.tiles.sample import sample_rows
from nysketch.tiles.second_moments import MomentSummer
from nysketch.tiles.spans import FragmentSpans, LongSpans, ShortSpans, SpansByRow
from nysketch.tiles.sums import FragmentCells, FragmentSums


def _finder(basis: NystromBasis, evaluators: list[Evaluator]) -> GaussianTiles:
    """Return the evaluator whose tiles tell the nearest landmark anyway, or tiles for this alone."""
    useful = [e for e in evaluators if isinstance(e, GaussianTiles) and e.tell_nearest]
    finder = useful[0] if useful else GaussianTiles.of_distances(basis)
    finder.find_nearest(basis)
    return finder


class Workspace:
    """The buffers of one thread."""

    def __init__(
        self,
        evaluators: list[Evaluator],
        finder: GaussianTiles | None,
        groups: GroupSummer | None,
        moments: MomentSummer | None,
        chunk_rows: int,
    ) -> None:
        self.count = 0
        self.order = np.empty(chunk_rows, np.int64)
        self.block_of = np.empty(chunk_rows, np.int64)
        self.sampled = np.empty(chunk_rows, np.int64)
        self.keys = np.empty(chunk_rows, np.int64)
        self.parts = [evaluator.workspace(chunk_rows) for evaluator in evaluators]
        self.groups = None if groups is None else groups.workspace(chunk_rows)
        self.moments = None if moments is None else moments.workspace()
        self.finding: Any = None
        if finder is not None:
            shared = finder in evaluators
            self.finding = self.parts[evaluators.index(finder)] if shared else finder.workspace(chunk_rows)
            self.distances, self.ones = np.empty(chunk_rows), np.ones(chunk_rows)


class RowSummer:
    """Adds the values of chunks of rows to per-block sums. Shared by threads, never written."""

    def __init__(
        self,
        basis: Basis,
        *,
        blocks: int,
        seed: int,
        precision: str,
        cells: bool = False,
        parts: tuple[Subset, ...] = (),
        moments: bool = False,
    ) -> None:
        self.basis, self.blocks = basis, blocks
        self._seed = seed
        self._evaluators = evaluators_of(basis, precision)
        groups = grouped(basis)
        self._groups = GroupSummer(groups, parts, precision) if groups is not None and parts else None
        self._moments = MomentSummer(basis) if moments else None
        self._finder: GaussianTiles | None = None
        landmarks = numeric_landmarks(basis) if cells else None
        if landmarks is not None:
            self._finder = _finder(landmarks, self._evaluators)
            self._scaled_landmarks = landmarks.scaled_landmarks
            # As columns, with one more landmark for rows that are in no cell.
            self._columns = np.vstack([self._scaled_landmarks, np.zeros(basis.d)]).T.copy()

    def workspace(self, chunk_rows: int) -> Workspace:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        return Workspace(self._evaluators, self._finder, self._groups, self._moments, chunk_rows)

    def zeros(self) -> FragmentSums:
        """Return sums to add to."""
        return FragmentSums(len(self._evaluators), self.blocks, self.basis.m)

    def no_cells(self) -> FragmentCells | None:
        """Return cells to add to, if they are wanted and there are any."""
        return None if self._finder is None else FragmentCells(self.basis.m, self.basis.d)

    def no_groups(self) -> FragmentGroups | None:
        """Return sums of groups of columns to add to, if they are wanted and there are any."""
        return None if self._groups is None else self._groups.zeros()

    def no_moments(self, ws: Workspace) -> Floats | None:
        """Return a matrix to add second moments to, if they are wanted; it is that of the thread."""
        if ws.moments is not None:
            ws.moments[:] = 0.0
        return ws.moments

    def no_spans(
        self, level: int, into: FragmentSums, *, first_row: int, rows: int, chunk_rows: int
    ) -> LongSpans | ShortSpans | None:
        """Return spans to add so many rows to, besides the sums of their fragment."""
        if not rows:
            return None
        alone = first_row >> level == (first_row + rows - 1) >> level
        if alone or 1 << level >= chunk_rows:
            return LongSpans(level, first_row, into, into if alone else self.zeros())
        return ShortSpans(level, first_row, rows, len(self._evaluators), self.basis.m)

    def spans(self, of: LongSpans | ShortSpans, *, key: int) -> FragmentSpans:
        """Return all spans of a fragment, once its rows were added."""
        rows, weights, values = of.finished()
        numbers = np.arange(of.first, of.first + len(rows))
        where = np.stack([np.full(len(rows), place_of_input(key)), numbers], axis=1)
        return FragmentSpans(of.level, where, rows, weights, self._ordered(values))

    def add(
        self,
        first_row: int,
        rows: NDArray[Any],
        keep: NDArray[np.bool_],
        weights: Floats | None,
        into: FragmentSums,
        ws: Workspace,
        *,
        key: int = 0,
        spans: LongSpans | ShortSpans | None = None,
    ) -> None:
        """Add the rows `keep`, numbered from `first_row` in the input `key`, to the sums of their blocks.

        With long spans, all of these rows must be in one.
        """
        if isinstance(spans, LongSpans):
            into = spans.sums_from(first_row)
        seed = np.uint64((self._seed + key) % 2**64)
        count = assign_blocks(first_row, keep, seed, self.blocks, ws.order, ws.block_of)
        ws.count = count
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
        for evaluator, sums, part, run in zip(self._evaluators, into.values, ws.parts, by_row, strict=True):
            evaluator.add(rows, order, block_of, row_weights, sums, part, run)

    def add_groups(
        self, rows: NDArray[Any], weights: Floats | None, into: FragmentGroups, ws: Workspace
    ) -> None:
        """Add the rows that were last given to `add` to the sums of groups of columns."""
        assert self._groups is not None and ws.groups is not None
        order = ws.order[: ws.count]
        row_weights = np.ones(ws.count) if weights is None else weights[order]
        self._groups.add(rows, order, row_weights, into, ws.groups)

    def add_moments(
        self, rows: NDArray[Any], keep: NDArray[np.bool_], weights: Floats | None, into: Floats
    ) -> None:
        """Add the rows `keep` to the second moments."""
        assert self._moments is not None
        self._moments.add(rows, keep, weights, into)

    def add_cells(self, rows: Floats, weights: Floats | None, into: FragmentCells, ws: Workspace) -> None:
        """Add the rows that were last given to `add` to their cells."""
        assert self._finder is not None
        n, basis = len(rows), self.basis
        if self._finder not in self._evaluators:
            self._finder.find(rows, ws.order[: ws.count], ws.finding)
        nearest = ws.finding.search.nearest[:n]
        into.rows += np.bincount(nearest, minlength=basis.m + 1)
        into.beyond += ws.finding.search.beyond
        if weights is not None:
            into.weights += np.bincount(nearest, weights, minlength=basis.m + 1)
        row_weights = ws.ones[:n] if weights is None else weights
        add_to_cells(
            rows, nearest, row_weights, basis.center, basis.scale, self._columns,
            into.sums, into.squares, ws.distances,
        )  # fmt: skip

    def far(
        self, rows: Floats, weights: Floats | None, ws: Workspace, *, bound: int, capacity: int
    ) -> RowSample:
        """Return the `capacity` rows last given to `add_cells` that are farthest, with keys up to `bound`."""
        n = len(rows)
        nearest, keys = ws.finding.search.nearest[:n], key_of_distance(ws.distances[:n])
        found = np.flatnonzero((keys <= bound) & (nearest < self.basis.m))
        if len(found) > capacity:
            bound = int(np.partition(keys[found], capacity)[capacity]) - 1
            found = found[keys[found] <= bound]
        cells = nearest[found]
        offsets = self.basis.transform(rows[found]) - self._scaled_landmarks[cells]
        return RowSample.of(
            keys[found],
            np.column_stack([cells, offsets]),
            None if weights is None else weights[found],
            bound=bound,
            capacity=capacity,
            dtype=np.float64,
        )

    def sample(
        self,
        first_row: int,
        rows: NDArray[Any],
        keep: NDArray[np.bool_],
        weights: Floats | None,
        ws: Workspace,
        *,
        key: int,
        bound: int,
        capacity: int,
    ) -> RowSample:
        """Return a sample of `capacity` of those rows whose keys are at most `bound`."""
        return sample_rows(
            self.basis, first_row, rows, keep, weights, ws.sampled, ws.keys,
            key=key, bound=bound, capacity=capacity,
        )  # fmt: skip

    def sums(self, of: FragmentSums) -> Floats:
        """Return blocks × functions, in the order of the basis."""
        return self._ordered(of.values)

    def group_sums(self, of: FragmentGroups) -> Floats:
        """Return parts × landmarks, in the order of the basis."""
        assert self._groups is not None
        return self._groups.sums(of)

    def packed_moments(self, of: Floats) -> Floats:
        """Return the triangle of the second moments of a fragment."""
        assert self._moments is not None
        return self._moments.packed(of)

    def _ordered(self, values: list[Floats]) -> Floats:
        """Return such values, of one array for each evaluator, in the order of the basis."""
        return in_order(self._evaluators, values)
