"""Many files as one source: what it knows without reading, and what opening one does."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch.columns import Column
from nysketch.errors import InputError
from nysketch.sources.expand import expand
from nysketch.sources.feather import FeatherFile
from nysketch.sources.feather_batches import BatchSize
from nysketch.sources.files import FilesSource
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.parquet_footers import Footer
from nysketch.sources.selection import Selection


def test_constructors_only_store(tmp_path):
    schema = pa.schema([("x", pa.float64())])
    gone, lost = expand([str(tmp_path / "gone.parquet"), str(tmp_path / "lost.feather")])
    footer = Footer(gone, math.inf)
    parquet = ParquetFile(gone, schema, [2, 3], footer, largest=1, largest_bytes=24, memory=math.inf)
    batch = BatchSize(5, is_compressed=False, stored=[40], decoded=[0])
    files = [parquet, FeatherFile(lost, schema, [batch], is_view=True)]
    source = FilesSource(files, (Column("x"),), left_out={}, kept=pa.schema([]))
    assert source.rows == 10
    assert source.local_paths == [gone.path, lost.path]
    with pytest.raises(InputError, match=r"gone\.parquet: no such file"):
        source.inputs()


def test_opening_looks_at_every_file(tmp_path):
    with pytest.raises(InputError, match=r"gone\.parquet: no such file"):
        FilesSource.open([str(tmp_path / "gone.parquet")], Selection(), widths={})


def _write_files(folder, count):
    """Write files of the same columns, of which each says something else about itself."""
    for i in range(count):
        table = pa.table({"x": [1.0 * i, 2.0], "n": [i, -i]})
        pq.write_table(table.replace_schema_metadata({"rows": str(i)}), folder / f"{i:02}.parquet")
    return FilesSource.open([str(folder)], Selection(), widths={})


def test_files_of_the_same_columns_hold_one_schema(tmp_path):
    source = _write_files(tmp_path, 5)
    assert len({id(file._schema) for file in source._files}) == 1


def test_files_of_other_columns_keep_their_own(tmp_path):
    _write_files(tmp_path, 2)
    pq.write_table(pa.table({"n": [1], "x": [1.0]}), tmp_path / "01.parquet")
    pq.write_table(pa.table({"x": pa.array([1.0], pa.float32()), "n": [1]}), tmp_path / "02.parquet")
    source = FilesSource.open([str(tmp_path)], Selection(), widths={})
    assert [file._schema.names for file in source._files] == [["x", "n"], ["n", "x"], ["x", "n"]]
    assert [str(file._schema.field("x").type) for file in source._files] == ["double", "double", "float"]


def test_extremes_are_those_of_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.files._AT_A_TIME", 2)
    assert _write_files(tmp_path, 5).extremes(["x", "n"]) == {"x": (0.0, 4.0), "n": (-4.0, 4.0)}
