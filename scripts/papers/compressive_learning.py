"""Figures 1 to 4 of "Mean Nyström embeddings for adaptive compressive learning" (Chatalic et al., 2022).

    scripts/setup report
    .venv/bin/python scripts/papers/compressive_learning.py --paper --data DIR -o figure.svg

k-means centroids and mixtures of Gaussians with diagonal covariances are learned from the sums of m kernel or
feature values over all rows, and from nothing else. Which m values serve best? The paper's answers (§5, E.3):

  1  at equal m, kernels at landmarks (Nyström) leave a lower risk, with less spread, than random Fourier
     features; no way of choosing landmarks is the best throughout
  2  the range of bandwidths σ that give good results is wider (a map of σ² and m)
  3  the same on a second synthetic set, and for the adjusted Rand index (ARI) with known classes
  4  risk against σ² for each data set: Nyström is more stable, but for one of them

With --paper, decoding is CL-OMPR as published (cl_ompr.py): point atoms for k-means, normalised correlation,
plain features, from nothing, no help from landmarks or rows. Without, it is `clomp` of the tool, which takes
what help it can get; Fourier features then have none unless rows are sampled beside them (`fourier+rows`).

Risk is relative to scikit-learn on all rows: for k-means the mean squared distance to the nearest centroid
divided by that of KMeans (10 restarts), for mixtures the negative log-likelihood per row minus that of EM
(3 restarts). Sketch sizes m are multiples of p, the number of parameters: kd for centroids, 2kd for means
and variances.

Data, k = 10 and d = 10 unless --clusters and --features say otherwise; --rows rows, drawn anew in each trial:

  synthetic    k Gaussians N(c_i, I), c_i from N(0, 4 k^(2/d) I) (Appendix E)
  synthetic-2  the same with k = 20, d = 5 (the paper does not say what its second set is)
  digits       the 8 × 8 images that come with scikit-learn, d principal components, all 1797 of them
  NAME         *NAME*.parquet of --data DIR (--tables): numeric columns, standardised, d principal components

The paper's own sets (FMA, MNIST, CIFAR10) are not used. It chose σ² by hand for each set. Here Figures 2
and 4 try multiples of the squared median distance (--factors), and Figures 1 and 3 take, for each set and
kind of features, the one with the least median risk at m/p = --at (or that of Figure 4, where it was
drawn); on the synthetic set the paper's σ² = 81 and 24.

Series:

  uniform, leverage, greedy   landmarks drawn uniformly, by ridge leverage scores (BLESS), or taken where the
                              residual is largest
  fourier                     m/2 frequencies, a cosine and a sine each
  fourier+rows                the same with m sampled rows beside them, to start from and to see how features
                              vary, which landmarks are good for as well; not with --paper
  rows                        no sums: scikit-learn on the m landmarks of `uniform`, which are in the sketch
  quadrature                  the sums of `uniform`, decoded by our own `quadrature`
  plain, whitened             one run of the tool's pursuit on the sums of `uniform`, from nothing, comparing
                              features as they are, or in units of their standard errors
  warm-1, warm-20             one whitened run that replaces atoms of the best of 1, or 20, runs of k-means on
                              weighted landmarks

It writes NAME.csv (median, quartiles, standard deviation over trials), NAME-1.svg to NAME-4.svg (or .png),
and prints tables and a verdict on each claim.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from cl_ompr import cl_ompr  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.metrics import adjusted_rand_score  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402
from nysketch.kernels.options import median_distance  # noqa: E402
from nysketch.learning.decode import em, weighted_kmeans  # noqa: E402
from nysketch.learning.decode.atoms import POINT  # noqa: E402
from nysketch.learning.decode.decoders import to_centroids  # noqa: E402
from nysketch.learning.decode.evidence import Evidence  # noqa: E402
from nysketch.learning.decode.mixture import Mixture  # noqa: E402
from nysketch.learning.decode.points import Points  # noqa: E402
from nysketch.learning.decode.pursuit import Climb, pursuit  # noqa: E402

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# k and d of Figure 1, which the paper's σ² are for; and of a second set.
CLUSTERS, FEATURES = 10, 10
SECOND_CLUSTERS, SECOND_FEATURES = 20, 5
SEPARATION = 2.0
SYNTHETIC, SECOND = "synthetic", "synthetic-2"
RESTARTS_OF_KMEANS, RESTARTS_OF_EM = 10, 3

NYSTROM, FOURIER = "uniform", "fourier"
QUADRATURE, ROWS, FOURIER_ROWS = "quadrature", "rows", "fourier+rows"
PLAIN, WHITENED = "plain", "whitened"
WARM = {"warm-1": 1, "warm-20": 20}  # restarts of k-means
SAMPLINGS = (NYSTROM, "leverage", "greedy")
# Which sketch a series is decoded from; those of one sketch are next to each other.
SKETCHED = {
    NYSTROM: NYSTROM,
    QUADRATURE: NYSTROM,
    ROWS: NYSTROM,
    PLAIN: NYSTROM,
    WHITENED: NYSTROM,
    "warm-1": NYSTROM,
    "warm-20": NYSTROM,
    "leverage": "leverage",
    "greedy": "greedy",
    FOURIER: FOURIER,
    FOURIER_ROWS: FOURIER_ROWS,
}
# Colours that are told apart without red or green (Okabe and Ito), a marker each for those without colours.
LOOKS = {
    NYSTROM: ("#E69F00", "o"),
    "leverage": ("#CC79A7", "^"),
    "greedy": ("#000000", "x"),
    FOURIER: ("#0072B2", "s"),
    QUADRATURE: ("#009E73", "D"),
    ROWS: ("#999999", "v"),
    FOURIER_ROWS: ("#56B4E9", "s"),
    PLAIN: ("#D55E00", "<"),
    WHITENED: ("#F0E442", ">"),
    "warm-1": ("#009E73", "+"),
    "warm-20": ("#009E73", "*"),
}


@dataclass(frozen=True)
class Task:
    """k-means, or mixtures of Gaussians."""

    name: str
    title: str
    axis: str  # the same with 0 for what scikit-learn does
    parameters: int  # for each cluster and dimension
    paper_variance: float  # σ² of Figure 1 on the synthetic data
    best: float  # the risk of scikit-learn on all rows
    near: float  # how far from the best a bandwidth may be and still be good
    learn: Callable[..., Any]

    def of_scikit_learn(self, rows: Floats, X: Floats, k: int, seed: int) -> float:
        """Return the mean cost of X under what scikit-learn learns from some rows."""
        with warnings.catch_warnings():
            # Of 50 rows, or of columns with few values, EM may not end.
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self is KMEANS:
                fit = KMeans(k, n_init=RESTARTS_OF_KMEANS, random_state=seed).fit(rows)
                return -float(fit.score(X)) / len(X)
            mixture = GaussianMixture(k, covariance_type="diag", n_init=RESTARTS_OF_EM, random_state=seed)
            return -float(mixture.fit(rows).score(X))

    def risk(self, cost: float, reference: float) -> float:
        """Return the risk of a mean cost."""
        return cost / reference if self is KMEANS else cost - reference

    def sketch_size(self, size: float, k: int, d: int) -> int:
        """Return m for a size in units of p: even, for Fourier features come in pairs."""
        return 2 * round(size * self.parameters * k * d / 2)


KMEANS = Task(
    name="kmeans",
    title="k-means: cost / cost of KMeans",
    axis="cost / cost of KMeans − 1",
    parameters=1,
    paper_variance=81.0,
    best=1.0,
    near=0.1,
    learn=nysketch.learn_kmeans,
)
GMM = Task(
    name="gmm",
    title="Gaussian mixtures: −log-likelihood less that of EM, nats per row",
    axis="excess −log-likelihood",
    parameters=2,
    paper_variance=24.0,
    best=0.0,
    near=0.5,
    learn=nysketch.learn_gmm,
)
TASKS = {task.name: task for task in (KMEANS, GMM)}


@dataclass(frozen=True)
class DataSet:
    """Rows to draw for a trial, with their classes where these are known."""

    k: int
    draw: Callable[[np.random.Generator], tuple[Floats, Ints | None]]
    by_hand: bool = False  # the paper's σ² are for it


def synthetic(rng: np.random.Generator, rows: int, k: int, d: int) -> tuple[Floats, Ints]:
    centres = SEPARATION * k ** (1 / d) * rng.standard_normal((k, d))
    classes = rng.integers(k, size=rows)
    return centres[classes] + rng.standard_normal((rows, d)), classes


def principal(rows: Floats, d: int) -> Floats:
    return np.asarray(PCA(min(d, rows.shape[1]), random_state=0).fit_transform(rows), np.float64)


def read_table(path: Path, d: int) -> Floats:
    table = pq.read_table(path)
    kinds = {column.name: column.type for column in table.schema}
    numeric = [
        name for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_integer(kind)
    ]
    rows = np.column_stack([table[name].to_numpy().astype(np.float64) for name in numeric])
    rows = rows[np.isfinite(rows).all(axis=1)]
    deviations = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0))[:, deviations > 0] / deviations[deviations > 0]
    return principal(rows, d)


def some_rows(rng: np.random.Generator, rows: Floats, count: int) -> tuple[Floats, None]:
    return rng.permutation(rows)[:count], None


def data_sets(options: argparse.Namespace) -> dict[str, DataSet]:
    k, d = options.clusters, options.features
    images, classes = load_digits(return_X_y=True)
    digits = principal(images, d)
    found = {
        SYNTHETIC: DataSet(
            k,
            partial(synthetic, rows=options.rows, k=k, d=d),
            by_hand=(k, d) == (CLUSTERS, FEATURES),
        ),
        SECOND: DataSet(
            SECOND_CLUSTERS,
            partial(synthetic, rows=options.rows, k=SECOND_CLUSTERS, d=SECOND_FEATURES),
        ),
        "digits": DataSet(k, lambda _: (digits, classes)),
    }
    for name in options.tables if options.data is not None else ():
        paths = sorted(options.data.glob(f"*{name}*.parquet"))
        if paths:
            found[name] = DataSet(k, partial(some_rows, rows=read_table(paths[0], d), count=options.rows))
        else:
            print(f"{options.data}: no *{name}*.parquet there, left out", file=sys.stderr)
    for name in options.sets or ():
        if name not in found:
            raise SystemExit(f"there is no data set {name}, only {', '.join(found)}")
    return {name: found[name] for name in options.sets or found}


class Setting(NamedTuple):
    """What is measured once in every trial."""

    figure: int
    data: str
    task: str
    bandwidth: str  # "σ² = 81", or "× 0.25": a multiple of the squared median distance
    size: float  # m/p
    series: str

    def variance(self, median: float) -> float:
        """σ²."""
        if self.bandwidth.startswith("×"):
            return float(self.bandwidth.removeprefix("×")) * median**2
        return float(self.bandwidth.removeprefix("σ² ="))


def times(factor: float) -> str:
    return f"× {factor:g}"


@dataclass
class Measured:
    """Of one setting, for each trial, the risk and the adjusted Rand index."""

    m: int
    risks: list[float] = field(default_factory=list)
    agreements: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median risk."""
        return float(np.median(self.risks))

    @property
    def deviation(self) -> float:
        """The standard deviation of the risk."""
        return float(np.std(self.risks))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile of the risk."""
        low, high = np.quantile(self.risks, [0.25, 0.75])
        return float(low), float(high)

    @property
    def agreement(self) -> float | None:
        """The median of the adjusted Rand index."""
        return float(np.median(self.agreements)) if self.agreements else None


Results = dict[Setting, Measured]


def sweep_settings(options: argparse.Namespace, data: str) -> list[Setting]:
    """Figures 2 and 4: the map on the synthetic data, one size on the others."""
    both = [series for series in (NYSTROM, FOURIER) if series in options.series]
    wanted = []
    for task in options.tasks:
        sizes = {options.at} if 4 in options.figures else set()
        if data == SYNTHETIC and 2 in options.figures:
            sizes |= {*options.sizes}
        wanted += [
            Setting(4 if size == options.at and 4 in options.figures else 2, data, task, times(f), size, each)
            for f in options.factors
            for size in sorted(sizes)
            for each in both
        ]
    return wanted


def size_settings(options: argparse.Namespace, data: str, of: DataSet, results: Results) -> list[Setting]:
    """Figures 1 and 3, at the best bandwidth of Figure 4 or at the paper's."""
    if not {1, 3} & {*options.figures}:
        return []
    wanted = []
    for task in options.tasks:
        for size in options.sizes:
            for series in (series for series in SKETCHED if series in options.series):
                kind = FOURIER if series in (FOURIER, FOURIER_ROWS) else NYSTROM
                if options.bandwidth is not None:
                    bandwidth = times(options.bandwidth)
                elif of.by_hand:
                    bandwidth = f"σ² = {TASKS[task].paper_variance:g}"
                else:
                    tried = {s.bandwidth: r.median for s, r in swept(results, data, task, kind, options.at)}
                    bandwidth = min(tried, key=tried.__getitem__) if tried else times(1.0)
                wanted.append(Setting(1, data, task, bandwidth, size, series))
    return wanted


