"""HDF5 files one would like to read: which data sets make the table, types, chunks, weights."""

from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError
from nysketch.sources.expand import expand
from nysketch.sources.hdf5 import HDF5File
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, read_chunks


@pytest.fixture
def write(tmp_path):
    """Write named arrays into one file and return its path."""

    def write_file(**arrays):
        with h5py.File(tmp_path / "f.h5", "w") as file:
            for name, array in arrays.items():
                file[name.replace("__", "/")] = array
        return str(tmp_path / "f.h5")

    return write_file


TWO_D = np.arange(12.0).reshape(4, 3)


def test_the_only_table_is_taken_whatever_lies_beside_it(write):
    source = open_source(write(g__t=TWO_D, v=np.ones(7), cube=np.ones((2, 2, 2)), s=[b"a", b"b"]))
    assert source.columns == (Column("g/t", 3),)
    np.testing.assert_array_equal(read_all(source), TWO_D)


def test_vectors_of_one_length_are_the_columns_in_the_order_of_their_names(write):
    source = open_source(write(b=np.arange(3), a=np.arange(3) + 10.0, s=[b"x", b"y", b"z"]))
    assert [column.name for column in source.columns] == ["a", "b"]
    np.testing.assert_array_equal(read_all(source), [[10, 0], [11, 1], [12, 2]])


def test_an_ambiguous_choice_lists_the_candidates_and_the_flag(write):
    with pytest.raises(SchemaError) as error:
        open_source(write(one=TWO_D, two=np.ones((5, 2)), v=np.ones(3)))
    for part in ("f.h5", "`datasets`", "one (4, 3)", "two (5, 2)", "v (3,)"):
        assert part in str(error.value)


def test_vectors_of_different_lengths_are_ambiguous(write):
    with pytest.raises(SchemaError, match=r"`datasets`.*a \(3,\), b \(4,\)"):
        open_source(write(a=np.ones(3), b=np.ones(4)))


def test_an_empty_file_has_no_candidates(write):
    with pytest.raises(SchemaError, match="There are: none"):
        open_source(write())


def test_data_sets_can_be_named_with_or_without_slash(write):
    path = write(g__a=np.ones(3), g__b=np.zeros(3), t=TWO_D)
    for names in (["g/b", "g/a"], ["/g/b", "/g/a"]):
        source = open_source(path, datasets=names)
        assert [column.name for column in source.columns] == ["g/b", "g/a"]


def test_named_data_sets_of_different_lengths_are_an_error_that_says_both(write):
    with pytest.raises(SchemaError, match="differ in length: a 3, b 4"):
        open_source(write(a=np.ones(3), b=np.ones(4)), datasets=["a", "b"])


@pytest.mark.parametrize("name", ["nope", "g/nope", "t/x", "..", "g/../t"])
def test_an_unknown_data_set_lists_what_there_is(write, name):
    with pytest.raises(SchemaError, match=r"no such data set; there are: g/a, t|there are: t, g/a"):
        open_source(write(g__a=np.ones(4), t=TWO_D), datasets=[name])


@pytest.mark.parametrize("name", ["g", "/"])
def test_a_group_is_no_data_set(write, name):
    with pytest.raises(SchemaError, match="is a group, not a data set"):
        open_source(write(g__a=np.ones(3)), datasets=[name])


@pytest.mark.parametrize("shape", [(), (2, 2, 2), (3, 0)])
def test_a_data_set_needs_rows_and_columns(write, shape):
    with pytest.raises(SchemaError, match=r"has shape .*1 or 2 dimensions"):
        open_source(write(x=np.ones(shape)), datasets=["x"])


def test_a_data_set_without_rows_is_an_input_error(write):
    with pytest.raises(InputError, match="no rows"):
        open_source(write(x=np.ones((0, 3))))


def test_text_is_no_data(write):
    with pytest.raises(SchemaError, match="no numeric columns"):
        open_source(write(x=[b"a", b"b"]), datasets=["x"])


@pytest.mark.parametrize(
    "dtype", [">f8", "<f4", ">f4", "<f2", ">i2", "<i8", ">u4", "<u8", "i1", "u1", "bool", np.longdouble]
)
def test_every_type_of_number_is_read(write, dtype):
    values = np.array([[0, 1], [1, 1], [1, 0]]).astype(dtype)
    np.testing.assert_array_equal(read_all(open_source(write(x=values))), values.astype(float))


def test_weights_may_lie_outside_the_table(write):
    source = open_source(write(t=TWO_D, g__w=np.arange(4)), weights="g/w")
    assert source.columns == (Column("t", 3),)
    ((_, rows, _, weights),) = read_chunks(source)
    np.testing.assert_array_equal(rows, TWO_D)
    np.testing.assert_array_equal(weights, [0, 1, 2, 3])


