"""Parquet files: one row group is one fragment, read column by column in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from nysketch.errors import UnreadableError
from nysketch.sources.arrow import list_width
from nysketch.sources.arrow_file import ArrowFile
from nysketch.sources.locations import Location
from nysketch.sources.protocol import text_memory

# Read-ahead over all columns of one reader. pyarrow's own defaults fetch whole row groups
# (pre_buffer) and were measured to hold a whole 1.3 GB file; this holds tens of megabytes.
_READ_AHEAD_BYTES = 4 << 20
# An estimate of what a reader holds: pages and dictionaries, and buffers for every column.
_PAGES_BYTES, _COLUMN_BYTES, _MOST_COLUMNS = 16 << 20, 64 << 10, 2048
# How often pyarrow holds the strings of a dictionary, as measured.
_DICTIONARY_COPIES = 5


# The file each thread read last, still open: the next row group is most likely in it too, and parsing
# the footer of a file with a thousand row groups takes longer than reading one of them.
_last = threading.local()


# Damaged names of columns are no UTF-8.
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


class ParquetFile(ArrowFile):
    """One Parquet file."""

    @classmethod
    def open(cls, location: Location) -> ParquetFile:
        """Read the footer: the columns, and the rows of each row group."""
        with _open(location) as file:
            schema, metadata = file.schema_arrow, file.metadata
            rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if any(count < 0 for count in rows):
            raise UnreadableError(f"{location}: damaged: a row group declares {min(rows)} rows")
        return cls(location, schema, rows)

    def _open_or_last(self, columns: int) -> pq.ParquetFile:
        if getattr(_last, "opened_by", None) is not self:
            # The old one is closed when its last reader is done with it.
            _last.file, _last.opened_by = _open(self.location, columns), self
        return _last.file

    def _forget_last(self) -> None:
        """Open anew next time: after an error, nobody knows in what state a reader is."""
        if getattr(_last, "opened_by", None) is self:
            del _last.file, _last.opened_by

    @property
    def reader_bytes(self) -> int:
        """Memory that one open reader may hold beside the batch it yields."""
        return _PAGES_BYTES + _COLUMN_BYTES * min(len(self._schema), _MOST_COLUMNS)

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, row group {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        try:
            with _open(self.location) as file:
                for batch in file.iter_batches(batch_size=1024, columns=[name], use_threads=False):
                    width = list_width(batch.column(name))
                    if width is not None:
                        return width
        except _DAMAGE as error:
            what = f"cannot read column {name!r} (truncated or damaged?)"
            raise self.location.trouble(what, error) from error
        return 0

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes, from the largest row group."""
        rows = max(self.fragment_rows)
        with _open(self.location) as file:
            group = file.metadata.row_group(self.fragment_rows.index(rows))
            columns = [group.column(i) for i in range(group.num_columns)]
        size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema == name)
        # What was a dictionary when it was written is stored with all of it in one page.
        is_dictionary = pa.types.is_dictionary(self._schema.field(name).type)
        return text_memory(size / max(rows, 1)) + (_DICTIONARY_COPIES * size if is_dictionary else 0)

    def _batches(self, index: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._open_or_last(len(names)).iter_batches(
                batch_size=batch_rows, row_groups=[index], columns=names, use_threads=False
            )
        except _DAMAGE as error:
            self._forget_last()
            what = "cannot read (truncated or damaged?)"
            raise self.location.trouble(what, error, self.where(index)) from error


def _open(location: Location, columns: int = 1) -> pq.ParquetFile:
    """Open a file to read so many of its columns at a time."""
    buffer = min(max(_READ_AHEAD_BYTES // columns, 1 << 15), 1 << 20)
    try:
        return pq.ParquetFile(
            location.open(),
            pre_buffer=False,
            buffer_size=buffer,
            page_checksum_verification=True,  # where the writer left checksums
        )
    except _DAMAGE as error:
        raise location.trouble("cannot read as Parquet (truncated or damaged?)", error) from error
