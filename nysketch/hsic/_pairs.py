"""Sums over all pairs of rows of products of kernel values, groups permuted against each other; compiled."""

from __future__ import annotations

import numpy as np

from nysketch._support.jit import FAST, compiled


@compiled(fastmath=FAST | {"reassoc"})
def _sum(values):
    total = np.float32(0.0)
    for i in range(len(values)):
        total += values[i]
    return total


@compiled(fastmath=FAST)
def _multiply(product, values):
    for i in range(len(product)):
        product[i] *= values[i]


@compiled(fastmath=FAST)
def _multiply_chosen(product, values, chosen):
    for i in range(len(product)):
        product[i] *= values[chosen[i]]


@compiled()
def sums_of_permuted(grams, orders, sums):
    """Write Σ_ij grams[0, i, j] · Π_g grams[g, orders[p, g − 1, i], orders[p, g − 1, j]] into sums[p].

    The matrices are symmetric, and in float32; a sum over a row is one of float32, that over rows of float64.
    """
    groups, n, _ = grams.shape
    product = np.empty(n, np.float32)
    for p in range(len(orders)):
        total = 0.0
        for i in range(n):
            product[:i] = grams[0, i, :i]
            for g in range(1, groups):
                order = orders[p, g - 1]
                _multiply_chosen(product[:i], grams[g, order[i]], order)
            own = grams[0, i, i]
            for g in range(1, groups):
                at = orders[p, g - 1, i]
                own *= grams[g, at, at]
            total += 2.0 * _sum(product[:i]) + own
        sums[p] = total


@compiled()
def sums_of_shifted(grams, shifts, sums):
    """Do the same with orders i + shift, modulo the number of rows: memory is read in order."""
    groups, n, _ = grams.shape
    product = np.empty(n, np.float32)
    for p in range(len(shifts)):
        total = 0.0
        for i in range(n):
            product[:i] = grams[0, i, :i]
            own = grams[0, i, i]
            for g in range(1, groups):
                shift = shifts[p, g - 1]
                at = i + shift if i + shift < n else i + shift - n
                own *= grams[g, at, at]
                before = min(i, n - shift)  # columns that are not shifted beyond the end
                _multiply(product[:before], grams[g, at, shift : shift + before])
                _multiply(product[before:i], grams[g, at, : i - before])
            total += 2.0 * _sum(product[:i]) + own
        sums[p] = total
