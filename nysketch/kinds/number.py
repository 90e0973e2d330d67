"""Numbers: as they are, by logarithm or by rank; missing ones at the centre, with an indicator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.kinds.base import Kind, finite_number, flag

LINEAR, LOG, RANK = "linear", "log", "rank"
TRANSFORMS = (LINEAR, LOG, RANK)

# Beyond the outermost quantiles of the pilot, ranks go on with the slope of the outermost two.
_FARTHEST_RANK = 12.0


@dataclass(frozen=True, eq=False)
class Number(Kind):
    """A number, transformed; and whether it is missing, if values of the pilot were.

    `log` is sign(x) log(1 + |x|). `rank` is the normal score at quantiles of the pilot, linear in between:
    `knots` has quantiles and their scores, both increasing. A missing value has the feature `neutral`.
    """

    transform: str = LINEAR
    missing: bool = False
    neutral: float = 0.0
    knots: Floats | None = None  # 2 × quantiles

    name: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ValueError(f"the transform of a column is unknown: {self.transform!r}")
        if (self.knots is None) != (self.transform != RANK):
            raise ValueError("a column has ranks without quantiles, or quantiles without ranks")
        if self.knots is not None:
            knots = np.ascontiguousarray(self.knots, np.float64)
            if knots.ndim != 2 or knots.shape[0] != 2 or knots.shape[1] < 1 or not np.isfinite(knots).all():
                raise ValueError("the quantiles of a column are impossible")
            if not (np.diff(knots, axis=1) > 0).all():
                raise ValueError("the quantiles of a column do not increase")
            object.__setattr__(self, "knots", knots)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number):
            return NotImplemented
        same = (self.transform, self.missing, self.neutral) == (other.transform, other.missing, other.neutral)
        if self.knots is None or other.knots is None:
            return same and self.knots is other.knots
        return same and np.array_equal(self.knots, other.knots)

    def __hash__(self) -> int:
        return hash((self.transform, self.missing, self.neutral))

    @property
    def features(self) -> int:
        """The transformed number, and whether it is missing."""
        return 1 + self.missing

    def labels(self, column: str) -> list[str]:
        """Return the name of the column, of its logarithm or rank, and of its missing values."""
        name = column if self.transform == LINEAR else f"{self.transform}({column})"
        return [name, f"{column} is missing"][: self.features]

    def transformed(self, values: Floats) -> Floats:
        """Return transformed numbers; NaN stays NaN."""
        if self.transform == LOG:
            return np.asarray(np.copysign(np.log1p(np.abs(values)), values))
        if self.knots is None:
            return values
        return _along(values, self.knots[0], self.knots[1])

    def restored(self, features: Floats) -> Floats:
        """Return the numbers that have these transformed values."""
        if self.transform == LOG:
            with np.errstate(over="ignore"):
                return np.asarray(np.copysign(np.expm1(np.abs(features)), features))
        if self.knots is None:
            return features
        return _along(features, self.knots[1], self.knots[0])

    def expand(self, values: Floats) -> Floats:
        """Return transformed numbers, and which are missing."""
        gone = np.isnan(values)
        out = np.empty((len(values), self.features))
        out[:, 0] = np.where(gone, self.neutral, self.transformed(values))
        if self.missing:
            out[:, 1] = gone
        return out

    def ends(self, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return the ends of transformed numbers; all transforms increase."""
        low, high = self.transformed(np.array([lower, upper]))
        # Missing values are in between, unless all are missing.
        low, high = np.fmin(low, self.neutral), np.fmax(high, self.neutral)
        return np.array([low, 0.0][: self.features]), np.array([high, 1.0][: self.features])

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """That of missing values."""
        return np.array([False, True][: self.features])

    def describe(self) -> dict[str, Any]:
        """Return everything but the quantiles."""
        about = {"missing": self.missing, "neutral": self.neutral, "transform": self.transform}
        return super().describe() | about

    def arrays(self) -> Arrays:
        """Return the quantiles."""
        return {} if self.knots is None else {"knots": self.knots}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays) -> Number:
        """Rebuild from what `describe` and `arrays` returned."""
        return cls(
            str(description["transform"]),
            flag(description["missing"], "the flag of missing values"),
            finite_number(description["neutral"], "the neutral value"),
            arrays.get("knots"),
        )


def _along(values: Floats, x: Floats, y: Floats) -> Floats:
    """Interpolate linearly, and go on beyond the outermost points with the slope there, but not for ever."""
    inside = np.interp(values, x, y)
    if len(x) < 2:
        return np.where(np.isnan(values), np.nan, inside + (values - x[0]) * 0.0)
    slope = np.array([(y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2])])
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.where(values < x[0], (values - x[0]) * slope[0], 0.0)
        above = np.where(values > x[-1], (values - x[-1]) * slope[1], 0.0)
        return np.asarray(inside + below + above)


def rank_knots(values: Floats, most: int = 201) -> Floats:
    """Return quantiles of values and their normal scores: distinct quantiles, each with its mean score."""
    from scipy.special import ndtri

    ordered = np.sort(values[np.isfinite(values)])
    n = len(ordered)
    count = min(most, n)
    at = np.unique(np.rint(np.linspace(0, n - 1, count)).astype(np.int64))
    quantiles = np.unique(ordered[at])
    # Ties share the middle of their ranks.
    first, last = np.searchsorted(ordered, quantiles), np.searchsorted(ordered, quantiles, side="right")
    scores = ndtri((first + last) / (2 * n))
    return np.stack([quantiles, scores])
