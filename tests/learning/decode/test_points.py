"""Points: the rows of a sketch summed up without losing their number, mean or spread."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.errors import NysketchError
from nysketch.learning.decode.points import Points, round_to_grid, usual_draws
from nysketch.learning.decode.weighted_kmeans import cost
from tests import naive
from tests.learning.decode.examples import blobs, sketch


def table(rows, weights):
    named = {f"x{i}": column for i, column in enumerate(rows.T)}
    return pa.table(named | {"w": weights})


def weighted_sketch(rows, weights, **options):
    """A sketch of weighted rows; of rows without weights if these are None."""
    if weights is None:
        return sketch(rows, **options)
    return sketch(table(rows, weights), weights="w", **options)


def points_of(made):
    return Points.of_cells(made.cells, made.basis)


def moments_of(rows, weights):
    """Weight, mean and variance of rows, in extended precision."""
    rows, weights = np.asarray(rows, np.longdouble), np.asarray(weights, np.longdouble)
    mean = weights @ rows / weights.sum()
    return weights.sum(), mean, weights @ (rows - mean) ** 2 / weights.sum()


# ---- from cells ------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    n=st.integers(1, 400),
    d=st.integers(1, 5),
    m=st.integers(1, 30),
    far_rows=st.sampled_from([0, 1, 7, 60, 1000]),
    offset=st.sampled_from([0.0, 1e6]),
    tail=st.sampled_from([0.0, 1.0]),
    with_weights=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_weight_mean_and_variance_are_those_of_all_rows(n, d, m, far_rows, offset, tail, with_weights, seed):
    random = np.random.default_rng(seed)
    rows = offset + random.standard_normal((n, d)) * 10 ** (tail * random.standard_cauchy((n, 1)).clip(0, 2))
    weights = random.uniform(0, 3, n) if with_weights else None
    pilot = rows[: max(n // 2, 1)]
    basis = basis_from_rows(pilot, [Column(f"x{i}") for i in range(d)], m=min(m, len(pilot)))
    made = weighted_sketch(rows, weights, basis=basis, far_rows=far_rows)
    points, scaled = points_of(made), basis.transform(rows)
    total, mean, variances = moments_of(scaled, np.ones(n) if weights is None else weights)
    size = np.abs(scaled - np.median(scaled, axis=0)).max(axis=0) + 1e-3
    digits = 1e-15 * np.abs(scaled).max()
    assert np.isclose(points.weights.sum(), float(total), rtol=1e-12)
    assert (np.abs(points.mean() - mean) <= 1e-12 * size + 8 * digits).all()
    assert (np.abs(points.total_variances() - variances) <= 1e-11 * size**2 + 16 * digits * size).all()
    assert (points.weights > 0).all() and (points.variances >= 0).all()


def test_far_rows_are_taken_out_of_their_cells_and_stand_alone():
    rows, _ = blobs(n=500)
    rows[:5] = 100 + 100 * rows[:5]
    basis = basis_from_rows(rows[5:], [Column("x0"), Column("x1")], m=20)
    without, made = (sketch(rows, basis=basis, far_rows=count) for count in (0, 5))
    points = points_of(made)
    assert len(made.cells.far) == 5
    alone = points.means[-5:]
    far = basis.transform(rows[:5])
    assert np.allclose(np.sort(alone, axis=0), np.sort(far, axis=0), rtol=1e-12)
    assert not points.variances[-5:].any() and (points.weights[-5:] == 1).all()
    # What is left in the cells is what cells of the other rows hold.
    rest = sketch(rows[5:], basis=basis, far_rows=0)
    expected = points_of(rest)
    assert len(points) == len(expected) + 5
    assert np.array_equal(points.weights[:-5], expected.weights)
    assert np.allclose(points.means[:-5], expected.means, rtol=1e-12, atol=1e-12)
    assert np.allclose(points.variances[:-5], expected.variances, rtol=1e-8, atol=1e-9)
    assert len(points_of(without)) == (without.cells.rows > 0).sum()


@pytest.mark.parametrize("far", [1e3, 3e4])
def test_taking_a_far_row_out_of_its_cell_leaves_the_spread_of_the_others(far):
    """As far as sums of squares in float64 can hold it beside that of the far row."""
    random = np.random.default_rng(0)
    rows = 0.01 * random.standard_normal((200, 2))
    basis = basis_from_rows(rows, [Column("x0"), Column("x1")], m=4, scaling="none")
    made = sketch(np.vstack([rows, [[far, far]]]), basis=basis, far_rows=1)
    expected = points_of(sketch(rows, basis=basis, far_rows=0))
    points = points_of(made)
    assert made.cells.beyond == 0 and np.array_equal(points.weights[:-1], expected.weights)
    digits = np.finfo(float).eps * far
    assert np.allclose(points.means[:-1], expected.means, rtol=1e-12, atol=10 * digits)
    assert np.allclose(points.variances[:-1], expected.variances, rtol=1e-9, atol=10 * digits * far)


def test_where_all_rows_are_far_rows_the_points_are_the_rows():
    rows, _ = blobs(n=300)
    made = sketch(rows, landmarks=10, far_rows=300)
    points = points_of(made)
    assert len(points) == 300 and not points.variances.any()
    scaled = made.basis.transform(rows)
    assert np.allclose(np.sort(points.means, axis=0), np.sort(scaled, axis=0), rtol=1e-12, atol=1e-14)


def test_rows_without_weight_are_no_points():
    rows, _ = blobs(n=400)
    weights = np.ones(400)
    weights[100:] = 0
    for far_rows in (0, 50, 400):
        made = weighted_sketch(rows, weights, landmarks=30, far_rows=far_rows)
        points = points_of(made)
        assert (points.weights > 0).all() and np.isclose(points.weights.sum(), 100)
        expected = made.basis.transform(rows[:100]).mean(axis=0)
        assert np.allclose(points.mean(), expected, rtol=1e-10, atol=1e-12)


def test_of_no_rows_there_are_no_points():
    made = sketch(blobs(n=300)[0], landmarks=10)
    assert len(points_of(made - made)) == 0


def test_after_a_subtraction_the_points_are_those_of_the_rest():
    rows, _ = blobs(n=600)
    whole = sketch(rows, landmarks=20)
    part = sketch(rows[:250], basis=whole.basis)
    rest = sketch(rows[250:], basis=whole.basis)
    left, expected = points_of(whole - part), points_of(rest)
    total, mean, variances = moments_of(whole.basis.transform(rows[250:]), np.ones(350))
    for points in (left, expected):
        assert points.weights.sum() == float(total)
        assert np.allclose(points.mean(), mean.astype(float), rtol=1e-12, atol=1e-13)
        assert np.allclose(points.total_variances(), variances.astype(float), rtol=1e-10)


# ---- rounding --------------------------------------------------------------------------------------


def test_rounding_forgets_the_last_digits_only():
    random = np.random.default_rng(0)
    values = random.standard_normal(1000)
    for unit in (1e-6, 1.0, 3.7, 1e6):
        coarse = round_to_grid(unit * values, unit)
        assert np.abs(coarse - unit * values).max() <= unit * 2.0**-33
        assert np.mean(round_to_grid(unit * values * (1 + 1e-16), unit) == coarse) > 0.999
    assert round_to_grid(np.array([0.3]), 0.0)[0] == pytest.approx(0.3, abs=1e-9)


def test_rounded_points_are_the_points():
    points = some_points()
    coarse = points.round_to_grid()
    deviations = np.sqrt(points.total_variances())
    assert np.array_equal(coarse.weights, points.weights) and (coarse.variances >= 0).all()
    assert (np.abs(coarse.means - points.means) < 1e-9 * deviations).all()
    assert (np.abs(coarse.variances - points.variances) < 1e-9 * deviations**2).all()
    constant = Points(np.ones(5), np.full((5, 2), 0.1), np.zeros((5, 2))).round_to_grid()
    assert np.allclose(constant.means, 0.1, atol=1e-9) and not constant.variances.any()


# ---- from rows -------------------------------------------------------------------------------------


def test_rows_are_points_without_spread():
    rows = blobs(n=50)[0]
    assert np.array_equal(Points.of_rows(rows).means, rows)
    weights = np.arange(50.0) % 3
    points = Points.of_rows(rows, weights)
    assert np.array_equal(points.means, rows[weights > 0]) and (points.weights > 0).all()
    assert not points.variances.any()


# ---- drawing ---------------------------------------------------------------------------------------


def some_points(count=40, d=3, seed=0):
    random = np.random.default_rng(seed)
    return Points(
        random.uniform(0.5, 5, count),
        3 * random.standard_normal((count, d)),
        random.uniform(0.01, 1, (count, d)),
    )


def test_rows_drawn_from_points_keep_weights_means_and_variances():
    points = some_points()
    drawn = points.draw(50_000, np.random.default_rng(1))
    # All rows of a point have the same weight, and no two points have.
    each = [points.weights[i] / np.rint(50_000 * points.weights[i] / points.weights.sum()) for i in range(40)]
    assert abs(len(drawn) - 50_000) < 100 and not drawn.variances.any()
    ratios, fewest = [], len(drawn)
    for i in range(40):
        of_point = np.isclose(drawn.weights, each[i], rtol=1e-12, atol=0)
        rows, weights = drawn.means[of_point], drawn.weights[of_point]
        assert np.isclose(weights.sum(), points.weights[i])
        assert np.allclose(rows.mean(axis=0), points.means[i], atol=1e-12)
        ratios.append(rows.var(axis=0, ddof=1) / points.variances[i])
        fewest = min(fewest, len(rows))
    # 120 variances, each with a relative error of √(2/rows).
    assert fewest > 200 and np.abs(np.array(ratios) - 1).max() < 5 * np.sqrt(2 / fewest)
    assert abs(np.mean(ratios) - 1) < 0.02
    assert np.allclose(drawn.mean(), points.mean())
    assert np.allclose(drawn.total_variances(), points.total_variances(), rtol=0.02)


@pytest.mark.parametrize("each", [2, 3, 5])
def test_few_draws_have_the_right_spread_on_average(each):
    """Taking off the mean of two or three rows must not make them narrower."""
    count = 50_000 // each
    points = Points(np.ones(count), np.zeros((count, 1)), np.ones((count, 1)))
    drawn = points.draw(50_000, np.random.default_rng(each))
    assert len(drawn) == each * count
    assert abs(drawn.total_variances()[0] - 1) < 0.03


@pytest.mark.parametrize(("d", "count"), [(3, 50_000), (400, 10_000), (2500, 2000)])
def test_of_wide_rows_fewer_are_drawn(d, count):
    assert usual_draws(d) == count


def test_points_without_spread_are_drawn_once_and_light_ones_at_least_once():
    points = Points(np.array([1000.0, 1e-6, 5.0]), np.eye(3), np.array([[0.0] * 3, [1.0] * 3, [1.0] * 3]))
    drawn = points.draw(100, np.random.default_rng(0))
    assert (drawn.means == points.means[0]).all(axis=1).sum() == 1
    assert np.isclose(drawn.weights.sum(), points.weights.sum())
    assert (drawn.weights == 1e-6).sum() == 1
    assert np.allclose(drawn.means[drawn.weights == 1e-6], points.means[1])


# ---- costs -----------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    k=st.integers(1, 12),
    m=st.integers(1, 40),
    far_rows=st.sampled_from([0, 20]),
    with_weights=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_cost_of_points_is_at_least_that_of_the_rows(k, m, far_rows, with_weights, seed):
    random = np.random.default_rng(seed)
    rows = blobs(n=200, k=4, seed=seed)[0]
    weights = random.uniform(0, 2, 200) if with_weights else None
    made = weighted_sketch(rows, weights, landmarks=m, far_rows=far_rows)
    points, scaled = points_of(made), made.basis.transform(rows)
    centroids = scaled[random.integers(200, size=k)] + 0.1 * random.standard_normal((k, 2))
    true = naive.mean_squared_distance(scaled, centroids, weights)
    assert cost(points, centroids) >= true * (1 - 1e-10)
    if k == 1:
        assert np.isclose(cost(points, centroids), true, rtol=1e-9)


def test_weights_that_are_all_zero_are_refused():
    rows = blobs(n=100)[0]
    made = weighted_sketch(rows, np.zeros(100), landmarks=10)
    assert len(points_of(made)) == 0
    with pytest.raises(NysketchError, match="no rows with positive weight"):
        made.mean_kernel()
