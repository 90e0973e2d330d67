"""Moments: features whitened by data, and how far off the true distribution is by chance."""

import numpy as np
import pytest

from nysketch.kernels import Gaussian, Matern52, Polynomial
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.moment_matching import Matching
from nysketch.learning.decode.points import Points
from nysketch.learning.decode.whitening import Moments, feature_matrix, plain_noise
from tests.kernels.kinds import basis_at, fourier_basis, numbers
from tests.learning.decode.examples import WITH_SPREAD, corners, evidence, random_mixture

BASES = WITH_SPREAD | {
    "matern52": lambda d: basis_at(Matern52(1.5), numbers(9, d, 4)),
    "polynomial": lambda d: basis_at(Polynomial(1.4, 2, 1.0), numbers(9, d, 5)),
}


def weighted_rows(count=2000, d=2, seed=0):
    random = np.random.default_rng(seed)
    return Points.of_rows(random.standard_normal((count, d)), random.uniform(0.1, 3, count))


@pytest.mark.parametrize("kind", BASES)
def test_the_feature_matrix_is_the_feature_map(kind):
    basis = BASES[kind](3)
    values = numbers(6, basis.m)
    assert np.allclose(values @ feature_matrix(basis).T, basis.to_features(values))


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("whitened", [False, True])
def test_the_adjoint_is_the_adjoint(kind, whitened):
    basis = BASES[kind](2)
    data = weighted_rows() if whitened else None
    moments = Moments.of(basis, basis.evaluate(numbers(50, 2)).mean(axis=0), 50, data)
    values = np.random.default_rng(0).standard_normal(basis.m)
    features = np.random.default_rng(1).standard_normal(len(moments.matrix))
    assert np.isclose(moments.adjoint(features) @ values, features @ moments.features(values), rtol=1e-9)
    assert np.allclose(moments.features(np.stack([values, 2 * values]))[1], 2 * moments.features(values))


@pytest.mark.parametrize("kind", BASES)
def test_whitened_features_have_unit_variance_where_there_is_any(kind):
    basis, data = BASES[kind](2), weighted_rows()
    values, shares = basis.evaluate(data.means), data.weights / data.weights.sum()
    moments = Moments.of(basis, shares @ values, len(data), data)

    def covariance(features):
        away = features - shares @ features
        return (away * shares[:, None]).T @ away

    found = covariance(moments.features(values))
    before = np.linalg.eigvalsh(covariance(basis.to_features(values)))
    assert np.allclose(found, np.diag(np.diag(found)), atol=1e-8)
    variances = np.sort(np.diag(found))
    assert (variances < 1 + 1e-9).all()
    # Those with a hundred times the share that is taken for rounding.
    sure = before > 1e-2 * before.sum()
    assert sure.sum() >= 2 and (variances[sure] > 0.99).all()
    # No direction is blown up by more than the root of 10,000 / the total variance.
    assert (np.linalg.eigvalsh(moments.matrix @ moments.matrix.T) >= 0).all()
    assert np.isclose(moments.noise, np.trace(found) / len(data), rtol=1e-6)


def test_without_data_features_are_those_of_the_basis():
    basis = BASES["gaussian"](2)
    values = basis.evaluate(numbers(50, 2)).mean(axis=0)
    moments = Moments.of(basis, values, 50, None)
    assert np.allclose(moments.features(values), basis.to_features(values))
    assert moments.noise == plain_noise(basis, values, 50)


def test_rows_that_are_all_equal_leave_nothing_to_whiten():
    basis = BASES["gaussian"](2)
    row = numbers(1, 2)
    moments = Moments.of(basis, basis.evaluate(row)[0], 100, Points.of_rows(np.repeat(row, 100, axis=0)))
    assert np.isfinite(moments.matrix).all() and moments.noise > 0


NOISY = {
    "nystrom": basis_at(Gaussian(1.0), numbers(40, 2, 9)),
    "fourier": fourier_basis(2, 60, "gaussian", bandwidth=1.0),
}


@pytest.mark.parametrize("kind", NOISY)
@pytest.mark.parametrize("whitened", [False, True])
def test_the_truth_is_off_by_the_noise_on_average(kind, whitened):
    basis = NOISY[kind]
    truth, rows, repeats = random_mixture(3, 2, "diag", seed=3), 300, 120
    like_the_data = Points.of_rows(truth.draw(5000, np.random.default_rng(99)))
    ratios = []
    for seed in range(repeats):
        drawn = truth.draw(rows, np.random.default_rng(seed))
        values = basis.evaluate(drawn).mean(axis=0)
        moments = Moments.of(basis, values, rows, like_the_data if whitened else None)
        matching = Matching(basis, moments, "diag", evidence().limits)
        ratios.append(matching.distance(truth) / moments.noise)
    # The standard error of the mean ratio is 3 to 6 %.
    assert np.std(ratios) / np.sqrt(repeats) < 0.07
    assert 0.8 < np.mean(ratios) < 1.2


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_also_in_the_evidence_of_a_sketch_the_truth_is_about_the_noise_away(features):
    """There whitening uses weights on landmarks, or a blob, instead of the rows: about is a factor 2."""
    ratios = []
    for k in (2, 3, 4):
        found = evidence(k, 2, features)
        matching = found.matching("diag")
        ratios.append(matching.distance(truth_of(k, found.basis)) / found.moments.noise)
    assert 0.3 < np.mean(ratios) < 2.0


def truth_of(k, basis):
    variances = np.tile(1 / basis.scale**2, (k, 1))
    return Mixture(np.full(k, 1 / k), (corners(k, 2) - basis.center) / basis.scale, variances)
