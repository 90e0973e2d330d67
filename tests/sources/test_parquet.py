"""Parquet files: what a reader of them is said to hold, and how they are read in less."""

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch._support.cancel import check_stopped, stoppable
from nysketch.columns import Column
from nysketch.errors import UnreadableError, UsageError
from nysketch.sources import arrow_file
from nysketch.sources.expand import expand
from nysketch.sources.open import open_source
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.parquet_footers import Footer
from nysketch.sources.parquet_groups import MOST_BLOCKS, GroupMemory, leaves_of
from nysketch.sources.parquet_pages import pages_at_most, pages_of

ROWS = 20_000
PAGE = 1 << 15


def write(path, table, **options):
    pq.write_table(table, path, row_group_size=len(table), **options)
    return ParquetFile.open(expand([str(path)])[0])


def noise(columns, rows=ROWS):
    random = np.random.default_rng(0)
    return pa.table({f"x{i}": random.normal(size=rows) for i in range(columns)})


def first_pages(path, **options):
    with pa.OSFile(str(path)) as file:
        column = pq.ParquetFile(file).metadata.row_group(0).column(0)
        return pages_of(file, column, **options), pages_at_most(column)


# ---- pages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_headers_tell_the_largest_page_and_the_dictionary(tmp_path, version, compression):
    options = {"compression": compression, "data_page_version": version}
    write(tmp_path / "d.parquet", noise(1), **options)
    pages, _ = first_pages(tmp_path / "d.parquet")
    assert pages.dictionary == pages.page == 8 * ROWS
    write(tmp_path / "p.parquet", noise(1), use_dictionary=False, data_page_size=PAGE, **options)
    pages, bound = first_pages(tmp_path / "p.parquet")
    assert pages.dictionary == 0 and PAGE <= pages.page < 1.3 * PAGE
    assert bound.page > 8 * ROWS


def test_a_few_headers_and_what_is_usual_do_where_each_is_a_request(tmp_path):
    write(tmp_path / "p.parquet", noise(1, 400_000), use_dictionary=False, data_page_size=PAGE)
    some, bound = first_pages(tmp_path / "p.parquet", most=2)
    every, _ = first_pages(tmp_path / "p.parquet")
    assert every.page < some.page < bound.page / 2


def test_texts_of_a_dictionary_count_with_their_addresses(tmp_path):
    write(tmp_path / "t.parquet", pa.table({"t": [f"{i:06}" for i in range(1000)]}))
    pages, bound = first_pages(tmp_path / "t.parquet")
    assert pages.dictionary == 1000 * (4 + 6 + 16)
    assert bound.dictionary > pages.dictionary


def test_damaged_headers_leave_the_bound_of_the_footer(tmp_path):
    path = tmp_path / "d.parquet"
    write(path, noise(1))
    _, bound = first_pages(path)
    content = bytearray(path.read_bytes())
    for damage in (b"\xff" * 64, b"\x15\x01" * 32, b"\x1c" * 64, b"\x00" * 64):
        content[4:68] = damage
        path.write_bytes(content)
        assert first_pages(path)[0] == bound


def test_columns_that_are_nested_or_have_points_in_their_names_are_found():
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.float32()))])
    schema = pa.schema([("s", struct), ("s.t", pa.int64()), ("v", pa.list_(pa.float64())), ("x", pa.int64())])
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.schema
    assert leaves_of(stored, ["x", "s", "v"]) == {"x": [4], "s": [0, 1, 2], "v": [3]}
    assert leaves_of(stored, ["s.t"]) == {"s.t": [2]}


# ---- what a reader holds -----------------------------------------------------------------------------


def most_allocated(file, names, rows=2048):
    before, peak = pa.total_allocated_bytes(), 0
    for _ in file.read(0, [Column(name) for name in names], None, rows):
        peak = max(peak, pa.total_allocated_bytes() - before)
    return peak


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_reader_holds_no_more_than_it_says(tmp_path, dictionary):
    file = write(tmp_path / "w.parquet", noise(60), use_dictionary=dictionary)
    names = [f"x{i}" for i in range(60)]
    assert most_allocated(file, names) < file.reader_memory(names).ample
    fewer = file.reader_memory(names[:5])
    assert fewer.ample < 0.8 * file.reader_memory(names).ample  # of what is not read, nothing is held
    assert most_allocated(file, names[:5]) < fewer.ample


