"""One pass: source → sketch. Progress, checkpoint.

What is done with a fragment is accumulate.py's business, who runs the fragments is an engine's. What a pass
is asked to keep is in options.py. A pass that ends in a file, with a lock, resume and all, is to_file.py's.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any

from nysketch._support.allocator import give_back
from nysketch._support.notices import log
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.basis.options import AUTO, BasisOptions
from nysketch.engines.threads import engine_of
from nysketch.errors import OutputError, SchemaError
from nysketch.files.checkpoint import Checkpoint
from nysketch.files.format import load_basis
from nysketch.files.validate import require_sound
from nysketch.passes.accumulate import FragmentAccumulator
from nysketch.passes.chunks import no_rows_left, pass_policy, stored_policy
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.pilot import fit_basis, reading_columns_of, say_no_features
from nysketch.passes.shards import Shard, fragments_of, provenance_of, rows_of, why_no_rows
from nysketch.passes.task import row_reporter, unchanged
from nysketch.provenance import Provenance
from nysketch.sketches.sketch import Sketch
from nysketch.sources.protocol import Source


def as_basis(basis: Basis | Sketch | str | os.PathLike[str] | None) -> Basis | None:
    """Return the basis that a user meant."""
    if basis is None or isinstance(basis, Basis):
        return basis
    return basis.basis if isinstance(basis, Sketch) else load_basis(basis)


def make_basis(
    source: Source,
    options: BasisOptions,
    *,
    seed: int,
    nulls: str,
    execution: Execution = HERE,
    say: bool = True,
) -> Basis:
    """Make a basis from a pilot of the source; say which columns it leaves out, unless the caller does."""
    basis = fit_basis(source, options, seed=seed, nulls=nulls, execution=execution)
    if say:
        say_no_features(source, basis)
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
    with unchanged(source):
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
    just the fragments of this part of the source are read, and there may be none. Of a source that the basis
    was made from, the columns of the basis are read.
    """
    require_sound(basis)
    source = reading_columns_of(basis, source)
    if source.columns != basis.columns:  # compiled code relies on it, and files may be forged
        if checkpoint is not None and checkpoint.partial is not None:
            raise checkpoint.unusable("its basis has other columns than the rows to read")
        raise SchemaError("the basis has other columns than the rows to read")
    give_back()  # what the pilot took
    rows_to_read, engine = rows_of(source, shard), engine_of(execution.engine)
    reading = replace(options, nulls=pass_policy(options.nulls, basis, made=made_by is not None))
    options = replace(options, nulls=stored_policy(options.nulls, basis))
    work = FragmentAccumulator(source, basis, reading, execution.batch_rows)
    if checkpoint is None:
        running = work.running()
    else:
        rows_of_all = ((f.number, f.rows) for f in fragments_of(source, shard))
        running = work.running(*checkpoint.resume(Tally.zeros(basis, options), rows_of_all))
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
    return asdict(options) | {"basis": None if wanted is None else wanted.describe()}
