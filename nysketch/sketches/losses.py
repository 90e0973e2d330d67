"""Rows that were dropped: which columns cost them, and what would be left without these.

Counts by column are kept by accumulators/dropped.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from nysketch._support.notices import log, notice
from nysketch.accumulators.dropped import ROW_WEIGHTS, DroppedRows
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


def notes_on_losses(sketch: Sketch) -> list[str]:
    """Say which columns cost most of the rows that were dropped; nothing if they are few."""
    if not many_dropped(sketch):
        return []
    return [loss_in_words(sketch.tally[DroppedRows], sketch.rows, sketch.basis)]


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
