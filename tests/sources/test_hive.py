"""Directories like `year=2020`: their keys are columns for those who ask."""

import h5py
import numpy as np
import pytest

from nysketch.errors import SchemaError
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, read_chunks, write_parquet


@pytest.fixture
def years(tmp_path):
    for year in (2020, 2021):
        columns = {"x": [year + 0.25, year + 0.5], "v": [[1.0, 2.0]] * 2}
        write_parquet(tmp_path / f"year={year}" / "city=Łódź%2F1" / "part.parquet", columns)
    return str(tmp_path)


def test_keys_are_left_out_unless_named(years):
    source = open_source(years)
    assert [column.name for column in source.columns] == ["x", "v"]
    assert source.left_out["year"] == "partition key: name it in `columns` to use it"
    assert source.left_out["city"] == "partition key, not a number"


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_a_named_key_is_a_column(years, batch_rows):
    source = open_source(years, columns=["year", "x"])
    expected = [[y, y + f] for y in (2020, 2021) for f in (0.25, 0.5)]
    np.testing.assert_array_equal(read_all(source, batch_rows), expected)


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_a_key_alone_is_a_column(years, batch_rows):
    source = open_source(years, columns=["year"])
    np.testing.assert_array_equal(read_all(source, batch_rows)[:, 0], [2020, 2020, 2021, 2021])


def test_a_key_alone_beside_lists_only(tmp_path):
    write_parquet(tmp_path / "k=3" / "p.parquet", {"v": [[1.0, 2.0]] * 2, "s": ["a", "b"]})
    np.testing.assert_array_equal(read_all(open_source(str(tmp_path), columns=["k"])), [[3], [3]])


def test_a_key_that_is_no_number_cannot_be_used(years):
    with pytest.raises(SchemaError, match=r"'city' has type partition key 'Łódź/1', which is not numeric"):
        open_source(years, columns=["x", "city"])


@pytest.mark.parametrize("text", ["2024_01", "nan", "inf", "2024-01", "0x10", "__HIVE_DEFAULT_PARTITION__"])
def test_what_only_looks_like_a_number_is_none(tmp_path, text):
    write_parquet(tmp_path / f"k={text}" / "p.parquet", {"x": [1.0]})
    with pytest.raises(SchemaError, match="'k' has type partition key"):
        open_source(str(tmp_path), columns=["x", "k"])


@pytest.mark.parametrize(("text", "value"), [("007", 7), ("-1.5", -1.5), ("1e3", 1000), (".5", 0.5)])
def test_numbers_may_be_spelled_in_any_usual_way(tmp_path, text, value):
    write_parquet(tmp_path / f"k={text}" / "p.parquet", {"x": [1.0]})
    np.testing.assert_array_equal(read_all(open_source(str(tmp_path), columns=["k"])), [[value]])


def test_a_key_may_be_the_weights_and_weights_may_stand_beside_keys(years):
    weighted = read_chunks(open_source(years, columns=["x"], weights="year"))
    np.testing.assert_array_equal(np.concatenate([w for *_, w in weighted]), [2020, 2020, 2021, 2021])
    keyed = read_chunks(open_source(years, columns=["year"], weights="x"))
    expected = [2020.25, 2020.5, 2021.25, 2021.5]
    np.testing.assert_array_equal(np.concatenate([w for *_, w in keyed]), expected)
    np.testing.assert_array_equal(np.concatenate([r for _, r, *_ in keyed])[:, 0], [2020, 2020, 2021, 2021])


def test_the_column_of_the_file_wins_over_the_key(tmp_path):
    write_parquet(tmp_path / "x=5" / "p.parquet", {"x": [1.0, 2.0]})
    np.testing.assert_array_equal(read_all(open_source(str(tmp_path))), [[1], [2]])


def test_nulls_are_counted_beside_keys(tmp_path):
    write_parquet(tmp_path / "k=5" / "p.parquet", {"x": [1.0, None], "w": [1.0, None]})
    source = open_source(str(tmp_path), columns=["k", "x"], weights="w")
    (fragment,) = source.fragments()
    (batch,) = source.read(fragment, 10)
    assert list(batch.nulls) == [0, 1, 1]


def test_hdf5_files_may_lie_in_partitions_too(tmp_path):
    (tmp_path / "k=5").mkdir()
    with h5py.File(tmp_path / "k=5" / "a.h5", "w") as file:
        file["t"] = np.ones((2, 2))
    np.testing.assert_array_equal(read_all(open_source(str(tmp_path), columns=["t", "k"])), [[1, 1, 5]] * 2)


def test_a_glob_may_match_partitions(years):
    source = open_source(f"{years}/year=*", columns=["year"])
    np.testing.assert_array_equal(read_all(source)[:, 0], [2020, 2020, 2021, 2021])
