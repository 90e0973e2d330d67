"""One suite for every kind of source: same table in, same rows, fragments and sums out."""

from dataclasses import replace

import numpy as np
import pytest

import nysketch
from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.passes.chunks import ChunkReader
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, read_chunks
from tests.sources.kinds import FILES, KINDS, REREADABLE, STREAMS, as_stdin

LIKE = tuple(Column(f"x{i}") for i in range(3))
# In a two-dimensional data set, the data set is the column.
LIKE_2D = (Column("x", 3),)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def opened(kind, table, tmp_path, monkeypatch, small_pieces):
    """A function that opens the table anew, as this kind of source."""

    def opener():
        monkeypatch.setattr("sys.stdin", as_stdin(table))
        return open_source(KINDS[kind](table, tmp_path))

    return opener


def test_columns_are_those_of_the_table(opened, kind):
    two_d = kind in ("hdf5_chunked", "hdf5_contiguous")
    assert opened().columns == (LIKE_2D if two_d else LIKE)


def test_says_how_often_it_can_be_read_and_how_long_it_is(opened, kind, table):
    source = opened()
    assert source.rereadable == (KINDS[kind] in REREADABLE)
    assert source.rows == (None if KINDS[kind] in STREAMS else len(table))


def test_fragments_are_numbered_and_cover_the_rows_without_gaps(opened, table):
    fragments = list(opened().fragments())
    assert [f.number for f in fragments] == list(range(len(fragments)))
    ends = np.cumsum([f.rows for f in fragments]).tolist()
    assert [f.first_row for f in fragments] == [0, *ends[:-1]]
    assert ends[-1] == len(table)


def test_fragments_say_where_they_are(opened):
    wheres = [f.where for f in opened().fragments()]
    assert len(set(wheres)) == len(wheres)
    assert all(wheres)


def test_a_source_with_row_groups_or_ranges_has_several_fragments(opened, kind):
    assert len(list(opened().fragments())) > 1 or kind in ("feather", "csv")


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 65_536])
def test_batches_give_the_table_in_order_whatever_their_size(opened, rows, batch_rows):
    np.testing.assert_array_equal(read_all(opened(), batch_rows), rows)


def test_batches_of_a_clean_table_count_no_nulls(opened):
    source = opened()
    for fragment in source.fragments():
        for batch in source.read(fragment, 100):
            assert batch.weights is None
            assert list(batch.nulls) == [0] * len(source.columns)


def test_chunks_do_not_depend_on_the_batch_size(opened):
    expected = read_chunks(opened(), batch_rows=None)
    assert len(expected) > 10
    for batch_rows in (1, 7, 1000, 65_536):
        chunks = read_chunks(opened(), batch_rows=batch_rows)
        assert [c[0] for c in chunks] == [c[0] for c in expected]
        for (_, values, keep, weights), (_, known, _, _) in zip(chunks, expected, strict=True):
            np.testing.assert_array_equal(values, known)
            assert keep.all()
            assert weights is None


def test_what_is_rereadable_reads_the_same_twice(opened):
    source = opened()
    if source.rereadable:
        np.testing.assert_array_equal(read_all(source), read_all(source))


def test_a_fragment_can_be_read_again(opened):
    source = opened()
    for fragment in source.fragments():
        first = [batch.values[0].copy() for batch in source.read(fragment, 50)]
        again = [batch.values[0].copy() for batch in source.read(fragment, 50)]
        np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))


def test_fragments_can_be_read_in_any_order(opened, rows):
    source = opened()
    for fragment in reversed(list(source.fragments())):
        batches = [batch.values[0] for batch in source.read(fragment, 64)]
        expected = rows[fragment.first_row : fragment.first_row + fragment.rows]
        found = np.concatenate([batch.reshape(len(batch), -1)[:, 0] for batch in batches])
        np.testing.assert_array_equal(found, expected[:, 0])


def test_two_fragments_can_be_read_in_turns(opened, rows):
    source = opened()
    fragments = list(source.fragments())
    both = [
        ChunkReader(source, nulls="error", batch_rows=16).chunks(f) for f in (fragments[0], fragments[-1])
    ]
    for first, last in zip(*both, strict=False):
        for chunk in (first, last):
            expected = rows[chunk.first_row : chunk.first_row + len(chunk.rows)]
            np.testing.assert_array_equal(chunk.rows, expected)


def test_inputs_count_the_rows_and_files_have_digests(opened, kind, table):
    source = opened()
    for fragment in source.fragments():
        del fragment
    inputs = source.inputs()
    assert sum(one.rows for one in inputs) == len(table)
    for one in inputs:
        assert (one.digest is not None) == (KINDS[kind] in FILES)


def test_sketches_of_all_kinds_are_equal(kind, rows, table, tmp_path, monkeypatch, small_pieces):
    basis = basis_from_rows(rows, LIKE, m=20)
    expected = nysketch.sketch(rows, basis=basis, threads=1)
    if kind.startswith("hdf5_c"):
        basis = replace(basis, columns=LIKE_2D)
    monkeypatch.setattr("sys.stdin", as_stdin(table))
    found = nysketch.sketch(KINDS[kind](table, tmp_path), basis=basis, threads=2)
    assert found.rows == len(rows)
    np.testing.assert_allclose(found.kernel_sums, expected.kernel_sums, rtol=1e-12)
    np.testing.assert_array_equal(found.column_ranges, expected.column_ranges)
