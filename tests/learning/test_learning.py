"""Learning from sketches: what is certified holds, quality is measured, and nothing crashes."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

import nysketch
from nysketch import learn_gmm, learn_kmeans
from nysketch.basis.fit import basis_from_rows
from nysketch.columns import Column
from nysketch.errors import InputError, NysketchError, NysketchWarning, UsageError
from nysketch.learning.certificate import certificate, recertify
from nysketch.learning.decode.decoders import DECODERS
from nysketch.learning.decode.mixture import COVARIANCES
from nysketch.learning.learner import Learner
from nysketch.learning.sweep import sweep
from nysketch.models.kmeans import KMeansModel
from nysketch.models.refine import refine
from nysketch.sources.open import open_source
from tests import naive
from tests.learning.decode.examples import blobs, paired, sketch


def table(rows, weights=None):
    named = {f"x{i}": column for i, column in enumerate(rows.T)}
    return pa.table(named if weights is None else named | {"w": weights})


def sketch_of(rows, weights=None, **options):
    if "basis" not in options:  # constant columns, too
        options["columns"] = [f"x{i}" for i in range(rows.shape[1])]
    return sketch(table(rows, weights), weights=None if weights is None else "w", **options)


def true_cost(model, rows, weights=None):
    """In scaled units, as the model measures distances."""
    return naive.mean_squared_distance(rows, model.centroids, weights, model.scale)


def true_likelihood(model, rows, weights=None):
    weights = np.ones(len(rows)) if weights is None else weights
    return float(weights @ model.log_densities(rows) / weights.sum())


def learn(made, k, covariance=None, **options):
    if covariance is None:
        return learn_kmeans(made, k, **options)
    return learn_gmm(made, k, covariance=covariance, **options)


def means_of(model):
    return model.centroids if model.kind == "kmeans" else model.means


def same(a, b):
    names = ("scale", *a.arrays)
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


@pytest.fixture
def few_draws(monkeypatch):
    """Where nothing depends on how many rows k-means draws, a few take less time."""
    monkeypatch.setattr("nysketch.learning.decode.points._MOST_DRAWN", 3000)


# ---- what is certified -----------------------------------------------------------------------------


def any_rows(kind, n, d, seed):
    random = np.random.default_rng(seed)
    rows = blobs(n=n, k=3, d=d, seed=seed)[0] * 10.0 ** random.uniform(-3, 3, d)
    if kind == "heavy tails":
        rows = random.standard_t(1.2, (n, d))
    elif kind == "duplicates":
        rows = rows[random.integers(max(n // 20, 1), size=n)]
    elif kind == "offset":
        rows = 1e6 + random.standard_normal((n, d))
    elif kind == "outliers":
        rows[: max(n // 100, 1)] *= 1000
    return rows


ROWS = {
    "kind": st.sampled_from(["blobs", "heavy tails", "duplicates", "offset", "outliers"]),
    "n": st.integers(1, 300),
    "d": st.integers(1, 4),
    "landmarks": st.integers(1, 40),
    "with_weights": st.booleans(),
    "scale": st.sampled_from(["none", "standard", "robust"]),
    "far_rows": st.sampled_from([0, 20, 500]),
    "seed": st.integers(0, 10**6),
}


def any_sketch(kind, n, d, landmarks, with_weights, scale, far_rows, seed):
    """Rows, their weights, and their sketch; landmarks come from half of the rows only."""
    rows = any_rows(kind, n, d, seed)
    weights = np.random.default_rng(seed).uniform(0.01, 3, n) if with_weights else None
    pilot = rows[n // 2 :]
    columns = [Column(f"x{i}") for i in range(d)]
    basis = basis_from_rows(pilot, columns, m=min(landmarks, len(pilot)), scaling=scale, seed=seed)
    return rows, weights, sketch_of(rows, weights, basis=basis, far_rows=far_rows, precision="float64")


def require_certified(facts, model, rows, weights):
    if facts["certified_bound"] is None:
        assert facts["rows_beyond_cells"] and facts["certified_bound_data_units"] is None
        return
    assert facts["certified_bound"] >= true_cost(model, rows, weights)
    in_data_units = naive.mean_squared_distance(rows, model.centroids, weights)
    assert facts["certified_bound_data_units"] >= in_data_units


def model_at(made, centroids):
    """Centroids that were not learned from the sketch."""
    basis, k = made.basis, len(centroids)
    return KMeansModel(
        columns=basis.columns, scale=basis.scale, centroids=centroids, shares=np.full(k, 1 / k)
    )


@settings(max_examples=50)
@given(k=st.integers(1, 40), **ROWS)
def test_no_rows_exceed_what_is_certified_of_any_centroids(k, **options):
    rows, weights, made = any_sketch(**options)
    random = np.random.default_rng(options["seed"])
    near = rows[random.integers(len(rows), size=k)]
    centroids = near + made.basis.scale * 0.1 * random.standard_normal(near.shape)
    model = model_at(made, centroids)
    require_certified(certificate(made, model), model, rows, weights)


@settings(max_examples=25)
@given(
    k=st.integers(1, 12),
    decoder=st.sampled_from(["auto", "cells", "quadrature"]),
    **ROWS,
)
def test_no_rows_exceed_what_is_certified_of_learned_centroids(k, decoder, **options):
    rows, weights, made = any_sketch(**options)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nysketch.learning.decode.points._MOST_DRAWN", 3000)
            model = learn_kmeans(made, k, decoder=decoder, trials=2)
    except UsageError as error:
        assert "distinct" in str(error)  # fewer of them than k
        return
    require_certified(model.facts, model, rows, weights)
    assert model.facts["certified_bound"] is None or (
        model.facts["mean_squared_distance"] <= model.facts["certified_bound"] * (1 + 1e-12)
    )


@pytest.mark.parametrize("seed", range(8))
def test_nor_with_rows_so_far_out_that_their_squares_hide_all_others(seed):
    """Three of them, and a centroid for each: what is left of their cells is in the last digits."""
    random = np.random.default_rng(seed)
    near = 0.01 * random.standard_normal((200, 2))
    basis = basis_from_rows(near, [Column("x0"), Column("x1")], m=4, scaling="none", seed=seed)
    rows = np.vstack([near, random.uniform(-1e4, 1e4, (3, 2))])
    made = sketch_of(rows, basis=basis, far_rows=3)
    model = learn_kmeans(made, 4, decoder="cells")
    assert model.facts["rows_beyond_cells"] == 0
    require_certified(model.facts, model, rows, None)


def test_one_cluster_is_certified_exactly():
    rows = blobs(n=500)[0]
    for offset in (0.0, 1e6):
        model = learn_kmeans(sketch_of(rows + offset, landmarks=20), 1)
        true = true_cost(model, rows + offset)
        assert np.isclose(model.facts["certified_bound"], true, rtol=1e-6)
        assert np.isclose(
            model.facts["certified_bound_data_units"],
            naive.mean_squared_distance(rows + offset, model.centroids),
            rtol=1e-6,
        )


def test_refined_centroids_are_certified_anew():
    rows = blobs(n=2000, k=4, apart=3.0)[0]
    made = sketch_of(rows, landmarks=40)
    model = learn_kmeans(made, 4, decoder="quadrature", trials=1)
    refined = recertify(refine(model, open_source(table(rows), like=model.columns), 3), made)
    require_certified(refined.facts, refined, rows, None)
    assert refined.facts["judged_by"] == "data" and refined.facts["objective"] is None
    assert "candidates" not in refined.facts
    assert true_cost(refined, rows) <= true_cost(model, rows)
    assert np.isclose(refined.facts["mean_squared_distance"], true_cost(refined, rows), rtol=0.02)
    mixture = learn_gmm(made, 4, decoder="cells")
    better = recertify(refine(mixture, open_source(table(rows), like=model.columns), 2), made)
    assert better.facts["certified_log_likelihood"] is None and "bic" not in better.facts


@settings(max_examples=25)
@given(k=st.integers(1, 6), covariance=st.sampled_from(["spherical", "diag"]), **ROWS)
def test_rows_are_at_least_as_likely_as_certified(k, covariance, **options):
    rows, weights, made = any_sketch(**options)
    try:
        model = learn_gmm(made, k, covariance=covariance, decoder="cells", trials=2)
    except UsageError as error:
        assert "distinct" in str(error)
        return
    bound = model.facts["certified_log_likelihood"]
    if bound is None:
        assert made.cells.beyond
        return
    true = true_likelihood(model, rows, weights)
    # Densities of rows far from 0 are known as well as these rows are: to digits of their deviations.
    deviations = np.sqrt(model.covariances.min(axis=0))
    digits = float((1e-15 * np.abs(rows).max(axis=0) / deviations).max())
    assert bound <= true + 1e-8 * abs(true) + 1e-9 + 100 * digits * (1 + abs(true))
    assert model.facts["mean_log_likelihood"] >= bound


def test_full_covariances_are_not_certified():
    model = learn_gmm(sketch_of(blobs(n=500)[0], landmarks=20), 3, covariance="full")
    assert model.facts["certified_log_likelihood"] is None


def test_rows_beyond_all_cells_are_counted_and_leave_no_bound():
    rows = blobs(n=500)[0]
    basis = sketch_of(rows, landmarks=20).basis
    made = sketch_of(np.vstack([rows, [[1e30, 0.0]]]), basis=basis)
    model = learn_kmeans(made, 3)
    assert model.facts["rows_beyond_cells"] == 1
    assert model.facts["certified_bound"] is None and model.facts["certified_bound_data_units"] is None
    assert paired(model.centroids, blobs()[1]) < 0.5
    assert learn_gmm(made, 3).facts["certified_log_likelihood"] is None


# ---- whatever the order and the units --------------------------------------------------------------


@pytest.mark.parametrize("covariance", [None, "diag"])
def test_the_order_of_rows_does_not_matter(covariance):
    """Not a single bit; but which rows are sampled depends on it, and the sample judges mixtures."""
    rows = blobs(n=1500, k=4, apart=3.0)[0]
    options = {"sample_rows": 0} if covariance else {}
    first = sketch_of(rows, landmarks=40, **options)
    last = sketch_of(rows[np.lexsort(rows.T)], basis=first.basis, **options)
    assert same(learn(first, 4, covariance), learn(last, 4, covariance))


@pytest.mark.parametrize("covariance", [None, "diag", "full"])
def test_merged_sketches_give_the_identical_model(covariance, tmp_path):
    """In any order, saved or not."""
    rows = blobs(n=1500, k=4)[0]
    whole = sketch_of(rows, landmarks=40)
    parts = [sketch_of(part, basis=whole.basis) for part in np.split(rows, 3)]
    for i, part in enumerate(parts):
        nysketch.save(part, tmp_path / f"{i}.nysk")
    saved = [nysketch.load(tmp_path / f"{i}.nysk") for i in (2, 0, 1)]
    models = [learn(sum(order), 4, covariance) for order in (parts, parts[::-1], saved)]
    assert same(models[0], models[1]) and same(models[0], models[2])
    assert models[0].facts == models[1].facts == models[2].facts
    assert paired(means_of(models[0]), means_of(learn(whole, 4, covariance))) < 0.05


@pytest.mark.parametrize("covariance", [None, "diag"])
def test_the_same_seed_gives_the_identical_model(covariance):
    made = sketch_of(blobs(n=1000, k=5, apart=3.0)[0], landmarks=40)
    models = [learn(made, 5, covariance, seed=seed) for seed in (3, 3, 4)]
    assert same(models[0], models[1]) and models[0].facts == models[1].facts
    assert models[2].facts["seed"] == 4


@pytest.mark.parametrize("covariance", [None, "diag", "full"])
@pytest.mark.parametrize("scaling", ["standard", "robust", "none"])
def test_columns_in_other_units_give_the_model_in_other_units(scaling, covariance):
    """With powers of two, to the last bit but for rounding in the sums; unscaled, all columns alike."""
    units = np.array([2.0**-10, 2.0**20]) if scaling != "none" else np.array([32.0, 32.0])
    rows = blobs(n=1500)[0]
    a, b = (
        learn(sketch_of(r, landmarks=40, scale=scaling), 3, covariance, decoder="cells")
        for r in (rows, rows * units)
    )
    assert np.allclose(means_of(b), means_of(a) * units, rtol=1e-6, atol=1e-6 * units.max())
    if covariance is None:
        assert np.allclose(a.shares, b.shares)
    else:
        factor = np.outer(units, units) if covariance == "full" else units**2
        assert np.allclose(b.covariances, a.covariances * factor, rtol=1e-4)
        shift = np.log(units).sum()
        assert np.isclose(b.facts["mean_log_likelihood"], a.facts["mean_log_likelihood"] - shift, atol=1e-4)
    if scaling != "none":
        assert (b.scale > 0).all() and np.allclose(b.scale, a.scale * units)


@pytest.mark.parametrize("scaling", ["standard", "robust"])
def test_columns_with_very_different_units_count_alike(scaling):
    units = np.array([1e-6, 1e7])
    rows, centres = blobs(n=2000)
    made = sketch_of(rows * units + [0, 1e9], landmarks=60, scale=scaling)
    for covariance in (None, "diag"):
        model = learn(made, 3, covariance)
        assert paired((means_of(model) - [0, 1e9]) / units, centres) < 0.3


def test_likelihoods_are_in_the_units_of_the_data():
    rows = blobs(n=3000)[0] * [1e-3, 50.0] + 7
    made = sketch_of(rows, landmarks=60)
    for covariance in COVARIANCES:
        model = learn_gmm(made, 3, covariance=covariance)
        true = true_likelihood(model, rows)
        error = model.facts["mean_log_likelihood_se"]
        assert abs(model.facts["mean_log_likelihood"] - true) < 4 * error and 0 < error < 0.1
        assert model.facts["judged_by"] == "sample"


# ---- what models say -------------------------------------------------------------------------------


def test_shares_are_those_of_the_clusters_largest_first():
    rows = blobs(n=4000, shares=[0.2, 0.7, 0.1])[0]
    made = sketch_of(rows, landmarks=60)
    for covariance in (None, "diag", "full"):
        model = learn(made, 3, covariance)
        shares = model.shares if covariance is None else model.weights
        assert (np.diff(shares) <= 0).all() and np.isclose(shares.sum(), 1)
        counts = np.bincount(model.labels(rows), minlength=3) / 4000
        assert np.allclose(shares, counts, atol=0.01)


def test_weights_are_those_of_the_rows():
    rows, centres = blobs(n=3000)
    labels = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    weights = np.array([1.0, 5.0, 0.0])[labels]
    made = sketch_of(rows, weights, landmarks=60)
    model = learn_kmeans(made, 2)
    expected = [np.average(rows[labels == j], axis=0) for j in (1, 0)]
    assert np.allclose(model.centroids, expected, atol=0.1)
    totals = np.bincount(labels, weights)[:2]
    assert np.allclose(model.shares, totals[::-1] / totals.sum(), atol=1e-3)
    assert model.facts["total_weight"] == weights.sum() and model.facts["rows"] == 3000
    mixture = learn_gmm(made, 2)
    assert np.allclose(mixture.means, expected, atol=0.1)
    assert np.allclose(mixture.weights, totals[::-1] / totals.sum(), atol=1e-2)


def test_integer_weights_count_like_copies():
    rows = blobs(n=800)[0]
    times = np.random.default_rng(0).integers(1, 4, 800)
    weighted = sketch_of(rows, times.astype(float), landmarks=40)
    copied = sketch_of(np.repeat(rows, times, axis=0), basis=weighted.basis)
    a, b = (learn_kmeans(made, 3, decoder="cells") for made in (weighted, copied))
    assert np.allclose(a.centroids, b.centroids, atol=0.02)
    assert np.isclose(a.facts["certified_bound"], b.facts["certified_bound"], rtol=0.01)


@pytest.mark.parametrize("covariance", [None, "diag"])
def test_auto_lists_all_candidates_and_keeps_the_best(covariance):
    made = sketch_of(blobs(n=2000, k=4, apart=3.0)[0], landmarks=100)
    model = learn(made, 4, covariance)
    candidates = model.facts["candidates"]
    assert [entry["decoder"] for entry in candidates] == ["cells", "quadrature"]
    assert all(set(entry) == {"decoder", "estimate", "certified", "objective"} for entry in candidates)
    best = (min if covariance is None else max)(candidates, key=lambda entry: entry["estimate"])
    assert model.facts["decoder"] == best["decoder"]
    assert model.facts["objective"] == best["objective"]
    alone = learn(made, 4, covariance, decoder="cells")
    assert [entry["decoder"] for entry in alone.facts["candidates"]] == ["cells"]


def test_with_more_numbers_than_landmarks_auto_trusts_the_cells_alone():
    made = sketch_of(blobs(n=1000, k=4)[0], landmarks=10)
    model = learn_gmm(made, 4)
    assert [entry["decoder"] for entry in model.facts["candidates"]] == ["cells"]


def test_the_objective_of_a_model_does_not_depend_on_models_learned_before_it():
    """It is reported where a decoder matched moments for this number of clusters, not for another."""
    made = sketch_of(blobs(n=1000, k=4)[0], landmarks=20)
    # Two components have few enough parameters for 20 landmarks, six do not.
    few, many = (Learner(made, covariance="diag", trials=2).model(k) for k in (2, 6))
    assert [entry["decoder"] for entry in few.facts["candidates"]] == ["cells", "quadrature"]
    assert [entry["decoder"] for entry in many.facts["candidates"]] == ["cells"]
    assert all(entry["objective"] is not None for entry in few.facts["candidates"])
    assert many.facts["objective"] is None
    for ks in ((2, 6), (6, 2)):
        learner = Learner(made, covariance="diag", trials=2)
        models = {k: learner.model(k) for k in ks}
        assert models[2].facts == few.facts and models[6].facts == many.facts


def test_the_objective_takes_a_decoder_of_kernel_sums():
    made = sketch_of(blobs(n=1000)[0], landmarks=40)
    for decoder in DECODERS:
        model = learn_kmeans(made, 3, decoder=decoder, trials=1)
        assert (model.facts["objective"] is None) == (decoder == "cells")


def test_the_estimate_is_near_the_truth():
    rows = blobs(n=4000, k=3, apart=3.0)[0]
    for options in ({}, {"cells": False}):
        model = learn_kmeans(sketch_of(rows, landmarks=80, **options), 3, trials=4)
        assert model.facts["judged_by"] == ("sample" if options else "cells")
        # A sample of 2000 rows knows a mean squared distance to about 2 %.
        assert np.isclose(model.facts["mean_squared_distance"], true_cost(model, rows), rtol=0.08)


# ---- less evidence ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("features", ["nystrom", "fourier"])
@pytest.mark.parametrize("sample_rows", [0, 500])
@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("covariance", [None, "diag"])
def test_sketches_without_cells_or_sample_or_both(features, sample_rows, cells, covariance):
    if features == "fourier" and cells:
        return  # they have none
    rows, centres = blobs(n=3000)
    options = (
        {"features": "fourier", "landmarks": 200, "bandwidth": 0.5}
        if features == "fourier"
        else {"landmarks": 80}
    )
    made = sketch_of(rows, sample_rows=sample_rows, cells=cells, **options)
    model = learn(made, 3, covariance)
    assert paired(means_of(model), centres) < 0.5
    if features == "nystrom":
        expected = (
            "cells" if cells and not (covariance and sample_rows) else "sample" if sample_rows else "fit"
        )
        assert model.facts["judged_by"] == expected
    certified = "certified_bound" if covariance is None else "certified_log_likelihood"
    assert (model.facts[certified] is not None) == (cells and features == "nystrom")
    if not cells:
        assert [entry["decoder"] for entry in model.facts["candidates"]] == ["quadrature", "clomp"]


@pytest.mark.parametrize("covariance", [None, "diag", "full"])
def test_after_a_subtraction_the_model_is_that_of_the_rest(covariance):
    rows, centres = blobs(n=3000)
    other = blobs(n=500, k=1, seed=5)[0] + 40
    basis = sketch_of(np.vstack([rows, other]), landmarks=80).basis
    part = sketch_of(other, basis=basis)
    left = (sketch_of(rows, basis=basis) + part) - part
    model = learn(left, 3, covariance)
    assert paired(means_of(model), centres) < 0.2
    assert model.facts["rows"] == 3000
    if covariance is None:
        require_certified(model.facts, model, rows, None)


# ---- degenerate requests ---------------------------------------------------------------------------


def degenerate():
    """Sketches with little in them: an answer, or a clear refusal."""
    rows = blobs(n=300)[0]
    random = np.random.default_rng(0)
    constant = np.column_stack([rows[:, 0], np.full(300, 0.1)])
    yield "duplicates only", np.tile([[0.1, 0.7]], (200, 1)), {}
    yield "duplicates far from 0", np.tile([[1e6 + 0.1, 0.7]], (200, 1)), {}
    yield "two different rows", np.tile([[0.1, 0.7], [3.0, 0.9]], (100, 1)), {}
    yield "a constant column", constant, {}
    yield "an unscaled constant column", constant, {"scale": "none"}
    yield "a large constant column", constant * [1, 1e7], {"scale": "none"}
    yield "one column", rows[:, :1], {}
    yield "one constant column", np.full((100, 1), 0.3), {}
    yield "one row", rows[:1], {}
    yield "three rows", rows[:3], {}
    yield "one landmark", rows, {"landmarks": 1}
    yield "collinear columns", np.column_stack([rows[:, 0], 2 * rows[:, 0]]), {}
    yield "tiny numbers", 1e-100 * rows, {}
    yield "large numbers", 1e100 * rows, {}
    yield "zeros mostly", rows * (random.uniform(size=rows.shape) < 0.02), {}
    yield "no cells", rows, {"cells": False}
    yield "no cells of duplicates", np.tile([[0.1, 0.7]], (200, 1)), {"cells": False}
    yield "nothing but sums", rows, {"cells": False, "sample_rows": 0}
    yield "fourier", rows, {"features": "fourier", "landmarks": 40}
    yield "fourier of duplicates", np.tile([[0.1, 0.7]], (200, 1)), {"features": "fourier", "landmarks": 40}
    yield "fourier of a constant column", constant, {"features": "fourier", "landmarks": 40}
    yield "unscaled fourier", constant, {"features": "fourier", "landmarks": 40, "scale": "none"}


DEGENERATE = {name: (rows, options) for name, rows, options in degenerate()}


# How many, by which decoder, of which kind; many atoms, and several trials, take long.
REQUESTS = [(2, "auto", covariance) for covariance in (None, *COVARIANCES)]
REQUESTS += [(2, decoder, covariance) for decoder in ("clomp", "shift") for covariance in (None, "diag")]
REQUESTS += [(1, "cells", None), (1, "cells", "full"), (1, "auto", "diag"), (40, "auto", None)]


@pytest.mark.slow
@pytest.mark.parametrize("name", DEGENERATE)
def test_little_to_learn_from_gives_a_model_or_a_clear_refusal(name, few_draws):
    rows, options = DEGENERATE[name]
    made = sketch_of(rows, **({"landmarks": 30} | options))
    width = np.ptp(rows, axis=0)
    # A constant column has its own units; without landmarks nobody knows better.
    unknown = 1.0 if made.basis.feature_map == "fourier" else 0.05
    room = width + 1e-6 * np.abs(rows).max(axis=0) + unknown * (width == 0)
    answers = 0
    for k, decoder, covariance in REQUESTS:
        if k == 40 and made.basis.feature_map == "fourier":
            continue
        try:
            model = learn(made, k, covariance, decoder=decoder, trials=1)
        except NysketchError as error:
            assert str(error)
            continue
        answers += 1
        means = means_of(model)
        assert model.k == k and np.isfinite(means).all()
        assert (means >= rows.min(axis=0) - room).all() and (means <= rows.max(axis=0) + room).all()
        if k == 1 and decoder == "cells":
            assert np.allclose(means[0], rows.mean(axis=0), rtol=1e-6, atol=1e-6 * room.max())
    assert answers >= 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1.0, 1e-4])
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_constant_column_is_no_trouble(decoder, unit, few_draws):
    """Whatever the units of the others."""
    rows, centres = blobs(n=2000)
    made = sketch_of(np.column_stack([rows * unit, np.full(2000, 0.1)]), landmarks=60, scale="none")
    for covariance in (None, "diag"):
        means = means_of(learn(made, 3, covariance, decoder=decoder, trials=2))
        assert paired(means[:, :2] / unit, centres) < 0.5
        assert np.abs(means[:, 2] - 0.1).max() < 0.05 * unit
    # With a constant column clusters are not round, so that this is no fit; but nothing overflows.
    assert learn(made, 3, "spherical", decoder=decoder, trials=2).k == 3


@pytest.mark.parametrize("covariance", [None, *COVARIANCES])
def test_more_clusters_than_different_rows_are_refused(covariance):
    made = sketch_of(np.tile(blobs(n=5)[0], (40, 1)), landmarks=5)
    assert learn(made, 5, covariance).k == 5
    with pytest.raises(UsageError, match="`k=6` exceeds the 5 distinct"):
        learn(made, 6, covariance)


def test_more_clusters_than_landmarks_are_possible_with_far_rows_only():
    rows = blobs(n=500)[0]
    assert learn_kmeans(sketch_of(rows, landmarks=10, far_rows=30), 30, decoder="cells").k == 30
    with pytest.raises(UsageError, match="sketch with more `landmarks`"):
        learn_kmeans(sketch_of(rows, landmarks=10, far_rows=0), 30)


@pytest.mark.parametrize("covariance", [None, "diag"])
def test_without_rows_there_is_nothing_to_learn(covariance):
    rows = blobs(n=300)[0]
    made = sketch_of(rows, landmarks=20)
    weightless = sketch_of(rows, np.zeros(300), landmarks=20)
    fourier = sketch_of(rows, features="fourier", landmarks=20)
    for nothing in (made - made, weightless, fourier - fourier):
        with pytest.raises(InputError, match="no rows with positive weight"):
            learn(nothing, 2, covariance)
        with pytest.raises(InputError, match="no rows with positive weight"):
            sweep(nothing, range(1, 4), covariance=covariance)


def test_what_makes_no_sense_is_refused():
    made = sketch_of(blobs(n=300)[0], landmarks=20)
    for options, message in (
        ({"decoder": "magic"}, "`decoder` must be one of auto, clomp, shift, quadrature, cells, not 'magic'"),
        ({"covariance": "tied"}, "`covariance` must be one of spherical, diag, full, not 'tied'"),
        ({"trials": 0}, "`trials` must be at least 1"),
        ({"trials": 10**30}, "`trials` must be at most 10,000"),
        ({"seed": -1}, "`seed` must be between 0"),
    ):
        with pytest.raises(UsageError, match=message):
            Learner(made, **options)
    for k in (0, -3):
        with pytest.raises(UsageError, match="`k` must be at least 1"):
            learn_kmeans(made, k)
    with pytest.raises(UsageError, match="`k` names no number of clusters"):
        sweep(made, [])
    words = sketch(pa.table({"t": ["ab", "ba", "abc", "bca"] * 10}), kernel="spectrum", landmarks=3)
    for learner in (learn_kmeans, learn_gmm):
        with pytest.raises(UsageError, match="of text"):
            learner(words, 2)
    for kernel in ("laplacian-l2", "polynomial"):
        other = sketch_of(blobs(n=300)[0], landmarks=20, kernel=kernel, cells=False)
        assert learn_kmeans(other, 3).k == 3
        with pytest.raises(UsageError, match="it has no cells, and its kernel"):
            learn_gmm(other, 3)


# ---- quality ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixtures():
    """Five tables of five Gaussians in five dimensions, and their sketches."""
    made = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        centres = 1.7 * random.standard_normal((5, 5))
        widths = random.uniform(0.6, 1.2, (5, 5))
        labels = random.choice(5, 20_000, p=random.dirichlet(np.full(5, 5.0)))
        rows = centres[labels] + widths[labels] * random.standard_normal((20_000, 5))
        made.append((rows, sketch_of(rows, landmarks=200, seed=seed)))
    return made


def fast_cost(rows, centroids):
    return ((rows[:, None] - centroids) ** 2).sum(axis=2).min(axis=1).mean()


@pytest.mark.slow
def test_centroids_are_nearly_as_good_as_those_of_all_rows(mixtures):
    excesses, of_landmarks = [], []
    for rows, made in mixtures:
        scaled = made.basis.transform(rows)
        best = KMeans(5, n_init=5, random_state=0).fit(scaled).inertia_ / len(rows)
        model = learn_kmeans(made, 5)
        excesses.append(fast_cost(scaled, made.basis.transform(model.centroids)) / best - 1)
        landmarks = KMeans(5, n_init=5, random_state=0).fit(made.basis.scaled_landmarks)
        of_landmarks.append(fast_cost(scaled, landmarks.cluster_centers_) / best - 1)
        assert model.facts["certified_bound"] >= (1 + excesses[-1]) * best
    assert max(excesses) < 0.005
    assert all(np.array(excesses) < np.array(of_landmarks))


@pytest.mark.slow
def test_mixtures_are_nearly_as_likely_as_those_of_all_rows(mixtures):
    for rows, made in mixtures:
        best = GaussianMixture(5, covariance_type="diag", n_init=3, random_state=0).fit(rows).score(rows)
        model = learn_gmm(made, 5)
        assert true_likelihood(model, rows) > best - 0.02
        error = model.facts["mean_log_likelihood_se"]
        assert abs(model.facts["mean_log_likelihood"] - true_likelihood(model, rows)) < 4 * error


def spoilt(mixtures, number, *, known):
    rows, made = mixtures[number]
    rows = rows.copy()
    rows[:3] *= 1000
    return rows, sketch_of(rows, landmarks=200, scale="robust") if known else sketch_of(
        rows, basis=made.basis
    )


@pytest.mark.parametrize("known", [True, False])
def test_outliers_a_thousand_times_farther_out_do_not_blow_up(mixtures, known):
    """Whether the landmarks know of them or not: with clusters to spare, the others are found as before."""
    rows, made = spoilt(mixtures, 0, known=known)
    scaled = made.basis.transform(rows[3:])
    model = learn_kmeans(made, 8)
    best = KMeans(5, n_init=5, random_state=0).fit(scaled).inertia_ / len(scaled)
    assert fast_cost(scaled, made.basis.transform(model.centroids)) < 1.01 * best
    cost = fast_cost(rows / model.scale, model.centroids / model.scale)
    assert model.facts["certified_bound"] >= cost * (1 - 1e-9)
    # With none to spare, k-means gives one to each outlier and has to; it is no worse than that.
    fewer = learn_kmeans(made, 5)
    two = KMeans(2, n_init=5, random_state=0).fit(scaled).inertia_ / len(scaled)
    assert fast_cost(scaled, made.basis.transform(fewer.centroids)) < 1.01 * two


@pytest.mark.parametrize("known", [True, False])
def test_nor_do_mixtures(mixtures, known):
    rows, made = spoilt(mixtures, 0, known=known)
    model, plain = learn_gmm(made, 8), learn_gmm(mixtures[0][1], 5)
    assert true_likelihood(model, rows[3:]) > true_likelihood(plain, rows[3:]) - 0.05


@pytest.mark.parametrize(("number", "known"), [(0, False), (1, True), (2, True)])
def test_mixtures_are_judged_by_outliers_that_the_sample_has_not_seen(mixtures, number, known):
    """There are too few components for all of them; but the sketch keeps far rows one by one."""
    rows, made = spoilt(mixtures, number, known=known)
    model = learn_gmm(made, 6)
    # No other candidate was certain to be better,
    certain = max(entry["certified"] for entry in model.facts["candidates"])
    assert true_likelihood(model, rows) > certain - 1e-6
    # and the model does not claim to be what it is not.
    error = model.facts["mean_log_likelihood_se"]
    assert error < 0.1
    assert abs(model.facts["mean_log_likelihood"] - true_likelihood(model, rows)) < 5 * error


def test_a_sketch_alone_without_cells_is_as_good_as_the_landmarks(mixtures):
    rows, made = mixtures[1]
    scaled = made.basis.transform(rows)
    bare = sketch_of(rows, basis=made.basis, cells=False, sample_rows=0)
    landmarks = KMeans(5, n_init=5, random_state=0).fit(made.basis.scaled_landmarks)
    model = learn_kmeans(bare, 5, decoder="quadrature")
    cost = fast_cost(scaled, made.basis.transform(model.centroids))
    assert cost < fast_cost(scaled, landmarks.cluster_centers_)


# ---- sweeps ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("covariance", "k"), [(None, 2), (None, 4), ("diag", 3), ("diag", 4)])
def test_a_sweep_finds_the_number_of_clusters(covariance, k):
    rows, centres = blobs(n=3000, k=k)
    made = sketch_of(rows, landmarks=80)
    result = sweep(made, range(1, 7), covariance=covariance, trials=5)
    assert result.best.k == k and paired(means_of(result.best), centres) < 0.3
    assert result.criterion == ("calinski_harabasz" if covariance is None else "bic")
    assert [model.k for model in result.models] == list(range(1, 7))
    entries = result.table()
    assert [entry["k"] for entry in entries] == list(range(1, 7))
    assert [entry[result.criterion] for entry in entries] == result.values
    if covariance is None:
        assert result.values[0] is None and all(np.isfinite(result.values[1:]))
    else:
        assert result.values.index(min(result.values)) == k - 1


def test_the_index_is_that_of_scikit_learn():
    from sklearn.metrics import calinski_harabasz_score

    rows = blobs(n=4000, k=4, apart=4.0)[0]
    made = sketch_of(rows, landmarks=150)
    result = sweep(made, [2, 4, 6])
    for model, value in zip(result.models, result.values, strict=True):
        expected = calinski_harabasz_score(made.basis.transform(rows), model.labels(rows))
        assert np.isclose(value, expected, rtol=0.03)


def test_a_model_of_a_sweep_is_that_of_its_k_alone():
    made = sketch_of(blobs(n=1000)[0], landmarks=40)
    result = sweep(made, [2, 3])
    alone = learn_kmeans(made, 3)
    assert same(result.models[1], alone) and result.models[1].facts == alone.facts


def test_a_sweep_over_duplicates_ends_with_as_many_clusters():
    made = sketch_of(np.tile(blobs(n=3)[0], (50, 1)), landmarks=3)
    result = sweep(made, [1, 2, 3])
    assert result.best.k == 3
    assert all(value is None or np.isfinite(value) for value in result.values)


def test_a_sweep_of_one_has_no_value():
    made = sketch_of(blobs(n=300)[0], landmarks=20)
    result = sweep(made, [3])
    assert result.values == [None] and result.best is result.models[0]


def test_progress_is_reported():
    seen = []
    made = sketch_of(blobs(n=300)[0], landmarks=20)
    learn_kmeans(made, 3, decoder="cells", trials=4, progress=lambda what, count: seen.append((what, count)))
    assert seen == [("k = 3, cells", count) for count in (1, 2, 3, 4)]


def test_the_facts_are_those_of_the_sketch():
    made = sketch_of(blobs(n=300)[0], landmarks=20)
    model = learn_kmeans(made, 3, seed=7)
    assert model.facts["rows"] == 300 and model.facts["total_weight"] == 300.0
    assert model.facts["basis_digest"] == made.basis.digest and model.facts["seed"] == 7
    assert model.columns == made.basis.columns
    assert replace(model, facts={}).k == 3


def test_wild_rows_that_may_become_clusters_are_named():
    rows, _ = blobs(n=1000)
    rows[[3, 500], 0] = 1e6
    with pytest.warns(NysketchWarning, match="'x0': 2 of 1,000 pilot rows"):
        made = sketch_of(rows, landmarks=60)
    with pytest.warns(NysketchWarning, match="'x0' has values far beyond all others.*`robust=\"auto\"`"):
        assert (learn_kmeans(made, 3).centroids[:, 0] > 1e5).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (np.abs(learn_kmeans(made, 3, robust="auto").centroids) < 100).all()
