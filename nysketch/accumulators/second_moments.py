"""Second moments: the sums over all rows of products of two functions of the basis.

Of a basis with m functions this is the m × m matrix Σ w k(Z, x) k(x, Z), which tells the functions in the
span of the landmarks that are largest over the rows. It is symmetric, so only the triangle i ≤ j is kept, row
by row. It adds and subtracts like all other sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from nysketch._support.exact import ExactSum
from nysketch._types import Arrays, Floats
from nysketch.accumulators.grids import SLACK, grid_exponent_of_moments
from nysketch.accumulators.limits import LARGEST_SUM, Limits
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, Statistic
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.float64 import RowValues
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation

# Values in float64, some tiles of them and what becomes of them; never fewer than 64 rows.
_VALUE_BYTES, _FEWEST_ROWS = 16 << 20, 64

# What rounding to float32 may do to the square of a sum, relative to it.
_SQUARED_SLACK = 1e-4


def triangle_size(m: int) -> int:
    """Return how many numbers a symmetric m × m matrix takes."""
    return m * (m + 1) // 2


@dataclass(frozen=True, eq=False)
class SecondMoments(Statistic):
    """The upper triangle of the matrix of second moments of m functions, row by row."""

    m: int
    sums: ExactSum

    noun = "second moments"
    absent_description: ClassVar = {"moments": False}
    absent_summary: ClassVar = {"second_moments": False}
    absent_settings: ClassVar = {"second_moments": False}

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self | None:
        """Return the sums over no rows; None if they are not wanted."""
        return cls(basis.m, ExactSum.zeros(triangle_size(basis.m))) if options.second_moments else None

    def __add__(self, other: Self) -> Self:
        return type(self)(self.m, self.sums + other.sums)

    def __neg__(self) -> Self:
        return type(self)(self.m, -self.sums)

    def __sub__(self, other: Self) -> Self:
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

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Say that they are there."""
        return {"moments": True}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return self.sums.arrays("moments.sums")

    @classmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool
    ) -> Self | None:
        """Rebuild from what `arrays` returned; files of format versions 1 to 5 have none."""
        present = description.get("moments", False)
        if not isinstance(present, bool):
            raise ValueError("it does not say whether it has second moments")
        if not present:
            return None
        sums = ExactSum.from_arrays("moments.sums", arrays)
        if sums.high.shape != (triangle_size(basis.m),):
            raise ValueError("its second moments do not match the landmarks")
        return cls(basis.m, sums)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be products of values, summed over these rows."""
        self.sums.check("moments.sums")
        limits = Limits.of(basis, tally.ranges)
        magnitudes = limits.magnitudes
        with np.errstate(over="ignore"):
            largest = LARGEST_SUM * magnitudes
            if any((np.abs(row) > largest[i:] * magnitudes[i]).any() for i, row in enumerate(self.rows())):
                raise ValueError("its second moments are impossible for its rows")
        # What a subtraction leaves was rounded when there were more rows.
        if not tally.exact:
            return
        diagonal, weight = self.diagonal, tally.total_weight
        low = basis.range[0]
        with np.errstate(over="ignore", invalid="ignore"):  # of kernels without a bound, of hostile numbers
            unit = np.sqrt(weight) * limits.magnitudes
            most = np.maximum(limits.low**2, limits.high**2) * weight + SLACK * unit**2
            # Cauchy and Schwarz: values that are all the same have the smallest squares.
            least = tally.blocks.sums.total().high ** 2 / weight if weight > 0 else np.zeros(self.m)
            too_small = diagonal < least * (1 - _SQUARED_SLACK) - SLACK * unit**2
            if (diagonal < 0).any() or (diagonal > most).any() or too_small.any():
                raise ValueError("its second moments are impossible for its rows")
            lengths = np.sqrt(diagonal)
            for i, row in enumerate(self.rows()):
                slack = SLACK * unit[i] * unit[i:]
                # Cauchy and Schwarz.
                most = (1 + SLACK) * lengths[i] * lengths[i:] + slack
                if (np.abs(row) > most).any() or (low >= 0 and (row < -slack).any()):
                    raise ValueError("its second moments are impossible for its rows")

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Say that they are there."""
        return {"second_moments": True}

    @classmethod
    def info_line(cls, facts: dict[str, Any]) -> tuple[str, str] | None:
        """Say how large the matrix is, and what it is for."""
        if not facts["second_moments"]:
            return None
        m = facts["landmarks"]
        return "second moments", f'{m:,} × {m:,}, for `nysketch.coreset(method="mercer")`'

    def settings(self) -> dict[str, Any]:
        """Return the option that asks for them."""
        return {"second_moments": True}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of the triangle, and of the matrix that a thread adds to."""
        if not options.second_moments:
            return Memory()
        m, products = size.m, 8 * triangle_size(size.m)
        return Memory(
            # High and low parts, these in a snapshot and in the checkpoint that was resumed.
            fixed=6 * products,
            # The matrix, what is added to it, and the triangles of two fragments that wait.
            per_thread=2 * 8 * m**2 + 2 * products + max(_VALUE_BYTES, 2 * 8 * m * _FEWEST_ROWS),
            stored=2 * products,
        )

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what adds up the products of the values of rows."""
        from nysketch.tiles.float64 import RowValues

        values = RowValues(basis)
        return lambda chunk_rows: _Collector(basis.m, values)

    def running(self, basis: Basis, options: PassOptions) -> _Running:
        """Return a running total that starts from this."""
        return _Running(self, basis, options)


class _Collector:
    def __init__(self, m: int, values: RowValues) -> None:
        self._m, self._values, self._matrix = m, values, np.zeros((m, m))

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._matrix[:] = 0.0

    def add(self, evaluated: EvaluatedChunk) -> None:
        chunk = evaluated.chunk
        rows, weights = chunk.rows, chunk.weights
        if not chunk.keep.all():
            rows, weights = rows[chunk.keep], None if weights is None else weights[chunk.keep]
        self._values.add_products(rows, weights, self._matrix)

    def finish(self) -> Floats:
        """Return the triangle: half of the matrix, which the next fragment will need."""
        from nysketch.tiles.triangle import pack

        triangle = np.empty(triangle_size(self._m))
        pack(self._matrix, triangle)
        return triangle


class _Running:
    limit = None

    def __init__(self, start: SecondMoments, basis: Basis, options: PassOptions) -> None:
        """Add on a grid; for values of other magnitudes than 1, coarser by the magnitudes of both factors."""
        bounded = bool(np.isfinite(basis.range).all())
        larger = np.frexp(basis.magnitudes())[1] - 1
        exponent = grid_exponent_of_moments(weighted=options.weighted, bounded=bounded)
        self._m = start.m
        # Not a grid for each product: that would take as much memory as the sums.
        self._units = np.ldexp(np.ones(start.m), larger)
        self._grids = np.ldexp(self._units, exponent)
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()

    def holds(self, part: Floats) -> bool:
        from nysketch.tiles.triangle import can_hold_products

        return bool(can_hold_products(part, self._units, self._grids))

    def add(self, part: Floats) -> None:
        from nysketch.tiles.triangle import add_products

        add_products(part, self._units, self._grids, self._high, self._low)

    def snapshot(self) -> SecondMoments:
        return SecondMoments(self._m, ExactSum(self._high.copy(), self._low.copy()))
