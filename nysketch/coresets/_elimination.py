"""The inner loop of recombination, compiled. Importing this loads numba."""

from __future__ import annotations

import numpy as np

from nysketch._support.jit import compiled


@compiled()
def eliminate(block, weights, alive, slip, costs, pivots):
    """Move weights along each direction of the block as far as they stay positive, and note who became 0.

    Of the two ways along a direction, the one is taken that does not increase the sum of weights times costs.

    The point that reaches 0 first is no longer `alive`, and is taken out of the later directions of the
    block. Its number is written to `pivots`; −1 for a direction that rounding has left nothing of.
    """
    count, n = block.shape
    for t in range(count):
        direction = block[t]
        size = 0.0
        for i in range(n):
            if alive[i]:
                size = max(size, abs(direction[i]))
        pivots[t] = -1
        if not size > 0.0:
            continue
        gain = 0.0
        for i in range(n):
            if alive[i]:
                gain += direction[i] * costs[i]
        if gain < 0.0:
            for i in range(n):
                direction[i] = -direction[i]
        # There are positive and negative ones among them, since their sum is 0; but for rounding.
        for _ in range(2):
            longest, pivot = np.inf, -1
            for i in range(n):
                if alive[i] and direction[i] > 1e-12 * size:
                    length = (weights[i] + slip) / direction[i]
                    if length < longest:
                        longest, pivot = length, i
            if pivot >= 0:
                break
            for i in range(n):
                direction[i] = -direction[i]
        # Of all points that are as good as first to reach 0, the one that is eliminated with the least error.
        for i in range(n):
            rate = direction[i]
            if alive[i] and rate > direction[pivot] and weights[i] <= longest * rate:
                pivot = i
        length = weights[pivot] / direction[pivot]
        for i in range(n):
            if alive[i]:
                weights[i] = max(weights[i] - length * direction[i], 0.0)
        weights[pivot] = 0.0
        alive[pivot] = False
        pivots[t] = pivot
        for u in range(t + 1, count):
            later = block[u]
            share = later[pivot] / direction[pivot]
            if share != 0.0:
                for i in range(n):
                    later[i] -= share * direction[i]
            later[pivot] = 0.0
