"""Matching: how far the mean features of a mixture are from those of a sketch, and how to bring them closer.

The objective is |A(π) − s|², the squared distance in the coordinates of whitening.py. All it takes per step
is one product with the feature map, whatever the number of atoms, and the gradient comes back the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.learning.decode.atoms import AtomFamily
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.whitening import Moments


@dataclass(frozen=True, eq=False)
class Limits:
    """Where means and variances may be, in scaled units."""

    lower: Floats
    upper: Floats
    least_variances: Floats
    greatest_variances: Floats

    def clip(self, means: Floats) -> Floats:
        """Move means into the box."""
        return np.clip(means, self.lower, self.upper)


@dataclass(frozen=True)
class Effort:
    """When to stop: after so many steps, or when one gains no more than this part of what is left."""

    steps: int
    tolerance: float


# Weights of a mixture sum to about 1; from moments that say nothing, least squares may make anything.
_MOST_WEIGHT = 1e6

LOOSE = Effort(40, 1e-2)
TIGHT = Effort(400, 1e-7)


class Matching:
    """The distance of mixtures of one shape from the moments of a sketch."""

    def __init__(self, basis: Basis, moments: Moments, covariance: str, limits: Limits) -> None:
        self.family = AtomFamily(basis, covariance)
        self.moments, self.limits = moments, limits
        self.target = moments.features(moments.target)

    def features_of(self, mixture: Mixture) -> Floats:
        """Return the mean features of every component: components × features."""
        return self.moments.features(self.family.values(self.family.pack(mixture)))

    def residual(self, mixture: Mixture) -> Floats:
        """Return s − A(π)."""
        values = mixture.weights @ self.family.values(self.family.pack(mixture))
        return self.moments.features(self.moments.target - values)

    def distance(self, mixture: Mixture) -> float:
        """Return |A(π) − s|²."""
        residual = self.residual(mixture)
        return float(residual @ residual)

    def expected_distance(self, k: int) -> float:
        """Return how far the best k atoms are by chance: their parameters make up for most of the noise."""
        moments = self.moments
        parameters = k * (self.family.size + 1)
        return moments.noise * max(1 - parameters / moments.effective, 0.05)

    def fit_weights(self, mixture: Mixture) -> Mixture:
        """Return the components with the non-negative weights that fit best."""
        from scipy.optimize import nnls

        weights, _ = nnls(self.features_of(mixture).T, self.target)
        if not weights.sum() < _MOST_WEIGHT:  # or NaN: to the landmarks, these are all the same
            weights = np.full(len(mixture), 1 / len(mixture))
        return Mixture(weights, mixture.means, mixture.covariances)

    def strongest(self, mixture: Mixture, k: int) -> Mixture:
        """Return the k components that matter most: those with most weight once all have equal length."""
        from scipy.optimize import nnls

        features = self.features_of(mixture)
        lengths = np.sqrt((features**2).sum(axis=1))
        weights, _ = nnls((features / np.maximum(lengths, 1e-12)[:, None]).T, self.target)
        return mixture.only(np.sort(np.argsort(-weights, kind="stable")[:k]))

    def refine(self, mixture: Mixture, effort: Effort) -> Mixture:
        """Move all parameters and weights together, downhill."""
        from scipy.optimize import minimize

        k, size = len(mixture), self.family.size
        limits = self.limits
        least, most = self.family.bounds(
            (limits.lower, limits.upper), (limits.least_variances, limits.greatest_variances)
        )
        # The curvature along an atom's parameters goes with the square of its weight: in these units it is
        # about the same along all of them, which takes L-BFGS-B a third of the steps.
        units = np.concatenate([np.repeat(np.maximum(mixture.weights, 0.1 / k), size), np.ones(k)])
        lower = units * np.concatenate([np.tile(least, k), np.zeros(k)])
        upper = units * np.concatenate([np.tile(most, k), np.full(k, np.inf)])
        start = units * np.concatenate([self.family.pack(self._inside(mixture)).ravel(), mixture.weights])
        moments, unit = self.moments, 1 / self.moments.noise

        def split(x: Floats) -> tuple[Floats, Floats]:
            return (x / units)[: k * size].reshape(k, size), x[k * size :]

        def objective(x: Floats) -> tuple[float, Floats]:
            parameters, weights = split(x)
            values = self.family.values(parameters)
            residual = moments.features(weights @ values - moments.target)
            back = 2 * moments.adjoint(residual)
            gradient = self.family.pullback(parameters, weights[:, None] * back)
            gradients = np.concatenate([gradient.ravel(), values @ back]) / units
            return unit * float(residual @ residual), unit * gradients

        found = minimize(
            objective,
            np.clip(start, lower, upper),
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([lower, upper], axis=1),
            options={
                "maxiter": effort.steps,
                "maxfun": 2 * effort.steps,
                "ftol": effort.tolerance,
                "gtol": 0.0,
                "maxcor": 20,
            },
        )
        return self.family.unpack(*split(found.x))

    def _inside(self, mixture: Mixture) -> Mixture:
        """Return the mixture within the limits; of full covariances, only what makes them usable."""
        limits = self.limits
        means = limits.clip(mixture.means)
        if mixture.full:
            return Mixture(mixture.weights, means, mixture.covariances + np.diag(limits.least_variances))
        covariances = np.clip(mixture.covariances, limits.least_variances, limits.greatest_variances)
        return Mixture(mixture.weights, means, covariances)
