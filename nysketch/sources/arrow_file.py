"""What Parquet and Feather files share: record batches of named columns, as numbers or passed through."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from nysketch.columns import Column
from nysketch.sources.arrow import as_batch, as_kept, fields_of, kept_schema
from nysketch.sources.locations import Location
from nysketch.sources.protocol import Batch
from nysketch.sources.selection import Field, names_of

# A weak reference to the schema of the file that was opened last.
_last: Any = None


def _shared(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the file before if it is equal: of wide ones, each would take half a megabyte."""
    global _last
    known = None if _last is None else _last()
    if known is not None and known.equals(schema):
        return known
    _last = weakref.ref(schema)
    return schema


class ArrowFile(ABC):
    """A file whose columns have Arrow types; a fragment is whatever the format reads at a time."""

    def __init__(self, location: Location, schema: pa.Schema, fragment_rows: list[int]) -> None:
        self.location, self._schema, self.fragment_rows = location, _shared(schema), fragment_rows

    @abstractmethod
    def where(self, index: int) -> str:
        """Return how messages call a fragment."""

    @abstractmethod
    def _batches(self, index: int, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of a fragment, at most `batch_rows` rows at a time."""

    def within(self, limit: int) -> Self:
        """Return the file itself, where there is nothing to choose."""
        del limit
        return self

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._schema, str(self.location))

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield the rows of a fragment."""
        for batch in self._batches(index, names_of(columns, weights), batch_rows):
            yield as_batch(batch, columns, weights, self.where(index))

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of columns that pass through."""
        return kept_schema(self._schema, names, str(self.location))

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a fragment that pass through."""
        for batch in self._batches(index, kept.names, batch_rows):
            yield as_kept(batch, kept, self.where(index))
