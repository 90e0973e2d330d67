"""Points: rows summed up as weighted points, each with a spread. What is clustered when the rows are gone.

They come from the cells of a sketch (and the far rows that it keeps one by one), from landmarks with
weights, or from a sample. k-means and EM see them through this module only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis

if TYPE_CHECKING:
    from nysketch.accumulators.cells import Cells


# Rows drawn from points: 50,000 up to 80 features, then 32 MB worth.
_DRAWN_NUMBERS = 4_000_000
_FEWEST_DRAWN, _MOST_DRAWN = 2000, 50_000


def round_to_grid(values: Floats, unit: Floats | float) -> Floats:
    """Return values on a grid of 2**-33 units.

    The same rows in another order have sums that differ in the last digit, and a search from many starts
    would make another model of that.
    """
    grid = np.exp2(np.floor(np.log2(np.where(np.asarray(unit) > 0, unit, 1.0))) - 33)
    return np.asarray(np.rint(values / grid) * grid)


def usual_draws(d: int) -> int:
    """Return how many rows of d features to draw."""
    return int(np.clip(_DRAWN_NUMBERS // d, _FEWEST_DRAWN, _MOST_DRAWN))


@dataclass(frozen=True, eq=False)
class Points:
    """Weights p, means p × d and variances p × d, in scaled units; no weight is 0."""

    weights: Floats
    means: Floats
    variances: Floats

    def __len__(self) -> int:
        return len(self.weights)

    @classmethod
    def of_rows(cls, rows: Floats, weights: Floats | None = None) -> Points:
        """Return rows as points without spread."""
        weights = np.ones(len(rows)) if weights is None else weights
        kept = weights > 0
        return cls(weights[kept], rows[kept], np.zeros_like(rows[kept]))

    @classmethod
    def of_cells(cls, cells: Cells, basis: NystromBasis, *, cautious: bool = False) -> Points:
        """Return a point for each cell, without its far rows, and one for each far row.

        If cautious, variances are as large as they can be, given how sums are rounded.
        """
        far = cells.far
        alone = np.ones(len(far)) if far.weights is None else far.weights
        rows, weights = cells.rows.copy(), cells.weight.copy()
        sums, squares = cells.sums.high.copy(), cells.squares.high.copy()
        np.subtract.at(rows, far.cells, 1)
        np.subtract.at(weights, far.cells, alone)
        np.subtract.at(sums, far.cells, alone[:, None] * far.offsets)
        np.subtract.at(squares, far.cells, alone[:, None] * far.offsets**2)
        # What is left of a cell that had far rows only is rounding.
        kept, heavy = (rows > 0) & (weights > 0), alone > 0
        means = sums[kept] / weights[kept, None]
        variances = np.maximum(squares[kept] / weights[kept, None] - means**2, 0.0)
        if cautious:
            variances += cells.rounding_bound(basis)[kept] / weights[kept, None]
        Z = basis.scaled_landmarks
        return cls(
            np.concatenate([weights[kept], alone[heavy]]),
            np.concatenate([Z[kept] + means, (Z[far.cells] + far.offsets)[heavy]]),
            np.concatenate([variances, np.zeros((int(heavy.sum()), basis.d))]),
        )

    def mean(self) -> Floats:
        """Return the mean of all rows."""
        return np.asarray(self.weights @ self.means / self.weights.sum())

    def total_variances(self) -> Floats:
        """Return the variance of each feature over all rows."""
        away = (self.means - self.mean()) ** 2 + self.variances
        return np.asarray(self.weights @ away / self.weights.sum())

    def round_to_grid(self) -> Points:
        """Return the points with coordinates on a grid far below what they vary by."""
        variances = self.total_variances()
        return Points(
            self.weights,
            round_to_grid(self.means, np.sqrt(variances)),
            round_to_grid(self.variances, self.variances),
        )

    def draw(self, count: int, rng: np.random.Generator) -> Points:
        """Return about `count` rows drawn from Gaussians with the means and variances of the points.

        Every point is there, and with its own mean. Lines between clusters cut through cells, and are found
        by rows, not by means: on real tables this took the excess of k-means with k = 50 from 2 % to 1 %.
        """
        shares = self.weights * (count / self.weights.sum())
        # A point without spread is one row, whatever its weight.
        copies = np.where(self.variances.any(axis=1), np.maximum(1, np.rint(shares)), 1).astype(np.int64)
        which = np.repeat(np.arange(len(self)), copies)
        noise = rng.standard_normal((len(which), self.means.shape[1]))
        starts = np.concatenate([[0], np.cumsum(copies)[:-1]])
        noise -= (np.add.reduceat(noise, starts) / copies[:, None])[which]
        # Taking off the mean of few takes off spread, too.
        noise *= np.sqrt(copies / np.maximum(copies - 1, 1))[which, None]
        rows = self.means[which] + np.sqrt(self.variances[which]) * noise
        # Of a point with a single row there is nothing left of the noise: it keeps its spread.
        kept = np.where((copies == 1)[:, None], self.variances, 0.0)[which]
        return Points((self.weights / copies)[which], rows, kept)
