"""The algebra of sketches, as users rely on it: order, cuts and threads do not show; minus undoes plus."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.basis.base import Basis
from nysketch.errors import IncompatibleError, InputError, UsageError
from tests import naive

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((1200, 3)) * [1, 10, 1000] + [0, 1e5, -3]
BASIS = Basis.fit(ROWS, landmarks=30)


def sketch(rows, **options):
    return nysketch.sketch(rows, basis=BASIS, threads=1, **{"blocks": 4, **options})


def bits(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


PARTS = [sketch(part) for part in np.array_split(ROWS, 6)]


@given(st.permutations(range(6)))
def test_merging_in_any_order_gives_the_same_bits(order):
    assert sum(PARTS[i] for i in order) == sum(PARTS)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.integers(0, 5), min_size=1, max_size=8)
)
def test_subtraction_undoes_addition_to_the_bit(added, other):
    a, b = sum(PARTS[i] for i in added), sum(PARTS[i] for i in other)
    assert np.array_equal(((a + b) - b).kernel_sums, a.kernel_sums)
    assert np.array_equal(((a - b) + b).kernel_sums, a.kernel_sums)
    assert ((a + b) - b).provenance == a.provenance


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 1199), max_size=4, unique=True))
def test_cutting_the_rows_anywhere_changes_nothing_beyond_1e12(cuts):
    whole = sketch(ROWS)
    parts = [sketch(part) for part in np.split(ROWS, sorted(cuts))]
    total = sum(parts)
    assert total.rows == whole.rows
    assert np.allclose(total.kernel_sums, whole.kernel_sums, rtol=1e-12, atol=0)
    rest = whole - parts[-1]
    expected = sketch(ROWS[: sorted(cuts)[-1]]).kernel_sums if cuts else np.zeros(30)
    scale = whole.kernel_sums  # what the subtraction started from
    assert np.all(np.abs(rest.kernel_sums - expected) <= 1e-12 * scale)


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(random):
    order = list(range(len(ROWS)))
    random.shuffle(order)
    assert np.allclose(sketch(ROWS[order]).kernel_sums, sketch(ROWS).kernel_sums, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_sums_against_the_definition(precision, tolerance):
    rows = np.random.default_rng(1).standard_normal((5000, 4)) + 1e6
    made = nysketch.sketch(rows, landmarks=100, precision=precision)
    expected = naive.kernel_sums(made.basis, rows)
    assert np.max(np.abs(made.kernel_sums / expected - 1)) < tolerance
    assert np.allclose(made.block_kernel_sums.sum(axis=0), made.kernel_sums, rtol=1e-13)
    assert made.block_rows.sum() == made.rows == 5000


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("laws") / "rows.parquet"
    rows = np.random.default_rng(2).standard_normal((150_000, 4))
    table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)} | {"w": np.abs(rows[:, 0])})
    pq.write_table(table, path, row_group_size=20_011)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"precision": "float64", "blocks": 7}])
def test_bytes_do_not_depend_on_threads_or_batch_size(parquet, tmp_path, options):
    seen = set()
    for threads, batch_rows in ((1, 1000), (4, 1000), (1, 65_536), (4, 65_536), (3, 7777), (2, None)):
        path = tmp_path / "s.nysk"
        nysketch.save(
            nysketch.sketch(parquet, landmarks=50, threads=threads, batch_rows=batch_rows, **options), path
        )
        seen.add(bits(path))
    assert len(seen) == 1


def test_row_groups_of_another_size_change_nothing_beyond_1e12(parquet, tmp_path):
    basis = Basis.fit(parquet, landmarks=50)
    whole = nysketch.sketch(parquet, basis=basis)
    pq.write_table(pq.read_table(parquet), tmp_path / "other.parquet", row_group_size=3_001)
    other = nysketch.sketch(tmp_path / "other.parquet", basis=basis)
    assert np.allclose(whole.kernel_sums, other.kernel_sums, rtol=1e-12, atol=0)


def test_weighted_sums_against_the_definition(parquet):
    table = pq.read_table(parquet)
    made = nysketch.sketch(parquet, landmarks=20, weights="w")
    rows = np.column_stack([table.column(f"x{i}") for i in range(4)])
    expected = naive.kernel_sums(made.basis, rows, np.asarray(table.column("w")))
    assert np.allclose(made.kernel_sums, expected, rtol=1e-5)
    assert np.isclose(made.total_weight, np.asarray(table.column("w")).sum(), rtol=1e-12)
    assert [column.name for column in made.basis.columns] == ["x0", "x1", "x2", "x3"]


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_tiny_and_huge_weights_keep_their_accuracy(scale):
    rows = np.random.default_rng(3).standard_normal((2000, 2))
    table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "w": np.full(2000, scale)})
    made = nysketch.sketch(table, landmarks=20, weights="w")
    assert np.allclose(made.kernel_sums, scale * naive.kernel_sums(made.basis, rows), rtol=1e-5)


def test_embedding_weights_solve_the_projection():
    made = nysketch.sketch(ROWS, landmarks=25, precision="float64")
    gram = made.basis.gram()
    expected = np.linalg.pinv(gram, rcond=1e-8, hermitian=True) @ made.mean_kernel()
    assert np.allclose(made.embedding_weights(), expected, atol=1e-6)
    assert np.allclose(gram @ made.embedding_weights(), made.mean_kernel(), atol=1e-6)


def test_mean_features_are_the_mean_of_the_features():
    made = nysketch.sketch(ROWS, landmarks=25, precision="float64")
    features = made.basis.values(ROWS) @ made.basis.nystrom.matrix.T
    assert features.shape == (len(ROWS), made.rank)
    assert np.allclose(made.mean_features(), features.mean(axis=0), atol=1e-7)
    inner = features @ features.T
    exact = made.basis.kernel(made.basis.transform(ROWS), made.basis.transform(ROWS))
    assert np.all(np.diag(inner) <= 1 + 1e-8)
    assert np.abs(inner - exact).mean() < 0.2  # 25 landmarks of 1200 rows: a projection, not the kernel


def test_duplicated_rows_lower_the_rank_and_break_nothing():
    rows = np.repeat(np.random.default_rng(4).standard_normal((7, 2)), 100, axis=0)
    made = nysketch.sketch(rows, landmarks=50)
    assert made.rank <= 7
    assert np.isfinite(made.embedding_weights()).all()
    assert nysketch.sketch(np.ones((100, 2)), landmarks=10).rank == 1


def test_sketches_that_do_not_belong_together_say_why():
    a = sketch(ROWS)
    with pytest.raises(IncompatibleError, match="numbers of blocks: 4 and 5"):
        a + sketch(ROWS, blocks=5)
    other = nysketch.sketch(ROWS, landmarks=31, blocks=4)
    with pytest.raises(IncompatibleError, match="numbers of landmarks or features 30 and 31"):
        a + other
    with pytest.raises(IncompatibleError, match="and gaussian, bandwidth 2"):
        a - nysketch.sketch(ROWS, landmarks=30, bandwidth=2.0, blocks=4)
    with pytest.raises(IncompatibleError, match="different landmarks"):
        a + nysketch.sketch(
            ROWS[::-1][:600], landmarks=30, bandwidth=a.basis.kernel.bandwidth, scale="standard", blocks=4
        )


def test_a_sketch_of_no_rows_has_no_mean():
    nothing = sketch(ROWS) - sketch(ROWS)
    assert nothing.rows == 0
    assert not nothing.kernel_sums.any()
    with pytest.raises(InputError, match="no rows"):
        nothing.mean_features()


def test_merging_precisions_gives_the_lower_one():
    mixed = sketch(ROWS) + sketch(ROWS, precision="float64")
    assert mixed.settings["precision"] == "float32"
    assert mixed.rows == 2400


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Three files of different rows, far apart, as January, February and March may be."""
    folder = tmp_path_factory.mktemp("days")
    for i in range(3):
        rows = np.random.default_rng([5, i]).standard_normal((2000 + 100 * i, 3)) + 3 * i
        table = pa.table({f"x{k}": column for k, column in enumerate(rows.T)})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=700)
    return sorted(folder.iterdir())


