"""Tables with categories, times and holes: threads, batches, formats and interruptions do not show."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators.options import PassOptions
from nysketch.engines.threads import Threads
from nysketch.errors import NysketchError
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions
from tests import mixed

ROWS = 1500
TABLE = mixed.table(np.random.default_rng(1), ROWS)
BASIS = nysketch.Basis.fit(TABLE, kinds=mixed.KINDS, nulls="keep", landmarks=40, weights="w", seed=3)
HOW = {"basis": BASIS, "nulls": "keep", "weights": "w", "threads": 1, "blocks": 4, "spans": 16}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "rows.parquet"
    pq.write_table(TABLE, path, row_group_size=170)
    return path


def sums(made):
    """Return everything that is summed, whatever the rows were read from."""
    cells = made.cells
    return [
        made.kernel_sums.tolist(),
        *(
            a.tolist()
            for a in (cells.rows, cells.number_sums.high, cells.number_squares.high, cells.values.high)
        ),
        sorted(cells.far.kept.keys.tolist()),
        made.tally.ranges.lower.tolist(),
        made.tally.ranges.upper.tolist(),
    ]


def test_threads_batches_and_parts_give_the_same_bytes(path, tmp_path):
    expected = nysketch.to_bytes(nysketch.sketch(path, **HOW))
    for threads, batch_rows in ((4, 100), (1, 7), (2, 65_536)):
        how = HOW | {"threads": threads, "batch_rows": batch_rows}
        assert nysketch.to_bytes(nysketch.sketch(path, **how)) == expected
    parts = [nysketch.sketch(path, part=f"{i}/3", **HOW) for i in (2, 3, 1)]
    assert nysketch.to_bytes(sum(parts)) == expected
    whole = nysketch.from_bytes(expected)
    left = whole - parts[0]
    assert np.array_equal((left + parts[0]).cells.values.high, whole.cells.values.high)
    assert left.cells.values.high.sum() == pytest.approx((parts[1] + parts[2]).cells.values.high.sum())


def as_written(how, column):
    """Return the strings of a column as files may have them."""
    column = column.combine_chunks()
    if how == "dictionary":
        return column.dictionary_encode()
    if how == "unused values, in another order":
        values = pa.array(["never", None, *column.drop_null().unique().to_pylist()[::-1]])
        index = {value: i for i, value in enumerate(values.to_pylist())}
        return pa.DictionaryArray.from_arrays(
            pa.array([index[v] for v in column.to_pylist()], pa.int8()), values
        )
    return column.cast({"large": pa.large_string(), "view": pa.string_view(), "plain": pa.string()}[how])


STRINGS = ["plain", "dictionary", "unused values, in another order", "large", "view"]


@pytest.mark.parametrize("how", STRINGS)
def test_strings_are_the_same_however_they_are_kept(how):
    expected = sums(nysketch.sketch(TABLE, **HOW))
    table = TABLE.set_column(0, "city", as_written(how, TABLE.column("city")))
    assert sums(nysketch.sketch(table, **HOW)) == expected
    basis = nysketch.Basis.fit(table, kinds=mixed.KINDS, nulls="keep", landmarks=40, weights="w", seed=3)
    assert basis == BASIS


@pytest.mark.parametrize("how", ["feather", "parquet of dictionaries", "csv"])
def test_formats_give_the_same_sums(how, tmp_path):
    expected = sums(nysketch.sketch(TABLE, **HOW))
    table, path = TABLE, tmp_path / f"rows.{how.split()[0]}"
    if how == "feather":
        feather.write_feather(table, path, compression="lz4")
    elif how == "csv":
        pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="needed"))
    else:
        pq.write_table(table.set_column(0, "city", as_written("dictionary", table.column("city"))), path)
    if how == "csv":
        city = [None if value == "" else value for value in table.column("city").to_pylist()]
        expected = sums(nysketch.sketch(table.set_column(0, "city", pa.array(city)), **HOW))
    got = sums(nysketch.sketch(path, **HOW))
    for mine, theirs in zip(got, expected, strict=True):
        assert np.allclose(mine, theirs, rtol=1e-12, atol=0)
    assert got[1] == expected[1] and got[4] == expected[4]


def test_a_column_of_numbers_is_the_same_category_in_every_type():
    numbers = np.random.default_rng(2).integers(-3, 4, 300) * 5_000_000
    types = [pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.decimal128(25, 2), pa.string()]
    tables = [pa.table({"c": pa.array(numbers).cast(kind), "x": np.arange(300.0) % 7}) for kind in types]
    basis = nysketch.Basis.fit(tables[0], kinds={"c": "category"}, landmarks=10)
    assert "15000000" in basis.columns[0].kind.values
    expected = sums(nysketch.sketch(tables[0], basis=basis, threads=1))
    for table in tables[1:]:
        assert sums(nysketch.sketch(table, basis=basis, threads=1)) == expected
        assert nysketch.Basis.fit(table, kinds={"c": "category"}, landmarks=10) == basis


@pytest.mark.parametrize("stop", [1, 5])
def test_a_pass_that_is_stopped_goes_on_where_it_was(path, tmp_path, stop):
    def run(output, progress=None, **saving):
        return sketch_to_file(
            open_source(str(path), ReadOptions(weights="w").for_basis(BASIS)),
            output,
            BASIS,
            PassOptions(blocks=4, weights="w", nulls="keep"),
            saving=Saving(checkpoint_every=0.0, **saving),
            execution=Execution(Threads(1), progress=progress),
        )

    def progress(done, total):
        if done >= 170 * stop:
            raise KeyboardInterrupt

    run(tmp_path / "expected.nysk")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "s.nysk", progress)
    assert checkpoint_path(tmp_path / "s.nysk").exists()
    run(tmp_path / "s.nysk")
    assert (tmp_path / "s.nysk").read_bytes() == (tmp_path / "expected.nysk").read_bytes()


@pytest.mark.slow
def test_a_cluster_makes_the_same_bytes(path, engine):
    expected = nysketch.to_bytes(nysketch.sketch(path, **HOW))
    how = {name: value for name, value in HOW.items() if name != "threads"}
    assert nysketch.to_bytes(nysketch.sketch(path, engine=engine, **how)) == expected


# ---- hostile input ---------------------------------------------------------------------------------


def refused(table, match, **options):
    with pytest.raises(NysketchError, match=match):
        nysketch.sketch(table, **{**HOW, **options})


def test_indices_that_a_dictionary_does_not_have_are_refused():
    for index in (7, -1):
        indices = pa.array([index] * ROWS, pa.int32())
        array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
        refused(TABLE.set_column(0, "city", array), "city.*dictionary")


def test_bytes_that_are_no_text_make_no_vocabulary():
    broken = pa.Array.from_buffers(
        pa.string(),
        ROWS,
        [None, pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32)), pa.py_buffer(b"\xff" * ROWS)],
    )
    table = TABLE.set_column(0, "city", broken)
    with pytest.raises(NysketchError, match=r"city.*UTF-8"):
        nysketch.Basis.fit(table, kinds=mixed.KINDS, nulls="keep", landmarks=20, weights="w")


@pytest.mark.parametrize("name", ["city", "price", "ts", "zip"])
def test_a_column_without_values_has_missing_ones_whatever_its_type(name, tmp_path):
    at, kind = TABLE.column_names.index(name), TABLE.schema.field(name).type
    typed = sums(nysketch.sketch(TABLE.set_column(at, name, pa.nulls(ROWS, kind)), **HOW))
    table = TABLE.set_column(at, name, pa.nulls(ROWS))
    assert sums(nysketch.sketch(table, **HOW)) == typed
    if name in ("city", "zip"):
        pacsv.write_csv(table.filter(pc.is_valid(table.column("price"))), tmp_path / "rows.csv")
        made = nysketch.sketch(tmp_path / "rows.csv", **HOW)
        place = next(place for place in BASIS.layout.places if place.column.name == name)
        assert made.tally.ranges.lower[place.numbers.start] == place.column.kind.missing


def test_bytes_that_are_no_text_are_other_values_at_a_basis():
    ends = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32))
    broken = pa.Array.from_buffers(pa.string(), ROWS, [None, ends, pa.py_buffer(b"\xff" * ROWS)])
    made = nysketch.sketch(TABLE.set_column(0, "city", broken), **HOW)
    assert made.tally.ranges.lower[0] == BASIS.columns[0].kind.other


def test_long_strings_are_values_but_not_kept_in_vocabularies():
    long = "x" * 2_000_000
    city = [long, "short", "shorter", long + "y"] * 25
    table = pa.table({"city": city, "x": np.arange(100.0) % 9})
    basis = nysketch.Basis.fit(table, kinds={"city": "category"}, landmarks=10)
    assert set(basis.columns[0].kind.values) == {"short", "shorter"}
    made = nysketch.sketch(table, basis=basis, threads=1)
    assert made.rows == 100 and len(nysketch.to_bytes(made)) < 100_000


def test_a_vocabulary_of_control_characters_is_stored():
    values = ["\x1b[31mred", "a\nb", "\u202egnp.exe", "\x00", "<script>"]
    table = pa.table({"city": values * 20, "x": np.arange(100.0) % 9})
    made = nysketch.sketch(table, kinds={"city": "category"}, landmarks=10, threads=1)
    assert set(nysketch.from_bytes(nysketch.to_bytes(made)).basis.columns[0].kind.values) == set(values)


def test_a_category_that_is_something_else_in_the_next_file_is_refused(tmp_path):
    lists = TABLE.set_column(0, "city", pa.array([[1.0, 2.0]] * ROWS))
    refused(lists, "city.*list")
    refused(TABLE.set_column(4, "ts", pa.array(np.arange(ROWS))), "ts.*int64")
    # Numbers can be values of a category, of which none is known.
    made = nysketch.sketch(TABLE.set_column(0, "city", pa.array(np.arange(ROWS))), **HOW)
    place = BASIS.layout.places[0]
    assert (
        made.tally.ranges.lower[place.numbers]
        == place.column.kind.other
        == made.tally.ranges.upper[place.numbers]
    )


def test_zip_codes_keep_their_zeros_in_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("zip,x\n" + "".join(f"{i % 4:05},{i}.5\n,0.5\n" for i in range(40)))
    basis = nysketch.Basis.fit(path, kinds={"zip": "category"}, nulls="keep", landmarks=10)
    assert basis.columns[0].kind.values == ("00000", "00001", "00002", "00003")
    text = pa.table({"zip": [f"{i % 4:05}" if i >= 0 else None for i in range(-40, 40)], "x": [0.5] * 80})
    made = nysketch.sketch(text, basis=basis, nulls="keep", threads=1)
    assert made.tally.ranges.upper[0] == basis.columns[0].kind.missing
