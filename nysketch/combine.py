"""Merging and subtracting sketch files; the arithmetic is sketches.py's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nysketch.atomic import refuse_to_overwrite
from nysketch.errors import IncompatibleError
from nysketch.fileformat import load_sketch, save
from nysketch.locks import output_lock
from nysketch.sketches import Sketch


def merge_files(
    paths: Sequence[Path], output: Path, *, overwrite: bool, force: bool = False, lock_wait: float = 0.0
) -> tuple[Sketch, list[str]]:
    """Add sketch files into `output`; also return inputs that more than one of them contains.

    There are none unless `force` allows to count their rows twice.
    """
    doubled: list[str] = []

    def add(total: Sketch, part: Sketch) -> Sketch:
        merged = total + part
        shared = [item.path for item in total.provenance.shared_with(part.provenance)]
        if shared and not force:
            raise IncompatibleError(
                f"{shared[0]} is in it and in another of these sketches: its rows would be counted twice. "
                "If this is meant, use --force"
            )
        doubled.extend(shared)
        return merged

    return _combine(paths, output, add, overwrite=overwrite, lock_wait=lock_wait), doubled


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
    """Fold an operation over sketch files, one in memory at a time, and save the result."""
    with output_lock(output, wait=lock_wait):
        refuse_to_overwrite(output, overwrite=overwrite)
        result = load_sketch(paths[0])
        for path in paths[1:]:
            try:
                result = operation(result, load_sketch(path))
            except IncompatibleError as error:
                raise IncompatibleError(f"{path}: {error}") from error
        save(result, output)
    return result
