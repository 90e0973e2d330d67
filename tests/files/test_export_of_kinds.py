"""Exports of sketches whose columns have kinds: vocabularies, names of features, landmarks as rows."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.string_arrays import text_from_arrays

CITIES = ["A", "é, ü", "\x1b[31m"]


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    rows = 500
    return pa.table({
        "city": pa.array(random.choice(CITIES, rows), mask=random.random(rows) < 0.1),
        "x": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.1),
        "size": random.lognormal(size=rows),
        "ts": pa.array(random.integers(0, 10**8, rows)).cast(pa.timestamp("s")),
    })  # fmt: skip


@pytest.fixture(scope="module")
def sketch(data):
    kinds = {"city": "category", "size": "rank", "ts": "hour"}
    return nysketch.sketch(data, kinds=kinds, nulls="keep", landmarks=20)


def exported(sketch, path):
    nysketch.export(sketch, path)
    return path


def test_arrays_have_vocabularies(sketch, tmp_path):
    arrays = dict(np.load(exported(sketch, tmp_path / "s.npz")))  # without pickles
    assert sorted(text_from_arrays("vocabulary.0", arrays)) == sorted(CITIES)
    assert len(text_from_arrays("features", arrays)) == sketch.basis.d == len(arrays["scale"])
    assert arrays["landmarks"].shape == (20, 4) and arrays["cell_means"].shape == (20, sketch.basis.d)
    assert np.array_equal(arrays["knots.2"], sketch.basis.columns[2].kind.knots)
    shares = arrays["cell_rows"] @ arrays["cell_means"] / sketch.rows
    assert shares[: len(CITIES) + 2].sum() == pytest.approx(1)


def test_json_has_texts_and_null(sketch, tmp_path):
    facts = json.loads(exported(sketch, tmp_path / "s.json").read_text())
    arrays = facts["arrays"]
    assert sorted(arrays["vocabulary.0"]) == sorted(CITIES)
    assert arrays["features"][0].startswith("city=") and "x is missing" in arrays["features"]
    missing = np.isnan(sketch.basis.landmarks)
    assert [[x is None for x in row] for row in arrays["landmarks"]] == missing.tolist() and missing.any()
    city = facts["columns"][0]
    assert city["type"] == "category" and city["vocabulary"] == 3 and city["min"] is None
    assert set(city["most_frequent"]) == set(CITIES)
    assert facts["columns"][3]["min"].startswith("197") and facts["columns"][3]["parts"] == ["hour"]
    assert facts["columns"][2]["transform"] == "rank"


def test_tables_have_landmarks_as_rows(sketch, data, tmp_path):
    made = pq.read_table(exported(sketch, tmp_path / "s.parquet"))
    rows = data.to_pylist()
    for row in made.to_pylist():
        # Some landmarks have the codes of other and missing values instead of their own.
        changed = {"city"} if row["city"] in (None, "(other)") else set()
        own = {name: row[name] for name in data.column_names if name not in changed}
        assert any(own.items() <= r.items() for r in rows)
    assert "kernel_sum" in made.column_names
