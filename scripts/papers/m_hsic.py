"""Section 5 of "Nyström M-Hilbert-Schmidt independence criterion" (Kalinke and Szabó, UAI 2023).

    scripts/setup report && .venv/bin/python scripts/papers/m_hsic.py --data DIR -o m_hsic.png

Are columns independent of each other? The estimators of the paper, and the test that nysketch has instead:
- V-HSIC: the V-statistic, eq. 5, which takes all n² kernel values.
- N-MHSIC: eq. 18, at n' landmarks.
- N-HSIC and RFF-HSIC (Zhang et al. 2018): for two columns, from Nyström features at √n landmarks (eq. 8), or
  from cosine and sine at √n random frequencies.
- nysketch: `nysketch.hsic.statistic.exact_test`, whose landmarks are rows with shuffled columns, at which
  both embeddings are known. The command takes it for more than 2,000 rows, and V-HSIC itself for fewer.
All use Gaussian kernels whose bandwidth is the median distance divided by √2, k = exp(−d² / median d²).
√n is rounded down before it is multiplied. Left out are NFSIC (Figure 2) and the Million Song Data (Figure 4,
the only large real data of the paper); Figure 3 goes to n = 400 unless --graph-sizes has more.

A test compares a statistic with those of rows whose columns, all but the first, are shuffled. The paper does
not say what becomes of landmarks and frequencies meanwhile; the tables have both ways.
- fixed: chosen once, from the observed rows, different rows. Landmarks are observed rows then, and see them
  better than shuffled ones: the level is not kept. At 14 landmarks, N-MHSIC finds 11.5 % of tables with three
  independent columns and 50 rows dependent.
- redrawn: chosen anew for every shuffle, among the shuffled rows, with replacement, as in §4. All shuffles
  are treated alike, the level is exact, and the chance of the draw costs power. The matrices of repeated
  landmarks have no inverse: 10⁻⁸ is added to their diagonals. The published numbers are of this kind; they
  resample rows with replacement where we shuffle, as the text of the paper has it.

Sections:
1. Figure 1: estimates of HSIC² for two independent columns from N(0, 1), where it is 0.
2. Figure 2: power for x₂ = x₁ + ε at the 5 % level, beside that of the paper's own code.
3. The level of the same tests: independent columns from N(0, 1), two of them and three.
4. Figure 5 (with --data, a folder with dwd_weather_349x3.parquet): which of the 25 directed acyclic graphs of
   altitude, temperature and sunshine fits best? Each column is regressed on its parents by an additive model,
   and the residuals are tested for joint independence. The redrawn statistic of what is observed is the mean
   over 100 draws, as in the paper's code, that of a shuffle is of one: its p-values are not exact.
5. Figure 3: the same for four columns drawn from one of the 24 full graphs: sums of Gaussian processes
   (kernel exp(−d²/2)) at the parents, and normal noise whose variance is from U(1, √2). The largest p-value
   wins; among equal ones, the statistic that is the smallest relative to its 95 % quantile.

The additive model is like that of mgcv's gam, with which Pfister et al. (2018) did it: 10 splines for each
parent (cubic, where mgcv has thin plates), a penalty on ∫ f''² of each function, and all penalties such that
the generalised cross-validation is the smallest.

It writes NAME-1.csv and NAME-1.png for section 1 and so on, and prints tables. On one core the sections take
half a minute, two minutes, two, a quarter of one, and ten; --trials, --level-runs and --graph-runs make it
shorter or longer. Seconds are those of the CPU, kernel values included. Those of redrawn statistics are not
to be compared with the paper's: they look kernel values up in the whole matrix of all rows.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import block_diag
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import Column
from nysketch.hsic.statistic import exact_test, hsic_squared, mean_of_permuted
from nysketch.kernels import Gaussian, Group, Product
from nysketch.kernels.options import median_distance
from nysketch.twosample.permutation import critical_value, p_value_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEVEL = 0.05
# Added to the diagonals of kernel matrices whose landmarks may be the same row twice.
RIDGE = 1e-8
# Kernel values at a time: 32 MB.
VALUES = 1 << 22


@dataclass(frozen=True)
class Sample:
    """Rows, the kernels of their columns, and the orders in which columns are shuffled.

    `orders` are (1 + shuffles) × (columns − 1) × rows, for all columns but the first; the first is none.
    """

    rows: Floats
    kernel: Product
    orders: Integers

    @classmethod
    def of(cls, rows: Floats, shuffles: int, rng: np.random.Generator) -> Sample:
        """Fit kernels by the median heuristic, and draw orders."""
        n, others = len(rows), rows.shape[1] - 1
        orders = np.tile(np.arange(n), (1 + shuffles, others, 1))
        orders[1:] = rng.permuted(orders[1:], axis=2)
        return cls(rows, product_kernel(rows), orders)


def product_kernel(rows: Floats) -> Product:
    widths = [median_distance(column[:, None], 0) / math.sqrt(2) for column in rows.T]
    return Product(tuple(Group(f"x{i}", i, i + 1, Gaussian(width)) for i, width in enumerate(widths)))


# Statistics: the squared HSIC of a sample as it is, and after each of its shuffles.


@njit(nogil=True)
def joint_means(grams: Floats, orders: Integers, places: Integers) -> Floats:
    """Return the mean over rows of the product of kernels between each of some shuffled rows and all of them.

    `places` are shuffles × landmarks. Row by row, it gathers from a row of a matrix, which is in the cache:
    eight times as fast as shuffled matrices in NumPy for four columns and 400 rows.
    """
    n = grams.shape[1]
    found = np.empty(places.shape)
    product = np.empty(n)
    for shuffle in range(len(orders)):
        for landmark in range(places.shape[1]):
            place = places[shuffle, landmark]
            product[:] = grams[0, place]
            for group in range(1, len(grams)):
                order = orders[shuffle, group - 1]
                values = grams[group, order[place]]
                for row in range(n):
                    product[row] *= values[order[row]]
            found[shuffle, landmark] = product.mean()
    return found


def v_hsic(sample: Sample) -> Floats:
    """Equation 5."""
    grams = np.array(sample.kernel.factors(sample.rows, sample.rows))
    every = np.tile(np.arange(len(sample.rows)), (len(sample.orders), 1))
    joint = joint_means(grams, sample.orders, every).mean(axis=1)
    means = grams.mean(axis=2)
    others = zip(means[1:], np.moveaxis(sample.orders, 1, 0), strict=True)
    crossed = means[0] * np.prod([values[order] for values, order in others], axis=0)
    return joint + math.prod(grams.mean(axis=(1, 2))) - 2 * crossed.mean(axis=1)


def basis_at(sample: Sample, places: Integers) -> NystromBasis:
    d = sample.rows.shape[1]
    columns = tuple(Column(f"x{i}") for i in range(d))
    return NystromBasis(
        columns=columns,
        scaling="none",
        center=np.zeros(d),
        scale=np.ones(d),
        kernel=sample.kernel,
        landmarks=sample.rows[places],
    )


def different_rows(sample: Sample, count: int, rng: np.random.Generator) -> Integers:
    return rng.choice(len(sample.rows), min(count, len(sample.rows)), replace=False)


def n_mhsic_estimate(sample: Sample, rng: np.random.Generator, landmarks: int) -> float:
    """Equation 18, by the library: of the sample as it is."""
    joint = basis_at(sample, different_rows(sample, landmarks, rng))
    parts = [joint.of_groups([i]) for i in range(sample.rows.shape[1])]
    columns = zip(parts, sample.rows.T, strict=True)
    means = np.array([part.values(column[:, None]).mean(axis=0) for part, column in columns])
    return hsic_squared(joint, parts, joint.values(sample.rows).mean(axis=0), means)


def n_mhsic(sample: Sample, rng: np.random.Generator, landmarks: int) -> Floats:
    """Equation 18, at the same observed rows for all shuffles."""
    basis = basis_at(sample, different_rows(sample, landmarks, rng))
    factors = sample.kernel.factors(basis.landmarks, sample.rows)
    mean = mean_of_permuted(factors, sample.orders)
    # All else is the same for all shuffles: the length of the product of embeddings, and its values.
    length, crossed = 1.0, np.ones(basis.m)
    for number, factor in enumerate(factors):
        part = basis.of_groups([number])
        features = part.to_features(factor.mean(axis=1))
        length *= float(features @ features)
        crossed *= part.gram() @ (features @ part.nystrom.matrix)
    features, of_product = basis.to_features(mean), basis.to_features(crossed)
    return (features**2).sum(axis=1) + length - 2 * features @ of_product


def n_mhsic_redrawn(sample: Sample, rng: np.random.Generator, landmarks: int, averaged: int = 1) -> Floats:
    """Equation 18, at rows drawn from those of each shuffle; for the first, the mean over some draws."""
    n, m = len(sample.rows), min(landmarks, len(sample.rows))
    grams = np.array(sample.kernel.factors(sample.rows, sample.rows))
    orders = np.concatenate([np.repeat(sample.orders[:1], averaged, axis=0), sample.orders[1:]])
    step = max(VALUES // m**2, 1)
    parts = [orders[i : i + step] for i in range(0, len(orders), step)]
    found = np.concatenate([at_drawn(grams, part, rng.integers(n, size=(len(part), m))) for part in parts])
    return np.concatenate([[found[:averaged].mean()], found[averaged:]])


def at_drawn(grams: Floats, orders: Integers, places: Integers) -> Floats:
    """Equation 18 for each of some orders, at its own landmarks."""
    drawn = [places, *(np.take_along_axis(order, places, axis=1) for order in np.moveaxis(orders, 1, 0))]
    joint, length, crossed = np.ones(1), np.ones(len(orders)), np.ones(places.shape)
    for gram, at in zip(grams, drawn, strict=True):
        K = gram[at[:, :, None], at[:, None, :]]
        joint = joint * K
        weights = solved(K, gram.mean(axis=1)[at])
        values = times(K, weights)
        length *= (weights * values).sum(axis=1)
        crossed *= values
    weights = solved(joint, joint_means(grams, orders, places))
    return (weights * (times(joint, weights) - 2 * crossed)).sum(axis=1) + length


def solved(K: Floats, values: Floats) -> Floats:
    return np.linalg.solve(K + RIDGE * np.eye(K.shape[-1]), values[..., None])[..., 0]


def times(K: Floats, values: Floats) -> Floats:
    return (K @ values[..., None])[..., 0]


def n_hsic(sample: Sample, rng: np.random.Generator, landmarks: int) -> Floats:
    """Equation 8."""
    basis = basis_at(sample, different_rows(sample, landmarks, rng))
    parts = [basis.of_groups([number]) for number in range(2)]
    columns = zip(parts, sample.rows.T, strict=True)
    return of_features([part.to_features(part.values(column[:, None])) for part, column in columns], sample)


def n_hsic_redrawn(sample: Sample, rng: np.random.Generator, landmarks: int) -> Floats:
    """The same, at rows drawn from those of each shuffle."""
    n, orders = len(sample.rows), sample.orders[:, 0]
    K, L = sample.kernel.factors(sample.rows, sample.rows)
    centred = K - K.mean(axis=0)  # of one of them is enough
    places = rng.integers(n, size=(len(orders), min(landmarks, n)))
    found = []
    for order, at in zip(orders, places, strict=True):
        there = order[at]
        C = centred[:, at].T @ L[:, there][order]
        ridge = RIDGE * np.eye(len(at))
        left = np.linalg.solve(K[np.ix_(at, at)] + ridge, C)
        right = np.linalg.solve(L[np.ix_(there, there)] + ridge, C.T)
        found.append(float((left * right.T).sum()))
    return np.array(found) / n**2


def fourier(sample: Sample, rng: np.random.Generator, count: int) -> list[Floats]:
    """Return cosines and sines of each column at its own random frequencies."""
    found = []
    for column, group in zip(sample.rows.T, sample.kernel.groups, strict=True):
        phases = np.outer(column, rng.standard_normal(count) / group.kernel.bandwidth)
        found.append(np.concatenate([np.cos(phases), np.sin(phases)], axis=1) / math.sqrt(count))
    return found


def rff_hsic(sample: Sample, rng: np.random.Generator, frequencies: int) -> Floats:
    return of_features(fourier(sample, rng, frequencies), sample)


def rff_hsic_redrawn(sample: Sample, rng: np.random.Generator, frequencies: int) -> Floats:
    singles = (Sample(sample.rows, sample.kernel, order[None]) for order in sample.orders)
    return np.concatenate([rff_hsic(single, rng, frequencies) for single in singles])


def of_features(features: Sequence[Floats], sample: Sample) -> Floats:
    """Return the squared length of the covariance of two columns' features."""
    first, second = (each - each.mean(axis=0) for each in features)
    covariances = first.T @ second[sample.orders[:, 0]]
    return np.asarray((covariances**2).sum(axis=(1, 2)) / len(first) ** 2)


