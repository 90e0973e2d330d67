"""Matching: the objective and its gradient, weights, and that refining goes downhill within the limits."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.kernels import Gaussian, Matern52
from nysketch.learning.decode.atoms import POINT, AtomFamily
from nysketch.learning.decode.mixture import Mixture, of_points
from nysketch.learning.decode.moment_matching import LOOSE, TIGHT, Limits, Matching
from nysketch.learning.decode.points import Points
from nysketch.learning.decode.whitening import Moments
from tests import naive
from tests.kernels.kinds import basis_at, fourier_basis, numbers
from tests.learning.decode.examples import SHAPES, random_mixture

LIMITS = Limits(np.full(2, -4.0), np.full(2, 4.0), np.full(2, 1e-4), np.full(2, 9.0))
BASES = {
    "gaussian": basis_at(Gaussian(1.0), numbers(25, 2, 9)),
    "fourier": fourier_basis(2, 30, "gaussian", bandwidth=1.0),
    "matern52": basis_at(Matern52(1.5), numbers(25, 2, 8)),
}
# What can be fitted to what.
FITS = [(basis, shape) for basis in ("gaussian", "fourier") for shape in (POINT, *SHAPES)]
FITS += [("matern52", POINT)]


def matching(kind="gaussian", shape="diag", limits=LIMITS, seed=0, rows=500):
    """How mixtures match rows of one with three components."""
    basis = BASES[kind]
    drawn = random_mixture(3, 2, "diag", seed=seed + 100).draw(rows, np.random.default_rng(seed))
    moments = Moments.of(basis, basis.evaluate(drawn).mean(axis=0), rows, Points.of_rows(drawn))
    return Matching(basis, moments, shape, limits)


def start_for(shape, k=3, seed=0):
    mixture = random_mixture(k, 2, "diag" if shape == POINT else shape, seed=seed)
    return of_points(mixture.means, mixture.weights) if shape == POINT else mixture


def naive_distance(match, mixture):
    family = match.family
    values = sum(
        weight * family.values(family.pack(mixture.only(np.array([i]))))[0]
        for i, weight in enumerate(mixture.weights)
    )
    return float(((match.moments.matrix @ (values - match.moments.target)) ** 2).sum())


@pytest.mark.parametrize(("kind", "shape"), FITS)
def test_the_distance_is_that_of_the_features(kind, shape):
    match, mixture = matching(kind, shape), start_for(shape, k=4)
    assert np.isclose(match.distance(mixture), naive_distance(match, mixture), rtol=1e-10)
    assert np.isclose(match.residual(mixture) @ match.residual(mixture), match.distance(mixture))
    assert np.allclose(match.target - mixture.weights @ match.features_of(mixture), match.residual(mixture))


@pytest.mark.parametrize(("kind", "shape"), FITS)
def test_the_gradient_of_the_joint_objective(kind, shape, monkeypatch):
    seen = []

    def checked(objective, start, **options):
        lower, upper = options["bounds"].T
        assert (start >= lower).all() and (start <= upper).all() and options["jac"] is True
        random = np.random.default_rng(0)
        for x in (start, start + 0.01 * random.standard_normal(len(start)) * (1 + np.abs(start))):
            value, gradient = objective(x)
            expected = naive.gradient_of(lambda y: objective(y)[0], x, 1e-6)
            assert np.allclose(gradient, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
            seen.append(value)
        return scipy.optimize.OptimizeResult(x=start)

    monkeypatch.setattr(scipy.optimize, "minimize", checked)
    match, mixture = matching(kind, shape), start_for(shape)
    back = match.refine(mixture, LOOSE)
    # The objective at the start is the distance, in units of the noise.
    assert len(seen) == 2
    assert np.isclose(seen[0], match.distance(back) / match.moments.noise, rtol=1e-9)
    assert np.allclose(back.means, mixture.means) and np.allclose(back.weights, mixture.weights)


@settings(max_examples=25)
@given(
    fit=st.sampled_from(FITS),
    k=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    effort=st.sampled_from([LOOSE, TIGHT]),
)
def test_refining_never_increases_the_distance(fit, k, seed, effort):
    match, start = matching(*fit), start_for(fit[1], k, seed)
    start = Mixture(start.weights, LIMITS.clip(start.means), start.covariances)
    once = match.refine(start, effort)
    twice = match.refine(once, effort)
    # A full covariance is made wider by the least variance before it starts.
    slack = 1e-3 * match.moments.noise if fit[1] == "full" else 1e-12
    assert match.distance(once) <= match.distance(start) + slack
    assert match.distance(twice) <= match.distance(once) + slack
    assert all(np.isfinite(array).all() for array in (twice.weights, twice.means, twice.covariances))
    assert (twice.weights >= 0).all()


@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize(("kind", "shape"), FITS)
def test_refining_stays_within_the_limits(kind, shape, spread):
    narrow = Limits(np.array([-0.5, -0.3]), np.array([0.4, 0.6]), np.full(2, 0.04), np.full(2, 0.25))
    match = matching(kind, shape, narrow)
    start = start_for(shape, k=4)
    start = Mixture(start.weights, spread * start.means, spread * start.covariances)
    found = match.refine(start, TIGHT)
    assert (found.means >= narrow.lower - 1e-9).all() and (found.means <= narrow.upper + 1e-9).all()
    if shape in ("spherical", "diag"):
        assert (found.covariances >= 0.04 * (1 - 1e-9)).all()
        assert (found.covariances <= 0.25 * (1 + 1e-9)).all()
    elif shape == "full":
        assert (np.linalg.slogdet(found.covariances)[1] >= np.log(0.04**2) - 1e-6).all()
        assert (np.einsum("kii->ki", found.covariances) <= 2 * 0.25 * (1 + 1e-9)).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["gaussian", "fourier"])
def test_refining_finds_the_mixture_that_the_moments_are_of(kind, shape):
    """Moments without noise: nothing but the truth fits them."""
    basis, truth = BASES[kind], start_for(shape, k=2, seed=5)
    truth = Mixture(truth.weights, np.array([[-1.5, 0.0], [1.5, 0.5]]), truth.covariances)
    family = AtomFamily(basis, shape)
    values = truth.weights @ family.values(family.pack(truth))
    drawn = Points.of_rows(truth.draw(2000, np.random.default_rng(0)))
    match = Matching(basis, Moments.of(basis, values, 2000, drawn), shape, LIMITS)
    assert match.distance(truth) < 1e-20
    found = Mixture(np.array([0.5, 0.5]), truth.means + 0.3, 1.5 * truth.covariances)
    for _ in range(5):
        found = match.refine(found, TIGHT)
    assert np.allclose(found.means, truth.means, atol=0.02)
    assert np.allclose(found.weights, truth.weights, atol=0.01)
    assert np.allclose(found.covariances, truth.covariances, atol=0.05)


# ---- weights ---------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(k=st.integers(1, 5), seed=st.integers(0, 10**6), shape=st.sampled_from((POINT, *SHAPES)))
def test_weights_are_those_of_non_negative_least_squares(k, seed, shape):
    match, mixture = matching("gaussian", shape), start_for(shape, k, seed)
    found = match.fit_weights(mixture)
    expected = naive.nonnegative_least_squares(match.features_of(mixture).T, match.target)
    assert np.allclose(found.weights, expected, rtol=1e-6, atol=1e-8)
    assert np.array_equal(found.means, mixture.means)
    assert np.array_equal(found.covariances, mixture.covariances)


@settings(max_examples=30)
@given(count=st.integers(2, 6), k=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_the_strongest_have_most_weight_at_equal_length(count, k, seed):
    match, mixture = matching(), start_for("diag", count, seed)
    features = match.features_of(mixture)
    unit = features / np.linalg.norm(features, axis=1)[:, None]
    weights = naive.nonnegative_least_squares(unit.T, match.target)
    found = match.strongest(mixture, k)
    assert len(found) == min(k, count)
    places = [int(np.flatnonzero((mixture.means == mean).all(axis=1))[0]) for mean in found.means]
    assert places == sorted(places)
    left = np.delete(weights, places)
    assert not len(left) or weights[places].min() >= left.max() - 1e-8
    assert np.array_equal(found.covariances, mixture.covariances[places])


def test_an_atom_far_from_everything_does_no_harm():
    match = matching()
    near, far = start_for("diag"), Mixture(np.ones(1), np.full((1, 2), 1e6), np.full((1, 2), 1e-4))
    found = match.strongest(near.join(far), 3)
    assert np.array_equal(found.means, near.means)
    weights = match.fit_weights(near.join(far)).weights
    assert np.isfinite(weights).all() and weights[3] == 0
    assert np.isfinite(match.refine(far, LOOSE).means).all()
