"""The hot loop: kernel sums of many rows at all landmarks. The only place that knows about speed.

For the Gaussian kernel, log2 k(z, x) = x·z − ½|z|² − ½|x|² once rows and landmarks are centred and
multiplied by √(log2 e)/bandwidth. The first two terms are one float32 matrix product, of rows with a 1
appended and landmarks with −½|z|² appended: a tile. The last is the same for the whole row and joins
its weight, in float64. So: a tile by BLAS, exp2 in place, weighted sums in float64. Tiles stay in the
second-level cache and nothing larger is ever written.

The product cancels when a landmark lies far from the centre (|z|² large beside |x − z|²). Landmarks
beyond NEAR are therefore evaluated from differences in float64, a few times slower and always right;
usually there are none.

Every kernel value depends on its row and its landmark only, not on where in a tile the row stands,
and is added in float64. So batches, fragments and threads change nothing beyond 1e-15.

`precision="float64"` takes the plain NumPy path in kernels.py instead: the slow reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from nysketch import exact
from nysketch.accumulators import BlockSums
from nysketch.basis import Basis
from nysketch.exact import ExactSum

Floats = NDArray[np.float64]

# Landmarks with ½|z|² up to this (|z| up to r = 5.2) go through the float32 product, which is then good
# to 1e-6. The bound also keeps exp2 simple: a row longer than ROW_RADIUS = r + 15.9 has kernel values
# below 2**-126 at all of them, so it may be shortened to that length without changing a float32 digit,
# and then every exponent x·z − ½|z|² lies within ±126, where no overflow or underflow need be caught.
NEAR = 13.5
ROW_RADIUS = 21.1

# Rows of a tile: rows × landmarks × 4 bytes ≈ 256 KiB, so that tile and landmarks share an L2 cache of
# 1 MiB; at m = 1000, 128 rows were 20 % slower and 32 rows 5 %. With many features the landmarks
# themselves outgrow the cache and are fetched anew for every tile, which must then be tall to be worth it:
# the product at d = 1000 was 1.6 times as fast with 256 rows as with 64. Depends on m and d alone: the
# shape of a tile must not differ between machines.
TILE_BYTES = 1 << 18
_TALLEST_TILE = 2048


def tile_rows_for(m: int, d: int) -> int:
    """Return the rows of a tile."""
    rows = max(TILE_BYTES // (4 * m), min(d // 4, 256))
    return int(np.clip(rows // 16 * 16, 16, _TALLEST_TILE))


# Coordinates are cut off here before they are squared: finite, and far beyond ROW_RADIUS.
_FAR_AWAY = np.float32(2.0**40)

# The same where they are float64: finite when squared, and farther than any landmark can be.
_BEYOND = 1e151

_FAST = {"contract", "nnan", "ninf", "nsz"}  # no reassociation: sums keep their order

# 2**f on [-½, ½], least-squares fit of the relative error at Chebyshev nodes: 8e-8 at most.
_C0, _C1, _C2, _C3, _C4, _C5 = (
    np.float32(c) for c in (1.00000007, 0.69314695, 0.24022122, 0.05550743, 0.00967546, 0.0013267)
)
_LOWEST = np.float32(-126.0)  # below it float32 has no normal numbers
_ROUND = np.float32(12582912.0)  # 1.5 · 2**23: adding it leaves the nearest integer in the low bits
_MANTISSA_BITS = np.int32(23)


def _compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function without the interpreter lock, and keep the code for the next process if possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            kept: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:
            # Neither the package's directory nor the home directory can be written, as cron may have it:
            # every process compiles for itself, which takes some seconds.
            kept = numba.njit(nogil=True, **options)(function)
        return kept

    return decorate


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
    """2**t for float32 |t| ≤ 126, to 2.3e-7, branch-free so that loops over it vectorise."""
    shifted = t + _ROUND
    f = t - (shifted - _ROUND)
    p = ((((_C5 * f + _C4) * f + _C3) * f + _C2) * f + _C1) * f + _C0
    return _bits_float(np.int32(_float_bits(p) + (_float_bits(shifted) << _MANTISSA_BITS)))  # type: ignore[call-arg]


@_compiled()
def deal_blocks(first_row, keep, seed, blocks, order, block_of):  # type: ignore[no-untyped-def]
    """Deal rows to blocks by a hash of seed and row number, and sort them by block.

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


