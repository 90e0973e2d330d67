"""Addresses of spans of consecutive rows.

Every row has an address: a number that identifies its input, and its own number in that input. A span is all
rows whose addresses agree but for the last bits, as many as the `level` says; beyond the bits of row numbers,
whole inputs are put together. So spans of any level are made of those of any finer one, and the level can be
what the rows alone decide: the finest at which they are in no more spans than wanted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Indices

Places = NDArray[np.int64]

# Spans of fewer than 16 rows would say little, and take as much room as the rows do.
FINEST = 4
ROW_BITS, INPUT_BITS = 48, 62
COARSEST = ROW_BITS + INPUT_BITS  # all rows of all inputs

_WORD = 2**64 - 1


def place_of_input(key: int) -> int:
    """Return the number that identifies an input with this key, whose first bits are as good as random."""
    word = (key + 0x9E3779B97F4A7C15) & _WORD  # splitmix64
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return (word ^ (word >> 31)) >> (64 - INPUT_BITS)


def level_of_rows(rows: int, capacity: int) -> int:
    """Return the finest level at which so many rows of one input are in at most `capacity` spans."""
    level = FINEST
    while -(-rows >> level) > capacity and level < ROW_BITS:  # rounded up
        level += 1
    return level


def coarser(where: Places, level: int, to: int) -> Places:
    """Return the addresses, at a coarser level, of spans at a level."""
    inputs, numbers = where[:, 0], where[:, 1]
    inputs = inputs >> (max(to, ROW_BITS) - max(level, ROW_BITS))
    numbers = np.zeros_like(numbers) if to > ROW_BITS else numbers >> (to - level)
    return np.stack([inputs, numbers], axis=1)


def fitting_level(where: Places, level: int, capacity: int) -> int:
    """Return the finest level from this one on at which the spans `where` are in at most `capacity` spans."""
    start, finest = where, level
    while len(where) > capacity and len(first_of_each(where := _sorted(where))) > capacity:
        level += 1
        where = coarser(start, finest, level)
    return level


def _sorted(where: Places) -> Places:
    return where[np.lexsort((where[:, 1], where[:, 0]))]


def first_of_each(where: Places) -> Indices:
    """Return where in sorted addresses another one begins."""
    if not len(where):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.append(True, (where[1:] != where[:-1]).any(axis=1)))
