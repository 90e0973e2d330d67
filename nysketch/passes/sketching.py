"""One pass: source → sketch. Progress, checkpoint.

What is done with a fragment is accumulate.py's business, who runs the fragments is an engine's. What a pass
is asked to keep is in options.py. A pass that ends in a file, with a lock, resume and all, is to_file.py's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any, TypeVar

from nysketch._support.notices import log
from nysketch._types import Progress
from nysketch.accumulators.options import DEFAULT_SHUFFLES, DEFAULT_SPANS, PassOptions
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.basis.options import AUTO, BasisOptions
from nysketch.engines.protocol import Engine
from nysketch.engines.threads import engine_of
from nysketch.errors import OutputError, UsageError
from nysketch.files.checkpoint import Checkpoint
from nysketch.files.format import load_basis
from nysketch.passes.accumulate import FragmentAccumulator
from nysketch.passes.chunks import no_rows_left
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.pilot import fit_basis
from nysketch.passes.shards import Shard, as_shard, fragments_of, provenance_of, rows_of, why_no_rows
from nysketch.passes.task import row_reporter
from nysketch.provenance import Provenance
from nysketch.sketches.sketch import Sketch
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from nysketch.sources.protocol import Source

# A basis that is there: one, or a sketch that has it.
Known = TypeVar("Known", bound=Basis | Sketch)


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
    runs: int = DEFAULT_SPANS,
    shuffles: int = DEFAULT_SHUFFLES,
    shuffle_rows: int | None = None,
    pairs: bool = False,
    second_moments: bool = False,
    threads: int | None = None,
    engine: Engine | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    part: Shard | str | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    **basis_options: Any,
) -> Sketch:
    """Sketch rows: paths, `-`, an array, a table, a stream or an iterator of batches.

    `basis` is a Basis, a Sketch whose basis is taken, or the path of a file with either; without it
    one is made from a pilot sample, for which the source must be readable twice. How it is made is said by
    the options of `nysketch.basis.options.BasisOptions`: m, kernel, bandwidth, sampling and so on.
    `part` is one part of the rows, such as "3/16": all sixteen add up to the sketch of all rows.

    `threads` of this process read the rows, unless an `engine` is given (nysketch.engines.dask).
    """
    shard = as_shard(part)
    execution = Execution(engine_of(engine, threads), batch_rows, progress)
    chosen = basis_or_options(as_basis(basis), basis_options)
    reading = ReadOptions(
        columns=columns,
        exclude=exclude,
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
    )
    source = open_source(data, reading.for_basis(chosen))
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
    return sketch_source(source, chosen, options, shard=shard, execution=execution)


def as_basis(basis: Basis | Sketch | str | os.PathLike[str] | None) -> Basis | None:
    """Return the basis that a user meant."""
    if basis is None or isinstance(basis, Basis):
        return basis
    return basis.basis if isinstance(basis, Sketch) else load_basis(basis)


def basis_or_options(basis: Known | None, options: Mapping[str, Any]) -> Known | BasisOptions:
    """Return the basis, if there is one, or how to make it; nobody may ask for both."""
    wanted = BasisOptions.of(options)
    if basis is None:
        return wanted
    if wanted != BasisOptions():
        raise UsageError("the basis determines landmarks, scaling and kernel: leave out their options")
    return basis


def make_basis(
    source: Source, options: BasisOptions, *, seed: int, nulls: str, execution: Execution = HERE
) -> Basis:
    """Make a basis from a pilot of the source."""
    basis = fit_basis(source, options, seed=seed, nulls=nulls, execution=execution)
    if options.m != AUTO and basis.m < options.most:
        log.warning(
            "only %d distinct rows to choose from: %d landmarks, not %d", basis.m, basis.m, options.most
        )
    return basis


def sketch_source(
    source: Source,
    basis: Basis | BasisOptions,
    options: PassOptions,
    *,
    shard: Shard | None = None,
    execution: Execution = HERE,
) -> Sketch:
    """Sketch a source, or one shard of it, at a basis; or at one that is made of a pilot of it first."""
    if isinstance(basis, Basis):
        return run_pass(source, basis, options, shard=shard, execution=execution)
    made = make_basis(source, basis, seed=options.seed, nulls=options.nulls, execution=execution)
    return run_pass(source, made, options, made_by=basis, shard=shard, execution=execution)


def run_pass(
    source: Source,
    basis: Basis,
    options: PassOptions,
    *,
    made_by: BasisOptions | None = None,
    shard: Shard | None = None,
    execution: Execution = HERE,
    checkpoint: Checkpoint | None = None,
) -> Sketch:
    """Read all fragments of the source and return their sketch; save progress if there is a checkpoint.

    The sketch remembers what the basis was `made_by`, if it was made for this pass. Whatever ends the pass
    early (an unreadable fragment, Ctrl-C) leaves the finished fragments in the checkpoint. With a `shard`,
    just the fragments of this part of the source are read, and there may be none.
    """
    rows_to_read, engine = rows_of(source, shard), engine_of(execution.engine)
    work = FragmentAccumulator(source, basis, options, execution.batch_rows)
    resumed = () if checkpoint is None else checkpoint.resume(Tally.zeros(basis, options))
    running = work.running(*resumed)
    before = frozenset(running.done)
    rows_before = sum(f.rows for f in fragments_of(source, shard) if f.number in before) if before else 0
    todo = (f for f in fragments_of(source, shard) if f.number not in before)

    def so_far(provenance: Provenance) -> Sketch:
        return Sketch(basis, running.total(), settings_of(options, made_by), provenance)

    report = row_reporter(execution.progress, work, engine, rows=rows_to_read, rows_before=rows_before)
    try:
        # Closing stops the workers: without it, they would finish what they have before an error shows.
        left = None if rows_to_read is None else rows_to_read - rows_before
        with closing(engine.run_together(work, todo, rows=left, meanwhile=report)) as finished:
            report()
            for fragments, added in finished:
                running.add(added, fragments)
                report()
                if checkpoint is not None and checkpoint.due():
                    checkpoint.save(so_far(Provenance()), running.done)
    except BaseException:
        if checkpoint is not None and running.done and running.consistent:
            with suppress(OutputError):  # a full disk: the error on its way matters more
                checkpoint.save(so_far(Provenance()), running.done)
        raise
    result = so_far(provenance_of(source, shard))
    if not result.rows and shard is None:
        raise no_rows_left(result.dropped_rows)
    if not result.rows:
        log.warning("part %s has no rows: %s", shard, why_no_rows(result.dropped_rows))
    return result


def settings_of(options: PassOptions, wanted: BasisOptions | None) -> dict[str, Any]:
    """Return what a sketch remembers of how it was made; `wanted` is None if its basis was given."""
    return asdict(options) | {"basis": None if wanted is None else asdict(wanted)}
