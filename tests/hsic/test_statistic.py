"""HSIC at landmarks: against its definition, levels and power of the tests, errors, and how strong it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import Column
from nysketch.hsic import statistic
from nysketch.hsic._shifted import shifted_sums
from nysketch.kernels import Gaussian, Group, Linear, Product


def product(groups, d=1, bandwidth=1.0):
    return Product(tuple(Group(f"g{i}", i * d, (i + 1) * d, Gaussian(bandwidth)) for i in range(groups)))


def basis_of(kernel, landmarks):
    d = landmarks.shape[1]
    columns = tuple(Column(f"c{i}") for i in range(d))
    zero, one = np.zeros(d), np.ones(d)
    return NystromBasis(
        columns=columns, scaling="none", center=zero, scale=one, kernel=kernel, landmarks=landmarks
    )


def v_statistic(kernel, rows):
    """The squared HSIC, by its definition."""
    grams = kernel.factors(rows, rows)
    joint = np.prod(grams, axis=0).mean()
    crossed = np.prod([gram.mean(axis=1) for gram in grams], axis=0).mean()
    return joint + np.prod([gram.mean() for gram in grams]) - 2 * crossed


def means_of(basis, rows):
    factors = basis.kernel.factors(rows, basis.scaled_landmarks)
    return np.prod(factors, axis=0).mean(axis=0), np.array([factor.mean(axis=0) for factor in factors])


def dependent(rng, n, groups, d=1, strength=0.5):
    common = rng.normal(size=(n, d))
    return np.concatenate(
        [strength * common + rng.normal(size=(n, d)) for _ in range(groups)], axis=1
    )  # fmt: skip


def parts(basis):
    return [basis.of_groups([i]) for i in range(len(basis.groups))]


# ---- the estimator -------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("d", [1, 3])
def test_with_all_rows_as_landmarks_it_is_the_v_statistic(groups, d):
    rows = dependent(np.random.default_rng(groups), 150, groups, d)
    kernel = product(groups, d, 1.5)
    basis = basis_of(kernel, rows)
    found = statistic.hsic_squared(basis, parts(basis), *means_of(basis, rows))
    assert found == pytest.approx(v_statistic(kernel, rows), abs=1e-8)
    assert found > 1e-3


def test_the_v_statistic_of_these_tests_is_a_sum_over_pairs_of_rows():
    rows = dependent(np.random.default_rng(0), 6, 2)
    kernel = product(2)
    k, l = kernel.factors(rows, rows)  # noqa: E741
    centring = np.eye(6) - 1 / 6
    assert v_statistic(kernel, rows) == pytest.approx(np.trace(centring @ k @ centring @ l) / 36)


def test_the_error_falls_with_the_landmarks():
    rng = np.random.default_rng(1)
    rows = dependent(rng, 400, 3)
    kernel = product(3)
    truth = v_statistic(kernel, rows)
    errors = []
    for m in (10, 40, 160):
        basis = basis_of(kernel, rows[:m])
        errors.append(abs(statistic.hsic_squared(basis, parts(basis), *means_of(basis, rows)) - truth))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


# ---- shuffles ------------------------------------------------------------------------------------------


@given(
    st.integers(2, 6), st.integers(1, 5), st.integers(3, 3000), st.integers(1, 4), st.integers(0, 2**32 - 1)
)
def test_shifted_sums_are_those_of_shuffled_rows(groups, landmarks, n, draws, seed):
    rng = np.random.default_rng(seed)
    factors = [rng.uniform(size=(landmarks, n)) for _ in range(groups)]
    shifts = rng.integers(n, size=(draws, groups - 1))
    orders = (np.arange(n) + shifts[:, :, None]) % n
    expected = statistic.mean_of_permuted(factors, orders)
    sums = np.empty((draws, landmarks))
    doubled = np.stack([np.concatenate([f, f], axis=1).astype(np.float32) for f in factors[1:]])
    shifted_sums(factors[0].astype(np.float32), doubled, shifts, sums)
    assert sums / n == pytest.approx(expected, rel=1e-5)


def test_shuffling_keeps_each_group_and_nothing_between_them():
    rng = np.random.default_rng(0)
    factors = [rng.uniform(size=(2, 50)) for _ in range(2)]
    order = rng.permutation(50)
    found = statistic.mean_of_permuted(factors, order[None, None])
    assert found[0] == pytest.approx((factors[0] * factors[1][:, order]).mean(axis=1))


@pytest.mark.parametrize("n", [400, 1500])  # by permutations, and by shifts
def test_threads_do_not_change_the_verdict(n):
    rows = dependent(np.random.default_rng(2), n, 2, strength=0.3)
    settings = {"landmarks": 60, "permutations": 50, "alpha": 0.05, "seed": 1}
    one, two = (statistic.exact_test(product(2), rows, threads=threads, **settings) for threads in (1, 3))
    assert one == two
    assert statistic.exact_test(product(2), rows, **(settings | {"seed": 2})) != one


# ---- levels and power ----------------------------------------------------------------------------------


def rejections(draw, kernel, runs, landmarks, shuffles=99):
    count = 0
    for run in range(runs):
        rng = np.random.default_rng([run, len(kernel.groups)])
        rows = draw(rng)
        count += statistic.exact_test(
            kernel, rows, landmarks=landmarks, permutations=shuffles, alpha=0.05, seed=run
        ).rejected
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "d", "n", "landmarks"),
    [(2, 1, 100, 20), (3, 1, 100, 20), (2, 5, 100, 100), (3, 10, 120, 90), (2, 1, 1000, 30)],
)
def test_level(groups, d, n, landmarks):
    runs = 1000 if n < 1000 else 300
    kernel = product(groups, d, np.sqrt(2 * d))
    count = rejections(lambda rng: rng.normal(size=(n, groups * d)), kernel, runs, landmarks)
    low, high = binom.interval(0.99, runs, 0.05)
    assert low <= count <= high


def noisy_copy(rng, n):
    x = rng.normal(size=(n, 1))
    return np.concatenate([x, x + rng.normal(size=(n, 1))], axis=1)


@pytest.mark.parametrize(("n", "least"), [(46, 0.85), (100, 0.98), (200, 1.0)])
def test_power_on_a_noisy_copy(n, least):
    count = rejections(lambda rng: noisy_copy(rng, n), product(2, 1, 1.3), 100, int(2 * np.sqrt(n)))
    assert count >= least * 100


def jointly_dependent(rng, n):
    """Any two of the three are independent: signs of two decide that of the third."""
    rows = rng.normal(size=(n, 3))
    rows[:, 2] = np.abs(rows[:, 2]) * np.sign(rows[:, 0] * rows[:, 1])
    return rows


@pytest.mark.slow
def test_a_dependence_of_three_that_no_two_of_them_show():
    assert rejections(lambda rng: jointly_dependent(rng, 300), product(3), 30, 100) == 30
    pairs = sum(
        rejections(lambda rng, p=p: jointly_dependent(rng, 300)[:, p], product(2), 60, 100)
        for p in ([0, 1], [0, 2], [1, 2])
    )
    assert pairs <= binom.ppf(0.999, 180, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "d"), [(2, 1), (3, 2)])
def test_level_of_a_test_by_a_sample(groups, d):
    runs, count, n, sampled = 400, 0, 6000, 1000
    kernel = product(groups, d, np.sqrt(2 * d))
    for run in range(runs):
        rng = np.random.default_rng([run, groups])
        rows = rng.normal(size=(n, groups * d))
        basis = basis_of(kernel, rng.normal(size=(40, groups * d)))
        mean, means = means_of(basis, rows)
        verdict = statistic.sampled_test(
            basis, mean, means, rows[:sampled], of_rows=n, permutations=99, alpha=0.05, seed=run
        )
        assert not verdict.exact and verdict.permuted_rows == sampled
        count += verdict.rejected
    low, high = binom.interval(0.99, runs, 0.05)
    assert low <= count <= high


def test_a_sample_is_enough_to_see_what_all_rows_show():
    # Too weak for the thousand rows that are shuffled.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 1))
    rows = np.concatenate([x, 0.05 * x + rng.normal(size=(50_000, 1))], axis=1)
    basis = basis_of(product(2, 1, 1.4), rng.normal(size=(40, 2)))
    settings = {"permutations": 199, "alpha": 0.05, "seed": 0}
    mean, means = means_of(basis, rows)
    assert (
        statistic.sampled_test(basis, mean, means, rows[:1000], of_rows=50_000, **settings).p_value == 0.005
    )
    assert not statistic.exact_test(product(2, 1, 1.4), rows[:1000], landmarks=40, **settings).rejected


# ---- unbounded kernels ---------------------------------------------------------------------------------


def test_digits_that_cancel_are_those_of_the_gap():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 1))
    rows = np.concatenate([x, x + rng.normal(size=(300, 1))], axis=1) + 1e4
    kernel = Product((Group("x", 0, 1, Linear()), Group("y", 1, 2, Linear())))
    basis = basis_of(kernel, rows[:20])
    found = statistic.hsic_squared(basis, parts(basis), *means_of(basis, rows))
    assert np.sqrt(found) == pytest.approx(abs(np.cov(rows.T, bias=True)[0, 1]), rel=0.01)
