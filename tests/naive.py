"""Slow, obviously correct twins of the fast paths."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def kernel_sums(basis, rows, weights=None):
    """Σ_i w_i k(z_j, x_i) by the definition, one landmark at a time, in float64."""
    weights = np.ones(len(rows)) if weights is None else weights
    x = (rows - basis.center) / basis.scale
    sums = []
    for z in (basis.landmarks - basis.center) / basis.scale:
        squared = ((x - z) ** 2).sum(axis=1)
        sums.append((weights * np.exp(-squared / (2 * basis.kernel.bandwidth**2))).sum())
    return np.array(sums)


def block_of_row(seed, row, blocks):
    """The block a row is dealt to, with Python's integers."""
    mask = 2**64 - 1
    word = (seed + (row + 1) * 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    word ^= word >> 31
    return ((word >> 32) * blocks) >> 32


def exact_total(terms, grid_exponent):
    """The sum of terms rounded to the grid, with no error at all."""
    grid = Fraction(2) ** grid_exponent
    return sum((round(Fraction(float(term)) / grid) * grid for term in terms), Fraction(0))
