"""Levels and power of the two-sample tests, by simulation with fixed seeds; robust estimates with bad rows.

Most of it works on blocks made from arrays, without a pass: `scripts/bench/compare.py` measures the same
through sketches, with more pairs. A test has the right level if its count of rejections is one of the 99.9 %
that are usual for it.
"""

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

import nysketch
from nysketch.twosample.median_of_means import monk_mmd, robust_centre
from nysketch.twosample.mmd import Blocks, MMDEstimate, dependence, uncorrelated
from nysketch.twosample.permutation import bootstrap_test, exchangeable, permutation_test
from nysketch.twosample.results import Options
from nysketch.twosample.strategy import Tolerance, choose_test, run_test

PAIRS, ALPHA = 400, 0.05
PERMUTATIONS = 199  # of which 5 % is a whole number: a test can have its level exactly
FREQUENCIES = np.random.default_rng(99).normal(size=(3, 20)) / 2


def features(rows):
    """Return the features of a Gaussian kernel, roughly."""
    angles = rows @ FREQUENCIES[: rows.shape[1]]
    return np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(20)


def dealt(rng, vectors, blocks=64):
    """Put rows into random blocks."""
    labels = rng.integers(blocks, size=len(vectors))
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    return Blocks.of(np.add.reduceat(vectors[order], starts), counts)


def consecutive(vectors, length):
    starts = np.arange(0, len(vectors), length)
    return Blocks.of(np.add.reduceat(vectors, starts), np.diff(np.append(starts, len(vectors))))


def series(rng, rows, correlation):
    noise = rng.normal(size=(rows, 2))
    noise[1:] *= math.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise, axis=0)


def run(test, first, second, rng):
    return test(first, second, alpha=ALPHA, permutations=PERMUTATIONS, rng=rng)


def regrouped_permutation_test(first, second, **settings):
    equal = exchangeable(first, second)
    assert equal is not None
    assert equal[0].weights.mean() == pytest.approx(equal[1].weights.mean(), rel=0.1)
    return permutation_test(*equal, **settings)


def usual(pairs):
    return binom.interval(0.999, pairs, ALPHA)


def rejections(test, sizes, *, shift=0.0, blocks=64, pairs=PAIRS):
    count = 0
    for pair in range(pairs):
        rng = np.random.default_rng([pair, *sizes])
        x, y = (rng.normal(size=(n, 3)) for n in sizes)
        y[:, 0] += shift
        sides = [dealt(rng, features(rows), blocks) for rows in (x, y)]
        count += run(test, *sides, rng).rejected
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "sizes", "blocks"),
    [
        (permutation_test, (1000, 1000), 64),
        (regrouped_permutation_test, (500, 2000), 64),
        (permutation_test, (300, 1200), 64),
        (permutation_test, (60, 3000), 64),
        (permutation_test, (500, 500), 8),
        (bootstrap_test, (1000, 1000), 64),
        (bootstrap_test, (300, 1200), 64),
        (bootstrap_test, (60, 3000), 64),
    ],
)
def test_level(test, sizes, blocks):
    low, high = usual(PAIRS)
    assert low <= rejections(test, sizes, blocks=blocks) <= high


@pytest.mark.parametrize("test", [permutation_test, bootstrap_test])
def test_level_with_more_features_than_blocks(test):
    count = 0
    for pair in range(PAIRS):
        rng = np.random.default_rng(pair)
        sides = [Blocks(rng.normal(size=(32, 500)), np.ones(32)) for _ in range(2)]
        count += run(test, *sides, rng).rejected
    low, high = usual(PAIRS)
    assert low <= count <= high


@pytest.mark.parametrize("test", [permutation_test, bootstrap_test])
def test_power_grows_with_the_difference(test):
    small, large = (rejections(test, (1000, 1000), shift=shift, pairs=100) for shift in (0.1, 0.25))
    assert usual(100)[1] < small < 85
    assert large > 95


@pytest.mark.parametrize("blocks", [8, 64])
def test_the_square_is_unbiased_and_its_error_is_right(blocks):
    # The rows themselves are the features: the MMD is the distance of the means.
    shift = np.array([0.3, 0.0, 0.0])
    found = []
    for pair in range(300):
        rng = np.random.default_rng(pair)
        x, y = rng.normal(size=(200, 3)), rng.normal(size=(400, 3)) + shift
        found.append(MMDEstimate.of(dealt(rng, x, blocks), dealt(rng, y, blocks)))
    unbiased = np.array([distance.squared_unbiased for distance in found])
    error = unbiased.std() / math.sqrt(len(found))
    assert abs(unbiased.mean() - shift @ shift) < 3.5 * error
    # It is more than the bias of the square, 3 (1/200 + 1/400), so the line above can tell.
    assert 3.5 * error < 3 * (1 / 200 + 1 / 400)
    claimed = math.sqrt(np.mean([distance.squared_se**2 for distance in found]))
    assert claimed == pytest.approx(unbiased.std(), rel=0.2)


