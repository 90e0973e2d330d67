"""Categories: a vocabulary of values, one code for all others, one for missing values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._support.string_arrays import text_arrays, text_from_arrays
from nysketch._types import Arrays, Floats
from nysketch.kinds.base import Kind

OTHER, MISSING = "(other)", "(missing)"
LARGEST_VOCABULARY = 1 << 16


@dataclass(frozen=True)
class Category(Kind):
    """A value of a vocabulary has its place there as its code; others have the next, missing ones the last.

    A vocabulary without values is not known yet.
    """

    values: tuple[str, ...] = ()

    name: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        if len(set(self.values)) < len(self.values) or len(self.values) > LARGEST_VOCABULARY:
            raise ValueError("the vocabulary of a column is impossible")

    @property
    def features(self) -> int:
        """An indicator for each code."""
        return len(self.values) + 2

    @property
    def other(self) -> int:
        """The code of values that are not in the vocabulary."""
        return len(self.values)

    @property
    def missing(self) -> int:
        """The code of missing values."""
        return len(self.values) + 1

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of each value of the vocabulary."""
        return {value: code for code, value in enumerate(self.values)}

    def label(self, code: int) -> str:
        """Return what a code represents."""
        return (*self.values, OTHER, MISSING)[code]

    def value(self, number: float) -> str | None:
        """Return the text of a code, `(other)` for values that are not in the vocabulary."""
        code = int(self.codes(np.array([number]))[0])
        return None if code == self.missing else self.label(code)

    def labels(self, column: str) -> list[str]:
        """Return column=value for each code."""
        return [f"{column}={self.label(code)}" for code in range(self.features)]

    def codes(self, values: Floats) -> NDArray[np.int64]:
        """Return the codes of values as integers; what is no code is another value."""
        known = (values >= 0) & (values < self.features)
        codes = np.where(known, values, np.where(np.isnan(values), self.missing, self.other))
        return codes.astype(np.int64)

    def expand(self, values: Floats) -> Floats:
        """Return the indicators."""
        out = np.zeros((len(values), self.features))
        out[np.arange(len(values)), self.codes(values)] = 1.0
        return out

    def ends(self, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return 0 and 1."""
        return np.zeros(self.features), np.ones(self.features)

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """All of them."""
        return np.ones(self.features, bool)

    def describe(self) -> dict[str, Any]:
        """Return the size of the vocabulary."""
        return super().describe() | {"values": len(self.values)}

    def arrays(self) -> Arrays:
        """Return the vocabulary."""
        return text_arrays("values", np.array(self.values, object))

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays) -> Category:
        """Rebuild from what `describe` and `arrays` returned."""
        values = tuple(text_from_arrays("values", arrays).tolist())
        if description["values"] != len(values):
            raise ValueError("the vocabulary of a column has another size")
        return cls(values)
