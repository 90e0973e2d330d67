"""Are answers right where data are ugly? One small case of each kind, by several versions of this package.

    scripts/setup && .venv/bin/python scripts/bench/ugly.py [--data DIR] [--software DIR …] [--only WORD …]

Every case is a function of this file that uses the Python interface and returns what it found; --software
names checkouts of other versions of this package, to run the same functions with: drift far away from the
landmarks, corrupted rows, wild values, serial numbers, structure below the bandwidth, rows that are copies or
remember the one before, decoding from sums alone, too few of them, nulls, few rows, and what `info` takes.
These are examples, of a few dozen pairs at most: levels and powers are measured by compare.py and
independence.py, learning by learn.py.

Defaults of the package unless said, one thread, fixed seeds. With --data, false alarms of --robust are also
counted on taxi trips. All of it takes a minute of CPU for each version; --only runs cases whose names have
one of the words.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.signal import lfilter  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402

import nysketch  # noqa: E402

HERE = Path(nysketch.__file__).parent.parent
Floats = NDArray[np.float64]
Random = np.random.Generator
Found = dict[str, str]
TAXI = ["duration_s", "trip_distance", "fare_amount", "tip_amount"]


def sketch(rows: Any, basis: nysketch.Basis, seed: int = 0, **options: Any) -> nysketch.Sketch:
    return nysketch.sketch(rows, basis=basis, seed=seed, threads=1, **options)


def fit(rows: Any, **options: Any) -> nysketch.Basis:
    return nysketch.Basis.fit(rows, threads=1, **options)


def exact_mmd(x: Floats, y: Floats, bandwidth: float) -> float:
    """Return the MMD of all pairs of rows."""

    def mean(a: Floats, b: Floats) -> float:
        return float(np.exp(-cdist(a, b, "sqeuclidean") / (2 * bandwidth**2)).mean())

    return math.sqrt(mean(x, x) + mean(y, y) - 2 * mean(x, y))


def with_error(value: float, error: float | None) -> str:
    return f"{value:.4f}" + ("" if error is None or not math.isfinite(error) else f" ± {error:.2g}")


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


# ---- cases ----------------------------------------------------------------------------------------


def drift() -> Found:
    """Normal rows that move by six and three deviations, and unit rows of 768 numbers that move a little."""
    found = {}
    for d, shift, bandwidth in ((2, 6.0, 1.7), (10, 3.0, 4.3), (768, 0.02, 1.0)):
        random = np.random.default_rng(d)
        x, y = random.normal(size=(2, 4000 if d < 768 else 2000, d))
        if d == 768:
            x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
        y = y + shift
        basis = fit(x, landmarks=500, scale="none", bandwidth=bandwidth)
        one = nysketch.compare(sketch(x, basis, 1), sketch(y, basis, 2), explain=False)
        found[f"MMD, {d} columns, all moved by {shift:g} (exact: {exact_mmd(x, y, bandwidth):.4f})"] = (
            with_error(one.mmd, one.standard_error)
        )
    return found


def robust_level(data: Path | None) -> Found:
    """False alarms of --robust 64 among samples of the same heavy-tailed rows, linear kernel."""
    sources: dict[str, Callable[[Random], Floats]] = {}
    if data is not None:
        table = pq.read_table(data / "nyc_taxi_360k.parquet", columns=TAXI)
        rows = np.column_stack([table[name].to_numpy() for name in TAXI]).astype(float)
        rows = rows[np.isfinite(rows).all(axis=1)]
        sources["taxi trips"] = lambda random: rows[random.integers(len(rows), size=6000)]
    sources["lognormal rows"] = lambda random: np.exp(1.5 * random.normal(size=(6000, 4)))
    found = {}
    for name, draw in sources.items():
        basis = fit(draw(np.random.default_rng(7)), landmarks=40, kernel="linear", scale="robust")
        count = 0
        for i in range(60):
            random = np.random.default_rng([5, i])
            pair = [sketch(draw(random), basis, 2 * i + j, cells=False) for j in (0, 1)]
            count += bool(nysketch.compare(*pair, robust=64, explain=False, permutations=199).rejected)
        found[f"found different of 60 pairs of the same {name}, `--robust 64`"] = str(count)
    return found


def corrupted() -> Found:
    """What corrupted rows of several kinds do to the MMD with --robust, linear kernel, 10,000 rows a side."""
    found = {}
    cases = {
        "100 of 10⁶ a side, 1024 blocks": (1024, 100, 1e6, True),
        "200 of 20 deviations on one side, 64 blocks": (64, 200, 20.0, False),
        "1,000 of 5 deviations on one side, 64 blocks": (64, 1000, 5.0, False),
    }
    for name, (blocks, bad, value, both) in cases.items():
        factors, said, limits = [], 0, []
        for seed in range(4):
            random = np.random.default_rng(seed)
            x, y = random.normal(size=(2, 10_000, 5))
            y = y + 0.1
            basis = fit(random.normal(size=(2000, 5)), landmarks=30, kernel="linear", scale="none")
            options: dict[str, Any] = {"blocks": blocks, "cells": False}
            clean = nysketch.compare(sketch(x, basis, 1, **options), sketch(y, basis, 2, **options)).mmd
            for rows in (x, y) if both else (x,):
                rows[random.choice(len(rows), bad, replace=False)] = value * random.normal(1, 0.3, (bad, 5))
            pair = sketch(x, basis, 1, **options), sketch(y, basis, 2, **options)
            one = nysketch.compare(*pair, robust=blocks)
            factors.append(one.mmd / clean)
            said += one.verdict is None or any("corrupt" in note for note in one.notes)
            unseen = getattr(one.robustness, "unseen", None)
            limits.append("no limit" if unseen is None else f"limit {unseen.deviations:.2g} deviations")
        words = f"{shown(min(factors))} to {shown(max(factors))}; {said} warnings, {limits[0]}"
        found[f"{name}: MMD with `--robust {blocks}` over that of clean rows, 4 pairs"] = words
    return found


def wild() -> Found:
    """One value of 10⁶ where a column moves by 0.3 deviations, and where it depends on another."""
    random = np.random.default_rng(0)
    n = 5000
    x, noise, v = random.normal(size=(3, n))
    u = x + 0.5 * noise
    a, b = random.normal(size=(2, 10_000, 5))
    b[:, 0] += 0.3
    a[5, 0] = u[17] = 1e6
    basis = fit(a, landmarks=300)
    one = nysketch.compare(sketch(a, basis), sketch(b, basis))
    groups = {"x": ["x"], "y": ["u", "v"]}
    table = pa.table({"x": x, "u": u, "v": v})
    two = nysketch.independence(sketch(table, fit(table, landmarks=300, groups=groups)), threads=1)
    return {
        "a shift by 0.3 deviations, one value of 10⁶: p": f"{one.p_value:.3g}",
        "independence of x and x + noise, one value of 10⁶: p": f"{two.p_value:.3g}",
    }


def serial_numbers() -> Found:
    """Two days of one distribution, with a row number and a constant."""
    random = np.random.default_rng(0)
    days = [
        pa.table(
            {
                "id": np.arange(day * 20_000, (day + 1) * 20_000),
                "year": np.full(20_000, 2024),
                "x": random.normal(size=20_000),
                "y": random.normal(size=20_000),
            }
        )
        for day in (0, 1)
    ]
    basis = fit(days[0], landmarks=300)
    one = nysketch.compare(*(sketch(day, basis, i) for i, day in enumerate(days)))
    return {
        "two days of one distribution with a serial `id`": f"MMD {one.mmd:.3f}, p {one.p_value:.3g}",
        "their columns that are watched": ", ".join(f"`{name}`" for name in basis.columns),
    }


def fine_structure() -> Found:
    """Clusters with the deviations 0.2, 5 and 20, of which the first splits into two."""
    random = np.random.default_rng(0)

    def draw(*, split: bool) -> Floats:
        n = 20_000
        which = random.integers(3, size=n)
        middles, deviations = np.array([[0.0, 0], [100, 0], [0, 100]]), np.array([0.2, 5, 20])
        rows: Floats = middles[which] + deviations[which, None] * random.normal(size=(n, 2))
        if split:
            rows[which == 0, 0] += 0.6 * random.choice([-1.0, 1.0], np.count_nonzero(which == 0))
        return rows

    before, after, same = draw(split=False), draw(split=True), draw(split=False)
    basis = fit(before, landmarks=300)
    sketches = [sketch(rows, basis, i) for i, rows in enumerate((before, after, same))]
    advice = nysketch.info(sketches[0])
    enough = "fewer" in json.dumps(advice, default=str)
    return {
        "the tightest of three clusters splits: p": f"{nysketch.compare(*sketches[:2]).p_value:.3g}",
        "it does not: p": f"{nysketch.compare(sketches[0], sketches[2]).p_value:.3g}",
        "is told that fewer landmarks would do": "yes" if enough else "no",
    }


def dependent_rows() -> Found:
    """Tests of independence between columns that have nothing to do with each other."""

    def count(make: Callable[[Random], dict[str, Floats]], runs: int) -> str:
        rejected = undecided = 0
        for i in range(runs):
            table = pa.table(make(np.random.default_rng([i, 3])))
            basis = fit(table, landmarks=100, groups={"x": ["x"], "y": ["y"]}, seed=i)
            one = nysketch.independence(sketch(table, basis, i, cells=False), permutations=99, seed=i)
            rejected += bool(one.rejected)
            undecided += one.rejected is None
        return f"{rejected} of {runs}" + (f", {undecided} without a verdict" if undecided else "")

    def copies(random: Random) -> dict[str, Floats]:
        return {name: np.tile(random.normal(size=1000), 3) for name in "xy"}

    def remembering(random: Random) -> dict[str, Floats]:
        return {name: lfilter([1], [1, -0.9], random.normal(size=3000)) for name in "xy"}

    def constant(random: Random) -> dict[str, Floats]:
        return {"x": np.ones(2000), "y": random.normal(size=2000)}

    random = np.random.default_rng(0)
    many = pa.table({name: random.normal(size=200_000) for name in "xyz"})
    groups = {name: [name] for name in "xyz"}
    printed = nysketch.independence(
        sketch(many, fit(many, landmarks=200, groups=groups), cells=False), permutations=99, threads=1
    )
    return {
        "HSIC of three independent columns, 200,000 rows": with_error(printed.hsic, printed.standard_error),
        "found dependent: every row three times": count(copies, 30),
        "found dependent: series with correlation 0.9": count(remembering, 30),
        "found dependent: a constant": count(constant, 60),
    }


def greedy() -> Found:
    """Mixtures of ten Gaussians by one trial of `clomp` from sums alone, beside what they were drawn from."""
    excess = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        k = d = 10
        centres = 2 * k ** (1 / d) * random.normal(size=(k, d))
        x = centres[random.integers(k, size=10_000)] + random.normal(size=(10_000, d))
        squares = cdist(x, centres, "sqeuclidean")
        true = np.log(np.exp(-squares / 2).mean(axis=1)).mean() - d / 2 * math.log(2 * math.pi)
        basis = fit(x, landmarks=400, scale="none", bandwidth=math.sqrt(24), sampling="uniform", seed=seed)
        made = sketch(x, basis, cells=False, sample_rows=0, far_rows=0, spans=0)
        model = nysketch.learn_gmm(made, k, decoder="clomp", trials=1, seed=seed)
        excess.append(true + nysketch.score(model, x).mean_cost)
    words = f"{np.median(excess):.3f}; {max(excess):.3f}"
    return {"`clomp` from sums, 10 Gaussians, nats below the true density: median and worst of 8": words}


def too_little() -> Found:
    """Too few sums for a model, nulls that cost most rows, and a day with hardly any rows."""
    random = np.random.default_rng(0)
    k = d = 10
    centres = 2 * k ** (1 / d) * random.normal(size=(k, d))
    x = centres[random.integers(k, size=20_000)] + random.normal(size=(20_000, d))
    made = sketch(x, fit(x, landmarks=80), cells=False, sample_rows=0, far_rows=0, spans=0)
    model = nysketch.learn_kmeans(made, k)
    scale = np.asarray(model.scale)
    true = cdist(x / scale, np.asarray(model.centroids) / scale, "sqeuclidean").min(axis=1).mean()
    own = model.facts["mean_squared_distance"]
    itself = "none" if own is None else f"{own:.2f}"
    holes = {name: random.normal(size=5000) for name in "abc"}
    holes["c"][random.random(5000) < 0.97] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nysketch.sketch(pa.table(holes), nulls="drop", landmarks=50, threads=1)
    told = [str(w.message) for w in caught if "drop" in str(w.message).lower()]
    y = random.normal(size=(20_295, 3))
    basis = fit(y[:20_000], landmarks=200)
    few = nysketch.compare(sketch(y[:20_000], basis), sketch(y[20_000:], basis, 1))
    said = getattr(few, "undecided", None)
    verdict = "undecided" if said is not None and said() else "no significant difference"
    return {
        f"80 sums for 110 parameters: a model's own estimate (by the rows {true:.2f})": itself,
        "97 % of the rows dropped for nulls": told[0] if told else "not a word",
        "295 rows beside 20,000": verdict,
    }


def small_answers() -> Found:
    """CPU seconds of `nysketch info` on a sketch of 1,000 landmarks."""
    rows = np.random.default_rng(0).normal(size=(20_000, 10)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.nysk"
        nysketch.save(sketch(rows, fit(rows, landmarks=1000)), path)
        times = []
        for _ in range(3):
            start = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "nysketch", "info", str(path)]
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
    return {"CPU seconds of `nysketch info`, 1,000 landmarks": f"{min(times):.2f}"}


CASES: dict[str, Callable[..., Found]] = {
    "drift": drift,
    "robust-level": robust_level,  # the one that takes a folder
    "corrupted": corrupted,
    "wild": wild,
    "serial-numbers": serial_numbers,
    "fine-structure": fine_structure,
    "dependent-rows": dependent_rows,
    "greedy": greedy,
    "too-little": too_little,
    "small-answers": small_answers,
}


# ---- all versions ---------------------------------------------------------------------------------


def measured(case: str, data: Path | None, software: Path) -> Found:
    """Run a case in a process of its own, with the package of that checkout."""
    command = [sys.executable, __file__, "--here", case, *(["--data", str(data)] if data else [])]
    environment = os.environ | {"PYTHONPATH": str(software)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: Found = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder with nyc_taxi_360k.parquet")
    parser.add_argument("--software", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    parser.add_argument("--here", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        warnings.simplefilter("ignore")
        given = [options.data] if options.here == "robust-level" else []
        print(json.dumps(CASES[options.here](*given)))
        return
    versions = [*(path.resolve() for path in options.software), HERE]
    names = [*(path.name for path in options.software), "here"]
    print(f"| case | {' | '.join(names)} |\n|---{'|---' * len(names)}|")
    for case in CASES:
        if any(word in case for word in options.only):
            found = [measured(case, options.data, version) for version in versions]
            for what in dict.fromkeys(name for one in found for name in one):
                print(f"| {what} | {' | '.join(one.get(what, '–') for one in found)} |", flush=True)


if __name__ == "__main__":
    main()