@_compiled(fastmath=_FAST)
def _pack(rows, order, shift, factor, scratch, norms, packed, half_norms):  # type: ignore[no-untyped-def]
    """Write the rows `order`, shifted and scaled, as columns; and ½|x|² of each.

    Whole columns are converted in order first, then gathered: both loops are twice as fast as one.
    """
    n, count = rows.shape[0], len(order)
    norms[:n] = 0.0
    for k in range(rows.shape[1]):
        column, target = rows[:, k], packed[k]
        offset, multiplier = shift[k], factor[k]
        for i in range(n):
            x = np.float32((column[i] - offset) * multiplier)
            scratch[i] = min(max(x, -_FAR_AWAY), _FAR_AWAY)
        for i in range(n):
            norms[i] += np.float64(scratch[i]) * np.float64(scratch[i])
        for p in range(count):
            target[p] = scratch[order[p]]
    for p in range(count):
        half_norms[p] = 0.5 * norms[order[p]]
        if half_norms[p] > 0.5 * ROW_RADIUS * ROW_RADIUS:
            shorter = np.float32(ROW_RADIUS / np.sqrt(2.0 * half_norms[p]))
            for k in range(rows.shape[1]):
                packed[k, p] *= shorter


@_compiled(fastmath=_FAST)
def _exp2_in_place(row):  # type: ignore[no-untyped-def]
    for j in range(len(row)):
        row[j] = _exp2(row[j])


@_compiled(fastmath=_FAST)
def _add_tile(tile, block_of, weights, sums):  # type: ignore[no-untyped-def]
    """Exponentiate the rows of a tile in place, and add them to the sums of the blocks they belong to.

    The exponential and the float64 addition are separate loops because a loop over two widths of
    numbers vectorises at the width of the wider one; four rows at a time halve the traffic of the sums.
    """
    count, m = len(block_of), tile.shape[1]
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


@_compiled(fastmath=_FAST)
def _add_far(rows, order, count, shift, factor, far, block_of, weights, exponents, sums):  # type: ignore[no-untyped-def]
    """Add the kernel values at the landmarks `far` (d × m), from differences in float64."""
    m = far.shape[1]
    for p in range(count):
        exponents[:] = 0.0
        for k in range(far.shape[0]):
            x = min(max((rows[order[p], k] - shift[k]) * factor[k], -_BEYOND), _BEYOND)
            z = far[k]
            for j in range(m):
                difference = x - z[j]
                exponents[j] -= difference * difference
        total = sums[block_of[p]]
        weight = weights[p]
        for j in range(m):
            total[j] += weight * _exp2(max(np.float32(0.5 * exponents[j]), _LOWEST))


_two_sum = numba.njit(inline="always")(exact.two_sum)


@_compiled()
def _add_on_grid(terms, grid_exponent, high, low):  # type: ignore[no-untyped-def]
    """Do what `ExactSum.__add__` does with `ExactSum.of(terms)`, in place and in one sweep."""
    to_grid, from_grid = 2.0**-grid_exponent, 2.0**grid_exponent
    for i in range(len(terms)):
        term = np.rint(terms[i] * to_grid) * from_grid
        total, error = _two_sum(high[i], term)
        total, error = _two_sum(total, error + low[i])
        high[i] = total + 0.0
        low[i] = error + 0.0


class Workspace:
    """The buffers of one thread."""

    def __init__(self, summer: KernelSummer, chunk_rows: int) -> None:
        self.order = np.empty(chunk_rows, np.int64)
        self.block_of = np.empty(chunk_rows, np.int64)
        self.packed = np.zeros((summer.d + 1, chunk_rows + summer.tile_rows), np.float32)
        self.packed[-1] = 1.0
        self.scratch = np.empty(chunk_rows, np.float32)
        self.norms = np.empty(chunk_rows)
        self.half_norms = np.empty(chunk_rows)
        self.tile = np.empty((summer.tile_rows, len(summer.near)), np.float32)
        self.exponents = np.empty(len(summer.far))


class FragmentSums:
    """Kernel sums, row counts and (where rows have them) weights by block, while a fragment is read.

    The columns of `kernel` are near landmarks first, then far ones; `KernelSummer.kernel_sums` knows.
    """

    def __init__(self, blocks: int, m: int) -> None:
        self.kernel = np.zeros((blocks, m))
        self.rows = np.zeros(blocks, np.int64)
        self.weights = np.zeros(blocks)


