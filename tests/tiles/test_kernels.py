"""The fast sums of every kernel of numbers, and of Fourier features, against plain float64."""

import numpy as np
import pytest

import nysketch
from nysketch.errors import InputError
from nysketch.kernels import KERNELS, TEXT_KERNELS, Cosine, Linear, Polynomial
from nysketch.tiles.sizes import tile_rows_for
from nysketch.tiles.summer import RowSummer
from tests.kernels.kinds import BOUNDED, NUMERIC, POSITIVE, UNBOUNDED, basis_at, fourier_basis, numbers
from tests.tiles.test_summer import chunk_of, sums_of

DRAWS = {"fourier gaussian": "gaussian", "fourier adapted-radius": "adapted-radius"}
FUNCTIONS = [*NUMERIC, *DRAWS]
every = pytest.mark.parametrize("name", FUNCTIONS)


def make_basis(name, landmarks, **scaling):
    """A basis of this kind at these landmarks; Fourier features are as many, but an even number."""
    d, m = landmarks.shape[1], len(landmarks)
    if name in DRAWS:
        return fourier_basis(d, m + m % 2, DRAWS[name], **scaling)
    return basis_at(NUMERIC[name](d), landmarks, **scaling)


def error_of_sums(name, basis, rows, **options):
    """The largest error of a sum: of the sum itself, or where values have signs of the sum without them."""
    weights = options.get("weights")
    got, _ = sums_of(basis, rows, **options)
    values = basis.values(rows) * (1.0 if weights is None else weights[:, None])
    size = values.sum(axis=0) if name in POSITIVE else np.abs(values).sum(axis=0)
    return np.max(np.abs(got.sum(axis=0) - values.sum(axis=0)) / size)


@every
@pytest.mark.parametrize("d", [1, 3, 17])
@pytest.mark.parametrize("m", [1, 7, 130])
def test_sums_in_many_shapes(name, d, m):
    rows = numbers(700, d, seed=m)
    assert 700 % tile_rows_for(m, d)
    assert error_of_sums(name, make_basis(name, rows[:m]), rows) < 1e-5


@every
@pytest.mark.parametrize("scaling", [{}, {"center": 1e6, "scale": 0.7}], ids=["none", "standard"])
def test_sums_around_a_million_with_spread_one(name, scaling):
    rows = numbers(900, 3) + 1e6
    assert error_of_sums(name, make_basis(name, rows[:30], **scaling), rows) < 1e-5


@every
def test_sums_at_outlying_landmarks(name):
    random = np.random.default_rng(1)
    rows = numbers(900, 3)
    rows[::9] *= 10.0 ** random.integers(0, 7, (100, 1))
    assert error_of_sums(name, make_basis(name, rows[:100]), rows) < 1e-5


@pytest.mark.parametrize("name", POSITIVE)
def test_small_values_are_as_good_as_large_ones(name):
    basis = make_basis(name, numbers(40, 3))
    rows = numbers(600, 3, seed=1) + 4
    assert basis.values(rows).mean() < 0.1
    assert error_of_sums(name, basis, rows) < 1e-5


@every
def test_sums_of_weighted_rows(name):
    rows = numbers(600, 3)
    weights = np.random.default_rng(1).exponential(size=600) * (np.arange(600) % 5 > 0)
    assert error_of_sums(name, make_basis(name, rows[:20]), rows, weights=weights) < 1e-5


@every
def test_the_reference_is_exact(name):
    rows = numbers(600, 3)
    basis = make_basis(name, rows[:20], center=0.2, scale=1.5)
    assert error_of_sums(name, basis, rows, precision="float64") < 1e-13


@every
def test_rows_that_are_not_kept_leave_no_trace(name):
    rows = numbers(600, 3)
    keep = np.arange(600) % 3 > 0
    basis = make_basis(name, rows[:20])
    expected, _ = sums_of(basis, rows, keep=keep, blocks=1)
    rows[~keep] = np.nan
    got, into = sums_of(basis, rows, keep=keep, blocks=1)
    assert np.array_equal(got, expected)
    assert into.rows.sum() == keep.sum()


