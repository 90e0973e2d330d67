"""CSV files, streamed block by block: one file is one fragment.

Names and types of the columns are inferred from the first megabyte. An empty field is a null among numbers,
and the empty string in a column of text, which has no nulls. pyarrow.dataset, which could read CSV too, is
not used: its scanner was measured to hold the whole file in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pacsv

from nysketch._support.notices import log
from nysketch.columns import Column
from nysketch.kinds import Category
from nysketch.sources.arrow import as_batch, fields_of, kept_schema
from nysketch.sources.locations import Location
from nysketch.sources.protocol import Batch, ReaderMemory, text_memory
from nysketch.sources.selection import Field, names_of

_HEAD_BYTES = 1 << 20
# A block must hold the longest line. Arrow reads 32 of them ahead (measured: 9 MB held with the smallest).
_BLOCK_BYTES = (1 << 18, 1 << 20, 1 << 22)
_READ_AHEAD = 32


@dataclass(frozen=True)
class _Head:
    """What the first lines tell: the types to read columns as, and those to keep them as."""

    schema: pa.Schema
    kept: pa.Schema
    line_bytes: float


class CSVFile:
    """One CSV file."""

    def __init__(self, location: Location, head: _Head, rows: int, *, block_bytes: int, text: bool) -> None:
        self.location, self.fragment_rows = location, [rows]
        self._head, self._block_bytes, self._text = head, block_bytes, text

    @classmethod
    def open(cls, location: Location, *, text: bool = False) -> CSVFile:
        """Infer the columns from the first lines, and count the rows."""
        try:
            head = _read_head(location, text=text)
            rows, block_bytes = _count_rows(location, head.schema.names[0], text=text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise location.trouble("cannot read as CSV", error) from error
        if all(_is_number(name) for name in head.schema.names):
            log.warning(
                "%s: the first line is read as column names, but contains only numbers. If it is a row, add "
                "a header line",
                location,
            )
        return cls(location, head, rows, block_bytes=block_bytes, text=text)

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory of one open reader: blocks that Arrow reads ahead."""
        del names
        return ReaderMemory.of(_READ_AHEAD * self._block_bytes)

    def within(self, limit: int) -> CSVFile:
        """Return the file itself: blocks are as small as its longest line allows."""
        del limit
        return self

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._head.schema, str(self.location))

    def where(self, index: int) -> str:
        """Return how messages call the (only) fragment."""
        del index
        return str(self.location)

    def list_width(self, name: str) -> int:
        """Return 0: CSV has no lists."""
        del name
        return 0

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes, from the length of the first lines."""
        del name
        return text_memory(self._head.line_bytes)

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield all rows of the file."""
        types = {name: self._head.schema.field(name).type for name in names_of(columns, weights)}
        # Categories of digits keep their zeros, as zip codes have them. An empty field is a missing value.
        categories = [column.name for column in columns if isinstance(column.kind, Category)]
        for name in categories:
            kind = self._head.kept.field(name).type
            if pa.types.is_integer(kind) or pa.types.is_null(types[name]):
                types[name] = pa.string()
        empty = bool(categories)
        for batch in self._cut(types, batch_rows, empty_is_null=empty):
            yield as_batch(batch, columns, weights, self.where(index))

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of columns that pass through."""
        return kept_schema(self._head.kept, names, str(self.location))

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield other columns of all rows."""
        del index
        return self._cut({field.name: field.type for field in kept}, batch_rows)

    def _cut(
        self, types: Mapping[str, pa.DataType], batch_rows: int, *, empty_is_null: bool = False
    ) -> Iterator[pa.RecordBatch]:
        how = {"text": self._text, "empty_is_null": empty_is_null}
        try:
            with _open_batches(self.location, types, self._block_bytes, **how) as blocks:
                for block in blocks:
                    for start in range(0, len(block), batch_rows):
                        yield block.slice(start, batch_rows)
        except (pa.ArrowException, OSError) as error:
            raise self.location.trouble("cannot read", error) from error


def _read_head(location: Location, *, text: bool) -> _Head:
    """Infer names and types of the columns from the first megabyte."""
    with location.open_stream() as file:
        head = b""
        while len(head) <= _BLOCK_BYTES[-1] and (more := file.read(_HEAD_BYTES)):
            head += more
            *whole, _ = head.splitlines(keepends=True)
            if len(head) >= _HEAD_BYTES and len(whole) > 1:  # a header and a row
                head = b"".join(whole)
                break
    options = pacsv.ReadOptions(use_threads=False, block_size=len(head) + 1)
    buffer = pa.BufferReader(head)
    schema = pacsv.open_csv(buffer, read_options=options, parse_options=_parse_options(text=text)).schema
    # Integers are read as floats, since the column may have fractions further down. A column that is only
    # kept stays as it is: identifiers are often long integers, which must not lose digits.
    types = [pa.float64() if pa.types.is_integer(kind) else kind for kind in schema.types]
    kept = [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]
    return _Head(
        pa.schema(list(zip(schema.names, types, strict=True))),
        pa.schema(list(zip(schema.names, kept, strict=True))),
        len(head) / max(head.count(b"\n"), 1),
    )


def _count_rows(location: Location, column: str, *, text: bool) -> tuple[int, int]:
    """Return the number of rows, and the size of a block that holds the longest of them."""
    types = {column: pa.binary()}  # any column does; as bytes, it is not converted
    for block_bytes in _BLOCK_BYTES:
        try:
            with _open_batches(location, types, block_bytes, text=text) as batches:
                return sum(batch.num_rows for batch in batches), block_bytes
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error) or block_bytes == _BLOCK_BYTES[-1]:
                raise
    raise AssertionError


@contextmanager
def _open_batches(
    location: Location,
    types: Mapping[str, pa.DataType],
    block_bytes: int,
    *,
    text: bool,
    empty_is_null: bool = False,
) -> Iterator[pa.RecordBatchReader]:
    """Open a file to read the named columns as these types."""
    read = pacsv.ReadOptions(use_threads=False, block_size=block_bytes)
    convert = pacsv.ConvertOptions(
        include_columns=list(types), column_types=types, strings_can_be_null=empty_is_null
    )
    parse = _parse_options(text=text)
    with (
        location.open_stream() as file,
        pacsv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader,
    ):
        yield reader


def _parse_options(*, text: bool) -> pacsv.ParseOptions:
    # Text may run over several lines. Looking for that takes time, which files of numbers are spared.
    return pacsv.ParseOptions(newlines_in_values=text)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
