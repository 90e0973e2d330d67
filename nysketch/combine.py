"""Merging and subtracting sketch files; the arithmetic is sketches.py's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nysketch.errors import IncompatibleError, OutputError
from nysketch.fileformat import load_sketch, save
from nysketch.locks import output_lock
from nysketch.sketches import Sketch


def merge_files(paths: Sequence[Path], output: Path, *, overwrite: bool) -> tuple[Sketch, list[str]]:
    """Add sketch files into `output`; also return inputs that more than one of them contains."""
    doubled: list[str] = []

    def add(total: Sketch, part: Sketch) -> Sketch:
        doubled.extend(item.path for item in total.provenance.shared_with(part.provenance))
        return total + part

    return _combine(paths, output, add, overwrite=overwrite), doubled


def subtract_files(
    whole: Path, parts: Sequence[Path], output: Path, *, overwrite: bool
) -> tuple[Sketch, list[str]]:
    """Subtract sketch files from `whole` into `output`; also return inputs that it did not list."""

    def subtract(rest: Sketch, part: Sketch) -> Sketch:
        if (rest.block_rows < part.block_rows).any():
            raise IncompatibleError(
                f"it is not contained in {whole}: there are {rest.rows:,} rows left to subtract "
                f"{part.rows:,} from, or other rows"
            )
        return rest - part

    rest = _combine([whole, *parts], output, subtract, overwrite=overwrite)
    return rest, [item.path for item, _ in rest.provenance.removed]


def _combine(
    paths: Sequence[Path], output: Path, operation: Callable[[Sketch, Sketch], Sketch], *, overwrite: bool
) -> Sketch:
    """Fold an operation over sketch files, one in memory at a time, and save the result."""
    with output_lock(output):
        if output.exists() and not overwrite:
            raise OutputError(f"{output}: exists already; see --if-exists overwrite")
        result = load_sketch(paths[0])
        for path in paths[1:]:
            try:
                result = operation(result, load_sketch(path))
            except IncompatibleError as error:
                raise IncompatibleError(f"{path}: {error}") from error
        save(result, output)
    return result
