"""Bandwidths fitted to rows: the median distance; and finer ones where rows lie in clumps far below it.

A Gaussian kernel sees structure of about its bandwidth. Where a tenth of the rows or more lie in clumps that
are a thirtieth of the median distance across, what happens inside these changes hardly any kernel value: such
rows need a bandwidth of their own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats

AUTO, MEDIAN = "auto", "median"

# Rows whose distances are looked at.
AT_MOST = 1000

# A row lies in a clump if a twentieth of all rows are so near: within a thirtieth of the bandwidth. Where a
# column is normal, uniform, exponential or lognormal, the densest tenth of its rows have them within a 14th
# to a 28th of the median distance; of two such columns, within an eighth at most.
_NEAR = 30.0
_NEIGHBOURS = 0.05
_LEAST_SHARE = 0.1

# Clumps that hold fewer rows are known by the gap around them: a few neighbours are so near, and four times
# as many are 15 times farther away. In one column without gaps these are four times farther, and more than
# 15 for up to 1.3 % of the rows (of public tables, for 12 % in one column of taxi trips); in 25 to 300
# clumps, for 19 to 100 % of the rows. With fewer than five sampled rows, a clump may as well be copies with
# noise.
_SMALL = (0.005, 0.01, 0.02)
_FEWEST_IN_CLUMP = 5
_GAP_RANKS, _GAP = 4, 15.0
_LEAST_SHARE_SMALL = 0.15

# Fewer different rows are categories, or too few to say anything about neighbours.
_FEWEST_ROWS = 50

# In clumps, the median of the distances below this share of the bandwidth is a finer one. Finer than a
# thousandth of the median distance may as well be noise of rounding, and each bandwidth takes its time.
_NEXT = 0.1
_FINEST = 1e-3

# No bandwidth is more than so many times the next, so that structure between them is seen, too.
_STEP = 20.0


def median_distance(rows: Floats, seed: int, *, metric: str = "euclidean", at_most: int = AT_MOST) -> float:
    """Return the median distance between pairs of `rows` (of a subsample of `at_most`)."""
    return _median(_distances(_some(rows, seed, at_most), metric))


def auto_bandwidths(rows: Floats, seed: int) -> tuple[float, ...]:
    """Return the median distance; and finer bandwidths first, where many rows lie in clumps far below it."""
    rows = _some(rows, seed, AT_MOST)
    distances = _distances(rows)
    median = finest = _median(distances)
    if not _has_enough_rows(rows):
        return (median,)
    square = _square(distances)
    neighbours = _Neighbours(square)
    # Again, as long as there are clumps within clumps.
    while finest > _FINEST * median and (found := neighbours.clumps(finest)) is not None:
        near = square[found[0]]
        finest = float(np.median(near[near < _NEXT * finest]))
    if finest == median:
        return (median,)
    finest = max(finest, _FINEST * median)
    count = 1 + math.ceil(math.log(median / finest, _STEP))
    return (*np.geomspace(finest, median, count)[:-1].tolist(), median)


def clumped(rows: Floats, bandwidth: float, *, metric: str = "euclidean") -> tuple[float, float] | None:
    """Return the share of rows in clumps far below a bandwidth, and their radius; None if these are few.

    Rows must be in no order that has to do with their content: if there are many, the first will do.
    """
    rows = rows[:AT_MOST]
    if not _has_enough_rows(rows):
        return None
    found = _Neighbours(_square(_distances(rows, metric))).clumps(bandwidth)
    if found is None:
        return None
    inside, radii = found
    return float(inside.mean()), float(np.median(radii))


def _some(rows: Floats, seed: int, at_most: int) -> Floats:
    if len(rows) <= at_most:
        return rows
    return rows[np.random.default_rng(seed).choice(len(rows), at_most, replace=False)]


def _distances(rows: Floats, metric: str = "euclidean") -> Floats:
    from scipy.spatial.distance import pdist

    return np.asarray(pdist(rows, metric))


def _median(distances: Floats) -> float:
    if not distances.size or distances.max() == 0:
        return 1.0  # one distinct row: every bandwidth gives the same kernel matrix
    median = float(np.median(distances))
    # More than half of the pairs are duplicates: the median says nothing about the others.
    return median if median > 0 else float(np.median(distances[distances > 0]))


def _has_enough_rows(rows: Floats) -> bool:
    return len(rows) >= _FEWEST_ROWS and len(np.unique(rows, axis=0)) >= _FEWEST_ROWS


def _square(distances: Floats) -> Floats:
    """Return the distances of all pairs; between equal rows there is none, however many these are."""
    from scipy.spatial.distance import squareform

    square: NDArray[np.float64] = squareform(distances)
    square[square == 0] = np.inf
    return square


class _Neighbours:
    """How far from each row others are: a twentieth of all rows; and a few, and four times as many."""

    def __init__(self, square: Floats) -> None:
        rows = len(square)
        large = math.ceil(_NEIGHBOURS * rows)
        small = sorted({max(math.ceil(share * rows), _FEWEST_IN_CLUMP) for share in _SMALL})
        around = [min(_GAP_RANKS * count, rows - 1) for count in small]
        ranks = {large, *small, *around}
        ordered = np.partition(square, [rank - 1 for rank in ranks], axis=1)
        self._large = ordered[:, large - 1]
        self._small = [(ordered[:, a - 1], ordered[:, b - 1]) for a, b in zip(small, around, strict=True)]

    def clumps(self, bandwidth: float) -> tuple[NDArray[np.bool_], Floats] | None:
        """Return which rows lie in clumps far below a bandwidth, and the radii of these; None if few do."""
        near = bandwidth / _NEAR
        inside = self._large < near
        if inside.mean() >= _LEAST_SHARE:
            return inside, self._large[inside]
        radii = np.full(len(inside), np.inf)
        for radius, beyond in self._small:
            clump = (radius < near) & (beyond > _GAP * radius)
            radii = np.where(clump & np.isinf(radii), radius, radii)
        inside = np.isfinite(radii)
        return (inside, radii[inside]) if inside.mean() >= _LEAST_SHARE_SMALL else None
