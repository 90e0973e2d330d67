"""Tables as files: Parquet, CSV or Feather, by the suffix of the name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from nysketch._support.notices import log
from nysketch.errors import OutputError, UsageError

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

# What spreadsheets run when they open a CSV file; but a number is a number, also if it is stored as text.
_FORMULA = r"^[=+\-@\t\r\n]"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]$"
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)


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

    escaped: Counter[str] = Counter()
    with _refusals(output):
        if format == "parquet":
            # Hashing numbers that are all different would take longer than computing them.
            repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
            writer = pq.ParquetWriter(file, schema, use_dictionary=repeated)
        elif format == "csv":
            escaped.update(name for name in schema.names if _name_as_text(name) != name)
            schema = pa.schema([(_name_as_text(field.name), _written_as(field.type)) for field in schema])
            writer = pacsv.CSVWriter(file, schema)
        else:
            writer = pa.ipc.new_file(file, schema)

    def write(table: pa.Table) -> None:
        with _refusals(output):
            if format == "csv":
                table = _without_formulas(table, schema, escaped)
            writer.write_table(table.combine_chunks() if format == "arrow" else table)

    with writer:
        yield write
    if escaped:
        columns = ", ".join(f"{name} ({count:,})" for name, count in escaped.items())
        log.warning(
            "%s: texts that a spreadsheet would run as formulas were written with ' before them, in column "
            "%s. Parquet and Feather files keep them as they are",
            output,
            columns,
        )


# ---- formulas in CSV ---------------------------------------------------------------------------------


def _name_as_text(name: str) -> str:
    """Return a name so that a spreadsheet takes it for text, and does not run it."""
    return f"'{name}" if re.search(_FORMULA, name) and not re.search(_NUMBER, name) else name


def _without_formulas(table: pa.Table, schema: pa.Schema, escaped: Counter[str]) -> pa.Table:
    """Return a table whose texts are no formulas, in columns of `schema`; count the cells that were some."""
    columns = [
        _as_texts(column, name, escaped)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _written_as(kind: pa.DataType) -> pa.DataType:
    """Return the type by which a column of this one is written."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


def _as_texts(column: pa.ChunkedArray, name: str, escaped: Counter[str]) -> pa.ChunkedArray:
    kind = _written_as(column.type)
    texts = column if kind == column.type else column.cast(kind)
    if not any(is_one(kind) for is_one in _TEXTS):
        return texts
    formulas = pc.match_substring_regex(texts, _FORMULA)
    formulas = pc.and_not(formulas, pc.match_substring_regex(texts, _NUMBER))
    count = pc.sum(formulas).as_py() or 0
    if not count:
        return texts
    escaped[name] += count
    marked = pc.binary_join_element_wise(pa.scalar("'").cast(kind), texts, pa.scalar("").cast(kind))
    return pc.if_else(formulas, marked, texts)


@contextmanager
def _refusals(output: Path) -> Iterator[None]:
    try:
        yield
    except pa.ArrowException as error:
        raise OutputError(
            f"{output}: cannot write: {error}. Leave the column out of `keep`, or write another format"
        ) from error
