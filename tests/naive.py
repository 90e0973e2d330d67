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


def second_moments(basis, rows, weights=None):
    """Σ_i w_i k(z_j, x_i) k(z_l, x_i) by the definition, row by row, rounded once."""
    weights = np.ones(len(rows)) if weights is None else weights
    sums = np.full((basis.m, basis.m), Fraction(0))
    for weight, values in zip(weights, basis.values(rows), strict=True):
        exact = np.array([Fraction(float(value)) for value in values])
        sums += Fraction(float(weight)) * np.outer(exact, exact)
    return sums.astype(float)


def block_of_row(seed, row, blocks):
    """The block a row is dealt to, with Python's integers."""
    mask = 2**64 - 1
    word = (seed + (row + 1) * 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    word ^= word >> 31
    return ((word >> 32) * blocks) >> 32


def nearest(basis, row):
    """The landmark at the smallest distance in scaled units, one after the other; the first of several."""
    best, closest = 0, math.inf
    x = np.clip((row - basis.center) / basis.scale, -1e300, 1e300)
    for j, z in enumerate(basis.scaled_landmarks):
        squared = 0.0
        for a, b in zip(x.tolist(), z.tolist(), strict=True):
            squared += (a - b) * (a - b) if abs(a - b) < 1e154 else math.inf
        if squared < closest:
            best, closest = j, squared
    return best


def cells(basis, rows, weights=None):
    """Cell and offset from its landmark of each row; then rows, weight, sums and squares of cells.

    Rows are added in fractions, so the sums are right to the last digit.
    """
    weights = np.ones(len(rows)) if weights is None else weights
    of_row = np.array([nearest(basis, row) for row in rows], np.int64)
    offsets = (rows - basis.center) / basis.scale - basis.scaled_landmarks[of_row]
    sums, squares = (np.full((basis.m, basis.d), Fraction(0)) for _ in range(2))
    for cell, offset, weight in zip(of_row, offsets, weights, strict=True):
        exact = [Fraction(float(u)) for u in offset]
        sums[cell] += [Fraction(float(weight)) * u for u in exact]
        squares[cell] += [Fraction(float(weight)) * u * u for u in exact]
    counts = np.bincount(of_row, minlength=basis.m)
    weight = np.bincount(of_row, weights, minlength=basis.m)
    return of_row, offsets, counts, weight, sums.astype(float), squares.astype(float)


def address(key, row, level):
    """Where a row of an input is, at a level: with Python's integers."""
    mask = 2**64 - 1
    word = (key + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    place = (word ^ (word >> 31)) >> 2
    return (place, row >> level) if level <= 48 else (place >> (level - 48), 0)


def spans(rows, capacity):
    """Level and runs of rows: (key of the input, number in it, weight, values, which are None if dropped).

    Runs are sorted: address, number of rows, weight, sums.
    """
    level = 4
    while len({address(key, number, level) for key, number, _, _ in rows}) > capacity:
        level += 1
    found = {}
    for key, number, weight, values in rows:
        run = found.setdefault(address(key, number, level), [0, 0.0, 0.0])
        if values is not None:
            run[0] += 1
            run[1] += weight
            run[2] = run[2] + weight * values
    return level, sorted((where, *run) for where, run in found.items())


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


# ---- learning --------------------------------------------------------------------------------------


def expectation(function, mean, covariance, nodes):
    """E f(x) under a Gaussian, by Gauss–Hermite quadrature: exact for polynomials of degree 2·nodes − 1."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grids = np.meshgrid(*[points] * len(mean), indexing="ij")
    masses = np.meshgrid(*[weights / math.sqrt(2 * math.pi)] * len(mean), indexing="ij")
    standard = np.stack([grid.ravel() for grid in grids], axis=1)
    mass = np.prod([part.ravel() for part in masses], axis=0)
    return mass @ function(mean + standard @ np.linalg.cholesky(covariance).T)


def gradient_of(function, x, step=1e-5):
    """The gradient of a number by central differences, entry by entry of an array of any shape."""
    gradient = np.empty_like(x)
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        gradient[index] = (function(ahead) - function(behind)) / (2 * step)
    return gradient


def nonnegative_least_squares(A, b):
    """argmin |A w − b| over w ≥ 0: the best of the least squares fits of all subsets that are positive."""
    best, least = np.zeros(A.shape[1]), float(b @ b)
    for size in range(1, A.shape[1] + 1):
        for subset in map(list, combinations(range(A.shape[1]), size)):
            found = np.linalg.lstsq(A[:, subset], b, rcond=None)[0]
            misfit = A[:, subset] @ found - b
            if (found >= 0).all() and misfit @ misfit < least:
                best, least = np.zeros(A.shape[1]), float(misfit @ misfit)
                best[subset] = found
    return best


def mean_squared_distance(rows, centroids, weights=None, scale=1.0):
    """Of rows from their nearest centroids, by differences in extended precision."""
    weights = np.ones(len(rows)) if weights is None else weights
    rows, centroids = np.asarray(rows, np.longdouble), np.asarray(centroids, np.longdouble)
    nearest = [(((row - centroids) / scale) ** 2).sum(axis=1).min() for row in rows]
    return float(np.asarray(weights, np.longdouble) @ np.array(nearest) / weights.sum())


def mean_log_likelihood(rows, weights, means, covariances, row_weights=None):
    """Of rows under a mixture with k × d variances or k × d × d covariances, component by component."""
    row_weights = np.ones(len(rows)) if row_weights is None else row_weights
    logs = []
    for weight, mean, covariance in zip(weights, means, covariances, strict=True):
        matrix = np.diag(covariance) if covariance.ndim == 1 else covariance
        away = rows - mean
        squared = (away * np.linalg.solve(matrix, away.T).T).sum(axis=1)
        constant = len(mean) * math.log(2 * math.pi) + np.linalg.slogdet(matrix)[1]
        logs.append((math.log(weight) if weight > 0 else -math.inf) - (squared + constant) / 2)
    each = np.logaddexp.reduce(logs, axis=0)
    return float(row_weights @ each / row_weights.sum())


def caratheodory(functions, weights):
    """Leave out one point after the other along a null vector of the means, until that is impossible."""
    points, weights = list(range(len(weights))), weights.astype(float).copy()
    while True:
        matrix = np.vstack([np.ones(len(points)), functions[points].T])
        _, singular, rows = np.linalg.svd(matrix)
        rank = int((singular > 1e-10 * singular[0]).sum())
        if rank == len(points):
            return np.array(points), weights
        direction = rows[-1] if rows[-1].max() > 0 else -rows[-1]
        falling = direction > 1e-12
        ratios = np.where(falling, weights / np.where(falling, direction, 1), np.inf)
        out = int(ratios.argmin())
        weights = np.maximum(weights - ratios[out] * direction, 0)
        points.pop(out)
        weights = np.delete(weights, out)


def left_by_functions(kernel, landmarks, matrix, x):
    """√(k(x, x) − Σ ψ(x)²) of one row; each column of `matrix` combines kernel values at landmarks to a ψ."""
    row = x[None]
    left = float(kernel(row, row)[0, 0])
    for column in matrix.T:
        value = sum(c * float(kernel(z[None], row)[0, 0]) for c, z in zip(column, landmarks, strict=True))
        left -= value**2
    return math.sqrt(max(left, 0.0))


def left_by_landmarks(kernel, landmarks, x):
    """The distance of one row from the span of the landmarks, by least squares on their kernel matrix."""
    row = x[None]
    K, k = kernel(landmarks, landmarks), kernel(landmarks, row)[:, 0]
    squared = float(kernel(row, row)[0, 0]) - k @ np.linalg.pinv(K, rcond=1e-8, hermitian=True) @ k
    return math.sqrt(max(squared, 0.0))


def mmd(kernel, X, w, Y):
    """The distance of weighted rows X from the rows Y, all pairs of them."""
    u = np.full(len(Y), 1 / len(Y))
    squared = w @ kernel(X, X) @ w - 2 * w @ kernel(X, Y) @ u + u @ kernel(Y, Y) @ u
    return math.sqrt(max(squared, 0.0))


def wild(values):
    """Tell which values are beyond three ranges of the central 90 %; of others than a value that half are."""
    if len(values) < 20:
        return [False] * len(values)
    usual = sorted(values)[len(values) // 2]
    same = sum(value == usual for value in values)
    others = sorted(value for value in values if value != usual or 2 * same < len(values))
    if not others:
        return [False] * len(values)
    out = math.ceil(0.05 * (len(others) - 1))
    low, high = min(others[out], usual), max(others[-1 - out], usual)
    reach = 3.0 * (high - low)
    return [value < low - reach or value > high + reach for value in values]


def neighbour_radii(rows):
    """Return how far from each row a twentieth of all rows are that are not equal to it."""
    count = math.ceil(0.05 * len(rows))
    radii = []
    for row in rows:
        distances = sorted(math.dist(row, other) for other in rows)
        different = [distance for distance in distances if distance > 0]
        radii.append(different[count - 1] if len(different) >= count else math.inf)
    return radii


def small_clumps(rows, near):
    """Return for each row how near its fewest neighbours are that a gap surrounds, or None."""
    n, found = len(rows), []
    for row in rows:
        distances = sorted(math.dist(row, other) for other in rows)
        different = [distance for distance in distances if distance > 0]
        different += [math.inf] * (n - len(different))
        radius = None
        for share in (0.02, 0.01, 0.005):
            count = max(math.ceil(share * n), 5)
            inner, outer = different[count - 1], different[min(4 * count, n - 1) - 1]
            if inner < near and outer > 15 * inner:
                radius = inner
        found.append(radius)
    return found


def exact_mmd(basis, x, y, of_x=None, of_y=None):
    """The MMD of all rows, by all pairs of them: no landmarks, no samples; weights, where rows have them."""
    a, b = basis.transform(x), basis.transform(y)
    w = np.full(len(x), 1 / len(x)) if of_x is None else of_x / of_x.sum()
    v = np.full(len(y), 1 / len(y)) if of_y is None else of_y / of_y.sum()
    k = basis.kernel
    return math.sqrt(max(w @ k(a, a) @ w + v @ k(b, b) @ v - 2 * (w @ k(a, b) @ v), 0.0))
