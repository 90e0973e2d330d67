"""One column of text, for string kernels: from every kind of source, and every way to choose it wrongly."""

import io
import json
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from nysketch.columns import Column
from nysketch.engines.threads import Threads
from nysketch.errors import InputError, InvalidRowsError, SchemaError, UsageError
from nysketch.passes.chunks import ChunkReader
from nysketch.passes.execution import Execution
from nysketch.passes.pilot import read_pilot, sample_rows
from nysketch.sources.open import open_source
from nysketch.sources.protocol import Batch, key_of_rows
from tests.sources.helpers import counted_nulls, open_table, read_chunks, write_parquet
from tests.sources.kinds import TEXT_FILES as FILES
from tests.sources.kinds import TEXT_KINDS as KINDS
from tests.sources.kinds import TEXT_REREADABLE as REREADABLE
from tests.sources.kinds import OnlyCapsule, as_stdin, feather

ARROW = [pa.string(), pa.large_string(), pa.string_view()]
TYPES = [*ARROW, *(pa.dictionary(pa.int32(), kind) for kind in ARROW)]


def read_text(source, batch_rows=1000):
    """Return all strings, batches concatenated in order."""
    batches = [b.values[0] for f in source.fragments() for b in source.read(f, batch_rows)]
    assert all(batch.dtype == object and batch.ndim == 1 for batch in batches)
    return np.concatenate(batches).tolist()


def strings(*texts):
    return np.array(texts, object)


@pytest.fixture(scope="module")
def texts():
    """A thousand strings: empty ones, long ones, commas, quotes, line breaks, letters of all widths."""
    rng = np.random.default_rng(2)
    letters = list('abc ,;"\n\té€𝄞')
    drawn = ["".join(rng.choice(letters, size=rng.integers(0, 30))) for _ in range(1000)]
    # What no format can tell from padding or from the end of a line.
    return [text.strip() if i % 7 else "" for i, text in enumerate(drawn)]


@pytest.fixture(scope="module")
def table(texts):
    return pa.table({"name": texts})


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def opened(kind, table, tmp_path, monkeypatch, small_pieces):
    """A function that opens the table anew, as this kind of source."""

    def opener():
        monkeypatch.setattr("sys.stdin", as_stdin(table))
        return open_source(KINDS[kind](table, tmp_path), text=True)

    return opener


def test_the_text_is_the_only_column(opened, kind):
    source = opened()
    assert source.columns == (Column("x0" if kind.startswith("numpy") else "name", text=True),)
    assert source.weights is None


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 65_536])
def test_every_kind_gives_the_strings_in_order(opened, texts, batch_rows):
    assert read_text(opened(), batch_rows) == texts


def test_strings_are_plain_strings_and_there_are_no_nulls(opened):
    source = opened()
    for fragment in source.fragments():
        for batch in source.read(fragment, 100):
            assert all(type(text) is str for text in batch.values[0])
            assert batch.weights is None
            assert list(batch.nulls) == [0]


def test_chunks_do_not_depend_on_the_batch_size(opened, texts):
    expected = read_chunks(opened())
    assert len(expected) > 10
    assert [text for _, rows, *_ in expected for text in rows] == texts
    for batch_rows in (1, 7, 1000, 65_536):
        chunks = read_chunks(opened(), batch_rows=batch_rows)
        assert [(first, rows.tolist()) for first, rows, *_ in chunks] == (
            [(first, rows.tolist()) for first, rows, *_ in expected]
        )
        assert all(keep.all() and weights is None for *_, keep, weights in chunks)


def test_lower_and_upper_are_the_extremes_of_the_length(opened):
    source = opened()
    reader = ChunkReader(source, nulls="error")
    for fragment in source.fragments():
        for chunk in reader.chunks(fragment):
            lengths = [len(text) for text in chunk.rows]
            assert chunk.lower.tolist() == [min(lengths)]
            assert chunk.upper.tolist() == [max(lengths)]
            assert chunk.lower.dtype == chunk.upper.dtype == np.float64


def test_the_same_twice_and_in_any_order(opened, texts):
    source = opened()
    if not source.rereadable:
        return
    assert read_text(source) == read_text(source)
    for fragment in reversed(list(source.fragments())):
        found = np.concatenate([batch.values[0] for batch in source.read(fragment, 64)])
        assert found.tolist() == texts[fragment.first_row :][: fragment.rows]


