"""Feather files: what is held of them in memory."""

import gc

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from nysketch.columns import Column
from nysketch.errors import InputError, UsageError
from nysketch.sources.expand import expand
from nysketch.sources.feather import FeatherFile
from nysketch.sources.feather_batches import sizes_of
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
    assert file.reader_memory(["x1"]).ample == 16 << 20


def test_the_chosen_columns_are_held_of_a_compressed_batch(tmp_path):
    file = write(tmp_path / "c.feather", "zstd")
    assert 0.99 * 8 * ROWS <= most_held(file, [Column("x1")]) < 12 * ROWS
    held, path = file.reader_memory(["x1"]), tmp_path / "c.feather"
    assert 8 * ROWS < held.ample == held.least < 8 * ROWS + path.stat().st_size
    assert file.reader_memory(["x1", "x3"]).ample > 1.9 * held.ample
    assert held.where.endswith("c.feather, record batch 0")


# ---- what a file says of its batches ---------------------------------------------------------------------


def of_many_types(rows):
    number, text = pa.array(range(rows)), pa.array(["x"] * rows)
    kind = pa.array([0] * rows, pa.int8())
    places = pa.array(range(rows), pa.int32())
    columns = {
        "number": number,
        "text": text,
        "bool": pa.array([True, None] * (rows // 2)),
        "null": pa.nulls(rows),
        "list": pa.array([[1.0, 2.0]] * rows),
        "large_list": pa.array([["x"]] * rows, pa.large_list(pa.large_string())),
        "fixed": pa.array([[1, 2]] * rows, pa.list_(pa.int32(), 2)),
        "list_view": pa.array([[1, 2]] * rows, pa.list_view(pa.int64())),
        "struct": pa.array([{"a": 1, "b": "x"}] * rows),
        "map": pa.array([[("a", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
        "view": pa.array(["so long that it is kept elsewhere"] * rows, pa.string_view()),
        "dictionary": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
        "sparse": pa.UnionArray.from_sparse(kind, [number, text]),
        "dense": pa.UnionArray.from_dense(kind, places, [number, text]),
        "runs": pa.RunEndEncodedArray.from_arrays([rows], [1.5]),
        "binary": pa.array([b"x"] * rows, pa.large_binary()),
        "last": number,
    }
    return pa.table(columns).combine_chunks()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("version", [pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5], ids=str)
def test_batches_of_any_types_are_described(tmp_path, version, compression):
    table = of_many_types(1000)
    if version == pa.ipc.MetadataVersion.V4:  # which has no unions like these
        table = table.drop_columns(["sparse", "dense"])
    options = pa.ipc.IpcWriteOptions(compression=compression, metadata_version=version)
    path = tmp_path / "t.feather"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=400)
    with pa.OSFile(str(path)) as file:
        batches, dictionaries = sizes_of(file, table.schema)
    assert [batch.rows for batch in batches] == [400, 400, 200]
    assert dictionaries > 0
    for batch in batches:
        assert batch.is_compressed == (compression is not None)
        sizes = batch.decoded if compression else batch.stored
        assert sizes[0] == sizes[-1] == 8 * batch.rows
        named = dict(zip(table.column_names, sizes, strict=True))
        assert named["null"] == 0 and named["text"] >= 5 * batch.rows
        assert 20 * batch.rows <= named["list"] < 21 * batch.rows


def test_what_describes_batches_wrongly_is_damaged(tmp_path):
    """Every byte of the messages and the footer: an error of ours, or a file that reads as far as it goes."""
    path = tmp_path / "d.feather"
    table = pa.table({"x": [1.0, 2.0, 3.0], "v": [[1.0], [2.0], [3.0]]})
    pyarrow.feather.write_feather(table, path, compression="zstd")
    data = path.read_bytes()
    errors = 0
    for at in range(8, len(data)):
        for value in (0, 255, data[at] ^ 1):
            path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
            try:
                file = FeatherFile.open(expand([str(path)])[0])
                file.list_width("v")
                for index in range(len(file.fragment_rows)):
                    list(file.read(index, [Column("x")], None, 10))
            except (InputError, UsageError):
                errors += 1
    assert errors > len(data)


def test_a_column_that_does_not_fit_is_refused_before_it_is_read(tmp_path):
    """How long its lists are, nobody knows until some are read."""
    path = tmp_path / "l.feather"
    pyarrow.feather.write_feather(pa.table({"v": [[0.0] * 1000] * 5000}), path, compression="zstd")
    location = expand([str(path)])[0]
    words = r"l\.feather, record batch 0, column 'v': takes about 40 MB .* Allow 55\d MB with `memory`, or"
    with pytest.raises(UsageError, match=words):
        FeatherFile.open(location, memory=190 << 20).list_width("v")
    assert FeatherFile.open(location, memory=220 << 20).list_width("v") == 1000


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
