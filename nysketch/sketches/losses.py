"""Rows that were dropped: which columns cost them, and what would be left without these. And unknown values.

Counts by column are kept by accumulators/dropped.py and accumulators/unknown.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from nysketch._support.html_repr import counted
from nysketch._support.notices import log, notice
from nysketch.accumulators.dropped import ROW_WEIGHTS, DroppedRows
from nysketch.accumulators.unknown import UnknownValues
from nysketch.basis.base import Basis
from nysketch.errors import option
from nysketch.sketches.sketch import Sketch

# Beyond this share, the rows that are left may well be unlike the others.
_MANY = 0.1
# Columns to name.
_NAMED = 3
_REASSURING = "Enough landmarks"


def many_dropped(thing: Sketch | Basis) -> bool:
    """Tell whether more than a tenth of the rows were dropped, or of those that a basis was made from."""
    if isinstance(thing, Basis):
        found = thing.origin.get("pilot_dropped", {"dropped": 0, "rows": 1})
        return _are_many(found["dropped"], found["rows"])
    return _are_many(thing.dropped_rows, thing.rows)


def _are_many(dropped: int, rows: int) -> bool:
    return dropped > _MANY * (dropped + rows)


def say_losses(sketch: Sketch) -> None:
    """Say that rows were dropped, if any were: with a warning if they are many."""
    found = sketch.tally[DroppedRows]
    if many_dropped(sketch):
        log.warning("%s", loss_in_words(found, sketch.rows, sketch.basis))
    elif found.count:
        notice("%s", dropped_in_words(found.count, sketch.rows))
    for note in notes_on_unknown(sketch):
        log.warning("%s", note)


def notes_on_losses(sketch: Sketch) -> list[str]:
    """Say which columns cost most of the rows that were dropped, if they are many; and what is unknown."""
    unknown = notes_on_unknown(sketch)
    if not many_dropped(sketch):
        return unknown
    return [loss_in_words(sketch.tally[DroppedRows], sketch.rows, sketch.basis), *unknown]


def notes_on_unknown(sketch: Sketch) -> list[str]:
    """Say which columns have missing or unseen values that the pilot did not have, or many unseen ones."""
    counts = sketch.tally.get(UnknownValues)
    if counts is None or not counts.some:
        return []
    then, rows = sketch.basis.origin.get("pilot_unknown", {}), sketch.rows
    new: dict[str, list[str]] = {"missing": [], "unseen": []}
    many = []
    for name, found in counts.by_column(sketch.basis).items():
        for what, count in found.items():
            told = f"{name!r} in {counted(count, 'row')} ({100 * count / max(rows, 1):.2g} %)"
            before = then.get(name, {}).get(what, 0) / max(sketch.basis.origin.get("pilot_rows", 0), 1)
            if what == "unseen" and count > _MANY * rows:
                # Where it was so in the pilot, there are more values than a vocabulary has, and the table of
                # columns says so.
                if count > before * rows + _MANY * rows:
                    many.append(told)
            elif count and not then.get(name, {}).get(what):
                new[what].append(told)
    notes = []
    if many:
        notes.append(
            f"many values are in no vocabulary, of {_first(many)}: such values count as one and the same. "
            "Make a new basis from these rows"
        )
    if new["unseen"]:
        notes.append(
            f"values that the rows of the basis did not have, of {_first(new['unseen'])}, count as one and "
            "the same other value"
        )
    if new["missing"]:
        notes.append(
            f"missing values, of {_first(new['missing'])}, of which the rows of the basis had none. Missing "
            "numbers and times count as average ones: make a new basis if it matters that they are missing"
        )
    return notes


def _first(told: list[str]) -> str:
    more = f" and {counted(len(told) - _NAMED, 'more column')}" if len(told) > _NAMED else ""
    return ", ".join(told[:_NAMED]) + more


def dropped_in_words(dropped: int, rows: int) -> str:
    """Say how many rows were dropped, of how many."""
    share = dropped / (rows + dropped)
    of = f"{dropped:,} of {rows + dropped:,} rows ({100 * share:.2g} %)"
    return f"{of} were dropped: they hold nulls, NaN or infinities"


def loss_in_words(found: DroppedRows, rows: int, basis: Basis) -> str:
    """Say how many rows were dropped, which columns are invalid in most, and what leaving one out keeps."""
    words = dropped_in_words(found.count, rows)
    by_column = found.by_column(basis)
    if len(by_column) < 2 and basis.d == 1:
        return words  # there is nothing to leave out
    named = [f"{name} in {counts['rows']:,}" for name, counts in list(by_column.items())[:_NAMED]]
    words += f". Invalid are {', '.join(named)}" if named else ""
    saving = {name: counts["alone"] for name, counts in by_column.items() if name != ROW_WEIGHTS}
    best = max(saving, key=saving.__getitem__, default=None)
    if best is None:
        return words
    remedy = f"{option('exclude', best)}, or a basis without it"
    if saving[best] > _MANY * found.count:
        return f"{words}. Without {best}, {saving[best]:,} of them would be kept: {remedy}"
    others = "several columns are invalid in most of these rows: leave out more than one with `exclude`"
    return f"{words}. Without {best}, only {saving[best]:,} of them would be kept: {others}"


def without_reassurance(advice: Iterable[str], thing: Sketch | Basis) -> list[str]:
    """Return advice on a basis, but nothing that calls landmarks enough where most rows are missing."""
    return [line for line in advice if not (many_dropped(thing) and line.startswith(_REASSURING))]