def swept(results: Results, data: str, task: str, series: str, size: float) -> list[tuple[Setting, Measured]]:
    """Return what was measured at all bandwidths."""
    return [
        (s, r)
        for s, r in results.items()
        if s.figure != 1 and (s.data, s.task, s.series, s.size) == (data, task, series, size)
    ]


def make_sketch(X: Floats, what: str, m: int, variance: float, seed: int) -> nysketch.Sketch:
    fourier = what in (FOURIER, FOURIER_ROWS)
    return nysketch.sketch(
        X,
        landmarks=m,
        **({"features": "fourier"} if fourier else {"sampling": what}),
        bandwidth=variance**0.5,
        scale="none",
        cells=False,
        sample_rows=m if what == FOURIER_ROWS else 0,
        precision="float64",
        seed=seed,
        threads=1,
    )


def one_pursuit(
    sketch: nysketch.Sketch, task: Task, k: int, series: str, rng: np.random.Generator
) -> Mixture:
    """Return what one run of the tool's pursuit finds: from nothing, or from k-means on landmarks."""
    evidence = Evidence(sketch)
    matching = evidence.matching("diag")
    if series == PLAIN:
        matching = evidence.matching("diag", plain=True)
    spread = evidence.variances / k ** (2 / evidence.d) / 2
    start = None
    if series in WARM:
        centroids = weighted_kmeans.starts(evidence.quadrature, k, WARM[series], rng)[0]
        start = em.from_centroids(evidence.quadrature, centroids, "diag")
    found = pursuit(matching, k, spread, Climb(matching, evidence.support), rng, start=start)
    return found.normalise() if task is GMM else to_centroids(found, rng)


