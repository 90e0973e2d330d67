"""How results present themselves: on one line, and as a small table in a notebook.

Names come from files and may hold anything: what cannot be printed is replaced, and HTML is escaped.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping

# Characters of a line, and of a cell of a table.
_LINE, _CELL = 120, 300
# Names that are listed.
_NAMES = 8
# Rows of a table that lists results.
MOST_ROWS = 20


def one_line(kind: str, *facts: str | None) -> str:
    """Return what `repr` says: a class and some facts, without those that are None, in 120 characters."""
    text = _printable(f"{kind}: {', '.join(fact for fact in facts if fact is not None)}")
    return f"<{_shortened(text, _LINE - 2)}>"


def html_table(title: str, facts: Mapping[str, object]) -> str:
    """Return what a notebook shows: a table of facts, without those that are None."""
    known = {name: fact for name, fact in facts.items() if fact is not None}
    rows = (f"<tr><th>{_cell(name)}</th><td>{_cell(fact)}</td></tr>" for name, fact in known.items())
    return f"<table><caption>{_cell(title)}</caption>{''.join(rows)}</table>"


def listed(names: Iterable[object]) -> str:
    """Return the first names, and how many more there are."""
    every = [str(name) for name in names]
    shown = ", ".join(_shortened(name, 40) for name in every[:_NAMES])
    return shown if len(every) <= _NAMES else f"{shown} and {len(every) - _NAMES:,} more"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number of things: 1 column, 14 columns."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def with_error(value: float, error: float | None) -> str:
    """Return a number with its standard error, to the digits that the error leaves: 0.031 ± 0.002."""
    if error is None or not math.isfinite(error) or not error > 0 or not math.isfinite(value):
        return f"{value:.3g}"
    decimals = max(-math.floor(math.log10(error)), 0)
    if decimals > 6 or abs(value) >= 1e6:
        return f"{value:.3g} ± {error:.1g}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def verdict(rejected: bool | None, p_value: float | None, alpha: float, found: str) -> tuple[str, ...]:
    """Return what a test found, as facts: its p-value, and whether `found` at the level."""
    if rejected is None or p_value is None:
        return ("not tested",)
    return f"p {p_value:.2g}", f"{found if rejected else f'not {found}'} at {alpha:g}"


def _cell(fact: object) -> str:
    return html.escape(_shortened(_printable(str(fact)), _CELL))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _printable(text: str) -> str:
    """Replace control codes, line breaks and marks that turn text around."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
