"""Tally: all statistics of some rows. What a sketch holds besides its basis is listed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from nysketch._types import Arrays
from nysketch.accumulators.blocks import BlockSums
from nysketch.accumulators.cells import Cells
from nysketch.accumulators.dropped import DroppedRows
from nysketch.accumulators.groups import GroupSums
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Statistic
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.accumulators.sample import RowSample
from nysketch.accumulators.second_moments import SecondMoments
from nysketch.accumulators.spans import Spans
from nysketch.accumulators.unknown import UnknownValues
from nysketch.basis.base import Basis

Kind = TypeVar("Kind", bound=Statistic)

# Every kind there is. The first five are in every sketch.
STATISTICS: tuple[type[Statistic], ...] = (
    BlockSums,
    DroppedRows,
    UnknownValues,
    ColumnRanges,
    RowSample,
    Cells,
    Spans,
    GroupSums,
    SecondMoments,
)


class Tally:
    """The statistics of some rows, by kind; a value, which adds and subtracts like each of them."""

    def __init__(self, *statistics: Statistic) -> None:
        held = {type(statistic): statistic for statistic in statistics}
        # In the order of the list, whatever order they are given in.
        self._held = {kind: held[kind] for kind in STATISTICS if kind in held}

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Tally:
        """Return the tally of no rows: each statistic that is wanted and that the basis has."""
        wanted = (kind.zeros(basis, options) for kind in STATISTICS)
        return cls(*(statistic for statistic in wanted if statistic is not None))

    def __iter__(self) -> Iterator[Statistic]:
        return iter(self._held.values())

    def __getitem__(self, kind: type[Kind]) -> Kind:
        """Return a statistic that must be there."""
        found = self._held[kind]
        assert isinstance(found, kind)
        return found

    def get(self, kind: type[Kind]) -> Kind | None:
        """Return a statistic; None if it was not kept."""
        return self[kind] if kind in self._held else None

    def replacing(self, *statistics: Statistic) -> Tally:
        """Return a tally with other statistics of these kinds."""
        return Tally(*(self._held | {type(statistic): statistic for statistic in statistics}).values())

    # ---- what is always there

    @property
    def blocks(self) -> BlockSums:
        """Kernel sums by block."""
        return self[BlockSums]

    @property
    def ranges(self) -> ColumnRanges:
        """The range of each feature."""
        return self[ColumnRanges]

    @property
    def exact(self) -> bool:
        """Whether the sums are those of just these rows: nothing was subtracted, which leaves traces.

        Of no rows, nothing is known: they may have been taken away.
        """
        return self.ranges.exact and self.rows > 0

    @property
    def sample(self) -> RowSample:
        """A sample of the rows, which may have no room for any."""
        return self[RowSample]

    @property
    def dropped(self) -> int:
        """How many rows were left out because of nulls, NaN or infinities."""
        return self[DroppedRows].count

    @property
    def rows(self) -> int:
        """How many rows were summed."""
        return int(self.blocks.rows.sum())

    @property
    def total_weight(self) -> float:
        """The sum of the row weights: the number of rows where there are none."""
        weights = self.blocks.weights
        return float(self.rows) if weights is None else float(weights.total().high)

    # ---- the group

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(self[kind] + other[kind] for kind in self._shared(other)))

    def __sub__(self, other: Tally) -> Tally:
        left = Tally(*(self[kind] - other[kind] for kind in self._shared(other)))
        if left.blocks.rows.any():
            return left
        # The same rows cut or read otherwise leave last digits, and what samples held of them.
        traces = left.arrays().items()
        clean = not any(
            array.any() for name, array in traces if not name.startswith(("columns.", "dropped."))
        )
        return left.replacing(replace(ColumnRanges.empty(len(self.ranges.lower)), exact=clean))

    def _shared(self, other: Tally) -> list[type[Statistic]]:
        """Return the kinds that both have: those of some of the rows would be of no use."""
        return [kind for kind in self._held if kind in other._held]

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        described: dict[str, Any] = {}
        for kind in STATISTICS:
            statistic = self.get(kind)
            described |= kind.absent_description if statistic is None else statistic.describe()
        return described

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return {name: array for statistic in self for name, array in statistic.arrays().items()}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis) -> Tally:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where they do not fit."""
        weighted = "blocks.weights" in arrays
        found = [kind.from_parts(description, arrays, basis, weighted=weighted) for kind in STATISTICS]
        return cls(*(statistic for statistic in found if statistic is not None))

    def check(self, basis: Basis) -> None:
        """Raise ValueError unless these can be the statistics of some rows."""
        for statistic in self:
            statistic.check(basis, self)

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether there can be such rows, after a subtraction of rows that may not be among them."""
        return all(statistic.is_possible(basis) for statistic in self)

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return what `info --json` says of all kinds, present or not."""
        described: dict[str, Any] = {}
        for kind in STATISTICS:
            statistic = self.get(kind)
            described |= kind.absent_summary if statistic is None else statistic.summary(basis)
        return described

    def settings(self) -> dict[str, Any]:
        """Return the options of a pass that keeps as much."""
        settings: dict[str, Any] = {}
        for kind in STATISTICS:
            statistic = self.get(kind)
            settings |= kind.absent_settings if statistic is None else statistic.settings()
        return settings
