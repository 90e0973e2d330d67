"""What is in memory or passes by once: arrays, tables, streams, iterators."""

import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from nysketch.basis.base import Basis
from nysketch.columns import Column
from nysketch.errors import InputError, InvalidRowsError, SchemaError, UsageError
from nysketch.sources.arrow import FRAGMENT_ROWS, held_rows_for
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, read_chunks
from tests.sources.kinds import OnlyCapsule, as_stdin

LIKE = [Column("a"), Column("b")]


@pytest.mark.parametrize(
    "dtype", [">f8", "<f4", ">i4", "u8", "bool", "f2", np.longdouble], ids=lambda dtype: np.dtype(dtype).str
)
@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
def test_arrays_of_every_type_of_number(dtype, stream):
    values = np.array([[0, 1], [1, 1]]).astype(dtype)
    source = open_source(iter([values]) if stream else values)
    np.testing.assert_array_equal(read_all(source), values.astype(float))


@pytest.mark.parametrize("view", [np.s_[::2, ::-1], np.s_[1:, 1:3]])
def test_views_of_arrays_are_read_as_views(rows, view):
    np.testing.assert_array_equal(read_all(open_source(rows[view]), 64), rows[view])
    np.testing.assert_array_equal(read_all(open_source(iter([rows[view]])), 64), rows[view])


def test_a_vector_is_one_column():
    np.testing.assert_array_equal(read_all(open_source(np.arange(3.0))), [[0], [1], [2]])


@pytest.mark.parametrize("array", [np.ones((2, 2, 2)), np.array(["a"]), np.ones(2, complex), np.array(1.0)])
def test_arrays_that_are_no_tables_are_refused(array):
    with pytest.raises(SchemaError, match="expected rows × columns of numbers"):
        open_source(array)


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_an_array_without_rows_is_an_input_error(shape):
    with pytest.raises(InputError, match="no rows"):
        Basis.fit(np.empty(shape), landmarks=2)


def test_an_array_without_columns_is_an_error():
    with pytest.raises(SchemaError, match="no columns at all"):
        open_source(np.empty((3, 0)))


@pytest.mark.parametrize("stream", [False, True], ids=["array", "stream"])
def test_masked_values_are_nulls(stream):
    values = np.ma.masked_array([[1, 2], [3, 4], [5, 6]], mask=[[0, 1], [0, 0], [1, 1]])
    source = open_source(iter([values]) if stream else values)
    expected = [[1, np.nan], [3, 4], [np.nan, np.nan]]
    np.testing.assert_array_equal(read_all(source), expected)
    if not stream:
        with pytest.raises(InvalidRowsError, match="'x0' has 1 nulls; column 'x1' has 2 nulls"):
            read_chunks(source)


def test_a_record_batch_is_a_table(table):
    np.testing.assert_array_equal(read_all(open_source(table.to_batches()[0])), read_all(open_source(table)))


@pytest.mark.parametrize("data", [pa.chunked_array([[1.0]]), {1.0}, 5, None, b"x", object()])
def test_what_is_no_source_is_a_usage_error(data):
    with pytest.raises(UsageError, match="cannot"):
        open_source(data)


@pytest.mark.parametrize("items", [[[1.0, 2.0]], [5], ["a.parquet", np.ones((1, 1))]])
def test_batches_that_are_no_tables_are_a_usage_error(items):
    with pytest.raises(UsageError, match="Batches are arrays, tables or record batches; paths are given as"):
        open_source(iter(items))


def test_an_iterator_without_batches_is_an_input_error():
    with pytest.raises(InputError, match="yields no batches"):
        open_source(iter([]))


def test_batches_of_different_kinds_and_numeric_types_go_together():
    batches = [
        np.array([[1, 2]]),
        pa.table({"a": [0.5], "b": [1.5]}),
        pa.record_batch({"b": [4], "a": [3]}),
        {"a": [5], "b": [6.0]},
        np.empty((0, 2)),
    ]
    source = open_source(iter(batches), like=LIKE)
    np.testing.assert_array_equal(read_all(source), [[1, 2], [0.5, 1.5], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"a": [1.0]}, "the batch from row 2 on: no column 'b'"),
        ({"a": [1.0], "b": ["x"]}, "the batch from row 2 on: column 'b' has type string"),
        ({"a": [1.0], "b": [[1.0, 2.0]]}, "column 'b' has a list of length 2 where others have 1"),
        (np.ones((1, 3)), "has 3 columns, the basis has 2"),
    ],
)
def test_a_batch_unlike_the_first_is_a_schema_error(second, message):
    source = open_source(iter([np.ones((2, 2)), second]), like=LIKE)
    with pytest.raises(SchemaError, match=message):
        read_all(source)