def test_the_pilot_of_text_is_an_array_of_strings(opened, kind, texts):
    if KINDS[kind] not in REREADABLE:
        return
    rows = read_pilot(opened(), 100, seed=1)
    assert rows.dtype == object
    assert rows.shape == (100,)
    assert set(rows) <= set(texts)
    assert read_pilot(opened(), 10**6, execution=Execution(Threads(2))).tolist() == texts


def test_a_basis_of_text_asks_for_text(kind, table, tmp_path, monkeypatch, texts):
    monkeypatch.setattr("sys.stdin", as_stdin(table))
    source = open_source(KINDS[kind](table, tmp_path), like=[Column("name", text=True)])
    assert source.columns == (Column("name", text=True),)
    assert read_text(source) == texts


def test_readers_of_files_own_up_to_the_text_they_hold(opened, kind, table):
    source = opened()
    if KINDS[kind] in FILES:
        assert source.reader_memory.ample > 3 * 2048 * 64
    assert isinstance(source.reader_memory.ample, int)


# ── which column ─────────────────────────────────────────────────────────────

MIXED = {"price": [1.0, 2.0], "name": ["a", "b"], "city": ["c", "d"], "w": [1, 2], "raw": [b"x", b"y"]}


def test_the_named_column_is_read():
    source = open_table(MIXED, text=True, columns=["city"])
    assert source.columns == (Column("city", text=True),)
    assert read_text(source) == ["c", "d"]


def test_without_a_name_the_only_text_column_is_read_and_the_rest_is_explained():
    source = open_table(MIXED, text=True, exclude=["city"])
    assert source.columns == (Column("name", text=True),)
    assert source.left_out == {"price": "double", "city": "excluded", "w": "int64", "raw": "binary"}


def test_several_text_columns_are_listed_with_the_flag():
    with pytest.raises(SchemaError, match=r"table: there are 2 text columns: name, city\. .*`columns`"):
        open_table(MIXED, text=True)


def test_no_text_column_lists_the_columns_and_their_types():
    with pytest.raises(SchemaError, match=r"no text column.*x \(double\), y \(list<.*\), z \(excluded\)"):
        open_table({"x": [1.0], "y": [[1.0]], "z": ["a"]}, text=True, exclude="z")


@pytest.mark.parametrize(("name", "type"), [("price", "double"), ("w", "int64"), ("raw", "binary")])
def test_a_named_column_that_is_no_text_is_an_error(name, type):
    with pytest.raises(
        SchemaError,
        match=f"column '{name}' has type {type}, not text; string kernels need a text column",
    ):
        open_table(MIXED, text=True, columns=[name])


@pytest.mark.parametrize("names", [["name", "city"], ["name", "name"], []])
def test_exactly_one_column_may_be_named(names):
    with pytest.raises(UsageError, match=f"one text column, not {len(names)}.*`columns`"):
        open_table(MIXED, text=True, columns=names)


def test_an_unknown_column_is_an_error_that_guesses():
    with pytest.raises(SchemaError, match="no column 'nam'; did you mean 'name'"):
        open_table(MIXED, text=True, columns=["nam"])


def test_without_text_columns_of_text_are_left_out_as_ever():
    source = open_table(MIXED)
    assert source.columns == (Column("price"), Column("w"))
    assert source.left_out == {"name": "text", "city": "text", "raw": "binary"}
    with pytest.raises(
        SchemaError, match=r"'name' has type string, which is not numeric.*`kernel=.spectrum.`"
    ):
        open_table(MIXED, columns=["name"])
    with pytest.raises(SchemaError, match="'raw' has type binary, which is not numeric") as error:
        open_table(MIXED, columns=["raw"])
    assert "spectrum" not in str(error.value)


def test_a_basis_of_text_needs_text():
    with pytest.raises(SchemaError, match="column 'price' has type double, not text"):
        open_table(MIXED, like=[Column("price", text=True)])


def test_a_basis_of_numbers_needs_numbers():
    with pytest.raises(SchemaError, match="'name' has type string, which is not numeric"):
        open_table(MIXED, like=[Column("name")])
    with pytest.raises(UsageError, match="basis is numeric"):
        open_table(MIXED, like=[Column("price")], text=True)


def test_the_text_cannot_be_the_weights():
    with pytest.raises(SchemaError, match="weights column 'name' has type string; it must be numeric"):
        open_table(MIXED, text=True, columns=["name"], weights="name")
    with pytest.raises(UsageError, match="'name' belongs to the basis"):
        open_table(MIXED, like=[Column("name", text=True)], weights="name")