def test_sketching_files_together_or_apart_gives_the_same_bytes(days, tmp_path):
    basis = Basis.fit(days, landmarks=40)
    together = nysketch.sketch(days, basis=basis)
    apart = [nysketch.sketch(day, basis=basis) for day in days]
    assert apart[2] + (apart[0] + apart[1]) == together
    for name, made in (("together", together), ("apart", sum(apart))):
        nysketch.save(made, tmp_path / name)
    assert (tmp_path / "together").read_bytes() == (tmp_path / "apart").read_bytes()
    # and files can be taken out of a sketch they were sketched into, block by block
    rest = together - apart[1]
    expected = apart[0] + apart[2]
    assert np.array_equal(rest.block_kernel_sums, expected.block_kernel_sums)
    assert np.array_equal(rest.block_rows, expected.block_rows)
    assert rest.provenance == expected.provenance


def test_the_same_rows_of_many_files_are_dealt_to_different_blocks(tmp_path):
    """Sensors in a fixed order, day after day: a block must not collect the same sensors every day."""
    levels = np.random.default_rng(6).standard_normal(1000)
    sketches = []
    for day in range(20):
        values = levels + 0.01 * np.random.default_rng([7, day]).standard_normal(1000)
        path = tmp_path / f"{day}.parquet"
        pq.write_table(pa.table({"level": values}), path)
        basis = sketches[0].basis if sketches else Basis.fit(path, landmarks=20)
        sketches.append(nysketch.sketch(path, basis=basis))
    merged = sum(sketches)
    means = merged.block_kernel_sums / merged.block_rows[:, None]
    kernel = merged.basis.values(levels[:, None])
    expected = kernel.std(axis=0) / np.sqrt(merged.block_rows.mean())
    ratio = means.std(axis=0) / expected
    assert 0.75 < np.median(ratio) < 1.25  # one in sqrt(20) of the days would be 4.5


