"""Arrow columns → NumPy arrays, for every source that speaks Arrow; tables and streams as sources.

Nulls become NaN (in text: None), and their count travels along. What can be viewed without copying is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nysketch.columns import Column, total_width
from nysketch.errors import InputError, SchemaError, UnreadableError, option
from nysketch.kinds import Category, Text, Time
from nysketch.provenance import Input
from nysketch.sources.encoding import encode, seconds
from nysketch.sources.protocol import (
    Batch,
    Fragment,
    ReaderMemory,
    WithoutFiles,
    key_of_rows,
    ranges_as_fragments,
    text_memory,
)
from nysketch.sources.selection import (
    TEXT,
    TIME,
    Field,
    Selection,
    names_of,
    require_field,
    require_kind,
    require_numeric,
    require_same,
    require_text,
)

# Rows per fragment of sources that have no fragments of their own.
FRAGMENT_ROWS = 1 << 16
# A fragment of a stream is held in memory, so wide rows make it shorter.
_HELD_BYTES = 16 << 20
# So does text, whatever its length: boundaries must not depend on it. 4 KiB a row make 16 MiB.
_HELD_TEXT_ROWS = 1 << 12
# The name under which pandas stores an index that has none.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def _is_number(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_number(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def field_of(kind: pa.DataType) -> Field:
    """Say whether and how a column of this type can be used."""
    text = str(kind)
    if _is_number(kind):
        return Field(text)
    if pa.types.is_fixed_size_list(kind) and kind.list_size and _is_number(kind.value_type):
        return Field(text, width=kind.list_size)
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_number(kind.value_type):
        if pa.types.is_floating(kind.value_type):
            return Field(text, width=None)
        # A list of integers is more often a bag of things than an embedding.
        return Field(text, width=None, left_out=f"{text}: name it in `columns` to use it")
    why = TEXT if _is_text(kind) else TIME if pa.types.is_temporal(kind) else text
    if pa.types.is_duration(kind):  # a number of seconds, if it is wanted
        return Field(text, left_out=why, automatic="number")
    of_day, empty = pa.types.is_time(kind), pa.types.is_null(kind)
    automatic = {TEXT: "category", TIME: "hour" if of_day else "time"}.get(why, "")
    return Field(
        text,
        width=0,
        left_out=why,
        text=_is_text(kind),
        time=why == TIME,
        automatic=automatic,
        empty=empty,
    )


def fields_of(schema: pa.Schema, where: str) -> dict[str, Field]:
    """Return the fields of a schema; two columns of one name cannot be told apart."""
    fields: dict[str, Field] = {}
    try:
        known = [(field.name, field_of(field.type)) for field in schema]
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{where}: damaged: the name of a column is not text: {error}") from error
    for name, field in known:
        if name in fields:
            raise SchemaError(f"{where}: two columns are named {name!r}; rename one")
        fields[name] = field
        if _PANDAS_INDEX.fullmatch(name):
            why = "an index of pandas: name it in `columns` to use it"
            fields[name] = replace(field, left_out=why if field.width else field.left_out, text_left_out=why)
    return fields


def _decoded(array: pa.Array) -> pa.Array:
    """Return the array without dictionary, where nulls can hide both in the indices and the values."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _values(array: pa.Array) -> NDArray[Any]:
    """Return numbers as a NumPy array; nulls as NaN."""
    kind = array.type
    if pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif pa.types.is_duration(kind):
        return seconds(array)
    elif pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _without_views(array: pa.Array) -> pa.Array:
    """Return text as pyarrow can handle it: it takes nothing from views, nor always makes NumPy of them."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _without_views(array.dictionary))
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _strings(array: pa.Array, name: str, where: str) -> NDArray[Any]:
    """Return text as an array of str, with None for nulls."""
    try:
        return np.asarray(array.to_numpy(zero_copy_only=False), dtype=object)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{where}: column {name!r} holds text that is not valid UTF-8: {error}") from error


def to_numpy(array: pa.Array, column: Column, where: str) -> tuple[NDArray[Any], int]:
    """Return a column as an array (1-D, or rows × width for lists) and its number of rows with nulls."""
    kind = array.type
    if column.text:
        array = _decoded(_without_views(array))
        return _strings(array, column.name, where), array.null_count
    if not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        array = _decoded(array)
        return _values(array), array.null_count
    lengths = pc.list_value_length(array)
    bad = pc.not_equal(lengths, column.width)
    if pc.any(bad).as_py():
        at = pc.index(bad, True).as_py()
        raise SchemaError(
            f"{where}: column {column.name!r} has a list of length {lengths[at].as_py()} where others have "
            f"{column.width}; all must have the same length. Leave it out with "
            f"{option('exclude', column.name)}"
        )
    flat = _decoded(array.flatten())  # skips null lists
    inner = _values(flat).reshape(-1, column.width)
    nulls = array.null_count
    if flat.null_count:
        holes = flat.is_null().to_numpy(zero_copy_only=False).reshape(-1, column.width)
        nulls += int(holes.any(axis=1).sum())
    if not array.null_count:
        return inner, nulls
    values = np.full((len(array), column.width), np.nan)
    values[array.is_valid().to_numpy(zero_copy_only=False)] = inner
    return values, nulls


def list_width(array: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the length of the first list that is not null, or None if there is none."""
    lengths = pc.drop_null(pc.list_value_length(array))
    return int(lengths[0].as_py()) if len(lengths) else None