class Trial:
    """The rows of one trial, and what was worked out about them."""

    def __init__(
        self, X: Floats, classes: Ints | None, k: int, seed: int, options: argparse.Namespace
    ) -> None:
        self.X, self._classes, self._k, self._seed, self._options = X, classes, k, seed, options
        self._median = median_distance(X[np.random.default_rng(seed).permutation(len(X))[:1000]], seed)
        self._references: dict[str, float] = {}
        self._last: tuple[Any, nysketch.Sketch] | None = None

    def measure(self, setting: Setting, measured: Measured) -> None:
        """Add the risk, and the agreement with known classes, to what was measured."""
        task, X = TASKS[setting.task], self.X
        if task.name not in self._references:
            self._references[task.name] = task.of_scikit_learn(X, X, self._k, self._seed)
        sketch = self._sketch(SKETCHED[setting.series], measured.m, setting.variance(self._median))
        if setting.series == ROWS:
            cost = task.of_scikit_learn(sketch.basis.landmarks, X, self._k, self._seed)
        else:
            mixture = self._decoded(task, sketch, setting.series)
            rows = Points.of_rows(X)  # nothing is scaled: these are the units of the mixture
            if task is KMEANS:
                cost = weighted_kmeans.cost(rows, mixture.means)
                if self._classes is not None:
                    labels = weighted_kmeans.squared_distances(X, mixture.means).argmin(axis=1)
                    measured.agreements.append(float(adjusted_rand_score(self._classes, labels)))
            else:
                cost = -em.log_likelihood(rows, mixture)
        measured.risks.append(task.risk(cost, self._references[task.name]))

    def _decoded(self, task: Task, sketch: nysketch.Sketch, series: str) -> Mixture:
        rng = np.random.default_rng(self._seed)
        if series in (PLAIN, WHITENED, *WARM):
            return one_pursuit(sketch, task, self._k, series, rng)
        trials = self._options.decoder_trials
        if self._options.paper and series != QUADRATURE:
            shape, variances = POINT if task is KMEANS else "diag", self.X.var(axis=0)
            found = [cl_ompr(sketch, self._k, shape, variances, rng) for _ in range(trials)]
            return min(found, key=lambda pair: pair[1])[0]
        how = {"decoder": QUADRATURE} if series == QUADRATURE else {"decoder": "clomp", "trials": trials}
        model = task.learn(sketch, self._k, seed=self._seed, **how)
        if task is KMEANS:
            centroids = np.asarray(model.centroids)
            return Mixture(np.ones(self._k), centroids, np.zeros_like(centroids))
        return Mixture(model.weights, model.means, model.covariances)

    def _sketch(self, *key: Any) -> nysketch.Sketch:
        """Return a sketch; the last one is kept, for it may be decoded in several ways."""
        if self._last is None or self._last[0] != key:
            self._last = key, make_sketch(self.X, *key, self._seed)
        return self._last[1]


