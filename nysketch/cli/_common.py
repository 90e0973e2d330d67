"""What several commands do: run a pass with progress bars and an engine, log notes, name results.

Options are in _options/, printing in general in _output.py.
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
    """Yield the execution of a pass over a source, with progress bars; `what` labels that of rows."""
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
    from nysketch.sources.selection import notes_on_left_out

    for note in notes_on_left_out(source.left_out):
        log.info("%s", note)


def log_columns(basis: Basis) -> None:
    """Log what was made of each column, where there is more to say than that they are numbers."""
    from nysketch.sketches.columns_table import columns_table, lines_of

    if not basis.encoded:
        return
    log.info("columns, and their shares of the mean squared distance of two rows:")
    for line in lines_of(columns_table(basis)):
        log.info("  %s", line)


def log_skipped(problems: Iterable[object]) -> None:
    """Log which inputs --skip-unreadable skipped, and why."""
    for problem in problems:
        log.warning("skipped %s", problem)


def log_notes(notes: Iterable[str]) -> None:
    """Log the remarks on a result, each once even if it applies to many comparisons."""
    for note in dict.fromkeys(notes):
        log.warning("%s", note)


def columns_in_words(basis: Basis) -> str:
    """Return the number of features in words."""
    if basis.text:
        return "one text column"
    return f"{basis.d} feature{'s' if basis.d > 1 else ''}"


def landmarks_in_words(basis: Basis) -> str:
    """Return the number of landmarks, or of Fourier features, in words."""
    what = "Fourier feature" if basis.feature_map == "fourier" else "landmark"
    return f"{basis.m} {what}{'s' if basis.m > 1 else ''}"


def print_sketch(rows: int, output: Path, *, as_json: bool, quiet: bool, **more: object) -> None:
    """Print the name, rows and size of a new sketch; JSON gets `more`."""
    if as_json:
        _output.print_json({"bytes": output.stat().st_size, "output": str(output), "rows": rows, **more})
    elif not quiet:
        _output.echo(f"{output}: {rows:,} rows; {_output.size(output.stat().st_size)}")
