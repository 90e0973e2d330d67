"""The nearest landmark of each row, and the sums of its cell.

A tile of x·z − ½|z|² in float32 has its largest value at the nearest landmark, but for rounding. So it only
says which landmarks may be nearest: almost always a single one. Among several, and landmarks too far out for
the tile, the smallest distance in float64 decides, from differences. Hence a row is in the same cell in
every pass on every machine, whichever way its matrix product rounds, and can be subtracted again.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import compiled
from nysketch._types import Floats
from nysketch.basis.base import LARGEST_SCALED
from nysketch.basis.nystrom import EXTENT, NystromBasis, spreads
from nysketch.tiles.points import PointMaker, Points
from nysketch.tiles.vector_math import larger

# Longer rows, in the units of the tile, are compared with all landmarks: near 2**40 they are cut off.
_TRUSTED = 2.0**30


@numba.njit(inline="always")
def _fold(values, tops):
    """Write the maxima of eight values at a time, far apart, then what is left over; return how many."""
    step = len(values) // 8
    for i in range(step):
        a = larger(values[i], values[step + i])
        b = larger(values[2 * step + i], values[3 * step + i])
        c = larger(values[4 * step + i], values[5 * step + i])
        d = larger(values[6 * step + i], values[7 * step + i])
        tops[i] = larger(larger(a, b), larger(c, d))
    for i in range(8 * step, len(values)):
        tops[i - 7 * step] = values[i]
    return len(values) - 7 * step


@numba.njit(inline="always")
def _unfold(values, place, threshold):
    """Return how many of the values whose maximum is at `place` reach the threshold, and where one does."""
    step = len(values) // 8
    if place >= step:
        return 1, place + 7 * step
    hits, found = 0, place
    for c in range(8):
        reaches = values[c * step + place] >= threshold
        # No branches: nobody could predict them.
        hits += reaches
        found = c * step + place if reaches else found
    return hits, found


@compiled()
def _lead(tile, start, stop, slack, near, leaders, values, tops):
    """Write which landmark has the largest value of each row of a tile, and the value.

    It is -1 if the values of others are within the slack; returns whether there are such rows. The row is
    folded to an eighth of its length before it is searched: 0.1 ns a value, as np.argmax takes, which would
    not tell whether others come close.
    """
    doubtful = False
    for p in range(start, stop):
        row = tile[p - start]
        count = _fold(row, tops)
        best = tops[0]
        for i in range(count):
            best = larger(best, tops[i])
        threshold = np.float32(best - slack[p])
        # Two loops of 32-bit integers: as one, or wider, they would not vectorise.
        hits, place = np.int32(0), np.int32(0)
        for i in range(count):
            hits = np.int32(hits + np.int32(tops[i] >= threshold))
        for i in range(count):
            here = np.int32(i) if tops[i] >= threshold else np.int32(0)
            place = here if here > place else place
        more, column = _unfold(row, np.int64(place), threshold)
        alone = hits + more == 2
        leaders[p] = near[column] if alone else -1
        values[p] = best
        doubtful |= not alone
    return doubtful


@numba.njit(inline="always")
def _scale(rows, row, center, scale, point):
    for k in range(len(point)):
        value = (rows[row, k] - center[k]) / scale[k]
        point[k] = min(max(value, -LARGEST_SCALED), LARGEST_SCALED)


@numba.njit(inline="always")
def _squared_distance(point, Z, j):
    total = 0.0
    for k in range(len(point)):
        difference = point[k] - Z[j, k]
        total += difference * difference
    return total


@numba.njit(inline="always")
def _distance_of_codes(codes, row, landmark_codes, j, squares):
    total = 0.0
    for c in range(len(squares)):
        if codes[row, c] != landmark_codes[j, c]:
            total += squares[c]
    return total


@compiled()
def _decide(
    tile, start, stop, slack, near, leaders, values, rows, order, center, scale, Z,
    codes, landmark_codes, squares, point,
):  # fmt: skip
    """Write which landmark is nearest to those rows of a tile that `_lead` left open."""
    for p in range(start, stop):
        if leaders[p] >= 0:
            continue
        _scale(rows, order[p], center, scale, point)
        closest, threshold = np.inf, np.float32(values[p] - slack[p])
        for c in range(len(near)):
            if tile[p - start, c] >= threshold:
                distance = _squared_distance(point, Z, near[c])
                distance += _distance_of_codes(codes, order[p], landmark_codes, near[c], squares)
                if distance < closest or leaders[p] < 0:
                    leaders[p], closest = near[c], distance


@compiled()
def _settle(
    norms, slack, leaders, values, rows, order, center, scale, Z, codes, landmark_codes, squares,
    far, far_norms, safe, limits, point, nearest,
):  # fmt: skip
    """Write the nearest landmark of the rows `order`, or m if it is too far away; return how many are.

    That is the leader of the tile, unless one of the landmarks `far`, sorted by their norms, is closer.
    """
    d, m = rows.shape[1], len(Z)
    beyond = 0
    for p in range(len(order)):
        winner, norm = leaders[p], norms[p]
        first, last = 0, len(far)
        if last > 0:
            # A landmark that is closer has a norm that differs from the row's by less than the distance.
            reach = np.sqrt(max(norm * norm - 2.0 * (values[p] - slack[p]), 0.0)) + 1e-5 * norm
            last = 0 if norm + reach < far_norms[0] else np.searchsorted(far_norms, norm + reach)
            first = 0 if last == 0 else np.searchsorted(far_norms, norm - reach)
        if last > first or norm > safe:
            _scale(rows, order[p], center, scale, point)
            if norm > _TRUSTED:
                winner, closest = 0, np.inf
                for j in range(m):
                    distance = _squared_distance(point, Z, j)
                    distance += _distance_of_codes(codes, order[p], landmark_codes, j, squares)
                    if distance < closest:
                        winner, closest = j, distance
            elif last > first:
                closest = np.inf
                if winner < m:
                    closest = _squared_distance(point, Z, winner)
                    closest += _distance_of_codes(codes, order[p], landmark_codes, winner, squares)
                for c in range(first, last):
                    distance = _squared_distance(point, Z, far[c])
                    distance += _distance_of_codes(codes, order[p], landmark_codes, far[c], squares)
                    # Of duplicates, the first.
                    if distance < closest or (distance == closest and far[c] < winner):
                        winner, closest = far[c], distance
            for k in range(d):
                if winner < m and not abs(point[k] - Z[winner, k]) <= limits[k]:
                    winner = m
        nearest[order[p]] = winner
        beyond += winner == m
    return beyond


class Search:
    """One search at a time, of up to `chunk_rows` rows: the buffers of one thread, and what was found.

    Afterwards `nearest` has the nearest landmark of each row, or m where it is too far away, or the row is
    not among those that were wanted; `beyond` is the number of the former.
    """

    def __init__(self, chunk_rows: int, m: int, d: int) -> None:
        self.nearest, self.beyond = np.empty(chunk_rows, np.int64), 0
        self.leaders, self.values = np.empty(chunk_rows, np.int64), np.empty(chunk_rows)
        self.norms = self.slack = np.empty(0)
        self.tops, self.point = np.empty(m, np.float32), np.empty(d)


class NearestLandmarks:
    """Finds the nearest landmarks from tiles of the landmarks `near`, of rows and landmarks times `unit`."""

    def __init__(
        self, basis: NystromBasis, near: NDArray[np.int64], far: NDArray[np.int64], unit: float
    ) -> None:
        make = PointMaker(basis)
        dense, categories = make.dense, make.categories()
        self._center, self._scale = basis.center[dense], basis.scale[dense]
        self._Z = np.ascontiguousarray(basis.scaled_landmarks[:, dense])
        self._codes, self._squares = categories.codes, categories.squares
        with np.errstate(over="ignore"):  # a landmark near the largest of all numbers is never nearest
            norms = unit * np.sqrt(((self._Z - basis.middle[dense]) ** 2).sum(axis=1))
        by_norm = np.argsort(norms[far], kind="stable")
        self._near, self._far, self._far_norms = near, far[by_norm], norms[far][by_norm]
        self._radius = float(norms[near].max(initial=0.0))
        # Of a product, of its factors and of −½|z|², for two landmarks that are compared.
        self._rounding = (len(dense) + len(self._squares) + 8) * 2.0**-23
        self._apart = 0.5 * unit**2 * float(self._squares.sum())  # of a row and a landmark, at most
        self._limits = EXTENT * spreads(basis)[dense]
        # Rows this close to the middle are within all limits of any landmark.
        nearest_limit = self._limits.min(initial=np.inf)
        self._safe = float(min(unit * nearest_limit - norms.max(), _TRUSTED)) * (1 - 1e-5)

    def begin(self, half_norms: Floats, search: Search) -> None:
        """Begin with rows that have these ½|x|²."""
        search.norms = np.sqrt(2.0 * half_norms)
        search.slack = self._rounding * (search.norms * self._radius + 0.5 * self._radius**2 + self._apart)
        if not len(self._near):
            search.leaders[:], search.values[:] = len(self._Z), -np.inf

    def look(
        self,
        tile: NDArray[np.float32],
        part: slice,
        points: Points,
        order: NDArray[np.int64],
        search: Search,
    ) -> None:
        """Find which of the near landmarks is nearest, for a part of the rows."""
        start, stop, ws = part.start, part.stop, search
        if len(self._near) and _lead(tile, start, stop, ws.slack, self._near, ws.leaders, ws.values, ws.tops):
            _decide(
                tile, start, stop, ws.slack, self._near, ws.leaders, ws.values, points.numbers, order,
                self._center, self._scale, self._Z, points.codes, self._codes, self._squares, ws.point,
            )  # fmt: skip

    def finish(self, points: Points, order: NDArray[np.int64], search: Search) -> None:
        """Compare with far landmarks, and with the limits of cells."""
        if len(order) < len(points):
            search.nearest[: len(points)] = len(self._Z)
        search.beyond = _settle(
            search.norms, search.slack, search.leaders, search.values, points.numbers, order,
            self._center, self._scale, self._Z, points.codes, self._codes, self._squares,
            self._far, self._far_norms, self._safe, self._limits,
            search.point, search.nearest,
        )  # fmt: skip


@compiled()
def add_to_cells(rows, nearest, weights, center, scale, landmarks, sums, squares, distances):
    """Add all rows to the sums of their cells, and their squares to the distances from their landmarks.

    Column by column, since so are the rows: the sums of a column (all are d × m) stay in the cache. Rows in
    no cell are in an extra one at the end. No multiplication is fused with an addition, nor any order
    changed: distances are the same numbers everywhere.
    """
    n = len(rows)
    for k in range(rows.shape[1]):
        column, z, total, squared = rows[:, k], landmarks[k], sums[k], squares[k]
        shift, factor = center[k], scale[k]
        for i in range(n):
            cell = nearest[i]
            offset = (column[i] - shift) / factor - z[cell]
            weighted = weights[i] * offset
            total[cell] += weighted
            squared[cell] += weighted * offset
            distances[i] += offset * offset


@compiled()
def add_code_distances(codes, nearest, landmark_codes, square, distances):
    """Add what the indicators of one category add to the squared distances from landmarks.

    A row whose code is that of its landmark differs from it in no indicator; any other in two, by a side.
    """
    for i in range(len(codes)):
        apart = square if landmark_codes[nearest[i]] != codes[i] else 0.0
        distances[i] += apart
        distances[i] += apart


@compiled()
def add_codes_to_cells(codes, nearest, weights, start, values):
    """Add the weights of rows to those of their values in their cells, of one category.

    Values begin at `start`, and are values × cells. Rows with the values of their landmarks are counted like
    others: nobody could predict which they are.
    """
    for i in range(len(codes)):
        values[start + codes[i], nearest[i]] += weights[i]