def run(options: argparse.Namespace, sets: dict[str, DataSet]) -> Results:
    """Measure one data set after the other: the bandwidths first, for the best of them is taken then."""
    results: Results = {}
    with tqdm(file=sys.stderr, disable=None, unit="fit") as bar:
        for which, (data, of) in enumerate(sets.items()):
            trials = []
            for number in range(options.trials):
                X, classes = of.draw(np.random.default_rng([options.seed, number, which]))
                trials.append(Trial(X, classes, of.k, 1000 * options.seed + number, options))
            for settings in (sweep_settings, partial(size_settings, of=of, results=results)):
                for setting in settings(options, data):
                    d = trials[0].X.shape[1]
                    m = TASKS[setting.task].sketch_size(setting.size, of.k, d)
                    if m > len(trials[0].X) // 2:
                        continue
                    bar.set_postfix_str(f"{data}, {setting.task}, {m} {setting.series} {setting.bandwidth}")
                    measured = results.setdefault(setting, Measured(m))
                    for trial in trials:
                        trial.measure(setting, measured)
                        bar.update()
                write_csv(results, options.output.with_suffix(".csv"))  # should this end early
    return results


def write_csv(results: Results, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Setting._fields, "m", "trials", "median", "p25", "p75", "sd", "ari"])
        for setting, measured in results.items():
            numbers = [measured.median, *measured.quartiles, measured.deviation, measured.agreement]
            writer.writerow(
                [*setting[:4], f"{setting.size:g}", setting.series, measured.m, len(measured.risks)]
                + ["" if number is None else f"{number:.6g}" for number in numbers]
            )


