"""How a column moved, in words: for the terminal and the report."""

from __future__ import annotations

import math

from nysketch.kinds.time import HOUR, WEEKDAY
from nysketch.kinds.words import in_words
from nysketch.twosample.columns import ColumnChange, FeatureShift, PartShift

# Values that are named, of each direction.
_VALUES = 2
# Shares that differ by less are not worth a word, nor those by less than so many standard errors.
_NOTABLE, _ERRORS = 5e-4, 2.0
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTH_ENDS = (31, 59.25, 90.25, 120.25, 151.25, 181.25, 212.25, 243.25, 273.25, 304.25, 334.25, 366)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def change_in_words(change: ColumnChange) -> str:
    """Say what moved in a column: such as `LA 15 → 30 %, total variation 0.15`."""
    told: list[str] = []
    if change.total_variation is not None:
        told += _values(change)
        told.append(f"total variation {change.total_variation:.2g}")
    if change.shift is not None:
        told.append(_shift(change, change.shift))
    told += [_part(part, part.shift) for part in change.parts if part.shift is not None]
    for what, shares in (("other values", change.other), ("missing", change.missing)):
        if shares is not None and _differ(shares):
            told.append(f"{what} {_shares(shares)}")
    return ", ".join(told)


def _values(change: ColumnChange) -> list[str]:
    moved = [
        value
        for values in (change.gained, change.lost)
        for value in values[:_VALUES]
        if abs(value.shares[1] - value.shares[0]) > max(_ERRORS * value.standard_error, _NOTABLE)
    ]
    moved.sort(key=lambda value: -abs(value.shares[1] - value.shares[0]))
    return [f"{in_words(value.value)} {_shares(value.shares)}" for value in moved]


def _shares(shares: tuple[float, float]) -> str:
    return f"{_percent(shares[0])} → {_percent(shares[1])} %"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share < 0.1 else f"{100 * share:.0f}"


def _differ(shares: tuple[float, float]) -> bool:
    return abs(shares[0] - shares[1]) > _NOTABLE


def _shift(change: ColumnChange, shift: FeatureShift) -> str:
    name = "mean" if shift.feature == change.column else f"mean of {shift.feature}"
    means = f"{name} {shift.means[0]:.4g} → {shift.means[1]:.4g}"
    if shift.shift is None:
        return f"{means} (was constant)"
    error = "" if shift.standard_error is None else f" ± {shift.standard_error:.1g}"
    return f"{means} ({shift.shift:+.2g}{error} deviations)"


def _part(part: PartShift, shift: float) -> str:
    unit = "h" if part.part == HOUR else "days"
    places = " → ".join(_place(part.part, mean) for mean in part.means)
    error = "" if part.standard_error is None else f" ± {part.standard_error:.1g}"
    return f"mean {part.part} {places} ({shift:+.2g}{error} {unit})"


def _place(part: str, mean: float) -> str:
    if part == HOUR:
        minutes = round(mean * 60) % 1440
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    if part == WEEKDAY:
        return _DAYS[round(mean) % 7]
    month = next(i for i, end in enumerate(_MONTH_ENDS) if mean < end)
    day = mean - (_MONTH_ENDS[month - 1] if month else 0)
    return f"{_MONTHS[month]} {math.floor(day) + 1}"
