"""A model applied to data: a label for every row, or its score over all of them, in bounded memory.

Rows are read as for a sketch (reading.py), by several threads; but what they give is put together in the
order of the rows. So labels are aligned with their rows, and no sum depends on the number of threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.atomic import atomic_file, refuse_to_overwrite, refuse_to_replace
from nysketch.engines import Check, Engine, Portable
from nysketch.engines.local import available_threads, engine_of, say_fewer_threads
from nysketch.errors import InputError, UsageError
from nysketch.exact import ExactSum
from nysketch.locks import output_lock
from nysketch.models import Floats, KMeansModel, MixtureModel, Model, block_rows_for
from nysketch.passes import Progress
from nysketch.reading import (
    Chunk,
    ChunkReader,
    batch_rows_for,
    chunk_rows_for,
    no_rows_left,
    require_declared_rows,
)
from nysketch.sources import Fragment, Source
from nysketch.sources.base import TEXT_ROWS
from nysketch.tables import format_of, table_writer

# Labelled rows that wait for those before them; and those that are written together, as a row group.
_WAITING_BYTES, _GROUP_BYTES, _GROUP_ROWS = 32 << 20, 16 << 20, 1 << 20
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


class RowReader(Portable):
    """Reads the rows of a source for a model, and counts them; for any number of threads."""

    _of_process = ("_local", "_lock", "_rows", "_progress")

    def __init__(self, model: Model, source: Source, *, nulls: str, progress: Progress | None) -> None:
        if source.columns != model.columns:
            names = ", ".join(map(str, model.columns))
            raise UsageError(f"the source must have the columns of the model: {names}")
        self.source, self._nulls = source, nulls
        self._make_room()
        self._progress: Progress | None = progress
        ChunkReader(source, nulls=nulls)  # complain before threads start

    def _make_room(self) -> None:
        """Make what belongs to this process."""
        self._local, self._lock = threading.local(), threading.Lock()
        self._rows = 0
        self._progress = None

    def chunks(self, fragment: Fragment, check: Check) -> Iterator[Chunk]:
        """Yield the chunks of a fragment, all of its rows; each is valid until the next is asked for."""
        if not hasattr(self._local, "reader"):
            self._local.reader = ChunkReader(self.source, nulls=self._nulls)
        read = 0
        for chunk in self._local.reader.chunks(fragment):
            check()
            yield chunk
            read += len(chunk.rows)
            with self._lock:
                self._rows += len(chunk.rows)
        require_declared_rows(fragment, read)

    def report(self, engine: Engine) -> None:
        """Tell how many rows have been read, here and elsewhere."""
        if self._progress is not None:
            self._progress(self._rows + engine.rows_elsewhere, self.source.rows)


@contextmanager
def unchanged(source: Source) -> Iterator[None]:
    """Raise an InputError if files change while they are read."""
    before = source.state()
    yield
    if source.state() != before:
        raise InputError(
            "an input changed while it was being read, so the result belongs to no version of it. "
            "Run the command again once it is complete"
        )


# ---- labels --------------------------------------------------------------------------------------


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
    refuse_to_replace(source.local_paths, output)
    with output_lock(output, wait=lock_wait):
        refuse_to_overwrite(output, overwrite=overwrite)
        with (
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


# ---- sums over all rows, and the score -------------------------------------------------------------

Sums = dict[str, Any]


def sum_over(
    model: Model,
    source: Source,
    work: Callable[[Floats, Floats | None], Sums],
    *,
    nulls: str = "error",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Sums:
    """Add up what `work` returns for some rows and their weights, by name, over all valid rows.

    Also returns how many `rows` there were, how many were `dropped`, and their total `weight`.
    """
    summer = _FragmentSummer(RowReader(model, source, nulls=nulls, progress=progress), model, work)
    engine = engine_of(engine)
    report = partial(summer.reader.report, engine)
    totals: dict[str, ExactSum] = {}
    parts = engine.run_in_order(summer, source.fragments(), meanwhile=report)
    report()
    with unchanged(source), closing(parts):
        for part in parts:
            # Nothing is lost on the way: as if there were one fragment, of any length.
            _add(totals, {name: ExactSum(np.asarray(v), np.zeros_like(v)) for name, v in part.items()})
    result = {name: total.high for name, total in totals.items()}
    if not result or not result["rows"]:
        raise no_rows_left(int(result["dropped"]) if result else 0)
    if not result["weight"] > 0:
        raise InputError(f"all weights in column {source.weights!r} are 0")
    return result


@dataclass(frozen=True)
class _FragmentSummer:
    """Adds up what `work` returns for the rows of a fragment."""

    reader: RowReader
    model: Model
    work: Callable[[Floats, Floats | None], Sums]

    @property
    def source(self) -> Source:
        """Where the fragments are from."""
        return self.reader.source

    def __call__(self, fragment: Fragment, check: Check) -> Iterator[Sums]:
        """Yield the sums."""
        step = block_rows_for(self.model.k)
        sums: Sums = {}
        for chunk in self.reader.chunks(fragment, check):
            rows, weights = chunk.rows, chunk.weights
            if chunk.dropped:
                rows, weights = rows[chunk.keep], None if weights is None else weights[chunk.keep]
            for start in range(0, len(rows), step):
                some = None if weights is None else weights[start : start + step]
                _add(sums, self.work(rows[start : start + step], some))
            weight = len(rows) if weights is None else weights.sum()
            _add(sums, {"rows": float(len(rows)), "dropped": float(chunk.dropped), "weight": float(weight)})
        yield sums


def _add(total: dict[str, Any], part: dict[str, Any]) -> None:
    for name, value in part.items():
        total[name] = total[name] + value if name in total else value


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well a model describes rows. Means are over rows, by their weights if there are any.

    Costs are squared distances in scaled units, or −log p(x); `shares` of the rows are those of clusters,
    or the mean probabilities of components.
    """

    rows: int
    dropped_rows: int
    total_weight: float
    mean_cost: float
    standard_error: float
    shares: tuple[float, ...]
    mean_squared_distance_data_units: float | None = None
    bic: float | None = None

    @property
    def total_cost(self) -> float:
        """The sum of the costs, times the weights if there are any."""
        return self.mean_cost * self.total_weight


