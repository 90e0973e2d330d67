"""Evidence: what a sketch tells a decoder, in scaled units; what is expensive only once, and if asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.moment_matching import Limits, Matching
from nysketch.learning.decode.points import Points, round_to_grid
from nysketch.learning.decode.quadrature import convex_weights
from nysketch.learning.decode.whitening import Moments
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.trimming import inliers

# Rows drawn to start from, and to see how features vary, where the sketch has none.
_DRAWN_STARTS = 1000
_DRAWN_PER_FEATURE = 4
# A sample smaller than this says too little to be believed.
_FEWEST_SAMPLED = 100
# Far from all landmarks kernel values are 0, and so are gradients: a box that reaches out to the few rows
# there only leads astray. So it holds all landmarks but this share on both sides, and some more room.
_OUTSIDE, _ROOM = 0.005, 0.1
# How far rows of scaled columns reach, where nothing else is known.
_REACH = 4.0
_LEAST_VARIANCE, _GREATEST_VARIANCE = 1e-6, 4.0


class Evidence:
    """What a sketch says about its rows; if `cautious`, landmarks far from all others are outliers."""

    def __init__(self, sketch: Sketch, *, cautious: bool = False) -> None:
        self.sketch, self.basis, self._cautious = sketch, sketch.basis, cautious
        if self.basis.text:
            raise UsageError("clusters and mixtures need numeric columns, and this is a sketch of text")
        means = sketch.mean_kernel()
        self.mean_values = round_to_grid(means, float(np.abs(means).max()))

    @property
    def d(self) -> int:
        """The number of features."""
        return self.basis.d

    @property
    def landmarks(self) -> NystromBasis | None:
        """The basis, if it has landmarks."""
        return self.basis if isinstance(self.basis, NystromBasis) else None

    @property
    def beyond(self) -> int:
        """How many rows are too far out to be in any cell."""
        return 0 if self.sketch.cells is None else self.sketch.cells.beyond

    @cached_property
    def points(self) -> Points | None:
        """The cells with their spread, and the far rows one by one; None if there are no cells."""
        if self.sketch.cells is None or self.landmarks is None:
            return None
        points = Points.of_cells(self.sketch.cells, self.landmarks)
        return points.round_to_grid() if len(points) else None

    @cached_property
    def cautious_points(self) -> Points | None:
        """The same, but for what is certified."""
        if self.points is None or self.sketch.cells is None or self.landmarks is None:
            return None
        return Points.of_cells(self.sketch.cells, self.landmarks, cautious=True)

    @cached_property
    def sample(self) -> Points | None:
        """The sampled rows, if there are enough of them."""
        sample = self.sketch.tally.sample
        if len(sample) < min(_FEWEST_SAMPLED, max(self.sketch.rows, 1)):
            return None
        points = Points.of_rows(np.asarray(sample.scaled(self.basis.middle)), sample.weights)
        return points if len(points) else None

    @cached_property
    def support(self) -> Floats:
        """Rows near the data, where searches start: landmarks, or sampled rows, or else drawn ones."""
        if self.landmarks is not None:
            landmarks = np.asarray(self.landmarks.scaled_landmarks)
            return landmarks[inliers(landmarks)] if self._cautious else landmarks
        if self.sample is not None:
            return self.sample.means
        return self._blob.draw(_DRAWN_STARTS, np.random.default_rng(0))

    @cached_property
    def _reach(self) -> tuple[Floats, Floats]:
        """How far rows reach, where Fourier features are all there is."""
        lower, upper = self.basis.scaled_ends(*self.sketch.column_ranges)
        if self.basis.scaling != "none":  # a few rows may be far out
            lower, upper = np.clip(lower, -_REACH, _REACH), np.clip(upper, -_REACH, _REACH)
        return lower, upper

    @cached_property
    def _blob(self) -> Mixture:
        """One Gaussian that covers all rows: scaled columns have the mean 0 and the variance 1."""
        lower, upper = self._reach
        middle, width = (lower + upper) / 2, (upper - lower) / 4
        if self.basis.scaling != "none":
            middle, width = np.clip(0.0, lower, upper), np.minimum(2 * width, 1.0)
        return Mixture(np.ones(1), middle[None, :], np.maximum(width, 1e-9)[None, :] ** 2)

    @cached_property
    def limits(self) -> Limits:
        """Where the means of atoms may be, and how large their variances."""
        if not self.knows_rows:
            lower, upper = self._reach
        else:
            lower, upper = np.quantile(self.support, [_OUTSIDE, 1 - _OUTSIDE], axis=0)
        data = self.points or self.sample or Points.of_rows(self.support)
        # A few far rows may make up most of a variance.
        return _limits(lower, upper, np.minimum(data.total_variances(), (upper - lower) ** 2))

    @property
    def variances(self) -> Floats:
        """The variance of each feature, roughly."""
        return self.limits.greatest_variances / _GREATEST_VARIANCE

    @cached_property
    def quadrature(self) -> Points:
        """The kernel sums as weights of the landmarks (or of other rows near the data)."""
        prior = np.full(len(self.support), 1 / len(self.support))
        weights = convex_weights(self.basis, self.support, self.mean_values, self.sketch.rows, prior)
        return Points.of_rows(self.support, weights)

    @property
    def knows_rows(self) -> bool:
        """Whether `support` are rows of the data, not just drawn where these may be."""
        return self.landmarks is not None or self.sample is not None

    @cached_property
    def moments(self) -> Moments:
        """The mean features, whitened by rows like the data."""
        data = self.quadrature if self.landmarks is not None else self.sample
        if data is None:
            count = _DRAWN_PER_FEATURE * self.basis.m
            data = Points.of_rows(self._blob.draw(count, np.random.default_rng(1)))
        return Moments.of(self.basis, self.mean_values, self.sketch.rows, data)

    @cached_property
    def plain_moments(self) -> Moments:
        """The mean features as they are."""
        return Moments.of(self.basis, self.mean_values, self.sketch.rows, None)

    def matching(self, covariance: str, *, plain: bool = False) -> Matching:
        """Return how to fit mixtures of this shape, in whitened coordinates unless `plain`."""
        moments = self.plain_moments if plain else self.moments
        return Matching(self.basis, moments, covariance, self.limits)


def _limits(lower: Floats, upper: Floats, variances: Floats) -> Limits:
    # A constant column varies less than any other; rounding is all it has.
    some = variances[variances > 0]
    variances = np.where(variances > 0, variances, _LEAST_VARIANCE * (some.min() if len(some) else 1.0))
    room = _ROOM * (upper - lower) + 1e-3 * np.sqrt(variances)
    return Limits(lower - room, upper + room, _LEAST_VARIANCE * variances, _GREATEST_VARIANCE * variances)
