"""How many rows were left out for nulls, NaN or infinities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from nysketch._types import Arrays
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import RunningValue, Statistic, is_count
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


@dataclass(frozen=True)
class DroppedRows(Statistic):
    """A count."""

    count: int = 0

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return none."""
        return cls()

    def __add__(self, other: Self) -> Self:
        return type(self)(self.count + other.count)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.count - other.count)

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return the count."""
        return {"dropped_rows": self.count}

    def arrays(self) -> Arrays:
        """There are none."""
        return {}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `describe` returned."""
        return cls(description["dropped_rows"])

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless it is a count."""
        if not is_count(self.count):
            raise ValueError("its number of dropped rows is impossible")

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether it is a count."""
        return self.count >= 0

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return the count."""
        return {"dropped_rows": self.count}

    # ---- the pass

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what counts the rows of chunks that are not kept."""
        return lambda chunk_rows: _Collector()

    def running(self, basis: Basis, options: PassOptions) -> RunningValue:
        """Return a running total that starts from this."""
        return RunningValue(self)


class _Collector:
    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._count = 0

    def add(self, chunk: EvaluatedChunk) -> None:
        self._count += chunk.chunk.dropped

    def finish(self) -> DroppedRows:
        return DroppedRows(self._count)
