"""Two samples known by block sums: distances against the definition, tests against simple loops."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.twosample.mmd import FEWEST_BLOCKS, Blocks, MMDEstimate, dependence, uncorrelated
from nysketch.twosample.permutation import (
    bootstrap_test,
    exchangeable,
    exchangeable_few,
    permutation_test,
)


def blocks_of(rows, labels):
    return Blocks(rows, np.ones(len(rows))).group(np.asarray(labels))


def example(seed=0, n=(60, 90), r=3, blocks=(6, 9), shift=0.0):
    random = np.random.default_rng(seed)
    rows = [random.normal(size=(count, r)) * [1, 2, 0.5][:r] for count in n]
    rows[1] += shift
    labels = [random.permutation(np.arange(count) % b) for count, b in zip(n, blocks, strict=True)]
    return rows, [blocks_of(*pair) for pair in zip(rows, labels, strict=True)]


def test_blocks_know_their_means_and_leave_out_those_without_rows():
    blocks = Blocks.of(np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]]), [1, 0, 3])
    assert len(blocks) == 2 and blocks.weight == 4
    assert np.array_equal(blocks.mean, [1.0, 1.5])
    assert np.array_equal(blocks.means, [[1.0, 2.0], [1.0, 4 / 3]])


def test_deviations_estimate_the_covariance_of_the_mean_without_bias():
    random = np.random.default_rng(1)
    covariance, means = np.zeros((2, 2)), []
    for _ in range(4000):
        rows = random.normal(size=(50, 2)) @ np.array([[1.0, 0.0], [0.7, 2.0]]).T
        blocks = blocks_of(rows, random.integers(0, 8, 50))
        blocks = Blocks.of(blocks.sums, blocks.weights)
        covariance += blocks.deviations().T @ blocks.deviations() / 4000
        means.append(blocks.mean)
    assert np.allclose(covariance, np.cov(np.array(means).T), rtol=0.06)
    assert np.allclose(covariance, [[1 / 50, 0.7 / 50], [0.7 / 50, 4.49 / 50]], rtol=0.05)


def test_the_squared_mmd_is_the_mean_of_products_and_unbiased_without_those_within_blocks():
    (x, y), (first, second) = example(shift=0.3)
    found = MMDEstimate.of(first, second)
    biased = (x @ x.T).mean() + (y @ y.T).mean() - 2 * (x @ y.T).mean()
    assert math.isclose(found.squared, biased, rel_tol=1e-12)
    assert math.isclose(found.mmd, math.sqrt(biased), rel_tol=1e-12)

    def across(blocks):  # equal sizes: plain means over pairs of different blocks
        means = blocks.means
        return np.mean([means[i] @ means[j] for i, j in combinations(range(len(means)), 2)])

    unbiased = across(first) + across(second) - 2 * (x @ y.T).mean()
    assert math.isclose(found.squared_unbiased, unbiased, rel_tol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0])
def test_the_unbiased_square_and_its_error_are_right_over_many_samples(shift):
    found = [MMDEstimate.of(*example(seed, (400, 600), 3, (16, 16), shift)[1]) for seed in range(600)]
    squares = np.array([distance.squared_unbiased for distance in found])
    deviation = squares.std()
    assert abs(squares.mean() - 3 * shift**2) < 3.5 * deviation / math.sqrt(len(squares))
    errors = np.array([distance.squared_se for distance in found])
    # Around 0 it is cautious: how much of the distance is chance is chance as well.
    most = 1.5 if shift < 0.5 else 1.15
    assert 0.87 * deviation < np.sqrt((errors**2).mean()) < most * deviation
    if shift == 1.0:
        mmds = np.array([distance.mmd for distance in found])
        assert found[0].standard_error == pytest.approx(mmds.std(), rel=0.35)


def test_one_block_has_a_distance_but_no_error():
    one = Blocks(np.array([[2.0, 0.0]]), np.array([2.0]))
    found = MMDEstimate.of(one, Blocks(np.zeros((1, 2)), np.array([1.0])))
    assert found.mmd == 1.0 and math.isnan(found.squared_unbiased) and math.isnan(found.standard_error)


@given(st.integers(0, 1000), st.integers(1, 100))
def test_a_permutation_test_counts_what_a_loop_counts(seed, permutations):
    _, (first, second) = example(seed, (30, 50), 2, (3, 5), 0.4)
    found = permutation_test(
        first, second, alpha=0.05, permutations=permutations, rng=np.random.default_rng(seed)
    )
    sums, weights = np.vstack([first.sums, second.sums]), np.concatenate([first.weights, second.weights])

    def scaled(chosen):
        one, two = chosen > 0, chosen == 0
        means = [sums[side].sum(axis=0) / weights[side].sum() for side in (one, two)]
        factor = 1 / (1 / weights[one].sum() + 1 / weights[two].sum())
        return factor * ((means[0] - means[1]) ** 2).sum()

    labels = np.array([1.0] * 3 + [0.0] * 5)
    drawn = np.random.default_rng(seed).permuted(np.tile(labels, (permutations, 1)), axis=1)
    as_large = sum(scaled(row) >= scaled(labels) * (1 - 1e-9) for row in drawn)
    assert found.p_value == (1 + as_large) / (permutations + 1)


@given(st.integers(0, 1000))
def test_a_bootstrap_test_counts_what_a_loop_counts(seed):
    _, (first, second) = example(seed, (30, 50), 2, (3, 5), 0.4)
    found = bootstrap_test(first, second, alpha=0.05, permutations=50, rng=np.random.default_rng(seed))
    signs = np.random.default_rng(seed).integers(0, 2, (50, 8)) * 2 - 1
    one, two = first.deviations(), second.deviations()
    squared = ((first.mean - second.mean) ** 2).sum()
    drawn = [((row[:3] @ one + row[3:] @ two) ** 2).sum() for row in signs]
    assert found.p_value == (1 + sum(t >= squared * (1 - 1e-9) for t in drawn)) / 51


@pytest.mark.parametrize("test", [permutation_test, bootstrap_test])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_rejected_means_beyond_the_threshold(test, alpha):
    seen = set()
    for seed in range(60):
        _, (first, second) = example(seed, (64, 64), 2, (8, 8), 0.3)
        found = test(first, second, alpha=alpha, permutations=199, rng=np.random.default_rng(seed))
        mmd = MMDEstimate.of(first, second).mmd
        assert found.rejected == (found.p_value <= alpha) == (mmd > found.threshold)
        seen.add(found.rejected)
    assert seen == {True, False}


def test_too_few_draws_reject_nothing():
    _, (first, second) = example(0, (64, 64), 2, (8, 8), 50.0)
    found = permutation_test(first, second, alpha=0.05, permutations=10, rng=np.random.default_rng(0))
    assert found.p_value == 1 / 11 and not found.rejected and found.threshold == math.inf


def test_an_allowance_is_a_difference_that_does_not_count():
    _, (first, second) = example(0, (640, 640), 3, (16, 16), 0.5)
    settings = {"alpha": 0.05, "permutations": 199}
    plain = bootstrap_test(first, second, rng=np.random.default_rng(0), **settings)
    allowed = bootstrap_test(first, second, allowance=1.0, rng=np.random.default_rng(0), **settings)
    assert plain.rejected and not allowed.rejected
    assert allowed.threshold == pytest.approx(plain.threshold + 1.0)


def equal_blocks(count, size):
    return Blocks(np.zeros((count, 1)), np.full(count, float(size)))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((64, 100), (64, 100), (64, 64)),
        ((64, 100), (64, 103), (64, 64)),
        ((64, 25), (64, 100), (16, 64)),
        ((64, 100), (64, 25), (64, 16)),
        ((32, 128), (32, 16), None),  # four groups are too few
        ((64, 128), (64, 16), (64, 8)),
        ((64, 30), (64, 20), (32, 21)),
        ((64, 1), (64, 50), None),
        ((7, 10), (64, 10), None),
    ],
)
def test_blocks_are_made_equally_large_where_they_can_be(first, second, expected):
    found = exchangeable(equal_blocks(*first), equal_blocks(*second))
    assert (None if found is None else (len(found[0]), len(found[1]))) == expected


@pytest.mark.parametrize(
    ("first", "second", "ways", "expected"),
    [
        ((64, 10), (64, 300), 1000, (2, 64)),
        ((64, 300), (64, 10), 1000, (64, 2)),
        ((64, 10), (64, 300), 3000, None),  # 2,145 ways
        ((64, 10), (64, 170), 100_000, (4, 64)),
        ((64, 10), (64, 500), 1000, None),  # all rows of the first make one and a quarter
        ((64, 10), (64, 40), 1000, None),  # no few: these are made equal anyway
        ((7, 10), (64, 30), 1000, None),  # three of two or three blocks
    ],
)
def test_few_blocks_are_as_large_as_those_of_the_other_sample(first, second, ways, expected):
    one, two = equal_blocks(*first), equal_blocks(*second)
    found = exchangeable_few(one, two, ways)
    assert (None if found is None else (len(found[0]), len(found[1]))) == expected
    for before, after in zip((one, two), found or (), strict=False):
        assert np.allclose(before.mean, after.mean) and math.isclose(before.weight, after.weight)


@given(st.integers(1, 80), st.integers(1, 80), st.floats(1, 1000), st.floats(1, 1000))
def test_regrouping_loses_nothing(one, two, size, other):
    random = np.random.default_rng(0)
    first = Blocks(random.normal(size=(one, 2)), size * random.uniform(0.9, 1.1, one))
    second = Blocks(random.normal(size=(two, 2)), other * random.uniform(0.9, 1.1, two))
    found = exchangeable(first, second)
    if found is None:
        return
    for before, after in zip((first, second), found, strict=True):
        assert np.allclose(before.mean, after.mean) and math.isclose(before.weight, after.weight)
        assert len(after) >= FEWEST_BLOCKS
    sizes = [blocks.weight / len(blocks) for blocks in found]
    # Within the tolerance, but for what is left over when blocks are put together.
    assert abs(math.log(sizes[0] / sizes[1])) < 0.1 + 1 / FEWEST_BLOCKS


def test_dependence_is_measured_against_random_blocks():
    random = np.random.default_rng(0)
    rows = random.normal(size=(6400, 3))
    labels, runs = random.integers(0, 64, 6400), np.arange(6400) // 100
    independent = dependence(blocks_of(rows, labels), blocks_of(rows, runs))
    assert independent.ratio == pytest.approx(1, abs=0.35) and not independent.found
    series = np.zeros_like(rows)
    for i in range(1, len(rows)):
        series[i] = 0.5 * series[i - 1] + math.sqrt(0.75) * rows[i]
    serial = dependence(blocks_of(series, labels), blocks_of(series, runs))
    assert serial.ratio == pytest.approx(3, rel=0.3) and serial.found
    ordered = rows[np.argsort(rows[:, 0])]
    assert dependence(blocks_of(ordered, labels), blocks_of(ordered, runs)).ratio > 20


def test_runs_that_resemble_their_neighbours_are_put_together():
    random = np.random.default_rng(0)
    noise = random.normal(size=(4096, 3))
    labels = np.arange(4096) // 64
    kept = [len(uncorrelated(blocks_of(random.normal(size=(4096, 3)), labels))) for _ in range(50)]
    assert np.mean(np.array(kept) == 64) > 0.75
    slow = np.zeros_like(noise)
    for i in range(1, len(noise)):
        slow[i] = 0.98 * slow[i - 1] + noise[i]
    fewer = uncorrelated(blocks_of(slow, labels))
    assert FEWEST_BLOCKS <= len(fewer) <= 32
    assert np.allclose(fewer.mean, blocks_of(slow, labels).mean)


def test_dependence_of_constant_or_too_few_blocks_is_unknown():
    few = equal_blocks(7, 10)
    assert dependence(few, equal_blocks(64, 1)) is None
    assert dependence(equal_blocks(64, 1), equal_blocks(64, 1)) is None
