"""Arrow types → numbers: every type that counts as one, with nulls, slices and dictionaries."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nysketch.columns import Column
from nysketch.errors import SchemaError
from nysketch.sources.arrow import to_numpy
from nysketch.sources.open import open_source
from tests.sources.helpers import counted_nulls, open_table, read_all, write_parquet

FLOATS = (pa.float16(), pa.float32(), pa.float64())
INTEGERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
NUMBERS = (*FLOATS, *INTEGERS)


def dictionary(kind):
    return pa.dictionary(pa.int8(), kind)


def scalars():
    for kind in NUMBERS:
        yield pytest.param([1, None, 3, 0], kind, id=str(kind))
    yield pytest.param([True, None, False, True], pa.bool_(), id="bool")
    for kind in (pa.decimal128(9, 2), pa.decimal256(50, 2)):
        yield pytest.param([Decimal("1.25"), None, Decimal("-3.5"), Decimal(0)], kind, id=str(kind))
    for kind in (pa.int32(), pa.uint64(), pa.float32(), pa.float64()):
        yield pytest.param([1, None, 3, 1], dictionary(kind), id=f"dictionary of {kind}")


def lists():
    values = [[1.5, 2.0], None, [3.0, None], [-0.5, 0.0]]
    for kind in FLOATS:
        yield pytest.param(values, pa.list_(kind), id=f"list of {kind}")
        yield pytest.param(values, pa.large_list(kind), id=f"large_list of {kind}")
        yield pytest.param(values, pa.list_(kind, 2), id=f"fixed list of {kind}")
    whole = [[1, 2], None, [3, None], [0, 7]]
    for kind in (pa.list_(pa.int16(), 2), pa.list_(pa.int64()), pa.large_list(pa.uint8())):
        yield pytest.param(whole, kind, id=str(kind))
    bits = [[True, False], None, [True, None], [False, False]]
    yield pytest.param(bits, pa.list_(pa.bool_(), 2), id="fixed list of bool")
    money = [[Decimal("1.5"), Decimal(2)], None, [Decimal(3), None], [Decimal(0), Decimal(7)]]
    yield pytest.param(money, pa.list_(pa.decimal128(9, 2)), id="list of decimal")


def as_floats(values, width):
    """The slow, obviously correct way."""
    result = []
    for value in values:
        items = value if isinstance(value, list) else [value] * width
        result.append([np.nan if item is None else float(item) for item in items])
    return np.array(result)


def nulls_in(values):
    return sum(v is None or (isinstance(v, list) and None in v) for v in values)


@pytest.mark.parametrize(("values", "kind"), [*scalars(), *lists()])
def test_values_come_as_floats_and_nulls_as_nan(values, kind):
    array = pa.array(values, kind)
    width = len(values[0]) if isinstance(values[0], list) else 1
    found, nulls = to_numpy(array, Column("x", width), "here")
    np.testing.assert_array_equal(np.asarray(found, float).reshape(-1, width), as_floats(values, width))
    assert nulls == nulls_in(values)


@pytest.mark.parametrize(("values", "kind"), [*scalars(), *lists()])
def test_slices_are_read_from_their_own_offset(values, kind):
    array = pa.array(values * 3, kind)
    width = len(values[0]) if isinstance(values[0], list) else 1
    for start, length in ((1, 3), (3, 7), (5, 2), (11, 1), (4, 0)):
        part = (values * 3)[start : start + length]
        found, nulls = to_numpy(array.slice(start, length), Column("x", width), "here")
        expected = as_floats(part, width).reshape(-1, width)
        np.testing.assert_array_equal(np.asarray(found, float).reshape(-1, width), expected)
        assert nulls == nulls_in(part)


@pytest.mark.parametrize(("values", "kind"), [*scalars(), *lists()])
def test_parquet_gives_the_same_values_as_the_table(values, kind, tmp_path):
    table = pa.table({"x": pa.array(values * 5, kind), "y": np.arange(5.0 * len(values))})
    path = write_parquet(tmp_path / "t.parquet", table, row_group_size=3)
    in_memory = open_source(table, columns=["x", "y"])
    stored = open_source(path, columns=["x", "y"])
    assert stored.columns == in_memory.columns
    np.testing.assert_array_equal(read_all(stored, 2), read_all(in_memory))
    assert counted_nulls(stored) == counted_nulls(in_memory) == [nulls_in(values) * 5, 0]


def test_large_unsigned_integers_keep_their_sign():
    values = [2**64 - 1, 2**63, 0]
    source = open_table({"x": pa.array(values, pa.uint64())})
    np.testing.assert_array_equal(read_all(source)[:, 0], np.array(values, float))


def test_nulls_hide_in_the_values_of_a_dictionary_too():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), pa.array([None, 2.5]))
    found, nulls = to_numpy(array, Column("x"), "here")
    np.testing.assert_array_equal(found, [np.nan, 2.5, np.nan, np.nan])
    assert nulls == 3


def test_chunks_of_a_table_may_have_different_dictionaries():
    chunks = [pa.array([1.5, 2.5]).dictionary_encode(), pa.array([2.5, None]).dictionary_encode()]
    source = open_table({"x": pa.chunked_array(chunks)})
    np.testing.assert_array_equal(read_all(source)[:, 0], [1.5, 2.5, 2.5, np.nan])


def test_the_width_of_lists_is_that_of_the_first_that_is_not_null():
    lists = pa.array([None] * 3000 + [[1.0, 2.0, 3.0]], pa.list_(pa.float64()))
    assert open_table({"x": lists}).columns == (Column("x", 3),)


def test_lists_that_are_all_null_have_no_width():
    with pytest.raises(SchemaError, match=r"'x' holds no lists.*`exclude=.x.`"):
        open_table({"x": pa.array([None, None], pa.list_(pa.float64())), "y": [1.0, 2.0]})


def test_a_basis_knows_the_width_of_lists_that_are_all_null():
    lists = pa.array([None, None], pa.list_(pa.float64()))
    source = open_table({"x": lists}, like=[Column("x", 4)])
    assert np.isnan(read_all(source)).all()
    assert read_all(source).shape == (2, 4)


def test_lists_of_length_zero_are_left_out():
    source = open_table({"x": pa.array([[], []], pa.list_(pa.float64(), 0)), "y": [1.0, 2.0]})
    assert source.columns == (Column("y"),)
    assert "x" in source.left_out


@given(
    values=st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=1, max_size=40),
    kind=st.sampled_from([pa.float32(), pa.float64(), dictionary(pa.float64())]),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    batch_rows=st.integers(1, 50),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_any_slice_of_any_floats_reads_back(values, kind, cut, batch_rows):
    table = pa.table({"x": pa.array(values, kind)}).slice(*cut)
    if not len(table):
        return
    expected = as_floats(values[cut[0] : cut[0] + cut[1]], 1)
    np.testing.assert_array_equal(read_all(open_source(table), batch_rows), expected)


@given(
    values=st.lists(
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.floats(width=32)), min_size=3, max_size=3)),
        min_size=1,
        max_size=30,
    ),
    kind=st.sampled_from([pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 3)]),
    start=st.integers(0, 30),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_any_slice_of_any_lists_reads_back(values, kind, start):
    array = pa.array(values, kind).slice(start)
    found, nulls = to_numpy(array, Column("x", 3), "here")
    np.testing.assert_array_equal(found, as_floats(values[start:], 3).reshape(-1, 3))
    assert nulls == nulls_in(values[start:])
