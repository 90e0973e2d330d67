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
    from nysketch.accumulators.cell_pass import Part
    from nysketch.tiles.points import Points


@dataclass(frozen=True, eq=False)
class CellFrame:
    """Which features have sums in cells, and which are indicators of categories, of which weights are enough.

    A row whose value is not that of its landmark is a side away from it in two indicators: all sums and
    squares follow from the weights of these rows by value.
    """

    d: int
    dense: Indices
    features: Indices  # the indicators of categories
    firsts: Indices  # where those of each category begin among them
    own: tuple[Indices, Indices]  # the value of each landmark in each category: rows and columns
    sides: Floats  # of each indicator

    @classmethod
    def of(cls, basis: NystromBasis) -> CellFrame:
        """Return the frame of a basis."""
        layout = basis.layout
        at = [np.arange(p.features.start, p.features.stop) for p in layout.categories]
        features = np.concatenate([*at, np.empty(0, np.int64)]).astype(np.int64)
        firsts = np.cumsum([0, *map(len, at)])[: len(at)].astype(np.int64)
        codes = layout.codes(basis.landmarks) if len(at) else np.empty((basis.m, 0), np.int32)
        dense = layout.dense if len(at) else np.arange(basis.d)
        rows, _ = np.indices(codes.shape)
        own = rows.ravel(), (codes + firsts).astype(np.int64).ravel()
        return cls(basis.d, dense, features, firsts, own, 1.0 / basis.scale[features])

    def by_category(self, values: Floats) -> Floats:
        """Return the weights of all other values than those of landmarks, m × categories."""
        return np.asarray(np.add.reduceat(values, self.firsts, axis=1))

    def sums_of_values(self, values: Floats) -> Floats:
        """Return Σ w (x − z) of the indicators."""
        sums = values.copy()
        sums[self.own] = -self.by_category(values).ravel()
        return sums * self.sides

    def squares_of_values(self, values: Floats) -> Floats:
        """Return Σ w (x − z)² of the indicators."""
        squares = values.copy()
        squares[self.own] = self.by_category(values).ravel()
        return squares * self.sides**2


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
        part: Part,
        distances: Floats,
    ) -> None:
        """Add them to the sums of cells, and to the squared distances from landmarks."""
        from nysketch.tiles.nearest import add_to_cells

        basis, at = self.basis, self.features
        own, whole = self.numbers, at == slice(0, basis.d)  # another layout in memory would be compiled again
        add_to_cells(
            points.numbers if whole else np.asfortranarray(points.numbers[:, own]),
            nearest, weights, basis.center[at], basis.scale[at], self.landmarks[at],
            part.sums[own], part.squares[own], distances,
        )  # fmt: skip


@dataclass(frozen=True)
class Codes:
    """The indicators of one category."""

    column: int  # of the codes of points
    start: int  # of the indicators of categories
    square: float  # of the side
    landmarks: NDArray[np.int32]  # and one more, for rows that are in no cell

    def add(
        self,
        points: Points,
        nearest: Indices,
        weights: Floats,
        part: Part,
        distances: Floats,
    ) -> None:
        """Add them to the squared distances from landmarks; cells wait for more rows."""
        from nysketch.tiles.nearest import add_code_distances

        codes = np.ascontiguousarray(points.codes[:, self.column])
        add_code_distances(codes, nearest, self.landmarks, self.square, distances)

    def add_to_cells(self, codes: NDArray[np.int32], nearest: Indices, weights: Floats, part: Part) -> None:
        """Add the weights of rows to those of their values."""
        from nysketch.tiles.nearest import add_codes_to_cells

        own = np.ascontiguousarray(codes[:, self.column])
        add_codes_to_cells(own, nearest, weights, self.start, part.values)


def features_in_order(basis: NystromBasis, columns: Floats) -> list[Numbers | Codes]:
    """Return the features of a basis, in their order: distances are summed in it."""
    runs: list[Numbers | Codes] = []
    codes = basis.layout.codes(basis.landmarks) if basis.encoded else np.empty((basis.m, 0), np.int32)
    number, category, value = 0, 0, 0
    for place in basis.layout.places:
        at = place.features
        if isinstance(place.column.kind, Category):
            own = np.append(codes[:, category], np.int32(-1)).astype(np.int32)
            side = float(1.0 / basis.scale[at.start])
            runs.append(Codes(category, value, side * side, own))
            category, value = category + 1, value + place.column.features
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
