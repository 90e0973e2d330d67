"""What landmarks cannot express, from sampled rows: means of the residual kernel h = k − k_Z over pairs.

With P the projection on the span of the landmarks, |μ − ν|² = |P(μ − ν)|² + |(1 − P)(μ − ν)|². The first part
is known exactly, from kernel sums. The second is the mean of h over pairs of rows, within both sides and
across; the mean over pairs of sampled rows (a U-statistic) estimates it, with a known standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nysketch._types import Floats, Indices, Rows
from nysketch.kernels import Kernel
from nysketch.kernels.base import inverse_or_zero

# The rows of k at a time: 512 × 2000 values are 8 MB.
_STEP = 512
# Pairs of so many rows tell how much h varies.
_VARIED = 256


@dataclass(frozen=True, eq=False)
class SampledRows:
    """Sampled rows, scaled, with their features; `of_rows` is how many rows they represent.

    `shares` are their weights, relative to the mean. Rows with equal `keys` in two samples are the same, or
    belong together; each sample has all rows with keys up to its `bound`.
    """

    kernel: Kernel
    rows: Rows
    features: Floats
    shares: Floats
    of_rows: int
    keys: Indices
    bound: int

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def squared_norms(self) -> Floats:
        """k(x, x) of each row."""
        return np.asarray(self.kernel.diagonal(self.rows), np.float64)

    @cached_property
    def squared_residuals(self) -> Floats:
        """h(x, x) of each row: how far it is from what the landmarks express."""
        return np.asarray(np.maximum(self.squared_norms - (self.features**2).sum(axis=1), 0.0))

    @property
    def share_outside(self) -> float:
        """How much of the squared length of rows is outside the span, on average."""
        norm = float(self.shares @ self.squared_norms)
        return float(self.shares @ self.squared_residuals) / norm if norm > 0 else 0.0

    @property
    def effective(self) -> float:
        """How many rows of equal weight they are worth (Kish)."""
        return len(self) / float((self.shares**2).mean())

    @property
    def share_sampled(self) -> float:
        """Which part of the table was sampled."""
        return len(self) / self.of_rows

    @cached_property
    def _own(self) -> tuple[Floats, float]:
        """The mean of h of each row with all others, and the mean over all pairs of different rows."""
        w = self.shares
        sums = np.empty(len(self))
        for start in range(0, len(self), _STEP):
            part = slice(start, start + _STEP)
            sums[part] = self.kernel(self.rows[part], self.rows) @ w
        sums -= self.features @ (w @ self.features)
        sums -= w * (self.squared_norms - (self.features**2).sum(axis=1))
        others = w.sum() - w
        pairs = float(w @ others)
        means = sums * inverse_or_zero(others)
        return means, float(w @ sums) / pairs if pairs > 0 else 0.0

    @property
    def means_h(self) -> Floats:
        """The mean of h of each row with all others."""
        return self._own[0]

    @property
    def mean_h(self) -> float:
        """The mean of h over all pairs of different rows."""
        return self._own[1]

    @property
    def squared_mean(self) -> float:
        """|(1 − P)μ|² for all rows that these represent: of the n² pairs, n are a row with itself."""
        alone = float((self.shares**2).mean()) / self.of_rows
        own = float((self.shares**2 * self.squared_residuals).mean()) / self.of_rows
        return (1 - alone) * self.mean_h + own

    @cached_property
    def head(self) -> SampledRows:
        """The first rows, enough to tell how much h varies."""
        return self.first(_VARIED)

    @cached_property
    def interaction(self) -> float:
        """The variance of h between two of its rows, less the means of the two."""
        return _interaction(self.head, self.head)

    def first(self, count: int) -> SampledRows:
        """Return fewer rows: the first, which are a sample as well."""
        if count >= len(self):
            return self
        shares = self.shares[:count]
        return replace(
            self,
            rows=self.rows[:count],
            features=self.features[:count],
            shares=shares / shares.mean() if shares.any() else shares,
            keys=self.keys[:count],
            bound=int(self.keys[count - 1]),
        )


@dataclass(frozen=True, eq=False)
class OutsidePart:
    """|(1 − P)(μ − ν)|² for all rows of both sides, estimated from samples of them.

    `unbiased` is the U-statistic, that of the distributions the rows are from. Its variance has parts:
    `linear` is due to the rows of each side, `degenerate` to pairs of rows, within the sides and across.
    """

    squared: float
    unbiased: float
    pulls: tuple[Floats, Floats]  # half of what each sampled row does to it
    linear: tuple[float, float]
    degenerate: tuple[float, float, float]
    sampled: tuple[float, float]  # which part of the tables the samples are

    @property
    def jackknife(self) -> tuple[float, float]:
        """The variance by the rows of each side; pairs count twice, which errs on the safe side."""
        first, second, across = self.degenerate
        return self.linear[0] + 2 * first + across, self.linear[1] + 2 * second + across

    def variance(self, ratios: tuple[float, float] = (1.0, 1.0)) -> float:
        """Return its variance; means of consecutive rows vary by `ratios` more than those of random ones."""
        linear = sum(
            one * (1 + part * (ratio - 1))
            for one, part, ratio in zip(self.linear, self.sampled, ratios, strict=True)
        )
        return linear + sum(self.degenerate)

    @property
    def variance_of_sampling(self) -> float:
        """The variance by which rows were sampled of the tables: none if these are all of them."""
        one, two = self.sampled
        first, second, across = self.degenerate
        linear = self.linear[0] * (1 - one) + self.linear[1] * (1 - two)
        return linear + first * (1 - one**2) + second * (1 - two**2) + across * (1 - one * two)


def outside_part(first: SampledRows, second: SampledRows) -> OutsidePart:
    """Estimate how far apart two tables are outside the span of the landmarks."""
    means_first, means_second, across, together = _across(first, second)
    unbiased = first.mean_h + second.mean_h - 2 * across
    squared = first.squared_mean + second.squared_mean - 2 * (across + together)
    degenerate = _degenerate(first, second)
    pulls = first.means_h - means_first, second.means_h - means_second
    # Of a U-statistic: the variance of the means over partners of each row. These vary on their own account,
    # by what they share with `degenerate`.
    linear = [
        max(_variance_of_mean(side, 2 * pull) - 2 * own - degenerate[2], 0.0)
        for side, pull, own in zip((first, second), pulls, degenerate[:2], strict=True)
    ]
    sampled = min(first.share_sampled, 1.0), min(second.share_sampled, 1.0)
    return OutsidePart(squared, unbiased, pulls, (linear[0], linear[1]), degenerate, sampled)


def _variance_of_mean(side: SampledRows, values: Floats) -> float:
    centred = values - float((side.shares * values).mean())
    return float(((side.shares * centred) ** 2).mean()) / len(side)


def _across(first: SampledRows, second: SampledRows) -> tuple[Floats, Floats, float, float]:
    """Return means of h across the samples: for each row of either, over all pairs, and what is left.

    Rows that belong together are no pair like others: a table against itself has n such pairs of n², in a
    sample of it there are s of s². They are left out, and what is left is their share in all pairs.
    """
    w, v = first.shares, second.shares
    a, b = _together(first, second)
    of_first, of_second, at_pairs = np.empty(len(first)), np.zeros(len(second)), np.empty(len(a))
    for start in range(0, len(first), _STEP):
        part = slice(start, start + _STEP)
        values = first.kernel(first.rows[part], second.rows)
        of_first[part] = values @ v
        of_second += w[part] @ values
        here = (a >= start) & (a < start + _STEP)
        at_pairs[here] = values[a[here] - start, b[here]]
    of_first -= first.features @ (v @ second.features)
    of_second -= second.features @ (w @ first.features)
    weight_first, weight_second = np.full(len(first), v.sum()), np.full(len(second), w.sum())
    at_pairs -= np.einsum("ij,ij->i", first.features[a], second.features[b])
    of_first[a] -= v[b] * at_pairs
    of_second[b] -= w[a] * at_pairs
    weight_first[a] -= v[b]
    weight_second[b] -= w[a]
    pairs = float(w @ weight_first)
    mean = float(w @ of_first) / pairs if pairs > 0 else 0.0
    together = 0.0
    if len(a):
        bound = min(first.bound, second.bound)
        sizes = [side.of_rows / max(int((side.keys <= bound).sum()), 1) for side in (first, second)]
        scale = math.sqrt(sizes[0] * sizes[1]) / (first.of_rows * second.of_rows)
        together = scale * float((w[a] * v[b]) @ (at_pairs - mean))
    return (
        of_first * inverse_or_zero(weight_first),
        of_second * inverse_or_zero(weight_second),
        mean,
        together,
    )


def _together(first: SampledRows, second: SampledRows) -> tuple[Indices, Indices]:
    """Return the positions of rows with equal keys; of a key that occurs more than once, in their order."""
    place: dict[int, list[int]] = {}
    for j, key in reversed(list(enumerate(second.keys.tolist()))):
        place.setdefault(key, []).append(j)
    found = [(i, place[key].pop()) for i, key in enumerate(first.keys.tolist()) if place.get(key)]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _degenerate(first: SampledRows, second: SampledRows) -> tuple[float, float, float]:
    """Return the variances due to what pairs vary beyond their rows: within the two, and across."""
    sizes = max(first.effective, 1.0), max(second.effective, 1.0)
    across = _interaction(first.head, second.head)
    return (
        2 * first.interaction / sizes[0] ** 2,
        2 * second.interaction / sizes[1] ** 2,
        4 * across / (sizes[0] * sizes[1]),
    )


def _interaction(one: SampledRows, two: SampledRows) -> float:
    """Return the variance of h(x, y) less its means over x and over y."""
    h = one.kernel(one.rows, two.rows) - one.features @ two.features.T
    weights = np.outer(one.shares, two.shares)
    if one is two:
        np.fill_diagonal(weights, 0.0)
    over_first, over_second = weights.sum(axis=1), weights.sum(axis=0)
    total = float(weights.sum())
    if not total > 0:
        return 0.0
    mean = float((weights * h).sum()) / total
    rows = (weights * h).sum(axis=1) * inverse_or_zero(over_first)
    columns = (weights * h).sum(axis=0) * inverse_or_zero(over_second)
    left = h - rows[:, None] - columns + mean
    return float((weights * left**2).sum()) / total
