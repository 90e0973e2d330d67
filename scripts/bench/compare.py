"""How good is a comparison of two sketches? False alarms, power, bad rows, seconds; all data are made here.

    scripts/setup && .venv/bin/python scripts/bench/compare.py [--section NAME] [--runs N] [--json out]

Sections (--section; all of them unless told otherwise):

  level     Two samples of the same distribution, N(0, I): how often is a difference found, at 5 %? The rate
            must lie in the interval that 99 % of such counts fall into if the level is right. "auto" is what
            `compare` picks; "alarms" are pairs in which rows are said to depend on their neighbours. 1,000
            pairs each
  landmarks The same with landmarks from the first of the two samples, at the median bandwidth and at a tenth
            of it: the level, and the MMD relative to that with landmarks from a third sample. 500 pairs each
  serial    Rows that depend on their neighbours, d = 2: a series x_t = ρ x_{t−1} + …, "days" of 500 rows with
            a common shift N(0, 1/9), and independent rows sorted by the first column. How often this is seen
            in at least one of the two, which blocks and which test are picked, and how often a difference is
            found, when there is none and when the means differ by 4.5 √(1/n₁ + 1/n₂): with the blocks that
            are picked, with random ones, and with consecutive rows. 500 pairs each
  power     How often a difference is found that is there, d = 5, n rows each: by the sketches' tests, by the
            permutation test of the MMD of all rows (same kernel, 200 permutations), and by Kolmogorov and
            Smirnov's test of each column with Holm's correction. "lost" is what the sketch finds less often
            than all rows do, in percentage points, with its standard error (pairs are the same).
            mean: that of the first column differs by 3.6/√n deviations; variance: all deviations are larger
            by 2/√n of themselves; mixture: of two Gaussians at ±1.5 along the diagonal, one has a share of
            1/2 + 1.5/√n instead of 1/2. 300 pairs each, 200 for n = 4000
  truth     The MMD that is printed beside the exact one of all rows (the V-statistic, all pairs): how often
            it is within two printed standard errors; and the unbiased MMD² beside that of the distributions.
            N(0, I) against N(δ, I), landmarks from the first, |δ| = 0, 0.15, 1 and 3 median distances: no
            drift, covered by the landmarks, half covered and far away from them; d = 2 to 768, 3,000 rows a
            side (1,500 for d = 768), of which up to 1,000 (510) sampled ones are used. A third of the
            sketches are merged from two, another third have a part subtracted. 20 pairs each
  robust    Linear and polynomial kernels, d = 5: bad rows on each side, of numbers around 1e6 (1e4 for the
            cubic kernel, whose sums cannot be kept otherwise) with one sign, with both, normal around 0 with
            that deviation, or 5 % of all rows in one burst; and means that differ by 0.3 or 0.1 deviations
            in the first column. The MMD over that of the same rows before any went bad: plain, and with
            --robust 64, 33 and 17. "warned": it says that bad rows are too many; "silent": off by more than
            half, and no such warning; "refused": an error. The basis is from a third, clean sample. 10 pairs
            of 10,000 rows for each pattern and shift, one of 1,000,000
  polluted  The same with the basis from the first of the two samples, bad rows and all, with default options,
            beside the MMD of clean rows at that basis. 2 pairs of 10,000 rows each
  wild      The basis from the first of two samples, d = 5, n = 1,000. In the first column of both, so many
            values are 1e6: how often is a shift of this column by 0.2 deviations found, and how often one
            that is not there, by `scale`? "lognormal": the first column is exp(2 z), and its logarithm is
            shifted by 0.2. 300 pairs each
  scales    Structure far below the median distance, d = 2, n = 2,000: three clusters around (0, 0), (100, 0)
            and (0, 100) with the deviations s, 5 and 20. Split: the first becomes two, 6 s apart. Shares: it
            has 0.41 of the rows, not 0.33. Wide: the third has a deviation of 25. And rows in one scale:
            normal, whose first mean differs by 0.1, and exponential, with all values larger by 7 %. At the
            median bandwidth, and at what `bandwidth="auto"` makes of the third sample: how many bandwidths,
            how often a difference is found, and how long the two passes take. 300 pairs each
  robust-level  False alarms of --robust auto at 5 %, 2,000 rows a side: simulated rows with light and heavy
            tails, and (with --data DIR) taxi trips, KEGG and bike rentals drawn with replacement, linear
            kernel at robust scale; without corrupted rows, and with 3 of 1e6 a side. "untested" pairs had a
            warning instead of a verdict; the rate is that of the others. And the power: fares + 10 %, with 5
            corrupted rows a side. 500 pairs each
  sizes     The same for samples of different size, none corrupted: lognormal rows and (with --data DIR) taxi
            trips and KEGG, plain and with --robust auto; which test was taken. 300 pairs each
  real-level  False alarms at 5 % with the defaults of nysketch (Gaussian kernel at the median distance, scale
            auto), plain and with --robust auto, on real rows drawn with replacement (--data DIR) and on those
            simulated rows, 2,000 a side. 500 pairs each
  robust-grid  0, 1, 8, 50 or 200 corrupted rows a side of 10,000, d = 5, means that differ by 0.1 deviations
            in all columns; at 5 to 1e6 deviations, in opposite directions on the two sides, scattered or
            consecutive; 64, 256 or 1024 blocks; linear, quadratic and Gaussian kernels. How the MMD is right:
            within 15 % of the clean one; or warned of, without a verdict; or within two printed errors; or
            within the printed limit, off by no more than so many rows can hide. Anything else is silent. One
            pair each
  speed     Seconds of a whole process that compares two sketch files of 1,000 landmarks with 1,000
            permutations; of the same test on all rows of smaller samples, in NumPy; of tests by column

Sketches have m = 100 landmarks (speed: 1,000), from a third sample of 1,000 rows unless said otherwise, the
Gaussian kernel at the median distance, 64 blocks and at most 64 runs, no cells and (but for "truth",
"robust" and "speed") no sampled rows. Ten pairs share a basis. Simulations take 299 permutations, to save
time: with p = (1 + #)/300 a test at 5 % can have that level exactly; users get 1,000.

One process takes roughly 5 minutes each for level, landmarks and serial, 20 for power, 15 for robust, and a
minute or two for the others; --processes 2 takes half of that. --runs 10 gives a quick look.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import scipy  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.signal import lfilter  # noqa: E402
from scipy.stats import binom, ks_2samp  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402
from nysketch.twosample.results import Comparison  # noqa: E402

Floats = NDArray[np.float64]
Random = np.random.Generator
Result = dict[str, Any]
Seed = tuple[int, int]  # that of the script, and the number of the pair
Run = Callable[[Seed], Result]

LANDMARKS, PILOT, BLOCKS = 100, 1000, 64
SHARED = 10  # pairs with one basis
TILE = 500  # rows of a kernel matrix at a time
ALPHA = 0.05
RUNS = {
    "level": 1000,
    "landmarks": 500,
    "serial": 500,
    "power": 300,
    "truth": 20,
    "robust": 10,
    "polluted": 2,
    "wild": 300,
    "scales": 300,
    "robust-level": 500,
    "sizes": 300,
    "real-level": 500,
    "robust-grid": 1,
    "speed": 3,
}
PERMUTATIONS, FULL_PERMUTATIONS = 299, 200
RATES = ("permutation", "bootstrap", "auto")


# ---- data -----------------------------------------------------------------------------------------


def normal(rng: Random, n: int, d: int) -> Floats:
    return rng.standard_normal((n, d))


def series(rng: Random, n: int, d: int, *, correlation: float) -> Floats:
    """Each column has N(0, 1) at every time, and this correlation from one row to the next."""
    noise = rng.standard_normal((n, d))
    noise[1:] *= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise, axis=0))


def in_order(rng: Random, n: int, d: int) -> Floats:
    rows = rng.standard_normal((n, d))
    return rows[np.argsort(rows[:, 0])]


def days(rng: Random, n: int, d: int) -> Floats:
    shifts = rng.standard_normal((-(-n // 500), d)) / 3
    return np.repeat(shifts, 500, axis=0)[:n] + rng.standard_normal((n, d))


ROWS: dict[str, Callable[[Random, int, int], Floats]] = {
    "independent": normal,
    "series, ρ = 0.2": partial(series, correlation=0.2),
    "series, ρ = 0.5": partial(series, correlation=0.5),
    "series, ρ = 0.9": partial(series, correlation=0.9),
    "sorted": in_order,
    "days": days,
}


def mixture(rng: Random, n: int, d: int, share: float = 0.5) -> Floats:
    side = np.where(rng.random((n, 1)) < share, 1.5, -1.5) / math.sqrt(d)
    return side + rng.standard_normal((n, d))


def changed(rng: Random, n: int, d: int, change: str) -> Floats:
    if change == "mixture":
        return mixture(rng, n, d, 0.5 + 1.5 / math.sqrt(n))
    rows = rng.standard_normal((n, d))
    if change == "mean":
        rows[:, 0] += 3.6 / math.sqrt(n)
    else:
        rows *= 1 + 2 / math.sqrt(n)
    return rows


def with_bad_rows(rng: Random, rows: Floats, count: int, pattern: str, size: float) -> Floats:
    n, d = rows.shape
    bad = size * (1 + 0.1 * rng.standard_normal((count, d)))
    if pattern == "both signs":
        bad *= rng.choice([-1.0, 1.0], (count, 1))
    elif pattern == "random":
        bad = size * rng.standard_normal((count, d))
    rows = rows.copy()
    if pattern == "burst":
        start = int(rng.integers(n - count + 1))
        rows[start : start + count] = bad
    else:
        rows[rng.choice(n, count, replace=False)] = bad
    return rows


# ---- sketches and comparisons ---------------------------------------------------------------------


@cache
def third(draw: Callable[..., Floats], d: int, number: int, **options: Any) -> nysketch.Basis:
    """Return a basis from a sample that is not compared."""
    rng = np.random.default_rng([99, number])
    return based_on(draw(rng, PILOT, d), seed=number, **options)


def based_on(rows: Floats, *, seed: int, **options: Any) -> nysketch.Basis:
    lean = {"cells": False, "sample_rows": 0, "threads": 1}
    return nysketch.sketch(rows, landmarks=LANDMARKS, seed=seed, **lean, **options).basis


def sketched(rows: Floats, basis: nysketch.Basis, seed: Seed, **options: Any) -> nysketch.Sketch:
    """Sketch rows; pairs differ in how rows are dealt to blocks, as the two of a pair do not."""
    lean = {"cells": False, "sample_rows": 0, "threads": 1, "blocks": BLOCKS} | options
    return nysketch.sketch(rows, basis=basis, seed=seed[1], **lean)


def compared(a: nysketch.Sketch, b: nysketch.Sketch, seed: Seed, **options: Any) -> Comparison:
    settings = {"permutations": PERMUTATIONS, "alpha": ALPHA, "explain": False} | options
    return nysketch.compare(a, b, seed=seed[1], **settings)


def alarmed(comparison: Comparison) -> bool:
    return any(found is not None and found.found for found in comparison.dependences)


class Runner:
    """Runs pairs in one or more processes, and shows how far it is."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._seed, self._runs = options.seed, options.runs
        self._processes = options.processes
        self.data: str | None = options.data
        self._pool = None
        if self._processes > 1:  # spawned: a forked process would lack the threads that this one has
            self._pool = ProcessPoolExecutor(self._processes, mp_context=get_context("spawn"))

    def runs(self, section: str, share: float = 1.0) -> int:
        """Return how many pairs to run: what was asked for, or a share of the usual number."""
        return max(self._runs or round(RUNS[section] * share), 1)

    def __call__(self, work: Run, runs: int, label: str) -> tuple[list[Result], float]:
        """Return what each run gave, and the seconds a run took in its process."""
        seeds = [(self._seed, number) for number in range(runs)]
        start = time.perf_counter()
        if self._pool is None:
            found: Iterable[Result] = map(work, seeds)
        else:
            found = self._pool.map(work, seeds, chunksize=min(SHARED, -(-runs // self._processes)))
        results = list(tqdm(found, label, total=runs, file=sys.stderr, disable=None, leave=False))
        return results, (time.perf_counter() - start) * self._processes / runs


def rate(results: list[Result], name: str) -> float:
    return float(np.mean([r[name] for r in results]))


def interval(runs: int) -> tuple[float, float]:
    """Return where the rate of a test with the right level is found in 99 % of all cases."""
    low, high = binom.interval(0.99, runs, ALPHA)
    return float(low / runs), float(high / runs)


def levels(results: list[Result], names: Iterable[str]) -> Result:
    low, high = interval(len(results))
    rates = {name: rate(results, name) for name in names}
    outside = [name for name, value in rates.items() if not low <= value <= high]
    return rates | {"99 % interval": f"{low:.3f}–{high:.3f}", "outside": ", ".join(outside) or "none"}


# ---- level ----------------------------------------------------------------------------------------


def level_run(seed: Seed, *, sizes: tuple[int, int], d: int) -> Result:
    rng = np.random.default_rng([*seed, *sizes, d])
    basis = third(normal, d, seed[1] // SHARED)
    a, b = (sketched(normal(rng, n, d), basis, seed) for n in sizes)
    found = {test: compared(a, b, seed, test=test) for test in RATES}
    auto = found["auto"]
    assert auto.verdict is not None
    picked = {"auto: permutation": auto.verdict.test == "permutation", "alarms": alarmed(auto)}
    return {name: bool(c.rejected) for name, c in found.items()} | picked


def own_landmarks_run(seed: Seed, *, d: int, factor: float) -> Result:
    rng = np.random.default_rng([*seed, d])
    x, y, z = (normal(rng, 1000, d) for _ in range(3))
    found = {}
    for whose, rows in (("own", x), ("third", z)):
        options = {}
        if factor != 1:
            median = based_on(rows, seed=seed[1]).kernel.bandwidth
            options["bandwidth"] = factor * median
        if whose == "own":
            lean = {"cells": False, "sample_rows": 0, "threads": 1, "blocks": BLOCKS}
            a = nysketch.sketch(x, landmarks=LANDMARKS, seed=seed[1], **lean, **options)
        else:
            a = sketched(x, based_on(rows, seed=seed[1], **options), seed)
        b = sketched(y, a.basis, seed)
        for test in RATES[:2]:
            comparison = compared(a, b, seed, test=test)
            found[f"{whose}: {test}"] = bool(comparison.rejected)
        found[f"{whose}: mmd"] = comparison.mmd
        found[f"{whose}: warned"] = any("so narrow" in note for note in comparison.notes)
    return found


def level(run: Runner) -> Iterator[Result]:
    runs = run.runs("level")
    for d, sizes in product((2, 10), ((1000, 1000), (500, 2000), (200, 10_000))):
        work = partial(level_run, sizes=sizes, d=d)
        results, seconds = run(work, runs, f"level {sizes} {d}")
        key = {"table": "Level at 5 %, basis from a third sample", "n₁:n₂": f"{sizes[0]}:{sizes[1]}", "d": d}
        picked = {name: rate(results, name) for name in ("auto: permutation", "alarms")}
        yield key | {"pairs": runs} | levels(results, RATES) | picked | {"seconds": seconds}


def own_landmarks(run: Runner) -> Iterator[Result]:
    runs = run.runs("landmarks")
    for d, (name, factor) in product((2, 10), (("median", 1.0), ("median / 10", 0.1))):
        results, seconds = run(partial(own_landmarks_run, d=d, factor=factor), runs, f"own landmarks {d}")
        key = {"table": "Landmarks from the first sample, n = 1000 each", "bandwidth": name, "d": d}
        names = [f"{whose}: {test}" for whose in ("own", "third") for test in RATES[:2]]
        ratio = rate(results, "own: mmd") / rate(results, "third: mmd")
        more = {"MMD ratio": ratio, "warned": rate(results, "own: warned"), "seconds": seconds}
        yield key | {"pairs": runs} | levels(results, names) | more


# ---- serial ---------------------------------------------------------------------------------------


def serial_run(seed: Seed, *, kind: str, sizes: tuple[int, int], shift: float) -> Result:
    rng = np.random.default_rng([*seed, *sizes, list(ROWS).index(kind)])
    basis = third(normal, 2, seed[1] // SHARED)
    x, y = (ROWS[kind](rng, n, 2) for n in sizes)
    y[:, 0] += shift
    a, b = sketched(x, basis, seed), sketched(y, basis, seed)
    found = {blocks: compared(a, b, seed, blocks=blocks) for blocks in ("auto", "random", "consecutive")}
    auto = found["auto"]
    assert auto.verdict is not None
    ratios = [dependence.ratio for dependence in auto.dependences if dependence is not None]
    return {name: bool(c.rejected) for name, c in found.items()} | {
        "seen": alarmed(auto),
        "auto: runs": auto.blocks == "consecutive",
        "auto: bootstrap": auto.verdict.test == "bootstrap",
        "variance ratio": float(np.mean(ratios)),
    }


def serial(run: Runner) -> Iterator[Result]:
    runs = run.runs("serial")
    equal, uneven = ((4096, 4096), (1000, 1000)), ((1024, 4096), (500, 2000))
    cases = [
        *product(("series, ρ = 0.5", "sorted"), (*equal, *uneven), (False, True)),
        *product(("series, ρ = 0.2", "series, ρ = 0.9", "days"), equal, (False,)),
    ]
    for kind, sizes, moved in cases:
        shift = 4.5 * math.sqrt(1 / sizes[0] + 1 / sizes[1]) if moved else 0.0
        work = partial(serial_run, kind=kind, sizes=sizes, shift=shift)
        results, seconds = run(work, runs, f"{kind} {sizes}")
        yield {
            "table": "Rows that depend on their neighbours: rejections at 5 %",
            "rows": kind,
            "n₁:n₂": f"{sizes[0]}:{sizes[1]}",
            "shift": round(shift, 3),
            "pairs": runs,
            **{
                name: rate(results, name)
                for name in ("auto", "random", "consecutive", "seen", "auto: runs", "auto: bootstrap")
            },
            "variance ratio": rate(results, "variance ratio"),
            "seconds": seconds,
        }


# ---- power ----------------------------------------------------------------------------------------


def gram_matrix(rows: Floats, bandwidth: float) -> NDArray[np.float32]:
    rows = rows.astype(np.float32)
    squares = np.einsum("ij,ij->i", rows, rows)
    gram = rows @ rows.T
    gram *= 2
    gram -= squares
    gram -= squares[:, None]
    np.minimum(gram, 0, out=gram)
    gram /= np.float32(2 * bandwidth**2)
    return np.asarray(np.exp(gram, out=gram))


def full_test(x: Floats, y: Floats, bandwidth: float, permutations: int, rng: Random) -> float:
    """Return the p-value of the permutation test of the MMD of all rows, for samples of equal size."""
    gram = gram_matrix(np.vstack([x, y]), bandwidth)
    signs = np.repeat([1.0, -1.0], len(x)).astype(np.float32)
    drawn = np.column_stack([signs, rng.permuted(np.tile(signs, (permutations, 1)), axis=1).T])
    values = np.einsum("ij,ij->j", drawn, gram @ drawn, dtype=np.float64)
    return float((1 + np.count_nonzero(values[1:] >= values[0])) / (permutations + 1))


def test_by_column(x: Floats, y: Floats) -> float:
    """Return the smallest p-value of any column, by Holm's correction."""
    return min(ks_2samp(a, b, method="asymp").pvalue for a, b in zip(x.T, y.T, strict=True)) * x.shape[1]


def power_run(seed: Seed, *, change: str, n: int, d: int = 5) -> Result:
    rng = np.random.default_rng([*seed, n])
    before = mixture if change == "mixture" else normal
    basis = third(before, d, seed[1] // SHARED)
    x, y = before(rng, n, d), changed(rng, n, d, change)
    a, b = sketched(x, basis, seed), sketched(y, basis, seed)
    found = {test: bool(compared(a, b, seed, test=test).rejected) for test in RATES}
    rows = (np.asarray(basis.transform(part)) for part in (x, y))
    full = full_test(*rows, basis.kernel.bandwidth, FULL_PERMUTATIONS, rng)
    return found | {"all rows": full <= ALPHA, "columns": test_by_column(x, y) <= ALPHA}


def lost(results: list[Result], test: str) -> str:
    """Return by how many percentage points a test finds less than that of all rows, ± its error."""
    differences = np.array([float(r["all rows"]) - float(r[test]) for r in results])
    error = differences.std(ddof=1) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan
    return f"{100 * differences.mean():.1f} ± {100 * error:.1f}"


def power(run: Runner) -> Iterator[Result]:
    for n, change in product((1000, 2000, 4000), ("mean", "variance", "mixture")):
        runs = run.runs("power", 1.0 if n < 4000 else 2 / 3)
        results, seconds = run(partial(power_run, change=change, n=n), runs, f"{change} {n}")
        names = ("all rows", *RATES, "columns")
        yield {
            "table": "Power at 5 %",
            "change": change,
            "n": n,
            "pairs": runs,
            **{name: rate(results, name) for name in names},
            **{f"lost: {test}": lost(results, test) for test in RATES},
            "seconds": seconds,
        }


# ---- truth ----------------------------------------------------------------------------------------

DRIFTS = {"none": 0.0, "covered": 0.15, "half covered": 1.0, "far": 3.0}
SIZES = {2: 3000, 10: 3000, 100: 3000, 768: 1500}


def mean_kernel(x: Floats, y: Floats, bandwidth: float) -> float:
    """Return the mean of the Gaussian kernel over all pairs."""
    total, squares = 0.0, np.einsum("ij,ij->i", y, y)
    for start in range(0, len(x), TILE):
        part = x[start : start + TILE]
        values = 2 * part @ y.T - squares - np.einsum("ij,ij->i", part, part)[:, None]
        total += float(np.exp(np.minimum(values, 0) / (2 * bandwidth**2)).sum())
    return total / len(x) / len(y)


def made_of(rows: Floats, basis: nysketch.Basis, seed: Seed, rng: Random) -> nysketch.Sketch:
    """Sketch rows at once, in two parts, or with more rows that are subtracted again."""
    sketch = partial(sketched, basis=basis, seed=seed, sample_rows=2000)
    if seed[1] % 3 == 1:
        cut = len(rows) // 3
        return sketch(rows[:cut]) + sketch(rows[cut:])
    if seed[1] % 3 == 2:
        more = sketch(rows[rng.integers(len(rows), size=len(rows) // 2)] + 1)
        return (sketch(rows) + more) - more
    return sketch(rows)


def truth_run(seed: Seed, *, d: int, drift: str) -> Result:
    rng = np.random.default_rng([*seed, d, list(DRIFTS).index(drift)])
    basis = third(normal, d, seed[1] // SHARED, scale="none")
    width = basis.kernel.bandwidth
    x, y = normal(rng, SIZES[d], d), normal(rng, SIZES[d], d)
    shift = DRIFTS[drift] * math.sqrt(2 * d)
    y += shift / math.sqrt(d)
    a, b = (made_of(rows, basis, seed, rng) for rows in (x, y))
    found = compared(a, b, seed, test="none")
    squared = mean_kernel(x, x, width) + mean_kernel(y, y, width) - 2 * mean_kernel(x, y, width)
    exact, two = math.sqrt(max(squared, 0.0)), 2 * found.standard_error
    # Of two normal distributions, in closed form.
    spread = (1 + 2 / width**2) ** (-d / 2)
    population = 2 * spread * (1 - math.exp(-(shift**2) / (2 * (width**2 + 2))))
    distance = found.distance
    return {
        "exact": exact,
        "printed": found.mmd,
        "error": found.standard_error,
        "projected": distance.projected,
        "outside": distance.outside_share,
        "within": abs(found.mmd - exact) <= two,
        "projected within": abs(distance.projected - exact) <= two,
        "population": abs(distance.squared_unbiased - population) <= 2 * distance.squared_se,
        "off": abs(found.mmd - exact),
        "noted": any("outside the span" in note or "next to nothing" in note for note in found.notes),
    }


def truth(run: Runner) -> Iterator[Result]:
    runs = run.runs("truth")
    for d, drift in product(SIZES, DRIFTS):
        results, seconds = run(partial(truth_run, d=d, drift=drift), runs, f"truth {d} {drift}")
        names = ("exact", "printed", "error", "projected", "outside", "off")
        rates = ("within", "projected within", "population", "noted")
        yield {
            "table": "The MMD beside the exact one",
            "d": d,
            "drift": drift,
            "pairs": runs,
            **{name: f"{rate(results, name):.4f}" for name in names},
            **{name: rate(results, name) for name in rates},
            "seconds": seconds,
        }


# ---- robust ---------------------------------------------------------------------------------------

KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "polynomial", "degree": 2},
    "cubic": {"kernel": "polynomial", "degree": 3},
}
GROUPS = (None, 64, 33, 17)
BAD = [
    (0, "one sign"),
    *product((1, 4, 8, 16, 32, 64, 1000), ("one sign", "both signs", "random")),
    (-1, "burst"),  # 5 % of the rows
]
SOME = (0, 1, 8, 16, 64, -1)


def outcome(a: nysketch.Sketch, b: nysketch.Sketch, clean: float, groups: int | None, seed: Seed) -> Result:
    try:
        found = compared(a, b, seed, robust=groups)
    except nysketch.NysketchError as error:
        refused = {
            "ratio": math.nan,
            "warned": False,
            "silent": False,
            "refused": True,
            "notes": [str(error)],
        }
        return {"groups": groups} | refused
    ratio = found.mmd / clean if clean > 0 else math.nan
    warned = found.robustness is not None and found.robustness.overwhelmed
    off = not 0.5 <= ratio <= 1.5
    return {
        "groups": groups or "plain",
        "ratio": ratio,
        "warned": warned,
        "silent": off and not warned and groups is not None,
        "refused": False,
        "rejected": found.rejected,
        "p": found.p_value,
        "blocks": found.blocks,
        "notes": found.notes,
    }


def robust_run(seed: Seed, *, kernel: str, n: int, shift: float, own: bool, bad: Any) -> Result:
    rng = np.random.default_rng([*seed, n])
    x, y = normal(rng, n, 5), normal(rng, n, 5)
    y[:, 0] += shift
    basis = third(normal, 5, seed[1], **KERNELS[kernel])
    options, size = {"sample_rows": None}, 1e4 if kernel == "cubic" else 1e6
    clean = compared(*(sketched(rows, basis, seed, **options) for rows in (x, y)), seed, test="none").mmd
    found = []
    for count, pattern in bad:
        count = count if count >= 0 else n // 20
        first, second = (with_bad_rows(rng, rows, count, pattern, size) for rows in (x, y))
        if own:  # as users do, who know of no bad rows
            a = nysketch.sketch(first, landmarks=LANDMARKS, seed=seed[1], threads=1, **KERNELS[kernel])
            clean_pair = (sketched(rows, a.basis, seed, **options) for rows in (x, y))
            clean = compared(*clean_pair, seed, test="none").mmd
            basis = a.basis
        else:
            a = sketched(first, basis, seed, **options)
        b = sketched(second, basis, seed, **options)
        key = {"kernel": kernel, "n": n, "shift": shift, "bad": count, "pattern": pattern}
        found += [key | outcome(a, b, clean, groups, seed) for groups in GROUPS]
    return {"found": found}


def summary(results: list[Result]) -> str:
    """Return the least and greatest ratio, and how many warned, were silently wrong, or ended in an error."""
    ratios = [r["ratio"] for r in results if not r["refused"]] or [math.nan]
    ends = "–".join(f"{value:.3g}" for value in (min(ratios), max(ratios)))
    counts = {name: sum(r[name] for r in results) for name in ("warned", "silent", "refused")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{ends}; {told} of {len(results)}" if told else ends


def robust_tables(run: Runner, kernel: str, n: int, bad: list[Any], runs: int, own: bool) -> Iterator[Result]:
    results: list[Result] = []
    for shift in (0.3, 0.1):
        work = partial(robust_run, kernel=kernel, n=n, shift=shift, own=own, bad=bad)
        found, _ = run(work, runs, f"robust {kernel} {n}")
        results += [r for one in found for r in one["found"]]
    title = "basis from the first sample with its bad rows" if own else "clean basis"
    for (count, burst), group in grouped(results, "bad", lambda r: r["pattern"] == "burst").items():
        yield {
            "table": f"MMD over that without bad rows, {title}: least–greatest",
            "kernel": kernel,
            "n": n,
            "bad rows": f"{count}, burst" if burst else count,
            **{str(groups): summary(part) for (groups,), part in grouped(group, "groups").items()},
            "detail": group,
        }


def robust(run: Runner) -> Iterator[Result]:
    for kernel in KERNELS:
        yield from robust_tables(run, kernel, 10_000, BAD, run.runs("robust"), own=False)
    some = [entry for entry in BAD if entry[0] in SOME and entry[1] != "both signs"]  # it takes long
    for kernel in KERNELS:
        yield from robust_tables(run, kernel, 1_000_000, some, run.runs("robust", 0.1), own=False)


def polluted(run: Runner) -> Iterator[Result]:
    some = [entry for entry in BAD if entry[0] in SOME]
    for kernel in KERNELS:
        yield from robust_tables(run, kernel, 10_000, some, run.runs("polluted"), own=True)


# ---- robust-level ----------------------------------------------------------------------------------

SIMULATED: dict[str, Callable[[Random, int], Floats]] = {
    "normal": lambda rng, n: rng.standard_normal((n, 4)),
    "t(3)": lambda rng, n: rng.standard_t(3, (n, 4)),
    "lognormal": lambda rng, n: np.exp(rng.standard_normal((n, 4))),
}
TABLES = {
    "taxi": ("nyc_taxi_360k.parquet", ["duration_s", "trip_distance", "fare_amount", "tip_amount"]),
    "KEGG": ("uci_keggundirected_63608x28.parquet", None),
    "bike": ("uci_bike_17379x18.parquet", None),
}


@cache
def table_rows(folder: str, name: str) -> Floats:
    """Return the numbers of a real table: at most six columns, those that vary."""
    file, columns = TABLES[name]
    table = pq.read_table(Path(folder) / file, columns=columns)
    numeric = [c for c in table.column_names if pa.types.is_floating(table[c].type) or columns]
    rows = np.column_stack([table[c].to_numpy() for c in numeric]).astype(np.float64)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return rows[:, rows.std(axis=0) > 0][:, :6]


def drawn(rng: Random, n: int, source: str, folder: str | None) -> Floats:
    if source in SIMULATED:
        return SIMULATED[source](rng, n)
    assert folder is not None
    rows = table_rows(folder, source)
    return rows[rng.integers(len(rows), size=n)]


@cache
def basis_of(source: str, folder: str | None, kernel: str = "linear") -> nysketch.Basis:
    rng = np.random.default_rng([98, 0])
    scale = "robust" if kernel == "linear" else "auto"
    return based_on(drawn(rng, 10_000, source, folder), seed=0, kernel=kernel, scale=scale)


def robust_level_run(
    seed: Seed, *, source: str, folder: str | None, bad: int, factor: float, kernel: str = "linear"
) -> Result:
    rng = np.random.default_rng([*seed, bad])
    n, found = 6000 if factor != 1 else 2000, []
    for side in range(2):
        rows = drawn(rng, n, source, folder).copy()
        if side and factor != 1:
            rows[:, 2] *= factor  # fares
        if bad:
            rows[rng.choice(n, bad, replace=False)] = 1e6 * rng.normal(1, 0.3, (bad, rows.shape[1]))
        number = (seed[0], 2 * seed[1] + side)
        found.append(sketched(rows, basis_of(source, folder, kernel), number, sample_rows=500))
    robust = compared(*found, seed, robust="auto")
    plain = compared(*found, seed)
    return {"robust": robust.rejected, "plain": bool(plain.rejected)}


def robust_level(run: Runner) -> Iterator[Result]:
    runs = run.runs("robust-level")
    sources = [*SIMULATED, *(TABLES if run.data else ())]
    cases: list[tuple[str, int, float]] = [(source, bad, 1.0) for source in sources for bad in (0, 3)]
    if run.data:
        cases.append(("taxi", 5, 1.1))
    for source, bad, factor in cases:
        count = runs if factor == 1 else max(runs // 5, 1)
        work = partial(robust_level_run, source=source, folder=run.data, bad=bad, factor=factor)
        results, seconds = run(work, count, f"robust level {source} {bad}")
        tested = [r for r in results if r["robust"] is not None]
        low, high = interval(len(tested)) if tested else (0.0, 1.0)
        yield {
            "table": "False alarms of --robust at 5 % (power where fares are larger)",
            "rows": source if factor == 1 else f"{source}, fares × {factor}",
            "corrupted rows a side": bad,
            "pairs": count,
            "untested": count - len(tested),
            "robust": rate(tested, "robust") if tested else math.nan,
            "plain": rate(results, "plain"),
            "99 % interval": f"{low:.3f}–{high:.3f}" if factor == 1 else "",
            "seconds": seconds,
        }


UNEQUAL = ((1000, 4000), (1000, 12_000), (1000, 30_000), (300, 30_000))


def sizes_run(seed: Seed, *, source: str, folder: str | None, sizes: tuple[int, int]) -> Result:
    rng = np.random.default_rng([*seed, *sizes])
    basis = basis_of(source, folder, "linear")
    pair = [
        sketched(drawn(rng, n, source, folder), basis, (seed[0], 2 * seed[1] + side), sample_rows=500)
        for side, n in enumerate(sizes)
    ]
    robust, plain = compared(*pair, seed, robust="auto"), compared(*pair, seed)
    assert plain.verdict is not None
    return {"robust": robust.rejected, "plain": bool(plain.rejected), "test": plain.verdict.test}


def sizes(run: Runner) -> Iterator[Result]:
    runs = run.runs("sizes")
    for source in ("lognormal", *(("taxi", "KEGG") if run.data else ())):
        for pair in UNEQUAL:
            work = partial(sizes_run, source=source, folder=run.data, sizes=pair)
            results, seconds = run(work, runs, f"sizes {source} {pair}")
            tested = [r for r in results if r["robust"] is not None]
            low, high = interval(len(tested)) if tested else (0.0, 1.0)
            yield {
                "table": "False alarms at 5 % in samples of different size, linear kernel",
                "rows": source,
                "sizes": " and ".join(f"{n:,}" for n in pair),
                "pairs": runs,
                "plain": rate(results, "plain"),
                "permuted": sum(r["test"] == "permutation" for r in results),
                "untested": runs - len(tested),
                "robust": rate(tested, "robust") if tested else math.nan,
                "99 % of robust": f"{low:.3f}–{high:.3f}",
                "seconds": seconds,
            }


def real_level(run: Runner) -> Iterator[Result]:
    for source in [*SIMULATED, *(TABLES if run.data else ())]:
        work = partial(robust_level_run, source=source, folder=run.data, bad=0, factor=1.0, kernel="gaussian")
        results, seconds = run(work, run.runs("real-level"), f"real level {source}")
        tested = [r for r in results if r["robust"] is not None]
        low, high = interval(len(results))
        yield {
            "table": "False alarms at 5 % with the Gaussian kernel of the defaults",
            "rows": source,
            "pairs": len(results),
            "plain": rate(results, "plain"),
            "robust": rate(tested, "robust") if tested else math.nan,
            "untested": len(results) - len(tested),
            "99 % interval": f"{low:.3f}–{high:.3f}",
            "seconds": seconds,
        }


# ---- robust-grid -----------------------------------------------------------------------------------

GRID_KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "quadratic": {"kernel": "polynomial", "degree": 2},
    "gaussian": {},
}
HOW = ("within 15 %", "warned", "two errors", "limit", "silent")
GRID_SIZES = (5.0, 20.0, 100.0, 1e3, 1e6)


def robust_grid_run(seed: Seed, *, kernel: str, blocks: int) -> Result:
    n, d, found = 10_000, 5, []
    rng = np.random.default_rng([*seed, blocks])
    x, y = normal(rng, n, d), normal(rng, n, d) + 0.1
    basis = third(normal, d, seed[1], scale="none", **GRID_KERNELS[kernel])

    def sketches(*sides: Floats) -> list[nysketch.Sketch]:
        return [
            sketched(rows, basis, (seed[0], 2 * seed[1] + i), sample_rows=None, blocks=blocks)
            for i, rows in enumerate(sides)
        ]

    clean = compared(*sketches(x, y), seed, test="none", blocks="random")
    cases = [(0, "scattered", 0.0), *product((1, 8, 50, 200), ("scattered", "consecutive"), GRID_SIZES)]
    for bad, where, size in cases:
        pattern = "burst" if where == "consecutive" else "one sign"
        # Away from each other: what goes wrong alike on both sides would cancel.
        sides = [with_bad_rows(rng, rows, bad, pattern, sign * size) for rows, sign in ((x, -1), (y, 1))]
        robust = compared(*sketches(*sides), seed, robust="auto")
        assert robust.robustness is not None
        off = abs(robust.mmd - clean.mmd)
        warned = robust.robustness.overwhelmed and robust.verdict is None
        limit = 100 * 2 * bad / n * robust.robustness.unseen.mmd_per_percent
        # Warnings first: errors that corrupted rows have made large would excuse anything.
        how = "within 15 %" if off <= 0.15 * clean.mmd else "warned" if warned else ""
        how = how or ("two errors" if off <= 2 * robust.standard_error else "")
        how = how or ("limit" if off <= limit else "silent")
        key = {"kernel": kernel, "blocks": blocks, "bad": bad, "where": where, "size": size}
        found.append(
            key
            | {
                "ratio": robust.mmd / clean.mmd,
                "how": how,
                "used": robust.blocks,
                "limit": limit,
                "warned": warned,
            }
        )
    return {"found": found}


def robust_grid(run: Runner) -> Iterator[Result]:
    runs = run.runs("robust-grid")
    for kernel, blocks in product(GRID_KERNELS, (64, 256, 1024)):
        results, _ = run(
            partial(robust_grid_run, kernel=kernel, blocks=blocks), runs, f"grid {kernel} {blocks}"
        )
        everything = [r for one in results for r in one["found"]]
        for (bad,), part in grouped(everything, "bad").items():
            counts = {how: sum(r["how"] == how for r in part) for how in HOW}
            silent = [f"{r['where']} {r['size']:g}: {r['ratio']:.3g}" for r in part if r["how"] == "silent"]
            yield {
                "table": "Answers with corrupted rows, by how they are right",
                "kernel": kernel,
                "blocks": blocks,
                "corrupted rows a side": bad,
                **counts,
                "which": "; ".join(silent),
                "cases": part,
            }


def grouped(results: list[Result], *names: Any) -> dict[tuple[Any, ...], list[Result]]:
    """Return results by the values of these names or functions, in the order of appearance."""
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for r in results:
        key = tuple(name(r) if callable(name) else r[name] for name in names)
        groups.setdefault(key, []).append(r)
    return groups


# ---- wild values and several scales ---------------------------------------------------------------

SCALES = ("standard", "auto", "robust")


def wild_rows(rng: Random, n: int, wild: int | str, shift: float = 0.0) -> Floats:
    rows = normal(rng, n, 5)
    rows[:, 0] += shift
    if wild == "lognormal":
        rows[:, 0] = np.exp(2 * rows[:, 0])
    else:
        rows[:wild, 0] = 1e6
    return rng.permutation(rows)


def wild_run(seed: Seed, *, wild: int | str) -> Result:
    rng = np.random.default_rng([*seed, 5])
    x, y, moved = (wild_rows(rng, 1000, wild, shift) for shift in (0.0, 0.0, 0.2))
    found = {}
    for scale in SCALES:
        basis = based_on(x, seed=seed[1], scale=scale)
        a = sketched(x, basis, seed)
        for what, rows in (("no shift", y), ("shift", moved)):
            found[f"{scale}: {what}"] = bool(compared(a, sketched(rows, basis, seed), seed).rejected)
    return found


def wild(run: Runner) -> Iterator[Result]:
    runs = run.runs("wild")
    for values in (0, 1, 10, 30, "lognormal"):
        warnings.simplefilter("ignore", nysketch.NysketchWarning)  # of wild values, which there are
        results, seconds = run(partial(wild_run, wild=values), runs, f"wild {values}")
        names = [f"{scale}: {what}" for what in ("no shift", "shift") for scale in SCALES]
        low, high = interval(runs)
        rates = {name: rate(results, name) for name in names}
        outside = [name for name in names if "no shift" in name and not low <= rates[name] <= high]
        yield {
            "table": "Wild values in the first column: rejections at 5 %, by scale",
            "wild values": values,
            "pairs": runs,
            **rates,
            "99 % interval": f"{low:.3f}–{high:.3f}",
            "outside": ", ".join(outside) or "none",
            "seconds": seconds,
        }


def clusters(rng: Random, n: int, d: int, *, narrow: float, change: str = "") -> Floats:
    first = 0.41 if change == "shares" else 1 / 3
    which = rng.choice(3, n, p=[first, (1 - first) / 2, (1 - first) / 2])
    spreads = np.array([narrow, 5.0, 25.0 if change == "wide" else 20.0])
    rows = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])[which]
    rows += spreads[which, None] * rng.standard_normal((n, d))
    if change == "split":
        rows[which == 0, 0] += narrow * rng.choice([-3.0, 3.0], (which == 0).sum())
    return rows


def one_scale(rng: Random, n: int, d: int, *, kind: str, change: str = "") -> Floats:
    if kind == "normal":
        return rng.standard_normal((n, d)) + (np.array([0.1, 0.0]) if change else 0.0)
    return rng.exponential(1.07 if change else 1.0, (n, d))


SCENES: dict[str, tuple[Callable[..., Floats], tuple[str, ...]]] = {
    **{
        f"s = {s:g}": (partial(clusters, narrow=s), ("", "split", "shares", "wide"))
        for s in (0.05, 0.2, 1, 5)
    },
    **{kind: (partial(one_scale, kind=kind), ("", "moved")) for kind in ("normal", "exponential")},
}


def scales_run(seed: Seed, *, scene: str, change: str) -> Result:
    draw, _ = SCENES[scene]
    rng = np.random.default_rng([*seed, 6])
    x, y = draw(rng, 2000, 2), draw(rng, 2000, 2, change=change)
    found: Result = {}
    for bandwidth in ("median", "auto"):
        basis = third(draw, 2, seed[1] // SHARED, bandwidth=bandwidth)
        start = time.perf_counter()
        a, b = sketched(x, basis, seed), sketched(y, basis, seed)
        found[f"{bandwidth}: ms"] = 1000 * (time.perf_counter() - start)
        found[bandwidth] = bool(compared(a, b, seed).rejected)
    found["bandwidths"] = len(getattr(basis.kernel, "bandwidths", [0]))
    return found


def scales(run: Runner) -> Iterator[Result]:
    runs = run.runs("scales")
    low, high = interval(runs)
    for scene, (_, changes) in SCENES.items():
        for change in changes:
            results, _ = run(partial(scales_run, scene=scene, change=change), runs, f"{scene} {change}")
            rates = {name: rate(results, name) for name in ("median", "auto")}
            outside = [name for name, value in rates.items() if not change and not low <= value <= high]
            yield {
                "table": "Structure at several scales: rejections at 5 %, by bandwidth",
                "rows": scene,
                "change": change or "none",
                "pairs": runs,
                **rates,
                "outside 99 %": ", ".join(outside) or "none",
                **{name: rate(results, name) for name in ("bandwidths", "median: ms", "auto: ms")},
            }


# ---- speed ----------------------------------------------------------------------------------------

IN_LIBRARY = (
    "import sys, nysketch; print(nysketch.compare(*map(nysketch.load, sys.argv[1:]), permutations=1000).mmd)"
)


def seconds_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def process(*arguments: Any) -> None:
    subprocess.run([sys.executable, *map(str, arguments)], check=True, capture_output=True)


def speed(run: Runner) -> Iterator[Result]:
    times, d, landmarks = run.runs("speed"), 10, 1000
    rng = np.random.default_rng(0)
    table = "Seconds, of a test with 1,000 permutations"

    def entry(what: str, n: int, work: Callable[[], Any], peak: str) -> Result:
        taken = sorted(seconds_of(work) for _ in range(times))
        return {"table": table, "what": what, "n": n, "median": taken[len(taken) // 2], "memory": peak}

    probe = [sys.executable, "-m", "nysketch", "compare", "--help"]
    command = subprocess.run(probe, capture_output=True).returncode == 0
    basis = nysketch.sketch(normal(rng, 20_000, d), landmarks=landmarks, cells=False, sample_rows=0).basis
    with tempfile.TemporaryDirectory() as folder:
        for n in (10_000, 1_000_000):
            paths = [Path(folder) / f"{name}{n}.nysk" for name in "ab"]
            for path in paths:
                nysketch.save(nysketch.sketch(normal(rng, n, d), basis=basis, threads=1), path)
            size = f"files of {paths[0].stat().st_size / 1e6:.1f} MB"
            if command:
                arguments = ("-m", "nysketch", "compare", *paths, "--permutations", 1000)
                yield entry("nysketch compare", n, partial(process, *arguments), size)
            yield entry("load and compare, Python", n, partial(process, "-c", IN_LIBRARY, *paths), size)
            pair = [nysketch.load(path) for path in paths]
            work = partial(nysketch.compare, *pair, permutations=1000, explain=False)
            yield entry("compare, sketches loaded", n, work, size)
    for n in (1000, 5000):
        x, y = normal(rng, n, d), normal(rng, n, d)
        work = partial(full_test, x, y, math.sqrt(2 * d), 1000, rng)
        yield entry("all rows, NumPy", n, work, f"{(2 * n) ** 2 * 4 / 1e6:.0f} MB of kernel values")
    for n in (10_000, 1_000_000):
        x, y = normal(rng, n, d), normal(rng, n, d)
        yield entry("columns (KS)", n, partial(test_by_column, x, y), f"{2 * x.nbytes / 1e6:.0f} MB of rows")


SECTIONS: dict[str, Callable[[Runner], Iterator[Result]]] = {
    "level": level,
    "landmarks": own_landmarks,
    "serial": serial,
    "power": power,
    "truth": truth,
    "robust": robust,
    "polluted": polluted,
    "wild": wild,
    "scales": scales,
    "robust-level": robust_level,
    "sizes": sizes,
    "real-level": real_level,
    "robust-grid": robust_grid,
    "speed": speed,
}


# ---- what is shown --------------------------------------------------------------------------------


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_results(results: list[Result]) -> None:
    for (table,), rows in grouped(results, "table").items():
        header = [name for name in rows[0] if name not in ("table", "section", "detail", "cases")]
        print(f"\n{table}:\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
        for row in rows:
            print(f"| {' | '.join(shown(row[name]) for name in header)} |")
    print_failures([r for one in results for r in one.get("detail", ()) if r["silent"]])


def print_failures(silent: list[Result]) -> None:
    """Say which robust estimates were off by more than half without a warning."""
    names = ("kernel", "n", "shift", "bad", "pattern", "groups")
    for key, group in grouped(silent, *names).items():
        ratios = ", ".join(f"{r['ratio']:.3g}" for r in group)
        print(f"silently wrong: {dict(zip(names, key, strict=True))}: {ratios}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--section", nargs="+", choices=SECTIONS, default=[*SECTIONS], metavar="NAME")
    parser.add_argument("--runs", type=int, help="pairs per case, instead of what the sections say")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="how many to use, of one thread each")
    parser.add_argument("--data", type=str, metavar="DIR", help="a folder with the tables of robust-level")
    parser.add_argument("--json", type=Path, help="also write the numbers here; other sections stay")
    options = parser.parse_args()
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    return options


def main() -> None:
    options = parse()
    run = Runner(options)
    kept: list[Result] = []
    if options.json and options.json.exists():
        kept = [r for r in json.loads(options.json.read_text()) if r["section"] not in options.section]
    results: list[Result] = []
    for section in options.section:
        start = time.perf_counter()
        for result in SECTIONS[section](run):
            results.append({"section": section} | result)
            if options.json:
                options.json.write_text(json.dumps(kept + results, indent=1))
        print(f"{section}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    print(
        f"{platform.machine()}, {options.processes} process(es), NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}; seed {options.seed}"
    )
    print_results(results)


if __name__ == "__main__":
    main()