def test_fragments_of_a_stream_are_cut_at_fixed_rows_whatever_the_batches():
    values = np.arange(2.0 * FRAGMENT_ROWS + 10)
    for sizes in (1000, FRAGMENT_ROWS, len(values)):
        parts = (values[i : i + sizes] for i in range(0, len(values), sizes))
        fragments = list(open_source(parts).fragments())
        assert [fragment.rows for fragment in fragments] == [FRAGMENT_ROWS, FRAGMENT_ROWS, 10]


@pytest.mark.parametrize("d", [1, 32, 33, 100, 1000, 100_000])
def test_wide_rows_make_the_fragments_of_a_stream_shorter(d):
    rows = held_rows_for(d)
    assert rows & (rows - 1) == 0
    assert rows == 256 or rows * d * 8 <= 16 << 20


def test_a_stream_keeps_no_rows_once_their_fragment_is_gone():
    batches = (pa.record_batch({"x": pa.array([1.0] * FRAGMENT_ROWS)}) for _ in range(20))
    source = open_source(batches)
    before = pa.total_allocated_bytes()
    for fragment in source.fragments():
        assert sum(len(batch) for batch in source.read(fragment, 1 << 20)) == FRAGMENT_ROWS
        assert pa.total_allocated_bytes() - before < 5 * 8 * FRAGMENT_ROWS


def test_lists_in_a_stream_need_a_basis():
    table = pa.table({"v": [[1.0, 2.0]]})
    with pytest.raises(UsageError, match=r"'v' of a stream holds lists of unknown length.*`basis`"):
        open_source(OnlyCapsule(table))
    source = open_source(OnlyCapsule(table), like=[Column("v", 2)])
    np.testing.assert_array_equal(read_all(source), [[1, 2]])


def test_standard_input_that_is_no_stream_is_an_input_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"x,y\n1,2\n")))
    with pytest.raises(InputError, match="standard input: not an Arrow IPC stream"):
        open_source("-")


def test_standard_input_cut_short_says_after_how_many_rows(monkeypatch, table):
    whole = as_stdin(table).buffer.getvalue()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(whole[: len(whole) // 2])))
    with pytest.raises(InputError, match=r"standard input: the stream broke after \d+ rows"):
        read_all(open_source("-"))


@pytest.mark.parametrize("written", [170, 1000])
def test_a_producer_killed_between_two_batches_is_noticed(monkeypatch, table, written):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.slice(0, written), max_chunksize=170)
        killed = sink.getvalue()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(killed)))
    with pytest.raises(InputError, match=rf"after {written:,} rows without its end-of-stream marker.*killed"):
        read_all(open_source("-"))


def test_what_follows_the_end_of_a_stream_is_left_alone(monkeypatch, table, rows):
    whole = as_stdin(table).buffer.getvalue()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(whole + b"more")))
    np.testing.assert_array_equal(read_all(open_source("-")), rows)


def test_standard_input_that_is_closed_is_an_input_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        open_source("-")


class Relation(OnlyCapsule):
    """A query that knows its length but holds no rows, as DuckDB has them."""

    def __len__(self):
        return len(self._table)


def test_an_object_with_a_length_is_a_stream_all_the_same(table, rows):
    source = open_source(Relation(table))
    assert source.rows is None
    np.testing.assert_array_equal(read_all(source), rows)


@pytest.mark.parametrize(("module", "in_memory"), [("polars.dataframe.frame", True), ("dask.x", False)])
def test_frames_are_known_by_their_module(table, module, in_memory):
    frame = type("DataFrame", (Relation,), {"__module__": module})
    child = type("GeoDataFrame", (frame,), {"__module__": "elsewhere"})
    for kind in (frame, child):
        assert open_source(kind(table)).rereadable == in_memory


def test_offsets_that_point_outside_a_list_are_not_followed():
    offsets = pa.py_buffer(np.array([0, 1 << 30, 2], np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.float64()), 2, [None, offsets], children=[pa.array([1.0, 2.0])])
    source = open_source(iter([pa.record_batch({"v": lists})]), like=[Column("v", 2)])
    with pytest.raises(InputError, match="the stream broke"):
        read_all(source)


def test_standard_input_cannot_be_combined_with_files():
    with pytest.raises(UsageError, match="cannot be combined"):
        open_source(["-", "a.parquet"])


def test_standard_input_of_a_real_process(table, rows):
    program = (
        "import numpy as np\n"
        "from nysketch.sources.open import open_source\n"
        "s = open_source('-')\n"
        "total = [b.values[2].sum() for f in s.fragments() for b in s.read(f, 100)]\n"
        "print(s.columns[2].name, len(s.columns), repr(float(np.round(sum(total), 9))))\n"
    )
    stream = as_stdin(table).buffer.getvalue()
    done = subprocess.run([sys.executable, "-c", program], input=stream, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["x2", "3", repr(float(np.round(rows[:, 2].sum(), 9)))]
