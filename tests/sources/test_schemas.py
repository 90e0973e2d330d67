"""Many files, one schema: what may differ between them and what may not."""

import numpy as np
import pyarrow as pa
import pytest

from nysketch.columns import Column
from nysketch.errors import SchemaError
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, write_parquet


@pytest.fixture
def write(tmp_path):
    """Write each dict of columns as a file of its own and return the paths."""

    def write_files(*tables):
        return [write_parquet(tmp_path / f"{i}.parquet", columns) for i, columns in enumerate(tables)]

    return write_files


def test_a_column_missing_in_a_later_file_is_named_with_both_files(write):
    paths = write({"x": [1.0], "y": [1.0]}, {"x": [1.0]})
    with pytest.raises(SchemaError, match=r"1\.parquet: no column 'y', which .*0\.parquet has.*`columns`"):
        open_source(paths)


def test_text_instead_of_a_number_is_named_with_both_types(write):
    paths = write({"x": [1.0]}, {"x": ["1"]})
    with pytest.raises(
        SchemaError,
        match=r"1\.parquet: column 'x' has type string, in .*0\.parquet it is double.*`exclude=.x.`",
    ):
        open_source(paths)


def test_a_column_of_nulls_only_instead_of_a_number_is_an_error(write):
    with pytest.raises(SchemaError, match="'x' has type null"):
        open_source(write({"x": [1.0]}, {"x": pa.nulls(2)}))


def test_fixed_lists_of_different_width_are_named_with_both(write):
    two, three = (pa.array([[1.0] * n], pa.list_(pa.float64(), n)) for n in (2, 3))
    with pytest.raises(SchemaError, match=r"1\.parquet: column 'v' has width 3, in .*0\.parquet it has 2"):
        open_source(write({"v": two}, {"v": three}))


def test_a_number_instead_of_a_list_is_an_error(write):
    with pytest.raises(SchemaError, match="'v' has width 1"):
        open_source(write({"v": [[1.0, 2.0]]}, {"v": [1.0]}))


def test_lists_of_different_length_between_files_are_found_when_read(write):
    source = open_source(write({"v": [[1.0, 2.0]]}, {"v": [[1.0, 2.0, 3.0]]}))
    with pytest.raises(SchemaError, match=r"1\.parquet, row group 0: column 'v' has a list of length 3"):
        read_all(source)


def test_ragged_lists_name_file_row_group_column_both_lengths_and_the_flag(tmp_path):
    lists = [[1.0, 2.0]] * 5 + [[1.0]] + [[1.0, 2.0]]
    source = open_source(write_parquet(tmp_path / "r.parquet", {"v": lists}, row_group_size=4))
    with pytest.raises(SchemaError) as error:
        read_all(source)
    for part in ("r.parquet, row group 1", "'v'", "length 1", "have 2", "`exclude="):
        assert part in str(error.value)


def test_numbers_of_different_types_go_together(write):
    paths = write({"x": [1.5]}, {"x": [2]}, {"x": [True]}, {"x": pa.array([4], pa.uint8())})
    np.testing.assert_array_equal(read_all(open_source(paths))[:, 0], [1.5, 2, 1, 4])


def test_lists_of_different_types_go_together(write):
    fixed = pa.array([[1, 2]], pa.list_(pa.int32(), 2))
    paths = write({"v": [[0.5, 1.5]]}, {"v": fixed}, {"v": pa.array([[5, 6]], pa.large_list(pa.float32()))})
    np.testing.assert_array_equal(read_all(open_source(paths)), [[0.5, 1.5], [1, 2], [5, 6]])


def test_columns_in_another_order_are_the_same_columns(write):
    paths = write({"x": [1.0], "y": [2.0]}, {"y": [4.0], "x": [3.0]})
    np.testing.assert_array_equal(read_all(open_source(paths)), [[1, 2], [3, 4]])


def test_numeric_columns_that_the_first_file_has_not_are_reported(write):
    source = open_source(write({"x": [1.0]}, {"x": [2.0], "z": [1.0], "s": ["a"]}))
    assert [column.name for column in source.columns] == ["x"]
    assert set(source.left_out) == {"z"}
    assert "not in" in source.left_out["z"]


def test_the_width_of_lists_may_show_in_a_later_file_only(write):
    kind = pa.list_(pa.float64())
    paths = write({"v": pa.array([None], kind)}, {"v": pa.array([[1.0, 2.0]], kind)})
    source = open_source(paths)
    assert source.columns == (Column("v", 2),)
    np.testing.assert_array_equal(read_all(source), [[np.nan] * 2, [1, 2]])


def test_weights_must_be_in_every_file_as_numbers(write):
    paths = write({"x": [1.0], "w": [1.0]}, {"x": [1.0]})
    with pytest.raises(SchemaError, match=r"1\.parquet: no column 'w'"):
        open_source(paths, weights="w")


def test_weights_that_are_text_in_a_later_file_are_an_error(write):
    paths = write({"x": [1.0], "w": [1.0]}, {"x": [1.0], "w": ["1"]})
    with pytest.raises(SchemaError, match=r"1\.parquet: column 'w' has type string"):
        open_source(paths, weights="w")


def test_files_in_the_order_given_not_sorted(write):
    paths = write({"x": [0.0]}, {"x": [1.0]}, {"x": [2.0]})
    np.testing.assert_array_equal(read_all(open_source(paths[::-1]))[:, 0], [2, 1, 0])
