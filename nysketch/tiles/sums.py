"""Sums of one fragment by block, and exact sums of all fragments so far."""

from __future__ import annotations

import numba
import numpy as np

from nysketch._support import exact
from nysketch._support.exact import ExactSum
from nysketch._support.jit import compiled
from nysketch._types import Floats

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
def add_by_row_on_grid(terms, grid, high, low):
    """Do the same where every row has a grid; columns of terms beyond those of sums are left out."""
    for i in range(high.shape[0]):
        own, to_high, to_low, unit = terms[i], high[i], low[i], grid[i]
        for j in range(high.shape[1]):
            term = np.rint(own[j] / unit) * unit
            total, error = two_sum(to_high[j], term)
            total, error = two_sum(total, error + to_low[j])
            to_high[j] = total + 0.0
            to_low[j] = error + 0.0


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


def grid_of(grid_exponent: int, m: int, magnitudes: Floats | None = None) -> Floats:
    """Return the grid of each column: for values of other magnitudes than 1, so many times coarser."""
    larger = 0 if magnitudes is None else np.frexp(magnitudes)[1] - 1
    return np.asarray(np.ldexp(np.ones(m), grid_exponent + larger))


def can_hold(sums: Floats, grid: Floats) -> bool:
    """Tell whether sums of a fragment can be added exactly; beyond that, order would show."""
    # Half of what exact sums promise leaves room for other fragments.
    return bool((np.abs(sums) <= 2.0**104 * grid).all())


class RunningSum:
    """Exact sums over all fragments so far, changed in place: the order of fragments has no effect.

    Every column has a grid of its own. The arrays keep the layout of those it starts from.
    """

    def __init__(self, start: ExactSum, grid: Floats) -> None:
        self._grid = grid
        self._high, self._low = start.high.copy(order="K"), start.low.copy(order="K")

    def holds(self, terms: Floats) -> bool:
        """Tell whether the sums of a fragment can be added exactly."""
        return can_hold(terms, self._grid)

    def add(self, terms: Floats) -> None:
        """Add the sums of one fragment."""
        add_on_grid(terms, self._grid, self._high, self._low)

    def add_by_feature(self, terms: Floats) -> None:
        """Add the sums of one fragment, features × cells, to those that are kept in this order in memory.

        Cells beyond those of the sums are left out.
        """
        add_by_row_on_grid(terms, self._grid, self._high.T, self._low.T)

    def snapshot(self) -> ExactSum:
        """Return the sums as they are now."""
        return ExactSum(self._high.copy(), self._low.copy())
