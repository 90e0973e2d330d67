"""A model applied to data: a label for every row, in bounded memory.

Rows are read as for a sketch (passes/task.py), by several threads; but labels are put together in the order
of the rows, and so are aligned with them. Sums over all rows are next door, in score.py.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch._types import Floats, Progress
from nysketch.engines.protocol import Check, Engine
from nysketch.engines.threads import engine_of
from nysketch.errors import UsageError
from nysketch.files.tables import format_of, table_writer
from nysketch.models.base import Model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.passes.chunks import chunk_rows_for
from nysketch.passes.memory import Room, Taken, room_for
from nysketch.passes.task import FragmentTask, KeptColumns, row_reporter, unchanged
from nysketch.sources.protocol import Fragment, Source

# Labelled rows that wait for those before them; and those that are written together, as a row group.
_WAITING_BYTES, _GROUP_BYTES, _GROUP_ROWS = 32 << 20, 16 << 20, 1 << 20
# As measured: 130 MiB for Python and libraries, with nothing compiled, and something to spare.
_BASE_BYTES = 160 << 20


def room_to_apply(memory: int, source: Source, model: Model, threads: int | None = None) -> Room:
    """Return how many threads can apply a model to a source within `memory` bytes, and how they read."""
    chunk = 4 * 8 * chunk_rows_for(model.width) * model.width
    blocks = 4 * 8 * model.block_rows * (max(model.k, model.d) if model.encoded else model.k)
    fixed = _BASE_BYTES + _WAITING_BYTES + 3 * _GROUP_BYTES
    return room_for(source, memory, Taken(fixed, chunk + blocks), threads=threads)


@dataclass(frozen=True)
class Assigned:
    """What `assign_to_file` did; rows with nulls, if they were to be dropped, have no label."""

    rows: int
    unlabelled_rows: int
    label_rows: tuple[int, ...]


def assign(
    model: KMeansModel | MixtureModel,
    source: Source,
    *,
    responsibilities: bool | None = None,
    distances: bool = False,
    nulls: str = "keep",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Generator[pa.Table, None, None]:
    """Yield tables of a few rows each, which together have a row for every row of the source, in order.

    Columns are those that the source keeps, the `label`, the `distance` to the centroid if asked for, and
    of mixtures the probabilities p0, p1, … of the components unless `responsibilities` are declined.
    """
    task = _LabelTask(model, source, responsibilities=responsibilities, distances=distances, nulls=nulls)
    return task.tables(engine_of(engine), progress)


class _LabelTask(FragmentTask[Iterator[pa.Table]]):
    """Labels the rows of a fragment, in tables of a few rows each."""

    def __init__(
        self,
        model: KMeansModel | MixtureModel,
        source: Source,
        *,
        responsibilities: bool | None,
        distances: bool,
        nulls: str,
    ) -> None:
        mixture = isinstance(model, MixtureModel)
        if responsibilities and not mixture:
            raise UsageError("only mixtures have `responsibilities`; this is a k-means model")
        if distances and mixture:
            raise UsageError("only k-means models have `distances`; this is a mixture")
        model.require_columns(source.columns)
        super().__init__(source, nulls=model.policy(nulls), fill=model.fill)
        self._model, self._distances = model, distances
        self._responsibilities = mixture and responsibilities is not False
        own = [("label", pa.int32())]
        own += [("distance", pa.float64())] if distances else []
        own += [(f"p{j}", pa.float32()) for j in range(model.k)] if self._responsibilities else []
        self.schema = pa.schema([*source.kept, *own])
        for name, _ in own:
            if name in source.kept.names:
                raise UsageError(
                    f"column {name!r} cannot be kept: the output has its own column of this name"
                )

    def tables(self, engine: Engine, progress: Progress | None) -> Generator[pa.Table, None, None]:
        """Yield the rows of the output in order."""
        report = row_reporter(progress, self, engine, rows=self.source.rows)
        tables = engine.run_in_order(
            self,
            self.source.fragments(),
            size=lambda table: int(table.nbytes),
            most=_WAITING_BYTES,
            meanwhile=report,
        )
        report()
        yield from tables

    def __call__(self, fragment: Fragment, check: Check) -> Iterator[pa.Table]:
        """Yield the rows of one fragment."""
        kept = KeptColumns(self.source, fragment)
        step = self._model.block_rows
        for chunk in self.chunks(fragment, check):
            for start in range(0, len(chunk.rows), step):
                part = slice(start, start + step)
                columns = self._label_columns(chunk.rows[part], chunk.keep[part])
                yield pa.table([*kept.take_next(len(columns[0])), *columns], schema=self.schema)

    def _label_columns(self, rows: Floats, keep: NDArray[np.bool_]) -> list[pa.Array]:
        """Return the columns of labels and the like, with nulls for rows that are not kept."""
        everything = bool(keep.all())
        values = self._label_valid(rows if everything else rows[keep])
        if everything:
            return [pa.array(column) for column in values]
        columns = []
        for column in values:
            spread = np.zeros(len(keep), column.dtype)
            spread[keep] = column
            columns.append(pa.array(spread, mask=~keep))
        return columns

    def _label_valid(self, rows: Floats) -> list[NDArray[Any]]:
        """Return labels, and what is asked for beside them, column by column."""
        if isinstance(self._model, KMeansModel):
            if not self._distances:
                return [self._model._labels(rows)]
            labels, differences = self._model.nearest(rows)
            return [labels, np.linalg.norm(differences, axis=1)]
        if not self._responsibilities:
            return [self._model._labels(rows)]
        shares = self._model.posterior(rows)[1]
        return [shares.argmax(axis=1).astype(np.int32), *shares.T.astype(np.float32)]


def assign_to_file(
    model: KMeansModel | MixtureModel,
    source: Source,
    output: Path,
    *,
    responsibilities: bool | None = None,
    distances: bool = False,
    nulls: str = "keep",
    overwrite: bool = False,
    lock_wait: float = 0.0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Assigned:
    """Write what `assign` yields to a Parquet, CSV or Feather file, which appears complete or not at all."""
    format = format_of(output)
    task = _LabelTask(model, source, responsibilities=responsibilities, distances=distances, nulls=nulls)
    rows = unlabelled = 0
    label_rows = np.zeros(model.k, np.int64)
    with (
        claimed(output, inputs=source.local_paths, overwrite=overwrite, wait=lock_wait),
        atomic_file(output) as file,
        unchanged(source),
        table_writer(file, format, task.schema, output) as write,
        closing(task.tables(engine_of(engine), progress)) as tables,
    ):
        for group in _row_groups(tables):
            labels = group["label"]
            rows, unlabelled = rows + len(group), unlabelled + labels.null_count
            label_rows += np.bincount(labels.drop_null().to_numpy(), minlength=model.k)
            write(group)
    return Assigned(rows, unlabelled, tuple(label_rows.tolist()))


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together to the row groups of a file, which depend on nothing but the tables."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + len(table), size + table.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held)
