"""What can be done with sketch files alone: look at them, check them, add and subtract them, export them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nysketch._support.intervals import in_words
from nysketch._support.notices import log
from nysketch._support.outputs import claimed, overwriting, refuse_to_replace
from nysketch.api._data import AnyPath, as_sketch, as_sketches, listed
from nysketch.basis.base import Basis
from nysketch.errors import IncompatibleError, UsageError
from nysketch.files.export import export as export_thing
from nysketch.files.export import export_file
from nysketch.files.find import sketch_files
from nysketch.files.format import save
from nysketch.files.merge import merge_sketches, missing_in_words, named, subtract_sketches
from nysketch.models.inspection import describe_file, describe_model, verify_file
from nysketch.models.stored import AnyModel
from nysketch.sketches.coverage import coverage
from nysketch.sketches.describe import describe
from nysketch.sketches.sketch import Sketch


def info(
    sketch: Sketch | Basis | AnyModel | AnyPath,
    *,
    against: Sketch | AnyPath | None = None,
    quality: bool = False,
) -> dict[str, Any]:
    """Describe a sketch or basis: rows, columns, kernel, landmarks, quality, inputs; or a model.

    Parameters
    ----------
    sketch : Sketch, Basis, model or path
        What to describe.
    against : Sketch or path, optional
        An older sketch at the same basis, to see whether its landmarks still cover the rows.
    quality : bool
        Measure rank and quality now, on the sampled rows of the sketch, which takes a second. Default: as
        measured when the basis was made, if it was.

    Returns
    -------
    dict
        Plain values, as `nysketch info --json` prints them.

    Examples
    --------
    >>> nysketch.info("today.nysk")["rows"]

    """
    thing: Sketch | Basis | AnyModel
    if isinstance(sketch, str | os.PathLike):
        thing, facts = describe_file(sketch, measure=quality)
    elif isinstance(sketch, Sketch | Basis):
        thing, facts = sketch, describe(sketch, measure=quality)
    else:
        thing, facts = sketch, describe_model(sketch)
    if against is not None:
        if not isinstance(thing, Sketch):
            kind = "basis" if isinstance(thing, Basis) else "model"
            raise UsageError(f"a {kind} has no rows to compare: `against` is for sketches")
        facts["against"] = coverage(thing, as_sketch(against, "the coverage")).describe()
    return facts


def verify(paths: AnyPath | Iterable[AnyPath]) -> list[dict[str, Any]]:
    """Read sketch files whole and check their checksums, and that their contents fit together; models, too.

    Parameters
    ----------
    paths : path or list of paths
        Files, globs, or directories of `*.nysk` files.

    Returns
    -------
    list of dict
        One for each file: its `path`, whether it is `ok`, and either the `basis_digest` or the `error`.

    Examples
    --------
    >>> all(file["ok"] for file in nysketch.verify("archive/*.nysk"))

    """
    files = sketch_files([os.fspath(path) for path in listed(paths)])
    return [verify_file(path).describe() for path in files]


def merge(
    sketches: Iterable[Sketch | AnyPath] | AnyPath,
    *,
    output: AnyPath | None = None,
    partial: bool = False,
    force: bool = False,
    robust: int | str | None = None,
    if_exists: str = "fail",
    lock_wait: float = 0.0,
) -> Sketch:
    """Add sketches that share a basis: the sketch of all their rows.

    The order has no effect on the result, to the last bit. `a + b` does the same without the checks: here,
    rows that would be counted twice and parts that are missing are errors.

    Parameters
    ----------
    sketches : list of Sketch or paths
        What to add; paths may be globs, or directories of `*.nysk` files. Files are read one at a time.
    output : path, optional
        File to write the sum to.
    partial : bool
        Allow that parts are missing (see `sketch(part=…)`), with a warning.
    force : bool
        Skip the double-counting check; what is counted twice is warned about.
    robust : {"auto"} or int, optional
        Leave out the blocks of the sum with outlying rows, by a median of means over this many groups
        ("auto": all blocks): a robust mean embedding. It has no cells and no spans; `settings["robust"]` says
        what was left out.
    if_exists : {"fail", "overwrite"}
        What to do if `output` exists.
    lock_wait : float
        Seconds to wait for another process that writes `output`.

    Returns
    -------
    Sketch

    Examples
    --------
    >>> week = nysketch.merge("days/*.nysk")

    """
    with _written(output, if_exists, lock_wait) as target:
        given = as_sketches(sketches, but=target)
        _refuse_to_replace(given, target)
        if not force:
            _refuse_the_same_twice(given)
        what = _called(target, "the sum")
        made = merge_sketches(named(given), what, force=force, partial=partial, robust=robust)
        _save(made.sketch, target)
    for path in made.doubled_inputs:
        log.warning("%s is in more than one of these sketches: its rows are counted twice", path)
    for whole, parts in made.doubled_parts:
        words = f"{in_words(parts, whole.of)} of {whole.name}"
        log.warning("%s: in more than one of these sketches, and counted twice", words)
    if made.missing_parts:
        log.warning("%s", missing_in_words(made.missing_parts))
    return made.sketch


def _refuse_the_same_twice(given: list[Sketch | AnyPath]) -> None:
    """Raise an IncompatibleError if an object is given twice: rows in memory have no name to know them by."""
    first: dict[int, int] = {}
    for number, one in enumerate(given, 1):
        if isinstance(one, Sketch) and first.setdefault(id(one), number) != number:
            raise IncompatibleError(
                f"sketch {number} is sketch {first[id(one)]}: its rows would be counted twice. "
                "If this is meant, use `force=True`"
            )


def subtract(
    whole: Sketch | AnyPath,
    parts: Iterable[Sketch | AnyPath] | Sketch | AnyPath,
    *,
    output: AnyPath | None = None,
    force: bool = False,
    if_exists: str = "fail",
    lock_wait: float = 0.0,
) -> Sketch:
    """Take sketches away from one that contains their rows: the sketch of the remaining rows.

    Parameters
    ----------
    whole : Sketch or path
        The sketch to subtract from.
    parts : Sketch, path, or list of them
        Sketches at the same basis, whose rows are in `whole`.
    output : path, optional
        File to write the rest to.
    force : bool
        Skip the check that the inputs of `parts` are among those of `whole`.
    if_exists : {"fail", "overwrite"}
        What to do if `output` exists.
    lock_wait : float
        Seconds to wait for another process that writes `output`.

    Returns
    -------
    Sketch

    Examples
    --------
    >>> rest = nysketch.subtract("year.nysk", "january.nysk")

    """
    with _written(output, if_exists, lock_wait) as target:
        what, given = _called(target, "the rest"), [whole, *listed(parts)]
        _refuse_to_replace(given, target)
        rest, missing = subtract_sketches(named(given), what, force=force)
        _save(rest, target)
    for path in missing:
        log.warning("%s was subtracted, but is not listed among the inputs", path)
    return rest


def export(
    sketch: Sketch | Basis | AnyPath,
    output: AnyPath,
    *,
    format: str | None = None,
    if_exists: str = "fail",
) -> None:
    """Write the numbers of a sketch or basis for other programs.

    Parameters
    ----------
    sketch : Sketch, Basis or path
        What to export.
    output : path
        File to write.
    format : {"npz", "json", "parquet"}, optional
        NPZ and JSON hold landmarks, kernel sums, features and embedding weights; Parquet holds one row per
        landmark. Default: by the suffix of `output`.
    if_exists : {"fail", "overwrite"}
        What to do if `output` exists.

    Examples
    --------
    >>> nysketch.export(s, "landmarks.parquet")

    """
    if isinstance(sketch, str | os.PathLike):
        export_file(Path(sketch), Path(output), format, overwrite=overwriting(if_exists))
        return
    with claimed(Path(output), overwrite=overwriting(if_exists)):
        export_thing(sketch, Path(output), format)


@contextmanager
def _written(output: AnyPath | None, if_exists: str, lock_wait: float) -> Iterator[Path | None]:
    """Yield the file to write, locked; None if there is none."""
    overwrite = overwriting(if_exists)
    if output is None:
        yield None
        return
    with claimed(Path(output), overwrite=overwrite, wait=lock_wait):
        yield Path(output)


def _refuse_to_replace(given: Iterable[Sketch | AnyPath], target: Path | None) -> None:
    if target is not None:
        refuse_to_replace([one for one in given if isinstance(one, str | os.PathLike)], target)


def _called(target: Path | None, otherwise: str) -> str:
    return otherwise if target is None else str(target)


def _save(sketch: Sketch, target: Path | None) -> None:
    if target is not None:
        save(sketch, target)
