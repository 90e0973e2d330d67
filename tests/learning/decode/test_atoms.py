"""Atoms: mean values against numerical integration, gradients against differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.errors import UsageError
from nysketch.kernels import Gaussian, GaussianSum, LaplacianL2
from nysketch.learning.decode.atoms import POINT, AtomFamily, has_spread
from nysketch.learning.decode.mixture import Mixture, of_points, reshape_covariances
from tests import naive
from tests.kernels.kinds import NUMERIC, basis_at, fourier_basis, numbers, product_of
from tests.learning.decode.examples import SHAPES, WITH_SPREAD, matrices, random_mixture

GAUSSIAN = ("gaussian", "gaussian sum", "product of gaussians")
POINTS_ONLY = [name for name in NUMERIC if name not in GAUSSIAN]


# ---- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", WITH_SPREAD)
def test_values_are_the_means_of_the_functions_under_gaussians(kind, shape, d):
    basis = WITH_SPREAD[kind](d)
    family, mixture = AtomFamily(basis, shape), random_mixture(4, d, shape, seed=d)
    values = family.values(family.pack(mixture))
    assert values.shape == (4, basis.m)
    nodes = {1: 80, 2: 60, 3: 36}[d]
    for got, mean, covariance in zip(values, mixture.means, matrices(mixture), strict=True):
        assert np.allclose(got, naive.expectation(basis.evaluate, mean, covariance, nodes), atol=1e-7)


@pytest.mark.parametrize("kind", [*WITH_SPREAD, *POINTS_ONLY])
def test_values_at_points_are_those_of_the_functions(kind):
    basis = WITH_SPREAD[kind](3) if kind in WITH_SPREAD else basis_at(NUMERIC[kind](3), numbers(9, 3, 1))
    means = numbers(5, 3, 7)
    family = AtomFamily(basis, POINT)
    assert np.allclose(family.values(family.pack(of_points(means))), basis.evaluate(means), rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", WITH_SPREAD)
def test_a_gaussian_without_width_is_a_point(kind, shape):
    basis = WITH_SPREAD[kind](3)
    narrow = random_mixture(4, 3, shape, width=1e-5)
    family, points = AtomFamily(basis, shape), AtomFamily(basis, POINT)
    assert np.allclose(family.values(family.pack(narrow)), points.values(points.pack(narrow)), atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_agree_where_they_can(shape):
    basis = WITH_SPREAD["product of gaussians"](3)
    mixture = random_mixture(4, 3, "spherical")
    as_shape, as_full = AtomFamily(basis, shape), AtomFamily(basis, "full")
    expected = as_full.values(as_full.pack(mixture))
    assert np.allclose(as_shape.values(as_shape.pack(mixture)), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [POINT, *SHAPES])
def test_far_from_zero_few_digits_are_lost(shape):
    landmarks, mixture = numbers(20, 3, 1), random_mixture(4, 3, "diag")
    values = []
    for offset in (0.0, 1e6):
        moved = Mixture(mixture.weights, mixture.means + offset, mixture.covariances)
        family = AtomFamily(basis_at(Gaussian(0.5), landmarks + offset), shape)
        values.append(family.values(family.pack(moved)))
    # Rows are known to 1e-10 there.
    assert np.allclose(*values, rtol=1e-7, atol=1e-9)


def test_values_of_a_gaussian_kernel_stay_between_0_and_1():
    basis = WITH_SPREAD["gaussian"](2)
    family = AtomFamily(basis, "diag")
    values = family.values(family.pack(random_mixture(50, 2, spread=30)))
    assert (values >= 0).all() and (values <= 1).all() and np.isfinite(values).all()


# ---- gradients -------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    kind=st.sampled_from(sorted(WITH_SPREAD)),
    shape=st.sampled_from((POINT, *SHAPES)),
    d=st.integers(1, 4),
    k=st.integers(1, 3),
    log_width=st.floats(-2, 1),
    seed=st.integers(0, 10**6),
)
def test_the_pullback_is_the_gradient(kind, shape, d, k, log_width, seed):
    basis = WITH_SPREAD[kind](d)
    family = AtomFamily(basis, shape)
    mixture = random_mixture(k, d, "diag" if shape == POINT else shape, seed, width=10**log_width)
    parameters = family.pack(mixture)
    coefficients = np.random.default_rng(seed + 1).standard_normal((k, basis.m))
    expected = naive.gradient_of(lambda x: float((coefficients * family.values(x)).sum()), parameters)
    got = family.pullback(parameters, coefficients)
    assert got.shape == parameters.shape == (k, family.size)
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", POINTS_ONLY)
def test_the_pullback_of_other_kernels_is_the_gradient(kind):
    basis = basis_at(NUMERIC[kind](4), numbers(7, 4, 1))
    family = AtomFamily(basis, POINT)
    means, coefficients = numbers(3, 4, 5), numbers(3, 7, 6)
    expected = naive.gradient_of(lambda x: float((coefficients * family.values(x)).sum()), means)
    assert np.allclose(family.pullback(means, coefficients), expected, rtol=1e-5, atol=1e-5)


# ---- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("shape", [POINT, *SHAPES])
def test_packing_and_unpacking_give_the_mixture_back(shape, d):
    family = AtomFamily(WITH_SPREAD["gaussian"](d), shape)
    mixture = random_mixture(4, d, "diag" if shape == POINT else shape)
    packed = family.pack(mixture)
    sizes = {POINT: d, "spherical": d + 1, "diag": 2 * d, "full": d + d * (d + 1) // 2}
    assert packed.shape == (4, family.size) == (4, sizes[shape])
    back = family.unpack(packed, mixture.weights)
    assert np.array_equal(back.weights, mixture.weights) and np.array_equal(back.means, mixture.means)
    if shape == POINT:
        assert not back.covariances.any() and back.covariances.shape == (4, d)
        return
    assert back.covariances.shape == mixture.covariances.shape
    assert np.allclose(back.covariances, mixture.covariances, rtol=1e-12)
    assert np.allclose(family.pack(back), packed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("source", SHAPES)
@pytest.mark.parametrize("target", SHAPES)
def test_packing_brings_covariances_into_shape(source, target):
    family, mixture = AtomFamily(WITH_SPREAD["gaussian"](3), target), random_mixture(4, 3, source)
    got = matrices(family.unpack(family.pack(mixture), mixture.weights))
    for matrix, covariance in zip(matrices(mixture), got, strict=True):
        expected = matrix
        if target != "full":
            expected = np.diag(np.diag(matrix))
        if target == "spherical":
            expected = np.eye(3) * np.trace(matrix) / 3
        assert np.allclose(covariance, expected, rtol=1e-12, atol=1e-15)


def test_shaped_leaves_what_is_in_shape():
    for shape in SHAPES:
        covariances = random_mixture(3, 2, shape).covariances
        assert np.allclose(reshape_covariances(covariances, shape), covariances, rtol=1e-15)


@settings(max_examples=30)
@given(shape=st.sampled_from((POINT, *SHAPES)), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_what_is_within_the_bounds_is_within_the_limits(shape, d, seed):
    random = np.random.default_rng(seed)
    box = random.normal(-2, 1, d), random.normal(2, 0.1, d)
    box = np.minimum(*box), np.maximum(*box)
    variances = 10 ** random.uniform(-5, -2, d), 10 ** random.uniform(-1, 1, d)
    family = AtomFamily(WITH_SPREAD["gaussian"](d), shape)
    lower, upper = family.bounds(box, variances)
    assert lower.shape == upper.shape == (family.size,) and (lower < upper).all()
    some = np.concatenate([lower[None], upper[None], random.uniform(lower, upper, (20, family.size))])
    mixture = family.unpack(some, np.ones(22))
    assert (mixture.means >= box[0] - 1e-12).all() and (mixture.means <= box[1] + 1e-12).all()
    if shape == "spherical":
        assert (mixture.covariances >= variances[0].min() * (1 - 1e-9)).all()
        assert (mixture.covariances <= variances[1].max() * (1 + 1e-9)).all()
    elif shape == "diag":
        assert (mixture.covariances >= variances[0] * (1 - 1e-9)).all()
        assert (mixture.covariances <= variances[1] * (1 + 1e-9)).all()
    elif shape == "full":
        signs, logs = np.linalg.slogdet(mixture.covariances)
        assert (signs > 0).all() and (logs >= np.log(variances[0]).sum() - 1e-6).all()


@settings(max_examples=30)
@given(shape=st.sampled_from(SHAPES), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_mixtures_within_the_limits_are_within_the_bounds(shape, d, seed):
    mixture = random_mixture(5, d, shape, seed)
    box = mixture.means.min(axis=0) - 0.1, mixture.means.max(axis=0) + 0.1
    values = np.linalg.eigvalsh(matrices(mixture))
    variances = np.full(d, 0.9 * values.min()), np.full(d, 1.1 * values.max())
    family = AtomFamily(WITH_SPREAD["gaussian"](d), shape)
    lower, upper = family.bounds(box, variances)
    packed = family.pack(mixture)
    assert (packed >= lower).all() and (packed <= upper).all()


# ---- which bases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NUMERIC)
def test_only_gaussian_kernels_know_the_mean_of_a_gaussian(kind):
    basis = basis_at(NUMERIC[kind](4), numbers(5, 4))
    assert has_spread(basis) == (kind in GAUSSIAN)
    if kind not in GAUSSIAN:
        for shape in SHAPES:
            with pytest.raises(UsageError, match='`decoder="cells"`, or sketch with `kernel="gaussian"`'):
                AtomFamily(basis, shape)


def test_fourier_features_know_the_mean_of_a_gaussian():
    assert has_spread(fourier_basis(2, 6, "gaussian")) and has_spread(fourier_basis(2, 6, "adapted-radius"))


@pytest.mark.parametrize("part", [GaussianSum((1.0, 2.0)), LaplacianL2(1.0)])
def test_products_with_other_kernels_have_points_only(part):
    basis = basis_at(product_of(Gaussian(1.0), part)(2), numbers(5, 2))
    assert not has_spread(basis)
    means = numbers(3, 2, 4)
    assert np.allclose(AtomFamily(basis, POINT).values(means), basis.evaluate(means))
