"""Symmetric matrices as their upper triangle, row by row: packed, and added up exactly."""

from __future__ import annotations

import numpy as np

from nysketch._support.jit import compiled
from nysketch.tiles.sums import two_sum

# Of values so small that the grid of their products would be 0, nothing is left anyway.
_FINEST = 2.0**-1000


@compiled()
def pack(matrix, triangle):
    """Write the upper triangle of a matrix row by row."""
    at = 0
    for i in range(len(matrix)):
        for j in range(i, len(matrix)):
            triangle[at] = matrix[i, j]
            at += 1


@compiled()
def can_hold_products(triangle, units, grids):
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
def add_products(triangle, units, grids, high, low):
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