# Figures 1 and 3: sizes


def sets_of(results: Results, task: str) -> list[str]:
    return list(dict.fromkeys(s.data for s in results if s.figure == 1 and s.task == task))


def curve(results: Results, data: str, task: str, series: str) -> dict[float, Measured]:
    """Return what was measured of a series in Figure 1, by m/p."""
    found = ((s, r) for s, r in results.items() if s.figure == 1)
    return {s.size: r for s, r in found if (s.data, s.task, s.series) == (data, task, series)}


def bandwidth_of(results: Results, data: str, task: str, series: str) -> str:
    return next(
        s.bandwidth for s in results if s.figure == 1 and (s.data, s.task, s.series) == (data, task, series)
    )


def text_of(risk: float | None) -> str:
    if risk is None:
        return "–"
    return f"{risk:.3f}" if abs(risk) < 10 else f"{risk:.3g}"


def header(first: list[str], values: Iterable[Any]) -> list[str]:
    cells = [*first, *map(str, values)]
    return ["| " + " | ".join(cells) + " |", "|" + "---|" * len(cells)]


def risk_table(results: Results, task: str, options: argparse.Namespace) -> str:
    lines = header(["data", "series", "σ²"], (f"m/p = {size:g}" for size in options.sizes))
    for data in sets_of(results, task):
        for series in options.series:
            found = curve(results, data, task, series)
            if not found:
                continue
            cells = []
            for size in options.sizes:
                of = found.get(size)
                cells.append("–" if of is None else f"{text_of(of.median)} ({text_of(of.deviation)})")
            bandwidth = bandwidth_of(results, data, task, series)
            lines.append(f"| {data} | {series} | {bandwidth} | {' | '.join(cells)} |")
    return "\n".join(lines)


