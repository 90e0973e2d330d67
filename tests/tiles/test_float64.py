"""Values in float64, of the fast path and of all kernels, against the plain definitions of the basis."""

import numpy as np
import pytest

import nysketch
from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.tiles.float64 import RowValues
from tests.kernels.kinds import NUMERIC, basis_at, fourier_basis, rows_for


def test_rows_near_and_far_at_landmarks_near_and_far():
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 3)) * 10.0 ** random.uniform(-3, 6, (500, 1))
    rows[:5] = [[1e300] * 3, [-1e300] * 3, [0] * 3, [1e-300] * 3, [1e8, 0, 0]]
    basis = basis_from_rows(rows[5:], [Column(c) for c in "abc"], m=100, scaling="none", bandwidth=1.0)
    assert (np.abs(basis.landmarks).max(axis=1) > 1e4).any()
    assert np.allclose(RowValues(basis).of(rows), basis.values(rows), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("bandwidth", ["median", "0.3*median,median,3*median"])
def test_gaussian_kernels_to_the_last_digits(bandwidth):
    rows = np.random.default_rng(1).normal(size=(3000, 4)) + 1000
    basis = nysketch.Basis.fit(rows, landmarks=64, bandwidth=bandwidth)
    assert np.allclose(RowValues(basis).of(rows), basis.values(rows), rtol=1e-12, atol=0)


def of_kind(kind):
    if kind == "fourier":
        return fourier_basis(5, 20, "gaussian"), rows_for("gaussian", 90)
    rows = rows_for(kind, 90)
    return basis_at(NUMERIC[kind](5), rows[:20], center=0.3, scale=1.5), rows


@pytest.mark.parametrize("kind", [*NUMERIC, "fourier"])
def test_every_kernel(kind):
    basis, rows = of_kind(kind)
    values = RowValues(basis)
    each = basis.values(rows)
    size = np.abs(each).max()
    assert np.allclose(values.of(rows), each, rtol=1e-11, atol=1e-13 * size)
    weights = np.random.default_rng(2).uniform(size=len(rows))
    group_of = np.arange(len(rows)) // 7
    sums = values.group_sums(rows, weights, group_of)
    slow = [weights[group_of == g] @ each[group_of == g] for g in range(group_of[-1] + 1)]
    assert np.allclose(sums, slow, rtol=1e-11, atol=1e-12 * size)
    products = np.zeros((basis.m, basis.m))
    values.add_products(rows, weights, products)
    slow = (each * weights[:, None]).T @ each
    assert np.allclose(products, slow, rtol=1e-10, atol=1e-11 * size**2)
