"""Coresets of tables with categories, times and missing values: rows come out as they went in."""

import math
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.coresets.files import Naming, as_table, coreset_to_file
from nysketch.coresets.from_data import CoresetOptions, open_with_originals
from nysketch.errors import UsageError
from nysketch.models.mixture import MixtureModel
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions

pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
KINDS = {"city": "category", "price": "log", "ts": "hour", "flag": "category"}


def table(seed, *, rows=1500, cities="ABC", missing=0.1):
    random = np.random.default_rng(seed)

    def holes():
        return random.random(rows) < missing

    seconds = pa.array(random.integers(0, 10**8, rows), mask=holes())
    return pa.table({
        "city": pa.array(random.choice(list(cities), rows), mask=holes()).dictionary_encode(),
        "price": pa.array(random.lognormal(0, 2, rows), mask=holes()),
        "x": pa.array(random.normal(size=rows), mask=holes()),
        "ts": seconds.cast(pa.timestamp("s")).cast(pa.timestamp("s", "Europe/Berlin")),
        "flag": random.random(rows) < 0.3,
    })  # fmt: skip


def same(made, data):
    assert len(made)
    rows = data.to_pylist()
    for row in made.to_pylist():
        own = {name: value for name, value in row.items() if name not in ("row", "weight")}
        assert own == rows[row["row"]]


def test_rows_are_those_of_the_table():
    data = table(1, cities="ABCDEFG")
    found = nysketch.coreset(data, 20, kinds=KINDS, nulls="keep", landmarks=40)
    made = as_table(found)
    same(made, data)
    assert made.schema.field("ts").type == pa.timestamp("s", "Europe/Berlin")
    assert made["weight"].to_pylist() == pytest.approx(found.weights)
    assert math.fsum(found.weights) == pytest.approx(1)


def test_means_of_functions_are_those_of_all_rows():
    data = table(1)
    sketch = nysketch.sketch(data, kinds=KINDS, nulls="keep", landmarks=40, precision="float64")
    found = nysketch.coreset(data, 20, basis=sketch, nulls="keep")
    functions = found.functions
    of_all = functions.of(sketch.mean_kernel())
    some = functions.of(sketch.basis.values(found.points))
    assert found.weights @ some == pytest.approx(of_all, abs=1e-9)


def test_values_that_no_vocabulary_has_and_new_nulls_come_out_as_they_are():
    basis = nysketch.Basis.fit(table(1, missing=0), kinds=KINDS, landmarks=40)
    data = table(2, cities="AXYZ", missing=0.3)
    found = nysketch.coreset(data, 30, basis=basis, nulls="keep", method="nystrom")
    made = as_table(found)
    same(made, data)
    assert {"X", "Y", "Z"} & set(made["city"].to_pylist()) and made["x"].null_count
    assert np.isfinite(found.distance.mmd) and found.mismatch < 1e-9


def test_arrays_have_the_texts_of_their_numbers():
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=500), random.integers(0, 4, 500)])
    made = as_table(nysketch.coreset(rows, 15, kinds={"x1": "category"}, landmarks=30))
    for row in made.to_pylist():
        assert float(row["x1"]) == rows[row["row"], 1] and row["x0"] == rows[row["row"], 0]


def test_a_sketch_gives_landmarks_as_rows():
    data = table(1, cities="ABCDEFG")
    sketch = nysketch.sketch(data, kinds=KINDS, nulls="keep", landmarks=60)
    made = as_table(nysketch.coreset(sketch, 15))
    rows = [r | {"ts": _local(r["ts"]), "flag": str(r["flag"]).lower()} for r in data.to_pylist()]
    assert made.schema.field("ts").type == pa.timestamp("us")
    for row in made.to_pylist():
        # Some landmarks have the codes of other and missing values instead of their own.
        changed = {name for name in ("city", "flag") if row[name] in (None, "(other)")}
        own = {name: row[name] for name in data.column_names if name not in changed}
        assert any(own.items() <= r.items() for r in rows)


def _local(time):
    return None if time is None else time.replace(tzinfo=None)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_files_hold_strings_times_and_nulls(tmp_path, suffix):
    data = table(3, rows=600)
    pq.write_table(data, tmp_path / "data.parquet")
    basis = nysketch.Basis.fit(data, kinds=KINDS, nulls="keep", landmarks=30)
    out = tmp_path / f"c.{suffix}"
    opening = partial(open_source, str(tmp_path / "data.parquet"))
    source = open_with_originals(lambda options: opening(options), ReadOptions().for_basis(basis))
    coreset_to_file(source, out, basis, CoresetOptions(10, nulls="keep"), naming=Naming())
    if suffix == "parquet":
        same(pq.read_table(out), data)
    elif suffix == "csv":
        made = pacsv.read_csv(out).to_pylist()
        rows = data.to_pylist()
        assert [r["city"] for r in made] == [rows[r["row"]]["city"] or "" for r in made]
    else:
        same(feather.read_table(out), data)


def test_measures_of_numbers_do_not_fit():
    data = table(1)
    basis = nysketch.Basis.fit(data, kinds=KINDS, nulls="keep", landmarks=40)
    plain = {"x": np.arange(30.0) ** 2 % 17}
    measure = nysketch.learn_gmm(nysketch.sketch(plain, landmarks=10), 1)
    assert isinstance(measure, MixtureModel)
    with pytest.raises(UsageError, match="basis of numbers"):
        nysketch.coreset(data, 10, basis=basis, measure=measure, nulls="keep")