# Tests


@dataclass(frozen=True)
class Outcome:
    """What a test found; `statistic` and `quantile` are squares."""

    statistic: float
    quantile: float
    p_value: float


Test = Callable[[Sample, np.random.Generator], Outcome]
Statistic = Callable[[Sample, np.random.Generator], Floats]


def tested(sample: Sample, rng: np.random.Generator, statistic: Statistic) -> Outcome:
    observed, *drawn = statistic(sample, rng)
    null = np.array(drawn)
    return Outcome(float(observed), critical_value(null, LEVEL), p_value_of(float(observed), null))


def by_nysketch(sample: Sample, rng: np.random.Generator, landmarks: int) -> Outcome:
    """Run the library's test, which draws its own orders, as many."""
    shuffles, seed = len(sample.orders) - 1, int(rng.integers(1 << 31))
    found = exact_test(
        sample.kernel, sample.rows, landmarks=landmarks, permutations=shuffles, alpha=LEVEL, seed=seed
    )
    return Outcome(found.statistic**2, found.threshold**2, found.p_value)


V_HSIC, NYSKETCH = "V-HSIC", "nysketch"
FIXED, REDRAWN = "fixed", "redrawn"
WAYS = {
    "N-MHSIC": {FIXED: n_mhsic, REDRAWN: n_mhsic_redrawn},
    "N-HSIC": {FIXED: n_hsic, REDRAWN: n_hsic_redrawn},
    "RFF-HSIC": {FIXED: rff_hsic, REDRAWN: rff_hsic_redrawn},
}
Name = tuple[str, str, str]  # the estimator, how many landmarks or frequencies, what becomes of them


