"""Second moments: the sums over all rows of products of two functions of the basis.

Of a basis with m functions this is the m × m matrix Σ w k(Z, x) k(x, Z), which tells the functions in the
span of the landmarks that are largest over the rows. It is symmetric, so only the triangle i ≤ j is kept, row
by row. It adds and subtracts like all other sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nysketch._types import Arrays, Floats
from nysketch.accumulators.exact import ExactSum


def triangle_size(m: int) -> int:
    """Return how many numbers a symmetric m × m matrix takes."""
    return m * (m + 1) // 2


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """The upper triangle of the matrix of second moments of m functions, row by row."""

    m: int
    sums: ExactSum

    @classmethod
    def zeros(cls, m: int) -> SecondMoments:
        """Return the sums over no rows."""
        return cls(m, ExactSum.zeros(triangle_size(m)))

    def __add__(self, other: SecondMoments) -> SecondMoments:
        return SecondMoments(self.m, self.sums + other.sums)

    def __neg__(self) -> SecondMoments:
        return SecondMoments(self.m, -self.sums)

    def __sub__(self, other: SecondMoments) -> SecondMoments:
        return self + -other

    def rows(self) -> Iterator[Floats]:
        """Yield the rows of the triangle: of row i, what is on the diagonal and right of it."""
        start = 0
        for length in range(self.m, 0, -1):
            yield self.sums.high[start : start + length]
            start += length

    @property
    def diagonal(self) -> Floats:
        """The sums of the squares of each function."""
        return np.array([row[0] for row in self.rows()])

    def matrix(self) -> Floats:
        """Return the whole symmetric matrix, m × m."""
        full = np.empty((self.m, self.m))
        for i, row in enumerate(self.rows()):
            full[i, i:] = full[i:, i] = row
        return full

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return self.sums.arrays("moments.sums")

    @classmethod
    def from_parts(cls, arrays: Arrays, m: int) -> SecondMoments:
        """Rebuild from what `arrays` returned; raise ValueError where they do not fit."""
        sums = ExactSum.from_arrays("moments.sums", arrays)
        if sums.high.shape != (triangle_size(m),):
            raise ValueError("the second moments do not fit the landmarks")
        return cls(m, sums)
