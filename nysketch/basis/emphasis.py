"""Columns that count more than others, or less: `price=2`.

The factor multiplies what a column adds to squared distances, and so its share of their mean. It is stored
in the scale of its features, which is divided by the root of the factor: nothing else knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.columns import Column, owners
from nysketch.errors import SchemaError, UsageError
from nysketch.kinds.requests import by_column

# More would leave nothing of the other columns in single precision, or nothing of this one.
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-6, 1e6


def parse_emphasis(emphasis: Mapping[str, Any] | Iterable[str] | None) -> dict[str, float]:
    """Read factors by column: a mapping, or a list of `column=factor`."""
    given = by_column(emphasis, "emphasis", "column=factor, such as price=2")
    return {column: _factor(factor, column) for column, factor in given.items()}


def _factor(given: Any, column: str) -> float:
    try:
        factor = np.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        factor = np.nan
    if not SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
        raise UsageError(
            f"`emphasis` of column {column!r} must be a number between {SMALLEST_FACTOR:g} and "
            f"{LARGEST_FACTOR:g}, not {given!r}: 2 counts twice as much, 0.5 half"
        )
    return float(factor)


def emphasised(scale: Floats, columns: Sequence[Column], emphasis: Mapping[str, float]) -> Floats:
    """Return the scale of all features, those of columns with a factor divided by its root."""
    names = [column.name for column in columns]
    for name in emphasis:
        if name not in names:
            shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise SchemaError(
                f"`emphasis` names column {name!r}, which is not among those of the basis: {shown}"
            )
    factors = [emphasis.get(name, 1.0) for name in owners(columns)]
    return scale / np.sqrt(factors)