def test_an_index_of_strings_that_pandas_stored_is_not_meant():
    columns = {"t": ["a", "b"], "__index_level_0__": ["i", "j"]}
    source = open_table(columns, text=True)
    assert source.columns == (Column("t", text=True),)
    assert "index of pandas" in source.left_out["__index_level_0__"]
    assert read_text(open_table(columns, text=True, columns="__index_level_0__")) == ["i", "j"]
    assert open_table({**columns, "x": [1, 2]}).left_out["__index_level_0__"] == "text"


# ── Arrow types ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("format", ["table", "stream", "parquet", "feather"])
def test_every_type_of_text_with_nulls(type, format, tmp_path):
    expected = ["a", None, "", "größer", "a"] * 20
    table = pa.table({"t": pa.array(expected, pa.string()).cast(type), "x": range(100)})
    if format == "parquet" and type == TYPES[-1]:
        pytest.skip("Arrow writes no dictionaries of views into Parquet")
    if format == "parquet":
        data = write_parquet(tmp_path / "t.parquet", table, row_group_size=33)
    elif format == "feather":
        data = feather(table, tmp_path)
    else:
        data = table if format == "table" else OnlyCapsule(table)
    assert read_text(open_source(data, text=True), 7) == expected
    if format != "stream":
        assert counted_nulls(open_source(data, text=True)) == [20]


def test_nulls_hide_in_the_values_of_a_dictionary_too():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array([None, "b"]))
    source = open_table({"t": array}, text=True)
    assert read_text(source) == [None, "b", None, None]
    assert counted_nulls(source) == [3]


def test_bytes_that_are_no_text_name_column_and_place(tmp_path):
    bad = pa.array([b"a", b"\xff\xfe"]).view(pa.string())
    with pytest.raises(InputError, match=r"table: column 't' holds text that is not valid UTF-8"):
        read_chunks(open_table({"t": bad}, text=True))
    path = write_parquet(tmp_path / "b.parquet", {"t": bad})
    with pytest.raises(InputError, match=r"b\.parquet, row group 0: column 't' holds text that is not valid"):
        read_text(open_source(path, text=True))
    with pytest.raises(InputError, match="the stream broke after 0 rows"):
        read_text(open_source(iter([pa.record_batch({"t": bad})]), text=True))
    path = feather(pa.table({"t": bad}), tmp_path)
    with pytest.raises(InputError, match=r"one\.feather, record batch 0: cannot read"):
        read_text(open_source(path, text=True))


# ── nulls and weights ────────────────────────────────────────────────────────

HOLES = {"t": ["four", None, "", None, "eleven char"], "w": [1.0, 2.0, None, None, 5.0]}


def test_nulls_are_an_error_that_counts_them(tmp_path):
    path = write_parquet(tmp_path / "n.parquet", {"t": HOLES["t"]})
    with pytest.raises(InvalidRowsError, match=r"row group 0: column 't' has 2 nulls\. .*`nulls=.drop.`$"):
        read_chunks(open_source(path, text=True))


def test_nulls_of_text_and_weights_are_told_apart():
    with pytest.raises(InvalidRowsError, match="column 't' has 2 nulls; column 'w' has 2 nulls"):
        read_chunks(open_table(HOLES, text=True, weights="w"))


def test_dropped_rows_are_empty_strings_that_do_not_count():
    source = open_table({"t": HOLES["t"]}, text=True)
    (fragment,) = source.fragments()
    (chunk,) = ChunkReader(source, nulls="drop").chunks(fragment)
    assert chunk.rows.tolist() == ["four", "", "", "", "eleven char"]
    assert chunk.keep.tolist() == [True, False, True, False, True]
    assert (chunk.lower.tolist(), chunk.upper.tolist()) == ([0], [11])
    assert chunk.dropped == 2


def test_rows_without_weight_are_dropped_too():
    source = open_table(HOLES, text=True, weights="w")
    assert source.left_out == {"w": "row weights"}
    (fragment,) = source.fragments()
    (chunk,) = ChunkReader(source, nulls="drop").chunks(fragment)
    assert chunk.keep.tolist() == [True, False, False, False, True]
    np.testing.assert_array_equal(chunk.weights[chunk.keep], [1, 5])
    assert (chunk.lower.tolist(), chunk.upper.tolist()) == ([4], [11])