@every
@pytest.mark.parametrize("m", [1, 7, 130])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_value_does_not_depend_on_its_place_in_a_tile(name, m, precision):
    """Bit for bit: all other rows have weight 0."""
    row = numbers(1, 17, seed=9)
    basis = make_basis(name, numbers(m, 17, seed=8))
    tile = tile_rows_for(basis.m, 17)
    values = []
    for place in sorted({0, 1, 3, 6, 17, 100, tile - 1, tile, tile + 5, 511} & set(range(512))):
        rows = numbers(512, 17, seed=place)
        weights = np.zeros(512)
        rows[place], weights[place] = row, 1.0
        values.append(sums_of(basis, rows, weights=weights, blocks=1, precision=precision)[0][0])
    alone, _ = sums_of(basis, row, weights=np.ones(1), blocks=1, precision=precision)
    if precision == "float32":  # the reference cuts its tiles short
        values.append(alone[0])
    for value in values[1:]:
        assert np.array_equal(value, values[0])


@every
def test_sums_do_not_depend_on_the_order_of_rows(name):
    rows = numbers(800, 3)
    basis = make_basis(name, rows[:30])
    straight, _ = sums_of(basis, rows, blocks=1)
    backwards, _ = sums_of(basis, rows[::-1], blocks=1)
    size = np.abs(basis.values(rows)).sum(axis=0)
    assert np.max(np.abs(straight - backwards) / size) < 1e-14


@every
def test_blocks_add_up(name):
    rows = numbers(800, 3)
    basis = make_basis(name, rows[:30])
    size = np.abs(basis.values(rows)).sum(axis=0)
    one, _ = sums_of(basis, rows, blocks=1)
    many, into = sums_of(basis, rows, blocks=37)
    assert np.max(np.abs(many.sum(axis=0) - one[0]) / size) < 1e-14
    assert into.rows.sum() == 800


@every
def test_a_workspace_carries_nothing_over(name):
    """Tiles are always whole: what an earlier chunk left in one must not matter."""
    rows = numbers(200, 3)
    basis = make_basis(name, rows[:10])
    summer = RowSummer(basis, blocks=1, seed=0, precision="float32")
    workspace = summer.workspace(512)
    results = []
    for before in (rows, 1e3 * rows[:150], np.full((100, 3), 1e30)):
        summer.add(chunk_of(before), summer.zeros(), workspace)
        into = summer.zeros()
        summer.add(chunk_of(rows[:37]), into, workspace)
        results.append(summer.sums(into))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


# ---- the edge of floating point --------------------------------------------------------------------

WILD = np.array([[1e300, -1e300, 1e-300], [3e38, 0, 0], [-1e154, 1e154, 0], [5e-324, 0, 0], [0, 0, 1e308]])


@pytest.mark.parametrize("name", [*BOUNDED, *DRAWS])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_at_the_edge_of_floating_point_have_finite_sums(name, precision):
    clean = numbers(300, 3)
    basis = make_basis(name, clean[:20])
    rows = np.vstack([clean, WILD])
    got, _ = sums_of(basis, rows, precision=precision)
    assert np.isfinite(got).all()
    low, high = basis.range
    assert (got.sum(axis=0) <= len(rows) * high * (1 + 1e-6)).all()
    assert (got.sum(axis=0) >= len(rows) * low * (1 + 1e-6)).all()
    if name in POSITIVE:  # only the denormal row is near any landmark
        expected = basis.values(np.vstack([clean, [[0.0, 0.0, 0.0]]])).sum(axis=0)
        assert got.sum(axis=0) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", [*BOUNDED, *DRAWS])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_that_are_infinite_once_scaled_have_finite_sums(name, precision):
    clean = numbers(300, 3)
    basis = make_basis(name, clean[:20], scale=1e-3)
    rows = np.vstack([clean, [[1.7e308, -1.7e308, 1.0], [1.7e308, 0.0, 0.0]]])
    got, _ = sums_of(basis, rows, precision=precision)
    assert np.isfinite(got).all()