def text_of(name: Name) -> str:
    return ", ".join(filter(None, name))


def named_test(name: Name, n: int, **options: Any) -> Test:
    """Return the test of that name; the number is in words, as "8√n"."""
    estimator, size, way = name
    if estimator == V_HSIC:
        return partial(tested, statistic=lambda sample, _: v_hsic(sample))
    count = count_of(size, n)
    if estimator == NYSKETCH:
        return partial(by_nysketch, landmarks=count)
    keyword = "frequencies" if estimator == "RFF-HSIC" else "landmarks"
    return partial(tested, statistic=partial(WAYS[estimator][way], **{keyword: count}, **options))


def count_of(size: str, n: int) -> int:
    """2 √n, say, with √n rounded down first; or a plain number."""
    return int(size.removesuffix("√n") or 1) * math.isqrt(n) if size.endswith("√n") else int(size)


def names_for(columns: int) -> list[Name]:
    """Return the tests of figure 2 and of the level: some are for two columns only."""
    found: list[Name] = [(V_HSIC, "", "")]
    found += [("N-MHSIC", size, way) for size in ("2√n", "8√n") for way in (FIXED, REDRAWN)]
    if columns == 2:
        found += [(name, "√n", way) for name in ("N-HSIC", "RFF-HSIC") for way in (FIXED, REDRAWN)]
    return [*found, (NYSKETCH, "2√n", ""), (NYSKETCH, "8√n", "")]