def test_a_chunk_of_nulls_has_no_extremes():
    source = open_table({"t": pa.nulls(3, pa.string())}, text=True)
    (fragment,) = source.fragments()
    (chunk,) = ChunkReader(source, nulls="drop").chunks(fragment)
    assert not chunk.keep.any()
    assert (chunk.lower.tolist(), chunk.upper.tolist()) == ([np.inf], [-np.inf])


@pytest.mark.parametrize("format", ["parquet", "feather", "csv", "hdf5", "stream"])
def test_weights_are_numbers_beside_the_text(format, tmp_path):
    table = pa.table({"w": [0.5, 0.0, 2.0], "t": ["a", "b", "c"]})
    if format == "parquet":
        data = write_parquet(tmp_path / "w.parquet", table)
    elif format == "feather":
        data = feather(table, tmp_path)
    elif format == "csv":
        data = str(tmp_path / "w.csv")
        pyarrow.csv.write_csv(table, data)
    elif format == "hdf5":
        data = str(tmp_path / "w.h5")
        with h5py.File(data, "w") as file:
            file["t"], file["w"] = ["a", "b", "c"], [0.5, 0.0, 2.0]
    else:
        data = iter(table.to_batches())
    ((_, rows, keep, weights),) = read_chunks(open_source(data, text=True, weights="w"))
    assert rows.tolist() == ["a", "b", "c"]
    assert keep.all()
    assert weights.tolist() == [0.5, 0, 2]


def test_pilot_rows_leave_out_what_is_dropped():
    table = pa.table({"t": [f"row {i}" if i % 10 == 0 else None for i in range(5000)]})
    rows = sample_rows(open_source(table, text=True), 100, at_least=100, nulls="drop").rows
    assert len(rows) >= 100
    assert all(int(text.removeprefix("row ")) % 10 == 0 for text in rows)
    nothing = pa.table({"t": pa.nulls(10, pa.string())})
    with pytest.raises(InputError, match="all 10 rows contain nulls"):
        read_pilot(open_source(nothing, text=True), 5, nulls="drop")


# ── chunks ───────────────────────────────────────────────────────────────────


def test_chunks_of_text_are_short_and_cut_at_fixed_places(tmp_path):
    texts = [str(i) for i in range(5000)]
    path = write_parquet(tmp_path / "t.parquet", {"t": texts}, row_group_size=3000)
    for batch_rows in (None, 1, 999, 65_536):
        chunks = read_chunks(open_source(path, text=True), batch_rows)
        assert [(first, len(rows)) for first, rows, *_ in chunks] == ([(0, 2048), (2048, 952), (3000, 2000)])
        assert [text for _, rows, *_ in chunks for text in rows] == texts


def test_batches_of_text_are_short_whatever_is_asked_for():
    asked = []
    source = open_table({"t": ["a"] * 5000}, text=True)
    watched = SimpleNamespace(
        columns=source.columns,
        weights=None,
        read=lambda fragment, rows: asked.append(rows) or source.read(fragment, rows),
    )
    for batch_rows in (None, 100, 65_536):
        list(ChunkReader(watched, nulls="error", batch_rows=batch_rows).chunks(next(source.fragments())))
    assert asked == [2048, 100, 2048]


def test_fragments_of_a_stream_of_text_are_cut_at_fixed_rows():
    for sizes in (1000, 4096, 10_000):
        parts = (pa.record_batch({"t": ["x"] * min(sizes, 10_000 - i)}) for i in range(0, 10_000, sizes))
        fragments = list(open_source(parts, text=True).fragments())
        assert [fragment.rows for fragment in fragments] == [4096, 4096, 1808]


@pytest.mark.parametrize("type", ARROW, ids=str)
def test_a_row_group_of_text_is_not_held_whole(tmp_path, type):
    long = np.random.default_rng(0).bytes(20_000 * 500).hex()
    texts = [long[i * 1000 : (i + 1) * 1000] for i in range(20_000)]
    path = write_parquet(tmp_path / "l.parquet", {"t": pa.array(texts, type)}, compression="none")
    before, peak, rows = pa.total_allocated_bytes(), 0, 0
    source = open_source(path, text=True)
    (fragment,) = source.fragments()
    for batch in source.read(fragment, 2048):
        rows += len(batch)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == 20_000
    assert peak < 12 << 20 < source.reader_memory.ample < 40 << 20


