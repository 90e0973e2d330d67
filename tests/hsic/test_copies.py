"""Rows that are there several times: told from tables of few different values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch.hsic.copies import find_copies


def found(*groups, sampled=1.0):
    return find_copies([np.asarray(group, float)[:, None] for group in groups], sampled=sampled)


@given(st.integers(20, 200), st.integers(2, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_one_of_each_is_kept(n, times, seed, scattered):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n * times) if scattered else np.arange(n * times)
    x, y = rng.normal(size=(2, n)).repeat(times, axis=1)[:, order]
    copies = found(x, y)
    assert len(copies.kept) == n
    assert sorted(x[copies.kept]) == sorted(set(x)) and (np.diff(copies.kept) > 0).all()
    assert copies.inflation == pytest.approx(times, rel=0.1)


def test_a_group_of_few_values_does_not_hide_copies():
    rng = np.random.default_rng(0)
    flag, y = rng.integers(2, size=300).repeat(3), rng.normal(size=300).repeat(3)
    assert len(found(flag, y).kept) == 300


def test_a_few_copies_are_found_in_a_sample_too():
    rng = np.random.default_rng(0)
    x, y = np.tile(rng.normal(size=(2, 100_000)), 3)
    some = rng.permutation(300_000)[:20_000]
    copies = found(x[some], y[some], sampled=20_000 / 300_000)
    assert copies.inflation == pytest.approx(3, rel=0.2)
    assert len(copies.kept) < 20_000


@pytest.mark.parametrize("seed", range(5))
def test_tables_of_few_values_have_no_copies(seed):
    rng = np.random.default_rng(seed)
    n = 600
    x = rng.integers(5, size=n)
    for groups in (
        (rng.integers(2, size=n), rng.integers(2, size=n)),
        (x, (x + rng.integers(3, size=n)) % 5),
        (x, x),  # each determines the other, and every row counts
        (rng.random(n) < 0.02, rng.integers(300, size=n)),
        (rng.integers(100, size=n), rng.integers(100, size=n)),
        (np.ones(n), rng.integers(20, size=n)),
        rng.normal(size=(2, n)),
        (rng.normal(size=n).round(1), rng.normal(size=n).round(1)),
    ):
        assert found(*groups) is None


def test_nothing_and_one_row_have_no_copies():
    assert found(np.zeros(0), np.zeros(0)) is None
    assert found([1.0], [2.0]) is None


def test_zero_is_zero():
    x = np.array([0.0, -0.0] * 30) + np.arange(30).repeat(2)
    x[:2] = 0.0, -0.0
    assert len(found(x, x).kept) == 30
