"""Opening what people have, and saying which of its columns and rows were left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set, ValuesView
from pathlib import Path
from typing import Any, TypeVar

from nysketch._support.notices import log, notice
from nysketch._support.sizes import bytes_of
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.engines.protocol import Engine
from nysketch.engines.threads import engine_of
from nysketch.errors import UsageError
from nysketch.files.find import sketch_files
from nysketch.files.format import load
from nysketch.files.merge import merged
from nysketch.models.files import load_model
from nysketch.models.stored import AnyModel
from nysketch.passes.memory import Room
from nysketch.sketches.losses import dropped_in_words
from nysketch.sketches.sketch import Sketch
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from nysketch.sources.protocol import Source
from nysketch.sources.selection import notes_on_left_out

# The path of a file.
AnyPath = str | os.PathLike[str]
# A basis that is there: one, or a sketch that has it.
Known = TypeVar("Known", bound=Basis | Sketch)


def open_rows(data: Any, reading: ReadOptions) -> Source:
    """Open data to read rows from; say which columns are left out, and which files."""
    source = open_source(data, reading)
    for note in notes_on_left_out(source.left_out):
        notice("%s", note)
    for problem in source.skipped:
        log.warning("skipped %s", problem)
    return source


def say_dropped(dropped: int, rows: int) -> None:
    """Say that rows were dropped, if any were."""
    if dropped:
        notice("%s", dropped_in_words(dropped, rows))


def listed(given: Any) -> list[Any]:
    """Return what is given as a list, which one thing alone may be in place of.

    A data frame is one thing, though it can be iterated over.
    """
    several = isinstance(given, Sequence | Set | ValuesView | Iterator) and not isinstance(given, str)
    return list(given) if several else [given]


def as_sketch(sketch: Sketch | AnyPath | Iterable[Sketch | AnyPath], what: str) -> Sketch:
    """Return a sketch that was given itself, as a file, or as several that make one; `what` comes of it."""
    return sketch if isinstance(sketch, Sketch) else merged(as_sketches(sketch), what)


def as_sketches(sketches: Any, *, but: Path | None = None) -> list[Sketch | AnyPath]:
    """Return sketches and files of them, with globs and directories replaced by the files in them."""
    given = listed(sketches)
    if not given:
        raise UsageError("no sketches were given")
    for one in given:
        if not isinstance(one, Sketch | str | os.PathLike):
            what = (
                "a basis, without rows"
                if isinstance(one, Basis)
                else "data. Sketch it first: `nysketch.sketch`"
            )
            raise UsageError(f"expected sketches or their files, and {type(one).__name__} is {what}")
    if any(isinstance(one, Sketch) for one in given):
        return given
    return [*sketch_files([os.fspath(one) for one in given], but=but)]


def as_known(basis: Basis | Sketch | AnyPath | None) -> Basis | Sketch | None:
    """Return a basis, or a sketch that has one, from itself or from a file."""
    return load(basis) if isinstance(basis, str | os.PathLike) else basis


def as_model(model: AnyModel | AnyPath) -> AnyModel:
    """Return a model, from itself or from a file."""
    return load_model(model) if isinstance(model, str | os.PathLike) else model


def basis_or_options(basis: Known | None, options: BasisOptions) -> Known | BasisOptions:
    """Return the basis, if there is one, or how to make it; nobody may ask for both."""
    if basis is None:
        return options
    if options.kinds:
        raise UsageError("the basis determines the kinds of columns: leave out `kinds`")
    if options != BasisOptions():
        raise UsageError("the basis determines landmarks, scaling and kernel: leave out their options")
    return basis


def memory_bytes(memory: int | str | None) -> int | None:
    """Return a number of bytes, which may be given as text like 2GB."""
    try:
        return bytes_of(memory) if isinstance(memory, str) else memory
    except ValueError as error:
        raise UsageError(f"`memory`: {error}") from error


def engine_within(
    engine: Engine | None,
    threads: int | None,
    budget: int | None,
    source: Source,
    room: Callable[..., Room],
    *work: Any,
) -> tuple[Engine, Source]:
    """Return who reads the rows, by default as many threads as fit the budget, and the rows within it.

    `room` says how many fit, given what the work on the rows is.
    """
    if budget is None:
        return engine_of(engine, threads), source
    found = room(budget, source, *work, 1 if engine is not None else threads)
    return engine_of(engine, found.threads if engine is None else threads), found.source
