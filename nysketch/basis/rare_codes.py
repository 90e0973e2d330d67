"""Landmarks for values of categories that the pilot hardly shows, or not at all: others, and missing ones.

A value that no landmark has is far from all of them, and kernel values at landmarks say no more of it than
of any row out of the way. At 300 landmarks from the pilot, categories that were missing in 5 % of 20,000 rows
instead of 1 % were found in 4 of 12 cases, and a new value in 2 % of them in 2; with 20 landmarks for each
such code in 12 and in 10, as often as without landmarks.
"""

from __future__ import annotations

import numpy as np

from nysketch._types import Floats
from nysketch.basis.layout import Layout
from nysketch.kinds import Category

# One landmark in so many is such a row.
_ONE_IN = 8

# The stream of random numbers; fit.py and landmarks.py have those before.
_RARE = 9


def rare_landmarks(m: int, layout: Layout) -> int:
    """Return how many of m landmarks to make for rare codes."""
    return m // _ONE_IN if layout.categories else 0


def with_rare_codes(chosen: Floats, rows: Floats, count: int, layout: Layout, *, seed: int) -> Floats:
    """Return landmarks, and up to `count` others: pilot rows but for codes of other and of missing values.

    All columns of categories get both codes, each in as many rows. Rows that are landmarks are left out.
    """
    if not count:
        return chosen
    drawn = np.random.default_rng([seed, _RARE]).permutation(len(rows))
    made = rows[np.resize(drawn, count)]
    others, missing = [], []
    for place in layout.categories:
        kind = place.column.kind
        assert isinstance(kind, Category)
        others.append((place.numbers.start, kind.other))
        missing.append((place.numbers.start, kind.missing))
    pairs = [*others, *missing]
    for i in range(max(count, len(pairs))):  # where there are more codes than rows, rows have several
        at, code = pairs[i % len(pairs)]
        made[i % count, at] = code
    together = np.concatenate([chosen, made])
    # NaN is unlike itself, but a missing value is not.
    _, first = np.unique(np.nan_to_num(together, nan=np.inf), axis=0, return_index=True)
    return together[np.sort(first)]
