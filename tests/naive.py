"""Slow, obviously correct twins of the fast paths."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np


def kernel_sums(basis, rows, weights=None):
    """Σ_i w_i k(z_j, x_i) by the definition, one landmark at a time, in float64."""
    weights = np.ones(len(rows)) if weights is None else weights
    x = (rows - basis.center) / basis.scale
    sums = []
    for z in (basis.landmarks - basis.center) / basis.scale:
        squared = ((x - z) ** 2).sum(axis=1)
        sums.append((weights * np.exp(-squared / (2 * basis.kernel.bandwidth**2))).sum())
    return np.array(sums)


def block_of_row(seed, row, blocks):
    """The block a row is dealt to, with Python's integers."""
    mask = 2**64 - 1
    word = (seed + (row + 1) * 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    word ^= word >> 31
    return ((word >> 32) * blocks) >> 32


def exact_total(terms, grid_exponent):
    """The sum of terms rounded to the grid, with no error at all."""
    grid = Fraction(2) ** grid_exponent
    return sum((round(Fraction(float(term)) / grid) * grid for term in terms), Fraction(0))


# ---- kernels, from what a file says of them -------------------------------------------------------


def kernel_value(about, x, y):
    """k(x, y) of two rows (or strings), one feature after the other; `about` is what `describe` returns."""
    name = about["name"]
    if name == "gaussian-sum":
        parts = [kernel_value({"name": "gaussian", "bandwidth": b}, x, y) for b in about["bandwidths"]]
        return sum(parts) / len(parts)
    if name == "product":
        value = 1.0
        for group in about["groups"]:
            start, stop = group["features"]
            value *= kernel_value(group["kernel"], x[start:stop], y[start:stop])
        return value
    if name == "spectrum":
        return _cosine_of_counts(_substrings(x, about["length"]), _substrings(y, about["length"]))
    if name == "subsequence":
        length, decay = about["length"], about["decay"]
        return _cosine_of_counts(_subsequences(x, length, decay), _subsequences(y, length, decay))
    if name in ("linear", "polynomial", "cosine"):
        return _of_scalar_product(about, x, y)
    return _of_distance(about, x, y)


def _of_distance(about, x, y):
    if about["name"] == "laplacian-l1":
        return math.exp(-sum(abs(a - b) for a, b in zip(x, y, strict=True)) / about["bandwidth"])
    r = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) / about["bandwidth"]
    if about["name"] == "gaussian":
        return math.exp(-(r**2) / 2)
    if about["name"] == "laplacian-l2":
        return math.exp(-r)
    if about["name"] == "matern32":
        return (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r)
    assert about["name"] == "matern52"
    return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * math.exp(-math.sqrt(5) * r)


def _of_scalar_product(about, x, y):
    product = sum(a * b for a, b in zip(x, y, strict=True))
    if about["name"] == "linear":
        return product
    if about["name"] == "polynomial":
        return (product / about["bandwidth"] ** 2 + about["offset"]) ** about["degree"]
    lengths = math.sqrt(sum(a * a for a in x)) * math.sqrt(sum(b * b for b in y))
    return product / lengths if lengths else 0.0


def _substrings(text, length):
    return Counter(text[i : i + length] for i in range(len(text) - length + 1))


def _subsequences(text, length, decay):
    """The weight of every subsequence: decay^span for each way to pick its characters."""
    weights = Counter()
    for places in combinations(range(len(text)), length):
        weights["".join(text[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return weights


def _cosine_of_counts(a, b):
    norms = math.sqrt(sum(v * v for v in a.values())) * math.sqrt(sum(v * v for v in b.values()))
    return sum(value * b[what] for what, value in a.items()) / norms if norms else 0.0


def kernel_matrix(about, X, Y):
    """All values between two sets of rows, pair by pair."""
    if len(X) and not isinstance(X[0], str):
        X, Y = X.tolist(), Y.tolist()
    return np.array([[kernel_value(about, x, y) for y in Y] for x in X]).reshape(len(X), len(Y))


def difference_quotients(function, X, step):
    """The gradient of `function` (rows → one number each) by central differences, feature by feature."""
    gradient = np.empty_like(X)
    for k in range(X.shape[1]):
        move = np.zeros(X.shape[1])
        move[k] = step
        gradient[:, k] = (function(X + move) - function(X - move)) / (2 * step)
    return gradient
