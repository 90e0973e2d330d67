"""Where the rows of a sketch came from: which inputs, how large, in what state.

A multiset of inputs that adds and subtracts like the sums it describes, and whose description does
not depend on the order of merging. No timestamps, no absolute paths of its own making: the same input
gives the same bytes.

Rows of one part of some inputs are those of a `Whole`, and a number from 1 to N. All N parts together are
the inputs of the whole, so that sketches of parts add up to the sketch of a pass that was never cut, and a
whole minus a part is the other parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nysketch._support.intervals import Stretches, at_least, common, others, settled

# Inputs listed by name in a sketch; a year of daily files fits. The rest is counted.
LISTED = 500
# As many parts as a whole can be cut into: more than any scheduler runs for one table.
MOST_PARTS = 100_000


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
class Whole:
    """The inputs of a pass that was cut into `of` parts.

    `digest` tells it from all others: also from the same inputs in another order, or cut elsewhere.
    """

    digest: str
    of: int
    inputs: tuple[tuple[Input, int], ...]
    unlisted: int = 0

    @classmethod
    def cut(cls, inputs: Sequence[Input], fragments: Iterable[Sequence[int]], of: int) -> Whole:
        """Return the whole of `inputs`, whose `fragments` (numbers that tell them apart) were divided."""
        sha = hashlib.sha256()
        for item in inputs:
            sha.update(json.dumps([item.path, item.rows, item.bytes, item.digest]).encode() + b"\n")
        for fragment in fragments:
            sha.update(json.dumps([*fragment]).encode() + b"\n")
        listed = Provenance.of(inputs)
        return cls(sha.hexdigest(), of, listed.inputs, listed.unlisted)

    @property
    def name(self) -> str:
        """What messages call it."""
        more = len(self.inputs) - 1 + self.unlisted
        return self.inputs[0][0].path + (f" and {more:,} more" if more else "")

    @property
    def order(self) -> tuple[Any, ...]:
        """What to sort by."""
        return self.digest, self.of, [(item.order, n) for item, n in self.inputs], self.unlisted


# Parts of a whole: which of them, and how often.
Parts = tuple[Whole, Stretches]


@dataclass(frozen=True)
class Provenance:
    """The inputs of a sketch; `removed` are those subtracted without ever having been added.

    `parts` are beside the inputs: parts of wholes of which not all parts are held equally often. What all
    parts of a whole have in common has moved to the inputs.
    """

    inputs: tuple[tuple[Input, int], ...] = ()
    removed: tuple[tuple[Input, int], ...] = ()
    unlisted: int = 0
    parts: tuple[Parts, ...] = ()

    @classmethod
    def of(cls, inputs: Iterable[Input]) -> Provenance:
        """Return the provenance of rows read from `inputs`."""
        return cls._signed(Counter(inputs), 0)

    @classmethod
    def of_part(cls, whole: Whole, number: int) -> Provenance:
        """Return the provenance of one part of a whole."""
        return cls._signed(Counter(), 0, [((whole, ((number, number, 1),)), 1)])

    @classmethod
    def _signed(
        cls, counts: Counter[Input], unlisted: int, parts: Iterable[tuple[Parts, int]] = ()
    ) -> Provenance:
        terms: dict[Whole, list[tuple[Stretches, int]]] = {}
        for (whole, stretches), sign in parts:
            terms.setdefault(whole, []).append((stretches, sign))
        kept = []
        for whole, added in terms.items():
            complete, rest = settled(added, whole.of)
            counts.update({item: complete * n for item, n in whole.inputs})
            unlisted += complete * whole.unlisted
            kept += [(whole, rest)] if rest else []
        kept.sort(key=lambda pair: pair[0].order)
        ordered = sorted(counts.items(), key=lambda pair: pair[0].order)
        present = [(item, n) for item, n in ordered if n > 0]
        absent = [(item, -n) for item, n in ordered if n < 0]
        beyond = sum(n for _, n in present[LISTED:])
        missing, unlisted = sum(n for _, n in absent), max(0, unlisted)
        if missing <= unlisted:  # they were added once, beyond the list
            absent, unlisted = [], unlisted - missing
        return cls(tuple(present[:LISTED]), tuple(absent[:LISTED]), unlisted + beyond, tuple(kept))

    def _counts(self) -> Counter[Input]:
        counts = Counter(dict(self.inputs))
        counts.subtract(dict(self.removed))
        return counts

    def __add__(self, other: Provenance) -> Provenance:
        counts = self._counts()
        counts.update(other._counts())
        parts = [(held, 1) for held in (*self.parts, *other.parts)]
        return self._signed(counts, self.unlisted + other.unlisted, parts)

    def __sub__(self, other: Provenance) -> Provenance:
        counts = self._counts()
        counts.subtract(other._counts())
        parts = [(held, 1) for held in self.parts] + [(held, -1) for held in other.parts]
        return self._signed(counts, self.unlisted - other.unlisted, parts)

    def shared_with(self, other: Provenance) -> list[Input]:
        """Return the inputs that both contain: merging the two would count their rows twice.

        Of inputs that one of them holds parts of, this is as much as can be told, unless both hold parts of
        the same whole: see `parts_shared_with`.
        """
        mine, theirs = _contents(self.inputs), other.inputs
        shared = [item for item, _ in theirs if item.content in mine]
        for whole, _ in other.parts:
            shared += [item for item, _ in whole.inputs if item.content in mine]
        for whole, _ in self.parts:
            held = _contents(whole.inputs)
            shared += [item for item, _ in theirs if item.content in held]
            for another, _ in other.parts:
                if another != whole:
                    same = another.digest == whole.digest  # cut into more parts, or fewer
                    shared += [item for item, _ in another.inputs if same or item.content in held]
        return list(dict.fromkeys(shared))

    def parts_shared_with(self, other: Provenance) -> list[Parts]:
        """Return the parts that both contain."""
        mine = dict(self.parts)
        found = [(whole, common(mine[whole], held)) for whole, held in other.parts if whole in mine]
        return [(whole, both) for whole, both in found if both]

    def missing_parts(self) -> list[Parts]:
        """Return the parts that are not there, of wholes of which others are."""
        found = [
            (whole, others(held, whole.of)) for whole, held in self.parts if not self._times_complete(whole)
        ]
        return [(whole, missing) for whole, missing in found if missing]

    def doubled_parts(self) -> list[Parts]:
        """Return the parts that are there more than once."""
        found = [
            (whole, at_least(held, 1 if self._times_complete(whole) else 2)) for whole, held in self.parts
        ]
        return [(whole, doubled) for whole, doubled in found if doubled]

    def _times_complete(self, whole: Whole) -> int:
        """Return how often all inputs of a whole are there besides its parts."""
        times = dict(self.inputs)
        return min(times.get(item, 0) // n for item, n in whole.inputs)

    def describe(self) -> dict[str, Any]:
        """Return what the sketch file stores."""
        parts = [
            {
                "digest": whole.digest,
                "held": [list(stretch) for stretch in held],
                "inputs": [_row(item, n) for item, n in whole.inputs],
                "of": whole.of,
                "unlisted": whole.unlisted,
            }
            for whole, held in self.parts
        ]
        return {
            "inputs": [_row(item, n) for item, n in self.inputs],
            "removed": [_row(item, n) for item, n in self.removed],
            "unlisted": self.unlisted,
            **({"parts": parts} if parts else {}),
        }

    @classmethod
    def from_description(cls, description: dict[str, Any]) -> Provenance:
        """Rebuild from what `describe` returned; raise ValueError if it can have returned no such thing."""
        return cls(
            tuple(_from_row(row) for row in description["inputs"]),
            tuple(_from_row(row) for row in description["removed"]),
            _count(description["unlisted"]),
            _parts_from(description["parts"]) if "parts" in description else (),
        )


def _contents(inputs: Iterable[tuple[Input, int]]) -> set[tuple[int, int | None, str | None] | None]:
    return {item.content for item, _ in inputs} - {None}


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


def _parts_from(rows: list[dict[str, Any]]) -> tuple[Parts, ...]:
    """Rebuild parts; they must be in the one form that adding them up would give them."""
    parts = []
    for row in rows:
        digest, of = row["digest"], _count(row["of"])
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError("a table that it holds parts of has no digest")
        if not 2 <= of <= MOST_PARTS:
            raise ValueError("the number of parts of a table is impossible")
        inputs = tuple(_from_row(item) for item in row["inputs"])
        whole = Whole(digest, of, inputs, _count(row["unlisted"]))
        orders = [item.order for item, _ in inputs]
        if not 0 < len(inputs) <= LISTED or orders != sorted(set(orders)) or not all(n for _, n in inputs):
            raise ValueError("the inputs of a table that it holds parts of are impossible")
        held = tuple((_count(first), _count(last), _count(times)) for first, last, times in row["held"])
        ascending = [number for first, last, _ in held for number in (first, last)]
        if ascending != sorted(ascending) or not all(1 <= number <= of for number in ascending):
            raise ValueError("the parts that it holds are impossible")
        if not held or settled([(held, 1)], of) != (0, held):
            raise ValueError("the parts that it holds are not in canonical form")
        parts.append((whole, held))
    if not parts or any(a.order >= b.order for (a, _), (b, _) in pairwise(parts)):
        raise ValueError("the parts that it holds are not in order")
    return tuple(parts)