# Sections 1 to 3


@dataclass
class Measured:
    """Estimates; or 1 for each time that a test rejected, or that a graph was found; and CPU seconds."""

    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


Results = dict[tuple[int, int, Name], Measured]  # by columns, rows and test


def note(results: Results, key: tuple[int, int, Name], start: float, value: float) -> None:
    found = results.setdefault(key, Measured())
    found.seconds.append(time.process_time() - start)
    found.values.append(value)


def progress(steps: int, unit: str) -> Any:
    return tqdm(total=steps, unit=unit, file=sys.stderr, disable=None)


def estimates(options: argparse.Namespace) -> Results:
    """Section 1."""
    results: Results = {}
    ways: dict[Name, Callable[[Sample, np.random.Generator, int], float]] = {
        (V_HSIC, "", ""): lambda sample, *_: float(v_hsic(sample)[0]),
        ("N-MHSIC", "2√n", ""): lambda sample, rng, root: n_mhsic_estimate(sample, rng, 2 * root),
        ("N-HSIC", "√n", ""): lambda sample, rng, root: float(n_hsic(sample, rng, root)[0]),
        ("RFF-HSIC", "√n", ""): lambda sample, rng, root: float(rff_hsic(sample, rng, root)[0]),
    }
    with progress(len(options.estimate_sizes) * options.estimate_runs, "sample") as bar:
        for n, run in itertools.product(options.estimate_sizes, range(options.estimate_runs)):
            rng = np.random.default_rng([options.seed, 1, n, run])
            sample = Sample.of(rng.standard_normal((n, 2)), 0, rng)
            for name, way in ways.items():
                start = time.process_time()
                note(results, (2, n, name), start, way(sample, rng, math.isqrt(n)))
            bar.update()
    return results


def dependent(n: int, rng: np.random.Generator) -> Floats:
    x, noise = rng.standard_normal((2, n))
    return np.column_stack([x, x + noise])


def run_tests(results: Results, sample: Sample, rng: np.random.Generator) -> None:
    n, columns = sample.rows.shape
    for name in names_for(columns):
        test = named_test(name, n)
        start = time.process_time()
        note(results, (columns, n, name), start, float(test(sample, rng).p_value <= LEVEL))


def power(options: argparse.Namespace) -> Results:
    """Section 2."""
    results: Results = {}
    with progress(len(options.power_sizes) * options.trials, "sample") as bar:
        for n, run in itertools.product(options.power_sizes, range(options.trials)):
            bar.set_postfix_str(f"power, n = {n}")
            rng = np.random.default_rng([options.seed, 2, n, run])
            sample = Sample.of(dependent(n, rng), options.permutations, rng)
            run_tests(results, sample, rng)
            bar.update()
    return results


def levels(options: argparse.Namespace) -> Results:
    """Section 3."""
    results: Results = {}
    settings = [*itertools.product((2, 3), options.level_sizes)]
    with progress(len(settings) * options.level_runs, "sample") as bar:
        for (columns, n), run in itertools.product(settings, range(options.level_runs)):
            bar.set_postfix_str(f"level, {columns} columns, n = {n}")
            rng = np.random.default_rng([options.seed, 3, columns, n, run])
            sample = Sample.of(rng.standard_normal((n, columns)), options.permutations, rng)
            run_tests(results, sample, rng)
            bar.update()
    return results


# Graphs: for each node, its parents.

Graph = tuple[tuple[int, ...], ...]


def all_graphs(nodes: int) -> list[Graph]:
    """Return all directed acyclic graphs, those with few edges first."""
    pairs = [*itertools.combinations(range(nodes), 2)]
    found = []
    for choice in itertools.product((0, 1, -1), repeat=len(pairs)):
        chosen = [(pair, way) for pair, way in zip(pairs, choice, strict=True) if way]
        edges = [pair if way > 0 else pair[::-1] for pair, way in chosen]
        graph = tuple(tuple(a for a, b in edges if b == node) for node in range(nodes))
        if causal_order(graph) is not None:
            found.append(graph)
    return sorted(found, key=lambda graph: sum(map(len, graph)))


def full_graphs(nodes: int) -> list[Graph]:
    """Return one for each order of nodes: everything before a node is its parent."""
    orders = itertools.permutations(range(nodes))
    return [tuple(tuple(sorted(order[: order.index(i)])) for i in range(nodes)) for order in orders]


