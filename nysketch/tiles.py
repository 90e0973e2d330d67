"""The hot loop: kernel sums of many rows at all landmarks. The only place that knows about speed.

For the Gaussian kernel, log2 k(z, x) = x·z − ½|x|² − ½|z|² once rows and landmarks are centred and
multiplied by √(log2 e)/bandwidth. So a tile of kernel values is one float32 matrix product of rows
augmented by [−½|x|², 1] with landmarks augmented by [1, −½|z|²], then exp2 in place, then sums in
float64. Tiles stay in the second-level cache and nothing larger is ever written.

The product cancels when a landmark lies far from the centre (|z|² large beside |x − z|²): its error
is about |z|² · 2**-24. Landmarks beyond NEAR are therefore evaluated from differences in float64,
a few times slower and always right; usually there are none.

Every kernel value depends on its row and its landmark only, not on where in a tile the row stands,
and is added in float64. So batches, fragments and threads change nothing beyond 1e-15.

`precision="float64"` takes the plain NumPy path in kernels.py instead: the slow reference.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from nysketch.basis import Basis

Floats = NDArray[np.float64]

PRECISIONS = ("float32", "float64")

# ½|z|² log2(e)/bandwidth² up to which the float32 product is used. Half a unit in the last place of
# 32 is 1e-6 of relative error in the kernel value; we promise 1e-5.
NEAR = 32.0

# Rows of a tile: rows × landmarks × 4 bytes ≈ 256 KiB, so that tile and landmarks share an L2 cache of
# 1 MiB. At m = 1000, 128 rows were 20 % slower and 32 rows 5 %. A function of m alone: the shape of a
# tile must not differ between machines.
TILE_BYTES = 1 << 18

# Largest scaled coordinate: a row out there has kernel value 0 at every near landmark, and its square
# must not overflow float32.
_FAR_AWAY = np.float32(2.0**40)

_FAST = {"contract", "nnan", "ninf", "nsz"}  # no reassociation: sums keep their order

# 2**f on [-½, ½], least-squares fit of the relative error at Chebyshev nodes: 8e-8 at most.
_C0, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (1.00000007, 0.69314695, 0.24022122, 0.05550743, 0.00967546, 0.0013267)
)
_LOWEST = np.float32(-126.0)  # below it float32 has no normal numbers
_ROUND = np.float32(12582912.0)  # 1.5 · 2**23: adding it leaves the nearest integer in the low bits
_MANTISSA_BITS = np.int32(23)


@intrinsic
def _float_bits(typing_context: Any, value: Any) -> Any:
    """Reinterpret a float32 as an int32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int32))

    return types.int32(types.float32), codegen


