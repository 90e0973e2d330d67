"""Gaussian kernel values by matrix product: the fastest path, and the one most passes take.

log2 k(z, x) = x·z − ½|z|² − ½|x|² once rows and landmarks are centred and multiplied by
√(log2 e)/bandwidth. The first two terms are one float32 matrix product, of rows with a 1 appended and
landmarks with −½|z|² appended: a tile. The last is the same for the whole row and joins its weight, in
float64. So: a tile by matrix product (product.py), exp2 in place, weighted sums in float64. Tiles stay in the
second-level cache and nothing larger is ever written.

The product cancels when a landmark lies far from the centre (|z|² large beside |x − z|²). Landmarks
beyond NEAR are therefore evaluated from differences in float64, a few times slower and always right;
usually there are none.

Where all features have the same bandwidth, the tile before the exponential also tells the nearest landmark
(nearest.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import FAST, compiled
from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.tiles.nearest import NearestLandmarks, Search
from nysketch.tiles.points import Categories, PointMaker, Points
from nysketch.tiles.product import Marks, TileProduct
from nysketch.tiles.sizes import tile_rows_for
from nysketch.tiles.spans import SpansByRow
from nysketch.tiles.vector_math import LOWEST, exp2

# Landmarks with ½|z|² up to this (|z| up to r = 5.2) go through the float32 product, which is then good
# to 1e-6. The bound also keeps exp2 simple: a row longer than ROW_RADIUS = r + 15.9 has kernel values
# below 2**-126 at all of them, so its exponents may be replaced by 0 without changing a float32 digit,
# and then every exponent x·z − ½|z|² lies within ±126, where no overflow or underflow need be caught.
NEAR = 13.5
ROW_RADIUS = 21.1

# Exponents of categories are cut off here: sums of many of them are finite, and none changes a float32 digit.
_MOST_APART = 1e6
# With categories that take no more than this together, no exponent of a row near the landmarks is cut off.
_TOGETHER = 60.0

# Coordinates are cut off here before they are squared: finite, and far beyond ROW_RADIUS.
_FAR_AWAY = np.float32(2.0**40)

# The same where they are float64: finite when squared, and farther than any landmark can be.
_BEYOND = 1e151


@compiled(fastmath=FAST)
def _pack(rows, order, shift, factor, scratch, norms, packed, half_norms):
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


@compiled()
def _places(order, codes, starts, places):
    """Write which marks the rows `order` have."""
    for p in range(len(order)):
        for c in range(len(starts)):
            places[p, c] = starts[c] + codes[order[p], c]


@compiled()
def _blank_long_rows(tile, half_norms):
    """Replace exponents of rows that vanish anyway: their factor is 2**-½|x|², below 2**-222."""
    for p in range(len(half_norms)):
        if half_norms[p] > 0.5 * ROW_RADIUS * ROW_RADIUS:
            tile[p] = 0.0


@compiled(fastmath=FAST)
def _exp2_in_place(row, cut):
    """Exponentiate; where exponents may be too low, `cut` them off first."""
    if cut:
        for j in range(len(row)):
            row[j] = exp2(row[j] if row[j] > LOWEST else LOWEST)
    else:
        for j in range(len(row)):
            row[j] = exp2(row[j])


@compiled(fastmath=FAST)
def _add_tile(tile, block_of, weights, cut, sums):
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
            _exp2_in_place(a, cut)
            _exp2_in_place(b, cut)
            _exp2_in_place(c, cut)
            _exp2_in_place(d, cut)
            for j in range(m):
                total[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
            i += 4
        else:
            a = tile[i]
            wa = weights[i]
            _exp2_in_place(a, cut)
            for j in range(m):
                total[j] += wa * a[j]
            i += 1


@compiled(fastmath=FAST)
def _add_row(row, weight, total):
    for j in range(len(row)):
        total[j] += weight * row[j]


@compiled(fastmath=FAST)
def _add_tile_twice(tile, block_of, span_of, weights, cut, sums, span_sums):
    """Do what `_add_tile` does, and add every row to the sums of its run as well."""
    count, m = len(block_of), tile.shape[1]
    i = 0
    while i < count:
        total, run = sums[block_of[i]], span_sums[span_of[i]]
        if i + 4 <= count and block_of[i + 3] == block_of[i]:
            a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
            wa, wb, wc, wd = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
            _exp2_in_place(a, cut)
            _exp2_in_place(b, cut)
            _exp2_in_place(c, cut)
            _exp2_in_place(d, cut)
            # Rows of a block are in the order of their numbers: four are in one run if the outer two are.
            if span_of[i + 3] == span_of[i]:
                for j in range(m):
                    value = (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
                    total[j] += value
                    run[j] += value
            else:
                for j in range(m):
                    total[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
                _add_row(a, wa, run)
                _add_row(b, wb, span_sums[span_of[i + 1]])
                _add_row(c, wc, span_sums[span_of[i + 2]])
                _add_row(d, wd, span_sums[span_of[i + 3]])
            i += 4
        else:
            a = tile[i]
            wa = weights[i]
            _exp2_in_place(a, cut)
            for j in range(m):
                value = wa * a[j]
                total[j] += value
                run[j] += value
            i += 1


@compiled(fastmath=FAST)
def _add_far(
    rows, order, count, shift, factor, far, codes, far_codes, apart,
    block_of, weights, exponents, sums, span_of, span_sums,
):  # fmt: skip
    """Add the kernel values at the landmarks `far` (d × m), from differences in float64.

    Also to the sums of spans, if there are any.
    """
    m = far.shape[1]
    for p in range(count):
        exponents[:] = 0.0
        for k in range(far.shape[0]):
            x = min(max((rows[order[p], k] - shift[k]) * factor[k], -_BEYOND), _BEYOND)
            z = far[k]
            for j in range(m):
                difference = x - z[j]
                exponents[j] -= difference * difference
        for c in range(codes.shape[1]):
            own = codes[order[p], c]
            for j in range(m):
                if far_codes[j, c] != own:
                    exponents[j] -= 2.0 * apart[c]
        total = sums[block_of[p]]
        weight = weights[p]
        for j in range(m):
            exponents[j] = exp2(max(np.float32(0.5 * exponents[j]), LOWEST))
        _add_row(exponents, weight, total)
        if len(span_sums) > 0:
            _add_row(exponents, weight, span_sums[span_of[p]])


def _marks(categories: Categories, near: NDArray[np.int64], apart: Floats) -> tuple[Marks, NDArray[np.int32]]:
    """Return what categories that differ add to the exponents at landmarks; and where those of each begin."""
    starts = np.cumsum([0, *categories.counts[:-1]])[: len(categories.counts)].astype(np.int32)
    differs = np.zeros((int(categories.counts.sum()), len(near)), bool)
    for c, (start, count) in enumerate(zip(starts.tolist(), categories.counts.tolist(), strict=True)):
        differs[start : start + count] = np.arange(count)[:, None] != categories.codes[near, c]
    return Marks(differs, -np.minimum(apart, _MOST_APART)), starts


class _Workspace:
    """The buffers of one thread."""

    def __init__(self, tiles: GaussianTiles, chunk_rows: int) -> None:
        self.packed = np.zeros((tiles.d + 1, chunk_rows + tiles.tile_rows), np.float32)
        self.packed[-1] = 1.0
        self.places = np.zeros((chunk_rows + tiles.tile_rows, tiles.categories), np.int32)
        self.scratch = np.empty(chunk_rows, np.float32)
        self.norms = np.empty(chunk_rows)
        self.half_norms = np.empty(chunk_rows)
        self.tile = np.empty((tiles.tile_rows, len(tiles.near)), np.float32)
        self.exponents = np.empty(len(tiles.far))
        self.search = Search(chunk_rows, len(tiles.near), tiles.d)


class GaussianTiles:
    """Adds Gaussian kernel values; `bandwidths` has one for each feature.

    A product of Gaussian kernels over groups of features is one of them, with other bandwidths.
    Sums have near landmarks first, then far ones; `ordered` puts them back. After `find_nearest`, every `add`
    also leaves the nearest landmarks in the workspace.
    """

    def __init__(self, basis: NystromBasis, bandwidths: Floats) -> None:
        make = PointMaker(basis)
        dense, landmarks, categories = make.dense, make.landmarks(), make.categories()
        self.d, self.categories = len(dense), len(categories.starts)
        of_categories, bandwidths = bandwidths[categories.starts], bandwidths[dense]
        # (x − center)/scale − middle, over the bandwidth, in one multiplication per value
        self._shift = (basis.center + basis.middle * basis.scale)[dense]
        with np.errstate(over="ignore"):  # far beyond all others
            largest = float(np.finfo(np.float64).max)  # of hostile scales
            self._factor = np.minimum(np.sqrt(np.log2(np.e)) / bandwidths / basis.scale[dense], largest)
            Z = (landmarks.numbers - self._shift) * self._factor
            half_norms = 0.5 * (Z**2).sum(axis=1)
            # What a category that differs takes off the exponent.
            self._apart = np.minimum(0.5 * np.log2(np.e) * categories.squares / of_categories**2, largest)
        # The product of many features rounds more often.
        limit = NEAR / max(1.0, np.sqrt(self.d / 64))
        self.near = np.flatnonzero(half_norms <= limit)
        self.far = np.flatnonzero(half_norms > limit)
        offsets = -half_norms[self.near]
        near_matrix = np.vstack([Z[self.near].T, offsets]).astype(np.float32)
        marks, self._starts = _marks(categories, self.near, self._apart)
        self._product = TileProduct(near_matrix, marks)
        # What the landmarks' norms lost in float32 is known, and given back at the end.
        self._near_factor = np.exp2(offsets - near_matrix[-1])
        self._far_matrix = np.ascontiguousarray(Z[self.far].T)
        self._far_codes = np.ascontiguousarray(categories.codes[self.far])
        self.tile_rows = tile_rows_for(basis.m, self.d)
        self._unit = np.sqrt(np.log2(np.e)) / np.concatenate([bandwidths, of_categories])
        self._nearest: NearestLandmarks | None = None

    @classmethod
    def of_distances(cls, basis: NystromBasis) -> GaussianTiles:
        """Return tiles that are good for finding the nearest landmark, whatever the kernel is."""
        with np.errstate(over="ignore"):
            norms = np.sqrt(((basis.scaled_landmarks - basis.middle) ** 2).sum(axis=1))
        typical = np.clip(np.median(norms) or norms.mean() or 1.0, 1e-100, 1e100)
        # Landmarks up to four times as far out as most are near; all categories together are, too.
        apart = np.sqrt(PointMaker(basis).categories().squares.sum() * np.log2(np.e) / _TOGETHER)
        return cls(basis, np.full(basis.d, max(4 * typical * np.sqrt(np.log2(np.e) / (2 * NEAR)), apart)))

    @property
    def tell_nearest(self) -> bool:
        """Whether the largest exponent of a row is at its nearest landmark, and most landmarks are near."""
        # Where many categories differ, exponents may be cut off, and tell no longer which is nearest.
        whole = float(self._apart.sum()) <= _TOGETHER
        return whole and bool((self._unit == self._unit[0]).all()) and len(self.far) <= len(self.near)

    def find_nearest(self, basis: NystromBasis) -> None:
        """From now on, find the nearest landmarks, too."""
        self._nearest = NearestLandmarks(basis, self.near, self.far, float(self._unit[0]))

    def workspace(self, chunk_rows: int) -> _Workspace:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        return _Workspace(self, chunk_rows)

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
        span_of, span_sums = (block_of, sums[:0]) if spans is None else spans
        near = len(self.near)
        if near:
            by_span = SpansByRow(span_of, span_sums[:, :near])
            self._add_near(points, order, block_of, weights, sums[:, :near], ws, by_span)
        if len(self.far):
            _add_far(
                points.numbers, order, len(order), self._shift, self._factor, self._far_matrix,
                points.codes, self._far_codes, self._apart,
                block_of, weights, ws.exponents, sums[:, near:], span_of, span_sums[:, near:],
            )  # fmt: skip

    def _add_near(
        self,
        points: Points,
        order: NDArray[np.int64],
        block_of: NDArray[np.int64],
        weights: Floats,
        sums: Floats,
        ws: _Workspace,
        spans: SpansByRow,
    ) -> None:
        half_norms = self._pack(points, order, ws)
        factors, cut = weights * np.exp2(-half_norms), self.categories > 0
        long = bool(len(half_norms)) and half_norms.max() > 0.5 * ROW_RADIUS * ROW_RADIUS
        for part in self._tiles(points, order, half_norms, ws):
            if long:
                _blank_long_rows(ws.tile, half_norms[part])
            if len(spans.sums):
                _add_tile_twice(
                    ws.tile, block_of[part], spans.span_of[part], factors[part], cut, sums, spans.sums
                )
            else:
                _add_tile(ws.tile, block_of[part], factors[part], cut, sums)

    def find(self, points: Points, order: NDArray[np.int64], ws: _Workspace) -> None:
        """Find the nearest landmarks of the rows `order`, and add nothing."""
        for _ in self._tiles(points, order, self._pack(points, order, ws), ws):
            pass

    def _pack(self, points: Points, order: NDArray[np.int64], ws: _Workspace) -> Floats:
        """Put the rows `order` in their places, and return ½|x|² of each."""
        half_norms = ws.half_norms[: len(order)]
        _pack(points.numbers, order, self._shift, self._factor, ws.scratch, ws.norms, ws.packed, half_norms)
        if self.categories:
            _places(order, points.codes, self._starts, ws.places)
        return half_norms

    def _tiles(
        self, points: Points, order: NDArray[np.int64], half_norms: Floats, ws: _Workspace
    ) -> Iterator[slice]:
        """Compute one tile of exponents after the other, and find the nearest landmarks on the way."""
        count, step = len(order), self.tile_rows
        if self._nearest is not None:
            self._nearest.begin(half_norms, ws.search)
        for start in range(0, count, step):
            # Always a whole tile, whatever lies beyond `count`: the product has no blocks of fewer rows.
            self._product(ws.packed[:, start : start + step].T, ws.tile, ws.places[start : start + step])
            part = slice(start, min(start + step, count))
            if self._nearest is not None:
                self._nearest.look(ws.tile, part, points, order, ws.search)
            yield part
        if self._nearest is not None:
            self._nearest.finish(points, order, ws.search)

    def ordered(self, sums: Floats) -> Floats:
        """Return blocks × landmarks, in the order of the landmarks."""
        result = np.empty_like(sums)
        result[:, self.near] = sums[:, : len(self.near)] * self._near_factor
        result[:, self.far] = sums[:, len(self.near) :]
        return result
