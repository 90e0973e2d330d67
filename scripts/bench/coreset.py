"""How near to the data, and how fast, are coresets beside what people use instead?

    scripts/setup bench && .venv/bin/python scripts/bench/coreset.py [--section NAME] [--rows N …] [--json F]

Sections (--section; all unless told otherwise):

  nearness  Mixtures of ten Gaussians in 2, 10 and 50 columns: the MMD between all rows and --size of them,
            and seconds of CPU time, on one core, for each way to choose these rows. The kernel is Gaussian
            with the median bandwidth for all. Ways: rows drawn at random (the mean over draws is known); for
            each cluster of MiniBatchKMeans the row nearest to its centre, with the share of the cluster as
            its weight; kernel herding, which picks the row that brings the mean nearest one after the other,
            among 2,000 rows; kernel thinning (Compress++ and kernel thinning of goodpoints, g = 4), where it
            is installed; and nysketch, in one pass over the data and from a sketch. Data are in memory for
            all
  auto      How many test functions `-s auto` takes, why, and what theory says of it: the sampling error of
            the rows, its target; the predicted MMD, the one that nysketch measures, and the exact one,
            by all pairs of rows (tables of --auto-rows at most); the two bounds; the mean residuals of the
            coreset and of the rows, of which (12) of the paper wants the first to be no larger; and how many
            functions the bound of the theorem would take to be below the target, if any number does. On
            mixtures of 2, 10 and 50 columns, and on the tables of --data that are there
  speed     `nysketch coreset` on a Parquet file of 5,000,000 rows and 10 columns, -s 100: rows a second and
            peak memory, at 500 and 1000 landmarks

The MMD is wᵀKw − 2 wᵀv + |μ|², squared: the first two terms are exact, over all rows. |μ|² is that of the
projection on 2,000 landmarks of its own, and a mean over pairs of 4,000 rows of what this leaves out. In two
columns it is good to 1e-5.

One core takes 15 minutes for the first section, 5 for the second and 3 for the third. All data but those of
--data are made here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from sklearn.cluster import MiniBatchKMeans  # noqa: E402

import nysketch  # noqa: E402
from nysketch.coresets.testfunctions import mercer_functions  # noqa: E402
from nysketch.kernels import Gaussian  # noqa: E402

Floats = NDArray[np.float64]
Result = dict[str, Any]
Chosen = tuple[Floats, Floats]  # rows and their weights

STEP = 4096


def mixture(n: int, d: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((10, d))
    return centres[rng.integers(10, size=n)] + 0.7 * rng.standard_normal((n, d))


# ---- the judge --------------------------------------------------------------------------------------


class Judge:
    """Measures the MMD of weighted rows from all rows."""

    def __init__(self, X: Floats, seed: int) -> None:
        basis = nysketch.Basis.fit(
            X, landmarks=min(2000, len(X)), scale="none", sampling="uniform", seed=seed + 1
        )
        assert isinstance(basis.kernel, Gaussian)
        self.X, self.kernel = X, basis.kernel
        sums = sum(basis.values(X[i : i + STEP]).sum(axis=0) for i in range(0, len(X), STEP))
        projected = basis.to_features(sums / len(X))
        rows = X[np.random.default_rng([seed, 2]).choice(len(X), min(4000, len(X)), replace=False)]
        features = basis.to_features(basis.values(rows))
        beyond = basis.kernel(rows, rows) - features @ features.T
        own = float(np.diag(beyond).mean())
        between = (float(beyond.sum()) - own * len(rows)) / (len(rows) * (len(rows) - 1))
        self.squared_norm = float(projected @ projected) + between + (own - between) / len(X)

    def mmd(self, chosen: Chosen) -> float:
        """Return the distance of weighted rows."""
        points, weights = chosen
        means = sum(
            self.kernel(points, self.X[i : i + STEP]).sum(axis=1) for i in range(0, len(self.X), STEP)
        ) / len(self.X)
        squared = weights @ self.kernel(points, points) @ weights - 2 * weights @ means + self.squared_norm
        return math.sqrt(max(float(squared), 0.0))

    def random_mmd(self, size: int) -> float:
        """Return the root of the mean squared distance of rows drawn at random."""
        return math.sqrt((1 - self.squared_norm) / size)


# ---- the ways ---------------------------------------------------------------------------------------


def by_kmeans(X: Floats, size: int, _: Gaussian, seed: int) -> Chosen:
    found = MiniBatchKMeans(size, batch_size=4096, n_init=1, random_state=seed).fit(X)
    nearest, closest = np.zeros(size, np.int64), np.full(size, np.inf)
    for start in range(0, len(X), STEP):
        distances = found.transform(X[start : start + STEP])
        least = distances.argmin(axis=0)
        better = distances[least, np.arange(size)] < closest
        nearest[better] = start + least[better]
        closest[better] = distances[least, np.arange(size)][better]
    return X[nearest], np.bincount(found.labels_, minlength=size) / len(X)


def by_herding(X: Floats, size: int, kernel: Gaussian, seed: int) -> Chosen:
    rng = np.random.default_rng([seed, 3])
    candidates = X[rng.choice(len(X), min(2000, len(X)), replace=False)]
    means = sum(kernel(candidates, X[i : i + STEP]).sum(axis=1) for i in range(0, len(X), STEP)) / len(X)
    between, chosen = kernel(candidates, candidates), list[int]()
    so_far = np.zeros(len(candidates))
    for count in range(size):
        chosen.append(int((means - so_far / (count + 1)).argmax()))
        so_far += between[chosen[-1]]
    return candidates[chosen], np.full(size, 1 / size)


def by_thinning(X: Floats, size: int, kernel: Gaussian, seed: int) -> Chosen:
    from goodpoints import compress, kt

    def values(y: Floats, rows: Floats) -> Floats:
        return np.asarray(kernel(np.atleast_2d(y), rows)[0])

    squared = np.array([2 * kernel.bandwidth**2])
    first = compress.compresspp_kt(np.ascontiguousarray(X), b"gaussian", squared, 4, seed=seed)
    rounds = round(math.log2(len(first) / size))
    rows = X[first]
    kept = (
        kt.thin(rows, rounds, values, values, seed=seed, store_K=True) if rounds > 0 else np.arange(len(rows))
    )
    return rows[kept], np.full(len(kept), 1 / len(kept))


def by_nysketch(X: Floats, size: int, kernel: Gaussian, seed: int) -> Chosen:
    found = nysketch.coreset(X, size - 1, scale="none", bandwidth=kernel.bandwidth, seed=seed, threads=1)
    return found.points, found.weights


def by_sketch(X: Floats, size: int, kernel: Gaussian, seed: int) -> Chosen:
    made = nysketch.sketch(X, scale="none", bandwidth=kernel.bandwidth, seed=seed, threads=1)
    found = nysketch.coreset(made, size - 1)
    return found.points, found.weights


WAYS: dict[str, Callable[[Floats, int, Gaussian, int], Chosen]] = {
    "k-means": by_kmeans,
    "herding": by_herding,
    "thinning": by_thinning,
    "nysketch": by_nysketch,
    "from a sketch": by_sketch,
}


def nearness(
    rows: list[int], columns: list[int], sizes: list[int], seeds: int, ways: list[str]
) -> Iterator[Result]:
    by_nysketch(mixture(3000, 2, 0), 10, Gaussian(1.0), 0)  # compiled before anything is timed
    for d in columns:
        for n in rows:
            for seed in range(seeds):
                X = mixture(n, d, seed)
                judge = Judge(X, seed)
                for size in sizes:
                    size = size or int(math.sqrt(n))
                    for way, choose in ((way, WAYS[way]) for way in ways):
                        started = time.process_time()
                        try:
                            chosen = choose(X, size, judge.kernel, seed)
                        except ImportError:
                            continue
                        seconds = time.process_time() - started
                        mmd, random = judge.mmd(chosen), judge.random_mmd(len(chosen[1]))
                        yield {
                            "d": d, "n": n, "seed": seed, "way": way, "rows": len(chosen[1]), "mmd": mmd,
                            "random": random, "times nearer": random / max(mmd, 1e-300), "seconds": seconds,
                        }  # fmt: skip


# ---- auto -------------------------------------------------------------------------------------------

TABLES = {"bike": "uci_bike_*.parquet", "kegg": "uci_keggundirected_*.parquet", "taxi": "nyc_taxi_*.parquet"}


def tables(rows: int, columns: list[int], data: Path | None, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield mixtures, and rows drawn from the tables in a folder."""
    for d in columns:
        yield f"mixture, d = {d}", mixture(rows, d, seed)
    for name, pattern in TABLES.items() if data is not None else ():
        for path in sorted(data.glob(pattern)):
            table = pq.read_table(path)
            found = np.column_stack([table[name].to_numpy().astype(float) for name in table.column_names])
            found = found[np.isfinite(found).all(axis=1)]
            some = np.random.default_rng([seed, 4]).permutation(len(found))[:rows]
            yield f"{name}, d = {found.shape[1]}", found[np.sort(some)]


