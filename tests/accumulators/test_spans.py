"""Runs of consecutive rows: against the slow twin, and the algebra of their sums."""

import hashlib
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch._support.exact import ExactSum
from nysketch.accumulators.grids import GRID_SPANS
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.span_addresses import COARSEST, FINEST, coarser, level_of_rows, place_of_input
from nysketch.accumulators.spans import Spans
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import InputError, OutputError, UsageError
from nysketch.kernels import GaussianSum, Linear, Polynomial
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests import naive
from tests.kernels.kinds import NUMERIC, basis_at


def sketch(rows, basis, **options):
    return nysketch.sketch(rows, basis=basis, **{"threads": 1, "blocks": 4, **options})


def same(one, other):
    """Whether runs are the same to the bit."""
    mine, theirs = one.arrays(), other.arrays()
    return (
        one.describe() == other.describe()
        and mine.keys() == theirs.keys()
        and all(np.array_equal(array, theirs[name]) for name, array in mine.items())
    )


@pytest.fixture(params=["short runs", "long runs"])
def chunks(request, monkeypatch):
    """Chunks that have many runs, and chunks that are within one."""
    if request.param == "long runs":
        monkeypatch.setattr("nysketch.passes.chunks.chunk_rows_for", lambda d: 16)


# ---- against the slow twin -------------------------------------------------------------------------


def rows_of(data, basis, *, weights=None, **options):
    """All rows of a source as the slow twin wants them."""
    source = open_source(data, weights=weights, like=basis.columns, **options)
    found = []
    for fragment in source.fragments():
        number = fragment.row_in_input
        for batch in source.read(fragment, 10**6):
            columns = [np.asarray(column) for column in batch.values]
            for i in range(len(batch)):
                row = columns[0][i : i + 1] if basis.text else np.hstack([c[i] for c in columns])[None]
                weight = 1.0 if batch.weights is None else float(batch.weights[i])
                kept = row[0] is not None if basis.text else np.isfinite(row).all() and np.isfinite(weight)
                found.append((fragment.input_key, number, weight, basis.values(row)[0] if kept else None))
                number += 1
    return found


def require_right(made, rows, tolerance):
    """Compare the runs of a sketch with those of the slow twin."""
    runs = made.spans
    level, expected = naive.spans(rows, runs.capacity)
    assert runs.level == level
    assert runs.where.tolist() == [list(where) for where, *_ in expected]
    assert runs.rows.tolist() == [count for _, count, _, _ in expected]
    assert np.allclose(runs.weight, [weight for _, _, weight, _ in expected], rtol=1e-12)
    sums = np.array([np.broadcast_to(total, made.basis.m) for *_, total in expected])
    typical = (1 + runs.weight[:, None]) * made.basis.magnitudes()
    assert (np.abs(runs.sums.high - sums) <= tolerance * (typical + np.abs(sums))).all()
    assert runs.rows.sum() == made.rows


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", NUMERIC)
def test_runs_of_every_kernel_are_those_of_the_slow_twin(kind, precision, chunks):
    random = np.random.default_rng(0)
    rows = random.standard_normal((333, 4)) + np.linspace(-2, 2, 333)[:, None]
    basis = basis_at(NUMERIC[kind](4), rows[::20].copy(), center=0.3, scale=1.7)
    made = sketch(rows, basis, precision=precision, spans=10)
    assert (made.spans.level, len(made.spans)) == (6, 6)
    require_right(made, rows_of(rows, basis), 1e-5 if precision == "float32" else 1e-12)


