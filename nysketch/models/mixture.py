"""Gaussian mixtures: spherical, diagonal and full covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nysketch._support.html_repr import counted, html_table, listed, one_line
from nysketch._types import Floats, Labels
from nysketch.models.base import (
    ABSOLUTE_ERROR,
    EPSILON,
    RELATIVE_ERROR,
    Model,
    row_squares,
    set_by_difference,
)
from nysketch.models.mixed import MixedTerms

COVARIANCE_TYPES = ("spherical", "diag", "full")
# For the same reason, no Gaussian is narrower than its inverse.
_NARROWEST = 1e-20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureModel(Model):
    """A mixture of Gaussians.

    Covariances are k × d variances, or k × d × d if they are "full". "spherical" ones are so in scaled
    units: v·scale² in those of the data. Where columns have kinds, only numbers are Gaussians: see mixed.py.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    covariance_type: str

    kind: ClassVar[str] = "gmm"
    arrays: ClassVar[tuple[str, ...]] = ("weights", "means", "covariances")
    settings: ClassVar[tuple[str, ...]] = ("covariance_type",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_proportions("weights")
        self._require_near("means")
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ValueError(f"covariance_type must be one of {', '.join(COVARIANCE_TYPES)}")
        full = self.covariance_type == "full"
        if full and self.encoded:
            raise ValueError("covariances cannot be full where columns have kinds")
        self._require_shape("covariances", (self.k, self.d, self.d) if full else (self.k, self.d))
        if full:
            deviations = np.sqrt(np.maximum(np.einsum("jaa->ja", self.scaled_covariances), 0))
            skew = np.abs(self.scaled_covariances - self.scaled_covariances.transpose(0, 2, 1))
            if (skew > 1e-8 * deviations[:, :, None] * deviations[:, None, :]).any():
                raise ValueError("covariances are not symmetric")
            if not (np.abs(self._whitening) < 1 / _NARROWEST).all():
                raise ValueError("covariances are not positive definite")
            return
        variances = self.scaled_covariances
        if not (variances > _NARROWEST**2).all():
            raise ValueError("covariances are not positive")
        spread = variances.max(axis=1) - variances.min(axis=1)
        spherical = self.covariance_type == "spherical" and not self.encoded
        if spherical and (spread > 1e-8 * variances.max(axis=1)).any():
            raise ValueError("covariances are not spherical: they are not multiples of scale²")

    def __repr__(self) -> str:
        components = counted(self.k, f"{self.covariance_type} component")
        return one_line("MixtureModel", f"{components} × {counted(self.d, 'feature')}")

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "components": self.k,
            "covariances": self.covariance_type,
            "weights": listed(f"{weight:.1%}" for weight in sorted(self.weights, reverse=True)),
        }
        return html_table("MixtureModel", facts | self._facts())

    @property
    def k(self) -> int:
        """The number of components."""
        return len(self.weights)

    @property
    def n_parameters(self) -> int:
        """How many numbers can be chosen freely: what information criteria count."""
        d = self.d
        if self.encoded:
            return self.k - 1 + self.k * self.terms.parameters(self.covariance_type)
        each = {"spherical": 1, "diag": d, "full": d * (d + 1) // 2}[self.covariance_type]
        return self.k - 1 + self.k * (d + each)

    @cached_property
    def center(self) -> Floats:
        """The mean of the mixture."""
        return np.asarray(self.means[0] + self.weights @ (self.means - self.means[0]))

    @cached_property
    def scaled_means(self) -> Floats:
        """The means in the units of the distances, relative to the centre."""
        return self.scaled_features(self.means)

    @cached_property
    def scaled_covariances(self) -> Floats:
        """The covariances in the units of the distances."""
        with np.errstate(over="ignore", invalid="ignore"):  # where this happens, they are refused
            if self.covariance_type == "full":
                return np.asarray(self.covariances / self.scale[:, None] / self.scale)
            return np.asarray(self.covariances / self.scale / self.scale)

    @cached_property
    def terms(self) -> MixedTerms:
        """What statistics of rows the density is made of, where columns have kinds."""
        return MixedTerms(self.layout, self.center, self.scale)

    @cached_property
    def _coefficients(self) -> tuple[Floats, Floats]:
        return self.terms.coefficients(self.weights, self.means, self.covariances)

    @cached_property
    def _whitening(self) -> Floats:
        """Of full covariances, the inverse Cholesky factors: each makes its Gaussian a round one."""
        try:
            factors = np.linalg.cholesky(self.scaled_covariances)
        except np.linalg.LinAlgError as error:
            raise ValueError("covariances are not positive definite") from error
        return np.tril(np.linalg.inv(factors))

    @cached_property
    def _peaks(self) -> Floats:
        """The logarithm of each component's density at its mean, times its weight."""
        if self.covariance_type == "full":
            widths = -np.log(np.einsum("jaa->ja", self._whitening)).sum(axis=1)
        else:
            widths = np.log(self.scaled_covariances).sum(axis=1) / 2
        widths = widths + np.log(self.scale).sum() + self.d / 2 * math.log(2 * math.pi)
        with np.errstate(divide="ignore"):  # log 0: a component without weight has no rows
            return np.asarray(np.log(self.weights) - widths)

    def _labels(self, rows: Floats) -> Labels:
        """Return the number of the component that each row most likely comes from."""
        labels = np.empty(len(rows), np.int32)
        for part, Y in self._blocks(rows):
            labels[part] = self._log_joint(Y).argmax(axis=1)
        return labels

    def log_densities(self, data: Any) -> Floats:
        """Return log p(x) for each row, in the data's units.

        Parameters
        ----------
        data
            Rows, as `labels` takes them.

        Returns
        -------
        numpy.ndarray
            A number for each row.

        """
        return self._at_rows(data, self._log_densities)

    def _log_densities(self, rows: Floats) -> Floats:
        densities = np.empty(len(rows))
        for part, Y in self._blocks(rows):
            densities[part] = _normalise(self._log_joint(Y))[0]
        return densities

    def costs(self, data: Any) -> Floats:
        """Return −log p(x) for each row."""
        return -self.log_densities(data)

    def responsibilities(self, data: Any) -> Floats:
        """Return the probability of each component, given the row.

        Parameters
        ----------
        data
            Rows, as `labels` takes them.

        Returns
        -------
        numpy.ndarray
            Rows × k probabilities; those of a row sum to 1.

        """
        return self._at_rows(data, lambda rows: self.posterior(rows)[1], shape=(self.k,))

    def posterior(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return log p(x) for each row, and the probabilities of the components."""
        densities, responsibilities = np.empty(len(rows)), np.empty((len(rows), self.k))
        for part, Y in self._blocks(rows):
            densities[part], responsibilities[part] = _normalise(self._log_joint(Y))
        return densities, responsibilities

    def _log_joint(self, Y: Floats) -> Floats:
        """Return log(weight · density) of every component at scaled rows."""
        if self.encoded:
            matrix, constants = self._coefficients
            return np.asarray(self.terms.statistics(Y) @ matrix + constants)
        squares = self._whitened_squares(Y) if self.covariance_type == "full" else self._weighted_squares(Y)
        squares *= -0.5
        squares += self._peaks
        return squares

    def _whitened_squares(self, Y: Floats) -> Floats:
        squares = np.empty((len(Y), self.k))
        for j, (mean, whitening) in enumerate(zip(self.scaled_means, self._whitening, strict=True)):
            squares[:, j] = row_squares((Y - mean) @ whitening.T)
        return squares

    def _weighted_squares(self, Y: Floats) -> Floats:
        """Return Σ (y − mean)²/variance from matrix products, or from differences where digits cancel."""
        precisions = 1 / self.scaled_covariances
        weighted = self.scaled_means * precisions
        lengths = (Y * Y) @ precisions.T
        lengths += (self.scaled_means * weighted).sum(axis=1)
        squares: Floats = lengths - 2 * (Y @ weighted.T)
        lengths *= (self.d + 3) * EPSILON  # now what may be wrong
        doubtful = lengths > ABSOLUTE_ERROR + RELATIVE_ERROR * np.abs(squares)
        if doubtful.any():
            set_by_difference(Y, self.scaled_means, doubtful, squares, precisions)
        return squares


def _normalise(log_joint: Floats) -> tuple[Floats, Floats]:
    """Return log Σ exp and the shares of the terms; overwrites its argument."""
    largest = log_joint.max(axis=1)
    log_joint -= largest[:, None]
    np.exp(log_joint, out=log_joint)
    sums = log_joint.sum(axis=1)
    log_joint /= sums[:, None]
    return largest + np.log(sums), log_joint
