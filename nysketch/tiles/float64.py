"""Values in float64: of rows, summed over groups of consecutive rows, or multiplied with each other.

The sums of a sketch take float32 values; a coreset shall have the means of all rows to 1e-10, and to a matrix
of second moments the smallest eigenvalues matter: both take float64. Gaussian kernels are computed as in
gaussian.py, by a matrix product and an exponential; all others by the plain definitions of the basis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import FAST, compiled
from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels import gaussian_bandwidths
from nysketch.tiles.vector_math import LOWEST_DOUBLE, exp2_double

# Landmarks with ½|z|² up to this go through the matrix product, which is then good to 1e-12.
_NEAR = 8192.0
# Coordinates are cut off here before they are squared: all kernel values are 0 long before.
_FAR_AWAY = 2.0**40
# Values that are computed at a time: 1 MiB of them stay in the cache.
_TILE_VALUES = 1 << 17
# Of products, more: a thousand rows at a time make adding them little beside computing them.
_PRODUCT_VALUES = 1 << 20


@compiled(fastmath=FAST)
def _exponentiate(tile, half_norms):
    """Replace x·z − ½|z|² by 2**(x·z − ½|z|² − ½|x|²)."""
    for i in range(len(tile)):
        row, own = tile[i], half_norms[i]
        for j in range(len(row)):
            t = row[j] - own
            row[j] = exp2_double(t if t > LOWEST_DOUBLE else LOWEST_DOUBLE)


@compiled(fastmath=FAST)
def _from_differences(rows, far, tile, columns):
    """Write the values at landmarks far out, whose exponents would cancel."""
    for i in range(len(rows)):
        for j in range(len(far)):
            t = 0.0
            for k in range(rows.shape[1]):
                difference = rows[i, k] - far[j, k]
                t -= 0.5 * difference * difference
            tile[i, columns[j]] = exp2_double(t if t > LOWEST_DOUBLE else LOWEST_DOUBLE)


@compiled(fastmath=FAST)
def _add_to_groups(tile, weights, group_of, sums):
    for i in range(len(tile)):
        total, row, weight = sums[group_of[i]], tile[i], weights[i]
        for j in range(len(row)):
            total[j] += weight * row[j]


class _Gaussian:
    """A Gaussian kernel with a bandwidth for each feature."""

    def __init__(self, basis: NystromBasis, bandwidths: Floats) -> None:
        self._shift = basis.center + basis.middle * basis.scale
        self._factor = np.sqrt(np.log2(np.e)) / bandwidths / basis.scale
        Z = self._scaled(basis.landmarks)
        half_norms = 0.5 * (Z**2).sum(axis=1)
        self._matrix = np.vstack([Z.T, -half_norms])
        self._far = np.flatnonzero(half_norms > _NEAR)
        self._far_landmarks = Z[self._far]
        self._matrix[:, self._far] = 0.0

    def _scaled(self, rows: Floats) -> Floats:
        with np.errstate(over="ignore"):
            scaled = (rows - self._shift) * self._factor
        return np.ascontiguousarray(np.clip(scaled, -_FAR_AWAY, _FAR_AWAY))

    def __call__(self, rows: Floats) -> Floats:
        X = self._scaled(rows)
        tile: Floats = np.column_stack([X, np.ones(len(X))]) @ self._matrix
        _exponentiate(tile, 0.5 * (X**2).sum(axis=1))
        if len(self._far):
            _from_differences(X, self._far_landmarks, tile, self._far)
        return tile


class RowValues:
    """Evaluates the functions of a basis at rows in the data's units. Shared by threads, never written."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._step = int(np.clip(_TILE_VALUES // basis.m, 16, 4096))
        self._gaussians: list[_Gaussian] = []
        if isinstance(basis, NystromBasis):
            # Of columns with kinds, by the plain definitions.
            widths = [] if basis.encoded else gaussian_bandwidths(basis.kernel, basis.d)
            self._gaussians = [_Gaussian(basis, width) for width in widths]

    def of(self, rows: NDArray[Any]) -> Floats:
        """Return rows × functions."""
        values = np.empty((len(rows), self._basis.m))
        for part in self._parts(len(rows)):
            values[part] = self._tile(rows[part])
        return values

    def group_sums(self, rows: NDArray[Any], weights: Floats, group_of: NDArray[np.int64]) -> Floats:
        """Return groups × functions: the values times the weights, summed over the rows of each group."""
        sums = np.zeros((int(group_of[-1]) + 1, self._basis.m))
        for part in self._parts(len(rows)):
            _add_to_groups(self._tile(rows[part]), weights[part], group_of[part], sums)
        return sums

    def add_products(self, rows: NDArray[Any], weights: Floats | None, into: Floats) -> None:
        """Add Σ w k(Z, x) k(x, Z), functions × functions."""
        step = int(np.clip(_PRODUCT_VALUES // self._basis.m, 64, 1024))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            values = self.of(rows[part])
            with np.errstate(over="ignore", invalid="ignore"):  # the pass complains about infinite sums
                if weights is not None:
                    values *= np.sqrt(weights[part, None])
                into += values.T @ values  # of which NumPy computes one half

    def _parts(self, rows: int) -> list[slice]:
        return [slice(start, start + self._step) for start in range(0, rows, self._step)]

    def _tile(self, rows: NDArray[Any]) -> Floats:
        if not self._gaussians:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._basis.values(rows)
        tiles = [gaussian(rows) for gaussian in self._gaussians]
        return tiles[0] if len(tiles) == 1 else np.asarray(sum(tiles)) / len(tiles)
