"""How large the pages of a Parquet file are: what a reader has to hold of each column at least.

The footer tells how large a column is in a row group, not in how many pages: one of 240 MB may be a single
page, in a file of 60 kB. Only the header of each page tells what it will take. Headers are structs of
Thrift's compact protocol, of some thirty bytes, which Arrow reads but does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Types of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
# Fields of a page header, and its type of page that holds a dictionary.
_PAGE_TYPE, _UNCOMPRESSED, _COMPRESSED, _DICTIONARY_HEADER = 1, 2, 3, 7
_DICTIONARY_PAGE = 2
# A header with the extremes of numbers is shorter than the first, one with those of texts than the second.
_HEADER_BYTES = (128, 1 << 20)
_DEEPEST = 8
# Writers end a page at a megabyte, and somewhat later if they look only every thousand values.
_USUAL_BYTES = 5 << 18
# What Arrow holds of each text of a dictionary beside its bytes: length and address.
TEXT_BYTES = 16


@dataclass(frozen=True)
class ColumnPages:
    """What reading a column of a row group holds: a dictionary, if any, decoded, and its largest page.

    `dictionary` and `page` are bytes as they are after decompression, `compressed` those of a page before.
    """

    dictionary: int
    page: int
    compressed: int

    @property
    def held(self) -> int:
        """Memory held while the column is read: Arrow keeps room for the largest page, of either kind."""
        return self.dictionary + self.page


def pages_at_most(column: pq.ColumnChunkMetaData) -> ColumnPages:
    """Return a bound that the footer tells, if it tells the truth: as if all of a column were one page."""
    size = max(column.total_uncompressed_size, 0)
    dictionary = size if column.has_dictionary_page else 0
    if column.physical_type == "BYTE_ARRAY":
        dictionary *= 1 + TEXT_BYTES // 4  # an empty text takes the four bytes of its length
    return ColumnPages(dictionary, size, max(column.total_compressed_size, 0))


def pages_of(file: pa.NativeFile, column: pq.ColumnChunkMetaData, *, most: int | None = None) -> ColumnPages:
    """Read the headers of all pages; where they are damaged, return the bound of the footer.

    Where each is a request to a server, read at most so many: further pages are taken for as large as those,
    or as what writers make by default.
    """
    bound = pages_at_most(column)
    starts = [column.data_page_offset]
    if column.has_dictionary_page and column.dictionary_page_offset:
        starts.append(column.dictionary_page_offset)
    at = min(starts)
    end = at + column.total_compressed_size
    entry = TEXT_BYTES if column.physical_type == "BYTE_ARRAY" else 0
    dictionary = page = compressed = 0
    try:
        while at < end:
            if most is not None and (most := most - 1) < 0:
                page = max(page, min(_USUAL_BYTES, bound.page))
                compressed = max(compressed, min(_USUAL_BYTES, bound.compressed))
                break
            header, length = _header_at(file, at, end)
            size = header[_UNCOMPRESSED]
            if size < 0 or header[_COMPRESSED] < 0:
                raise ValueError("a page of negative size")
            if header[_PAGE_TYPE] == _DICTIONARY_PAGE:
                dictionary = size + entry * header[_DICTIONARY_HEADER][1]
            page, compressed = max(page, size), max(compressed, header[_COMPRESSED])
            at += length + header[_COMPRESSED]
    except (KeyError, TypeError, IndexError, ValueError):  # no header: Arrow will say so, or read it better
        return bound
    return ColumnPages(dictionary, page, compressed)


def _header_at(file: pa.NativeFile, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a page header, and its length."""
    for most in _HEADER_BYTES:
        data = file.read_at(min(most, end - at), at)
        reader = _Compact(data)
        try:
            return reader.struct(), reader.at
        except IndexError:
            if len(data) < most:
                raise
    raise IndexError("a page header without end")


class _Compact:
    """Reads Thrift's compact protocol; raises IndexError at the end of the bytes, ValueError at nonsense."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their numbers."""
        if depth > _DEEPEST:
            raise ValueError("structs upon structs")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        raise ValueError(f"type {kind} in a page header")  # maps, which it has none of

    def _list(self, depth: int) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._unsigned()
        for _ in range(count):
            kind = head & 15
            if kind in (_TRUE, _FALSE):
                self._skip(1)
            else:
                self._value(kind, depth + 1)

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number without end")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError("beyond the end")
