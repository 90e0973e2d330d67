"""The test of few rows by all pairs of them: against its definition, its level and its power."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from nysketch.hsic import statistic, v_statistic
from nysketch.hsic._pairs import sums_of_permuted, sums_of_shifted
from nysketch.hsic.v_statistic import v_test
from nysketch.kernels import Group, Linear, Product
from tests.hsic.test_statistic import dependent, jointly_dependent, product
from tests.hsic.test_statistic import v_statistic as squared_v_hsic

SETTINGS = {"permutations": 99, "alpha": 0.05, "seed": 1}


@given(st.integers(2, 5), st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_sums_over_pairs_are_those_of_permuted_matrices(groups, n, draws, seed):
    rng = np.random.default_rng(seed)
    grams = rng.uniform(size=(groups, n, n)).astype(np.float32)
    grams += grams.transpose(0, 2, 1).copy()
    shifts = rng.integers(n, size=(draws, groups - 1))
    orders = (np.arange(n) + shifts[:, :, None]) % n
    expected = []
    for of_groups in orders:
        product = grams[0].astype(float)
        for gram, order in zip(grams[1:], of_groups, strict=True):
            product = product * gram[np.ix_(order, order)]
        expected.append(product.sum())
    for each, drawn in ((sums_of_permuted, orders), (sums_of_shifted, shifts)):
        sums = np.empty(draws)
        each(grams, drawn, sums)
        assert sums == pytest.approx(np.array(expected), rel=1e-5)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_the_statistic_is_v_hsic_and_its_draws_are_of_permuted_rows(groups, in_order):
    rows, kernel = dependent(np.random.default_rng(groups), 60, groups), product(groups)
    found = v_test(kernel, rows, in_order=in_order, **SETTINGS)
    assert found.statistic == pytest.approx(np.sqrt(squared_v_hsic(kernel, rows)), rel=1e-4)
    assert (found.exact, found.permuted_rows, found.permutations, found.kind) == (True, 60, 99, "v-hsic")
    rng = np.random.default_rng(1)
    draws = statistic.draw(60, groups - 1, 100, rng, shifted=in_order)
    larger = 0
    for drawn in draws[1:]:
        permuted = rows.copy()
        for number, own in enumerate(drawn, 1):
            permuted[:, number] = np.roll(rows[:, number], -int(own)) if in_order else rows[own, number]
        larger += squared_v_hsic(kernel, permuted) >= squared_v_hsic(kernel, rows)
    assert found.p_value == pytest.approx((1 + larger) / 100)


@pytest.mark.parametrize("n", [300, 1200])  # permutations, and shifts
def test_threads_do_not_change_the_verdict(n):
    rows = dependent(np.random.default_rng(2), n, 3, strength=0.3)
    one, two = (v_test(product(3), rows, threads=threads, **SETTINGS) for threads in (1, 3))
    assert one == two


def test_level():
    runs = 400
    count = sum(
        v_test(
            product(2), np.random.default_rng(run).normal(size=(60, 2)), **(SETTINGS | {"seed": run})
        ).rejected
        for run in range(runs)
    )
    low, high = binom.interval(0.99, runs, 0.05)
    assert low <= count <= high


def test_all_pairs_find_more_than_few_landmarks():
    found = {"all pairs": 0, "landmarks": 0}
    for run in range(30):
        rows = jointly_dependent(np.random.default_rng(run), 80)
        settings = SETTINGS | {"seed": run}
        found["all pairs"] += v_test(product(3), rows, **settings).rejected
        found["landmarks"] += statistic.exact_test(product(3), rows, landmarks=18, **settings).rejected
    assert found["all pairs"] > found["landmarks"] + 5


@pytest.mark.parametrize("groups", [2, 3])
def test_constants_are_never_dependent(groups):
    rng = np.random.default_rng(0)
    rows = np.ones((200, groups))
    rows[:, 0] = rng.normal(size=200)
    for run in range(20):
        assert v_test(product(groups), rows, **(SETTINGS | {"seed": run})).p_value == 1


def test_what_is_too_much_for_pairs():
    assert v_statistic.suits(product(2), 2000) and not v_statistic.suits(product(2), 2001)
    assert v_statistic.suits(product(8), 2000) and not v_statistic.suits(product(9), 2000)
    linear = [Group(name, i, i + 1, Linear()) for i, name in enumerate("xyz")]
    assert v_statistic.suits(Product(tuple(linear[:2])), 500)
    assert not v_statistic.suits(Product(tuple(linear)), 500)  # digits would cancel
