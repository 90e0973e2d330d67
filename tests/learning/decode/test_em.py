"""EM on points: scikit-learn's where points have no spread, a lower bound where they have."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from nysketch.learning.decode import em
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.points import Points
from tests import naive
from tests.learning.decode.examples import SHAPES, blobs, corners, matrices, random_mixture


def standardised(n=500, k=3, d=2, seed=0, apart=4.0):
    rows = blobs(n=n, k=k, d=d, seed=seed, apart=apart)[0]
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


def grouped(rows, groups, weights=None, seed=0):
    """Points that stand for groups of rows."""
    weights = np.ones(len(rows)) if weights is None else weights
    centres = rows[np.random.default_rng(seed).choice(len(rows), groups, replace=False)]
    labels = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    found = []
    for j in range(groups):
        w, x = weights[labels == j], rows[labels == j]
        if w.sum() > 0:
            mean = w @ x / w.sum()
            found.append((w.sum(), mean, w @ (x - mean) ** 2 / w.sum()))
    return Points(*(np.array(part) for part in zip(*found, strict=True)))


def start_at(rows, k, shape, seed=0):
    random = np.random.default_rng(seed)
    return em.from_centroids(Points.of_rows(rows), rows[random.choice(len(rows), k, replace=False)], shape)


def of_scikit_learn(rows, start, shape, steps, tolerance=0.0):
    """What scikit-learn makes of the same start; rows have unit variance, so its floor is ours."""
    precisions = np.linalg.inv(matrices(start))
    diagonals = np.einsum("kii->ki", precisions)
    shaped = {"full": precisions, "diag": diagonals, "spherical": diagonals[:, 0]}[shape]
    model = GaussianMixture(
        len(start), covariance_type=shape, weights_init=start.weights, means_init=start.means,
        precisions_init=shaped, max_iter=steps, tol=tolerance, reg_covar=1e-6 if shape == "full" else 0.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows)


@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_on_rows_are_those_of_scikit_learn(shape, steps, monkeypatch):
    monkeypatch.setattr(em, "_TOLERANCE", -np.inf)
    rows = standardised()
    start = start_at(rows, 3, shape)
    theirs = of_scikit_learn(rows, start, shape, steps)
    found, _ = em.fit(Points.of_rows(rows), start, shape, steps=steps)
    expected = theirs.covariances_
    if shape == "spherical":
        expected = np.repeat(expected[:, None], 2, axis=1)
    assert np.allclose(found.weights, theirs.weights_, atol=1e-8)
    assert np.allclose(found.means, theirs.means_, atol=1e-7)
    assert np.allclose(found.covariances, expected, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_gets_as_far_as_scikit_learn_with_the_same_tolerance(shape):
    rows = standardised(n=800, seed=3)
    start = start_at(rows, 3, shape, seed=1)
    theirs = of_scikit_learn(rows, start, shape, 300, 1e-6)
    found, likelihood = em.fit(Points.of_rows(rows), start, shape)
    assert np.isclose(likelihood, theirs.score(rows), atol=1e-5)
    assert np.isclose(likelihood, em.log_likelihood(Points.of_rows(rows), found))


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_count_like_copies(shape):
    rows = standardised(n=200)
    times = np.random.default_rng(0).integers(0, 4, 200)
    start = start_at(rows, 2, shape)
    weighted = em.fit(Points.of_rows(rows, times.astype(float)), start, shape, steps=5)[0]
    copied = em.fit(Points.of_rows(np.repeat(rows, times, axis=0)), start, shape, steps=5)[0]
    assert np.allclose(weighted.means, copied.means) and np.allclose(weighted.weights, copied.weights)
    assert np.allclose(weighted.covariances, copied.covariances)


# ---- likelihoods -----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(shape=st.sampled_from(SHAPES), k=st.integers(1, 4), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_the_likelihood_of_rows_is_that_of_the_definition(shape, k, d, seed):
    mixture = random_mixture(k, d, shape, seed)
    random = np.random.default_rng(seed)
    rows, weights = random.standard_normal((40, d)), random.uniform(0.1, 1, 40)
    expected = naive.mean_log_likelihood(rows, mixture.weights, mixture.means, matrices(mixture), weights)
    assert np.isclose(em.log_likelihood(Points.of_rows(rows, weights), mixture), expected, rtol=1e-9)


@settings(max_examples=30)
@given(
    shape=st.sampled_from(["spherical", "diag"]),
    k=st.integers(1, 4),
    groups=st.integers(1, 60),
    seed=st.integers(0, 10**6),
)
def test_the_likelihood_of_points_is_a_lower_bound(shape, k, groups, seed):
    random = np.random.default_rng(seed)
    rows, weights = standardised(n=150, seed=seed), random.uniform(0.1, 2, 150)
    mixture = random_mixture(k, 2, shape, seed)
    true = naive.mean_log_likelihood(rows, mixture.weights, mixture.means, matrices(mixture), weights)
    bound = em.log_likelihood(grouped(rows, groups, weights, seed), mixture)
    assert bound <= true + 1e-9 * abs(true)
    if k == 1:
        assert np.isclose(bound, true, rtol=1e-9)


@settings(max_examples=20)
@given(shape=st.sampled_from(SHAPES), groups=st.sampled_from([5, 30, 400]), seed=st.integers(0, 10**6))
def test_no_step_lowers_the_bound(shape, groups, seed):
    rows = standardised(n=400, seed=seed)
    points = grouped(rows, groups, seed=seed)
    mixture = start_at(points.means, 3, shape, seed)
    bounds = [em.log_likelihood(points, mixture)]
    for _ in range(15):
        logs = em.log_densities(points, mixture)
        shares = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        mixture = em.maximise(points, shares, shape, em._floor(points), mixture)
        bounds.append(em.log_likelihood(points, mixture))
    # The floor of full covariances, 1e-6 of the variance, is added to them: not quite the best step.
    assert (np.diff(bounds) > -(1e-4 if shape == "full" else 1e-9)).all()


@pytest.mark.parametrize("shape", ["spherical", "diag"])
def test_fitting_never_ends_below_its_start(shape):
    rows = standardised(n=400)
    points = grouped(rows, 40)
    for seed in range(5):
        start = start_at(points.means, 3, shape, seed)
        _, likelihood = em.fit(points, start, shape)
        assert likelihood >= em.log_likelihood(points, start) - 1e-9


def test_the_standard_error_is_that_of_a_mean():
    """Over many samples the mean log-likelihood varies as each of them says."""
    mixture = random_mixture(3, 2, "diag")
    means, errors = [], []
    for seed in range(200):
        random = np.random.default_rng(seed)
        points = Points.of_rows(mixture.draw(100, random), random.uniform(0.5, 2, 100))
        means.append(em.log_likelihood(points, mixture))
        errors.append(em.log_likelihood_se(points, mixture))
    # 200 of them tell a standard deviation to 5 %.
    assert 0.85 < np.mean(errors) / np.std(means) < 1.15


# ---- degenerate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("constant", ["column", "rows", "few"])
def test_variances_have_a_floor(shape, constant):
    rows = standardised(n=60)
    if constant == "column":
        rows[:, 1] = 7.0
    elif constant == "rows":
        rows[:] = rows[0]
    else:
        rows = np.repeat(rows[:3], 20, axis=0)
    points = Points.of_rows(rows)
    start = em.from_centroids(points, rows[[0, 25, 50]], shape)
    found, likelihood = em.fit(points, start, shape)
    assert np.isfinite(likelihood) and np.isfinite(found.means).all()
    total = np.where(rows.std(axis=0) > 1e-9, rows.var(axis=0), 1.0)
    variances = np.einsum("kii->ki", found.covariances) if shape == "full" else found.covariances
    assert (variances >= 1e-6 * total.min() * (1 - 1e-9)).all()
    assert (np.linalg.eigvalsh(matrices(found)) > 0).all()
    assert np.isclose(found.weights.sum(), 1) and (found.weights >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_component_without_rows_stays_as_it_was(shape):
    points = Points.of_rows(standardised(n=100))
    start = random_mixture(3, 2, shape)
    shares = np.zeros((100, 3))
    shares[:50, 0] = shares[50:, 2] = 1
    found = em.maximise(points, shares, shape, em._floor(points), start)
    assert found.weights.tolist() == [0.5, 0, 0.5]
    assert np.array_equal(found.means[1], start.means[1])
    assert np.array_equal(found.covariances[1], start.covariances[1])
    assert np.allclose(found.means[0], points.means[:50].mean(axis=0))
    # And a weight of nothing is no trouble later.
    assert np.isfinite(em.fit(points, found, shape)[1])


def test_centroids_become_the_mixture_of_their_clusters():
    rows = blobs(n=300, k=3)[0]
    labels = ((rows[:, None] - corners(3, 2)) ** 2).sum(axis=2).argmin(axis=1)
    found = em.from_centroids(Points.of_rows(rows), corners(3, 2), "full")
    for j in range(3):
        of_j = rows[labels == j]
        assert np.isclose(found.weights[j], len(of_j) / 300) and np.allclose(
            found.means[j], of_j.mean(axis=0)
        )
        assert np.allclose(found.covariances[j], np.cov(of_j.T, bias=True), atol=1e-3)


def test_spread_adds_to_the_covariances():
    points = Points.of_rows(standardised(n=100))
    wide = Points(points.weights, points.means, np.tile([0.5, 0.25], (100, 1)))
    mixture = Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    for shape in SHAPES:
        one, other = (em.fit(p, em.from_centroids(p, mixture.means, shape), shape)[0] for p in (points, wide))
        added = matrices(other)[0] - matrices(one)[0]
        expected = np.eye(2) * 0.375 if shape == "spherical" else np.diag([0.5, 0.25])
        assert np.allclose(added, expected, atol=1e-5)
