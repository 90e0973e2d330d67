"""The hot loop against its slow twins: values, blocks, weights, and the hard cases for float32."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.tiles.chunk import Chunk
from nysketch.tiles.hashing import assign_blocks
from nysketch.tiles.summer import RowSummer
from tests import naive

PRECISE = {"float32": 1e-5, "float64": 1e-12}


def make_basis(rows, m=40, **options):
    return basis_from_rows(rows, [Column(f"x{i}") for i in range(rows.shape[1])], m=m, **options)


def chunk_of(rows, first_row=0, keep=None, weights=None):
    keep = np.ones(len(rows), bool) if keep is None else keep
    nothing = np.zeros(rows.shape[1])
    return Chunk(first_row, first_row, np.asfortranarray(rows), keep, weights, nothing, nothing)


def sums_of(basis, rows, *, precision="float32", weights=None, keep=None, blocks=4, first_row=0, seed=1):
    summer = RowSummer(basis, blocks=blocks, seed=seed, precision=precision)
    into, workspace = summer.zeros(), summer.workspace(512)
    for start in range(0, len(rows), 512):
        part = slice(start, start + 512)
        kept, taken = None if keep is None else keep[part], None if weights is None else weights[part]
        summer.add(chunk_of(rows[part], first_row + start, kept, taken), into, workspace)
    return summer.sums(into), into


def relative_error(got, expected):
    return np.max(np.abs(got - expected) / expected)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["none", "standard", "robust"])
@pytest.mark.parametrize("bandwidth", ["median", 0.2, 50.0])
def test_sums_of_columns_around_a_million_with_spread_one(precision, scaling, bandwidth):
    rows = np.random.default_rng(0).standard_normal((2000, 5)) + 1e6
    basis = make_basis(rows, scaling=scaling, bandwidth=bandwidth)
    got, _ = sums_of(basis, rows, precision=precision)
    assert relative_error(got.sum(axis=0), naive.kernel_sums(basis, rows)) < PRECISE[precision]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_landmarks_a_million_deviations_out_are_right_too(precision):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((3000, 3))
    rows[::10] *= 10.0 ** rng.integers(0, 7, (300, 1))
    basis = make_basis(rows, m=200, scaling="none", bandwidth=1.0)
    got, _ = sums_of(basis, rows, precision=precision)
    assert relative_error(got.sum(axis=0), naive.kernel_sums(basis, rows)) < PRECISE[precision]


@pytest.mark.parametrize("offset", [3.0, 10.0, 20.0])
def test_rows_far_from_all_landmarks_keep_their_relative_accuracy(offset):
    rng = np.random.default_rng(2)
    basis = make_basis(rng.standard_normal((500, 4)))
    rows = rng.standard_normal((500, 4)) + offset
    expected = naive.kernel_sums(basis, rows)
    got, _ = sums_of(basis, rows)
    assert expected.min() < {3.0: 1e3, 10.0: 1e-3, 20.0: 1e-9}[offset]
    assert relative_error(got.sum(axis=0), expected) < 1e-5


def test_rows_at_the_edge_of_floating_point_are_harmless():
    rng = np.random.default_rng(3)
    clean = rng.standard_normal((300, 3))
    basis = make_basis(clean)
    wild = np.vstack([clean, [[1e300, -1e300, 1e-300], [3e38, 0, 0], [-1e154, 1e154, 0]]])
    for precision in PRECISE:
        got, _ = sums_of(basis, wild, precision=precision)
        assert relative_error(got.sum(axis=0), naive.kernel_sums(basis, clean)) < PRECISE[precision]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 400),
    d=st.integers(1, 12),
    m=st.integers(1, 60),
    blocks=st.integers(1, 9),
    log_bandwidth=st.floats(-2, 2),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_shape_any_bandwidth_against_the_definition(n, d, m, blocks, log_bandwidth, seed):
    rng = np.random.default_rng(seed % 2**32)
    rows = rng.standard_normal((n, d)) * 10 ** rng.uniform(-3, 3, d)
    weights = rng.random(n)
    basis = make_basis(rows, m=m, bandwidth=10**log_bandwidth, seed=seed % 1000)
    got, into = sums_of(basis, rows, weights=weights, blocks=blocks, seed=seed, first_row=17)
    dealt = np.array([naive.block_of_row(seed, 17 + i, blocks) for i in range(n)])
    for block in range(blocks):
        mine = dealt == block
        expected = naive.kernel_sums(basis, rows[mine], weights[mine])
        assert np.allclose(got[block], expected, rtol=1e-5, atol=1e-30)
        assert into.rows[block] == mine.sum()
        assert np.isclose(into.weights[block], weights[mine].sum())


def test_rows_that_are_not_kept_leave_no_trace():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((700, 3))
    keep = rng.random(700) < 0.5
    basis = make_basis(rows)
    rows[~keep] = np.nan
    got, into = sums_of(basis, rows, keep=keep)
    assert into.rows.sum() == keep.sum()
    assert relative_error(got.sum(axis=0), naive.kernel_sums(basis, rows[keep])) < 1e-5


def test_a_kernel_value_does_not_depend_on_its_place_in_a_tile():
    """What lets fragments be cut anywhere: sums over any order of rows agree to float64 rounding."""
    rng = np.random.default_rng(5)
    for d in (1, 2, 7, 16, 33, 64):
        rows = rng.standard_normal((1000, d))
        basis = make_basis(rows, m=77)
        straight, _ = sums_of(basis, rows, blocks=1)
        shuffled, _ = sums_of(basis, rows[rng.permutation(1000)], blocks=1)
        in_pieces = sum(sums_of(basis, part, blocks=1)[0] for part in np.array_split(rows, 7))
        assert np.allclose(straight, shuffled, rtol=1e-13, atol=0)
        assert np.allclose(straight, in_pieces, rtol=1e-13, atol=0)


def test_blocks_are_dealt_evenly_and_sorted():
    n, blocks = 64_000, 64
    order, block_of = np.empty(n, np.int64), np.empty(n, np.int64)
    count = assign_blocks(10**12, np.ones(n, bool), np.uint64(9), blocks, order, block_of)
    assert count == n
    assert sorted(order) == list(range(n))
    assert (np.diff(block_of) >= 0).all()
    sizes = np.bincount(block_of, minlength=blocks)
    chi_square = ((sizes - n / blocks) ** 2 / (n / blocks)).sum()
    assert 33 < chi_square < 103  # the 0.1 % and 99.9 % points of 63 degrees of freedom
    for p in range(0, n, 997):
        assert block_of[p] == naive.block_of_row(9, 10**12 + int(order[p]), blocks)


def test_neighbouring_rows_and_seeds_are_dealt_independently():
    n, blocks = 20_000, 16
    dealt = {}
    for seed in (0, 1):
        order, block_of = np.empty(n, np.int64), np.empty(n, np.int64)
        assign_blocks(0, np.ones(n, bool), np.uint64(seed), blocks, order, block_of)
        dealt[seed] = block_of[np.argsort(order)]
    for a, b in ((dealt[0][1:], dealt[0][:-1]), (dealt[0], dealt[1])):
        same = (a == b).mean()
        assert abs(same - 1 / blocks) < 4 * np.sqrt(1 / blocks / n)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_weights_of_one_change_nothing(precision):
    rows = np.random.default_rng(6).standard_normal((600, 4))
    basis = make_basis(rows)
    plain, _ = sums_of(basis, rows, precision=precision)
    weighted, _ = sums_of(basis, rows, precision=precision, weights=np.ones(600))
    assert np.array_equal(plain, weighted)


@pytest.mark.slow
def test_without_a_place_to_keep_compiled_code_every_process_compiles():
    code = """
import numba, numpy as np
njit = numba.njit
def refusing(*args, cache=False, **options):
    if cache:
        raise RuntimeError("cannot cache function: no locator available")
    return njit(*args, **options)
numba.njit = refusing
import nysketch
print(nysketch.sketch(np.eye(5), landmarks=3, threads=1).rows)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "5\n"
