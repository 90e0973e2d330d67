"""Mixtures of columns with kinds: each component is a product of one distribution for each column.

A number has a Gaussian (of its logarithm or rank, if it has one), a category a share for each value, a place
on a circle a von Mises distribution, and each column that may miss a share of missing values; what is missing
says nothing else. All logarithms of these are sums of products of statistics of a row and coefficients of a
component. So what rows have to do with components is one product of matrices; and cells, which know the means
of these statistics over their rows, take the place of rows.

Means of components are those of features: shares of values, mean places on circles. Densities are per unit of
a (transformed) number, and per radian.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from nysketch._types import Floats, Indices
from nysketch.basis.layout import Layout
from nysketch.kinds import Category, Number, Time
from nysketch.kinds.time import ELAPSED

# Shares of components are drawn to those of all rows by so many rows: none is 0.
_PRIOR_ROWS = 1.0
_LEAST_SHARE = 1e-12
# What is on one place of a circle has no end of a density there.
_MOST_CONCENTRATED = 1 - 1e-6
# Variances of features that are no Gaussians are told, not used; like all, they are positive.
_LEAST_VARIANCE = 1e-12
_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class MixedTerms:
    """Statistics of rows, from scaled features relative to a centre; and coefficients of components."""

    layout: Layout
    center: Floats
    scale: Floats

    @cached_property
    def _found(self) -> tuple[list[list[float]], list[slice], list[list[float]], list[int]]:
        """Gaussians and circles, each with its missing feature (or −1) and neutral places; and the others."""
        gaussians: list[list[float]] = []
        circles: list[list[float]] = []
        categories, indicators = [], []
        for place in self.layout.places:
            kind, at = place.column.kind, place.features.start
            if kind is None:
                gaussians += [[i, -1, 0.0] for i in range(at, place.features.stop)]
                continue
            if isinstance(kind, Category):
                categories.append(place.features)
                continue
            assert isinstance(kind, Number | Time)
            missing = place.features.stop - 1 if kind.missing else -1
            indicators += [missing] if kind.missing else []
            if isinstance(kind, Number):
                gaussians.append([at, missing, kind.neutral])
                continue
            offset = 0
            for part in kind.parts:
                if part == ELAPSED:
                    gaussians.append([at + offset, missing, kind.neutral[offset]])
                else:
                    circles.append([at + offset, missing, *kind.neutral[offset : offset + 2]])
                offset += 1 if part == ELAPSED else 2
        return gaussians, categories, circles, indicators

    @cached_property
    def _gaussians(self) -> tuple[Indices, Indices, Floats]:
        """Features, their missing features or −1, and neutral places relative to the centre, scaled."""
        found = np.array(self._found[0]).reshape(-1, 3)
        at, missing = found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)
        return at, missing, (found[:, 2] - self.center[at]) / self.scale[at]

    @cached_property
    def _circles(self) -> tuple[Indices, Indices, Floats]:
        """Features of cosines, missing features or −1, and neutral places: circles × 2."""
        found = np.array(self._found[2]).reshape(-1, 4)
        return found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2:]

    @cached_property
    def _codes(self) -> Indices:
        """The features that are indicators of categories."""
        parts = [np.arange(at.start, at.stop) for at in self._found[1]]
        return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)

    @cached_property
    def _indicators(self) -> Indices:
        return np.array(self._found[3], np.int64)

    def parameters(self, covariance: str) -> int:
        """Return how many numbers of a component can be chosen freely."""
        gaussians, categories, circles, indicators = self._found
        variances = len(gaussians) if covariance == "diag" else min(len(gaussians), 1)
        shares = sum(int(at.stop - at.start) - 1 for at in categories)
        return len(gaussians) + variances + shares + 2 * len(circles) + len(indicators)

    # ---- rows

    def _gone(self, features: Floats, missing: Indices) -> Floats:
        """Return the shares that are missing, 0 where nothing can be."""
        return np.where(missing >= 0, features[:, missing], 0.0)

    def statistics(self, Y: Floats, variances: Floats | None = None) -> Floats:
        """Return the statistics of rows; or their means over rows with these means and variances."""
        features = Y * self.scale + self.center
        at, missing, neutral = self._gaussians
        gone = self._gone(features, missing)
        squares = np.square(Y[:, at]) + (0.0 if variances is None else variances[:, at])
        cosines, missing_times, places = self._circles
        no_time = self._gone(features, missing_times)
        empty = features[:, self._indicators]
        return np.hstack(
            [
                1 - gone,
                Y[:, at] - gone * neutral,
                squares - gone * neutral**2,
                1 - no_time,
                features[:, cosines] - no_time * places[:, 0],
                features[:, cosines + 1] - no_time * places[:, 1],
                features[:, self._codes],
                1 - empty,
                empty,
            ]
        )

    @cached_property
    def _cuts(self) -> list[slice]:
        """Where each of the statistics above are."""
        g, c = len(self._gaussians[0]), len(self._circles[0])
        ends = np.cumsum(
            [0, g, g, g, c, c, c, len(self._codes), len(self._indicators), len(self._indicators)]
        )
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    # ---- components

    def coefficients(self, weights: Floats, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """Return what statistics are multiplied with, statistics × components, and what is added."""
        at, missing, neutral = self._gaussians
        gone = np.clip(self._gone(means, missing), 0, 1 - _LEAST_SHARE)
        Y = (means[:, at] - self.center[at]) / self.scale[at]
        Y = (Y - gone * neutral) / (1 - gone)
        variances = covariances[:, at] / self.scale[at] ** 2
        densities = -0.5 * (Y**2 / variances + np.log(variances) + _LOG_2PI) - np.log(self.scale[at])
        cosines, missing_times, places = self._circles
        no_time = np.clip(self._gone(means, missing_times), 0, 1 - _LEAST_SHARE)
        x = (means[:, cosines] - no_time * places[:, 0]) / (1 - no_time)
        y = (means[:, cosines + 1] - no_time * places[:, 1]) / (1 - no_time)
        radius = np.maximum(np.hypot(x, y), 1e-300)
        kappa = concentration(radius)
        shares = np.clip(means[:, self._codes], _LEAST_SHARE, 1)
        empty = np.clip(means[:, self._indicators], _LEAST_SHARE, 1 - _LEAST_SHARE)
        matrix = np.hstack(
            [
                densities,
                Y / variances,
                -0.5 / variances,
                -_log_circle(kappa),
                kappa * x / radius,
                kappa * y / radius,
                np.log(shares),
                np.log1p(-empty),
                np.log(empty),
            ]
        )
        with np.errstate(divide="ignore"):  # log 0: a component without weight has no rows
            return np.ascontiguousarray(matrix.T), np.log(weights)

    def maximise(
        self, sums: Floats, members: Floats, covariance: str, floor: Floats, before: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats]:
        """Return means and covariances that are best for sums of statistics; an empty component stays."""
        r, y, yy, r_time, x_time, y_time, codes, known, empty = (sums[:, cut] for cut in self._cuts)
        n = members[:, None]
        total = float(members.sum())
        means, covariances = np.zeros_like(before[0]), np.full_like(before[0], 1.0)
        for category in self._found[1]:
            of = slice(*np.searchsorted(self._codes, [category.start, category.stop]).tolist())
            prior = (codes[:, of].sum(axis=0) + 1) / (total + category.stop - category.start)
            shares = (codes[:, of] + _PRIOR_ROWS * prior) / (n + _PRIOR_ROWS)
            means[:, category] = shares / shares.sum(axis=1, keepdims=True)
        prior = (empty.sum(axis=0) + 1) / (total + 2)
        means[:, self._indicators] = (empty + _PRIOR_ROWS * prior) / (known + empty + _PRIOR_ROWS)
        covariances[:] = np.maximum(means * (1 - means), _LEAST_VARIANCE)
        at, missing, neutral = self._gaussians
        some = r > 1e-9 * total / len(members)
        old_mean, old_variance = self._of_gaussians(*before)
        divisors = np.where(some, r, 1.0)
        middle = np.where(some, y / divisors, old_mean)
        spread = np.where(some, yy / divisors - (y / divisors) ** 2, old_variance)
        if covariance == "spherical" and len(at):
            pooled = (np.maximum(spread, 0) * r).sum(axis=1) / np.maximum(r.sum(axis=1), 1e-300)
            spread = np.repeat(
                np.where(some.any(axis=1), pooled, old_variance[:, 0])[:, None], len(at), axis=1
            )
            floor = np.full(len(at), floor.min())
        spread = np.maximum(spread, floor)
        gone = self._gone(means, missing)
        means[:, at] = ((1 - gone) * middle + gone * neutral) * self.scale[at] + self.center[at]
        covariances[:, at] = spread * self.scale[at] ** 2
        cosines, missing_times, places = self._circles
        no_time = self._gone(means, missing_times)
        for i, sum_of in enumerate((x_time, y_time)):
            known_place = np.where(r_time > 0, sum_of / np.maximum(r_time, 1e-300), 0.0)
            means[:, cosines + i] = (1 - no_time) * known_place + no_time * places[:, i]
            covariances[:, cosines + i] = np.maximum(1 - known_place**2, _LEAST_VARIANCE) / 2
        return means, covariances

    def _of_gaussians(self, means: Floats, covariances: Floats) -> tuple[Floats, Floats]:
        """Return means and variances of known numbers, scaled."""
        at, missing, neutral = self._gaussians
        gone = np.clip(self._gone(means, missing), 0, 1 - _LEAST_SHARE)
        Y = (means[:, at] - self.center[at]) / self.scale[at]
        return (Y - gone * neutral) / (1 - gone), covariances[:, at] / self.scale[at] ** 2

    def total_variances(self, statistics: Floats, weights: Floats) -> Floats:
        """Return the variance of each Gaussian's number over all rows, scaled."""
        sums = weights @ statistics
        r, y, yy = (sums[cut] for cut in self._cuts[:3])
        r = np.maximum(r, 1e-300)
        return np.maximum(yy / r - (y / r) ** 2, 0.0)

    def least_variances(self, covariances: Floats) -> Floats:
        """Return the smallest variance of each Gaussian's number in any component, scaled."""
        at = self._gaussians[0]
        return np.asarray((covariances[:, at] / self.scale[at] ** 2).min(axis=0))


def concentration(radius: Floats) -> Floats:
    """Return κ of the von Mises distribution whose mean is at this radius: I₁(κ)/I₀(κ) = radius."""
    from scipy.special import ive

    R = np.clip(radius, 0.0, _MOST_CONCENTRATED)
    kappa = R * (2 - R**2) / (1 - R**2)
    for _ in range(8):
        A = ive(1, kappa) / ive(0, kappa)
        slope = 1 - A**2 - np.divide(A, kappa, out=np.full_like(A, 0.5), where=kappa > 1e-8)
        kappa = np.maximum(kappa - (A - R) / np.maximum(slope, 1e-300), 0.0)
    return np.asarray(kappa)


def _log_circle(kappa: Floats) -> Floats:
    """Return log 2πI₀(κ), which is what makes exp(κ cos) a density."""
    from scipy.special import ive

    return np.asarray(_LOG_2PI + np.log(ive(0, kappa)) + kappa)