class RunningSums:
    """The sums over all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: BlockSums, grid_exponent: int) -> None:
        self._grid = grid_exponent
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()
        self._rows = start.rows.copy()
        self._weights = start.weights

    def add(self, kernel_sums: Floats, rows: NDArray[np.int64], weights: Floats) -> None:
        """Add the sums of one fragment."""
        _add_on_grid(kernel_sums.reshape(-1), self._grid, self._high.reshape(-1), self._low.reshape(-1))
        self._rows += rows
        if self._weights is not None:
            self._weights = self._weights + ExactSum.of(weights, grid_exponent=self._grid)

    def snapshot(self) -> BlockSums:
        """Return the sums as they are now."""
        return BlockSums(ExactSum(self._high.copy(), self._low.copy()), self._rows.copy(), self._weights)


class KernelSummer:
    """Adds kernel values of chunks of rows to per-block sums. Shared by threads, never written."""

    def __init__(self, basis: Basis, *, blocks: int, seed: int, precision: str) -> None:
        self.basis, self.blocks, self.precision = basis, blocks, precision
        self._seed = seed
        self.d = basis.d
        scaled = basis.transform(basis.landmarks)
        middle = np.median(scaled, axis=0)  # a few landmarks may be very far out
        gamma = np.sqrt(np.log2(np.e)) / basis.kernel.bandwidth
        # (x − center)/scale − middle, times gamma, in one multiplication per value
        self._shift = basis.center + middle * basis.scale
        self._factor = gamma / basis.scale
        Z = (basis.landmarks - self._shift) * self._factor
        half_norms = 0.5 * (Z**2).sum(axis=1)
        # The product of many features rounds more often.
        limit = NEAR / max(1.0, np.sqrt(basis.d / 64))
        self.near = np.flatnonzero(half_norms <= limit)
        self.far = np.flatnonzero(half_norms > limit)
        offsets = -half_norms[self.near]
        augmented = np.vstack([Z[self.near].T, offsets])
        self._near_matrix = np.ascontiguousarray(augmented, dtype=np.float32)
        # What the landmarks' norms lost in float32 is known, and given back at the end.
        self._near_factor = np.exp2(offsets - self._near_matrix[-1])
        self._far_matrix = np.ascontiguousarray(Z[self.far].T)
        self.tile_rows = tile_rows_for(basis.m, basis.d)

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
        *,
        key: int = 0,
    ) -> None:
        """Add the rows `keep`, numbered from `first_row` in the input `key`, to the sums of their blocks."""
        seed = np.uint64((self._seed + key) % 2**64)
        count = deal_blocks(first_row, keep, seed, self.blocks, ws.order, ws.block_of)
        order, block_of = ws.order[:count], ws.block_of[:count]
        into.rows += np.bincount(block_of, minlength=self.blocks)
        row_weights = np.ones(count)
        if weights is not None:
            row_weights = weights[order]
            into.weights += np.bincount(block_of, row_weights, minlength=self.blocks)
        if self.precision == "float64":
            self._add_reference(rows[order], block_of, row_weights, into.kernel)
            return
        near_sums, far_sums = into.kernel[:, : len(self.near)], into.kernel[:, len(self.near) :]
        if len(self.near):
            self._add_near(rows, order, row_weights, near_sums, ws)
        if len(self.far):
            _add_far(
                rows, order, count, self._shift, self._factor, self._far_matrix,
                block_of, row_weights, ws.exponents, far_sums,
            )  # fmt: skip

    def _add_near(
        self, rows: Floats, order: NDArray[np.int64], weights: Floats, sums: Floats, ws: Workspace
    ) -> None:
        count, step = len(order), self.tile_rows
        half_norms = ws.half_norms[:count]
        _pack(rows, order, self._shift, self._factor, ws.scratch, ws.norms, ws.packed, half_norms)
        factors = weights * np.exp2(-half_norms)
        for start in range(0, count, step):
            # Always a whole tile, whatever lies beyond `count`: the matrix product may take another
            # path for other shapes, and then the same row would get another last bit.
            np.matmul(ws.packed[:, start : start + step].T, self._near_matrix, out=ws.tile)
            stop = min(start + step, count)
            _add_tile(ws.tile, ws.block_of[start:stop], factors[start:stop], sums)

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
        ordered[:, self.near] = sums.kernel[:, : len(self.near)] * self._near_factor
        ordered[:, self.far] = sums.kernel[:, len(self.near) :]
        return ordered
