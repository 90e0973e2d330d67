"""Figures 1 and 2 of "MONK: outlier-robust mean embedding estimation by median-of-means" (ICML 2019), §5.

    scripts/setup report && .venv/bin/python scripts/papers/monk.py --data DIR -o monk.png

By Lerasle, Szabó, Mathieu and Lecué. Two samples, some of whose rows are wrong: how far apart are they?

Experiment 1 knows the answer. Rows are numbers, from two Gaussians whose means and standard deviations are
drawn once from [0, 1]; the same with five outliers each, 2000 in x and 4000 in y; or both from a Pareto(3)
distribution on [1, ∞), where the fourth moment is infinite and the MMD 0. Kernels are the quadratic one,
(xy + 1)², and the Gaussian one of σ = 1. Shown is log₁₀ |estimate − MMD|, median and quartiles of the trials.
Experiment 2 (with --data) tells splice sites of DNA apart, exon to intron (EI) or intron to exon (IE), by the
string subsequence kernel: shown is the MMD minus the 95 % quantile of what permuted rows give (Algorithm 3).
X and Y never share a row. Sizes are N, of which a third chooses the kernel, a third gives the quantile.

Estimators:
- U-Stat: eq. 8, its root with the sign of its square. (Where the MMD is 0, half of the squares are negative:
  errors would be 0 if they were cut off there.)
- MONK BCD, MONK BCD-Fast: Algorithms 1 and 2 as printed, with Q groups, 100 iterations from c = (1, …, 1),
  for the fast one new groups every 10 iterations. They shuffle pairs (x_n, y_n): five pairs are bad, Q must
  be 11 or more. Where the paper has a Cholesky factor of the Gram matrix K, it is enough to have any features
  φ with φ(x)·φ(y) = K(x, y): the quadratic kernel has three, the Gaussian kernel on a line a few dozen to the
  last digits, the string kernel no more than there are subsequences.
- sketch: what two sketches know, sums over blocks of rows at landmarks that come from other, clean rows:
  the median over Q groups of blocks, and the MMD without the blocks that are far from the median (trimmed),
  which is what `nysketch compare --robust Q` gives first.
  Rows of x and of y are dealt into blocks independently of each other: five and five may spoil ten groups,
  so that Q must be 21. In experiment 2 the landmarks come from the rows that choose the kernel, and blocks
  are permuted instead of rows.

It writes NAME-1.csv and NAME-1.png for experiment 1, NAME-2.csv and NAME-2.png for experiment 2, and prints
the medians. The tables have quartiles, too, and the share above 0: of the tests that reject, in experiment 2.

On one core, experiment 1 takes ten minutes. Experiment 2 takes 25, two of them for Gram matrices; 150
permutations of blocks take over two seconds with sketches, so that these have --sketch-simulations only.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import nysketch
from nysketch.kernels import Subsequence
from nysketch.twosample.median_of_means import monk_mmd
from nysketch.twosample.mmd import Blocks, MMDEstimate
from nysketch.twosample.pooled import find_outlying

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

U_STATISTIC, BCD, FAST = "U-Stat", "MONK BCD", "MONK BCD-Fast"
MEDIAN, TRIMMED = "sketch: median", "sketch: trimmed"

ITERATIONS, SHUFFLED_EVERY = 100, 10

# Colours that are told apart without red or green (Okabe and Ito).
COLOURS = {U_STATISTIC: "#0072B2", BCD: "#E69F00", FAST: "#CC79A7", MEDIAN: "#000000", TRIMMED: "#009E73"}
LINES = ("-", "--", ":", "-.")


# Estimators, of many pairs of samples at once: `features` has all rows there are; `x` and `y`, samples × n,
# say which of them are in each sample.


def u_statistic(features: Floats, x: Integers, y: Integers) -> Floats:
    """The root of eq. 8, with its sign."""
    n = x.shape[1]
    of_x, of_y = (_weighted(len(features), rows, np.ones(rows.shape)) @ features for rows in (x, y))
    lengths = (features**2).sum(axis=1)
    own = (of_x**2).sum(axis=1) + (of_y**2).sum(axis=1) - lengths[x].sum(axis=1) - lengths[y].sum(axis=1)
    squared = own / (n * (n - 1)) - 2 * (of_x * of_y).sum(axis=1) / n**2
    return np.copysign(np.sqrt(np.abs(squared)), squared)


def bcd(features: Floats, x: Integers, y: Integers, groups: int, shuffles: Integers) -> Floats:
    """Algorithm 1."""
    cut = Cut(x.shape[1], groups)
    ones = np.ones(x.shape)
    f = _normalised((_weighted(len(features), x, ones) + _weighted(len(features), y, ones)) @ features)
    for order in shuffles:
        one, other = x[:, order], y[:, order]
        chosen = cut.middle(cut.means(f, features, one, other))
        inside = (cut.group == chosen[:, None]).astype(np.float64)
        c = _weighted(len(features), one, inside) - _weighted(len(features), other, inside)
        f = _normalised(c @ features)
    return np.median(cut.means(f, features, one, other), axis=1)


def bcd_fast(features: Floats, x: Integers, y: Integers, groups: int, shuffles: Integers) -> Floats:
    """Algorithm 2.

    c_q is either (1; 1), as in the beginning, or (1; −1), each divided by the norm it had when it was set.
    """
    cut = Cut(x.shape[1], groups)
    every = np.arange(len(x))
    initial = np.ones((len(x), groups), bool)
    for t, order in enumerate(shuffles):
        if t % SHUFFLED_EVERY == 0:
            of_x, of_y = cut.sums(features, x[:, order]), cut.sums(features, y[:, order])
            squares = ((of_x - of_y) ** 2).sum(axis=2)  # (1; −1)ᵀK_q(1; −1)
            mixed = ((of_x - of_y) * (of_x + of_y)).sum(axis=2)  # (1; −1)ᵀK_q(1; 1)
            if t == 0:
                norms = np.linalg.norm(of_x + of_y, axis=2)
        chosen = cut.middle(_divided(np.where(initial, mixed, squares), norms) / cut.sizes)
        initial[every, chosen], norms[every, chosen] = False, np.sqrt(squares[every, chosen])
    return np.median(_divided(np.where(initial, mixed, squares), norms) / cut.sizes, axis=1)


class Cut:
    """Where n rows in some order are cut into groups; their sizes differ by 1 at most."""

    def __init__(self, n: int, groups: int) -> None:
        self.group = np.arange(n) * groups // n
        self.sizes = np.bincount(self.group)
        self.starts = np.cumsum(self.sizes) - self.sizes

    def means(self, f: Floats, features: Floats, x: Integers, y: Integers) -> Floats:
        """Return the mean of f(x) − f(y) over each group, samples × groups."""
        values = f @ features.T
        differences = np.take_along_axis(values, x, axis=1) - np.take_along_axis(values, y, axis=1)
        return np.add.reduceat(differences, self.starts, axis=1) / self.sizes

    def sums(self, features: Floats, rows: Integers) -> Floats:
        """Return the sum of the features over each group, samples × groups × features."""
        inside = np.zeros((len(rows), len(self.sizes), len(features)))
        inside[np.arange(len(rows))[:, None], self.group, rows] = 1.0
        return inside @ features

    def middle(self, values: Floats) -> Integers:
        """Return the group with the median value."""
        return np.argsort(values, axis=1)[:, len(self.sizes) // 2]


def shuffles_of(n: int, rng: np.random.Generator) -> Integers:
    """Return an order of n rows for each iteration."""
    return rng.permuted(np.tile(np.arange(n), (ITERATIONS, 1)), axis=1)


def _weighted(rows: int, chosen: Integers, weights: Floats) -> Floats:
    """Return c, samples × rows, with these weights at the chosen rows and 0 elsewhere."""
    c = np.zeros((len(chosen), rows))
    np.put_along_axis(c, chosen, weights, axis=1)
    return c


def _normalised(f: Floats) -> Floats:
    return _divided(f, np.linalg.norm(f, axis=1, keepdims=True))


def _divided(values: Floats, norms: Floats) -> Floats:
    """Return values / norms, and 0 where the norm is 0."""
    return np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)


# Experiment 1

GAUSSIAN, OUTLIERS, PARETO = "Gaussian", "Gaussian with outliers", "Pareto"
SETTINGS = (GAUSSIAN, OUTLIERS, PARETO)
BAD_ROWS, BAD_X, BAD_Y = 5, 2000.0, 4000.0
SHAPE = 3.0
CLEAN_ROWS = 2000  # that landmarks come from


@dataclass(frozen=True)
class Normal:
    """A Gaussian on the line."""

    mean: float
    deviation: float


class Quadratic:
    """(xy + 1)²."""

    name = "quadratic"
    # Three are enough: that many different powers there are.
    basis: ClassVar[dict[str, Any]] = {
        "landmarks": 10,
        "kernel": "polynomial",
        "bandwidth": 1.0,
        "degree": 2,
        "offset": 1.0,
    }

    def features(self, x: Floats) -> Floats:
        """Return features whose products are the values of the kernel."""
        return np.column_stack([x**2, math.sqrt(2) * x, np.ones_like(x)])

    def mean(self, first: Normal, second: Normal) -> float:
        """Return the mean of the kernel over independent x and y."""
        squares = (first.mean**2 + first.deviation**2) * (second.mean**2 + second.deviation**2)
        return squares + 2 * first.mean * second.mean + 1


class Rbf:
    """exp(−(x − y)²/2)."""

    name = "RBF"
    basis: ClassVar[dict[str, Any]] = {"landmarks": 50, "kernel": "gaussian", "bandwidth": 1.0}

    def features(self, x: Floats) -> Floats:
        """Return features by Cholesky's method with pivots, until less than 10⁻¹³ of a value is missing."""
        columns: list[Floats] = []
        left = np.ones(len(x))
        while (pivot := int(left.argmax())) >= 0 and left[pivot] > 1e-13:
            column = np.exp(-0.5 * (x - x[pivot]) ** 2)
            for other in columns:
                column -= other[pivot] * other
            column /= math.sqrt(left[pivot])
            left -= column**2
            left[pivot] = 0.0
            columns.append(column)
        return np.column_stack(columns)

    def mean(self, first: Normal, second: Normal) -> float:
        """Return the mean of the kernel over independent x and y."""
        variance = 1 + first.deviation**2 + second.deviation**2
        return math.exp(-0.5 * (first.mean - second.mean) ** 2 / variance) / math.sqrt(variance)


