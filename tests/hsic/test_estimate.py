"""HSIC without bias: against slow twins, how far it is from the truth in printed errors, how strong it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.hsic import estimate as module
from nysketch.hsic.estimate import Estimate, estimate
from nysketch.kernels import Gaussian, Group, LaplacianL1, Linear, Product
from tests.hsic.test_statistic import basis_of, dependent, means_of, noisy_copy, product, v_statistic


def of_rows(kernel, rows, landmarks=20, sampled=None):
    basis = basis_of(kernel, rows[:landmarks])
    return estimate(basis, *means_of(basis, rows), rows[: sampled or len(rows)], len(rows))


def squared_without(kernel, rows, left_out, basis=None):
    """The squared V-HSIC of all rows but one; or that part of it which landmarks express."""
    rest = np.delete(rows, left_out, axis=0)
    if basis is None:
        return v_statistic(kernel, rest)
    mean, means = means_of(basis, rest)
    return ((basis.nystrom.matrix @ (mean - means.prod(axis=0))) ** 2).sum()


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_of_all_rows_it_is_the_jackknife_of_the_v_statistic(groups):
    rows, kernel = dependent(np.random.default_rng(groups), 40, groups), product(groups)
    without = np.array([squared_without(kernel, rows, i) for i in range(40)])
    values = 40 * v_statistic(kernel, rows) - 39 * without
    found = of_rows(kernel, rows)
    assert found.squared == pytest.approx(values.mean(), rel=1e-8)
    assert found.error_of_square == pytest.approx(values.std(ddof=1) / np.sqrt(40), rel=1e-6)


@pytest.mark.parametrize("groups", [2, 3])
def test_what_landmarks_express_is_left_out_row_by_row(groups):
    rows, kernel = dependent(np.random.default_rng(groups), 30, groups), product(groups)
    basis = basis_of(kernel, rows[:7])
    found = module._Expressed.of(basis, *means_of(basis, rows), rows)
    expected = [squared_without(kernel, rows, i, basis) for i in range(30)]
    assert found.without == pytest.approx(np.array(expected), rel=1e-6)
    assert found.of_sample == pytest.approx(found.of_all)


def test_landmarks_have_no_part_in_what_is_expected():
    # Five landmarks see little of it, a hundred almost everything; a sample measures what they do not see.
    rows, kernel = dependent(np.random.default_rng(0), 2000, 2, strength=1.0), product(2)
    truth = np.sqrt(v_statistic(kernel, rows))
    few, many = (of_rows(kernel, rows, m, 500) for m in (5, 100))
    for found in (few, many):
        assert found.hsic == pytest.approx(truth, abs=2 * found.standard_error)
    assert many.standard_error < few.standard_error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "n", "m", "sampled"), [(2, 200, 10, 200), (3, 3000, 20, 300), (5, 3000, 40, 300)]
)
def test_independent_columns_are_within_two_errors_of_0(groups, n, m, sampled):
    kernel, inside, runs = product(groups), 0, 60
    for run in range(runs):
        found = of_rows(kernel, np.random.default_rng(run).normal(size=(n, groups)), m, sampled)
        inside += found.hsic <= 2 * found.standard_error
    assert inside >= 0.92 * runs


def test_dependent_columns_are_within_two_errors_of_the_truth():
    kernel = product(2, 1, 1.3)
    # x and x + e, both normal: the integrals of Gaussian kernels are known.
    covariance = np.array([[1.0, 1.0], [1.0, 2.0]])
    own, one, width = np.diag(covariance), np.eye(2), 1.3**2
    joint = np.linalg.det(one + 2 * covariance / width) ** -0.5
    base = np.prod((1 + 2 * own / width) ** -0.5)
    crossed = np.prod((1 + own / width) ** -0.5) * np.linalg.det(one + covariance / (width + own)) ** -0.5
    truth = np.sqrt(joint + base - 2 * crossed)
    found = [of_rows(kernel, noisy_copy(np.random.default_rng(run), 2000), 15, 300) for run in range(60)]
    away = np.array([(each.hsic - truth) / each.standard_error for each in found])
    assert (np.abs(away) <= 2).mean() >= 0.9
    assert np.std(away) > 0.5  # errors are no larger than they must be


@given(st.floats(-1, 1), st.floats(1e-6, 1))
def test_two_errors_reach_both_ends_of_the_interval_of_the_square(squared, error):
    found = Estimate(squared, error, 1.0)
    above = max(squared, 0.0)
    assert found.hsic - 2 * found.standard_error <= np.sqrt(max(above - 2 * error, 0)) + 1e-9
    assert found.hsic + 2 * found.standard_error >= np.sqrt(above + 2 * error) - 1e-9
    if error < 0.01 * squared:
        assert found.standard_error == pytest.approx(error / (2 * found.hsic), rel=0.02)


def test_normalised_is_the_alignment_of_centred_kernels():
    rows = noisy_copy(np.random.default_rng(0), 200)
    kernel = Product((Group("x", 0, 1, Gaussian(1.0)), Group("y", 1, 2, LaplacianL1(2.0))))
    centring = np.eye(200) - 1 / 200
    k, l = (centring @ gram @ centring for gram in kernel.factors(rows, rows))  # noqa: E741
    largest = np.sqrt(np.sqrt((k * k).sum() * (l * l).sum())) / 200
    found = of_rows(kernel, rows)
    assert found.largest == pytest.approx(largest)
    assert found.normalised == pytest.approx(found.squared / largest**2)
    same = of_rows(product(2), np.concatenate([rows[:, :1], rows[:, :1]], axis=1))
    assert same.normalised == pytest.approx(1, abs=0.02)


@given(st.integers(2, 5), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1), st.booleans())
def test_hsic_is_never_larger_than_the_largest(groups, share, seed, constant):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, groups))
    rows[:, 1:] = np.where(rng.random((60, groups - 1)) < share, rows[:, :1], rows[:, 1:])
    if constant:
        rows[3:, -1] = 0.0  # but for three of them
    kernel = product(groups)
    assert v_statistic(kernel, rows) <= of_rows(kernel, rows).largest ** 2 * (1 + 1e-9)


def test_a_constant_group_has_no_strength():
    rows = np.concatenate([np.random.default_rng(0).normal(size=(50, 1)), np.ones((50, 1))], axis=1)
    found = of_rows(product(2), rows)
    assert found.normalised is None and found.hsic < 1e-6


def test_digits_of_linear_kernels_far_from_0_are_kept():
    rows = noisy_copy(np.random.default_rng(0), 400)
    kernel = Product((Group("x", 0, 1, Linear()), Group("y", 1, 2, Linear())))
    near, far = of_rows(kernel, rows), of_rows(kernel, rows + 1e3)
    assert far.hsic == pytest.approx(near.hsic, rel=1e-4)
    assert near.hsic == pytest.approx(abs(np.cov(rows.T)[0, 1]), rel=0.02)
