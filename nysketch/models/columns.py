"""The columns of a model in its file: names of features, and kinds with their vocabularies and quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nysketch._support.string_arrays import text_arrays
from nysketch._types import Arrays
from nysketch.columns import Column, feature_names
from nysketch.kinds import Category
from nysketch.kinds.category import LARGEST_VOCABULARY


def described(column: Column) -> dict[str, Any] | None:
    """Return the kind of a column with all it takes, ready for JSON; None if it has none."""
    kind = column.kind
    if kind is None:
        return None
    description = {"name": column.name} | kind.describe()
    if isinstance(kind, Category):
        return description | {"values": list(kind.values)}
    return description | {name: array.tolist() for name, array in kind.arrays().items()}


def columns_of(features: Any, widths: Any, kinds: Any = None) -> tuple[Column, ...]:
    """Return the columns that have these features; raise ValueError where a file contradicts itself."""
    if not isinstance(features, list) or not isinstance(widths, list):
        raise ValueError("its columns are not a list")
    if kinds is not None and (not isinstance(kinds, list) or len(kinds) != len(widths)):
        raise ValueError("its columns have no list of as many kinds")
    if not all(type(width) is int and 0 < width <= len(features) for width in widths):
        raise ValueError("its columns have impossible widths")
    starts = np.cumsum([0, *widths]).tolist()
    if starts[-1] != len(features):
        raise ValueError("its columns contradict their stated widths")
    columns = []
    for start, width, kind in zip(starts, widths, kinds or [None] * len(widths), strict=False):
        if kind is not None:
            columns.append(_with_kind(kind))
            continue
        name = _text(features[start])
        columns.append(Column(name if width == 1 else name.removesuffix("[0]"), width))
    if feature_names(columns) != features or [column.features for column in columns] != widths:
        raise ValueError("its columns contradict their stated names")
    return tuple(columns)


def _with_kind(description: Any) -> Column:
    """Return the column with the kind that `described` gave."""
    if not isinstance(description, Mapping) or "name" not in description:
        raise ValueError("a column has an impossible kind")
    rest: dict[str, Any] = {key: value for key, value in description.items() if key != "name"}
    arrays: Arrays = {}
    if rest.get("kind") == Category.name:
        values = rest.get("values")
        if not isinstance(values, list) or len(values) > LARGEST_VOCABULARY:
            raise ValueError("the vocabulary of a column is impossible")
        arrays = text_arrays("values", np.array([_text(value) for value in values], object))
        rest["values"] = len(values)
    elif rest.get("knots") is not None:
        knots = np.array(rest["knots"])
        if knots.ndim != 2 or knots.dtype.kind not in "if":
            raise ValueError("the quantiles of a column are impossible")
        arrays = {"knots": knots.astype(np.float64)}
    return Column.from_description(_text(description["name"]), 1, rest, arrays=arrays)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("columns holds values that are not text")
    value.encode()  # half of a surrogate pair is no text
    return value
