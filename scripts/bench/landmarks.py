"""Which landmarks for which data? The six schemes side by side, by what landmarks are for.

    scripts/setup && .venv/bin/python scripts/bench/landmarks.py [--data DIR] [--quick] [--json out]

Landmarks are chosen from a pilot, with the default scaling and kernel, and judged by rows outside of it:

  mean residual       √(k(x,x) − k_Z(x,x)): how far rows are from what the landmarks express
  95 % quantile       the same, for the rows that are expressed worst
  squared error       |μ̂ − μ̂_m|², the projection error of the mean of all rows
  excess SSE          in percent: k-means of the rows' cells (means of the rows nearest to each landmark),
                      beside k-means of all rows
  seconds             of the choice alone, on one core

and by how many of them are needed for the mean residual that uniform ones reach: at 0.5 half as many do. That
number is found by regula falsi on a logarithmic scale, for each seed by itself.

Data sets are made, anew for each seed, and read from the Parquet files of --data:

  blob      one Gaussian in 10 dimensions
  tails     Student's t with 2 degrees of freedom, independent in 9 dimensions
  uneven    20 Gaussians in 10 dimensions, sizes from 50 % down to 0.1 %
  curve     a machine in its cycle: 95 % of the rows on a thin closed curve (two harmonics with random
            coefficients, noise 0.01), 5 % spread around it, N(0, 4 I) in 5 dimensions
  clump     a machine at rest: 90 % of the rows in a tight ball, N(0, 0.01 I), 10 % from N(0, I), in
            5 dimensions; the median distance is the ball's, so the others are far from everything

All of it takes about a minute for each data set and seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402
from tqdm import tqdm  # noqa: E402

from nysketch.basis import landmarks, quality  # noqa: E402
from nysketch.basis.fit import fit_rows  # noqa: E402
from nysketch.basis.nystrom import NystromBasis  # noqa: E402
from nysketch.basis.options import BasisOptions  # noqa: E402
from nysketch.columns import Column  # noqa: E402

Floats = NDArray[np.float64]
Random = np.random.Generator

CLUSTERS = 20
FEWEST_ROWS = 3000  # of a file worth looking at
BEYOND = 1.5  # times as many landmarks as uniform ones are tried, no more
STEPS = 3  # of regula falsi
SMALLEST = 5


def blob(rng: Random, rows: int) -> Floats:
    return rng.standard_normal((rows, 10))


def tails(rng: Random, rows: int) -> Floats:
    return rng.standard_t(2, (rows, 9))


def uneven(rng: Random, rows: int) -> Floats:
    shares = np.geomspace(0.5, 1e-3, 20)
    centres = 3 * rng.standard_normal((20, 10))
    return centres[rng.choice(20, rows, p=shares / shares.sum())] + rng.standard_normal((rows, 10))


def curve(rng: Random, rows: int) -> Floats:
    angles = np.outer(rng.uniform(0, 2 * np.pi, rows), [1, 2])
    coefficients = 0.5 * rng.standard_normal((4, 5))
    on_curve = np.hstack([np.cos(angles), np.sin(angles)]) @ coefficients
    made = on_curve + 0.01 * rng.standard_normal((rows, 5))
    off = rng.random(rows) < 0.05
    made[off] = 2 * rng.standard_normal((int(off.sum()), 5))
    return made


def clump(rng: Random, rows: int) -> Floats:
    widths = np.where(rng.random(rows) < 0.1, 1.0, 0.1)
    return widths[:, None] * rng.standard_normal((rows, 5))


MADE: dict[str, Callable[[Random, int], Floats]] = {
    "blob": blob,
    "tails": tails,
    "uneven": uneven,
    "curve": curve,
    "clump": clump,
}

MEASURES = {
    "mean_residual": ("Mean residual of held-out rows", "{:.4f}"),
    "residual_95": ("95 % quantile of the residual", "{:.3f}"),
    "squared_error": ("Squared projection error", "{:.1e}"),
    "excess_sse": ("Excess SSE of k-means on cells, %", "{:.1f}"),
    "seconds": ("Seconds of the choice", "{:.2f}"),
}


def read_table(path: Path) -> Floats | None:
    """Return the rows of a file without nulls, or None (and say so) if there are too few numbers in it."""
    table = pq.read_table(path)
    kinds = {field.name: field.type for field in table.schema}
    numeric = [
        name for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_integer(kind)
    ]
    columns = [table[name].to_numpy().astype(np.float64) for name in numeric]
    rows = np.column_stack(columns) if columns else np.empty((0, 0))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < FEWEST_ROWS:
        print(f"{path.name}: left out, {len(rows):,} rows of {len(numeric)} numbers", file=sys.stderr)
        return None
    return rows


def data_sets(options: argparse.Namespace) -> dict[str, Callable[[Random], Floats]]:
    """Return functions that give the rows of each data set, in random order."""
    found: dict[str, Callable[[Random], Floats]] = {
        name: lambda rng, make=make: make(rng, options.rows) for name, make in MADE.items()
    }
    if options.data is not None:
        paths = sorted(options.data.glob("*.parquet"))
        if not paths:
            print(f"{options.data}: no Parquet files there; made data only", file=sys.stderr)
        for path in paths:
            if options.sets and path.stem not in options.sets:
                continue
            rows = read_table(path)
            if rows is not None:
                found[path.stem] = lambda rng, rows=rows: rng.permutation(rows)[: options.rows]
    for name in options.sets or ():
        if name not in found:
            raise SystemExit(f"there is no data set {name}, only {', '.join(found)}")
    return {name: found[name] for name in options.sets or found}


class Case:
    """A data set, shuffled and split by one seed."""

    def __init__(self, rows: Floats, seed: int, options: argparse.Namespace) -> None:
        self.seed, self.of_rows = seed, len(rows)
        held_out = min(options.held_out, len(rows) // 4)
        pilot = rows[: min(options.pilot_rows, len(rows) - held_out)]
        columns = [Column(f"x{i}") for i in range(rows.shape[1])]
        start = fit_rows(pilot, columns, BasisOptions(m=1, sampling="uniform"), seed=seed)
        assert isinstance(start, NystromBasis)
        self.start = start  # scaling and kernel; its landmark is of no interest
        self.scaled = np.asarray(start.transform(rows))
        self.pilot = self.scaled[: len(pilot)]
        self.held_out = self.scaled[len(pilot) : len(pilot) + held_out]
        self._residuals: dict[tuple[str, int], float] = {}

    def choose(self, sampling: str, m: int) -> tuple[NystromBasis, float]:
        """Return a basis, and the CPU seconds it took to choose its landmarks."""
        begin = time.process_time()
        choice = landmarks.choose(sampling, self.pilot, self.start.kernel, m, seed=self.seed)
        seconds = time.process_time() - begin
        return replace(self.start, landmarks=choice.rows * self.start.scale + self.start.center), seconds

    def measure(self, sampling: str, m: int) -> dict[str, float]:
        """Return everything in MEASURES."""
        basis, seconds = self.choose(sampling, m)
        found = quality.measure(basis, self.held_out, None, of_rows=self.of_rows, effective_dimension=False)
        assert isinstance(found, quality.Quality)
        self._residuals[sampling, m] = found.mean_residual
        return {
            "landmarks": basis.m,
            "rank": basis.rank,
            "mean_residual": found.mean_residual,
            "residual_95": found.residual_quantiles["95%"],
            "squared_error": found.projection_error**2,
            "excess_sse": 100 * (self.cost_on_cells(np.asarray(basis.scaled_landmarks)) / self.cost - 1),
            "seconds": seconds,
        }

    @cached_property
    def cost(self) -> float:
        """The sum of squares of k-means on all rows."""
        return float(KMeans(CLUSTERS, n_init=3, random_state=self.seed).fit(self.scaled).inertia_)

    def cost_on_cells(self, Z: Floats) -> float:
        """The sum of squares, over all rows, of centres found from cells alone."""
        cells = np.concatenate([cdist(part, Z).argmin(axis=1) for part in _parts(self.scaled)])
        counts = np.bincount(cells, minlength=len(Z))
        sums = np.column_stack([np.bincount(cells, column, len(Z)) for column in self.scaled.T])
        kept = counts > 0
        means = sums[kept] / counts[kept, None]
        model = KMeans(min(CLUSTERS, len(means)), n_init=5, random_state=self.seed)
        centres = model.fit(means, sample_weight=counts[kept]).cluster_centers_
        return sum(
            float(cdist(part, centres, "sqeuclidean").min(axis=1).sum()) for part in _parts(self.scaled)
        )

    def mean_residual(self, sampling: str, m: int) -> float:
        """As `measure` has it, without the pairs of rows, which take most of the time."""
        if (sampling, m) not in self._residuals:
            basis, _ = self.choose(sampling, m)
            features = basis.to_features(basis.evaluate(self.held_out))
            squares = basis.kernel.diagonal(self.held_out) - (features**2).sum(axis=1)
            self._residuals[sampling, m] = float(np.sqrt(np.maximum(squares, 0.0)).mean())
        return self._residuals[sampling, m]

    def needed(self, sampling: str, m: int) -> float:
        """Return how many landmarks reach the mean residual of m uniform ones; infinity if too many."""
        goal = self.mean_residual("uniform", m)
        known = sorted(count for scheme, count in self._residuals if scheme == sampling)
        reaching = [count for count in known if self.mean_residual(sampling, count) <= goal]
        high = reaching[0] if reaching else min(round(BEYOND * m), len(self.pilot))
        if self.mean_residual(sampling, high) > goal:
            return math.inf
        low = max([count for count in known if count < high], default=max(high // 2, 1))
        while self.mean_residual(sampling, low) <= goal:
            if low <= SMALLEST:
                return float(low)
            low, high = max(low // 2, SMALLEST), low
        for _ in range(STEPS):
            # Not too near to an end, where the other end would never move.
            middle = round(min(max(self._between(sampling, low, high, goal), 1.05 * low), high / 1.05))
            if not low < middle < high:
                break
            if self.mean_residual(sampling, middle) <= goal:
                high = middle
            else:
                low = middle
        return self._between(sampling, low, high, goal)

    def _between(self, sampling: str, low: int, high: int, goal: float) -> float:
        """Interpolate log m linearly in the log of the residual."""
        ends = [math.log(max(self.mean_residual(sampling, count), 1e-12)) for count in (low, high)]
        share = (ends[0] - math.log(max(goal, 1e-12))) / max(ends[0] - ends[1], 1e-12)
        return low * (high / low) ** min(share, 1.0)


def _parts(rows: Floats) -> Iterable[Floats]:
    return (rows[start : start + 2000] for start in range(0, len(rows), 2000))


def run_set(
    name: str, draw: Callable[[Random], Floats], options: argparse.Namespace, bar: Any
) -> list[dict[str, Any]]:
    """Return what was measured on one data set, one entry for each seed, scheme and number."""
    results: list[dict[str, Any]] = []
    for seed in range(options.seeds):
        case = Case(draw(np.random.default_rng([seed, 99])), seed, options)
        for sampling in landmarks.SAMPLINGS:
            bar.set_postfix_str(f"{name}, seed {seed}, {sampling}")
            key = {"set": name, "seed": seed, "sampling": sampling}
            results += [key | {"m": m} | case.measure(sampling, m) for m in options.landmarks]
            for goal in options.goals:
                found = float(goal) if sampling == "uniform" else case.needed(sampling, goal)
                results.append(key | {"goal": goal, "needed": found, "ratio": found / goal})
            bar.update()
    return results


def cell(values: list[float], form: str) -> str:
    return form.format(np.mean(values))


def middle(ratios: list[float]) -> float:
    """The median of the seeds; the ratio may be infinite."""
    return float(np.quantile(ratios, 0.5, method="nearest"))


def ratio_cell(ratios: list[float]) -> str:
    low, high = _ratio(min(ratios)), _ratio(max(ratios))
    return low if low == high else f"{_ratio(middle(ratios))} ({low}–{high})"


def _ratio(value: float) -> str:
    return f">{BEYOND:g}" if value > BEYOND else f"{value:.2f}"


def print_table(
    title: str, results: list[dict[str, Any]], by: str, value: str, show: Callable[[list[float]], str]
) -> None:
    print(f"\n{title}:\n\n| data | {by} | {' | '.join(landmarks.SAMPLINGS)} |")
    print("|---|---|" + "---|" * len(landmarks.SAMPLINGS))
    rows = dict.fromkeys((r["set"], r[by]) for r in results if by in r)
    for name, number in rows:
        cells = [
            show(
                [
                    r[value]
                    for r in results
                    if (r["set"], r.get(by), r["sampling"]) == (name, number, sampling)
                ]
            )
            for sampling in landmarks.SAMPLINGS
        ]
        print(f"| {name} | {number} | {' | '.join(cells)} |")


def print_summary(results: list[dict[str, Any]]) -> None:
    """Say where half of the landmarks do, and where no scheme saves any to speak of."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for r in results:
        if "goal" in r and r["sampling"] != "uniform":
            label = f"{r['sampling']} (uniform m = {r['goal']})"
            ratios.setdefault(r["set"], {}).setdefault(label, []).append(r["ratio"])
    print()
    for name, of_set in ratios.items():
        middles = {label: middle(values) for label, values in of_set.items()}
        half = [label for label, ratio in middles.items() if ratio <= 0.5]
        best = min(middles, key=lambda label: middles[label])
        if half:
            print(f"- {name}: at most half the landmarks with {', '.join(half)}.")
        elif middles[best] > 0.9:
            print(f"- {name}: no scheme saves more than a tenth of the landmarks.")
        else:
            print(f"- {name}: at best {middles[best]:.2f} of the landmarks, with {best}.")


