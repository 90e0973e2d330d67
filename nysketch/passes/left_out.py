"""Columns that a new basis leaves out because of what the pilot shows of them, and why.

Numbers that are no features are found by sources/identifiers.py. Of the others:

- a category is an identifier if nearly all of its values are different, or if its most frequent ones cover
  few rows: it tells rows apart, and says little of them;
- it is free text if most of its values are different, and of several words;
- a category or time with one value is constant; a time of which the pilot shows no full day, week or year
  does not vary enough to say which parts of it matter;
- of a column that is always missing, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nysketch._types import Floats
from nysketch.basis.encoding import MOST_VALUES, varying_parts
from nysketch.basis.layout import Layout
from nysketch.columns import Column
from nysketch.kinds import Category, Time
from nysketch.sources.identifiers import CONSTANT, FEWEST_ROWS, FREE_TEXT, IDENTIFIER, NO_VALUES, SHORT_TIME

# Shares of the pilot: of different values among those known, and of rows that a vocabulary must cover.
_NEARLY_ALL, _MOST, _COVERED = 0.9, 0.5, 0.3
_SEVERAL_WORDS = 3.0
# Longer values are not shown as the reason.
_SHOWN = 40


def uninformative(
    rows: Floats,
    columns: tuple[Column, ...],
    texts: Mapping[str, Mapping[float, str]],
    optional: frozenset[str],
) -> dict[str, str]:
    """Return the optional columns that pilot rows show to be no features, and why."""
    found = {}
    for place in Layout.of(columns).places:
        column, values = place.column, rows[:, place.numbers.start]
        if column.name not in optional or column.width > 1 or column.text:
            continue
        known = values[~np.isnan(values)]
        if not len(known):
            found[column.name] = NO_VALUES
        elif isinstance(column.kind, Category):
            if why := _of_category(known, len(values), texts.get(column.name, {})):
                found[column.name] = why
        elif isinstance(column.kind, Time) and (why := _of_time(known, len(values), column.kind)):
            found[column.name] = why
    return found


def _of_category(known: Floats, rows: int, texts: Mapping[float, str]) -> str:
    """Return why a category is no feature; nothing if it is one."""
    if len(known) < FEWEST_ROWS:
        return ""
    values, counts = np.unique(known, return_counts=True)
    if len(values) == 1 and len(known) == rows:
        text = texts[float(values[0])]
        return f"{CONSTANT} {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"
    different = len(values) / len(known)
    words = np.mean([len(texts[value].split(None, 16)) for value in values.tolist()])
    if different >= _MOST and words >= _SEVERAL_WORDS:
        return FREE_TEXT
    covered = np.sort(counts)[-MOST_VALUES:].sum() / len(known)
    return IDENTIFIER if different >= _NEARLY_ALL or covered < _COVERED else ""


def _of_time(known: Floats, rows: int, kind: Time) -> str:
    """Return why a time is no feature; nothing if it is one."""
    if len(known) == rows >= FEWEST_ROWS and (known == known[0]).all():
        return f"{CONSTANT} {np.datetime64(int(known[0]), 's')}"
    return "" if kind.parts or varying_parts(known) else SHORT_TIME
