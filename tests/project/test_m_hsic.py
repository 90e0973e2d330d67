"""scripts/papers/m_hsic.py: its estimators against slow twins, its graphs and additive models, tiny runs."""

import csv
import importlib.util
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import ROOT

SCRIPT = ROOT / "scripts" / "papers" / "m_hsic.py"
DATA = ROOT.parent / "shared" / "data"
DRAWN = importlib.util.find_spec("matplotlib") is not None


def started(*arguments):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)


def run(*arguments):
    done = started(*arguments, *([] if DRAWN else ["--no-plot"]))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("script_m_hsic", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def sample_of(script, n, columns, shuffles=3, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, columns))
    rows[:, -1] += rows[:, 0] ** 2
    return script.Sample.of(rows, shuffles, rng)


def shuffled(sample, number):
    others = [sample.rows[order, i + 1] for i, order in enumerate(sample.orders[number])]
    return np.column_stack([sample.rows[:, 0], *others])


def definition(kernel, rows):
    """|mean of Π φ(x) − Π means of φ(x)|², by loops over rows."""
    grams = kernel.factors(rows, rows)
    n, everyone = len(rows), range(len(rows))
    joint = sum(math.prod(K[i, j] for K in grams) for i, j in itertools.product(everyone, everyone)) / n**2
    crossed = sum(math.prod(sum(K[i, j] for j in everyone) / n for K in grams) for i in everyone) / n
    apart = math.prod(sum(K[i, j] for i in everyone for j in everyone) / n**2 for K in grams)
    return joint + apart - 2 * crossed


@pytest.mark.slow
@pytest.mark.parametrize("columns", [2, 3])
def test_v_hsic_is_the_definition(script, columns):
    sample = sample_of(script, 17, columns)
    assert (sample.orders[0] == np.arange(17)).all()
    expected = [definition(sample.kernel, shuffled(sample, i)) for i in range(4)]
    assert script.v_hsic(sample) == pytest.approx(expected, rel=1e-10)


def test_the_kernel_is_that_of_the_median_heuristic(script):
    sample = sample_of(script, 31, 2)
    squares = np.subtract.outer(sample.rows[:, 1], sample.rows[:, 1]) ** 2
    median = np.median(squares[np.triu_indices(31, 1)])
    assert sample.kernel.factors(sample.rows, sample.rows)[1] == pytest.approx(np.exp(-squares / median))


@pytest.mark.parametrize("columns", [2, 3])
def test_n_mhsic_at_all_rows_is_v_hsic(script, columns):
    sample = sample_of(script, 60, columns)
    exact, rng = script.v_hsic(sample), np.random.default_rng(1)
    assert script.n_mhsic_estimate(sample, rng, 60) == pytest.approx(exact[0], abs=1e-8)
    # At landmarks that are observed rows, others can only be approximated.
    assert script.n_mhsic(sample, rng, 60)[0] == pytest.approx(exact[0], abs=1e-8)
    same = np.tile(np.arange(60), (4, 1))
    grams = np.array(sample.kernel.factors(sample.rows, sample.rows))
    assert script.at_drawn(grams, sample.orders, same) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("columns", [2, 3])
def test_n_mhsic_of_shuffles_is_that_of_shuffled_rows(script, columns):
    sample = sample_of(script, 80, columns)
    found = script.n_mhsic(sample, np.random.default_rng(2), 9)
    # The library's estimate of the same rows at the same landmarks.
    assert found[0] == pytest.approx(script.n_mhsic_estimate(sample, np.random.default_rng(2), 9), abs=1e-10)
    places = script.different_rows(sample, 9, np.random.default_rng(2))
    basis = script.basis_at(sample, places)
    for number, value in enumerate(found):
        rows = shuffled(sample, number)
        features = basis.to_features(basis.values(rows)).mean(axis=0)
        parts = [basis.of_groups([i]) for i in range(columns)]
        means = [part.values(rows[:, [i]]).mean(axis=0) for i, part in enumerate(parts)]
        weights = [
            np.linalg.pinv(part.gram(), 1e-8, hermitian=True) @ m
            for part, m in zip(parts, means, strict=True)
        ]
        length = math.prod(w @ part.gram() @ w for part, w in zip(parts, weights, strict=True))
        crossed = np.prod([part.gram() @ w for part, w in zip(parts, weights, strict=True)], axis=0)
        expected = features @ features + length - 2 * features @ basis.to_features(crossed)
        assert value == pytest.approx(expected, abs=1e-8)


