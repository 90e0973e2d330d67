"""The rows of a sketch file, from its header: as `load` counts them, or not at all."""

import os

import numpy as np
import pytest

import nysketch
from nysketch.files.row_counts import row_counts


@pytest.fixture
def path(tmp_path):
    rows = np.random.default_rng(0).normal(size=(500, 2))
    rows[:7, 0] = np.nan
    nysketch.sketch(rows, landmarks=20, nulls="drop", output=tmp_path / "s.nysk", scale="none")
    return tmp_path / "s.nysk"


def test_they_are_those_of_the_sketch(path):
    made = nysketch.load(path)
    assert row_counts(path) == (made.rows, made.dropped_rows) == (493, 7)


def test_damaged_files_have_none(path):
    content = path.read_bytes()
    for damaged in (b"", content[:50], content[:-8], content + b"\0" * 8, content.replace(b"F64", b"F65")):
        path.write_bytes(damaged)
        assert row_counts(path) is None
    assert row_counts(path.with_name("none.nysk")) is None


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "f.nysk")
    assert row_counts(tmp_path / "f.nysk") is None


def test_what_is_not_there_is_not_read(path):
    """A header may claim that the counts take gigabytes, in a file that is mostly a hole."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    start = header.index(b'"blocks.rows"')
    claimed = 1 << 34
    entry = b'"blocks.rows":{"data_offsets":[0,%d],"dtype":"I64","shape":[%d]}' % (claimed, claimed // 8)
    metadata = header[header.index(b'"__metadata__"') : header.index(b'"basis.center"')].rstrip(b", ")
    forged = b"{" + metadata + b"," + entry + b"}"
    assert start > 0
    with path.open("wb") as file:
        file.write(len(forged).to_bytes(8, "little") + forged)
        file.truncate(8 + len(forged) + claimed)
    assert row_counts(path) is None
