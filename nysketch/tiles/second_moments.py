"""Second moments: products of the values of a basis, summed over the rows of a fragment and of all so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import compiled
from nysketch._types import Floats
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.grids import grid_exponent_of_moments
from nysketch.accumulators.second_moments import SecondMoments, triangle_size
from nysketch.basis.base import Basis
from nysketch.tiles.float64 import RowValues
from nysketch.tiles.sums import two_sum

# Of values so small that the grid of their products would be 0, nothing is left anyway.
_FINEST = 2.0**-1000


@compiled()
def _pack(matrix, triangle):
    """Write the upper triangle of a matrix row by row."""
    at = 0
    for i in range(len(matrix)):
        for j in range(i, len(matrix)):
            triangle[at] = matrix[i, j]
            at += 1


@compiled()
def _holds(triangle, units, grids):
    """Tell whether all of these can be added exactly, as tiles.sums.can_hold does."""
    at = 0
    for i in range(len(units)):
        for j in range(i, len(units)):
            grid, size = max(units[i] * grids[j], _FINEST), abs(triangle[at])
            # Not so for NaN, and not where the grid itself is infinite.
            if not (grid < np.inf and size < np.inf and size <= 2.0**104 * grid):
                return False
            at += 1
    return True


@compiled()
def _add(triangle, units, grids, high, low):
    """Do what tiles.sums.add_on_grid does, with the grid of each product."""
    at = 0
    for i in range(len(units)):
        for j in range(i, len(units)):
            grid = max(units[i] * grids[j], _FINEST)
            term = np.rint(triangle[at] / grid) * grid
            total, error = two_sum(high[at], term)
            total, error = two_sum(total, error + low[at])
            high[at] = total + 0.0
            low[at] = error + 0.0
            at += 1


class MomentSummer:
    """Adds the products of the values of chunks of rows. Shared by threads, never written."""

    def __init__(self, basis: Basis) -> None:
        self._m = basis.m
        self._values = RowValues(basis)

    def workspace(self) -> Floats:
        """Return the matrix to which one thread adds the rows of a fragment."""
        return np.zeros((self._m, self._m))

    def add(self, rows: NDArray[Any], keep: NDArray[np.bool_], weights: Floats | None, into: Floats) -> None:
        """Add the rows `keep`, times their weights."""
        if not keep.all():
            rows, weights = rows[keep], None if weights is None else weights[keep]
        self._values.add_products(rows, weights, into)

    def packed(self, matrix: Floats) -> Floats:
        """Return the triangle of a finished fragment: half of the matrix, which the next one will need."""
        triangle = np.empty(triangle_size(self._m))
        _pack(matrix, triangle)
        return triangle


class RunningMoments:
    """The sums over all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: SecondMoments, basis: Basis, *, weighted: bool) -> None:
        """Add on a grid; for values of other magnitudes than 1, coarser by the magnitudes of both factors."""
        bounded = bool(np.isfinite(basis.range).all())
        larger = np.frexp(basis.magnitudes())[1] - 1
        self._m = start.m
        # Not a grid for each product: that would take as much memory as the sums.
        self._units = np.ldexp(np.ones(start.m), larger)
        self._grids = np.ldexp(self._units, grid_exponent_of_moments(weighted=weighted, bounded=bounded))
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()

    def holds(self, triangle: Floats) -> bool:
        """Tell whether the sums of a fragment can be added exactly; beyond that, order would show."""
        return bool(_holds(triangle, self._units, self._grids))

    def add(self, triangle: Floats) -> None:
        """Add the sums of one fragment."""
        _add(triangle, self._units, self._grids, self._high, self._low)

    def snapshot(self) -> SecondMoments:
        """Return the sums as they are now."""
        return SecondMoments(self._m, ExactSum(self._high.copy(), self._low.copy()))
