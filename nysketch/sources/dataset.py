"""CSV and Feather files, as far as pyarrow.dataset reads them: one file is one fragment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds

from nysketch.basis import Column
from nysketch.errors import InputError
from nysketch.sources.arrow import as_batch, fields_of, list_width
from nysketch.sources.base import Batch, Field
from nysketch.sources.location import Location


class DatasetFile:
    """One file in a format that has no row groups of its own."""

    def __init__(self, location: Location, format: str) -> None:
        self.location, self._format = location, format
        try:
            self._dataset = ds.dataset(location.path, format=format, filesystem=location.filesystem)
            self.fragment_rows = [self._dataset.count_rows()]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{location}: cannot read as {format}: {error}") from error

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._dataset.schema, str(self.location))

    def where(self, index: int) -> str:
        """Return how messages call the (only) fragment."""
        del index
        return str(self.location)

    def list_width(self, name: str) -> int:
        """Return the length of the first list in a column."""
        for batch in self._batches([name], 1024):
            width = list_width(batch.column(name))
            if width is not None:
                return width
        return 0

    def _batches(self, names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Without read-ahead limits the scanner holds the whole file.
        batches: Iterator[pa.RecordBatch] = self._dataset.to_batches(
            columns=names,
            batch_size=batch_rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        return batches

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield all rows of the file."""
        names = [*(column.name for column in columns), *filter(None, [weights])]
        try:
            for batch in self._batches(names, batch_rows):
                yield as_batch(batch, columns, weights, self.where(index))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.location}: cannot read: {error}") from error
