"""Sections of a report on drift: how far partitions are from others, and which columns moved."""

from __future__ import annotations

from nysketch.plotting.charts import NARROW, WIDE, Series, heat_map, panels
from nysketch.plotting.drawing import Drawing, Path, Symbol
from nysketch.plotting.scales import number, plural, signed
from nysketch.report.contents import Compared, Contents, Moved
from nysketch.report.html import Section, Table, figure, heading, key, paragraph, table
from nysketch.report.sections.partitions import described, windowed

# Kinds of comparisons with panels of their own; a job with more of them shows these.
_MOST_KINDS = 6
# The heat map: columns of the data downwards, partitions across.
_MOST_COLUMNS, _ACROSS_WIDE, _ACROSS_NARROW = 12, 16, 5
_MOST_ALARMS = 8
# The largest shift shown has the strongest colour, but not if it is less or more than these.
_WEAKEST, _STRONGEST = 0.5, 2.0
_LONGEST_REMARK = 160


def drift(contents: Contents) -> Section:
    """How far each partition is from those it is compared with."""
    section = Section("drift", "Drift")
    names = [p.name for p in contents.latest]
    kinds = contents.kinds()
    shown: dict[str, list[Compared | None]] = {}
    for kind in list(kinds)[:_MOST_KINDS]:
        by_name = {n: next((c for c in contents.compared.get(n, []) if c.name == kind), None) for n in names}
        if any(by_name.values()):
            shown[kind] = list(by_name.values())
    if not shown:
        words = "No comparisons yet: there is only one partition, or the job defines none."
        section.body.append(paragraph(words))
        return section
    section.body.append(
        paragraph(
            "Distance of each partition to others (maximum mean discrepancy, MMD). Above the threshold, the "
            "difference is significant and at least as large as the job requires." + windowed(contents),
            "about",
        )
    )
    if len(kinds) > _MOST_KINDS:
        section.body.append(
            paragraph(f"Not shown: {', '.join(list(kinds.values())[_MOST_KINDS:])}.", "about")
        )
    series = [_series_of(kinds[kind], found, names, i) for i, (kind, found) in enumerate(shown.items())]
    description = " ".join(
        f"Against {kinds[kind]}: {described(one.values, names)} {plural(sum(one.alarms), 'alarm')}."
        for kind, one in zip(shown, series, strict=True)
    )
    wide, narrow = (
        panels(names, series, title="Drift over time", description=description, width=width)
        for width in (WIDE, NARROW)
    )
    section.body.append(
        figure(
            "drift-picture", wide, narrow, key=_drift_key(), numbers=_drift_table(contents, names, set(shown))
        )
    )
    section.body += _alarm_list(contents, names)
    return section


def _series_of(label: str, found: list[Compared | None], names: list[str], colour: int) -> Series:
    return Series(
        f"MMD to {label}",
        [None if c is None else c.mmd for c in found],
        [None if c is None else c.standard_error for c in found],
        [None if c is None else c.threshold for c in found],
        [c is not None and c.alarm for c in found],
        colour,
        ["" if c is None else _note(name, c) for name, c in zip(names, found, strict=True)],
    )


def _note(name: str, c: Compared) -> str:
    alarm = ", ALARM" if c.alarm else ""
    error = number(c.standard_error, 2)
    return f"{name} against {c.other}: MMD {number(c.mmd)} ± {error}, threshold {number(c.threshold)}{alarm}"


def _drift_key() -> str:
    def drawn(*marks: Path | Symbol) -> Drawing:
        return Drawing(22, 16, "", "", list(marks))

    return key(
        [
            (
                drawn(Path(((11, 1), (11, 15)), "error0"), Symbol(11, 8, 4, "circle", "point0")),
                "MMD ± its standard error",
            ),
            (
                drawn(Path(((1, 8), (21, 8)), "threshold")),
                "threshold: of the test, or at_least of the job",
            ),
            (drawn(Symbol(11, 8, 6, "diamond", "alarm")), "alarm"),
        ]
    )


