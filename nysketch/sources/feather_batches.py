"""How large the record batches of a Feather file are: what the file says of them before they are read.

Arrow shows neither the rows of a batch nor the bytes that its buffers take once they are decompressed, unless
it reads them. The footer says where batches begin, the message of each names its buffers, and a compressed
buffer begins with its size. Footer and messages are tables of FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import pyarrow as pa

_MAGIC = b"ARROW1"
_CONTINUED = b"\xff\xff\xff\xff"
# Fields of the tables of FlatBuffers, by their numbers.
_FOOTER_DICTIONARIES, _FOOTER_BATCHES = 2, 3
_MESSAGE_VERSION, _MESSAGE_HEADER = 0, 2
_DICTIONARY_DATA = 1
_BATCH_ROWS, _BATCH_BUFFERS, _BATCH_COMPRESSION, _BATCH_VARIADIC = 0, 2, 3, 4
_BLOCK, _BUFFER = struct.Struct("<qi4xq"), struct.Struct("<qq")
_SIZE = struct.Struct("<q")
# More rows than any batch has; sums of them are no overflow.
_MOST_ROWS = 1 << 40
# From this version of the metadata on, unions and run-ends have no validity of their own.
_WITHOUT_VALIDITY = 4

# Where a message begins, how long it is, and how long what follows it.
_Place: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class BatchSize:
    """Rows of a record batch, and what its columns take: in the file, and as arrays."""

    rows: int
    is_compressed: bool
    stored: Sequence[int]
    decoded: Sequence[int]

    @property
    def held(self) -> Sequence[int]:
        """Memory to read each column: what is stored and what becomes of it, at the same time."""
        return [stored + decoded for stored, decoded in zip(self.stored, self.decoded, strict=True)]


def sizes_of(file: pa.NativeFile, schema: pa.Schema) -> tuple[list[BatchSize], int]:
    """Return the sizes of all record batches, and what the dictionaries of a file take.

    Raise an `ArrowInvalid` where the file does not say it.
    """
    try:
        length = file.size()
        end = file.read_at(10, length - 10)
        if end[4:] != _MAGIC:
            raise ValueError("no footer")
        (size,) = struct.unpack_from("<i", end)
        footer = _Table.root(_exactly(file, length - 10 - size, size))
        batches = [_size_of(file, schema, block) for block in footer.structs(_FOOTER_BATCHES, _BLOCK)]
        texts = [_held(file, block) for block in footer.structs(_FOOTER_DICTIONARIES, _BLOCK)]
    except (struct.error, ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(f"record batches are not described as they should be: {error}") from None
    return batches, sum(texts)


def _size_of(file: pa.NativeFile, schema: pa.Schema, block: _Place) -> BatchSize:
    header, version = _header(file, block)
    rows = header.number(_BATCH_ROWS)
    if not 0 <= rows < _MOST_ROWS:
        raise ValueError(f"a batch of {rows} rows")
    buffers = _buffers(file, header, block)
    variadic = iter(header.numbers(_BATCH_VARIADIC))
    validity = int(version < _WITHOUT_VALIDITY)
    counts = [_count_buffers(field.type, variadic, validity) for field in schema]
    if sum(counts) != len(buffers):
        raise ValueError(f"{len(buffers)} buffers, not {sum(counts)}")
    stored, decoded, start = [], [], 0
    for count in counts:
        here = buffers[start : start + count]
        stored.append(sum(each[0] for each in here))
        decoded.append(sum(each[1] for each in here))
        start += count
    return BatchSize(rows, header.has(_BATCH_COMPRESSION), stored, decoded)


def _held(file: pa.NativeFile, block: _Place) -> int:
    """Return what a batch of a dictionary takes."""
    header, _ = _header(file, block)
    buffers = _buffers(file, header.table(_DICTIONARY_DATA), block)
    return sum(stored + decoded for stored, decoded in buffers)


def _header(file: pa.NativeFile, block: _Place) -> tuple[_Table, int]:
    """Return what the message at a block says of its batch, and the version of the metadata."""
    at, size, _ = block
    data = _exactly(file, at, size)
    message = _Table.root(data[8 if data[:4] == _CONTINUED else 4 :])
    return message.table(_MESSAGE_HEADER), message.number(_MESSAGE_VERSION, "<h")


def _buffers(file: pa.NativeFile, header: _Table, block: _Place) -> list[tuple[int, int]]:
    """Return the bytes of each buffer in the file, and decompressed."""
    at, size, body = block
    compressed = header.has(_BATCH_COMPRESSION)
    found = []
    for offset, stored in header.structs(_BATCH_BUFFERS, _BUFFER):
        if not 0 <= offset <= offset + stored <= body:
            raise ValueError("a buffer outside its batch")
        decoded = 0
        if compressed and stored >= _SIZE.size:
            (decoded,) = _SIZE.unpack(_exactly(file, at + size + offset, _SIZE.size))
            if decoded < -1:
                raise ValueError(f"a buffer of {decoded} bytes")
            decoded = max(decoded, 0)  # -1: it is stored as it is
        found.append((stored, decoded))
    return found


def _exactly(file: pa.NativeFile, at: int, size: int) -> bytes:
    if at < 0 or size < 0 or at + size > file.size():
        raise ValueError("a place outside the file")
    return bytes(file.read_at(size, at))


def _count_buffers(kind: pa.DataType, variadic: Iterator[int], validity: int) -> int:
    """Return how many buffers the arrays of a type have, with those of their children."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _count_buffers(kind.storage_type, variadic, validity)
    if types.is_null(kind):
        return 0
    if types.is_dictionary(kind):
        return 2
    if types.is_run_end_encoded(kind):
        parts = [kind.run_end_type, kind.value_type]
        return validity + sum(_count_buffers(part, variadic, validity) for part in parts)
    children = sum(_count_buffers(kind.field(i).type, variadic, validity) for i in range(kind.num_fields))
    if types.is_union(kind):
        return validity + (1 if kind.mode == "sparse" else 2) + children
    if types.is_struct(kind) or types.is_fixed_size_list(kind):
        return 1 + children
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return 2 + next(variadic, 0)
    of_lists = types.is_list_view(kind) or types.is_large_list_view(kind)
    texts = types.is_string(kind) or types.is_binary(kind)
    texts = texts or types.is_large_string(kind) or types.is_large_binary(kind)
    return (3 if of_lists or texts else 2) + children


