"""Partition keys: columns that are in the names of directories, not in the files: year=2024/month=3."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.columns import Column
from nysketch.kinds import Category, Text
from nysketch.sources.arrow import as_kept
from nysketch.sources.encoding import Encoded, encode
from nysketch.sources.protocol import Batch, ReaderMemory, TableFile
from nysketch.sources.selection import Field, require_field
from nysketch.sources.table_formats import NULL_KEY


class PartitionedFile:
    """A file below directories like `year=2020`, whose keys are columns too (the file's own win).

    Or one of a table, which has keys of its own, and may no longer have all the columns of the file.
    """

    def __init__(self, file: TableFile) -> None:
        self._file = self.stored = file
        self.location, self.fragment_rows = file.location, file.fragment_rows
        self.where, self.list_width = file.where, file.list_width
        self._keys = {k: v for k, v in file.location.partition.items() if k not in file.fields}

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory of one reader of the file; keys take none."""
        return self._file.reader_memory([name for name in names if name not in self._keys])

    def within(self, limit: int) -> PartitionedFile:
        """Return the same file, read within so many bytes."""
        return PartitionedFile(self._file.within(limit))

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns of the file, and those of its path."""
        keys = {
            name: Field(
                f"partition key {text!r}",
                width=1 if _is_number(text) else 0,
                left_out="partition key: name it in `columns` to use it"
                if _is_number(text)
                else "partition key, not a number",
                text=True,
                text_left_out="partition key: name it in `columns` to use it",
            )
            for name, text in self._keys.items()
        }
        stored, entry = self._file.fields, self.location.entry
        if entry is not None:
            stored = {name: field for name, field in stored.items() if name in entry.columns}
        return {**stored, **keys}

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes; a key is one string, however often."""
        return 0 if name in self._keys else self._file.text_bytes(name)

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Read what is stored, and repeat the keys beside it."""
        stored = [column for column in columns if column.name not in self._keys]
        stored_weights = None if weights in self._keys else weights
        if not stored and stored_weights is not None:  # a batch needs a column, for its length
            stored = [Column(stored_weights)]
        names = [column.name for column in stored]
        for batch in self._stored_batches(index, stored, stored_weights, batch_rows):
            rows = len(batch)
            read = dict(zip(names, zip(batch.values, batch.nulls, strict=False), strict=False))
            texts = dict(batch.texts)
            for column in (*columns, *(Column(name) for name in filter(None, [weights]))):
                if column.name not in self._keys:
                    continue
                if isinstance(column.kind, Category | Text):
                    one = self._encoded(column)
                    read[column.name] = np.repeat(one.values, rows, axis=0), rows * one.nulls
                    texts |= {column.name: one.texts} if one.texts else {}
                else:
                    read[column.name] = _repeated(self._keys[column.name], rows, text=column.text)
            values, nulls = zip(*(read[column.name] for column in columns), strict=True)
            weight_values = batch.weights
            if weights is not None:
                if weight_values is None:
                    weight_values = read[weights][0]
                nulls += (batch.nulls[-1] if stored_weights else 0,)
            yield Batch(values, weight_values, nulls, texts)

    def _encoded(self, column: Column) -> Encoded:
        """Return the code of a key, which is the same for all rows."""
        key = self._keys[column.name]
        return encode(pa.array([None if key == NULL_KEY else key], pa.string()), column, str(self.location))

    def _stored_batches(
        self, index: int, stored: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        if stored:
            yield from self._file.read(index, stored, weights, batch_rows)
            return
        for rows in self._lengths(index, batch_rows):
            yield Batch([np.empty((rows, 0))], None, [0])

    def _lengths(self, index: int, batch_rows: int) -> Iterator[int]:
        """Yield the lengths of batches of keys only: how many rows is all there is to know."""
        rows = self.fragment_rows[index]
        return (min(batch_rows, rows - start) for start in range(0, rows, batch_rows))

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of columns that pass through; keys are text."""
        fields = self.fields
        for name in names:
            require_field(fields, name, str(self.location))
        stored = self._file.kept_schema([name for name in names if name not in self._keys])
        return pa.schema([(n, pa.string()) if n in self._keys else stored.field(n) for n in names])

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read what is stored, and repeat the keys beside it."""
        stored = pa.schema([field for field in kept if field.name not in self._keys])
        if not len(stored):
            for rows in self._lengths(index, batch_rows):
                yield self._beside_keys({}, rows, kept)
            return
        for batch in self._file.read_kept(index, stored, batch_rows):
            read = dict(zip(stored.names, batch.columns, strict=True))
            yield self._beside_keys(read, len(batch), kept)

    def _beside_keys(self, read: Mapping[str, pa.Array], rows: int, kept: pa.Schema) -> pa.RecordBatch:
        keys = {
            name: pa.array(_repeated(key, rows, text=True)[0], pa.string())
            for name, key in self._keys.items()
            if name in kept.names
        }
        columns = [read[name] if name in read else keys[name] for name in kept.names]
        return as_kept(pa.RecordBatch.from_arrays(columns, kept.names), kept, str(self.location))


def _repeated(key: str, rows: int, *, text: bool) -> tuple[NDArray[Any], int]:
    """Return a partition key as a column, and how many nulls are in it."""
    if not text:
        return np.full(rows, float(key)), 0
    null = key == NULL_KEY
    return np.full(rows, None if null else key, object), rows if null else 0


def _is_number(text: str) -> bool:
    # Not all that float() takes: 2024_01 is a month, not a number.
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?", text) is not None
