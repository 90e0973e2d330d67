"""How near weighted rows are to the data: the MMD, and what as many random rows have.

The MMD is the largest difference of means over all functions in the unit ball of the kernel's space. What of
it is in the span of the landmarks is known exactly, from the kernel sums; the rest is estimated from sampled
rows (basis/residual_kernel.py), with a standard error.

It is also bounded: with ν the weighted rows and μ the data, no more than ν(r) + μ(r), the means of what the
landmarks leave of a row, its residual r. With the first part, which is exact, this bounds the MMD; of μ(r),
two standard errors are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.accumulators.sample import RowSample
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import (
    FEWEST_ROWS,
    features_of,
    relative_weights,
    residuals_of,
    weighted_mean,
)
from nysketch.basis.residual_kernel import SampledRows, outside_part

# Pairs of so many rows tell it; they take a second.
MEASURED_ROWS = 2000
# Tables of up to so many rows are in the sample as a whole, and there is nothing to estimate.
ALL_ROWS = 2 * MEASURED_ROWS
# Standard errors of means over sampled rows that bounds allow for.
SURE = 2.0
# Rows whose weights are so uneven that they count as fewer than this share of them say nothing of others.
_EVEN = 0.05
_STEP = 512


def halves(sample: RowSample, of_rows: int) -> tuple[RowSample, RowSample]:
    """Return sampled rows to choose a coreset by, and others to judge it by; both are all rows if these are.

    Judged by the rows it was chosen by, a coreset looks too good: with 150 functions of 50 columns, the MMD
    was 7 % too small, five of its standard errors.
    """
    if len(sample) == of_rows <= ALL_ROWS or len(sample) < 2 * FEWEST_ROWS:
        return sample, sample
    middle = len(sample) // 2
    return _part(sample, slice(middle, None)), _part(sample, slice(middle))


def _part(sample: RowSample, which: slice) -> RowSample:
    weights = None if sample.weights is None else sample.weights[which]
    return replace(sample, keys=sample.keys[which], rows=sample.rows[which], weights=weights)


@dataclass(frozen=True)
class Discrepancy:
    """The MMD between weighted rows and the data, and the root mean square of that of as many random rows.

    Random rows are drawn in proportion to their weights. Without sampled rows that tell what is outside the
    span of the landmarks, there is no standard error, and the MMD is that of ν alone there; nor is there a
    bound. The sampling error is what all rows have as a sample of where they come from.
    """

    mmd: float
    standard_error: float | None
    random_mmd: float
    sampling_error: float
    bound: float | None

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
    sampled, shares = representative(sample, basis)
    if sampled is None:
        return inside
    rows, shares = sampled[:ALL_ROWS], shares[:ALL_ROWS]
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
    sampled, shares = representative(sample, basis)
    if sampled is not None and len(sample) == of_rows <= ALL_ROWS:
        return _exact(basis, points, weights, sampled, shares / len(shares))
    features, mean = features_of(basis, points), basis.to_features(mean_kernel)
    inside = float(((weights @ features - mean) ** 2).sum())
    # They are all there is of them: a table of their own, with keys that no row of the data has.
    strange = -1 - np.arange(len(points))
    chosen = SampledRows(basis.kernel, points, features, weights / weights.mean(), len(points), strange, -1)
    if sampled is None or len(sampled) < FEWEST_ROWS:
        if mean_norm is None:
            mean_norm = float(basis.kernel.diagonal(basis.scaled_landmarks).mean())
        spread = max(mean_norm - float(mean @ mean), 0.0)
        own = max(chosen.squared_mean, 0.0)
        sampling = math.sqrt(spread / max(of_rows, 1))
        return Discrepancy(math.sqrt(inside + own), None, math.sqrt(spread / len(weights)), sampling, None)
    rows, shares = sampled[:MEASURED_ROWS], shares[:MEASURED_ROWS]
    of_table = max(of_rows, len(rows))
    keys = np.arange(len(rows))
    data = SampledRows(basis.kernel, rows, features_of(basis, rows), shares, of_table, keys, len(rows))
    found = outside_part(chosen, data)
    # The larger the part of the table that was sampled, the less is left to chance.
    deviation = math.sqrt(found.jackknife[1] * (1 - len(rows) / of_table))
    if mean_norm is None:
        mean_norm = float((shares * data.squared_norms).mean())
    spread = max(mean_norm - float(mean @ mean) - data.squared_mean, 0.0)
    mmd = math.sqrt(inside + max(found.squared, 0.0))
    mean_residual, error = weighted_mean(
        np.sqrt(data.squared_residuals), shares, share_left=1 - data.share_sampled
    )
    beyond = float(weights @ np.sqrt(chosen.squared_residuals))
    return Discrepancy(
        mmd,
        math.sqrt(mmd**2 + deviation) - mmd,
        math.sqrt(spread / len(weights)),
        # Of all pairs of rows, so many are a row with itself.
        math.sqrt(spread * float((shares**2).mean()) / of_table),
        math.hypot(math.sqrt(inside), beyond + mean_residual + SURE * error),
    )


def representative(sample: RowSample, basis: NystromBasis) -> tuple[Rows | None, Floats]:
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
    features, of_rows_features = features_of(basis, points), features_of(basis, rows)
    inside = weights @ features - of_rows @ of_rows_features
    beyond = float(weights @ residuals_of(kernel.diagonal(points), features))
    beyond += float(of_rows @ residuals_of(kernel.diagonal(rows), of_rows_features))
    mmd = math.sqrt(max(squared, 0.0))
    return Discrepancy(
        mmd,
        0.0,
        math.sqrt(spread / len(weights)),
        math.sqrt(spread * float(of_rows @ of_rows)),
        math.hypot(float(np.linalg.norm(inside)), beyond),
    )
