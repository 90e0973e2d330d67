"""Sections of a report on the partitions themselves: rows, quality, runs, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nysketch.jobs.store import Partition
from nysketch.plotting.charts import NARROW, WIDE, Series, bars, lines
from nysketch.plotting.scales import count, number, plural, share
from nysketch.report.contents import LATEST, Contents
from nysketch.report.html import Section, Table, figure, folded, heading, paragraph, table

_MOST_RUNS, _MOST_GROUPS = 20, 30

_EXIT_CODES = {
    0: "done",
    1: "failure",
    2: "usage",
    3: "input unreadable",
    4: "incompatible",
    5: "corrupt file",
    6: "inputs skipped",
    7: "alarm",
    75: "locked",
    130: "interrupted",
    143: "terminated",
}


def windowed(contents: Contents) -> str:
    """Say that only the latest partitions are shown, if so."""
    total = len(contents.partitions)
    return f" The latest {LATEST} of {count(total)} partitions are shown." if total > LATEST else ""


def described(values: Sequence[float | None], names: Sequence[str]) -> str:
    """Say in words what a line shows: its range and its end."""
    known = [(v, n) for v, n in zip(values, names, strict=True) if v is not None]
    if not known:
        return "No values."
    low, high, last = min(known), max(known), known[-1]
    return (
        f"{plural(len(known), 'value')} from {number(low[0])} ({low[1]}) to {number(high[0])} ({high[1]}); "
        f"latest {number(last[0])} ({last[1]})."
    )


# ---- quality and volume -------------------------------------------------------------------------------


def quality(contents: Contents) -> Section:
    """Whether the landmarks are still good enough for the rows."""
    section = Section("quality", "Sketch quality")
    names = [p.name for p in contents.latest]
    measured = [p.quality if isinstance(p.quality, dict) else {} for p in contents.latest]

    def values(fact: str) -> list[float | None]:
        found = (q.get(fact) for q in measured)
        return [float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in found]

    fourier = any("kernel_error" in q for q in measured)
    wanted = (
        [("kernel error", "kernel_error")]
        if fourier
        else [("projection error", "projection_error"), ("sampling error", "sampling_error")]
    )
    series = [Series(name, values(fact), colour=i) for i, (name, fact) in enumerate(wanted)]
    if not any(v is not None for one in series for v in one.values):
        section.body.append(paragraph("Quality was not measured: these sketches have no sampled rows."))
        return section
    about = (
        "Root mean square error of kernel values computed from the features."
        if fourier
        else "There are enough landmarks while their projection error stays below the sampling error of the "
        "rows. If it rises, the basis no longer covers the data."
    )
    section.body.append(paragraph(about + windowed(contents), "about"))
    advice = measured[-1].get("advice")
    if isinstance(advice, list) and advice:
        section.body.append(paragraph(f"{names[-1]}: {' '.join(map(str, advice))}"))
    description = " ".join(f"{one.name}: {described(one.values, names)}" for one in series)
    wide, narrow = (
        lines(names, named, title="Quality over time", description=description, width=width, height=190)
        for width, named in ((WIDE, series), (NARROW, [_first_word(one) for one in series]))
    )
    facts = [*wanted, ("mean residual", "mean_residual")]
    every = [values(fact) for _, fact in facts]
    rows = [[names[i], *(number(column[i]) for column in every)] for i in range(len(names) - 1, -1, -1)]
    numbers = Table(["partition", *(name for name, _ in facts)], rows)
    section.body.append(figure("quality-picture", wide, narrow, numbers=numbers))
    return section


def _first_word(one: Series) -> Series:
    return replace(one, name=one.name.split()[0])


def volume(contents: Contents) -> Section:
    """How many rows came, and how many of them were dropped."""
    section = Section("volume", "Rows")
    latest = contents.latest
    names = [p.name for p in latest]
    rows, dropped = sum(p.rows for p in contents.partitions), sum(p.dropped_rows for p in contents.partitions)
    lost = f"{share(dropped / (rows + dropped))} were dropped." if dropped else "None were dropped."
    section.body.append(
        paragraph(f"{count(rows)} rows in {plural(len(contents.partitions), 'partition')}. {lost}"
                  + windowed(contents), "about")
    )  # fmt: skip
    section.body.append(_bars("rows", "Rows", names, [float(p.rows) for p in latest], latest, 0))
    if any(p.dropped_rows for p in latest):
        values = [float(p.dropped_rows) for p in latest]
        section.body.append(_bars("dropped", "Dropped rows", names, values, latest, 1))
    table_rows = [
        [
            p.name,
            count(p.rows),
            count(p.dropped_rows),
            share(p.dropped_rows / max(p.rows + p.dropped_rows, 1)),
        ]
        for p in reversed(latest)
    ]
    section.body.append(folded("The numbers", Table(["partition", "rows", "dropped", "share"], table_rows)))
    return section


def _bars(
    name: str, label: str, names: list[str], values: list[float], latest: Sequence[Partition], colour: int
) -> str:
    notes = [f"{p.name}: {count(p.rows)} rows, {count(p.dropped_rows)} dropped" for p in latest]
    wide, narrow = (
        bars(
            names,
            values,
            title=f"{label} per partition",
            description=described(values, names),
            notes=notes,
            colour=colour,
            label=label,
            width=width,
            height=130 if colour == 0 else 80,
        )
        for width in (WIDE, NARROW)
    )
    return figure(f"volume-{name}", wide, narrow)


# ---- tables -------------------------------------------------------------------------------------------


def runs(contents: Contents) -> Section:
    """What the latest runs did."""
    section = Section("runs", "Runs")
    if not contents.history:
        section.body.append(paragraph("No runs yet."))
        return section
    latest = contents.history[-_MOST_RUNS:][::-1]
    rows = [
        [
            started(run),
            _seconds(run.get("seconds")),
            exit_code(run),
            *(count(size_of(run.get(what))) for what in ("new", "changed", "removed")),
            count(size_of(run.get("rows"))),
            count(size_of(run.get("alarms"))),
            "; ".join(errors_of(run)[:3]),
        ]
        for run in latest
    ]
    header = ["started", "took", "ended", "new", "changed", "removed", "rows", "alarms", "errors"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    if len(contents.history) > len(latest):
        words = f"The latest {len(latest)} of {count(len(contents.history))} runs."
        section.body.append(paragraph(words, "about"))
    section.body.append(table(Table(header, rows, (0, 2), (8,)), "Runs"))
    return section


def started(run: dict[str, Any]) -> str:
    """Return when a run started, so that a line can break between day and time."""
    return str(run.get("started", "–")).replace("T", " ", 1).replace("+00:00", "Z")


def exit_code(run: dict[str, Any]) -> str:
    """Return how a run ended, in words."""
    code = run.get("exit_code")
    known = _EXIT_CODES.get(code) if isinstance(code, int) else None
    return f"{known} ({code})" if known else str("–" if code is None else code)


def size_of(value: Any) -> int:
    """Return a count that is one, or the length of a list of things."""
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def errors_of(run: dict[str, Any]) -> list[str]:
    """Return the errors of a run, and the inputs that it skipped, as text."""
    errors, skipped = run.get("errors"), run.get("skipped")
    found = [str(error) for error in errors] if isinstance(errors, list) else []
    if isinstance(skipped, dict):
        found += [f"skipped: {name}: {why}" for name, why in sorted(skipped.items())]
    return found


def _seconds(value: Any) -> str:
    return f"{number(float(value))} s" if isinstance(value, int | float) else "–"


def partitions(contents: Contents) -> Section:
    """All partitions: the latest one by one, older ones in groups."""
    section = Section("partitions", "Partitions")
    if not contents.partitions:
        section.body.append(paragraph("No partitions yet."))
        return section
    rows = [
        [
            p.name,
            count(p.rows),
            count(p.dropped_rows),
            str(len(p.inputs)),
            str(len(contents.alarms(p.name)) or ""),
        ]
        for p in reversed(contents.latest)
    ]
    section.body.append(table(Table(["partition", "rows", "dropped", "files", "alarms"], rows), "Partitions"))
    if contents.retired:
        words = f"{plural(contents.retired, 'partition')} before these were retired."
        section.body.append(paragraph(words, "about"))
    older = contents.partitions[:-LATEST]
    if older:
        section.body.append(heading("Older partitions"))
        section.body.append(table(_groups(contents, older), "Older partitions"))
    return section


def _groups(contents: Contents, older: Sequence[Partition]) -> Table:
    step = -(-len(older) // _MOST_GROUPS)
    rows = []
    for start in range(0, len(older), step):
        group = older[start : start + step]
        distances = [c.mmd for p in group for c in contents.compared.get(p.name, []) if c.mmd is not None]
        rows.append(
            [
                group[0].name if len(group) == 1 else f"{group[0].name} … {group[-1].name}",
                count(len(group)),
                count(sum(p.rows for p in group)),
                count(sum(p.dropped_rows for p in group)),
                str(sum(len(contents.alarms(p.name)) for p in group)),
                number(max(distances)) if distances else "–",
            ]
        )
    header = ["from … to", "partitions", "rows", "dropped", "alarms", "largest MMD"]
    return Table(header, rows[::-1])
