"""A model applied to data: a label for every row, or its score over all of them, in bounded memory.

Rows are read as for a sketch (passes/chunks.py), by several threads; but what they give is put together in
the order of the rows. So labels are aligned with their rows, and no sum depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch._types import Floats
from nysketch.engines.protocol import Check, Engine
from nysketch.engines.threads import available_threads, engine_of, say_fewer_threads
from nysketch.errors import InputError, UsageError
from nysketch.files.tables import format_of, table_writer
from nysketch.models.base import Model, block_rows_for
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.passes.chunks import batch_rows_for, chunk_rows_for
from nysketch.passes.sketching import Progress
from nysketch.passes.task import RowReader, unchanged
from nysketch.sources.protocol import TEXT_ROWS, Fragment, Source

# Labelled rows that wait for those before them; and those that are written together, as a row group.
_WAITING_BYTES, _GROUP_BYTES, _GROUP_ROWS = 32 << 20, 16 << 20, 1 << 20


# ---- labels --------------------------------------------------------------------------------------


# As measured: 130 MiB for Python and libraries, with nothing compiled, and something to spare.
_BASE_BYTES = 160 << 20


def threads_within(memory: int, source: Source, model: Model) -> int:
    """Return how many threads can apply a model to a source within `memory` bytes."""
    d = model.d
    batch, chunk = 2 * 8 * batch_rows_for(d) * d, 4 * 8 * chunk_rows_for(d) * d
    blocks = 4 * 8 * block_rows_for(model.k) * model.k
    readers = 2 if len(source.kept) else 1
    per_thread = readers * source.reader_bytes + batch + chunk + blocks
    fixed = _BASE_BYTES + _WAITING_BYTES + 3 * _GROUP_BYTES
    if fixed + per_thread > memory:
        raise UsageError(
            f"this takes about {(fixed + per_thread) / 1e6:,.0f} MB of memory with one thread, more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with --memory"
        )
    available = available_threads()
    threads = min(available, (memory - fixed) // per_thread)
    say_fewer_threads(threads, memory)
    return threads


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
    nulls: str = "error",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Generator[pa.Table, None, None]:
    """Yield tables of a few rows each, which together have a row for every row of the source, in order.

    Columns are those that the source keeps, the `label`, the `distance` to the centroid if asked for, and
    of mixtures the probabilities p0, p1, … of the components unless `responsibilities` are declined.
    """
    labeller = _Labeller(
        model, source, responsibilities=responsibilities, distances=distances, nulls=nulls, progress=progress
    )
    return labeller.tables(engine_of(engine))


class _Labeller:
    """Makes tables of labels of the chunks of a source."""

    def __init__(
        self,
        model: KMeansModel | MixtureModel,
        source: Source,
        *,
        responsibilities: bool | None,
        distances: bool,
        nulls: str,
        progress: Progress | None,
    ) -> None:
        mixture = isinstance(model, MixtureModel)
        if responsibilities and not mixture:
            raise UsageError("responsibilities are those of mixtures: a k-means model has none")
        if distances and mixture:
            raise UsageError("distances are those to centroids: a mixture has none")
        self._model, self.source, self._distances = model, source, distances
        self._responsibilities = mixture and responsibilities is not False
        self._reader = RowReader(model, source, nulls=nulls, progress=progress)
        own = [("label", pa.int32())]
        own += [("distance", pa.float64())] if distances else []
        own += [(f"p{j}", pa.float32()) for j in range(model.k)] if self._responsibilities else []
        self.schema = pa.schema([*source.kept, *own])
        for name, _ in own:
            if name in source.kept.names:
                raise UsageError(f"column {name!r} cannot be kept: the output has one of this name")

    def tables(self, engine: Engine) -> Generator[pa.Table, None, None]:
        """Yield the rows of the output in order."""
        report = partial(self._reader.report, engine)
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
        kept = _Kept(self.source, fragment)
        step = block_rows_for(self._model.k)
        for chunk in self._reader.chunks(fragment, check):
            for start in range(0, len(chunk.rows), step):
                part = slice(start, start + step)
                columns = self._columns(chunk.rows[part], chunk.keep[part])
                yield pa.table([*kept.take(len(columns[0])), *columns], schema=self.schema)

    def _columns(self, rows: Floats, keep: NDArray[np.bool_]) -> list[pa.Array]:
        """Return the columns of labels and the like, with nulls for rows that are not kept."""
        everything = bool(keep.all())
        values = self._values(rows if everything else rows[keep])
        if everything:
            return [pa.array(column) for column in values]
        columns = []
        for column in values:
            spread = np.zeros(len(keep), column.dtype)
            spread[keep] = column
            columns.append(pa.array(spread, mask=~keep))
        return columns

    def _values(self, rows: Floats) -> list[NDArray[Any]]:
        if isinstance(self._model, KMeansModel):
            if not self._distances:
                return [self._model.labels(rows)]
            labels, differences = self._model.nearest(rows)
            return [labels, np.linalg.norm(differences, axis=1)]
        if not self._responsibilities:
            return [self._model.labels(rows)]
        shares = self._model.responsibilities(rows)
        return [shares.argmax(axis=1).astype(np.int32), *shares.T.astype(np.float32)]


class _Kept:
    """The columns of a fragment that pass through, a few rows at a time."""

    def __init__(self, source: Source, fragment: Fragment) -> None:
        self._names, self._where = source.kept.names, fragment.where
        self._batches = source.read_kept(fragment, TEXT_ROWS) if self._names else iter(())
        self._rest: list[pa.RecordBatch] = []

    def take(self, rows: int) -> list[pa.ChunkedArray]:
        """Return the columns of the next rows."""
        if not self._names:
            return []
        taken, missing = [], rows
        while missing:
            batch = self._rest.pop() if self._rest else next(self._batches, None)
            if batch is None:
                raise InputError(f"{self._where}: columns to keep have fewer rows than others")
            if len(batch) > missing:
                self._rest = [batch.slice(missing)]
            taken.append(batch.slice(0, missing))
            missing -= len(taken[-1])
        columns: list[pa.ChunkedArray] = pa.Table.from_batches(taken).columns
        return columns


def assign_to_file(
    model: KMeansModel | MixtureModel,
    source: Source,
    output: Path,
    *,
    responsibilities: bool | None = None,
    distances: bool = False,
    nulls: str = "error",
    overwrite: bool = False,
    lock_wait: float = 0.0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Assigned:
    """Write what `assign` yields to a Parquet, CSV or Feather file, which appears complete or not at all."""
    format = format_of(output)
    labeller = _Labeller(
        model, source, responsibilities=responsibilities, distances=distances, nulls=nulls, progress=progress
    )
    rows = unlabelled = 0
    label_rows = np.zeros(model.k, np.int64)
    with (
        claimed(output, inputs=source.local_paths, overwrite=overwrite, wait=lock_wait),
        atomic_file(output) as file,
        unchanged(source),
        table_writer(file, format, labeller.schema, output) as write,
        closing(labeller.tables(engine_of(engine))) as tables,
    ):
        for group in _grouped(tables):
            labels = group["label"]
            rows, unlabelled = rows + len(group), unlabelled + labels.null_count
            label_rows += np.bincount(labels.drop_null().to_numpy(), minlength=model.k)
            write(group)
    return Assigned(rows, unlabelled, tuple(label_rows.tolist()))


def _grouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together, always the same ones."""
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
