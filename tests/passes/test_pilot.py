"""The pilot: uniform over the whole source, reading no more than it must, enough in spite of nulls."""

import numpy as np
import pyarrow as pa
import pytest

from nysketch.basis.base import Basis
from nysketch.basis.fit import basis_from_rows
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.engines.threads import Threads
from nysketch.errors import InputError, InvalidRowsError, UsageError
from nysketch.passes.execution import Execution
from nysketch.passes.pilot import draw_rows, fit_basis, read_pilot
from nysketch.sources.open import open_source
from tests.sources.helpers import write_parquet


class Counting:
    """A source that remembers which fragments were read."""

    def __init__(self, source):
        self._source, self.read_fragments = source, []

    def __getattr__(self, name):
        return getattr(self._source, name)

    def read(self, fragment, batch_rows):
        self.read_fragments.append(fragment.number)
        return self._source.read(fragment, batch_rows)


@pytest.fixture(scope="module")
def sorted_file(tmp_path_factory):
    """Twenty thousand rows in a hundred row groups, each row its own number."""
    path = tmp_path_factory.mktemp("pilot") / "sorted.parquet"
    return write_parquet(path, {"x": np.arange(20_000.0)}, row_group_size=200)


def test_pilot_rows_of_a_sorted_file_are_uniform(sorted_file):
    numbers = read_pilot(open_source(sorted_file), 2000, seed=3)[:, 0]
    assert len(set(numbers)) == 2000
    assert (np.diff(numbers) > 0).all()
    # The mean of the sample is within 4 standard errors, sampling without replacement.
    error = 20_000 / np.sqrt(12 * 2000) * np.sqrt(1 - 0.1)
    assert abs(numbers.mean() - 9999.5) < 4 * error
    counts = np.bincount((numbers // 200).astype(int), minlength=100)
    chi_square = ((counts - 20) ** 2 / 20).sum() / (1 - 0.1)
    assert 53 < chi_square < 160  # 99 degrees of freedom: all but 1 in 10,000


@pytest.mark.parametrize(("rows", "count"), [(10, 3), (1000, 10), (12, 5), (50, 12)])
def test_every_row_is_drawn_equally_often(rows, count):
    times = 2000
    drawn = np.zeros(rows)
    for seed in range(times):
        numbers = draw_rows(rows, count, seed)
        assert len(numbers) == count
        assert (np.diff(numbers) > 0).all()
        drawn[numbers] += 1
    expected = times * count / rows
    chi_square = ((drawn - expected) ** 2 / expected).sum() / (1 - count / rows)
    assert abs(chi_square - (rows - 1)) < 4 * np.sqrt(2 * (rows - 1)) + 4


def test_drawing_from_very_many_rows_needs_little():
    numbers = draw_rows(1 << 60, 1000, 0)
    assert len(numbers) == 1000
    assert numbers.max() > 1 << 59


def test_the_seed_decides_the_pilot(sorted_file):
    source = open_source(sorted_file)
    once, again, other = (read_pilot(source, 100, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once, other)


def test_the_number_of_threads_does_not_matter(sorted_file):
    source = open_source(sorted_file)
    one, four = (read_pilot(source, 500, execution=Execution(Threads(threads))) for threads in (1, 4))
    np.testing.assert_array_equal(one, four)


def test_a_small_pilot_reads_only_the_fragments_it_needs(sorted_file):
    source = Counting(open_source(sorted_file))
    numbers = read_pilot(source, 10)[:, 0]
    assert sorted(source.read_fragments) == sorted({int(number) // 200 for number in numbers})
    assert len(source.read_fragments) <= 10


def test_a_pilot_larger_than_the_source_is_the_source(rows):
    np.testing.assert_array_equal(read_pilot(open_source(rows), 10**6), rows)


def test_progress_counts_the_fragments_that_are_read(sorted_file):
    calls = []
    execution = Execution(pilot_progress=lambda done, total: calls.append((done, total)))
    read_pilot(open_source(sorted_file), 5000, execution=execution)
    assert calls == [(i, 100) for i in range(101)]


def sparse(valid, rows=20_000):
    """A table where every `valid`-th row is complete."""
    values = np.arange(float(rows))
    return pa.table({"x": pa.array(values, mask=np.arange(rows) % valid != 0)})


def test_mostly_null_rows_still_give_all_landmarks():
    basis = fit_basis(open_source(sparse(10), columns="x"), BasisOptions(m=200, pilot_rows=200), nulls="drop")
    assert basis.m == 200
    assert (basis.landmarks % 10 == 0).all()


def test_hardly_any_complete_rows_give_as_many_landmarks_as_there_are():
    basis = fit_basis(open_source(sparse(5000)), BasisOptions(m=100, pilot_rows=100), nulls="drop")
    assert sorted(basis.landmarks[:, 0]) == [0, 5000, 10_000, 15_000]


def test_looking_for_complete_rows_ends_somewhere(monkeypatch):
    monkeypatch.setattr("nysketch.passes.pilot._MAX_DRAWN", 1000)
    basis = fit_basis(open_source(sparse(100), columns="x"), BasisOptions(m=50, pilot_rows=50), nulls="drop")
    assert 1 <= basis.m < 50


def test_nulls_are_an_error_unless_dropped():
    with pytest.raises(InvalidRowsError, match='`nulls="drop"`'):
        fit_basis(open_source(sparse(10)), BasisOptions(m=10))


def test_only_null_rows_are_an_input_error():
    table = pa.table({"x": pa.array([None] * 1000, pa.float64())})
    with pytest.raises(InputError, match="all 1,000 rows contain nulls"):
        fit_basis(open_source(table), BasisOptions(m=10), nulls="drop")


def test_a_stream_has_no_pilot():
    with pytest.raises(UsageError, match=r"can be read only once.*`basis`"):
        fit_basis(open_source(iter([np.ones((10, 2))])), BasisOptions(m=2))


@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": 0},
        {"landmarks": 10, "pilot_rows": 5},
        {"landmarks": 1, "pilot_rows": 0},
        {"landmarks": 2, "threads": 0},
    ],
)
def test_impossible_wishes_are_usage_errors(rows, options):
    with pytest.raises(UsageError):
        Basis.fit(rows, **options)


def test_fit_takes_landmarks_from_the_rows_and_scales_by_them(rows):
    basis = Basis.fit(rows, landmarks=30, seed=4)
    assert basis.columns == (Column("x0"), Column("x1"), Column("x2"))
    assert {tuple(row) for row in basis.landmarks} <= {tuple(row) for row in rows}
    np.testing.assert_allclose(basis.center, rows.mean(axis=0))
    np.testing.assert_allclose(basis.scale, rows.std(axis=0))
    assert basis.digest == Basis.fit(rows, landmarks=30, seed=4).digest
    assert basis.digest != Basis.fit(rows, landmarks=30, seed=5).digest


def test_fit_chooses_columns_of_files(tmp_path, table):
    path = write_parquet(tmp_path / "t.parquet", table)
    assert Basis.fit(path, columns=["x2", "x0"], landmarks=5).columns == (Column("x2"), Column("x0"))
    assert Basis.fit(path, exclude=["x1"], landmarks=5).columns == (Column("x0"), Column("x2"))


def test_from_rows_is_what_fit_does_with_its_pilot(rows):
    columns = open_source(rows).columns
    assert basis_from_rows(rows, columns, m=30, seed=4).digest == Basis.fit(rows, landmarks=30, seed=4).digest


def test_from_rows_needs_rows_and_landmarks():
    with pytest.raises(InputError, match="no rows"):
        basis_from_rows(np.empty((0, 2)), [Column("a", 2)])
    with pytest.raises(UsageError, match="at least 1"):
        basis_from_rows(np.ones((3, 2)), [Column("a", 2)], m=0)
