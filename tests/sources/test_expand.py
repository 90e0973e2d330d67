"""Paths, globs, directories and URIs → files; and what is said when there are none."""

import os

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from nysketch.errors import InputError, UsageError
from nysketch.sources.expand import expand
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, write_parquet

ONE = {"x": [1.0, 2.0, 3.0]}


def names_below(folder, locations):
    return [os.path.relpath(location.path, folder) for location in locations]


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"nope\.parquet: no such file"):
        open_source(str(tmp_path / "nope.parquet"))


def test_a_missing_file_behind_a_uri_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"file:///.*/nope\.parquet: no such file"):
        open_source(f"file://{tmp_path}/nope.parquet")


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_glob_that_matches_nothing_is_an_input_error(tmp_path, prefix):
    with pytest.raises(InputError, match=r"\*\.parquet: no files match"):
        open_source(f"{prefix}{tmp_path}/*.parquet")


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_directory_without_data_is_an_input_error(tmp_path, prefix):
    (tmp_path / "notes.txt").write_text("no data")
    with pytest.raises(InputError, match="no data files"):
        open_source(f"{prefix}{tmp_path}")


def test_no_inputs_are_a_usage_error():
    with pytest.raises(UsageError, match="no inputs"):
        open_source([])


def test_an_unknown_scheme_is_a_usage_error():
    with pytest.raises(UsageError, match=r"gopher://x/y: fsspec cannot open such an address: .*not known"):
        open_source("gopher://x/y")


def test_a_name_longer_than_names_can_be_is_an_input_error():
    with pytest.raises(InputError, match="xxx"):
        open_source("x" * 5000 + "*")


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_directory_stands_for_its_data_in_order(tmp_path, prefix):
    for name in ("b.parquet", "a/2.pq", "a/1.PARQUET", "_hidden/x.parquet", ".tmp/x.parquet"):
        write_parquet(tmp_path / name, ONE)
    for name in ("c.parquet.tmp", "b.parquet.bak", "b.csv.nysk", "_SUCCESS", ".b.parquet.crc", "b.txt"):
        (tmp_path / name).write_text("x\n1\n")
    found = names_below(tmp_path, expand([f"{prefix}{tmp_path}"]))
    assert found == ["a/1.PARQUET", "a/2.pq", "b.parquet"]


@pytest.mark.parametrize("prefix", ["", "file://"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.parquet", ["a.parquet", "b.parquet"]),
        ("[ac].parquet", ["a.parquet"]),
        ("*/*.parquet", ["d/c.parquet"]),
        ("**/*.parquet", ["a.parquet", "b.parquet", "d/c.parquet", "d/e/f.parquet"]),
        ("d/**/*.parquet", ["d/c.parquet", "d/e/f.parquet"]),
    ],
)
def test_globs_mean_the_same_for_paths_and_uris(tmp_path, prefix, pattern, expected):
    for name in ("b.parquet", "a.parquet", "d/c.parquet", "d/e/f.parquet"):
        write_parquet(tmp_path / name, ONE)
    assert names_below(tmp_path, expand([f"{prefix}{tmp_path}/{pattern}"])) == expected


@pytest.mark.parametrize("prefix", ["", "file://"])
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["a.parquet", "k=1/c.parquet"]),
        ("**/*", ["a.parquet", "k=1/c.parquet"]),
        ("_*", ["_SUCCESS", "_b.parquet"]),
        ("*/_*", ["k=1/_SUCCESS"]),
    ],
)
def test_globs_skip_what_writers_leave_beside_the_data_unless_it_is_meant(
    tmp_path, prefix, pattern, expected
):
    for name in ("a.parquet", "_b.parquet", "k=1/c.parquet"):
        write_parquet(tmp_path / name, ONE)
    for name in ("_SUCCESS", ".a.parquet.crc", "k=1/_SUCCESS"):
        (tmp_path / name).touch()
    if prefix and pattern == "*":  # which stands for files only, in URIs
        expected = expected[:1]
    assert names_below(tmp_path, expand([f"{prefix}{tmp_path}/{pattern}"])) == expected


