"""CSV files: types, damage, compression, headers, and memory that does not grow with the file."""

import gzip

import numpy as np
import pyarrow as pa
import pytest

from nysketch.errors import InputError
from nysketch.sources.csv import CSVFile
from nysketch.sources.expand import expand
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all


def test_compressed_csv_is_read(tmp_path):
    with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
        file.write(b"x,y\n1,2\n3,4\n")
    np.testing.assert_array_equal(read_all(open_source(str(tmp_path / "a.csv.gz"))), [[1, 2], [3, 4]])


def test_csv_that_begins_with_integers_may_go_on_with_fractions(tmp_path):
    count = 600_000  # beyond the first block of the reader
    lines = "\n".join(["x", *["7"] * count, "0.5"])
    (tmp_path / "a.csv").write_text(lines + "\n")
    values = read_all(open_source(str(tmp_path / "a.csv")), 65_536)
    assert values.shape == (count + 1, 1)
    assert values[-1, 0] == 0.5


def test_csv_that_turns_into_text_is_an_input_error(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(["x", *["7"] * 600_000, "oops"]) + "\n")
    with pytest.raises(InputError, match=r"a\.csv: cannot read: .*Row #600002.*oops"):
        read_all(open_source(str(tmp_path / "a.csv")), 65_536)


@pytest.mark.parametrize("name", ["large.csv", "large.csv.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    line = ",".join(["0.123456789012345678"] * 10) + "\n"
    opener = gzip.open if name.endswith("gz") else open
    with opener(tmp_path / name, "wt") as file:
        file.write(",".join(f"x{i}" for i in range(10)) + "\n")
        for _ in range(150):
            file.write(line * 1000)  # 31 MB in all
    before, peak = pa.total_allocated_bytes(), 0
    source = open_source(str(tmp_path / name))
    (fragment,) = source.fragments()
    rows = 0
    for batch in source.read(fragment, 500):
        rows += len(batch)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == source.rows == 150_000
    assert peak < 12 << 20
    assert CSVFile.open(expand([str(tmp_path / name)])[0]).reader_memory([]).ample == 8 << 20


def test_a_line_may_be_longer_than_a_block(tmp_path):  # which grows up to 4 MiB
    long = "y" * 1_500_000
    (tmp_path / "a.csv").write_text("x,t\n" + f"1,{long}\n" * 5 + "0.5,\n")
    source = open_source(str(tmp_path / "a.csv"))
    np.testing.assert_array_equal(read_all(source)[:, 0], [1, 1, 1, 1, 1, 0.5])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False], ids=["ended", "open"])
def test_every_kind_of_line_end(tmp_path, end, last):
    count = 150_000  # more than tells the types
    lines = ["a,b", *[f"{i},0.25" for i in range(count)]]
    (tmp_path / "a.csv").write_bytes((end.join(lines) + (end if last else "")).encode())
    values = read_all(open_source(str(tmp_path / "a.csv")))
    np.testing.assert_array_equal(values[:, 0], np.arange(count))
    assert (values[:, 1] == 0.25).all()


def test_a_line_with_too_many_values_names_file_and_row(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4,5\n")
    with pytest.raises(InputError, match=r"a\.csv: cannot read as CSV: .*Row #3.*Expected 2 columns, got 3"):
        open_source(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("header", "warned"), [("1.5,-2e3", True), ("7,8", True), ("x,8", False), ("x,y", False)]
)
def test_a_header_of_numbers_is_most_likely_a_row(tmp_path, caplog, header, warned):
    (tmp_path / "a.csv").write_text(f"{header}\n3,4\n")
    with caplog.at_level("WARNING", "nysketch"):
        assert open_source(str(tmp_path / "a.csv")).rows == 1
    assert ("a.csv: the first line" in caplog.text) == warned
