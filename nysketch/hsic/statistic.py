"""Are groups of columns independent of each other? The Hilbert-Schmidt independence criterion, at landmarks.

HSIC is the distance between the mean embedding of the rows, under the product of one kernel for each group,
and the product of the mean embeddings of the groups: 0 if groups are independent, and for characteristic
kernels only then. `hsic_squared` is the estimator of Kalinke and Szabó (2023), from kernel sums at landmarks.

The tests take another statistic, which has no error of its own that would stay when rows get many. At a
landmark z, both embeddings are known without any approximation: they are the mean of Π_g k_g(z_g, x_g), and
Π_g of the means of k_g(z_g, x_g). The statistic is the length of their difference in the span of the
landmarks. FSIC (Jitkrittum, Szabó and Gretton, 2017) has the same difference, at test locations, and takes
the mean of its squares. What chance does to it is seen by permutation: from rows whose groups are shuffled
against each other.

Everything here works on means and on scaled rows; where they come from is independence.py's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Rows
from nysketch.basis.nystrom import NystromBasis, NystromMap
from nysketch.kernels import Product
from nysketch.kernels.base import inverse_or_zero
from nysketch.twosample.permutation import critical_value, p_value_of

# The statistics of tests.
LANDMARKS, V_HSIC = "landmarks", "v-hsic"

# Less than this share of what it is the difference of is no number any more.
_CANCELLED = 1e-10
# Relative to the length of an embedding, a statistic this small is that of rounding kernel values.
_ROUNDING = 1e-6
# From so many rows on, groups are shifted against each other instead of shuffled: there are enough ways.
SHIFTED_FROM = 1000
# Of landmarks of unit length: what makes their kernel matrix safe to invert.
_ALMOST_NOTHING = 1e-6
# Kernel values at a time, of each thread: 8 MB.
_VALUES = 1 << 20
# Shuffles at a time: at 1000 landmarks they take 8 MB.
_BATCH = 1000


def hsic_squared(joint: NystromBasis, parts: Sequence[NystromBasis], mean: Floats, means: Floats) -> float:
    """Return the squared HSIC: of the mean of the product of kernels at landmarks, and of those of groups.

    `parts` are the groups of `joint`, `means` has a row for each of them. With all rows as landmarks it is
    the V-statistic.
    """
    weights = _weights_of(joint.nystrom, mean)
    of_parts = [_weights_of(part.nystrom, values) for part, values in zip(parts, means, strict=True)]
    lengths = [float(a @ values) for a, values in zip(of_parts, means, strict=True)]
    # The product of the groups' embeddings, as far as landmarks can express them, at the landmarks.
    crossed = np.prod([part.gram() @ a for part, a in zip(parts, of_parts, strict=True)], axis=0)
    squared, product = float(weights @ mean), math.prod(lengths)
    found = squared + product - 2 * float(weights @ crossed)
    if found > _CANCELLED * max(squared, product):
        return found
    # Of kernels without a bound, all digits may have cancelled. The difference has them still.
    return squared_difference(joint, mean, means)


def _weights_of(features: NystromMap, values: Floats) -> Floats:
    """K⁺ v: the weights of landmarks whose embedding has these values there."""
    return np.asarray(features.matrix.T @ (features.matrix @ values))


def embedding_difference(mean: Floats, means: Floats) -> Floats:
    """Return the joint embedding less the product of those of the groups, at the landmarks."""
    return np.asarray(mean - means.prod(axis=0))


def squared_difference(joint: NystromBasis, mean: Floats, means: Floats) -> float:
    """Return the squared length of this difference in the span of the landmarks: no larger than HSIC²."""
    return float(_squares(joint.nystrom, embedding_difference(mean, means)))


# ---- tests ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HSICTestResult:
    """What a test found; `statistic` and `threshold` are lengths, like HSIC.

    `kind` says which statistic it is: that of statistic.py, at landmarks, or that of v_statistic.py.
    `exact` if the rows that were shuffled are those that the statistic is of: all rows, or a sample alone.
    Otherwise a sample was shuffled, and the statistic of all rows is compared with what it is for so many
    times fewer, as many times larger: right for many rows.
    """

    statistic: float
    threshold: float
    p_value: float
    rejected: bool
    exact: bool
    permutations: int
    permuted_rows: int
    kind: str = LANDMARKS  # of the statistic


def exact_test(
    kernel: Product,
    rows: Rows,
    *,
    landmarks: int,
    permutations: int,
    alpha: float,
    seed: int,
    threads: int = 1,
    in_order: bool = False,
) -> HSICTestResult:
    """Test rows, scaled, and all of them: shuffle their groups against each other.

    `in_order`: rows are in the order of their file, and groups are shifted against each other.

    Landmarks are rows with their groups shuffled. Rows themselves would be landmarks that see observed rows
    better than shuffled ones: of ten columns in each of three groups, 200 rows and 150 landmarks, 99 % of
    independent tables were found dependent.
    """
    rng = np.random.default_rng(seed)
    n = len(rows)
    parts = [group.of(rows)[rng.permutation(n)[: min(landmarks, n)]] for group in kernel.groups]
    places = np.concatenate(parts, axis=1)
    features = NystromMap.of(kernel(places, places))
    permuted = _PermutedRows(kernel, rows, places, threads, shifted=in_order or n >= SHIFTED_FROM)
    observed, drawn = permuted.squares(features, permutations, rng)
    return verdict_of(observed, drawn, alpha, exact=True, rows=n)


def sampled_test(
    basis: NystromBasis,
    mean: Floats,
    means: Floats,
    rows: Rows,
    *,
    of_rows: int,
    own: NDArray[np.int64] | None = None,
    of_groups: Floats | None = None,
    excess: float = 0.0,
    permutations: int,
    alpha: float,
    seed: int,
    threads: int = 1,
) -> HSICTestResult:
    """Test `of_rows` rows by their means at the landmarks and a sample of them, scaled, to shuffle.

    Rows times the squared statistic have a limit if groups are independent, which both come close to.
    `own` are the sampled rows that landmarks are, -1 for none, and `of_groups` is what `only_own` tells of
    each group. What it tells of all columns must not be in the means any more; `excess` is what is left of it
    in the squared statistic.
    """
    kernel = basis.kernel
    assert isinstance(kernel, Product)
    rng = np.random.default_rng(seed)
    observed = max(squared_difference(basis, mean, means) - excess, 0.0)
    rounding = _ROUNDING**2 * float(_squares(basis.nystrom, mean))
    shifted = len(rows) >= SHIFTED_FROM
    places = basis.scaled_landmarks
    permuted = _PermutedRows(kernel, rows, places, threads, own, of_groups, shifted=shifted)
    _, drawn = permuted.squares(basis.nystrom, permutations, rng)
    drawn = np.maximum(drawn * (len(rows) / of_rows), rounding)
    return verdict_of(observed, drawn, alpha, exact=False, rows=len(rows))


def only_own(basis: NystromBasis) -> Floats:
    """Return for each landmark the squared length of what no other landmark expresses of it.

    Without it, the landmark is as well expressed as a row that is none. Near nothing for few columns, much
    for many.
    """
    K = basis.gram()
    lengths = np.diag(K).copy()
    inverse = inverse_or_zero(np.sqrt(lengths))
    K *= inverse[:, None]
    K *= inverse
    K[np.diag_indices_from(K)] += _ALMOST_NOTHING
    return np.asarray(lengths / np.diag(np.linalg.inv(K)))


def _squares(features: NystromMap, differences: Floats) -> Floats:
    return np.asarray(((differences @ features.matrix.T) ** 2).sum(axis=-1))


def verdict_of(
    observed: float, drawn: Floats, alpha: float, *, exact: bool, rows: int, kind: str = LANDMARKS
) -> HSICTestResult:
    """Return what a squared statistic says beside those of permuted rows."""
    p_value = p_value_of(observed, drawn)
    threshold = math.sqrt(critical_value(drawn, alpha))
    rejected = p_value <= alpha
    return HSICTestResult(math.sqrt(observed), threshold, p_value, rejected, exact, len(drawn), rows, kind)


def constant_verdict(permutations: int, rows: int) -> HSICTestResult:
    """Return the verdict on groups of which at most one is not constant: permutations change nothing."""
    return HSICTestResult(0.0, 0.0, 1.0, False, True, permutations, rows, V_HSIC)


def draw(rows: int, others: int, count: int, rng: np.random.Generator, *, shifted: bool) -> NDArray[np.int64]:
    """Return shifts, permutations × other groups; or orders, also × rows."""
    if shifted:
        return rng.integers(rows, size=(count, others))
    return rng.permuted(np.tile(np.arange(rows), (count, others, 1)), axis=2)


class _PermutedRows:
    """Rows, and the same rows with their groups shuffled, as landmarks see them.

    Of a landmark that is one of the rows (`own`, -1 for none) what `only_own` tells of each group is missing.
    """

    def __init__(
        self,
        kernel: Product,
        rows: Rows,
        landmarks: Rows,
        threads: int,
        own: NDArray[np.int64] | None = None,
        of_groups: Floats | None = None,
        *,
        shifted: bool,
    ) -> None:
        self._kernel, self._rows, self._landmarks, self._threads = kernel, rows, landmarks, threads
        self._own, self._of_groups, self._shifted = own, of_groups, shifted

    def squares(
        self, features: NystromMap, permutations: int, rng: np.random.Generator
    ) -> tuple[float, Floats]:
        """Return the squared statistic as it is, and after each of `permutations` random ones."""
        found = []
        for start in range(0, permutations, _BATCH):
            draws = self._draw(min(_BATCH, permutations - start), rng)
            if not start:  # together with others: kernel values take longer than a shuffle
                draws = np.concatenate([self._in_place(), draws])
            found.append(_squares(features, self._differences(draws)))
        squares = np.concatenate(found)
        return float(squares[0]), squares[1:]

    def _in_place(self) -> NDArray[np.int64]:
        """Return the shuffle that changes nothing, in the form of `_draw`."""
        n, others = len(self._rows), len(self._kernel.groups) - 1
        if self._shifted:
            return np.zeros((1, others), np.int64)
        return np.tile(np.arange(n), (1, others, 1))

    def _draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return shifts, or of few rows orders."""
        n, others = len(self._rows), len(self._kernel.groups) - 1
        return draw(n, others, count, rng, shifted=self._shifted)

    def _differences(self, draws: NDArray[np.int64]) -> Floats:
        """Return the embedding difference after each of these permutations, permutations × m."""
        n = len(self._rows)
        found = np.empty((len(draws), len(self._landmarks)))
        step = max(_VALUES // n, 1)
        parts = [slice(i, i + step) for i in range(0, len(self._landmarks), step)]

        def work(part: slice) -> None:
            found[:, part] = self._differences_at(part, draws)

        with ThreadPoolExecutor(self._threads) as pool:  # one landmark has nothing to do with another
            list(pool.map(work, parts))
        return found

    def _differences_at(self, part: slice, draws: NDArray[np.int64]) -> Floats:
        factors = self._kernel.factors(self._landmarks[part], self._rows)
        if self._own is not None and self._of_groups is not None:
            own = self._own[part]
            (seen,) = np.nonzero(own >= 0)
            for factor, alone in zip(factors, self._of_groups[:, part], strict=True):
                factor[seen, own[seen]] -= alone[seen]
        means = np.array([factor.mean(axis=1) for factor in factors])
        average = _mean_of_shifted if draws.ndim == 2 else mean_of_permuted
        return np.asarray(average(factors, draws) - means.prod(axis=0))


def mean_of_permuted(factors: Sequence[Floats], orders: NDArray[np.int64]) -> Floats:
    """Return the means over rows of the product of factors, landmarks × rows, all but the first shuffled.

    `orders` are permutations × other factors × rows.
    """
    found = np.empty((len(orders), len(factors[0])))
    for mean, order in zip(found, orders, strict=True):
        product = factors[0].copy()
        for factor, own in zip(factors[1:], order, strict=True):
            product *= factor[:, own]
        mean[:] = product.mean(axis=1)
    return found


def _mean_of_shifted(factors: Sequence[Floats], shifts: NDArray[np.int64]) -> Floats:
    """Do the same with orders i + shift (modulo the number of rows), in float32."""
    from nysketch.hsic._shifted import shifted_sums

    first = np.ascontiguousarray(factors[0], np.float32)
    others = np.stack([np.concatenate([f, f], axis=1).astype(np.float32) for f in factors[1:]])
    sums = np.empty((len(shifts), len(first)))
    shifted_sums(first, others, shifts, sums)
    return np.asarray(sums / first.shape[1])