def test_a_limit_is_kept_by_reading_blocks(tmp_path):
    file = write(tmp_path / "w.parquet", noise(60))
    names = [f"x{i}" for i in range(60)]
    memory = file.reader_memory(names)
    assert memory.least < 0.7 * memory.ample
    whole = most_allocated(file, names, 256)
    limited = most_allocated(file.within(memory.least), names, 256)
    assert limited < memory.least < whole + (12 << 20)
    assert limited < whole / 2


MIXED = pa.table(
    {
        "x": pa.array([None if i % 97 == 0 else i / 3 for i in range(ROWS)]),
        "v": pa.array([[float(i), -float(i), 0.5] for i in range(ROWS)], pa.list_(pa.float32())),
        "f": pa.array([[i, 2.0 * i] for i in range(ROWS)], pa.list_(pa.float64(), 2)),
        "i": pa.array(np.arange(ROWS), pa.int8() if ROWS < 128 else pa.int32()),
        "t": pa.array([f"text {i % 501}" for i in range(ROWS)]),
        "c": pa.array([f"{i % 7}" for i in range(ROWS)]).dictionary_encode(),
    }
)


@pytest.mark.parametrize("batch_rows", [100, 1024, 7777])
def test_blocks_are_the_same_rows(tmp_path, batch_rows):
    path = tmp_path / "m.parquet"
    write(path, MIXED)
    source = open_source(str(path), columns=["x", "v", "f", "i"], keep=["t", "c"])
    (fragment,) = source.fragments()
    limited = source.within(source.reader_memory.least, batch_rows)
    for read in ("read", "read_kept"):
        found = [list(getattr(some, read)(fragment, batch_rows)) for some in (source, limited)]
        assert max(map(len, found[1])) <= batch_rows
        if read == "read_kept":
            tables = [pa.Table.from_batches(batches) for batches in found]
            assert tables[0].combine_chunks().equals(tables[1].combine_chunks())
            continue
        for column in range(4):
            arrays = [np.concatenate([batch.values[column] for batch in batches]) for batches in found]
            np.testing.assert_array_equal(*arrays)
    assert max(len(batch) for batch in limited.read(fragment, 10**6)) <= batch_rows


