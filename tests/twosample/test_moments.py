"""Means and deviations of columns without a few wild values, beside those of the other rows themselves."""

import numpy as np
import pytest

import nysketch

RANDOM = np.random.default_rng(12)
SHIFT = np.array([0.3, 0.0, 0.0])
CLEAN = RANDOM.normal(size=(2000, 3)) * [1.0, 5.0, 0.1] + [0.0, 100.0, 7.0]


def made(rows, basis, **options):
    return nysketch.sketch(rows, basis=basis, threads=1, **options)


def with_wild(rows, count, size, column=0):
    rows = rows.copy()
    rows[RANDOM.choice(len(rows), count, replace=False), column] = size
    return rows


def shift_of(name, first, second):
    found = nysketch.compare(first, second, test="none").explanation
    return next(shift for shift in found.shifts if shift.feature == name), found.shifts_from


@pytest.mark.parametrize("pilot", ["clean", "wild"])
@pytest.mark.parametrize(("count", "size"), [(1, 1e6), (5, -1e5), (1, 1e3)])
def test_moments_are_those_of_the_other_rows(pilot, count, size):
    first, second = with_wild(CLEAN, count, size), CLEAN + SHIFT
    basis = nysketch.Basis.fit(first if pilot == "wild" else CLEAN, landmarks=50, seed=1)
    shift, source = shift_of("x0", made(first, basis), made(second, basis))
    others = first[np.abs(first[:, 0]) < 100, 0]
    assert source == "cells" and shift.set_aside == (count, 0)
    assert shift.means == pytest.approx((others.mean(), second[:, 0].mean()), abs=1e-6)
    assert shift.deviations == pytest.approx((others.std(), second[:, 0].std()), rel=1e-5)
    assert shift.shift == pytest.approx((second[:, 0].mean() - others.mean()) / others.std(), rel=1e-4)
    for name, column in (("x1", 1), ("x2", 2)):
        other, _ = shift_of(name, made(first, basis), made(second, basis))
        assert other.set_aside == (0, 0)
        assert other.means[0] == pytest.approx(first[:, column].mean(), rel=1e-9)


@pytest.mark.parametrize("size", [1e12, 1e18])
def test_where_sums_have_lost_their_digits_the_sample_tells(size):
    first, second = with_wild(CLEAN, 1, size), CLEAN + SHIFT
    basis = nysketch.Basis.fit(first, landmarks=50, seed=1)
    shift, source = shift_of("x0", made(first, basis), made(second, basis))
    assert source == "sample"
    assert shift.shift == pytest.approx(0.3, abs=3 * shift.standard_error)
    assert shift.standard_error < 0.1


def test_weights_count():
    weights = RANDOM.uniform(0.5, 2.0, len(CLEAN))
    first = with_wild(CLEAN, 2, 1e6)
    basis = nysketch.Basis.fit(CLEAN, landmarks=50, seed=1)
    tables = [{"x0": r[:, 0], "x1": r[:, 1], "x2": r[:, 2], "w": weights} for r in (first, CLEAN)]
    shift, _ = shift_of("x0", *(made(table, basis, weights="w") for table in tables))
    usual = first[:, 0] < 100
    assert shift.set_aside == (2, 0)
    assert shift.means[0] == pytest.approx(np.average(first[usual, 0], weights=weights[usual]), abs=1e-6)
    assert shift.means[1] == pytest.approx(np.average(CLEAN[:, 0], weights=weights), abs=1e-9)


def test_nothing_is_set_aside_of_ordinary_columns():
    rng = np.random.default_rng(3)
    columns = {
        "normal": rng.normal(size=4000),
        "exponential": rng.exponential(size=4000),
        "two clusters": np.where(rng.random(4000) < 0.1, 50.0, 0.0) + rng.normal(size=4000),
        "a flag": (rng.random(4000) < 0.01).astype(float),
        "t(3)": rng.standard_t(3, 4000),
    }
    table = dict(columns)
    basis = nysketch.Basis.fit(table, landmarks=80)
    sketch = made(table, basis)
    for shift in nysketch.compare(sketch, sketch, test="none").explanation.shifts:
        assert shift.set_aside == (0, 0)
        assert shift.means[0] == pytest.approx(columns[shift.feature].mean(), rel=1e-6, abs=1e-9)