def test_a_series_is_seen_and_runs_keep_the_level():
    seen, by_runs, by_blocks = 0, 0, 0
    for pair in range(PAIRS):
        rng = np.random.default_rng(pair)
        vectors = [features(series(rng, n, 0.5)) for n in (2048, 1024)]
        random = [dealt(rng, part) for part in vectors]
        runs = [consecutive(part, 32) for part in vectors]
        seen += all(dependence(*both).found for both in zip(random, runs, strict=True))
        by_runs += run(bootstrap_test, *runs, rng).rejected
        by_blocks += run(bootstrap_test, *random, rng).rejected
    assert seen > 0.98 * PAIRS
    assert by_runs <= 0.1 * PAIRS  # a little above the level: the ends of runs still depend on each other
    assert by_blocks > 0.2 * PAIRS


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "rows"), [(0.9, 4096), (0.95, 4096)])
def test_strongly_dependent_rows_keep_the_level_once_neighbouring_runs_are_put_together(correlation, rows):
    rejected = 0
    for pair in range(PAIRS):
        rng = np.random.default_rng(pair)
        sides = [consecutive(features(series(rng, rows, correlation)), rows // 64) for _ in range(2)]
        rejected += run(bootstrap_test, *map(uncorrelated, sides), rng).rejected
    assert rejected <= 0.08 * PAIRS


def test_independent_rows_are_rarely_taken_for_a_series():
    found = []
    for pair in range(PAIRS):
        rng = np.random.default_rng(pair)
        vectors = features(rng.normal(size=(1024, 2)))
        found.append(dependence(dealt(rng, vectors), consecutive(vectors, 16)))
    assert sum(one.found for one in found) <= binom.ppf(0.999, PAIRS, 0.02)
    assert np.mean([one.ratio for one in found]) == pytest.approx(1, abs=0.02)
    assert np.std([one.z for one in found]) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("correlation", [0.2, 0.5, 0.8])
def test_the_ratio_is_that_of_the_variances(correlation):
    # Of a series that is its own feature: (1 + ρ)/(1 − ρ), less what the ends of runs lack.
    ratios = []
    for pair in range(50):
        rng = np.random.default_rng(pair)
        rows = series(rng, 64 * 256, correlation)
        ratios.append(dependence(dealt(rng, rows), consecutive(rows, 256)).ratio)
    lags = np.arange(1, 256)
    expected = 1 + 2 * ((1 - lags / 256) * correlation**lags).sum()
    assert np.mean(ratios) == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize("sizes", [(500, 15_000), (150, 15_000)])
def test_a_small_sample_without_the_tail_is_not_found_different(sizes):
    # More than half of the smaller samples have none of the rows far above all others. The bootstrap,
    # which knows their spread from the smaller sample alone, found 75 and 82 of 150 pairs different.
    pairs, rejected = 150, 0
    for pair in range(pairs):
        rng = np.random.default_rng([pair, *sizes])
        rows = [rng.normal(size=(n, 1)) + 200 * (rng.random((n, 1)) < 0.6 / sizes[0]) for n in sizes]
        one, two = (dealt(rng, part) for part in rows)
        chosen = choose_test(one, two, "auto", "random", Tolerance(), weighted=False, draws=PERMUTATIONS)
        rejected += run_test(chosen, Tolerance(), Options(permutations=PERMUTATIONS, seed=pair)).rejected
    assert rejected <= usual(pairs)[1]


def polluted(rng, rows, count, size):
    """Make rows bad that are in different blocks of 100."""
    rows = rows.copy()
    where = 100 * rng.choice(len(rows) // 100, count, replace=False)
    rows[where] = size * rng.normal(size=(count, rows.shape[1]))
    return rows, where // 100


@pytest.mark.parametrize(("groups", "count"), [(64, 8), (33, 4)])
@pytest.mark.parametrize("size", [1e4, 1e9, 1e15])
def test_a_few_bad_rows_do_not_move_the_robust_mmd(groups, count, size):
    for pair in range(5):
        rng = np.random.default_rng(pair)
        x, y = rng.normal(size=(6400, 5)), rng.normal(size=(6400, 5)) + 0.2
        clean = MMDEstimate.of(consecutive(x, 100), consecutive(y, 100)).mmd
        (x, bad_x), (y, bad_y) = (polluted(rng, rows, count, size) for rows in (x, y))
        one, two = consecutive(x, 100), consecutive(y, 100)
        assert MMDEstimate.of(one, two).mmd > 2 * clean
        assert monk_mmd(one, two, groups, seed=pair).value == pytest.approx(clean, rel=0.2)
        for blocks, bad in ((one, bad_x), (two, bad_y)):
            centre = robust_centre(blocks, groups, seed=pair)
            assert set(centre.wild) == set(bad)
            assert not centre.crowded


def test_a_test_without_wild_blocks_has_its_level_and_finds_a_shift():
    pairs, false, true = 200, 0, 0
    for pair in range(pairs):
        rng = np.random.default_rng(pair)
        vectors = [polluted(rng, rng.normal(size=(3200, 3)), 3, 1e8)[0] for _ in range(2)]
        one, two = (consecutive(rows, 50) for rows in vectors)
        moved = Blocks(two.sums + 0.1 * two.weights[:, None], two.weights)
        kept = [side.only(robust_centre(side, 64).kept()) for side in (one, two, moved)]
        false += run(bootstrap_test, *kept[:2], rng).rejected
        true += run(bootstrap_test, kept[0], kept[2], rng).rejected
    low, high = usual(pairs)
    assert low <= false <= high
    assert true > 0.9 * pairs


def test_too_many_bad_rows_are_told():
    for pair in range(20):
        rng = np.random.default_rng(pair)
        rows, _ = polluted(rng, rng.normal(size=(6400, 5)), 28, 1e9)
        assert robust_centre(consecutive(rows, 100), 33, seed=pair).crowded


# ---- through sketches -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def basis():
    return nysketch.sketch(np.random.default_rng(99).normal(size=(1000, 2)), landmarks=50, threads=1).basis


def compared(x, y, basis, seed, sample_rows=0, **options):
    settings = {"cells": False, "sample_rows": sample_rows, "threads": 1}
    sides = [nysketch.sketch(rows, basis=basis, seed=seed, **settings) for rows in (x, y)]
    return nysketch.compare(*sides, permutations=PERMUTATIONS, explain=False, seed=seed, **options)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(512, 2048), (200, 10_000)])
def test_level_of_sketches(basis, sizes):
    pairs, rejected = 120, 0
    for pair in range(pairs):
        rng = np.random.default_rng(pair)
        found = compared(*(rng.normal(size=(n, 2)) for n in sizes), basis, pair)
        rejected += found.rejected
        if not any(one.found for one in found.dependences):
            assert found.verdict.test == "permutation"
    assert rejected <= usual(pairs)[1]
    assert rejected > 0


def test_sketches_of_series_are_compared_by_runs(basis):
    pairs, rejected = 60, 0
    for pair in range(pairs):
        rng = np.random.default_rng(pair)
        found = compared(series(rng, 1024, 0.5), series(rng, 2048, 0.5), basis, pair)
        assert found.blocks == "consecutive"
        assert found.verdict.test == "bootstrap"
        rejected += found.rejected
    assert rejected <= binom.ppf(0.999, pairs, 0.08)


def test_sorted_rows_are_compared_by_random_blocks_if_told(basis):
    pairs, found = 20, {"auto": 0, "random": 0}
    for pair in range(pairs):
        rng = np.random.default_rng(pair)
        x, y = (rng.normal(size=(1000, 2)) for _ in range(2))
        x, y = (rows[np.argsort(rows[:, 0])] for rows in (x, y + np.array([0.3, 0])))
        for blocks in found:
            comparison = compared(x, y, basis, pair, blocks=blocks)
            found[blocks] += comparison.rejected
            assert any("sorted" in note for note in comparison.notes)
    assert found["random"] >= 0.9 * pairs
    assert found["auto"] <= 0.1 * pairs


def test_bad_rows_in_sketches():
    rng = np.random.default_rng(0)
    third, x, y = (rng.normal(size=(5000, 5)) for _ in range(3))
    y[:, 0] += 0.3
    basis = nysketch.sketch(third, landmarks=20, kernel="linear", threads=1).basis
    clean = compared(x, y, basis, 0).mmd
    for count, overwhelmed in ((3, False), (200, True)):
        bad = [rows.copy() for rows in (x, y)]
        for rows in bad:
            rows[rng.choice(5000, count, replace=False)] = 1e6 * rng.normal(size=(count, 5))
        plain, robust = (
            compared(*bad, basis, 0, sample_rows=500, blocks="random", robust=groups) for groups in (None, 33)
        )
        assert plain.mmd > 10 * clean
        assert robust.robustness.overwhelmed == overwhelmed
        if not overwhelmed:
            assert robust.mmd == pytest.approx(clean, rel=0.2)
            assert robust.rejected
            assert not plain.rejected