def test_most_blocks_are_as_many_as_there_may_be(tmp_path):
    path = tmp_path / "w.parquet"
    file = write(path, noise(40))
    metadata = pq.read_metadata(path)
    leaves = leaves_of(metadata.schema, [f"x{i}" for i in range(40)])
    memory = GroupMemory.at_most(metadata.row_group(0), leaves)
    blocks = memory.blocks_within(memory.least)
    assert MOST_BLOCKS / 2 < -(-ROWS // blocks.rows) <= MOST_BLOCKS
    assert [name for names in blocks.columns for name in names] == list(leaves)
    assert len(file.fragment_rows) == 1


def test_what_fits_in_no_block_is_refused_with_the_place(tmp_path):
    names = ["x0", "x1"]
    file = write(tmp_path / "b.parquet", noise(2, 300_000), data_page_size=1 << 30, use_dictionary=False)
    least = file.reader_memory(names).least
    words = r"b\.parquet, row group 0: takes at least .* MB of memory.*`memory`"
    with pytest.raises(UsageError, match=words):
        list(file.within(least - (1 << 20)).read(0, [Column(name) for name in names], None, 2048))
    assert most_allocated(file.within(least), names) < least


def test_a_look_at_constants_keeps_the_limit(tmp_path, monkeypatch):
    """Without statistics, the first rows of some row groups are read: of each column a whole page."""
    rows, names = 500_000, [f"x{i}" for i in range(20)]
    table = pa.table(dict.fromkeys(names, np.ones(rows)))
    pages = {"data_page_size": 1 << 30, "write_batch_size": 1 << 24, "max_rows_per_page": 1 << 24}
    path = tmp_path / "c.parquet"
    write(path, table, use_dictionary=False, write_statistics=False, compression="zstd", **pages)
    source = open_source(str(path))
    least = source.reader_memory.least
    assert least < 8 * rows * 10
    before, held, as_batch = pa.total_allocated_bytes(), [], arrow_file.as_batch

    def watched(*args):
        held.append(pa.total_allocated_bytes() - before)
        return as_batch(*args)

    monkeypatch.setattr(arrow_file, "as_batch", watched)
    assert source.within(least, 2048).extremes(names) == dict.fromkeys(names, (1.0, 1.0))
    assert 0 < max(held) < least


def test_a_list_whose_page_does_not_fit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "l.parquet"
    lists = pa.table({"v": pa.array([[0.0] * 1000] * 5000)})
    write(path, lists, use_dictionary=False, compression="zstd", data_page_size=1 << 30)
    location = expand([str(path)])[0]
    words = r"row group 0, column 'v' \(its largest page has 4\d MB\): takes about .* Allow 5\d\d MB with"
    with pytest.raises(UsageError, match=words):
        ParquetFile.open(location, memory=190 << 20).list_width("v")
    assert ParquetFile.open(location, memory=250 << 20).list_width("v") == 1000


def test_pages_that_are_larger_than_the_footer_says_are_damage(tmp_path, monkeypatch):
    file = write(tmp_path / "l.parquet", noise(40, 100_000))
    monkeypatch.setattr(GroupMemory, "surely_fits", lambda *_: True)  # as if the footer said so
    limited = file.within(file.reader_memory(["x0"]).least)
    with pytest.raises(UnreadableError, match=r"row group 0: damaged: reading it takes \d+ MB"):
        next(limited.read(0, [Column(f"x{i}") for i in range(40)], None, 1024))


def test_a_large_page_after_small_ones_is_noticed(tmp_path, monkeypatch):
    # One of each column has the few values that its dictionary has room for, and one has all others.
    pages = {"dictionary_pagesize_limit": 1 << 10, "data_page_size": 1 << 30, "write_batch_size": 1024}
    file = write(tmp_path / "s.parquet", noise(4, 600_000), compression="none", **pages)
    names = [f"x{i}" for i in range(4)]
    monkeypatch.setattr(GroupMemory, "surely_fits", lambda *_: True)  # as if the footer said so
    reading = file.within(10 << 20).read(0, [Column(name) for name in names], None, 1024)
    assert len(next(reading)) == 1024
    with pytest.raises(UnreadableError, match=r"row group 0: damaged: reading it takes \d+ MB"):
        list(reading)


# ---- footers -----------------------------------------------------------------------------------------


def many_groups(path, count):
    table = noise(1, count)
    with pq.ParquetWriter(path, table.schema) as writer:
        for row in range(count):
            writer.write_table(table.slice(row, 1))
    return expand([str(path)])[0]


def test_readers_share_a_footer(tmp_path, monkeypatch):
    footer = Footer(many_groups(tmp_path / "g.parquet", 10), np.inf)
    known = []
    opened = pq.ParquetFile
    monkeypatch.setattr(
        pq,
        "ParquetFile",
        lambda *a, metadata=None, **k: known.append(metadata) or opened(*a, metadata=metadata, **k),
    )
    first = footer.open()
    second = footer.open()
    del first
    third = footer.open()
    assert [metadata is None for metadata in known] == [True, False, False]
    assert footer.bytes >= 5 * second.metadata.serialized_size
    del second, third
    footer.open()
    assert known[-1] is None  # nobody held it


def test_a_footer_that_does_not_fit_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.parquet_footers._LARGE_FILE_BYTES", 1000)
    location = many_groups(tmp_path / "g.parquet", 10)
    with pytest.raises(UsageError, match=r"its footer of .* Allow 51\d MB with `memory`, or write the file"):
        ParquetFile.open(location, memory=160 << 20)
    assert ParquetFile.open(location, memory=200 << 20).fragment_rows == [1] * 10


def test_one_thread_parses_large_footers_for_all(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.parquet_footers._LARGE_FILE_BYTES", 1000)
    threads, opened = [], pq.ParquetFile

    def open_here(*args, **options):
        check_stopped()
        threads.append(threading.current_thread().name)
        return opened(*args, **options)

    monkeypatch.setattr(pq, "ParquetFile", open_here)
    footers = [Footer(many_groups(tmp_path / f"{i}.parquet", 10), np.inf) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert [each.metadata.num_row_groups for each in pool.map(Footer.open, footers)] == [10] * 4
    assert len(threads) == 4 and len(set(threads)) == 1

    def stopped():
        raise CancelledError

    with stoppable(stopped), pytest.raises(CancelledError):
        footers[0].open()
