"""Row samples: merging, subtracting and cutting do not show; every row has the same chance."""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import nysketch
from nysketch.accumulators.sample import LARGEST_KEY, RowSample, default_sample_rows
from nysketch.basis.base import Basis
from nysketch.sketches.describe import describe
from nysketch.sources.open import open_source
from tests.helpers import ARCHIVES

# ---- the algebra, on made-up keys ------------------------------------------------------------------

KINDS = ("numbers", "weighted", "text")
keys_of_a_part = st.lists(st.integers(1, 80), max_size=25, unique=True)
capacities = st.integers(0, 12)
parts = st.lists(st.tuples(keys_of_a_part, capacities), min_size=1, max_size=5)


def sample_of(keys, capacity, kind="numbers"):
    """The sample of rows with these keys; what is in a row is told by its key."""
    keys = np.array(keys, np.int64)
    rows = np.column_stack([keys, -2.0 * keys])
    if kind == "text":
        rows = np.array([f"row {key}" for key in keys], object)
    weights = 0.5 * keys if kind == "weighted" else None
    if not len(keys):
        return RowSample.empty(capacity, 2, text=kind == "text", weighted=kind == "weighted")
    return RowSample.of(keys, rows, weights, bound=LARGEST_KEY, capacity=capacity)


def assert_same(a, b):
    assert (a.bound, a.capacity) == (b.bound, b.capacity)
    assert a.keys.tolist() == b.keys.tolist()
    assert a.rows.dtype == b.rows.dtype and np.array_equal(a.rows, b.rows)
    assert (a.weights is None) == (b.weights is None)
    assert a.weights is None or np.array_equal(a.weights, b.weights)


# Found with these laws: RowSample._cut replaces the bound by the key of the first row beyond the capacity,
# even where that is larger than the bound (of the union of many rows and few). It must only ever fall.


@pytest.mark.parametrize("kind", KINDS)
@given(parts, st.randoms(use_true_random=False))
def test_the_sample_of_the_union_is_the_merge_of_samples_in_any_order_and_grouping(kind, parts, random):
    union = [key for keys, _ in parts for key in keys]
    expected = sample_of(union, min(capacity for _, capacity in parts), kind)
    left = [sample_of(keys, capacity, kind) for keys, capacity in parts]
    while len(left) > 1:
        a, b = (left.pop(random.randrange(len(left))) for _ in range(2))
        left.append(a + b)
    assert_same(left[0], expected)


@pytest.mark.parametrize("kind", KINDS)
@given(keys_of_a_part, keys_of_a_part, capacities, capacities, capacities)
def test_what_is_left_of_a_difference_is_a_sample_of_the_rest(kind, a, b, first, second, third):
    """Also if what is subtracted was sampled otherwise than what had been added."""
    left = (sample_of(a, first, kind) + sample_of(b, second, kind)) - sample_of(b, third, kind)
    assert left.capacity == min(first, second, third)
    assert len(left) <= left.capacity
    kept = sorted(key for key in a if key <= left.bound)
    assert_same(left, RowSample(*_columns(kept, kind), left.bound, left.capacity))


def _columns(keys, kind):
    made = sample_of(keys, len(keys) + 1, kind)
    return made.keys, made.rows, made.weights


@given(keys_of_a_part, keys_of_a_part, st.integers(1, 12))
def test_no_more_is_lost_by_a_difference_than_the_bound_tells(a, b, capacity):
    both = sample_of(a, capacity) + sample_of(b, capacity)
    left = both - sample_of(b, capacity)
    assert left.bound == both.bound


@given(keys_of_a_part, st.integers(1, 12))
def test_rows_counted_twice_and_subtracted_once_stay_once(keys, capacity):
    once = sample_of(keys, capacity)
    twice = once + once
    left = twice - once
    assert left.keys.tolist() == sorted(key for key in keys if key <= twice.bound)
    assert len(left - once) == 0


@given(parts)
def test_the_bound_never_rises(parts):
    total = sample_of(*parts[0])
    for keys, capacity in parts[1:]:
        more = sample_of(keys, capacity)
        assert (total + more).bound <= min(total.bound, more.bound)
        assert (total - more).bound <= min(total.bound, more.bound)
        total = total + more


