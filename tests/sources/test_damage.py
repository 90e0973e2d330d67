"""Files that are damaged, empty or not what their name says: one InputError each, never a traceback."""

import random
import re
import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from nysketch.errors import InputError, NysketchError, SchemaError
from nysketch.sources.open import open_source
from tests.helpers import ROOT
from tests.sources.helpers import read_all, read_chunks, write_parquet


@pytest.fixture
def columns():
    values = np.random.default_rng(0).normal(size=(600, 2))
    return {"a": values[:, 0], "b": values[:, 1], "v": values.tolist()}


@pytest.mark.parametrize("name", ["x.parquet", "x.pq", "x.feather", "x.arrow"])
def test_text_with_the_name_of_a_table_is_no_table(tmp_path, name):
    (tmp_path / name).write_text("hello, world\n")
    with pytest.raises(InputError, match=rf"{name}: not a \w+ file: it starts with b'hell'"):
        open_source(str(tmp_path / name))


def test_a_file_of_unknown_kind_is_refused(tmp_path):
    (tmp_path / "notes").write_text("hello")
    with pytest.raises(InputError, match="notes: not a Parquet, HDF5, Feather or CSV file"):
        open_source(str(tmp_path / "notes"))


def test_text_named_hdf5_is_no_hdf5(tmp_path):
    (tmp_path / "x.h5").write_text("hello, world\n")
    with pytest.raises(InputError, match=r"x\.h5: cannot read as HDF5"):
        open_source(str(tmp_path / "x.h5"))


def test_a_stream_stored_as_a_file_is_recognised(tmp_path):
    with pa.OSFile(str(tmp_path / "s.arrow"), "wb") as sink:
        pa.ipc.new_stream(sink, pa.schema([("x", pa.float64())])).close()
    with pytest.raises(InputError, match=r"an Arrow stream.*standard input"):
        open_source(str(tmp_path / "s.arrow"))


@pytest.mark.parametrize("kept", [4, 11, 0.5, 0.99, -1])
def test_parquet_cut_short_is_an_input_error(tmp_path, columns, kept):
    path = write_parquet(tmp_path / "t.parquet", columns)
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[: int(kept * len(whole)) if 0 < kept < 1 else kept])
    with pytest.raises(InputError, match=r"t\.parquet: cannot read as Parquet \(truncated or damaged\?\)"):
        open_source(path)


def test_damage_in_a_data_page_names_the_row_group(tmp_path, columns):
    path = write_parquet(tmp_path / "t.parquet", columns, row_group_size=200, compression="zstd")
    whole = bytearray((tmp_path / "t.parquet").read_bytes())
    column = pq.read_metadata(path).row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    whole[start : start + column.total_compressed_size] = b"\x00" * column.total_compressed_size
    (tmp_path / "t.parquet").write_bytes(whole)
    source = open_source(path, columns=["a"])
    fragments = list(source.fragments())
    assert sum(len(batch) for batch in source.read(fragments[0], 50)) == 200
    with pytest.raises(InputError, match=r"t\.parquet, row group 1: cannot read \(truncated or damaged\?\)"):
        list(source.read(fragments[1], 50))


