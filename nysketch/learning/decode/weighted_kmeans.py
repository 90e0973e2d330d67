"""Weighted k-means of points: scikit-learn's, from many starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from nysketch._types import Floats
from nysketch.learning.decode.points import Points

# scikit-learn multiplies squared distances out: they are good to 1e-16 of the largest squared norm. Beyond
# this ratio of the largest to the typical distance from the middle that is no longer good enough.
_TOO_UNEVEN = 1e5


def squared_distances(rows: Floats, centroids: Floats) -> Floats:
    """Return the squared distances between all rows and all centroids, from differences."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(rows, centroids, "sqeuclidean"))


def cost(points: Points, centroids: Floats) -> float:
    """Return the mean squared distance of the rows behind the points, each with its point's centroid.

    For the rows themselves, each with the nearest centroid, this is an upper bound.
    """
    nearest = squared_distances(points.means, centroids).min(axis=1) + points.variances.sum(axis=1)
    return float(points.weights @ nearest / points.weights.sum())


def starts(
    points: Points,
    k: int,
    restarts: int,
    rng: np.random.Generator,
    step: Callable[[], None] = lambda: None,
) -> list[Floats]:
    """Return what several runs of k-means on the means of the points found, the best first, each but once."""
    found: dict[float, Floats] = {}
    for _ in range(restarts):
        centroids = _kmeans(points, k, "k-means++", rng)
        # The same clusters in another order cost the same but for rounding.
        found.setdefault(float(f"{cost(points, centroids):.9g}"), centroids)
        step()
    return [found[cost] for cost in sorted(found)]


def improve(points: Points, centroids: Floats) -> Floats:
    """Return what Lloyd's algorithm makes of centroids; never worse for these points."""
    return _kmeans(points, len(centroids), centroids, np.random.default_rng(0))


def _kmeans(points: Points, k: int, init: str | Floats, rng: np.random.Generator) -> Floats:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    middle = np.median(points.means, axis=0)
    rows = points.means - middle
    lengths = np.sqrt((rows**2).sum(axis=1))
    if lengths.max() > _TOO_UNEVEN * np.median(lengths):
        return _exact_kmeans(points, k, init, rng)
    start = init if isinstance(init, str) else init - middle
    seed = int(rng.integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than k
        fit = KMeans(k, init=start, n_init=1, random_state=seed, tol=1e-5).fit(
            rows, sample_weight=points.weights
        )
    return np.asarray(fit.cluster_centers_) + middle


def _exact_kmeans(points: Points, k: int, init: str | Floats, rng: np.random.Generator) -> Floats:
    """Do the same from differences, for points a million times farther out than others."""
    centroids = _seeds(points, k, rng) if isinstance(init, str) else init.copy()
    labels = np.full(len(points), -1)
    for _ in range(300):
        before, labels = labels, squared_distances(points.means, centroids).argmin(axis=1)
        if np.array_equal(before, labels):
            break
        totals = np.bincount(labels, points.weights, k)
        sums = np.zeros_like(centroids)
        np.add.at(sums, labels, points.weights[:, None] * points.means)
        centroids = np.where(totals[:, None] > 0, sums / np.maximum(totals, 1e-300)[:, None], centroids)
    return centroids


def _seeds(points: Points, k: int, rng: np.random.Generator) -> Floats:
    """Draw k points, each with a probability proportional to its share of the cost so far."""
    chosen = [int(rng.choice(len(points), p=points.weights / points.weights.sum()))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < k:
        nearest = np.minimum(nearest, squared_distances(points.means, points.means[chosen[-1:]])[:, 0])
        mass = points.weights * nearest
        total = mass.sum()
        chosen.append(int(rng.choice(len(points), p=mass / total if total > 0 else None)))
    return points.means[chosen]
