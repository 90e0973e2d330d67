"""Columns of numbers that are no features: serial numbers and constants, as a sample of rows shows them.

A serial number says where a row is, not what is in it: of two days drawn from one distribution, no two rows
have the same one, and every comparison finds the days different. A constant says nothing at all, until it
changes. Which sources have such columns, and what becomes of them, is passes/pilot.py's business.

What is taken for a serial number, and what for a measurement that happens to be sorted:

- its values are different integers, also as floats, and come in the order of the rows, up or down, within
  each file. Sorted values that repeat are a measurement, and so are sorted fractions. Nearly so will do: up
  to 2 % of the rows may be in other places, and where draws would repeat more than 50 times, values may
  repeat a fifth as often;
- they grow evenly, as sorted populations with their long tail do not: by the same step in every row, or by at
  most 100 a row on average, or by more if none of them repeats and independent draws would;
- a sorted measurement of so few different values would repeat: of n independent draws from r values, all are
  different with probability exp(-n²/2r). Below a thousand rows, that must be at most exp(-5);
- dates and times as numbers (1710115200, 20240311, 2024) are kept unless they count the rows one by one.

Unique numbers in no order (hashes, account numbers) are kept: nothing tells them from a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.columns import Column

SERIAL = "serial number"
CONSTANT = "constant"
# Of columns that are no numbers: see passes/left_out.py.
IDENTIFIER, NO_VALUES, FREE_TEXT = "identifier", "no values", "free text"
SHORT_TIME = "time of no full day, week or year"

# Of fewer rows, nothing is left out: ten rows have too many columns that are sorted, or constant, by chance.
FEWEST_ROWS = 30

# Rank correlation with the number of the row; ids of parallel writers swap places with their neighbours.
_IN_ORDER = 0.999
# Rows may be this far from their place, as a share of all; of those that are farther, so many are overlooked.
_DISPLACED, _MOST_DISPLACED = 0.01, 0.02
# Ids that were delivered twice may repeat so often, relative to what independent draws from as many values
# would beyond the first 50 times.
_REPEATED, _REPEATS = 0.2, 50
# The largest mean gap between the numbers of neighbouring rows, if it is the only evidence.
_LARGEST_GAP = 100
# Correlation with the number of the row. Where half of the ids of one half are missing, it is 0.98; of a
# sorted exponential variable it is 0.87.
_EVEN = 0.97
# From so many rows on, how evenly they grow is evidence enough.
_MANY_ROWS = 1000
# Beyond it, float64 holds no single integers.
_LARGEST_INTEGER = 2.0**53
# Seconds since 1970 of the years 2000 and 2100; they may be given in milli- and microseconds, too.
_YEAR_2000, _YEAR_2100 = 946_684_800, 4_102_444_800
# Rows to look at first: most columns are no candidates after that.
_FIRST_LOOK = 256


@dataclass(frozen=True)
class SampledRows:
    """Rows of a table with their numbers in it, ascending, and where the input of each begins."""

    rows: NDArray[Any]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)


def constant_columns(
    sample: SampledRows, columns: Sequence[Column], optional: frozenset[str]
) -> dict[str, float]:
    """Return the optional columns that have one value in all sampled rows, and that value."""
    found: dict[str, float] = {}
    if len(sample) < FEWEST_ROWS:
        return found
    for column, start in _candidates(columns, optional):
        values = sample.rows[:, start]
        if values[0] == values[-1] and (values == values[0]).all():
            found[column.name] = float(values[0])
    return found


def serial_columns(sample: SampledRows, columns: Sequence[Column], optional: frozenset[str]) -> list[str]:
    """Return the names of the optional columns that number the rows."""
    return [
        column.name
        for column, start in _candidates(columns, optional)
        if is_serial(sample.rows[:, start], sample.numbers, sample.starts)
    ]


def _candidates(columns: Sequence[Column], optional: frozenset[str]) -> list[tuple[Column, int]]:
    """Return the columns that may be left out, with the place of each in a row; lists never are."""
    stops = np.cumsum([column.width for column in columns]).tolist()
    placed = zip(columns, stops, strict=True)
    return [(column, stop - 1) for column, stop in placed if column.name in optional and column.width == 1]


def is_serial(values: Floats, numbers: NDArray[np.int64], starts: NDArray[np.int64]) -> bool:
    """Tell whether a column, known at some rows, numbers the rows of its table or of each of its inputs."""
    count = len(values)
    first = values[:_FIRST_LOOK]
    if count < FEWEST_ROWS or (first != np.rint(first)).any() or (values != np.rint(values)).any():
        return False
    if np.abs(values).max() > _LARGEST_INTEGER:
        return False
    within = starts[1:] == starts[:-1]
    if np.count_nonzero(within) < count // 2:  # many inputs, few rows of each
        starts, within = np.zeros_like(starts), np.ones(count - 1, bool)
    order = np.lexsort((values, starts))  # inputs stay together
    displaced = _displaced(order, starts)
    if 0 < np.count_nonzero(displaced) <= _MOST_DISPLACED * count:
        values, numbers, starts = values[~displaced], numbers[~displaced], starts[~displaced]
        count, within = len(values), starts[1:] == starts[:-1]
        order = np.lexsort((values, starts))
    gaps, apart = np.diff(values[order])[within], np.diff(numbers)[within]
    span, rows = float(gaps.sum()), float(apart.sum())
    # Where there are fewer values than rows, those of rows in between repeat.
    repeated = np.count_nonzero(gaps == 0)
    regular = bool((np.abs(np.diff(values)[within]) * rows == apart * span).all())
    # Of so many independent draws from so few values, some are the same, but for a probability of exp(-5).
    would_repeat = count**2 >= 10 * span
    most = math.inf if regular or (would_repeat and not repeated) else _LARGEST_GAP * rows
    if not rows * (1 - _MOST_DISPLACED * bool(repeated)) <= span <= most:
        return False
    if repeated > max(_REPEATED * (count**2 / (2 * span) - _REPEATS), 0):
        return False
    ranks = np.empty(count)
    ranks[order] = np.arange(count)
    if _correlation(ranks, np.arange(count), starts) < _IN_ORDER:
        return False
    if _is_time(values):
        return regular and span == rows and not _is_year(values)
    return regular or (
        (count >= _MANY_ROWS or would_repeat) and _correlation(values, numbers, starts) >= _EVEN
    )


def _displaced(order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows are far from the places in their inputs that their values have there, up or down.

    `order` sorts the rows of each input by their values.
    """
    _, first, of_input, counts = np.unique(starts, return_index=True, return_inverse=True, return_counts=True)
    place = np.arange(len(order)) - first[of_input]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = place
    size = counts[of_input]
    up, down = np.abs(ranks - place), np.abs(size - 1 - ranks - place)
    away = up if up.sum() <= down.sum() else down
    return np.asarray(away > np.maximum(_DISPLACED * size, 3))


