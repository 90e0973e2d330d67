"""Scripts for papers and benchmarks: tiny runs of each in a process, their integrals and estimators."""

import argparse
import csv
import importlib.util
import json
import math
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import nysketch
from tests import naive
from tests.helpers import ROOT, loaded

SCRIPTS = ROOT / "scripts"
EMBEDDINGS = SCRIPTS / "papers" / "kernel_mean_embeddings.py"
LANDMARKS = SCRIPTS / "bench" / "landmarks.py"
INDEPENDENCE = SCRIPTS / "bench" / "independence.py"
COMPARE = SCRIPTS / "bench" / "compare.py"
CORESET = SCRIPTS / "bench" / "coreset.py"
SCALE = SCRIPTS / "bench" / "scale.py"
UGLY = SCRIPTS / "bench" / "ugly.py"
IMPORTS = SCRIPTS / "imports.py"
WALKS = SCRIPTS / "walks.py"
COMPRESSIVE = SCRIPTS / "papers" / "compressive_learning.py"
CL_OMPR = SCRIPTS / "papers" / "cl_ompr.py"
MONK = SCRIPTS / "papers" / "monk.py"
MMD = SCRIPTS / "papers" / "mmd.py"
QUADRATURE = SCRIPTS / "papers" / "kernel_quadrature.py"


def run(script, *arguments):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def embeddings():
    with loaded(EMBEDDINGS) as module:
        yield module


@pytest.fixture(scope="module")
def monk():
    with loaded(MONK) as module:
        yield module


@pytest.fixture(scope="module")
def mmd():
    with loaded(MMD) as module:
        yield module


@pytest.fixture(scope="module")
def kernel_quadrature():
    with loaded(QUADRATURE) as module:
        yield module


def test_integrals_of_the_mixture_against_monte_carlo(embeddings):
    mixture = embeddings.Mixture.drawn(3)
    random = np.random.default_rng(0)
    points = mixture.rows(5, random)
    x, y = mixture.rows(100_000, random), mixture.rows(100_000, random)

    def check(values, expected):
        assert abs(values.mean() - expected) < 4 * values.std() / math.sqrt(len(values))

    gamma = 0.5 / mixture.bandwidth**2
    check(np.exp(-gamma * ((x - y) ** 2).sum(axis=1)), mixture.squared_norm())
    for point, expected in zip(points, mixture.embedding(points), strict=True):
        check(np.exp(-gamma * ((x - point) ** 2).sum(axis=1)), expected)


def test_tiles_give_the_mean_of_all_kernel_values(embeddings):
    rows = np.random.default_rng(0).normal(size=(2 * embeddings.TILE + 7, 3))
    expected = np.exp(-cdist(rows, rows, "sqeuclidean") / (2 * 1.7**2)).mean()
    assert embeddings.squared_norm(rows, 1.7) == pytest.approx(expected, rel=1e-12)


def test_all_rows_as_landmarks_are_the_empirical_embedding(embeddings):
    import nysketch

    mixture = embeddings.Mixture.drawn(0)
    rows = mixture.rows(200, np.random.default_rng(0))
    basis = nysketch.Basis.fit(
        rows, landmarks=200, sampling="uniform", scale="none", bandwidth=mixture.bandwidth
    )
    error = embeddings.nystrom_error(mixture, nysketch.sketch(rows, basis=basis, precision="float64"))
    assert error == pytest.approx(embeddings.empirical_error(mixture, rows), rel=1e-3)


