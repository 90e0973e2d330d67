"""The dynamic programme of the subsequence kernel, compiled; strings.py explains the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nysketch._support.jit import FAST, compiled

# Strings that are treated side by side: their state of length × width × LANES numbers stays in the cache.
LANES = 16

# No character has this code: what strings of different lengths are filled up with.
_NOTHING = np.uint32(0xFFFFFFFF)


@compiled(fastmath=FAST)
def weigh_subsequences(x, Y, length, decay, tails, running, totals):
    """Write the unnormalised kernel of the string x with the strings in the columns of Y into `totals`.

    `tails[p, t]` is the weight of the common subsequences of p characters in the part of x read so far and
    the first t characters of y, each running on to the ends of both parts: a subsequence grows by one
    character from there. Of no characters there is one everywhere. The decay of the characters themselves
    is left out: it is the same for all, and cancels when the kernel is normalised; only gaps count.
    """
    width, lanes = Y.shape
    tails[0] = 1.0
    tails[1:] = 0.0
    totals[:] = 0.0
    for a in range(len(x)):
        # Longest first: each grows out of what the next shorter one was before this character of x.
        for p in range(length, 0, -1):
            running[:] = 0.0
            for t in range(width):
                shorter, row = tails[p - 1, t], Y[t]
                if p == length:
                    for j in range(lanes):
                        totals[j] += shorter[j] if row[j] == x[a] else 0.0
                else:
                    longer = tails[p, t + 1]
                    for j in range(lanes):
                        running[j] = decay * running[j] + (shorter[j] if row[j] == x[a] else 0.0)
                        longer[j] = decay * longer[j] + running[j]


def subsequence_weights(
    x: Sequence[NDArray[np.uint32]], y: Sequence[NDArray[np.uint32]], length: int, decay: float
) -> NDArray[np.float64]:
    """Return the unnormalised kernel between the strings x and y."""
    values = np.zeros((len(x), len(y)))
    by_length = sorted(range(len(y)), key=lambda j: len(y[j]))  # so that little is filled up
    for start in range(0, len(y), LANES):
        these = by_length[start : start + LANES]
        width = max(len(y[j]) for j in these)
        lanes = np.full((width, LANES), _NOTHING)
        for lane, j in enumerate(these):
            lanes[: len(y[j]), lane] = y[j]
        tails, running, totals = np.empty((length, width + 1, LANES)), np.empty(LANES), np.empty(LANES)
        for i, codes in enumerate(x):
            weigh_subsequences(codes, lanes, length, decay, tails, running, totals)
            values[i, these] = totals[: len(these)]
    return values