def causal_order(graph: Graph) -> list[int] | None:
    """Return nodes such that parents come first; None if there is a cycle."""
    order: list[int] = []
    while len(order) < len(graph):
        ready = [i for i, parents in enumerate(graph) if i not in order and {*parents} <= {*order}]
        if not ready:
            return None
        order += ready
    return order


def edges_of(graph: Graph, names: Sequence[str]) -> str:
    edges = [(parent, node) for node, parents in enumerate(graph) for parent in parents]
    return ", ".join(f"{names[a]}→{names[b]}" for a, b in sorted(edges)) or "no edges"


# Additive models

FUNCTIONS, DEGREE = 10, 3


def spline_basis(x: Floats) -> tuple[Floats, Floats]:
    """Return the values of cubic splines at x, all with mean 0, and the matrix of ∫ f''²."""
    inner = np.unique(np.quantile(np.unique(x), np.linspace(0, 1, FUNCTIONS - DEGREE + 1)))
    knots = np.concatenate([[inner[0]] * DEGREE, inner, [inner[-1]] * DEGREE])
    splines = BSpline(knots, np.eye(len(knots) - DEGREE - 1), DEGREE)
    # Second derivatives are linear between knots: two points of Gauss and Legendre integrate their squares.
    half, middle = np.diff(inner) / 2, (inner[1:] + inner[:-1]) / 2
    bends = splines.derivative(2)(
        np.concatenate([middle - half / math.sqrt(3), middle + half / math.sqrt(3)])
    )
    penalty = bends.T @ (np.tile(half, 2)[:, None] * bends)
    values = splines(x)
    centred = np.linalg.qr(values.mean(axis=0)[:, None], mode="complete")[0][:, 1:]
    return values @ centred, centred.T @ penalty @ centred


def additive_residuals(y: Floats, parents: Floats) -> Floats:
    """Return y minus a sum of smooth functions of its parents, which are rows × parents."""
    if not parents.shape[1]:
        return y
    parts, penalties = zip(*(spline_basis(x) for x in parents.T), strict=True)
    values = np.concatenate([np.ones((len(y), 1)), *parts], axis=1)
    gram, right = values.T @ values, values.T @ y
    # Penalties of about the size of what they are added to, whatever the units.
    sizes = [np.trace(part.T @ part) / np.trace(each) for part, each in zip(parts, penalties, strict=True)]

    def penalised(logs: Floats) -> Floats:
        weights = zip(logs, sizes, penalties, strict=True)
        return gram + block_diag(0, *(math.exp(log) * size * each for log, size, each in weights))

    def gcv(logs: Floats) -> float:
        """The logarithm of the generalised cross-validation."""
        solution = np.linalg.solve(penalised(logs), np.column_stack([gram, right]))
        weights, freedom = solution[:, -1], float(np.trace(solution[:, :-1]))
        squares = float(((y - values @ weights) ** 2).sum())
        return math.log(squares) - 2 * math.log(len(y) - freedom)

    # From two sides: there may be two minima.
    bounds = [(-18.0, 12.0)] * len(parts)
    starts = (np.full(len(parts), log) for log in (-6.0, 0.0))
    best = min((minimize(gcv, start, bounds=bounds) for start in starts), key=lambda found: float(found.fun))
    return np.asarray(y - values @ np.linalg.solve(penalised(best.x), right))


class Residuals:
    """The residuals of every column of a table on any other columns, each computed once."""

    def __init__(self, rows: Floats) -> None:
        self._rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        self._known: dict[tuple[int, tuple[int, ...]], Floats] = {}

    def of(self, graph: Graph) -> Floats:
        """Return the residuals of each node on its parents, rows × nodes."""
        return np.column_stack([self._column(*item) for item in enumerate(graph)])

    def _column(self, node: int, parents: tuple[int, ...]) -> Floats:
        if (node, parents) not in self._known:
            found = additive_residuals(self._rows[:, node], self._rows[:, list(parents)])
            self._known[node, parents] = found
        return self._known[node, parents]


def plausible(outcome: Outcome) -> tuple[float, float]:
    """Return what the best graph has most of: its p-value; among equal ones, a small statistic."""
    return outcome.p_value, -outcome.statistic / outcome.quantile


# Section 4

WEATHER = ("altitude", "temperature", "sunshine")
FILE = "dwd_weather_349x3.parquet"
AVERAGED = 100


def read_weather(folder: Path) -> Floats:
    table = pq.read_table(folder / FILE)
    return np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns])


Outcomes = dict[Name, dict[Graph, Outcome]]


def weather(options: argparse.Namespace) -> Outcomes:
    """Section 4, by test and graph."""
    residuals = Residuals(read_weather(options.data))
    size, graphs = str(options.weather_landmarks), all_graphs(len(WEATHER))
    names: list[Name] = [(V_HSIC, "", ""), *(("N-MHSIC", size, way) for way in (FIXED, REDRAWN))]
    names.append((NYSKETCH, size, ""))
    found: Outcomes = {name: {} for name in names}
    with progress(len(graphs), "graph") as bar:
        for number, graph in enumerate(graphs):
            rng = np.random.default_rng([options.seed, 4, number])
            sample = Sample.of(residuals.of(graph), options.weather_permutations, rng)
            for name in names:
                extra = {"averaged": AVERAGED} if name[2] == REDRAWN else {}
                found[name][graph] = named_test(name, len(sample.rows), **extra)(sample, rng)
            bar.update()
    return found


