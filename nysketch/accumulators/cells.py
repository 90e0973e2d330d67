"""Cells: every row falls into the cell of its nearest landmark, which keeps its sums.

The nearest landmark is the one at the smallest Euclidean distance in scaled units, whatever the kernel; of
several, the first. Sums are relative to it, so that they lose no digits however far from 0 the data is.
Which cell a row is in depends on the row and the basis alone (tiles/nearest.py finds it), and the sums are
exact (exact.py), so cells add and subtract to the bit like everything else in a sketch.

The rows farthest from their landmarks are kept besides, one by one: they are few, and some of them are
what people look for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.sample import LARGEST_KEY, RowSample
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis

# 500 rows take 44 kB of the file at 10 features; of wide rows a few must do.
DEFAULT_FAR_ROWS = 500
_DEFAULT_BYTES = 2 << 20
_FEWEST = 50

# A row farther than so many spreads from its landmark, in any column, is in no cell: 1e300 is a mistake and
# would drown everything else. Squares of what is left, on a grid of 2**-44, stay exact (2**105 times the
# grid) for 8192 rows at the very limit in one cell.
EXTENT = 2.0**24

# The relative error of sums of float64 numbers over some million rows, at worst.
_SUMMED = 1e-10


def default_far_rows(d: int) -> int:
    """Return how many far rows of d features to keep."""
    return int(np.clip(_DEFAULT_BYTES // (8 * (d + 1)), _FEWEST, DEFAULT_FAR_ROWS))


def numeric_landmarks(basis: Basis) -> NystromBasis | None:
    """Return the basis if its landmarks are points in space, which cells need."""
    return basis if isinstance(basis, NystromBasis) and not basis.text else None


def spreads(basis: NystromBasis) -> Floats:
    """Return a power of two near the spread of the landmarks in each column: the unit of its grids."""
    deviations = np.abs(basis.scaled_landmarks - basis.middle)
    # Of those that deviate at all: most of a sparse column is 0. Medians, since landmarks may be far out.
    found = np.array([np.median(column[column > 0]) if column.any() else 0.0 for column in deviations.T])
    if not found.any():  # a single landmark: its values are all that is known
        found = np.maximum(np.abs(basis.middle), 1.0)
    typical = np.median(found[found > 0])
    # Where all landmarks agree, rows will hardly differ more than in other columns; where they differ in
    # their last digits only, these are not what distances are made of.
    found = np.clip(np.where(found > 0, found, 2.0**-8 * typical), 2.0**-20 * typical, None)
    # Squares must be numbers, also of a thousand billion rows with such weights.
    return np.asarray(np.ldexp(1.0, np.clip(np.frexp(found)[1] - 1, -440, 440)))


def key_of_distance(squared: Floats) -> NDArray[np.int64]:
    """Return keys that are the smaller, the larger the squared distance is."""
    # The bits of positive float64 numbers, read as integers, are in the order of the numbers.
    return LARGEST_KEY - squared.view(np.int64)


@dataclass(frozen=True, eq=False)
class FarRows:
    """The rows farthest from their landmarks: as many as fit, farthest first.

    A RowSample does the work. Its keys fall as the distance grows, so those up to its bound are the rows
    beyond some distance; they can be united, and taken away, like those of any other sample.
    """

    kept: RowSample  # rows of [cell, offset from its landmark (d numbers, scaled)] in float64

    @classmethod
    def empty(cls, capacity: int, d: int, *, weighted: bool) -> FarRows:
        """Return the far ones of no rows."""
        return cls(RowSample.empty(capacity, d + 1, text=False, weighted=weighted, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def cells(self) -> NDArray[np.int64]:
        """The cell that each row is in."""
        return self.kept.rows[:, 0].astype(np.int64)

    @property
    def offsets(self) -> Floats:
        """The rows relative to the landmarks of their cells, in scaled units."""
        return np.asarray(self.kept.rows[:, 1:])

    @property
    def weights(self) -> Floats | None:
        """Their weights; None where rows have none."""
        return self.kept.weights

    def __add__(self, other: FarRows) -> FarRows:
        return FarRows(self.kept + other.kept)

    def __sub__(self, other: FarRows) -> FarRows:
        return FarRows(self.kept - other.kept)


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows, weight, sum and sum of squares of the rows nearest to each landmark, relative to it, scaled."""

    rows: NDArray[np.int64]  # m
    weights: ExactSum | None  # m; None where rows have no weights
    sums: ExactSum  # m × d: Σ w (x − z_cell)
    squares: ExactSum  # m × d: Σ w (x − z_cell)²
    far: FarRows  # the rows farthest from their landmarks; they are in the cells, too
    beyond: int  # rows too far from every landmark to be in any cell

    @classmethod
    def zeros(cls, basis: NystromBasis, *, far_rows: int, weighted: bool) -> Cells:
        """Return the cells of no rows."""
        return cls(
            np.zeros(basis.m, np.int64),
            ExactSum.zeros(basis.m) if weighted else None,
            ExactSum.zeros((basis.m, basis.d)),
            ExactSum.zeros((basis.m, basis.d)),
            FarRows.empty(far_rows, basis.d, weighted=weighted),
            0,
        )

    @property
    def weight(self) -> Floats:
        """The weight of each cell: its number of rows where they have no weights."""
        return self.rows.astype(np.float64) if self.weights is None else self.weights.high

    @property
    def means(self) -> Floats:
        """The mean of each cell relative to its landmark, m × d; 0 where there are no rows."""
        return self.sums.high * self._inverse_weight()[:, None]

    @property
    def scatter(self) -> Floats:
        """Σ w (x − mean of the cell)² of each cell and column, m × d."""
        # What rounding leaves of nothing may be negative.
        return np.maximum(self.squares.high - self.sums.high * self.means, 0.0) * (self.rows > 0)[:, None]

    def doubts(self, basis: NystromBasis) -> Floats:
        """Return what Σ w (x − c)² of a cell may be larger by than its sums say, for any c: m × d.

        Sums of n terms are good to n·2**-53 of them; those of a fragment are then rounded to a grid, of which
        there are at most as many as rows. What was subtracted may have had more rows: up to 1e-9.
        """
        rows = self.rows.astype(np.float64)
        fine, grid = (0.0, 2.0**-43) if self.weights is None else (2.0**-64, 2.0**-63)
        share = _SUMMED + fine * rows / np.maximum(self.weight, 1e-300)
        return 4 * share[:, None] * self.squares.high + grid * rows[:, None] * spreads(basis) ** 2

    def _inverse_weight(self) -> Floats:
        some = (self.rows > 0) & (self.weight > 0)
        return np.divide(1.0, self.weight, out=np.zeros(len(self.rows)), where=some)

    def __add__(self, other: Cells) -> Cells:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights + other.weights
        return Cells(
            self.rows + other.rows,
            weights,
            self.sums + other.sums,
            self.squares + other.squares,
            self.far + other.far,
            self.beyond + other.beyond,
        )

    def __sub__(self, other: Cells) -> Cells:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights - other.weights
        return Cells(
            self.rows - other.rows,
            weights,
            self.sums - other.sums,
            self.squares - other.squares,
            self.far - other.far,
            self.beyond - other.beyond,
        )

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"beyond": self.beyond, "far": self.far.kept.describe()}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        weights = {} if self.weights is None else self.weights.arrays("cells.weights")
        return {
            "cells.rows": self.rows,
            **weights,
            **self.sums.arrays("cells.sums"),
            **self.squares.arrays("cells.squares"),
            **self.far.kept.arrays("far"),
        }

    @classmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: NystromBasis, *, weighted: bool
    ) -> Cells:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where they do not fit."""
        weights = ExactSum.from_arrays("cells.weights", arrays) if weighted else None
        sums, squares = (ExactSum.from_arrays(f"cells.{name}", arrays) for name in ("sums", "squares"))
        rows, shape = arrays["cells.rows"], (basis.m, basis.d)
        if rows.shape != shape[:1] or (weights is not None and weights.high.shape != shape[:1]):
            raise ValueError(f"counts do not fit {basis.m} cells")
        if sums.high.shape != shape or squares.high.shape != shape:
            raise ValueError("the sums of cells do not fit the landmarks")
        far = RowSample.from_arrays(
            description["far"],
            arrays,
            basis.d + 1,
            text=False,
            weighted=weighted,
            name="far",
            dtype=np.float64,
        )
        return cls(rows, weights, sums, squares, FarRows(far), description["beyond"])
