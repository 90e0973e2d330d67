"""Parquet files: what a reader of them is said to hold."""

import pyarrow as pa
import pytest

from nysketch.sources.expand import expand
from nysketch.sources.parquet import ParquetFile
from tests.sources.helpers import write_parquet


@pytest.mark.parametrize(("columns", "counted"), [(3, 3), (2500, 2048)])
def test_a_reader_holds_pages_and_buffers_for_every_column(tmp_path, columns, counted):
    table = pa.table({f"x{i}": [1.0] for i in range(columns)})
    file = ParquetFile.open(expand([write_parquet(tmp_path / "p.parquet", table)])[0])
    assert file.reader_bytes == (16 << 20) + counted * (64 << 10)