def test_what_a_dictionary_takes_is_owned_up_to(tmp_path):
    texts = [f"{i:01000}" for i in range(5000)]
    path = write_parquet(tmp_path / "d.parquet", {"t": pa.array(texts).dictionary_encode()})
    before, peak = pa.total_allocated_bytes(), 0
    source = open_source(path, text=True)
    (fragment,) = source.fragments()
    for _ in source.read(fragment, 2048):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < source.reader_memory.ample


def test_keys_of_rows_tell_texts_apart():
    def key(*texts):
        return key_of_rows([Batch([strings(*texts)], None, [0])])

    different = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("abc", None), ("", "abc"), ("äbc",)]
    assert len({key(*texts) for texts in different}) == len(different)
    halves = [Batch([strings("ab")], None, [0]), Batch([strings("c")], None, [0])]
    assert key_of_rows(halves) == key("ab", "c")


def test_rows_are_dealt_alike_from_a_table_a_stream_and_an_array(texts):
    fragments = [
        next(iter(open_source(data, text=True).fragments()))
        for data in (
            pa.table({"t": texts}),
            pa.table({"t": pa.array(texts, pa.large_string()).dictionary_encode()}),
            iter(pa.table({"t": texts}).to_batches(max_chunksize=9)),
            strings(*texts),
            np.array(texts),
        )
    ]
    assert len({fragment.input_key for fragment in fragments}) == 1


# ── many files, partitions ───────────────────────────────────────────────────


def test_files_may_have_different_types_of_text(tmp_path):
    paths = [
        write_parquet(tmp_path / f"{i}.parquet", {"t": pa.array([f"{i}"]).cast(kind)})
        for i, kind in enumerate(TYPES[:-1])
    ]
    assert read_text(open_source(paths, text=True)) == [str(i) for i in range(len(paths))]


def test_a_number_instead_of_text_is_named_with_both_types(tmp_path):
    paths = [
        write_parquet(tmp_path / "0.parquet", {"t": ["a"]}),
        write_parquet(tmp_path / "1.parquet", {"t": [1]}),
    ]
    with pytest.raises(
        SchemaError, match=r"1\.parquet: column 't' has type int64, in .*0\.parquet it is string\. Convert it"
    ):
        open_source(paths, text=True)


def test_a_text_column_that_the_first_file_has_not_is_reported(tmp_path):
    paths = [
        write_parquet(tmp_path / "0.parquet", {"t": ["a"]}),
        write_parquet(tmp_path / "1.parquet", {"t": ["b"], "more": ["c"], "x": [1.0]}),
    ]
    source = open_source(paths, text=True)
    assert set(source.left_out) == {"more"}
    with pytest.raises(SchemaError, match=r"1\.parquet: there are 2 text columns"):
        open_source(paths[::-1], text=True)


def test_a_batch_of_numbers_in_a_stream_of_text_is_a_schema_error():
    batches = [pa.record_batch({"t": ["a", "b"]}), pa.record_batch({"t": [1.0]})]
    with pytest.raises(SchemaError, match="batch from row 2 on: column 't' has type double"):
        read_text(open_source(iter(batches), text=True))


@pytest.fixture
def cities(tmp_path):
    for city in ("Łódź%2F1", "7", "__HIVE_DEFAULT_PARTITION__"):
        write_parquet(tmp_path / f"city={city}" / "p.parquet", {"t": [f"in {city}"] * 2, "w": [1.0, 3.0]})
    return str(tmp_path)


def test_partition_keys_are_text_for_those_who_name_them(cities):
    source = open_source(cities, text=True)
    assert source.columns == (Column("t", text=True),)
    assert source.left_out["city"] == "partition key: name it in `columns` to use it"
    assert read_text(open_source(cities, text=True, columns="city"), 1) == (
        ["7", "7", None, None, "Łódź/1", "Łódź/1"]
    )


def test_partition_keys_have_nulls_and_weights(cities):
    source = open_source(cities, text=True, columns="city", weights="w")
    assert counted_nulls(source) == [2, 0]
    kept = [weights[keep] for _, _, keep, weights in read_chunks(source, nulls="drop")]
    assert np.concatenate(kept).tolist() == [1, 3, 1, 3]
    assert source.reader_memory.ample > 0