def agreement_table(results: Results, options: argparse.Namespace) -> str:
    lines = header(["data", "series"], (f"m/p = {size:g}" for size in options.sizes))
    for data in sets_of(results, KMEANS.name):
        for series in options.series:
            found = curve(results, data, KMEANS.name, series)
            cells = [text_of(found[size].agreement if size in found else None) for size in options.sizes]
            if {*cells} - {"–"}:
                lines.append(f"| {data} | {series} | {' | '.join(cells)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


# Verdicts


def sizes_where(found: Iterable[tuple[float, bool]]) -> str:
    """Say at which sizes something is true."""
    all_of = list(found)
    true = [size for size, holds in all_of if holds]
    if len(true) == len(all_of):
        return f"at all {len(all_of)} sizes"
    return "at no size" if not true else "at m/p = " + ", ".join(f"{size:g}" for size in true) + " only"


def of_sizes(results: Results, options: argparse.Namespace) -> list[str]:
    """Does Nyström beat Fourier at equal m? Which landmarks are best? Are sums better than rows?"""
    lines = []
    for task in options.tasks:
        for data in sets_of(results, task):
            ours, theirs, rows = (curve(results, data, task, each) for each in (NYSTROM, FOURIER, ROWS))
            shared = [size for size in ours if size in theirs]
            if shared:
                won = [
                    a < b
                    for size in shared
                    for a, b in zip(ours[size].risks, theirs[size].risks, strict=True)
                ]
                median = sizes_where((s, ours[s].median < theirs[s].median) for s in shared)
                spread = sizes_where((s, ours[s].deviation < theirs[s].deviation) for s in shared)
                lines.append(
                    f"- Figure 1, {task}, {data}: Nyström (uniform) has the lower risk in {sum(won)} of "
                    f"{len(won)} trials, the lower median {median}, the lower standard deviation {spread}"
                )
            both = [size for size in ours if size in rows]
            if both:
                better = sizes_where((s, ours[s].median < rows[s].median) for s in both)
                lines.append(f"- {task}, {data}: the sums have a lower median than their landmarks {better}")
    best = []
    for task in options.tasks:
        for data in sets_of(results, task):
            found = {each: curve(results, data, task, each) for each in SAMPLINGS if each in options.series}
            for size in options.sizes:
                medians = {each: of[size].median for each, of in found.items() if size in of}
                if len(medians) == len(SAMPLINGS):
                    best.append(min(medians, key=medians.__getitem__))
    if best:
        counts = ", ".join(f"{each} in {best.count(each)}" for each in SAMPLINGS)
        lines.append(f"- Figure 1, landmarks: of {len(best)} cells the lowest median is {counts}")
    return lines


def of_agreement(results: Results) -> list[str]:
    lines = []
    for data in sets_of(results, KMEANS.name):
        ours, theirs = (curve(results, data, KMEANS.name, each) for each in (NYSTROM, FOURIER))
        pairs = [(s, ours[s].agreement, theirs[s].agreement) for s in ours if s in theirs]
        known = [(s, a > b) for s, a, b in pairs if a is not None and b is not None]
        if known:
            lines.append(f"- Figure 3, {data}: Nyström has the higher median ARI {sizes_where(known)}")
    return lines


@dataclass(frozen=True)
class Sweep:
    """Risks of both kinds of features, for one data set, task and size, by bandwidth."""

    data: str
    task: Task
    size: float
    bandwidths: list[str]
    risks: dict[str, Floats]  # by series
    deviations: dict[str, Floats]

    def good(self, series: str) -> int:
        """Return how many bandwidths are near the best of either kind of features."""
        best = min(float(risks.min()) for risks in self.risks.values())
        return int((self.risks[series] <= best + self.task.near).sum())


def sweeps_of(results: Results, options: argparse.Namespace) -> list[Sweep]:
    keys = dict.fromkeys((s.data, s.task, s.size) for s in results if s.figure != 1)
    found = []
    for data, task, size in keys:
        of = {
            series: swept(results, data, task, series, size)
            for series in (NYSTROM, FOURIER)
            if series in options.series
        }
        bandwidths = [s.bandwidth for s, _ in next(iter(of.values()))]
        found.append(
            Sweep(
                data,
                TASKS[task],
                size,
                bandwidths,
                {series: np.array([r.median for _, r in each]) for series, each in of.items()},
                {series: np.array([r.deviation for _, r in each]) for series, each in of.items()},
            )
        )
    return found


def sweep_table(sweeps: list[Sweep]) -> str:
    lines = header(["data", "task", "m/p", "series"], [*sweeps[0].bandwidths, "good"])
    for sweep in sweeps:
        for series, risks in sweep.risks.items():
            cells = [f"**{text_of(r)}**" if r == risks.min() else text_of(r) for r in risks]
            lines.append(
                f"| {sweep.data} | {sweep.task.name} | {sweep.size:g} | {series} | {' | '.join(cells)} | "
                f"{sweep.good(series)} of {len(risks)} |"
            )
    return "\n".join(lines)


def of_bandwidths(sweeps: list[Sweep], options: argparse.Namespace) -> list[str]:
    lines = []
    for sweep in sweeps:
        if {NYSTROM, FOURIER} - {*sweep.risks}:
            continue
        ours, theirs = sweep.good(NYSTROM), sweep.good(FOURIER)
        word = "wider" if ours > theirs else "as wide" if ours == theirs else "narrower"
        figure = 4 if sweep.size == options.at and 4 in options.figures else 2
        lines.append(
            f"- Figure {figure}, {sweep.task.name}, {sweep.data}, m/p = {sweep.size:g}: the range of good σ² "
            f"is {word} for Nyström, {ours} of {len(sweep.bandwidths)} against {theirs}"
        )
    return lines


# Plots


def panel_grid(rows: int, columns: int, *, share: bool) -> Any:
    from matplotlib import pyplot as plt

    return plt.subplots(
        rows,
        columns,
        figsize=(3.4 * columns, 3.1 * rows),
        squeeze=False,
        sharey="row" if share else False,
        layout="constrained",
    )


def save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def draw_band(axis: Any, at: list[float], middle: Floats, low: Floats, high: Floats, series: str) -> None:
    colour, marker = LOOKS[series]
    axis.plot(at, middle, color=colour, marker=marker, markersize=4, linewidth=1.2, label=series)
    axis.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)


def plot_sizes(results: Results, options: argparse.Namespace, path: Path) -> None:
    """Figure 1, and of Figure 3 the second set: risk against size."""
    rows = [sets_of(results, task) for task in options.tasks]
    figure, axes = panel_grid(len(rows), max(map(len, rows)), share=True)
    for task, found, of_task in zip(options.tasks, rows, axes, strict=True):
        for axis in of_task[len(found) :]:
            axis.set_visible(False)
        for data, axis in zip(found, of_task, strict=False):
            for series in options.series:
                points = curve(results, data, task, series)
                if points:
                    above = np.array([[r.median, *r.quartiles] for r in points.values()]) - TASKS[task].best
                    draw_band(axis, list(points), *above.T, series)
            axis.axhline(0, color="#777777", linewidth=0.8)
            axis.set_xscale("log")
            axis.set_yscale("symlog", linthresh=1e-2)
            axis.set_xticks(options.sizes, [f"{size:g}" for size in options.sizes])
            axis.minorticks_off()
            axis.set(title=f"{task}, {data}", xlabel="m/p")
            axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        of_task[0].set_ylabel(TASKS[task].axis)
    axes[0, 0].legend(fontsize=8)
    save(figure, path)