Kernel = Quadratic | Rbf
KERNELS: tuple[Kernel, ...] = (Quadratic(), Rbf())


def true_mmd(kernel: Kernel, first: Normal, second: Normal) -> float:
    squared = kernel.mean(first, first) + kernel.mean(second, second) - 2 * kernel.mean(first, second)
    return math.sqrt(max(squared, 0.0))


def drawn_normals(seed: int) -> tuple[Normal, Normal]:
    a, b, c, d = np.random.default_rng([seed, 1]).uniform(size=4)
    return Normal(a, b), Normal(c, d)


def samples(
    setting: str, normals: tuple[Normal, Normal], n: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw x and y, n rows each."""
    if setting == PARETO:
        return 1 + rng.pareto(SHAPE, n), 1 + rng.pareto(SHAPE, n)
    x, y = (rng.normal(normal.mean, normal.deviation, n) for normal in normals)
    if setting == OUTLIERS:
        x[-BAD_ROWS:], y[-BAD_ROWS:] = BAD_X, BAD_Y
    return x, y


def fitted_basis(kernel: Kernel, setting: str, normals: tuple[Normal, Normal], seed: int) -> nysketch.Basis:
    """Choose landmarks among clean rows of both distributions."""
    clean = PARETO if setting == PARETO else GAUSSIAN
    rows = np.concatenate(samples(clean, normals, CLEAN_ROWS // 2, np.random.default_rng([seed, 2])))
    return nysketch.Basis.fit(rows[:, None], scale="none", seed=seed, threads=1, **kernel.basis)


def sketched(rows: Floats, basis: nysketch.Basis, seed: int) -> nysketch.Sketch:
    return nysketch.sketch(
        rows[:, None],
        basis=basis,
        blocks=64,
        seed=seed,
        precision="float64",
        sample_rows=0,
        cells=False,
        threads=1,
    )


def robust_mmds(first: nysketch.Sketch, second: nysketch.Sketch, groups: int) -> tuple[float, float]:
    """Return what `nysketch.compare(first, second, robust=groups, blocks="random")` finds, sooner.

    Its median over groups, and its MMD: that of the blocks which are not left out.
    """
    blocks = [Blocks.of(s.basis.to_features(s.block_kernel_sums), s.block_rows) for s in (first, second)]
    found = find_outlying(*blocks)
    left = [side.only(found.kept(i)) for i, side in enumerate(blocks)]
    return monk_mmd(*blocks, groups).value, MMDEstimate.of(*left).mmd


Key = tuple[str, str, int, str, int]  # kernel or pair of classes, setting or nothing, n, estimator, groups
Values = dict[Key, list[float]]


def experiment_1(options: argparse.Namespace) -> Values:
    """Return the errors |estimate − MMD| of all trials."""
    normals = drawn_normals(options.seed)
    errors: Values = {}
    steps = len(SETTINGS) * len(KERNELS) * len(options.sizes) * options.trials
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="sample") as bar:
        for number, setting in enumerate(SETTINGS):
            for kernel in KERNELS:
                truth = 0.0 if setting == PARETO else true_mmd(kernel, *normals)
                basis = fitted_basis(kernel, setting, normals, options.seed)
                for n in options.sizes:
                    bar.set_postfix_str(f"{setting}, {kernel.name}, n = {n}")
                    for trial in range(options.trials):
                        rng = np.random.default_rng([options.seed, 3, number, n, trial])
                        x, y = samples(setting, normals, n, rng)
                        found = estimates(kernel, x, y, basis, options.groups, rng)
                        for (name, groups), value in found.items():
                            key = (kernel.name, setting, n, name, groups)
                            errors.setdefault(key, []).append(abs(value - truth))
                        bar.update()
    return errors


def estimates(
    kernel: Kernel, x: Floats, y: Floats, basis: nysketch.Basis, groups: list[int], rng: np.random.Generator
) -> dict[tuple[str, int], float]:
    """Return the estimates of the MMD by name and number of groups."""
    features = kernel.features(np.concatenate([x, y]))
    rows = np.arange(2 * len(x)).reshape(2, 1, -1)
    shuffles = shuffles_of(len(x), rng)
    # Two seeds: the bad rows of x are in other blocks than those of y.
    first, second = (sketched(values, basis, int(rng.integers(1 << 30))) for values in (x, y))
    found = {(U_STATISTIC, 1): float(u_statistic(features, *rows)[0])}
    found |= {(BCD, q): float(bcd(features, *rows, q, shuffles)[0]) for q in groups}
    found |= {(FAST, q): float(bcd_fast(features, *rows, q, shuffles)[0]) for q in groups}
    for q in groups:
        found[MEDIAN, q], found[TRIMMED, q] = robust_mmds(first, second, q)
    return found


# Experiment 2

PAIRS = (("EI", "IE"), ("EI", "EI"), ("IE", "IE"))
SITES = 766  # of each class
GROUPS, LEVEL = 5, 0.05
BLOCKS = 20  # of each sample in a sketch
PARTS = 3
LENGTHS, DECAYS = (2, 3), (0.2, 0.5, 0.8)


def read_sites(folder: Path, sites: int) -> dict[str, NDArray[Any]]:
    """Return the first sequences of each class."""
    table = pq.read_table(folder / "splice_3190_strings60.parquet").to_pydict()
    labels = np.array(table["label"])
    sequences = np.array(table["sequence"], object)
    found = {label: sequences[labels == label][:sites] for label in ("EI", "IE")}
    if min(map(len, found.values())) < sites:
        raise SystemExit(f"there are fewer than {sites} sequences of a class: use a smaller --sites")
    return found


def string_features(strings: NDArray[Any], kernel: Subsequence) -> Floats:
    """Return features whose products are the values of the kernel."""
    gram = np.zeros((len(strings), len(strings)))
    for start in range(0, len(strings), 64):
        part = slice(start, start + 64)
        gram[part, start:] = kernel(strings[part], strings[start:])
    values, vectors = np.linalg.eigh(gram, UPLO="U")
    kept = values > 1e-10 * values[-1]
    return np.ascontiguousarray(vectors[:, kept] * np.sqrt(values[kept]))


Statistic = Callable[[Floats, Integers, Integers], Floats]


def run_test(
    statistic: Statistic, kernels: list[Floats], permutations: int, rng: np.random.Generator
) -> float:
    """Algorithm 3: the statistic of the third part of the rows minus the quantile of the second.

    `kernels` has for each kernel the features of what may be exchanged between samples: first the three parts
    of x, then those of y.
    """
    n = len(kernels[0]) // (2 * PARTS)
    (x, *_), (y, *_) = parts = np.arange(2 * PARTS * n).reshape(2, PARTS, 1, n)
    features = kernels[int(np.argmax([statistic(each, x, y)[0] for each in kernels]))]
    pooled = np.tile(parts[:, 1].ravel(), (permutations, 1))
    permuted = rng.permuted(pooled, axis=1)
    null = statistic(features, permuted[:, :n], permuted[:, n:])
    return float(statistic(features, *parts[:, 2])[0] - np.quantile(null, 1 - LEVEL))


def projected(features: Floats, landmarks: Integers) -> Floats:
    """Return the Nyström features of all rows: coordinates in the span of those of the landmarks."""
    _, lengths, directions = np.linalg.svd(features[landmarks], full_matrices=False)
    return features @ directions[lengths > 1e-6 * lengths[0]].T


def in_blocks(features: Floats) -> Floats:
    """Return the means over blocks of rows: BLOCKS for each part of x and y."""
    return features.reshape(2 * PARTS * BLOCKS, -1, features.shape[1]).mean(axis=1)


def of_blocks(means: Floats, x: Integers, y: Integers) -> Floats:
    """Return the MMD from block sums; all blocks hold equally many rows."""
    ones = np.ones(BLOCKS)
    pairs = [(Blocks(means[i], ones), Blocks(means[j], ones)) for i, j in zip(x, y, strict=True)]
    return np.array([monk_mmd(*pair, GROUPS).value for pair in pairs])


def excesses(
    kernels: list[Floats], permutations: int, rng: np.random.Generator, *, sketch: bool
) -> dict[str, float]:
    """Return statistic minus quantile by estimator."""
    n = len(kernels[0]) // (2 * PARTS)
    shuffles = shuffles_of(n, rng)
    found = {
        U_STATISTIC: run_test(u_statistic, kernels, permutations, rng),
        BCD: run_test(partial(bcd, groups=GROUPS, shuffles=shuffles), kernels, permutations, rng),
        FAST: run_test(partial(bcd_fast, groups=GROUPS, shuffles=shuffles), kernels, permutations, rng),
    }
    if sketch:
        # From the rows that choose the kernel, which the other parts do not have.
        own = np.concatenate([np.arange(n), PARTS * n + np.arange(n)])
        landmarks = rng.permutation(own)[: round(math.sqrt(2 * n) * math.log(2 * n))]
        means = [in_blocks(projected(features, landmarks)) for features in kernels]
        found[MEDIAN] = run_test(of_blocks, means, permutations, rng)
    return found


def experiment_2(options: argparse.Namespace) -> Values:
    """Return statistic minus quantile of all simulations."""
    sites = read_sites(options.data, options.sites)
    rows = {label: i * options.sites + np.arange(options.sites) for i, label in enumerate(sites)}
    strings = np.concatenate([*sites.values()])
    candidates = [Subsequence(length, decay) for length in LENGTHS for decay in DECAYS]
    found: Values = {}
    progress = {"file": sys.stderr, "disable": None}
    kernels = [string_features(strings, each) for each in tqdm(candidates, unit="Gram matrix", **progress)]
    steps = len(PAIRS) * len(options.dna_sizes) * options.simulations
    with tqdm(total=steps, unit="simulation", **progress) as bar:
        for number, (one, other) in enumerate(PAIRS):
            for n in options.dna_sizes:
                bar.set_postfix_str(f"{one}–{other}, n = {n}")
                for simulation in range(options.simulations):
                    rng = np.random.default_rng([options.seed, 4, number, n, simulation])
                    drawn = rng.permutation(rows[one]), rng.permutation(rows[other])
                    x, y = drawn[0][:n], drawn[1][:n] if one != other else drawn[0][n : 2 * n]
                    features = [each[np.concatenate([x, y])] for each in kernels]
                    sketch = simulation < options.sketch_simulations
                    for name, value in excesses(features, options.permutations, rng, sketch=sketch).items():
                        key = (f"{one}–{other}", "", n, name, 1 if name == U_STATISTIC else GROUPS)
                        found.setdefault(key, []).append(value)
                    bar.update()
    return found


# What was found


def quartiles(values: list[float] | Floats) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def logarithms(errors: Values) -> Values:
    """log₁₀ of the errors; an estimate that is right to the last digit counts as 10⁻¹⁶."""
    return {key: [math.log10(max(e, 1e-16)) for e in found] for key, found in errors.items()}


def write_csv(values: Values, heads: list[str], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*heads, "n", "estimator", "groups", "trials", "p25", "median", "p75", "above_0"])
        for key, found in values.items():
            above = sum(value > 0 for value in found) / len(found)
            writer.writerow(
                [*filter(None, key), len(found), *(f"{q:.6g}" for q in quartiles(found)), f"{above:.4g}"]
            )


def table(values: Values, sizes: list[int]) -> str:
    """Return the medians as Markdown."""
    lines = [
        f"| | estimator | Q | {' | '.join(f'N = {n}' for n in sizes)} |",
        "|---|---|---|" + "---|" * len(sizes),
    ]
    for kernel, setting, name, groups in dict.fromkeys((k[0], k[1], k[3], k[4]) for k in values):
        cells = [f"{quartiles(values[kernel, setting, n, name, groups])[1]:.2f}" for n in sizes]
        where = f"{kernel}, {setting}" if setting else kernel
        lines.append(f"| {where} | {name} | {groups} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rejection_table(values: Values, sizes: list[int]) -> str:
    lines = [f"| | estimator | {' | '.join(f'N = {n}' for n in sizes)} |", "|---|---|" + "---|" * len(sizes)]
    for pair, name, groups in dict.fromkeys((k[0], k[3], k[4]) for k in values):
        cells = [f"{np.mean(np.array(values[pair, '', n, name, groups]) > 0):.3f}" for n in sizes]
        lines.append(f"| {pair} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(
    values: Values, sizes: list[int], rows: list[str], columns: list[str], label: str, path: Path
) -> None:
    """Draw a panel for each row and column: kernels and settings, or pairs in one row."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shape = (len(rows), len(columns))
    figure, axes = plt.subplots(
        *shape, figsize=(4.4 * shape[1], 3.8 * shape[0]), squeeze=False, sharex=True, layout="constrained"
    )
    panels = [(row, column) for row in rows for column in columns]
    series = list(dict.fromkeys((key[3], key[4]) for key in values))
    all_groups = sorted({groups for name, groups in series if name != U_STATISTIC})
    for axis, (row, column) in zip(axes.ravel(), panels, strict=True):
        for name, groups in series:
            place = (row, column) if row else (column, "")
            low, middle, high = zip(*(quartiles(values[*place, n, name, groups]) for n in sizes), strict=True)
            line = "-" if name == U_STATISTIC else LINES[all_groups.index(groups) % len(LINES)]
            text = name if name == U_STATISTIC else f"{name}, Q = {groups}"
            axis.plot(sizes, middle, line, color=COLOURS[name], linewidth=1.4, label=text)
            if groups in (1, all_groups[-1]):  # quartiles of all would hide each other
                axis.fill_between(sizes, low, high, color=COLOURS[name], alpha=0.12, linewidth=0)
        axis.set(title=f"{row} kernel, {column}" if row else column, xlabel="N", ylabel=label)
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    handles, texts = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, fontsize=8, ncols=4, loc="outside lower center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experiment", choices=["1", "2", "both"], default="both")
    parser.add_argument("--sizes", type=int, nargs="+", default=[*range(200, 2001, 200)], metavar="N")
    parser.add_argument("--trials", type=int, default=100, help="of experiment 1")
    parser.add_argument("--groups", type=int, nargs="+", default=[5, 11, 21], metavar="Q", help="odd numbers")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="a folder with splice_3190_strings60.parquet"
    )
    parser.add_argument("--dna-sizes", type=int, nargs="+", default=[60, 120, 240, 360], metavar="N")
    parser.add_argument("--simulations", type=int, default=400, help="of experiment 2")
    parser.add_argument(
        "--sketch-simulations", type=int, default=20, help="of these with sketches, the slowest by far"
    )
    parser.add_argument("--permutations", type=int, default=150, metavar="B", help="of experiment 2")
    parser.add_argument("--sites", type=int, default=SITES, help="of each class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("monk.png"), help="NAME.png or NAME.svg")
    parser.add_argument("--csv", type=Path, metavar="NAME.csv", help="if it shall have another name")
    parser.add_argument("--no-plot", action="store_true", help="only tables")
    options = parser.parse_args(arguments)
    if options.data is None and options.experiment == "both":
        options.experiment = "1"
    if options.data is None and options.experiment == "2":
        parser.error("experiment 2 needs --data")
    if min(options.trials, options.simulations, options.sketch_simulations, options.permutations) < 1:
        parser.error("there must be at least 1 trial, 1 simulation and 1 permutation")
    if any(q < 1 or q % 2 == 0 for q in options.groups):
        parser.error("the numbers of groups must be odd")
    if min(options.sizes) < 2 * max(options.groups):
        parser.error("there must be at least two rows for each group")
    if any(n < 1 or n % (PARTS * BLOCKS) or 2 * n > options.sites for n in options.dna_sizes):
        parser.error(f"--dna-sizes are multiples of {PARTS * BLOCKS} up to half of the sites")
    if options.output.suffix not in ("", ".png", ".svg"):
        parser.error(f"a plot is .png or .svg, not {options.output.suffix}")
    options.output = options.output.with_suffix(options.output.suffix or ".png")
    options.csv = options.csv or options.output.with_suffix(".csv")
    # Now, not after ten minutes.
    for folder in (options.output.parent, options.csv.parent):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    if not options.no_plot and find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: run scripts/setup report, or leave it out with --no-plot")
    options.sizes, options.dna_sizes = sorted(options.sizes), sorted(options.dna_sizes)
    return options


def numbered(path: Path, number: int) -> Path:
    return path.with_stem(f"{path.stem}-{number}")


def main() -> None:
    options = parse()
    start = time.perf_counter()
    if options.experiment != "2":
        errors = experiment_1(options)
        normals = drawn_normals(options.seed)
        logs = logarithms(errors)
        write_csv(logs, ["kernel", "setting"], numbered(options.csv, 1))
        if not options.no_plot:
            names = [kernel.name for kernel in KERNELS]
            label = "log₁₀ |estimate − MMD|"
            plot(logs, options.sizes, names, [*SETTINGS], label, numbered(options.output, 1))
        known = ", ".join(f"{kernel.name} {true_mmd(kernel, *normals):.4g}" for kernel in KERNELS)
        print(f"MMD of the Gaussians: {known}. log₁₀ |estimate − MMD|, median of {options.trials} trials:\n")
        print(table(logs, options.sizes))
        print(f"\n{time.perf_counter() - start:.0f} s; seed {options.seed}\n")
    start = time.perf_counter()
    if options.experiment != "1":
        found = experiment_2(options)
        write_csv(found, ["pair"], numbered(options.csv, 2))
        if not options.no_plot:
            pairs = ["–".join(pair) for pair in PAIRS]
            plot(found, options.dna_sizes, [""], pairs, "MMD − quantile", numbered(options.output, 2))
        few = min(options.simulations, options.sketch_simulations)
        print(
            f"MMD minus its 95 % quantile, median of {options.simulations} simulations ({few} of sketches):\n"
        )
        print(table(found, options.dna_sizes))
        print("\nShare above 0, where the test rejects:\n")
        print(rejection_table(found, options.dna_sizes))
        print(f"\n{time.perf_counter() - start:.0f} s; seed {options.seed}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