def test_a_glob_that_matches_only_what_is_skipped_matches_nothing(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(InputError, match="no files match"):
        open_source(f"{tmp_path}/*")


def test_a_name_with_brackets_is_a_name_if_there_is_such_a_file(tmp_path):
    write_parquet(tmp_path / "a[1].parquet", ONE)
    assert open_source(str(tmp_path / "a[1].parquet")).rows == 3


def test_uris_are_decoded(tmp_path):
    write_parquet(tmp_path / "a b.parquet", ONE)
    assert open_source(f"file://{tmp_path}/a%20b.parquet").rows == 3


@pytest.mark.parametrize(
    "spelling", ["{0}/a.parquet", "{0}/b/../a.parquet", "file://{0}/a.parquet", "{0}/l.pq", "{0}"]
)
def test_a_file_given_twice_is_a_usage_error_however_it_is_spelled(tmp_path, spelling):
    path = write_parquet(tmp_path / "a.parquet", ONE)
    if spelling.endswith("l.pq"):
        (tmp_path / "l.pq").symlink_to(path)
    (tmp_path / "b").mkdir()
    with pytest.raises(UsageError, match="given twice"):
        open_source([path, spelling.format(tmp_path)])


def test_user_and_password_of_a_uri_are_never_shown():
    with pytest.raises(InputError) as error:
        open_source("s3://me:secret@no-bucket-here/x.parquet?no_such_option=1")
    assert "secret" not in str(error.value)
    assert str(error.value).startswith("s3://no-bucket-here/x.parquet: ")


def test_files_of_different_formats_make_one_source(tmp_path):
    parquet = write_parquet(tmp_path / "a.parquet", ONE)
    pyarrow.csv.write_csv(pa.table({"x": [4.0, 5.0]}), tmp_path / "b.csv")
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"] = np.array([6.0])
    source = open_source([parquet, tmp_path / "b.csv", tmp_path / "c.h5"])
    np.testing.assert_array_equal(read_all(source)[:, 0], [1, 2, 3, 4, 5, 6])


def test_links_that_lead_nowhere_are_not_passed_over(tmp_path):
    pa.parquet.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    for inputs in (tmp_path, tmp_path / "*.parquet"):
        with pytest.raises(InputError, match=r"b\.parquet: no such file"):
            open_source(inputs)
    assert len(open_source(tmp_path, skip_unreadable=True).skipped) == 1


@pytest.mark.parametrize(
    "text",
    [
        "a.parquet",
        "./a.parquet",
        "d",
        "./d/",
        ".",
        "../*/d",
        "*",
        "*.parquet",
        "d/**/*.parquet",
        "**/e*",
        "nope.parquet",
    ],
)
def test_a_base_directory_is_where_relative_paths_start_and_no_part_of_names(tmp_path, monkeypatch, text):
    base = tmp_path / "base"
    for name in ("a.parquet", "d/c.parquet", "d/k=1/e.parquet"):
        write_parquet(base / name, ONE)
    found = expand([text], base=base)
    absolute = expand([str(tmp_path / "base" / "a.parquet")], base=tmp_path / "elsewhere")
    assert [location.name for location in absolute] == [str(base / "a.parquet")]
    monkeypatch.chdir(base)
    expected = expand([text])
    assert [location.name for location in found] == [location.name for location in expected]
    assert [os.path.realpath(location.path) for location in found] == [
        os.path.realpath(location.path) for location in expected
    ]


@pytest.mark.parametrize("text", ["nope*.parquet", "empty"])
def test_messages_name_what_was_given_and_not_the_base_directory(tmp_path, text):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as trouble:
        expand([text], base=tmp_path)
    assert str(trouble.value).startswith(f"{text}: no ")