def plot_map(sweeps: list[Sweep], path: Path) -> None:
    """Figure 2: risk against σ² and size."""
    from matplotlib.colors import LogNorm

    tasks = list(dict.fromkeys(sweep.task.name for sweep in sweeps))
    figure, axes = panel_grid(len(tasks), 2, share=False)
    figure.set_size_inches(11, 3.0 * len(tasks))
    for name, of_task in zip(tasks, axes, strict=True):
        found = sorted((sweep for sweep in sweeps if sweep.task.name == name), key=lambda s: s.size)
        task = found[0].task
        highest = max(float(r.max()) for sweep in found for r in sweep.risks.values()) - task.best
        scale = LogNorm(1e-2, max(1.0, highest), clip=True)
        for series, axis in zip(found[0].risks, of_task, strict=False):
            risks = np.array([sweep.risks[series] for sweep in found])
            image = axis.imshow(
                np.maximum(risks - task.best, 1e-9), norm=scale, cmap="cividis_r", aspect="auto"
            )
            for (i, j), risk in np.ndenumerate(risks):
                star = "★ " if j == risks[i].argmin() else ""
                dark = image.norm(max(risk - task.best, 1e-9)) > 0.5
                colour = "w" if dark else "k"
                axis.text(j, i, star + text_of(risk), ha="center", va="center", color=colour, fontsize=7)
            axis.set_xticks(range(len(found[0].bandwidths)), found[0].bandwidths)
            axis.set_yticks(range(len(found)), [f"{sweep.size:g}" for sweep in found])
            axis.set(title=f"{name}, {series}", xlabel="σ² / squared median distance (★ best)", ylabel="m/p")
        figure.colorbar(image, ax=of_task.tolist(), label=f"risk above {task.best:g}")
    save(figure, path)


def plot_agreement(results: Results, options: argparse.Namespace, path: Path) -> None:
    """Figure 3: the adjusted Rand index against size."""
    known = [
        data
        for data in sets_of(results, KMEANS.name)
        if any(r.agreements for s, r in results.items() if s.figure == 1 and s.data == data)
    ]
    if not known:
        return
    figure, axes = panel_grid(1, len(known), share=True)
    for data, axis in zip(known, axes[0], strict=True):
        for series in options.series:
            found = {s: r.agreements for s, r in curve(results, data, KMEANS.name, series).items()}
            found = {size: values for size, values in found.items() if values}
            if found:
                quartiles = np.array([np.quantile(each, [0.5, 0.25, 0.75]) for each in found.values()])
                draw_band(axis, list(found), *quartiles.T, series)
        axis.set_xscale("log")
        axis.set_xticks(options.sizes, [f"{size:g}" for size in options.sizes])
        axis.minorticks_off()
        axis.set(title=data, xlabel="m/p")
        axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes[0, 0].set_ylabel("adjusted Rand index")
    axes[0, 0].legend(fontsize=8)
    save(figure, path)


def plot_bandwidths(sweeps: list[Sweep], path: Path) -> None:
    """Figure 4: risk against σ² for each set."""
    tasks = list(dict.fromkeys(sweep.task.name for sweep in sweeps))
    rows = [[sweep for sweep in sweeps if sweep.task.name == task] for task in tasks]
    figure, axes = panel_grid(len(rows), max(map(len, rows)), share=True)
    for found, of_task in zip(rows, axes, strict=True):
        for axis in of_task[len(found) :]:
            axis.set_visible(False)
        for sweep, axis in zip(found, of_task, strict=False):
            factors = [float(bandwidth.removeprefix("×")) for bandwidth in sweep.bandwidths]
            for series, risks in sweep.risks.items():
                above, deviation = risks - sweep.task.best, sweep.deviations[series]
                draw_band(axis, factors, above, above - deviation, above + deviation, series)
            axis.set_xscale("log", base=2)
            axis.set_yscale("symlog", linthresh=1e-2)
            axis.set_xticks(factors, [f"{factor:g}" for factor in factors], fontsize=7)
            axis.set(title=f"{sweep.task.name}, {sweep.data}, m/p = {sweep.size:g}")
            axis.set_xlabel("σ² / squared median distance")
            axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        of_task[0].set_ylabel(found[0].task.axis)
    axes[0, 0].legend(fontsize=8)
    save(figure, path)


