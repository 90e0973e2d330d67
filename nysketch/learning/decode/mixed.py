"""Mixtures of columns with kinds, by EM on cells: what rows say of components, cells say of their mean row.

A cell knows the mean of every statistic that the density is made of (models/mixed.py), so EM runs on cells
as on rows, and raises a lower bound on the likelihood of the rows. Then it runs on rows drawn from the cells,
whose values are as frequent as in their cell; the sampled rows tell which is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from nysketch._types import Floats
from nysketch.errors import UsageError
from nysketch.kinds import Category
from nysketch.learning.decode import weighted_kmeans
from nysketch.learning.decode.decoders import require_enough
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.points import Points
from nysketch.models.mixed import MixedTerms

_RESTARTS, _FOLLOWED = 20, 8
_LOOSE, _STEPS, _TOLERANCE = 40, 300, 1e-7
_FLOOR = 1e-6
# Rows drawn from cells, in numbers: 32 MB of features.
_DRAWN_NUMBERS, _FEWEST, _MOST = 4_000_000, 4000, 20_000


@dataclass(frozen=True, eq=False)
class Fit:
    """A mixture in scaled features, its mean log-likelihood per unit of the data, and the error of that."""

    mixture: Mixture
    log_likelihood: float
    standard_error: float | None


@dataclass(frozen=True, eq=False)
class _Rows:
    """Statistics of points, and their weights."""

    statistics: Floats
    weights: Floats


class MixedLearner:
    """Fits mixtures to the cells of a sketch whose columns have kinds."""

    def __init__(self, evidence: Evidence, covariance: str, seed: int) -> None:
        if covariance == "full":
            raise UsageError(
                'covariances cannot be `covariance="full"` where columns have kinds: cells do not know how '
                'columns vary together. Use `covariance="diag"`'
            )
        if evidence.points is None:
            raise UsageError(
                "a mixture of columns with kinds is learned from cells, and this sketch has none. Sketch "
                "with landmarks, and without `cells=False`"
            )
        self._evidence, self._covariance, self._seed = evidence, covariance, seed
        self._points: Points = evidence.points
        basis = evidence.basis
        # Scaled features are relative to the centre of the basis.
        self.terms = MixedTerms(basis.layout, basis.center, basis.scale)
        self._cells = self._of(self._points)
        total = self.terms.total_variances(self._cells.statistics, self._cells.weights)
        self._floor = np.maximum(_FLOOR * total, 1e-12)
        sample = evidence.sample
        self._sample = None if sample is None else self._of(sample)

    def _of(self, points: Points) -> _Rows:
        return _Rows(self.terms.statistics(points.means, points.variances), points.weights)

    def fit(self, k: int, trials: int | None, step: Callable[[], None]) -> Fit:
        """Return the best mixture of k components."""
        rng = np.random.default_rng([self._seed, k])
        require_enough(self._points, k, "cells and far rows")
        starts = weighted_kmeans.starts(self._points, k, trials or _RESTARTS, rng, step)
        fits = [self._run(self._cells, self._start(each), _LOOSE) for each in starts[:_FOLLOWED]]
        on_cells = self._run(self._cells, max(fits, key=lambda one: one[1])[0], _STEPS)[0]
        if self._sample is None:
            return self._judged(on_cells)
        drawn = self._of(self._draw(rng))
        on_rows = self._run(drawn, on_cells, _STEPS)[0]
        return max(self._judged(on_cells), self._judged(on_rows), key=lambda fit: fit.log_likelihood)

    def _judged(self, mixture: Mixture) -> Fit:
        rows = self._sample or self._cells
        each = logsumexp(self._log_joint(rows, mixture), axis=1)
        shares = rows.weights / rows.weights.sum()
        mean = float(shares @ each)
        error = float(np.sqrt(shares**2 @ (each - mean) ** 2))
        return Fit(mixture, mean, None if self._sample is None else error)

    def _log_joint(self, rows: _Rows, mixture: Mixture) -> Floats:
        basis = self._evidence.basis
        matrix, constants = self.terms.coefficients(
            mixture.weights,
            mixture.means * basis.scale + basis.center,
            mixture.covariances * basis.scale**2,
        )
        return np.asarray(rows.statistics @ matrix + constants)

    def _start(self, centroids: Floats) -> Mixture:
        labels = weighted_kmeans.squared_distances(self._points.means, centroids).argmin(axis=1)
        hard = np.zeros((len(self._points), len(centroids)))
        hard[np.arange(len(labels)), labels] = 1.0
        weights = np.full(len(centroids), 1 / len(centroids))
        return self._maximise(self._cells, hard, Mixture(weights, centroids, np.ones_like(centroids)))

    def _maximise(self, rows: _Rows, responsibilities: Floats, before: Mixture) -> Mixture:
        basis = self._evidence.basis
        counts = responsibilities * rows.weights[:, None]
        members = counts.sum(axis=0)
        means, covariances = self.terms.maximise(
            counts.T @ rows.statistics,
            members,
            self._covariance,
            self._floor,
            (before.means * basis.scale + basis.center, before.covariances * basis.scale**2),
        )
        weights = np.maximum(members / members.sum(), 1e-12)
        return Mixture(
            weights / weights.sum(), (means - basis.center) / basis.scale, covariances / basis.scale**2
        )

    def _run(self, rows: _Rows, mixture: Mixture, steps: int) -> tuple[Mixture, float]:
        """Run EM until it no longer matters."""
        before, shares = -np.inf, rows.weights / rows.weights.sum()
        for _ in range(steps):
            logs = self._log_joint(rows, mixture)
            each = logsumexp(logs, axis=1)
            now = float(shares @ each)
            if now - before < _TOLERANCE:
                break
            before = now
            mixture = self._maximise(rows, np.exp(logs - each[:, None]), mixture)
        return mixture, float(shares @ logsumexp(self._log_joint(rows, mixture), axis=1))

    def _draw(self, rng: np.random.Generator) -> Points:
        """Return rows drawn from the cells: each has one value of a category, and is missing or not."""
        basis = self._evidence.basis
        count = int(np.clip(_DRAWN_NUMBERS // basis.d, _FEWEST, _MOST))
        shares = self._points.weights * (count / self._points.weights.sum())
        single = ~self._points.variances.any(axis=1)
        copies = np.where(single, 1, np.maximum(1, np.rint(shares))).astype(np.int64)
        which = np.repeat(np.arange(len(copies)), copies)
        starts = np.repeat(np.concatenate([[0], np.cumsum(copies)[:-1]]), copies)
        rows = self._points.means[which].copy()
        spread = self._points.variances[which]

        def evenly() -> Floats:
            """Draw numbers between 0 and 1 that are spread evenly over the rows of each cell."""
            order = np.lexsort((rng.random(len(which)), which))
            ranks = np.empty(len(which))
            ranks[order] = np.arange(len(which)) - starts
            return np.asarray((ranks + rng.random(len(copies))[which]) / copies[which])

        for place in basis.layout.places:
            kind, at = place.column.kind, place.features
            scale, center = basis.scale[at], basis.center[at]
            if isinstance(kind, Category):
                cumulated = np.cumsum(self._points.means[:, at] * scale, axis=1)[which]
                codes = (evenly()[:, None] * cumulated[:, -1:] >= cumulated).sum(axis=1)
                codes = np.minimum(codes, kind.features - 1)
                rows[:, at] = 0.0
                rows[np.arange(len(rows)), at.start + codes] = 1 / scale[0]
                continue
            noise = np.sqrt(spread[:, at]) * rng.standard_normal(spread[:, at].shape)
            missing = kind is not None and bool(getattr(kind, "missing", False))
            if not missing:
                rows[:, at] += noise
                continue
            # Those that are not missing have the mean and variance of the cell, without the neutral place.
            share = np.clip(rows[:, at.stop - 1] * scale[-1] + center[-1], 0, 1)[:, None]
            neutral = (np.atleast_1d(np.asarray(kind.neutral)) - center[:-1]) / scale[:-1]  # type: ignore[union-attr]
            mean, own = rows[:, at][:, :-1], spread[:, at][:, :-1]
            present = np.maximum(1 - share, 1e-9)
            known = (mean - share * neutral) / present
            second = (own + mean**2 - share * neutral**2) / present
            variance = np.maximum(second - known**2, 0.0)
            gone = evenly()[:, None] < share
            drawn = known + np.sqrt(variance) * rng.standard_normal(known.shape)
            rows[:, at.start : at.stop - 1] = np.where(gone, neutral, drawn)
            rows[:, at.stop - 1] = (gone[:, 0] - center[-1]) / scale[-1]
        return Points(self._points.weights[which] / copies[which], rows, np.zeros_like(rows))
