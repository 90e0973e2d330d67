"""Values of any kernel of numbers, and of Fourier features, tile by tile.

A tile is computed from scaled rows by something callable that knows its landmarks: distances from
differences in float64 (no cancellation, however far landmarks are) with a profile in float32; scalar
products and angles by matrix product in float64. Products and means of kernels combine tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import FAST, compiled
from nysketch._types import Floats
from nysketch.basis.base import LARGEST_SCALED, Basis
from nysketch.basis.fourier import FourierBasis
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels import (
    Cosine,
    Gaussian,
    GaussianSum,
    Kernel,
    LaplacianL1,
    LaplacianL2,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    Product,
)
from nysketch.kernels.dot import unit_rows
from nysketch.kernels.radial import ROOT3, ROOT5
from nysketch.tiles.points import Points
from nysketch.tiles.product import TileProduct
from nysketch.tiles.sizes import tile_rows_for
from nysketch.tiles.spans import SpansByRow
from nysketch.tiles.vector_math import cosine_of_turns, exp2, sine_of_turns

# Scaled rows → their values, rows × functions, in a buffer that the next call may reuse.
TileFunction = Callable[[Floats], NDArray[Any]]

# Rows are cut off here: squares of differences are numbers, and farther than any landmark can be.
_BEYOND = 1e150
# exp(-t) is the smallest normal float32 at this t.
_LARGEST_T = np.float32(87.3)
_LOG2E = np.float32(np.log2(np.e))
_THIRD = np.float32(1 / 3)
_ONE = np.float32(1)


@compiled()
def _scale(rows, order, shift, factor, scaled):
    """Write the rows `order`, shifted and divided, one after the other."""
    for k in range(rows.shape[1]):
        for p in range(len(order)):
            value = (rows[order[p], k] - shift[k]) / factor[k]
            scaled[p, k] = min(max(value, -LARGEST_SCALED), LARGEST_SCALED)


@compiled(fastmath=FAST)
def _add_values(tile, block_of, weights, sums):
    """Add the rows of a tile, times their weights, to the sums of the blocks they belong to."""
    for i in range(len(block_of)):
        total, row, weight = sums[block_of[i]], tile[i], weights[i]
        for j in range(len(row)):
            total[j] += weight * row[j]


# ---- distances -------------------------------------------------------------------------------------


@compiled(fastmath=FAST)
def _squared_distances(X, Zt, distances):
    """Write Σ_k (x_k − z_k)² for two rows at a time, which halves the traffic of landmarks."""
    d, m = Zt.shape
    for i in range(0, len(X), 2):
        a, b = distances[i], distances[i + 1]
        a[:] = 0.0
        b[:] = 0.0
        for k in range(d):
            z = Zt[k]
            xa = min(max(X[i, k], -_BEYOND), _BEYOND)
            xb = min(max(X[i + 1, k], -_BEYOND), _BEYOND)
            for j in range(m):
                a[j] += (xa - z[j]) * (xa - z[j])
                b[j] += (xb - z[j]) * (xb - z[j])


@compiled(fastmath=FAST)
def _absolute_distances(X, Zt, distances):
    """Write Σ_k |x_k − z_k|."""
    d, m = Zt.shape
    for i in range(0, len(X), 2):
        a, b = distances[i], distances[i + 1]
        a[:] = 0.0
        b[:] = 0.0
        for k in range(d):
            z = Zt[k]
            xa = min(max(X[i, k], -_BEYOND), _BEYOND)
            xb = min(max(X[i + 1, k], -_BEYOND), _BEYOND)
            for j in range(m):
                a[j] += abs(xa - z[j])
                b[j] += abs(xb - z[j])


@compiled(fastmath=FAST)
def _to_float32(distances, factor, tile):
    """Convert, times a factor; beyond 1e30 all kernel values are 0 anyway."""
    for i in range(len(distances)):
        row, out = distances[i], tile[i]
        for j in range(len(row)):
            out[j] = np.float32(min(row[j] * factor, 1e30))


# The profiles replace what is in the tile: the squared distance over the bandwidth, or for the
# Laplacian kernel of absolute differences the distance itself.


@compiled(fastmath=FAST)
def _gaussian_profile(tile):
    for i in range(len(tile)):
        row = tile[i]
        for j in range(len(row)):
            row[j] = exp2(-min(np.float32(0.5) * row[j], _LARGEST_T) * _LOG2E)


@compiled(fastmath=FAST)
def _exponential_profile(tile):
    for i in range(len(tile)):
        row = tile[i]
        for j in range(len(row)):
            row[j] = exp2(-min(row[j], _LARGEST_T) * _LOG2E)


@compiled(fastmath=FAST)
def _laplacian_profile(tile):
    for i in range(len(tile)):
        row = tile[i]
        for j in range(len(row)):
            row[j] = exp2(-min(np.sqrt(row[j]), _LARGEST_T) * _LOG2E)


@compiled(fastmath=FAST)
def _matern32_profile(tile):
    for i in range(len(tile)):
        row = tile[i]
        for j in range(len(row)):
            t = min(np.sqrt(row[j]), _LARGEST_T)
            row[j] = (_ONE + t) * exp2(-t * _LOG2E)


@compiled(fastmath=FAST)
def _matern52_profile(tile):
    for i in range(len(tile)):
        row = tile[i]
        for j in range(len(row)):
            t = min(np.sqrt(row[j]), _LARGEST_T)
            row[j] = (_ONE + t + t * t * _THIRD) * exp2(-t * _LOG2E)


# What is multiplied to the distance over the bandwidth before the profile.
_RADIAL: dict[type, tuple[Callable[..., Any], float]] = {
    Gaussian: (_gaussian_profile, 1.0),
    LaplacianL1: (_exponential_profile, 1.0),
    LaplacianL2: (_laplacian_profile, 1.0),
    Matern32: (_matern32_profile, ROOT3),
    Matern52: (_matern52_profile, ROOT5),
}


class _Radial:
    """A kernel of the distance."""

    def __init__(self, kernel: Any, Z: Floats, rows: int) -> None:
        self._Zt = np.ascontiguousarray(Z.T)
        self._profile, factor = _RADIAL[type(kernel)]
        absolute = isinstance(kernel, LaplacianL1)
        self._measure = _absolute_distances if absolute else _squared_distances
        self._factor = (factor / kernel.bandwidth) ** (1 if absolute else 2)
        self._distances = np.empty((rows, len(Z)))
        self._tile = np.empty((rows, len(Z)), np.float32)

    def __call__(self, X: Floats) -> NDArray[Any]:
        self._measure(X, self._Zt, self._distances)
        _to_float32(self._distances, self._factor, self._tile)
        self._profile(self._tile)
        return self._tile


# ---- scalar products -------------------------------------------------------------------------------


class _Dot:
    """A kernel of the scalar product, in float64: it has no bound, and neither has the loss of digits."""

    def __init__(self, kernel: Kernel, Z: Floats, rows: int) -> None:
        self._kernel = kernel
        self._products = TileProduct((unit_rows(Z) if isinstance(kernel, Cosine) else Z).T)
        self._tile, self._power = np.empty((rows, len(Z))), np.empty((rows, len(Z)))

    def __call__(self, X: Floats) -> NDArray[Any]:
        kernel = self._kernel
        self._products(unit_rows(X) if isinstance(kernel, Cosine) else X, self._tile)
        if not isinstance(kernel, Polynomial):
            return self._tile
        with np.errstate(over="ignore", invalid="ignore"):  # the pass complains about infinite sums
            self._tile /= kernel.bandwidth**2
            self._tile += kernel.offset
            self._power[:] = self._tile
            for _ in range(kernel.degree - 1):
                self._power *= self._tile
        return self._power


# ---- combinations ----------------------------------------------------------------------------------


class _Product:
    """The product of kernels over groups of features."""

    def __init__(self, kernel: Product, Z: Floats, rows: int) -> None:
        self._parts = [
            (group, _tile_function(group.kernel, np.ascontiguousarray(group.of(Z)), rows))
            for group in kernel.groups
        ]
        self._tile = np.empty((rows, len(Z)))

    def __call__(self, X: Floats) -> NDArray[Any]:
        self._tile[:] = 1.0
        with np.errstate(over="ignore", invalid="ignore"):  # the pass complains about infinite sums
            for group, part in self._parts:
                self._tile *= part(np.ascontiguousarray(group.of(X)))
        return self._tile


class _Mean:
    """The mean of several kernels."""

    def __init__(self, kernel: GaussianSum, Z: Floats, rows: int) -> None:
        self._parts = [_tile_function(part, Z, rows) for part in kernel.parts]
        self._tile = np.empty((rows, len(Z)))

    def __call__(self, X: Floats) -> NDArray[Any]:
        self._tile[:] = 0.0
        for part in self._parts:
            self._tile += part(X)
        self._tile /= len(self._parts)
        return self._tile


def _tile_function(kernel: Kernel, Z: Floats, rows: int) -> TileFunction:
    if type(kernel) in _RADIAL:
        return _Radial(kernel, Z, rows)
    if isinstance(kernel, Linear | Polynomial | Cosine):
        return _Dot(kernel, Z, rows)
    if isinstance(kernel, Product):
        return _Product(kernel, Z, rows)
    assert isinstance(kernel, GaussianSum)
    return _Mean(kernel, Z, rows)


# ---- Fourier features ------------------------------------------------------------------------------


@compiled(fastmath=FAST)
def _cosines_and_sines(turns, fractions, tile):
    """Write the cosines of angles, given in turns, and then their sines."""
    count = turns.shape[1]
    for i in range(len(turns)):
        row = turns[i]
        for j in range(count):
            # Whole turns are taken off in float64: a row far out has many.
            fractions[j] = np.float32(row[j] - np.rint(row[j]))
        cosines, sines = tile[i, :count], tile[i, count:]
        for j in range(count):
            cosines[j] = cosine_of_turns(fractions[j])
        for j in range(count):
            sines[j] = sine_of_turns(fractions[j])


class _Fourier:
    """Cosines and sines at the frequencies of a basis."""

    def __init__(self, frequencies: Floats, rows: int) -> None:
        self._products = TileProduct(frequencies.T / (2 * np.pi))
        self._turns = np.empty((rows, len(frequencies)))
        self._fractions = np.empty(len(frequencies), np.float32)
        self._tile = np.empty((rows, 2 * len(frequencies)), np.float32)

    def __call__(self, X: Floats) -> NDArray[Any]:
        self._products(X, self._turns)
        _cosines_and_sines(self._turns, self._fractions, self._tile)
        return self._tile


# ---- the evaluator ---------------------------------------------------------------------------------


class _Workspace:
    """The buffers of one thread."""

    def __init__(self, basis: Basis, tile_rows: int) -> None:
        self.scaled = np.zeros((tile_rows, basis.d))
        if isinstance(basis, FourierBasis):
            self.values: TileFunction = _Fourier(basis.frequencies, tile_rows)
        else:
            assert isinstance(basis, NystromBasis)
            self.values = _tile_function(basis.kernel, basis.scaled_landmarks, tile_rows)


class GeneralTiles:
    """Adds values of the functions of any basis of numbers."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self.tile_rows = tile_rows_for(basis.m, basis.d)

    def workspace(self, chunk_rows: int) -> _Workspace:
        """Return buffers for one thread."""
        del chunk_rows  # only tiles are buffered
        return _Workspace(self._basis, self.tile_rows)

    def add(
        self,
        points: Points,
        order: NDArray[np.int64],
        block_of: NDArray[np.int64],
        weights: Floats,
        sums: Floats,
        ws: _Workspace,
        spans: SpansByRow | None = None,
    ) -> None:
        """Add the values of the rows `order`, times their weights, to sums of their blocks (and spans)."""
        step = self.tile_rows
        for start in range(0, len(order), step):
            stop = min(start + step, len(order))
            if self._basis.encoded:
                ws.scaled[: stop - start] = self._basis.transform(points.rows[order[start:stop]])
            else:
                _scale(points.rows, order[start:stop], self._basis.center, self._basis.scale, ws.scaled)
            # Always a whole tile, whatever is left of the last one in it: see gaussian.py.
            tile = ws.values(ws.scaled)
            _add_values(tile, block_of[start:stop], weights[start:stop], sums)
            if spans is not None:
                _add_values(tile, spans.span_of[start:stop], weights[start:stop], spans.sums)

    def ordered(self, sums: Floats) -> Floats:
        """Return the sums in the order of the basis, which is theirs."""
        return sums
