"""The rows of a chunk as the hot loop takes them: numbers to multiply, codes of categories to look up.

Products with indicators would be products with zeros: of ten categories of fifty values, 0.8 s for 65,536
rows and 1,000 landmarks, where ten numbers take 0.01 s. Looked up (product.py), they take 0.013 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import compiled
from nysketch._types import Floats, Indices, Rows
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis

Codes = NDArray[np.int32]


@compiled()
def _codes(values, count, codes):
    """Write `count` - 1 where a value is missing, and `count` - 2 where it is no code: as Category does."""
    for i in range(len(values)):
        value = values[i]
        code = count - 2
        if 0 <= value < count:
            code = int(value)
        elif np.isnan(value):
            code = count - 1
        codes[i] = code


@dataclass(frozen=True)
class Points:
    """Rows of a chunk; the features of them that are no indicators of categories; and the codes of these.

    Where no column has a kind, the numbers are the rows themselves, and there are no codes.
    """

    rows: Rows
    numbers: Floats
    codes: Codes

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Categories:
    """The categories of landmarks: their codes, and what other codes are away from them.

    `starts` are the features that codes are counted from, and `sides` what an indicator is once it is scaled:
    two rows with different codes differ by a side in two features.
    """

    codes: Codes
    counts: Indices
    starts: Indices
    sides: Floats

    @property
    def squares(self) -> Floats:
        """The squared distance of two different codes of each category, scaled."""
        return 2.0 * self.sides**2


class PointMaker:
    """Makes points of rows at a basis."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis

    @cached_property
    def dense(self) -> Indices:
        """The features that are numbers of points."""
        basis = self._basis
        return basis.layout.dense if basis.encoded else np.arange(basis.d)

    def __call__(self, rows: Rows) -> Points:
        """Return the points of rows."""
        layout = self._basis.layout
        if not self._basis.encoded:
            return Points(rows, rows, np.empty((len(rows), 0), np.int32))
        codes = np.empty((len(rows), len(layout.categories)), np.int32)
        for i, place in enumerate(layout.categories):
            _codes(rows[:, place.numbers.start], place.column.features, codes[:, i])
        return Points(rows, layout.expand_dense(rows), codes)

    def landmarks(self) -> Points:
        """Return the landmarks as points."""
        assert isinstance(self._basis, NystromBasis)
        return self(self._basis.landmarks)

    def categories(self) -> Categories:
        """Return the categories of the landmarks."""
        basis, places = self._basis, self._basis.layout.categories
        starts = np.array([place.features.start for place in places], np.int64)
        counts = np.array([place.column.features for place in places], np.int64)
        sides = 1.0 / basis.scale[starts]
        return Categories(np.ascontiguousarray(self.landmarks().codes), counts, starts, sides)
