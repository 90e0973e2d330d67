"""Fewer points, the same means: whatever the points, weights and functions are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.coresets.recombination import adjust_weights, recombine, thin
from tests import naive


def require_recombined(functions, weights, kept, new, most=None):
    """Means and the sum of the weights are the same; at most one point more than functions is kept."""
    scale = np.abs(functions).max(axis=0, initial=1e-300)
    total = weights.sum()
    assert len(kept) == len(new) == len(set(kept.tolist()))
    assert len(kept) <= (functions.shape[1] + 1 if most is None else most)
    assert (new > 0).all()
    assert abs(new.sum() - total) <= 1e-12 * total
    assert (np.abs(new @ functions[kept] - weights @ functions) <= 1e-12 * scale * total).all()
    assert set(kept.tolist()) <= set(np.flatnonzero(weights > 0).tolist())


@pytest.mark.parametrize("points", [1, 2, 10, 21, 22, 43, 200, 5000])
@pytest.mark.parametrize("count", [1, 5, 20])
def test_means_stay_and_points_become_few(points, count):
    random = np.random.default_rng(points + count)
    functions, weights = random.normal(size=(points, count)), random.exponential(size=points)
    require_recombined(functions, weights, *recombine(functions, weights))


def test_many_functions():
    random = np.random.default_rng(0)
    functions = random.normal(size=(3000, 300)) * np.logspace(0, -8, 300)
    weights = random.uniform(size=3000)
    kept, new = recombine(functions, weights)
    require_recombined(functions, weights, kept, new)
    off = np.abs(new @ functions[kept] - weights @ functions) / functions.std(axis=0)
    assert off.max() < 1e-10  # also relative to functions that are small beside others


@given(
    points=st.integers(1, 60),
    count=st.integers(1, 8),
    kinds=st.integers(1, 60),
    rank=st.integers(1, 8),
    zeros=st.floats(0, 0.9),
    seed=st.integers(0, 1000),
)
def test_duplicates_dependent_functions_and_weights_of_0(points, count, kinds, rank, zeros, seed):
    random = np.random.default_rng(seed)
    basis = random.normal(size=(kinds, rank)) @ random.normal(size=(rank, count))
    functions = basis[random.integers(kinds, size=points)]
    weights = np.where(random.uniform(size=points) < zeros, 0.0, 10.0 ** random.uniform(-6, 6, points))
    weights[random.integers(points)] = 1.0
    require_recombined(functions, weights, *recombine(functions, weights))


@pytest.mark.parametrize("points", [30, 300, 3000])
def test_costs_do_not_grow(points):
    random = np.random.default_rng(points)
    functions, weights = random.normal(size=(points, 10)), random.uniform(size=points)
    costs = random.exponential(size=points)
    kept, new = recombine(functions, weights, costs)
    require_recombined(functions, weights, kept, new)
    assert new @ costs[kept] < weights @ costs


def test_a_heavy_point_among_light_ones_is_left_out_itself():
    """Rounding may let no point reach 0 first, but the one that does is known."""
    from nysketch.coresets._elimination import eliminate

    random = np.random.default_rng(0)
    for _ in range(300):
        weights = np.r_[1.0, np.full(199, 1e-4)]
        direction = np.r_[random.uniform(0.5, 2), np.zeros(199)]
        direction[1:] = -direction[0] / 199
        pivots, alive = np.empty(1, np.int64), np.ones(200, bool)
        eliminate(direction[None], weights, alive, 1e-14 * weights.mean(), np.zeros(200), pivots)
        assert pivots[0] == 0 and weights[0] == 0
        assert weights.sum() == pytest.approx(1 + 199e-4, rel=1e-12)


def test_as_few_points_as_the_slow_way_if_functions_are_independent():
    random = np.random.default_rng(3)
    functions, weights = random.normal(size=(40, 6)), random.uniform(size=40)
    slow, slow_weights = naive.caratheodory(functions, weights)
    kept, _ = recombine(functions, weights)
    require_recombined(functions, weights, slow, slow_weights)
    assert len(kept) == len(slow) == 7


def gaussian(X, Y):
    return np.exp(-0.5 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))


def a_cloud(points=120, count=15, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(points, 3))
    weights = random.uniform(0.5, 1.5, points)
    weights /= weights.sum()
    K = gaussian(X, X)
    _, vectors = np.linalg.eigh(K)
    return K, K @ vectors[:, ::-1][:, :count], weights


def distance(K, weights, kept, new):
    spread = -weights
    spread[kept] += new
    return float(np.sqrt(max(spread @ K @ spread, 0)))


def test_thinned_points_have_the_means_and_are_nearer():
    ratios = []
    for seed in range(8):
        K, functions, weights = a_cloud(seed=seed)
        kept, new = thin(K, K @ weights, functions, weights)
        require_recombined(functions, weights, kept, new)
        plain = distance(K, weights, *recombine(functions, weights))
        ratios.append(distance(K, weights, kept, new) / plain)
    assert max(ratios) < 1 and np.mean(ratios) < 0.8  # seen: 0.91 and 0.74


def test_thinning_stops_at_the_points_wanted():
    K, functions, weights = a_cloud()
    kept, new = thin(K, K @ weights, functions, weights, most=60)
    require_recombined(functions, weights, kept, new, most=60)
    assert len(kept) == 60
    few, least = thin(K, K @ weights, functions, weights)
    assert distance(K, weights, kept, new) < distance(K, weights, few, least)


def test_thinning_moves_towards_the_target():
    """Points that are not what the target says are given weights that are nearer to it, on the way."""
    K, _, weights = a_cloud()
    random = np.random.default_rng(1)
    other = weights * random.uniform(0.9, 1.1, len(weights))
    other /= other.sum()
    kept, new = thin(K, K @ other, np.zeros((len(weights), 0)), weights, most=119)
    assert distance(K, other, kept, new) < distance(K, other, np.arange(len(weights)), weights)


def test_thinning_identical_points():
    functions = np.ones((30, 2))
    kept, new = thin(np.ones((30, 30)), np.ones(30), functions, np.full(30, 1 / 30))
    require_recombined(functions, np.full(30, 1 / 30), kept, new)


def test_weights_are_adjusted_to_means():
    random = np.random.default_rng(5)
    functions, weights = random.normal(size=(50, 10)), random.uniform(0.5, 1.5, 50)
    weights /= weights.sum()
    means = random.uniform(0.5, 1.5, 50)
    means = means / means.sum() @ functions  # of other weights, so that they can be had
    found = adjust_weights(functions, means, weights)
    assert np.abs(found @ functions - means).max() < 1e-14 and abs(found.sum() - 1) < 1e-15
    assert (found > 0).all()


def test_weights_that_cannot_have_the_means_stay_positive():
    functions = np.linspace(0, 1, 10)[:, None]
    found = adjust_weights(functions, np.array([2.0]), np.full(10, 0.1))
    assert (found >= 0).all() and np.isfinite(found).all()


def test_weights_of_0_stay_0():
    functions, weights = np.linspace(0, 1, 10)[:, None], np.full(10, 0.2)
    weights[::2] = 0
    found = adjust_weights(functions, np.array([0.5]), weights)
    assert (found[::2] == 0).all() and abs(found @ functions[:, 0] - 0.5) < 1e-15