def test_ranges_are_bounds_after_a_subtraction_and_gone_with_the_last_row(days):
    basis = Basis.fit(days, landmarks=10)
    a, b = (nysketch.sketch(day, basis=basis) for day in days[:2])
    assert a.tally.ranges.exact
    rest = (a + b) - b
    assert not rest.tally.ranges.exact
    assert (rest.column_ranges[0] <= a.column_ranges[0]).all()
    assert (rest.column_ranges[1] >= a.column_ranges[1]).all()
    nothing = a - a
    assert np.isinf(nothing.column_ranges[0]).all()
    assert (nothing + b).tally.ranges.exact
    assert np.array_equal((nothing + b).column_ranges[0], b.column_ranges[0])


def test_sketches_and_bases_can_be_compared():
    assert PARTS[0] + PARTS[1] == PARTS[1] + PARTS[0]
    assert PARTS[0] != PARTS[1]
    assert PARTS[0] != "a sketch"
    assert Basis.fit(ROWS, landmarks=30) == BASIS
    assert Basis.fit(ROWS, landmarks=31) != BASIS
    assert len({Basis.fit(ROWS, landmarks=30), BASIS}) == 1


def test_the_order_of_merging_does_not_show_how_the_bases_were_made(tmp_path):
    one = nysketch.sketch(ROWS, landmarks=20)
    other = nysketch.sketch(ROWS, basis=Basis.fit(ROWS, landmarks=20, bandwidth=one.basis.kernel.bandwidth))
    for name, made in (("a", one + other), ("b", other + one)):
        nysketch.save(made, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("weight", [1e-13, 1e13, -1.0])
def test_weights_that_sums_cannot_hold_are_refused(weight):
    table = pa.table({"a": np.arange(50.0), "w": np.full(50, weight)})
    with pytest.raises(InputError, match=r"weights must be 0, or between 1e-12 and 1e[+]12"):
        nysketch.sketch(table, landmarks=5, weights="w")


def test_a_given_basis_leaves_nothing_to_choose():
    with pytest.raises(UsageError, match="leave out their options"):
        nysketch.sketch(ROWS, basis=BASIS, landmarks=7)
