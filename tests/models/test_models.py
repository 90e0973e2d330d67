"""Models: what they say of rows, beside slow twins and scikit-learn; and their files, also hostile ones."""

import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from nysketch.columns import Column, feature_names
from nysketch.errors import (
    CorruptSketchError,
    InputError,
    InvalidRowsError,
    OutputError,
    SchemaError,
    UsageError,
    WrongKindError,
)
from nysketch.models.files import FORMATS, from_description, load_model, save_model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel

TYPES = ("spherical", "diag", "full")


def columns_for(d):
    return tuple(Column(f"x{i}") for i in range(d))


def kmeans_model(k=4, d=3, seed=0, offset=0.0, spread=3.0, scale=None):
    random = np.random.default_rng(seed)
    shares = random.uniform(0.1, 1, k)
    return KMeansModel(
        columns=columns_for(d),
        centroids=offset + spread * random.standard_normal((k, d)),
        scale=np.ones(d) if scale is None else np.asarray(scale),
        shares=shares / shares.sum(),
        facts={"decoder": "cells", "seed": seed, "certified_bound": None},
    )


def mixture_model(covariance_type="diag", k=4, d=3, seed=0, offset=0.0, spread=3.0, width=1.0, scale=None):
    random = np.random.default_rng(seed)
    weights = random.uniform(0.1, 1, k)
    scale = np.ones(d) if scale is None else np.asarray(scale)
    if covariance_type == "full":
        roots = random.standard_normal((k, d, d)) + 2 * np.eye(d)
        covariances = roots @ roots.transpose(0, 2, 1) * np.outer(scale, scale)
    elif covariance_type == "diag":
        covariances = random.uniform(0.2, 2, (k, d)) * scale**2
    else:
        covariances = random.uniform(0.2, 2, (k, 1)) * scale**2
    return MixtureModel(
        columns=columns_for(d),
        weights=weights / weights.sum(),
        means=offset + spread * scale * random.standard_normal((k, d)),
        covariances=covariances * width**2,
        covariance_type=covariance_type,
        scale=scale,
        facts={"decoder": "pursuit"},
    )


def full_covariances(model):
    if model.covariance_type == "full":
        return model.covariances
    return np.stack([np.diag(variances) for variances in model.covariances])


def naive_distances(model, rows):
    """All squared distances, by differences in extended precision."""
    rows, centroids = np.asarray(rows, np.longdouble), np.asarray(model.centroids, np.longdouble)
    return (((rows[:, None] - centroids) / model.scale) ** 2).sum(axis=2)


def naive_log_joint(model, rows):
    logs = []
    for weight, mean, covariance in zip(model.weights, model.means, full_covariances(model), strict=True):
        gaussian = multivariate_normal(np.zeros(model.d), covariance)
        logs.append(np.log(weight) + gaussian.logpdf(rows - mean).reshape(len(rows)))
    return np.stack(logs, axis=1)


def test_features_are_named_after_their_columns():
    assert feature_names([Column("a"), Column("v", 2), Column("b")]) == ["a", "v[0]", "v[1]", "b"]
    assert feature_names([]) == []


# ---- k-means ---------------------------------------------------------------------------------------