def _drift_table(contents: Contents, names: list[str], kinds: set[str]) -> Table:
    rows = [
        [
            name,
            c.name,
            c.other,
            number(c.mmd),
            number(c.standard_error, 2),
            number(c.threshold),
            number(c.p_value, 2),
            "ALARM" if c.alarm else "",
        ]
        for name in reversed(names)
        for c in contents.compared.get(name, [])
        if c.name in kinds
    ]
    header = ["partition", "comparison", "compared with", "MMD", "± error", "threshold", "p-value", "alarm"]
    return Table(header, rows, (0, 1, 2, 7))


def _alarm_list(contents: Contents, names: list[str]) -> list[str]:
    alarms = [(name, one) for name in reversed(names) for one in contents.alarms(name)]
    if not alarms:
        return []
    rows = []
    for name, one in alarms[:_MOST_ALARMS]:
        moved = _largest(one.columns[:3])
        notes = ": ".join([one.verdict or "", *one.notes[:1]]).strip(": ")
        notes = notes if len(notes) <= _LONGEST_REMARK else notes[:_LONGEST_REMARK].rstrip() + "…"
        rows.append([name, f"{one.other} ({one.name})", number(one.mmd), moved or "–", notes])
    words = "Latest alarms" if len(alarms) > _MOST_ALARMS else "Alarms"
    header = ["partition", "differs from", "MMD", "largest shifts (standard deviations)", "remarks"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    content = Table(header, rows, (0, 1), (3, 4))
    return [heading(words), table(content, words)]


def _largest(columns: list[Moved]) -> str:
    """Say how far columns moved, and of categories and times what moved."""
    if any(c.words for c in columns):
        return "; ".join(
            f"{c.name}: {c.words}" if c.words else f"{c.name} {signed(c.shift)}" for c in columns
        )
    return ", ".join(f"{c.name} {signed(c.shift)}" for c in columns)


def columns(contents: Contents) -> Section:
    """Which columns moved, for every kind of comparison."""
    section = Section("columns", "Column shifts")
    for which, (kind, label) in enumerate(list(contents.kinds().items())[:_MOST_KINDS]):
        found = [
            (p.name, one)
            for p in contents.latest
            for one in contents.compared.get(p.name, [])
            if one.name == kind and one.columns
        ][-_ACROSS_WIDE:]
        if found:
            section.body += _moved(label, found, which)
    about = (
        "Shift of the mean of each column, in standard deviations: + and orange for up, − and blue for "
        "down. Largest shifts first."
    )
    if any(c.words for found in contents.compared.values() for one in found for c in one.columns):
        about += " Of categories and times, which have no sign: the distance of their means."
    if section.body:
        section.body.insert(0, paragraph(about, "about"))
    else:
        section.body.append(paragraph("No comparison has column shifts."))
    return section


def _moved(label: str, found: list[tuple[str, Compared]], which: int) -> list[str]:
    largest: dict[str, float] = {}
    for _, one in found:
        for column in one.columns:
            largest[column.name] = max(largest.get(column.name, 0.0), abs(column.shift or 0.0))
    names = sorted(largest, key=lambda name: (-largest[name], name))[:_MOST_COLUMNS]
    shifts = [{c.name: c for c in one.columns} for _, one in found]
    title = f"Column shifts against {label}"
    newest = found[-1][1]
    description = (
        f"{found[-1][0]} against {newest.other}: "
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
            largest=min(max([*largest.values(), _WEAKEST]), _STRONGEST),
        )
        for width, across in ((WIDE, _ACROSS_WIDE), (NARROW, _ACROSS_NARROW))
    )
    rows = [
        [partition, one.other, c.name, signed(c.shift), number(c.error, 2), c.words or ""]
        for partition, one in reversed(found)
        for c in one.columns[:_MOST_COLUMNS]
    ]
    header = ["partition", "compared with", "column", "shift (standard deviations)", "± error", "what moved"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    left_out = len(largest) - len(names)
    caption = f"{plural(left_out, 'column')} with smaller shifts not shown." if left_out > 0 else ""
    return [
        heading(f"Against {label}"),
        figure(f"columns-{which}", wide, narrow, caption=caption, numbers=Table(header, rows, (0, 1, 2, 5))),
    ]
