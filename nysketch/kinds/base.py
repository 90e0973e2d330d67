"""What every kind of column can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats


@dataclass(frozen=True)
class Kind:
    """How the values of a column become features. NaN is a missing value."""

    name: ClassVar[str]
    width: ClassVar[int] = 1  # how many numbers a row has for the column

    @property
    def features(self) -> int:
        """How many features a value has."""
        raise NotImplementedError

    def labels(self, column: str) -> list[str]:
        """Return a name for each feature."""
        raise NotImplementedError

    def expand(self, values: Floats) -> Floats:
        """Return the features of values, one row each: finite numbers, also where values are missing.

        Values are a vector, or rows × width where that is more than one.
        """
        raise NotImplementedError

    def ends(self, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return the smallest and largest features of values between two ends, or of missing ones."""
        raise NotImplementedError

    def value(self, number: float) -> Any:
        """Return what a number of a row represents, ready for JSON; None for a missing value."""
        return None if np.isnan(number) else float(number)

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """Which features are 0 or 1."""
        return np.zeros(self.features, bool)

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays, ready for JSON."""
        return {"kind": self.name}

    def arrays(self) -> Arrays:
        """Return what is too large for a header."""
        return {}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays) -> Kind:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where that is impossible."""
        raise NotImplementedError


def finite_number(value: Any, what: str) -> float:
    """Return a number of a file, or raise ValueError."""
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise ValueError(f"{what} of a column is not a number")
    return float(value)


def flag(value: Any, what: str) -> bool:
    """Return a truth value of a file, or raise ValueError."""
    if type(value) is not bool:
        raise ValueError(f"{what} of a column is neither true nor false")
    return value
