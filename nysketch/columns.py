"""Columns: the schema of a row, as sketches and models remember it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """A column of the table; a list column of length d has width d, all others width 1.

    A column of `text` holds strings, for the string kernels; it is the only one of its basis.
    """

    name: str
    width: int = 1
    text: bool = False

    def __str__(self) -> str:
        return self.name if self.width == 1 else f"{self.name}[{self.width}]"

    def describe(self) -> list[Any]:
        """Return what the sketch file stores."""
        return [self.name, self.width, *(["text"] if self.text else [])]

    @classmethod
    def from_description(cls, name: Any, width: Any, kind: Any = "number") -> Column:
        """Rebuild a column from what `describe` returned."""
        return cls(str(name), int(width), text=kind == "text")


def feature_names(columns: Iterable[Column]) -> list[str]:
    """Return a name for each feature: a column of width w > 1 gives name[0] … name[w-1]."""
    return [
        column.name if column.width == 1 else f"{column.name}[{i}]"
        for column in columns
        for i in range(column.width)
    ]


def total_width(columns: Iterable[Column]) -> int:
    """Return the number d of features that columns make together."""
    return sum(column.width for column in columns)