# Section 5

GRAPH_TESTS: list[Name] = [
    (V_HSIC, "", ""),
    ("N-MHSIC", "2√n", REDRAWN),
    ("N-MHSIC", "8√n", REDRAWN),
    (NYSKETCH, "2√n", ""),
    (NYSKETCH, "8√n", ""),
]


def drawn_from(graph: Graph, n: int, rng: np.random.Generator) -> Floats:
    """Return n rows: sums of random functions of the parents, and noise."""
    rows = np.empty((n, len(graph)))
    deviations = np.sqrt(rng.uniform(1, math.sqrt(2), len(graph)))
    for node in causal_order(graph) or ():
        rows[:, node] = deviations[node] * rng.standard_normal(n)
        for parent in graph[node]:
            rows[:, node] += gaussian_process(rows[:, parent], rng)
    return rows


def gaussian_process(x: Floats, rng: np.random.Generator) -> Floats:
    """Return the values of a random smooth function at x."""
    lengths, directions = np.linalg.eigh(np.exp(-(np.subtract.outer(x, x) ** 2) / 2))
    return directions @ (np.sqrt(np.maximum(lengths, 0)) * rng.standard_normal(len(x)))


def simulated(options: argparse.Namespace) -> Results:
    """Section 5; seconds are for all graphs."""
    graphs = full_graphs(4)
    results: Results = {}
    with progress(len(options.graph_sizes) * options.graph_runs, "sample") as bar:
        for n, run in itertools.product(options.graph_sizes, range(options.graph_runs)):
            rng = np.random.default_rng([options.seed, 5, n, run])
            truth = graphs[rng.integers(len(graphs))]
            residuals = Residuals(drawn_from(truth, n, rng))
            samples = [Sample.of(residuals.of(graph), options.permutations, rng) for graph in graphs]
            for name in GRAPH_TESTS:
                bar.set_postfix_str(f"graphs, n = {n}, {text_of(name)}")
                start, test = time.process_time(), named_test(name, n)
                scores = [plausible(test(sample, rng)) for sample in samples]
                best = max(range(len(graphs)), key=scores.__getitem__)
                note(results, (4, n, name), start, float(graphs[best] == truth))
            bar.update()
    return results


# Tables

# Of the authors' code, by n; for the tests of that name, redrawn.
PUBLISHED: dict[Name, dict[int, float]] = {
    (V_HSIC, "", ""): {20: 0.78, 46: 1.00},
    ("N-MHSIC", "2√n", REDRAWN): {20: 0.22, 46: 0.40, 73: 0.80, 100: 0.99, 126: 1.00},
    ("N-MHSIC", "8√n", REDRAWN): {73: 1.00},
    ("N-HSIC", "√n", REDRAWN): {20: 0.67, 46: 0.98},
    ("RFF-HSIC", "√n", REDRAWN): {20: 0.40, 46: 0.92},
}
# Of the best graph, by the authors' code.
PUBLISHED_WEATHER = {
    V_HSIC: Outcome(2.95e-3, 2.44e-3, 0.010),
    "N-MHSIC": Outcome(4.24e-3, 3.86e-3, 0.014),
}


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def sizes_of(results: Results) -> list[int]:
    return sorted({n for _, n, _ in results})


def table(
    results: Results, cell: Callable[[Measured], str], published: dict[Name, dict[int, float]] | None = None
) -> str:
    """Return a line for each test and number of columns, a cell for each n; what is published in brackets."""
    sizes, tests = sizes_of(results), dict.fromkeys((columns, name) for columns, _, name in results)
    lines = []
    for columns, name in tests:
        known = (published or {}).get(name, {})
        cells = [
            cell(results[columns, n, name]) + (f" ({known[n]:.2f})" if n in known else "") for n in sizes
        ]
        lines.append([text_of(name), str(columns), *cells])
    return markdown(["", "columns", *(f"n = {n}" for n in sizes)], lines)


def mean_cell(found: Measured) -> str:
    return f"{np.mean(found.values):.2e}"


def share_cell(found: Measured) -> str:
    return f"{np.mean(found.values):.3g}"


def time_cell(found: Measured) -> str:
    milliseconds = 1000 * float(np.median(found.seconds))
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def weather_table(found: Outcomes) -> str:
    """Return p-value, statistic and quantile by graph, those that the V-statistic finds plausible first."""
    first = next(iter(found.values()))
    lines = [
        [edges_of(graph, WEATHER), *(outcome_cell(outcomes[graph]) for outcomes in found.values())]
        for graph in sorted(first, key=lambda graph: plausible(first[graph]), reverse=True)
    ]
    return markdown(["graph", *map(text_of, found)], lines)


def outcome_cell(outcome: Outcome) -> str:
    return f"{outcome.p_value:.3f} ({outcome.statistic:.2e}, {outcome.quantile:.2e})"


