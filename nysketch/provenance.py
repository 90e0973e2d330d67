"""Where the rows of a sketch came from: which inputs, how large, in what state.

A multiset of inputs that adds and subtracts like the sums it describes, and whose description does
not depend on the order of merging. No timestamps, no absolute paths of its own making: the same input
gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Inputs listed by name in a sketch; a year of daily files fits. The rest is counted.
LISTED = 500


@dataclass(frozen=True)
class Input:
    """One file (or stream, or array) as it was when its rows were read.

    Streams and arrays have no size and no digest.
    """

    path: str
    rows: int
    bytes: int | None = None
    digest: str | None = None

    @property
    def order(self) -> tuple[str, int, int, str]:
        """What to sort by."""
        return self.path, self.rows, -1 if self.bytes is None else self.bytes, self.digest or ""

    @property
    def content(self) -> tuple[int, int | None, str | None] | None:
        """What tells inputs apart whatever they are called; None where it is unknown."""
        return None if self.digest is None else (self.rows, self.bytes, self.digest)


@dataclass(frozen=True)
class Provenance:
    """The inputs of a sketch; `removed` are those subtracted without ever having been added."""

    inputs: tuple[tuple[Input, int], ...] = ()
    removed: tuple[tuple[Input, int], ...] = ()
    unlisted: int = 0

    @classmethod
    def of(cls, inputs: Iterable[Input]) -> Provenance:
        """Return the provenance of rows read from `inputs`."""
        return cls._signed(Counter(inputs), 0)

    @classmethod
    def _signed(cls, counts: Counter[Input], unlisted: int) -> Provenance:
        ordered = sorted(counts.items(), key=lambda pair: pair[0].order)
        present = [(item, n) for item, n in ordered if n > 0]
        absent = [(item, -n) for item, n in ordered if n < 0]
        beyond = sum(n for _, n in present[LISTED:])
        missing = sum(n for _, n in absent)
        if missing <= unlisted:  # they were added once, beyond the list
            absent, unlisted = [], unlisted - missing
        return cls(tuple(present[:LISTED]), tuple(absent[:LISTED]), unlisted + beyond)

    def _counts(self) -> Counter[Input]:
        counts = Counter(dict(self.inputs))
        counts.subtract(dict(self.removed))
        return counts

    def __add__(self, other: Provenance) -> Provenance:
        counts = self._counts()
        counts.update(other._counts())
        return self._signed(counts, self.unlisted + other.unlisted)

    def __sub__(self, other: Provenance) -> Provenance:
        counts = self._counts()
        counts.subtract(other._counts())
        return self._signed(counts, max(0, self.unlisted - other.unlisted))

    def shared_with(self, other: Provenance) -> list[Input]:
        """Return the inputs that both contain: merging the two would count their rows twice."""
        mine = {item.content for item, _ in self.inputs} - {None}
        return [item for item, _ in other.inputs if item.content in mine]

    def describe(self) -> dict[str, Any]:
        """Return what the sketch file stores."""
        return {
            "inputs": [_row(item, n) for item, n in self.inputs],
            "removed": [_row(item, n) for item, n in self.removed],
            "unlisted": self.unlisted,
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Provenance:
        """Rebuild from what `describe` returned."""
        return cls(
            tuple(_from_row(row) for row in description["inputs"]),
            tuple(_from_row(row) for row in description["removed"]),
            _count(description["unlisted"]),
        )


def _row(item: Input, times: int) -> dict[str, Any]:
    return {
        "bytes": item.bytes,
        "digest": item.digest,
        "path": item.path,
        "rows": item.rows,
        "times": times,
    }


def _from_row(row: dict[str, Any]) -> tuple[Input, int]:
    path, size, digest = row["path"], row["bytes"], row["digest"]
    if not (isinstance(path, str) and isinstance(digest, str | None)):
        raise ValueError("an input has no name")
    item = Input(path, _count(row["rows"]), None if size is None else _count(size), digest)
    return item, _count(row["times"])


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("the counts of its inputs are impossible")
    return value