def test_a_flipped_bit_is_noticed_where_pages_have_checksums(tmp_path, columns):
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = write_parquet(tmp_path / "t.parquet", columns, **options)
    whole = bytearray((tmp_path / "t.parquet").read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    whole[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    (tmp_path / "t.parquet").write_bytes(whole)
    with pytest.raises(InputError, match=r"row group 0.*(CRC|checksum)"):
        read_all(open_source(path, columns=["a"]))


def test_damage_in_the_lists_that_tell_the_width_is_an_input_error(tmp_path, columns):
    path = write_parquet(tmp_path / "t.parquet", {"v": columns["v"]}, compression="zstd")
    whole = bytearray((tmp_path / "t.parquet").read_bytes())
    whole[4:400] = b"\xff" * 396
    (tmp_path / "t.parquet").write_bytes(whole)
    with pytest.raises(InputError, match=r"t\.parquet: cannot read column 'v'"):
        open_source(path)


@pytest.mark.parametrize("groups", [0, 1])
def test_parquet_without_rows_is_an_input_error(tmp_path, groups):
    schema = pa.schema([("x", pa.float64())])
    with pq.ParquetWriter(tmp_path / "z.parquet", schema) as writer:
        for _ in range(groups):
            writer.write_table(schema.empty_table())
    with pytest.raises(InputError, match=r"z\.parquet: no rows"):
        open_source(str(tmp_path / "z.parquet"))


def test_a_file_without_rows_beside_others_does_no_harm(tmp_path):
    empty = pa.schema([("x", pa.float64())]).empty_table()
    paths = [
        write_parquet(tmp_path / "0.parquet", empty),
        write_parquet(tmp_path / "1.parquet", {"x": [5.0]}),
    ]
    np.testing.assert_array_equal(read_all(open_source(paths)), [[5.0]])


def test_unreadable_files_are_skipped_on_request_and_remembered(tmp_path):
    good = write_parquet(tmp_path / "good.parquet", {"x": [1.0, 2.0]})
    (tmp_path / "bad.parquet").write_text("hello")
    missing = str(tmp_path / "missing.parquet")
    source = open_source([str(tmp_path / "bad.parquet"), good, missing], skip_unreadable=True)
    assert source.rows == 2
    assert [str(error).split(": ")[0].rsplit("/", 1)[1] for error in source.skipped] == [
        "bad.parquet",
        "missing.parquet",
    ]


def test_skipping_everything_is_still_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_source(str(tmp_path / "missing.parquet"), skip_unreadable=True)


def test_a_schema_that_does_not_fit_is_not_skipped(tmp_path):
    a = write_parquet(tmp_path / "a.parquet", {"x": [1.0]})
    b = write_parquet(tmp_path / "b.parquet", {"y": [1.0]})
    with pytest.raises(SchemaError):
        open_source([a, b], skip_unreadable=True)


def test_a_file_that_vanishes_is_an_input_error(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", {"x": [1.0]})
    source = open_source(path)
    (tmp_path / "a.parquet").unlink()
    for ask in (source.inputs, source.state):
        with pytest.raises(InputError, match=r"a\.parquet: no such file"):
            ask()


def write_one(kind, folder, columns):
    path = folder / f"f.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(columns), path, row_group_size=200)
    elif kind in ("feather", "arrow"):  # the latter is mapped into memory
        compression = "lz4" if kind == "feather" else "uncompressed"
        pyarrow.feather.write_feather(pa.table(columns), path, chunksize=200, compression=compression)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=columns["v"], chunks=(100, 2), compression="gzip")
            file.create_dataset("g/y", data=columns["a"])
    return path


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow", "h5"])
def test_random_damage_never_gives_anything_but_our_errors(tmp_path, columns, kind):
    path = write_one(kind, tmp_path, columns)
    whole = path.read_bytes()
    choose = random.Random(5)
    refused = 0
    for trial in range(150):
        damaged = bytearray(whole)
        if trial % 10 == 0:
            del damaged[choose.randrange(len(whole)) :]
        else:
            start = choose.choice([0, max(len(whole) - 3000, 0)])
            for _ in range(choose.choice([1, 2, 5])):
                damaged[choose.randrange(start, min(start + 3000, len(whole)))] = choose.randrange(256)
        path.write_bytes(damaged)
        try:
            read_chunks(open_source(str(path)), nulls="drop")
        except NysketchError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 30


# In a process of its own: where pyarrow lets no error out of C++, the process ends.
FLIPPING = """
import sys
from pathlib import Path
from nysketch.errors import InputError, UsageError
from nysketch.sources.open import open_source

path = Path(sys.argv[1])
content = path.read_bytes()
footer = int.from_bytes(content[-8:-4], "little")
for at in range(len(content) - 8 - footer, len(content) - 8):
    for bit in range(8):
        changed = bytearray(content)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        for options in ({"columns": ["x", "v"]}, {"columns": ["t"], "text": True}):
            try:
                source = open_source(str(path), **options)
                source.reader_memory
                source.extremes(["x"])
                for limited in (source, source.within(1 << 20, 100)):  # which is too little to read with
                    for fragment in source.fragments():
                        list(limited.read(fragment, 100))
            except InputError as error:
                print(error)
            except UsageError:
                pass
"""


@pytest.mark.slow
def test_no_bit_of_a_footer_ends_the_process(tmp_path):
    columns = {"x": [1.0, None, 3.0], "v": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "t": ["a", "bc", "d"]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", store_schema=False)
    run = subprocess.run(
        [sys.executable, "-c", FLIPPING, tmp_path / "x.parquet"], capture_output=True, text=True, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr[-500:]
    assert len(run.stdout.splitlines()) > 1000
    histogram = r"x\.parquet, row group 0: cannot read \(truncated or damaged\?\): \w+ level histogram size"
    assert re.search(histogram, run.stdout)
