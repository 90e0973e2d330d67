"""How large is HSIC, how sure is that, and how strong is the dependence?

The estimator at landmarks (`hsic_squared` of statistic.py) has an error that stays when rows get many: it is
above 0 for independent groups. Here this error is taken away. What landmarks can express of the difference of
both embeddings is known from the sums over all rows, without an approximation. What they cannot is measured
on sampled rows: the HSIC of all pairs of them less that part of it which landmarks express. Both are freed of
the bias that the square of a mean has, so that their sum is 0 on average if groups are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.basis.nystrom import NystromBasis
from nysketch.hsic.statistic import embedding_difference
from nysketch.kernels import Product

# Less than this share of what it is the difference of is no number any more.
_CANCELLED = 1e-10
# The bound on HSIC of groups of which one is constant, but for rounding.
_ALMOST_NOTHING = 1e-6


@dataclass(frozen=True)
class Estimate:
    """The squared HSIC without bias, which may be below 0, and its standard error.

    `largest` is what HSIC cannot exceed, whatever the groups have to do with each other. Groups join one by
    one: what each adds is bounded, by Cauchy and Schwarz, by how much it varies and how much those before it
    do together. For two groups, it is the HSIC of groups that determine each other.
    """

    squared: float
    error_of_square: float
    largest: float

    @property
    def hsic(self) -> float:
        """HSIC; 0 where its square is below."""
        return math.sqrt(max(self.squared, 0.0))

    @property
    def standard_error(self) -> float:
        """Half of how far HSIC is from the farther root of its square ± two standard errors.

        That is the usual error of a root where HSIC is large. Near 0, where a square is more or less normal
        and its root is not, two errors reach down to 0 as soon as two errors of the square do.
        """
        square, two = max(self.squared, 0.0), 2 * self.error_of_square
        lower, upper = math.sqrt(max(square - two, 0.0)), math.sqrt(square + two)
        return max(self.hsic - lower, upper - self.hsic) / 2

    @property
    def normalised(self) -> float | None:
        """HSIC² relative to the largest, for two groups the kernel alignment; None if the largest is 0."""
        if not self.largest > _ALMOST_NOTHING:
            return None
        return min(max(self.squared, 0.0) / self.largest**2, 1.0)


def estimate(basis: NystromBasis, mean: Floats, means: Floats, rows: Rows, of_rows: int) -> Estimate:
    """Estimate from means at the landmarks, of `of_rows` rows, and sampled rows, scaled.

    The sample should be some thousand at most: all pairs of rows are evaluated. If it is all rows, landmarks
    have no part in it.
    """
    of_pairs = _Pairs.of(basis.kernel, rows)
    if len(rows) == of_rows:
        values = _pseudo_values(of_pairs.squared, of_pairs.without)
        squared, variance = float(values.mean()), float(values.var(ddof=1)) / of_rows
    else:
        expressed = _Expressed.of(basis, mean, means, rows)
        values = _pseudo_values(of_pairs.squared - expressed.of_sample, of_pairs.without - expressed.without)
        squared = expressed.of_all - expressed.trace / of_rows + float(values.mean())
        influence = expressed.influence
        # The last term twice what it is for independent groups, as it is in the jackknife's variance.
        variance = float(influence.var(ddof=1)) / of_rows + 4 * expressed.square / of_rows**2
        variance += float(values.var(ddof=1)) / len(rows)
        variance += 2 * float(np.cov(influence, values)[0, 1]) / of_rows
    if abs(squared) <= _CANCELLED * of_pairs.length:
        squared = 0.0
    error = math.sqrt(max(variance, 0.0)) + _CANCELLED * of_pairs.length
    return Estimate(squared, error, of_pairs.largest)


def _pseudo_values(whole: float, without: Floats) -> Floats:
    """Return the pseudo-values of the jackknife: their mean has no bias of the order 1/n."""
    n = len(without)
    return n * whole - (n - 1) * without


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The V-statistic of some rows, and of all but each of them, by all pairs."""

    squared: float
    without: Floats
    largest: float
    length: float  # of what the squared HSIC is the difference of

    @classmethod
    def of(cls, kernel: object, rows: Rows) -> _Pairs:
        assert isinstance(kernel, Product)
        n, rest = len(rows), len(rows) - 1
        together, crossed, without_crossed = np.ones((n, n)), np.ones(n), np.ones((n, n))
        lengths, without_lengths, largest = 1.0, np.ones(n), 0.0
        for number, group in enumerate(kernel.groups):  # one at a time: there may be many groups
            gram = group.kernel(group.of(rows), group.of(rows))
            length = max(float(gram.mean()), 0.0)
            largest *= math.sqrt(length)
            if len(kernel.groups) == 2:  # of two, HSIC is that of centred kernels, in which no digits cancel
                gram = centred(gram)
            if number:
                largest += math.sqrt(_spread(together) * _spread(gram))
            together *= gram
            sums, total = gram.sum(axis=1), float(gram.sum())
            crossed *= sums / n
            lengths *= total / n**2
            without_lengths *= (total - 2 * sums + np.diag(gram)) / rest**2
            np.subtract(sums[:, None], gram, out=gram)
            gram /= rest
            without_crossed *= gram
        sums, total = together.sum(axis=1), float(together.sum())
        without = (total - 2 * sums + np.diag(together)) / rest**2 + without_lengths
        without -= 2 * (without_crossed.sum(axis=0) - np.diag(without_crossed)) / rest
        joint = total / n**2
        length = max(abs(joint), abs(lengths))
        return cls(joint + lengths - 2 * float(crossed.mean()), without, largest, length)