def test_a_few_rows_added_to_many_do_not_raise_the_bound():
    """The smallest case: row 3 is gone, so nothing is known of keys from 3 on."""
    many, few = sample_of([1, 2, 3], 2), sample_of([10, 20], 2)
    assert (many + few).bound == many.bound == 2


def test_a_part_with_a_smaller_sample_leaves_none_of_its_rows_behind():
    a, b = range(10, 20), range(1, 10)
    left = sample_of([*a, *b], 100) - sample_of(b, 3)
    assert set(left.keys.tolist()) <= set(a)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capacity", [0, 3, 100])
def test_samples_are_stored_and_read_to_the_bit(kind, capacity):
    made = sample_of([5, 3, 9, 4], capacity, kind)
    options = {"text": kind == "text", "weighted": kind == "weighted"}
    assert_same(RowSample.from_arrays(made.limits(), made.arrays(), 2, **options), made)


def test_wide_rows_have_a_smaller_default():
    assert [default_sample_rows(d) for d in (1, 1000, 10**4, 10**7)] == [2000, 2000, 209, 200]


# ---- the product, against a slow twin --------------------------------------------------------------


def key_of_row(input_key, row):
    """The key of a row, with Python's integers."""
    mask = 2**64 - 1

    def spread(word):
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        return word ^ (word >> 31)

    word = spread((input_key + (row + 1) * 0x9E3779B97F4A7C15) & mask)
    return spread(word ^ 0x5DEECE66D1CE4E5B) >> 1


def naive_sample(paths, capacity):
    """Bound, and file and row number of every row of the sample, in the order of their keys."""
    found = []
    for path in paths:
        source = open_source(path)
        (input_key,) = {fragment.input_key for fragment in source.fragments()}
        found += [(key_of_row(input_key, row), Path(path).name, row) for row in range(source.rows)]
    found.sort()
    bound = found[capacity][0] - 1 if len(found) > capacity else LARGEST_KEY
    return bound, [(name, row) for key, name, row in found if key <= bound]


SIZES = {"a": 40, "b": 7000, "c": 300, "d": 2500, "e": 5, "f": 3000}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of very different sizes; x tells the file and the row."""
    folder = tmp_path_factory.mktemp("files")
    for number, (name, rows) in enumerate(SIZES.items()):
        x = np.arange(rows) + 100_000.0 * number
        y = np.random.default_rng([1, number]).standard_normal(rows)
        table = pa.table({"x": x, "y": y, "w": 1.0 + (x % 7)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=700)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def basis(files):
    return Basis.fit(files, columns=["x", "y"], landmarks=10, scale="none")


def numbers_of(sketch):
    """The rows of the sample in the data's units, where nothing was scaled."""
    return sketch.tally.sample.scaled(sketch.basis.middle)


def rows_of(sketch):
    """File and row number of the rows of a sample."""
    numbers = numbers_of(sketch)[:, 0].astype(int)
    return [(f"{'abcdef'[n // 100_000]}.parquet", n % 100_000) for n in numbers.tolist()]


def bits(sketch, folder):
    path = folder / "bits.nysk"
    nysketch.save(sketch, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 30, 200, 2000, 50_000])
@pytest.mark.parametrize(("threads", "batch_rows"), [(1, None), (2, 64), (3, 999), (4, 7)])
def test_the_sample_of_a_pass_is_that_of_the_slow_twin(files, basis, capacity, threads, batch_rows):
    made = nysketch.sketch(
        files, basis=basis, sample_rows=capacity, threads=threads, batch_rows=batch_rows, blocks=2
    )
    bound, expected = naive_sample(files, capacity)
    assert rows_of(made) == expected
    assert made.tally.sample.bound == bound


