"""Sections of a report, but for those of models: drift, columns, quality, volume, runs, partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nysketch.nightly.store import Partition
from nysketch.reporting.charts import NARROW, WIDE, Series, bars, heat_map, lines, panels
from nysketch.reporting.contents import LATEST, Compared, Contents
from nysketch.reporting.drawing import Drawing, Path, Symbol
from nysketch.reporting.page import Section, Table, figure, folded, heading, key, paragraph, table
from nysketch.reporting.scales import count, number, plural, share, signed

# Kinds of comparisons with panels of their own; a job with more of them shows these.
_MOST_KINDS = 6
# The heat map: columns of the data downwards, partitions across.
_MOST_COLUMNS, _ACROSS_WIDE, _ACROSS_NARROW = 12, 16, 5
_MOST_ALARMS, _MOST_RUNS, _MOST_GROUPS = 8, 20, 30
# From here on a shift has the strongest colour; smaller ones would all look alike beside one of 20.
_STRONG_SHIFT = 2.0

_AGAINST = {
    "previous": "the partition before",
    "weekday": "the same weekday before",
    "reference": "the reference",
}
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


def against(kind: str) -> str:
    """Return what a kind of comparison compares with, in words."""
    return _AGAINST.get(kind, kind)


def _windowed(contents: Contents) -> str:
    total = len(contents.partitions)
    return f" The latest {LATEST} of {count(total)} partitions are shown." if total > LATEST else ""


def _described(values: Sequence[float | None], names: Sequence[str]) -> str:
    """Say in words what a line shows: its range and its end."""
    known = [(v, n) for v, n in zip(values, names, strict=True) if v is not None]
    if not known:
        return "There are no values."
    low, high, last = min(known), max(known), known[-1]
    return (
        f"{plural(len(known), 'value')} from {number(low[0])} ({low[1]}) to {number(high[0])} ({high[1]}); "
        f"the last one, of {last[1]}, is {number(last[0])}."
    )


# ---- drift --------------------------------------------------------------------------------------------


def drift(contents: Contents) -> Section:
    """How far each partition is from those it is compared with."""
    section = Section("drift", "Drift")
    names = [p.name for p in contents.latest]
    kinds = contents.kinds()
    shown: dict[str, list[Compared | None]] = {}
    for kind in kinds[:_MOST_KINDS]:
        by_name = {
            n: next((c for c in contents.compared.get(n, []) if c.against == kind), None) for n in names
        }
        if any(by_name.values()):
            shown[kind] = list(by_name.values())
    if not shown:
        words = "Nothing was compared yet: there is no other partition, or the job asks for no comparisons."
        section.body.append(paragraph(words))
        return section
    section.body.append(
        paragraph(
            "How far the rows of each partition are from others (maximum mean discrepancy, MMD). "
            "Above the threshold, the difference is more than chance." + _windowed(contents),
            "about",
        )
    )
    if len(kinds) > _MOST_KINDS:
        section.body.append(paragraph(f"Not shown: {', '.join(map(against, kinds[_MOST_KINDS:]))}.", "about"))
    series = [_series_of(kind, found, names, i) for i, (kind, found) in enumerate(shown.items())]
    description = " ".join(
        f"Against {against(kind)}: {_described(one.values, names)} {plural(sum(one.alarms), 'alarm')}."
        for kind, one in zip(shown, series, strict=True)
    )
    wide, narrow = (
        panels(names, series, title="Drift over time", description=description, width=width)
        for width in (WIDE, NARROW)
    )
    section.body.append(
        figure("drift-picture", wide, narrow, key=_drift_key(), numbers=_drift_table(contents, names, kinds))
    )
    section.body += _alarm_list(contents, names)
    return section


def _series_of(kind: str, found: list[Compared | None], names: list[str], colour: int) -> Series:
    return Series(
        f"MMD to {against(kind)}",
        [None if c is None else c.mmd for c in found],
        [None if c is None else c.standard_error for c in found],
        [None if c is None else c.threshold for c in found],
        [c is not None and c.rejected for c in found],
        colour,
        ["" if c is None else _note(name, c) for name, c in zip(names, found, strict=True)],
    )


def _note(name: str, c: Compared) -> str:
    alarm = ", ALARM" if c.rejected else ""
    error = number(c.standard_error, 2)
    return f"{name} against {c.other}: MMD {number(c.mmd)} ± {error}, threshold {number(c.threshold)}{alarm}"


def _drift_key() -> str:
    def drawn(*marks: Path | Symbol) -> Drawing:
        return Drawing(22, 16, "", "", list(marks))

    return key(
        [
            (
                drawn(Path(((11, 1), (11, 15)), "error0"), Symbol(11, 8, 4, "circle", "point0")),
                "MMD, and its standard error up and down",
            ),
            (drawn(Path(((1, 8), (21, 8)), "threshold")), "threshold of the test"),
            (drawn(Symbol(11, 8, 6, "diamond", "alarm")), "alarm"),
        ]
    )


def _drift_table(contents: Contents, names: list[str], kinds: list[str]) -> Table:
    rows = [
        [
            name,
            c.against,
            c.other,
            number(c.mmd),
            number(c.standard_error, 2),
            number(c.threshold),
            number(c.p_value, 2),
            "ALARM" if c.rejected else "",
        ]
        for name in reversed(names)
        for c in contents.compared.get(name, [])
        if c.against in kinds[:_MOST_KINDS]
    ]
    header = ["partition", "kind", "compared with", "MMD", "± error", "threshold", "p-value", "alarm"]
    return Table(header, rows, (0, 1, 2, 7))


def _alarm_list(contents: Contents, names: list[str]) -> list[str]:
    alarms = [(name, one) for name in reversed(names) for one in contents.alarms(name)]
    if not alarms:
        return []
    rows = []
    for name, one in alarms[:_MOST_ALARMS]:
        moved = ", ".join(f"{c.name} {signed(c.shift)}" for c in one.columns[:3])
        notes = " ".join([one.verdict or "", *one.notes[:2]]).strip()
        rows.append([name, f"{one.other} ({one.against})", number(one.mmd), moved or "–", notes])
    words = "Latest alarms" if len(alarms) > _MOST_ALARMS else "Alarms"
    header = ["partition", "differs from", "MMD", "moved most (standard deviations)", "remarks"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    content = Table(header, rows, (0, 1, 3), 4)
    return [heading(words), table(content, words)]


# ---- columns ------------------------------------------------------------------------------------------


def columns(contents: Contents) -> Section:
    """Which columns moved, for every kind of comparison."""
    section = Section("columns", "Which columns moved")
    for number_of_kind, kind in enumerate(contents.kinds()[:_MOST_KINDS]):
        found = [
            (p.name, one)
            for p in contents.latest
            for one in contents.compared.get(p.name, [])
            if one.against == kind and one.columns
        ][-_ACROSS_WIDE:]
        if found:
            section.body += _moved(kind, found, number_of_kind)
    about = (
        "How far the mean of each column moved, in its standard deviations: + and orange for up, − and blue "
        f"for down, strongest from {_STRONG_SHIFT:g} on. Columns that moved most come first."
    )
    if section.body:
        section.body.insert(0, paragraph(about, "about"))
    else:
        section.body.append(paragraph("No comparison tells which columns moved."))
    return section


def _moved(kind: str, found: list[tuple[str, Compared]], which: int) -> list[str]:
    largest: dict[str, float] = {}
    for _, one in found:
        for column in one.columns:
            largest[column.name] = max(largest.get(column.name, 0.0), abs(column.shift))
    names = sorted(largest, key=lambda name: (-largest[name], name))[:_MOST_COLUMNS]
    shifts = [{c.name: c for c in one.columns} for _, one in found]
    title = f"Shifts of columns against {against(kind)}"
    newest = found[-1][1]
    description = (
        f"Of {found[-1][0]} against {newest.other}: "
        + ", ".join(f"{c.name} {signed(c.shift)}" for c in newest.columns[:8])
        + " standard deviations."
    )
    wide, narrow = (
        heat_map(
            names,
            [name for name, _ in found[-across:]],
            [[s[name].shift if name in s else None for s in shifts[-across:]] for name in names],
            title=title,
            description=description,
            words=signed,
            width=width,
            largest=_STRONG_SHIFT,
        )
        for width, across in ((WIDE, _ACROSS_WIDE), (NARROW, _ACROSS_NARROW))
    )
    rows = [
        [partition, one.other, c.name, signed(c.shift), number(c.error, 2)]
        for partition, one in reversed(found)
        for c in one.columns[:_MOST_COLUMNS]
    ]
    header = ["partition", "compared with", "column", "shift (standard deviations)", "± error"]
    left_out = len(largest) - len(names)
    caption = f"{plural(left_out, 'column')} moved less and are left out." if left_out > 0 else ""
    return [
        heading(f"Against {against(kind)}"),
        figure(f"columns-{which}", wide, narrow, caption=caption, numbers=Table(header, rows, (0, 1, 2))),
    ]


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
        section.body.append(
            paragraph("The quality of these sketches was not measured: they hold no sampled rows.")
        )
        return section
    about = (
        "Kernel values as features tell them differ by this much from the kernel."
        if fourier
        else "Landmarks are enough as long as the projection error, which is theirs, stays below the "
        "sampling error, which so many rows have in any case. When it rises, the basis no longer covers them."
    )
    section.body.append(paragraph(about + _windowed(contents), "about"))
    advice = measured[-1].get("advice")
    if isinstance(advice, list) and advice:
        section.body.append(paragraph(f"{names[-1]}: {' '.join(map(str, advice))}"))
    description = " ".join(f"{one.name}: {_described(one.values, names)}" for one in series)
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
                  + _windowed(contents), "about")
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
            description=_described(values, names),
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
        section.body.append(paragraph("The history of runs is empty."))
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
    section.body.append(table(Table(header, rows, (0, 2), 8), "Runs"))
    return section


def started(run: dict[str, Any]) -> str:
    """Return when a run started, so that a line can break between day and time."""
    return str(run.get("started", "–")).replace("T", " ", 1)


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
    """Return the errors of a run as text."""
    found = run.get("errors")
    return [str(error) for error in found] if isinstance(found, list) else []


def _seconds(value: Any) -> str:
    return f"{number(float(value))} s" if isinstance(value, int | float) else "–"


def partitions(contents: Contents) -> Section:
    """All partitions: the latest one by one, older ones in groups."""
    section = Section("partitions", "Partitions")
    if not contents.partitions:
        section.body.append(paragraph("There are none."))
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
    older = contents.partitions[:-LATEST]
    if older:
        section.body.append(heading("Older ones"))
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
