"""The range of each number of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nysketch._types import Arrays, Floats
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import RunningValue, Statistic
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


@dataclass(frozen=True, eq=False)
class ColumnRanges(Statistic):
    """Smallest and largest value of each number of a row.

    The one statistic that cannot be subtracted: afterwards it is still a bound, but the rows that reached it
    may be gone, and it is no longer `exact`.
    """

    lower: Floats
    upper: Floats
    exact: bool = True

    @classmethod
    def empty(cls, d: int) -> Self:
        """Return the ranges over no rows of d features."""
        return cls(np.full(d, np.inf), np.full(d, -np.inf))

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return the ranges over no rows."""
        return cls.empty(basis.width)

    def __add__(self, other: Self) -> Self:
        lower, upper = np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper)
        return type(self)(lower, upper, self.exact and other.exact)

    def __sub__(self, other: Self) -> Self:
        return replace(self, exact=False)

    @property
    def some(self) -> bool:
        """Whether there are rows."""
        return bool((self.lower <= self.upper).all())

    def only(self, features: Sequence[int]) -> Self:
        """Return the ranges of some features."""
        return replace(self, lower=self.lower[features], upper=self.upper[features])

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return whether they are exact."""
        return {"exact_ranges": self.exact}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return {"columns.lower": self.lower, "columns.upper": self.upper}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `describe` and `arrays` returned."""
        exact = description["exact_ranges"]
        if not isinstance(exact, bool):
            raise ValueError("it does not say whether its ranges are exact")
        return cls(arrays["columns.lower"], arrays["columns.upper"], exact)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless rows can have these ranges."""
        if any(a.dtype != np.float64 or a.shape != (basis.width,) for a in (self.lower, self.upper)):
            raise ValueError("its column ranges do not match the columns")
        # Of no rows, the ranges are empty: from infinity to minus infinity.
        bounded = np.isfinite(self.lower) & np.isfinite(self.upper) & (self.lower <= self.upper)
        empty = (self.lower == np.inf) & (self.upper == -np.inf)
        # Nor are there any of a column of which all values are missing.
        may_be_empty = np.full(basis.width, not tally.rows)
        for place in basis.layout.places:
            may_be_empty[place.numbers] |= place.column.kind is not None
        if not (bounded | (empty & may_be_empty)).all():
            raise ValueError("its column ranges are impossible")

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return whether they are exact; the ranges themselves are shown with the columns."""
        return {"ranges": "exact" if self.exact else "bounds"}

    # ---- the pass

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what unites the ranges of chunks."""
        return lambda chunk_rows: _Collector(basis.width)

    def running(self, basis: Basis, options: PassOptions) -> RunningValue:
        """Return a running total that starts from this."""
        return RunningValue(self)


class _Collector:
    def __init__(self, d: int) -> None:
        self._d = d

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._ranges = ColumnRanges.empty(self._d)

    def add(self, chunk: EvaluatedChunk) -> None:
        self._ranges = self._ranges + ColumnRanges(chunk.chunk.lower, chunk.chunk.upper)

    def finish(self) -> ColumnRanges:
        return self._ranges