def equation_18(kernel, rows, landmarks, ridge):
    """With matrices that are made invertible."""
    products, length, crossed = [], 1.0, 1.0
    for group in kernel.groups:
        z, x = group.of(landmarks), group.of(rows)
        K = group.kernel(z, z)
        weights = np.linalg.solve(K + ridge * np.eye(len(z)), group.kernel(z, x).mean(axis=1))
        length, crossed = length * (weights @ K @ weights), crossed * (K @ weights)
        products.append((K, group.kernel(z, x)))
    K, values = (np.prod(each, axis=0) for each in zip(*products, strict=True))
    weights = np.linalg.solve(K + ridge * np.eye(len(landmarks)), values.mean(axis=1))
    return weights @ K @ weights + length - 2 * weights @ crossed


@pytest.mark.parametrize("columns", [2, 3])
def test_redrawn_landmarks_are_those_of_shuffled_rows(script, columns):
    sample = sample_of(script, 50, columns)
    places = np.random.default_rng(3).integers(50, size=(4, 8))
    grams = np.array(sample.kernel.factors(sample.rows, sample.rows))
    found = script.at_drawn(grams, sample.orders, places)
    every = [shuffled(sample, number) for number in range(4)]
    pairs = zip(every, places, strict=True)
    expected = [equation_18(sample.kernel, rows, rows[at], script.RIDGE) for rows, at in pairs]
    assert found == pytest.approx(expected, abs=1e-9)


def test_redrawn_statistic_is_averaged_over_draws(script):
    sample = sample_of(script, 40, 2)
    many, once = (
        np.var([script.n_mhsic_redrawn(sample, np.random.default_rng(seed), 6, k)[0] for seed in range(40)])
        for k in (50, 1)
    )
    assert many < once / 10
    assert len(script.n_mhsic_redrawn(sample, np.random.default_rng(0), 6, 50)) == len(sample.orders)


def test_n_hsic_at_all_rows_is_v_hsic(script):
    sample = sample_of(script, 60, 2)
    exact = script.v_hsic(sample)
    assert script.n_hsic(sample, np.random.default_rng(1), 60) == pytest.approx(exact, abs=1e-8)
    # Drawn with replacement, some rows are missing, but others are next to them.
    assert script.n_hsic_redrawn(sample, np.random.default_rng(1), 60) == pytest.approx(exact, rel=0.05)


def test_rff_hsic_comes_close_to_v_hsic(script):
    sample = sample_of(script, 60, 2)
    exact = script.v_hsic(sample)
    assert script.rff_hsic(sample, np.random.default_rng(1), 1000) == pytest.approx(exact, rel=0.15)
    redrawn = script.rff_hsic_redrawn(sample, np.random.default_rng(1), 1000)
    assert redrawn == pytest.approx(exact, rel=0.15)


def test_tests_find_dependence_and_only_that(script):
    rng = np.random.default_rng(4)
    for columns in (2, 3):
        noise = rng.standard_normal((100, columns))
        linked = np.column_stack([noise[:, :-1], noise[:, 0] + 0.2 * noise[:, -1]])
        for name in script.names_for(columns):
            test = script.named_test(name, 100)
            assert test(script.Sample.of(linked, 99, rng), rng).p_value == 0.01
        exact = script.named_test(("V-HSIC", "", ""), 100)
        values = [
            exact(script.Sample.of(rng.permuted(linked, axis=0), 19, rng), rng).p_value for _ in range(60)
        ]
        assert 0.35 < np.mean(values) < 0.7  # 21/40 and 4 standard errors


def test_graphs(script):
    assert [len(script.all_graphs(nodes)) for nodes in (2, 3, 4)] == [3, 25, 543]
    assert len(set(script.all_graphs(3))) == 25
    assert script.causal_order(((1,), (2,), (0,))) is None
    full = script.full_graphs(4)
    assert len(set(full)) == 24
    assert {sum(map(len, graph)) for graph in full} == {6}
    assert {*script.full_graphs(3)} == {g for g in script.all_graphs(3) if sum(map(len, g)) == 3}
    assert script.edges_of(((), (0,), (0, 1)), "ABC") == "A→B, A→C, B→C"


def test_additive_model_finds_smooth_functions(script):
    rng = np.random.default_rng(5)
    x = rng.uniform(-2, 2, (400, 2))
    noise = 0.1 * rng.standard_normal(400)
    found = script.additive_residuals(3 + np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + noise, x)
    assert np.corrcoef(found, noise)[0, 1] > 0.96
    assert found.mean() == pytest.approx(0, abs=1e-10)
    # No penalty can bend a straight line, whatever its units.
    straight = script.additive_residuals(1e6 * x[:, 0], 1e3 * x[:, :1])
    assert np.abs(straight).max() < 1e-2
    assert script.additive_residuals(noise, x[:, :0]) is noise


