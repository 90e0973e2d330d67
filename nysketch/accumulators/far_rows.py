"""The rows farthest from their landmarks: they are few, and some of them are what people look for.

They are part of the cells (cells.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.sample import LARGEST_KEY, RowSample

# 500 rows take 44 kB of the file at 10 features; of wide rows a few must do.
DEFAULT_FAR_ROWS = 500
_DEFAULT_BYTES = 2 << 20
_FEWEST = 50


def default_far_rows(d: int) -> int:
    """Return how many far rows of d features to keep."""
    return int(np.clip(_DEFAULT_BYTES // (8 * (d + 1)), _FEWEST, DEFAULT_FAR_ROWS))


def key_of_distance(squared: Floats) -> NDArray[np.int64]:
    """Return keys that are the smaller, the larger the squared distance is."""
    # The bits of positive float64 numbers, read as integers, are in the order of the numbers.
    return LARGEST_KEY - squared.view(np.int64)


def distance_of_key(key: int) -> float:
    """Return the squared distance of which this is the key."""
    return float(np.int64(LARGEST_KEY - key).view(np.float64))


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
