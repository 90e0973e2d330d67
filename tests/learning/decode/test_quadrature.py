"""Quadrature: weights on rows that reproduce the sketch; and where the evidence puts its limits."""

import numpy as np
import pytest
from scipy.optimize import minimize

from nysketch.kernels import Gaussian
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.quadrature import _minimise_penalised, convex_weights
from nysketch.learning.decode.whitening import plain_noise
from tests.kernels.kinds import basis_at, numbers
from tests.learning.decode.examples import blobs, evidence, sketch


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_weights_are_a_probability_that_reproduces_the_sketch(features):
    found = evidence(3, 2, features)
    points = found.quadrature
    assert (points.weights > 0).all() and np.isclose(points.weights.sum(), 1) and not points.variances.any()
    features_of = found.basis.to_features(found.basis.evaluate(points.means))
    misfit = points.weights @ features_of - found.sketch.mean_features()
    uniform = found.basis.to_features(found.basis.evaluate(found.support)).mean(axis=0)
    before = uniform - found.sketch.mean_features()
    noise = plain_noise(found.basis, found.mean_values, found.sketch.rows)
    assert misfit @ misfit < 0.2 * before @ before or misfit @ misfit < 3 * noise


def test_a_prior_that_fits_is_kept():
    basis = basis_at(Gaussian(0.7), numbers(20, 2))
    prior = np.random.default_rng(0).dirichlet(np.ones(20))
    values = prior @ basis.evaluate(basis.scaled_landmarks)
    weights = convex_weights(basis, basis.scaled_landmarks, values, 1000, prior)
    assert np.allclose(weights, prior, atol=1e-6)


@pytest.mark.parametrize("penalty", [1e-3, 1e-1])
def test_the_penalised_weights_are_the_minimum(penalty):
    random = np.random.default_rng(0)
    A = random.standard_normal((6, 10))
    G, b, prior = A.T @ A, A.T @ random.standard_normal(6), np.full(10, 0.1)

    def objective(w):
        return w @ G @ w - 2 * w @ b + penalty * (w - prior) @ (w - prior)

    found = _minimise_penalised(G, b, prior, penalty, prior)
    best = minimize(objective, prior, bounds=[(0, None)] * 10, options={"ftol": 1e-15, "maxiter": 5000})
    assert (found >= 0).all() and objective(found) <= best.fun + 1e-6 * abs(best.fun)


# ---- evidence --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"sample_rows": 300}, {"frequencies": "adapted-radius"}], ids=str)
@pytest.mark.parametrize("scaling", ["standard", "robust", "none"])
@pytest.mark.parametrize("bandwidth", ["median", 0.5])
def test_with_fourier_features_the_limits_hold_all_clusters(bandwidth, scaling, options):
    """Also where a single Gaussian would fit best around one of them."""
    rows, centres = blobs(k=3)
    made = sketch(rows, landmarks=100, features="fourier", bandwidth=bandwidth, scale=scaling, **options)
    found = Evidence(made)
    inside = found.basis.transform(centres)
    assert (inside >= found.limits.lower).all() and (inside <= found.limits.upper).all()
    total = found.basis.transform(rows).var(axis=0)
    assert (found.variances > 0.3 * total).all() and (found.variances < 3 * total).all()


def test_the_limits_leave_out_what_is_far_from_all_landmarks():
    rows, centres = blobs(n=3000)
    rows[0] = 1e5
    found = Evidence(sketch(rows, landmarks=300, scale="robust"))
    assert found.support.max() > 1000  # it is a landmark
    inside = found.basis.transform(centres)
    assert (inside >= found.limits.lower).all() and (inside <= found.limits.upper).all()
    assert (found.limits.upper - found.limits.lower < 100).all()


def test_a_sample_of_few_rows_is_not_believed():
    rows = blobs(n=2000)[0]
    assert Evidence(sketch(rows, landmarks=20, sample_rows=50)).sample is None
    assert Evidence(sketch(rows, landmarks=20, sample_rows=0)).sample is None
    assert len(Evidence(sketch(rows, landmarks=20, sample_rows=200)).sample) == 200
    # Unless these are all rows.
    assert len(Evidence(sketch(rows[:30], landmarks=20, sample_rows=50)).sample) == 30


def test_the_sample_is_of_the_rows():
    rows = blobs(n=100)[0] + 1e5
    found = Evidence(sketch(rows, landmarks=20, sample_rows=100))
    expected = found.basis.transform(rows)
    assert np.allclose(np.sort(found.sample.means, axis=0), np.sort(expected, axis=0), atol=1e-5)
