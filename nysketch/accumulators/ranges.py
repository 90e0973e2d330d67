"""The range of each feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch._types import Arrays, Floats


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """Smallest and largest value of each feature.

    The one statistic that cannot be subtracted: afterwards it is still a bound, but the rows that reached it
    may be gone, and it is no longer `exact`.
    """

    lower: Floats
    upper: Floats
    exact: bool = True

    @classmethod
    def empty(cls, d: int) -> ColumnRanges:
        """Return the ranges over no rows."""
        return cls(np.full(d, np.inf), np.full(d, -np.inf))

    def __add__(self, other: ColumnRanges) -> ColumnRanges:
        lower, upper = np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper)
        return ColumnRanges(lower, upper, self.exact and other.exact)

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return {"columns.lower": self.lower, "columns.upper": self.upper}

    @classmethod
    def from_arrays(cls, arrays: Arrays, *, exact: bool) -> ColumnRanges:
        """Rebuild from what `arrays` returned."""
        return cls(arrays["columns.lower"], arrays["columns.upper"], exact)
