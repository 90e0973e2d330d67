"""How two kinds of the same column differ, in words."""

from __future__ import annotations

from nysketch.kinds.base import Kind
from nysketch.kinds.category import Category
from nysketch.kinds.number import Number
from nysketch.kinds.time import Time


def difference(mine: Kind | None, theirs: Kind | None) -> str:
    """Say what differs between two kinds that are not equal."""
    if isinstance(mine, Category) and isinstance(theirs, Category):
        return _of_vocabularies(mine, theirs)
    if isinstance(mine, Time) and isinstance(theirs, Time) and mine.parts != theirs.parts:
        return f"as {','.join(mine.parts)} and as {','.join(theirs.parts)} of times"
    names = name_of(mine), name_of(theirs)
    if names[0] != names[1]:
        return f"as {names[0]} and as {names[1]}"
    if getattr(mine, "missing", False) != getattr(theirs, "missing", False):
        return "in the rows of one basis values were missing, in those of the other none"
    if isinstance(mine, Number) and isinstance(theirs, Number) and mine.neutral != theirs.neutral:
        return f"missing values are taken as {mine.neutral:.6g} and as {theirs.neutral:.6g}"
    return f"as {names[0]} of other rows"


def name_of(kind: Kind | None) -> str:
    """Return what people call a kind."""
    if kind is None:
        return "number"
    return kind.transform if isinstance(kind, Number) and kind.transform != "linear" else kind.name


def _of_vocabularies(mine: Category, theirs: Category) -> str:
    only = [value for value in mine.values if value not in theirs.code_of]
    others = [value for value in theirs.values if value not in mine.code_of]
    if not only and not others:
        return "their vocabularies have the same values in another order"
    told = [
        f"only the {which} has {_shortened(values[0])!r}"
        + (f" and {len(values) - 1:,} more" if len(values) > 1 else "")
        for which, values in (("first", only), ("second", others))
        if values
    ]
    return f"of their vocabularies {' and '.join(told)}"


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
