"""Output for people and programs: tables, JSON, progress bars, log lines.

Results go to stdout, everything else to stderr; control codes only where stderr is a terminal, and never
those of a column's or file's name.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from nysketch._support import streams
from nysketch._support.notices import NOTICE
from nysketch.errors import in_shell, json_in_shell

SCHEMA_VERSION = 1


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        prefix = "" if level == "info" else f"{level}: "
        return printable(f"nysketch: {prefix}{in_shell(record.getMessage())}")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"level": _level(record), "message": in_shell(record.getMessage())}
        line |= json_in_shell(getattr(record, "fields", {}))
        return json.dumps(line, sort_keys=True)


def _level(record: logging.LogRecord) -> str:
    return "info" if record.levelno == NOTICE else record.levelname.lower()


class _StderrHandler(logging.Handler):
    """Writes above a progress bar, not through it."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        with tqdm.external_write_mode(file=sys.stderr):
            streams.say(self.format(record))


def set_up_logging(*, quiet: bool, verbose: bool, log_format: str) -> None:
    """Send the log to stderr: warnings only if quiet, everything if verbose."""
    log = logging.getLogger("nysketch")
    log.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)
    handler = _StderrHandler()
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    log.handlers = [handler]
    log.propagate = False


def logging_is_set_up() -> bool:
    """Tell whether the log goes to stderr already."""
    return any(isinstance(handler, _StderrHandler) for handler in logging.getLogger("nysketch").handlers)


def printable(text: str) -> str:
    """Escape control codes: names come from files, and files from anybody."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def echo(line: str) -> None:
    """Print one line of results."""
    click.echo(printable(line))


def echo_message(message: str) -> None:
    """Print a sentence of the library as a line of results, options spelled as flags."""
    echo(in_shell(message))


def print_json(result: dict[str, Any]) -> None:
    """Print one object, keys sorted, with the version of its schema."""
    spelled = json_in_shell({"schema_version": SCHEMA_VERSION, **result})
    click.echo(json.dumps(spelled, sort_keys=True, allow_nan=False))


def print_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """Print names and values as two aligned columns."""
    rows = [(name, str(value)) for name, value in fields]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        echo(f"{name:<{width}}  {value}")


def print_table(header: list[str], rows: list[list[str]], *, words: tuple[int, ...] = ()) -> None:
    """Print a table; all columns but the first are numbers, unless they are named as `words`."""
    rows = [[printable(cell) for cell in row] for row in rows]  # as wide as they will be
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    left = {0, *words}
    for row in [header, *rows]:
        cells = [
            f"{c:<{w}}" if i in left else f"{c:>{w}}"
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        echo("  " + "  ".join(cells).rstrip())


# How much of the clusters of columns with kinds is printed.
_MOST_CLUSTERS, _MOST_COLUMNS = 20, 20


def print_clusters(clusters: list[dict[str, Any]], noun: str) -> None:
    """Print what the rows of each cluster have in each column, as models/present.py found it."""
    from nysketch.models.present import in_words

    for cluster in clusters[:_MOST_CLUSTERS]:
        echo("")
        echo(f"{noun} {cluster['cluster']}, {cluster['share']:.1%} of the rows")
        columns = cluster["columns"][:_MOST_COLUMNS]
        width = max(len(column["name"]) for column in columns)
        for column in columns:
            echo(f"  {column['name']:<{width}}  {in_words(column)}")
    counts = (
        (len(clusters) - _MOST_CLUSTERS, f"{noun}s"),
        (len(clusters[0]["columns"]) - _MOST_COLUMNS, "columns"),
    )
    more = [f"{count:,} more {what}" for count, what in counts if count > 0]
    if more:
        echo(f"  … {' and '.join(more)}: see --json")


def size(count: int) -> str:
    """Return a number of bytes for people."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


@contextmanager
def progress_bar(label: str, unit: str, *, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a callback (done, total) that draws a bar with rate and time left, on terminals only."""
    from tqdm import tqdm

    bar: Any = None

    def update(done: int, total: int | None) -> None:
        nonlocal bar
        if bar is None:
            # Rows of a resumed pass were not read now: they must not count as speed.
            bar = tqdm(
                desc=label,
                total=total,
                initial=done,
                unit=unit,
                unit_scale=True,
                file=sys.stderr,
                leave=False,
                disable=quiet or not sys.stderr.isatty(),
                # A terminal that does not know its width would get no bar at all.
                ncols=None if shutil.get_terminal_size((0, 0)).columns else 80,
                dynamic_ncols=shutil.get_terminal_size((0, 0)).columns > 0,
            )
        bar.update(done - bar.n)
        if done == total:
            bar.close()  # the next bar takes its place
            bar = None

    try:
        yield update
    finally:
        if bar is not None:
            bar.close()
