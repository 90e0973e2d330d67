"""Medians of means: what a few rows, however wrong, cannot change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.errors import UsageError
from nysketch.twosample.median_of_means import geometric_median, monk_mmd, require_groups, robust_centre
from nysketch.twosample.mmd import Blocks


def cost(points, at, weights=1.0):
    return float((weights * np.linalg.norm(points - at, axis=1)).sum())


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 5), st.booleans())
def test_no_point_nearby_has_a_smaller_sum_of_distances(seed, n, r, duplicates):
    random = np.random.default_rng(seed)
    points = random.normal(size=(n, r)) * 10.0 ** random.integers(-3, 4)
    if duplicates:
        points = points[random.integers(0, n, n)]
    weights = random.uniform(0.1, 3, n)
    found = geometric_median(points, weights)
    here, scale = cost(points, found, weights), np.abs(points).max()
    for step in (1e-2, 1e-4):
        for _ in range(10):
            assert here <= cost(points, found + step * scale * random.normal(size=r), weights) * (1 + 1e-9)
    assert here <= min(cost(points, point, weights) for point in points) * (1 + 1e-9)


def test_in_one_dimension_it_is_the_median():
    assert geometric_median(np.array([[1.0], [2.0], [50.0]])) == pytest.approx(2)
    assert geometric_median(np.array([[1.0], [2.0], [50.0]]), np.array([5.0, 1, 1])) == pytest.approx(1)


@pytest.mark.parametrize("far", [1e3, 1e9, 1e18, 1e150])
def test_a_minority_cannot_drag_it_however_far_it_is(far):
    random = np.random.default_rng(0)
    points = random.normal(size=(64, 4))
    clean = geometric_median(points)
    points[:20] = far * random.normal(1, 0.3, (20, 4))
    # By about ε / (1 − 2ε) of the distance between points, which is 2, if a share ε of them pulls one way.
    assert np.linalg.norm(geometric_median(points) - clean) < 1.2


def samples(seed, n=6400, d=5, shift=0.3, bad=(0, 0), blocks=64):
    """Two samples with the linear kernel, some of their rows replaced by garbage, and their clean MMD."""
    random = np.random.default_rng(seed)
    rows = [random.normal(size=(n, d)), random.normal(size=(n, d)) + shift]
    clean = np.linalg.norm(rows[0].mean(axis=0) - rows[1].mean(axis=0))
    for part, count in zip(rows, bad, strict=True):
        part[random.choice(n, count, replace=False)] = 1e6 * random.normal(1, 0.3, (count, d))
    made = [Blocks(part, np.ones(n)).group(random.permutation(np.arange(n) % blocks)) for part in rows]
    return made, clean


@pytest.mark.parametrize("groups", [64, 41, 33])
@pytest.mark.parametrize("bad", [(0, 0), (8, 0), (8, 8)])
def test_the_mmd_is_that_of_the_clean_rows_while_bad_ones_are_few(groups, bad):
    for seed in range(5):
        (first, second), clean = samples(seed, bad=bad)
        assert monk_mmd(first, second, groups).value == pytest.approx(clean, rel=0.1)
        plain = np.linalg.norm(first.mean - second.mean)
        assert sum(bad) == 0 or plain > 20 * clean


def test_with_one_group_it_would_be_the_plain_mmd():
    (first, second), clean = samples(0)
    assert monk_mmd(first, second, 1).value == pytest.approx(clean, rel=1e-9)


def test_without_a_difference_it_is_small():
    values = []
    for seed in range(20):
        (first, second), _ = samples(seed, shift=0.0)
        values.append(monk_mmd(first, second, 64).value)
    # Of the order of the plain MMD, whose square is 2 · 5 / 6400 on average.
    assert np.mean(values) < 2 * np.sqrt(10 / 6400)


@pytest.mark.parametrize("groups", [64, 17])
def test_blocks_with_bad_rows_are_found_and_no_others(groups):
    for seed in range(10):
        (first, second), _ = samples(seed, bad=(8, 0))
        found = robust_centre(first, groups)
        truly = np.flatnonzero(np.abs(first.means).max(axis=1) > 100)
        assert np.array_equal(found.wild, truly) and 4 <= len(truly) <= 8
        assert len(robust_centre(second, groups).wild) == 0
        assert len(found.kept()) == 64 - len(truly)


@pytest.mark.parametrize("bad", [32, 45, 70, 100])
def test_too_many_bad_blocks_are_too_many(bad):
    for seed in range(10):
        (first, second), _ = samples(seed, bad=(bad, 0))
        truly = np.count_nonzero(np.abs(first.means).max(axis=1) > 100)
        assert robust_centre(first, 64).crowded == (truly >= 32)
        assert not robust_centre(second, 64).crowded


def test_heavy_tails_and_constant_blocks_are_not_wild():
    random = np.random.default_rng(0)
    rows = random.standard_t(5, size=(6400, 3))
    found = robust_centre(Blocks(rows, np.ones(6400)).group(np.arange(6400) % 64), 64)
    assert len(found.wild) == 0
    constant = Blocks(np.full((64, 2), 10.0), np.full(64, 10.0))
    assert len(robust_centre(constant, 64).wild) == 0 and np.allclose(robust_centre(constant, 64).centre, 1)


def test_groups_must_be_possible():
    with pytest.raises(UsageError, match="`robust` must be at least 3, not 2"):
        require_groups(2, 64, "a.nysk")
    with pytest.raises(UsageError, match=r"a\.nysk: has 4 blocks of rows, too few for 5 groups"):
        require_groups(5, 4, "a.nysk")
