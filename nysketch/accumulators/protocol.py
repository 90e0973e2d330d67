"""What every statistic offers. A statistic is one file of this package, listed in tally.py.

Statistic   the value: sums over some rows that add, subtract, are stored, checked and described
Collector   what one thread does with the chunks of a fragment: their part of the statistic
Running     the exact total of all parts so far

Values must add up to the same bits in any order; the hot loops are in tiles/ and are imported when a pass
begins, so that sketches can be loaded without a compiler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from nysketch._types import Arrays
from nysketch.accumulators.options import PassOptions
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


class Collector(Protocol):
    """Collects a statistic of one fragment after the other; each thread has its own."""

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        """Begin a fragment, whose kernel sums are `evaluation`; `limit` is that of the running total."""
        ...

    def add(self, chunk: EvaluatedChunk) -> None:
        """Add the rows of a chunk."""
        ...

    def finish(self) -> Any:
        """Return the part that the fragment adds: picklable, and none of it used again here."""
        ...


class Running(Protocol):
    """The total of all fragments so far. `add` is exact, so that their order has no effect."""

    def holds(self, part: Any) -> bool:
        """Tell whether a part can be added exactly: of kernels without a bound it may be too large."""
        ...

    def add(self, part: Any) -> None:
        """Add the part of a fragment."""
        ...

    @property
    def limit(self) -> int | None:
        """What collectors may leave out from now on: rows whose keys are larger. It only ever falls."""
        ...

    def snapshot(self) -> Any:
        """Return the statistic as it is now."""
        ...


@dataclass(frozen=True)
class PassSize:
    """What the memory of a pass depends on: known before its basis is."""

    m: int
    d: int  # features, or numbers of 8 bytes that a string takes
    rows: int | None  # None for a stream
    chunk_rows: int
    tile_bytes: int
    text: bool
    features: str  # "nystrom" or "fourier"
    groups: int  # groups of columns, if the kernel is a product over them
    weighted: bool
    values: int = 0  # of the features, indicators of categories


@dataclass(frozen=True)
class Memory:
    """Bytes that a statistic takes: however many threads there are, for each of them, and in the file."""

    fixed: int = 0
    per_thread: int = 0
    stored: int = 0

    def __add__(self, other: Memory) -> Memory:
        return Memory(
            self.fixed + other.fixed, self.per_thread + other.per_thread, self.stored + other.stored
        )


class Statistic(ABC):
    """An additive statistic of some rows: an element of a commutative group."""

    # What messages call it where one of several sketches has none; "" if every sketch has it.
    noun: ClassVar[str] = ""
    # What `describe`, `summary` and `settings` would return where there is none.
    absent_description: ClassVar[dict[str, Any]] = {}
    absent_summary: ClassVar[dict[str, Any]] = {}
    absent_settings: ClassVar[dict[str, Any]] = {}
    # Whether collectors need the landmark nearest to each row.
    needs_nearest: ClassVar[bool] = False

    # ---- the value

    @classmethod
    @abstractmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self | None:
        """Return the statistic of no rows; None if it is not wanted, or the basis has none."""

    @abstractmethod
    def __add__(self, other: Self) -> Self: ...

    @abstractmethod
    def __sub__(self, other: Self) -> Self: ...

    # ---- files

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the metadata of a file say of it: everything but the arrays."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the arrays that a file stores, by their names (FORMAT.md)."""

    @classmethod
    @abstractmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool
    ) -> Self | None:
        """Rebuild it from all that a file holds, of any version; None if there is none.

        Raise ValueError, or a kin, where parts do not fit.
        """

    @abstractmethod
    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be sums over the rows of this tally: files may be forged."""

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether there can be such rows, after a subtraction of rows that may not be among them."""
        return True

    # ---- people

    @abstractmethod
    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return what `info --json` says of it."""

    @classmethod
    def info_line(cls, facts: dict[str, Any]) -> tuple[str, str] | None:
        """Return the line that `info` prints of it, given all that `info --json` says; None for none."""
        return None

    def settings(self) -> dict[str, Any]:
        """Return the options of a pass that keeps as much."""
        return {}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory that it takes in a pass; nothing worth counting, if not said otherwise."""
        return Memory()

    @abstractmethod
    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], Collector]:
        """Return what makes a collector for a thread, given the largest number of rows of a chunk.

        Called once in a process, on the statistic of no rows: what its threads share is made here.
        """

    @abstractmethod
    def running(self, basis: Basis, options: PassOptions) -> Running:
        """Return a running total that starts from this."""


class RunningValue:
    """A running total of parts that are values themselves, and add up as they are."""

    def __init__(self, start: Any) -> None:
        self._value = start

    def holds(self, part: Any) -> bool:
        """Tell that there is room for anything."""
        return True

    def add(self, part: Any) -> None:
        """Add the part of a fragment."""
        self._value = self._value + part

    @property
    def limit(self) -> int | None:
        """Samples have a bound: rows with larger keys are not in them."""
        bound: int | None = getattr(self._value, "bound", None)
        return bound

    def snapshot(self) -> Any:
        """Return the statistic as it is now."""
        return self._value


def is_count(value: Any) -> bool:
    """Tell a non-negative 64-bit integer from everything else JSON has, `true` included."""
    return type(value) is int and 0 <= value < 2**63
