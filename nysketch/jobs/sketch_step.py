"""The basis of a store, and one sketch per partition; what a killed run has done is not done again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nysketch._support.blas import one_thread
from nysketch._support.notices import log
from nysketch._types import Progress
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.basis.quality import MEASURED_UP_TO
from nysketch.engines.threads import Threads
from nysketch.errors import (
    CheckpointMismatchError,
    CorruptCheckpointError,
    CorruptOutputError,
    InputError,
    NysketchError,
    StaleOutputError,
    UsageError,
)
from nysketch.files.format import load_basis, save
from nysketch.jobs.config import Job
from nysketch.jobs.inputs import InputRecord, fingerprints
from nysketch.jobs.records import PARTITION
from nysketch.jobs.store import Store
from nysketch.jobs.store_io import (
    described,
    digest_of,
    file_digest,
    pending,
    read_json_or_none,
    replace_file,
    write_json,
)
from nysketch.passes.execution import Execution
from nysketch.passes.memory import plan_pass
from nysketch.passes.pilot import notes_on_constants_of
from nysketch.passes.sketching import make_basis
from nysketch.passes.to_file import Outcome, Saving, sketch_to_file
from nysketch.sketches.describe import describe_quality
from nysketch.sketches.losses import notes_on_losses
from nysketch.sketches.sketch import Sketch
from nysketch.sources.locations import Location
from nysketch.sources.open import open_source
from nysketch.sources.protocol import Source

# ---- the basis ---------------------------------------------------------------------------------------


def require_same_basis(job: Job, basis: Basis) -> None:
    """Refuse another basis than that of the store, where the job names a file that still exists."""
    named = job.settings["basis"]["file"]
    if named is not None and job.at(named).exists():
        given = load_basis(job.at(named))
        if given != basis:
            raise UsageError(
                f"[basis] file = {named!r} is now {given.digest[:12]}, but the store was made with "
                f"{basis.digest[:12]}. Restore the old file, or name a new store in [job]"
            )


def first_basis(
    job: Job, store: Store, partitions: dict[str, list[Location]], problems: dict[str, str]
) -> Basis | None:
    """Make the basis from the first partitions that can be read, or take the one that the job names."""
    named = job.settings["basis"]["file"]
    if named is not None:
        basis = load_basis(job.at(named))
        save(basis, store.basis_file)
        return basis
    left = dict(partitions)
    while left:
        names = _readable(job, left, problems)
        if not names:
            return None
        try:
            basis = _made(job, [location for name in names for location in left[name]])
        except InputError as error:  # of its rows
            for name in names:
                problems.setdefault(name, str(error))
                del left[name]
            continue
        log.info("made the basis from %s", ", ".join(names))
        save(basis, store.basis_file)
        return basis
    return None


def _readable(job: Job, partitions: dict[str, list[Location]], problems: dict[str, str]) -> list[str]:
    """Return the first partitions that can be opened, as many as the basis is to be made from."""
    chosen: list[str] = []
    for name, locations in partitions.items():
        if len(chosen) == job.settings["basis"]["partitions"]:
            break
        try:
            _open(job, job.basis_options(), locations)
            chosen.append(name)
        except InputError as error:
            problems.setdefault(name, str(error))
    return chosen


def _made(job: Job, locations: Sequence[Location]) -> Basis:
    wanted, options = job.basis_options(), job.pass_options()
    source = _open(job, wanted, locations)
    source, engine = _room(job, source, wanted)
    execution = Execution(engine)
    with one_thread():
        return make_basis(
            source, wanted, seed=options.seed, nulls=options.nulls, execution=execution, say=False
        )


def _open(job: Job, basis: Basis | BasisOptions, locations: Sequence[Location]) -> Source:
    return open_source(list(locations), job.read_options(basis), memory=job.memory)


def _room(job: Job, source: Source, basis: Basis | BasisOptions) -> tuple[Source, Threads]:
    """Return the source as it is read within the memory of the job, and as many threads as fit it."""
    threads = job.settings["job"]["threads"]
    plan = plan_pass(source, basis, job.pass_options(), threads=threads, memory=job.memory)
    return plan.source, Threads(plan.threads)


# ---- partitions --------------------------------------------------------------------------------------


def request_of(job: Job, basis: Basis) -> str:
    """Return a digest of what makes a sketch, besides the inputs; nulls apply to new partitions only."""
    fixed = job.fixed()
    return digest_of({"basis": basis.digest, "inputs": fixed["inputs"], "sketch": fixed["sketch"]})


def sketch_partition(
    job: Job,
    store: Store,
    basis: Basis,
    name: str,
    locations: Sequence[Location],
    inputs: list[InputRecord],
    *,
    progress: Progress | None = None,
) -> tuple[Sketch, list[str]]:
    """Sketch one partition, or go on where a killed run stopped; also return what to know of its rows."""
    path = store.partition_file(name)
    output = pending(path)
    source = _open(job, basis, locations)
    source, engine = _room(job, source, basis)
    execution = Execution(engine, progress=progress)
    every = job.settings["job"]["checkpoint_every"]

    def attempt(if_exists: str, *, restart: bool = False) -> Outcome:
        saving = Saving(if_exists, every, restart)
        return sketch_to_file(source, output, basis, job.pass_options(), saving=saving, execution=execution)

    outcome = _kept_or_made(attempt, output)
    if fingerprints(locations, inputs) != inputs:
        raise InputError(f"{name}: an input changed while it was being read; the next run reads it again")
    notes = [*notes_on_constants_of(basis, source), *notes_on_losses(outcome.sketch)]
    description = _description(name, outcome.sketch, inputs, request_of(job, basis), output)
    write_json(described(path), description | {"notes": notes})
    replace_file(output, path)
    return outcome.sketch, notes


def settle_partition(path: Path) -> None:
    """Put a sketch into its place that a killed run had described, but not renamed.

    One that it had not described yet is left: it is taken if it turns out to be the one wanted.
    """
    description = read_json_or_none(described(path), PARTITION)
    if description is not None and description["sketch"] == file_digest(pending(path)):
        replace_file(pending(path), path)


def _kept_or_made(attempt: Callable[..., Outcome], output: Path) -> Outcome:
    """Keep the sketch that a killed run left if it is the one wanted, else make it.

    Continue its checkpoint if that belongs to the same request, else start over.
    """
    if os.access(output, os.R_OK):
        try:
            return attempt("skip")
        except (StaleOutputError, CorruptOutputError) as error:
            log.debug("made again: %s", error)
    try:
        return attempt("overwrite")
    except (CheckpointMismatchError, CorruptCheckpointError) as error:
        log.debug("started over: %s", error)
        return attempt("overwrite", restart=True)


def _description(
    name: str, sketch: Sketch, inputs: list[InputRecord], request: str, output: Path
) -> dict[str, Any]:
    return {
        "name": name,
        "inputs": inputs,
        "rows": sketch.rows,
        "dropped_rows": sketch.dropped_rows,
        "request": request,
        "sketch": file_digest(output),
        "quality": _quality(sketch),
    }


def _quality(sketch: Sketch) -> dict[str, Any] | None:
    """Return how good the basis is for these rows; a sketch that nothing can be said of is no failure."""
    try:
        with one_thread():
            return describe_quality(sketch, up_to=MEASURED_UP_TO, effective_dimension=False)
    except NysketchError as error:
        log.debug("no quality: %s", error)
        return None