def test_weights_of_another_length_are_an_error(write):
    with pytest.raises(SchemaError, match="differ in length: t 4, w 3"):
        open_source(write(t=TWO_D, w=np.ones(3)), weights="w")


def test_nan_and_infinities_name_the_rows(write):
    values = TWO_D.copy()
    values[1, 0], values[2, 1] = np.nan, -np.inf
    with pytest.raises(InputError, match=r"f\.h5, rows 0–3: column 'x' has 1 NaN, 1 infinities"):
        read_chunks(open_source(write(x=values)))


def test_fragments_end_where_chunks_end(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.hdf5._FRAGMENT_BYTES", 1000)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("x", data=np.ones((500, 2)), chunks=(25, 2))
    fragments = list(open_source(str(tmp_path / "c.h5")).fragments())
    assert all(fragment.first_row % 25 == 0 for fragment in fragments)
    assert len(fragments) == 10


def test_chunks_that_are_tall_and_narrow_are_not_held_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.hdf5._HELD_BYTES", 10_000)
    values = np.random.default_rng(0).normal(size=(1000, 20))
    with h5py.File(tmp_path / "tall.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(1000, 1))
    source = open_source(str(tmp_path / "tall.h5"))
    (fragment,) = source.fragments()
    batches = [batch.values[0] for batch in source.read(fragment, 10)]
    assert max(batch.nbytes for batch in batches) <= 10 * 20 * 8
    assert all(batch.base is None for batch in batches)  # or it would keep the rest in memory
    np.testing.assert_array_equal(np.concatenate(batches), values)


@pytest.fixture
def reads(monkeypatch):
    """Chunk caches as files are opened, and shapes as rows are read."""
    caches, shapes = [], []
    open_file, get_item = h5py.File.__init__, h5py.Dataset.__getitem__

    def watched_open(self, *args, **options):
        if "r" in args:
            caches.append(options.get("rdcc_nbytes", 1 << 20))
        open_file(self, *args, **options)

    def watched_get(self, key, **options):
        found = get_item(self, key, **options)
        shapes.append(found.shape)
        return found

    monkeypatch.setattr(h5py.File, "__init__", watched_open)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", watched_get)
    return SimpleNamespace(caches=caches, shapes=shapes)


def write_blocks(path, shape, chunks, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.ones(shape, "f4"), chunks=chunks, **options)
    return HDF5File.open(expand([str(path)])[0], [], None, allow_external=False)


def test_large_chunks_stay_in_the_cache_for_the_batches_to_come(tmp_path, reads):
    file = write_blocks(tmp_path / "l.h5", (1 << 18, 32), (1 << 16, 16))
    assert [batch.values[0].shape for batch in file.read(0, [Column("x", 32)], None, 4096)] == (
        [(4096, 32)] * (file.fragment_rows[0] // 4096)
    )
    assert reads.caches[-1] == 2 * (4 * 16 << 16)
    assert file.reader_memory([]).ample >= reads.caches[-1]


def test_the_cache_and_the_rows_read_from_tall_chunks_are_bounded(tmp_path, reads):
    file = write_blocks(tmp_path / "t.h5", (1 << 20, 24), (1 << 20, 1))
    rows = sum(len(batch) for batch in file.read(0, [Column("x", 24)], None, 16_384))
    assert rows == 1 << 20
    at_once = max(4 * 24 * shape[0] for shape in reads.shapes)
    assert reads.caches[-1] == 4 << 20  # one chunk: without it, HDF5 reads number by number
    assert reads.caches[-1] + at_once <= 64 << 20
    assert len(reads.shapes) == 2
    assert 32 << 20 <= file.reader_memory([]).ample <= (64 + 2 * 4) << 20  # and what decompressing takes


def test_many_data_sets_do_not_keep_a_chunk_each(tmp_path, monkeypatch, reads):
    monkeypatch.setattr("nysketch.sources.hdf5._HELD_BYTES", 100_000)
    with h5py.File(tmp_path / "m.h5", "w") as file:
        for i in range(10):
            file.create_dataset(f"x{i}", data=np.arange(5000.0), chunks=(5000,), compression="lzf")
    source = open_source(str(tmp_path / "m.h5"))
    np.testing.assert_array_equal(read_all(source, 100), np.repeat(np.arange(5000.0)[:, None], 10, axis=1))
    assert reads.caches[-1] == 40_000
    assert max(8 * 10 * shape[0] for shape in reads.shapes) <= 60_000
