"""Which input a sampled row is of, and where in it: read from the keys of the sample.

A key is a hash of the input's number and the row's (tiles/hashing.py), and the hash is a bijection of which
one bit is cut off. Turned around, it gives two candidates for each key: an unknown number of the input, plus
that of the row. Those of rows of one input lie beside each other, the wrong ones anywhere among 2⁶⁴.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Indices

Words = NDArray[np.uint64]

# As in tiles/hashing.py, whose machine code must not be loaded for this.
_FIRST, _SECOND, _STEP = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15
_OTHER = 0x5DEECE66D1CE4E5B
# Numbers farther apart are of different inputs. Of 100,000 wrong candidates the closest two are 2³¹ apart.
_FARTHEST = 1 << 40


@dataclass(frozen=True, eq=False)
class SampleOrder:
    """The sampled rows in the order of their inputs, one input after the other.

    `order` has the position of each in the sample; `starts` is where another input begins; `gaps` is how many
    rows further in its input a row is than the one before it, 0 for the first of an input.
    """

    order: Indices
    starts: Indices
    gaps: Indices

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> SampleOrder:
        """Find the order of rows from their keys, which are sorted."""
        if not len(keys):
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, nothing)
        different, inverse = np.unique(keys, return_inverse=True)
        numbers = _numbers(different)[inverse]
        order = np.argsort(numbers, kind="stable")
        steps = np.diff(numbers[order])
        new = np.append(True, steps > np.uint64(_FARTHEST))
        gaps = np.append(np.uint64(0), steps)
        gaps[new] = 0
        return cls(order, np.flatnonzero(new), gaps.astype(np.int64))


def _numbers(keys: NDArray[np.int64]) -> Words:
    """Return of two candidates for each key the one that has others nearby."""
    both = keys.astype(np.uint64) << np.uint64(1)
    candidates = np.stack([_turned_around(both), _turned_around(both | np.uint64(1))])
    flat = candidates.ravel()
    order = np.argsort(flat)
    steps = np.diff(flat[order])
    end = np.array([np.iinfo(np.uint64).max])
    nearest = np.empty_like(flat)
    nearest[order] = np.minimum(np.append(end, steps), np.append(steps, end))
    closer = nearest.reshape(candidates.shape).argmin(axis=0)
    return np.asarray(candidates[closer, np.arange(len(keys))])


def _turned_around(words: Words) -> Words:
    """Return the input's number, times a constant, plus that of the row."""
    with np.errstate(over="ignore"):
        mixed = _unspread(_unspread(words) ^ np.uint64(_OTHER))
        return np.asarray(mixed * _inverse(_STEP) - np.uint64(1))


def _unspread(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(31)) ^ (words >> np.uint64(62))) * _inverse(_SECOND)
    words = (words ^ (words >> np.uint64(27)) ^ (words >> np.uint64(54))) * _inverse(_FIRST)
    return np.asarray(words ^ (words >> np.uint64(30)) ^ (words >> np.uint64(60)))


def _inverse(factor: int) -> np.uint64:
    return np.uint64(pow(factor, -1, 1 << 64))