def centred(gram: Floats) -> Floats:
    """Return the kernel of embeddings less their mean."""
    means = gram.mean(axis=1)
    without = gram - means[:, None]
    without -= means  # in place: a matrix of 2,000 rows takes 32 MB
    without += means.mean()
    return np.asarray(without)


def _spread(gram: Floats) -> float:
    """Return the HSIC of rows with themselves: the length of their covariance."""
    row_means = gram.mean(axis=1)
    squared = float((gram**2).mean()) + float(gram.mean()) ** 2 - 2 * float((row_means**2).mean())
    return math.sqrt(max(squared, 0.0))


@dataclass(frozen=True, eq=False)
class _Expressed:
    """What landmarks express of the squared HSIC: of all rows, of sampled ones, of all but each of these.

    `influence` is what each sampled row adds to that of all rows; the difference of both embeddings is, to
    first order, a mean of features whose covariance has this `trace`, and whose square has the other.
    """

    of_all: float
    of_sample: float
    without: Floats
    influence: Floats
    trace: float
    square: float

    @classmethod
    def of(cls, basis: NystromBasis, mean: Floats, means: Floats, rows: Rows) -> _Expressed:
        kernel, matrix, n = basis.kernel, basis.nystrom.matrix, len(rows)
        assert isinstance(kernel, Product)
        product, alone = np.ones((n, basis.m)), np.zeros((n, basis.m))
        crossed, without_crossed = np.ones(basis.m), np.ones((n, basis.m))
        for number, group in enumerate(kernel.groups):
            factor = group.kernel(group.of(rows), group.of(basis.scaled_landmarks))
            product *= factor
            alone += factor * np.delete(means, number, axis=0).prod(axis=0)
            sums = factor.sum(axis=0)
            crossed *= sums / n
            without_crossed *= (sums - factor) / (n - 1)
        difference = matrix @ embedding_difference(mean, means)
        sums = product.sum(axis=0)
        of_sample = matrix @ (sums / n - crossed)
        without = ((sums - product) / (n - 1) - without_crossed) @ matrix.T
        features = (product - alone) @ matrix.T
        features -= features.mean(axis=0)
        covariance = features.T @ features / (n - 1)
        return cls(
            of_all=float(difference @ difference),
            of_sample=float(of_sample @ of_sample),
            without=np.asarray((without**2).sum(axis=1)),
            influence=np.asarray(2 * (features @ difference)),
            trace=float(np.trace(covariance)),
            square=float((covariance**2).sum()),
        )
