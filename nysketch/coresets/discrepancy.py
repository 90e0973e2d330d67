"""How near weighted rows are to the data: the MMD, and what as many random rows have.

The MMD is the largest difference of means over all functions in the unit ball of the kernel's space. With ν
the weighted rows, μ the data and P the projection on the span of the landmarks,
MMD² = |P(ν − μ)|² + |(1 − P)(ν − μ)|². The first is known exactly, from the kernel sums. The second is the
mean over pairs of rows of h(x, y) − h_ν(x) − h_ν(y) + h_νν, where h = k − k_Z and h_ν is its mean under ν;
the mean over pairs of sampled rows (a U-statistic) estimates it with a known standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.accumulators.sample import RowSample
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import FEWEST_ROWS, PairMeans, features_of, relative_weights

# Pairs of so many rows tell it; they take a second.
_MEASURED_ROWS = 2000
# Rows whose weights are so uneven that they count as fewer than this share of them say nothing of others.
_EVEN = 0.05
_STEP = 512


@dataclass(frozen=True)
class Discrepancy:
    """The MMD between weighted rows and the data, and the root mean square of that of as many random rows.

    Random rows are drawn in proportion to their weights. Without sampled rows that tell what is outside the
    span of the landmarks, there is no standard error, and the MMD is that of ν alone there.
    """

    mmd: float
    standard_error: float | None
    random_mmd: float

    @property
    def gain(self) -> float:
        """How many times farther away random rows are, at least: by a standard error, and by rounding."""
        return self.random_mmd / max(self.mmd + (self.standard_error or 0.0), 1e-9)


def mean_embedding_at(basis: NystromBasis, points: Rows, mean_kernel: Floats, sample: RowSample) -> Floats:
    """Return the mean of k(x, point) over all rows, for every point (scaled).

    Of what is in the span of the landmarks it is exact; the rest is a mean over sampled rows.
    """
    features = features_of(basis, points)
    inside = features @ basis.to_features(mean_kernel)
    sampled, shares = _representative(sample, basis)
    if sampled is None:
        return inside
    rows, shares = sampled[:_MEASURED_ROWS], shares[:_MEASURED_ROWS]
    outside = basis.kernel(points, rows) - features @ features_of(basis, rows).T
    return np.asarray(inside + outside @ shares / len(rows))


def discrepancy_to(
    basis: NystromBasis,
    points: Rows,
    weights: Floats,
    mean_kernel: Floats,
    sample: RowSample,
    *,
    of_rows: int,
    mean_norm: float | None = None,
) -> Discrepancy:
    """Return the distance of weighted points, scaled, to rows with this mean of k(Z, x).

    `mean_norm` is the mean of k(x, x) over all rows, if it is known.
    """
    sampled, shares = _representative(sample, basis)
    if sampled is not None and len(sample) == of_rows <= _MEASURED_ROWS:
        return _exact(basis, points, weights, sampled, shares / len(shares))
    features, mean = features_of(basis, points), basis.to_features(mean_kernel)
    inside = float(((weights @ features - mean) ** 2).sum())
    own = max(float(weights @ (basis.kernel(points, points) - features @ features.T) @ weights), 0.0)
    if sampled is None or len(sampled) < FEWEST_ROWS:
        if mean_norm is None:
            mean_norm = float(basis.kernel.diagonal(basis.scaled_landmarks).mean())
        spread = max(mean_norm - float(mean @ mean), 0.0)
        return Discrepancy(math.sqrt(inside + own), None, math.sqrt(spread / len(weights)))
    rows, shares = sampled[:_MEASURED_ROWS], shares[:_MEASURED_ROWS]
    n = max(of_rows, len(rows))
    of_rows_features = features_of(basis, rows)
    at_rows = weights @ (basis.kernel(points, rows) - features @ of_rows_features.T)
    pairs = PairMeans(basis, rows, of_rows_features, shares)
    norms = basis.kernel.diagonal(rows)
    # Of all n² pairs, so many are a row with itself.
    alone = float((shares**2).mean()) / n
    residuals = np.maximum(norms - (of_rows_features**2).sum(axis=1), 0.0)
    of_data = (1 - alone) * pairs.mean_h + float((shares**2 * residuals).mean()) / n
    mean_at_rows = float((shares * at_rows).mean())
    outside = max(own - 2 * mean_at_rows + of_data, 0.0)
    influence = 2 * shares * ((pairs.means_h - pairs.mean_h) - (at_rows - mean_at_rows))
    # The larger the part of the table that was sampled, the less is left to chance.
    deviation = math.sqrt(float((influence**2).mean()) / len(rows) * (1 - len(rows) / n))
    if mean_norm is None:
        mean_norm = float((shares * norms).mean())
    spread = max(mean_norm - float(mean @ mean) - of_data, 0.0)
    mmd = math.sqrt(inside + outside)
    return Discrepancy(mmd, math.sqrt(mmd**2 + deviation) - mmd, math.sqrt(spread / len(weights)))


def _representative(sample: RowSample, basis: NystromBasis) -> tuple[Rows | None, Floats]:
    """Return sampled rows, scaled, and their shares; no rows if a few heavy ones are all that counts."""
    if not len(sample):
        return None, np.empty(0)
    rows, weights = sample.scaled(basis.middle), sample.weights
    if weights is None:
        return rows, np.ones(len(rows))
    rows, weights = rows[weights > 0], weights[weights > 0]
    if not len(rows) or weights.sum() ** 2 < _EVEN * len(rows) * float((weights**2).sum()):
        return None, np.empty(0)
    return rows, relative_weights(weights, len(rows))


def _exact(basis: NystromBasis, points: Rows, weights: Floats, rows: Rows, of_rows: Floats) -> Discrepancy:
    """Return the distance to rows that are all there, by all pairs."""
    kernel = basis.kernel
    between = sum(
        float(of_rows[i : i + _STEP] @ kernel(rows[i : i + _STEP], rows) @ of_rows)
        for i in range(0, len(rows), _STEP)
    )
    squared = float(weights @ kernel(points, points) @ weights)
    squared += between - 2 * float(weights @ kernel(points, rows) @ of_rows)
    spread = max(float(of_rows @ kernel.diagonal(rows)) - between, 0.0)
    return Discrepancy(math.sqrt(max(squared, 0.0)), 0.0, math.sqrt(spread / len(weights)))
