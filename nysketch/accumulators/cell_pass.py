"""How a pass collects cells: the sums of a fragment, and the exact total of all fragments so far."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nysketch._support.exact import ExactSum
from nysketch._types import Floats, Indices
from nysketch.accumulators.cell_features import CellFrame, Codes, features_in_order
from nysketch.accumulators.far_rows import FarRows, key_of_distance
from nysketch.accumulators.grids import GRID_FINE, GRID_FLOAT32
from nysketch.accumulators.sample import LARGEST_KEY, GatheredSample, RowSample
from nysketch.basis.nystrom import NystromBasis, spreads

if TYPE_CHECKING:
    from nysketch.accumulators.cells import Cells
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


# Rows whose codes are held: 40 bytes each for ten categories.
HELD_ROWS = 1 << 16


class Part:
    """The sums of cells while a fragment is read: feature by feature, and with a cell more than there are.

    The last one takes rows that are in no cell, which saves asking for each of them.
    """

    def __init__(self, m: int, frame: CellFrame) -> None:
        self.rows = np.zeros(m + 1, np.int64)
        self.weights = np.zeros(m + 1)
        shape = len(frame.dense), m + 1
        self.sums, self.squares = np.zeros(shape), np.zeros(shape)
        self.values = np.zeros((len(frame.features), m + 1))
        self.beyond = 0
        self.far: RowSample | None = None


class CellCollector:
    """Adds rows to the cells of their nearest landmarks."""

    def __init__(self, empty: Cells, basis: NystromBasis, columns: Floats, chunk_rows: int) -> None:
        self._no_far_rows, self._basis, self._columns = empty.far.kept, basis, columns
        self._distances, self._ones = np.empty(chunk_rows), np.ones(chunk_rows)
        self._runs, self._frame = features_in_order(basis, columns), empty.frame
        self._codes = [column for column in self._runs if isinstance(column, Codes)]
        self._held: list[tuple[NDArray[np.int32], Indices, Floats]] = []

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        """Begin a fragment; no farther rows than `limit` allows are wanted."""
        self._part = Part(self._basis.m, self._frame)
        self._limit = LARGEST_KEY if limit is None else limit
        self._far = GatheredSample(self._no_far_rows)
        self._held.clear()

    def add(self, evaluated: EvaluatedChunk) -> None:
        """Add the rows of a chunk."""
        part, basis, chunk, nearest = self._part, self._basis, evaluated.chunk, evaluated.nearest
        assert nearest is not None
        part.rows += np.bincount(nearest, minlength=basis.m + 1)
        part.beyond += evaluated.out_of_range
        weights = self._ones[: len(nearest)]
        if chunk.weights is not None:
            weights = chunk.weights
            part.weights += np.bincount(nearest, weights, minlength=basis.m + 1)
        self._distances[: len(nearest)] = 0.0
        for columns in self._runs:
            columns.add(evaluated.points, nearest, weights, part, self._distances)
        self._hold(evaluated, weights)
        if self._no_far_rows.capacity:
            self._far.add(self._farthest(evaluated, min(self._limit, self._far.bound)))

    def _hold(self, evaluated: EvaluatedChunk, weights: Floats) -> None:
        """Keep the codes of some rows: weights by value and cell are fetched into the cache once for all."""
        if not self._codes:
            return
        assert evaluated.nearest is not None
        self._held.append((evaluated.points.codes, evaluated.nearest.copy(), weights.copy()))
        if sum(len(codes) for codes, _, _ in self._held) >= HELD_ROWS:
            self._add_held()

    def _add_held(self) -> None:
        if self._held:
            codes, nearest, weights = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
            for column in self._codes:
                column.add_to_cells(codes, nearest, weights, self._part)
        self._held.clear()

    def _farthest(self, evaluated: EvaluatedChunk, bound: int) -> RowSample:
        """Return the rows that are farthest from their landmarks, with keys up to `bound`."""
        chunk, nearest, capacity = evaluated.chunk, evaluated.nearest, self._no_far_rows.capacity
        assert nearest is not None
        keys = key_of_distance(self._distances[: len(nearest)])
        found = np.flatnonzero((keys <= bound) & (nearest < self._basis.m))
        if len(found) > capacity:
            bound = int(np.partition(keys[found], capacity)[capacity]) - 1
            found = found[keys[found] <= bound]
        cells = nearest[found]
        offsets = self._basis.transform(chunk.rows[found]) - self._basis.scaled_landmarks[cells]
        return RowSample.of(
            keys[found],
            np.column_stack([cells, offsets]),
            None if chunk.weights is None else chunk.weights[found],
            bound=bound,
            capacity=capacity,
            dtype=np.float64,
        )

    def finish(self) -> Part:
        """Return the part of the fragment."""
        self._add_held()
        cells, own = self._frame.own
        self._part.values[own, cells] = 0.0  # rows like their landmarks, which were counted as well
        self._part.far = self._far.united()
        return self._part


class RunningCells:
    """The exact total of all fragments so far."""

    def __init__(self, start: Cells, basis: NystromBasis) -> None:
        """Add on grids in units of the spread of each feature, and of its square."""
        from nysketch.tiles.sums import RunningSum

        self._start, self._m, self._far = start, basis.m, start.far.kept
        self._grid_exponent = GRID_FLOAT32 if start.weights is None else GRID_FINE
        unit, ones = spreads(basis)[start.frame.dense], np.ones(len(start.frame.features))
        self._sums, self._squares, self._values = (
            RunningSum(_by_feature(sums), np.ldexp(scale, self._grid_exponent))
            for sums, scale in (
                (start.number_sums, unit),
                (start.number_squares, unit * unit),
                (start.values, ones),
            )
        )
        self._rows, self._weights, self._beyond = start.rows.copy(), start.weights, start.beyond

    def holds(self, part: Part) -> bool:
        """Return True: no row that is in a cell is too far out to be added exactly."""
        return True

    def add(self, part: Part) -> None:
        """Add the part of a fragment."""
        self._sums.add_by_feature(part.sums)
        self._squares.add_by_feature(part.squares)
        self._values.add_by_feature(part.values)
        self._rows += part.rows[: self._m]
        self._beyond += part.beyond
        if part.far is not None:
            self._far = self._far + part.far
        if self._weights is not None:
            weights = part.weights[: self._m]
            self._weights = self._weights + ExactSum.of(weights, grid_exponent=self._grid_exponent)

    @property
    def limit(self) -> int:
        """How near rows may be to be kept one by one: the largest key."""
        return self._far.bound

    def snapshot(self) -> Cells:
        """Return the cells as they are now."""
        return replace(
            self._start,
            rows=self._rows.copy(),
            weights=self._weights,
            number_sums=self._sums.snapshot(),
            number_squares=self._squares.snapshot(),
            values=self._values.snapshot(),
            far=FarRows(self._far),
            beyond=self._beyond,
        )


def _by_feature(sums: ExactSum) -> ExactSum:
    """Return a copy with the numbers of one feature side by side, as fragments have them."""
    return ExactSum(sums.high.copy(order="F"), sums.low.copy(order="F"))
