"""Second moments: sums over rows of products of two functions of the basis, as exact as all other sums."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch._support.exact import ExactSum
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.second_moments import SecondMoments, triangle_size
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.engines.threads import Threads
from nysketch.errors import InputError, OutputError, UsageError
from nysketch.kernels import Linear, Polynomial
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from nysketch.twosample.trimming import without
from tests import naive
from tests.kernels.kinds import KINDS, STRINGS, basis_at, fourier_basis, numbers, rows_for

ROWS = np.random.default_rng(0).standard_normal((900, 3)) * [1, 10, 1000] + [0, 1e5, -3]
BASIS = nysketch.Basis.fit(ROWS, landmarks=20)


def sketch(rows, basis=BASIS, **options):
    return nysketch.sketch(rows, basis=basis, threads=1, **{"blocks": 4, "second_moments": True, **options})


PARTS = [sketch(part) for part in np.array_split(ROWS, 4)]


def close(found, expected, tolerance=1e-14):
    """Errors are relative to the squares of the two functions: what rounding of their values can do."""
    lengths = np.sqrt(np.diag(expected))
    return bool((np.abs(found - expected) <= tolerance * np.outer(lengths, lengths)).all())


def same(a, b):
    return np.array_equal(a.sums.high, b.sums.high) and np.array_equal(a.sums.low, b.sums.low)


# ---- against the definition


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_kernel_against_the_definition(name):
    rows = rows_for(name, 60)
    basis = basis_at(KINDS[name](5), numbers(7, 5, seed=1)) if name not in STRINGS else None
    data = rows
    if basis is None:
        kernel = KINDS[name](1)
        data = pa.table({"t": pa.array(rows.tolist(), pa.string())})
        basis = nysketch.Basis.fit(data, landmarks=7, kernel="spectrum")
        basis = replace(basis, kernel=kernel)
    made = sketch(data, basis)
    expected = naive.second_moments(basis, rows)
    assert close(made.second_moments.matrix(), expected, 1e-12)
    assert made.second_moments.diagonal.tolist() == np.diag(made.second_moments.matrix()).tolist()


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("draw", ["gaussian", "adapted-radius"])
def test_fourier_features_against_the_definition(draw, precision):
    basis = fourier_basis(3, 12, draw)
    rows = numbers(100, 3)
    made = sketch(rows, basis, precision=precision)
    assert close(made.second_moments.matrix(), naive.second_moments(basis, rows), 1e-13)


def test_weights_and_dropped_rows_against_the_definition(tmp_path):
    random = np.random.default_rng(3)
    columns = {name: random.standard_normal(700) for name in ("a", "b")}
    columns["w"] = random.uniform(0, 3, 700)
    columns["w"][::7] = 0
    columns["a"][[5, 6, 300]] = np.nan
    columns["b"][650:] = np.inf
    columns["w"][100] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=150)
    kept = np.isfinite(np.array(list(columns.values()))).all(axis=0)
    rows = np.column_stack([columns["a"], columns["b"]])[kept]
    basis = nysketch.Basis.fit(rows, landmarks=9)
    basis = replace(basis, columns=(Column("a"), Column("b")))
    made = sketch(str(tmp_path / "rows.parquet"), basis, weights="w", nulls="drop")
    assert made.dropped_rows == 54
    expected = naive.second_moments(basis, rows, columns["w"][kept])
    assert close(made.second_moments.matrix(), expected)


def test_the_values_are_float64_whatever_the_precision():
    """float32 values, of which the kernel sums are made, would be off by 1e-7."""
    rows = numbers(2000, 4)
    basis = nysketch.Basis.fit(rows, landmarks=30)
    fast, slow = (sketch(rows, basis, precision=p) for p in ("float32", "float64"))
    assert fast.settings["precision"] == "float32"
    assert same(fast.second_moments, slow.second_moments)


def test_small_products_keep_their_digits():
    """Landmarks far from each other: nothing of their products would be left on the grid of float32."""
    basis = basis_at(nysketch.Basis.fit(numbers(50, 1), landmarks=2).kernel, np.array([[0.0], [1.0]]))
    bandwidth = basis.kernel.bandwidth
    basis = replace(basis, landmarks=np.array([[-5.0], [5.0]]) * bandwidth)
    made = sketch(np.full((3, 1), 0.3) * bandwidth, basis)
    expected = 3 * np.exp(-(5.3**2 + 4.7**2) / 2)
    assert 1e-11 < expected < 1e-9
    assert made.second_moments.matrix()[0, 1] == pytest.approx(expected, rel=1e-8)


def test_what_is_stored_is_the_triangle_row_by_row():
    m = 5
    packed = np.arange(triangle_size(m), dtype=np.float64)
    moments = SecondMoments(m, ExactSum(packed, np.zeros_like(packed)))
    expected = np.zeros((m, m))
    expected[np.triu_indices(m)] = packed
    expected += np.triu(expected, 1).T
    assert np.array_equal(moments.matrix(), expected)
    assert [row.tolist() for row in moments.rows()] == [expected[i, i:].tolist() for i in range(m)]
    assert moments.diagonal.tolist() == np.diag(expected).tolist()


# ---- laws


@given(st.permutations(range(4)))
def test_merging_in_any_order_gives_the_same_bits(order):
    assert sum(PARTS[i] for i in order) == sum(PARTS)


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.integers(0, 3), min_size=1, max_size=6)
)
def test_subtraction_undoes_addition_to_the_bit(added, other):
    a, b = sum(PARTS[i] for i in added), sum(PARTS[i] for i in other)
    assert a + b == b + a
    assert same(((a + b) - b).second_moments, a.second_moments)
    assert same(((a - b) + b).second_moments, a.second_moments)
    assert not (a - a).second_moments.matrix().any()


def test_cutting_the_rows_changes_nothing_beyond_rounding():
    whole, parts = sketch(ROWS), sum(PARTS)
    assert close(parts.second_moments.matrix(), whole.second_moments.matrix(), 1e-15)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moments")
    random = np.random.default_rng(2)
    for name, rows in (("a", 30_000), ("b", 20_000)):
        table = pa.table({f"x{i}": random.standard_normal(rows) for i in range(4)})
        table = table.append_column("w", pa.array(random.uniform(0, 2, rows)))
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=7001)
    return folder


OPTIONS = {
    "gaussian": {"landmarks": 40},
    "weighted": {"landmarks": 40, "weights": "w"},
    "polynomial": {"landmarks": 30, "kernel": "polynomial"},
    "fourier": {"landmarks": 30, "features": "fourier"},
    "without runs": {"landmarks": 30, "spans": 0},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_bytes_do_not_depend_on_threads_or_batches(files, tmp_path, name):
    options = {"second_moments": True} | OPTIONS[name]
    seen = set()
    for threads, batch_rows in ((1, 1000), (3, 1000), (3, 7777), (2, None)):
        made = nysketch.sketch(str(files / "a.parquet"), threads=threads, batch_rows=batch_rows, **options)
        nysketch.save(made, tmp_path / "s.nysk")
        seen.add((tmp_path / "s.nysk").read_bytes())
    assert len(seen) == 1


@pytest.mark.parametrize("name", OPTIONS)
def test_files_together_or_apart_give_the_same_bytes(files, tmp_path, name):
    options = {"second_moments": True} | OPTIONS[name]
    making = {key: options.pop(key) for key in ("landmarks", "kernel", "features") if key in options}
    a, b = (str(files / f"{name}.parquet") for name in "ab")
    basis = nysketch.Basis.fit(a, columns=[f"x{i}" for i in range(4)], **making)
    both = nysketch.sketch([a, b], basis=basis, **options)
    merged = nysketch.sketch(b, basis=basis, **options) + nysketch.sketch(a, basis=basis, **options)
    contents = []
    for made in (both, merged):
        nysketch.save(made, tmp_path / "s.nysk")
        contents.append((tmp_path / "s.nysk").read_bytes())
    assert contents[0] == contents[1]
    assert nysketch.load(tmp_path / "s.nysk") == both


def test_row_groups_of_another_size_change_nothing_beyond_rounding(files, tmp_path):
    a = files / "a.parquet"
    basis = nysketch.Basis.fit(str(a), landmarks=40)
    pq.write_table(pq.read_table(a), tmp_path / "other.parquet", row_group_size=1234)
    whole, other = (sketch(str(path), basis) for path in (a, tmp_path / "other.parquet"))
    assert close(other.second_moments.matrix(), whole.second_moments.matrix(), 3e-15)


def test_blocks_and_seed_do_not_show():
    first, second = sketch(ROWS, seed=1, blocks=3), sketch(ROWS, seed=2, blocks=50)
    assert same(first.second_moments, second.second_moments)


def test_nothing_else_changes_with_them():
    plain, more = sketch(ROWS, second_moments=False), sketch(ROWS)
    assert plain.second_moments is None
    arrays = more.tally.arrays()
    assert {name for name in arrays if name not in plain.tally.arrays()} <= {
        "moments.sums",
        "moments.sums.low",
    }
    assert all(np.array_equal(arrays[name], array) for name, array in plain.tally.arrays().items())


# ---- magnitudes


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e9, 1e30])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(1.0, 2, 0.0)], ids=str)
def test_values_of_any_magnitude_keep_their_accuracy(kernel, scale):
    rows = numbers(200, 3)
    basis = basis_at(kernel, numbers(6, 3, seed=1))
    small = sketch(rows, basis).second_moments.matrix()
    scaled = sketch(rows * scale, replace(basis, landmarks=basis.landmarks * scale))
    power = 8 if isinstance(kernel, Polynomial) else 4
    assert close(scaled.second_moments.matrix() / scale**power, small, 1e-12)


@pytest.mark.parametrize("value", [1e30, 1e60, 1e120])
@pytest.mark.parametrize("weights", [None, "w"])
def test_sums_that_cannot_be_kept_are_refused(weights, value):
    basis = replace(basis_at(Polynomial(1.0, 3, 0.0), numbers(6, 2)), columns=(Column("a"), Column("b")))
    table = pa.table({"a": [1.0, 2.0, value], "b": [1.0, 1.0, 1.0], "w": [1.0, 0.0, 2.0]})
    with pytest.raises(InputError, match=r"too large for the kernel.*`exclude`"):
        sketch(table, basis, weights=weights)


@pytest.mark.parametrize("weights", [None, "w"])
def test_sums_that_only_their_products_are_too_large_for_are_refused(weights):
    basis = replace(basis_at(Linear(), numbers(6, 2)), columns=(Column("a"), Column("b")))
    table = pa.table({"a": [1.0, 2.0, 1e11], "b": [1.0, 1.0, 1.0], "w": [1.0, 0.0, 2.0]})
    assert sketch(table, basis, weights=weights, second_moments=False).rows == 3
    with pytest.raises(InputError, match=r"too large for the kernel"):
        sketch(table, basis, weights=weights)


def test_a_row_far_out_is_still_held_by_a_kernel_without_a_bound():
    rows = np.vstack([numbers(100, 2), [[1000.0, 1000.0]]])
    basis = basis_at(Polynomial(1.0, 2, 1.0), numbers(6, 2, seed=1))
    made = sketch(rows, basis)
    assert close(made.second_moments.matrix(), naive.second_moments(basis, rows), 1e-12)


def test_what_cannot_be_held_is_told_apart():
    basis = basis_at(Linear(), numbers(3, 2))

    def no_rows(basis, weights=None):
        options = PassOptions(second_moments=True, weights=weights)
        return SecondMoments.zeros(basis, options).running(basis, options)

    running = no_rows(basis)
    assert running.holds(np.ones(6))
    for wrong in (np.nan, np.inf, -np.inf, 1e300):
        assert not running.holds(np.array([1.0, wrong, 1.0, 1.0, 1.0, 1.0]))
    huge = replace(basis, landmarks=basis.landmarks * 1e140)
    assert not no_rows(huge).holds(np.zeros(6))
    tiny = replace(basis, landmarks=basis.landmarks * 1e-140)
    running = no_rows(tiny, weights="w")
    running.add(np.zeros(6))
    assert running.snapshot().sums.high.tolist() == [0.0] * 6


# ---- what else is done with sketches


def test_a_sum_with_a_sketch_without_them_has_none(tmp_path, run_cli):
    plain, more = sketch(ROWS[:400], second_moments=False), sketch(ROWS[400:])
    assert plain + more == more + plain
    assert (plain + more).second_moments is None
    assert (more - plain).second_moments is None
    nysketch.save(plain, tmp_path / "plain.nysk")
    nysketch.save(more, tmp_path / "more.nysk")
    result = run_cli("merge", "plain.nysk", "more.nysk", "-o", "both.nysk", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "plain.nysk has no second moments: neither will both.nysk" in result.stderr
    assert nysketch.load(tmp_path / "both.nysk") == plain + more


def test_blocks_that_are_left_out_take_them_along():
    assert without(sketch(ROWS), [0], consecutive=False).second_moments is None


def test_rows_that_are_added_by_an_estimator_have_them_too():
    learned = nysketch.SketchedKMeans(2, random_state=0).fit_sketch(sketch(ROWS[:500]))
    learned.partial_fit(ROWS[500:])
    expected = sketch(ROWS[:500]).second_moments + sketch(ROWS[500:]).second_moments
    assert same(learned.sketch_.second_moments, expected)


def test_they_are_exported(tmp_path, run_cli):
    made = sketch(ROWS)
    nysketch.save(made, tmp_path / "s.nysk")
    assert run_cli("export", "s.nysk", "-o", "s.npz", cwd=tmp_path).returncode == 0
    with np.load(tmp_path / "s.npz") as arrays:
        assert np.array_equal(arrays["second_moments"], made.second_moments.matrix())


@pytest.mark.slow
def test_the_command_line(files, tmp_path, run_cli):
    command = ("sketch", files / "a.parquet", "--exclude", "w", "-m", "25")
    planned = [
        json.loads(run_cli(*command, *more, "-o", "s.nysk", "--dry-run", "--json", cwd=tmp_path).stdout)
        for more in ((), ("--second-moments",))
    ]
    for name in ("memory_bytes", "sketch_bytes"):
        assert planned[0][name] < planned[1][name]
    result = run_cli(*command, "--second-moments", "-o", "s.nysk", "-q", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    result = run_cli(*command, "-o", "plain.nysk", "-q", cwd=tmp_path)
    assert result.returncode == 0
    made = nysketch.load(tmp_path / "s.nysk")
    assert made.settings["second_moments"] is True
    rows = np.column_stack([pq.read_table(files / "a.parquet")[f"x{i}"] for i in range(4)])
    values = made.basis.values(rows)
    assert close(made.second_moments.matrix(), values.T @ values)
    for name, there in (("s.nysk", True), ("plain.nysk", False)):
        facts = json.loads(run_cli("info", name, "--json", cwd=tmp_path).stdout)
        assert facts["second_moments"] is there
        assert ("second moments  25 × 25" in run_cli("info", name, cwd=tmp_path).stdout) is there
    nysketch.save(made - made, tmp_path / "nothing.nysk")
    result = run_cli("subtract", "s.nysk", "s.nysk", "-o", "none.nysk", cwd=tmp_path)
    assert result.returncode == 0
    assert not nysketch.load(tmp_path / "none.nysk").second_moments.matrix().any()


def run(table, output, *, second_moments=True, **saving):
    return sketch_to_file(
        open_source(str(table), exclude=["w"]),
        output,
        BasisOptions(m=10),
        PassOptions(blocks=4, second_moments=second_moments),
        saving=Saving(**saving),
        execution=Execution(Threads(1)),
    )


def test_an_output_is_up_to_date_only_with_the_same_flag(files, tmp_path):
    table = files / "a.parquet"
    for there in (True, False):
        output = tmp_path / f"{there}.nysk"
        run(table, output, second_moments=there)
        assert run(table, output, second_moments=there, if_exists="skip").skipped
        with pytest.raises(OutputError, match="options differ"):
            run(table, output, second_moments=not there, if_exists="skip")


def test_an_output_from_before_there_was_the_flag_is_up_to_date_without_it(files, tmp_path):
    table, output = files / "a.parquet", tmp_path / "s.nysk"
    made = run(table, output, second_moments=False).sketch
    settings = {name: value for name, value in made.settings.items() if name != "second_moments"}
    nysketch.save(replace(made, settings=settings), output)
    assert run(table, output, second_moments=False, if_exists="skip").skipped
    with pytest.raises(OutputError, match="options differ"):
        run(table, output, if_exists="skip")


def test_moments_that_rows_cannot_have_are_not_saved(tmp_path):
    made = sketch(ROWS)
    wrong = replace(made, tally=made.tally.replacing(-made.second_moments))
    with pytest.raises(UsageError, match="second moments are impossible"):
        nysketch.save(wrong, tmp_path / "s.nysk")
