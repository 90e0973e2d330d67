"""Functions of rows: a value, or several, for every row of whatever people have, a few rows at a time.

Columns are found by their names where they have any. What a basis, a sketch or a model says of rows is
computed here; for labels of tables larger than memory there is models/apply.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nysketch._types import Floats, Rows
from nysketch.columns import Column
from nysketch.errors import UsageError
from nysketch.passes.chunks import ChunkReader, require_declared_rows
from nysketch.sources.open import open_source

# What becomes of rows that hold nulls, NaN or infinities.
POLICIES = ("error", "nan", "keep")


class _Reader(ChunkReader):
    """Reads rows, with another remedy for nulls."""

    remedy = ""

    def _remedy(self) -> str:
        return self.remedy


def at_rows(
    columns: Sequence[Column],
    data: Any,
    function: Callable[[Rows], NDArray[Any]],
    *,
    remedy: str,
    shape: tuple[int, ...] = (),
    dtype: DTypeLike = np.float64,
    nulls: str = "error",
    step: int = 8192,
    fill: Floats | None = None,
) -> NDArray[Any]:
    """Return what a function says of every row, of which it gets at most `step` at a time.

    The function takes rows of these columns, in their order, and returns an array of the given shape for
    each. With nulls="nan", rows that it cannot be asked about get NaN; otherwise they raise an
    InvalidRowsError, which names the `remedy`. With nulls="keep", columns with kinds have missing values as
    NaN, and others the numbers of `fill`.
    """
    if nulls not in POLICIES:
        raise UsageError(f"`nulls` must be one of {', '.join(POLICIES)}, not {nulls!r}")
    source = open_source(data, like=columns)
    reader = _Reader(source, nulls="drop" if nulls == "nan" else nulls, fill=fill)
    reader.remedy = remedy
    parts: list[NDArray[Any]] = []
    everything = None if source.rows is None else np.empty((source.rows, *shape), dtype)
    for fragment in source.fragments():
        read = 0
        for chunk in reader.chunks(fragment):
            found = np.full((len(chunk.rows), *shape), np.nan if nulls == "nan" else 0, dtype)
            for start in range(0, len(found), step):
                part = slice(start, start + step)
                keep = chunk.keep[part]
                found[part][keep] = function(chunk.rows[part][keep])
            if everything is None:
                parts.append(found)
            else:
                everything[chunk.first_row : chunk.first_row + len(found)] = found
            read += len(found)
        require_declared_rows(fragment, read)
    if everything is None:
        return np.concatenate([np.empty((0, *shape), dtype), *parts])
    return everything
