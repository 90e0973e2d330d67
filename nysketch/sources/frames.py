"""Frames in memory → Arrow tables: those of pandas and polars, and dicts of columns.

Neither library is imported: frames are known by the names of their classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from nysketch.columns import Column
from nysketch.errors import SchemaError, UsageError
from nysketch.sources.arrays import columns_for, plain
from nysketch.sources.selection import Field

# What converting a column that Arrow has no type for raises.
_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError)


@dataclass(frozen=True)
class Frame:
    """A table, and what Arrow does not know of its columns, or of those that it cannot hold."""

    table: pa.Table
    fields: dict[str, Field] = field(default_factory=dict)


def frame_of(data: object, like: Sequence[Column] | None) -> Frame | None:
    """Return what a table, frame, series or dict holds; None if data are none of them."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return Frame(pa.table(data))
    if isinstance(data, Mapping):
        return Frame(table_of_dict(data))
    for kind in type(data).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in ("pandas", "polars") and kind.__name__ in ("DataFrame", "Series"):
            frame = _of_series(data, like) if kind.__name__ == "Series" else data
            return _of_pandas(frame) if library == "pandas" else _of_polars(frame)
    return None


def _of_series(series: Any, like: Sequence[Column] | None) -> Any:
    """Return a frame of one column; without a name of its own it is called as the column of an array is."""
    named = series.name is not None and series.name != ""
    return series.to_frame(series.name if named else columns_for(1, like)[0].name)


def _of_pandas(frame: Any) -> Frame:
    names = [str(name) for name in frame.columns]
    _require_different(names)
    bad: dict[int, Field] = {}
    try:
        table = pa.Table.from_pandas(frame)
    except _ERRORS:
        bad = {i: _unreadable(frame.dtypes.iloc[i]) for i in range(len(names)) if not _is_readable(frame, i)}
        try:
            table = pa.Table.from_pandas(frame.iloc[:, [i for i in range(len(names)) if i not in bad]])
        except _ERRORS as error:
            raise UsageError(f"cannot make a table of a {type(frame).__name__}: {error}") from error
    fields = {names[i]: found for i, found in bad.items()}
    why = "the index: name it in `columns` to use it"
    metadata = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    for name in metadata.get("index_columns", ()):
        if isinstance(name, str):  # a range has no name, and is not stored
            kind = str(table.schema.field(name).type)
            fields[name] = Field(kind, left_out=why, text_left_out=why)
    return Frame(table, fields)


def _is_readable(frame: Any, i: int) -> bool:
    """Say whether Arrow has a type for a column of pandas."""
    try:
        pa.Array.from_pandas(frame.iloc[:, i])
    except _ERRORS:
        return False
    return True


def _of_polars(frame: Any) -> Frame:
    try:
        return Frame(pa.table(frame))
    except _ERRORS as error:
        raise UsageError(f"cannot make a table of a {type(frame).__name__}: {error}") from error


def _unreadable(kind: object) -> Field:
    return Field(str(kind), width=0, left_out=str(kind))


def _require_different(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaError(f"table: there are two columns {name!r}; rename one")
        seen.add(name)


def table_of_dict(data: Mapping[Any, Any]) -> pa.Table:
    """Return a dict of columns as a table: arrays, lists or series, all of one length."""
    names = [str(name) for name in data]
    _require_different(names)
    columns = [_column(name, values) for name, values in zip(names, data.values(), strict=True)]
    for name, column in zip(names, columns, strict=True):
        if len(column) != len(columns[0]):
            raise SchemaError(
                f"dict: column {name!r} has {len(column):,} values, column {names[0]!r} has "
                f"{len(columns[0]):,}; all must be of one length"
            )
    return pa.table(columns, names=names)


def _column(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    """Return a column of a dict as Arrow has it: a matrix is a column of lists, one a row."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise SchemaError(
            f"dict: column {name!r} is a {type(values).__name__}; columns are arrays, lists or series"
        )
    try:
        if type(values).__module__.partition(".")[0] == "pandas":
            return pa.Array.from_pandas(values)
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if isinstance(values, list | tuple | range):
            return pa.array(values, from_pandas=True)
        return _of_array(plain(np.asanyarray(values)))
    except _ERRORS as error:
        raise SchemaError(f"dict: column {name!r} cannot be read: {error}") from error


def _of_array(array: Any) -> pa.Array:
    if array.dtype.kind == "f" and (not array.dtype.isnative or array.dtype.itemsize > 8):
        array = array.astype(np.float64)  # which Arrow knows
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.ndim != 2:
        return pa.array(array, from_pandas=True)  # more dimensions are an error there
    if not array.shape[1]:
        raise ValueError("its rows have no values")
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1]
    )
