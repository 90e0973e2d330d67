"""Arrow columns → NumPy arrays, for every source that speaks Arrow; tables and streams as sources.

Nulls become NaN, and their count travels along. What can be viewed without copying is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nysketch.basis import Column
from nysketch.errors import InputError, SchemaError
from nysketch.provenance import Input
from nysketch.sources.base import Batch, Field, Fragment, Selection, require_field, require_numeric

# Rows per fragment of sources that have no fragments of their own.
FRAGMENT_ROWS = 1 << 16


def _is_number(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_number(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def field_of(kind: pa.DataType) -> Field:
    """Say whether and how a column of this type can be used."""
    text = str(kind)
    if _is_number(kind):
        return Field(text)
    if pa.types.is_fixed_size_list(kind) and _is_number(kind.value_type):
        return Field(text, width=kind.list_size)
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_number(kind.value_type):
        if pa.types.is_floating(kind.value_type):
            return Field(text, width=None)
        # A list of integers is more often a bag of things than an embedding.
        return Field(text, width=None, left_out=f"{text}: name it in --columns to use it")
    return Field(text, width=0, left_out=text)


def fields_of(schema: pa.Schema, where: str) -> dict[str, Field]:
    """Return the fields of a schema; two columns of one name cannot be told apart."""
    fields: dict[str, Field] = {}
    for field in schema:
        if field.name in fields:
            raise SchemaError(f"{where}: there are two columns {field.name!r}; rename one")
        fields[field.name] = field_of(field.type)
    return fields


def _values(array: pa.Array) -> NDArray[Any]:
    """Return numbers as a NumPy array; nulls as NaN."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    return np.asarray(array.to_numpy(zero_copy_only=False))


def to_numpy(array: pa.Array, column: Column, where: str) -> tuple[NDArray[Any], int]:
    """Return a column as an array (1-D, or rows × width for lists) and the number of its nulls."""
    kind = array.type
    if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _values(array), array.null_count
    lengths = pc.list_value_length(array)
    bad = pc.not_equal(lengths, column.width)
    if pc.any(bad).as_py():
        at = pc.index(bad, True).as_py()
        raise SchemaError(
            f"{where}: column {column.name!r} has a list of length {lengths[at].as_py()} where others "
            f"have {column.width}; all must be of one length. Leave it out with --exclude {column.name}"
        )
    flat = array.flatten()  # skips null lists
    inner = _values(flat)
    nulls = array.null_count + flat.null_count
    if not array.null_count:
        return inner.reshape(-1, column.width), nulls
    values = np.full((len(array), column.width), np.nan)
    values[array.is_valid().to_numpy(zero_copy_only=False)] = inner.reshape(-1, column.width)
    return values, nulls


def list_width(array: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the length of the first list that is not null, or None if there is none."""
    for length in pc.list_value_length(array):
        if length.is_valid:
            return int(length.as_py())
    return None


def as_batch(batch: pa.RecordBatch, columns: Sequence[Column], weights: str | None, where: str) -> Batch:
    """Turn a record batch into arrays."""
    values, nulls = [], []
    for column in columns:
        array, count = to_numpy(batch.column(column.name), column, where)
        values.append(array)
        nulls.append(count)
    weight_values = None
    if weights is not None:
        weight_values, count = to_numpy(batch.column(weights), Column(weights), where)
        nulls.append(count)
    return Batch(values, weight_values, nulls)


def choose_columns(
    fields: Mapping[str, Field],
    selection: Selection,
    where: str,
    width_of: Callable[[str], int],
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Return the chosen columns with their widths; `width_of` finds that of a variable-length list."""
    names, left_out = selection.choose(fields, where)
    columns = []
    for name in names:
        field = require_field(fields, name, where)
        require_numeric(field, name, where)
        columns.append(Column(name, width_of(name) if field.width is None else field.width))
    return tuple(columns), left_out


class TableSource:
    """A table in memory: a pyarrow Table, or anything that becomes one without copying."""

    rereadable = True

    def __init__(self, table: pa.Table, selection: Selection, name: str = "table") -> None:
        self._table, self._name = table, name
        fields = fields_of(table.schema, name)
        self.columns, self.left_out = choose_columns(
            fields, selection, name, lambda column: list_width(table.column(column)) or 0
        )
        self.weights = selection.weights
        self.rows = len(table)

    def fragments(self) -> Iterable[Fragment]:
        """Return ranges of FRAGMENT_ROWS rows."""
        for number, first in enumerate(range(0, self.rows, FRAGMENT_ROWS)):
            rows = min(FRAGMENT_ROWS, self.rows - first)
            yield Fragment(number, first, rows, f"{self._name}, rows {first}–{first + rows - 1}")

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield the range as views of the table where types allow."""
        part = self._table.slice(fragment.first_row, fragment.rows)
        for batch in part.to_batches(max_chunksize=batch_rows):
            yield as_batch(batch, self.columns, self.weights, fragment.where)

    def inputs(self) -> tuple[Input, ...]:
        """Return the table's name and length."""
        return (Input(self._name, self.rows),)


class StreamSource:
    """Record batches that pass by once: standard input, a reader, an iterator.

    Fragments of FRAGMENT_ROWS rows are cut out of it whatever the sizes of its batches, so that the
    sketch does not depend on them. A fragment holds its rows until it is read.
    """

    rows = None
    rereadable = False

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        selection: Selection,
        name: str,
        widths: Mapping[str, int],
    ) -> None:
        self._batches, self._name, self._selection = batches, name, selection
        self.columns, self.left_out = choose_columns(
            fields_of(schema, name), selection, name, lambda column: widths.get(column, 0)
        )
        self.weights = selection.weights
        self._seen = 0
        self._held: dict[int, pa.Table] = {}

    def fragments(self) -> Iterator[Fragment]:
        """Yield fragments as the stream delivers them."""
        names = [*(c.name for c in self.columns), *filter(None, [self.weights])]
        held: list[pa.RecordBatch] = []
        rows = 0
        try:
            for batch in self._batches:
                held.append(batch.select(names))
                rows += len(batch)
                while rows >= FRAGMENT_ROWS:
                    table = pa.Table.from_batches(held)
                    yield self._hold(table.slice(0, FRAGMENT_ROWS))
                    held = table.slice(FRAGMENT_ROWS).to_batches()
                    rows -= FRAGMENT_ROWS
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self._name}: the stream broke after {self._seen + rows:,} rows: {error}"
            ) from error
        if rows:
            yield self._hold(pa.Table.from_batches(held))

    def _hold(self, table: pa.Table) -> Fragment:
        first, number = self._seen, self._seen // FRAGMENT_ROWS
        self._seen += len(table)
        self._held[number] = table
        return Fragment(number, first, len(table), f"{self._name}, rows {first}–{self._seen - 1}")

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield the rows held for this fragment."""
        for batch in self._held[fragment.number].to_batches(max_chunksize=batch_rows):
            yield as_batch(batch, self.columns, self.weights, fragment.where)

    def release(self, fragment: Fragment) -> None:
        """Forget the rows of a fragment that has been dealt with."""
        self._held.pop(fragment.number, None)

    def inputs(self) -> tuple[Input, ...]:
        """Return the stream's name and how many rows it had."""
        return (Input(self._name, self._seen),)
