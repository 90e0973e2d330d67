"""What every kernel must do, against the definitions in tests/naive.py."""

import numpy as np
import pytest

from nysketch.errors import UsageError
from nysketch.kernels import (
    Cosine,
    Gaussian,
    GaussianSum,
    LaplacianL1,
    LaplacianL2,
    Matern32,
    Matern52,
    Spectrum,
    Subsequence,
)
from tests import naive
from tests.kernels.kinds import BOUNDED, KINDS, NUMERIC, STRINGS, numbers, product_of, rows_for, strings

D = 5
every = pytest.mark.parametrize("name", KINDS)
every_numeric = pytest.mark.parametrize("name", NUMERIC)


@every
def test_values_are_those_of_the_definition(name):
    kernel = KINDS[name](D)
    X, Y = rows_for(name, 12), rows_for(name, 8, seed=1)
    expected = naive.kernel_matrix(kernel.describe(), X, Y)
    assert kernel(X, Y) == pytest.approx(expected, rel=1e-12, abs=1e-13 * np.abs(expected).max())


@every
def test_values_are_symmetric(name):
    kernel = KINDS[name](D)
    X, Y = rows_for(name, 20), rows_for(name, 11, seed=1)
    values, turned = kernel(X, Y), kernel(Y, X).T
    assert turned == pytest.approx(values, rel=1e-13, abs=1e-14 * np.abs(values).max())


@every
@pytest.mark.parametrize("seed", range(3))
def test_matrices_are_positive_semidefinite(name, seed):
    X = rows_for(name, 40, seed=seed)
    K = KINDS[name](D)(X, X)
    eigenvalues = np.linalg.eigvalsh((K + K.T) / 2)
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@every
def test_the_diagonal_is_that_of_the_matrix(name):
    kernel, X = KINDS[name](D), rows_for(name, 30)
    assert kernel.diagonal(X) == pytest.approx(np.diag(kernel(X, X)), rel=1e-12, abs=1e-13)


@every
def test_values_are_within_the_range(name):
    kernel, X = KINDS[name](D), rows_for(name, 60)
    low, high = kernel.range
    values = kernel(X, X)
    assert low <= high
    assert values.min() >= low - 1e-13
    assert values.max() <= high + 1e-13
    if name in BOUNDED or name in STRINGS:
        assert np.isfinite([low, high]).all()
        assert values.max() > 0.9 * high


@every
def test_results_are_float64_matrices_also_of_no_rows(name):
    kernel, X = KINDS[name](D), rows_for(name, 3)
    for a, b in ((X, X[:2]), (X[:0], X), (X, X[:0]), (X[:0], X[:0])):
        values = kernel(a, b)
        assert values.dtype == np.float64
        assert values.shape == (len(a), len(b))
        assert kernel.diagonal(a).dtype == np.float64
        assert kernel.diagonal(a).shape == (len(a),)


@every
def test_rows_are_left_alone(name):
    kernel, X, Y = KINDS[name](D), rows_for(name, 6), rows_for(name, 4, seed=1)
    before = X.copy(), Y.copy()
    kernel(X, Y), kernel.diagonal(X)
    if name in NUMERIC:
        kernel.gradient(X, Y, np.ones((len(X), len(Y))))
    assert np.array_equal(X, before[0])
    assert np.array_equal(Y, before[1])


@every_numeric
def test_a_value_does_not_depend_on_the_other_rows(name):
    kernel, X, Y = KINDS[name](D), rows_for(name, 9), rows_for(name, 5, seed=1)
    values = kernel(X, Y)
    alone = np.array(
        [[kernel(X[i : i + 1], Y[j : j + 1])[0, 0] for j in range(len(Y))] for i in range(len(X))]
    )
    assert alone == pytest.approx(values, rel=1e-13, abs=1e-14 * np.abs(values).max())


# ---- gradients -------------------------------------------------------------------------------------


