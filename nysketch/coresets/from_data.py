"""Data → coreset, in one pass: rows are recombined as they come, and a few hundred are carried on.

The test functions must be known before. They are learned from the pilot (passes/pilot.py), or from a
sketch. fragments.py reduces each fragment to a few weighted rows; here these are merged, in the order of the
rows, and thinned at the end to those that the coreset consists of.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nysketch._support.allocator import give_back
from nysketch._support.blas import one_thread
from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis, require_landmarks
from nysketch.basis.options import BasisOptions
from nysketch.coresets.bounds import AUTO, ChosenSize, bound_on, choose_size
from nysketch.coresets.coreset import (
    Coreset,
    RowDistribution,
    choose_functions,
    most_functions,
    notes_on_discrepancy,
    notes_on_means,
    notes_on_size,
    points_to_thin,
)
from nysketch.coresets.discrepancy import discrepancy_to, halves, mean_embedding_at
from nysketch.coresets.fragments import (
    HELD,
    FragmentRecombiner,
    Reduction,
    block_rows_of,
    filled,
    groups_for,
    merge_reductions,
)
from nysketch.coresets.recombination import mismatch, recombine, thin_to_means
from nysketch.coresets.testfunctions import TestFunctions
from nysketch.engines.threads import engine_of
from nysketch.errors import InputError, UsageError
from nysketch.kinds import Category, Text, Time
from nysketch.models.mixture import MixtureModel
from nysketch.passes.chunks import chunk_rows_for, no_rows_left, pass_policy
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.memory import Room, Taken, room_for
from nysketch.passes.pilot import (
    fit_pilot,
    read_pilot,
    read_pilot_for,
    reading_columns_of,
    say_no_features,
)
from nysketch.passes.task import row_reporter, unchanged
from nysketch.sketches.sketch import Sketch
from nysketch.sources.options import ReadOptions
from nysketch.sources.protocol import Source

# Points that match so many times more functions than wanted are carried on: see coreset.py.
_CARRIED = 2
# Sampled rows to learn test functions from, where there is no pilot.
_PILOT_ROWS = 10_000
# As measured: 250 MiB for Python and libraries with compiled code, 35 more in a process that has to compile
# it, and something to spare.
_BASE_BYTES = 320 << 20
_WAITING_BYTES = 32 << 20
# Reductions of fragments that wait to be merged.
_MOST_HELD = 256


@dataclass(frozen=True, eq=False)
class CoresetOptions:
    """What a coreset depends on, besides the rows and the basis.

    `functions` is the number of test functions, or "auto"; they are chosen by `method` from what is known of
    the rows or from their `measure`. `nulls` says what becomes of rows that have them. Of the columns that a
    source keeps, those of the basis and those to `keep` are in the coreset; all of them, if it is None.
    """

    functions: int | str
    method: str | None = None
    measure: MixtureModel | Floats | None = None
    seed: int = 0
    nulls: str = "error"
    keep: tuple[str, ...] | None = None


def basis_of(given: Basis | Sketch | BasisOptions) -> Basis | BasisOptions:
    """Return the basis that is given, alone or in a sketch; or how to make it."""
    return given.basis if isinstance(given, Sketch) else given


def open_with_originals(open_with: Callable[[ReadOptions], Source], reading: ReadOptions) -> Source:
    """Open a source that also reads categories and times as they are: rows of a coreset are rows of a table.

    Which columns are such may be known only when it is open.
    """
    reading = reading.keeping_originals()
    source = open_with(reading)
    encoded = [c.name for c in source.columns if isinstance(c.kind, Category | Text | Time)]
    more = [name for name in encoded if name not in reading.keep]
    return open_with(reading.keeping_originals(*more)) if more and source.rereadable else source


def coreset_of_source(
    source: Source,
    basis: Basis | Sketch | BasisOptions,
    options: CoresetOptions,
    execution: Execution = HERE,
) -> Coreset:
    """Choose test functions, making a basis first if it is to be made; then read all rows, once."""
    plan = prepare(source, basis, options, execution)
    made = isinstance(basis_of(basis), BasisOptions)
    nulls = pass_policy(options.nulls, plan.basis, made=made)
    found = reduce_source(source, plan, nulls=nulls, execution=execution)
    if options.keep is None or found.kept is None:
        return found
    wanted = {*options.keep, *(column.name for column in plan.basis.columns)}
    return replace(found, kept=found.kept.select([n for n in found.kept.column_names if n in wanted]))


# ---- before the pass -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a pass needs: the basis, functions that points shall match, and how many of them are wanted."""

    basis: NystromBasis
    carried: TestFunctions
    learned_from: str
    wanted: int
    chosen: ChosenSize | None = None

    @property
    def functions(self) -> TestFunctions:
        """Those that the coreset matches."""
        return self.carried.first(self.wanted)