def write_json(results: list[dict[str, Any]], path: Path) -> None:
    """Write all numbers; there is no infinity in JSON, so more than were tried is null."""
    finite = [{key: None if value == math.inf else value for key, value in r.items()} for r in results]
    path.write_text(json.dumps(finite, indent=1, sort_keys=True))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of Parquet files")
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="these only; files by name without .parquet"
    )
    parser.add_argument("--rows", type=int, default=40_000, help="of a data set, at most")
    parser.add_argument("--pilot-rows", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=3000, help="rows to judge by")
    parser.add_argument("--landmarks", type=int, nargs="+", default=[100, 300, 1000], metavar="M")
    parser.add_argument(
        "--goals", type=int, nargs="+", default=[300, 1000], metavar="M", help="uniform landmarks to equal"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--quick", action="store_true", help="few rows and landmarks, one seed: a minute")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    if options.quick:
        options.rows, options.pilot_rows, options.held_out, options.seeds = 6000, 3000, 1000, 1
        options.landmarks, options.goals = [30, 100], [100]
    return options


def main() -> None:
    options = parse()
    sets = data_sets(options)
    results: list[dict[str, Any]] = []
    total = len(sets) * options.seeds * len(landmarks.SAMPLINGS)
    with tqdm(total=total, file=sys.stderr, disable=None, unit="scheme") as bar:
        for name, draw in sets.items():
            results += run_set(name, draw, options, bar)
            if options.json:  # after each set: it takes long
                write_json(results, options.json)
    print(
        f"{platform.machine()}, one thread, NumPy {np.__version__}; up to {options.rows:,} rows, "
        f"pilot {options.pilot_rows:,}, {options.held_out:,} held out, {options.seeds} seed(s)"
    )
    for value, (title, form) in MEASURES.items():
        print_table(title, results, "m", value, lambda values, form=form: cell(values, form))
    title = "Landmarks needed for the mean residual of uniform ones, as a share: median of the seeds (range)"
    print_table(title, results, "goal", "ratio", ratio_cell)
    print_summary(results)


if __name__ == "__main__":
    main()