@pytest.mark.parametrize("options", [{}, {"weights": "w"}], ids=["plain", "weighted"])
@pytest.mark.parametrize("capacity", [None, 100])
def test_files_together_or_apart_in_any_order_give_the_same_bytes(files, basis, tmp_path, options, capacity):
    options = options | {"basis": basis, "sample_rows": capacity, "blocks": 2}
    together = bits(nysketch.sketch(files, threads=1, **options), tmp_path)
    apart = [nysketch.sketch(file, **options) for file in files]
    for seed in range(12):
        left, random = list(apart), np.random.default_rng(seed)
        while len(left) > 1:
            a, b = (left.pop(random.integers(len(left))) for _ in range(2))
            left.append(a + b)
        assert bits(left[0], tmp_path) == together


def test_threads_and_batches_do_not_change_the_bytes(files, basis, tmp_path):
    seen = {
        bits(
            nysketch.sketch(files, basis=basis, sample_rows=50, threads=threads, batch_rows=batch_rows),
            tmp_path,
        )
        for threads in (1, 2, 3, 4)
        for batch_rows in (17, 500, None)
    }
    assert len(seen) == 1


def test_a_file_taken_out_again_leaves_a_sample_of_the_others(files, basis):
    whole = nysketch.sketch(files, basis=basis, sample_rows=200)
    for i, file in enumerate(files):
        left = whole - nysketch.sketch(file, basis=basis, sample_rows=200)
        others = [other for other in files if other != file]
        _, all_rows = naive_sample(others, 10**6)
        expected = nysketch.sketch(others, basis=basis, sample_rows=10**6).tally.sample
        kept = int(np.searchsorted(expected.keys, whole.tally.sample.bound, side="right"))
        assert left.tally.sample.bound == whole.tally.sample.bound
        assert rows_of(left) == all_rows[:kept]
        assert i or kept  # something is left, certainly without the smallest file


def test_weights_stay_with_their_rows(files, basis):
    made = nysketch.sketch(files, basis=basis, weights="w", sample_rows=300)
    assert np.array_equal(made.tally.sample.weights, 1.0 + numbers_of(made)[:, 0] % 7)


def test_the_same_file_twice_and_subtracted_once(files, basis):
    once = nysketch.sketch(files[1], basis=basis, sample_rows=400)
    both = once + once
    assert sorted(rows_of(both)) == sorted(2 * sorted(set(rows_of(both))))
    left = both - once
    assert rows_of(left) == [row for row in rows_of(once) if row in set(rows_of(both))]
    assert 190 <= len(left.tally.sample) <= 200
    assert len((left - once).tally.sample) == 0


def test_dropped_rows_are_not_sampled(tmp_path):
    x = np.arange(3000.0)
    x[::3] = np.nan
    pq.write_table(pa.table({"x": x}), tmp_path / "x.parquet", row_group_size=500)
    made = nysketch.sketch(
        tmp_path / "x.parquet", columns="x", landmarks=5, scale="none", nulls="drop", sample_rows=10**4
    )
    assert sorted(numbers_of(made)[:, 0].tolist()) == [n for n in range(3000) if n % 3]


def test_the_seed_of_blocks_does_not_change_the_sample(files, basis):
    """A file must be found again when it is subtracted by somebody with another seed."""
    a, b = (nysketch.sketch(files, basis=basis, seed=seed, sample_rows=100) for seed in (0, 1))
    assert_same(a.tally.sample, b.tally.sample)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for name in "ab":
        texts = [f"{name} {n:04d} größe \N{GRINNING FACE}"[: 3 + n % 15] for n in range(900)]
        pq.write_table(pa.table({"t": texts}), folder / f"{name}.parquet", row_group_size=200)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("capacity", [50, 5000])
def test_text_is_sampled_like_numbers(words, tmp_path, capacity):
    basis = Basis.fit(words, kernel="spectrum", landmarks=10)
    options = {"basis": basis, "sample_rows": capacity}
    together = nysketch.sketch(words, **options)
    apart = [nysketch.sketch(file, **options) for file in words]
    assert bits(together, tmp_path) == bits(apart[1] + apart[0], tmp_path)
    assert nysketch.load(tmp_path / "bits.nysk") == together
    _, numbers = naive_sample_of_text(words, capacity)
    assert together.tally.sample.rows.tolist() == numbers
    left = (together - apart[1]).tally.sample
    assert left.rows.tolist() == [text for text in numbers if text.startswith("a")]