@every_numeric
@pytest.mark.parametrize("d", [1, 2, 5])
def test_gradients_are_difference_quotients(name, d):
    kernel = NUMERIC[name](d)
    X, Y = numbers(7, d, seed=2), numbers(9, d, seed=3)  # no two of them share a coordinate
    coefficients = numbers(7, 9, seed=4)

    def weighted(moved):
        return (coefficients * kernel(moved, Y)).sum(axis=1)

    expected = naive.difference_quotients(weighted, X, step=1e-5)
    got = kernel.gradient(X, Y, coefficients)
    assert got == pytest.approx(expected, rel=1e-6, abs=1e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", [name for name in BOUNDED if name != "cosine"])
def test_gradients_do_not_depend_on_where_zero_is(name):
    kernel = BOUNDED[name](D)
    X, Y = (np.rint(numbers(6, D, seed=s) * 2**10) / 2**10 for s in (1, 2))  # moved without rounding
    coefficients = numbers(6, 6)
    moved = kernel.gradient(X + 1e6, Y + 1e6, coefficients)
    assert moved == pytest.approx(kernel.gradient(X, Y, coefficients), rel=1e-7, abs=1e-8)


@every_numeric
def test_gradients_are_the_sums_of_their_terms(name):
    kernel = NUMERIC[name](D)
    X, Y, coefficients = numbers(4, D), numbers(6, D, seed=1), numbers(4, 6, seed=2)
    total = np.zeros((4, D))
    for i in range(4):
        for j in range(6):
            total[i] += coefficients[i, j] * kernel.gradient(X[i : i + 1], Y[j : j + 1], np.ones((1, 1)))[0]
    assert kernel.gradient(X, Y, coefficients) == pytest.approx(total, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.0), LaplacianL1(1.0), LaplacianL2(1.0), Matern32(1.0), Matern52(1.0)]
)
def test_the_gradient_of_a_row_at_itself_is_zero(kernel):
    X = numbers(5, 3) + 7
    assert np.abs(kernel.gradient(X, X, np.eye(5))).max() < 1e-14


def test_absolute_differences_have_a_kink_in_every_feature():
    X, Y = np.array([[1.0, 5.0]]), np.array([[1.0, 3.0]])
    gradient = LaplacianL1(2.0).gradient(X, Y, np.ones((1, 1)))
    assert gradient == pytest.approx(np.array([[0.0, -np.exp(-1) / 2]]))


def test_the_cosine_has_no_gradient_at_zero():
    X, Y = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])
    gradient = Cosine().gradient(X, Y, np.ones((2, 2)))
    assert gradient == pytest.approx(np.array([[0.0, 0.0], [0.0, 0.5**0.5]]))


@every_numeric
def test_gradients_of_no_rows(name):
    kernel = NUMERIC[name](D)
    assert kernel.gradient(np.empty((0, D)), numbers(3, D), np.empty((0, 3))).shape == (0, D)
    assert not kernel.gradient(numbers(3, D), np.empty((0, D)), np.empty((3, 0))).any()


@pytest.mark.parametrize("name", STRINGS)
def test_strings_have_no_gradient(name):
    X = strings(["abc"])
    with pytest.raises(UsageError, match="no gradient"):
        STRINGS[name](1).gradient(X, X, np.ones((1, 1)))


# ---- the edge of floating point --------------------------------------------------------------------

SMALL = [0.0, 5e-324, -5e-324, 1e-310, 1e-160, -1e-200, 1.0]


def grid(values, d=2):
    return np.array(np.meshgrid(*[values] * d)).reshape(d, -1).T


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("largest", [1e100, 1e150])
def test_extreme_rows_have_ordinary_values(name, largest):
    kernel = BOUNDED[name](2)
    X = grid([*SMALL, largest, -largest])
    values = kernel(X, X)  # warnings are errors
    low, high = kernel.range
    assert ((values >= low - 1e-12) & (values <= high + 1e-12)).all()
    assert np.diag(values) == pytest.approx(kernel.diagonal(X))


