"""Models of columns with kinds: rows are tables as people have them, centroids are read by column."""

import json

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.errors import InputError, InvalidRowsError
from nysketch.models.files import load_model, save_model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.present import in_words, present
from nysketch.models.stored import from_description
from nysketch.passes.chunks import ChunkReader
from nysketch.sources.open import open_source
from tests.models.mixed import KINDS, table


@pytest.fixture(scope="module")
def learned():
    rows, cluster = table()
    sketch = nysketch.sketch(rows, kinds=KINDS, nulls="keep", landmarks=60, seed=1)
    return rows, cluster, sketch, nysketch.learn_kmeans(sketch, 3, trials=3)


def numbers(rows, basis):
    """Return the numbers of all rows, as the pass reads them."""
    source = open_source(rows, like=basis.columns)
    reader = ChunkReader(source, nulls="keep", fill=basis.fill)
    return np.concatenate([chunk.rows.copy() for f in source.fragments() for chunk in reader.chunks(f)])


def slow_distances(rows, sketch, model):
    """Return squared distances of all rows to all centroids, feature by feature."""
    features = sketch.basis.layout.expand(numbers(rows, sketch.basis))
    return (((features[:, None] - model.centroids) / model.scale) ** 2).sum(axis=2)


def test_labels_and_costs_are_those_of_the_features(learned):
    rows, cluster, sketch, model = learned
    distances = slow_distances(rows, sketch, model)
    assert np.array_equal(model.labels(rows), distances.argmin(axis=1))
    assert np.allclose(model.squared_distances(rows), distances.min(axis=1))
    cost = nysketch.score(model, rows).mean_cost
    assert cost == pytest.approx(distances.min(axis=1).mean())
    assert (model.labels(rows) == cluster).mean() > 0.95  # the largest comes first, in both
    found = nysketch.assign(model, rows, distances=True)
    assert np.array_equal(found["label"], model.labels(rows))
    assert np.allclose(found["distance"], np.sqrt(distances.min(axis=1)))


def test_certified_bounds_hold(learned):
    rows, _, sketch, model = learned
    for k in (1, 3, 7):
        one = model if k == 3 else nysketch.learn_kmeans(sketch, k, trials=2)
        true = slow_distances(rows, sketch, one).min(axis=1).mean()
        assert 0 <= true <= one.facts["certified_bound"] < 1.5 * true
        assert one.facts["certified_bound_data_units"] is None


def test_refining_is_lloyds_algorithm_on_features(learned):
    rows, _, sketch, model = learned
    better = nysketch.learn_kmeans(sketch, 3, trials=3, data=rows, refine=1)
    features = sketch.basis.layout.expand(numbers(rows, sketch.basis))
    labels = slow_distances(rows, sketch, model).argmin(axis=1)
    means = np.array([features[labels == j].mean(axis=0) for j in range(3)])
    assert np.allclose(better.centroids, means, rtol=1e-9, atol=1e-9)
    true = slow_distances(rows, sketch, better).min(axis=1).mean()
    assert true <= better.facts["mean_squared_distance"] * (1 + 1e-12)
    assert true <= better.facts["certified_bound"]


def test_frames_of_pandas_and_polars_are_taken_as_they_are(learned):
    rows, _, _, model = learned
    labels = model.labels(rows)
    pandas = rows.to_pandas()
    pandas["city"] = pandas["city"].astype("category")
    pandas["flag"] = pandas["flag"].astype("boolean")
    pandas["x"] = pandas["x"].astype("Float64")
    assert np.array_equal(model.labels(pandas), labels)
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(rows).with_columns(polars.col("city").cast(polars.Categorical))
    assert np.array_equal(model.labels(frame), labels)


def test_files_give_back_the_same_model(learned, tmp_path):
    rows, _, _, model = learned
    for name in ("m.json", "m.npz", "m.parquet"):
        save_model(model, tmp_path / name)
        again = load_model(tmp_path / name)
        assert again.columns == model.columns and again.describe() == model.describe()
        assert np.array_equal(again.labels(rows), model.labels(rows))


def test_models_without_kinds_are_stored_as_ever():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    description = nysketch.learn_kmeans(nysketch.sketch(rows, landmarks=20), 2, trials=1).describe()
    assert description["schema_version"] == 1
    assert "fill" not in description and "column_kinds" not in description
    with pytest.raises(InputError):
        from_description(description).labels(np.array([[np.nan, 1.0]]))


def changed(model, at, **changes):
    description = json.loads(json.dumps(model.describe()))
    description["column_kinds"][at] |= changes
    return description


def test_hostile_kinds_are_refused(learned):
    *_, model = learned
    city, price, ts, tail = (
        [column.name for column in model.columns].index(name) for name in ("city", "price", "ts", "tail")
    )
    whole = json.loads(json.dumps(model.describe()))
    for description in (
        changed(model, city, values=["NYC", "LA", "SF", "other"]),
        changed(model, city, values=["NYC", "NYC", "SF", "LA"]),
        changed(model, city, values=["\ud800", "NYC", "SF", "LA"]),
        changed(model, city, values=7),
        changed(model, city, values=[1, 2, 3, 4]),
        changed(model, city, kind="zodiac"),
        changed(model, city, name="x"),
        changed(model, price, transform="exp"),
        changed(model, price, neutral=None),
        changed(model, price, missing=1),
        changed(model, ts, parts=["minute"]),
        changed(model, ts, neutral=[1e308]),
        changed(model, tail, knots=[[1, 0], [0, 1]]),
        changed(model, tail, knots=[[float("inf"), 0]]),
        changed(model, tail, knots=None),
        changed(model, tail, knots=[["0", "1"], ["0", "1"]]),
        whole | {"column_kinds": None},
        whole | {"column_kinds": whole["column_kinds"][:-1]},
        whole | {"column_kinds": [3] * len(model.columns)},
        whole | {"fill": None},
        whole | {"fill": [1.0]},
        whole | {"fill": [None] * model.width},
        whole | {"fill": ["1"] * model.width},
        whole | {"schema_version": 1},
        {key: value for key, value in whole.items() if key != "fill"},
    ):
        with pytest.raises((ValueError, KeyError, TypeError)):
            from_description(description)


