"""The additive statistics of a pass. Each knows how to add, subtract, and be stored.

The fast updates live in tiles/; what arrives here is the sum over one fragment, and what leaves is
the sum over a file, a day, a year. Names in `arrays` are those of the sketch file (FORMAT.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch.basis import Basis
from nysketch.cells import Cells, numeric_landmarks
from nysketch.exact import Arrays, ExactSum
from nysketch.groups import GroupSums, grouped
from nysketch.runs import Runs
from nysketch.samples import LARGEST_KEY, RowSample
from nysketch.secondmoments import SecondMoments

Floats = NDArray[np.float64]

PRECISIONS = ("float32", "float64")

# Grid of the exact sums. A float32 kernel value is good to 1e-7, so 2**-44 (6e-14) on the sum over a
# fragment is invisible, and leaves `low` so short that it is stored in half the bytes.
GRID_FLOAT32 = -44
# For float64 values, and for weighted rows: weights may be as small as reading.SMALLEST_WEIGHT.
GRID_FINE = -64
# For sums of runs where those of blocks are on GRID_FLOAT32. They are compared with each other, to a few
# digits; and runs of up to 5e8 rows then need no `low` at all, a third of the bytes.
GRID_RUNS = -24


def grid_exponent(precision: str, *, weighted: bool) -> int:
    """Return the grid for sums of values around 1 of this precision."""
    return GRID_FLOAT32 if precision == "float32" and not weighted else GRID_FINE


def grid_exponent_of_runs(precision: str, *, weighted: bool) -> int:
    """Return the grid for the sums of runs."""
    return GRID_RUNS if precision == "float32" and not weighted else GRID_FINE


def grid_exponent_of_moments(*, weighted: bool, bounded: bool) -> int:
    """Return the grid for sums of products of two values, which are float64 whatever the precision."""
    # Far from all but a few landmarks, products are small, and small eigenvalues of their sums matter: hence
    # the fine grid. Kernels without a bound have no such values, but a row a thousand times as far out as
    # others has products 1e12 times as large, for a cubic kernel 1e18 times: what the coarser one just holds.
    return GRID_FINE if weighted or bounded else GRID_FLOAT32


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Kernel sums at the landmarks, row counts and weights, for each block of rows.

    Rows are dealt to blocks at random (tiles.deal_blocks); the sum over blocks is the sum over rows,
    and the spread between blocks says how sure it is. `weights` is None where rows have no weights.
    """

    sums: ExactSum
    rows: NDArray[np.int64]
    weights: ExactSum | None

    @classmethod
    def zeros(cls, blocks: int, m: int, *, weighted: bool) -> BlockSums:
        """Return the sums over no rows."""
        return cls(
            ExactSum.zeros((blocks, m)),
            np.zeros(blocks, np.int64),
            ExactSum.zeros(blocks) if weighted else None,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Blocks, landmarks."""
        blocks, m = self.sums.high.shape
        return blocks, m

    def __add__(self, other: BlockSums) -> BlockSums:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights + other.weights
        return BlockSums(self.sums + other.sums, self.rows + other.rows, weights)

    def __neg__(self) -> BlockSums:
        weights = None if self.weights is None else -self.weights
        return BlockSums(-self.sums, -self.rows, weights)

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        arrays: Arrays = {"blocks.rows": self.rows, **self.sums.arrays("blocks.sums")}
        if self.weights is not None:
            arrays |= self.weights.arrays("blocks.weights")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> BlockSums:
        """Rebuild from what `arrays` returned."""
        sums = ExactSum.from_arrays("blocks.sums", arrays)
        weights = ExactSum.from_arrays("blocks.weights", arrays) if "blocks.weights" in arrays else None
        rows = arrays["blocks.rows"]
        blocks = sums.high.shape[0]
        if rows.shape != (blocks,) or (weights is not None and weights.high.shape != (blocks,)):
            raise ValueError(f"counts do not fit {blocks} blocks")
        return cls(sums, rows, weights)


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """Smallest and largest value of each feature.

    The one statistic that cannot be subtracted: afterwards it is still a bound, but the rows that reached it
    may be gone, and it is no longer `exact`.
    """

    lower: Floats
    upper: Floats
    exact: bool = True

    @classmethod
    def empty(cls, d: int) -> ColumnRanges:
        """Return the ranges over no rows."""
        return cls(np.full(d, np.inf), np.full(d, -np.inf))

    def __add__(self, other: ColumnRanges) -> ColumnRanges:
        lower, upper = np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper)
        return ColumnRanges(lower, upper, self.exact and other.exact)

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return {"columns.lower": self.lower, "columns.upper": self.upper}

    @classmethod
    def from_arrays(cls, arrays: Arrays, *, exact: bool) -> ColumnRanges:
        """Rebuild from what `arrays` returned."""
        return cls(arrays["columns.lower"], arrays["columns.upper"], exact)


@dataclass(frozen=True, eq=False)
class Tally:
    """All statistics of some rows, and how many rows were left out for nulls or NaN.

    `cells` is None where they were not wanted, or the basis has no landmarks in space; `runs` is None where
    they were not wanted, as is `moments`; `groups` also where the basis has none.
    """

    blocks: BlockSums
    ranges: ColumnRanges
    sample: RowSample
    dropped: int = 0
    cells: Cells | None = None
    runs: Runs | None = None
    groups: GroupSums | None = None
    moments: SecondMoments | None = None

    @classmethod
    def zeros(
        cls,
        basis: Basis,
        *,
        blocks: int,
        sample_rows: int,
        weighted: bool,
        far_rows: int | None = None,
        runs: int = 0,
        groups: bool = False,
        pairs: bool = False,
        moments: bool = False,
    ) -> Tally:
        """Return the tally of no rows; without cells if `far_rows` is None, without runs if they are 0."""
        landmarks = None if far_rows is None else numeric_landmarks(basis)
        parted = grouped(basis) if groups else None
        return cls(
            BlockSums.zeros(blocks, basis.m, weighted=weighted),
            ColumnRanges.empty(basis.d),
            RowSample.empty(sample_rows, basis.d, text=basis.text, weighted=weighted),
            cells=None
            if landmarks is None or far_rows is None
            else Cells.zeros(landmarks, far_rows=far_rows, weighted=weighted),
            runs=Runs.none(runs, basis.m, weighted=weighted) if runs else None,
            groups=None if parted is None else GroupSums.zeros(parted, pairs=pairs),
            moments=SecondMoments.zeros(basis.m) if moments else None,
        )

    def __add__(self, other: Tally) -> Tally:
        # Those of some of the rows would be of no use.
        cells, runs, groups, moments = None, None, None, None
        if self.cells is not None and other.cells is not None:
            cells = self.cells + other.cells
        if self.runs is not None and other.runs is not None:
            runs = self.runs + other.runs
        if self.groups is not None and other.groups is not None:
            groups = self.groups + other.groups
        if self.moments is not None and other.moments is not None:
            moments = self.moments + other.moments
        return Tally(
            self.blocks + other.blocks,
            self.ranges + other.ranges,
            self.sample + other.sample,
            self.dropped + other.dropped,
            cells,
            runs,
            groups,
            moments,
        )

    def __sub__(self, other: Tally) -> Tally:
        blocks = self.blocks + -other.blocks
        nothing_left = not blocks.rows.any()
        ranges = (
            ColumnRanges.empty(len(self.ranges.lower)) if nothing_left else replace(self.ranges, exact=False)
        )
        cells, runs, groups, moments = None, None, None, None
        if self.cells is not None and other.cells is not None:
            cells = self.cells - other.cells
        if self.runs is not None and other.runs is not None:
            runs = self.runs - other.runs
        if self.groups is not None and other.groups is not None:
            groups = self.groups - other.groups
        if self.moments is not None and other.moments is not None:
            moments = self.moments - other.moments
        return Tally(
            blocks,
            ranges,
            self.sample - other.sample,
            self.dropped - other.dropped,
            cells,
            runs,
            groups,
            moments,
        )

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {
            "cells": None if self.cells is None else self.cells.describe(),
            "dropped_rows": self.dropped,
            "exact_ranges": self.ranges.exact,
            "groups": None if self.groups is None else self.groups.describe(),
            "moments": self.moments is not None,
            "runs": None if self.runs is None else self.runs.describe(),
            "sample": self.sample.describe(),
        }

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        cells = {} if self.cells is None else self.cells.arrays()
        runs = {} if self.runs is None else self.runs.arrays()
        groups = {} if self.groups is None else self.groups.arrays()
        moments = {} if self.moments is None else self.moments.arrays()
        return {
            **self.blocks.arrays(),
            **self.ranges.arrays(),
            **self.sample.arrays(),
            **cells,
            **runs,
            **groups,
            **moments,
        }

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis) -> Tally:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where they do not fit."""
        exact_ranges = description["exact_ranges"]
        if not isinstance(exact_ranges, bool):
            raise ValueError("it does not say whether its ranges are exact")
        blocks = BlockSums.from_arrays(arrays)
        # Files of format version 1 have no sample.
        sample = RowSample.from_arrays(
            description.get("sample", {"bound": LARGEST_KEY, "capacity": 0}),
            arrays,
            basis.d,
            text=basis.text,
            weighted=blocks.weights is not None,
        )
        ranges = ColumnRanges.from_arrays(arrays, exact=exact_ranges)
        # Files of format versions 1 and 2 have no cells.
        about, cells = description.get("cells"), None
        if about is not None:
            landmarks = numeric_landmarks(basis)
            if landmarks is None:
                raise ValueError("its basis is one without cells")
            cells = Cells.from_parts(about, arrays, landmarks, weighted=blocks.weights is not None)
        # Files of format versions 1 to 3 have no runs.
        about, runs = description.get("runs"), None
        if about is not None:
            runs = Runs.from_parts(about, arrays, basis.m, weighted=blocks.weights is not None)
        # Files of format versions 1 to 4 have no sums of groups.
        about, groups = description.get("groups"), None
        if about is not None:
            parted = grouped(basis)
            if parted is None:
                raise ValueError("its basis is one without groups")
            groups = GroupSums.from_parts(about, arrays, parted)
        # Files of format versions 1 to 5 have no second moments.
        there = description.get("moments", False)
        if not isinstance(there, bool):
            raise ValueError("it does not say whether it has second moments")
        moments = SecondMoments.from_parts(arrays, basis.m) if there else None
        return cls(blocks, ranges, sample, description["dropped_rows"], cells, runs, groups, moments)
