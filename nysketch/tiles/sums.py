"""Sums of one fragment and of all fragments so far, by block and by cell; by run they are in spans.py."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import compiled
from nysketch._types import Floats
from nysketch.accumulators import exact
from nysketch.accumulators.blocks import BlockSums
from nysketch.accumulators.cells import Cells, FarRows, spreads
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.grids import GRID_FINE, GRID_FLOAT32
from nysketch.accumulators.sample import RowSample
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import require_landmarks

two_sum = numba.njit(inline="always")(exact.two_sum)


@compiled()
def add_on_grid(terms, grid, high, low):
    """Do what `ExactSum.__add__` does with `ExactSum.of(terms)`, in place and in one sweep.

    Every column has a grid of its own.
    """
    for i in range(terms.shape[0]):
        for j in range(terms.shape[1]):
            term = np.rint(terms[i, j] / grid[j]) * grid[j]
            total, error = two_sum(high[i, j], term)
            total, error = two_sum(total, error + low[i, j])
            high[i, j] = total + 0.0
            low[i, j] = error + 0.0


@compiled()
def add_some_on_grid(terms, slots, grid, high, low):
    """Do the same, but add row i of the terms to row `slots[i]` of the sums."""
    for i in range(terms.shape[0]):
        to_high, to_low = high[slots[i]], low[slots[i]]
        for j in range(terms.shape[1]):
            term = np.rint(terms[i, j] / grid[j]) * grid[j]
            total, error = two_sum(to_high[j], term)
            total, error = two_sum(total, error + to_low[j])
            to_high[j] = total + 0.0
            to_low[j] = error + 0.0


@compiled()
def _move(sums, rows, into, total):
    """Move the sums of all blocks that have rows into another array, and add them to `total`."""
    for block in range(len(rows)):
        if rows[block]:
            source, target = sums[block], into[block]
            for j in range(len(total)):
                target[j] += source[j]
                total[j] += source[j]
                source[j] = 0.0


class FragmentSums:
    """Values, row counts and (where rows have them) weights by block, while a fragment is read.

    `values` has one array for each evaluator, whose order of columns is the evaluator's own.
    """

    def __init__(self, evaluators: int, blocks: int, m: int) -> None:
        self.values = [np.zeros((blocks, m)) for _ in range(evaluators)]
        self.rows = np.zeros(blocks, np.int64)
        self.weights = np.zeros(blocks)

    def totals(self) -> list[Floats]:
        """Return the sums of the values over all blocks."""
        with np.errstate(over="ignore", invalid="ignore"):  # the pass complains about infinite sums
            return [values.sum(axis=0) for values in self.values]

    def move_into(self, other: FragmentSums) -> list[Floats]:
        """Add everything to other sums, so that nothing is left here; return the totals."""
        totals = [np.zeros(values.shape[1]) for values in self.values]
        for values, into, total in zip(self.values, other.values, totals, strict=True):
            _move(values, self.rows, into, total)
        other.rows += self.rows
        other.weights += self.weights
        self.rows[:], self.weights[:] = 0, 0.0
        return totals


def grid_of(grid_exponent: int, m: int, magnitudes: Floats | None) -> Floats:
    """Return the grid of each column: for values of other magnitudes than 1, so many times coarser."""
    larger = 0 if magnitudes is None else np.frexp(magnitudes)[1] - 1
    return np.asarray(np.ldexp(np.ones(m), grid_exponent + larger))


def can_hold(sums: Floats, grid: Floats) -> bool:
    """Tell whether sums of a fragment can be added exactly; beyond that, order would show."""
    # Half of what accumulators/exact.py promises leaves room for other fragments.
    return bool((np.abs(sums) <= 2.0**104 * grid).all())


class RunningSums:
    """The sums over all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: BlockSums, grid_exponent: int, magnitudes: Floats | None = None) -> None:
        """Add on this grid; for values of other magnitudes than 1, on one that is so many times coarser."""
        self._grid_exponent = grid_exponent
        self._grid = grid_of(grid_exponent, start.shape[1], magnitudes)
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()
        self._rows = start.rows.copy()
        self._weights = start.weights

    def holds(self, kernel_sums: Floats) -> bool:
        """Tell whether the sums of a fragment can be added exactly; beyond that, order would show."""
        return can_hold(kernel_sums, self._grid)

    def add(self, kernel_sums: Floats, rows: NDArray[np.int64], weights: Floats) -> None:
        """Add the sums of one fragment."""
        add_on_grid(kernel_sums, self._grid, self._high, self._low)
        self._rows += rows
        if self._weights is not None:
            self._weights = self._weights + ExactSum.of(weights, grid_exponent=self._grid_exponent)

    def snapshot(self) -> BlockSums:
        """Return the sums as they are now."""
        return BlockSums(ExactSum(self._high.copy(), self._low.copy()), self._rows.copy(), self._weights)


class FragmentCells:
    """The sums of cells while a fragment is read: feature by feature, and with a cell more than there are.

    The last one takes rows that are in no cell, which saves asking for each of them.
    """

    def __init__(self, m: int, d: int) -> None:
        self.rows = np.zeros(m + 1, np.int64)
        self.weights = np.zeros(m + 1)
        self.sums, self.squares = np.zeros((d, m + 1)), np.zeros((d, m + 1))
        self.beyond = 0
        self.far: RowSample | None = None


class RunningCells:
    """The cells of all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: Cells, basis: Basis) -> None:
        """Add on grids in units of the spread of each feature, and of its square."""
        self._m = basis.m
        self.far = start.far.kept
        self._grid_exponent = GRID_FLOAT32 if start.weights is None else GRID_FINE
        unit = spreads(require_landmarks(basis, "a sketch with cells"))
        self._sums_grid, self._squares_grid = (np.ldexp(u, self._grid_exponent) for u in (unit, unit * unit))
        self._rows, self._weights, self._beyond = start.rows.copy(), start.weights, start.beyond
        self._sums, self._squares = _transposed(start.sums), _transposed(start.squares)

    def add(self, part: FragmentCells) -> None:
        """Add the sums of one fragment."""
        for terms, grid, total in (
            (part.sums, self._sums_grid, self._sums),
            (part.squares, self._squares_grid, self._squares),
        ):
            add_on_grid(terms[:, : self._m].T, grid, total.high.T, total.low.T)
        self._rows += part.rows[: self._m]
        self._beyond += part.beyond
        if part.far is not None:
            self.far = self.far + part.far
        if self._weights is not None:
            self._weights = self._weights + ExactSum.of(
                part.weights[: self._m], grid_exponent=self._grid_exponent
            )

    def snapshot(self) -> Cells:
        """Return the cells as they are now."""
        return Cells(
            self._rows.copy(),
            self._weights,
            _transposed(self._sums),
            _transposed(self._squares),
            FarRows(self.far),
            self._beyond,
        )


def _transposed(sums: ExactSum) -> ExactSum:
    """Return a copy, feature by feature instead of cell by cell or the other way round."""
    return ExactSum(np.array(sums.high.T, order="C"), np.array(sums.low.T, order="C"))
