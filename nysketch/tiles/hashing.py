"""What happens to a row is decided by a hash of its number in its input, never by who read it when."""

from __future__ import annotations

import numba
import numpy as np

from nysketch._support.jit import compiled

# Keys of the sample must have nothing to do with blocks.
_OTHER = np.uint64(0x5DEECE66D1CE4E5B)


@numba.njit(inline="always")
def _spread(word):
    """Mix the bits of a word (splitmix64): of a counter it makes independent-looking words."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@numba.njit(inline="always")
def _word(seed, row):
    return _spread(seed + np.uint64(row + 1) * np.uint64(0x9E3779B97F4A7C15))


@compiled()
def assign_blocks(first_row, keep, seed, blocks, order, block_of):
    """Deal rows to blocks by a hash of seed and row number, and sort them by block.

    Row `first_row + i` takes part if `keep[i]`. Writes, for each position p of the sorted rows, which
    row stands there (`order`) and its block (`block_of`); returns how many there are.
    """
    ends = np.zeros(blocks + 1, np.int64)
    dealt = np.empty(len(keep), np.int64)
    kept = 0
    for i in range(len(keep)):
        if keep[i]:
            word = _word(seed, first_row + i)
            # the top 32 bits scaled to [0, blocks)
            dealt[i] = ((word >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
            ends[dealt[i] + 1] += 1
            kept += 1
    for block in range(blocks):
        ends[block + 1] += ends[block]
    for i in range(len(keep)):
        if keep[i]:
            p = ends[dealt[i]]
            ends[dealt[i]] += 1
            order[p] = i
            block_of[p] = dealt[i]
    return kept


@compiled()
def find_sample(first_row, keep, seed, bound, found, keys):
    """Find the rows whose keys are at most `bound`: 63 bits of a hash of seed and row number.

    Writes which rows these are (`found`) and their keys; returns how many there are.
    """
    count = 0
    for i in range(len(keep)):
        if keep[i]:
            key = np.int64(_spread(_word(seed, first_row + i) ^ _OTHER) >> np.uint64(1))
            if key <= bound:
                found[count] = i
                keys[count] = key
                count += 1
    return count
