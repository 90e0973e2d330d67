"""Passes that end in a file: lock, existing output, resume, atomic save. What the command line runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nysketch._support.companions import checkpoint_path
from nysketch._support.outputs import claimed
from nysketch.accumulators.groups import grouped
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.tally import STATISTICS, Tally
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.errors import (
    CorruptOutputError,
    CorruptSketchError,
    InputError,
    StaleOutputError,
    UnreadableError,
    UsageError,
    WrongKindError,
)
from nysketch.files.checkpoint import Checkpoint
from nysketch.files.container import require_small_header
from nysketch.files.format import load_sketch, save, sketch_parts
from nysketch.passes.chunks import stored_policy
from nysketch.passes.execution import HERE, Execution
from nysketch.passes.pilot import say_losses_of_pilot
from nysketch.passes.shards import Shard, provenance_of
from nysketch.passes.sketching import make_basis, run_pass, settings_of
from nysketch.passes.task import require_unchanged
from nysketch.sketches.sketch import Sketch
from nysketch.sources.identifiers import is_no_feature
from nysketch.sources.protocol import Source
from nysketch.sources.selection import TEXT, TIME

IF_EXISTS = ("fail", "skip", "overwrite")


@dataclass(frozen=True)
class Outcome:
    """What `sketch_to_file` did."""

    sketch: Sketch
    skipped: bool = False  # the output existed and was up to date
    resumed_fragments: int = 0
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saving:
    """How a sketch becomes a file: what to do `if_exists`, and with an unfinished run of the same request.

    Progress is saved at intervals beside the output, and continued unless `restart` discards it.
    Another run on the same output is waited for, up to `lock_wait` seconds.
    """

    if_exists: str = "fail"
    checkpoint_every: float = 30.0
    restart: bool = False
    lock_wait: float = 0.0

    def __post_init__(self) -> None:
        if self.if_exists not in IF_EXISTS:
            raise UsageError(f"`if_exists` must be one of {', '.join(IF_EXISTS)}, not {self.if_exists!r}")


def sketch_to_file(
    source: Source,
    output: Path,
    basis: Basis | BasisOptions,
    options: PassOptions,
    *,
    shard: Shard | None = None,
    inputs: Sequence[str | os.PathLike[str]] = (),
    saving: Saving | None = None,
    execution: Execution = HERE,
) -> Outcome:
    """Sketch a source, or one shard of it, into `output`, resuming what the same request left behind.

    As `sketch_source` does: at a basis, or at one that is made first. `inputs` are files that must not be
    replaced either, besides those of the source.
    """
    saving = saving or Saving()
    if_exists = saving.if_exists
    with claimed(
        output,
        inputs=[*source.local_paths, *inputs],
        overwrite=if_exists != "fail",
        wait=saving.lock_wait,
        hint='keep or replace it with `if_exists="skip"` or `if_exists="overwrite"`',
    ):
        unreadable = tuple(map(str, source.skipped))
        if output.exists() and if_exists == "skip":
            have = _up_to_date(source, output, basis, options, shard)
            checkpoint_path(output).unlink(missing_ok=True)  # killed just before it would have gone
            return Outcome(have, skipped=True, unreadable=unreadable)
        before = source.state()
        request = _request(source, basis, options)
        made_by = basis if isinstance(basis, BasisOptions) else None
        checkpoint = None
        if before is not None:
            request |= {"inputs": before, "part": None if shard is None else str(shard)}
            checkpoint = Checkpoint(
                output,
                request,
                alternatives=_as_before(request, source, basis, options),
                every=saving.checkpoint_every,
                restart=saving.restart,
            )
            if checkpoint.partial is not None:
                if made_by is not None and checkpoint.partial.settings.get("basis") != made_by.describe():
                    made_by = made_by.before_auto()
                basis = checkpoint.partial.basis
        if isinstance(basis, BasisOptions):
            basis = make_basis(source, basis, seed=options.seed, nulls=options.nulls, execution=execution)
        if before is not None:
            provenance = provenance_of(source, shard)
            empty = Sketch(basis, Tally.zeros(basis, options), settings_of(options, made_by), provenance)
            require_small_header(*sketch_parts(empty))  # better told now than after hours of reading
        try:
            result = run_pass(
                source,
                basis,
                options,
                made_by=made_by,
                shard=shard,
                execution=execution,
                checkpoint=checkpoint,
            )
        except UnreadableError as error:
            if checkpoint is None or not checkpoint.path.exists():
                raise
            raise UnreadableError(f"{error}. Finished work is kept: run again to continue") from error
        try:
            require_unchanged(source, before, why="the sums match no version of it")
        except InputError:
            if checkpoint is not None:
                checkpoint.remove()  # what was finished belongs to no version, either
            raise
        save(result, output)
        if checkpoint is not None:
            checkpoint.remove()
        resumed = 0 if checkpoint is None else checkpoint.resumed
        return Outcome(result, resumed_fragments=resumed, unreadable=unreadable)


def basis_to_file(
    source: Source,
    output: Path,
    options: BasisOptions,
    *,
    seed: int = 0,
    nulls: str = "error",
    overwrite: bool = False,
    lock_wait: float = 0.0,
    execution: Execution = HERE,
) -> Basis:
    """Make a basis from a pilot of the source, and save it."""
    with claimed(output, inputs=source.local_paths, overwrite=overwrite, wait=lock_wait):
        basis = make_basis(source, options, seed=seed, nulls=nulls, execution=execution)
        say_losses_of_pilot(basis)
        save(basis, output)
    return basis


def _request(source: Source, basis: Basis | BasisOptions, options: PassOptions) -> dict[str, Any]:
    """Return what a sketch depends on; `columns` are those on offer, whatever the pilot shows them to be."""
    return {
        "basis": basis.digest if isinstance(basis, Basis) else basis.describe(),
        "columns": [[column.name, column.width] for column in source.columns],
        "options": asdict(options),
    }


def _offered(source: Source, basis: Basis) -> list[Column]:
    """Return the columns a basis was made from: its own, and those of `source` that it left out itself."""
    left_out = basis.origin.get("left_out", {})
    held = {column.name for column in basis.columns}
    gone = {n for n in source.optional if n not in held and _left_out_then(left_out.get(n, ""))}
    own = iter(basis.columns)
    offered = [column if column.name in gone else next(own, None) for column in source.columns]
    return [*(column for column in offered if column is not None), *own]


def _left_out_then(why: str) -> bool:
    """Tell whether a basis left out a column on offer, or one of a type that had no kind at the time."""
    return is_no_feature(why) or why in (TEXT, TIME)


def _as_before(
    request: dict[str, Any], source: Source, basis: Basis | BasisOptions, options: PassOptions
) -> list[dict[str, Any]]:
    """Return the requests whose unfinished work can be continued by this one."""
    # Fragments that were finished without an error had nothing to drop.
    requests = [request | {"options": asdict(options) | {"nulls": "error"}}]
    if any(column.kind is not None for column in source.columns):
        # Before there were kinds, such columns were not on offer.
        optional = [c for c in source.columns if c.kind is None or c.name not in source.optional]
        older = [[column.name, column.width] for column in optional]
        requests += [other | {"columns": older} for other in (request, *requests)]
    if isinstance(basis, BasisOptions):
        # Nothing is read again because the default has become another.
        requests += [other | {"basis": basis.before_auto().describe()} for other in (request, *requests)]
    return requests


def _up_to_date(
    source: Source,
    output: Path,
    basis: Basis | BasisOptions,
    options: PassOptions,
    shard: Shard | None,
) -> Sketch:
    """Return the sketch at `output` if it is what this request would make; otherwise say what differs."""
    try:
        have = load_sketch(output)
    except (CorruptSketchError, WrongKindError) as error:
        raise CorruptOutputError(str(error)) from error
    made = have.basis.digest if isinstance(basis, Basis) else have.settings.get("basis")
    # A statistic was not kept when there was no such setting.
    absent = {name: value for kind in STATISTICS for name, value in kind.absent_settings.items()}
    shuffles = 0 if grouped(have.basis) else options.shuffles
    settings = absent | {"shuffles": shuffles} | have.settings
    stored = {
        "basis": made,
        "columns": [[column.name, column.width] for column in _offered(source, have.basis)],
        "options": {name: settings.get(name) for name in asdict(options)},
        "inputs": have.provenance,
        "part": [(whole.of, held) for whole, held in have.provenance.parts],
    }
    provenance = provenance_of(source, shard)
    options = replace(options, nulls=stored_policy(options.nulls, have.basis))
    asked = _request(source, basis, options) | {
        "inputs": provenance,
        "part": [(whole.of, held) for whole, held in provenance.parts],
    }
    if isinstance(basis, BasisOptions) and made == basis.before_auto().describe():
        asked["basis"] = made  # by the default of its time
    different = [name for name, value in asked.items() if stored[name] != value]
    written = output.stat().st_mtime_ns
    if any(changed is not None and changed >= written for changed in source.last_changes()):
        different.append("modification time of an input")
    if different:
        raise StaleOutputError(
            f"{output}: exists, but was made differently ({', '.join(sorted(different))} differ). Replace "
            'it with `if_exists="overwrite"`'
        )
    return have
