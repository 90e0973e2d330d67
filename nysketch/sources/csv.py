"""CSV files, as pyarrow.dataset reads them: one file is one fragment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds

from nysketch.basis import Column
from nysketch.errors import InputError
from nysketch.sources.arrow import as_batch, fields_of
from nysketch.sources.base import Batch, Field
from nysketch.sources.location import Location


class CSVFile:
    """One CSV file."""

    def __init__(self, location: Location) -> None:
        self.location = location
        try:
            self._dataset = self._open(_with_floats(self._open("csv").schema))
            self.fragment_rows = [self._dataset.count_rows()]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{location}: cannot read as CSV: {error}") from error

    def _open(self, format: str | ds.FileFormat) -> ds.Dataset:
        return ds.dataset(self.location.path, format=format, filesystem=self.location.filesystem)

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        return fields_of(self._dataset.schema, str(self.location))

    def where(self, index: int) -> str:
        """Return how messages call the (only) fragment."""
        del index
        return str(self.location)

    def list_width(self, name: str) -> int:
        """Return 0: CSV has no lists."""
        del name
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


def _with_floats(schema: pa.Schema) -> ds.CsvFileFormat:
    """Return a format that reads as floats what began as integers: further down there may be fractions."""
    floats = {field.name: pa.float64() for field in schema if pa.types.is_integer(field.type)}
    return ds.CsvFileFormat(convert_options=pacsv.ConvertOptions(column_types=floats))