def write_csv(results: Results, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        heads = ["columns", "n", "estimator", "landmarks", "way", "runs", "mean", "p5", "p95", "seconds"]
        writer.writerow(heads)
        for (columns, n, name), found in results.items():
            numbers = (np.mean(found.values), *spread(found), np.median(found.seconds))
            writer.writerow([columns, n, *name, len(found.values), *(f"{number:.6g}" for number in numbers)])


def spread(found: Measured) -> tuple[float, float]:
    low, high = np.quantile(found.values, [0.05, 0.95])
    return float(low), float(high)


def write_weather(found: Outcomes, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        heads = ["graph", "estimator", "landmarks", "way", "statistic", "quantile", "p_value"]
        writer.writerow(heads)
        for name, outcomes in found.items():
            for graph, outcome in outcomes.items():
                numbers = (outcome.statistic, outcome.quantile, outcome.p_value)
                cells = [f"{number:.6g}" for number in numbers]
                writer.writerow([edges_of(graph, WEATHER), *name, *cells])


# Plots

# Colours that are told apart without red or green (Okabe and Ito), a marker each for those without colours.
LOOKS = {
    V_HSIC: ("#0072B2", "s"),
    "N-MHSIC": ("#E69F00", "o"),
    "N-HSIC": ("#009E73", "^"),
    "RFF-HSIC": ("#CC79A7", "D"),
    NYSKETCH: ("#000000", "x"),
}


def looks_of(name: Name) -> dict[str, Any]:
    colour, marker = LOOKS[name[0]]
    line = {FIXED: ":", REDRAWN: "-"}.get(name[2], "-")
    width = 2.2 if name[1] == "8√n" else 1.2
    return {"color": colour, "marker": marker, "linestyle": line, "linewidth": width, "markersize": 4}


def new_figure(columns: int) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt.subplots(1, columns, figsize=(5.6 * columns, 4.6), squeeze=False, layout="constrained")


def save(figure: Any, axes: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    for axis in axes.ravel():
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    handles, texts = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, fontsize=8, ncols=4, loc="outside lower center")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot(results: Results, label: str, path: Path, *, spreads: bool = False) -> None:
    """Draw means for each number of columns, and seconds beside them."""
    all_columns, sizes = sorted({columns for columns, _, _ in results}), sizes_of(results)
    figure, axes = new_figure(len(all_columns) + 1)
    *panels, seconds = axes[0]
    for columns, name in dict.fromkeys((columns, name) for columns, _, name in results):
        axis, looks = panels[all_columns.index(columns)], looks_of(name)
        found = [results[columns, n, name] for n in sizes]
        axis.plot(sizes, [np.mean(each.values) for each in found], label=text_of(name), **looks)
        if spreads:
            low, high = zip(*map(spread, found), strict=True)
            axis.fill_between(sizes, low, high, color=looks["color"], alpha=0.12, linewidth=0)
        axis.set(xlabel="n", ylabel=label, title=f"{columns} columns")
        if columns == all_columns[0]:
            seconds.plot(sizes, [np.median(each.seconds) for each in found], **looks)
    seconds.set(xlabel="n", ylabel="CPU seconds", yscale="log", title=f"{all_columns[0]} columns")
    save(figure, axes, path)


def plot_weather(found: Outcomes, path: Path) -> None:
    """Draw statistics relative to their quantiles: almost all p-values are as small as they can be."""
    first = next(iter(found.values()))
    graphs = sorted(first, key=lambda graph: plausible(first[graph]))
    figure, ((axis,),) = new_figure(1)
    figure.set_size_inches(9, 7)
    for name, outcomes in found.items():
        looks = looks_of(name) | {"linestyle": "none"}
        if name[2] == FIXED:
            looks["markerfacecolor"] = "none"
        ratios = [outcomes[graph].statistic / outcomes[graph].quantile for graph in graphs]
        axis.plot(ratios, range(len(graphs)), label=text_of(name), **looks)
    axis.axvline(1, color="#777777", linestyle=":")
    axis.set(xscale="log", xlabel="statistic / 95 % quantile")
    axis.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axis.set_yticks(range(len(graphs)), [edges_of(graph, WEATHER) for graph in graphs], fontsize=7)
    save(figure, np.array([[axis]]), path)


# The program

SECTIONS = (1, 2, 3, 4, 5)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes: dict[str, Any] = {"type": int, "nargs": "+", "metavar": "N"}
    parser.add_argument(
        "--section",
        type=int,
        nargs="+",
        choices=SECTIONS,
        metavar="S",
        help="1 to 5; otherwise all, without 4 if there is no --data",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"a folder with {FILE}, for section 4")
    parser.add_argument("--estimate-sizes", default=[*range(100, 1001, 100)], **sizes)
    parser.add_argument("--estimate-runs", type=int, default=100, metavar="RUNS", help="of section 1")
    parser.add_argument("--power-sizes", default=[20, 46, 73, 100, 126, 153, 180, 206], **sizes)
    parser.add_argument("--trials", type=int, default=100, help="of section 2, for each n")
    parser.add_argument("--permutations", type=int, default=250, metavar="B", help="of sections 2, 3 and 5")
    parser.add_argument("--level-sizes", default=[50, 200], **sizes)
    parser.add_argument("--level-runs", type=int, default=200, metavar="RUNS", help="of section 3")
    parser.add_argument("--weather-permutations", type=int, default=500, metavar="B")
    parser.add_argument("--weather-landmarks", type=int, default=100, metavar="M", help="as the paper's code")
    parser.add_argument("--graph-sizes", default=[100, 200, 400], **sizes)
    parser.add_argument("--graph-runs", type=int, default=20, metavar="RUNS", help="of section 5")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("m_hsic.png"), help="NAME.png or NAME.svg")
    parser.add_argument("--csv", type=Path, metavar="NAME.csv", help="if it shall have another name")
    parser.add_argument("--no-plot", action="store_true", help="only tables")
    options = parser.parse_args(arguments)
    options.section = sorted({*(options.section or SECTIONS)} - ({4} if no_weather(options) else set()))
    if 4 in options.section and options.data is None:
        parser.error("section 4 needs --data")
    if 4 in options.section and not (options.data / FILE).is_file():
        parser.error(f"there is no {FILE} in {options.data}")
    counts = ("estimate_runs", "trials", "level_runs", "graph_runs", "weather_landmarks")
    if min(getattr(options, name) for name in counts) < 1:
        parser.error("there must be at least 1 run of each section, and 1 landmark")
    if min(options.permutations, options.weather_permutations) < 1 / LEVEL - 1:
        parser.error(f"fewer than {1 / LEVEL - 1:.0f} permutations cannot reject at the 5 % level")
    for name in ("estimate_sizes", "power_sizes", "level_sizes", "graph_sizes"):
        setattr(options, name, sorted({*getattr(options, name)}))
    if min(options.estimate_sizes + options.power_sizes + options.level_sizes) < 4:
        parser.error("sizes start at 4 rows")
    if min(options.graph_sizes) < 40:
        parser.error("--graph-sizes start at 40: 10 splines of each of three parents")
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
    return options


def no_weather(options: argparse.Namespace) -> bool:
    """Whether section 4 is not asked for by its number, and has no data."""
    return options.section is None and options.data is None


def numbered(path: Path, number: int) -> Path:
    return path.with_stem(f"{path.stem}-{number}")


# What of the paper's claims these tables show, and what they do not.
BESIDE = {
    1: "estimates of N-MHSIC fall towards 0 with n, as in Figure 1. Its run times are not reproduced: there, "
    "N-MHSIC is faster than N-HSIC and RFF-HSIC from n = 500 on; here it is slower at n = 500 and 1,000.",
    2: "powers are close to those of the authors' code, in brackets, if landmarks are redrawn. NFSIC of "
    "Figure 2 is missing.",
    5: "V-HSIC finds most, as in Figure 3, which goes to n = 1,500. That N-MHSIC takes half the time of "
    "V-HSIC is not reproduced: redrawn statistics look kernel values up in the matrix of all rows.",
}


def report(number: int, options: argparse.Namespace) -> str:
    """Run one of sections 1, 2, 3 and 5, write its files and return its tables."""
    run, cell, label, text = {
        1: (estimates, mean_cell, "HSIC²", f"HSIC² of independent columns, mean of {options.estimate_runs}"),
        2: (power, share_cell, "power", f"Power, {options.trials} data sets (that of the authors' code)"),
        3: (levels, share_cell, "level", f"Level, {options.level_runs} data sets"),
        5: (simulated, share_cell, "graph found", f"True graph found, {options.graph_runs} data sets"),
    }[number]
    results = run(options)
    write_csv(results, numbered(options.csv, number))
    if not options.no_plot:
        plot(results, label, numbered(options.output, number), spreads=number == 1)
    known = PUBLISHED if number == 2 else None
    parts = [f"{text}:", table(results, cell, known), "CPU milliseconds, median:", table(results, time_cell)]
    parts += [f"Beside the paper: {BESIDE[number]}"] if number in BESIDE else []
    return "\n\n".join(parts)


def report_weather(options: argparse.Namespace) -> str:
    found = weather(options)
    write_weather(found, numbered(options.csv, 4))
    if not options.no_plot:
        plot_weather(found, numbered(options.output, 4))
    lines = [f"Weather: p-value (statistic, 95 % quantile) by graph:\n\n{weather_table(found)}\n"]
    for name, outcomes in found.items():
        best = max(outcomes, key=lambda graph: plausible(outcomes[graph]))
        lines.append(f"{text_of(name)}: {edges_of(best, WEATHER)}, {outcome_cell(outcomes[best])}")
    published = [f"{name} {outcome_cell(outcome)}" for name, outcome in PUBLISHED_WEATHER.items()]
    full = edges_of(((), (0,), (0, 1)), WEATHER)
    return "\n".join([*lines, f"The authors' code: {full}, {', '.join(published)}"])


def main() -> None:
    options = parse()
    for number in options.section:
        start = time.perf_counter()
        print(f"{number}. {report_weather(options) if number == 4 else report(number, options)}")
        print(f"\n{time.perf_counter() - start:.0f} s; seed {options.seed}\n", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
