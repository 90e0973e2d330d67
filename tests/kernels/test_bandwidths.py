"""Bandwidths fitted to rows: one where one suffices, several where rows lie in clumps."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.errors import UsageError
from nysketch.kernels import Gaussian, GaussianSum, KernelOptions, LaplacianL2
from nysketch.kernels.bandwidths import auto_bandwidths, clumped, median_distance
from tests import naive

N = 1500


def clusters(random, narrow, rows=N):
    """Three clusters, one of which is narrow."""
    which = random.integers(3, size=rows)
    spread = np.array([narrow, 5.0, 20.0])[which, None]
    return np.array([[0, 0], [100, 0], [0, 100]])[which] + spread * random.standard_normal((rows, 2))


def tight(random, count, d, rows=N):
    return 3 * random.standard_normal((count, d))[random.integers(count, size=rows)] + 0.01 * (
        random.standard_normal((rows, d))
    )


CLUMPED = {
    "narrow cluster": lambda random: clusters(random, 0.2),
    "very narrow cluster": lambda random: clusters(random, 0.01),
    "25": lambda random: tight(random, 25, 2),
    "25 in 10 columns": lambda random: tight(random, 25, 10),
    "100": lambda random: tight(random, 100, 3),
    "200": lambda random: tight(random, 200, 5),
    "two in one column": lambda random: tight(random, 2, 1),
    "ten": lambda random: tight(random, 10, 5),
    "zeros and a hill": lambda random: (
        np.where(random.random((N, 1)) < 0.4, 0.0, np.where(random.random((N, 1)) < 0.5, 100.0, 200.0))
        + 0.1 * random.random((N, 1))
    ),
    "many orders of magnitude": lambda random: random.lognormal(0.0, 3.0, (N, 1)),
}
ORDINARY = {
    "normal": lambda random: random.standard_normal((N, 1)),
    "normal, 2": lambda random: random.standard_normal((N, 2)),
    "normal, 20": lambda random: random.standard_normal((N, 20)),
    "uniform": lambda random: random.random((N, 1)),
    "exponential": lambda random: random.exponential(size=(N, 1)),
    "lognormal": lambda random: random.lognormal(size=(N, 1)),
    "t(3)": lambda random: random.standard_t(3, (N, 1)),
    "wide clusters": lambda random: (
        3 * random.standard_normal((5, 3))[random.integers(5, size=N)] + random.standard_normal((N, 3))
    ),
    "circle": lambda random: (lambda t: np.column_stack([np.cos(t), np.sin(t)]))(6.28 * random.random(N)),
    "counts": lambda random: random.poisson(1.0, (N, 2)).astype(float),
    "rare counts and a normal column": lambda random: np.column_stack(
        [random.poisson(0.1, N), random.standard_normal(N)]
    ),
    "Zipf": lambda random: np.minimum(random.zipf(1.7, (N, 1)), 10_000).astype(float),
    "flags and a normal column": lambda random: np.column_stack(
        [random.integers(2, size=(N, 3)), random.standard_normal(N)]
    ),
    "mostly zeros": lambda random: np.where(random.random((N, 1)) < 0.6, 0, random.exponential(size=(N, 1))),
    "copies": lambda random: np.repeat(random.standard_normal((N // 300, 2)), 300, axis=0),
    "every row three times": lambda random: np.repeat(random.standard_normal((N // 3, 2)), 3, axis=0),
    "two columns of categories and a normal one": lambda random: np.column_stack(
        [random.integers(10, size=(N, 2)), random.standard_normal(N)]
    ),
    "three times, nearly": lambda random: (
        np.repeat(random.standard_normal((N // 3, 2)), 3, axis=0) + 1e-9 * random.standard_normal((N, 2))
    ),
    "few values, far apart": lambda random: random.choice([0.0, 1.0, 1000.0, 1001.0], (N, 1)),
    "one wild row": lambda random: np.vstack([random.standard_normal((N, 2)), [[1e6, 0.0]]]),
    "few rows": lambda random: tight(random, 2, 1, rows=30),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ORDINARY)
def test_one_bandwidth_where_one_suffices(name, seed):
    rows = ORDINARY[name](np.random.default_rng(seed))
    found = auto_bandwidths(rows, seed)
    assert found == (median_distance(rows, seed),)
    assert clumped(np.random.default_rng(9).permutation(rows), found[0]) is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CLUMPED)
def test_several_where_rows_lie_in_clumps(name, seed):
    rows = CLUMPED[name](np.random.default_rng(seed))
    found = auto_bandwidths(rows, seed)
    median = median_distance(rows, seed)
    assert 2 <= len(found) <= 4
    assert found[-1] == median
    assert list(found) == sorted(found)
    assert found[0] >= 1e-3 * median * (1 - 1e-12)
    assert all(fine < wide <= 20.0001 * fine for fine, wide in pairwise(found))
    share, radius = clumped(rows, median)
    assert 0.1 <= share <= 1
    assert radius < median / 30


def test_the_finest_bandwidth_is_that_of_the_clumps():
    rows = clusters(np.random.default_rng(0), 0.2)
    finest, *_ = auto_bandwidths(rows, 0)
    narrow = rows[np.linalg.norm(rows, axis=1) < 2]
    assert 0.5 < finest / median_distance(narrow, 0) < 2


def test_clumps_are_not_seen_above_a_fine_bandwidth():
    rows = clusters(np.random.default_rng(0), 0.2)
    finest, *_ = auto_bandwidths(rows, 0)
    assert clumped(rows, finest) is None


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.integers(-20, 20), st.sampled_from(sorted(CLUMPED)))
def test_bandwidths_have_the_units_of_the_rows(seed, power, name):
    rows = CLUMPED[name](np.random.default_rng(seed))[:200]
    scaled = auto_bandwidths(rows * 2.0**power, seed)
    assert scaled == pytest.approx([width * 2.0**power for width in auto_bandwidths(rows, seed)])


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(["narrow cluster", "ten", "zeros and a hill"]))
def test_the_share_in_clumps_is_that_of_the_definition(seed, name):
    rows = CLUMPED[name](np.random.default_rng(seed))[:80]
    rows[40:50] = rows[0]  # equal rows are no neighbours
    median = median_distance(rows, 0)
    radii = naive.neighbour_radii(rows.tolist())
    inside = [radius for radius in radii if radius < median / 30]
    found = clumped(rows, median)
    if len(inside) >= 0.1 * len(rows):
        assert found == pytest.approx((len(inside) / len(rows), np.median(inside)))
        return
    small = [radius for radius in naive.small_clumps(rows.tolist(), median / 30) if radius is not None]
    if len(small) < 0.15 * len(rows):
        assert found is None
    else:
        assert found == pytest.approx((len(small) / len(rows), np.median(small)))


# ---- the option -------------------------------------------------------------------------------------


def kernel(rows, **options):
    widths = {f"x{i}": 1 for i in range(rows.shape[1])}
    return KernelOptions(**options).fit(rows, widths, 0)


def test_auto_is_a_mean_of_gaussians_only_where_it_must_be():
    random = np.random.default_rng(0)
    ordinary, fine = random.standard_normal((N, 2)), clusters(random, 0.2)
    assert kernel(ordinary) == Gaussian(median_distance(ordinary, 0)) == kernel(ordinary, bandwidth="median")
    assert kernel(fine) == kernel(fine, bandwidth="auto") == GaussianSum(auto_bandwidths(fine, 0))
    assert kernel(fine, bandwidth="median") == Gaussian(median_distance(fine, 0))


def test_other_kernels_and_groups_have_one_bandwidth():
    fine = clusters(np.random.default_rng(0), 0.2)
    assert kernel(fine, kernel="laplacian-l2") == LaplacianL2(median_distance(fine, 0))
    groups = kernel(fine, groups={"a": ["x0"], "b": ["x1"]}).groups
    assert [type(group.kernel) for group in groups] == [Gaussian, Gaussian]
    kernel(fine, kernel="linear")  # has none, whatever the default is


@pytest.mark.parametrize("text", ["auto,1", "2*auto", "AUTO"])
def test_auto_is_a_word_of_its_own(text):
    with pytest.raises(UsageError, match="`bandwidth` must be 'auto', 'median', a positive number"):
        KernelOptions(bandwidth=text)
