"""In how many rows each column has no value, or one that its vocabulary does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import RunningValue, Statistic
from nysketch.basis.base import Basis
from nysketch.basis.layout import Layout
from nysketch.columns import Column
from nysketch.kinds import Category

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation

Counts = NDArray[np.int64]

# Columns that programs are told of.
_LISTED = 100


@dataclass(frozen=True, eq=False)
class UnknownValues(Statistic):
    """For each column, the rows in which its value is `missing`; and of categories, `unseen` in the pilot.

    Rows that are dropped are not among them. A file has no counts where all are 0: nothing shows that they
    were ever made.
    """

    missing: Counts
    unseen: Counts

    absent_summary: ClassVar[dict[str, Any]] = {"unknown_by_column": {}}

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return none."""
        return cls.none(len(basis.columns))

    @classmethod
    def none(cls, columns: int) -> Self:
        """Return the counts of no rows of so many columns."""
        return cls(np.zeros(columns, np.int64), np.zeros(columns, np.int64))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.missing + other.missing, self.unseen + other.unseen)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.missing - other.missing, self.unseen - other.unseen)

    @property
    def some(self) -> bool:
        """Whether there are any."""
        return bool(self.missing.any() or self.unseen.any())

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return nothing: where there are arrays, there are counts."""
        return {}

    def arrays(self) -> Arrays:
        """Return the counts, if there are any."""
        return {"unknown.missing": self.missing, "unknown.unseen": self.unseen} if self.some else {}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `arrays` returned."""
        names = "unknown.missing", "unknown.unseen"
        found = [arrays[name] for name in names if name in arrays]
        if not found:
            return cls.none(len(basis.columns))
        if len(found) < len(names):
            raise ValueError("its counts of unknown values are incomplete")
        return cls(*found)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these are counts of these rows, of columns that can have such values."""
        shape = (len(basis.columns),)
        if any(a.dtype != np.int64 or a.shape != shape for a in (self.missing, self.unseen)):
            raise ValueError("its counts of unknown values do not match the columns")
        possible = self.is_possible(basis)
        for column, missing, unseen in zip(
            basis.columns, self.missing.tolist(), self.unseen.tolist(), strict=True
        ):  # in Python integers: files may be forged
            possible &= missing + unseen <= tally.rows
            possible &= not missing or _may_be_missing(column)
            possible &= not unseen or isinstance(column.kind, Category)
        if not possible:
            raise ValueError("its counts of unknown values are impossible")

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether no count is negative."""
        return bool((self.missing >= 0).all() and (self.unseen >= 0).all())

    # ---- people

    def by_column(self, basis: Basis) -> dict[str, dict[str, int]]:
        """Return the counts of the columns that have some, those of most rows first."""
        order = np.argsort(-(self.missing + self.unseen), kind="stable").tolist()
        return {
            basis.columns[i].name: {"missing": int(self.missing[i]), "unseen": int(self.unseen[i])}
            for i in order
            if self.missing[i] or self.unseen[i]
        }

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return the counts by column."""
        return {"unknown_by_column": dict(list(self.by_column(basis).items())[:_LISTED])}

    # ---- the pass

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what counts the values of chunks."""
        return lambda chunk_rows: _Collector(basis)

    def running(self, basis: Basis, options: PassOptions) -> RunningValue:
        """Return a running total that starts from this."""
        return RunningValue(self)


def unknown_in(rows: Floats, basis: Basis) -> UnknownValues:
    """Count the unknown values of rows in memory, where missing numbers are NaN."""
    return _count(basis.layout, basis.layout.codes(rows), np.isnan(rows))


def _count(layout: Layout, codes: NDArray[np.int32], missing: NDArray[np.bool_] | None) -> UnknownValues:
    """Count rows, given the codes of their categories and which of their numbers are missing."""
    found = UnknownValues.none(len(layout.places))
    categories = [i for i, place in enumerate(layout.places) if isinstance(place.column.kind, Category)]
    if categories:
        # Hardly any are unknown: these are found all at once, and only then told apart.
        others = np.array([place.column.features - 2 for place in layout.categories], np.int32)
        at = np.flatnonzero(codes >= others)
        which = at % len(categories)
        gone = codes.ravel()[at] > others[which]
        found.missing[categories] = np.bincount(which[gone], minlength=len(categories))
        found.unseen[categories] = np.bincount(which[~gone], minlength=len(categories))
    if missing is not None:
        for i, place in enumerate(layout.places):
            if _may_be_missing(place.column) and i not in categories:
                found.missing[i] = np.count_nonzero(missing[:, place.numbers.start])
    return found


def _may_be_missing(column: Column) -> bool:
    """Tell whether a row can be without a value: of lists and of the strings of string kernels, none can."""
    return column.kind is not None or (column.width == 1 and not column.text)


class _Collector:
    def __init__(self, basis: Basis) -> None:
        self._layout = basis.layout
        self._always = bool(self._layout.categories)

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._found = UnknownValues.none(len(self._layout.places))

    def add(self, chunk: EvaluatedChunk) -> None:
        rows, codes = chunk.chunk, chunk.points.codes
        if not self._always and rows.missing is None:
            return
        missing = rows.missing
        if rows.invalid is not None:  # some are not kept
            codes, missing = codes[rows.keep], None if missing is None else missing[rows.keep]
        self._found = self._found + _count(self._layout, codes, missing)

    def finish(self) -> UnknownValues:
        return self._found