def _is_year(values: Floats) -> bool:
    return bool(values.min() >= 1800 and values.max() <= 2200 and len(values) <= 400)


def _is_time(values: Floats) -> bool:
    """Tell whether integers look like seconds since 1970, or like 20240311, 202403 or 2024."""
    lowest, highest = values.min(), values.max()
    if any(_YEAR_2000 * unit <= lowest and highest <= _YEAR_2100 * unit for unit in (1.0, 1e3, 1e6)):
        return True
    if lowest >= 19000101 and highest <= 21001231:
        months, days = values // 100 % 100, values % 100
        return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)).all())
    if lowest >= 190001 and highest <= 210012:
        return bool(((values % 100 >= 1) & (values % 100 <= 12)).all())
    return _is_year(values)


def _correlation(values: Floats, numbers: NDArray[np.int64], starts: NDArray[np.int64]) -> float:
    """Return how values correlate with the numbers of their rows, up or down: the mean over inputs."""
    _, of_input, counts = np.unique(starts, return_inverse=True, return_counts=True)

    def centred(x: Floats) -> Floats:
        return x - (np.bincount(of_input, x) / counts)[of_input]

    v, t = centred(values), centred(numbers.astype(np.float64))
    vt, vv, tt = (np.bincount(of_input, product) for product in (v * t, v * v, t * t))
    enough = (counts >= 3) & (vv > 0) & (tt > 0)
    if not enough.any():
        return 0.0
    correlations = np.abs(vt[enough]) / np.sqrt(vv[enough] * tt[enough])
    return float(np.average(correlations, weights=counts[enough]))


def constant_in_words(value: float) -> str:
    """Return why a constant is left out."""
    return f"{CONSTANT} {number_in_words(value)}"


def is_no_feature(why: str) -> bool:
    """Tell whether a column was left out because of what it holds."""
    found = (SERIAL, IDENTIFIER, NO_VALUES, FREE_TEXT, SHORT_TIME)
    return why in found or why.startswith(f"{CONSTANT} ")


def number_in_words(value: float) -> str:
    """Return a number as a table would show it: integers in full."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def notes_on_constants(before: Mapping[str, float], now: Mapping[str, tuple[float, float]]) -> list[str]:
    """Say which columns that were left out as constants have other values now, given the extremes of each."""
    notes = []
    for name, value in before.items():
        lower, upper = now.get(name, (value, value))
        if lower == upper == value:
            continue
        values = f"the value {number_in_words(lower)}"
        if lower != upper:
            values = f"values from {number_in_words(lower)} to {number_in_words(upper)}"
        notes.append(
            f"column {name!r} was constant ({number_in_words(value)}) when the basis was made, and left out; "
            f"now it has {values}. No comparison at this basis sees it: make a new basis to include it"
        )
    return notes
