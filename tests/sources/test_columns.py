"""Which columns are taken, in what order, and what is said about the others."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from nysketch.columns import Column
from nysketch.errors import SchemaError, UsageError
from nysketch.sources.open import open_source
from tests.sources.helpers import open_table, read_all, read_chunks, write_parquet

MIXED = {
    "price": [1.0, 2.0],
    "count": [3, 4],
    "name": ["a", "b"],
    "when": [datetime.datetime(2020, 1, 1)] * 2,
    "nothing": pa.nulls(2),
    "point": [{"x": 1.0}, {"x": 2.0}],
    "bag": [[1, 2], [3]],
    "vector": [[0.5, 1.5], [2.5, 3.5]],
}


def names(source):
    return [column.name for column in source.columns]


def test_all_numeric_columns_are_taken_and_the_rest_is_explained():
    source = open_table(MIXED)
    assert source.columns == (Column("price"), Column("count"), Column("vector", 2))
    assert set(source.left_out) == {"name", "when", "nothing", "point", "bag"}
    assert source.left_out["name"] == "text"
    assert source.left_out["when"] == "time"
    assert source.left_out["nothing"] == "null"
    assert source.left_out["point"].startswith("struct")
    assert "`columns`" in source.left_out["bag"]


def test_named_columns_come_in_the_order_they_were_named():
    source = open_table(MIXED, columns=["vector", "count"])
    assert names(source) == ["vector", "count"]
    np.testing.assert_array_equal(read_all(source), [[0.5, 1.5, 3], [2.5, 3.5, 4]])


def test_one_name_may_be_given_as_a_string():
    assert names(open_table(MIXED, columns="count")) == ["count"]
    assert "count" not in names(open_table(MIXED, exclude="count"))


def test_excluded_columns_are_left_out_and_it_is_said():
    source = open_table(MIXED, exclude=["vector"])
    assert names(source) == ["price", "count"]
    assert source.left_out["vector"] == "excluded"


@pytest.mark.parametrize("option", ["columns", "exclude"])
def test_an_unknown_column_is_an_error_that_guesses_the_right_one(option):
    with pytest.raises(SchemaError, match=r"no column 'prise'; did you mean 'price'\?"):
        open_table(MIXED, **{option: ["prise"]})


def test_an_unknown_weights_column_is_an_error_that_guesses_too():
    with pytest.raises(SchemaError, match=r"no column 'coun'; did you mean 'count'\?"):
        open_table(MIXED, weights="coun")


def test_without_a_guess_the_columns_are_listed(tmp_path):
    path = write_parquet(tmp_path / "wide.parquet", {f"c{i}": [1.0] for i in range(50)})
    with pytest.raises(SchemaError, match=r"no column 'zzz'; it has c0, c1, .* and 42 more") as error:
        open_source(path, columns=["zzz"])
    assert path in str(error.value)


def test_a_column_named_twice_is_an_error():
    with pytest.raises(SchemaError, match="'price' is named twice"):
        open_table(MIXED, columns=["price", "price"])


@pytest.mark.parametrize("column", ["name", "when", "nothing", "point"])
def test_naming_a_column_that_is_no_number_is_an_error(column):
    with pytest.raises(SchemaError, match=f"'{column}' has type .* not numeric.*`exclude=.{column}.`"):
        open_table(MIXED, columns=["price", column])


def test_excluding_everything_is_an_error_that_says_why():
    with pytest.raises(SchemaError, match=r"no numeric columns.*a \(excluded\), b \(text\)"):
        open_table({"a": [1.0], "b": ["x"]}, exclude=["a"])


def test_weights_are_read_beside_the_columns_and_are_none_of_them(tmp_path):
    path = write_parquet(tmp_path / "w.parquet", {"w": [1, 0, 2], "x": [0.5, 1.5, 2.5]})
    source = open_source(path, weights="w")
    assert names(source) == ["x"]
    assert source.left_out["w"] == "row weights"
    ((_, rows, _, weights),) = read_chunks(source)
    np.testing.assert_array_equal(rows[:, 0], [0.5, 1.5, 2.5])
    np.testing.assert_array_equal(weights, [1, 0, 2])


@pytest.mark.parametrize("column", ["name", "vector", "when"])
def test_weights_must_be_numbers(column):
    with pytest.raises(SchemaError, match=f"weights column '{column}' has type"):
        open_table(MIXED, weights=column)


def test_an_array_has_no_weights_column():
    with pytest.raises(UsageError, match="an array has no weights"):
        open_source(np.ones((3, 2)), weights="x0")


def test_two_columns_of_one_name_are_an_error(tmp_path):
    table = pa.table([[1.0], [2.0], [3.0]], names=["a", "b", "a"])
    with pytest.raises(SchemaError, match="two columns are named 'a'"):
        open_source(table)
    with pytest.raises(SchemaError, match=r"d\.parquet: two columns are named 'a'"):
        open_source(write_parquet(tmp_path / "d.parquet", table))


ODD = ["a.b", "a", ".c", "d,e", "with space", "größe", "x'y", '"q"', "*", "s.t", "line\nbreak", ""]


@pytest.mark.parametrize("format", ["table", "parquet", "csv"])
def test_odd_names_are_names_like_any_other(format, tmp_path):
    table = pa.table({name: [float(i), -float(i)] for i, name in enumerate(ODD)})
    if format == "parquet":
        # A struct whose child is spelled like one of the columns.
        table = table.append_column("s", pa.array([{"t": 99.0}] * 2))
        data = write_parquet(tmp_path / "odd.parquet", table)
    elif format == "csv":
        pyarrow.csv.write_csv(table, tmp_path / "odd.csv")
        data = tmp_path / "odd.csv"
    else:
        data = table
    assert names(open_source(data)) == ODD
    source = open_source(data, columns=ODD[::-1])
    np.testing.assert_array_equal(read_all(source)[0], np.arange(len(ODD))[::-1])


def test_an_index_that_pandas_stored_is_no_feature(tmp_path):
    path = write_parquet(tmp_path / "p.parquet", {"x": [1.0, 2.0], "__index_level_0__": [7, 9]})
    source = open_source(path)
    assert names(source) == ["x"]
    assert "pandas" in source.left_out["__index_level_0__"]
    assert names(open_source(path, columns=["__index_level_0__"])) == ["__index_level_0__"]


def test_five_thousand_null_columns_give_one_short_message(tmp_path):
    path = write_parquet(tmp_path / "n.parquet", {f"c{i}": pa.nulls(1) for i in range(5000)})
    with pytest.raises(SchemaError) as error:
        open_source(path)
    message = str(error.value)
    assert re.search(r"no numeric columns.*c0 \(null\).*and 4,992 more", message)
    assert len(message) < 500 + len(path)


def test_a_basis_chooses_the_columns_and_their_order():
    source = open_table(MIXED, like=[Column("count"), Column("price")])
    assert names(source) == ["count", "price"]


@pytest.mark.parametrize("option", [{"columns": ["price"]}, {"exclude": ["price"]}])
def test_columns_cannot_be_chosen_against_a_basis(option):
    with pytest.raises(UsageError, match="leave out `columns` and `exclude`"):
        open_table(MIXED, like=[Column("price")], **option)


def test_a_column_of_the_basis_cannot_be_the_weights():
    with pytest.raises(UsageError, match="'price' belongs to the basis"):
        open_table(MIXED, like=[Column("price"), Column("count")], weights="price")


def test_lists_must_be_as_wide_as_in_the_basis():
    with pytest.raises(SchemaError, match="'vector' has width 2, in the basis it has 3"):
        open_table(MIXED, like=[Column("vector", 3)])


def test_arrays_must_be_as_wide_as_the_basis():
    with pytest.raises(SchemaError, match="has 2 columns, the basis has 3"):
        open_source(np.ones((4, 2)), like=[Column("a", 2), Column("b")])


def test_arrays_take_their_names_from_the_basis():
    source = open_source(np.arange(6.0).reshape(2, 3), like=[Column("a", 2), Column("b")])
    assert source.columns == (Column("a", 2), Column("b"))
    np.testing.assert_array_equal(read_all(source), [[0, 1, 2], [3, 4, 5]])


def test_columns_of_arrays_can_be_chosen_by_number():
    source = open_source(np.arange(6.0).reshape(2, 3), columns=["x2", "x0"])
    np.testing.assert_array_equal(read_all(source), [[2, 0], [5, 3]])
