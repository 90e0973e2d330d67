"""How good and how fast are tests of independence from sketches? Data are made here, but for section real.

    scripts/setup && .venv/bin/python scripts/bench/independence.py [--section NAME] [--runs N] [--json out]

Sections (--section; all of them unless told otherwise):

  speed   One pass over a Parquet file of --rows rows, 6 columns in 3 groups of 2, m = 500: rows a second and
          peak memory of `nysketch sketch` without groups, with groups but without what the test needs
          (--shuffles 0), with it, and with pairs; seconds of `nysketch independence` with 200 shuffles. And
          what people do without a sketch: V-HSIC of fewer rows, by permutations, in NumPy. Each number is of
          one process; all are measured in one run
  level   Independent groups, N(0, 1): how often is a dependence found, at 5 %? The rate must lie in the
          interval that 99 % of such counts fall into if the level is right. Exact tests of tables whose rows
          are all in the sample; tests by a sample of a tenth of 20,000 rows, with landmarks that are rows of
          the table; and both with the table sorted by the first column. 1,000 tables each, 500 by a sample
  ugly    The same where rows are not independent observations: every row three times, series of which both
          groups or one remember (AR(1)), random walks, integers, a constant. A test without a verdict is
          counted apart. 500 tables each
  real    The same on rows of real tables whose groups were drawn independently of each other, with
          replacement: taxi trips, KEGG, hourly bike rentals, from the folder --data. 500 tables each
  error   How often is the printed HSIC within two printed errors of the truth? 0 for independent columns,
          otherwise that of the distribution, by its integrals. 2, 3 and 5 groups; few rows, and many with
          few landmarks. 50 tables each
  power   Tables of two groups, y = a·x + N(0, 1), and of three of which no two depend on each other: how
          often is it found by sketches, by V-HSIC with permutations of all rows, and by the correlation of
          the first and the last column? 200 tables each

On one core, speed takes 5 minutes at 5,000,000 rows, level 25, ugly 6, real 6, error 3, power 10. --runs 20
gives a quick look.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.signal import lfilter  # noqa: E402
from scipy.stats import binom, pearsonr  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402

Floats = NDArray[np.float64]
Result = dict[str, Any]

ALPHA = 0.05
RUNS = {"level": 1000, "ugly": 500, "real": 500, "error": 50, "power": 200}
SHUFFLES = 199  # of which 5 % is a whole number


# ---- data -----------------------------------------------------------------------------------------


def independent(rng: np.random.Generator, n: int, groups: int, d: int) -> Floats:
    return rng.standard_normal((n, groups * d))


def in_order(rng: np.random.Generator, n: int, groups: int, d: int) -> Floats:
    rows = rng.standard_normal((n, groups * d))
    return rows[np.argsort(rows[:, 0])]


def copied(rng: np.random.Generator, n: int, strength: float) -> Floats:
    x = rng.standard_normal((n, 1))
    return np.hstack([x, strength * x + rng.standard_normal((n, 1))])


def of_three(rng: np.random.Generator, n: int, share: float) -> Floats:
    """Return three columns; in a share of the rows the sign of the last is that of the first two."""
    rows = rng.standard_normal((n, 3))
    bound = rng.random(n) < share
    rows[bound, 2] = np.abs(rows[bound, 2]) * np.sign(rows[bound, 0] * rows[bound, 1])
    return rows


def grouped(rows: Floats, groups: int) -> tuple[pa.Table, dict[str, list[str]]]:
    """Return a table, and its columns in groups of equal size."""
    names = [f"c{i}" for i in range(rows.shape[1])]
    width = len(names) // groups
    parts = {f"g{i}": names[i * width : (i + 1) * width] for i in range(groups)}
    return pa.table(dict(zip(names, rows.T, strict=True))), parts


def tested(
    rows: Floats,
    groups: int,
    seed: int,
    *,
    m: int,
    shuffle_rows: int | None = None,
    shuffles: int = SHUFFLES,
    spans: int = 0,
) -> Any:
    """Sketch a table with landmarks from its own rows, and test it."""
    table, parts = grouped(rows, groups)
    sketch = nysketch.sketch(
        table,
        landmarks=m,
        groups=parts,
        seed=seed,
        cells=False,
        spans=spans,
        sample_rows=0,
        permutation_rows=shuffle_rows,
        threads=1,
    )
    return nysketch.independence(sketch, permutations=shuffles, seed=seed)


# ---- level ----------------------------------------------------------------------------------------


def rates(outcomes: Iterator[bool], runs: int, label: str) -> float:
    bar = tqdm(outcomes, label, total=runs, file=sys.stderr, disable=None, leave=False)
    return float(np.mean(list(bar)))


def level(wanted: int | None) -> Iterator[Result]:
    cases: list[tuple[str, Callable[..., Floats], int, int, int, int, int | None]] = [
        ("exact", independent, 200, 2, 1, 28, None),
        ("exact", independent, 200, 3, 1, 28, None),
        ("exact", independent, 200, 3, 5, 100, None),
        ("exact, sorted", in_order, 200, 2, 1, 28, None),
        ("by a sample", independent, 20_000, 2, 1, 100, 2000),
        ("by a sample", independent, 20_000, 3, 2, 200, 2000),
        ("by a sample", independent, 20_000, 3, 5, 500, 2000),
        ("by a sample, sorted", in_order, 20_000, 3, 2, 200, 2000),
    ]
    for name, draw, n, groups, d, m, sampled in cases:
        runs = wanted or (RUNS["level"] if sampled is None else RUNS["level"] // 2)

        def outcome(run: int, case: Any = (draw, n, groups, d, m, sampled)) -> bool:
            draw, n, groups, d, m, sampled = case
            rows = draw(np.random.default_rng([run, n, groups, d]), n, groups, d)
            found = tested(rows, groups, run, m=m, shuffle_rows=sampled)
            assert found.verdict.exact == (sampled is None)
            return bool(found.rejected)

        low, high = (bound / runs for bound in binom.interval(0.99, runs, ALPHA))
        found = rates(map(outcome, range(runs)), runs, f"{name} {groups} × {d}")
        yield {
            "table": "Independent groups: found dependent, at 5 %",
            "test": name,
            "n": n,
            "groups": groups,
            "columns of each": d,
            "m": m,
            "tables": runs,
            "found": found,
            "99 % interval": f"{low:.3f}–{high:.3f}",
            "inside": bool(low <= found <= high),
        }


# ---- ugly rows ------------------------------------------------------------------------------------


def series(rng: np.random.Generator, n: int, memory: float) -> Floats:
    """Return a series of which each value remembers this share of the one before."""
    return np.asarray(lfilter([1.0], [1.0, -memory], rng.standard_normal(n + 500))[500:])


def two_series(rng: np.random.Generator, n: int, first: float, second: float) -> Floats:
    return np.stack([series(rng, n, first), series(rng, n, second)], axis=1)


def walks(rng: np.random.Generator, n: int) -> Floats:
    return np.asarray(rng.standard_normal((n, 2)).cumsum(axis=0))


def copies(rng: np.random.Generator, n: int, *, scattered: bool) -> Floats:
    """Return n rows, of which each is there three times."""
    rows = rng.standard_normal((n // 3, 2))
    return np.tile(rows, (3, 1)) if scattered else np.repeat(rows, 3, axis=0)


def integers(rng: np.random.Generator, n: int) -> Floats:
    return rng.integers([2, 5], size=(n, 2)).astype(float)


def with_constant(rng: np.random.Generator, n: int) -> Floats:
    return np.stack([rng.standard_normal(n), np.ones(n)], axis=1)


def ugly(wanted: int | None) -> Iterator[Result]:
    cases: list[tuple[str, Callable[..., Floats], int, int | None]] = [
        ("independent rows", partial(independent, groups=2, d=1), 600, None),
        ("every row three times, scattered", partial(copies, scattered=True), 600, None),
        ("every row three times, in a row", partial(copies, scattered=False), 600, None),
        ("every row three times, by a sample", partial(copies, scattered=True), 6000, 1000),
        ("AR 0.3 in both groups", partial(two_series, first=0.3, second=0.3), 600, None),
        ("AR 0.9 in both groups", partial(two_series, first=0.9, second=0.9), 600, None),
        ("AR 0.9 in both groups, by a sample", partial(two_series, first=0.9, second=0.9), 6000, 1000),
        ("AR 0.9 in one group", partial(two_series, first=0.9, second=0.0), 600, None),
        ("AR 0.99 in both groups", partial(two_series, first=0.99, second=0.99), 600, None),
        ("two random walks", walks, 600, None),
        ("two and five different values", integers, 600, None),
        ("a constant", with_constant, 600, None),
    ]
    for name, draw, n, sampled in cases:
        runs = wanted or RUNS["ugly"]

        def rows_of(run: int, draw: Any = draw, n: int = n) -> Floats:
            return np.asarray(draw(np.random.default_rng([run, n]), n))

        yield level_of(
            "Independent groups of ugly rows: found dependent, at 5 %", name, rows_of, runs, sampled
        )


def level_of(
    title: str, name: str, rows_of: Callable[[int], Floats], runs: int, sampled: int | None
) -> Result:
    verdicts = []
    for run in tqdm(range(runs), name, file=sys.stderr, disable=None, leave=False):
        rows = rows_of(run)
        verdicts.append(tested(rows, 2, run, m=40, shuffle_rows=sampled, shuffles=99, spans=64).rejected)
    answered = [verdict for verdict in verdicts if verdict is not None]
    low, high = binom.interval(0.99, max(len(answered), 1), ALPHA)
    return {
        "table": title,
        "rows": name,
        "n": len(rows),
        "tables": runs,
        "no verdict": runs - len(answered),
        "found": sum(answered),
        "99 % interval": f"{low:.0f}–{high:.0f}",
        "inside": bool(low <= sum(answered) <= high),
    }


REAL = {
    "taxi": ("nyc_taxi_360k.parquet", ["trip_distance", "duration_s"], ["fare_amount", "tip_amount"]),
    "KEGG": ("uci_keggundirected_63608x28.parquet", [2, 5, 8], [11, 14, 17]),
    "bike": ("uci_bike_17379x18.parquet", [3, 7, 9], [10, 14, 16]),
}


def real(wanted: int | None, folder: Path | None) -> Iterator[Result]:
    if folder is None:
        print("section real: skipped, without --data", file=sys.stderr)
        return
    for name, (file, first, second) in REAL.items():
        table = pq.read_table(folder / file)
        names = [c if isinstance(c, str) else table.column_names[c] for c in (*first, *second)]
        data = np.stack([table[c].to_numpy().astype(float) for c in names], axis=1)
        data = data[np.isfinite(data).all(axis=1)]
        for how, n, sampled in (("all rows", 600, None), ("by a sample", 6000, 1000)):

            def rows_of(run: int, data: Floats = data, n: int = n) -> Floats:
                rng = np.random.default_rng([run, n])
                half = data.shape[1] // 2
                first, second = rng.integers(len(data), size=(2, n))
                return np.concatenate([data[first, :half], data[second, half:]], axis=1)

            title = "Groups of real rows, drawn independently: found dependent, at 5 %"
            yield level_of(title, f"{name}, {how}", rows_of, wanted or RUNS["real"], sampled)


# ---- error ----------------------------------------------------------------------------------------


def hsic_of_normals(basis: nysketch.Basis, covariance: Floats) -> float:
    """HSIC of normal columns with Gaussian kernels, one column to a group, by its integrals."""
    widths = np.array([group.kernel.bandwidth**2 for group in basis.kernel.groups])
    scaled = covariance / np.outer(basis.scale, basis.scale)
    own, one = np.diag(scaled), np.eye(len(widths))
    joint = np.linalg.det(one + 2 * scaled / widths) ** -0.5
    base = np.prod((1 + 2 * own / widths) ** -0.5)
    crossed = np.prod((1 + own / widths) ** -0.5) * np.linalg.det(one + scaled / (widths + own)) ** -0.5
    return math.sqrt(max(float(joint + base - 2 * crossed), 0.0))


def error(wanted: int | None) -> Iterator[Result]:
    def common(rng: np.random.Generator, n: int, groups: int, strength: float) -> Floats:
        return strength * rng.standard_normal((n, 1)) + rng.standard_normal((n, groups))

    runs = wanted or RUNS["error"]
    cases = [(2, 500, 40), (2, 50_000, 50), (3, 50_000, 100), (5, 50_000, 200)]
    for (groups, n, m), strength in ((case, a) for case in cases for a in (0.0, 0.3, 1.0)):
        first = common(np.random.default_rng([1, groups]), n, groups, strength)
        table, parts = grouped(first, groups)
        basis = nysketch.Basis.fit(table, landmarks=m, groups=parts)
        truth = hsic_of_normals(basis, np.eye(groups) + strength**2) if strength else 0.0
        found = []
        for run in tqdm(range(runs), f"{groups} groups", file=sys.stderr, disable=None, leave=False):
            rows = common(np.random.default_rng([3, run]), n, groups, strength)
            options: dict[str, Any] = {"cells": False, "spans": 0, "permutation_rows": 2000, "threads": 1}
            sketch = nysketch.sketch(grouped(rows, groups)[0], basis=basis, seed=run, **options)
            found.append(nysketch.independence(sketch, permutations=0, seed=run))
        away = np.array([(each.hsic - truth) / each.standard_error for each in found])
        yield {
            "table": "HSIC and its printed error",
            "groups": groups,
            "n": n,
            "m": m,
            "common part": strength,
            "tables": runs,
            "truth": f"{truth:.4f}",
            "mean HSIC": f"{np.mean([each.hsic for each in found]):.4f}",
            "mean error": f"{np.mean([each.standard_error for each in found]):.4f}",
            "farthest, errors": float(np.abs(away).max()),
            "within two": float((np.abs(away) <= 2).mean()),
        }


# ---- power ----------------------------------------------------------------------------------------


def v_hsic_test(rows: Floats, groups: int, rng: np.random.Generator) -> bool:
    """The permutation test of V-HSIC, with the kernels that nysketch would take."""
    table, parts = grouped(rows, groups)
    basis = nysketch.Basis.fit(table, landmarks=2, groups=parts)
    grams = basis.kernel.factors(*[basis.transform(rows)] * 2)
    n = len(rows)
    base = np.prod([gram.mean() for gram in grams])
    row_means = [gram.mean(axis=1) for gram in grams]

    def statistic(orders: list[NDArray[np.int64]]) -> float:
        joint, crossed = grams[0].copy(), row_means[0].copy()
        for gram, means, order in zip(grams[1:], row_means[1:], orders, strict=True):
            joint *= gram[np.ix_(order, order)]
            crossed *= means[order]
        return float(joint.mean() + base - 2 * crossed.mean())

    observed = statistic([np.arange(n)] * (groups - 1))
    drawn = [statistic([rng.permutation(n) for _ in range(groups - 1)]) for _ in range(SHUFFLES)]
    return (1 + sum(value >= observed for value in drawn)) / (SHUFFLES + 1) <= ALPHA


def power(wanted: int | None) -> Iterator[Result]:
    runs = wanted or RUNS["power"]
    cases: list[tuple[str, Callable[..., Floats], int]] = [
        ("y = 0.2 x + N(0, 1)", partial(copied, strength=0.2), 2),
        ("y = 0.4 x + N(0, 1)", partial(copied, strength=0.4), 2),
        ("signs of three, in half of the rows", partial(of_three, share=0.5), 3),
    ]
    for (name, draw, groups), n in ((case, n) for case in cases for n in (100, 400)):
        counts = {"sketch": 0, "V-HSIC, all rows": 0, "correlation": 0}
        for run in tqdm(range(runs), name, file=sys.stderr, disable=None, leave=False):
            rng = np.random.default_rng([run, n, groups])
            rows = draw(rng, n)
            m = round(2 * math.sqrt(n))
            counts["sketch"] += bool(tested(rows, groups, run, m=m).rejected)
            counts["V-HSIC, all rows"] += v_hsic_test(rows, groups, rng)
            counts["correlation"] += bool(pearsonr(rows[:, 0], rows[:, -1]).pvalue <= ALPHA)
        yield {
            "table": "Dependent groups: found, at 5 %; sketches at m = 2√n landmarks",
            "rows": name,
            "n": n,
            "tables": runs,
            **{key: count / runs for key, count in counts.items()},
        }


# ---- speed ----------------------------------------------------------------------------------------


def timed(*arguments: Any) -> tuple[float, float]:
    """Run a command of nysketch; return its seconds, and the most memory it had, in MB."""
    code = "import sys; from nysketch.cli import main; main()"
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, complaint = process.communicate()
    if process.returncode:
        raise SystemExit(complaint.decode())
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def write_table(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in "abcdef"])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, 250_000):
            part = rng.standard_normal((min(250_000, rows - start), 6))
            writer.write_table(pa.table(dict(zip("abcdef", part.T, strict=True))))


def speed(rows: int, threads: int) -> Iterator[Result]:
    groups = ["--group", "x=a,b", "--group", "y=c,d", "--group", "z=e,f"]
    title = f"One pass over {rows:,} rows, m = 500, {threads} thread(s)"
    with tempfile.TemporaryDirectory() as folder:
        table, sketch = Path(folder) / "t.parquet", Path(folder) / "t.nysk"
        write_table(table, rows)
        common = ["sketch", table, "-m", 500, "-o", sketch, "--no-cells", "--threads", threads, "-q"]
        common += ["--if-exists", "overwrite"]
        timed(*common, *groups, "--pairs")  # compiles what is not compiled yet
        for name, more in (
            ("no groups", []),
            ("groups, --shuffles 0", [*groups, "--shuffles", 0]),
            ("groups and their sums", [*groups, "--shuffles", 200]),
            ("groups and pairs", [*groups, "--shuffles", 200, "--pairs"]),
        ):
            seconds, memory = timed(*common, *more)
            size = sketch.stat().st_size / 1e6
            facts = {"seconds": seconds, "rows a second": rows / seconds, "peak MB so far": memory}
            yield {"table": title, "what": f"sketch, {name}", **facts, "file, MB": size}
        for name, more in (("200 shuffles", []), ("200 shuffles, pairs", ["--pairs"])):
            seconds, memory = timed("independence", sketch, "--shuffles", 200, "--threads", threads, *more)
            facts = {"seconds": seconds, "rows a second": rows / seconds, "peak MB so far": memory}
            yield {"table": title, "what": f"independence, {name}", **facts, "file, MB": 0.0}
    for n in (1000, 3000) if rows >= 100_000 else (300,):  # a quick look shall be quick
        data = independent(np.random.default_rng(0), n, 3, 2)
        start = time.perf_counter()
        v_hsic_test(data, 3, np.random.default_rng(0))
        seconds = time.perf_counter() - start
        yield {
            "table": "V-HSIC of all rows in NumPy, 199 permutations",
            "n": n,
            "seconds": seconds,
            "gram matrices, MB": 3 * 8 * n**2 / 1e6,
        }


# ---- what is shown --------------------------------------------------------------------------------


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_results(results: list[Result]) -> None:
    for table in dict.fromkeys(r["table"] for r in results):
        rows = [r for r in results if r["table"] == table]
        header = [name for name in rows[0] if name not in ("table", "section")]
        print(f"\n{table}:\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
        for row in rows:
            print(f"| {' | '.join(shown(row[name]) for name in header)} |")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("speed", "level", "ugly", "real", "error", "power")
    parser.add_argument("--section", nargs="+", choices=names, default=[*names], metavar="NAME")
    parser.add_argument("--runs", type=int, help="tables per case, instead of what the sections say")
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the table of section speed")
    parser.add_argument("--threads", type=int, default=1, help="of section speed")
    parser.add_argument("--data", type=Path, help="folder with the tables of section real")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    return options


def main() -> None:
    options = parse()
    sections: dict[str, Callable[[], Iterator[Result]]] = {
        "speed": partial(speed, options.rows, options.threads),
        "level": partial(level, options.runs),
        "ugly": partial(ugly, options.runs),
        "real": partial(real, options.runs, options.data),
        "error": partial(error, options.runs),
        "power": partial(power, options.runs),
    }
    results: list[Result] = []
    for section in options.section:
        for result in sections[section]():
            results.append({"section": section} | result)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print(f"{platform.machine()}, NumPy {np.__version__}")
    print_results(results)


if __name__ == "__main__":
    main()
