"""A coreset as a table, and as a file that appears complete or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch._types import Rows
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.coresets.coreset import Coreset
from nysketch.coresets.from_data import CoresetOptions, coreset_of_source
from nysketch.coresets.from_sketch import coreset_of_sketch
from nysketch.errors import UsageError, json_in_shell
from nysketch.files.merge import merged
from nysketch.files.tables import format_of, table_writer
from nysketch.passes.execution import HERE, Execution
from nysketch.sketches.sketch import Sketch
from nysketch.sources.decoding import decode
from nysketch.sources.protocol import Source


@dataclass(frozen=True)
class Naming:
    """What the columns of weights and of row numbers are called."""

    weight: str = "weight"
    row: str = "row"

    def require_free(self, names: set[str]) -> None:
        """Raise a UsageError if the data have such columns themselves."""
        for name, parameter in ((self.row, "row_as"), (self.weight, "weight_as")):
            if name in names:
                raise UsageError(
                    f"the data already has a column {name!r}: choose another name with `{parameter}=NAME`"
                )
        if self.row == self.weight:
            raise UsageError(f"weights and row numbers cannot both be called {self.row!r}")


def require_writable(output: Path, source: Source, naming: Naming) -> None:
    """Raise a UsageError if such rows cannot be in such a file: better now than after the pass."""
    lists = [column.name for column in source.columns if column.width > 1]
    lists += [field.name for field in source.kept if pa.types.is_nested(field.type)]
    if format_of(output) == "csv" and lists:
        raise UsageError(
            f"{output}: CSV cannot store lists, and column {lists[0]!r} has them; write .parquet or .arrow "
            "instead"
        )
    naming.require_free({column.name for column in source.columns} | set(source.kept.names))


def as_table(found: Coreset, naming: Naming | None = None) -> pa.Table:
    """Return a coreset as a table: number of the row, weight, the columns of the basis, and those kept.

    A column that is kept has its own type, as categories and times of data have; the others are float64,
    lists of them, or strings. Of landmarks, the number is that of the landmark, as `landmark` instead of
    `row`; values that are in no vocabulary are `(other)`, and times are those on the clock of their zone.
    """
    naming = naming or Naming()
    if found.of_landmarks and naming.row == "row":
        naming = replace(naming, row="landmark")
    kept = {} if found.kept is None else {n: found.kept.column(n) for n in found.kept.column_names}
    naming.require_free({column.name for column in found.columns} | set(kept))
    columns: dict[str, Any] = {naming.row: pa.array(found.numbers), naming.weight: pa.array(found.weights)}
    start = 0
    for column in found.columns:
        own = kept.pop(column.name, None)
        columns[column.name] = _column(found.points, column, start) if own is None else own
        start += column.width
    table = pa.table(columns | kept)
    facts = json_in_shell(found.describe())
    return table.replace_schema_metadata({"nysketch": json.dumps(facts, sort_keys=True)})


def _column(points: Rows, column: Column, start: int) -> pa.Array:
    if column.text:
        return pa.array(points, pa.string())
    return decode(points[:, start : start + column.width], column)


def coreset_to_file(
    source: Source,
    output: Path,
    basis: Basis | Sketch | BasisOptions,
    options: CoresetOptions,
    *,
    naming: Naming,
    inputs: Sequence[Path] = (),
    overwrite: bool = False,
    lock_wait: float = 0.0,
    execution: Execution = HERE,
) -> Coreset:
    """Make a coreset of a source, and write it to a Parquet, CSV or Feather file.

    `inputs` are files that must not be replaced either, besides those of the source.
    """
    return _written(
        partial(coreset_of_source, source, basis, options, execution),
        output,
        inputs=[*source.local_paths, *inputs],
        naming=naming,
        overwrite=overwrite,
        lock_wait=lock_wait,
    )


def coreset_of_sketches_to_file(
    paths: Sequence[Path],
    output: Path,
    options: CoresetOptions,
    *,
    naming: Naming,
    overwrite: bool = False,
    lock_wait: float = 0.0,
) -> Coreset:
    """Make a coreset of the landmarks of sketch files, which are merged first, and write it to a file."""

    def make() -> Coreset:
        return coreset_of_sketch(merged(paths, "the coreset"), options.functions, method=options.method)

    return _written(make, output, inputs=paths, naming=naming, overwrite=overwrite, lock_wait=lock_wait)


def _written(
    make: Callable[[], Coreset],
    output: Path,
    *,
    inputs: Sequence[str | Path],
    naming: Naming,
    overwrite: bool,
    lock_wait: float,
) -> Coreset:
    """Write the coreset that `make` returns, of these inputs, to a Parquet, CSV or Feather file."""
    format = format_of(output)
    with claimed(output, inputs=inputs, overwrite=overwrite, wait=lock_wait):
        found = make()
        table = as_table(found, naming)
        with atomic_file(output) as file, table_writer(file, format, table.schema, output) as write:
            write(table)
    return found
