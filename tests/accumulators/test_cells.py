"""Cells: every row at its nearest landmark, against the slow twin; and the algebra of their sums."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.accumulators.far_rows import default_far_rows
from nysketch.accumulators.options import PassOptions
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import EXTENT, spreads
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import OutputError, UsageError
from nysketch.kernels import Gaussian
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests import naive
from tests.kernels.kinds import BOUNDED, NUMERIC, basis_at


def sketch(rows, basis, **options):
    return nysketch.sketch(rows, basis=basis, **{"threads": 1, "blocks": 2, **options})


def close(got, expected, unit):
    """Whether sums are right to 1e-12 of what they are made of."""
    return bool((np.abs(got - expected) <= 1e-12 * (np.abs(expected) + unit)).all())


def require_right(made, rows, weights=None):
    """Compare the cells of a sketch with those of the slow twin; return cells, offsets and counts of that."""
    cells, basis = made.cells, made.basis
    of_row, offsets, counts, weight, sums, squares = naive.cells(basis, rows, weights)
    assert np.array_equal(cells.rows, counts)
    assert np.allclose(cells.weight, weight, rtol=1e-12, atol=1e-18)
    largest = np.abs(offsets).max(axis=0) + spreads(basis)  # sums may cancel
    assert close(cells.sums.high, sums, counts[:, None] * largest * (1 if weights is None else weights.max()))
    assert close(
        cells.squares.high, squares, (1 + counts[:, None]) * spreads(basis) ** 2 * (1 + weight[:, None])
    )
    assert (cells.scatter >= 0).all()
    require_farthest(made, of_row, offsets)
    return of_row, offsets, counts


def require_farthest(made, of_row, offsets):
    """The far rows are the farthest of all rows, and none is missing down to their bound."""
    far = made.cells.far
    if not far.kept.capacity:
        assert not len(far)
        return
    squared = np.zeros(len(offsets))
    for column in offsets.T:
        squared += column * column
    keys = 2**63 - 1 - squared.view(np.int64)
    inside = np.flatnonzero(keys <= far.kept.bound)
    assert sorted(zip(far.kept.keys.tolist(), far.cells.tolist(), map(bytes, far.offsets), strict=True)) == (
        sorted(zip(keys[inside].tolist(), of_row[inside].tolist(), map(bytes, offsets[inside]), strict=True))
    )
    assert len(far) <= far.kept.capacity
    if len(inside) < len(keys):  # one more distance would be too many
        following = keys[keys > far.kept.bound].min()
        assert np.count_nonzero(keys <= following) > far.kept.capacity


# ---- against the slow twin -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", NUMERIC)
def test_cells_of_every_kernel_are_those_of_the_slow_twin(kind, precision):
    random = np.random.default_rng(0)
    rows = random.standard_normal((400, 4)) * [1, 2, 0.5, 1]
    basis = basis_at(NUMERIC[kind](4), rows[:37].copy(), center=0.3, scale=1.7)
    made = sketch(rows, basis, precision=precision, far_rows=25)
    require_right(made, rows)
    assert len(made.cells.far) == 25 and made.cells.beyond == 0
    assert made.cells.rows.min() >= 1  # its own landmark


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 150),
    d=st.integers(1, 9),
    m=st.integers(1, 40),
    log_bandwidth=st.floats(-2.5, 2.5),
    kind=st.sampled_from(sorted(BOUNDED)),
    far_rows=st.integers(0, 40),
    seed=st.integers(0, 10**6),
)
def test_any_shape_any_bandwidth_any_tail(n, d, m, log_bandwidth, kind, far_rows, seed):
    random = np.random.default_rng(seed)
    rows = random.standard_normal((n, d)) * 10 ** random.uniform(-2, 2, d)
    rows *= 10 ** np.maximum(random.standard_cauchy((n, 1)), 0).clip(0, 3)
    kernel = Gaussian(10**log_bandwidth) if kind == "gaussian" else BOUNDED[kind](d)
    basis = basis_at(kernel, rows[random.integers(n, size=m)], center=rows[0], scale=rows.std(axis=0) + 0.1)
    made = sketch(rows, basis, far_rows=far_rows)
    require_right(made, rows)
    assert made.cells.rows.sum() == n


def test_columns_around_a_million_with_spread_one():
    rows = np.random.default_rng(1).standard_normal((600, 3)) + 1e6
    for scaling in ("none", "standard"):
        basis = Basis.fit(rows, landmarks=30, scale=scaling)
        made = sketch(rows, basis)
        _, offsets, _ = require_right(made, rows)
        exact = ((rows - 1e6) ** 2).sum() - 600 * ((rows.mean(axis=0) - 1e6) ** 2).sum()
        assert made.cells.scatter.sum() * (basis.scale[0] ** 2) < exact
        assert np.abs(offsets).max() < 5


def test_outliers_a_thousand_times_farther_out():
    random = np.random.default_rng(2)
    rows = random.standard_normal((1000, 3))
    rows[::50] *= 1000
    for sampling in ("uniform", "kmeans++"):  # without and with landmarks out there
        basis = Basis.fit(rows, landmarks=40, sampling=sampling)
        made = sketch(rows, basis, far_rows=10)
        require_right(made, rows)


@pytest.mark.parametrize("kind", ["gaussian", "matern32", "gaussian sum"])
def test_far_landmarks_are_compared_like_near_ones(kind):
    random = np.random.default_rng(3)
    rows = random.standard_normal((800, 3))
    rows[::3] *= 10.0 ** random.integers(0, 6, (267, 1))
    basis = basis_at(NUMERIC[kind](3), rows[random.permutation(800)[:120]])
    require_right(sketch(rows, basis), rows)


def test_of_landmarks_at_the_same_distance_the_first_has_the_row():
    """Small integers are full of ties, and duplicates of each other."""
    random = np.random.default_rng(4)
    rows = random.integers(-2, 3, (700, 3)).astype(float)
    for kind in ("gaussian", "linear"):
        basis = basis_at(NUMERIC[kind](3), rows[:60])
        for precision in ("float32", "float64"):
            of_row, _, _ = require_right(sketch(rows, basis, precision=precision), rows)
    first = {tuple(row): j for j, row in reversed([*enumerate(rows[:60])])}
    assert all(of_row[i] == first[tuple(rows[i])] for i in range(60))


def test_one_landmark_one_feature_one_row():
    for n in (1, 2, 50):
        rows = np.random.default_rng(n).standard_normal((n, 1)) * 7
        made = sketch(rows, Basis.fit(rows, landmarks=1))
        require_right(made, rows)
        assert made.cells.rows.tolist() == [n]
        assert len(made.cells.far) == n


@pytest.mark.slow
def test_a_thousand_landmarks_and_many_chunks():
    rows = np.random.default_rng(5).standard_normal((30_000, 2))
    basis = Basis.fit(rows, landmarks=1000)
    made = sketch(rows, basis)
    x, z = basis.transform(rows), basis.scaled_landmarks
    nearest = np.concatenate([((part[:, None] - z) ** 2).sum(-1).argmin(1) for part in np.split(x, 30)])
    offsets = x - z[nearest]
    assert np.array_equal(made.cells.rows, np.bincount(nearest, minlength=1000))
    for power, got in ((1, made.cells.sums.high), (2, made.cells.squares.high)):
        expected = np.zeros((1000, 2))
        np.add.at(expected, nearest, offsets**power)
        assert np.allclose(got, expected, rtol=0, atol=1e-11)
    assert len(made.cells.far) == 500
    require_farthest(made, nearest, offsets)


def test_weighted_rows():
    random = np.random.default_rng(6)
    rows, weights = random.standard_normal((500, 3)), random.uniform(0, 3, 500)
    weights[::7] = 0
    table = pa.table({f"x{i}": rows[:, i] for i in range(3)} | {"w": weights})
    basis = nysketch.sketch(table, landmarks=20, weights="w").basis
    made = sketch(table, basis, weights="w", far_rows=30)
    _, offsets, _ = require_right(made, rows, weights)
    known = {bytes(offset): weight for offset, weight in zip(offsets, weights, strict=True)}
    assert [known[bytes(offset)] for offset in made.cells.far.offsets] == made.cells.far.weights.tolist()
    assert np.array_equal(made.cells.weight, made.cells.weights.high)
    plain = sketch(rows, basis_at(basis.kernel, basis.landmarks, center=basis.center, scale=basis.scale))
    assert np.array_equal(plain.cells.rows, made.cells.rows)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_tiny_and_huge_weights_keep_their_accuracy(scale):
    rows = np.random.default_rng(7).standard_normal((300, 2))
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "w": np.full(300, scale)})
    made = sketch(table, nysketch.sketch(table, landmarks=10, weights="w").basis, weights="w")
    _, _, _, _, sums, squares = naive.cells(made.basis, rows)
    assert np.allclose(made.cells.sums.high / scale, sums, atol=1e-8)
    assert np.allclose(made.cells.squares.high / scale, squares, rtol=1e-6)


def test_dropped_rows_are_in_no_cell():
    rows = np.random.default_rng(8).standard_normal((400, 3))
    basis = Basis.fit(rows, landmarks=15)
    with_nulls = rows.copy()
    with_nulls[::3, 1] = np.nan
    made = sketch(with_nulls, basis, nulls="drop")
    kept = rows[np.arange(400) % 3 > 0]
    require_right(made, kept)
    assert made.cells.rows.sum() == made.rows == len(kept)


@pytest.mark.parametrize("kind", ["gaussian", "matern52", "product of gaussians"])
@pytest.mark.parametrize("value", [1e300, -1e300, 1e154, 3e38, 1e20])
def test_values_beyond_all_measure_are_counted_and_change_nothing_else(kind, value, tmp_path):
    rows = np.random.default_rng(9).standard_normal((300, 3))
    basis = basis_at(NUMERIC[kind](3), rows[:25])
    wild = rows.copy()
    wild[[5, 77], [0, 2]] = value
    made = sketch(wild, basis)
    clean = sketch(np.delete(wild, [5, 77], axis=0), basis)
    assert made.cells.beyond == 2 and made.cells.rows.sum() == 298
    for name, array in clean.cells.arrays().items():
        assert np.array_equal(made.cells.arrays()[name], array), name
    nysketch.save(made, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == made
    assert (made + made).cells.beyond == 4


@pytest.mark.slow
def test_the_limit_is_that_of_each_column():
    landmarks = np.array([[0.0, 0.0], [1.0, 1000.0], [-1.0, -1000.0]])
    basis = basis_at(Gaussian(1.0), landmarks)
    unit = spreads(basis)
    assert unit.tolist() == [1.0, 512.0]
    rows = np.array([[EXTENT, 0.0], [2 * EXTENT, 0.0], [0.0, 2 * EXTENT], [0.0, 2000 * EXTENT]])
    made = sketch(rows, basis)
    assert made.cells.beyond == 2
    assert made.cells.rows.sum() == 2


def test_spreads_are_powers_of_two_that_few_landmarks_and_constants_do_not_change():
    random = np.random.default_rng(10)
    Z = random.standard_normal((101, 5)) * [1, 100, 1e-3, 1, 0]
    Z[random.random(101) < 0.6, 3] = 0  # a sparse column
    unit = spreads(basis_at(Gaussian(1.0), Z))
    assert (np.frexp(unit)[0] == 0.5).all()
    assert unit.tolist() == [0.5, 32.0, 2.0**-11, 0.5, 2.0**-9]
    Z[7] = 1e9
    assert np.array_equal(spreads(basis_at(Gaussian(1.0), Z))[:3], unit[:3])
    assert spreads(basis_at(Gaussian(1.0), np.array([[0.1, -5e5]]))).tolist() == [1, 2.0**18]
    assert np.isfinite(1 / spreads(basis_at(Gaussian(1.0), Z * 1e-300)) ** 2).all()
    assert np.isfinite(spreads(basis_at(Gaussian(1.0), Z * 1e200)) ** 2).all()


def test_landmarks_at_the_edge_of_floating_point_are_harmless():
    random = np.random.default_rng(11)
    rows = random.standard_normal((200, 2))
    for factor in (1e-120, 1e-30, 1e30, 1e120):
        basis = basis_at(NUMERIC["cosine"](2), rows[:20] * factor)
        made = sketch(rows * factor, basis)
        reference = sketch(rows, basis_at(NUMERIC["cosine"](2), rows[:20]))
        assert np.array_equal(made.cells.rows, reference.cells.rows)
    landmarks = rows[:20].copy()
    landmarks[3] = 1e200
    made = sketch(rows, basis_at(NUMERIC["cosine"](2), landmarks))
    assert made.cells.rows[3] == 0 and made.cells.rows.sum() == 200


# ---- the algebra -----------------------------------------------------------------------------------

RNG = np.random.default_rng(20)
ROWS = RNG.standard_normal((1200, 3)) * [1, 10, 1000] + [0, 1e5, -3]
ROWS[::40] *= 30
BASIS = Basis.fit(ROWS, landmarks=30)
PARTS = [sketch(part, BASIS, far_rows=40) for part in np.array_split(ROWS, 6)]


def same(a, b):
    mine, theirs = a.arrays(), b.arrays()
    return (
        a.describe() == b.describe()
        and mine.keys() == theirs.keys()
        and all(np.array_equal(mine[name], theirs[name]) for name in mine)
    )


@given(st.permutations(range(6)), st.randoms(use_true_random=False))
def test_merging_in_any_order_and_grouping_gives_the_same_bits(order, random):
    left = [PARTS[i].cells for i in order]
    while len(left) > 1:
        a, b = (left.pop(random.randrange(len(left))) for _ in range(2))
        left.append(a + b)
    assert same(left[0], sum(PARTS).cells)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=6)
)
def test_subtraction_undoes_addition_to_the_bit(added, other):
    a, b = sum(PARTS[i] for i in added).cells, sum(PARTS[i] for i in other).cells
    for back in ((a + b) - b, (a - b) + b):
        for name in ("cells.rows", "cells.sums", "cells.squares"):
            assert np.array_equal(back.arrays()[name], a.arrays()[name])
        assert np.array_equal(back.sums.low, a.sums.low) and np.array_equal(back.squares.low, a.squares.low)
        assert back.beyond == a.beyond
    # Of the far rows as many as are known for certain.
    back = ((a + b) - b).far.kept
    known = a.far.kept.keys <= (a + b).far.kept.bound
    assert np.array_equal(back.keys, a.far.kept.keys[known])
    assert np.array_equal(back.rows, a.far.kept.rows[known])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 1199), max_size=4, unique=True), st.randoms(use_true_random=False))
def test_cuts_and_the_order_of_rows_change_nothing_beyond_1e12(cuts, random):
    whole = sketch(ROWS, BASIS)
    order = list(range(len(ROWS)))
    random.shuffle(order)
    cut = sum(sketch(part, BASIS) for part in np.split(ROWS[order], sorted(cuts)))
    assert np.array_equal(cut.cells.rows, whole.cells.rows)
    assert close(cut.cells.sums.high, whole.cells.sums.high, np.sqrt(whole.cells.squares.high * 1200))
    assert close(cut.cells.squares.high, whole.cells.squares.high, 10 * spreads(BASIS) ** 2)
    assert np.array_equal(cut.cells.far.kept.rows, whole.cells.far.kept.rows)


def test_far_rows_of_parts_are_those_of_the_whole_and_can_be_taken_away():
    of_row, offsets, *_ = naive.cells(BASIS, ROWS)
    whole = sum(PARTS)
    require_farthest(whole, of_row, offsets)
    assert len(whole.cells.far) == 40
    for i, part in enumerate(PARTS):
        left = (whole - part).cells.far
        others = np.setdiff1d(np.arange(1200), np.arange(200) + 200 * i)
        squared = (offsets[others] ** 2).sum(axis=1)
        expected = others[np.argsort(-squared, kind="stable")][: len(left)]
        assert left.cells.tolist() == of_row[expected].tolist()
        assert 20 < len(left) <= 40


def test_a_row_is_farthest_first():
    far = sum(PARTS).cells.far
    distances = (far.offsets**2).sum(axis=1)
    assert (np.diff(distances) <= 0).all() and distances[0] > distances[-1]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "rows.parquet"
    rows = np.random.default_rng(21).standard_normal((60_000, 4))
    rows[::1000] *= 100
    table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)} | {"w": np.abs(rows[:, 0])})
    pq.write_table(table, path, row_group_size=9001)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"weights": "w"}, {"precision": "float64"}, {"kernel": "matern32"}],
    ids=["plain", "weighted", "float64", "matern32"],
)
def test_bytes_do_not_depend_on_threads_or_batch_size(parquet, tmp_path, options):
    seen = set()
    for threads, batch_rows in ((1, 1000), (4, 1000), (1, None), (3, 7777)):
        path = tmp_path / "s.nysk"
        nysketch.save(
            nysketch.sketch(parquet, landmarks=50, threads=threads, batch_rows=batch_rows, **options), path
        )
        seen.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(seen) == 1


def test_kernel_sums_are_the_same_with_and_without_cells(parquet):
    a, b = (nysketch.sketch(parquet, landmarks=50, cells=cells) for cells in (True, False))
    assert np.array_equal(a.block_kernel_sums, b.block_kernel_sums)


def test_precisions_have_the_same_cells(parquet):
    basis = Basis.fit(parquet, landmarks=50)
    a, b = (nysketch.sketch(parquet, basis=basis, precision=p).cells for p in ("float32", "float64"))
    assert same(a, b)


def test_a_cell_bounds_what_any_centroids_cost():
    """Σ scatter + weight·|mean − centroid|² is no less than the cost of the rows, and no more than it is."""
    rows = ROWS[:, :2]
    basis = Basis.fit(rows, landmarks=40)
    cells = sketch(rows, basis).cells
    x, centroids = basis.transform(rows), np.array([[0.0, 0.0], [3.0, -1.0]])
    cost = ((x[:, None] - centroids) ** 2).sum(-1).min(axis=1).sum()
    means = basis.scaled_landmarks + cells.means
    to_means = ((means[:, None] - centroids) ** 2).sum(-1).min(axis=1)
    bound = cells.scatter.sum() + (cells.weight * to_means).sum()
    assert cost * (1 - 1e-12) <= bound < 1.2 * cost


def test_scatter_of_a_repeated_row_is_nothing():
    rows = np.tile([[0.1, 1e6 / 3]], (500, 1))
    rows[0] = 0
    made = sketch(rows, basis_at(Gaussian(1.0), np.array([[0.0, 1e6 / 3 + 0.7], [0.0, 0.0]])))
    assert (made.cells.scatter <= 1e-6).all()
    assert made.cells.rows.tolist() == [499, 1]


# ---- with and without ------------------------------------------------------------------------------


def test_without_cells_there_are_none(tmp_path):
    with_cells, without = sketch(ROWS, BASIS), sketch(ROWS, BASIS, cells=False)
    assert without.cells is None
    assert not any(name.startswith(("cells", "far")) for name in without.tally.arrays())
    for merged in (with_cells + without, without + with_cells, with_cells - without, without - with_cells):
        assert merged.cells is None
    both = with_cells + without
    assert both.rows == 2400 and "cells" not in both.settings
    nysketch.save(both, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == both
    assert both == without + with_cells


def test_text_and_fourier_features_have_no_cells():
    assert (
        nysketch.sketch(pa.table({"t": ["abc", "bcd", "abcd"]}), kernel="spectrum", landmarks=2).cells is None
    )
    assert nysketch.sketch(ROWS, features="fourier", landmarks=10).cells is None


def test_far_rows_can_be_more_fewer_or_none(tmp_path):
    none, few, all_of_them = (sketch(ROWS, BASIS, far_rows=n) for n in (0, 7, 5000))
    assert [len(made.cells.far) for made in (none, few, all_of_them)] == [0, 7, 1200]
    assert not any(name.startswith("far") for name in none.tally.arrays())
    assert np.array_equal(none.cells.sums.high, few.cells.sums.high)
    for made in (none, few, all_of_them):
        nysketch.save(made, tmp_path / "s.nysk")
        assert nysketch.load(tmp_path / "s.nysk") == made
    assert len((none + few).cells.far) == 0
    assert (few + all_of_them).cells.far.kept.capacity == 7
    # What is far in them all: exactly the offsets, which can be taken out of their cells.
    far, cells = all_of_them.cells.far, all_of_them.cells
    left = cells.sums.high.copy()
    np.subtract.at(left, far.cells, far.offsets)
    assert (np.abs(left) <= 1e-9 * np.sqrt(cells.squares.high * 1200)).all()


def test_wide_rows_have_a_smaller_default():
    assert [default_far_rows(d) for d in (1, 500, 1000, 10**5)] == [500, 500, 261, 50]


@pytest.mark.parametrize("options", [{"far_rows": -1}, {"cells": False, "far_rows": 5}])
def test_impossible_wishes_are_refused(options):
    with pytest.raises(UsageError, match="far_rows"):
        sketch(ROWS, BASIS, **options)


def run(table, output, options, **saving):
    return sketch_to_file(
        open_source(table, exclude=["w"]),
        output,
        BasisOptions(m=20),
        options,
        saving=Saving(**saving),
        execution=Execution(Threads(1)),
    )


def test_skip_looks_at_the_wishes_for_cells(parquet, tmp_path):
    made, output = PassOptions(blocks=4, far_rows=9), tmp_path / "s.nysk"
    run(parquet, output, made)
    assert run(parquet, output, made, if_exists="skip").skipped
    for other in (PassOptions(blocks=4), PassOptions(blocks=4, cells=False)):
        with pytest.raises(OutputError, match="options differ"):
            run(parquet, output, other, if_exists="skip")


def test_a_sketch_from_before_there_were_cells_is_one_without(parquet, tmp_path):
    output, wanted = tmp_path / "s.nysk", PassOptions(blocks=4, cells=False)
    before = run(parquet, output, wanted).sketch
    for name in ("cells", "far_rows"):
        del before.settings[name]
    nysketch.save(before, output)
    assert run(parquet, output, wanted, if_exists="skip").skipped
    with pytest.raises(OutputError, match="options differ"):
        run(parquet, output, PassOptions(blocks=4), if_exists="skip")


# ---- the command line ------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_line_keeps_shows_and_merges_cells(run_cli, parquet, tmp_path):
    def do(*args):
        result = run_cli(*args)
        assert result.returncode == 0, result.stderr
        return result

    a, b, c = (tmp_path / name for name in ("a.nysk", "b.nysk", "c.nysk"))
    do("sketch", parquet, "--exclude", "w", "-m", 20, "--far-rows", 33, "-o", a)
    do("sketch", parquet, "--basis", a, "--no-cells", "-o", b)
    do("sketch", parquet, "--basis", a, "--far-rows", 0, "-o", c)
    facts = [json.loads(do("info", path, "--json").stdout)["cells"] for path in (a, b, c)]
    assert facts[0] == {"far_rows": 33, "non_empty": 20, "rows_beyond": 0}
    assert facts[1] is None and facts[2]["far_rows"] == 0
    shown = [do("info", path).stdout for path in (a, b, c)]
    assert "20 of 20 landmarks are nearest to some row; the 33 rows farthest from theirs" in shown[0]
    assert "and the farthest rows: treat this file" in shown[0]
    assert "\ncells " not in shown[1] and "farthest" not in shown[1] + shown[2]
    merged = do("merge", a, b, "--force", "-o", tmp_path / "m.nysk")
    assert f"{b} has no cells of rows: neither will" in merged.stderr
    assert "no cells" not in do("merge", a, c, "--force", "-o", tmp_path / "n.nysk").stderr
    do("subtract", tmp_path / "n.nysk", c, "-o", tmp_path / "rest.nysk")
    rest, first = nysketch.load(tmp_path / "rest.nysk"), nysketch.load(a)
    assert np.array_equal(rest.cells.sums.high, first.cells.sums.high)
    do("verify", a, b, c, tmp_path / "rest.nysk")
    refused = run_cli("sketch", parquet, "--no-cells", "--far-rows", 3, "-o", tmp_path / "x.nysk")
    assert refused.returncode == 2 and "leave out --far-rows or --no-cells" in refused.stderr


def test_what_another_cut_of_the_rows_leaves_can_be_saved(tmp_path):
    """The last digits of huge squares depend on the fragments; so nothing is left but these digits."""
    random = np.random.default_rng(22)
    january, rest = random.standard_normal((500, 2)), random.standard_normal((500, 2)) + 50
    january[::5] *= 1e5
    basis = basis_at(Gaussian(1.0), np.vstack([january[1:20], rest[:20]]))
    for name, rows, group in (("year", np.vstack([january, rest]), 1000), ("january", january, 7)):
        table = pa.table({"x0": rows[:, 0], "x1": rows[:, 1]})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=group)
    year, part = (sketch(tmp_path / f"{n}.parquet", basis, blocks=1) for n in ("year", "january"))
    left = year - part
    nysketch.save(left, tmp_path / "left.nysk")
    back = nysketch.load(tmp_path / "left.nysk")
    assert back.cells.rows.sum() == 500 and (back.cells.scatter >= 0).all()
    expected = nysketch.sketch(rest, basis=basis).cells
    assert np.array_equal(back.cells.rows, expected.rows)
    nothing = left - sketch(rest, basis, blocks=1)
    assert not nothing.cells.rows.any()
    nysketch.save(nothing, tmp_path / "nothing.nysk")
    assert nysketch.load(tmp_path / "nothing.nysk").cells.scatter.sum() == 0
