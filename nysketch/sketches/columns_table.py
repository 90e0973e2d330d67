"""What a basis made of each column of the table, in words: its kind, why, and how much it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nysketch._support.html_repr import counted
from nysketch.basis.base import Basis
from nysketch.columns import Column
from nysketch.kinds import Category, Number, Time

NUMBER, LIST, TEXT, LEFT_OUT = "number", "list", "text", "left out"

# Where so many rows of the pilot are wild, they are a tail rather than wrong values.
_TAIL = 0.003
# With less than this share of the variance, nobody needs another kind.
_SHARE = 0.5


@dataclass(frozen=True)
class ColumnFacts:
    """One line of the table; `share` is that of the mean squared distance of two rows, None if unknown."""

    name: str
    kind: str
    about: str
    share: float | None = None

    def describe(self) -> dict[str, Any]:
        """Return the line, ready for JSON."""
        return asdict(self)


def columns_table(basis: Basis) -> list[ColumnFacts]:
    """Return a line for each column of a basis, then one for each that was left out."""
    known = basis.origin.get("pilot_columns", {})
    found = []
    for place in basis.layout.places:
        facts = known.get(place.column.name, {})
        about = "; ".join(filter(None, _about(place.column, facts, basis)))
        found.append(ColumnFacts(place.column.name, kind_of(place.column), about, facts.get("share")))
    left_out = basis.origin.get("left_out", {})
    return [*found, *(ColumnFacts(name, LEFT_OUT, why) for name, why in left_out.items())]


def kind_of(column: Column) -> str:
    """Return the kind of a column in a word, as `kinds` names it."""
    kind = column.kind
    if kind is None:
        return TEXT if column.text else LIST if column.width > 1 else NUMBER
    if isinstance(kind, Number):
        return NUMBER if kind.transform == "linear" else kind.transform
    return kind.name


def _about(column: Column, facts: Mapping[str, float], basis: Basis) -> list[str]:
    kind = column.kind
    told = []
    if column.width > 1:
        told.append(f"{column.width} numbers")
    if isinstance(kind, Category):
        covered = f" ({percent(facts['covered'])} of rows)" if "covered" in facts else ""
        told.append(counted(len(kind.values), "value") + covered)
    if isinstance(kind, Time):
        told.append(", ".join(kind.parts))
    if facts.get("missing"):
        told.append(f"{percent(facts['missing'])} missing")
    return [*told, _tail(column, basis)]


def _tail(column: Column, basis: Basis) -> str:
    """Name the kind that would help a number of which a few rows hold most of the variance."""
    rows = basis.origin.get("pilot_rows")
    for one in basis.origin.get("wild", []):
        if one["column"] != column.name or column.width > 1 or not isinstance(rows, int) or rows < 1:
            continue
        if kind_of(column) == NUMBER and one["share"] >= _SHARE and one["rows"] >= _TAIL * rows:
            held = f"{percent(one['rows'] / rows)} of rows hold {percent(one['share'])} of its variance"
            return f"log would help: {held}"
    return ""


def percent(share: float) -> str:
    """Return a share in percent: never all or nothing unless it is."""
    if 0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1:
        return "more than 99.9 %"
    digits = 1 if share < 0.0995 or share > 0.99 else 0
    return f"{100 * share:.{digits}f}".removesuffix(".0") + " %"


def lines_of(table: list[ColumnFacts], most: int = 30) -> list[str]:
    """Return the table as aligned lines, the used columns first, and never a thousand of them."""
    shown = table[:most]
    if not shown:
        return []
    shares = ["" if one.share is None else percent(one.share) for one in shown]
    names, kinds = [shorten(one.name) for one in shown], [one.kind for one in shown]
    widths = [max(map(len, cells)) for cells in (names, kinds, shares)]
    lines = [
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {share:>{widths[2]}}  {one.about}".rstrip()
        for name, kind, share, one in zip(names, kinds, shares, shown, strict=True)
    ]
    more = len(table) - len(shown)
    return [*lines, *([f"and {more:,} more"] if more else [])]


def shorten(name: str, most: int = 40) -> str:
    """Return a name, but not all of a long one."""
    return name if len(name) <= most else name[: most - 1] + "…"
