"""Many files as one source: what it knows without reading, and what opening one does."""

import math

import pyarrow as pa
import pytest

from nysketch.columns import Column
from nysketch.errors import InputError
from nysketch.sources.expand import expand
from nysketch.sources.feather import FeatherFile
from nysketch.sources.files import FilesSource
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.parquet_footers import Footer
from nysketch.sources.selection import Selection


def test_constructors_only_store(tmp_path):
    schema = pa.schema([("x", pa.float64())])
    gone, lost = expand([str(tmp_path / "gone.parquet"), str(tmp_path / "lost.feather")])
    footer = Footer(gone, math.inf)
    parquet = ParquetFile(gone, schema, [2, 3], footer, largest=1, largest_bytes=24)
    files = [parquet, FeatherFile(lost, schema, [5], is_view=True)]
    source = FilesSource(files, (Column("x"),), left_out={}, kept=pa.schema([]))
    assert source.rows == 10
    assert source.local_paths == [gone.path, lost.path]
    with pytest.raises(InputError, match=r"gone\.parquet: no such file"):
        source.inputs()


def test_opening_looks_at_every_file(tmp_path):
    with pytest.raises(InputError, match=r"gone\.parquet: no such file"):
        FilesSource.open([str(tmp_path / "gone.parquet")], Selection(), widths={})
