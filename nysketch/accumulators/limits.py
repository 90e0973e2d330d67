"""What sums over rows can be: anybody can compute a checksum, and write any number beside it.

The sum of a function over rows is within their weight times the range of its values. Kernels without a bound
have one within the ranges of the columns. What a subtraction leaves was rounded when there were more rows, of
which nothing is known any more: there the limit is what a pass can have added up at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.grids import LARGEST_WEIGHT, SLACK
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels.boxes import values_in_box

# Counts beyond are no longer exact as float64.
MOST_ROWS = 2**53

# The exact sum of a fragment is at most 2**60 times as large as a value is typically, and there are not more
# fragments than rows.
LARGEST_SUM = 2.0**60 * MOST_ROWS

# What rounding may leave of rows that were all taken away, in units of a row.
_LEFT_BEHIND = 1e-2


@dataclass(frozen=True)
class Limits:
    """The smallest and the largest value of each of m functions at some rows, and their magnitude.

    `exact` if they are those of just these rows; otherwise, what was subtracted has left traces.
    """

    low: Floats
    high: Floats
    magnitudes: Floats
    exact: bool

    @classmethod
    def of(cls, basis: Basis, ranges: ColumnRanges) -> Limits:
        """Return the limits of a basis, at rows with these ranges of columns."""
        low, high = (np.full(basis.m, end) for end in basis.range)
        bounded = bool(np.isfinite(basis.range).all())
        if not bounded and isinstance(basis, NystromBasis) and ranges.exact and ranges.some:
            with np.errstate(over="ignore"):
                ends = basis.scaled_ends(ranges.lower, ranges.upper)
            low, high = values_in_box(basis.kernel, ends[0], ends[1], basis.scaled_landmarks)
        return cls(low, high, basis.magnitudes(), ranges.exact and ranges.some)

    def slack(self, weight: Any, *, weighted: bool) -> Floats:
        """Return what rounding may do to sums over rows of this weight."""
        # Rows may be much smaller than landmarks: their values are rounded like those of landmarks.
        size = np.maximum.reduce([np.abs(self.low), np.abs(self.high), self.magnitudes])
        with np.errstate(over="ignore"):
            return np.asarray((SLACK * weight + (0.0 if weighted else _LEFT_BEHIND)) * size)

    def require(self, what: str, sums: Floats, weight: Floats, *, weighted: bool) -> None:
        """Raise ValueError unless rows of these weights can have such sums, … × m."""
        possible = bool((np.abs(sums) <= LARGEST_SUM * self.magnitudes).all())
        if possible and self.exact:
            with np.errstate(over="ignore", invalid="ignore"):  # of hostile numbers; NaN is no limit
                slack = self.slack(weight[..., None], weighted=weighted)
                below = sums < _product(weight, self.low) - slack
                possible = not (below | (sums > _product(weight, self.high) + slack)).any()
        if not possible:
            raise ValueError(f"{what} are impossible for its rows")


def _product(weight: Floats, values: Floats) -> Floats:
    """Multiply, … × m; no rows have no values, however large those could be."""
    return np.where(weight[..., None] > 0, weight[..., None] * values, 0.0)


def require_weights(what: str, weights: Floats, rows: NDArray[np.int64], *, exact: bool) -> None:
    """Raise ValueError unless so many rows can have these weights."""
    most = LARGEST_WEIGHT * (rows.astype(np.float64) if exact else MOST_ROWS)
    slack = 0.0 if exact else LARGEST_WEIGHT * MOST_ROWS
    if (weights > most * (1 + SLACK)).any() or (weights < -slack).any():
        raise ValueError(f"{what} are impossible for its rows")