def naive_sample_of_text(paths, capacity):
    found = []
    for path in paths:
        source = open_source(path, text=True)
        (input_key,) = {fragment.input_key for fragment in source.fragments()}
        texts = pq.read_table(path).column("t").to_pylist()
        found += [(key_of_row(input_key, row), text) for row, text in enumerate(texts)]
    found.sort()
    bound = found[capacity][0] - 1 if len(found) > capacity else LARGEST_KEY
    return bound, [text for key, text in found if key <= bound]


# ---- chance ----------------------------------------------------------------------------------------


def p_value(counts, expected):
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def test_every_part_of_a_file_and_every_file_has_its_share(tmp_path):
    """Chi-square over positions, over files of different sizes, and over the last digit of row numbers."""
    sizes = [3000, 6000, 12_000, 24_000, 48_000]
    for number, rows in enumerate(sizes):
        table = pa.table({"x": np.arange(rows) + 1e5 * number, "y": np.full(rows, float(number))})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=4000)
    paths = sorted(tmp_path.iterdir())
    made = nysketch.sketch(paths, columns=["x", "y"], landmarks=5, scale="none", sample_rows=4000)
    sample = made.tally.sample
    assert len(sample) == 4000
    numbers = numbers_of(made)
    file, row = numbers[:, 1].astype(int), numbers[:, 0].astype(np.int64) % 100_000
    shares = np.array(sizes) / sum(sizes)
    assert p_value(np.bincount(file, minlength=5), 4000 * shares) > 0.001
    for number in (3, 4):
        position = row[file == number] * 20 // sizes[number]
        assert p_value(np.bincount(position, minlength=20), np.full(20, len(position) / 20)) > 0.001
    assert p_value(np.bincount(row % 10, minlength=10), np.full(10, 400.0)) > 0.001
    # Keys are uniform below the bound: rows that are few among them are so by chance alone.
    tenth = np.minimum(sample.keys // (sample.bound // 10 + 1), 9)
    assert p_value(np.bincount(tenth, minlength=10), np.full(10, 400.0)) > 0.001


def test_the_sample_has_nothing_to_do_with_the_blocks():
    rows = np.arange(50_000.0)[:, None]
    basis = Basis.fit(rows, landmarks=2, scale="none")
    made = nysketch.sketch(rows, basis=basis, blocks=8, sample_rows=8000)
    sampled = numbers_of(made)[:, 0].astype(np.int64)
    from nysketch.tiles.hashing import assign_blocks

    (fragment,) = open_source(rows).fragments()
    order, block_of = np.empty(50_000, np.int64), np.empty(50_000, np.int64)
    assign_blocks(0, np.ones(50_000, bool), np.uint64(fragment.input_key), 8, order, block_of)
    block = np.empty(50_000, np.int64)
    block[order] = block_of
    expected = 8000 * np.bincount(block, minlength=8) / 50_000
    assert p_value(np.bincount(block[sampled], minlength=8), expected) > 0.001


# ---- no sample, old files, huge values -------------------------------------------------------------


def test_no_sample_is_kept_if_none_is_wanted(files, basis, tmp_path):
    none = [nysketch.sketch(file, basis=basis, sample_rows=0) for file in files]
    some = nysketch.sketch(files[3], basis=basis)
    assert len(none[1].tally.sample) == 0
    assert not any(name.startswith("sample") for name in none[1].tally.arrays())
    assert none[1].quality() is None
    assert len(some.tally.sample) == 2000
    for merged in (none[1] + some, some + none[1], (some + none[1]) - none[1]):
        assert len(merged.tally.sample) == 0
        assert merged.quality() is None
        nysketch.save(merged, tmp_path / "merged.nysk")
        assert nysketch.load(tmp_path / "merged.nysk") == merged
    assert (none[1] + none[3]).rows == SIZES["b"] + SIZES["d"]


def test_merging_samples_with_none_gives_the_same_bytes_in_any_order(files, basis, tmp_path):
    none = nysketch.sketch(files[0], basis=basis, sample_rows=0)
    a, b = (nysketch.sketch(files[i], basis=basis, sample_rows=20) for i in (1, 2))
    seen = {bits(made, tmp_path) for made in ((none + a) + b, none + (a + b), (b + none) + a)}
    assert len(seen) == 1


def test_different_sizes_give_the_smaller_one(files, basis, tmp_path):
    a = nysketch.sketch(files[1], basis=basis, sample_rows=500)
    b = nysketch.sketch(files[3], basis=basis, sample_rows=80)
    assert (a + b).tally.sample.capacity == 80
    assert bits(a + b, tmp_path) == bits(b + a, tmp_path)
    bound, expected = naive_sample([files[1], files[3]], 80)
    assert rows_of(a + b) == expected
    assert (a + b).tally.sample.bound == bound


@pytest.mark.parametrize("name", ["float32.nysk", "float64.nysk", "weighted.nysk"])
def test_files_of_version_1_have_no_sample_and_no_quality(name, tmp_path):
    old = nysketch.load(ARCHIVES / "v1" / name)
    assert (len(old.tally.sample), old.tally.sample.capacity) == (0, 0)
    assert old.quality() is None
    assert describe(old)["quality"] is None
    both = old + old
    assert both.rows == 2000
    nysketch.save(both, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == both
    assert ((both - old).kernel_sums == old.kernel_sums).all()
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=100), "y": random.normal(size=100), "w": np.ones(100)})
    new = nysketch.sketch(table, basis=old, weights=old.settings["weights"], blocks=len(old.block_rows))
    assert len(new.tally.sample) == 100
    assert len((old + new).tally.sample) == 0


