"""Columns: the schema of a row, as sketches and models remember it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nysketch._types import Arrays
from nysketch.kinds import Category, Kind, Number, Text, Time

_KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (Category, Number, Text, Time)}


@dataclass(frozen=True)
class Column:
    """A column of the table; a list column of length d has width d, a text 32, all others width 1.

    `width` is how many numbers a row has for it, `features` how many features are made of them: as many,
    unless the column has a kind. A column of `text` holds strings, for the string kernels; it is the only one
    of its basis.
    """

    name: str
    width: int = 1
    text: bool = False
    kind: Kind | None = None

    def __str__(self) -> str:
        return self.name if self.width == 1 or self.kind is not None else f"{self.name}[{self.width}]"

    @property
    def features(self) -> int:
        """How many features of a row are this column's."""
        return self.width if self.kind is None else self.kind.features

    def describe(self) -> list[Any]:
        """Return what the sketch file stores; arrays of the kind are apart."""
        if self.kind is not None:
            return [self.name, self.width, self.kind.describe()]
        return [self.name, self.width, *(["text"] if self.text else [])]

    @classmethod
    def from_description(
        cls, name: Any, width: Any, kind: Any = "number", *, arrays: Arrays | None = None
    ) -> Column:
        """Rebuild a column from what `describe` returned, and from the arrays of its kind."""
        if isinstance(kind, dict):
            known = _KINDS.get(str(kind.get("kind")))
            if known is None or width != known.width:
                raise ValueError("a column has an unknown kind: written by a newer nysketch?")
            return cls(str(name), known.width, kind=known.from_parts(kind, arrays or {}))
        return cls(str(name), int(width), text=kind == "text")


def feature_names(columns: Iterable[Column]) -> list[str]:
    """Return a name for each feature: a column of width w > 1 gives name[0] … name[w-1]."""
    names: list[str] = []
    for column in columns:
        if column.kind is not None:
            names += column.kind.labels(column.name)
        elif column.width == 1:
            names.append(column.name)
        else:
            names += [f"{column.name}[{i}]" for i in range(column.width)]
    return names


def owners(columns: Iterable[Column]) -> list[str]:
    """Return for each feature the name of its column."""
    return [column.name for column in columns for _ in range(column.features)]


def total_width(columns: Iterable[Column]) -> int:
    """Return how many numbers a row has."""
    return sum(column.width for column in columns)


def total_features(columns: Iterable[Column]) -> int:
    """Return the number d of features that columns make together."""
    return sum(column.features for column in columns)
