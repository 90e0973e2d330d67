"""Atoms: parametric distributions with closed-form mean values of the functions of a basis.

With a Gaussian kernel, E k(z, x) under N(c, Γ) is √(|S|/|Γ+S|) exp(−½ (z−c)ᵀ(Γ+S)⁻¹(z−c)), where S holds
the squared bandwidths; with Fourier features, E cos ω·x is exp(−½ ωᵀΓω) cos ω·c. Other kernels have point
atoms only.

`values` gives the means for all atoms and functions; `pullback` the gradient of a linear combination of them,
as an adjoint product: there is never a matrix of derivatives. AtomFamily puts parameters that can be
optimised freely in front of both.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.fourier import FourierBasis
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError
from nysketch.kernels import Kernel, gaussian_bandwidths
from nysketch.learning.decode.mixture import Mixture, reshape_covariances

# Besides those of mixtures.COVARIANCES: atoms without spread.
POINT = "point"
Gradients = tuple[Floats, Floats | None]


class MeanValues(Protocol):
    """The means of the functions of a basis under N(c, Γ), for many c and Γ; without Γ, at points."""

    def values(self, means: Floats, covariances: Floats | None) -> Floats:
        """Return E f(x): atoms × functions."""
        ...

    def pullback(self, means: Floats, covariances: Floats | None, coefficients: Floats) -> Gradients:
        """Return the gradients of Σ coefficients ∘ values with respect to means and covariances."""
        ...


class _AtKernel:
    """Any kernel, at points."""

    def __init__(self, kernel: Kernel, Z: Floats) -> None:
        self._kernel, self._Z = kernel, Z

    def values(self, means: Floats, covariances: Floats | None) -> Floats:
        assert covariances is None
        return self._kernel(means, self._Z)

    def pullback(self, means: Floats, covariances: Floats | None, coefficients: Floats) -> Gradients:
        assert covariances is None
        return self._kernel.gradient(means, self._Z, coefficients), None


class _Gaussian:
    """A Gaussian kernel with one squared bandwidth for each feature."""

    def __init__(self, Z: Floats, squared_bandwidths: Floats) -> None:
        self._S = squared_bandwidths
        # Squares are multiplied out about a point amid the landmarks, so that they lose few digits.
        self._middle = np.median(Z, axis=0)
        self._Z = Z - self._middle
        self._squares = self._Z**2

    def values(self, means: Floats, covariances: Floats | None) -> Floats:
        if covariances is not None and covariances.ndim == 3:
            return self._full(means - self._middle, covariances)[0]
        return self._diagonal(means - self._middle, covariances)[0]

    def _diagonal(self, means: Floats, variances: Floats | None) -> tuple[Floats, Floats]:
        precisions = 1 / (self._S + (np.zeros_like(means) if variances is None else variances))
        exponents = precisions @ self._squares.T
        exponents -= 2 * ((precisions * means) @ self._Z.T)
        exponents += (precisions * means**2).sum(axis=1)[:, None]
        values = np.exp(-0.5 * np.maximum(exponents, 0))
        if variances is not None:
            values *= np.exp(-0.5 * np.log1p(variances / self._S).sum(axis=1))[:, None]
        return values, precisions

    def _full(self, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        spread = covariances + np.diag(self._S)
        precisions = np.linalg.inv(spread)
        values = np.empty((len(means), len(self._Z)))
        for i, (mean, precision) in enumerate(zip(means, precisions, strict=True)):
            away = self._Z - mean
            values[i] = np.exp(-0.5 * np.einsum("jk,jk->j", away @ precision, away))
        shrunk = np.linalg.slogdet(spread)[1] - np.log(self._S).sum()
        return values * np.exp(-0.5 * shrunk)[:, None], np.asarray(precisions, np.float64)

    def pullback(self, means: Floats, covariances: Floats | None, coefficients: Floats) -> Gradients:
        means = means - self._middle
        if covariances is not None and covariances.ndim == 3:
            return self._pullback_full(means, covariances, coefficients)
        values, precisions = self._diagonal(means, covariances)
        pull = coefficients * values
        total = pull.sum(axis=1)[:, None]
        first = pull @ self._Z
        to_means = precisions * (first - total * means)
        if covariances is None:
            return to_means, None
        second = pull @ self._squares - 2 * means * first + means**2 * total
        return to_means, 0.5 * precisions * (precisions * second - total)

    def _pullback_full(self, means: Floats, covariances: Floats, coefficients: Floats) -> Gradients:
        values, precisions = self._full(means, covariances)
        pull = coefficients * values
        to_means, to_covariances = np.empty_like(means), np.empty_like(covariances)
        for i, (mean, precision) in enumerate(zip(means, precisions, strict=True)):
            away = self._Z - mean
            to_means[i] = precision @ (pull[i] @ away)
            second = (away * pull[i][:, None]).T @ away
            to_covariances[i] = 0.5 * (precision @ second @ precision - pull[i].sum() * precision)
        return to_means, to_covariances


class _Mean:
    """The mean of several kernels."""

    def __init__(self, parts: list[_Gaussian]) -> None:
        self._parts = parts

    def values(self, means: Floats, covariances: Floats | None) -> Floats:
        return np.asarray(np.mean([part.values(means, covariances) for part in self._parts], axis=0))

    def pullback(self, means: Floats, covariances: Floats | None, coefficients: Floats) -> Gradients:
        found = [part.pullback(means, covariances, coefficients) for part in self._parts]
        spreads = [gradient for _, gradient in found if gradient is not None]
        to_means = np.mean([gradient for gradient, _ in found], axis=0)
        return to_means, np.mean(spreads, axis=0) if spreads else None


class _Fourier:
    """Cosines and sines."""

    def __init__(self, frequencies: Floats) -> None:
        self._frequencies, self._squares = frequencies, frequencies**2

    def _damping(self, covariances: Floats | None) -> Floats | float:
        if covariances is None:
            return 1.0
        if covariances.ndim == 3:
            turned = np.einsum("jk,ikl->ijl", self._frequencies, covariances)
            return np.asarray(np.exp(-0.5 * np.einsum("ijl,jl->ij", turned, self._frequencies)))
        return np.asarray(np.exp(-0.5 * (covariances @ self._squares.T)))

    def values(self, means: Floats, covariances: Floats | None) -> Floats:
        angles, damping = means @ self._frequencies.T, self._damping(covariances)
        return np.concatenate([damping * np.cos(angles), damping * np.sin(angles)], axis=1)

    def pullback(self, means: Floats, covariances: Floats | None, coefficients: Floats) -> Gradients:
        angles, damping = means @ self._frequencies.T, self._damping(covariances)
        of_cosines, of_sines = np.split(coefficients, 2, axis=1)
        cosines, sines = damping * np.cos(angles), damping * np.sin(angles)
        to_means = (of_sines * cosines - of_cosines * sines) @ self._frequencies
        if covariances is None:
            return to_means, None
        pull = -0.5 * (of_cosines * cosines + of_sines * sines)
        if covariances.ndim == 2:
            return to_means, pull @ self._squares
        weighted = pull[:, :, None] * self._frequencies
        return to_means, np.einsum("ijk,jl->ikl", weighted, self._frequencies)


def has_spread(basis: Basis) -> bool:
    """Tell whether means under Gaussian distributions are known in closed form at this basis."""
    return isinstance(basis, FourierBasis) or bool(gaussian_bandwidths(basis.kernel, basis.d))


def _mean_values(basis: Basis, covariance: str) -> MeanValues:
    if isinstance(basis, FourierBasis):
        return _Fourier(basis.frequencies)
    assert isinstance(basis, NystromBasis)
    bandwidths = gaussian_bandwidths(basis.kernel, basis.d)
    if bandwidths:
        gaussians = [_Gaussian(basis.scaled_landmarks, widths**2) for widths in bandwidths]
        return gaussians[0] if len(gaussians) == 1 else _Mean(gaussians)
    if covariance == POINT:
        return _AtKernel(basis.kernel, basis.scaled_landmarks)
    raise UsageError(
        f"mixtures cannot be fitted to sums of this kernel ({basis.kernel}): only Gaussian kernels have a "
        'closed-form mean under a Gaussian. Use `decoder="cells"`, or sketch with `kernel="gaussian"`'
    )


def second_moments(basis: NystromBasis, mixture: Mixture) -> Floats:
    """Return E k(z, x) k(x, z') for all pairs of landmarks, x from a mixture in the units of the kernel.

    The product of two Gaussians of x, with squared bandwidths S and S', is a third, with S S'/(S + S'), about
    a point between the landmarks, times exp(−½ (z − z')² / (S + S')).
    """
    bandwidths = gaussian_bandwidths(basis.kernel, basis.d)
    if not bandwidths:
        raise UsageError(
            f"the second moments of this kernel ({basis.kernel}) under mixtures have no closed form: only "
            "those of Gaussian kernels do. Give them as a matrix"
        )
    Z, weights = basis.scaled_landmarks, mixture.normalise().weights
    moments = np.zeros((basis.m, basis.m))
    for S, other in ((a**2, b**2) for a in bandwidths for b in bandwidths):
        total = S + other
        for i, z in enumerate(Z):
            between = (z * other + Z * S) / total
            means = _Gaussian(between, S * other / total).values(mixture.means, mixture.covariances)
            moments[i] += np.exp(-0.5 * ((Z - z) ** 2 / total).sum(axis=1)) * (weights @ means)
    return moments / len(bandwidths) ** 2


class AtomFamily:
    """Atoms of one shape at a basis, by parameters that may be optimised: k × `size` numbers.

    These are the mean, then (unless the atoms are points) the logarithm of the variance or variances, or of
    the diagonal of a Cholesky factor, followed by what is below it.
    """

    def __init__(self, basis: Basis, covariance: str) -> None:
        self.basis, self.covariance, self.d = basis, covariance, basis.d
        self._means_of = _mean_values(basis, covariance)
        self._below = np.tril_indices(self.d, -1)

    @property
    def size(self) -> int:
        """How many parameters an atom has."""
        return (
            self.d
            + {POINT: 0, "spherical": 1, "diag": self.d, "full": self.d * (self.d + 1) // 2}[self.covariance]
        )

    def pack(self, mixture: Mixture) -> Floats:
        """Return the parameters of the components of a mixture, made to fit the shape of these atoms."""
        if self.covariance == POINT:
            return mixture.means.copy()
        covariances = reshape_covariances(mixture.covariances, self.covariance)
        if self.covariance == "full":
            factors = np.linalg.cholesky(covariances)
            diagonals = np.log(np.einsum("kii->ki", factors))
            return np.concatenate([mixture.means, diagonals, factors[:, *self._below]], axis=1)
        kept = covariances[:, :1] if self.covariance == "spherical" else covariances
        return np.concatenate([mixture.means, np.log(kept)], axis=1)

    def unpack(self, parameters: Floats, weights: Floats) -> Mixture:
        """Return the mixture with these parameters."""
        means, covariances = self._split(parameters)
        return Mixture(weights, means, np.zeros_like(means) if covariances is None else covariances)

    def _split(self, parameters: Floats) -> tuple[Floats, Floats | None]:
        means, rest = parameters[:, : self.d], parameters[:, self.d :]
        if self.covariance == POINT:
            return means, None
        if self.covariance == "full":
            factors = self._factors(rest)
            return means, factors @ factors.transpose(0, 2, 1)
        return means, np.broadcast_to(np.exp(rest), means.shape)

    def _factors(self, rest: Floats) -> Floats:
        factors = np.zeros((len(rest), self.d, self.d))
        factors[:, np.arange(self.d), np.arange(self.d)] = np.exp(rest[:, : self.d])
        factors[:, *self._below] = rest[:, self.d :]
        return factors

    def values(self, parameters: Floats) -> Floats:
        """Return the mean of every function of the basis under every atom."""
        return self._means_of.values(*self._split(parameters))

    def pullback(self, parameters: Floats, coefficients: Floats) -> Floats:
        """Return the gradient of Σ coefficients ∘ values, like the parameters."""
        means, covariances = self._split(parameters)
        to_means, to_covariances = self._means_of.pullback(means, covariances, coefficients)
        if covariances is None or to_covariances is None:
            return to_means
        if self.covariance == "full":
            factors = self._factors(parameters[:, self.d :])
            to_factors = 2 * to_covariances @ factors
            diagonals = np.einsum("kii->ki", to_factors) * np.einsum("kii->ki", factors)
            return np.concatenate([to_means, diagonals, to_factors[:, *self._below]], axis=1)
        to_logarithms = to_covariances * covariances
        if self.covariance == "spherical":
            to_logarithms = to_logarithms.sum(axis=1, keepdims=True)
        return np.concatenate([to_means, to_logarithms], axis=1)

    def bounds(self, box: tuple[Floats, Floats], variances: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return the least and greatest parameters with means in a box, and variances of features in another.

        Of a full covariance only the Cholesky diagonal is held: from below, it holds the determinant.
        """
        lower, upper = [box[0]], [box[1]]
        if self.covariance == "spherical":
            lower.append(np.log(variances[0].min(keepdims=True)))
            upper.append(np.log(variances[1].max(keepdims=True)))
        elif self.covariance != POINT:
            half = 0.5 if self.covariance == "full" else 1.0
            lower.append(half * np.log(variances[0]))
            upper.append(half * np.log(variances[1]))
        if self.covariance == "full":
            row = np.sqrt(variances[1])[self._below[0]]
            lower.append(-row)
            upper.append(row)
        return np.concatenate(lower), np.concatenate(upper)
