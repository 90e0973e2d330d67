"""Fragments → tallies: what a pass does with the rows of one fragment, and how the results add up.

How rows become chunks is chunks.py's business, how chunks become sums is that of tiles/. Who runs it on
which fragments is an engine's: sums are exact, so that parts may be added up in any order, here or elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nysketch.accumulators.cells import FarRows
from nysketch.accumulators.grids import grid_exponent, grid_exponent_of_spans
from nysketch.accumulators.groups import grouped
from nysketch.accumulators.ranges import ColumnRanges
from nysketch.accumulators.sample import GatheredSample, RowSample
from nysketch.accumulators.spans import level_of_rows
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.engines.protocol import Check, PicklableTask
from nysketch.errors import InputError
from nysketch.passes.chunks import ChunkReader, require_declared_rows
from nysketch.passes.options import PassOptions
from nysketch.sources.protocol import Fragment, Source

if TYPE_CHECKING:
    from nysketch.tiles.spans import FragmentSpans, LongSpans, ShortSpans
    from nysketch.tiles.summer import RowSummer
    from nysketch.tiles.sums import FragmentCells, FragmentSums


@dataclass(frozen=True)
class Part:
    """What one fragment adds; `where` is how messages call it."""

    where: str
    sums: NDArray[np.float64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    ranges: ColumnRanges
    sample: RowSample
    dropped: int
    cells: FragmentCells | None
    spans: FragmentSpans | None
    groups: NDArray[np.float64] | None
    moments: NDArray[np.float64] | None


class FragmentTallier(PicklableTask):
    """Turns one fragment into its part of a tally; buffers are kept per thread."""

    _process_local = ("_local", "_lock", "_summer", "rows_read")

    def __init__(
        self, source: Source, basis: Basis, options: PassOptions, batch_rows: int | None = None
    ) -> None:
        self.source, self._basis, self._options = source, basis, options
        self._batch_rows = batch_rows
        nothing = options.nothing(basis)
        self._capacity = nothing.sample.capacity
        far = None if nothing.cells is None else nothing.cells.far.kept
        self._far_capacity = 0 if far is None else far.capacity
        # Keys beyond these are not in the samples of all rows. They only ever fall, so that stale ones do no
        # harm.
        self._sample_bound, self._far_bound = nothing.sample.bound, 0 if far is None else far.bound
        self._spans = 0 if nothing.spans is None else nothing.spans.capacity
        self._rows_of_input = _rows_of_inputs(source) if self._spans else {}
        self._init_process_state()
        ChunkReader(source, nulls=options.nulls, batch_rows=batch_rows)  # complain before threads start

    def _init_process_state(self) -> None:
        """Make what belongs to this process."""
        self._local, self._lock = threading.local(), threading.Lock()
        self._summer: RowSummer | None = None
        self.rows_read = 0  # by this process, also of fragments that are under way: one may take minutes

    def running(self, start: Tally | None = None, done: Iterable[int] = ()) -> RunningTally:
        """Return a tally of no rows to add to; or one to go on with, which has the fragments `done`."""
        start = self._options.nothing(self._basis) if start is None else start
        weighted = self.source.weights is not None
        tally = RunningTally(start, self._basis, precision=self._options.precision, weighted=weighted)
        tally.done.update(done)
        tally.on_bounds = self._lower_bounds
        self._lower_bounds(*tally.bounds)
        return tally

    def _lower_bounds(self, sample: int, far: int) -> None:
        with self._lock:
            self._sample_bound, self._far_bound = min(self._sample_bound, sample), min(self._far_bound, far)

    def summer(self) -> RowSummer:
        """Return what all threads share, made when first asked for: it compiles or loads machine code."""
        from nysketch.tiles.summer import RowSummer

        with self._lock:
            if self._summer is None:
                options, nothing = self._options, self._options.nothing(self._basis)
                self._summer = RowSummer(
                    self._basis,
                    blocks=options.blocks,
                    seed=options.seed,
                    precision=options.precision,
                    cells=nothing.cells is not None,
                    parts=() if nothing.groups is None else nothing.groups.parts,
                    moments=nothing.moments is not None,
                )
            return self._summer

    def __call__(self, fragment: Fragment, check: Check) -> Part:
        """Return what a fragment adds."""
        summer = self.summer()
        if not hasattr(self._local, "reader"):
            self._local.reader = ChunkReader(
                self.source, nulls=self._options.nulls, batch_rows=self._batch_rows
            )
            self._local.workspace = summer.workspace(self._local.reader.chunk_rows)
        reader, workspace = self._local.reader, self._local.workspace
        basis = self._basis
        sums = summer.zeros()
        ranges = ColumnRanges.empty(basis.d)
        weighted = self.source.weights is not None
        sample = GatheredSample(RowSample.empty(self._capacity, basis.d, text=basis.text, weighted=weighted))
        far = GatheredSample(FarRows.empty(self._far_capacity, basis.d, weighted=weighted).kept)
        cells = summer.no_cells()
        spans = self._no_spans(summer, fragment, sums, reader.chunk_rows)
        groups = summer.no_groups()
        moments = summer.no_moments(workspace)
        dropped = read = 0
        for chunk in reader.chunks(fragment, None if spans is None else spans.cut):
            check()
            summer.add(
                chunk.row_in_input,
                chunk.rows,
                chunk.keep,
                chunk.weights,
                sums,
                workspace,
                key=fragment.input_key,
                spans=spans,
            )
            if self._capacity:
                part = summer.sample(
                    chunk.row_in_input,
                    chunk.rows,
                    chunk.keep,
                    chunk.weights,
                    workspace,
                    key=fragment.input_key,
                    bound=min(self._sample_bound, sample.bound),
                    capacity=self._capacity,
                )
                sample.add(part)
            if groups is not None:
                summer.add_groups(chunk.rows, chunk.weights, groups, workspace)
            if moments is not None:
                summer.add_moments(chunk.rows, chunk.keep, chunk.weights, moments)
            if cells is not None:
                summer.add_cells(chunk.rows, chunk.weights, cells, workspace)
            if self._far_capacity:
                bound = min(self._far_bound, far.bound)
                part = summer.far(
                    chunk.rows, chunk.weights, workspace, bound=bound, capacity=self._far_capacity
                )
                far.add(part)
            ranges = ranges + ColumnRanges(chunk.lower, chunk.upper)
            dropped += chunk.dropped
            read += len(chunk.rows)
            with self._lock:
                self.rows_read += len(chunk.rows)
        require_declared_rows(fragment, read)
        if cells is not None:
            cells.far = far.united()
        # Before the sums are taken: those of the last run go there.
        in_spans = None if spans is None else summer.spans(spans, key=fragment.input_key)
        in_groups = None if groups is None else summer.group_sums(groups)
        return Part(
            fragment.where,
            summer.sums(sums),
            sums.rows,
            sums.weights,
            ranges,
            sample.united(),
            dropped,
            cells,
            in_spans,
            in_groups,
            None if moments is None else summer.packed_moments(moments),
        )

    def _no_spans(
        self, summer: RowSummer, fragment: Fragment, sums: FragmentSums, chunk_rows: int
    ) -> LongSpans | ShortSpans | None:
        """Return spans to cut a fragment into, if they are wanted.

        How long they are depends on the input alone, whose rows may be in many fragments: the sums that are
        rounded to the grid must be the same whatever the input is read together with.
        """
        if not self._spans:
            return None
        so_far = fragment.row_in_input + fragment.rows  # all that is known of a stream
        level = level_of_rows(self._rows_of_input.get(fragment.input_key, so_far), self._spans)
        first, rows = fragment.row_in_input, fragment.rows
        return summer.no_spans(level, sums, first_row=first, rows=rows, chunk_rows=chunk_rows)


class RunningTally:
    """The tally of all fragments so far; `add` is exact, so their order does not matter.

    `done` are the numbers of these fragments, as far as they were given. `on_bounds` is told of bounds that
    have fallen: no larger keys need to be sampled any more.
    """

    def __init__(self, start: Tally, basis: Basis, *, precision: str, weighted: bool) -> None:
        self._basis, self._precision, self._weighted = basis, precision, weighted
        self._unbounded = not np.isfinite(basis.range).all()
        self.on_bounds: Callable[[int, int], None] = lambda *_: None
        self.done: set[int] = set()
        self.consistent = True  # the sums are those of the fragments in `done`, no more and no less
        self._start(start)

    def _start(self, start: Tally) -> None:
        from nysketch.tiles.groups import RunningGroups  # compiles or loads machine code: not for --help
        from nysketch.tiles.second_moments import (  # compiles or loads machine code: not for --help
            RunningMoments,
        )
        from nysketch.tiles.spans import RunningSpans  # compiles or loads machine code: not for --help
        from nysketch.tiles.sums import (  # compiles or loads machine code: not for --help
            RunningCells,
            RunningSums,
        )

        basis, weighted = self._basis, self._weighted
        grid = grid_exponent(self._precision, weighted=weighted)
        span_grid = grid_exponent_of_spans(self._precision, weighted=weighted)
        parted = grouped(basis)
        self._sums = RunningSums(start.blocks, grid, basis.magnitudes())
        self._ranges, self._sample, self._dropped = start.ranges, start.sample, start.dropped
        self._cells = None if start.cells is None else RunningCells(start.cells, basis)
        self._spans = (
            None if start.spans is None else RunningSpans(start.spans, span_grid, basis.magnitudes())
        )
        self._groups = None
        if start.groups is not None and parted is not None:
            self._groups = RunningGroups(start.groups, parted, grid)
        self._moments = None
        if start.moments is not None:
            self._moments = RunningMoments(start.moments, basis, weighted=weighted)

    @property
    def bounds(self) -> tuple[int, int]:
        """The largest keys that are still in the sample, and among the far rows."""
        return self._sample.bound, 0 if self._cells is None else self._cells.far.bound

    def add(self, part: Part | Tally, fragments: Iterable[Fragment] = ()) -> None:
        """Add what one fragment adds, or the tally of several."""
        if isinstance(part, Part):
            self._require_room(part)
        self.consistent = False  # a signal may arrive between any two of these lines
        if isinstance(part, Part):
            self._add_part(part)
        else:
            self._start(self.total() + part)
        self.done.update(fragment.number for fragment in fragments)
        self.consistent = True
        self.on_bounds(*self.bounds)

    def _require_room(self, part: Part) -> None:
        """Refuse sums that cannot be added exactly."""
        if self._unbounded and not (
            self._sums.holds(part.sums)
            and (self._spans is None or part.spans is None or self._spans.holds(part.spans))
            and (self._groups is None or part.groups is None or self._groups.holds(part.groups))
            and (self._moments is None or part.moments is None or self._moments.holds(part.moments))
        ):
            raise InputError(
                f"{part.where}: holds values too large for the kernel ({self._basis.kernel}): their sums "
                "cannot be kept. Leave the column out with --exclude, or use a kernel with a bound, such as "
                "gaussian"
            )

    def _add_part(self, part: Part) -> None:
        self._sums.add(part.sums, part.rows, part.weights)
        self._ranges, self._dropped = self._ranges + part.ranges, self._dropped + part.dropped
        self._sample = self._sample + part.sample
        if self._cells is not None and part.cells is not None:
            self._cells.add(part.cells)
        if self._spans is not None and part.spans is not None:
            self._spans.add(part.spans)
        if self._groups is not None and part.groups is not None:
            self._groups.add(part.groups)
        if self._moments is not None and part.moments is not None:
            self._moments.add(part.moments)

    def total(self) -> Tally:
        """Return the tally as it is now."""
        return Tally(
            self._sums.snapshot(),
            self._ranges,
            self._sample,
            self._dropped,
            None if self._cells is None else self._cells.snapshot(),
            None if self._spans is None else self._spans.snapshot(),
            None if self._groups is None else self._groups.snapshot(),
            None if self._moments is None else self._moments.snapshot(),
        )


def _rows_of_inputs(source: Source) -> dict[int, int]:
    """Return how many rows each input has, by key; nothing for a stream."""
    rows: dict[int, int] = {}
    for fragment in () if source.rows is None else source.fragments():
        # The same file may be given twice.
        end = fragment.row_in_input + fragment.rows
        rows[fragment.input_key] = max(rows.get(fragment.input_key, 0), end)
    return rows