def as_batch(batch: pa.RecordBatch, columns: Sequence[Column], weights: str | None, where: str) -> Batch:
    """Turn a record batch into arrays."""
    values, nulls, texts = [], [], {}
    for column in columns:
        if isinstance(column.kind, Category | Text | Time):
            encoded = encode(batch.column(column.name), column, where)
            array, count = encoded.values, encoded.nulls
            if encoded.texts:
                texts[column.name] = encoded.texts
        else:
            array, count = to_numpy(batch.column(column.name), column, where)
        values.append(array)
        nulls.append(count)
    weight_values = None
    if weights is not None:
        weight_values, count = to_numpy(batch.column(weights), Column(weights), where)
        nulls.append(count)
    return Batch(values, weight_values, nulls, texts)


def kept_schema(schema: pa.Schema, names: Sequence[str], where: str) -> pa.Schema:
    """Return the columns that pass through; of dictionaries, which differ between batches, the values."""
    fields = fields_of(schema, where)
    for name in names:
        require_field(fields, name, where)
    return pa.schema([(name, _kept_type(schema.field(name).type)) for name in names])


def _kept_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column passes through: no rows can be taken from views."""
    if pa.types.is_dictionary(kind):
        return _kept_type(kind.value_type)
    return pa.large_string() if pa.types.is_string_view(kind) else kind


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)  # Arrow casts some types not even to themselves


def as_kept(batch: pa.RecordBatch, kept: pa.Schema, where: str) -> pa.RecordBatch:
    """Return the columns that pass through, in the types that all files share."""
    try:
        columns = [_cast(batch.column(field.name), field.type) for field in kept]
    except pa.ArrowException as error:
        raise SchemaError(f"{where}: a column cannot be kept: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=kept)


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
        kind = None if selection.text else selection.kind_of(name, field)
        if kind is not None:
            require_kind(field, name, kind, where)
            columns.append(Column(name, kind.width, kind=kind))
            continue
        if selection.text:
            require_text(field, name, where)
            columns.append(Column(name, text=True))
            continue
        require_numeric(field, name, where)
        columns.append(Column(name, width_of(name) if field.width is None else field.width))
    return tuple(columns), left_out


class TableSource(WithoutFiles):
    """A table in memory: a pyarrow Table, or anything that becomes one without copying.

    `fields` say more of its columns than Arrow knows, and of those that no table can have.
    """

    rereadable = True

    def __init__(
        self,
        table: pa.Table,
        selection: Selection,
        widths: Mapping[str, int],
        fields: Mapping[str, Field] | None = None,
    ) -> None:
        self._name = "table"
        self.columns, self.left_out = choose_columns(
            fields_of(table.schema, self._name) | dict(fields or {}),
            selection,
            self._name,
            lambda column: list_width(table.column(column)) or widths.get(column, 0),
        )
        self.optional = selection.optional(self.columns)
        self.weights = selection.weights
        self.kept = kept_schema(table.schema, selection.keep, self._name)
        self._whole = table
        names = dict.fromkeys([*names_of(self.columns, self.weights), *self.kept.names])
        self._table = table.select(list(names))
        self.rows = len(table)
        if selection.text:
            texts = text_memory(table.column(self.columns[0].name).nbytes / max(self.rows, 1))
            self.reader_memory += ReaderMemory.of(texts)

    def fragments(self) -> Iterable[Fragment]:
        """Return ranges of FRAGMENT_ROWS rows."""
        return ranges_as_fragments(self, self.rows, FRAGMENT_ROWS, self._name)

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield the range as views of the table where types allow."""
        part = self._table.slice(fragment.first_row, fragment.rows)
        for batch in part.to_batches(max_chunksize=batch_rows):
            yield as_batch(batch, self.columns, self.weights, fragment.where)

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the extremes over all rows."""
        found = {}
        for name in names:
            if name in self._whole.column_names and _is_number(self._whole.schema.field(name).type):
                values = self._whole.column(name)
                if pa.types.is_dictionary(values.type) or pa.types.is_decimal(values.type):
                    values = values.cast(pa.float64())
                lower, upper = (end.as_py() for end in pc.min_max(values).values())
                if lower is not None:
                    found[name] = (float(lower), float(upper))
        return found

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the range as slices of the table."""
        part = self._table.select(self.kept.names).slice(fragment.first_row, fragment.rows)
        for batch in part.to_batches(max_chunksize=batch_rows):
            yield as_kept(batch, self.kept, fragment.where)

    def inputs(self) -> tuple[Input, ...]:
        """Return the table's name and length."""
        return (Input(self._name, self.rows),)


