"""`open_source`: whatever the user has → a source.

Paths go to files.py; arrays to arrays.py; frames and dicts to frames.py; tables and streams to arrow.py; what
is computed when it is read to queries.py. Standard input is read here. The package docstring lists what else
there is.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Unpack

import numpy as np
import pyarrow as pa

from nysketch._support.regular import noun_of_irregular
from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError, UsageError, option
from nysketch.sources.arrays import (
    ArraySource,
    SparseSource,
    are_rows,
    array_as_record_batch,
    array_of_rows,
    is_sparse,
)
from nysketch.sources.arrow import StreamSource, TableSource
from nysketch.sources.files import FilesSource
from nysketch.sources.frames import frame_of
from nysketch.sources.locations import Location
from nysketch.sources.options import ReadKeywords, ReadOptions
from nysketch.sources.protocol import Batch, Fragment, Source
from nysketch.sources.queries import QuerySource, query_of
from nysketch.sources.retry import retry_policy_of
from nysketch.sources.selection import Selection

__all__ = ["Batch", "Fragment", "Selection", "Source", "open_source"]


def open_source(data: Any, options: ReadOptions | None = None, **keywords: Unpack[ReadKeywords]) -> Source:
    """Open paths, `-`, an array, a table, a query, a stream or an iterator of batches as a source.

    How it is read is said by options, or by keywords with the names of their fields.
    """
    options = replace(options or ReadOptions(), **keywords)
    like = options.like
    source = _open(
        data,
        options.selection(),
        like,
        datasets=options.datasets,
        allow_external=options.allow_external,
        skip_unreadable=options.skip_unreadable,
        memory=options.memory,
        retry=retry_policy_of(options.retries, options.timeout),
    )
    if like is not None:
        for want, have in zip(like, source.columns, strict=True):
            if want != have:
                raise SchemaError(
                    f"column {want.name!r} has width {have.width}, in the basis it has {want.width}"
                )
    for column in source.columns:
        if column.width == 0 and source.rows is None:
            raise UsageError(
                f"column {column.name!r} of a stream holds lists of unknown length: make a basis with "
                "`nysketch.Basis.fit` and pass it with `basis`"
            )
        if column.width == 0:
            raise SchemaError(
                f"column {column.name!r} holds no lists, so their length is unknown. Leave it out with "
                f"{option('exclude', column.name)}"
            )
    return source


def _open(data: object, selection: Selection, like: Sequence[Column] | None, **file_options: Any) -> Source:
    if isinstance(data, (list, tuple)) and are_rows(data):
        data = array_of_rows(data)
    if isinstance(data, np.ndarray) or is_sparse(data):
        if selection.weights is not None:
            raise UsageError("an array has no weights column; use a table")
        if not set(selection.keep) <= selection.kinds.keys():
            raise UsageError("an array has no columns to keep; use a table")
        if isinstance(data, np.ndarray):
            return ArraySource(data, selection, like)
        return SparseSource(data, selection, like)
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if isinstance(data, (list, tuple)) and all(isinstance(x, (str, os.PathLike, Location)) for x in data):
        paths = [path if isinstance(path, Location) else os.fspath(path) for path in data]
        if not paths:
            raise UsageError("no inputs were given")
        if paths == ["-"] or (paths == ["/dev/stdin"] and noun_of_irregular("/dev/stdin") is not None):
            return _standard_input(selection, like)
        if "-" in paths:
            raise UsageError("standard input (-) cannot be combined with other inputs")
        return FilesSource.open(paths, selection, widths=_widths(like), **file_options)
    if isinstance(data, pa.RecordBatchReader):
        return StreamSource(data.schema, data, selection, "stream", _widths(like))
    frame = frame_of(data, like)
    if frame is not None:
        return TableSource(frame.table, selection, _widths(like), frame.fields)
    query = query_of(data)
    if query is not None:
        return QuerySource(query, selection, _widths(like))
    if hasattr(data, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowException as error:
            raise UsageError(f"cannot read a {type(data).__name__} as a table: {error}") from error
        return StreamSource(reader.schema, reader, selection, "stream", _widths(like))
    if isinstance(data, Iterable) and not isinstance(data, bytes | pa.Array | pa.ChunkedArray):
        return _stream_of_batches(iter(data), selection, like)
    raise UsageError(
        f"cannot read rows from a {type(data).__name__}: give paths, a NumPy array, a sparse matrix, a list "
        "of rows, a dict of columns, a frame of pandas or polars, a table, data set or reader of pyarrow, a "
        "relation of DuckDB, an object with __arrow_c_stream__, or an iterator of batches"
    )


def _as_table(data: object) -> pa.Table:
    """Return a batch as a table."""
    frame = frame_of(data, None)
    if frame is not None:
        return frame.table
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(
            f"cannot make a table of a {type(data).__name__}: {error}. "
            "Batches are arrays, tables or record batches; paths are given as a list"
        ) from error


def _widths(like: Sequence[Column] | None) -> dict[str, int]:
    return {column.name: column.width for column in like or ()}


def _standard_input(selection: Selection, like: Sequence[Column] | None) -> StreamSource:
    if sys.stdin is None:
        raise InputError("standard input is closed: nothing to read from it")
    file = _WatchedFile(sys.stdin.buffer)
    try:
        reader = pa.ipc.open_stream(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"standard input: not an Arrow IPC stream: {error}. "
            "Write one with pyarrow.ipc.new_stream, polars' write_ipc_stream or the like"
        ) from error
    batches = _until_end_marker(reader, file)
    return StreamSource(reader.schema, batches, selection, "standard input", _widths(like))


class _WatchedFile:
    """A file that remembers whether a read returned fewer bytes than were asked for."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.ran_out = file, False

    def read(self, size: int) -> bytes:
        """Read `size` bytes, or what is left."""
        read = self._file.read(size)
        self.ran_out = self.ran_out or len(read) < size
        return read


def _until_end_marker(reader: pa.RecordBatchReader, file: _WatchedFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches, and require the end marker: to Arrow, a killed writer looks like the end."""
    rows = 0
    for batch in reader:
        rows += len(batch)
        yield batch
    if file.ran_out:
        raise InputError(
            f"standard input: the stream ended after {rows:,} rows without its end-of-stream marker: "
            "was the producer killed? If not, close its writer properly"
        )


def _stream_of_batches(
    batches: Iterator[object], selection: Selection, like: Sequence[Column] | None
) -> StreamSource:
    def as_record_batches(items: Iterable[object]) -> Iterator[pa.RecordBatch]:
        for item in items:
            if isinstance(item, np.ndarray):
                yield array_as_record_batch(item, like, text=selection.text)
            elif isinstance(item, pa.RecordBatch):
                yield item
            else:
                yield from _as_table(item).to_batches()

    converted = as_record_batches(batches)
    first = next(converted, None)
    if first is None:
        raise InputError("the iterator yields no batches")
    every = itertools.chain([first], converted)
    return StreamSource(first.schema, every, selection, "batches", _widths(like))
