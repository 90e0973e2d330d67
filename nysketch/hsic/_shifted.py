"""Sums over rows whose groups of columns were shifted against each other: what chance does to a product.

Rows come in an order that says nothing, so that shifting is as good as shuffling; and it reads memory in
order, which is many times as fast.
"""

from __future__ import annotations

import numpy as np

from nysketch._support.jit import FAST, compiled

# Rows that are summed in float32, before sums go on in float64: 1e-7 of so few is lost at most.
_SHORT = 1024


@compiled(fastmath=FAST | {"reassoc"})
def _short_sum_of_two(a, b):
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled(fastmath=FAST | {"reassoc"})
def _short_sum_of_three(a, b, c):
    total = np.float32(0.0)
    for i in range(len(a)):
        total += a[i] * b[i] * c[i]
    return total


@compiled(fastmath=FAST)
def _multiply(a, b, product):
    for i in range(len(a)):
        product[i] = a[i] * b[i]


@compiled()
def shifted_sums(first, others, shifts, sums):
    """Write Σ_i first[j, i] · Π_g others[g, j, i + shifts[p, g]] into sums[p, j].

    `others` has every row twice, one after the other, so that no shift has to be taken modulo their number.
    """
    landmarks, n = first.shape
    groups = len(others)
    product = np.empty(_SHORT, np.float32)
    for j in range(landmarks):
        for p in range(len(shifts)):
            shift, total = shifts[p], 0.0
            for start in range(0, n, _SHORT):
                count = min(_SHORT, n - start)
                a = first[j, start : start + count]
                for g in range(groups - 2):
                    at = start + shift[g]
                    _multiply(a, others[g, j, at : at + count], product)
                    a = product[:count]
                at = start + shift[groups - 1]
                c = others[groups - 1, j, at : at + count]
                if groups == 1:
                    total += _short_sum_of_two(a, c)
                else:
                    at = start + shift[groups - 2]
                    total += _short_sum_of_three(a, others[groups - 2, j, at : at + count], c)
            sums[p, j] = total
