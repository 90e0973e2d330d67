"""Data → coreset, in one pass: rows are recombined as they come, and a few hundred are carried on.

A block of rows is cut into groups, whose sums of test functions are recombined as if they were points; the
groups that are left are cut into smaller ones, and so on, until the groups are rows. So most rows are
evaluated once, and only sums are multiplied with the matrix of the test functions. What is left of a block is
put together with what is left of others, and recombined again when that has become too much: always in the
order of the rows, so that neither threads nor batches show.

The test functions must be known before. They are learned from the pilot (pilot.py), or from a sketch.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.assigning import unchanged
from nysketch.basis import Basis, NystromBasis, require_landmarks
from nysketch.blas import one_thread
from nysketch.coresets import (
    Coreset,
    Evidence,
    choose_functions,
    coreset_of_sketch,
    mismatch,
    points_to_condense,
    reduced,
    require_size,
    said_of_distance,
    said_of_means,
    said_of_size,
)
from nysketch.engines import local
from nysketch.errors import InputError, UsageError
from nysketch.fileformat import load
from nysketch.fitting import BasisOptions, fit_rows
from nysketch.kernels import Floats, Rows
from nysketch.models import MixtureModel
from nysketch.nearness import distance_to, mean_embedding_at
from nysketch.passes import Progress, as_basis
from nysketch.pilot import read_pilot, read_pilot_for, rows_to_draw_from
from nysketch.reading import ChunkReader, batch_rows_for, chunk_rows_for
from nysketch.recombination import recombine
from nysketch.samples import GatheredSample, RowSample, default_sample_rows
from nysketch.sketches import Sketch
from nysketch.sources import Fragment, Source, open_source
from nysketch.sources.base import TEXT_ROWS
from nysketch.testfunctions import TestFunctions

log = logging.getLogger("nysketch")

# Points that match so many times more functions than wanted are carried on: see coresets.py.
_CARRIED = 2
# Groups for each function at every level; of so many, one is left. For many functions fewer, for the memory.
_GROUPS, _MANY_FUNCTIONS = 8, 256
# So many levels of groups within a block: it has rows enough for the work on groups to be little beside them.
_ROWS_PER_GROUP = 64
_BLOCK_BYTES = 32 << 20
# What is left of blocks is recombined once there is so many times as much as may be left.
_HELD = 4
# Sampled rows to learn test functions from, where there is no pilot.
_PILOT_ROWS = 10_000
# As measured: 220 MiB for Python and libraries with compiled code, and something to spare.
_BASE_BYTES = 240 << 20
_WAITING_BYTES = 32 << 20


def coreset(
    data: Any,
    s: int,
    *,
    basis: Basis | Sketch | str | os.PathLike[str] | None = None,
    method: str | None = None,
    measure: MixtureModel | Floats | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weights: str | None = None,
    keep: Sequence[str] = (),
    nulls: str = "error",
    seed: int = 0,
    threads: int | None = None,
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
    **basis_options: Any,
) -> Coreset:
    """Return at most s + 1 rows with weights that have the same means of s test functions as all rows.

    `data` is anything that `nysketch.sketch` takes, or a Sketch, of which landmarks are taken. Without
    `basis` one is made from a pilot; a Sketch as `basis` also lends its second moments or sampled rows to
    learn test functions from. `method` is "mercer" or "nystrom" (testfunctions.py). If the distribution of
    the rows is known, `measure` says so, for "mercer": a MixtureModel, or the matrix of E k(z, x) k(x, z') at
    the landmarks of `basis`. Further options are those of `nysketch.fitting.BasisOptions`.
    """
    if isinstance(data, Sketch):
        return coreset_of_sketch(data, s, method=method)
    wanted = BasisOptions.of(basis_options)
    known = load(basis) if isinstance(basis, str | os.PathLike) else basis
    columns_of = as_basis(known)
    if known is not None and wanted != BasisOptions():
        raise UsageError("the basis has its landmarks, scaling and kernel: they cannot be chosen again")
    source = open_source(
        data,
        columns=columns if known is not None else wanted.columns_to_read(columns),
        exclude=exclude,
        weights=weights,
        like=None if columns_of is None else columns_of.columns,
        text=wanted.text,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        keep=keep,
    )
    plan = prepare(
        source, s, known=known, wanted=wanted, method=method, measure=measure, seed=seed, nulls=nulls,
        threads=threads,
    )  # fmt: skip
    return condense_source(source, plan, nulls=nulls, threads=threads, progress=progress)


# ---- before the pass -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a pass needs: the basis, functions that points shall match, and how many of them are wanted."""

    basis: NystromBasis
    carried: TestFunctions
    learned_from: str
    wanted: int

    @property
    def functions(self) -> TestFunctions:
        """Those that the coreset matches."""
        return self.carried.first(self.wanted)


def prepare(
    source: Source,
    s: int,
    *,
    known: Basis | Sketch | None = None,
    wanted: BasisOptions | None = None,
    method: str | None = None,
    measure: MixtureModel | Floats | None = None,
    seed: int = 0,
    nulls: str = "error",
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    choosing: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Make a basis from a pilot of the source if there is none, and choose test functions.

    `known` is a basis; or a sketch, which also tells how rows differ.
    """
    require_size(s)
    reading: dict[str, Any] = {"seed": seed, "nulls": nulls, "threads": threads, "progress": progress}
    evidence, basis = Evidence(), as_basis(known)
    if basis is None:
        how = wanted or BasisOptions()
        pilot = read_pilot_for(source, how, **reading)
        of_rows = rows_to_draw_from(source)
        basis = fit_rows(pilot, source.columns, how, seed=seed, of_rows=of_rows, progress=choosing)
        evidence = Evidence(sampled=basis.transform(pilot))
    elif isinstance(known, Sketch):
        evidence = Evidence.of_sketch(known)
    elif measure is None and method != "nystrom" and source.rereadable:
        pilot = read_pilot(source, _PILOT_ROWS, **reading)
        evidence = Evidence(sampled=basis.transform(pilot))
    landmarks = require_landmarks(basis, "a coreset")
    if measure is not None:
        evidence = Evidence.of_measure(measure, landmarks)
    with one_thread():
        functions, learned_from = choose_functions(landmarks, _CARRIED * (s + 1) - 1, method, evidence)
    return Prepared(landmarks, functions, learned_from, s)


def threads_within(memory: int, source: Source, s: int, m: int) -> int:
    """Return how many threads can make a coreset within `memory` bytes."""
    d = sum(column.width for column in source.columns)
    carried = _CARRIED * (s + 1)
    batch, chunk = 2 * 8 * batch_rows_for(d) * d, 2 * 8 * chunk_rows_for(d) * d
    groups = _groups_for(carried)
    block = _block_rows(carried, d) * (8 * d + 48)
    # Sums of groups, their functions, and the directions of an elimination; points that are held.
    work = 8 * (groups * (m + 2 * carried) + 8 * carried**2) + _HELD * carried * 8 * (d + carried)
    per_thread = (2 if len(source.kept) else 1) * source.reader_bytes + batch + chunk + 2 * block + work
    fixed = _BASE_BYTES + _WAITING_BYTES + 8 * (4 * m**2 + m * carried)
    # When threads have finished, their memory is free for what is left to do.
    needed = fixed + max(per_thread, 8 * 8 * max(points_to_condense(s), carried) ** 2)
    if needed > memory:
        raise UsageError(
            f"this takes about {needed / 1e6:,.0f} MB of memory with one thread, more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with --memory, or use fewer landmarks (-m) or "
            "functions (-s)"
        )
    available = local.available_threads()
    threads = int(min(available, (memory - fixed) // per_thread))
    if threads < available:
        log.info(
            "using %d of %d processors to stay within %.0f MB; allow more with --memory",
            threads,
            available,
            memory / 1e6,
        )
    return threads


def _groups_for(functions: int) -> int:
    """Return how many groups of rows are recombined at a time."""
    return (_GROUPS if functions <= _MANY_FUNCTIONS else _GROUPS // 2) * functions


def _block_rows(functions: int, d: int) -> int:
    """Return how many rows are recombined at a time."""
    rows = _ROWS_PER_GROUP * _groups_for(functions)
    return int(max(min(rows, _BLOCK_BYTES // (8 * max(d, 1))), 2 * functions, 512))


# ---- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Part:
    """Weighted rows that stand for some fragments, and sums over all rows of these.

    `functions` are the values of the functions that are carried, `kept` the columns that pass through.
    """

    numbers: NDArray[np.int64]
    points: Rows
    weights: Floats
    functions: Floats
    kernel_sums: Floats
    norm_sum: float  # of w k(x, x)
    rows: int
    dropped: int
    sample: RowSample
    kept: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        kept = 0 if self.kept is None else self.kept.nbytes
        return int(self.points.nbytes + self.functions.nbytes + self.kernel_sums.nbytes + kept)

    def only(self, which: NDArray[np.int64], weights: Floats) -> Part:
        """Return some of the points, with new weights."""
        return replace(
            self,
            numbers=self.numbers[which],
            points=self.points[which],
            weights=weights,
            functions=self.functions[which],
            kept=None if self.kept is None else self.kept.take(which),
        )

    @classmethod
    def union(cls, parts: Sequence[Part]) -> Part:
        """Return the points of all parts: together they stand for all rows of these."""
        kept = [part.kept for part in parts if part.kept is not None]
        return cls(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.points for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.functions for part in parts]),
            np.sum([part.kernel_sums for part in parts], axis=0),
            sum(part.norm_sum for part in parts),
            sum(part.rows for part in parts),
            sum(part.dropped for part in parts),
            RowSample.union([part.sample for part in parts]),
            pa.concat_tables(kept) if kept else None,
        )


def merged(parts: Sequence[Part]) -> Part:
    """Put parts together, and recombine their points if they are many; the order of parts is that of rows."""
    together = Part.union(parts)
    if len(together) > _HELD * (together.functions.shape[1] + 1):
        together = together.only(*recombine(together.functions, together.weights))
    return together


def condense_source(
    source: Source,
    plan: Prepared,
    *,
    nulls: str = "error",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Coreset:
    """Read all rows of a source once, and return a coreset of them."""
    worker = _Worker(source, plan, nulls)
    threads = local.available_threads() if threads is None else threads
    if threads < 1:
        raise UsageError(f"the number of threads must be at least 1, not {threads}")

    def report() -> None:
        if progress is not None:
            progress(worker.rows_read, source.rows)

    report()
    parts = local.run_in_order(
        worker,
        source.fragments(),
        threads=threads,
        size=lambda part: part.nbytes,
        most=_WAITING_BYTES,
        meanwhile=report,
    )
    total: Part | None = None
    held: list[Part] = []
    with unchanged(source), closing(parts):
        for part in parts:
            held.append(part)
            # Not one by one: of a thousand small row groups, each would cost as much as a large one.
            if sum(map(len, held)) > _HELD * (len(plan.carried) + 1) or len(held) >= _MOST_HELD:
                total, held = merged([*([total] if total else []), *held]), []
                worker.sample_bound = total.sample.bound
    every = [*([total] if total else []), *held]
    if not sum(part.rows for part in every):
        dropped = sum(part.dropped for part in every)
        raise InputError(
            f"no rows left: {dropped:,} were dropped for nulls, NaN or infinities"
            if dropped
            else "the source has no rows"
        )
    total = merged(every)
    if not total.weights.sum() > 0:
        raise InputError(f"all weights in column {source.weights!r} are 0")
    report()
    return _condensed(plan, total)


# Parts that wait to be put together; rows whose norms are computed at a time.
_MOST_HELD, _STEP = 256, 4096


def _condensed(plan: Prepared, part: Part) -> Coreset:
    """Choose the rows of the coreset from the points that were carried to the end."""
    basis, functions = plan.basis, plan.functions
    weight = float(part.weights.sum())
    mean_kernel = part.kernel_sums / weight
    means = functions.of(mean_kernel)
    with one_thread():
        part = part.only(np.arange(len(part)), part.weights / weight)
        if len(part) > points_to_condense(plan.wanted):
            part = part.only(*recombine(part.functions, part.weights))
        scaled = basis.transform(part.points)
        kernel = basis.kernel(scaled, scaled)
        values = part.functions[:, : len(functions)]
        target = mean_embedding_at(basis, scaled, mean_kernel, part.sample)
        part = part.only(*reduced(kernel, target, values, part.weights, means))
        distance = distance_to(
            basis,
            basis.transform(part.points),
            part.weights,
            mean_kernel,
            part.sample,
            of_rows=part.rows,
            mean_norm=part.norm_sum / weight,
        )
    order = np.argsort(part.numbers, kind="stable")
    part = part.only(order, part.weights[order])
    off = mismatch(part.functions[:, : len(functions)], means, part.weights)
    return Coreset(
        basis=basis,
        points=part.points,
        weights=part.weights,
        numbers=part.numbers,
        of_landmarks=False,
        of_rows=part.rows,
        dropped_rows=part.dropped,
        functions=functions,
        learned_from=plan.learned_from,
        wanted=plan.wanted,
        mismatch=off,
        distance=distance,
        notes=(
            *said_of_size(basis, plan.wanted, len(functions)),
            *said_of_means(functions, off),
            *said_of_distance(distance),
        ),
        kept=part.kept,
    )


class _Worker:
    """Turns one fragment into its part; readers are kept per thread."""

    def __init__(self, source: Source, plan: Prepared, nulls: str) -> None:
        from nysketch.tiles.values import RowValues  # compiles or loads machine code: not for --help

        self._source, self._nulls = source, nulls
        self._basis, self._functions = plan.basis, plan.carried
        self._values = RowValues(plan.basis)
        self._block_rows = _block_rows(len(plan.carried) + 1, plan.basis.row_width)
        self._capacity = default_sample_rows(plan.basis.row_width, text=plan.basis.text)
        # Keys beyond it are not in the sample of all rows. It only ever falls, so a stale one does no harm.
        self.sample_bound = self._no_sample().bound
        self._local = threading.local()
        self._lock = threading.Lock()
        self.rows_read = 0
        ChunkReader(source, nulls=nulls)  # complain before threads start

    def _no_block(self) -> _Block:
        none = np.empty(0, object) if self._basis.text else np.empty((0, self._basis.d))
        return _Block(self._block_rows, none)

    def _no_sample(self) -> RowSample:
        weighted = self._source.weights is not None
        return RowSample.empty(self._capacity, self._basis.d, text=self._basis.text, weighted=weighted)

    def __call__(self, fragment: Fragment, check: Callable[[], None]) -> Iterator[Part]:
        """Yield the part of a fragment."""
        if not hasattr(self._local, "reader"):
            reader = ChunkReader(self._source, nulls=self._nulls)
            self._local.reader = reader
            self._local.buffers = [np.empty(reader.chunk_rows, np.int64) for _ in range(2)]
        sample = GatheredSample(self._no_sample())
        parts: list[Part] = []
        block = self._no_block()
        read = dropped = 0
        for chunk in self._local.reader.chunks(fragment):
            check()
            sample.add(self._sample(fragment, chunk, sample.bound))
            block.add(chunk)
            dropped += chunk.dropped
            read += len(chunk.rows)
            with self._lock:
                self.rows_read += len(chunk.rows)
            if block.full:
                parts.append(self._recombined(block))
                parts = [merged(parts)]
        if read != fragment.rows:
            raise InputError(
                f"{fragment.where}: has {read:,} rows, not the {fragment.rows:,} it declares. "
                "Was the file changed while it was read?"
            )
        if len(block) or not parts:
            parts.append(self._recombined(block))
        part = merged(parts)
        kept = self._kept(fragment, part.numbers)
        yield replace(part, dropped=dropped, sample=sample.united(), kept=kept)

    def _sample(self, fragment: Fragment, chunk: Any, bound: int) -> RowSample:
        from nysketch.tiles.sampling import sample_rows

        return sample_rows(
            self._basis,
            chunk.row_in_input,
            chunk.rows,
            chunk.keep,
            chunk.weights,
            *self._local.buffers,
            key=fragment.input_key,
            bound=min(bound, self.sample_bound),
            capacity=self._capacity,
        )

    def _recombined(self, block: _Block) -> Part:
        """Return what is left of the rows of a block."""
        rows, weights, numbers = block.taken()
        norms = self._norms(rows, weights)
        most = _groups_for(len(self._functions) + 1)
        kernel_sums: Floats | None = None
        left, some_rows = np.arange(len(rows)), rows
        while len(left) > most:
            group_of = np.arange(len(left)) // -(-len(left) // most)
            sums = self._values.group_sums(some_rows, weights, group_of)
            kernel_sums = sums.sum(axis=0) if kernel_sums is None else kernel_sums
            totals = np.bincount(group_of, weights).astype(np.float64)
            some = np.flatnonzero(totals > 0)
            functions = self._functions.of(sums)[some] / totals[some, None]
            del sums  # the largest that a thread holds
            chosen, changed = recombine(functions, totals[some])
            factors = np.zeros(len(totals))
            factors[some[chosen]] = changed / totals[some[chosen]]
            weights = weights * factors[group_of]
            left, weights = left[weights > 0], weights[weights > 0]
            some_rows = rows[left]
        values = self._values.of(some_rows)
        kernel_sums = weights @ values if kernel_sums is None else kernel_sums
        positive = np.flatnonzero(weights > 0)
        part = Part(
            numbers[left],
            some_rows,
            weights,
            self._functions.of(values),
            kernel_sums,
            norms,
            len(rows),
            0,
            self._no_sample(),
        )
        return merged([part.only(positive, weights[positive])])

    def _norms(self, rows: Rows, weights: Floats) -> float:
        """Return the sum of k(x, x) times the weights."""
        total = 0.0
        for start in range(0, len(rows), _STEP):
            part = slice(start, start + _STEP)
            total += float(weights[part] @ self._basis.kernel.diagonal(self._basis.transform(rows[part])))
        return total

    def _kept(self, fragment: Fragment, numbers: NDArray[np.int64]) -> pa.Table | None:
        """Return the columns that pass through, of the rows with these numbers."""
        schema = self._source.kept
        if not len(schema):
            return None
        order = np.argsort(numbers, kind="stable")
        wanted, first = numbers[order] - fragment.first_row, 0
        taken = [schema.empty_table()]
        for batch in self._source.read_kept(fragment, TEXT_ROWS) if len(wanted) else ():
            here = wanted[(wanted >= first) & (wanted < first + len(batch))] - first
            if len(here):
                taken.append(pa.Table.from_batches([batch.take(pa.array(here))]))
            first += len(batch)
        table = pa.concat_tables(taken)
        if len(table) != len(numbers):
            raise InputError(f"{fragment.where}: columns to keep have fewer rows than others")
        return table.take(np.argsort(order, kind="stable"))


class _Block:
    """Valid rows that wait to be recombined together."""

    def __init__(self, most: int, none: Rows) -> None:
        self._most, self._count, self._none = most, 0, none
        self._parts: list[tuple[Rows, Floats, NDArray[np.int64]]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= self._most

    def add(self, chunk: Any) -> None:
        """Add the valid rows of a chunk, whose buffer will be used again."""
        keep = np.flatnonzero(chunk.keep)
        weights = np.ones(len(keep)) if chunk.weights is None else chunk.weights[keep]
        self._parts.append((np.ascontiguousarray(chunk.rows[keep]), weights, chunk.first_row + keep))
        self._count += len(keep)

    def taken(self) -> tuple[Rows, Floats, NDArray[np.int64]]:
        """Return all rows, their weights and numbers, and hold them no longer."""
        rows = np.empty((self._count, *self._none.shape[1:]), self._none.dtype)
        weights, numbers = np.empty(self._count), np.empty(self._count, np.int64)
        start = 0
        for some, some_weights, some_numbers in self._parts:
            part = slice(start, start + len(some))
            rows[part], weights[part], numbers[part] = some, some_weights, some_numbers
            start = part.stop
        self._parts, self._count = [], 0
        return rows, weights, numbers