def test_clusters_are_told_by_their_columns(learned):
    rows, _, _, model = learned
    labels, frame = model.labels(rows), rows.to_pandas()
    for found in present(model):
        own = frame[labels == found["cluster"]]
        column = {each["name"]: each for each in found["columns"]}
        # Centroids are where rows drawn from the cells put them: near the means of rows.
        shares = own["city"].value_counts() / len(own)
        assert column["city"]["values"][0]["value"] == shares.index[0]
        assert column["city"]["values"][0]["share"] == pytest.approx(shares.iloc[0], abs=0.02)
        assert column["city"]["missing"] == pytest.approx(own["city"].isna().mean(), abs=0.02)
        assert column["x"]["mean"] == pytest.approx(own["x"].mean(), abs=0.1)
        assert column["x"]["missing"] == pytest.approx(own["x"].isna().mean(), abs=0.02)
        assert column["price"]["typical"] == pytest.approx(np.expm1(np.log1p(own["price"]).mean()), rel=0.1)
        hour = int(column["ts"]["parts"]["hour"]["mean"][:2])
        assert abs(hour - (4, 10, 16)[found["cluster"]]) <= 1
        assert column["ts"]["parts"]["weekday"]["mean"] is None
        assert all(in_words(each) for each in found["columns"])
    assert in_words(column["x"]).endswith("% missing")


def place(values, kind, **more):
    """Return what is said of one cluster with these features."""
    column = nysketch.columns.Column("c", kind=kind)
    scale = np.ones(kind.features)
    model = KMeansModel(
        columns=(column,), scale=scale, centroids=[values], shares=[1.0], fill=[np.nan], **more
    )
    return present(model)[0]["columns"][0]


def test_times_are_read_off_circles():
    from nysketch.kinds import Time

    def at(part, turn, radius=1.0):
        angle = 2 * np.pi * turn
        return place([radius * np.cos(angle), radius * np.sin(angle)], Time((part,)))["parts"][part]

    assert at("hour", 14.5 / 24)["mean"] == "14:30"
    assert at("hour", 0.99999)["mean"] == "00:00"
    assert at("weekday", 1 / 7)["mean"] == "Tuesday"
    assert at("yearday", 192 / 365.2425)["mean"] == "12 Jul"
    assert at("hour", 0.5, 0.05) == {"concentration": pytest.approx(0.05), "deviation": None, "mean": None}
    elapsed = place([19_800.2], Time(("elapsed",)))
    assert elapsed["parts"]["elapsed"]["mean"] == "2024-03-18"
    assert place([1e30], Time(("elapsed",)))["parts"]["elapsed"]["mean"] is None


def test_missing_values_are_not_part_of_means():
    from nysketch.kinds import Number

    assert place([2.5, 0.5], Number(missing=True, neutral=1.0))["mean"] == pytest.approx(4.0)
    assert place([1.0, 1.0], Number(missing=True, neutral=1.0)) == {
        "kind": "number", "mean": None, "missing": 1.0, "name": "c",
    }  # fmt: skip
    assert place([1e5], Number("log"))["typical"] is None  # e^100000


def test_unseen_values_and_infinities(learned):
    rows, _, _, model = learned
    some = rows.slice(0, 3).set_column(0, "city", pa.array(["Paris", None, "Rome"]))
    assert len(model.labels(some)) == 3
    endless = some.set_column(3, "y", pa.array([np.inf, 0, 0]))
    with pytest.raises(InvalidRowsError):
        model.labels(endless)
    with pytest.raises(InvalidRowsError):
        nysketch.assign(model, rows, nulls="error")


def test_robust_centroids_are_shares_and_places(learned):
    rows, cluster, sketch, _ = learned
    model = nysketch.learn_kmeans(sketch, 3, trials=3, robust="auto")
    assert (np.abs(model.centroids[:, : len(KINDS)]) <= 1 + 1e-9).all()
    for found in present(model):
        column = {each["name"]: each for each in found["columns"]}
        shares = [each["share"] for each in column["city"]["values"]]
        assert sum(shares) + column["city"]["other"] + column["city"]["missing"] == pytest.approx(1)
        assert column["ts"]["parts"]["hour"]["concentration"] <= 1
    assert (model.labels(rows) == cluster).mean() > 0.8 or len(set(model.labels(rows))) == 3


def test_commands_print_clusters_by_column(learned, run_cli, tmp_path):
    sketch = learned[2]
    nysketch.save(sketch, tmp_path / "s.nysk")
    model = tmp_path / "m.json"
    told = run_cli("learn", "kmeans", tmp_path / "s.nysk", "-k", "3", "--trials", "2", "-o", model).stdout
    assert "cluster 0, " in told and "NYC 8" in told and "<b>\\n" in told
    assert told[told.index("cluster 0") :] in run_cli("info", model).stdout
    clusters = json.loads(run_cli("info", "--json", model).stdout)["clusters"]
    gmm = ("learn", "gmm", tmp_path / "s.nysk", "-k", "2", "--trials", "2", "-o", tmp_path / "g.json")
    components = json.loads(run_cli(*gmm, "--json").stdout)["clusters"]
    assert clusters[0].keys() - {"centre"} == components[0].keys()
