"""Merging and subtracting sketch files; the arithmetic is sketches.py's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nysketch.atomic import refuse_to_overwrite
from nysketch.errors import IncompatibleError
from nysketch.fileformat import load_sketch, save
from nysketch.locks import output_lock
from nysketch.sketches import Sketch

log = logging.getLogger("nysketch")


def merge_files(
    paths: Sequence[Path], output: Path, *, overwrite: bool, force: bool = False, lock_wait: float = 0.0
) -> tuple[Sketch, list[str]]:
    """Add sketch files into `output`; also return inputs that more than one of them contains.

    There are none unless `force` allows to count their rows twice.
    """
    doubled: list[str] = []
    add = _adding(doubled, None if force else "use --force")
    return _combine(paths, output, add, overwrite=overwrite, lock_wait=lock_wait), doubled


def merged(paths: Sequence[Path], what: str = "what is learned") -> Sketch:
    """Return the sum of sketch files, one in memory at a time; no rows may be in two of them.

    `what` is what comes of it, for messages.
    """
    return _folded(paths, _adding([], "merge them first: nysketch merge --force"), what)


def _adding(doubled: list[str], remedy: str | None) -> Callable[[Sketch, Sketch], Sketch]:
    """Return an addition that lists inputs counted twice, or refuses them if there is a remedy to name."""

    def add(total: Sketch, part: Sketch) -> Sketch:
        result = total + part
        shared = [item.path for item in total.provenance.shared_with(part.provenance)]
        if shared and remedy:
            raise IncompatibleError(
                f"{shared[0]} is in it and in another of these sketches: its rows would be counted twice. "
                f"If this is meant, {remedy}"
            )
        doubled.extend(shared)
        return result

    return add


def subtract_files(
    whole: Path,
    parts: Sequence[Path],
    output: Path,
    *,
    overwrite: bool,
    force: bool = False,
    lock_wait: float = 0.0,
) -> tuple[Sketch, list[str]]:
    """Subtract sketch files from `whole` into `output`; also return inputs that it did not list.

    There are none unless `force` trusts that their rows are in it all the same.
    """
    missing: list[str] = []

    def subtract(rest: Sketch, part: Sketch) -> Sketch:
        left = rest - part
        known = {item for item, _ in rest.provenance.removed}
        unlisted = [item.path for item, _ in left.provenance.removed if item not in known]
        if unlisted and not force:
            raise IncompatibleError(
                f"it holds rows of {unlisted[0]}, which is not among the inputs of {whole} or was subtracted "
                "already. If its rows are there all the same, use --force"
            )
        if not _possible(left):
            raise IncompatibleError(
                f"it is not contained in {whole}: there are {rest.rows:,} rows left to subtract "
                f"{part.rows:,} from, or other rows"
            )
        missing.extend(unlisted)
        return left

    rest = _combine([whole, *parts], output, subtract, overwrite=overwrite, lock_wait=lock_wait)
    return rest, missing


def _possible(sketch: Sketch) -> bool:
    """Tell whether there can be rows with these sums, given the range of the values that were added."""
    weights = sketch.tally.blocks.weights
    counts = (sketch.block_rows if weights is None else weights.high)[:, None]
    if sketch.dropped_rows < 0 or (sketch.block_rows < 0).any() or (counts < 0).any():
        return False
    if sketch.cells is not None and (sketch.cells.beyond < 0 or (sketch.cells.rows < 0).any()):
        return False
    if sketch.runs is not None and (sketch.runs.rows < 0).any():
        return False
    low, high = sketch.basis.range
    sums, slack = sketch.block_kernel_sums, 1e-3 * counts + 1e-9  # room for float32, but none beside 0
    return not (
        (np.isfinite(low) and (sums < low * counts - (slack if low else 0)).any())
        or (np.isfinite(high) and (sums > high * counts + slack).any())
    )


def _combine(
    paths: Sequence[Path],
    output: Path,
    operation: Callable[[Sketch, Sketch], Sketch],
    *,
    overwrite: bool,
    lock_wait: float,
) -> Sketch:
    """Fold an operation over sketch files, and save the result."""
    with output_lock(output, wait=lock_wait):
        refuse_to_overwrite(output, overwrite=overwrite)
        result = _folded(paths, operation, str(output))
        save(result, output)
    return result


# Statistics that not every sketch has.
_NOT_ALWAYS = {
    "cells": "cells of rows",
    "runs": "runs of rows",
    "groups": "sums of groups of columns",
    "second_moments": "second moments",
}


def _folded(paths: Sequence[Path], operation: Callable[[Sketch, Sketch], Sketch], what: str) -> Sketch:
    """Fold an operation over sketch files, one in memory at a time; `what` is what comes of it."""
    result = load_sketch(paths[0])
    without: dict[str, list[Path]] = {name: [] for name in _NOT_ALWAYS}
    _note_missing(result, paths[0], without)
    for path in paths[1:]:
        part = load_sketch(path)
        _note_missing(part, path, without)
        try:
            result = operation(result, part)
        except IncompatibleError as error:
            raise IncompatibleError(f"{path}: {error}") from error
    for name, lacking in without.items():
        if 0 < len(lacking) < len(paths):
            log.warning("%s has no %s: neither will %s", lacking[0], _NOT_ALWAYS[name], what)
    return result


def _note_missing(sketch: Sketch, path: Path, without: dict[str, list[Path]]) -> None:
    """Note which of the statistics that not every sketch has are missing from this one."""
    for name, lacking in without.items():
        lacking += [path] if getattr(sketch, name) is None else []
