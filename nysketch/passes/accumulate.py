"""Fragments → tallies: what a pass does with the rows of one fragment, and how the results add up.

What is collected of a chunk is each statistic's own business (accumulators/protocol.py), its kernel values
that of tiles/. Sums are exact: parts may be added up in any order, here or on the workers of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Collector, Running, Statistic
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.engines.protocol import Check
from nysketch.errors import InputError
from nysketch.passes.task import FragmentTask, per_process, per_thread
from nysketch.sources.protocol import Fragment, Source
from nysketch.sources.queries import QuerySource

if TYPE_CHECKING:
    from nysketch.tiles.summer import RowSummer, Workspace

Kind = type[Statistic]


@dataclass(frozen=True)
class FragmentPart:
    """What one fragment adds to each statistic; `where` is how messages call the fragment."""

    where: str
    parts: dict[Kind, Any]


@dataclass(frozen=True)
class _Shared:
    """What the threads of a process share: it compiles or loads machine code."""

    summer: RowSummer
    collectors: dict[Kind, Callable[[int], Collector]]


class FragmentAccumulator(FragmentTask[FragmentPart]):
    """Turns one fragment into its part of a tally."""

    def __init__(
        self, source: Source, basis: Basis, options: PassOptions, batch_rows: int | None = None
    ) -> None:
        super().__init__(source, nulls=options.nulls, batch_rows=batch_rows, fill=basis.fill)
        self._basis, self._options = basis, options
        # Rows with larger keys are not in the samples of all rows. Limits only ever fall, so that stale ones
        # do no harm.
        self._limits: dict[Kind, int] = {}
        self._rows_of_input = _rows_of_inputs(source)

    def running(self, start: Tally | None = None, done: Iterable[int] = ()) -> RunningTally:
        """Return a tally of no rows to add to; or one to go on with, which has the fragments `done`."""
        start = Tally.zeros(self._basis, self._options) if start is None else start
        return RunningTally(start, self._basis, self._options, done=done, on_limits=self._lower_limits)

    def _lower_limits(self, limits: dict[Kind, int]) -> None:
        with self._lock:
            for kind, limit in limits.items():
                self._limits[kind] = min(limit, self._limits.get(kind, limit))

    @per_process
    def _tools(self) -> _Shared:
        from nysketch.tiles.summer import RowSummer

        options, nothing = self._options, Tally.zeros(self._basis, self._options)
        summer = RowSummer(
            self._basis,
            blocks=options.blocks,
            seed=options.seed,
            precision=options.precision,
            nearest=any(statistic.needs_nearest for statistic in nothing),
        )
        return _Shared(summer, {type(s): s.collectors(self._basis, options) for s in nothing})

    @per_thread
    def _workspace(self) -> Workspace:
        return self._tools.summer.workspace(self.reader.chunk_rows)

    @per_thread
    def _collectors(self) -> dict[Kind, Collector]:
        return {kind: make(self.reader.chunk_rows) for kind, make in self._tools.collectors.items()}

    def __call__(self, fragment: Fragment, check: Check) -> FragmentPart:
        """Return what a fragment adds."""
        from nysketch.tiles.summer import Evaluation, FragmentRows

        first, key = fragment.row_in_input, fragment.input_key
        so_far = first + fragment.rows  # all that is known of a stream
        where = FragmentRows(key, first, fragment.rows, self._rows_of_input.get(key, so_far))
        evaluation, collectors = Evaluation(self._tools.summer, self._workspace, where), self._collectors
        for kind, collector in collectors.items():
            collector.begin(evaluation, self._limits.get(kind))
        for chunk in self.chunks(fragment, check, evaluation.span_rows):
            evaluated = evaluation.add(chunk)
            for collector in collectors.values():
                collector.add(evaluated)
        evaluation.finish()
        return FragmentPart(fragment.where, {kind: c.finish() for kind, c in collectors.items()})


class RunningTally:
    """The tally of all fragments so far; `add` is exact, so that their order has no effect.

    `done` are the numbers of these fragments, as far as they were given. `on_limits` is called with limits
    that have fallen: rows with larger keys need not be sampled any more.
    """

    def __init__(
        self,
        start: Tally,
        basis: Basis,
        options: PassOptions,
        *,
        done: Iterable[int] = (),
        on_limits: Callable[[dict[Kind, int]], None],
    ) -> None:
        self._basis, self._options, self._on_limits = basis, options, on_limits
        self._unbounded = not np.isfinite(basis.range).all()
        self.done = set(done)
        self.consistent = True  # the sums are those of the fragments in `done`, no more and no less
        self._start(start)
        self._report_limits()

    def _start(self, start: Tally) -> None:
        self._running: dict[Kind, Running] = {
            type(statistic): statistic.running(self._basis, self._options) for statistic in start
        }

    def _report_limits(self) -> None:
        limits = {kind: running.limit for kind, running in self._running.items()}
        self._on_limits({kind: limit for kind, limit in limits.items() if limit is not None})

    def add(self, part: FragmentPart | Tally, fragments: Iterable[Fragment] = ()) -> None:
        """Add what one fragment adds, or the tally of several."""
        if isinstance(part, FragmentPart):
            self._require_room(part)
        self.consistent = False  # a signal may arrive between any two of these lines
        if isinstance(part, FragmentPart):
            for kind, running in self._running.items():
                running.add(part.parts[kind])
        else:
            self._start(self.total() + part)
        self.done.update(fragment.number for fragment in fragments)
        self.consistent = True
        self._report_limits()

    def _require_room(self, part: FragmentPart) -> None:
        """Refuse sums that cannot be added exactly."""
        if self._unbounded and not all(r.holds(part.parts[kind]) for kind, r in self._running.items()):
            raise InputError(
                f"{part.where}: has values too large for the kernel ({self._basis.kernel}): their sums "
                "overflow. Leave the column out with `exclude`, or use a bounded kernel such as "
                '`kernel="gaussian"`'
            )

    def total(self) -> Tally:
        """Return the tally as it is now."""
        return Tally(*(running.snapshot() for running in self._running.values()))


def _rows_of_inputs(source: Source) -> dict[int, int]:
    """Return how many rows each input has, by key; nothing for a stream."""
    if isinstance(source, QuerySource):  # whose fragments are not there before it is run
        return source.rows_of_inputs()
    rows: dict[int, int] = {}
    for fragment in () if source.rows is None else source.fragments():
        # The same file may be given twice.
        end = fragment.row_in_input + fragment.rows
        rows[fragment.input_key] = max(rows.get(fragment.input_key, 0), end)
    return rows
