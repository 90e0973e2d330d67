from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch._support.exact import ExactSum
from nysketch.tiles.sums import RunningSum, grid_of
from tests import naive

GRID = -44
terms = st.floats(-1e9, 1e9, allow_subnormal=False)


def exact(value):
    return ExactSum.of(np.array([value]), grid_exponent=GRID)


def total(values):
    result = ExactSum.zeros(1)
    for value in values:
        result = result + exact(value)
    return result


def bits(x):
    return x.high.tobytes(), x.low.tobytes()


@given(st.lists(terms, max_size=30))
def test_sum_equals_rational_arithmetic(values):
    got = total(values)
    assert Fraction(float(got.high[0])) + Fraction(float(got.low[0])) == naive.exact_total(values, GRID)


@given(st.lists(terms, max_size=30), st.randoms(use_true_random=False))
def test_order_does_not_show_in_the_bits(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    assert bits(total(values)) == bits(total(shuffled))


@given(st.lists(terms, max_size=20), st.lists(terms, max_size=20))
def test_subtraction_undoes_addition_to_the_bit(a, b):
    x, y = total(a), total(b)
    assert bits(x + y - y) == bits(x)
    assert bits(x - x) == bits(ExactSum.zeros(1))


@given(st.lists(terms, max_size=20))
def test_high_is_the_nearest_float_and_low_the_rest(values):
    got = total(values)
    assert got.high[0] + got.low[0] == got.high[0]


@given(st.lists(st.lists(terms, min_size=6, max_size=6), max_size=10))
def test_the_compiled_sum_has_the_same_bits(parts):
    running = RunningSum(ExactSum.zeros((2, 3)), grid_of(GRID, 3))
    expected = ExactSum.zeros((2, 3))
    for part in parts:
        array = np.array(part).reshape(2, 3)
        running.add(array)
        expected = expected + ExactSum.of(array, grid_exponent=GRID)
    assert bits(running.snapshot()) == bits(expected)


def test_rounding_to_the_grid_leaves_large_terms_alone():
    assert exact(2.0**60 + 2.0**10).high[0] == 2.0**60 + 2.0**10
    assert exact(2.0**-46).high[0] == 0.0
    assert not np.signbit(exact(-(2.0**-46)).high[0])


def test_a_large_and_many_small_terms_lose_nothing():
    result = exact(2.0**50)
    for _ in range(1000):
        result = result + exact(2.0**-40)
    assert bits(result - exact(2.0**50)) == bits(exact(1000 * 2.0**-40))


@pytest.mark.parametrize("shape", [(3,), (4, 5)])
def test_total_over_the_first_axis(shape):
    values = np.random.default_rng(0).random(shape)
    got = ExactSum.of(values, grid_exponent=-64).total()
    assert np.allclose(got.high, values.sum(axis=0), rtol=1e-15)