class _Table:
    """A table of FlatBuffers; raises struct.error or ValueError where it is damaged."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._read("<i", at)
        self._size = self._read("<H", self._fields)

    @classmethod
    def root(cls, data: bytes) -> Self:
        """Return the table that a buffer begins with."""
        return cls(data, struct.unpack_from("<I", data)[0])

    def _read(self, format: str, at: int) -> Any:
        if at < 0:
            raise ValueError("a place before the beginning")
        return struct.unpack_from(format, self._data, at)[0]

    def _place(self, field: int) -> int:
        """Return where a field is, or 0 if it has its default."""
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        offset = self._read("<H", self._fields + entry)
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        """Tell whether a field is there."""
        return self._place(field) > 0

    def number(self, field: int, format: str = "<q") -> int:
        """Return a field that is a number, of eight bytes by default."""
        at = self._place(field)
        return int(self._read(format, at)) if at else 0

    def table(self, field: int) -> Self:
        """Return a field that is a table."""
        at = self._place(field)
        if not at:
            raise ValueError("a part is missing")
        return type(self)(self._data, at + self._read("<I", at))

    def structs(self, field: int, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
        """Return a field that is a list of structs."""
        at = self._place(field)
        if not at:
            return iter(())
        at += self._read("<I", at)
        stop = at + 4 + self._read("<I", at) * layout.size
        if stop > len(self._data):
            raise ValueError("a list without end")
        return layout.iter_unpack(memoryview(self._data)[at + 4 : stop])

    def numbers(self, field: int) -> list[int]:
        """Return a field that is a list of numbers of eight bytes."""
        return [number for (number,) in self.structs(field, _SIZE)]
