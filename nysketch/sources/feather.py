"""Feather files (Arrow IPC with a footer): one record batch is one fragment.

Local files are mapped into memory unless compressed: no batch is held, slices are read as needed. Of a
compressed or remote batch, the chosen columns are held while it is read, as they are in the file and as they
are in memory; how much that is, the file says (feather_batches.py).

Arrow trusts such files: it would follow offsets that point outside a list. So batches are validated before
anything uses them (which reads offsets and nulls, and copies nothing); pyarrow.dataset, which does not
validate, is not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa

from nysketch.sources.arrow import list_width
from nysketch.sources.arrow_file import ArrowFile
from nysketch.sources.feather_batches import BatchSize, sizes_of
from nysketch.sources.locations import Location
from nysketch.sources.protocol import ReaderMemory, require_room, text_memory

_Reader: TypeAlias = pa.RecordBatchFileReader

# Of a batch that is a view of the file: what is mapped at a time, which counts as memory once it is read.
_VIEW_BYTES = 16 << 20


class FeatherFile(ArrowFile):
    """One Feather file."""

    def __init__(
        self,
        location: Location,
        schema: pa.Schema,
        batches: Sequence[BatchSize],
        *,
        dictionaries: int = 0,
        is_view: bool,
        memory: float = math.inf,
    ) -> None:
        super().__init__(location, schema, [batch.rows for batch in batches])
        self._sizes, self._dictionaries = batches, dictionaries
        self._is_view, self._memory = is_view, memory

    @classmethod
    def open(cls, location: Location, memory: float = math.inf) -> FeatherFile:
        """Read the footer, and what it and the messages say of each batch."""
        with _open(location) as (file, reader):
            schema = reader.schema
            batches, dictionaries = sizes_of(file, schema)
        is_view = location.local_path is not None and not any(batch.is_compressed for batch in batches)
        return cls(location, schema, batches, dictionaries=dictionaries, is_view=is_view, memory=memory)

    @contextmanager
    def _open(self, names: Sequence[str], where: str = "") -> Iterator[_Reader]:
        """Open the file to read the named columns."""
        # To choose fields, Arrow copies them: where batches are views, it is better to take all.
        fields = [] if self._is_view else sorted(map(self._schema.get_field_index, names))
        with _open(self.location, fields, mapped=self._is_view, where=where) as (_, reader):
            yield reader

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory of one open reader: a record batch, or what is mapped of one."""
        if not self.fragment_rows:
            return ReaderMemory.of(self._dictionaries)
        if self._is_view:
            return ReaderMemory.of(_VIEW_BYTES + self._dictionaries)
        places = [self._schema.get_field_index(name) for name in names]
        held = [sum(batch.held[place] for place in places) for batch in self._sizes]
        largest = max(range(len(held)), key=held.__getitem__)
        return ReaderMemory.of(held[largest] + self._dictionaries, self.where(largest))

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, record batch {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        needed = self.reader_memory([name])
        where = f"{needed.where or self.location}, column {name!r}"
        require_room(needed.least, self._memory, where, ", or write the file with smaller record batches")
        with self._open([name]) as reader:
            for index in range(len(self.fragment_rows)):
                width = list_width(_valid(_batch(reader, index, [name])).column(name))
                if width is not None:
                    return width
        return 0

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that the texts of a column take, from the record batch with most rows."""
        rows = max(self.fragment_rows)
        batch, place = self._sizes[self.fragment_rows.index(rows)], self._schema.get_field_index(name)
        size = batch.decoded[place] or batch.stored[place]
        if pa.types.is_dictionary(self._schema.field(name).type):
            size += self._dictionaries
        return text_memory(size / max(rows, 1))

    def _batches(self, index: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        rows, step = self.fragment_rows[index], self.fragment_rows[index]
        if self._is_view:  # what is mapped anew takes no memory again until it is read
            row_bytes = sum(self._sizes[index].stored) / max(rows, 1)
            step = max(int(_VIEW_BYTES / max(row_bytes, 1)) // batch_rows, 1) * batch_rows
        for first in range(0, rows, step):
            with self._open(names, self.where(index)) as reader:
                part = _valid(_batch(reader, index, names).slice(first, step))
                for start in range(0, len(part), batch_rows):
                    yield part.slice(start, batch_rows)
                del part


@contextmanager
def _open(
    location: Location, fields: Iterable[int] = (), *, mapped: bool = False, where: str = ""
) -> Iterator[tuple[pa.NativeFile, _Reader]]:
    """Open a file to read these fields (all if none are named), and turn what goes wrong into our error."""
    options = pa.ipc.IpcReadOptions(included_fields=list(fields), use_threads=False)
    try:
        with pa.memory_map(location.local_path) if mapped else location.open() as file:
            yield file, pa.ipc.open_file(file, options=options)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = "cannot read as Feather (truncated or damaged?)"
        raise location.trouble(what, error, where) from error


def _batch(reader: _Reader, index: int, names: Sequence[str]) -> pa.RecordBatch:
    batch = reader.get_batch(index).select(names)
    batch.validate()  # sizes of buffers, so that it can be cut
    return batch


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    return batch