@given(
    k=st.integers(1, 30),
    d=st.integers(1, 6),
    seed=st.integers(0, 1000),
    offset=st.sampled_from([0.0, -3.0, 1e3, 1e9]),
    spread=st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_the_nearest_centroid_is_the_nearest(k, d, seed, offset, spread):
    scale = np.random.default_rng(seed).uniform(0.1, 10, d)
    model = kmeans_model(k, d, seed, offset, spread, scale)
    random = np.random.default_rng(seed + 1)
    near = model.centroids[random.integers(k, size=200)] + random.standard_normal((200, d))
    rows = np.concatenate([near, offset + spread * random.standard_normal((100, d)), model.centroids])
    expected = naive_distances(model, rows)
    labels = model.labels(rows)
    chosen = expected[np.arange(len(rows)), labels]
    # Rows are read in float64, so they may be anywhere within its last digits.
    slack = 1e-9 * expected.min(axis=1) + 1e-12 * np.sqrt(expected.min(axis=1)) * spread
    tiny = (1e-15 * (abs(offset) + spread) / scale.min()) ** 2
    assert (chosen <= expected.min(axis=1) + slack + tiny).all()
    assert np.allclose(
        model.squared_distances(rows).astype(float), chosen.astype(float), rtol=1e-6, atol=100 * tiny + 1e-12
    )
    assert np.array_equal(model.nearest(rows)[0], labels)
    assert np.array_equal(model.costs(rows), model.squared_distances(rows))


def test_of_centroids_as_near_the_first_is_taken():
    model = kmeans_model(k=3, d=2)
    twice = KMeansModel(
        columns=model.columns,
        centroids=np.concatenate([model.centroids, model.centroids]),
        scale=model.scale,
        shares=np.full(6, 1 / 6),
    )
    rows = np.random.default_rng(0).normal(0, 1e4, (1000, 2))
    assert twice.labels(rows).max() < 3
    assert np.array_equal(twice.labels(rows), model.labels(rows))


def test_tight_clusters_far_apart_are_told_apart():
    # |y|² is 1e16: a matrix product alone could not tell centroids 1e-2 apart.
    centroids = np.array([[0.0], [1e8], [1e8 + 0.01]])
    model = KMeansModel(
        columns=columns_for(1), centroids=centroids, scale=np.ones(1), shares=np.full(3, 1 / 3)
    )
    rows = np.array([[1e8 - 1], [1e8 + 0.003], [1e8 + 0.007], [1e8 + 5.0], [3.0]])
    assert model.labels(rows).tolist() == [1, 1, 2, 2, 0]
    assert np.allclose(model.squared_distances(rows), ((rows - centroids.T) ** 2).min(axis=1), rtol=1e-5)


def test_many_rows_at_once_are_as_many_at_a_time():
    model = kmeans_model(k=700, d=2)
    rows = np.random.default_rng(1).normal(0, 3, (2000, 2))
    one_by_one = np.concatenate([model.labels(rows[i : i + 1]) for i in range(0, 2000, 37)])
    assert np.array_equal(model.labels(rows)[::37], one_by_one)
    assert model.labels(rows).dtype == np.int32
    assert model.labels(rows[:0]).shape == (0,)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_labels_and_inertia_are_those_of_scikit_learn(offset):
    random = np.random.default_rng(0)
    rows = random.standard_normal((3000, 4)) + 4 * random.integers(0, 2, (3000, 4))
    # scikit-learn itself needs the rows near 0.
    theirs = KMeans(8, n_init=1, random_state=0).fit(rows)
    ours = KMeansModel(
        columns=columns_for(4),
        centroids=theirs.cluster_centers_ + offset,
        scale=np.ones(4),
        shares=np.full(8, 1 / 8),
    )
    assert (ours.labels(rows + offset) == theirs.predict(rows)).mean() > 0.999
    assert ours.squared_distances(rows + offset).sum() == pytest.approx(theirs.inertia_, rel=1e-5)


# ---- mixtures --------------------------------------------------------------------------------------


@given(
    covariance_type=st.sampled_from(TYPES),
    k=st.integers(1, 8),
    d=st.integers(1, 5),
    seed=st.integers(0, 1000),
    offset=st.sampled_from([0.0, 10.0, 1e9]),
    width=st.sampled_from([1e-5, 1.0, 1e3]),
)
def test_densities_are_those_of_the_definition(covariance_type, k, d, seed, offset, width):
    random = np.random.default_rng(seed)
    scale = random.uniform(0.1, 10, d)
    if offset > 1e3:
        width = max(width, 1.0)  # narrower than the last digit, there is nothing to compare
    model = mixture_model(covariance_type, k, d, seed, offset, 3.0, width, scale)
    rows = model.means[random.integers(k, size=60)] + width * scale * random.standard_normal((60, d))
    expected = naive_log_joint(model, rows)
    densities = logsumexp(expected, axis=1)
    assert np.allclose(model.log_densities(rows), densities, rtol=1e-7, atol=1e-7)
    shares = model.responsibilities(rows)
    assert np.allclose(shares, np.exp(expected - densities[:, None]), rtol=1e-5, atol=1e-7)
    assert np.allclose(shares.sum(axis=1), 1, rtol=1e-14)
    assert np.array_equal(model.labels(rows), shares.argmax(axis=1))
    assert np.array_equal(model.costs(rows), -model.log_densities(rows))


@pytest.mark.parametrize("covariance_type", TYPES)
def test_densities_and_responsibilities_are_those_of_scikit_learn(covariance_type):
    random = np.random.default_rng(0)
    rows = random.standard_normal((2000, 3)) * [1, 2, 0.5] + 3 * random.integers(0, 2, (2000, 3))
    theirs = GaussianMixture(5, covariance_type=covariance_type, random_state=0, max_iter=20, tol=1e-2).fit(
        rows
    )
    covariances = theirs.covariances_
    ours = MixtureModel(
        columns=columns_for(3),
        weights=theirs.weights_,
        means=theirs.means_,
        covariances=covariances[:, None] * np.ones(3) if covariance_type == "spherical" else covariances,
        covariance_type=covariance_type,
        scale=np.ones(3),
    )
    assert np.allclose(ours.log_densities(rows), theirs.score_samples(rows), rtol=1e-9, atol=1e-9)
    assert np.allclose(ours.responsibilities(rows), theirs.predict_proba(rows), rtol=1e-7, atol=1e-12)
    assert ours.n_parameters == theirs._n_parameters()


@pytest.mark.parametrize("model", [kmeans_model(), *(mixture_model(kind) for kind in TYPES)], ids=repr)
def test_rows_far_out_give_numbers(model):
    rows = np.array([[1e308, -1e308, 1e308], [1e200, 0, 0], [-1e308, 1e5, 0], [1e5, 1e5, 1e5], [0, 0, 0]])
    assert np.isfinite(model.costs(rows)).all()
    assert np.isfinite(model.costs(rows) ** 2).all()
    assert (model.labels(rows) >= 0).all() and (model.labels(rows) < model.k).all()
    if isinstance(model, MixtureModel):
        assert np.allclose(model.responsibilities(rows).sum(axis=1), 1)


def test_a_component_without_weight_is_nowhere():
    model = mixture_model("full", k=2)
    alone = MixtureModel(
        columns=model.columns,
        weights=np.array([0.0, 1.0]),
        means=model.means,
        covariances=model.covariances,
        covariance_type="full",
        scale=model.scale,
    )
    rows = model.means
    assert alone.labels(rows).tolist() == [1, 1]
    assert np.array_equal(alone.responsibilities(rows), [[0, 1], [0, 1]])
    assert np.isfinite(alone.log_densities(rows)).all()


def test_rows_of_another_width_are_refused():
    for model in (kmeans_model(d=3), mixture_model(d=3)):
        with pytest.raises(ValueError, match=r"rows have shape \(5, 2\)"):
            model.labels(np.zeros((5, 2)))


# ---- data with names -------------------------------------------------------------------------------


MODELS = [kmeans_model(), *(mixture_model(kind) for kind in TYPES)]


def functions_of(model):
    names = ["labels", "predict", "costs"]
    names += (
        ["squared_distances"] if isinstance(model, KMeansModel) else ["log_densities", "responsibilities"]
    )
    return [getattr(model, name) for name in names]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_columns_are_found_by_name(model, tmp_path):
    rows = np.random.default_rng(5).normal(size=(500, 3)) * 3
    names = [column.name for column in model.columns]
    turned = {"text": ["x"] * 500} | {name: rows[:, i] for i, name in reversed([*enumerate(names)])}
    pq.write_table(pa.table(turned), tmp_path / "rows.parquet")
    forms = [turned, pa.table(turned), tmp_path / "rows.parquet", rows.tolist(), np.ma.masked_array(rows)]
    forms += [pytest.importorskip(library).DataFrame(turned) for library in ("pandas", "polars")]
    assert not np.array_equal(model.labels(rows), model.labels(rows[:, ::-1]))
    for function in functions_of(model):
        expected = function(rows)
        for data in forms:
            found = function(data)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_missing_column_or_value_is_an_error(model):
    names = [column.name for column in model.columns]
    data = {name: [1.0, 2.0] for name in names}
    for function in functions_of(model):
        with pytest.raises(SchemaError, match=f"no column {names[1]!r}"):
            function({name: values for name, values in data.items() if name != names[1]})
        with pytest.raises(
            InvalidRowsError, match=rf"column {names[2]!r} has 1 nulls. Drop such rows first, or"
        ):
            function(data | {names[2]: [1.0, None]})
        with pytest.raises(
            InvalidRowsError, match=r"array: holds NaN or infinities. Drop such rows first, or"
        ):
            function(np.array([[1.0, 2.0, np.nan]]))
        with pytest.raises(InvalidRowsError, match="column"):
            function(np.ma.masked_array([[1.0, 2.0, 3.0]], mask=[[0, 0, 1]]))


# ---- descriptions ----------------------------------------------------------------------------------


def changed(model, **changes):
    return model.describe() | changes


@pytest.mark.parametrize("model", [kmeans_model(), *(mixture_model(kind) for kind in TYPES)], ids=repr)
def test_a_description_gives_the_same_model(model):
    again = from_description(json.loads(json.dumps(model.describe())))
    assert type(again) is type(model)
    for name in ("scale", *model.arrays):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    assert (again.columns, again.facts) == (model.columns, model.facts)
    assert again.describe() == model.describe()


def test_a_description_names_features_and_facts():
    columns = (Column("a"), Column("e", 2), Column("b[0]"))
    model = KMeansModel(
        columns=columns, centroids=np.zeros((1, 4)), scale=np.ones(4), shares=[1.0], facts={"seed": 3}
    )
    facts = model.describe()
    assert facts["columns"] == ["a", "e[0]", "e[1]", "b[0]"]
    assert (facts["seed"], facts["kind"], facts["schema_version"]) == (3, "kmeans", 1)
    assert facts["software"].startswith("nysketch ")
    assert facts["centroids"] == [[0.0] * 4]
    assert from_description(facts).columns == columns


KMEANS, FULL = kmeans_model(), mixture_model("full")
BAD = {
    "centroids, nan": (changed(KMEANS, centroids=[[float("nan")] * 3] * 4), "finite"),
    "centroids, ragged": (changed(KMEANS, centroids=[[1.0, 2.0, 3.0], [1.0]]), "different lengths"),
    "centroids, text": (changed(KMEANS, centroids=[["1", "2", "3"]] * 4), "not finite numbers"),
    "centroids, none": (changed(KMEANS, centroids=None), "not finite numbers"),
    "centroids, flat": (changed(KMEANS, centroids=[1.0, 2.0, 3.0]), "shape"),
    "centroids, missing": ({k: v for k, v in KMEANS.describe().items() if k != "centroids"}, "missing"),
    "centroids, huge": (changed(KMEANS, centroids=[[10**400] * 3] * 4), "not finite numbers"),
    "centroids, far": (changed(KMEANS, centroids=[[1e300, 0, 0], *[[0, 0, 0]] * 3]), "out of range"),
    "centroids, empty": (changed(KMEANS, centroids=[]), "no clusters"),
    "scale, zero": (changed(KMEANS, scale=[0.0, 1.0, 1.0]), "not positive"),
    "scale, short": (changed(KMEANS, scale=[1.0]), "scale has shape"),
    "shares, negative": (changed(KMEANS, shares=[-0.5, 0.5, 0.5, 0.5]), "must sum to 1"),
    "shares, sum": (changed(KMEANS, shares=[0.5] * 4), "must sum to 1"),
    "columns, twice": (changed(KMEANS, columns=["a", "a", "b"]), "distinct names"),
    "columns, numbers": (changed(KMEANS, columns=[1, 2, 3]), "not text"),
    "columns, no list": (changed(KMEANS, columns="abc"), "not a list"),
    "widths, wrong": (changed(KMEANS, column_widths=[1, 1]), "widths"),
    "widths, huge": (changed(KMEANS, column_widths=[10**30]), "impossible widths"),
    "widths, negative": (changed(KMEANS, column_widths=[4, -1]), "impossible widths"),
    "widths, names": (changed(KMEANS, column_widths=[1, 2]), "names"),
    "kind": (changed(KMEANS, kind="tree"), "unknown kind"),
    "kind, a list": (changed(KMEANS, kind=["kmeans"]), "unknown kind"),
    "software": (changed(KMEANS, software=7), "unknown kind"),
    "the future": (changed(KMEANS, schema_version=3), "Upgrade"),
    "no kinds": (changed(KMEANS, schema_version=2), "kinds of its columns are missing"),
    "version": (changed(KMEANS, schema_version="1"), "not a number"),
    "a list": ([1, 2], "not the description"),
    "an info": ({"kind": "sketch", "schema_version": 1}, "not the description"),
    "weights": (changed(FULL, weights=[1.0, 1.0, 1.0, 1.0]), "must sum to 1"),
    "type": (changed(FULL, covariance_type="tied"), "covariance_type"),
    "type, a list": (changed(FULL, covariance_type=["full"]), "not text"),
    "diag for full": (changed(FULL, covariance_type="diag"), "shape"),
    "indefinite": (
        changed(FULL, covariances=[[[1, 2, 0], [2, 1, 0], [0, 0, 1]]] * 4),
        "not positive definite",
    ),
    "skew": (changed(FULL, covariances=[[[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]] * 4), "not symmetric"),
    "singular": (changed(FULL, covariances=[[[1, 1, 0], [1, 1, 0], [0, 0, 1]]] * 4), "definite"),
    "zero": (changed(mixture_model("diag"), covariances=[[0.0, 1, 1]] * 4), "not positive"),
    "negative": (changed(mixture_model("diag"), covariances=[[-1.0, 1, 1]] * 4), "not positive"),
    "not round": (changed(mixture_model("spherical"), covariances=[[1.0, 1, 2]] * 4), "not spherical"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused(name):
    description, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        from_description(description)


def test_facts_are_plain_values_with_names_of_their_own():
    for facts, message in (
        ({"x": np.arange(3)}, "JSON"),
        ({"scale": 1}, "'scale'"),
        ({"shares": 1}, "'shares'"),
    ):
        with pytest.raises(ValueError, match=message):
            KMeansModel(columns=columns_for(1), centroids=[[0.0]], scale=[1.0], shares=[1.0], facts=facts)
    with pytest.raises(ValueError, match="text"):
        KMeansModel(columns=(Column("t", text=True),), centroids=[[0.0]], scale=[1.0], shares=[1.0])


# ---- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", [kmeans_model(), *(mixture_model(kind) for kind in TYPES)], ids=repr)
def test_files_give_the_same_model_and_bytes(model, format, tmp_path):
    path, again = tmp_path / f"model.{format}", tmp_path / "again"
    save_model(model, path)
    loaded = load_model(path)
    assert loaded.describe() == model.describe()
    assert loaded.facts == model.facts
    save_model(loaded, again, format=format)
    assert again.read_bytes() == path.read_bytes()
    assert load_model(again).describe() == model.describe()  # told by its content


def test_json_is_for_people(tmp_path):
    save_model(kmeans_model(k=2, d=2), tmp_path / "m.json")
    lines = (tmp_path / "m.json").read_text().splitlines()
    keys = [line.split(":")[0] for line in lines if line.startswith('  "')]
    assert keys == sorted(keys)
    assert lines[1].startswith('  "centroids": [') and lines[2].count(",") == 2  # one row to a line


def test_parquet_has_one_row_per_cluster(tmp_path):
    model, mixture = kmeans_model(), mixture_model("diag")
    for thing in (model, mixture, FULL):
        save_model(thing, tmp_path / "m.parquet", if_exists="overwrite")
        table = pq.read_table(tmp_path / "m.parquet")
        middles = model.centroids if thing is model else thing.means
        assert np.array_equal(np.column_stack([table[f"x{i}"] for i in range(3)]), middles)
        share = "share" if thing is model else "weight"
        assert np.array_equal(table[share], model.shares if thing is model else thing.weights)
        if thing is mixture:
            variances = np.column_stack([table[f"var:x{i}"] for i in range(3)])
            assert np.array_equal(variances, mixture.covariances)
        if thing is FULL:
            assert np.array_equal(np.array(table["covariance"].to_pylist()), FULL.covariances.reshape(4, 9))


def test_npz_has_the_arrays(tmp_path):
    save_model(FULL, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["covariances"], FULL.covariances)
        assert arrays["columns"].tolist() == ["x0", "x1", "x2"]


def test_saving_refuses_what_it_cannot_do(tmp_path):
    with pytest.raises(UsageError, match="cannot tell the format"):
        save_model(kmeans_model(), tmp_path / "model.txt")
    (tmp_path / "m.json").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        save_model(kmeans_model(), tmp_path / "m.json")
    assert (tmp_path / "m.json").read_text() == "mine"
    model = KMeansModel(columns=(Column("share"),), centroids=[[0.0]], scale=[1.0], shares=[1.0])
    with pytest.raises(UsageError, match="two columns named 'share'"):
        save_model(model, tmp_path / "m.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["m.json"]


def zipped(*, how=zipfile.ZIP_STORED, **files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def parquet_with(metadata):
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0]}).replace_schema_metadata(metadata), buffer)
    return buffer.getvalue()


HUGE = (
    b"\x93NUMPY\x01\x00v\x00{'descr': '<U4000000000', 'fortran_order': False, 'shape': (), }".ljust(128)
    + b"\n"
)
HOSTILE = {
    "empty": b"",
    "text": b"hello",
    "no JSON": b"{",
    "nested": b'{"a":' + b"[" * 100_000,
    "NaN": json.dumps(changed(KMEANS, seed=float("nan"))).encode(),
    "Infinity": json.dumps(changed(KMEANS, scale=[float("inf")] * 3)).encode(),
    "digits": b'{"a": ' + b"9" * 100_000 + b"}",
    "no UTF-8": b'{"a": "\xff"}',
    "parquet, cut": b"PAR1" + b"\0" * 100,
    "parquet, no JSON": parquet_with({"nysketch_model": "hello"}),
    "zip, cut": zipped(nysketch_model=npy(np.array("{}")))[:-10],
    "zip, flipped": zipped(nysketch_model=b"\xff" * 1000),
    "zip, others": zipped(landmarks=npy(np.zeros(3))),
    "zip, pickle": zipped(nysketch_model=npy(np.array({}, object), allow_pickle=True)),
    "zip, numbers": zipped(nysketch_model=npy(np.zeros(3))),
    "zip, huge": zipped(nysketch_model=HUGE),
    "zip, bomb": zipped(nysketch_model=b"\0" * (20 << 20)),
    "zip, no JSON": zipped(nysketch_model=npy(np.array("hello"))),
    "bytes": np.random.default_rng(0).bytes(1000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name, tmp_path):
    (tmp_path / "m").write_bytes(HOSTILE[name])
    with pytest.raises(CorruptSketchError, match="m: not a usable model file: "):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("format", FORMATS)
def test_truncated_and_flipped_files_are_refused_or_the_same(format, tmp_path):
    save_model(mixture_model("full"), tmp_path / "m", format=format)
    whole = (tmp_path / "m").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(60):
        if random.random() < 0.5:
            content = whole[: random.integers(len(whole) - 2)]
        else:
            content = bytearray(whole)
            content[random.integers(len(whole))] ^= 1 << random.integers(8)
        (tmp_path / "damaged").write_bytes(content)
        try:
            assert load_model(tmp_path / "damaged").k == 4  # a digit of a number, or what is not read
        except CorruptSketchError as error:
            assert "damaged: not a usable model file: " in str(error)
        except WrongKindError as error:  # the name under which the model is stored was damaged
            assert "damaged: this is data, not a model" in str(error)


def test_what_is_no_model_is_called_by_its_name(shelf, tmp_path):
    with pytest.raises(WrongKindError, match="this is a sketch or a basis, not a model"):
        load_model(shelf / "a.nysk")
    with pytest.raises(WrongKindError, match="this is data, not a model"):
        load_model(shelf / "a.parquet")
    for path in (tmp_path / "none", tmp_path, "a\0b"):
        with pytest.raises(InputError, match="cannot read"):
            load_model(path)


def test_huge_files_are_refused_before_they_are_read(tmp_path, monkeypatch):
    save_model(kmeans_model(k=3), tmp_path / "m.npz")
    monkeypatch.setattr("nysketch.models.files._MAX_NPZ_BYTES", 1000)
    monkeypatch.setattr("nysketch.models.files._MAX_TEXT_BYTES", 500)
    (tmp_path / "m").write_bytes(b"{" + b" " * 2000)
    with pytest.raises(CorruptSketchError, match="too large"):
        load_model(tmp_path / "m")
    (tmp_path / "m").write_bytes(zipped(nysketch_model=b"\0" * 10_000, how=zipfile.ZIP_DEFLATED))
    with pytest.raises(CorruptSketchError, match="compressed"):
        load_model(tmp_path / "m")
    with pytest.raises(CorruptSketchError, match="too large"):
        load_model(tmp_path / "m.npz")
    with pytest.raises(OutputError, match="more than the 500"):
        save_model(kmeans_model(k=30), tmp_path / "m.json")