def test_a_key_may_weigh_text(tmp_path):
    write_parquet(tmp_path / "k=3" / "p.parquet", {"t": ["a", "b"]})
    ((_, rows, _, weights),) = read_chunks(open_source(str(tmp_path), text=True, weights="k"))
    assert (rows.tolist(), weights.tolist()) == (["a", "b"], [3, 3])


# ── CSV ──────────────────────────────────────────────────────────────────────


def test_empty_fields_of_csv_are_empty_strings(tmp_path):
    (tmp_path / "a.csv").write_text('x,t\n1,\n2,""\n3,NA\n4,null\n,e\n')
    source = open_source(str(tmp_path / "a.csv"), text=True)
    assert read_text(source) == ["", "", "NA", "null", "e"]
    assert counted_nulls(source) == [0]


def test_csv_columns_of_numbers_and_of_nothing_are_no_text(tmp_path):
    (tmp_path / "a.csv").write_text("x,n,t\n1,,a\n2,,b\n")
    path = str(tmp_path / "a.csv")
    assert open_source(path, text=True).left_out == {"x": "double", "n": "null"}
    with pytest.raises(SchemaError, match=r"a\.csv: column 'x' has type double, not text"):
        open_source(path, text=True, columns="x")


def test_texts_of_csv_may_run_over_many_lines_and_blocks(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["line\n" * n + 'and "this", too' for n in rng.integers(0, 100, 10_000)]
    pyarrow.csv.write_csv(pa.table({"i": range(len(texts)), "t": texts}), tmp_path / "a.csv")
    source = open_source(str(tmp_path / "a.csv"), text=True)
    assert source.rows == len(texts)
    assert read_text(source) == texts


def test_csv_that_is_no_utf8_further_down_is_an_input_error(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"t\n" + b"text of some length\n" * 100_000 + b"\xff\n")
    with pytest.raises(InputError, match=r"a\.csv: cannot read.*UTF8"):
        read_text(open_source(str(tmp_path / "a.csv"), text=True))


# ── HDF5 ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def write(tmp_path):
    """Write named arrays into one file and return its path."""

    def write_file(**arrays):
        with h5py.File(tmp_path / "f.h5", "w") as file:
            for name, array in arrays.items():
                file[name.replace("__", "/")] = array
        return str(tmp_path / "f.h5")

    return write_file


@pytest.mark.parametrize(
    "dtype",
    [h5py.string_dtype(), h5py.string_dtype("ascii"), h5py.string_dtype("utf-8", 9), "S9"],
    ids=["variable", "variable ASCII", "fixed", "fixed bytes"],
)
@pytest.mark.parametrize("chunks", [None, (2,)])
def test_strings_of_hdf5(tmp_path, dtype, chunks):
    texts = ["a", "", "größe", "abcdefghi", "a b "]
    with h5py.File(tmp_path / "s.h5", "w") as file:
        dataset = file.create_dataset("g/s", shape=(5,), dtype=dtype, chunks=chunks)
        dataset[:] = np.array([text.encode() for text in texts], dtype)
    source = open_source(str(tmp_path / "s.h5"), text=True)
    assert source.columns == (Column("g/s", text=True),)
    for batch_rows in (1, 3, 100):
        assert read_text(source, batch_rows) == texts
    assert source.reader_memory.ample > 0


def test_strings_padded_with_spaces_lose_them(tmp_path):
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(4)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    with h5py.File(tmp_path / "p.h5", "w") as file:
        dataset = h5py.h5d.create(file.id, b"s", kind, h5py.h5s.create_simple((2,)))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"ab  ", b"abcd"]), mtype=kind)
    assert read_text(open_source(str(tmp_path / "p.h5"), text=True)) == ["ab", "abcd"]


def test_text_is_found_beside_tables_and_vectors_of_numbers(write):
    source = open_source(
        write(t=np.ones((4, 3)), v=np.ones(7), s=["a", "b"], c=np.ones((2, 2, 2))), text=True
    )
    assert source.columns == (Column("s", text=True),)
    assert read_text(source) == ["a", "b"]


def test_several_data_sets_of_text_must_be_chosen_from(write):
    path = write(a=["x", "y"], b=["z", "w"], n=[1.0, 2.0])
    with pytest.raises(SchemaError, match=r"there are 2 text columns: a, b\. .*`columns`"):
        open_source(path, text=True)
    for options in ({"columns": ["b"]}, {"exclude": ["a"]}, {"datasets": ["b"]}):
        assert read_text(open_source(path, text=True, **options)) == ["z", "w"]


