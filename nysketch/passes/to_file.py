"""Passes that end in a file: lock, existing output, resume, atomic save. What the command line runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nysketch._support.outputs import claimed
from nysketch.accumulators.groups import grouped
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.engines.protocol import Engine
from nysketch.errors import (
    CorruptOutputError,
    CorruptSketchError,
    InputError,
    StaleOutputError,
    UnreadableError,
    UsageError,
)
from nysketch.files.checkpoint import Checkpoint, checkpoint_path
from nysketch.files.format import load_sketch, require_small_header, save, sketch_parts
from nysketch.passes.options import PassOptions, settings_of
from nysketch.passes.shards import Shard, provenance_of
from nysketch.passes.sketching import Progress, make_basis, run_pass
from nysketch.sketches.sketch import Sketch
from nysketch.sources.protocol import Source

IF_EXISTS = ("fail", "skip", "overwrite")


@dataclass(frozen=True)
class Outcome:
    """What `sketch_to_file` did."""

    sketch: Sketch
    skipped: bool = False  # the output existed and was up to date
    resumed_fragments: int = 0
    unreadable: tuple[str, ...] = ()


def sketch_to_file(
    source: Source,
    output: Path,
    *,
    basis: Basis | None,
    wanted: BasisOptions,
    options: PassOptions,
    if_exists: str = "fail",
    checkpoint_every: float = 30.0,
    restart: bool = False,
    lock_wait: float = 0.0,
    engine: Engine | None = None,
    batch_rows: int | None = None,
    pilot_progress: Callable[[int, int], None] | None = None,
    choosing: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
    part: Shard | None = None,
) -> Outcome:
    """Sketch a source, or one part of it, into `output`, resuming what the same request left behind."""
    if if_exists not in IF_EXISTS:
        raise UsageError(f"if_exists must be one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
    with claimed(
        output,
        inputs=source.local_paths,
        overwrite=if_exists != "fail",
        wait=lock_wait,
        hint="see --if-exists skip|overwrite",
    ):
        unreadable = tuple(map(str, source.skipped))
        if output.exists() and if_exists == "skip":
            have = _up_to_date(source, output, basis, wanted, options, part)
            checkpoint_path(output).unlink(missing_ok=True)  # killed just before it would have gone
            return Outcome(have, skipped=True, unreadable=unreadable)
        before = source.state()
        request = _request(source, basis, wanted, options)
        made_here = None if basis is not None else wanted
        checkpoint = None
        if before is not None:
            request |= {"inputs": before, "part": None if part is None else str(part)}
            checkpoint = Checkpoint(
                output,
                request,
                # Fragments that were finished without an error had nothing to drop.
                alternatives=[request | {"options": asdict(options) | {"nulls": "error"}}],
                every=checkpoint_every,
                restart=restart,
            )
            if checkpoint.partial is not None:
                basis = checkpoint.partial.basis
        if basis is None:
            basis = make_basis(
                source,
                wanted,
                seed=options.seed,
                nulls=options.nulls,
                engine=engine,
                progress=pilot_progress,
                choosing=choosing,
            )
        if before is not None:
            provenance = provenance_of(source, part)
            empty = Sketch(basis, options.nothing(basis), settings_of(options, made_here), provenance)
            require_small_header(*sketch_parts(empty))  # better told now than after hours of reading
        try:
            result = run_pass(
                source,
                basis,
                options,
                wanted=made_here,
                engine=engine,
                batch_rows=batch_rows,
                progress=progress,
                checkpoint=checkpoint,
                part=part,
            )
        except UnreadableError as error:
            if checkpoint is None or not checkpoint.path.exists():
                raise
            raise UnreadableError(
                f"{error}. What was finished is kept: the same command continues"
            ) from error
        if source.state() != before:
            if checkpoint is not None:
                checkpoint.remove()
            raise InputError(
                "an input changed while it was being read, so the sums belong to no version of it. "
                "Run the command again once it is complete"
            )
        save(result, output)
        if checkpoint is not None:
            checkpoint.remove()
        resumed = 0 if checkpoint is None else checkpoint.resumed
        return Outcome(result, resumed_fragments=resumed, unreadable=unreadable)


def basis_to_file(
    source: Source,
    output: Path,
    *,
    wanted: BasisOptions,
    seed: int = 0,
    nulls: str = "error",
    overwrite: bool = False,
    lock_wait: float = 0.0,
    engine: Engine | None = None,
    progress: Callable[[int, int], None] | None = None,
    choosing: Callable[[int, int], None] | None = None,
) -> Basis:
    """Make a basis from a pilot of the source, and save it."""
    with claimed(output, inputs=source.local_paths, overwrite=overwrite, wait=lock_wait):
        basis = make_basis(
            source,
            wanted,
            seed=seed,
            nulls=nulls,
            engine=engine,
            progress=progress,
            choosing=choosing,
        )
        save(basis, output)
    return basis


def _request(
    source: Source, basis: Basis | None, wanted: BasisOptions, options: PassOptions
) -> dict[str, Any]:
    return {
        "basis": asdict(wanted) if basis is None else basis.digest,
        "columns": [[column.name, column.width] for column in source.columns],
        "options": asdict(options),
    }


def _up_to_date(
    source: Source,
    output: Path,
    basis: Basis | None,
    wanted: BasisOptions,
    options: PassOptions,
    part: Shard | None,
) -> Sketch:
    """Return the sketch at `output` if it is what this request would make; otherwise say what differs."""
    try:
        have = load_sketch(output)
    except CorruptSketchError as error:
        raise CorruptOutputError(str(error)) from error
    made = have.settings.get("basis") if basis is None else have.basis.digest
    # There were no cells, runs, sums of groups and second moments when there was no such setting.
    without_groups = {"shuffles": 0 if grouped(have.basis) else options.shuffles, "pairs": False}
    settings = {"cells": False, "runs": 0, "second_moments": False} | without_groups | have.settings
    stored = {
        "basis": made,
        "columns": [[column.name, column.width] for column in have.basis.columns],
        "options": {name: settings.get(name) for name in asdict(options)},
        "inputs": have.provenance,
        "part": [(whole.of, held) for whole, held in have.provenance.parts],
    }
    provenance = provenance_of(source, part)
    asked = _request(source, basis, wanted, options) | {
        "inputs": provenance,
        "part": [(whole.of, held) for whole, held in provenance.parts],
    }
    different = [name for name, value in asked.items() if stored[name] != value]
    written = output.stat().st_mtime_ns
    if any(mtime is not None and mtime >= written for _, _, mtime, _ in source.state() or ()):
        different.append("modification time of an input")
    if different:
        raise StaleOutputError(
            f"{output}: exists, but was made from something else ({', '.join(sorted(different))} differ). "
            "Replace it with --if-exists overwrite"
        )
    return have