@intrinsic
def _bits_float(typing_context: Any, value: Any) -> Any:
    """Reinterpret an int32 as a float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), codegen


@numba.njit(inline="always")
def _exp2(t):  # type: ignore[no-untyped-def]
    """2**t for float32 t ≤ 0, to 2.3e-7, branch-free so that loops over it vectorise."""
    t = max(t, _LOWEST)
    shifted = t + _ROUND
    f = t - (shifted - _ROUND)
    p = ((((_C5 * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _C0
    return _bits_float(np.int32(_float_bits(p) + (_float_bits(shifted) << _MANTISSA_BITS)))  # type: ignore[call-arg]


@numba.njit(nogil=True, cache=True)
def deal_blocks(first_row, keep, seed, blocks, order, block_of):  # type: ignore[no-untyped-def]
    """Deal rows to blocks by a hash of seed and global row number, and sort them by block.

    Row `first_row + i` takes part if `keep[i]`. Writes, for each position p of the sorted rows, which
    row stands there (`order`) and its block (`block_of`); returns how many there are.
    """
    ends = np.zeros(blocks + 1, np.int64)
    dealt = np.empty(len(keep), np.int64)
    kept = 0
    for i in range(len(keep)):
        if keep[i]:
            # splitmix64 of a counter: consecutive row numbers give independent-looking words
            word = seed + np.uint64(first_row + i + 1) * np.uint64(0x9E3779B97F4A7C15)
            word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            word = word ^ (word >> np.uint64(31))
            # the top 32 bits scaled to [0, blocks)
            dealt[i] = ((word >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
            ends[dealt[i] + 1] += 1
            kept += 1
    for block in range(blocks):
        ends[block + 1] += ends[block]
    for i in range(len(keep)):
        if keep[i]:
            p = ends[dealt[i]]
            ends[dealt[i]] += 1
            order[p] = i
            block_of[p] = dealt[i]
    return kept


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _pack(rows, order, count, shift, factor, packed):  # type: ignore[no-untyped-def]
    """Write the rows `order[:count]`, shifted, scaled and augmented by [−½|x|², 1], as columns."""
    d = rows.shape[1]
    norms = packed[d]
    norms[:count] = 0.0
    packed[d + 1, :count] = 1.0
    for k in range(d):
        column, target = rows[:, k], packed[k]
        offset, multiplier = shift[k], factor[k]
        for p in range(count):
            x = np.float32((column[order[p]] - offset) * multiplier)
            x = min(max(x, -_FAR_AWAY), _FAR_AWAY)
            target[p] = x
            norms[p] -= np.float32(0.5) * x * x


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _exp2_in_place(row):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] = _exp2(row[j])


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _add_tile(tile, count, block_of, weights, sums):  # type: ignore[no-untyped-def]
    """Exponentiate `count` rows of a tile in place and add them to the sums of their blocks.

    The exponential and the float64 addition are separate loops because a loop over two widths of
    numbers vectorises at the width of the wider one; four rows at a time halve the traffic of the sums.
    """
    m = tile.shape[1]
    i = 0
    while i < count:
        total = sums[block_of[i]]
        if i + 4 <= count and block_of[i + 3] == block_of[i]:
            a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
            wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            _exp2_in_place(a)
            _exp2_in_place(b)
            _exp2_in_place(c)
            _exp2_in_place(d)
            for j in range(m):
                total[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
            i += 4
        else:
            a = tile[i]
            wa = weights[i]
            _exp2_in_place(a)
            for j in range(m):
                total[j] += wa * a[j]
            i += 1


@numba.njit(nogil=True, cache=True, fastmath=_FAST)
def _add_far(rows, order, count, shift, factor, far, block_of, weights, exponents, sums):  # type: ignore[no-untyped-def]
    """Add the kernel values at the landmarks `far` (d × m), from differences in float64."""
    m = far.shape[1]
    for p in range(count):
        exponents[:] = 0.0
        for k in range(far.shape[0]):
            x = (rows[order[p], k] - shift[k]) * factor[k]
            z = far[k]
            for j in range(m):
                difference = x - z[j]
                exponents[j] -= difference * difference
        total = sums[block_of[p]]
        weight = weights[p]
        for j in range(m):
            total[j] += weight * _exp2(np.float32(0.5 * exponents[j]))


class Workspace:
    """The buffers of one thread."""

    def __init__(self, summer: KernelSummer, chunk_rows: int) -> None:
        self.order = np.empty(chunk_rows, np.int64)
        self.block_of = np.empty(chunk_rows, np.int64)
        self.packed = np.zeros((summer.d + 2, chunk_rows + summer.tile_rows), np.float32)
        self.tile = np.empty((summer.tile_rows, len(summer.near)), np.float32)
        self.exponents = np.empty(len(summer.far))


class FragmentSums:
    """Kernel sums, row counts and weights by block, while a fragment is being read.

    The columns of `kernel` are near landmarks first, then far ones; `KernelSummer.kernel_sums` knows.
    """

    def __init__(self, blocks: int, m: int) -> None:
        self.kernel = np.zeros((blocks, m))
        self.rows = np.zeros(blocks, np.int64)
        self.weights = np.zeros(blocks)


class KernelSummer:
    """Adds kernel values of chunks of rows to per-block sums. Shared by threads, never written."""

    def __init__(self, basis: Basis, *, blocks: int, seed: int, precision: str) -> None:
        self.basis, self.blocks, self.precision = basis, blocks, precision
        self.seed = np.uint64(seed)
        self.d = basis.d
        scaled = basis.transform(basis.landmarks)
        middle = np.median(scaled, axis=0)  # a few landmarks may be very far out
        gamma = np.sqrt(np.log2(np.e)) / basis.kernel.bandwidth
        # (x − center)/scale − middle, times gamma, in one multiplication per value
        self._shift = basis.center + middle * basis.scale
        self._factor = gamma / basis.scale
        Z = (basis.landmarks - self._shift) * self._factor
        half_norms = 0.5 * (Z**2).sum(axis=1)
        self.near = np.flatnonzero(half_norms <= NEAR)
        self.far = np.flatnonzero(half_norms > NEAR)
        near = Z[self.near]
        ones = np.ones((len(near), 1))
        augmented = np.hstack([near, ones, -half_norms[self.near, None]])
        self._near_matrix = np.ascontiguousarray(augmented.T, dtype=np.float32)
        self._far_matrix = np.ascontiguousarray(Z[self.far].T)
        per_tile = TILE_BYTES // (4 * basis.m)
        self.tile_rows = int(np.clip(per_tile // 16 * 16, 16, 2048))

    def workspace(self, chunk_rows: int) -> Workspace:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        return Workspace(self, chunk_rows)

    def zeros(self) -> FragmentSums:
        """Return sums to add to."""
        return FragmentSums(self.blocks, self.basis.m)

    def add(
        self,
        first_row: int,
        rows: Floats,
        keep: NDArray[np.bool_],
        weights: Floats | None,
        into: FragmentSums,
        ws: Workspace,
    ) -> None:
        """Add the rows `keep`, numbered from `first_row`, to the sums of their blocks."""
        count = deal_blocks(first_row, keep, self.seed, self.blocks, ws.order, ws.block_of)
        order, block_of = ws.order[:count], ws.block_of[:count]
        row_weights = np.ones(count) if weights is None else weights[order]
        into.rows += np.bincount(block_of, minlength=self.blocks)
        into.weights += np.bincount(block_of, row_weights, minlength=self.blocks)
        if self.precision == "float64":
            self._add_reference(rows[order], block_of, row_weights, into.kernel)
            return
        near_sums, far_sums = into.kernel[:, : len(self.near)], into.kernel[:, len(self.near) :]
        if len(self.near):
            self._add_near(rows, count, row_weights, near_sums, ws)
        if len(self.far):
            _add_far(
                rows, order, count, self._shift, self._factor, self._far_matrix,
                block_of, row_weights, ws.exponents, far_sums,
            )  # fmt: skip

    def _add_near(self, rows: Floats, count: int, weights: Floats, sums: Floats, ws: Workspace) -> None:
        _pack(rows, ws.order, count, self._shift, self._factor, ws.packed)
        step = self.tile_rows
        for start in range(0, count, step):
            # Always a whole tile, whatever lies beyond `count`: the matrix product may take another
            # path for other shapes, and then the same row would get another last bit.
            np.matmul(ws.packed[:, start : start + step].T, self._near_matrix, out=ws.tile)
            stop = min(start + step, count)
            _add_tile(ws.tile, stop - start, ws.block_of[start:stop], weights[start:stop], sums)

    def _add_reference(
        self, rows: Floats, block_of: NDArray[np.int64], weights: Floats, sums: Floats
    ) -> None:
        step = self.tile_rows
        for start in range(0, len(rows), step):
            stop = start + step
            values = self.basis.kernel_at_landmarks(rows[start:stop])
            values *= weights[start:stop, None]
            np.add.at(sums, block_of[start:stop], values)

    def kernel_sums(self, sums: FragmentSums) -> Floats:
        """Return blocks × landmarks, in the order of the landmarks."""
        if self.precision == "float64":
            return sums.kernel
        ordered = np.empty_like(sums.kernel)
        ordered[:, self.near] = sums.kernel[:, : len(self.near)]
        ordered[:, self.far] = sums.kernel[:, len(self.near) :]
        return ordered
