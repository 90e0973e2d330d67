"""Tables as files: Parquet, CSV or Feather, by the suffix of the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from nysketch.errors import OutputError, UsageError

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def format_of(output: Path) -> str:
    """Return the format that a name asks for."""
    format = FORMATS.get(output.suffix.lower())
    if format is None:
        raise UsageError(
            f"{output}: cannot tell the format from the name; end it in .parquet, .csv, .arrow or .feather"
        )
    return format


@contextmanager
def table_writer(
    file: IO[bytes], format: str, schema: pa.Schema, output: Path
) -> Iterator[Callable[[pa.Table], None]]:
    """Yield a function that writes a table to the file."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    with _refusals(output):
        if format == "parquet":
            # Hashing numbers that are all different would take longer than computing them.
            repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
            writer = pq.ParquetWriter(file, schema, use_dictionary=repeated)
        elif format == "csv":
            writer = pacsv.CSVWriter(file, schema)
        else:
            writer = pa.ipc.new_file(file, schema)

    def write(table: pa.Table) -> None:
        with _refusals(output):
            writer.write_table(table.combine_chunks() if format == "arrow" else table)

    with writer:
        yield write


@contextmanager
def _refusals(output: Path) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise OutputError(
            f"{output}: cannot write: {error}. Leave the column out of `keep`, or write another format"
        ) from error
