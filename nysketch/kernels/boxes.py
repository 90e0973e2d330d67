"""The values that a kernel can take at rows in a box, for kernels that have no bound otherwise."""

from __future__ import annotations

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.kernels.base import Kernel
from nysketch.kernels.dot import Linear, Polynomial
from nysketch.kernels.product import Product

Interval = tuple[Floats, Floats]

# What float32 may make of a scalar product of thousands of terms, relative to the sum of their sizes.
_ROUNDING = 1e-3


def values_in_box(kernel: Kernel, lower: Floats, upper: Floats, Y: Rows) -> Interval:
    """Return bounds of k(x, y) for each row y, over all x with lower ≤ x ≤ upper: rounding included.

    Bounds of numbers too large for float64 are infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _values(kernel, lower, upper, Y)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _values(kernel: Kernel, lower: Floats, upper: Floats, Y: Rows) -> Interval:
    if isinstance(kernel, Product):
        low, high = np.ones(len(Y)), np.ones(len(Y))
        for group in kernel.groups:
            part = slice(group.start, group.stop)
            ends = values_in_box(group.kernel, lower[part], upper[part], group.of(Y))
            # 0 times infinity is 0 here: a bound of 0 is reached.
            products = [np.where((a == 0) | (b == 0), 0.0, a * b) for a in (low, high) for b in ends]
            low, high = np.minimum.reduce(products), np.maximum.reduce(products)
        return low, high
    if isinstance(kernel, Linear):
        return _scalar_products(lower, upper, Y, 1.0, 0.0)
    if isinstance(kernel, Polynomial):
        low, high = _scalar_products(lower, upper, Y, kernel.bandwidth, kernel.offset)
        powers = low**kernel.degree, high**kernel.degree
        if kernel.degree % 2:
            return powers
        return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(*powers)), np.maximum(*powers)
    return np.full(len(Y), kernel.range[0]), np.full(len(Y), kernel.range[1])


def _scalar_products(lower: Floats, upper: Floats, Y: Rows, bandwidth: float, offset: float) -> Interval:
    """Return bounds of x·y / bandwidth² + offset."""
    terms = lower * Y, upper * Y
    low, high = np.minimum(*terms).sum(axis=1), np.maximum(*terms).sum(axis=1)
    slack = _ROUNDING * (np.maximum(*map(np.abs, terms)).sum(axis=1) / bandwidth**2 + offset)
    return low / bandwidth**2 + offset - slack, high / bandwidth**2 + offset + slack