def prepare(
    source: Source,
    given: Basis | Sketch | BasisOptions,
    options: CoresetOptions,
    execution: Execution = HERE,
) -> Prepared:
    """Make a basis from a pilot of the source if there is none, and choose test functions.

    A sketch that is given has a basis, and also tells how rows differ.
    """
    method, measure, auto = options.method, options.measure, options.functions == AUTO
    s = most_functions(options.functions)
    if auto and source.rows is None:
        raise UsageError(
            '`functions="auto"` depends on the number of rows, which a stream does not tell: give a number'
        )
    known_rows, basis = RowDistribution(), basis_of(given)
    nulls = (
        options.nulls if isinstance(basis, BasisOptions) else pass_policy(options.nulls, basis, made=False)
    )
    reading: dict[str, Any] = {"seed": options.seed, "nulls": nulls, "execution": execution}
    if isinstance(basis, BasisOptions):
        drawn = read_pilot_for(source, basis, **reading)
        basis, pilot = fit_pilot(source, drawn, basis, seed=options.seed, execution=execution)
        say_no_features(source, basis)
        known_rows = RowDistribution(sampled=basis.transform(pilot))
    elif isinstance(given, Sketch):
        known_rows = RowDistribution.of_sketch(given)
    elif measure is None and method != "nystrom" and source.rereadable:
        pilot = read_pilot(source, _PILOT_ROWS, **reading)
        known_rows = RowDistribution(sampled=basis.transform(pilot))
    landmarks = require_landmarks(basis, "a coreset")
    sampled, weights = known_rows.sampled, known_rows.weights
    if auto and (sampled is None or not len(sampled)):
        sampled, weights = basis.transform(read_pilot(source, _PILOT_ROWS, **reading)), None
    if measure is not None:
        known_rows = RowDistribution.of_measure(measure, landmarks)
    with one_thread():
        functions, learned_from = choose_functions(landmarks, _CARRIED * (s + 1) - 1, method, known_rows)
        if not auto:
            return Prepared(landmarks, functions, learned_from, s)
        chosen = choose_size(landmarks, functions, source.rows or 0, sampled=sampled, weights=weights)
    s = chosen.functions
    return Prepared(landmarks, functions.first(_CARRIED * (s + 1) - 1), learned_from, s, chosen)


def room_to_reduce(
    memory: int, source: Source, functions: int | str, m: int, threads: int | None = None
) -> Room:
    """Return how many threads can make a coreset within `memory` bytes, and how they read."""
    s = min(most_functions(functions), m) if functions == AUTO else most_functions(functions)
    d = sum(column.width for column in source.columns)
    carried = _CARRIED * (s + 1)
    chunk = 2 * 8 * chunk_rows_for(d) * d
    groups = groups_for(carried)
    block = block_rows_of(carried, d) * (8 * d + 48)
    # Sums of groups, their functions, and the directions of an elimination; points that are held.
    work = 8 * (groups * (m + 2 * carried) + 8 * carried**2) + HELD * carried * 8 * (d + carried)
    per_thread = chunk + 2 * block + work
    fixed = _BASE_BYTES + _WAITING_BYTES + 8 * (4 * m**2 + m * carried)
    # When threads have finished, their memory is free for what is left to do.
    afterwards = 8 * 8 * max(points_to_thin(s), carried) ** 2
    advice = ", or use fewer `landmarks` or `functions`"
    taken = Taken(fixed, per_thread, after=afterwards)
    return room_for(source, memory, taken, threads=threads, advice=advice)


