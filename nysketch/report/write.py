"""A store as one HTML file: the sentence that says what happened, and sections with what is behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nysketch import __version__
from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch.errors import UsageError
from nysketch.jobs.store import Store
from nysketch.plotting.scales import count, number, plural, signed
from nysketch.plotting.svg import text
from nysketch.report.contents import Compared, Contents, read_contents
from nysketch.report.html import page
from nysketch.report.sections import partitions
from nysketch.report.sections.drift import columns, drift
from nysketch.report.sections.map import landmarks
from nysketch.report.sections.models import models
from nysketch.report.sections.partitions import errors_of, exit_code, started

_SUFFIXES = (".html", ".htm")
# A store that lost thousands of files has one problem, not thousands.
_MOST_PROBLEMS = 10


@dataclass(frozen=True)
class Report:
    """What a report says, in short."""

    headline: str
    partitions: int
    rows: int
    dropped_rows: int
    newest: str | None
    alarms: int  # of the newest partition
    problems: list[str]
    bytes: int

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return dict(vars(self))


def write_report(store: Store | str | Path, output: str | Path, *, overwrite: bool = True) -> Report:
    """Write the report on a store; the same store gives the same bytes.

    An older report is replaced: it was made from the same store, and can be made again.
    """
    output = Path(output)
    if output.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{output}: a report is an HTML file; end its name in .html")
    store = store if isinstance(store, Store) else Store.open(store)
    with claimed(output, inputs=[store.path], overwrite=overwrite):
        contents = read_contents(store)
        content = render(contents).encode()
        with atomic_file(output) as file:
            file.write(content)
    newest = contents.newest
    return Report(
        headline(contents),
        len(contents.partitions),
        sum(p.rows for p in contents.partitions),
        sum(p.dropped_rows for p in contents.partitions),
        None if newest is None else newest.name,
        0 if newest is None else len(contents.alarms(newest.name)),
        contents.problems,
        len(content),
    )


def render(contents: Contents) -> str:
    """Return the page."""
    newest = contents.newest
    quiet = not contents.problems and not _trouble(contents)
    quiet = quiet and (newest is None or not contents.alarms(newest.name))
    parts = [
        drift(contents),
        columns(contents),
        models(contents),
        landmarks(contents),
        partitions.volume(contents),
        partitions.quality(contents),
        partitions.runs(contents),
        partitions.partitions(contents),
    ]
    if newest is None:
        parts = parts[-2:]
    return page(
        contents.name,
        headline(contents),
        quiet=quiet,
        top=[*_notices(contents), _tiles(contents)],
        sections=parts,
        foot=f"Made from the sketches of this store by nysketch {__version__}; no row of the data was read. "
        "Symbols of maps show their numbers when pointed at, and every picture has its numbers below it.",
    )


def headline(contents: Contents) -> str:
    """Say in one sentence what the newest partition brought."""
    newest = contents.newest
    if newest is None:
        return "There are no partitions yet."
    dropped = f" ({count(newest.dropped_rows)} more were dropped)" if newest.dropped_rows else ""
    brought = f"{newest.name} brought {plural(newest.rows, 'row')}{dropped}"
    compared, alarms = contents.compared.get(newest.name, []), contents.alarms(newest.name)
    if not compared:
        return f"{brought}; it was compared with nothing."
    if not alarms:
        return f"{brought} and no alarms: it looks like {_named(compared)}."
    moved = [(abs(c.shift), c.shift, c.name) for one in alarms for c in one.columns if c.shift is not None]
    most = f"; {max(moved)[2]} moved most, by {signed(max(moved)[1])} standard deviations" if moved else ""
    return f"{brought} and {plural(len(alarms), 'alarm')}: it differs from {_named(alarms)}{most}."


def _named(compared: list[Compared]) -> str:
    names = [f"{one.other} ({one.label})" for one in compared[:4]]
    more = [f"{len(compared) - 4} more"] if len(compared) > 4 else []
    *first, last = [*names, *more]
    return f"{', '.join(first)} and {last}" if first else last


def _trouble(contents: Contents) -> list[str]:
    """Return what went wrong in the last run; an alarm is no trouble of its own."""
    if not contents.history:
        return []
    run = contents.history[-1]
    errors = errors_of(run)
    if errors or run.get("exit_code") not in (0, 7, None):
        return [f"The last run ({started(run)}) ended with "
                f"{exit_code(run)}.", *errors]  # fmt: skip
    return []


def _notices(contents: Contents) -> list[str]:
    found = []
    for title, lines in (
        ("The last run had trouble", _trouble(contents)),
        ("Parts of the store cannot be read", contents.problems),
    ):
        if lines:
            shown = lines[:_MOST_PROBLEMS]
            if len(lines) > len(shown):
                shown = [*shown, f"and {count(len(lines) - len(shown))} more"]
            items = "".join(f"<li>{text(line)}</li>" for line in shown)
            found.append(f'<div class="notice" role="note"><strong>{title}</strong><ul>{items}</ul></div>')
    return found


def _tiles(contents: Contents) -> str:
    partitions, newest = contents.partitions, contents.newest
    tiles = [("Partitions", count(len(partitions)), f"since {partitions[0].name}" if partitions else "")]
    if newest is not None:
        rows = sum(p.rows for p in partitions)
        usual = rows / len(partitions)
        alarms = [p.name for p in partitions if contents.alarms(p.name)]
        now = len(contents.alarms(newest.name))
        ever = (
            f"{plural(len(alarms), 'partition')} so far, {alarms[-1]} the last" if alarms else "none so far"
        )
        tiles += [
            ("Rows, newest", count(newest.rows), f"{number(usual)} on average"),
            ("Rows in all", count(rows), f"{count(sum(p.dropped_rows for p in partitions))} dropped"),
            ("Alarms, newest", f"◆ {now}" if now else "0", ever),
        ]
    if contents.history:
        run = contents.history[-1]
        tiles.append(("Last run", exit_code(run), started(run)))
    items = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}<small>{text(about)}</small></dd></div>"
        for name, value, about in tiles
    )
    return f'<dl class="tiles">{items}</dl>'