SAMPLINGS = ["uniform", "kmeans++", "kmeans", "leverage", "greedy", "rpcholesky"]


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"kernel": "polynomial", "degree": 5}], ids=str)
@pytest.mark.parametrize("size", [1e60, 1e160, 1e300])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_that_overflow_are_an_input_error(kernel, size, precision):
    rows = numbers(300, 3)
    basis = nysketch.Basis.fit(rows, landmarks=10, **kernel)
    with pytest.raises(InputError, match=rf"too large for the kernel \({kernel['kernel']}.*`exclude`"):
        nysketch.sketch(np.vstack([rows, [[size, 1.0, 1.0]]]), basis=basis, precision=precision, threads=1)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_pilot_rows_that_overflow_are_an_input_error(sampling):
    rows = numbers(300, 3)
    rows[7] = 1e60
    with pytest.raises(InputError, match=r"too large for the kernel \(polynomial.*`exclude`"):
        nysketch.sketch(
            rows,
            landmarks=20,
            kernel="polynomial",
            degree=5,
            bandwidth=1.0,
            scale="none",
            sampling=sampling,
            threads=1,
        )


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_pilot_rows_beyond_all_kernels_are_an_input_error(sampling):
    rows = numbers(300, 3)
    rows[7] = 1e300
    for kernel in ("linear", "gaussian", "cosine"):
        with pytest.raises(InputError, match="`exclude="):
            nysketch.sketch(rows, landmarks=20, kernel=kernel, sampling=sampling, threads=1)


# ---- through the whole pass ------------------------------------------------------------------------


def error_of_sketch(sketch, rows):
    """The largest error of a sum, relative to the sum without signs."""
    got = sketch.kernel_sums
    values = sketch.basis.values(rows)
    return np.max(np.abs(got - values.sum(axis=0)) / np.abs(values).sum(axis=0))


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name not in TEXT_KERNELS])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_sketch_has_the_sums_of_its_basis(kernel, precision):
    rows = numbers(700, 3) * [1, 10, 0.1] + 5
    sketch = nysketch.sketch(rows, landmarks=30, kernel=kernel, precision=precision, threads=1)
    assert error_of_sketch(sketch, rows) < {"float32": 1e-5, "float64": 1e-12}[precision]


@pytest.mark.parametrize(
    ("options", "outlier"),
    [
        ({"kernel": "linear"}, 1e3),
        ({"kernel": "linear"}, 1e6),
        ({"kernel": "polynomial", "degree": 2}, 1e3),
        ({"kernel": "polynomial", "degree": 3}, 1e3),
        ({"kernel": "polynomial", "degree": 5}, 30.0),
        ({"kernel": "polynomial", "degree": 5}, 100.0),
    ],
    ids=str,
)
def test_one_outlying_landmark_does_not_spoil_the_others(options, outlier):
    rows = numbers(2000, 2)
    rows[7] *= outlier
    bandwidth = {} if options["kernel"] == "linear" else {"bandwidth": 1.0}
    sketch = nysketch.sketch(rows, landmarks=20, scale="none", threads=1, **options, **bandwidth)
    assert (np.abs(sketch.basis.landmarks).max(axis=1) > outlier / 10).any()
    assert error_of_sketch(sketch, rows) < 1e-5


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"kernel": "polynomial", "offset": 0.0}], ids=str)
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_small_rows_without_scaling(options, size):
    rows = size * numbers(500, 2)
    bandwidth = {} if options["kernel"] == "linear" else {"bandwidth": 1.0}
    sketch = nysketch.sketch(rows, landmarks=20, scale="none", threads=1, **options, **bandwidth)
    assert error_of_sketch(sketch, rows) < 1e-5


def test_unbounded_kernels_are_those_with_an_infinite_range():
    for name in NUMERIC:
        assert np.isfinite(NUMERIC[name](3).range).all() == (name not in UNBOUNDED)
    assert Polynomial(1.0, 2).range == (0.0, np.inf)
    assert Polynomial(1.0, 3).range == Linear().range == (-np.inf, np.inf)
    assert Cosine().range == (-1.0, 1.0)
