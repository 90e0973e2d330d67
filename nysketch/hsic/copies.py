"""Rows that are there several times: copies of a row are no more evidence than the row.

A table of few different values has equal rows by chance, and each of them counts. Copies are told from these
where rows agree in one group, as measurements hardly ever do: copies agree in all the others, too, and other
rows only as often as any two rows do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nysketch._types import Indices, Rows

# Of pairs of rows that agree in one group, at least so many, and so large a share of them, must be copies.
_FEWEST_PAIRS, _MOSTLY = 3, 0.5
# With fewer copies the variance of a mean is at most so much larger than it seems.
_NOTABLE = 0.05
# Fewer different rows, or rows that are there more often on average, are values of a discrete table.
_FEWEST, _MOST_TIMES = 20, 50


@dataclass(frozen=True, eq=False)
class Copies:
    """Which rows of a sample to keep, one of each; and how many times fewer rows all of them are worth."""

    kept: Indices
    inflation: float


def find_copies(groups: Sequence[Rows], *, sampled: float) -> Copies | None:
    """Look for copies among rows, given by group, that are this share of all rows; None if there are none."""
    n = len(groups[0])
    if n < 2:
        return None
    numbers = [_numbers(np.ascontiguousarray(rows, np.float32)) for rows in groups]
    whole = _numbers(np.stack(numbers, axis=1))
    equal, total = _pairs(whole), n * (n - 1) / 2
    agreeing = [_pairs(of_group) for of_group in numbers]
    pairs = 0.0
    for number, in_group in enumerate(agreeing):
        # Pairs that agree in this group are copies, or agree in all others as often as any two rows do.
        chance = math.prod(others / total for other, others in enumerate(agreeing) if other != number)
        if in_group * (1 - chance) >= _FEWEST_PAIRS:
            copied = (equal - in_group * chance) / (1 - chance)
            pairs = max(pairs, copied if copied >= _MOSTLY * in_group else 0.0)
    inflation = 1 + 2 * pairs / (n * sampled)
    different, kept = np.unique(whole, return_index=True)
    if inflation < 1 + _NOTABLE or len(different) < max(_FEWEST, n / _MOST_TIMES):
        return None
    return Copies(np.sort(kept), inflation)


def _numbers(rows: Rows) -> Indices:
    """Return a number for each row, the same for equal rows."""
    rows = rows + np.zeros(1, rows.dtype)  # -0.0 is 0.0
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.unique(as_bytes, return_inverse=True)[1].astype(np.int64)


def _pairs(numbers: Indices) -> float:
    counts = np.bincount(numbers).astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)