def test_data_sets_of_text_of_other_lengths_do_not_matter_to_the_one_named(write):
    path = write(a=["x", "y", "z"], b=["z", "w"])
    with pytest.raises(SchemaError, match=r"`datasets`.*a \(3,\), b \(2,\)"):
        open_source(path, text=True)
    assert read_text(open_source(path, text=True, columns=["a"])) == ["x", "y", "z"]
    assert read_text(open_source(path, like=[Column("b", text=True)])) == ["z", "w"]


def test_a_file_of_numbers_has_no_text(write):
    with pytest.raises(SchemaError, match=r"no text column.*Left out: t \(float64 \(4, 3\)\)"):
        open_source(write(t=np.ones((4, 3))), text=True)
    with pytest.raises(SchemaError, match=r"column 'n' has type float64 \(2,\), not text"):
        open_source(write(n=[1.0, 2.0], s=["a", "b"]), text=True, columns=["n"])
    with pytest.raises(SchemaError, match=r"no such data set; there are: n, s|there are: s, n"):
        open_source(write(n=[1.0, 2.0], s=["a", "b"]), text=True, columns=["no"])


def test_text_of_two_dimensions_and_references_are_no_columns(write, tmp_path):
    with pytest.raises(SchemaError, match=r"column 's' has type object \(1, 2\), not text"):
        open_source(write(s=[["a", "b"]]), text=True, columns=["s"])
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file.create_dataset("r", data=[file.ref], dtype=h5py.ref_dtype)
    with pytest.raises(SchemaError, match=r"column 'r' has type object \(1,\), not text"):
        open_source(str(tmp_path / "r.h5"), text=True, columns=["r"])


def test_strings_that_are_no_utf8_name_file_data_set_and_rows(write):
    path = write(g__s=np.array([b"a"] * 10 + [b"\xff"]))
    with pytest.raises(
        InputError, match=r"f\.h5, data set 'g/s', rows 8–10: holds text that is not valid UTF-8"
    ):
        read_text(open_source(path, text=True), 4)


def test_a_tall_chunk_of_text_is_read_by_the_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.hdf5._HELD_BYTES", 10_000)
    texts = [f"row {i}" for i in range(3000)]
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file.create_dataset("s", data=texts, chunks=(3000,), compression="gzip")
    shapes, get_item = [], h5py.Dataset.__getitem__

    def watched(self, key, **options):
        found = get_item(self, key, **options)
        shapes.append(found.shape[0])
        return found

    monkeypatch.setattr(h5py.Dataset, "__getitem__", watched)
    assert read_text(open_source(str(tmp_path / "t.h5"), text=True), 100) == texts
    assert max(shapes) == 100


