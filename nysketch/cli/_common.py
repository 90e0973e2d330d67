"""What several commands do: run a pass with bars and an engine, log what was left out, name what they made.

Options are in _options/, and what is printed, whatever it is about, in _output.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nysketch.cli import _output

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.cli._options.engine import EngineChoice
    from nysketch.passes.execution import Execution
    from nysketch.sources.protocol import Source

log = logging.getLogger("nysketch")


@contextmanager
def execution(
    what: str,
    engine: EngineChoice,
    threads: int,
    source: Source,
    *,
    batch_rows: int | None = None,
    quiet: bool,
) -> Iterator[Execution]:
    """Yield who runs a pass over a source, with bars that show how far it is; `what` names that of rows."""
    from nysketch.passes.execution import Execution

    with (
        _output.progress_bar("pilot", " fragments", quiet=quiet) as pilot_progress,
        _output.progress_bar("choosing", " landmarks", quiet=quiet) as choosing,
        _output.progress_bar(what, " rows", quiet=quiet) as progress,
        engine.opened(threads, source) as runner,
    ):
        yield Execution(runner, batch_rows, progress, pilot_progress, choosing)


def log_left_out(source: Source) -> None:
    """Log which columns will not be used, and why."""
    from nysketch.sources.selection import shorten

    if source.left_out:
        log.info("left out: %s", shorten(f"{name} ({why})" for name, why in source.left_out.items()))


def log_skipped(problems: Iterable[object]) -> None:
    """Log which inputs --skip-unreadable skipped, and why."""
    for problem in problems:
        log.warning("skipped %s", problem)


def log_notes(notes: Iterable[str]) -> None:
    """Log what a result is to be read with; each thing once, also where it is true of many comparisons."""
    for note in dict.fromkeys(notes):
        log.warning("%s", note)


def columns_in_words(basis: Basis) -> str:
    """Say how wide a row is."""
    if basis.text:
        return "one text column"
    return f"{basis.d} feature{'s' if basis.d > 1 else ''}"


def landmarks_in_words(basis: Basis) -> str:
    """Say how many landmarks, or features, there are."""
    what = "Fourier feature" if basis.feature_map == "fourier" else "landmark"
    return f"{basis.m} {what}{'s' if basis.m > 1 else ''}"


def print_sketch(rows: int, output: Path, *, as_json: bool, quiet: bool, **more: object) -> None:
    """Print which sketch was written: of so many rows, and what else JSON shall hold."""
    if as_json:
        _output.print_json({"bytes": output.stat().st_size, "output": str(output), "rows": rows, **more})
    elif not quiet:
        _output.echo(f"{output}: {rows:,} rows; {_output.size(output.stat().st_size)}")
