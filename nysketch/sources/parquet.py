"""Parquet files: one row group is one fragment, read column by column in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from nysketch.basis import Column
from nysketch.errors import InputError
from nysketch.sources.arrow import as_batch, fields_of, list_width
from nysketch.sources.base import Batch, Field
from nysketch.sources.location import Location

# Read-ahead over all columns of one reader. pyarrow's own defaults fetch whole row groups
# (pre_buffer) and were measured to hold a whole 1.3 GB file; this holds tens of megabytes.
_READ_AHEAD_BYTES = 16 << 20


class ParquetFile:
    """One Parquet file."""

    def __init__(self, location: Location) -> None:
        self.location = location
        with self._open() as file:
            self._schema = file.schema_arrow
            metadata = file.metadata
            self.fragment_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def _open(self, columns: int = 1) -> pq.ParquetFile:
        buffer = min(max(_READ_AHEAD_BYTES // columns, 1 << 15), 1 << 20)
        try:
            return pq.ParquetFile(self.location.open(), pre_buffer=False, buffer_size=buffer)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{self.location}: cannot read as Parquet (truncated or damaged?): {error}"
            ) from error

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._schema, str(self.location))

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        return f"{self.location}, row group {index}"

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        with self._open() as file:
            for batch in file.iter_batches(batch_size=1024, columns=[name], use_threads=False):
                width = list_width(batch.column(name))
                if width is not None:
                    return width
        return 0

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield the rows of one row group."""
        names = [*(column.name for column in columns), *filter(None, [weights])]
        where = self.where(index)
        try:
            with self._open(len(names)) as file:
                for batch in file.iter_batches(
                    batch_size=batch_rows, row_groups=[index], columns=names, use_threads=False
                ):
                    yield as_batch(batch, columns, weights, where)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{where}: cannot read (truncated or damaged?): {error}") from error