def table_of(seed, rows):
    random = np.random.default_rng(seed)
    x, w = random.standard_normal((rows, 3)), random.uniform(0.01, 100, rows)
    x[random.random(rows) < 0.1, 1] = np.nan
    x[40:64] = np.nan  # at the finest level, a whole run
    w[::7] = 0.0
    return pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "w": w})


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Files of different sizes, with row groups of their own, and rows to be dropped."""
    folder = tmp_path_factory.mktemp("days")
    for i, rows in enumerate((700, 90, 1500, 16, 333)):
        pq.write_table(table_of(i, rows), folder / f"{i}.parquet", row_group_size=97)
    return sorted(folder.iterdir())


NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def basis():
    rows = np.random.default_rng(1).standard_normal((500, 3))
    return Basis.fit(pa.table(dict(zip(NAMES, rows.T, strict=True))), landmarks=20)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("capacity", [1, 3, 5, 7, 64, 1000])
def test_runs_of_files_are_those_of_the_slow_twin(days, basis, weights, capacity, chunks):
    made = sketch(days, basis, nulls="drop", weights=weights, spans=capacity)
    assert made.dropped_rows
    require_right(made, rows_of(days, basis, weights=weights), 1e-5)
    # Whole inputs are put together where there are more of them than runs.
    assert (made.spans.level > 48) == (capacity < 5)
    assert (made.spans.rows_per_span is None) == (made.spans.level > 48)
    assert np.allclose(made.spans.sums.high.sum(axis=0), made.kernel_sums, rtol=1e-6)


def test_a_run_is_there_once_any_of_its_rows_was_read(days, basis):
    runs = sketch(days[0], basis, nulls="drop").spans
    assert runs.level == FINEST and len(runs) == 44  # of 16 rows, and one of 12
    assert runs.rows[3] == 0 and not runs.sums.high[3].any()


def test_runs_of_text_and_of_fourier_features(chunks):
    words = [*(f"{'abcde'[i % 5]}{i} {'xyz' * (i % 3)}" for i in range(200)), None, *["late"] * 99]
    basis = Basis.fit(pa.table({"s": [word for word in words if word]}), landmarks=9, kernel="spectrum")
    made = sketch(pa.table({"s": words}), basis, nulls="drop", spans=10)
    require_right(made, rows_of(pa.table({"s": words}), basis), 1e-6)
    rows = np.random.default_rng(2).standard_normal((500, 2)) * np.linspace(1, 2, 500)[:, None]
    fourier = Basis.fit(rows, landmarks=12, features="fourier")
    require_right(sketch(rows, fourier, spans=5), rows_of(rows, fourier), 1e-6)


def test_runs_of_a_stream_get_longer_on_the_way(monkeypatch, basis):
    from nysketch.sources import arrow

    monkeypatch.setattr(arrow, "held_rows_for", lambda d, *, text: 100)
    random = np.random.default_rng(3)
    rows = random.standard_normal((1234, 3))
    batches = [pa.table(dict(zip(NAMES, part.T, strict=True))) for part in np.array_split(rows, 9)]
    for capacity in (4, 64):
        stream = pa.RecordBatchReader.from_batches(
            batches[0].schema, [batch for table in batches for batch in table.to_batches()]
        )
        made = sketch(stream, basis, spans=capacity, threads=3)
        require_right(made, rows_of(pa.concat_tables(batches), basis), 1e-5)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 3000), capacity=st.integers(1, 70), seed=st.integers(0, 100))
def test_any_number_of_rows_in_any_number_of_runs(n, capacity, seed):
    rows = np.random.default_rng(seed).standard_normal((n, 2))
    made = sketch(rows, BASIS, spans=capacity)
    values = BASIS.values(rows)
    level = level_of_rows(n, capacity)
    assert made.spans.level == level
    expected = np.add.reduceat(values, np.arange(0, n, 1 << level), axis=0)
    assert len(expected) == len(made.spans) <= capacity
    assert np.allclose(made.spans.sums.high, expected, rtol=1e-5, atol=2.0**GRID_SPANS)


# ---- addresses -------------------------------------------------------------------------------------


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**48 - 1), st.data())
def test_coarser_addresses_do_not_depend_on_the_way(key, row, data):
    first, second = sorted(data.draw(st.lists(st.integers(FINEST, COARSEST), min_size=2, max_size=2)))
    finest = np.array([naive.address(key, row, FINEST)])
    assert finest[0, 0] == place_of_input(key)
    once = coarser(finest, FINEST, second)
    assert np.array_equal(coarser(coarser(finest, FINEST, first), first, second), once)
    assert tuple(once[0]) == naive.address(key, row, second)


def test_all_rows_of_all_inputs_are_in_one_run_at_last():
    where = np.array([[2**62 - 1, 2**44 - 1], [0, 0]])
    assert np.array_equal(coarser(where, FINEST, COARSEST), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("rows", "capacity", "level"), [(0, 1, 4), (1024, 64, 4), (1025, 64, 5), (17, 1, 5), (2**48, 1, 48)]
)
def test_the_level_of_one_input(rows, capacity, level):
    assert level_of_rows(rows, capacity) == level


# ---- laws ------------------------------------------------------------------------------------------

RNG = np.random.default_rng(4)
ROWS = RNG.standard_normal((1000, 2))
BASIS = Basis.fit(ROWS, landmarks=15)

SOME_ROWS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 5, 2**63, 2**64 - 1]),  # inputs
        st.one_of(st.integers(0, 300), st.integers(0, 2**48 - 1)),
        st.integers(0, 5),
        st.integers(-(2**40), 2**40),
    ),
    max_size=40,
    unique_by=lambda row: row[:2],
)


def runs_of(rows, capacity, *, weighted=True):
    """The runs of some rows, from the slow twin."""
    level, found = naive.spans(
        [(key, number, weight, np.array([value * 2.0**-30, 1.0])) for key, number, weight, value in rows],
        capacity,
    )
    if not found:
        return Spans.none(capacity, 2, weighted=weighted)
    where, counts, weights, sums = zip(*found, strict=True)
    weights = ExactSum.of(np.array(weights), grid_exponent=-64) if weighted else None
    return Spans(
        capacity,
        level,
        np.array(where),
        np.array(counts),
        weights,
        ExactSum.of(np.array(sums), grid_exponent=-64),
    )


@given(SOME_ROWS, st.lists(st.integers(0, 2), min_size=40, max_size=40), st.integers(1, 12), st.booleans())
def test_runs_add_in_any_order_and_have_the_level_that_the_rows_decide(rows, sides, capacity, weighted):
    a, b, c = (
        runs_of(
            [row for row, side in zip(rows, sides, strict=False) if side == i], capacity, weighted=weighted
        )
        for i in range(3)
    )
    assert same(a + b, b + a)
    assert same((a + b) + c, a + (b + c))
    assert same(a + b + c, runs_of(rows, capacity, weighted=weighted))
    nothing = Spans.none(capacity, 2, weighted=weighted)
    assert same(a + nothing, a) and same(nothing + a, a)


@given(SOME_ROWS, SOME_ROWS, st.integers(1, 12))
def test_subtraction_undoes_addition_but_for_the_level(rows, more, capacity):
    seen = {row[:2] for row in rows}
    a, b = (runs_of(part, capacity) for part in (rows, [row for row in more if row[:2] not in seen]))
    back = (a + b) - b
    assert back.level == (a + b).level
    expected = a.coarsened(back.level)
    left = (expected.rows != 0) | expected.sums.high.any(axis=1)  # all have rows
    assert left.all() and same(back, expected)
    gone = (a + b) - a - b
    assert len(gone) == 0


@given(SOME_ROWS, st.integers(1, 12), st.integers(1, 12))
def test_of_two_capacities_the_smaller_is_what_a_sum_has(rows, one, other):
    a, b = runs_of(rows[::2], one), runs_of(rows[1::2], other)
    assert same(a + b, runs_of(rows, min(one, other)))


def test_runs_cannot_be_made_finer():
    runs = runs_of([(0, 0, 1, 1), (1, 99, 1, 1)], 5)
    assert runs.coarsened(FINEST) is runs
    assert len(runs.coarsened(COARSEST)) == 1
    for level in (FINEST, COARSEST + 1):
        with pytest.raises(ValueError, match="level must be between"):
            runs.coarsened(10).coarsened(level)


def bits(made, path):
    nysketch.save(made, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("capacity", [2, 6, 64])
def test_files_together_or_apart_have_the_same_runs_to_the_bit(
    days, basis, tmp_path, weights, capacity, chunks
):
    options = {"nulls": "drop", "weights": weights, "spans": capacity}
    together = sketch(days, basis, **options)
    apart = [sketch(day, basis, **options) for day in days]
    assert same(together.spans, sum(apart).spans)
    assert sum(apart) == together == apart[3] + (apart[0] + (apart[4] + (apart[2] + apart[1])))
    assert bits(sum(apart), tmp_path / "a") == bits(together, tmp_path / "b")
    rest = together - apart[2]
    expected = sum(apart[:2]) + sum(apart[3:])
    assert rest.spans.level == together.spans.level
    left = expected.spans.coarsened(rest.spans.level)
    some = left.rows > 0  # those of dropped rows only are gone
    assert np.array_equal(rest.spans.where, left.where[some])
    assert np.array_equal(rest.spans.sums.high, left.sums.high[some])
    assert np.array_equal(rest.spans.rows, left.rows[some])
    nysketch.save(rest, tmp_path / "rest.nysk")
    assert same(nysketch.load(tmp_path / "rest.nysk").spans, rest.spans)


def test_a_file_that_is_given_twice_has_the_runs_of_one(days, basis, tmp_path):
    shutil.copy(days[0], tmp_path / "again.parquet")
    twice = sketch([days[0], tmp_path / "again.parquet"], basis, nulls="drop", spans=10)
    once = sketch(days[0], basis, nulls="drop", spans=10)
    assert same(twice.spans, (once + once).spans)
    assert twice.spans.level == once.spans.level
    assert np.array_equal(twice.spans.rows, 2 * once.spans.rows)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"precision": "float64", "spans": 5}])
def test_neither_threads_nor_batches_show(days, basis, tmp_path, options, chunks):
    seen = {
        bits(sketch(days, basis, nulls="drop", threads=threads, batch_rows=batch, **options), tmp_path / "s")
        for threads, batch in ((1, None), (4, 10), (3, 333), (2, 1))
    }
    assert len(seen) == 1


def test_row_groups_of_another_size_change_nothing_but_last_digits(tmp_path, basis, chunks):
    table = table_of(7, 2000)
    found = []
    for size in (2000, 300, 7):
        path = tmp_path / f"{size}.parquet"
        pq.write_table(table, path, row_group_size=size)
        found.append(sketch(path, basis, nulls="drop", spans=20).spans)
    for runs in found[1:]:
        assert np.array_equal(runs.rows, found[0].rows)
        # Every row group of a run is rounded to the grid once.
        assert (np.abs(runs.sums.high - found[0].sums.high) <= 16 * 2.0**GRID_SPANS).all()
        assert runs.where[0, 0] != found[0].where[0, 0]  # another file


def test_rows_from_another_file_leave_runs_that_are_known(tmp_path, basis):
    january, february = table_of(8, 800), table_of(9, 900)
    pq.write_table(pa.concat_tables([january, february]), tmp_path / "year.parquet")
    pq.write_table(january, tmp_path / "january.parquet")
    year, part = (
        sketch(tmp_path / f"{name}.parquet", basis, nulls="drop", blocks=1) for name in ("year", "january")
    )
    left = year - part
    assert left.spans.level > 48 and left.spans.rows.tolist() == [left.rows]
    assert np.allclose(left.spans.sums.high[0], left.kernel_sums, atol=1e-5)
    nysketch.save(left, tmp_path / "left.nysk")
    nothing = left - sketch(february, basis, nulls="drop", blocks=1)
    assert nothing.rows == 0 and not nothing.spans.rows.any()
    nysketch.save(nothing, tmp_path / "nothing.nysk")
    impossible = part - year
    assert (impossible.spans.rows < 0).all()
    with pytest.raises(UsageError, match="cannot be saved"):
        nysketch.save(impossible, tmp_path / "impossible.nysk")


def test_sums_of_runs_are_whole_grains_and_need_no_low_part():
    made = sketch(ROWS, BASIS)
    grains = made.spans.sums.high * 2.0**-GRID_SPANS
    assert np.array_equal(grains, np.rint(grains))
    assert "runs.sums.low" not in made.tally.arrays()
    assert sketch(ROWS, BASIS, precision="float64").spans.sums.high[0, 0] * 2.0**-GRID_SPANS % 1


# ---- huge rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", [Polynomial(1.0, 2, 1.0), Linear(), GaussianSum((1.0, 3.0))])
def test_a_huge_row_spoils_no_run_but_its_own(kernel, precision, chunks):
    rows = np.random.default_rng(5).standard_normal((600, 2))
    basis = basis_at(kernel, rows[:12].copy())
    clean = sketch(rows, basis, precision=precision, spans=10)
    rows[300] = 3e5
    spoilt = sketch(rows, basis, precision=precision, spans=10)
    others = np.arange(len(clean.spans)) != 300 >> clean.spans.level
    assert np.array_equal(spoilt.spans.sums.high[others], clean.spans.sums.high[others])
    assert np.array_equal(spoilt.spans.sums.low[others], clean.spans.sums.low[others])
    assert (spoilt.spans.sums.high[~others] != clean.spans.sums.high[~others]).any()


@pytest.mark.parametrize("size", [1e60, 1e300])
@pytest.mark.parametrize("options", [{}, {"precision": "float64"}, {"weights": "w"}])
def test_huge_rows_of_both_signs_are_refused_although_they_cancel(options, size, chunks):
    rows = np.ones((200, 1))
    rows[10], rows[100] = size, -size
    table = pa.table({"x": rows[:, 0], "w": np.ones(200)})
    basis = Basis.fit(pa.table({"x": np.linspace(1, 2, 50)}), landmarks=2, kernel="linear", scale="none")
    if "weights" not in options:
        table = table.drop(["w"])
    with pytest.raises(InputError, match="too large for the kernel"):
        sketch(table, basis, blocks=1, spans=10, **options)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("runs", [1, 10])
def test_infinite_sums_of_both_signs_are_refused(precision, runs, chunks):
    rows = np.ones((200, 1))
    rows[10::2], rows[11::2] = 1e140, -1e140
    basis = basis_at(Polynomial(1.0, 3, 1.0), np.array([[1.0], [2.0]]))
    with pytest.raises(InputError, match="too large for the kernel"):
        sketch(rows, basis, precision=precision, spans=runs)


# ---- passes and files ------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [-1, 65_537])
def test_impossible_numbers_of_runs_are_refused(runs):
    with pytest.raises(UsageError, match="`spans` must be between 0 and 65536"):
        sketch(ROWS, BASIS, spans=runs)


def test_a_sketch_without_runs_has_none_and_neither_has_a_sum_with_it(tmp_path):
    without, made = sketch(ROWS, BASIS, spans=0), sketch(ROWS, BASIS)
    assert without.spans is None and not any("runs" in name for name in without.tally.arrays())
    assert (without + made).spans is None and (made - without).spans is None
    nysketch.save(without, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk").spans is None
    # Runs that are shorter than chunks leave the sums of blocks as they are.
    assert np.array_equal(without.block_kernel_sums, made.block_kernel_sums)


def run(table, output, options, **saving):
    return sketch_to_file(
        open_source(table, columns=NAMES),
        output,
        BasisOptions(m=20),
        options,
        saving=Saving(**saving),
        execution=Execution(Threads(1)),
    )


def test_skip_looks_at_the_wishes_for_runs(days, tmp_path):
    made, output = PassOptions(blocks=4, nulls="drop", runs=0), tmp_path / "s.nysk"
    before = run(days, output, made).sketch
    assert run(days, output, made, if_exists="skip").skipped
    del before.settings["runs"]  # as in files from before there were runs
    nysketch.save(before, output)
    assert run(days, output, made, if_exists="skip").skipped
    with pytest.raises(OutputError, match="options differ"):
        run(days, output, PassOptions(blocks=4, nulls="drop"), if_exists="skip")


@pytest.mark.slow
def test_the_command_line_keeps_shows_and_merges_runs(run_cli, days, tmp_path):
    def do(*args):
        result = run_cli(*args)
        assert result.returncode == 0, result.stderr
        return result

    a, b, c = (tmp_path / name for name in ("a.nysk", "b.nysk", "c.nysk"))
    more = ("--nulls", "drop")
    do("sketch", days[0], *more, "--exclude", "w", "-m", 20, "--runs", 30, "-o", a)
    do("sketch", days[1], *more, "--basis", a, "--runs", 0, "-o", b)
    do("sketch", *days[1:], *more, "--basis", a, "--runs", 3, "-o", c)
    facts = [json.loads(do("info", path, "--json").stdout)["runs"] for path in (a, b, c)]
    assert facts[0] == {"count": 22, "level": 5, "rows_per_run": 32}
    assert facts[1] is None
    assert facts[2]["rows_per_run"] is None and facts[2]["level"] > 48
    shown = [do("info", path).stdout for path in (a, b, c)]
    assert "22 of up to 32 consecutive rows" in shown[0]
    assert "\nruns " not in shown[1]
    assert "each with all rows of one or more inputs" in shown[2]
    merged = do("merge", a, b, "-o", tmp_path / "m.nysk")
    assert f"{b} has no spans of rows: neither will" in merged.stderr
    assert "no runs" not in do("merge", a, c, "-o", tmp_path / "n.nysk").stderr
    do("subtract", tmp_path / "n.nysk", c, "-o", tmp_path / "rest.nysk")
    do("verify", a, b, c, tmp_path / "rest.nysk")
    refused = run_cli("sketch", days[0], "--runs", 10**6, "-o", tmp_path / "x.nysk")
    assert refused.returncode == 2 and "--spans must be" in refused.stderr
