"""Feather files: what is held of them in memory."""

import gc

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from nysketch.columns import Column
from nysketch.errors import InputError
from nysketch.sources.expand import expand
from nysketch.sources.feather import FeatherFile
from nysketch.sources.open import open_source

ROWS = 200_000


def write(path, compression, columns=4):
    values = np.arange(float(ROWS))
    table = pa.table({f"x{i}": values + i for i in range(columns)})
    pyarrow.feather.write_feather(table, path, compression=compression, chunksize=ROWS)
    return FeatherFile.open(expand([str(path)])[0])


def most_held(file, columns):
    """Return the most that Arrow holds while one batch after the other is read."""
    gc.collect()  # what other tests have left must not be freed in between
    before = pa.total_allocated_bytes()
    peak = 0
    for number, batch in enumerate(file.read(0, columns, None, 1000)):
        peak = max(peak, pa.total_allocated_bytes() - before)
        np.testing.assert_array_equal(batch.values[0], np.arange(1000.0) + 1000 * number + 1)
    return peak


def test_nothing_is_held_of_a_large_batch_that_is_not_compressed(tmp_path):
    file = write(tmp_path / "u.feather", "uncompressed")
    assert most_held(file, [Column("x1"), Column("x3")]) < 100_000
    assert file.reader_memory([]).ample == 1 << 20


def test_the_chosen_columns_are_held_of_a_compressed_batch(tmp_path):
    file = write(tmp_path / "c.feather", "zstd")
    assert 0.99 * 8 * ROWS <= most_held(file, [Column("x1")]) < 12 * ROWS
    assert file.reader_memory([]).ample == 4 * 8 * ROWS


def test_lists_count_with_their_length_in_what_is_held(tmp_path):
    table = pa.table({"v": [[1.0, 2.0, 3.0]] * 100, "s": ["a"] * 100})
    pyarrow.feather.write_feather(table, tmp_path / "l.feather", compression="zstd")
    assert FeatherFile.open(expand([str(tmp_path / "l.feather")])[0]).reader_memory([]).ample == 100 * 8 * 3


def test_values_outlive_the_file_they_are_a_view_of(tmp_path):
    file = write(tmp_path / "u.feather", "uncompressed")
    batches = [batch.values[0] for batch in file.read(0, [Column("x0")], None, 70_000)]
    (tmp_path / "u.feather").unlink()
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(float(ROWS)))


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_offsets_that_point_outside_a_list_are_not_followed(tmp_path, compression):
    offsets = pa.py_buffer(np.array([0, 2, 1 << 30, 6], np.int32))
    values = pa.array(np.arange(6.0))
    lists = pa.Array.from_buffers(pa.list_(pa.float64()), 3, [None, offsets], children=[values])
    batch = pa.record_batch({"v": lists, "x": [1.0, 2.0, 3.0]})
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "uncompressed" else compression)
    with pa.ipc.new_file(str(tmp_path / "h.feather"), batch.schema, options=options) as writer:
        writer.write_batch(batch)
    with pytest.raises(InputError, match=r"h\.feather.*cannot read as Feather"):
        open_source(str(tmp_path / "h.feather"))
    assert open_source(str(tmp_path / "h.feather"), columns=["x"]).rows == 3