def held_rows_for(d: int, *, text: bool = False) -> int:
    """Return how many rows of a stream make a fragment: a power of two, and 16 MiB of numbers at most."""
    if text:
        return min(_HELD_TEXT_ROWS, FRAGMENT_ROWS)
    rows = max(_HELD_BYTES // (8 * max(d, 1)), 1)
    return min(max(1 << (rows.bit_length() - 1), 1 << 8), FRAGMENT_ROWS)


@dataclass(frozen=True)
class HeldFragment(Fragment):
    """A fragment that carries its rows, since nobody else will have them again."""

    batches: tuple[pa.RecordBatch, ...]


class StreamSource(WithoutFiles):
    """Record batches that pass by once: standard input, a reader, an iterator.

    Fragments of a fixed number of rows are cut out of it whatever the sizes of its batches, so that the
    sketch does not depend on them.
    """

    rows: int | None = None
    rereadable = False

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        selection: Selection,
        name: str,
        widths: Mapping[str, int],
    ) -> None:
        self._name, self._schema = name, schema
        self._fields = fields_of(schema, name)
        self.columns, self.left_out = choose_columns(
            self._fields, selection, name, lambda column: widths.get(column) or self._list_width(column)
        )
        self.optional = selection.optional(self.columns)
        self.weights = selection.weights
        self.kept = kept_schema(schema, selection.keep, name)
        self._text = selection.text
        self._batches, self._seen = batches, 0
        self._read_these_columns()

    def _read_these_columns(self) -> None:
        """Plan to read the chosen columns from the first row on."""
        self._names = list(dict.fromkeys([*names_of(self.columns, self.weights), *self.kept.names]))
        self._fragment_rows = held_rows_for(total_width(self.columns), text=self._text)
        self._key: int | None = None  # known from the first rows on

    def _list_width(self, column: str) -> int:
        """Return 0: a stream must not be read to find out how long lists are."""
        return 0

    def fragments(self) -> Iterator[Fragment]:
        """Yield fragments as the stream delivers them."""
        held: list[pa.RecordBatch] = []
        rows = 0
        try:
            for batch in self._batches:
                self._check(batch.schema, self._seen + rows)
                batch = batch.select(self._names)
                batch.validate(full=True)  # Arrow would follow offsets to anywhere
                while rows + len(batch) >= self._fragment_rows:
                    missing = self._fragment_rows - rows
                    yield self._hold([*held, batch.slice(0, missing)])
                    held, rows, batch = [], 0, batch.slice(missing)
                if len(batch):
                    held.append(batch)
                    rows += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self._name}: the stream broke after {self._seen + rows:,} rows: {error}"
            ) from error
        if rows:
            yield self._hold(held)

    def _check(self, schema: pa.Schema, row: int) -> None:
        """Make sure that a batch has the columns of the first; an iterator may yield anything."""
        if schema.equals(self._schema):
            return
        chosen = [*self.columns, *(Column(name) for name in filter(None, [self.weights]))]
        where = f"{self._name}, the batch from row {row} on"
        fields = fields_of(schema, where)
        require_same(fields, chosen, where, first=self._fields, first_where="the first batch")
        for name in self.kept.names:
            require_field(fields, name, where)

    def _hold(self, batches: list[pa.RecordBatch]) -> Fragment:
        first, number = self._seen, self._seen // self._fragment_rows
        rows = sum(map(len, batches))
        self._seen += rows
        where = f"{self._name}, rows {first}–{self._seen - 1}"
        fragment = HeldFragment(number, first, rows, where, first, 0, tuple(batches))
        if self._key is None:
            self._key = key_of_rows(self.read(fragment, rows))
        return replace(fragment, input_key=self._key)

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield the rows that the fragment carries."""
        assert isinstance(fragment, HeldFragment)
        for batch in fragment.batches:
            for start in range(0, len(batch), batch_rows):
                part = batch.slice(start, batch_rows)
                yield as_batch(part, self.columns, self.weights, fragment.where)

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the fragment carries."""
        assert isinstance(fragment, HeldFragment)
        for batch in fragment.batches:
            for start in range(0, len(batch), batch_rows):
                yield as_kept(batch.slice(start, batch_rows), self.kept, fragment.where)

    def inputs(self) -> tuple[Input, ...]:
        """Return the stream's name and how many rows it had."""
        return (Input(self._name, self._seen),)