@pytest.mark.parametrize("name", ["float32.nysk", "float64.nysk"])
def test_old_and_new_files_can_be_added_in_either_order(name):
    old = nysketch.load(ARCHIVES / "v1" / name)
    table = pa.table({"x": np.arange(100.0), "y": np.arange(100.0)})
    new = nysketch.sketch(table, basis=old, blocks=len(old.block_rows))
    assert old + new == new + old


def test_settings_that_differ_are_forgotten_in_any_order(files, basis, tmp_path):
    a, b, c = (
        nysketch.sketch(files[i], basis=basis, sample_rows=rows)
        for i, rows in ((0, None), (1, 2000), (2, None))
    )
    seen = {bits(made, tmp_path) for made in ((a + b) + c, c + (a + b), (a + c) + b)}
    assert len(seen) == 1


@pytest.mark.parametrize("value", [1e39, -1e60, 1e300])
def test_rows_beyond_float32_are_cut_off_and_kept(value, tmp_path):
    rows = np.random.default_rng(0).standard_normal((300, 2))
    basis = Basis.fit(rows, landmarks=10, scale="none")
    rows[7, 0] = value
    made = nysketch.sketch(rows, basis=basis)
    sample = made.tally.sample
    assert np.isfinite(sample.rows).all()
    assert np.abs(sample.rows).max() == np.finfo(np.float32).max
    nysketch.save(made, tmp_path / "huge.nysk")
    assert nysketch.load(tmp_path / "huge.nysk") == made
    assert made.quality().residual_quantiles["max"] == pytest.approx(1)
    assert np.array_equal(((made + made) - made).tally.sample.rows, sample.rows)


def test_other_scaling_that_overflows_is_cut_off_too():
    rows = np.random.default_rng(0).standard_normal((300, 1)) * 1e-20
    basis = Basis.fit(rows, landmarks=10)
    rows[5] = 1e300
    assert np.isfinite(nysketch.sketch(rows, basis=basis).tally.sample.rows).all()


def test_tables_that_begin_alike_can_be_told_apart():
    january = np.random.default_rng(0).standard_normal((300, 2))
    january[:64] = 0
    february = january.copy()
    february[64:] += 10
    basis = Basis.fit(january, landmarks=10, scale="none")
    a, b = nysketch.sketch(january, basis=basis), nysketch.sketch(february, basis=basis)
    assert np.array_equal(((a + b) - b).tally.sample.rows, a.tally.sample.rows)
    assert a + b == b + a
