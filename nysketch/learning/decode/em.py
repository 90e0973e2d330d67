"""Expectation–maximisation for Gaussian mixtures on weighted points that have a spread of their own.

A point represents many rows. Its responsibilities are those of the average row, which makes every step raise
a lower bound on the likelihood of the rows (and the likelihood itself where points have no spread).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from nysketch._types import Floats
from nysketch.learning.decode.mixture import Mixture, reshape_covariances
from nysketch.learning.decode.points import Points

# A component's variance is at least so much of the variance of all rows, as in scikit-learn for scaled rows.
_FLOOR = 1e-6
_STEPS = 300
_TOLERANCE = 1e-6


def _floor(points: Points) -> Floats:
    """Return the least variance of each feature; a constant one is in the units of the data."""
    total = points.total_variances()
    # What rounding alone makes of a constant.
    nothing = (8 * np.finfo(float).eps * np.abs(points.means).max(axis=0)) ** 2
    varies = total > nothing
    return _FLOOR * np.where(varies, total, total[varies].min() if varies.any() else 1.0)


def log_densities(points: Points, mixture: Mixture, apart: Floats | float = 0.0) -> Floats:
    """Return log w_i + E log N(x; i) over the rows of each point: points × components.

    With `apart`, as if rows were that much farther away in each feature (of diagonal covariances).
    """
    d = points.means.shape[1]
    logs = np.empty((len(points), len(mixture)))
    with np.errstate(divide="ignore"):
        log_weights = np.log(mixture.weights)
    for i, (mean, covariance) in enumerate(zip(mixture.means, mixture.covariances, strict=True)):
        away = points.means - mean
        if mixture.full:
            factor = np.linalg.cholesky(covariance)
            inverse = solve_triangular(factor, np.eye(d), lower=True)
            squared = ((away @ inverse.T) ** 2).sum(axis=1) + points.variances @ (inverse**2).sum(axis=0)
            determinant = 2 * np.log(np.diag(factor)).sum()
        else:
            squared = ((np.abs(away) + apart) ** 2 + points.variances) @ (1 / covariance)
            determinant = np.log(covariance).sum()
        logs[:, i] = log_weights[i] - 0.5 * (squared + determinant + d * np.log(2 * np.pi))
    return logs


def log_likelihood(points: Points, mixture: Mixture, apart: Floats | float = 0.0) -> float:
    """Return the mean log-likelihood of the rows; where points have spread, a lower bound on it."""
    each = logsumexp(log_densities(points, mixture, apart), axis=1)
    return float(points.weights @ each / points.weights.sum())


def log_likelihood_se(points: Points, mixture: Mixture) -> float:
    """Return the standard error of the mean log-likelihood, for points that are a sample of the rows."""
    each = logsumexp(log_densities(points, mixture), axis=1)
    shares = points.weights / points.weights.sum()
    return float(np.sqrt((shares**2) @ (each - shares @ each) ** 2))


def fit(points: Points, start: Mixture, covariance: str, *, steps: int = _STEPS) -> tuple[Mixture, float]:
    """Run EM from `start` until it no longer matters; return the mixture and its mean log-likelihood."""
    floor = _floor(points)
    mixture, before = start, -np.inf
    for _ in range(steps):
        logs = log_densities(points, mixture)
        each = logsumexp(logs, axis=1)
        now = float(points.weights @ each / points.weights.sum())
        if now - before < _TOLERANCE:
            break
        before = now
        responsibilities = np.exp(logs - each[:, None])
        mixture = maximise(points, responsibilities, covariance, floor, mixture)
    return mixture, log_likelihood(points, mixture)


def maximise(
    points: Points, responsibilities: Floats, covariance: str, floor: Floats, before: Mixture
) -> Mixture:
    """Return the mixture that is best for these responsibilities; an empty component stays as it was."""
    counts = points.weights[:, None] * responsibilities
    totals = counts.sum(axis=0)
    alive = totals > 1e-12 * totals.sum()
    divisors = np.where(alive, totals, 1.0)[:, None]
    means = counts.T @ points.means / divisors
    covariances = np.empty((len(totals), *before.covariances.shape[1:]))
    for i, mean in enumerate(means):
        away = points.means - mean
        part = counts[:, i] / divisors[i]
        inner = part @ points.variances
        if covariance == "full":
            covariances[i] = (away * part[:, None]).T @ away + np.diag(inner + floor)
        else:
            covariances[i] = np.maximum(part @ away**2 + inner, floor)
    covariances = reshape_covariances(covariances, covariance)
    kept = alive.reshape(-1, *[1] * (covariances.ndim - 1))
    return Mixture(
        totals / totals.sum(),
        np.where(alive[:, None], means, before.means),
        np.where(kept, covariances, before.covariances),
    )


def from_centroids(points: Points, centroids: Floats, covariance: str) -> Mixture:
    """Return the mixture that k-means suggests: proportions, means and covariances of the clusters."""
    from nysketch.learning.decode.weighted_kmeans import squared_distances

    labels = squared_distances(points.means, centroids).argmin(axis=1)
    hard = np.zeros((len(points), len(centroids)))
    hard[np.arange(len(points)), labels] = 1.0
    floor = _floor(points)
    before = reshape_covariances(np.tile(floor / _FLOOR, (len(centroids), 1)), covariance)
    start = Mixture(np.full(len(centroids), 1 / len(centroids)), centroids, before)
    return maximise(points, hard, covariance, floor, start)
