"""Cells: every row falls into the cell of its nearest landmark, which keeps its sums.

The nearest landmark is the one at the smallest Euclidean distance in scaled units, whatever the kernel; of
several, the first. Sums are relative to it, so that they lose no digits however far from 0 the data is.
Which cell a row is in depends on the row and the basis alone (tiles/nearest.py finds it), and the sums are
exact (_support/exact.py), so cells add and subtract to the bit like everything else in a sketch.

The rows farthest from their landmarks are kept besides, one by one (far_rows.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nysketch._support.exact import ExactSum
from nysketch._types import Arrays, Floats
from nysketch.accumulators.cell_features import CellFrame
from nysketch.accumulators.cell_pass import CellCollector, RunningCells
from nysketch.accumulators.far_rows import FarRows, default_far_rows, distance_of_key, key_of_distance
from nysketch.accumulators.grids import LARGEST_WEIGHT
from nysketch.accumulators.limits import MOST_ROWS, require_weights
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, Statistic, is_count
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.accumulators.sample import RowSample
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import EXTENT, NystromBasis, numeric_landmarks, spreads

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally

# The relative error of sums of float64 numbers over some million rows, at worst.
_SUMMED = 1e-10

# What rounding may do to sums of squares, relative to them and to the square of the spread: a million
# fragments on the grid of 2**-44 make 2**-25 of it at most.
_ROUNDING, _GRAINS = 1e-9, 2.0**-20
# And to the ends of ranges, relative to all numbers that they are compared with: the root of the grains.
_RANGES = 2.0**-10


@dataclass(frozen=True, eq=False)
class Cells(Statistic):
    """Rows, weight, sum and sum of squares of the rows nearest to each landmark, relative to it, scaled."""

    rows: NDArray[np.int64]  # m
    weights: ExactSum | None  # m; None where rows have no weights
    number_sums: ExactSum  # m × features but indicators of categories: Σ w (x − z_cell)
    number_squares: ExactSum  # the same of Σ w (x − z_cell)²
    values: ExactSum  # m × indicators of categories: Σ w of the rows with other values than their landmarks
    frame: CellFrame  # which features these are
    far: FarRows  # the rows farthest from their landmarks; they are in the cells, too
    beyond: int  # rows too far from every landmark to be in any cell

    noun = "cells of rows"
    absent_description: ClassVar = {"cells": None}
    absent_summary: ClassVar = {"cells": None}
    absent_settings: ClassVar = {"cells": False, "far_rows": None}
    needs_nearest = True

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self | None:
        """Return the cells of no rows; None if they are not wanted, or landmarks are no points in space."""
        landmarks = numeric_landmarks(basis)
        if not options.cells or landmarks is None:
            return None
        far_rows = default_far_rows(basis.d) if options.far_rows is None else options.far_rows
        frame = CellFrame.of(landmarks)
        return cls(
            np.zeros(basis.m, np.int64),
            ExactSum.zeros(basis.m) if options.weighted else None,
            ExactSum.zeros((basis.m, len(frame.dense))),
            ExactSum.zeros((basis.m, len(frame.dense))),
            ExactSum.zeros((basis.m, len(frame.features))),
            frame,
            FarRows.empty(far_rows, basis.d, weighted=options.weighted),
            0,
        )

    @property
    def weight(self) -> Floats:
        """The weight of each cell: its number of rows where they have no weights."""
        return self.rows.astype(np.float64) if self.weights is None else self.weights.high

    @cached_property
    def sums(self) -> ExactSum:
        """Σ w (x − z_cell) of every feature, m × d; of indicators, as their weights say."""
        return self._of_all(self.number_sums, self.frame.sums_of_values)

    @cached_property
    def squares(self) -> ExactSum:
        """Σ w (x − z_cell)² of every feature, m × d."""
        return self._of_all(self.number_squares, self.frame.squares_of_values)

    def _of_all(self, numbers: ExactSum, of_values: Callable[[Floats], Floats]) -> ExactSum:
        if not len(self.frame.features):
            return numbers
        whole = ExactSum.zeros((len(self.rows), self.frame.d))
        whole.high[:, self.frame.dense], whole.low[:, self.frame.dense] = numbers.high, numbers.low
        whole.high[:, self.frame.features] = of_values(self.values.high)
        return whole

    @property
    def means(self) -> Floats:
        """The mean of each cell relative to its landmark, m × d; 0 where there are no rows."""
        return self.sums.high * self._inverse_weight()[:, None]

    @property
    def scatter(self) -> Floats:
        """Σ w (x − mean of the cell)² of each cell and column, m × d."""
        # What rounding leaves of nothing may be negative.
        return np.maximum(self.squares.high - self.sums.high * self.means, 0.0) * (self.rows > 0)[:, None]

    def rounding_bound(self, basis: NystromBasis) -> Floats:
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

    def __add__(self, other: Self) -> Self:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights + other.weights
        return type(self)(
            self.rows + other.rows,
            weights,
            self.number_sums + other.number_sums,
            self.number_squares + other.number_squares,
            self.values + other.values,
            self.frame,
            self.far + other.far,
            self.beyond + other.beyond,
        )

    def __sub__(self, other: Self) -> Self:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights - other.weights
        return type(self)(
            self.rows - other.rows,
            weights,
            self.number_sums - other.number_sums,
            self.number_squares - other.number_squares,
            self.values - other.values,
            self.frame,
            self.far - other.far,
            self.beyond - other.beyond,
        )

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"cells": {"beyond": self.beyond, "far": self.far.kept.limits()}}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        weights = {} if self.weights is None else self.weights.arrays("cells.weights")
        values = self.values.arrays("cells.values") if len(self.frame.features) else {}
        return {
            "cells.rows": self.rows,
            **weights,
            **self.number_sums.arrays("cells.sums"),
            **self.number_squares.arrays("cells.squares"),
            **values,
            **self.far.kept.arrays("far"),
        }

    @classmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool
    ) -> Self | None:
        """Rebuild from what `describe` and `arrays` returned; files of format versions 1 and 2 have none."""
        about = description.get("cells")
        if about is None:
            return None
        landmarks = numeric_landmarks(basis)
        if landmarks is None:
            raise ValueError("its basis has no cells")
        frame = CellFrame.of(landmarks)
        weights = ExactSum.from_arrays("cells.weights", arrays) if weighted else None
        sums, squares = (ExactSum.from_arrays(f"cells.{name}", arrays) for name in ("sums", "squares"))
        rows, shape = arrays["cells.rows"], (basis.m, len(frame.dense))
        values = ExactSum.zeros((basis.m, 0))
        if len(frame.features):
            values = ExactSum.from_arrays("cells.values", arrays)
        if values.high.shape != (basis.m, len(frame.features)):
            raise ValueError("the values of its cells do not match the landmarks and vocabularies")
        if rows.shape != shape[:1] or (weights is not None and weights.high.shape != shape[:1]):
            raise ValueError(f"its counts do not match {basis.m} cells")
        if sums.high.shape != shape or squares.high.shape != shape:
            raise ValueError("the sums of its cells do not match the landmarks")
        far = RowSample.from_arrays(
            about["far"],
            arrays,
            basis.d + 1,
            text=False,
            weighted=weighted,
            name="far",
            dtype=np.float64,
        )
        return cls(rows, weights, sums, squares, values, frame, FarRows(far), about["beyond"])

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be the cells of these rows."""
        landmarks = numeric_landmarks(basis)
        if landmarks is None:
            raise ValueError("its basis has no cells")
        if self.rows.dtype != np.int64 or (self.rows < 0).any() or not is_count(self.beyond):
            raise ValueError("the row counts of its cells are impossible")
        if sum(self.rows.tolist()) + self.beyond != tally.rows:
            raise ValueError("its cells and its blocks count different rows")
        self.number_sums.check("cells.sums")
        self.number_squares.check("cells.squares")
        self._check_values(exact=tally.exact)
        if self.weights is not None:
            self.weights.check("cells.weights")
            require_weights("the weights of its cells", self.weights.high, self.rows, exact=tally.exact)
        self._check_far(landmarks)
        unit = spreads(landmarks)
        farthest, most = EXTENT * unit[self.frame.dense], LARGEST_WEIGHT * MOST_ROWS
        sums, squares = self.number_sums.high, self.number_squares.high
        if (np.abs(sums) > most * farthest).any() or (squares > most * farthest**2).any():
            raise ValueError("the sums of its cells are impossible for its rows")
        # What a subtraction leaves was rounded when there were more rows; of the last one nothing is known.
        if tally.exact:
            self._check_moments(tally.total_weight, unit[self.frame.dense])
            self._check_ranges(landmarks, tally.ranges, unit)

    def _check_values(self, *, exact: bool) -> None:
        """Raise ValueError unless rows of these cells can have other values than their landmarks."""
        self.values.check("cells.values")
        others, weight = self.values.high, self.weight
        if not len(self.frame.features):
            return
        if others[self.frame.own].any() or (others[self.rows == 0].any() and exact):
            raise ValueError("cells.values are impossible for its rows")
        if self.weights is None:
            possible = not self.values.low.any() and np.array_equal(others, np.rint(others))
            possible &= not exact or not (others < 0).any()
        else:
            possible = bool((np.abs(others) <= LARGEST_WEIGHT * MOST_ROWS).all())
            possible &= not exact or not (others < 0).any()
        # A row has one value of each category.
        if exact:
            most = weight[:, None] * (1 + _SUMMED)
            possible &= bool((self.frame.by_category(others) <= most).all())
        if not possible:
            raise ValueError("cells.values are impossible for its rows")

    def _check_moments(self, total_weight: float, unit: Floats) -> None:
        """Raise ValueError unless there can be rows with these weights, sums and squares."""
        weight, sums, squares = self.weight, self.number_sums.high, self.number_squares.high
        if (weight < 0).any() or weight[self.rows == 0].any() or sums[self.rows == 0].any():
            raise ValueError("the weights of its cells are impossible")
        if not self.beyond and not np.isclose(weight.sum(), total_weight, rtol=1e-6):
            raise ValueError("its cells and its blocks have different weights")
        with np.errstate(over="ignore"):
            # Cauchy and Schwarz: rows without any spread have the smallest squares.
            least = sums * sums / np.where(weight > 0, weight, 1.0)[:, None]
            most = weight[:, None] * (EXTENT * unit) ** 2
        slack = _GRAINS * unit**2
        if (squares < 0).any() or (squares * (1 + _ROUNDING) + slack < least).any():
            raise ValueError("the sums of its cells are too large for their squares")
        if (squares > most * (1 + _ROUNDING) + slack).any():
            raise ValueError("the squares of its cells are too large for their rows")

    def _check_ranges(self, basis: NystromBasis, ranges: ColumnRanges, unit: Floats) -> None:
        """Raise ValueError unless the rows of the cells are what has these ranges of columns."""
        landmarks, some = basis.scaled_landmarks, (self.rows > 0) & (self.weight > 0)
        ends = basis.scaled_ends(ranges.lower, ranges.upper)
        far = landmarks[self.far.cells] + self.far.offsets
        known = np.concatenate([(landmarks + self.means)[some], far])
        slack = _RANGES * (np.abs(ends) + np.abs(landmarks).max(axis=0) + unit)
        if not ((known >= ends[0] - slack[0]) & (known <= ends[1] + slack[1])).all():
            raise ValueError("its cells have rows outside its column ranges")
        reach = self._reach()
        if self.beyond or reach is None:
            return
        some = self.rows > 0
        with np.errstate(over="ignore"):
            nearest = (landmarks - reach)[some], (landmarks + reach)[some]
        lowest = np.concatenate([nearest[0], far]).min(axis=0)
        highest = np.concatenate([nearest[1], far]).max(axis=0)
        wider = (ends[0] < lowest - slack[0]) | (ends[1] > highest + slack[1])
        # The ends of features that are made of codes and times need not be those of any row.
        if wider[basis.layout.plain].any():
            raise ValueError("its column ranges are wider than its cells")

    def _reach(self) -> Floats | None:
        """Return how far rows that are no far rows can be from their landmarks, m × d; None if unknown."""
        reach = None
        if self.far.kept.capacity:
            reach = np.broadcast_to(np.sqrt(distance_of_key(self.far.kept.bound)), self.sums.high.shape)
        if self.weights is None:
            # No square is larger than their sum.
            alone = np.sqrt(np.maximum(self.squares.high, 0.0) * (1 + _ROUNDING))
            reach = alone if reach is None else np.minimum(reach, alone)
        return reach

    def _check_far(self, basis: NystromBasis) -> None:
        """Raise ValueError unless far rows can be rows of these cells, and their keys are their distances."""
        far = self.far
        if not len(far):
            return
        named = far.kept.rows[:, 0]
        if not ((named >= 0) & (named < basis.m) & (named == np.floor(named))).all():
            raise ValueError("its far rows are in cells that do not exist")
        if (np.bincount(far.cells, minlength=basis.m) > self.rows).any():
            raise ValueError("it has more far rows than rows in their cells")
        if not (np.abs(far.offsets) <= EXTENT * spreads(basis)).all():
            raise ValueError("its far rows are too far to be in a cell")
        if far.weights is not None and (far.weights > LARGEST_WEIGHT).any():
            raise ValueError("far.weights are impossible")
        squared = np.zeros(len(far))
        for column in far.offsets.T:  # in this order, as the pass adds them
            squared += column * column
        if not np.array_equal(key_of_distance(squared), far.kept.keys):
            raise ValueError("far.keys are not the distances of far.rows")

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether no count is negative."""
        return self.beyond >= 0 and not (self.rows < 0).any()

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return how the rows are spread over the landmarks."""
        return {
            "cells": {
                "far_rows": len(self.far),
                "non_empty": int(np.count_nonzero(self.rows)),
                "rows_beyond": self.beyond,
            }
        }

    @classmethod
    def info_line(cls, facts: dict[str, Any]) -> tuple[str, str] | None:
        """Say how the rows are spread over the landmarks."""
        cells, landmarks = facts["cells"], facts["landmarks"]
        if cells is None:
            return None
        beyond = f"; {cells['rows_beyond']:,} rows beyond all of them" if cells["rows_beyond"] else ""
        far = f"; the {cells['far_rows']:,} rows farthest from theirs" if cells["far_rows"] else ""
        return (
            "cells",
            f"{cells['non_empty']:,} of {landmarks:,} landmarks are nearest to some row{far}{beyond}",
        )

    def settings(self) -> dict[str, Any]:
        """Return the options of a pass that keeps as many far rows."""
        return {"cells": True, "far_rows": self.far.kept.capacity}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of sums and squares, each of the size of the landmarks, and of far rows."""
        if not options.cells or size.text or size.features != "nystrom":
            return Memory()
        # Sums and squares of numbers, weights of values; and a view of all.
        sums = 8 * size.m * (2 * size.d - size.values)
        whole = 2 * 8 * size.m * size.d if size.values else 0
        far_rows = default_far_rows(size.d) if options.far_rows is None else options.far_rows
        far = (8 * size.d + 32) * far_rows
        return Memory(
            # High and low parts, these in a snapshot, landmarks by column.
            fixed=5 * sums + whole + 4 * far,
            # Fragments under way, distances and nearest landmarks of a chunk.
            per_thread=3 * (sums + far) + 48 * size.chunk_rows,
            stored=int(1.5 * sums) + far + 8 * size.m,
        )

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], CellCollector]:
        """Return what adds rows to the cells of their nearest landmarks."""
        landmarks = numeric_landmarks(basis)
        assert landmarks is not None
        # As columns, with one more landmark for rows that are in no cell.
        columns = np.vstack([landmarks.scaled_landmarks, np.zeros(basis.d)]).T.copy()
        return lambda chunk_rows: CellCollector(self, landmarks, columns, chunk_rows)

    def running(self, basis: Basis, options: PassOptions) -> RunningCells:
        """Return a running total that starts from this."""
        landmarks = numeric_landmarks(basis)
        assert landmarks is not None
        return RunningCells(self, landmarks)
