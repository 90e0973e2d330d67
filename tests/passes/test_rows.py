"""Features, residuals and embeddings of rows, in the data's units, against kernel values one by one."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.basis.base import Basis
from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.errors import InvalidRowsError, SchemaError, UsageError
from tests import naive

NAMES = ("a", "b", "c")


def rows_of(n, seed=0, spread=1.0):
    """Return rows whose columns have other units."""
    return np.random.default_rng(seed).normal(size=(n, 3)) * spread * [1, 100, 0.01] + [5, -300, 0]


def table_of(rows, names=NAMES):
    return pa.table({name: rows[:, i] for i, name in enumerate(names)})


def kernel_values(basis, X, Y):
    """Return k(x, y) in float64, scaled by hand, one pair after the other."""
    about = basis.kernel.describe()
    if not basis.text:
        X, Y = ((rows - basis.center) / basis.scale for rows in (X, Y))
    return np.array([[naive.kernel_value(about, x, y) for y in Y] for x in X])


def expected_of(basis, rows):
    """Return Φ(x)·Φ(y) of all pairs, and squared residuals: k(x, Z) K⁻¹ k(Z, y), by a solver."""
    K = kernel_values(basis, basis.landmarks, basis.landmarks)
    values = kernel_values(basis, basis.landmarks, rows)
    products = values.T @ np.linalg.solve(K, values)
    own = np.array([kernel_values(basis, rows[i : i + 1], rows[i : i + 1])[0, 0] for i in range(len(rows))])
    return products, own - np.diag(products)


KERNELS = [
    {"kernel": "gaussian"},
    {"kernel": "laplacian-l1"},
    {"kernel": "matern52"},
    {"kernel": "linear", "scale": "none"},
    {"groups": {"u": ["a"], "v": ["b", "c"]}},
]


@pytest.mark.parametrize("options", KERNELS, ids=str)
def test_features_residuals_and_embeddings_are_those_of_the_definition(options):
    rows, others = rows_of(60), rows_of(12, seed=1, spread=2)
    sketch = nysketch.sketch(
        table_of(rows), landmarks=2 if options.get("kernel") == "linear" else 8, **options
    )
    basis = sketch.basis
    products, residuals = expected_of(basis, others)
    features = basis.features(table_of(others))
    scale = np.abs(products).max()
    assert features.shape == (12, basis.rank)
    np.testing.assert_allclose(features @ features.T, products, rtol=1e-7, atol=1e-7 * scale)
    np.testing.assert_allclose(
        basis.residuals(table_of(others)) ** 2, residuals, rtol=1e-6, atol=1e-7 * scale
    )
    # The projection of the mean of k(x, ·) over all rows on the landmarks.
    K = kernel_values(basis, basis.landmarks, basis.landmarks)
    weights = np.linalg.solve(K, kernel_values(basis, basis.landmarks, rows).mean(axis=1))
    embedding = kernel_values(basis, others, basis.landmarks) @ weights
    found = sketch.embedding(table_of(others))
    np.testing.assert_allclose(found, embedding, rtol=1e-4, atol=1e-5 * np.abs(embedding).max())


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "standard", "robust"]),
)
def test_landmarks_have_no_residual_and_the_embedding_of_landmarks_is_their_mean(n, m, seed, scaling):
    rows = np.random.default_rng(seed).normal(size=(max(n, m), 2)) * [1, 50]
    basis = basis_from_rows(rows, (Column("x"), Column("y")), m=m, scaling=scaling, bandwidth=1.0)
    assert (basis.residuals(basis.landmarks) <= 1e-3).all()
    assert ((basis.residuals(rows) >= 0) & (basis.residuals(rows) <= 1)).all()
    # Every row is expressed by all rows as landmarks: then nothing is lost.
    whole = basis_from_rows(rows, (Column("x"), Column("y")), m=len(rows), scaling=scaling, bandwidth=1.0)
    sketch = nysketch.sketch(rows, basis=whole, precision="float64", threads=1)
    exact = kernel_values(whole, rows, rows).mean(axis=1)
    np.testing.assert_allclose(sketch.embedding(rows), exact, atol=1e-3)


def test_text():
    texts = [f"the {a} {b}" for a in ("cat", "dog", "fish") for b in ("sat", "ran", "swam home")]
    data = {"id": list(range(9)), "t": texts}
    sketch = nysketch.sketch(data, kernel="spectrum", landmarks=4)
    basis = sketch.basis
    others = np.array(["the cat sat", "a fish", "zzzz"], object)
    products, residuals = expected_of(basis, others)
    found = basis.features({"t": others.tolist(), "n": [1, 2, 3]})
    np.testing.assert_allclose(found @ found.T, products, atol=1e-7)
    np.testing.assert_allclose(basis.residuals(others) ** 2, residuals, atol=1e-7)
    K = kernel_values(basis, basis.landmarks, basis.landmarks)
    weights = np.linalg.solve(K, kernel_values(basis, basis.landmarks, texts).mean(axis=1))
    embedding = kernel_values(basis, others, basis.landmarks) @ weights
    np.testing.assert_allclose(sketch.embedding({"t": others.tolist()}), embedding, atol=1e-5)
    empty = sketch.embedding({"t": ["the cat sat", None]}, nulls="nan")
    assert np.isfinite(empty[0]) and np.isnan(empty[1])


def test_fourier_features():
    rows = rows_of(500)
    sketch = nysketch.sketch(table_of(rows), features="fourier", landmarks=40)
    basis, others = sketch.basis, rows_of(20, seed=1)
    angles = (others - basis.center) / basis.scale @ basis.frequencies.T
    expected = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(20)
    np.testing.assert_allclose(basis.features(table_of(others)), expected, atol=1e-12)
    of_rows = basis.features(table_of(rows))
    np.testing.assert_allclose(sketch.embedding(others), expected @ of_rows.mean(axis=0), atol=1e-5)
    with pytest.raises(UsageError, match="Fourier features has no landmarks"):
        basis.residuals(others)


def test_a_weighted_sketch_has_the_weighted_mean():
    rows = rows_of(50)
    weights = np.arange(50.0)
    table = table_of(rows).append_column("w", pa.array(weights))
    sketch = nysketch.sketch(table, weights="w", landmarks=50, precision="float64")
    expected = kernel_values(sketch.basis, rows, rows) @ (weights / weights.sum())
    np.testing.assert_allclose(sketch.embedding(rows), expected, atol=1e-4)


# ---- what data may be


@pytest.fixture(scope="module")
def sketch():
    return nysketch.sketch(table_of(rows_of(300)), landmarks=20)


def functions_of(sketch):
    return [sketch.embedding, sketch.basis.features, sketch.basis.residuals]


def forms(rows, folder):
    """Return the rows in many forms: with columns in other places, and others beside them."""
    turned = {"s": ["x"] * len(rows), "c": rows[:, 2], "a": rows[:, 0], "z": rows[:, 0] * 7, "b": rows[:, 1]}
    path = folder / "rows.parquet"
    pq.write_table(pa.table(turned), path)
    yield from (rows, rows.tolist(), np.asfortranarray(rows), turned, pa.table(turned))
    yield from (path, str(path), iter(np.array_split(rows, 3)), iter(pa.table(turned).to_batches(7)))
    for library in ("pandas", "polars"):
        yield pytest.importorskip(library).DataFrame(turned)
    yield pytest.importorskip("polars").LazyFrame(turned)
    yield pytest.importorskip("duckdb").connect().from_arrow(pa.table(turned))


def test_columns_are_found_by_name_whatever_the_data_are(sketch, tmp_path):
    rows = rows_of(40, seed=5)
    for position in range(3):
        expected = functions_of(sketch)[position](rows)
        for data in forms(rows, tmp_path):
            np.testing.assert_array_equal(functions_of(sketch)[position](data), expected, str(type(data)))


@pytest.mark.parametrize("position", range(3))
def test_a_missing_column_is_named(sketch, position):
    function = functions_of(sketch)[position]
    with pytest.raises(SchemaError, match="no column 'b'"):
        function({"a": [1.0], "c": [2.0]})
    with pytest.raises(SchemaError, match="column 'b' has type string, which is not numeric"):
        function({"a": [1.0], "b": ["x"], "c": [2.0]})
    with pytest.raises(SchemaError, match="has 2 columns, the basis has 3"):
        function(np.ones((4, 2)))


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("bad", [None, np.nan, np.inf])
def test_rows_with_nulls_are_refused_or_have_no_value(sketch, position, bad):
    function = functions_of(sketch)[position]
    rows = rows_of(5)
    data = {name: rows[:, i].tolist() for i, name in enumerate(NAMES)}
    data["b"][3] = bad
    with pytest.raises(InvalidRowsError, match=r"column 'b' has 1 .*with `nulls=\"nan\"`$"):
        function(data)
    found = function(data, nulls="nan")
    assert np.isnan(found[3]).all()
    others = np.delete(function(rows), 3, axis=0)
    np.testing.assert_allclose(np.delete(found, 3, axis=0), others, rtol=1e-9, atol=1e-12)
    with pytest.raises(UsageError, match="`nulls` must be one of error, nan, keep, not 'drop'"):
        function(data, nulls="drop")


@pytest.mark.parametrize("position", range(3))
def test_no_rows_have_no_values(sketch, position):
    function = functions_of(sketch)[position]
    expected = function(rows_of(1)).shape[1:]
    for data in (np.empty((0, 3)), {name: np.empty(0) for name in NAMES}, iter([np.empty((0, 3))])):
        assert function(data).shape == (0, *expected)


def test_lists_are_columns_of_several_features():
    rows = rows_of(60)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(rows[:, :2].ravel(), 2), "c": rows[:, 2]})
    basis = Basis.fit(table, landmarks=10)
    np.testing.assert_array_equal(basis.features(table.select(["c", "v"])), basis.features(rows))


def test_values_do_not_depend_on_how_rows_are_cut(sketch, monkeypatch):
    rows = rows_of(1000, seed=2)
    expected = [function(rows) for function in functions_of(sketch)]
    monkeypatch.setattr("nysketch.passes.chunks.chunk_rows_for", lambda d: 64)
    monkeypatch.setattr("nysketch.sources.arrays.FRAGMENT_ROWS", 256)
    monkeypatch.setattr("nysketch.basis.base._VALUES", 200)
    for function, known in zip(functions_of(sketch), expected, strict=True):
        np.testing.assert_allclose(function(rows), known, rtol=1e-9, atol=1e-12)


def test_memory_does_not_grow_with_the_rows():
    # All values at once would take 400 MB.
    basis = Basis.fit(rows_of(600), landmarks=500)
    sketch = nysketch.sketch(rows_of(600), basis=basis)
    rows = rows_of(100_000)
    assert basis.rank
    tracemalloc.start()
    try:
        sketch.embedding(rows), basis.residuals(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 << 20


def test_an_empty_sketch_has_no_embedding(sketch):
    empty = sketch - sketch
    with pytest.raises(nysketch.NysketchError, match="no rows with positive weight"):
        empty.embedding(rows_of(2))


def test_the_scale_of_the_basis_matters(sketch):
    unscaled = replace(sketch.basis, scale=np.ones(3), center=np.zeros(3))
    assert not np.allclose(unscaled.residuals(rows_of(50)), sketch.basis.residuals(rows_of(50)))


def test_residuals_are_those_that_quality_is_measured_by():
    """Of the sampled rows, by their mean and quantiles."""
    rows = rows_of(300)
    sketch = nysketch.sketch(table_of(rows), landmarks=30, sample_rows=300)
    quality, residuals = sketch.quality(), sketch.basis.residuals(table_of(rows))
    assert residuals.mean() == pytest.approx(quality.mean_residual, rel=1e-3)
    assert residuals.max() == pytest.approx(quality.residual_quantiles["max"], rel=1e-3)
