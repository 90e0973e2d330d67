"""CSV files, streamed block by block: one file is one fragment.

What columns there are and of which type, the first megabyte tells. An empty field is a null among
numbers, and the empty string in a column of text, which has no nulls. pyarrow.dataset, which could read CSV
too, is not used: its scanner was measured to hold the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.csv as pacsv

from nysketch.columns import Column
from nysketch.sources.arrow import as_batch, fields_of, kept_schema
from nysketch.sources.locations import Location
from nysketch.sources.protocol import Batch, text_memory
from nysketch.sources.selection import Field, names_of

log = logging.getLogger("nysketch")

_HEAD_BYTES = 1 << 20
# A block must hold the longest line. Arrow reads 32 of them ahead (measured: 9 MB held with the smallest).
_BLOCK_BYTES = (1 << 18, 1 << 20, 1 << 22)
_READ_AHEAD = 32


class CSVFile:
    """One CSV file."""

    def __init__(self, location: Location, *, text: bool = False) -> None:
        self.location = location
        # Texts run over several lines. To look for that takes time, which numbers are not worth.
        self._parse = pacsv.ParseOptions(newlines_in_values=text)
        try:
            self._schema = self._inferred()
            self.fragment_rows = [self._count()]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise location.trouble("cannot read as CSV", error) from error
        if all(_is_number(name) for name in self._schema.names):
            log.warning(
                "%s: the first line is taken for the names of the columns, but holds only numbers. "
                "If it is a row, it is lost: put a line of names before it",
                location,
            )

    def _inferred(self) -> pa.Schema:
        """Return names and types; what begins as integers may have fractions further down."""
        with self.location.open_stream() as file:
            head = b""
            while len(head) <= _BLOCK_BYTES[-1] and (more := file.read(_HEAD_BYTES)):
                head += more
                *whole, _ = head.splitlines(keepends=True)
                if len(head) >= _HEAD_BYTES and len(whole) > 1:  # a header and a row
                    head = b"".join(whole)
                    break
        self._line_bytes = len(head) / max(head.count(b"\n"), 1)
        options = pacsv.ReadOptions(use_threads=False, block_size=len(head) + 1)
        schema = pacsv.open_csv(pa.BufferReader(head), read_options=options, parse_options=self._parse).schema
        # What is only kept must not lose digits: names are often long integers.
        kept = [pa.string() if pa.types.is_null(kind) else kind for kind in schema.types]
        self._kept = pa.schema(list(zip(schema.names, kept, strict=True)))
        types = [pa.float64() if pa.types.is_integer(kind) else kind for kind in schema.types]
        return pa.schema(list(zip(schema.names, types, strict=True)))

    def _count(self) -> int:
        """Count the rows, and find how large a block the longest of them needs."""
        some = {self._schema.names[0]: pa.binary()}  # any column does; as bytes, it is not converted
        for self._block_bytes in _BLOCK_BYTES:
            try:
                with self._batches(some) as batches:
                    return sum(batch.num_rows for batch in batches)
            except pa.ArrowInvalid as error:
                if "straddling" not in str(error) or self._block_bytes == _BLOCK_BYTES[-1]:
                    raise
        raise AssertionError

    @contextmanager
    def _batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatchReader]:
        """Open the file to read the named columns as these types."""
        read = pacsv.ReadOptions(use_threads=False, block_size=self._block_bytes)
        convert = pacsv.ConvertOptions(include_columns=list(types), column_types=types)
        with (
            self.location.open_stream() as file,
            pacsv.open_csv(
                file, read_options=read, parse_options=self._parse, convert_options=convert
            ) as reader,
        ):
            yield reader

    @property
    def reader_bytes(self) -> int:
        """Memory that one open reader may hold beside the batch it yields."""
        return _READ_AHEAD * self._block_bytes

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._schema, str(self.location))

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
        return text_memory(self._line_bytes)

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield all rows of the file."""
        types = {name: self._schema.field(name).type for name in names_of(columns, weights)}
        for batch in self._cut(types, batch_rows):
            yield as_batch(batch, columns, weights, self.where(index))

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of columns that pass through."""
        return kept_schema(self._kept, names, str(self.location))

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield other columns of all rows."""
        del index
        return self._cut({field.name: field.type for field in kept}, batch_rows)

    def _cut(self, types: Mapping[str, pa.DataType], batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            with self._batches(types) as batches:
                for block in batches:
                    for start in range(0, len(block), batch_rows):
                        yield block.slice(start, batch_rows)
        except (pa.ArrowException, OSError) as error:
            raise self.location.trouble("cannot read", error) from error


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
