"""One pass: source → sketch. Threads over fragments, progress, checkpoint.

How rows become chunks is reading.py's business, how chunks become sums is that of tiles/, who runs the
fragments is an engine's. What a pass is asked to keep is in passoptions.py. A pass that ends in a file, with
a lock, resume and all, is jobs.py's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nysketch.accumulators import ColumnRanges, Tally, grid_exponent, grid_exponent_of_runs
from nysketch.basis import Basis
from nysketch.cells import FarRows
from nysketch.checkpoint import Checkpoint
from nysketch.engines import local
from nysketch.errors import InputError, OutputError, UsageError
from nysketch.fileformat import load_basis
from nysketch.fitting import AUTO, BasisOptions
from nysketch.groups import DEFAULT_SHUFFLES, grouped
from nysketch.passoptions import PassOptions, settings_of
from nysketch.pilot import fit_basis
from nysketch.provenance import Provenance
from nysketch.reading import ChunkReader, no_rows_left, require_declared_rows
from nysketch.runs import DEFAULT_RUNS, level_of_rows
from nysketch.samples import GatheredSample, RowSample
from nysketch.sketches import Sketch
from nysketch.sources import Fragment, Source, open_source

if TYPE_CHECKING:
    from nysketch.tiles import FragmentCells, FragmentRuns, FragmentSums, LongRuns, RowSummer, ShortRuns

log = logging.getLogger("nysketch")

Progress = Callable[[int, int | None], None]


def sketch(
    data: Any,
    *,
    basis: Basis | Sketch | str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weights: str | None = None,
    nulls: str = "error",
    blocks: int = 64,
    seed: int = 0,
    precision: str = "float32",
    sample_rows: int | None = None,
    cells: bool = True,
    far_rows: int | None = None,
    runs: int = DEFAULT_RUNS,
    shuffles: int = DEFAULT_SHUFFLES,
    shuffle_rows: int | None = None,
    pairs: bool = False,
    second_moments: bool = False,
    threads: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    **basis_options: Any,
) -> Sketch:
    """Sketch rows: paths, `-`, an array, a table, a stream or an iterator of batches.

    `basis` is a Basis, a Sketch whose basis is taken, or the path of a file with either; without it
    one is made from a pilot sample, for which the source must be readable twice. How it is made is said by
    the options of `nysketch.fitting.BasisOptions`: m, kernel, bandwidth, sampling and so on.
    """
    known = as_basis(basis)
    wanted = BasisOptions.of(basis_options)
    source = open_rows(
        data,
        known,
        wanted,
        columns=columns,
        exclude=exclude,
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
    )
    options = PassOptions(
        blocks=blocks,
        seed=seed,
        precision=precision,
        nulls=nulls,
        weights=weights,
        sample_rows=sample_rows,
        cells=cells,
        far_rows=far_rows,
        runs=runs,
        shuffles=shuffles,
        shuffle_rows=shuffle_rows,
        pairs=pairs,
        second_moments=second_moments,
    )
    made_here = None
    if known is None:
        made_here = wanted
        known = make_basis(source, wanted, seed=seed, nulls=nulls, threads=threads)
    return run_pass(
        source, known, options, wanted=made_here, threads=threads, batch_rows=batch_rows, progress=progress
    )


def as_basis(basis: Basis | Sketch | str | os.PathLike[str] | None) -> Basis | None:
    """Return the basis that a user meant."""
    if basis is None or isinstance(basis, Basis):
        return basis
    return basis.basis if isinstance(basis, Sketch) else load_basis(basis)


def open_rows(
    data: Any, known: Basis | None, wanted: BasisOptions, *, columns: Sequence[str] | None, **reading: Any
) -> Source:
    """Open data for a basis that is known, or one that is wanted; `reading` is for `open_source`."""
    if known is None:
        return open_source(data, columns=wanted.columns_to_read(columns), text=wanted.text, **reading)
    if wanted != BasisOptions():
        raise UsageError("the basis has its landmarks, scaling and kernel: they cannot be chosen again")
    return open_source(data, columns=columns, like=known.columns, **reading)


def make_basis(
    source: Source,
    wanted: BasisOptions,
    *,
    seed: int,
    nulls: str,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    choosing: Callable[[int, int], None] | None = None,
) -> Basis:
    """Make a basis from a pilot of the source."""
    basis = fit_basis(
        source, wanted, seed=seed, nulls=nulls, threads=threads, progress=progress, choosing=choosing
    )
    if wanted.m != AUTO and basis.m < wanted.most:
        log.warning(
            "only %d different rows to choose from: %d landmarks, not %d", basis.m, basis.m, wanted.most
        )
    return basis


def run_pass(
    source: Source,
    basis: Basis,
    options: PassOptions,
    *,
    wanted: BasisOptions | None = None,
    threads: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Sketch:
    """Read all fragments of the source and return their sketch; save progress if there is a checkpoint.

    `wanted` is how the basis was made, if it was made for this pass; the sketch remembers it. Whatever ends
    the pass early (an unreadable fragment, Ctrl-C) leaves the finished fragments in the checkpoint.
    """
    from nysketch.tiles import (
        RowSummer,
        RunningCells,
        RunningGroups,
        RunningMoments,
        RunningRuns,
        RunningSums,
    )  # compiles or loads machine code: not for --help

    threads = local.available_threads() if threads is None else threads
    if threads < 1:
        raise UsageError(f"the number of threads must be at least 1, not {threads}")
    weighted = source.weights is not None
    total, done = options.nothing(basis), set[int]()
    if checkpoint is not None:
        total, done = checkpoint.resume(total)
    summer = RowSummer(
        basis,
        blocks=options.blocks,
        seed=options.seed,
        precision=options.precision,
        cells=total.cells is not None,
        parts=() if total.groups is None else total.groups.parts,
        moments=total.moments is not None,
    )
    grid = grid_exponent(options.precision, weighted=weighted)
    running = RunningSums(total.blocks, grid, basis.magnitudes())
    unbounded = not np.isfinite(basis.range).all()
    ranges, sample, dropped = total.ranges, total.sample, total.dropped
    cells = None if total.cells is None else RunningCells(total.cells, basis)
    run_grid = grid_exponent_of_runs(options.precision, weighted=weighted)
    runs = None if total.runs is None else RunningRuns(total.runs, run_grid, basis.magnitudes())
    parted = grouped(basis)
    groups = None
    if total.groups is not None and parted is not None:
        groups = RunningGroups(total.groups, parted, grid)
    moments = None if total.moments is None else RunningMoments(total.moments, basis, weighted=weighted)
    worker = _Worker(source, summer, options, batch_rows, total)
    finished_before = frozenset(done)
    rows_done = sum(f.rows for f in source.fragments() if f.number in finished_before) if done else 0
    todo = (f for f in source.fragments() if f.number not in finished_before)
    consistent = True  # the sums are those of the fragments in `done`, no more and no less

    def so_far(provenance: Provenance) -> Sketch:
        celled = None if cells is None else cells.snapshot()
        in_runs = None if runs is None else runs.snapshot()
        in_groups = None if groups is None else groups.snapshot()
        squared = None if moments is None else moments.snapshot()
        tally = Tally(running.snapshot(), ranges, sample, dropped, celled, in_runs, in_groups, squared)
        return Sketch(basis, tally, settings_of(options, wanted), provenance)

    shown = 0

    def report() -> None:
        nonlocal shown
        if progress is not None:
            # A fragment leaves the worker a moment before it is counted as done.
            shown = max(shown, rows_done + worker.rows_read())
            progress(shown, source.rows)

    report()
    try:
        # Closing stops the workers: without it, they would finish what they have before an error shows.
        with closing(local.run(worker, todo, threads=threads, meanwhile=report)) as finished:
            for fragment, part in finished:
                if unbounded and not (
                    running.holds(part.sums)
                    and (runs is None or part.runs is None or runs.holds(part.runs))
                    and (groups is None or part.groups is None or groups.holds(part.groups))
                    and (moments is None or part.moments is None or moments.holds(part.moments))
                ):
                    raise _too_large(fragment, basis)
                consistent = False  # a signal may arrive between any two of these lines
                running.add(part.sums, part.rows, part.weights)
                ranges, dropped = ranges + part.ranges, dropped + part.dropped
                sample = sample + part.sample
                if cells is not None and part.cells is not None:
                    cells.add(part.cells)
                    worker.far_bound = cells.far.bound
                if runs is not None and part.runs is not None:
                    runs.add(part.runs)
                if groups is not None and part.groups is not None:
                    groups.add(part.groups)
                if moments is not None and part.moments is not None:
                    moments.add(part.moments)
                done.add(fragment.number)
                consistent = True
                worker.sample_bound = sample.bound
                rows_done += fragment.rows
                report()
                if checkpoint is not None and checkpoint.due():
                    checkpoint.save(so_far(Provenance()), done)
    except BaseException:
        if checkpoint is not None and done and consistent:
            with suppress(OutputError):  # a full disk: the error on its way matters more
                checkpoint.save(so_far(Provenance()), done)
        raise
    result = so_far(Provenance.of(source.inputs()))
    if not result.rows:
        raise no_rows_left(result.dropped_rows)
    return result


def _too_large(fragment: Fragment, basis: Basis) -> InputError:
    return InputError(
        f"{fragment.where}: holds values too large for the kernel ({basis.kernel}): their sums cannot be "
        "kept. Leave the column out with --exclude, or use a kernel with a bound, such as gaussian"
    )


@dataclass(frozen=True)
class _Part:
    """What one fragment adds."""

    sums: NDArray[np.float64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    ranges: ColumnRanges
    sample: RowSample
    dropped: int
    cells: FragmentCells | None
    runs: FragmentRuns | None
    groups: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None


class _Worker:
    """Turns one fragment into its part of the sums; buffers are kept per thread."""

    def __init__(
        self,
        source: Source,
        summer: RowSummer,
        options: PassOptions,
        batch_rows: int | None,
        start: Tally,
    ) -> None:
        self._source, self._summer, self._options = source, summer, options
        self._batch_rows = batch_rows
        self._capacity = start.sample.capacity
        # Keys beyond it are not in the sample of all rows. It only ever falls, so a stale one does no harm.
        self.sample_bound = start.sample.bound
        far = None if start.cells is None else start.cells.far.kept
        self._far_capacity, self.far_bound = (0, 0) if far is None else (far.capacity, far.bound)
        self._runs = 0 if start.runs is None else start.runs.capacity
        self._rows_of_input = _rows_of_inputs(source) if self._runs else {}
        self._local = threading.local()
        self._reading: dict[int, int] = {}  # rows read so far of the fragments under way
        ChunkReader(source, nulls=options.nulls, batch_rows=batch_rows)  # complain before threads start

    def rows_read(self) -> int:
        """Return how many rows of unfinished fragments have been read: a row group may take minutes."""
        return sum(list(self._reading.values()))

    def __call__(self, fragment: Fragment, check: Callable[[], None]) -> _Part:
        try:
            return self._sum(fragment, check)
        finally:
            self._reading.pop(fragment.number, None)

    def _sum(self, fragment: Fragment, check: Callable[[], None]) -> _Part:
        if not hasattr(self._local, "reader"):
            self._local.reader = ChunkReader(
                self._source, nulls=self._options.nulls, batch_rows=self._batch_rows
            )
            self._local.workspace = self._summer.workspace(self._local.reader.chunk_rows)
        reader, workspace = self._local.reader, self._local.workspace
        basis = self._summer.basis
        sums = self._summer.zeros()
        ranges = ColumnRanges.empty(basis.d)
        weighted = self._source.weights is not None
        sample = GatheredSample(RowSample.empty(self._capacity, basis.d, text=basis.text, weighted=weighted))
        far = GatheredSample(FarRows.empty(self._far_capacity, basis.d, weighted=weighted).kept)
        cells = self._summer.no_cells()
        runs = self._no_runs(fragment, sums, reader.chunk_rows)
        groups = self._summer.no_groups()
        moments = self._summer.no_moments(workspace)
        dropped = read = 0
        for chunk in reader.chunks(fragment, None if runs is None else runs.cut):
            check()
            self._summer.add(
                chunk.row_in_input,
                chunk.rows,
                chunk.keep,
                chunk.weights,
                sums,
                workspace,
                key=fragment.input_key,
                runs=runs,
            )
            if self._capacity:
                part = self._summer.sample(
                    chunk.row_in_input,
                    chunk.rows,
                    chunk.keep,
                    chunk.weights,
                    workspace,
                    key=fragment.input_key,
                    bound=min(self.sample_bound, sample.bound),
                    capacity=self._capacity,
                )
                sample.add(part)
            if groups is not None:
                self._summer.add_groups(chunk.rows, chunk.weights, groups, workspace)
            if moments is not None:
                self._summer.add_moments(chunk.rows, chunk.keep, chunk.weights, moments)
            if cells is not None:
                self._summer.add_cells(chunk.rows, chunk.weights, cells, workspace)
            if self._far_capacity:
                bound = min(self.far_bound, far.bound)
                part = self._summer.far(
                    chunk.rows, chunk.weights, workspace, bound=bound, capacity=self._far_capacity
                )
                far.add(part)
            ranges = ranges + ColumnRanges(chunk.lower, chunk.upper)
            dropped += chunk.dropped
            read += len(chunk.rows)
            self._reading[fragment.number] = read
        require_declared_rows(fragment, read)
        if cells is not None:
            cells.far = far.united()
        # Before the sums are taken: those of the last run go there.
        in_runs = None if runs is None else self._summer.runs(runs, key=fragment.input_key)
        in_groups = None if groups is None else self._summer.group_sums(groups)
        return _Part(
            self._summer.sums(sums),
            sums.rows,
            sums.weights,
            ranges,
            sample.united(),
            dropped,
            cells,
            in_runs,
            in_groups,
            None if moments is None else self._summer.packed_moments(moments),
        )

    def _no_runs(
        self, fragment: Fragment, sums: FragmentSums, chunk_rows: int
    ) -> LongRuns | ShortRuns | None:
        """Return runs to cut a fragment into, if they are wanted.

        How long they are depends on the input alone, whose rows may be in many fragments: the sums that are
        rounded to the grid must be the same whatever the input is read together with.
        """
        if not self._runs:
            return None
        so_far = fragment.row_in_input + fragment.rows  # all that is known of a stream
        level = level_of_rows(self._rows_of_input.get(fragment.input_key, so_far), self._runs)
        first, rows = fragment.row_in_input, fragment.rows
        return self._summer.no_runs(level, sums, first_row=first, rows=rows, chunk_rows=chunk_rows)


def _rows_of_inputs(source: Source) -> dict[int, int]:
    """Return how many rows each input has, by key; nothing for a stream."""
    rows: dict[int, int] = {}
    for fragment in () if source.rows is None else source.fragments():
        # The same file may be given twice.
        end = fragment.row_in_input + fragment.rows
        rows[fragment.input_key] = max(rows.get(fragment.input_key, 0), end)
    return rows