def score(
    model: KMeansModel | MixtureModel,
    source: Source,
    *,
    nulls: str = "error",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Score:
    """Measure a model on all rows of a source, weighted by the source's weights if it has any."""
    is_scaled = isinstance(model, KMeansModel) and bool((model.scale != 1).any())

    def work(rows: Floats, weights: Floats | None) -> Sums:
        w = np.ones(len(rows)) if weights is None else weights
        sums: Sums = {}
        if isinstance(model, KMeansModel):
            labels, differences = model.nearest(rows)
            costs = np.einsum("ij,ij->i", differences, differences)
            sums["shares"] = np.bincount(labels, w, minlength=model.k)
            if is_scaled:
                with np.errstate(over="ignore"):
                    sums["unscaled"] = w @ np.square(differences * model.scale).sum(axis=1)
        else:
            densities, shares = model.posterior(rows)
            costs = -densities
            sums["shares"] = w @ shares
        return sums | {"costs": w @ costs, "w²": w @ w, "w²c": (w * w) @ costs, "w²c²": w**2 @ costs**2}

    sums = sum_over(model, source, work, nulls=nulls, engine=engine, progress=progress)
    n, weight = int(sums["rows"]), float(sums["weight"])
    mean = float(sums["costs"] / weight)
    # That of a ratio of sums over independent rows.
    variance = max(float(sums["w²c²"] - 2 * mean * sums["w²c"] + mean**2 * sums["w²"]), 0.0)
    unscaled = float(sums["unscaled"]) / weight if is_scaled else None
    bic = None
    if isinstance(model, MixtureModel) and source.weights is None:
        bic = 2 * mean * n + model.parameters * math.log(n)
    return Score(
        rows=n,
        dropped_rows=int(sums["dropped"]),
        total_weight=weight,
        mean_cost=mean,
        standard_error=math.sqrt(variance) / weight,
        shares=tuple((sums["shares"] / weight).tolist()),
        mean_squared_distance_data_units=unscaled
        if unscaled is not None and math.isfinite(unscaled)
        else None,
        bic=bic,
    )
