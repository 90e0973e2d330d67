"""Scripts for papers and benchmarks: tiny runs of each in a process, and the integrals of Appendix G."""

import csv
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist

SCRIPTS = Path(__file__).parent.parent / "scripts"
EMBEDDINGS = SCRIPTS / "papers" / "kernel_mean_embeddings.py"
LANDMARKS = SCRIPTS / "bench" / "landmarks.py"
COMPRESSIVE = SCRIPTS / "papers" / "compressive_learning.py"


def run(script, *arguments):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def embeddings():
    spec = importlib.util.spec_from_file_location("kernel_mean_embeddings", EMBEDDINGS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


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
    basis = nysketch.Basis.fit(rows, m=200, sampling="uniform", scaling="none", bandwidth=mixture.bandwidth)
    error = embeddings.nystrom_error(mixture, nysketch.sketch(rows, basis=basis, precision="float64"))
    assert error == pytest.approx(embeddings.empirical_error(mixture, rows), rel=1e-3)


def test_figure_1_in_small(tmp_path):
    sizes = ["--rows", 100, 300, "--trials", 3, 2, "--landmarks", 5, 40, 200]
    printed = run(EMBEDDINGS, *sizes, "--samplings", "uniform", "greedy", "--no-plot", "-o", tmp_path / "f")
    assert "| 300 | 2 | 49 | " in printed
    assert [path.name for path in tmp_path.iterdir()] == ["f.csv"]
    with (tmp_path / "f.csv").open() as file:
        table = {(int(r["n"]), int(r["m"]), r["sampling"], r["statistic"]): r for r in csv.DictReader(file)}
    assert len(table) == 3 * (1 + 2 * 3 + 1 + 2 * 4)  # m of 200 is too many for 100 rows; √n log √n is added
    mean = {key[:3]: float(r["error"]) for key, r in table.items() if key[3] == "mean"}
    assert mean[300, 5, "uniform"] > mean[300, 40, "uniform"] > mean[300, 200, "uniform"]
    assert mean[300, 200, "uniform"] == pytest.approx(mean[300, 300, "empirical"], rel=0.05)
    assert table[100, 40, "greedy", "p05"]["trials"] == "3"


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figure_1_is_drawn(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    figure = tmp_path / f"figure{suffix}"
    run(EMBEDDINGS, "--rows", 100, "--trials", 1, "--landmarks", 5, 20, "-o", figure)
    start = figure.read_bytes()[:100]
    assert start.startswith(b"\x89PNG") if suffix == ".png" else b"<?xml" in start


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


def test_compressive_learning_in_small(tmp_path):
    drawn = importlib.util.find_spec("matplotlib") is not None
    sizes = ["--rows", 1000, "--clusters", 3, "--features", 4, "--trials", 2, "--sizes", 1, 5]
    sizes += ["--sweep-trials", 1, "--sweep-sizes", 2, "--variances", 10, 1000, "--decoder-trials", 1]
    series = ["--series", "uniform", "rows", "fourier", "--sets", "synthetic", "--tasks", "kmeans", "--paper"]
    plot = [] if drawn else ["--no-plot"]
    printed = run(COMPRESSIVE, *sizes, *series, *plot, "-o", tmp_path / "f.png")
    assert "- kmeans, synthetic, σ² of the median: Nyström has the lower risk in " in printed
    assert "| kmeans | uniform | 2 | **" in printed
    names = {"f.csv", "f.png", "f-bandwidths.png"} if drawn else {"f.csv"}
    assert {path.name for path in tmp_path.iterdir()} == names
    with (tmp_path / "f.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 2 * 3 + 2 * 2
    risk = {(r["figure"], r["series"], r["m"]): float(r["median"]) for r in table if r["figure"] == "1"}
    assert 0.999 < risk["1", "uniform", "60"] < risk["1", "rows", "60"] < risk["1", "rows", "12"]


def test_compressive_learning_of_a_file_with_the_tools_own_distance(tmp_path):
    columns = {name: np.random.default_rng(ord(name)).normal(size=1500) for name in "abc"}
    pq.write_table(pa.table(columns), tmp_path / "a_bike_or_two.parquet")
    sizes = ["--rows", 1000, "--clusters", 2, "--features", 3, "--trials", 1, "--sizes", 2]
    series = ["--series", "quadrature", "--sets", "bike", "digits", "--tasks", "gmm", "--data", tmp_path]
    printed = run(COMPRESSIVE, *sizes, *series, "--no-plot", "-o", tmp_path / "f")
    for data in ("bike", "digits"):
        assert f"| {data}, σ² of the median | quadrature | " in printed
