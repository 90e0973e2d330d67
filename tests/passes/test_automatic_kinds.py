"""Columns that nobody names a kind of: what a new basis makes of them, and what becomes of what is there."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.errors import InvalidRowsError, SchemaError
from nysketch.files.checkpoint import Checkpoint
from nysketch.kinds import Time
from nysketch.passes.pilot import fit_basis
from nysketch.passes.sketching import run_pass
from nysketch.passes.to_file import Saving, _request, sketch_to_file
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions

pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
ROWS = 1000
START = np.datetime64("2024-01-01", "s")


def table(rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    words = [" ".join(random.choice(list("abcdefgh"), 6)) for _ in range(rows)]
    gap = np.where(random.random(rows) < 0.1, np.nan, random.normal(size=rows))
    return pa.table(
        {
            "id": [f"u{i:06}" for i in random.permutation(rows)],
            "city": np.array(["a", "b", "c"])[random.integers(0, 3, rows)],
            "comment": words,
            "x": random.normal(size=rows),
            "gap": pa.array(gap, from_pandas=True),
            "ts": START + random.integers(0, 60 * 86400, rows),
            "one": ["k"] * rows,
            "none": pa.array([None] * rows, pa.string()),
            "nothing": pa.array([None] * rows, pa.float64()),
            "wait": pa.array(random.integers(0, 9999, rows), pa.duration("s")),
            "day": [datetime.date(2024, 1, 1)] * rows,
            "short": START + random.integers(0, 7200, rows),
            "clock": pa.array(random.integers(0, 86400, rows).astype(np.int32), pa.time32("s")),
            "flag": random.random(rows) < 0.3,
            "shelf": pa.array(np.array(["q", "r"])[random.integers(0, 2, rows)]).dictionary_encode(),
        }
    )


KINDS = {
    "city": "category",
    "x": None,
    "gap": "number",
    "ts": "time",
    "wait": None,
    "clock": "time",
    "flag": None,
    "shelf": "category",
}
LEFT_OUT = {
    "id": "identifier",
    "comment": "free text",
    "one": "constant k",
    "none": "no values",
    "nothing": "no values",
    "day": "constant 2024-01-01T00:00:00",
    "short": "time of no full day, week or year",
}


def kinds_of(basis):
    return {column.name: None if column.kind is None else column.kind.name for column in basis.columns}


def test_every_column_has_a_kind_or_a_reason():
    made = nysketch.sketch(table(), landmarks=30)
    assert made.rows == ROWS and not made.dropped_rows
    assert kinds_of(made.basis) == KINDS
    assert made.basis.origin["left_out"] == LEFT_OUT
    parts = [column.kind.parts for column in made.basis.columns if isinstance(column.kind, Time)]
    assert parts == [("hour", "weekday"), ("hour",)]


def test_files_and_tables_have_the_same_basis(tmp_path):
    data = table()
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=130)
    of_file = nysketch.Basis.fit(tmp_path / "t.parquet", landmarks=30)
    assert of_file.digest == nysketch.Basis.fit(data, landmarks=30).digest
    coded = data.set_column(1, "city", data["city"].dictionary_encode())
    assert of_file.digest == nysketch.Basis.fit(coded, landmarks=30).digest


def test_kinds_that_are_named_prevail():
    basis = nysketch.Basis.fit(
        table(), kinds={"id": "category", "short": "hour", "wait": "log"}, landmarks=30
    )
    found = kinds_of(basis)
    assert found["id"] == "category" and found["short"] == "time" and found["wait"] == "number"
    with pytest.raises(SchemaError, match="'comment'"):
        nysketch.Basis.fit(table(), kinds={"comment": "log"}, landmarks=30)


def test_columns_that_are_named_are_taken_whatever_they_hold():
    basis = nysketch.Basis.fit(table(), columns=["id", "x", "one"], landmarks=30)
    assert kinds_of(basis) == {"id": "category", "x": None, "one": "category"}
    grouped = nysketch.Basis.fit(table(), groups={"a": ["x"], "b": ["city", "ts"]}, landmarks=30)
    assert kinds_of(grouped) == {"x": None, "city": "category", "ts": "time"}


def test_tables_of_numbers_stay_as_they_were():
    numbers = table().select(["x", "flag"])
    made = nysketch.sketch(numbers, landmarks=30)
    assert made.settings["nulls"] == "error"
    assert not made.basis.encoded
    assert nysketch.to_bytes(made) == nysketch.to_bytes(nysketch.sketch(numbers, landmarks=30, nulls="error"))


def test_a_null_that_the_pilot_does_not_show_stops_nothing():
    x = np.random.default_rng(0).normal(size=5000)
    x[17] = np.nan
    data = pa.table({"x": pa.array(x, from_pandas=True), "y": np.cos(np.arange(5000.0))})
    basis = nysketch.Basis.fit(data.slice(100), landmarks=20, pilot_rows=200)
    made = nysketch.sketch(data, landmarks=20, pilot_rows=200)
    assert not made.basis.encoded and made.rows == 5000
    # Given a basis of plain numbers, it is an error as ever; so it is if it is asked for.
    with pytest.raises(InvalidRowsError, match="1 nulls"):
        nysketch.sketch(data, basis=basis)
    with pytest.raises(InvalidRowsError, match="1 nulls"):
        nysketch.sketch(data, nulls="error", landmarks=20, pilot_rows=200)
    assert nysketch.sketch(data, basis=basis, nulls="keep").rows == 5000
    assert nysketch.sketch(data, nulls="drop", landmarks=20).rows == 4999


def test_a_basis_with_kinds_keeps_missing_values():
    basis = nysketch.Basis.fit(table(), landmarks=30)
    gone = table(seed=1).slice(0, 5).set_column(3, "x", pa.array([None] * 5, pa.float64()))
    assert nysketch.sketch(gone, basis=basis).rows == 5
    assert nysketch.coreset(table(), 5, basis=basis).of_rows == ROWS


@pytest.mark.parametrize("where", ["x", "list", "weight"])
def test_infinities_and_holes_without_a_place_are_errors(where):
    n = 100
    x, weight = np.arange(n) ** 2.0, np.ones(n)
    lists = [[float(i), 1.0] for i in range(n)]
    if where == "x":
        x[3] = np.inf
    if where == "list":
        lists[3] = None
    weight = pa.array([None if where == "weight" and i == 3 else 1.0 for i in range(n)])
    gap = pa.array([None if i % 7 == 0 else float(i * i % 31) for i in range(n)])
    data = pa.table({"gap": gap, "x": x, "list": lists, "weight": weight})
    with pytest.raises(InvalidRowsError, match=f"'{where}'") as error:
        nysketch.sketch(data, weights="weight", landmarks=10)
    assert "'gap'" not in str(error.value)  # which is none of the trouble


def test_a_column_that_some_files_lack_is_left_out(tmp_path):
    data = table().select(["x", "city", "ts"])
    pq.write_table(data, tmp_path / "a.parquet")
    other = data.drop(["city"]).set_column(1, "ts", data["x"])
    pq.write_table(other, tmp_path / "b.parquet")
    basis = nysketch.Basis.fit(str(tmp_path / "*.parquet"), landmarks=10)
    assert list(kinds_of(basis)) == ["x"]
    assert basis.origin["left_out"]["city"].startswith("not in ")
    assert basis.origin["left_out"]["ts"].startswith("double in ")


def test_of_few_rows_nothing_is_an_identifier():
    made = nysketch.sketch({"name": ["a", "b", "c"], "x": [1.0, 5.0, 2.0]}, landmarks=2)
    assert kinds_of(made.basis) == {"name": "category", "x": None}


def test_the_most_frequent_values_must_cover_something():
    random = np.random.default_rng(0)
    rare = [f"w{i}" for i in random.integers(0, 12000, 20000)]  # of two rows each
    often = [f"w{int(i)}" for i in random.pareto(0.7, 20000)]
    basis = nysketch.Basis.fit({"rare": rare, "often": often, "x": random.normal(size=20000)}, landmarks=10)
    assert list(kinds_of(basis)) == ["often", "x"]
    assert basis.origin["left_out"]["rare"] == "identifier"


# ---- existing outputs ----------------------------------------------------------------------------------


def opened(path, wanted):
    return open_source(path, ReadOptions().for_basis(wanted))


def test_outputs_made_before_there_were_kinds_are_up_to_date(tmp_path):
    path, output = tmp_path / "t.parquet", tmp_path / "s.nysk"
    pq.write_table(table().select(["x", "city", "ts", "flag"]), path)
    options, wanted = PassOptions(blocks=4), BasisOptions(m=10)
    before = open_source(path)  # without kinds
    nysketch.save(run_pass(before, fit_basis(before, wanted), options, made_by=wanted), output)
    asked = PassOptions(blocks=4, nulls="auto")
    outcome = sketch_to_file(opened(path, wanted), output, wanted, asked, saving=Saving("skip"))
    assert outcome.skipped and kinds_of(outcome.sketch.basis) == {"x": None, "flag": None}
    now = sketch_to_file(opened(path, wanted), output, wanted, asked, saving=Saving("overwrite"))
    assert kinds_of(now.sketch.basis) == {"x": None, "city": "category", "ts": "time", "flag": None}
    assert sketch_to_file(opened(path, wanted), output, wanted, asked, saving=Saving("skip")).skipped


@pytest.mark.parametrize("before", [True, False])
def test_checkpoints_are_continued_with_the_columns_they_have(before, tmp_path):
    path, output = tmp_path / "t.parquet", tmp_path / "s.nysk"
    pq.write_table(table().select(["x", "city", "ts", "flag"]), path, row_group_size=200)
    wanted = BasisOptions(m=10)
    source = open_source(path) if before else opened(path, wanted)
    options = PassOptions(blocks=4, nulls="error" if before else "auto")
    request = _request(source, wanted, options) | {"inputs": source.state(), "part": None}
    whole = run_pass(source, fit_basis(source, wanted, nulls=options.nulls), options, made_by=wanted)
    numbers = {fragment.number for fragment in source.fragments()}
    Checkpoint(output, request, every=0.0).save(whole, numbers)
    asked = PassOptions(blocks=4, nulls="auto")
    outcome = sketch_to_file(opened(path, wanted), output, wanted, asked)
    assert outcome.resumed_fragments == len(numbers)
    assert list(kinds_of(outcome.sketch.basis)) == (["x", "flag"] if before else ["x", "city", "ts", "flag"])
    assert np.array_equal(outcome.sketch.kernel_sums, whole.kernel_sums)


def test_missing_categories_are_nulls_like_any():
    table = pa.table({"city": ["a", None, "b", "a"] * 20, "x": np.arange(80.0) ** 2})
    with pytest.raises(nysketch.NysketchError, match="column 'city' has 20 nulls"):
        nysketch.sketch(table, landmarks=5, nulls="error", columns=["city", "x"])
    dropped = nysketch.sketch(table, landmarks=5, nulls="drop", columns=["city", "x"])
    assert (dropped.rows, dropped.dropped_rows) == (60, 20)
    kept = nysketch.sketch(table, landmarks=5, nulls="keep", columns=["city", "x"])
    assert (kept.rows, kept.dropped_rows) == (80, 0)
    again = nysketch.sketch(table, basis=kept.basis, nulls="drop")
    assert (again.rows, again.dropped_rows) == (60, 20)