def exact_mmd(found: nysketch.Coreset, X: Floats) -> float:
    """Return the distance of a coreset to all rows, by all pairs of them."""
    kernel, rows, points = found.basis.kernel, found.basis.transform(X), found.basis.transform(found.points)
    squared_norm, means = 0.0, np.zeros(len(points))
    for start in range(0, len(rows), 1024):
        part = rows[start : start + 1024]
        squared_norm += float(kernel(part, rows).sum())
        means += kernel(points, part).sum(axis=1)
    w, n = found.weights, len(rows)
    squared = w @ kernel(points, points) @ w - 2 * w @ means / n + squared_norm / n**2
    return math.sqrt(max(float(squared), 0.0))


def functions_by_theorem(found: nysketch.Coreset, X: Floats, target: float) -> int | None:
    """Return how many functions make twice the mean residual at most the target; None if none do."""
    basis = found.basis
    rows = basis.transform(X[:: max(len(X) // 2000, 1)])
    values = basis.evaluate(rows)
    moments = values.T @ values / len(rows)
    every = mercer_functions(basis.nystrom, moments, basis.rank)
    left = basis.kernel.diagonal(rows)[:, None] - np.cumsum(every.of(values) ** 2, axis=1)
    enough = np.flatnonzero(2 * np.sqrt(np.maximum(left, 0.0)).mean(axis=0) <= target)
    return int(enough[0]) + 1 if len(enough) else None


def auto(rows: int, columns: list[int], data: Path | None, seeds: int) -> Iterator[Result]:
    for seed in range(seeds):
        for name, X in tables(rows, columns, data, seed):
            basis = nysketch.Basis.fit(X, landmarks=min(1000, len(X)), seed=seed)
            started = time.process_time()
            found = nysketch.coreset(X, "auto", basis=basis, seed=seed, threads=1)
            seconds = time.process_time() - started
            facts, chosen = found.describe(), found.chosen
            assert chosen is not None
            yield {
                "table": name, "n": len(X), "seed": seed, "s": chosen.functions, "target": chosen.target,
                "predicted": chosen.predicted_mmd, "mmd": facts["mmd"], "exact": exact_mmd(found, X),
                "bound": facts["bound"], "theorem": facts["theorem_bound"],
                "residual, coreset": facts["residual_of_coreset"], "rows": facts["residual_of_rows"],
                "random": facts["random_mmd"], "s by theorem": functions_by_theorem(found, X, chosen.target),
                "seconds": seconds,
            }  # fmt: skip


# ---- speed ------------------------------------------------------------------------------------------

WATCHED = """
import atexit, re, sys
from pathlib import Path
from nysketch.cli import main
peak = lambda: re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)
atexit.register(lambda: print("peak", peak(), file=sys.stderr))
main()
"""


def speed(rows: int, threads: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        schema = pa.schema([(f"x{i}", pa.float32()) for i in range(10)])
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, rows, 250_000):
                part = mixture(min(250_000, rows - start), 10, 0).astype(np.float32)
                writer.write_table(pa.table(list(part.T), schema=schema))
        for m in (500, 1000):
            out = Path(folder) / f"{m}.parquet"
            command = [
                sys.executable,
                "-c",
                WATCHED,
                "coreset",
                str(path),
                "-s",
                "100",
                "-m",
                str(m),
                "-o",
                str(out),
            ]
            started = time.perf_counter()
            run = subprocess.run(
                [*command, "--threads", str(threads), "--json", "-q"],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds = time.perf_counter() - started
            facts = json.loads(run.stdout)
            found = re.search(r"peak (\d+)", run.stderr)
            assert found is not None
            yield {
                "landmarks": m, "rows": rows, "threads": threads, "seconds": seconds,
                "rows a second": rows / seconds, "peak MB": int(found[1]) * 1024 / 1e6,
                "mmd": facts["mmd"], "random": facts["random_mmd"], "mismatch": facts["mismatch"],
            }  # fmt: skip


# ---- the script -------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def print_results(results: list[Result]) -> None:
    for section in dict.fromkeys(result["section"] for result in results):
        rows = [{k: v for k, v in r.items() if k != "section"} for r in results if r["section"] == section]
        header = list(rows[0])
        print(f"\n{section}:\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
        for row in rows:
            print(f"| {' | '.join(shown(row[name]) for name in header)} |")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("nearness", "auto", "speed")
    parser.add_argument("--section", nargs="+", choices=names, default=[*names], metavar="NAME")
    parser.add_argument("--rows", nargs="+", type=int, default=[16_384, 131_072, 1_048_576], metavar="N")
    parser.add_argument("--columns", nargs="+", type=int, default=[2, 10, 50], metavar="D")
    parser.add_argument("--size", nargs="+", type=int, default=[64], help="rows to choose; 0: the root of N")
    parser.add_argument("--way", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--seeds", type=int, default=1, help="data sets for each N and D")
    parser.add_argument("--auto-rows", type=int, default=20_000, help="rows of the tables of section auto")
    parser.add_argument("--data", type=Path, help="folder of Parquet tables for section auto")
    parser.add_argument("--speed-rows", type=int, default=5_000_000, help="rows of the file of section speed")
    parser.add_argument("--threads", type=int, default=1, help="of section speed")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    return options


def main() -> None:
    options = parse()
    sections: dict[str, Callable[[], Iterator[Result]]] = {
        "nearness": lambda: nearness(options.rows, options.columns, options.size, options.seeds, options.way),
        "auto": lambda: auto(options.auto_rows, options.columns, options.data, options.seeds),
        "speed": lambda: speed(options.speed_rows, options.threads),
    }
    results: list[Result] = []
    for section in options.section:
        for result in sections[section]():
            results.append({"section": section} | result)
            print("  ".join(shown(value) for value in result.values()), file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print(f"{platform.machine()}, NumPy {np.__version__}")
    print_results(results)


if __name__ == "__main__":
    main()