def test_chunks_of_references_fit_the_cache(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("s", data=["a"] * 10_000, chunks=(10_000,), compression="gzip")
    caches, open_file = [], h5py.File.__init__

    def watched(self, *args, **options):
        if "r" in args:
            caches.append(options.get("rdcc_nbytes"))
        open_file(self, *args, **options)

    monkeypatch.setattr(h5py.File, "__init__", watched)
    assert len(read_text(open_source(str(tmp_path / "c.h5"), text=True), 100)) == 10_000
    assert caches[-1] == 16 * 10_000


def test_hdf5_files_of_text_in_partitions(tmp_path):
    (tmp_path / "k=v").mkdir()
    with h5py.File(tmp_path / "k=v" / "a.h5", "w") as file:
        file["s"] = ["a", "b"]
    assert read_text(open_source(str(tmp_path), text=True)) == ["a", "b"]
    assert read_text(open_source(str(tmp_path), text=True, columns="k")) == ["v", "v"]


# ── arrays, frames, standard input ───────────────────────────────────────────


def arrays():
    texts = ["a", "größe", ""]
    yield pytest.param(np.array(texts), id="U")
    yield pytest.param(np.array(texts)[:, None], id="N×1")
    yield pytest.param(np.array([text.encode() for text in texts]), id="S")
    yield pytest.param(np.array(texts, object), id="object")
    yield pytest.param(np.array(texts, object)[:, None], id="object N×1")
    yield pytest.param(np.array([np.str_(text) for text in texts], object), id="numpy's str")
    if hasattr(np.dtypes, "StringDType"):
        yield pytest.param(np.array(texts, np.dtypes.StringDType()), id="StringDType")


@pytest.mark.parametrize("array", [*arrays()])
@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
def test_arrays_of_text(array, stream):
    source = open_source(iter([array, array[:1]]) if stream else array, text=True)
    assert source.columns == (Column("x0", text=True),)
    found = read_text(source, 2)
    assert found[:3] == ["a", "größe", ""]
    assert all(type(text) is str for text in found)


@pytest.mark.parametrize(
    "array", [strings("a", None, float("nan")), np.ma.masked_array(["a", "b", "c"], [0, 1, 1])]
)
def test_what_is_missing_in_an_array_is_null(array):
    for source in (open_source(array, text=True), open_source(iter([array]), text=True)):
        assert read_text(source) == ["a", None, None]
    with pytest.raises(InvalidRowsError, match="column 'x0' has 2 nulls"):
        read_chunks(open_source(array, text=True))


def test_missing_values_of_numpys_strings_are_null():
    dtypes = pytest.importorskip("numpy.dtypes")
    if not hasattr(dtypes, "StringDType"):
        pytest.skip("this NumPy has no StringDType")
    for missing in (None, np.nan):
        array = np.array(["a", missing], dtypes.StringDType(na_object=missing))
        source = open_source(array, text=True)
        assert read_text(source) == ["a", None]
        assert counted_nulls(source) == [1]


@pytest.mark.parametrize(
    ("item", "message"),
    [("\ud800", "surrogates not allowed"), (5, "'int'"), (b"\xff", "utf8"), (["a"], "'list'")],
)
def test_what_is_no_text_in_an_array_names_the_row(item, message):
    array = np.empty(300, object)
    array[:] = "a"
    array[123] = item
    with pytest.raises(InputError, match=f"array, row 123: cannot be read as text: .*{message}"):
        read_text(open_source(array, text=True), 50)
    with pytest.raises(InputError, match=f"row 123: cannot be read as text: .*{message}"):
        read_text(open_source(iter([array]), text=True))


def test_surrogates_hide_in_arrays_of_fixed_length_too():
    with pytest.raises(InputError, match=r"array, row 1: cannot be read as text: .*surrogates"):
        read_text(open_source(np.array(["a", "b\udc80"]), text=True))


@pytest.mark.parametrize(
    "array", [np.array([["a", "b"]]), np.ones(2, complex), np.ones((2, 2, 2)), np.array("a")]
)
def test_arrays_that_are_no_column_of_text_are_refused(array):
    with pytest.raises(SchemaError, match="expected one column of text"):
        open_source(array, text=True)


def test_arrays_of_numbers_are_no_text():
    with pytest.raises(SchemaError, match=r"array: no text column.*x0 \(float64\), x1 \(float64\)"):
        open_source(np.ones((3, 2)), text=True)
    with pytest.raises(SchemaError, match="column 'x0' has type float64, not text"):
        open_source(np.ones((3, 2)), text=True, columns=["x0"])


def test_an_array_of_text_takes_its_name_from_the_basis_and_has_no_weights():
    array = np.array(["a", "b"])
    assert open_source(array, like=[Column("t", text=True)]).columns == (Column("t", text=True),)
    with pytest.raises(UsageError, match="an array has no weights"):
        open_source(array, text=True, weights="w")
    with pytest.raises(SchemaError, match="rows × columns of numbers"):
        open_source(array)


def test_standard_input_cut_short_is_noticed(monkeypatch, table):
    whole = as_stdin(table).buffer.getvalue()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(whole[: len(whole) // 2])))
    with pytest.raises(InputError, match=r"standard input: the stream broke after \d+ rows"):
        read_text(open_source("-", text=True))


def test_parquet_of_other_writers_is_text_by_its_logical_type(tmp_path):
    """No Arrow schema in the file, as Spark and DuckDB write it."""
    pq.write_table(pa.table({"t": ["a", "b"]}), tmp_path / "s.parquet", store_schema=False)
    assert read_text(open_source(str(tmp_path / "s.parquet"), text=True)) == ["a", "b"]


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_feather_of_text_in_bounded_memory(tmp_path, compression):
    texts = [json.dumps({"row": i}) * 10 for i in range(3000)]
    path = tmp_path / "f.feather"
    pyarrow.feather.write_feather(pa.table({"t": texts}), path, compression=compression)
    source = open_source(str(path), text=True)
    assert read_text(source, 100) == texts
    size = pa.array(texts).nbytes
    assert source.reader_memory.ample > (size if compression == "lz4" else 0)
