"""MMD_Q by block-coordinate descent, Algorithms 1 and 2 of the paper on MONK, and the test of Algorithm 3.

Lerasle, Szabó, Mathieu and Lecué (2019) shuffle rows into Q groups; here blocks of rows are shuffled, in the
coordinates of the features. All of it works on many pairs of samples at once, because a test needs as many:
`first` and `second`, samples × blocks, say which of all blocks are in each sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Indices
from nysketch.twosample.median_of_means import RobustMMD, monk_mmd
from nysketch.twosample.mmd import Blocks
from nysketch.twosample.permutation import PERMUTATION, MMDTestResult, verdict_of

TRIM, GEOMETRIC_MEDIAN, BCD, BCD_FAST = "trim", "geometric-median", "bcd", "bcd-fast"
ROBUST_METHODS = (TRIM, GEOMETRIC_MEDIAN, BCD, BCD_FAST)

# The paper leaves the number of iterations open; values stood still after 20 to 50.
_ITERATIONS, _SHUFFLED_EVERY = 100, 10
# Of the geometric median, in a test: its direction is found anew so often.
_REGROUPINGS, _PULLS = 4, 30
# Numbers at a time: 32 MB of them.
_STEP = 1 << 22


def robust_mmd(method: str, first: Blocks, second: Blocks, groups: int, *, seed: int = 0) -> RobustMMD:
    """Return sup_f med_q ⟨f, μ_q − ν_q⟩ over groups q of blocks, by one of the methods."""
    if method in (TRIM, GEOMETRIC_MEDIAN):
        return monk_mmd(first, second, groups, seed=seed)
    blocks = np.arange(len(first) + len(second))[None, :]
    rng = np.random.default_rng(seed)
    x, y = blocks[:, : len(first)], blocks[:, len(first) :]
    values = _METHODS[method](_Pool(first, second), x, y, groups, rng)[0]
    return RobustMMD(max(float(np.median(values)), 0.0), groups, np.sort(values))


def robust_test(
    method: str,
    first: Blocks,
    second: Blocks,
    groups: int,
    *,
    alpha: float,
    permutations: int,
    seed: int,
    floor: float = 0.0,
) -> MMDTestResult:
    """Exchange blocks between the samples at random, and see how often the robust MMD is as large.

    Blocks of both samples must hold equally many rows.
    """
    rng = np.random.default_rng(seed)
    pool, total = _Pool(first, second), len(first) + len(second)
    step = max(_STEP // (total * pool.sums.shape[1]), 1)
    found: list[Floats] = []
    # The first of them are the samples themselves, with groups drawn like those of all others.
    for start in range(0, permutations + 1, step):
        blocks = np.tile(np.arange(total), (min(step, permutations + 1 - start), 1))
        blocks[(start == 0) :] = rng.permuted(blocks[(start == 0) :], axis=1)
        x, y = np.split(blocks, [len(first)], axis=1)
        found.append(np.median(_METHODS[method](pool, x, y, groups, rng), axis=1))
    values = np.maximum(np.concatenate(found), 0.0) ** 2
    counts = len(first), len(second)
    return verdict_of(PERMUTATION, float(values[0]), values[1:], alpha, counts, floor)


class _Pool:
    """The blocks of both samples."""

    def __init__(self, first: Blocks, second: Blocks) -> None:
        self.sums = np.vstack([first.sums, second.sums])
        self.weights = np.concatenate([first.weights, second.weights])


class _Cut:
    """Shuffled blocks, cut into groups: both samples in the same order, as in the paper, if they can be."""

    def __init__(self, first: Indices, second: Indices, groups: int, rng: np.random.Generator) -> None:
        counts = first.shape[1], second.shape[1]
        order = rng.permutation(counts[0])
        other = order if counts[0] == counts[1] else rng.permutation(counts[1])
        self.blocks = first[:, order], second[:, other]
        self._starts = [-(-np.arange(groups) * count // groups) for count in counts]
        self._ends = [
            np.append(starts[1:], count) for starts, count in zip(self._starts, counts, strict=True)
        ]

    def means(self, pool: _Pool) -> tuple[Floats, Floats]:
        """Return the mean features of each group, samples × groups × r, of both."""
        one, other = (
            np.add.reduceat(pool.sums[blocks], starts, axis=1)
            / self._weights(pool, blocks, starts)[..., None]
            for blocks, starts in zip(self.blocks, self._starts, strict=True)
        )
        return one, other

    def values(self, pool: _Pool, f: Floats) -> Floats:
        """Return ⟨f, μ_q − ν_q⟩ for each group, samples × groups."""
        along = f @ pool.sums.T
        one, other = (
            np.add.reduceat(np.take_along_axis(along, blocks, axis=1), starts, axis=1)
            / self._weights(pool, blocks, starts)
            for blocks, starts in zip(self.blocks, self._starts, strict=True)
        )
        return np.asarray(one - other)

    def difference(self, pool: _Pool, chosen: Indices) -> Floats:
        """Return μ_q − ν_q of one group of each pair of samples."""
        parts = []
        for blocks, starts, ends in zip(self.blocks, self._starts, self._ends, strict=True):
            position = np.arange(blocks.shape[1])
            inside = (position >= starts[chosen, None]) & (position < ends[chosen, None])
            of_all = np.zeros((len(blocks), len(pool.weights)))
            np.put_along_axis(of_all, blocks, inside.astype(np.float64), axis=1)
            parts.append((of_all @ pool.sums) / (of_all @ pool.weights)[:, None])
        return np.asarray(parts[0] - parts[1])

    @staticmethod
    def _weights(pool: _Pool, blocks: Indices, starts: Indices) -> Floats:
        return np.add.reduceat(pool.weights[blocks], starts, axis=1)


def _bcd(pool: _Pool, first: Indices, second: Indices, groups: int, rng: np.random.Generator) -> Floats:
    """Algorithm 1: take for f the difference of the group with the median value, shuffle, and again."""
    f = _unit(pool.sums[first].sum(axis=1) + pool.sums[second].sum(axis=1))
    for _ in range(_ITERATIONS):
        cut = _Cut(first, second, groups, rng)
        f = _unit(cut.difference(pool, _middle(cut.values(pool, f))))
    return cut.values(pool, f)


def _bcd_fast(pool: _Pool, first: Indices, second: Indices, groups: int, rng: np.random.Generator) -> Floats:
    """Algorithm 2: f has a part for each group, and only that of the group with the median value is set."""
    every = np.arange(len(first))
    initial = np.ones((len(first), groups), bool)
    for t in range(_ITERATIONS):
        if t % _SHUFFLED_EVERY == 0:
            one, other = _Cut(first, second, groups, rng).means(pool)
            differences = one - other
            squares = (differences**2).sum(axis=2)
            mixed = (differences * (one + other)).sum(axis=2)
            if t == 0:
                norms = np.linalg.norm(one + other, axis=2)
        values = _divided(np.where(initial, mixed, squares), norms)
        chosen = _middle(values)
        initial[every, chosen], norms[every, chosen] = False, np.sqrt(squares[every, chosen])
    return _divided(np.where(initial, mixed, squares), norms)


def _geometric_medians(
    pool: _Pool, first: Indices, second: Indices, groups: int, rng: np.random.Generator
) -> Floats:
    """Take for f the geometric median of the differences of groups, a few times, and the middle of these."""
    found = []
    for _ in range(_REGROUPINGS):
        one, other = _Cut(first, second, groups, rng).means(pool)
        differences = one - other
        at = np.median(differences, axis=1)
        for _ in range(_PULLS):
            lengths = np.linalg.norm(differences - at[:, None, :], axis=2)
            pulls = 1 / np.maximum(lengths, 1e-12 * np.median(lengths, axis=1, keepdims=True) + 1e-300)
            at = np.einsum("sq,sqr->sr", pulls, differences) / pulls.sum(axis=1, keepdims=True)
        found.append(np.median(np.einsum("sqr,sr->sq", differences, _unit(at)), axis=1))
    return np.column_stack(found)


_Method = Callable[[_Pool, Indices, Indices, int, np.random.Generator], Floats]
_METHODS: dict[str, _Method] = {GEOMETRIC_MEDIAN: _geometric_medians, BCD: _bcd, BCD_FAST: _bcd_fast}


def _middle(values: Floats) -> NDArray[np.int64]:
    """Return the group with the median value."""
    return np.asarray(np.argsort(values, axis=1)[:, values.shape[1] // 2])


def _unit(f: Floats) -> Floats:
    return _divided(f, np.linalg.norm(f, axis=1, keepdims=True))


def _divided(values: Floats, norms: Floats) -> Floats:
    """Return values / norms, and 0 where the norm is 0."""
    return np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
