"""The additive statistics of a pass. Each knows how to add, subtract, and be stored.

The fast updates live in tiles/; what arrives here is the sum over one fragment, and what leaves is
the sum over a file, a day, a year. Names in `arrays` are those of the sketch file (FORMAT.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nysketch._types import Arrays
from nysketch.accumulators.blocks import BlockSums
from nysketch.accumulators.cells import Cells, numeric_landmarks
from nysketch.accumulators.groups import GroupSums, grouped
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.accumulators.sample import LARGEST_KEY, RowSample
from nysketch.accumulators.second_moments import SecondMoments
from nysketch.accumulators.spans import Spans
from nysketch.basis.base import Basis


@dataclass(frozen=True, eq=False)
class Tally:
    """All statistics of some rows, and how many rows were left out for nulls or NaN.

    `cells` is None where they were not wanted, or the basis has no landmarks in space; `spans` is None where
    they were not wanted, as is `moments`; `groups` also where the basis has none.
    """

    blocks: BlockSums
    ranges: ColumnRanges
    sample: RowSample
    dropped: int = 0
    cells: Cells | None = None
    spans: Spans | None = None
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
        spans: int = 0,
        groups: bool = False,
        pairs: bool = False,
        moments: bool = False,
    ) -> Tally:
        """Return the tally of no rows; without cells if `far_rows` is None, without spans if they are 0."""
        landmarks = None if far_rows is None else numeric_landmarks(basis)
        parted = grouped(basis) if groups else None
        return cls(
            BlockSums.zeros(blocks, basis.m, weighted=weighted),
            ColumnRanges.empty(basis.d),
            RowSample.empty(sample_rows, basis.d, text=basis.text, weighted=weighted),
            cells=None
            if landmarks is None or far_rows is None
            else Cells.zeros(landmarks, far_rows=far_rows, weighted=weighted),
            spans=Spans.none(spans, basis.m, weighted=weighted) if spans else None,
            groups=None if parted is None else GroupSums.zeros(parted, pairs=pairs),
            moments=SecondMoments.zeros(basis.m) if moments else None,
        )

    @property
    def rows(self) -> int:
        """How many rows were summed."""
        return int(self.blocks.rows.sum())

    @property
    def total_weight(self) -> float:
        """The sum of the row weights: the number of rows where there are none."""
        weights = self.blocks.weights
        return float(self.rows) if weights is None else float(weights.total().high)

    def __add__(self, other: Tally) -> Tally:
        # Those of some of the rows would be of no use.
        cells, spans, groups, moments = None, None, None, None
        if self.cells is not None and other.cells is not None:
            cells = self.cells + other.cells
        if self.spans is not None and other.spans is not None:
            spans = self.spans + other.spans
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
            spans,
            groups,
            moments,
        )

    def __sub__(self, other: Tally) -> Tally:
        blocks = self.blocks + -other.blocks
        nothing_left = not blocks.rows.any()
        ranges = (
            ColumnRanges.empty(len(self.ranges.lower)) if nothing_left else replace(self.ranges, exact=False)
        )
        cells, spans, groups, moments = None, None, None, None
        if self.cells is not None and other.cells is not None:
            cells = self.cells - other.cells
        if self.spans is not None and other.spans is not None:
            spans = self.spans - other.spans
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
            spans,
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
            "runs": None if self.spans is None else self.spans.describe(),
            "sample": self.sample.describe(),
        }

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        cells = {} if self.cells is None else self.cells.arrays()
        spans = {} if self.spans is None else self.spans.arrays()
        groups = {} if self.groups is None else self.groups.arrays()
        moments = {} if self.moments is None else self.moments.arrays()
        return {
            **self.blocks.arrays(),
            **self.ranges.arrays(),
            **self.sample.arrays(),
            **cells,
            **spans,
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
        # Files of format versions 1 to 3 have no spans.
        about, spans = description.get("runs"), None
        if about is not None:
            spans = Spans.from_parts(about, arrays, basis.m, weighted=blocks.weights is not None)
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
        return cls(blocks, ranges, sample, description["dropped_rows"], cells, spans, groups, moments)
