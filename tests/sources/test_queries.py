"""Relations of DuckDB, lazy frames and data sets: run again for every reading, in bounded memory."""

import logging

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError
from nysketch.passes.pilot import fit_basis
from nysketch.passes.sketching import sketch_source
from nysketch.sources.arrow import FRAGMENT_ROWS
from nysketch.sources.open import open_source
from nysketch.sources.queries import QuerySource
from nysketch.sources.selection import Selection
from tests.sources.helpers import read_all


class Numbers:
    """A query that gives batches of numbers, and remembers what was asked of it."""

    name = "query"

    def __init__(self, rows=10, batch_rows=1000, shuffled=False, count=None):
        self._rows, self._batch_rows, self._shuffled, self._count = rows, batch_rows, shuffled, count
        self.runs, self.asked = 0, []

    def schema(self):
        return pa.schema([("x", pa.float64()), ("y", pa.float64())])

    def count(self):
        return self._rows if self._count is None else self._count

    def batches(self, names):
        self.runs += 1
        self.asked.append(list(names))
        turn = self.runs if self._shuffled else 0
        for start in range(0, self._rows, self._batch_rows):
            values = np.arange(start, min(start + self._batch_rows, self._rows), dtype=float)
            values = np.roll(values, turn)
            yield pa.record_batch(dict.fromkeys(names, values))


def source_of(query, columns=None):
    return QuerySource(query, Selection(columns), {})


def test_only_the_chosen_columns_are_asked_for():
    query = Numbers()
    np.testing.assert_array_equal(read_all(source_of(query, ("y",)))[:, 0], np.arange(10))
    assert query.asked == [["y"]]


def test_a_query_is_run_again_for_every_reading():
    query = Numbers(3000)
    source = source_of(query, ("x", "y"))
    fit_basis(source, BasisOptions(m=4))
    assert query.runs == 1
    assert sum(fragment.rows for fragment in source.fragments()) == 3000
    assert query.runs == 2


def test_a_sketch_runs_a_query_once_and_its_basis_once_more():
    query = Numbers(3000)
    sketch_source(source_of(query, ("x", "y")), BasisOptions(m=4), PassOptions())
    assert query.runs == 2


def test_another_order_is_noticed_and_told_once(caplog):
    source = source_of(Numbers(shuffled=True))
    with caplog.at_level(logging.WARNING, "nysketch"):
        for _ in range(3):
            read_all(source)
    (record,) = caplog.records
    assert "another order each time" in record.getMessage()


def test_the_same_order_is_nothing_to_tell(caplog):
    source = source_of(Numbers())
    with caplog.at_level(logging.WARNING, "nysketch"):
        read_all(source), read_all(source)
    assert not caplog.records


def test_other_rows_than_were_counted_are_an_error():
    source = source_of(Numbers(10, count=11))
    with pytest.raises(
        InputError, match=r"gave 10 rows, and 11 when they were counted.*Store the rows first"
    ):
        read_all(source)


def test_a_pilot_holds_few_fragments_at_a_time():
    source = source_of(Numbers(30 * FRAGMENT_ROWS, FRAGMENT_ROWS), ("x", "y"))
    before, most = pa.total_allocated_bytes(), 0
    held = []

    def watch(done, count):
        nonlocal most
        assert count is None
        most = max(most, pa.total_allocated_bytes() - before)
        held.append(done)

    from nysketch.engines.threads import Threads
    from nysketch.passes.execution import Execution

    fit_basis(source, BasisOptions(m=50), execution=Execution(Threads(1), pilot_progress=watch))
    assert held[-1] == 30
    assert most < 10 * 2 * 8 * FRAGMENT_ROWS


# ---- DuckDB


@pytest.fixture
def duckdb():
    return pytest.importorskip("duckdb")


def test_a_relation_is_sketched_without_a_basis(duckdb):
    relation = duckdb.connect().sql("select range::double as x, range % 7 as y from range(100000)")
    table = pa.table({"x": np.arange(1e5), "y": np.arange(100_000) % 7})
    found, expected = (nysketch.sketch(data, landmarks=20, threads=2) for data in (relation, table))
    assert found.basis == expected.basis
    assert np.array_equal(found.kernel_sums, expected.kernel_sums)
    assert np.array_equal(found.block_rows, expected.block_rows)
    assert found.provenance.describe()["inputs"][0]["path"] == "DuckDB relation"


def test_names_of_columns_are_quoted(duckdb):
    relation = duckdb.connect().sql("""select 1.5 as "a ""b"", c", 2 as "select" """)
    source = open_source(relation)
    assert [column.name for column in source.columns] == ['a "b", c', "select"]
    np.testing.assert_array_equal(read_all(source), [[1.5, 2]])


def test_lists_of_a_relation_tell_their_length(duckdb):
    relation = duckdb.connect().sql("select [range, 2.5]::double[] as v from range(5)")
    source = open_source(relation)
    assert source.columns == (Column("v", 2),)
    np.testing.assert_array_equal(read_all(source)[:, 0], np.arange(5))


def test_a_query_that_fails_is_an_input_error(duckdb):
    relation = duckdb.connect().sql("select cast(s as double) as x from (values ('1'), ('one')) as t(s)")
    with pytest.raises(InputError, match=r"DuckDB relation: .*'?one'?"):
        nysketch.sketch(relation, landmarks=2)


def test_two_columns_of_one_name_in_a_relation(duckdb):
    relation = duckdb.connect().sql("select 1 as a, 2 as b, 'x' as c")
    with pytest.raises(SchemaError, match="no column 'd'"):
        open_source(relation, columns=["d"])


# ---- polars


@pytest.fixture
def pl():
    return pytest.importorskip("polars")


def test_a_lazy_frame_is_computed_when_it_is_read(pl, tmp_path):
    table = pa.table({"x": np.arange(1000.0), "s": ["a"] * 1000})
    pl.from_arrow(table).write_parquet(tmp_path / "a.parquet")
    frame = (
        pl.scan_parquet(tmp_path / "a.parquet").filter(pl.col("x") >= 500).with_columns(y=pl.col("x") ** 2)
    )
    source = open_source(frame)
    assert source.rows == 500
    assert source.rereadable
    np.testing.assert_array_equal(read_all(source), np.column_stack([np.arange(500, 1000.0)] * 2) ** [1, 2])


def test_names_that_look_like_patterns_are_names(pl):
    source = open_source(pl.LazyFrame({"^x.*$": [1.0], "xy": [2.0]}), columns=["^x.*$"])
    np.testing.assert_array_equal(read_all(source), [[1]])


def test_a_lazy_frame_that_fails_is_an_input_error(pl, tmp_path):
    with pytest.raises(InputError, match="LazyFrame: cannot be read"):
        open_source(pl.LazyFrame({"x": [1.0]}).select("missing"))


def test_a_release_of_polars_without_batches_says_that_it_collects(pl, monkeypatch, caplog):
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    with caplog.at_level(logging.WARNING, "nysketch"):
        np.testing.assert_array_equal(read_all(open_source(pl.LazyFrame({"x": [1.0, 2.0]}))), [[1], [2]])
    assert "collects a LazyFrame at once, in memory" in caplog.text