# ---- the pass --------------------------------------------------------------------------------------


def reduce_source(
    source: Source, plan: Prepared, *, nulls: str = "error", execution: Execution = HERE
) -> Coreset:
    """Read all rows of a source once, and return a coreset of them."""
    source = reading_columns_of(plan.basis, source)
    give_back()  # what the pilot took
    worker = FragmentRecombiner(source, plan.basis, plan.carried, nulls)
    engine = engine_of(execution.engine)
    report = row_reporter(execution.progress, worker, engine, rows=source.rows)
    reductions = engine.run_in_order(
        worker,
        source.fragments(),
        size=lambda reduction: reduction.nbytes,
        most=_WAITING_BYTES,
        meanwhile=report,
    )
    report()
    total: list[Reduction] = []  # of those that are no longer held one by one
    held: list[Reduction] = []
    # One thread of BLAS: sums are rounded otherwise on another number of threads, and engines differ in that.
    with one_thread():
        with unchanged(source), closing(reductions):
            for reduction in reductions:
                held.append(reduction)
                # Not one by one: of a thousand small row groups, each would cost as much as a large one.
                if sum(map(len, held)) > HELD * (len(plan.carried) + 1) or len(held) >= _MOST_HELD:
                    total, held = [merge_reductions([*total, *held])], []
                    worker.sample_bound = total[0].sample.bound
        every = [*total, *held]
        if not sum(reduction.rows for reduction in every):
            raise no_rows_left(sum(reduction.dropped for reduction in every))
        left = merge_reductions(every)
        if not left.weights.sum() > 0:
            raise InputError(f"all weights in column {source.weights!r} are 0")
        report()
        return _thin_to_coreset(plan, left)


def _thin_to_coreset(plan: Prepared, left: Reduction) -> Coreset:
    """Choose the rows of the coreset from the points that were carried to the end."""
    basis, functions = plan.basis, plan.functions
    weight = float(left.weights.sum())
    mean_kernel = left.kernel_sums / weight
    means = functions.of(mean_kernel)
    left = left.only(np.arange(len(left)), left.weights / weight)
    if len(left) > points_to_thin(plan.wanted):
        left = left.only(*recombine(left.functions, left.weights))
    scaled = basis.transform(filled(left.points, basis))
    kernel = basis.kernel(scaled, scaled)
    values = left.functions[:, : len(functions)]
    chooser, judge = halves(left.sample, left.rows)
    target = mean_embedding_at(basis, scaled, mean_kernel, chooser)
    left = left.only(*thin_to_means(kernel, target, values, left.weights, means))
    distance = discrepancy_to(
        basis,
        basis.transform(filled(left.points, basis)),
        left.weights,
        mean_kernel,
        judge,
        of_rows=left.rows,
        mean_norm=left.norm_sum / weight,
    )
    order = np.argsort(left.numbers, kind="stable")
    left = left.only(order, left.weights[order])
    off = mismatch(left.functions[:, : len(functions)], means, left.weights)
    bound = bound_on(
        basis,
        functions,
        basis.transform(filled(left.points, basis)),
        left.weights,
        judge,
        of_rows=left.rows,
        mismatch=off,
    )
    return Coreset(
        basis=basis,
        points=left.points,
        weights=left.weights,
        numbers=left.numbers,
        of_landmarks=False,
        of_rows=left.rows,
        dropped_rows=left.dropped,
        functions=functions,
        learned_from=plan.learned_from,
        wanted=plan.wanted,
        mismatch=off,
        distance=distance,
        bound=bound,
        chosen=plan.chosen,
        notes=(
            *([] if plan.chosen is None else plan.chosen.notes(distance)),
            *notes_on_size(basis, plan.wanted, len(functions)),
            *notes_on_means(functions, off),
            *notes_on_discrepancy(distance),
        ),
        kept=left.kept,
    )
