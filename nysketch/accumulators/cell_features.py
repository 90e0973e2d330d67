"""How the features of rows reach the sums of cells: numbers several at a time, categories by their codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Indices
from nysketch.basis.nystrom import NystromBasis
from nysketch.kinds import Category

if TYPE_CHECKING:
    from nysketch.tiles.points import Points


@dataclass(frozen=True)
class Numbers:
    """Features that follow each other, none of them an indicator of a category."""

    numbers: slice  # of points
    features: slice
    basis: NystromBasis
    landmarks: Floats

    def add(
        self,
        points: Points,
        nearest: Indices,
        weights: Floats,
        sums: Floats,
        squares: Floats,
        distances: Floats,
    ) -> None:
        """Add them to the sums and squares of cells, and to the squared distances from landmarks."""
        from nysketch.tiles.nearest import add_to_cells

        basis, at = self.basis, self.features
        whole = at == slice(0, basis.d)  # another layout in memory would be compiled again
        add_to_cells(
            points.numbers if whole else np.asfortranarray(points.numbers[:, self.numbers]),
            nearest, weights, basis.center[at], basis.scale[at], self.landmarks[at],
            sums[at], squares[at], distances,
        )  # fmt: skip


@dataclass(frozen=True)
class Codes:
    """The indicators of one category."""

    column: int  # of the codes of points
    start: int
    side: float
    landmarks: NDArray[np.int32]  # with −1 for the cell of rows that are in none

    def add(
        self,
        points: Points,
        nearest: Indices,
        weights: Floats,
        sums: Floats,
        squares: Floats,
        distances: Floats,
    ) -> None:
        """Add them to the sums and squares of cells, and to the squared distances from landmarks."""
        from nysketch.tiles.nearest import add_codes_to_cells

        codes = np.ascontiguousarray(points.codes[:, self.column])
        add_codes_to_cells(
            codes, nearest, weights, self.landmarks, self.side, self.start, sums, squares, distances
        )


def features_in_order(basis: NystromBasis, columns: Floats) -> list[Numbers | Codes]:
    """Return the features of a basis, in their order: distances are summed in it."""
    runs: list[Numbers | Codes] = []
    codes = basis.layout.codes(basis.landmarks) if basis.encoded else np.empty((basis.m, 0), np.int32)
    number, category = 0, 0
    for place in basis.layout.places:
        at = place.features
        if isinstance(place.column.kind, Category):
            own = np.append(codes[:, category], np.int32(-1)).astype(np.int32)
            runs.append(Codes(category, at.start, float(1.0 / basis.scale[at.start]), own))
            category += 1
            continue
        numbers = slice(number, number + place.column.features)
        number = numbers.stop
        last = runs[-1] if runs else None
        if isinstance(last, Numbers):
            runs[-1] = Numbers(
                slice(last.numbers.start, number), slice(last.features.start, at.stop), basis, columns
            )
        else:
            runs.append(Numbers(numbers, at, basis, columns))
    return runs
