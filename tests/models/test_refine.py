"""Refining: each pass is the exact step of its algorithm, never worse, and the same for any threads."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from nysketch.columns import Column
from nysketch.engines.threads import Threads
from nysketch.errors import UsageError
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.refine import refine
from nysketch.models.score import score
from nysketch.sources.open import open_source
from tests.models.test_models import (
    TYPES,
    columns_for,
    kmeans_model,
    mixture_model,
    naive_distances,
    naive_log_joint,
)


def source_of(model, rows, weights=None):
    table = {column.name: values for column, values in zip(model.columns, rows.T, strict=True)}
    if weights is None:
        return open_source(pa.table(table), like=model.columns)
    return open_source(pa.table(table | {"w": weights}), like=model.columns, weights="w")


def clumps(n=900, d=3, k=4, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    centres = 4 * random.standard_normal((k, d))
    return offset + centres[random.integers(k, size=n)] + random.standard_normal((n, d))


def naive_lloyd(model, rows, weights):
    labels = naive_distances(model, rows).argmin(axis=1)
    centroids = model.centroids.copy()
    for j in range(model.k):
        if weights[labels == j].sum() > 0:
            centroids[j] = model.centroids[j] + np.average(
                rows[labels == j] - model.centroids[j], axis=0, weights=weights[labels == j]
            )
    return centroids, np.bincount(labels, weights, minlength=model.k) / weights.sum()


def naive_em(model, rows, weights):
    """One step of EM without floors."""
    joint = naive_log_joint(model, rows)
    shares = np.exp(joint - joint.max(axis=1, keepdims=True))
    shares *= (weights / shares.sum(axis=1))[:, None]
    means, covariances = [], []
    for j in range(model.k):
        differences = rows - model.means[j]
        move = np.average(differences, axis=0, weights=shares[:, j])
        D = differences - move
        covariance = (shares[:, j, None] * D).T @ D / shares[:, j].sum()
        if model.covariance_type == "spherical":
            covariance = np.diag(
                np.full(model.d, (np.diag(covariance) / model.scale**2).mean()) * model.scale**2
            )
        means.append(model.means[j] + move)
        covariances.append(covariance if model.covariance_type == "full" else np.diag(covariance))
    return shares.sum(axis=0) / weights.sum(), np.array(means), np.array(covariances)


# ---- k-means ---------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 1000),
    k=st.integers(1, 6),
    d=st.integers(1, 4),
    offset=st.sampled_from([0.0, 1e9]),
    weighted=st.booleans(),
)
def test_a_pass_is_a_step_of_lloyds(seed, k, d, offset, weighted):
    random = np.random.default_rng(seed)
    scale = 2.0 ** random.integers(-2, 3, d)
    model = kmeans_model(k, d, seed, offset, scale=scale)
    rows = clumps(200, d, 3, seed, offset)
    weights = random.choice([0.0, 0.5, 2.0], 200) + random.uniform(1e-3, 1) if weighted else np.ones(200)
    centroids, shares = naive_lloyd(model, rows, weights)
    new = refine(model, source_of(model, rows, weights if weighted else None), 1)
    assert np.allclose(new.centroids, centroids, rtol=1e-15, atol=1e-9 if offset == 0 else 1e-6)
    assert np.allclose(new.shares, shares)
    assert (new.facts["refined_passes"], new.facts["decoder"]) == (1, "cells")


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), k=st.integers(1, 8), offset=st.sampled_from([0.0, 1e9]))
def test_lloyds_passes_never_make_it_worse(seed, k, offset):
    model = kmeans_model(k, 2, seed, offset)
    source = source_of(model, clumps(150, 2, 4, seed, offset))
    costs = [score(model, source).mean_cost]
    for _ in range(6):
        model = refine(model, source, 1)
        costs.append(score(model, source).mean_cost)
        # With the clusters of the pass: not better than with the nearest centroids.
        assert costs[-1] <= model.facts["mean_squared_distance"] * (1 + 1e-9) + 1e-12
        assert model.facts["mean_squared_distance"] <= costs[-2] * (1 + 1e-9) + 1e-12
    assert model.facts["refined_passes"] == 6


def test_lloyds_ends_where_scikit_learn_ends():
    rows = clumps(2000, 3, 5)
    start = rows[:5]
    theirs = KMeans(5, init=start, n_init=1, max_iter=300, tol=0).fit(rows)
    model = KMeansModel(columns=columns_for(3), centroids=start, scale=np.ones(3), shares=np.full(5, 0.2))
    ours = refine(model, source_of(model, rows), 300)
    assert np.allclose(ours.centroids, theirs.cluster_centers_, rtol=1e-9)
    assert ours.facts["mean_squared_distance"] == pytest.approx(theirs.inertia_ / 2000, rel=1e-9)
    assert ours.facts["mean_squared_distance"] == pytest.approx(
        score(ours, source_of(ours, rows)).mean_cost, rel=1e-12
    )


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_it_stops_when_nothing_changes(offset):
    rows = clumps(500, 2, 3, offset=offset)
    model = KMeansModel(
        columns=columns_for(2), centroids=rows[:3], scale=np.ones(2), shares=np.full(3, 1 / 3)
    )
    done = refine(model, source_of(model, rows), 500)
    passes = done.facts["refined_passes"]
    assert 1 < passes < 60
    again = refine(done, source_of(done, rows), 500)
    assert again.facts["refined_passes"] == passes + 1
    assert np.allclose(again.centroids, done.centroids, rtol=1e-15)


def test_empty_clusters_keep_their_centroid():
    rows = clumps(300, 2, 2)
    model = KMeansModel(
        columns=columns_for(2),
        centroids=np.array([rows[0], [1e6, 1e6], rows[1]]),
        scale=np.ones(2),
        shares=np.full(3, 1 / 3),
    )
    new = refine(model, source_of(model, rows), 5)
    assert new.centroids[1].tolist() == [1e6, 1e6]
    assert new.shares[1] == 0 and new.shares.sum() == pytest.approx(1)


# ---- mixtures --------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 1000),
    covariance_type=st.sampled_from(TYPES),
    k=st.integers(1, 4),
    d=st.integers(1, 3),
    offset=st.sampled_from([0.0, 1e9]),
    weighted=st.booleans(),
)
def test_a_pass_is_a_step_of_em(seed, covariance_type, k, d, offset, weighted):
    random = np.random.default_rng(seed)
    scale = 2.0 ** random.integers(-2, 3, d)
    model = mixture_model(covariance_type, k, d, seed, offset, scale=scale, width=2.0)
    rows = (
        offset + (model.means - offset)[random.integers(k, size=300)] + 2 * random.standard_normal((300, d))
    )
    weights = random.uniform(0.5, 2, 300) if weighted else np.ones(300)
    shares, means, covariances = naive_em(model, rows, weights)
    new = refine(model, source_of(model, rows, weights if weighted else None), 1)
    assert np.allclose(new.weights, shares, rtol=1e-7, atol=1e-9)
    sizable = shares > 1e-6  # others are nothing but rounding
    assert np.allclose(new.means[sizable], means[sizable], rtol=1e-14, atol=1e-6)
    assert np.allclose(new.covariances[sizable], covariances[sizable], rtol=1e-4, atol=1e-5)
    begun = np.average(model.log_densities(rows), weights=weights)
    assert new.facts["mean_log_likelihood"] == pytest.approx(begun, rel=1e-9)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_pass_is_the_step_of_scikit_learn(covariance_type):
    rows = clumps(1000, 3, 3)
    theirs = GaussianMixture(3, covariance_type=covariance_type, random_state=0, max_iter=1, reg_covar=0)
    with pytest.warns(match="did not converge"):
        theirs.fit(rows)

    def ours():
        covariances = theirs.covariances_
        return MixtureModel(
            columns=columns_for(3),
            weights=theirs.weights_,
            means=theirs.means_,
            covariances=covariances[:, None] * np.ones(3) if covariances.ndim == 1 else covariances,
            covariance_type=covariance_type,
            scale=np.ones(3),
        )

    start = ours()
    log_density, log_shares = theirs._e_step(rows)
    theirs._m_step(rows, log_shares)
    expected, new = ours(), refine(start, source_of(start, rows), 1)
    assert new.facts["mean_log_likelihood"] == pytest.approx(log_density)
    for name in ("weights", "means", "covariances"):
        assert np.allclose(getattr(new, name), getattr(expected, name), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("covariance_type", ["diag", "spherical"])
def test_both_ways_to_sum_up_agree(covariance_type, monkeypatch):
    model = mixture_model(covariance_type, width=2.0)
    source = source_of(model, clumps(500))
    fast = refine(model, source, 3)
    monkeypatch.setattr("nysketch.models.refine._CLOSE", -1)
    slow = refine(model, source, 3)
    for name in ("weights", "means", "covariances"):
        assert np.allclose(getattr(fast, name), getattr(slow, name), rtol=1e-10, atol=1e-12)
        assert not np.array_equal(getattr(fast, name), getattr(slow, name)) or name == "weights"


@pytest.mark.parametrize("covariance_type", TYPES)
def test_narrow_components_far_apart_keep_their_widths(covariance_type):
    random = np.random.default_rng(0)
    which = random.integers(2, size=2000)
    rows = 1e9 * which[:, None] + random.normal(0, 1, (2000, 2))
    covariances = np.full((2, 2), 2.0) if covariance_type != "full" else np.stack([2 * np.eye(2)] * 2)
    model = MixtureModel(
        columns=columns_for(2),
        weights=[0.5, 0.5],
        means=[[0.5, 0.5], [1e9, 1e9]],
        covariances=covariances,
        covariance_type=covariance_type,
        scale=np.ones(2),
    )
    new = refine(model, source_of(model, rows), 2)
    variances = np.stack([rows[which == j].var(axis=0) for j in range(2)])
    found = np.stack([np.diag(c) for c in new.covariances]) if covariance_type == "full" else new.covariances
    if covariance_type == "spherical":
        variances = np.repeat(variances.mean(axis=1, keepdims=True), 2, axis=1)
    assert np.allclose(found, variances, rtol=1e-5)


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 1000), covariance_type=st.sampled_from(TYPES), k=st.integers(1, 5))
@example(seed=1, covariance_type="spherical", k=5)  # one component collapses further and further
def test_passes_of_em_never_make_it_worse(seed, covariance_type, k):
    random = np.random.default_rng(seed)
    model = mixture_model(covariance_type, k, 2, seed, width=2.0)
    rows = clumps(40, 2, 3, seed)
    rows[:15] = rows[0]  # what a component would like to collapse on
    rows[15:20, 1] = random.choice([0.0, 1.0])
    source = source_of(model, rows)
    before = -score(model, source).mean_cost
    for _ in range(12):
        model = refine(model, source, 1)
        now = -score(model, source).mean_cost
        assert now >= before - 1e-7 * (1 + abs(before))
        assert before == pytest.approx(model.facts["mean_log_likelihood"], rel=1e-9, abs=1e-12)
        before = now


@pytest.mark.parametrize("covariance_type", TYPES)
def test_nothing_degenerates(covariance_type):
    # All rows the same, and as many components as rows.
    model = mixture_model(covariance_type, k=6, d=2)
    for rows in (
        np.ones((6, 2)),
        np.arange(12.0).reshape(6, 2),
        np.column_stack([np.arange(6.0), np.ones(6)]),
    ):
        new = refine(model, source_of(model, rows), 30)
        assert np.isfinite(new.log_densities(rows)).all()
        assert (new.weights > 0).all()
        assert score(new, source_of(new, rows)).mean_cost <= score(model, source_of(model, rows)).mean_cost


def test_components_without_rows_stay_where_they_are():
    model = mixture_model("diag", k=2, d=1)
    away = replace(model, means=np.array([[0.0], [1e6]]), weights=np.array([1.0, 0.0]))
    new = refine(away, source_of(away, clumps(100, 1, 1)), 3)
    assert new.means[1] == 1e6
    assert np.array_equal(new.covariances[1], away.covariances[1])
    assert 0 < new.weights[1] < 1e-11


# ---- both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kmeans", *TYPES])
@pytest.mark.parametrize("weights", [None, "w"])
def test_threads_do_not_show(kind, weights, tmp_path):
    rows = clumps(5000, 3, 4)
    table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)} | {"w": np.linspace(0.5, 2, 5000)})
    pq.write_table(table.slice(0, 3000), tmp_path / "a.parquet", row_group_size=211)
    pq.write_table(table.slice(3000), tmp_path / "b.parquet", row_group_size=500)
    model = kmeans_model() if kind == "kmeans" else mixture_model(kind, width=2.0)
    source = open_source(tmp_path / "*.parquet", like=model.columns, weights=weights)
    results = {repr(refine(model, source, 3, engine=Threads(threads)).describe()) for threads in (1, 2, 6)}
    assert len(results) == 1


def test_files_with_nulls_and_lists_are_refined(tmp_path):
    rows = clumps(600, 3, 3)
    broken = rows.copy()
    broken[::10, 1] = np.nan
    pq.write_table(pa.table({"e": broken.tolist()}), tmp_path / "e.parquet", row_group_size=100)
    model = replace(kmeans_model(3, 3), columns=(Column("e", 3),))
    source = open_source(tmp_path / "e.parquet", like=model.columns)
    seen = []
    new = refine(model, source, 2, nulls="drop", progress=lambda done, total: seen.append((done, total)))
    whole = rows[~np.isnan(broken).any(axis=1)]
    expected = refine(model, open_source(whole, like=model.columns), 2)
    assert np.allclose(new.centroids, expected.centroids, rtol=1e-12)
    assert seen[0] == (0, 1200) and seen[-1] == (1200, 1200) and seen == sorted(seen)


def test_a_stream_can_be_refined_on_once():
    model, rows = kmeans_model(d=2), clumps(300, 2)
    batches = [rows[i : i + 50] for i in range(0, 300, 50)]
    new = refine(model, open_source(iter(batches), like=model.columns), 1)
    assert np.array_equal(new.centroids, refine(model, open_source(rows, like=model.columns), 1).centroids)
    with pytest.raises(UsageError, match="only once"):
        refine(model, open_source(iter(batches), like=model.columns), 2)
    with pytest.raises(UsageError, match="at least 1"):
        refine(model, open_source(rows, like=model.columns), 0)
