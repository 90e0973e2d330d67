"""Mixture: what decoders work on and return, in the scaled units of a basis.

A component without spread is a point: k-means is the search for a mixture of points. Covariances are
diagonal (one variance per feature) or full matrices; spherical ones are diagonal with equal entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats

COVARIANCES = ("spherical", "diag", "full")


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights k, means k × d, and covariances k × d (diagonals) or k × d × d."""

    weights: Floats
    means: Floats
    covariances: Floats

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def full(self) -> bool:
        """Whether covariances are matrices."""
        return self.covariances.ndim == 3

    def variances(self) -> Floats:
        """Return the variance of each feature in each component: k × d."""
        return np.einsum("kii->ki", self.covariances) if self.full else self.covariances

    def normalise(self) -> Mixture:
        """Return the mixture with weights that sum to 1; equal ones if all are 0."""
        total = self.weights.sum()
        k = len(self)
        return replace(self, weights=self.weights / total if total > 0 else np.full(k, 1 / k))

    def only(self, which: NDArray[np.intp]) -> Mixture:
        """Return some of the components."""
        return Mixture(self.weights[which], self.means[which], self.covariances[which])

    def join(self, other: Mixture) -> Mixture:
        """Return the components of both."""
        return Mixture(
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.covariances, other.covariances]),
        )

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw rows."""
        component = rng.choice(len(self), count, p=self.normalise().weights)
        noise = rng.standard_normal((count, self.means.shape[1]))
        if self.full:
            factors = np.linalg.cholesky(self.covariances)
            return np.asarray(self.means[component] + np.einsum("nij,nj->ni", factors[component], noise))
        return np.asarray(self.means[component] + np.sqrt(self.covariances[component]) * noise)


def of_points(means: Floats, weights: Floats | None = None) -> Mixture:
    """Return a mixture of points."""
    k = len(means)
    return Mixture(np.full(k, 1 / k) if weights is None else weights, means, np.zeros_like(means))


def reshape_covariances(covariances: Floats, covariance: str) -> Floats:
    """Bring diagonal or full covariances into another shape: spherical, diag or full."""
    full = covariances.ndim == 3
    if covariance == "full":
        return covariances if full else np.einsum("ki,ij->kij", covariances, np.eye(covariances.shape[1]))
    variances = np.einsum("kii->ki", covariances) if full else covariances
    if covariance == "spherical":
        return np.repeat(variances.mean(axis=1, keepdims=True), variances.shape[1], axis=1)
    return variances