def test_the_embedding_of_a_table_is_that_of_its_rows(embeddings, tmp_path):
    random = np.random.default_rng(0)
    columns = {"a": random.normal(size=300), "b": random.integers(3, size=300), "c": np.ones(300)}
    columns["a"][7] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = embeddings.Table.read(tmp_path / "t.parquet", most=1000, seed=0)
    assert table.X.shape == (299, 2)  # neither the row without a number nor the constant
    gram = np.exp(-cdist(table.X, table.X, "sqeuclidean") / (2 * table.bandwidth**2))
    assert table.squared_norm() == pytest.approx(gram.mean(), rel=1e-12)
    elsewhere = np.array([[0.3, -0.7]])
    assert table.embedding(table.X[:5]) == pytest.approx(gram[:5].mean(axis=1), rel=1e-12)
    values = np.exp(-cdist(elsewhere, table.X, "sqeuclidean") / (2 * table.bandwidth**2))
    assert table.embedding(elsewhere) == pytest.approx(values.mean(axis=1), rel=1e-12)
    # All rows, each once, are the distribution.
    assert embeddings.empirical_error(table, table.X) == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_figures_of_embeddings_in_small(tmp_path):
    table = pa.table({name: np.random.default_rng(ord(name)).normal(size=500) for name in "abc"})
    pq.write_table(table, tmp_path / "a_bike.parquet")
    sizes = ["--rows", 100, 300, "--trials", 3, 2, "--landmarks", 5, 40, 200]
    sizes += ["--data", tmp_path, "--tables", "bike", "--table-rows", 100, "--table-trials", 2]
    out = tmp_path / "out"
    out.mkdir()
    printed = run(EMBEDDINGS, *sizes, "--samplings", "uniform", "greedy", "--no-plot", "-o", out / "f")
    assert "| mixture | 300 | 2 | **49** | " in printed
    assert "| bike | 100 | 2 | **23** | " in printed
    for title in ("mixture, n = 300", "bike, n = 100"):
        assert f"- {title}, uniform: at m = √n log √n = " in printed
        assert f"- {title}: the least error at this m is that of " in printed
    assert [path.name for path in out.iterdir()] == ["f.csv"]
    with (out / "f.csv").open() as file:
        read = list(csv.DictReader(file))
    assert len(read) == 3 * (
        1 + 2 * 3 + 1 + 2 * 4 + 1 + 2 * 3
    )  # 200 of 100 rows: too many. √n log √n is added
    rows = [r for r in read if r["data"] == "mixture"]
    table = {(int(r["n"]), int(r["m"]), r["sampling"], r["statistic"]): r for r in rows}
    mean = {key[:3]: float(r["error"]) for key, r in table.items() if key[3] == "mean"}
    assert mean[300, 5, "uniform"] > mean[300, 40, "uniform"] > mean[300, 200, "uniform"]
    assert mean[300, 200, "uniform"] == pytest.approx(mean[300, 300, "empirical"], rel=0.05)
    assert table[100, 40, "greedy", "p05"]["trials"] == "3"


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figure_1_is_drawn(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    figure = tmp_path / f"figure{suffix}"
    run(EMBEDDINGS, "--rows", 100, "--trials", 1, "--landmarks", 5, 20, "-o", figure)
    start = figure.read_bytes()[:100]
    assert start.startswith(b"\x89PNG") if suffix == ".png" else b"<?xml" in start


@pytest.mark.slow
def test_landmarks_are_compared(tmp_path):
    out = tmp_path / "out.json"
    sizes = ["--rows", 2000, "--pilot-rows", 1000, "--held-out", 400, "--landmarks", 20, 60, "--goals", 60]
    missing = tmp_path / "there-is-no-such-folder"
    printed = run(
        LANDMARKS, *sizes, "--seeds", 1, "--sets", "curve", "blob", "--data", missing, "--json", out
    )
    for title in (
        "Mean residual",
        "95 % quantile",
        "Squared projection error",
        "Excess SSE",
        "Landmarks needed",
    ):
        assert title in printed
    results = json.loads(out.read_text())
    assert len(results) == 2 * 6 * 3
    residuals = {(r["set"], r["sampling"], r["m"]): r["mean_residual"] for r in results if "m" in r}
    assert residuals["blob", "uniform", 60] < residuals["blob", "uniform", 20]
    needed = {(r["set"], r["sampling"]): r["needed"] for r in results if "goal" in r}
    assert needed["blob", "uniform"] == 60
    assert 30 < needed["blob", "kmeans++"] < 70


@pytest.fixture(scope="module")
def published():
    with loaded(CL_OMPR) as module:
        yield module


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
@pytest.mark.parametrize("covariance", ["point", "diag"])
def test_gradient_of_the_normalised_correlation(published, covariance, features):
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 2))
    sketch = nysketch.sketch(rows, landmarks=12, features=features, scale="none", cells=False, sample_rows=0)
    matching = published.plain_matching(sketch, covariance, rows.var(axis=0))
    correlation = published.Correlation(matching, matching.target)
    at = random.normal(size=matching.family.size)
    value, gradient = correlation(at)
    assert abs(value) <= np.linalg.norm(matching.target) * (1 + 1e-12)  # of unit vectors: Cauchy and Schwarz
    steps = 1e-6 * np.eye(len(at))
    differences = [(correlation(at + h)[0] - correlation(at - h)[0]) / 2e-6 for h in steps]
    assert gradient == pytest.approx(differences, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_published_cl_ompr_finds_clusters_far_apart(published, features):
    random = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [8.0, 1.0], [1.0, 9.0]])
    rows = centres[random.integers(3, size=2000)] + random.normal(size=(2000, 2))
    settings = {"features": features, "bandwidth": 3.0, "scale": "none", "cells": False, "sample_rows": 0}
    sketch = nysketch.sketch(rows, landmarks=60, **settings)
    for covariance, near in (("point", 0.6), ("diag", 0.2)):
        found, distance = published.cl_ompr(sketch, 3, covariance, rows.var(axis=0), np.random.default_rng(0))
        assert cdist(found.means, centres).min(axis=0).max() < near
        assert found.weights.sum() == pytest.approx(1) and distance < 0.01
        assert found.covariances.any() == (covariance == "diag")


