"""k-means of points: beside scikit-learn's on rows, and beside loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from nysketch.learning.decode import weighted_kmeans
from nysketch.learning.decode.points import Points
from tests import naive
from tests.learning.decode.examples import blobs, corners, paired


def naive_cost(points, centroids):
    total = 0.0
    for weight, mean, variances in zip(points.weights, points.means, points.variances, strict=True):
        nearest = min(((mean - centroid) ** 2).sum() for centroid in centroids)
        total += weight * (nearest + variances.sum())
    return total / points.weights.sum()


def naive_lloyd(points, centroids, steps=300):
    for _ in range(steps):
        labels = [int(((mean - centroids) ** 2).sum(axis=1).argmin()) for mean in points.means]
        moved = centroids.copy()
        for j in range(len(centroids)):
            of_j = np.array(labels) == j
            if of_j.any():
                moved[j] = np.average(points.means[of_j], axis=0, weights=points.weights[of_j])
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return centroids


def weighted(rows, seed=0):
    return Points.of_rows(rows, np.random.default_rng(seed).uniform(0.2, 3, len(rows)))


def test_squared_distances_are_taken_from_differences():
    rows, centroids = 1e8 + np.arange(6.0).reshape(3, 2), 1e8 + np.ones((2, 2))
    expected = ((rows[:, None] - centroids) ** 2).sum(axis=2)
    assert np.array_equal(weighted_kmeans.squared_distances(rows, centroids), expected)


@settings(max_examples=30)
@given(k=st.integers(1, 6), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_the_cost_is_that_of_the_definition(k, d, seed):
    random = np.random.default_rng(seed)
    points = Points(
        random.uniform(0.1, 2, 30), random.standard_normal((30, d)), random.uniform(0, 1, (30, d))
    )
    centroids = random.standard_normal((k, d))
    assert np.isclose(weighted_kmeans.cost(points, centroids), naive_cost(points, centroids), rtol=1e-12)


def test_without_spread_the_cost_is_the_mean_squared_distance():
    rows, centres = blobs(n=200)
    assert np.isclose(
        weighted_kmeans.cost(Points.of_rows(rows), centres),
        naive.mean_squared_distance(rows, centres),
        rtol=1e-12,
    )


@settings(max_examples=25)
@given(k=st.integers(1, 8), with_weights=st.booleans(), seed=st.integers(0, 10**6))
def test_improving_is_what_scikit_learn_does(k, with_weights, seed):
    random = np.random.default_rng(seed)
    rows = blobs(n=300, k=4, seed=seed, apart=3.0)[0]
    points = weighted(rows, seed) if with_weights else Points.of_rows(rows)
    start = rows[random.choice(300, k, replace=False)]
    expected = KMeans(k, init=start, n_init=1, tol=1e-5).fit(rows, sample_weight=points.weights)
    found = weighted_kmeans.improve(points, start)
    assert np.allclose(found, expected.cluster_centers_, atol=1e-9)
    assert weighted_kmeans.cost(points, found) <= weighted_kmeans.cost(points, start) + 1e-12
    # tol = 1e-5 stops a little early: the fixed point is not far.
    assert weighted_kmeans.cost(points, found) <= 1.001 * naive_cost(points, naive_lloyd(points, start))


@settings(max_examples=15)
@given(k=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_exact_way_is_lloyds_algorithm(k, seed):
    points = weighted(blobs(n=120, k=3, seed=seed, apart=3.0)[0], seed)
    start = points.means[np.random.default_rng(seed).choice(120, k, replace=False)]
    found = weighted_kmeans._exact_kmeans(points, k, start, np.random.default_rng(0))
    assert np.allclose(found, naive_lloyd(points, start), atol=1e-9)


@pytest.mark.parametrize("far", [1e6, 1e8, 1e10])
def test_outliers_a_million_times_farther_out_do_no_harm(far):
    """scikit-learn's distances have no digits left there: its centroids are off by the width of clusters."""
    rows, centres = blobs(n=600, k=3)
    rows = np.vstack([rows, [[far, -far], [far, far]]])
    points = Points.of_rows(rows)
    best = weighted_kmeans.starts(points, 5, 10, np.random.default_rng(0))[0]
    near = np.abs(best).max(axis=1) < 1e5
    assert near.sum() == 3 and paired(best[near], centres) < 0.3
    assert np.allclose(np.sort(best[~near], axis=0), np.sort(rows[-2:], axis=0))
    found = weighted_kmeans.improve(points, np.vstack([centres, rows[-2:]]))
    for centroid, rows_of in zip(found[:3], of_nearest(rows[:-2], centres), strict=True):
        assert np.allclose(centroid, rows_of.mean(axis=0), rtol=1e-9)


def of_nearest(rows, centres):
    labels = weighted_kmeans.squared_distances(rows, centres).argmin(axis=1)
    return [rows[labels == j] for j in range(len(centres))]


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_rows_far_from_zero_lose_no_digits(offset):
    rows, centres = blobs(n=400, k=3)
    found = weighted_kmeans.improve(Points.of_rows(rows + offset), centres + offset)
    expected = weighted_kmeans.improve(Points.of_rows(rows), centres)
    assert np.allclose(found - offset, expected, atol=1e-5 * max(offset, 1.0) * 1e-9 + 1e-9)


def test_starts_come_best_first_and_find_the_clusters():
    rows, centres = blobs(n=500, k=5)
    points = weighted(rows)
    steps = []
    found = weighted_kmeans.starts(points, 5, 12, np.random.default_rng(1), lambda: steps.append(1))
    costs = [weighted_kmeans.cost(points, centroids) for centroids in found]
    assert len(steps) == 12 and 1 <= len(found) <= 12
    assert (np.diff(costs) > 0).all()  # each but once
    assert paired(found[0], centres) < 0.5
    again = weighted_kmeans.starts(points, 5, 12, np.random.default_rng(1))
    assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


def test_spread_does_not_move_centroids_but_counts_as_cost():
    points = weighted(blobs(n=200)[0])
    wide = Points(points.weights, points.means, np.full_like(points.means, 0.25))
    start = corners(3, 2)
    assert np.array_equal(weighted_kmeans.improve(points, start), weighted_kmeans.improve(wide, start))
    assert np.isclose(weighted_kmeans.cost(wide, start), weighted_kmeans.cost(points, start) + 0.5)


@pytest.mark.parametrize("distinct", [1, 2])
@pytest.mark.parametrize("k", [1, 3])
def test_fewer_different_points_than_clusters(distinct, k):
    rows = np.repeat(np.array([[1.0, 2.0], [5.0, 5.0]])[:distinct], 20, axis=0)
    for centroids in weighted_kmeans.starts(Points.of_rows(rows), k, 3, np.random.default_rng(0)):
        assert centroids.shape == (k, 2) and np.isfinite(centroids).all()
    best = weighted_kmeans.starts(Points.of_rows(rows), k, 3, np.random.default_rng(0))[0]
    assert weighted_kmeans.cost(Points.of_rows(rows), best) < 1e-20 or k < distinct


def test_a_centroid_without_rows_stays_finite():
    points = Points.of_rows(blobs(n=100)[0])
    start = np.vstack([corners(3, 2), [[1e3, 1e3]]])
    found = weighted_kmeans.improve(points, start)
    assert np.isfinite(found).all() and weighted_kmeans.cost(points, found) <= weighted_kmeans.cost(
        points, start
    )
    exact = weighted_kmeans._exact_kmeans(points, 4, start, np.random.default_rng(0))
    assert np.array_equal(exact[3], start[3])
