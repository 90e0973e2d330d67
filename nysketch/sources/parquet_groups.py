"""How a row group of a Parquet file is read in bounded memory: all columns at once, or in blocks of rows.

To read rows, a page of every column is held at a time, and its dictionary: two megabytes, usually, for each
of some hundred columns. Where that is too much, the row group is read in blocks of its rows: a few columns
after the other, of which only the rows of the block are kept. Every block begins at the first page again, so
that b blocks take about b/2 times as long to decode: slower, but within any memory that has room for a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from nysketch.sources.parquet_pages import TEXT_BYTES, ColumnPages, pages_at_most, pages_of

# Read-ahead over all columns of one reader. pyarrow's own defaults fetch whole row groups
# (pre_buffer) and were measured to hold a whole 1.3 GB file; this holds tens of megabytes.
_READ_AHEAD_BYTES = 4 << 20
# The least is what Arrow asks for to find the end of a page's header.
_BUFFER_BYTES = (1 << 14, 1 << 20)
# Code that is loaded by the first read, and what does not depend on the number of columns.
_FIXED_BYTES = 12 << 20
# Readers of a column beside its pages; and what Arrow and Python hold of each column of a file, read or not,
# as measured: 50 MB for 5,000 columns.
_COLUMN_BYTES, _SCHEMA_BYTES = 8 << 10, 12 << 10
# Resident memory for what Arrow's pool hands out, as measured: 1.19 to 1.22 with a hundred columns and more.
_POOL_FACTOR = 1.25
# Of more blocks, decoding would take more than sixteen times as long.
MOST_BLOCKS = 32
# Of a file that is not on this machine, headers of pages are not all read: a dictionary's and another.
_REMOTE_HEADERS = 2
_VALUE_BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8}


def buffer_bytes(columns: int) -> int:
    """Return how much to read ahead of each of so many columns."""
    least, most = _BUFFER_BYTES
    return min(max(_READ_AHEAD_BYTES // max(columns, 1), least), most)


@dataclass(frozen=True)
class Blocks:
    """How to read a row group piece by piece: these columns together, and so many rows of all of them."""

    columns: Sequence[Sequence[str]]
    rows: int


@dataclass(frozen=True)
class _Column:
    """What a column of a row group takes: while it is read, and for each of its rows once it is."""

    name: str
    held: int
    compressed: int
    row_bytes: float


@dataclass(frozen=True)
class GroupMemory:
    """What it takes to read some columns of a row group, beside the batches that are yielded."""

    columns: Sequence[_Column]
    rows: int
    fixed: int

    @classmethod
    def at_most(cls, group: pq.RowGroupMetaData, leaves: dict[str, list[int]]) -> GroupMemory:
        """Return what the footer tells, which is too much where columns have many pages."""
        return cls._of(
            group, leaves, [[pages_at_most(group.column(i)) for i in ii] for ii in leaves.values()]
        )

    @classmethod
    def measured(
        cls, group: pq.RowGroupMetaData, leaves: dict[str, list[int]], file: pa.NativeFile, *, remote: bool
    ) -> GroupMemory:
        """Return what the headers of pages tell."""
        most = _REMOTE_HEADERS if remote else None
        pages = [[pages_of(file, group.column(i), most=most) for i in ii] for ii in leaves.values()]
        return cls._of(group, leaves, pages)

    @classmethod
    def _of(
        cls, group: pq.RowGroupMetaData, leaves: dict[str, list[int]], pages: list[list[ColumnPages]]
    ) -> GroupMemory:
        rows = max(group.num_rows, 1)
        buffer = buffer_bytes(len(leaves)) + _COLUMN_BYTES
        columns = [
            _Column(
                name,
                sum(page.held + buffer for page in found),
                max(page.compressed for page in found),
                sum(_decoded_bytes(group.column(i)) for i in leaves[name]) / rows,
            )
            for name, found in zip(leaves, pages, strict=True)
        ]
        return cls(columns, group.num_rows, _fixed_bytes(group))

    @staticmethod
    def surely_fits(group: pq.RowGroupMetaData, columns: int, limit: int) -> bool:
        """Tell whether a row group is so small that nobody need look at its columns."""
        pages = (2 + TEXT_BYTES // 4) * max(group.total_byte_size, 0)
        pages += columns * (buffer_bytes(columns) + _COLUMN_BYTES)
        return bool(_fixed_bytes(group) + _POOL_FACTOR * pages <= limit)

    @property
    def largest_page(self) -> int:
        """The size of the largest page, with the dictionary that it needs."""
        return max((column.held for column in self.columns), default=0)

    @property
    def ample(self) -> int:
        """What it takes to read all columns at once."""
        return self._resident(sum(column.held for column in self.columns) + self._compressed)

    @property
    def least(self) -> int:
        """What it takes to read them one after the other, in the largest number of blocks."""
        block = math.ceil(self.rows / MOST_BLOCKS) * self._row_bytes
        return min(self.ample, self._resident(self.largest_page + self._compressed + block))

    def _resident(self, pool_bytes: float) -> int:
        return self.fixed + int(_POOL_FACTOR * pool_bytes)

    @property
    def _compressed(self) -> int:
        return max((column.compressed for column in self.columns), default=0)

    @property
    def _row_bytes(self) -> float:
        return sum(column.row_bytes for column in self.columns)

    def blocks_within(self, limit: int) -> Blocks:
        """Return blocks that take at most `limit` bytes to read; that must not be less than `least`."""
        room = (limit - self.fixed) / _POOL_FACTOR - self._compressed
        together = max(self.largest_page, room / 4)
        rows = max(int((room - together) / max(self._row_bytes, 1e-9)), -(-self.rows // MOST_BLOCKS))
        rows = -(-self.rows // max(-(-self.rows // rows), 1))  # blocks of about the same size
        groups: list[list[str]] = []
        size = 0
        for column in self.columns:
            if not groups or size + column.held > together:
                groups.append([])
                size = 0
            groups[-1].append(column.name)
            size += column.held
        return Blocks(groups, rows)


def leaves_of(schema: pq.ParquetSchema, names: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the columns that Parquet stores for each of the named ones, nested or not."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for number in range(len(schema)):
        path = schema.column(number).path
        end = len(path)
        while end > 0 and path[:end] not in found:
            end = path.rfind(".", 0, end)
        if end > 0:
            found[path[:end]].append(number)
    return {name: numbers for name, numbers in found.items() if numbers}


def _fixed_bytes(group: pq.RowGroupMetaData) -> int:
    return _FIXED_BYTES + _SCHEMA_BYTES * int(group.num_columns)


def _decoded_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Return how much memory a column takes as an array: with validity, and of lists with offsets."""
    size = _VALUE_BYTES.get(column.physical_type)
    if size is None:
        return int(max(column.total_uncompressed_size, 16 * column.num_values))
    return (size + 1) * int(column.num_values)
