"""Means and deviations of columns, from cells (of all rows) or from sampled rows; without a few wild values.

One 1e6 among 10,000 rows moves the mean of a column by 100 and makes its deviation 10,000: nothing could be
said of the other rows. Rows that a sketch knows one by one can be set aside: the farthest ones, a sample, and
the cells of landmarks that are wild themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis, numeric_landmarks
from nysketch.sketches.sketch import Sketch

# Values so many times as far from the middle of a column as half of its landmarks are wild, if they are few
# and hold most of its variance. Of a normal column, that is beyond 20 deviations.
_FAR = 30.0
_FEW, _MOST_OF_VARIANCE = 0.02, 0.5
# Sums lose digits to a wild value: with more than this, relative to a variance, what is left is not known.
_ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Mean and variance of each feature, in the units of the data, and from how many independent rows.

    `set_aside` counts the rows of each feature that are not in there; the others have the share `left`.
    """

    means: Floats
    variances: Floats
    rows: float
    set_aside: NDArray[np.int64]
    left: Floats

    def fewer(self, ratio: float) -> ColumnMoments:
        """Return the same, from so many times fewer rows."""
        return replace(self, rows=self.rows / max(ratio, 1.0))


@dataclass(frozen=True, eq=False)
class ScaledMoments:
    """Mean and variance of each feature in scaled units from `basis.middle`; and what can be set aside.

    That are rows known one by one, or a few together: their mean values in the same units, the variances
    within, how many they are, and their share in the weight of all rows. `complete` if these are all rows.
    """

    basis: Basis
    mean: Floats
    variance: Floats
    rows: float
    values: Floats
    within: Floats
    counts: NDArray[np.int64]
    shares: Floats
    complete: bool = False

    def wild_features(self) -> NDArray[np.bool_]:
        """Tell in which features wild values hold most of the variance."""
        wild = self._wild
        squares = self.shares[:, None] * ((self.values - self.mean) ** 2 + self.within)
        held = (squares * wild).sum(axis=0)
        few = self.shares @ wild <= _FEW
        return np.asarray(few & (held > _MOST_OF_VARIANCE * np.maximum(self.variance, 0.0)) & (held > 0))

    def without_wild(self, features: NDArray[np.bool_]) -> ColumnMoments | None:
        """Return moments without the wild values of these features; None if no digit of them is left."""
        wild = self._wild & features
        mean, variance = self.mean.copy(), self.variance.copy()
        for feature in np.flatnonzero(wild.any(axis=0)):
            rest = self._rest(int(feature), wild[:, feature])
            if rest is None:
                return None
            mean[feature], variance[feature] = rest
        scale, center = self.basis.scale, self.basis.center
        return ColumnMoments(
            (mean + self.basis.middle) * scale + center,
            np.maximum(variance, 0.0) * scale**2,
            self.rows,
            self.counts @ wild,
            1.0 - self.shares @ wild,
        )

    def _rest(self, feature: int, wild: NDArray[np.bool_]) -> tuple[float, float] | None:
        """Return mean and variance of a feature without some values; None where no digit is left of them."""
        if self.complete:
            shares, values = self.shares[~wild] / self.shares[~wild].sum(), self.values[~wild, feature]
            mean = float(shares @ values)
            return mean, float(shares @ (values - mean) ** 2)
        shares, within = self.shares[wild], self.within[wild, feature]
        left, away = 1.0 - float(shares.sum()), self.values[wild, feature] - self.mean[feature]
        shift, squares = -float(shares @ away) / left, float(shares @ (away**2 + within))
        variance = (self.variance[feature] - squares) / left - shift**2
        if 32 * np.finfo(float).eps * squares > _ROUNDING * abs(variance):
            return None
        return float(self.mean[feature]) + shift, float(variance)

    @cached_property
    def _wild(self) -> NDArray[np.bool_]:
        if isinstance(self.basis, NystromBasis):
            return _far_beyond(self.values, np.asarray(self.basis.scaled_landmarks) - self.basis.middle)
        return _far_beyond(self.values, self.values)


def _far_beyond(values: Floats, usual: Floats) -> NDArray[np.bool_]:
    """Tell which values of each feature are far beyond most of the usual ones."""
    middle = np.median(usual, axis=0) if len(usual) else np.zeros(values.shape[1])
    away = np.abs(usual - middle)
    # Of those that are away at all: most of a sparse column is 0.
    typical = np.array([np.median(column[column > 0]) if column.any() else np.inf for column in away.T])
    return np.asarray(np.abs(values - middle) > _FAR * typical)


def moments_of_cells(sketch: Sketch) -> ScaledMoments | None:
    """Return those of all rows, with the farthest rows one by one; None without cells."""
    basis, cells = numeric_landmarks(sketch.basis), sketch.cells
    if basis is None or cells is None or not cells.weight.sum() > 0:
        return None
    total = cells.weight.sum()
    weight = cells.weight / total
    sums, squares = (part.high / total for part in (cells.sums, cells.squares))
    origin = np.asarray(basis.scaled_landmarks) - basis.middle  # near 0, to lose no digits
    mean = weight @ origin + sums.sum(axis=0)
    offset = origin - mean
    variance = (squares + 2 * offset * sums + weight[:, None] * offset**2).sum(axis=0)
    rows = float(cells.rows.sum()) * _share_of_independent(sketch)
    wild = _far_beyond(origin, origin).any(axis=1) & (weight > 0)
    centres = sums[wild] / weight[wild, None]
    single = ~wild[cells.far.cells]
    far_shares = np.ones(len(single)) if cells.far.weights is None else cells.far.weights
    far_values = (origin[cells.far.cells] + cells.far.offsets)[single]
    within = np.maximum(squares[wild] / weight[wild, None] - centres**2, 0.0)
    return ScaledMoments(
        basis,
        mean,
        variance,
        rows,
        np.concatenate([origin[wild] + centres, far_values]),
        np.concatenate([within, np.zeros_like(far_values)]),
        np.concatenate([cells.rows[wild], np.ones(len(far_values), np.int64)]),
        np.concatenate([weight[wild], far_shares[single] / total]),
    )


def moments_of_sample(sketch: Sketch) -> ScaledMoments | None:
    """Return those of the sampled rows, which are known one by one; None without a sample."""
    sample, basis = sketch.tally.sample, sketch.basis
    weights = np.ones(len(sample)) if sample.weights is None else sample.weights
    if len(sample) < 2 or not weights.any():
        return None
    rows, shares = np.asarray(sample.rows, np.float64), weights / weights.sum()
    mean = shares @ rows
    count = len(sample) * _share_of_independent(sketch)
    return ScaledMoments(
        basis,
        mean,
        shares @ (rows - mean) ** 2,
        count,
        rows,
        np.zeros_like(rows),
        np.ones(len(rows), np.int64),
        shares,
        complete=True,
    )


def _share_of_independent(sketch: Sketch) -> float:
    """Return how many rows of equal weight a weighted one is worth, on average, by the sample (Kish)."""
    weights = sketch.tally.sample.weights
    if weights is None or not weights.any():
        return 1.0
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))
