"""Text: places on a sphere, near each other where texts share pieces of words.

A row has DIMENSIONS numbers for a text, which sources/text_vectors.py makes of it when it is read: they
cannot be turned back into the text. Missing texts are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.kinds.base import Kind, flag

# The angle between two texts is known to 1/√32, or 10 degrees: 64 would be 7, at twice the size.
DIMENSIONS = 32
# What is shown instead of a text of which only the place is known.
PLACE = "(text)"


@dataclass(frozen=True)
class Text(Kind):
    """The place of a text, and whether it is missing, if texts of the pilot were.

    A missing text is in the middle of the sphere, as are texts without characters.
    """

    missing: bool = False

    name: ClassVar[str] = "text"
    width: ClassVar[int] = DIMENSIONS

    @property
    def features(self) -> int:
        """The coordinates of the place, and whether the text is missing."""
        return DIMENSIONS + self.missing

    def labels(self, column: str) -> list[str]:
        """Return numbered names, and one for missing texts."""
        places = [f"{column}[{i}]" for i in range(DIMENSIONS)]
        return [*places, *([f"{column} is missing"] if self.missing else [])]

    def expand(self, values: Floats) -> Floats:
        """Return the coordinates of rows × DIMENSIONS numbers, and which texts are missing."""
        gone = np.asarray(np.isnan(values).any(axis=1))
        out = np.empty((len(values), self.features))
        out[:, :DIMENSIONS] = np.where(gone[:, None], 0.0, values)
        if self.missing:
            out[:, DIMENSIONS] = gone
        return out

    def ends(self, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return −1 and 1; for missing texts 0 and 1."""
        low = np.full(self.features, -1.0)
        low[DIMENSIONS:] = 0.0
        return low, np.ones(self.features)

    def value(self, number: float) -> str | None:
        """Return (text), for a number of a place, which does not tell the text; None if missing."""
        return None if np.isnan(number) else PLACE

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """That of missing texts."""
        return np.array([False] * DIMENSIONS + [True] * self.missing)

    def describe(self) -> dict[str, Any]:
        """Return everything."""
        return super().describe() | {"dimensions": DIMENSIONS, "missing": self.missing}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays) -> Text:
        """Rebuild from what `describe` returned."""
        del arrays  # there are none
        if description["dimensions"] != DIMENSIONS:
            raise ValueError("the texts of a column have an unknown number of dimensions")
        return cls(flag(description["missing"], "the flag of missing values"))