@pytest.mark.slow
def test_compressive_learning_as_published_in_small(tmp_path):
    drawn = importlib.util.find_spec("matplotlib") is not None
    sizes = ["--rows", 1000, "--clusters", 3, "--features", 4, "--trials", 2, "--sizes", 1, 5, "--at", 5]
    series = [
        "--series",
        "uniform",
        "leverage",
        "greedy",
        "rows",
        "fourier",
        "--sets",
        "synthetic",
        "--paper",
    ]
    plot = [] if drawn else ["--no-plot"]
    printed = run(COMPRESSIVE, *sizes, "--factors", 0.5, 2, *series, *plot, "-o", tmp_path / "f.svg")
    for verdict in (
        "- Figure 1, kmeans, synthetic: Nyström (uniform) has the lower risk in ",
        "- Figure 1, landmarks: of 4 cells the lowest median is uniform in ",
        "- gmm, synthetic: the sums have a lower median than their landmarks at ",
        "- Figure 2, gmm, synthetic, m/p = 1: the range of good σ² is ",
        "- Figure 3, synthetic: Nyström has the higher median ARI at ",
        "- Figure 4, kmeans, synthetic, m/p = 5: the range of good σ² is ",
    ):
        assert verdict in printed
    names = {"f.csv", *(f"f-{number}.svg" for number in (1, 2, 3, 4))} if drawn else {"f.csv"}
    assert {path.name for path in tmp_path.iterdir()} == names
    with (tmp_path / "f.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * (2 * 2 * 2 + 2 * 5)
    risk = {
        (r["series"], r["m"]): float(r["median"])
        for r in table
        if (r["figure"], r["task"]) == ("1", "kmeans")
    }
    assert 0.999 < risk["rows", "60"] < risk["rows", "12"]
    assert 0.999 < risk["uniform", "60"] < 2
    assert all(0 < float(r["ari"]) <= 1 for r in table if r["task"] == "kmeans" and r["series"] != "rows")


@pytest.mark.slow
def test_compressive_learning_of_a_file_with_the_tools_own_decoders(tmp_path):
    columns = {name: np.random.default_rng(ord(name)).normal(size=1500) for name in "abc"}
    pq.write_table(pa.table(columns), tmp_path / "a_bike_or_two.parquet")
    sizes = ["--rows", 1000, "--clusters", 2, "--features", 3, "--trials", 1, "--sizes", 2, "--figures", 1]
    series = ["--series", "uniform", "quadrature", "plain", "warm-20", "fourier+rows", "--bandwidth", 1]
    series += ["--sets", "bike", "--tasks", "gmm", "--data", tmp_path]
    printed = run(COMPRESSIVE, *sizes, *series, "--no-plot", "-o", tmp_path / "f")
    for name in ("uniform", "quadrature", "plain", "warm-20", "fourier+rows"):
        assert f"| bike | {name} | × 1 | " in printed


def quadrature(mean, deviation, nodes=80):
    """Points and weights whose sums are means over a Gaussian."""
    points, weights = np.polynomial.hermite.hermgauss(nodes)
    return mean + math.sqrt(2) * deviation * points, weights / math.sqrt(math.pi)


def values_of(kernel, x, y):
    products = np.multiply.outer(x, y)
    return (products + 1) ** 2 if kernel.name == "quadratic" else np.exp(-(np.subtract.outer(x, y) ** 2) / 2)


def test_mmd_of_gaussians_against_quadrature(monk):
    first, second = monk.Normal(0.2, 0.9), monk.Normal(0.7, 0.4)
    (x, a), (y, b) = (quadrature(normal.mean, normal.deviation) for normal in (first, second))
    for kernel in monk.KERNELS:
        squared = a @ values_of(kernel, x, x) @ a + b @ values_of(kernel, y, y) @ b
        squared -= 2 * a @ values_of(kernel, x, y) @ b
        assert monk.true_mmd(kernel, first, second) == pytest.approx(math.sqrt(squared), rel=1e-9)
        assert monk.true_mmd(kernel, first, first) == pytest.approx(0, abs=1e-7)


@pytest.fixture
def sampled(monk):
    """Some rows with outliers: features and Gram matrix of both kernels."""
    x, y = monk.samples("Gaussian with outliers", monk.drawn_normals(0), 37, np.random.default_rng(0))
    rows = np.concatenate([x, y])
    return [(kernel.features(rows), values_of(kernel, rows, rows)) for kernel in monk.KERNELS]


def test_features_have_the_kernel_as_their_product(sampled):
    for features, gram in sampled:
        assert features @ features.T == pytest.approx(gram, rel=1e-12, abs=1e-12)


def test_one_group_gives_the_plain_mmd(monk, sampled):
    for features, gram in sampled:
        n = len(gram) // 2
        x, y = np.arange(2 * n).reshape(2, 1, n)
        shuffles = monk.shuffles_of(n, np.random.default_rng(0))
        inner = [gram[:n, :n], gram[n:, n:]]
        expected = math.sqrt(sum(part.mean() for part in inner) - 2 * gram[:n, n:].mean())
        assert monk.bcd(features, x, y, 1, shuffles) == pytest.approx(expected, rel=1e-9)
        assert monk.bcd_fast(features, x, y, 1, shuffles) == pytest.approx(expected, rel=1e-9)
        unbiased = sum((part.sum() - np.trace(part)) / (n * (n - 1)) for part in inner)
        unbiased -= 2 * gram[:n, n:].mean()
        assert monk.u_statistic(features, x, y) == pytest.approx(
            math.copysign(abs(unbiased) ** 0.5, unbiased), rel=1e-9
        )


def in_group(group, n, sign):
    """[1_q; ±1_q]."""
    vector = np.zeros(2 * n)
    vector[group], vector[n + group] = 1, sign
    return vector


def median_group(values):
    return np.argsort(values)[len(values) // 2]


def algorithm_1(gram, groups, shuffles):
    """MONK BCD, word by word."""
    n = len(gram) // 2
    c = np.ones(2 * n)
    c /= math.sqrt(c @ gram @ c)
    for order in shuffles:
        parts = [in_group(part, n, -1) for part in np.array_split(order, groups)]
        values = [part @ gram @ c / (part > 0).sum() for part in parts]
        chosen = parts[median_group(values)]
        c = chosen / math.sqrt(chosen @ gram @ chosen)
    return np.median([part @ gram @ c / (part > 0).sum() for part in parts])


def algorithm_2(gram, groups, shuffles):
    """MONK BCD-Fast, word by word."""
    n, m = len(gram) // 2, len(gram) // 2 // groups
    signs = np.repeat([1, -1], m)
    grams, c = [], []
    for t, order in enumerate(shuffles):
        if t % 10 == 0:
            parts = [np.r_[part, n + part] for part in np.split(order, groups)]
            grams = [gram[np.ix_(part, part)] for part in parts]
            c = c or [np.ones(2 * m) / math.sqrt(each.sum()) for each in grams]
        q = median_group([signs @ K @ own / m for K, own in zip(grams, c, strict=True)])
        c[q] = signs / math.sqrt(signs @ grams[q] @ signs)
    return np.median([signs @ K @ own / m for K, own in zip(grams, c, strict=True)])


def test_monk_is_the_papers(monk):
    x, y = monk.samples("Gaussian", monk.drawn_normals(0), 35, np.random.default_rng(1))
    rows = np.concatenate([x, y])
    shuffles = monk.shuffles_of(35, np.random.default_rng(2))
    orders = np.array([np.arange(70), np.random.default_rng(3).permutation(70)])  # two pairs of samples
    for kernel in monk.KERNELS:
        features, gram = kernel.features(rows), values_of(kernel, rows, rows)
        for groups in (5, 7):
            for ours, theirs in ((monk.bcd, algorithm_1), (monk.bcd_fast, algorithm_2)):
                found = ours(features, orders[:, :35], orders[:, 35:], groups, shuffles)
                expected = [theirs(gram[np.ix_(order, order)], groups, shuffles) for order in orders]
                assert found == pytest.approx(expected, rel=1e-6)


def test_outliers_move_the_mean_but_no_median(monk):
    kernel, normals = monk.KERNELS[0], monk.drawn_normals(0)
    basis = monk.fitted_basis(kernel, "Gaussian with outliers", normals, 0)
    truth = monk.true_mmd(kernel, *normals)
    errors = {}
    for trial in range(3):
        rng = np.random.default_rng(trial)
        x, y = monk.samples("Gaussian with outliers", normals, 1000, rng)
        for key, value in monk.estimates(kernel, x, y, basis, [5, 21], rng).items():
            errors.setdefault(key, []).append(abs(value - truth))
    middle = {key: np.median(found) for key, found in errors.items()}
    assert middle["U-Stat", 1] > 1e4
    assert middle["MONK BCD", 5] > 1e4  # five bad pairs in five groups
    assert max(middle["MONK BCD", 21], middle["MONK BCD-Fast", 21]) < 0.35
    assert middle["sketch: median", 21] < 0.15
    assert middle["sketch: trimmed", 21] < 0.15


def test_robust_mmd_is_that_of_compare(monk):
    kernel, normals = monk.KERNELS[0], monk.drawn_normals(0)
    basis = monk.fitted_basis(kernel, "Gaussian with outliers", normals, 0)
    rows = monk.samples("Gaussian with outliers", normals, 500, np.random.default_rng(0))
    sketches = [monk.sketched(each, basis, seed) for seed, each in enumerate(rows)]
    found = nysketch.compare(*sketches, robust=21, blocks="random", test="none", explain=False)
    assert monk.robust_mmds(*sketches, 21) == (found.robustness.median.value, found.mmd)


@pytest.mark.slow
def test_monk_in_small(tmp_path):
    drawn = importlib.util.find_spec("matplotlib") is not None
    random = np.random.default_rng(0)
    strings = {"EI": random.choice(list("ACGT"), (130, 9)), "IE": random.choice(list("AACG"), (130, 9))}
    table = {
        "label": [label for label in strings for _ in range(130)],
        "sequence": ["".join(letters) for rows in strings.values() for letters in rows],
    }
    pq.write_table(pa.table(table), tmp_path / "splice_3190_strings60.parquet")
    sizes = ["--sizes", 100, "--trials", 2, "--groups", 5, 21, "--data", tmp_path, "--sites", 120]
    sizes += ["--dna-sizes", 60, "--simulations", 3, "--sketch-simulations", 1, "--permutations", 19]
    out = tmp_path / "out"
    out.mkdir()
    printed = run(
        MONK, *sizes, *([] if drawn else ["--no-plot"]), "-o", out / "f.svg", "--csv", out / "g.csv"
    )
    assert "| quadratic, Pareto | MONK BCD-Fast | 21 | " in printed
    names = {"g-1.csv", "g-2.csv"} | ({"f-1.svg", "f-2.svg"} if drawn else set())
    assert {path.name for path in out.iterdir()} == names
    with (out / "g-1.csv").open() as one, (out / "g-2.csv").open() as other:
        first, second = [*csv.DictReader(one)], [*csv.DictReader(other)]
    assert len(first) == 3 * 2 * (1 + 4 * 2)
    error = {
        (r["kernel"], r["n"], r["estimator"], r["groups"]): float(r["median"])
        for r in first
        if r["setting"] == "Gaussian with outliers"
    }
    assert error["quadratic", "100", "U-Stat", "1"] > 4
    assert error["quadratic", "100", "sketch: median", "21"] < 1
    assert error["RBF", "100", "U-Stat", "1"] < 0
    assert {(r["pair"], r["estimator"], r["trials"]) for r in second} == {
        (pair, name, "1" if name == "sketch: median" else "3")
        for pair in ("EI–IE", "EI–EI", "IE–IE")
        for name in ("U-Stat", "MONK BCD", "MONK BCD-Fast", "sketch: median")
    }
    median = {r["pair"]: float(r["median"]) for r in second if r["estimator"] == "U-Stat"}
    assert median["EI–IE"] > 0 > max(median["EI–EI"], median["IE–IE"])


def test_mmd_of_mixtures_against_quadrature(mmd):
    pair = mmd.Pair(np.array([[-1.0], [2.0]]), np.array([[0.5], [1.0], [4.0]]), 1.3)
    grids = [[quadrature(centre, 1.0) for centre in centres.ravel()] for centres in (pair.first, pair.second)]
    (x, a), (y, b) = (
        (np.concatenate(p), np.concatenate(w) / len(w)) for p, w in (zip(*g, strict=True) for g in grids)
    )
    points, weights = np.r_[x, y], np.r_[a, -b]
    values = np.exp(-(np.subtract.outer(points, points) ** 2) / (2 * 1.3**2))
    assert pair.mmd() == pytest.approx(math.sqrt(weights @ values @ weights), rel=1e-9)


def test_mmd_of_samples_in_tiles(mmd):
    pair = mmd.Pair.drawn(2.0, 0)
    x, y = pair.rows(mmd.TILE + 9, np.random.default_rng(0))
    rows, signs = np.concatenate([x, y]), np.repeat([1, -1], len(x)) / len(x)
    gram = np.exp(-cdist(rows, rows, "sqeuclidean") / (2 * pair.bandwidth**2))
    exact = math.sqrt(signs @ gram @ signs)
    assert pair.mmd_of(x, y) == pytest.approx(exact, rel=1e-9)
    sketched = [mmd.sketched_mmd(x, y, pair.bandwidth, m, "uniform", 600, 0) for m in (8, 300)]
    assert sketched[0] < 0.99 * exact
    assert sketched[1] == pytest.approx(exact, rel=1e-3)


@pytest.mark.slow
def test_mmd_in_small(tmp_path):
    drawn = importlib.util.find_spec("matplotlib") is not None
    sizes = [
        "--rows",
        100,
        400,
        "--trials",
        3,
        "--exact-trials",
        5,
        "--landmarks",
        5,
        80,
        "--samplings",
        "uniform",
        "kmeans++",
    ]
    printed = run(MMD, *sizes, *([] if drawn else ["--no-plot"]), "-o", tmp_path / "f.png")
    assert "| 400 | 60 = √n log √n | " in printed
    assert {path.name for path in tmp_path.iterdir()} == ({"f.csv", "f.png"} if drawn else {"f.csv"})
    with (tmp_path / "f.csv").open() as file:
        table = {(int(r["n"]), int(r["m"]), r["sampling"]): r for r in csv.DictReader(file)}
    assert len(table) == 2 * (1 + 2 * 3)
    error = {key: float(r["error_to_sample"]) for key, r in table.items()}
    assert error[400, 400, "exact"] == 0 < 5 * error[400, 80, "uniform"] < error[400, 5, "uniform"]
    assert (table[400, 400, "exact"]["trials"], table[400, 80, "kmeans++"]["trials"]) == ("5", "3")


@pytest.mark.slow
def test_independence_in_small(tmp_path):
    out = tmp_path / "f.json"
    printed = run(INDEPENDENCE, "--section", "power", "speed", "--runs", 2, "--rows", 3000, "--json", out)
    assert "| signs of three, in half of the rows | 400 | 2 | " in printed
    found = json.loads(out.read_text())
    assert {r["section"] for r in found} == {"power", "speed"}
    assert all(0 <= r["sketch"] <= 1 for r in found if r["section"] == "power")
    sizes = {r["what"]: r["file, MB"] for r in found if r.get("what", "").startswith("sketch")}
    assert sizes["sketch, groups, --shuffles 0"] < sizes["sketch, groups and their sums"]


@pytest.mark.slow
def test_coresets_are_judged_by_all_pairs_of_rows():
    with loaded(CORESET) as bench:
        X = bench.mixture(3000, 3, 0)
        judge = bench.Judge(X, 0)
        chosen = X[:40], np.full(40, 1 / 40)
        assert judge.mmd(chosen) == pytest.approx(naive.mmd(judge.kernel, *chosen, X), rel=1e-4)
        assert judge.mmd((X, np.full(len(X), 1 / len(X)))) < 1e-4


@pytest.mark.slow
def test_a_tiny_run_of_the_coreset_benchmark(tmp_path):
    out = tmp_path / "c.json"
    sizes = ["--rows", 4096, "--columns", 2, "--size", 16, "--speed-rows", 20_000, "--auto-rows", 3000]
    printed = run(CORESET, *sizes, "--json", out)
    assert "| d | n | seed | way | rows | mmd |" in printed
    found = json.loads(out.read_text())
    near = {r["way"]: r for r in found if r["section"] == "nearness"}
    assert {"k-means", "herding", "nysketch", "from a sketch"} <= set(near)
    assert near["nysketch"]["mmd"] < min(near["k-means"]["mmd"], near["herding"]["mmd"])
    assert near["herding"]["mmd"] < near["herding"]["random"]
    (chosen,) = (r for r in found if r["section"] == "auto")
    assert chosen["exact"] <= chosen["predicted"] <= chosen["target"] and chosen["s"] < 60
    assert chosen["exact"] <= chosen["bound"] <= chosen["theorem"]
    assert chosen["s by theorem"] > chosen["s"]
    fast = [r for r in found if r["section"] == "speed"]
    assert [r["landmarks"] for r in fast] == [500, 1000] and all(r["mismatch"] < 1e-12 for r in fast)


def series(differences, r, terms=3000):
    """1 + 2 Σ m^(−2r) cos 2πmx."""
    m = np.arange(1, terms + 1)
    return 1 + 2 * np.cos(2 * math.pi * np.multiply.outer(differences, m)) @ m ** (-2.0 * r)


@pytest.mark.parametrize(("d", "r"), [(1, 1), (1, 2), (2, 1), (3, 3)])
def test_periodic_kernels_against_their_series(kernel_quadrature, d, r):
    random = np.random.default_rng(0)
    x, y = random.uniform(size=(5, d)), random.uniform(size=(4, d))
    space = kernel_quadrature.Space(d, r)
    expected = series(x[:, None] - y, r).prod(axis=2)
    assert space.kernel(x, y) == pytest.approx(expected, abs=1e-4 if r == 1 else 1e-9)
    twice = series(x[:, None] - x, 2 * r).prod(axis=2)
    assert space.second_moments(x) == pytest.approx(twice, abs=1e-9)
    rule = kernel_quadrature.Rule(x, random.dirichlet(np.ones(5)))
    squared = rule.weights @ space.kernel(x, x) @ rule.weights - 1
    assert space.squared_error(rule) == pytest.approx(squared, rel=1e-12)


@pytest.mark.parametrize(("d", "r"), [(1, 1), (2, 1)])
def test_quadrature_rules_keep_the_means_of_their_functions(kernel_quadrature, monkeypatch, d, r):
    monkeypatch.setattr(kernel_quadrature, "CHUNK", 100 * 21 * 8)  # 100 rows of 512
    n, space, clock = 8, kernel_quadrature.Space(d, r), kernel_quadrature.Clock()
    draw = kernel_quadrature.Draw.of(d, n, 512, np.random.default_rng(0))
    with threadpool_limits(1):  # as the script itself: matrices are small
        functions = kernel_quadrature.test_functions(space, draw, n, clock, pinv=True)
        found = kernel_quadrature.rules(space, draw, functions, n, clock)
    # Eigenfunctions under Y and under μ: orthogonal, the strongest first.
    under_sample = space.kernel(draw.sample, draw.landmarks) @ functions["k_{s,Y}^Z"]
    matrix = functions["k_{s,μ}^Z"]
    for products in (
        under_sample.T @ under_sample / 512,
        matrix.T @ space.second_moments(draw.landmarks) @ matrix,
    ):
        strengths = np.diag(products)
        assert products == pytest.approx(np.diag(strengths), abs=1e-9)
        assert (np.diff(strengths) <= 1e-9).all()
    # The pseudo-inverse gives other functions, but the same span.
    same = {"pinv, Y": "k_{s,Y}^Z", "k_{s,Y}^Z": "pinv, Y", "k_{s,μ}^Z": "pinv, μ"}
    ours = {"ours, nystrom": "k_s^Z", "ours, mercer": "k_{s,Y}^Z", "ours, mercer μ": "k_{s,μ}^Z"}
    assert clock.keys() == found.keys() == functions.keys() | ours.keys() | draw.others.keys()
    for name in functions.keys() | ours.keys():
        rule = found[name]
        assert len(rule.points) <= n
        assert rule.weights.min() > 0
        assert rule.weights.sum() == pytest.approx(1, abs=1e-12)
        assert np.isin(rule.points, draw.sample).all()
        own = ours.get(name, name)
        landmarks = draw.covering if own == "k_s^H" else draw.landmarks
        matrix = functions[same.get(own, own)][:, : n - 1]
        assert matrix.shape[1] == n - 1
        over_all = space.kernel(draw.sample, landmarks).mean(axis=0) @ matrix
        assert rule.weights @ space.kernel(rule.points, landmarks) @ matrix == pytest.approx(
            over_all, abs=1e-6
        )


def test_the_verdict_on_quadrature_can_go_either_way(kernel_quadrature):
    """Cells that are the reference itself, and cells that are not."""
    module = kernel_quadrature
    first, third, last = module.SETTINGS[0], module.SETTINGS[2], module.SETTINGS[4]

    def verdict(shift, of_y, pinv, spread):
        cells = {
            (first, name, n): module.Cell([mean + shift - 0.01, mean + shift + 0.01], [1.0, 1.0])
            for name, means in module.REFERENCE[1, 1].items()
            for n, mean in zip(module.SIZES, means, strict=False)
        }
        four = (module.OF_H, module.OF_Z, module.OF_Y, module.OF_MU)
        # The reference has no k_{s,μ}^Z at the largest n.
        cells |= {(first, module.OF_MU, 64): module.Cell([-2.7], [1.0])}
        cells |= {(first, module.OF_Y, 64): module.Cell([of_y, of_y], [1.0])}
        cells |= {(third, name, 8): module.Cell([spread * i], [1.0]) for i, name in enumerate(four)}
        cells |= {(last, module.PINV_Y, 8): module.Cell([pinv], [1.0])}
        cells |= {(last, module.OF_Y, 8): module.Cell([-5.0], [1.0])}
        return module.verdict(cells)

    good, bad = verdict(0.0, -2.69, -4.0, 0.01), verdict(0.5, -1.0, -5.0, 0.5)
    assert "28 of 28 means agree" in good[0] and "0 of 28" in bad[0]
    assert "recover the error" in good[1] and "do NOT recover" in bad[1]
    assert "are equally good" in good[2] and "are NOT equally good" in bad[2]
    assert "loses digits" in good[3] and "does not lose digits" in bad[3]


@pytest.mark.slow
def test_kernel_quadrature_in_small(tmp_path):
    printed = run(QUADRATURE, "--most", 8, "--trials", 2, "--out", tmp_path)
    assert "| d = 1, r = 2, N = n³ | n = 4 | n = 8 | slope | seconds, n = 8 |" in printed
    assert "(-0.25) | " in printed and "means agree with those of the authors' code" in printed
    assert "the error of k_s^H" in printed and "the pseudo-inverse" in printed
    drawn = importlib.util.find_spec("matplotlib") is not None
    plots = {"kernel-quadrature-1.png", "kernel-quadrature-2.png"} if drawn else set()
    assert {path.name for path in tmp_path.iterdir()} == {"kernel-quadrature.csv"} | plots
    with (tmp_path / "kernel-quadrature.csv").open() as file:
        table = [*csv.DictReader(file)]
    mean = {(r["d"], r["r"], r["power"], r["method"], r["n"]): float(r["mean"]) for r in table}
    assert len(mean) == len(table) == 2 * (3 * 9 + 2 * 11)
    for d, r, power, method, n in mean:
        if n == "8" and method != "Monte Carlo":
            assert mean[d, r, power, method, "8"] < mean[d, r, power, method, "4"]
        if method == "uniform grid":  # the frequencies that n divides: 2 ζ(2r) n^(−2r)
            zeta = {"1": math.pi**2 / 6, "2": math.pi**4 / 90}[r]
            expected = math.log10(2 * zeta * int(n) ** (-2.0 * int(r)))
            assert mean[d, r, power, method, n] == pytest.approx(expected, abs=1e-4)
    assert {r["trials"] for r in table} == {"2"}
    assert all(float(r["seconds"]) > 0 for r in table)

    again = tmp_path / "again"
    again.mkdir()
    run(QUADRATURE, "--most", 4, "--trials", 2, "--figure", 2, "--out", again)
    with (again / "kernel-quadrature.csv").open() as file:
        for r in csv.DictReader(file):
            key = (r["d"], r["r"], r["power"], r["method"], r["n"])
            assert float(r["mean"]) == pytest.approx(mean[key], abs=1e-4)


@pytest.mark.slow
def test_the_bench_of_scale_measures_and_compares(tmp_path):
    out = tmp_path / "out.json"
    flags = ["--rows", 20_000, "-m", 20, "--repeats", 1, "--measured-rows", 250_000, "--tasks", 20]
    text = run(SCALE, *flags, "--threads", 16, 256, "--json", out)
    results = json.loads(out.read_text())
    assert results["overhead"]["identical"] and "identical files: True" in text
    assert len(results["projections"]) == 6
    assert all(cost > 0 for cost in results["costs"].values())


@pytest.mark.slow
def test_every_section_of_the_bench_of_comparisons_begins():
    options = argparse.Namespace(seed=0, runs=1, processes=1, data=None)
    with loaded(COMPARE) as bench:
        for name in bench.SECTIONS.keys() - {"speed", "robust-grid"}:
            assert next(bench.SECTIONS[name](bench.Runner(options)))["table"], name
        found = bench.robust_grid_run((0, 0), kernel="linear", blocks=64)["found"]
    assert len(found) == 41 and all(case["how"] != "silent" for case in found)


@pytest.mark.slow
def test_ugly_data_are_given_to_every_version():
    lines = run(UGLY, "--only", "serial-numbers", "--software", ROOT).splitlines()
    assert lines[0] == f"| case | {ROOT.name} | here |"
    cases = {what: found for what, *found in (line.strip("| ").split(" | ") for line in lines[2:])}
    assert cases["their columns that are watched"] == ["`x`, `y`"] * 2
    assert len(cases) == 2


def test_projections_are_those_of_a_simple_model():
    with loaded(SCALE) as scale:
        nothing = scale.Costs(1e6, 0.0, 0.0, 0.0, 0.0, 0, 0)
        ideal = scale.project(10**9, 16, nothing)
        assert ideal.hours * 3600 == pytest.approx(10**9 / 1e6 / 16, rel=0.1)
        assert 0.9 < ideal.efficiency <= 1
        assert ideal.groups == 500 and ideal.depth == 2
        # A scheduler that takes a second for each group is all there is to wait for.
        busy = scale.project(10**9, 256, scale.Costs(1e6, 0.0, 0.0, 0.0, 1.0, 0, 0))
        assert busy.hours * 3600 > 500 and busy.scheduler_busy > 0.9
        # Each of the 63 arrivals is received one by one.
        slow = scale.project(10**9, 256, scale.Costs(1e6, 0.0, 0.0, 10.0, 0.0, 0, 0))
        assert slow.hours * 3600 == pytest.approx(630, rel=0.05) and slow.client_busy > 0.9


@pytest.mark.slow
def test_the_imports_of_the_package_are_printed():
    lines = run(IMPORTS).splitlines()
    assert lines[0].split()[:3] == ["errors", "1", "modules"]
    assert "Cycles when modules are loaded: 0" in lines
    walk = run(IMPORTS, "--walk", "nysketch.cli.merge").splitlines()
    assert "errors" in {line.strip("· ") for line in walk}
    assert walk[-1] == f"{len(walk)} modules"


@pytest.mark.slow
def test_the_walk_of_a_command_is_counted():
    lines = run(WALKS, "compare").splitlines()
    name, places, modules, root, again, steps = lines[1].split()
    listed = [line.split(" ×") for line in lines if line.startswith("  ")]
    assert (name, int(modules)) == ("compare", len(listed))
    assert listed[0][0] == "  cli/__init__.py"
    assert int(root) <= int(places) <= len(listed)
    assert int(again) == sum(len(line) == 2 for line in listed)
    assert int(steps) == sum(int(line[1]) if len(line) == 2 else 1 for line in listed)