def test_spline_penalty_against_quadrature(script):
    x = np.sort(np.random.default_rng(6).uniform(0, 3, 50))
    values, penalty = script.spline_basis(x)
    assert values.shape == (50, script.FUNCTIONS - 1)
    assert values.mean(axis=0) == pytest.approx(0, abs=1e-12)
    # A cubic is among the functions: ∫ (6 x)² from the smallest to the largest x.
    weights = np.linalg.lstsq(values, x**3 - (x**3).mean(), rcond=None)[0]
    assert values @ weights == pytest.approx(x**3 - (x**3).mean(), abs=1e-9)
    assert weights @ penalty @ weights == pytest.approx(12 * (x[-1] ** 3 - x[0] ** 3), rel=1e-6)


@pytest.mark.slow
def test_simulated_tables_follow_their_graph(script):
    graph = ((), (0,), (0, 1), (0, 1, 2))
    rows = script.drawn_from(graph, 500, np.random.default_rng(7))
    assert rows.shape == (500, 4)
    assert 0.8 < rows[:, 0].var() < 1.7
    x = np.linspace(0, 4, 200)
    drawn = [script.gaussian_process(x, np.random.default_rng(seed)) for seed in range(400)]
    assert np.var([f[0] for f in drawn]) == pytest.approx(1, abs=0.3)
    assert np.mean([f[0] * f[50] for f in drawn]) == pytest.approx(math.exp(-(x[50] ** 2) / 2), abs=0.2)
    assert max(np.abs(np.diff(f)).max() for f in drawn) < 0.15  # smooth


def rows_of(path):
    with path.open() as file:
        return [*csv.DictReader(file)]


@pytest.mark.slow
def test_sections_in_small(tmp_path):
    random = np.random.default_rng(0)
    altitude = random.normal(size=60)
    table = {"a": altitude, "t": altitude**2 + random.normal(size=60), "s": random.normal(size=60)}
    pq.write_table(pa.table(table), tmp_path / "dwd_weather_349x3.parquet")
    out = tmp_path / "out"
    out.mkdir()
    sizes = ["--estimate-sizes", 50, 100, "--estimate-runs", 3, "--power-sizes", 20, 46, "--trials", 3]
    sizes += ["--level-sizes", 20, "--level-runs", 2, "--permutations", 19, "--graph-sizes", 40]
    sizes += ["--graph-runs", 1, "--weather-permutations", 19, "--weather-landmarks", 9]
    printed = run(*sizes, "--data", tmp_path, "-o", out / "f.svg", "--csv", out / "g.csv")
    assert "| N-MHSIC, 2√n, redrawn | 2 |" in printed
    assert " (0.40) |" in printed  # of the authors' code
    assert "altitude→temperature, altitude→sunshine, temperature→sunshine | " in printed
    names = {f"g-{i}.csv" for i in range(1, 6)} | ({f"f-{i}.svg" for i in range(1, 6)} if DRAWN else set())
    assert {path.name for path in out.iterdir()} == names
    assert len(rows_of(out / "g-1.csv")) == 2 * 4
    assert len(rows_of(out / "g-2.csv")) == 2 * 11
    assert {(r["columns"], r["runs"]) for r in rows_of(out / "g-3.csv")} == {("2", "2"), ("3", "2")}
    weather = rows_of(out / "g-4.csv")
    assert len(weather) == 25 * 4
    assert len({r["graph"] for r in weather}) == 25
    assert all(1 / 20 <= float(r["p_value"]) <= 1 for r in weather)
    assert {r["estimator"] for r in rows_of(out / "g-5.csv")} == {"V-HSIC", "N-MHSIC", "nysketch"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--section", 4], "needs --data"),
        (["--section", 4, "--data", "."], "there is no dwd_weather_349x3.parquet in"),
        (["--permutations", 18], "fewer than 19 permutations"),
        (["--trials", 0], "at least 1 run"),
        (["--graph-sizes", 20], "start at 40"),
        (["-o", "f.pdf"], "not .pdf"),
        (["-o", "nowhere/f.png"], "there is no folder nowhere"),
    ],
)
def test_options_are_checked_at_once(script, capsys, arguments, message):
    with pytest.raises(SystemExit):
        script.parse([*map(str, arguments), "--no-plot"])
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the real data sets are not beside the checkout")
def test_the_weather_graph_of_the_paper_is_the_most_plausible(script):
    options = script.parse(
        ["--section", "4", "--data", str(DATA), "--weather-permutations", "99", "--no-plot"]
    )
    found = script.weather(options)
    for outcomes in found.values():
        assert max(outcomes, key=lambda graph: script.plausible(outcomes[graph])) == ((), (0,), (0, 1))
    exact = found["V-HSIC", "", ""][((), (0,), (0, 1))]
    assert exact.statistic == pytest.approx(2.95e-3, rel=0.05)
    assert exact.quantile == pytest.approx(2.44e-3, rel=0.2)
