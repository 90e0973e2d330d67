"""What users ask for: `price=log`, `zip=category`, `ts=hour,weekday`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nysketch.errors import UsageError
from nysketch.kinds.base import Kind
from nysketch.kinds.category import Category
from nysketch.kinds.number import LINEAR, LOG, RANK, Number
from nysketch.kinds.text import Text
from nysketch.kinds.time import PARTS, Time

NUMBER, CATEGORY, TIME, TEXT = "number", "category", "time", "text"
KINDS = (NUMBER, LOG, RANK, CATEGORY, TIME, TEXT, *PARTS)


@dataclass(frozen=True)
class KindRequest:
    """The kind that a column shall have; what it takes from the pilot is not known yet.

    `parts` of a time are those that vary, if none are named.
    """

    kind: str
    transform: str = LINEAR
    parts: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, column: str) -> KindRequest:
        """Read the right side of `column=kind`."""
        words = [word.strip() for word in text.split(",")]
        if words == [CATEGORY]:
            return cls(CATEGORY)
        if words == [TIME]:
            return cls(TIME)
        if words == [TEXT]:
            return cls(TEXT)
        if len(words) == 1 and words[0] in (NUMBER, LINEAR, LOG, RANK):
            return cls(NUMBER, LINEAR if words[0] == NUMBER else words[0])
        if words and set(words) <= set(PARTS) and len(set(words)) == len(words):
            return cls(TIME, parts=tuple(part for part in PARTS if part in words))
        raise UsageError(
            f"`kinds`: that of column {column!r} must be one of {', '.join(KINDS)}, or several parts of a "
            f"time such as hour,weekday; not {text!r}"
        )

    def __str__(self) -> str:
        if self.kind == NUMBER:
            return NUMBER if self.transform == LINEAR else self.transform
        return ",".join(self.parts) or self.kind

    def unfitted(self) -> Kind:
        """Return the kind before it has seen the pilot."""
        if self.kind == CATEGORY:
            return Category()
        if self.kind == TIME:
            return Time(self.parts)
        if self.kind == TEXT:
            return Text()
        return Number(missing=True)


def parse_kinds(kinds: Mapping[str, Any] | Iterable[str] | None) -> dict[str, KindRequest]:
    """Read kinds by column: a mapping, or a list of `column=kind`; parts of a time may be a list, too."""
    given = by_column(kinds, "kinds", "column=kind, such as price=log")
    return {column: KindRequest.parse(_joined(kind), column) for column, kind in given.items()}


def by_column(given: Mapping[str, Any] | Iterable[str] | None, option: str, form: str) -> dict[str, Any]:
    """Return what an option says of columns, given as a mapping or as a list of `column=…`."""
    if not given:
        return {}
    if isinstance(given, Mapping):
        pairs = [(str(column), value) for column, value in given.items()]
    else:
        pairs = []
        for item in [given] if isinstance(given, str) else given:
            column, equals, value = str(item).rpartition("=")
            if not equals or not column:
                raise UsageError(f"`{option}` must be {form}, not {str(item)!r}")
            pairs.append((column, value))
    found: dict[str, Any] = {}
    for column, value in pairs:
        if column in found:
            raise UsageError(f"`{option}` names column {column!r} twice")
        found[column] = value
    return found


def _joined(kind: Any) -> str:
    return ",".join(map(str, kind)) if isinstance(kind, list | tuple) else str(kind)