@pytest.mark.parametrize("name", BOUNDED)
def test_the_largest_rows_have_ordinary_values(name):
    kernel = BOUNDED[name](2)
    X = grid([0.0, 1.0, 1e308, -1e308])
    values = kernel(X, X)
    low, high = kernel.range
    assert ((values >= low - 1e-12) & (values <= high + 1e-12)).all()


@pytest.mark.parametrize("name", [name for name in BOUNDED if name != "cosine"])
def test_extreme_rows_have_finite_gradients(name):
    X = grid([*SMALL, 1e100, -1e100])
    assert np.isfinite(BOUNDED[name](2).gradient(X, X, np.ones((len(X), len(X))))).all()


@pytest.mark.parametrize(
    ("kernel", "size"),
    [
        (Gaussian(0.01), 1e153),
        (Gaussian(0.01), 1e154),
        (GaussianSum((0.01, 0.02)), 1e154),
        (product_of(Gaussian(0.01), Gaussian(0.01))(2), 1e154),
        (LaplacianL1(0.01), 8e307),
    ],
    ids=str,
)
def test_small_bandwidths_and_large_rows_do_not_warn(kernel, size):
    X = np.array([[0.0, 0.0], [size, 0.0], [0.0, -size]])
    assert kernel(X, X) == pytest.approx(np.eye(3))


@pytest.mark.parametrize("size", [1e-200, 1e-170, 1e-100, 1e100, 1e160, 1e200])
def test_the_gradient_of_the_cosine_of_very_short_and_long_rows(size):
    X, Y = np.array([[1.0, 0.5]]), np.array([[0.3, -1.0]])
    expected = Cosine().gradient(X, Y, np.ones((1, 1)))
    got = Cosine().gradient(size * X, Y, np.ones((1, 1)))
    assert got * size == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("length", "decay"), [(2, 0.01), (8, 1e-10), (32, 1e-6), (2, 1e-100)])
def test_small_decays_do_not_vanish(length, decay):
    kernel = Subsequence(length, decay)
    X = strings(["abcdefgh" * 8, "hgfedcba" * 8, "ab" * 32])
    assert np.diag(kernel(X, X)) == pytest.approx(kernel.diagonal(X))


@pytest.mark.parametrize("name", STRINGS)
def test_strings_too_short_are_like_nothing(name):
    kernel = STRINGS[name](1)
    X = strings(["", "a", "ab", "abc"])
    short = np.array([len(text) < kernel.length for text in X])
    values = kernel(X, X)
    assert not values[short].any()
    assert not values[:, short].any()
    assert np.diag(values)[~short] == pytest.approx(1)


def test_strings_are_compared_by_code_point():
    X = strings(["é", "e\N{COMBINING ACUTE ACCENT}", "É", "\x00", "😀"])
    for name in ("spectrum 1", "subsequence 1 0.5"):
        assert STRINGS[name](1)(X, X) == pytest.approx(np.eye(5))


@pytest.mark.parametrize("name", STRINGS)
def test_windows_do_not_run_into_the_next_string(name):
    """All strings are laid end to end inside: a string must not see its neighbours."""
    kernel = STRINGS[name](1)
    X = strings(["ab", "c", "", "ab", "cab", "a", "b"])
    together = kernel(X, X)
    for i in range(len(X)):
        assert kernel(X[i : i + 1], X)[0] == pytest.approx(together[i], abs=1e-15)
    assert together == pytest.approx(naive.kernel_matrix(kernel.describe(), X, X), abs=1e-13)


def test_long_strings():
    X = strings(["ab" * 10_000, "abc" * 5_000, "ba" * 6_000])
    values = Spectrum(3)(X, X)
    assert values == pytest.approx(naive.kernel_matrix({"name": "spectrum", "length": 3}, X, X))