def plot(results: Results, sweeps: list[Sweep], options: argparse.Namespace) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "nysketch"
    path = options.output.with_suffix(options.output.suffix or ".png")
    if any(setting.figure == 1 for setting in results):
        plot_sizes(results, options, path.with_stem(f"{path.stem}-1"))
        if 3 in options.figures:
            plot_agreement(results, options, path.with_stem(f"{path.stem}-3"))
    maps = [sweep for sweep in sweeps if sweep.data == SYNTHETIC]
    if 2 in options.figures and maps:
        plot_map(maps, path.with_stem(f"{path.stem}-2"))
    each = [sweep for sweep in sweeps if sweep.size == options.at]
    if 4 in options.figures and each:
        plot_bandwidths(each, path.with_stem(f"{path.stem}-4"))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paper", action="store_true", help="CL-OMPR as published, not as in the tool")
    parser.add_argument("--figures", type=int, nargs="+", choices=[1, 2, 3, 4], default=[1, 2, 3, 4])
    parser.add_argument("--rows", type=int, default=5_000, help="of the data of a trial, at most")
    parser.add_argument("--clusters", type=int, default=CLUSTERS, metavar="K", help="Figure 2 has 20")
    parser.add_argument("--features", type=int, default=FEATURES, metavar="D", help="Figure 2 has 30")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.5, 1, 2, 5], metavar="M/P")
    parser.add_argument("--at", type=float, default=2.0, metavar="M/P", help="the size of Figure 4")
    parser.add_argument(
        "--factors",
        type=float,
        nargs="+",
        default=[1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4],
        help="σ² of Figures 2 and 4, in units of the squared median distance",
    )
    parser.add_argument(
        "--bandwidth", type=float, metavar="FACTOR", help="σ² of Figures 1 and 3, in the same units"
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--series", nargs="+", choices=SKETCHED)
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these data only")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of Parquet files")
    parser.add_argument(
        "--tables",
        nargs="+",
        default=["bike", "kegg"],
        metavar="NAME",
        help="the files, by parts of their names",
    )
    parser.add_argument("--decoder-trials", type=int, default=1, help="of CL-OMPR, for each sketch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("compressive-learning.png"), help="NAME.png or NAME.svg"
    )
    parser.add_argument("--no-plot", action="store_true", help="only NAME.csv")
    options = parser.parse_args(arguments)
    if min(options.trials, options.decoder_trials) < 1 or options.rows < 1000:
        parser.error("there must be at least 1 trial and 1000 rows")
    if min(options.clusters, options.features) < 2:
        parser.error("there must be at least 2 clusters and 2 features")
    if min(*options.sizes, options.at) < 2 / options.features:
        parser.error("there must be at least two landmarks for a cluster: no m/p below 2/d")
    if options.output.suffix not in ("", ".png", ".svg"):
        parser.error(f"a plot is .png or .svg, not {options.output.suffix}")
    # Now, not after ten minutes.
    if not options.output.parent.is_dir():
        parser.error(f"there is no folder {options.output.parent}")
    if not options.no_plot and find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: run scripts/setup report, or leave it out with --no-plot")
    if options.series is None:
        usual = [NYSTROM, "leverage", "greedy", ROWS, FOURIER]
        options.series = usual if options.paper else [*usual, FOURIER_ROWS, QUADRATURE]
    options.sizes, options.factors = sorted(options.sizes), sorted(options.factors)
    return options


def main() -> None:
    options = parse()
    sets = data_sets(options)
    start, cpu = time.perf_counter(), time.process_time()
    results = run(options, sets)
    if not results:
        raise SystemExit("all sketches would be larger than half of the rows: there must be more --rows")
    sweeps = sweeps_of(results, options)
    if not options.no_plot:
        plot(results, sweeps, options)
    if any(setting.figure == 1 for setting in results):
        for task in options.tasks:
            print(f"{TASKS[task].title}, median (standard deviation) of {options.trials} trials:\n")
            print(risk_table(results, task, options) + "\n")
        agreements = agreement_table(results, options)
        if 3 in options.figures and agreements:
            print("Adjusted Rand index of k-means with the classes, median:\n")
            print(agreements + "\n")
    if sweeps:
        near = ", ".join(f"{TASKS[task].near:g} for {task}" for task in options.tasks)
        print("Median risk by σ² in units of the squared median distance, the best of a row in bold;")
        print(f"good is what is within {near} of the best of both rows:\n")
        print(sweep_table(sweeps) + "\n")
    verdicts = [*of_sizes(results, options), *of_agreement(results), *of_bandwidths(sweeps, options)]
    if verdicts:
        print(
            "The paper says that Nyström leaves a lower risk with less spread than Fourier at equal m, that"
        )
        print("no landmarks are best throughout, and that its range of good σ² is wider. Here:\n")
        print("\n".join(verdicts) + "\n")
    spent, busy = time.perf_counter() - start, time.process_time() - cpu
    print(f"{spent / 60:.1f} minutes, {busy / 60:.1f} on the processor; seed {options.seed}")


if __name__ == "__main__":
    main()
