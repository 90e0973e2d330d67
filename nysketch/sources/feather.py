"""Feather files (Arrow IPC with a footer): one record batch is one fragment.

Local files are mapped into memory unless compressed: no batch is held, slices are read as needed. Of a
compressed or remote batch, the chosen columns are held while it is read.

Arrow trusts such files: it would follow offsets that point outside a list. So batches are validated before
anything uses them (which reads offsets and nulls, and copies nothing); pyarrow.dataset, which does not
validate, is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from nysketch.sources.arrow import list_width
from nysketch.sources.arrow_file import ArrowFile
from nysketch.sources.locations import Location
from nysketch.sources.protocol import ReaderMemory, text_memory

_Reader: TypeAlias = pa.RecordBatchFileReader

# Beside a batch that is a view of the file: messages, bitmaps.
_VIEW_BYTES = 1 << 20


class FeatherFile(ArrowFile):
    """One Feather file."""

    def __init__(
        self, location: Location, schema: pa.Schema, fragment_rows: list[int], *, is_view: bool
    ) -> None:
        super().__init__(location, schema, fragment_rows)
        self._is_view = is_view

    @classmethod
    def open(cls, location: Location) -> FeatherFile:
        """Read the footer, and the narrowest column for the rows of each batch."""
        with _open(location) as reader:
            schema, count = reader.schema, reader.num_record_batches
        # The footer does not tell the rows of a batch.
        sizes = [_bits(field.type) for field in schema]
        narrowest = [schema[min(range(len(sizes)), key=sizes.__getitem__)].name] if sizes else []
        with _open(location, map(schema.get_field_index, narrowest)) as reader:
            batches = (reader.get_batch(i) for i in range(count))
            found = [(batch.num_rows, _is_compressed(batch)) for batch in batches]
        is_view = location.local_path is not None and not any(compressed for _, compressed in found)
        return cls(location, schema, [rows for rows, _ in found], is_view=is_view)

    def _open(self, names: Sequence[str], where: str = "") -> AbstractContextManager[_Reader]:
        """Open the file to read the named columns."""
        # To choose fields, Arrow copies them: where batches are views, it is better to take all.
        fields = [] if self._is_view else sorted(map(self._schema.get_field_index, names))
        return _open(self.location, fields, mapped=self._is_view, where=where)

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory of one open reader: a record batch, unless it is a view of the file."""
        del names
        if self._is_view or not self.fragment_rows:
            return ReaderMemory.of(_VIEW_BYTES)
        largest = self.fragment_rows.index(max(self.fragment_rows))
        return ReaderMemory.of(self._batch_bytes, self.where(largest))

    @cached_property
    def _batch_bytes(self) -> int:
        offered = {name: field for name, field in self.fields.items() if not field.left_out}
        widths = [self.list_width(n) if f.width is None else f.width for n, f in offered.items()]
        return max(self.fragment_rows, default=0) * 8 * sum(widths)

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, record batch {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        with self._open([name]) as reader:
            for index in range(len(self.fragment_rows)):
                width = list_width(_valid_batch(reader, index, [name]).column(name))
                if width is not None:
                    return width
        return 0

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes, from the record batch with most rows."""
        rows = max(self.fragment_rows)
        with self._open([name]) as reader:
            size = _valid_batch(reader, self.fragment_rows.index(rows), [name]).nbytes
        return (0 if self._is_view else size) + text_memory(size / max(rows, 1))

    def _batches(self, index: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        with self._open(names, self.where(index)) as reader:
            whole = _valid_batch(reader, index, names)
            for start in range(0, len(whole), batch_rows):
                yield whole.slice(start, batch_rows)


@contextmanager
def _open(
    location: Location, fields: Iterable[int] = (), *, mapped: bool = False, where: str = ""
) -> Iterator[_Reader]:
    """Open a file to read these fields (all if none are named), and turn what goes wrong into our error."""
    options = pa.ipc.IpcReadOptions(included_fields=list(fields), use_threads=False)
    try:
        with pa.memory_map(location.local_path) if mapped else location.open() as file:
            yield pa.ipc.open_file(file, options=options)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = "cannot read as Feather (truncated or damaged?)"
        raise location.trouble(what, error, where) from error


def _valid_batch(reader: _Reader, index: int, names: Sequence[str]) -> pa.RecordBatch:
    batch = reader.get_batch(index).select(names)
    batch.validate(full=True)
    return batch


def _is_compressed(batch: pa.RecordBatch) -> bool:
    """Say whether the buffers of a batch were decompressed one by one, rather than cut out of the file."""
    buffers = (buffer for column in batch.columns for buffer in column.buffers())
    return any(buffer.size and buffer.parent is None for buffer in buffers if buffer is not None)


def _bits(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:  # of variable width
        return 1 << 20
