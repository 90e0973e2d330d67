"""Parquet files: one row group is one fragment, read column by column in bounded memory."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nysketch._support.notices import log
from nysketch.errors import UnreadableError, UsageError
from nysketch.sources.arrow import list_width
from nysketch.sources.arrow_file import ArrowFile
from nysketch.sources.locations import Location
from nysketch.sources.parquet_footers import DAMAGE, Footer, is_sound
from nysketch.sources.parquet_groups import Blocks, GroupMemory, leaves_of
from nysketch.sources.protocol import ReaderMemory, require_room, text_memory

# How often pyarrow holds the strings of a dictionary, as measured.
_DICTIONARY_COPIES = 5
# Row groups of so many values are small: whatever their pages, nobody need look into them.
_SMALL_BYTES = 1 << 20


# The file each thread read last, still open: the next row group is most likely in it too, and parsing
# the footer of a file with a thousand row groups takes longer than reading one of them.
_last = threading.local()


class ParquetFile(ArrowFile):
    """One Parquet file; copies of it that read within another limit share its footer."""

    def __init__(
        self,
        location: Location,
        schema: pa.Schema,
        fragment_rows: list[int],
        footer: Footer,
        *,
        largest: int,
        largest_bytes: int,
        memory: float,
    ) -> None:
        super().__init__(location, schema, fragment_rows)
        self._footer, self._largest, self.largest_bytes = footer, largest, largest_bytes
        self._memory = memory
        self._limit: int | None = None

    @classmethod
    def open(cls, location: Location, memory: float = math.inf) -> ParquetFile:
        """Read the footer, unless it takes too much memory: the columns, and the rows of each row group."""
        footer = Footer(location, memory)
        with footer.open() as file:
            schema, metadata = file.schema_arrow, file.metadata
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            rows = [group.num_rows for group in groups]
            sizes = [group.total_byte_size for group in groups]
        if any(count < 0 for count in rows):
            raise UnreadableError(f"{location}: damaged: a row group declares {min(rows)} rows")
        largest = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        most = max(sizes, default=0)
        return cls(location, schema, rows, footer, largest=largest, largest_bytes=most, memory=memory)

    def within(self, limit: int) -> ParquetFile:
        """Return the same file, of which each reader stays within so many bytes."""
        limited = copy.copy(self)
        limited._limit = limit
        return limited

    def _open_or_last(self, columns: int) -> pq.ParquetFile:
        if getattr(_last, "footer", None) is not self._footer:
            self._forget_last()  # not both at a time, unless a reader is not done with it
            _last.file, _last.footer = self._footer.open(columns), self._footer
        return _last.file

    def _forget_last(self) -> None:
        """Open anew next time: after an error, nobody knows in what state a reader is."""
        _last.__dict__.clear()

    # ---- memory

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory to read these columns of the largest row group, and that of the footer."""
        if not self.fragment_rows:
            return ReaderMemory.of(0)
        with self._footer.open() as file:
            if not is_sound(file.metadata, [self._largest], names):
                return ReaderMemory.of(0)  # reading it will say so
            memory = self._memory_of(file, self._largest, names)
        where = f"{self.where(self._largest)} (its largest page has {memory.largest_page / 1e6:,.0f} MB)"
        return ReaderMemory(memory.ample, memory.least, self._footer.bytes, where)

    def _memory_of(self, file: pq.ParquetFile, index: int, names: Sequence[str]) -> GroupMemory:
        """Return what reading a row group takes: by its footer if that fits anyway, or else by its pages."""
        group, leaves = file.metadata.row_group(index), leaves_of(file.metadata.schema, names)
        at_most = GroupMemory.at_most(group, leaves)
        if at_most.ample <= (self._limit or _SMALL_BYTES):
            return at_most
        return self._measured(group, leaves, index)

    def _measured(self, group: pq.RowGroupMetaData, leaves: dict[str, list[int]], index: int) -> GroupMemory:
        try:
            with self.location.open() as stored:
                return GroupMemory.measured(group, leaves, stored, remote=self.location.is_remote)
        except OSError as error:
            what = "cannot read (truncated or damaged?)"
            raise self.location.trouble(what, error, self.where(index)) from error

    def _blocks(self, file: pq.ParquetFile, index: int, names: Sequence[str]) -> Blocks | None:
        """Return how to read a row group piece by piece; None if all of it fits into the limit at once."""
        if self._limit is None:
            return None
        if GroupMemory.surely_fits(file.metadata.row_group(index), len(names), self._limit):
            return None
        if not is_sound(file.metadata, [index], names):
            return None  # reading it will say so
        memory = self._memory_of(file, index, names)
        if memory.ample <= self._limit:
            return None
        if memory.least > self._limit:
            raise UsageError(
                f"{self.where(index)}: takes at least {memory.least / 1e6:,.0f} MB of memory to read, more "
                f"than the {self._limit / 1e6:,.0f} MB that are left for it: its largest page has "
                f"{memory.largest_page / 1e6:,.0f} MB. Allow {(memory.least - self._limit) / 1e6:,.0f} MB "
                "more with `memory`, use fewer `threads`, or write the file with smaller pages"
            )
        return memory.blocks_within(self._limit)

    def _require_declared_pages(self, file: pq.ParquetFile, index: int, names: Sequence[str]) -> None:
        """Raise an UnreadableError if pages are larger than the footer declares."""
        group, leaves = file.metadata.row_group(index), leaves_of(file.metadata.schema, names)
        memory = self._measured(group, leaves, index)
        if self._limit is not None and memory.ample > self._limit:
            raise UnreadableError(
                f"{self.where(index)}: damaged: reading it takes {memory.ample / 1e6:,.0f} MB of memory, "
                "more than the sizes that its footer declares"
            )

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, row group {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        try:
            with self._footer.open() as file:
                self._require_room(file, name)
                for batch in file.iter_batches(batch_size=1024, columns=[name], use_threads=False):
                    width = list_width(batch.column(name))
                    if width is not None:
                        return width
        except DAMAGE as error:
            what = f"cannot read column {name!r} (truncated or damaged?)"
            raise self.location.trouble(what, error) from error
        return 0

    def _require_room(self, file: pq.ParquetFile, name: str) -> None:
        """Raise a UsageError if a page of a column takes too much memory, before a pass is planned."""
        if not self.fragment_rows or not is_sound(file.metadata, [self._largest], [name]):
            return  # reading it will say so
        memory = self._memory_of(file, self._largest, [name])
        where = f"{self.where(self._largest)}, column {name!r}"
        where += f" (its largest page has {memory.largest_page / 1e6:,.0f} MB)"
        size = memory.ample + self._footer.bytes
        require_room(size, self._memory, where, ", or write the file with smaller pages")

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the smallest and largest value of columns, where the statistics of all row groups tell."""
        with self._footer.open() as file:
            metadata = file.metadata
            groups = range(metadata.num_row_groups)
            places = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
            known = [name for name in names if name in places]
            found: dict[str, tuple[float, float]] = {}
            if not is_sound(metadata, groups, known):
                return found
            for name in known:
                kind = metadata.schema.column(places[name]).physical_type
                columns = [metadata.row_group(i).column(places[name]) for i in groups]
                if any(column.physical_type != kind for column in columns):
                    continue  # asked for statistics of another type, pyarrow ends the process
                ends = _extremes([column.statistics for column in columns])
                if ends is not None:
                    found[name] = ends
        return found

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes, from the largest row group."""
        rows = max(self.fragment_rows)
        index = self.fragment_rows.index(rows)
        size = 0
        with self._footer.open() as file:
            if is_sound(file.metadata, [index], [name]):
                group, leaves = file.metadata.row_group(index), leaves_of(file.metadata.schema, [name])
                size = sum(group.column(i).total_uncompressed_size for i in leaves.get(name, ()))
        # What was a dictionary when it was written is stored with all of it in one page.
        is_dictionary = pa.types.is_dictionary(self._schema.field(name).type)
        return text_memory(size / max(rows, 1)) + (_DICTIONARY_COPIES * size if is_dictionary else 0)

    def _batches(self, index: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            file = self._open_or_last(len(names))
            blocks = self._blocks(file, index, names)
            if blocks is not None:
                yield from self._batches_of_blocks(file, index, names, batch_rows, blocks)
                return
            # What Arrow has allocated since, for all threads, only says when to look into the pages, once.
            most = math.inf if self._limit is None else pa.total_allocated_bytes() + self._limit
            for batch in file.iter_batches(
                batch_size=batch_rows, row_groups=[index], columns=names, use_threads=False
            ):
                exceeded = pa.total_allocated_bytes() > most
                if exceeded:
                    self._require_declared_pages(file, index, names)
                if exceeded or self.location.is_remote:  # of which every look takes requests
                    most = math.inf
                yield batch
        except DAMAGE as error:
            self._forget_last()
            what = "cannot read (truncated or damaged?)"
            raise self.location.trouble(what, error, self.where(index)) from error

    def _batches_of_blocks(
        self, file: pq.ParquetFile, index: int, names: Sequence[str], batch_rows: int, blocks: Blocks
    ) -> Iterator[pa.RecordBatch]:
        """Read a row group in blocks of rows, a few columns after the other; see parquet_groups.py."""
        rows, step = self.fragment_rows[index], blocks.rows
        log.info(
            "%s: read in %d blocks of rows, since its columns do not fit into memory together; allow more "
            "with `memory`",
            self.where(index),
            -(-rows // step),
        )
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            arrays: dict[str, pa.ChunkedArray] = {}
            for columns in blocks.columns:
                some = pa.Table.from_batches(_rows_of(file, index, columns, batch_rows, start, stop))
                arrays |= dict(zip(some.column_names, some.columns, strict=True))
            block = pa.table([arrays[name] for name in names], list(names))
            del arrays, some
            yield from block.to_batches(max_chunksize=batch_rows)
            del block  # before the next is read


def _rows_of(
    file: pq.ParquetFile, index: int, columns: Sequence[str], batch_rows: int, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some columns from `start` up to `stop`; those before are read for nothing."""
    row = 0
    batches = file.iter_batches(batch_size=batch_rows, row_groups=[index], columns=columns, use_threads=False)
    for batch in batches:
        begin, end = max(start - row, 0), min(stop - row, len(batch))
        if begin < end:
            yield batch.slice(begin, end - begin)
        row += len(batch)
        if row >= stop:
            return


def _extremes(statistics: Sequence[Any]) -> tuple[float, float] | None:
    """Return the extremes over row groups; None if one of them does not tell, or holds no numbers."""
    lower, upper = math.inf, -math.inf
    for found in statistics:
        if found is None or not found.has_min_max:
            if found is not None and found.has_null_count and not found.num_values:
                continue  # nulls only
            return None
        try:
            lower, upper = min(lower, float(found.min)), max(upper, float(found.max))
        except (TypeError, ValueError):
            return None
    return (lower, upper) if lower <= upper else None
