"""How many rows were left out for nulls, NaN or infinities, and which columns had them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import RunningValue, Statistic, is_count
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation

Counts = NDArray[np.int64]

# What the count of invalid row weights is called, where others are called by their columns.
ROW_WEIGHTS = "row weights"
# Columns that programs are told of.
_LISTED = 100


@dataclass(frozen=True, eq=False)
class DroppedRows(Statistic):
    """A count; and for each column, and last for the row weights, in how many of these rows it is invalid.

    In so many of them it is invalid `alone`: without the column, they would not have been dropped. Where none
    were dropped there are no counts, nor where they are unknown, as of files that say nothing of columns.
    """

    count: int = 0
    invalid: Counts | None = None
    alone: Counts | None = None

    @classmethod
    def of(cls, invalid: NDArray[np.bool_]) -> Self:
        """Count the rows of a matrix that says which columns are invalid, each in one at least."""
        if not len(invalid):
            return cls()
        alone = invalid[np.count_nonzero(invalid, axis=1) == 1]
        counts = (np.count_nonzero(rows, axis=0).astype(np.int64) for rows in (invalid, alone))
        return cls(len(invalid), *counts)

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return none."""
        return cls()

    def __add__(self, other: Self) -> Self:
        return self._plus(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self._plus(other, -1)

    @property
    def _nothing(self) -> bool:
        return self.count == 0 and self.invalid is None

    def _plus(self, other: Self, sign: int) -> Self:
        if other._nothing:
            return self
        count = self.count + sign * other.count
        if other.invalid is None or other.alone is None or (self.invalid is None and not self._nothing):
            return type(self)(count)
        invalid, alone = sign * other.invalid, sign * other.alone
        if self.invalid is not None and self.alone is not None:
            invalid, alone = self.invalid + invalid, self.alone + alone
        if not (count or invalid.any() or alone.any()):
            return type(self)()
        return type(self)(count, invalid, alone)

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return the count."""
        return {"dropped_rows": self.count}

    def arrays(self) -> Arrays:
        """Return the counts of columns, if rows were dropped and they are known."""
        if self.invalid is None or self.alone is None:
            return {}
        return {"dropped.invalid": self.invalid, "dropped.alone": self.alone}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `describe` and `arrays` returned."""
        return cls(description["dropped_rows"], arrays.get("dropped.invalid"), arrays.get("dropped.alone"))

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these are counts of the same rows."""
        if not is_count(self.count):
            raise ValueError("its number of dropped rows is impossible")
        if self.invalid is None and self.alone is None:
            return
        if self.invalid is None or self.alone is None:
            raise ValueError("its counts of dropped rows by column are incomplete")
        shape = (len(basis.columns) + 1,)
        if any(a.dtype != np.int64 or a.shape != shape for a in (self.invalid, self.alone)):
            raise ValueError("its counts of dropped rows do not match the columns")
        if not self._counts_are_possible():
            raise ValueError("its counts of dropped rows by column are impossible")

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether these are counts of the same rows."""
        return self.count >= 0 and self._counts_are_possible()

    def _counts_are_possible(self) -> bool:
        if self.invalid is None or self.alone is None:
            return True
        within = (self.alone >= 0) & (self.alone <= self.invalid) & (self.invalid <= self.count)
        if not within.all():
            return False
        # In every other row, two columns or more are invalid. In Python integers: files may be forged.
        alone, invalid = sum(self.alone.tolist()), sum(self.invalid.tolist())
        others = self.count - alone
        return bool(others >= 0 and 2 * others <= invalid - alone <= len(self.invalid) * others)

    # ---- people

    def by_column(self, basis: Basis) -> dict[str, dict[str, int]]:
        """Return the counts of the columns that are invalid in some rows, those of most rows first."""
        if self.invalid is None or self.alone is None:
            return {}
        names = [*(column.name for column in basis.columns), ROW_WEIGHTS]
        order = np.argsort(-self.invalid, kind="stable").tolist()
        return {
            names[i]: {"alone": int(self.alone[i]), "rows": int(self.invalid[i])}
            for i in order
            if self.invalid[i] > 0
        }

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return the count, and those of columns."""
        by_column = dict(list(self.by_column(basis).items())[:_LISTED])
        return {"dropped_rows": self.count, "dropped_by_column": by_column}

    # ---- the pass

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what counts the rows of chunks that are not kept."""
        return lambda chunk_rows: _Collector()

    def running(self, basis: Basis, options: PassOptions) -> RunningValue:
        """Return a running total that starts from this."""
        return RunningValue(self)


class _Collector:
    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._found = DroppedRows()

    def add(self, chunk: EvaluatedChunk) -> None:
        invalid = chunk.chunk.invalid
        if invalid is not None:
            self._found = self._found + DroppedRows.of(invalid)

    def finish(self) -> DroppedRows:
        return self._found
