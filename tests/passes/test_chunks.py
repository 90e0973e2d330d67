"""Rows that cannot be summed: nulls, NaN, infinities, weights. Found, counted, named, or dropped."""

import numpy as np
import pyarrow as pa
import pytest

from nysketch.errors import InvalidRowsError, UsageError
from nysketch.passes.chunks import ChunkReader
from nysketch.sources.open import open_source
from tests.sources.helpers import open_table, read_chunks, write_parquet

NAN, INF = float("nan"), float("inf")


def kept(source, **options):
    chunks = read_chunks(source, nulls="drop", **options)
    return np.concatenate([rows[keep] for _, rows, keep, _ in chunks])


@pytest.fixture
def dirty(tmp_path):
    """Three row groups of five rows; the one in the middle has every fault there is."""
    x = [0.0] * 5 + [None, None, NAN, INF, -INF] + [1.0] * 5
    y = [0.0] * 5 + [1.0, NAN, 1.0, 1.0, None] + [1.0] * 5
    columns = {"x": x, "y": pa.array(y, pa.float32(), from_pandas=False), "z": list(range(15))}
    return write_parquet(tmp_path / "dirty.parquet", columns, row_group_size=5)


def test_faults_are_counted_by_kind_and_column_of_their_row_group(dirty):
    with pytest.raises(InvalidRowsError) as error:
        read_chunks(open_source(dirty))
    message = str(error.value)
    assert message.startswith(f"{dirty}, row group 1: ")
    assert "column 'x' has 2 nulls, 1 NaN, 2 infinities; column 'y' has 1 nulls, 1 NaN." in message
    assert "'z'" not in message
    assert '`nulls="drop"`' in message
    assert "`exclude`" in message


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_counts_do_not_depend_on_the_batch_size(dirty, batch_rows):
    with pytest.raises(InvalidRowsError, match="2 nulls, 1 NaN, 2 infinities; column 'y' has 1 nulls, 1 NaN"):
        read_chunks(open_source(dirty), batch_rows=batch_rows)


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_dropping_leaves_the_good_rows_in_order(dirty, batch_rows):
    found = kept(open_source(dirty), batch_rows=batch_rows)
    np.testing.assert_array_equal(found[:, 2], [0, 1, 2, 3, 4, 10, 11, 12, 13, 14])


def test_ranges_of_a_chunk_are_those_of_the_rows_kept(dirty):
    source = open_source(dirty)
    fragments = list(source.fragments())
    reader = ChunkReader(source, nulls="drop")
    (chunk,) = reader.chunks(fragments[2])
    assert (chunk.lower[2], chunk.upper[2], chunk.dropped) == (10, 14, 0)
    (chunk,) = reader.chunks(fragments[1])
    assert chunk.dropped == 5
    assert (chunk.lower == INF).all()
    assert (chunk.upper == -INF).all()


def test_leaving_the_columns_out_helps_as_the_message_says(dirty):
    chunks = read_chunks(open_source(dirty, exclude=["x", "y"]))
    assert sum(len(rows) for _, rows, _, _ in chunks) == 15


def test_a_column_of_nulls_only_is_an_error_or_drops_everything(tmp_path):
    path = write_parquet(tmp_path / "n.parquet", {"x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())})
    with pytest.raises(InvalidRowsError, match="column 'y' has 2 nulls"):
        read_chunks(open_source(path))
    assert len(kept(open_source(path))) == 0


def test_nulls_in_lists_count_by_row():
    lists = [None, [1.0, None], [None, None], [NAN, 1.0], [INF, INF], [None, NAN], [1.0, 2.0]]
    source = open_table({"v": pa.array(lists, pa.list_(pa.float64(), 2))})
    with pytest.raises(InvalidRowsError, match="column 'v' has 4 nulls, 1 NaN, 1 infinities"):
        read_chunks(source)
    np.testing.assert_array_equal(kept(source), [[1, 2]])


def test_nulls_of_integers_and_booleans_are_found():
    source = open_table({"i": pa.array([1, None]), "b": pa.array([None, True])})
    with pytest.raises(InvalidRowsError, match="column 'i' has 1 nulls; column 'b' has 1 nulls"):
        read_chunks(source)


def test_many_bad_columns_make_a_short_message():
    with pytest.raises(InvalidRowsError, match="'c4' has 1 nulls; and 95 more columns"):
        read_chunks(open_table({f"c{i}": pa.array([None], pa.float64()) for i in range(100)}))


def test_negative_weights_are_an_error_even_when_dropping():
    source = open_table({"x": [1.0, 2.0], "w": [1.0, -0.5]}, weights="w")
    for nulls in ("error", "drop"):
        with pytest.raises(InvalidRowsError, match=r"weights column 'w' has values such as -0\.5"):
            read_chunks(source, nulls=nulls)


@pytest.mark.parametrize(("bad", "word"), [(NAN, "NaN"), (INF, "infinities"), (-INF, "infinities")])
def test_weights_that_are_no_numbers_are_faults_of_their_rows(bad, word):
    source = open_table({"x": [1.0, 2.0], "w": pa.array([1.0, bad], from_pandas=False)}, weights="w")
    with pytest.raises(InvalidRowsError, match=f"table, rows 0–1: column 'w' has 1 {word}"):
        read_chunks(source)
    np.testing.assert_array_equal(kept(source), [[1]])


def test_null_weights_are_nulls():
    source = open_table({"x": [1.0, 2.0], "w": [None, 2.0]}, weights="w")
    with pytest.raises(InvalidRowsError, match="column 'w' has 1 nulls"):
        read_chunks(source)
    np.testing.assert_array_equal(kept(source), [[2]])


def test_a_row_to_be_dropped_may_have_any_weight():
    source = open_table({"x": [1.0, None], "w": [1.0, -1.0]}, weights="w")
    np.testing.assert_array_equal(kept(source), [[1]])


def test_long_doubles_too_large_are_infinities():
    source = open_source(np.array([[1.0], [2.0]], np.longdouble) * np.longdouble("1e400"))
    with pytest.raises(InvalidRowsError, match="column 'x0' has 2 infinities"):
        read_chunks(source)


def test_signalling_nan_are_nan_like_others(recwarn):
    bits = np.array([0x3F800000, 0x7F800001], np.uint32)
    source = open_source(bits.view(np.float32).reshape(2, 1))
    with pytest.raises(InvalidRowsError, match="column 'x0' has 1 NaN"):
        read_chunks(source)
    assert not recwarn.list


@pytest.mark.parametrize("options", [{"nulls": "ignore"}, {"nulls": "drop", "batch_rows": 0}])
def test_wrong_options_are_usage_errors(options):
    with pytest.raises(UsageError, match=r"`nulls` must be one of|`batch_rows` must be at least 1"):
        ChunkReader(open_source(np.ones((2, 2))), **options)
