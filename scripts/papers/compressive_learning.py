"""Figures 1 and 2 of "Mean Nyström embeddings for adaptive compressive learning" (Chatalic et al., 2022).

    scripts/setup report && .venv/bin/python scripts/papers/compressive_learning.py -o figure.png [--data DIR]

k-means centroids and mixtures of Gaussians with diagonal covariances are learned from the sums of m kernel or
feature values over all rows, and from nothing else. Which m values serve best? The paper's answer (§5): at
equal m, kernels at landmarks (Nyström) leave a lower risk, with less spread, than random Fourier features,
and are less particular about the bandwidth σ. No way of choosing landmarks was the best throughout.

Risk is relative to scikit-learn on all rows: for k-means the mean squared distance to the nearest centroid
divided by that of KMeans, for mixtures the negative log-likelihood per row minus that of EM. Sketch sizes m
are multiples of p, the number of parameters: kd for centroids, 2kd for means and variances.

Data, with k = 10 and d = 10 unless --clusters and --features say otherwise:

  synthetic   k Gaussians N(c_i, I), c_i from N(0, 4 k^(2/d) I), --rows rows; every trial draws its own
              (Appendix E)
  digits      the 8 × 8 images that come with scikit-learn, d principal components; the same 1797 rows in
              every trial. Sketches of more than half as many values are left out
  NAME        the first *NAME*.parquet (--table NAME) of --data DIR: numeric columns, standardised, d
              principal components; every trial draws --rows rows

Bandwidths: the paper's, chosen by hand for the synthetic data (σ² = 81 for k-means, 24 for mixtures), and
the median distance of two rows, which is what the tool takes if nobody chooses.

Series, decoded by CL-OMPR as in the paper unless they say otherwise:

  uniform, leverage, greedy   landmarks drawn uniformly, by ridge leverage scores (BLESS), or taken where the
                              residual is largest; leverage and greedy not at the synthetic data's median
  quadrature                  the sums of `uniform`, decoded by our own `quadrature`
  rows                        no sums: scikit-learn on the m landmarks of `uniform`, which are in the sketch
  fourier                     m/2 frequencies, a cosine and a sine each
  fourier+rows                the same with m sampled rows beside them, to start from and to see how features
                              vary, which landmarks are good for as well; only if asked for by --series

Sketches hold neither cells nor (but for fourier+rows) a sample. CL-OMPR is that of the tool: of
--decoder-trials runs every other one starts from nothing, the others replace atoms of k-means on weighted
landmarks (or on rows drawn where the data may be); distances are whitened, so that they count in standard
errors; and the best fit is taken. With --paper, all runs start from nothing, and features are compared
as they are.

It writes NAME.csv (both figures; median and quartiles of the risk over trials), NAME.png or NAME.svg with
risk against sketch size, NAME-bandwidths.png with risk against sketch size and σ² on the synthetic data,
and prints medians, and in how many trials Nyström (uniform) was better than Fourier.

The default run takes about 20 minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402
from nysketch.learning.decode import em, weighted_kmeans  # noqa: E402
from nysketch.learning.decode.decoders import to_centroids  # noqa: E402
from nysketch.learning.decode.evidence import Evidence  # noqa: E402
from nysketch.learning.decode.mixture import Mixture  # noqa: E402
from nysketch.learning.decode.moment_matching import Matching  # noqa: E402
from nysketch.learning.decode.points import Points  # noqa: E402
from nysketch.learning.decode.pursuit import Climb, pursuit  # noqa: E402
from nysketch.learning.decode.whitening import Moments  # noqa: E402

Floats = NDArray[np.float64]

# k and d of Figure 1, which the paper's σ² are for.
CLUSTERS, FEATURES = 10, 10
SEPARATION = 2.0
SYNTHETIC = "synthetic"
# Bandwidths of Figure 1 by their names, those of Figure 2 by their squares.
PAPER, MEDIAN = "paper", "median"

NYSTROM, FOURIER = "uniform", "fourier"
QUADRATURE, ROWS, FOURIER_ROWS = "quadrature", "rows", "fourier+rows"
# Which sketch a series is decoded from; those of one sketch are next to each other.
SKETCHED = {
    NYSTROM: NYSTROM,
    QUADRATURE: NYSTROM,
    ROWS: NYSTROM,
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
    good: float  # a risk that few would mind
    learn: Callable[..., Any]

    def of_scikit_learn(self, rows: Floats, X: Floats, k: int, seed: int) -> float:
        """Return the mean cost of X under what scikit-learn learns from some rows."""
        with warnings.catch_warnings():
            # Of 50 rows, or of columns with few values, EM may not end.
            warnings.simplefilter("ignore", ConvergenceWarning)
            if self is KMEANS:
                return -float(KMeans(k, n_init=10, random_state=seed).fit(rows).score(X)) / len(X)
            mixture = GaussianMixture(k, covariance_type="diag", n_init=10, random_state=seed)
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
    good=1.05,
    learn=nysketch.learn_kmeans,
)
GMM = Task(
    name="gmm",
    title="Gaussian mixtures: −log-likelihood less that of EM",
    axis="excess −log-likelihood",
    parameters=2,
    paper_variance=24.0,
    best=0.0,
    good=0.05,
    learn=nysketch.learn_gmm,
)
TASKS = {task.name: task for task in (KMEANS, GMM)}

Draw = Callable[[np.random.Generator], Floats]


def synthetic(rng: np.random.Generator, rows: int, k: int, d: int) -> Floats:
    centres = SEPARATION * k ** (1 / d) * rng.standard_normal((k, d))
    return centres[rng.integers(k, size=rows)] + rng.standard_normal((rows, d))


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


def data_sets(options: argparse.Namespace) -> dict[str, Draw]:
    """Return functions that draw the rows of a trial."""
    k, d = options.clusters, options.features
    digits = principal(load_digits().data, d)
    found: dict[str, Draw] = {
        SYNTHETIC: lambda rng: synthetic(rng, options.rows, k, d),
        "digits": lambda _: digits,
    }
    if options.data is not None:
        paths = sorted(options.data.glob(f"*{options.table}*.parquet"))
        if paths:
            rows = read_table(paths[0], d)
            found[options.table] = lambda rng: rng.permutation(rows)[: options.rows]
        else:
            print(f"{options.data}: no *{options.table}*.parquet there, left out", file=sys.stderr)
    for name in options.sets or ():
        if name not in found:
            raise SystemExit(f"there is no data set {name}, only {', '.join(found)}")
    return {name: found[name] for name in options.sets or found}


class Panel(NamedTuple):
    """One panel of Figure 1."""

    data: str
    task: str
    bandwidth: str  # "paper", "median", or of Figure 2, σ²

    @property
    def variance(self) -> float | None:
        """σ², or None if the median decides."""
        if self.bandwidth == MEDIAN:
            return None
        return TASKS[self.task].paper_variance if self.bandwidth == PAPER else float(self.bandwidth)

    def __str__(self) -> str:
        return f"{self.data}, σ² {'of the median' if self.variance is None else f'= {self.variance:g}'}"


class Setting(NamedTuple):
    """What is measured once in every trial."""

    figure: int
    panel: Panel
    size: float  # m/p
    series: str


@dataclass
class Measured:
    """Of one setting, for each trial, the risk and σ²."""

    m: int
    risks: list[float] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median risk."""
        return float(np.median(self.risks))

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile of the risk."""
        low, high = np.quantile(self.risks, [0.25, 0.75])
        return float(low), float(high)


Results = dict[Setting, Measured]


def settings_for(options: argparse.Namespace, data: str) -> list[Setting]:
    """Return what to measure on some data; settings that share a sketch are next to each other."""
    by_hand = data == SYNTHETIC and (options.clusters, options.features) == (CLUSTERS, FEATURES)
    wanted = [
        Setting(1, Panel(data, task, bandwidth), size, series)
        for task in options.tasks
        for bandwidth in ([PAPER, MEDIAN] if by_hand else [MEDIAN])
        for size in options.sizes
        for series in SKETCHED
        if series in options.series
        and not (by_hand and bandwidth == MEDIAN and series in ("leverage", "greedy"))
    ]
    if data == SYNTHETIC and options.sweep_trials:
        wanted += [
            Setting(2, Panel(data, task, f"{variance:g}"), size, series)
            for task in options.tasks
            for variance in options.variances
            for size in options.sweep_sizes
            for series in (NYSTROM, FOURIER)
        ]
    return wanted


def make_sketch(X: Floats, what: str, m: int, variance: float | None, seed: int) -> nysketch.Sketch:
    fourier = what in (FOURIER, FOURIER_ROWS)
    return nysketch.sketch(
        X,
        landmarks=m,
        **({"features": "fourier"} if fourier else {"sampling": what}),
        bandwidth=MEDIAN if variance is None else variance**0.5,
        scale="none",
        cells=False,
        sample_rows=m if what == FOURIER_ROWS else 0,
        precision="float64",
        seed=seed,
        threads=1,
    )


def as_in_the_paper(sketch: nysketch.Sketch, k: int, trials: int, rng: np.random.Generator) -> Mixture:
    """Return what CL-OMPR finds from nothing, by the distance of mean features that are not whitened."""
    evidence = Evidence(sketch)
    moments = Moments.of(evidence.basis, evidence.mean_values, sketch.rows, None)
    matching = Matching(evidence.basis, moments, "diag", evidence.limits)
    spread = evidence.variances / k ** (2 / evidence.d) / 2
    climb = Climb(matching, evidence.support)
    found = [pursuit(matching, k, spread, climb, rng) for _ in range(trials)]
    return min(found, key=matching.distance).normalise()


class Trial:
    """The rows of one trial, and what was worked out about them."""

    def __init__(self, X: Floats, seed: int, options: argparse.Namespace) -> None:
        self.X, self._seed, self._options = X, seed, options
        self._references: dict[str, float] = {}
        self._last: tuple[Any, nysketch.Sketch] | None = None

    def measure(self, setting: Setting, measured: Measured) -> None:
        """Add risk and σ² to what was measured."""
        task, X = TASKS[setting.panel.task], self.X
        if task.name not in self._references:
            self._references[task.name] = task.of_scikit_learn(X, X, self._options.clusters, self._seed)
        sketch = self._sketch(SKETCHED[setting.series], measured.m, setting.panel.variance)
        if setting.series == ROWS:
            cost = task.of_scikit_learn(sketch.basis.landmarks, X, self._options.clusters, self._seed)
        else:
            cost = self._cost(task, sketch, quadrature=setting.series == QUADRATURE)
        measured.risks.append(task.risk(cost, self._references[task.name]))
        measured.variances.append(float(sketch.basis.kernel.bandwidth) ** 2)

    def _cost(self, task: Task, sketch: nysketch.Sketch, *, quadrature: bool) -> float:
        """Return the mean cost of all rows under what is learned from their sketch."""
        k, trials = self._options.clusters, self._options.decoder_trials
        if quadrature or not self._options.paper:
            how = {"decoder": QUADRATURE} if quadrature else {"decoder": "clomp", "trials": trials}
            return float(task.learn(sketch, k, seed=self._seed, **how).costs(self.X).mean())
        rng = np.random.default_rng(self._seed)
        mixture = as_in_the_paper(sketch, k, trials, rng)
        rows = Points.of_rows(self.X)  # nothing is scaled: these are the units of the mixture
        if task is KMEANS:
            return weighted_kmeans.cost(rows, to_centroids(mixture, rng).means)
        return -em.log_likelihood(rows, mixture)

    def _sketch(self, *key: Any) -> nysketch.Sketch:
        """Return a sketch; the last one is kept, for it may be decoded in several ways."""
        if self._last is None or self._last[0] != key:
            self._last = key, make_sketch(self.X, *key, self._seed)
        return self._last[1]


def run(options: argparse.Namespace, sets: dict[str, Draw]) -> Results:
    results: Results = {}
    trials = {1: options.trials, 2: options.sweep_trials}
    wanted = {data: settings_for(options, data) for data in sets}
    steps = sum(trials[setting.figure] for found in wanted.values() for setting in found)
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="fit") as bar:
        for number in range(max(trials.values())):
            for which, (data, draw) in enumerate(sets.items()):
                X = draw(np.random.default_rng([options.seed, number, which]))
                trial = Trial(X, 1000 * options.seed + number, options)
                for setting in wanted[data]:
                    if number >= trials[setting.figure]:
                        continue
                    m = TASKS[setting.panel.task].sketch_size(setting.size, options.clusters, X.shape[1])
                    bar.set_postfix_str(f"trial {number}, {data}, {setting.panel.task}, {m} {setting.series}")
                    if m <= len(X) // 2:
                        trial.measure(setting, results.setdefault(setting, Measured(m)))
                    bar.update()
            write_csv(results, options.output.with_suffix(".csv"))  # what there is, should this end early
    return results


def write_csv(results: Results, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        settings = ["figure", "data", "task", "bandwidth", "series", "size", "m"]
        writer.writerow([*settings, "variance", "trials", "median", "p25", "p75"])
        for setting, measured in results.items():
            numbers = (measured.median, *measured.quartiles)
            writer.writerow(
                [setting.figure, *setting.panel, setting.series, f"{setting.size:g}", measured.m]
                + [f"{np.median(measured.variances):.4g}", len(measured.risks)]
                + [f"{number:.6g}" for number in numbers]
            )


# Figure 1


def panels_of(results: Results, task: str) -> list[Panel]:
    return list(dict.fromkeys(s.panel for s in results if s.figure == 1 and s.panel.task == task))


def curve(results: Results, panel: Panel, series: str) -> dict[float, Measured]:
    """Return what was measured of a series in Figure 1, by m/p."""
    return {s.size: r for s, r in results.items() if (s.figure, s.panel, s.series) == (1, panel, series)}


def text_of(risk: float | None) -> str:
    if risk is None:
        return "–"
    return f"{risk:.3f}" if abs(risk) < 10 else f"{risk:.3g}"


def risk_table(results: Results, task: str, options: argparse.Namespace) -> str:
    lines = [
        f"| data | series | {' | '.join(f'm/p = {size:g}' for size in options.sizes)} |",
        "|---|---|" + "---|" * len(options.sizes),
    ]
    for panel in panels_of(results, task):
        for series in options.series:
            found = curve(results, panel, series)
            cells = [text_of(found[size].median if size in found else None) for size in options.sizes]
            if found:
                lines.append(f"| {panel} | {series} | {' | '.join(cells)} |")
    return "\n".join(lines)


def wins(results: Results, panel: Panel, size: float) -> list[bool]:
    """Return, for each trial, whether Nyström has the lower risk."""
    ours, theirs = curve(results, panel, NYSTROM).get(size), curve(results, panel, FOURIER).get(size)
    if ours is None or theirs is None:
        return []
    return [a < b for a, b in zip(ours.risks, theirs.risks, strict=True)]


def win_table(results: Results, options: argparse.Namespace) -> str:
    lines = [
        f"| task | data | {' | '.join(f'm/p = {size:g}' for size in options.sizes)} |",
        "|---|---|" + "---|" * len(options.sizes),
    ]
    for task in options.tasks:
        for panel in panels_of(results, task):
            won = [wins(results, panel, size) for size in options.sizes]
            cells = [f"{sum(w)} of {len(w)}" if w else "–" for w in won]
            lines.append(f"| {task} | {panel} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdict(results: Results, options: argparse.Namespace) -> str:
    """Say in words whether Nyström beats Fourier."""
    lines = []
    for task in options.tasks:
        for panel in panels_of(results, task):
            won = {size: wins(results, panel, size) for size in options.sizes}
            won = {size: each for size, each in won.items() if each}
            ours, theirs = curve(results, panel, NYSTROM), curve(results, panel, FOURIER)
            lower = [size for size in won if ours[size].median < theirs[size].median]
            every = [each for of_size in won.values() for each in of_size]
            where = "all sizes" if len(lower) == len(won) else "m/p = " + ", ".join(f"{s:g}" for s in lower)
            lines.append(
                f"- {task}, {panel}: Nyström has the lower risk in {sum(every)} of {len(every)} trials, "
                f"and the lower median at {where if lower else 'no size'}"
            )
    return "\n".join(lines)


def plot_sizes(results: Results, options: argparse.Namespace, path: Path) -> None:
    from matplotlib import pyplot as plt

    rows = [panels_of(results, task) for task in options.tasks]
    columns = max(map(len, rows))
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(4.2 * columns, 3.8 * len(rows)), squeeze=False, sharey="row"
    )
    for task, found, of_task in zip(options.tasks, rows, axes, strict=True):
        for axis in of_task[len(found) :]:
            axis.set_visible(False)
        for panel, axis in zip(found, of_task, strict=False):
            for series in options.series:
                points = curve(results, panel, series)
                if not points:
                    continue
                colour, marker = LOOKS[series]
                above = {size: np.array([r.median, *r.quartiles]) for size, r in points.items()}
                median, low, high = np.array(list(above.values())).T - TASKS[task].best
                axis.plot(
                    list(above),
                    median,
                    color=colour,
                    marker=marker,
                    markersize=4,
                    linewidth=1.2,
                    label=series,
                )
                axis.fill_between(list(above), low, high, color=colour, alpha=0.12, linewidth=0)
            axis.axhline(0, color="#777777", linewidth=0.8)
            axis.set_xscale("log")
            axis.set_yscale("symlog", linthresh=1e-3)
            axis.set_xticks(options.sizes, [f"{size:g}" for size in options.sizes])
            axis.minorticks_off()
            axis.set(title=str(panel), xlabel="m/p")
            axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        of_task[0].set_ylabel(TASKS[task].axis)
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


# Figure 2


@dataclass(frozen=True)
class Sweep:
    """Risk of one task and one series by m/p (rows) and σ² (columns)."""

    task: Task
    series: str
    sizes: list[float]
    variances: list[float]
    risks: Floats

    @property
    def best(self) -> NDArray[np.intp]:
        """The column of the best σ², for each m/p."""
        return self.risks.argmin(axis=1)

    @property
    def good(self) -> NDArray[np.bool_]:
        """Where the risk is one that nobody minds."""
        return self.risks <= self.task.good

    @classmethod
    def of(cls, results: Results, options: argparse.Namespace, task: str, series: str) -> Sweep:
        """Gather the medians, of the sizes that there were rows enough for."""
        at = [Panel(SYNTHETIC, task, f"{variance:g}") for variance in options.variances]
        sizes = [size for size in options.sweep_sizes if Setting(2, at[0], size, series) in results]
        risks = [[results[Setting(2, panel, size, series)].median for panel in at] for size in sizes]
        return cls(TASKS[task], series, sizes, options.variances, np.array(risks))


def sweeps_of(results: Results, options: argparse.Namespace) -> list[Sweep]:
    found = [Sweep.of(results, options, t, series) for t in options.tasks for series in (NYSTROM, FOURIER)]
    return [sweep for sweep in found if sweep.sizes]


def median_variance(results: Results) -> float | None:
    """Return the σ² that the tool takes for the synthetic data: the median over trials."""
    found = [
        variance
        for setting, measured in results.items()
        if (setting.figure, setting.panel.data, setting.panel.bandwidth) == (1, SYNTHETIC, MEDIAN)
        for variance in measured.variances
    ]
    return float(np.median(found)) if found else None


def sweep_table(sweeps: list[Sweep]) -> str:
    variances = sweeps[0].variances
    lines = [
        f"| task | series | m/p | {' | '.join(f'σ² = {v:g}' for v in variances)} | good |",
        "|---|---|---|" + "---|" * (len(variances) + 1),
    ]
    for sweep in sweeps:
        for size, risks, best, good in zip(sweep.sizes, sweep.risks, sweep.best, sweep.good, strict=True):
            cells = [f"**{text_of(r)}**" if i == best else text_of(r) for i, r in enumerate(risks)]
            share = f"{good.sum()} of {len(good)}"
            lines.append(f"| {sweep.task.name} | {sweep.series} | {size:g} | {' | '.join(cells)} | {share} |")
    return "\n".join(lines)


def plot_bandwidths(sweeps: list[Sweep], median: float | None, path: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.colors import LogNorm

    tasks = list(dict.fromkeys(sweep.task.name for sweep in sweeps))
    figure, axes = plt.subplots(len(tasks), 2, figsize=(11, 3.2 * len(tasks)), squeeze=False)
    for sweep, axis in zip(sweeps, axes.ravel(), strict=True):
        both = [each.risks - sweep.task.best for each in sweeps if each.task is sweep.task]
        scale = LogNorm(1e-3, max(1.0, *(float(risks.max()) for risks in both)), clip=True)
        image = axis.imshow(
            np.maximum(sweep.risks - sweep.task.best, 1e-9), norm=scale, cmap="cividis_r", aspect="auto"
        )
        for (i, j), risk in np.ndenumerate(sweep.risks):
            star = "★ " if j == sweep.best[i] else ""
            dark = image.norm(max(risk - sweep.task.best, 1e-9)) > 0.5
            axis.text(j, i, star + text_of(risk), ha="center", va="center", color="w" if dark else "k")
        axis.set_xticks(range(len(sweep.variances)), [f"{v:g}" for v in sweep.variances])
        axis.set_yticks(range(len(sweep.sizes)), [f"{size:g}" for size in sweep.sizes])
        title = f"{sweep.task.name}, {sweep.series}"
        if median is not None and sweep.variances[0] <= median <= sweep.variances[-1]:
            at = np.interp(np.log(median), np.log(sweep.variances), range(len(sweep.variances)))
            axis.axvline(at, color="#D55E00", linestyle=":", linewidth=2)
            title += f"; dotted: median distance, σ² = {median:.0f}"
        axis.set(title=title, xlabel="σ² (★ best)", ylabel="m/p")
        figure.colorbar(image, ax=axis, label="risk above 0" if sweep.task is GMM else "risk above 1")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000, help="of the data of a trial, at most")
    parser.add_argument("--clusters", type=int, default=CLUSTERS, metavar="K", help="Figure 2 has 20")
    parser.add_argument("--features", type=int, default=FEATURES, metavar="D", help="Figure 2 has 30")
    parser.add_argument("--trials", type=int, default=3, help="of Figure 1")
    parser.add_argument(
        "--sizes", type=float, nargs="+", default=[0.5, 1, 2, 5, 10], metavar="M/P", help="of Figure 1"
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument(
        "--series", nargs="+", choices=SKETCHED, default=[s for s in SKETCHED if s != FOURIER_ROWS]
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these data only")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of Parquet files")
    parser.add_argument(
        "--table", default="bike", metavar="NAME", help="the file there, by a part of its name"
    )
    parser.add_argument("--sweep-trials", type=int, default=2, help="of Figure 2; 0 leaves it out")
    parser.add_argument("--sweep-sizes", type=float, nargs="+", default=[2], metavar="M/P")
    parser.add_argument(
        "--variances", type=float, nargs="+", default=[6, 12, 24, 48, 96, 192, 384], help="σ² of Figure 2"
    )
    parser.add_argument("--decoder-trials", type=int, default=2, help="of CL-OMPR, for each sketch")
    parser.add_argument("--paper", action="store_true", help="CL-OMPR as in the paper, not as in the tool")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("compressive-learning.png"), help="NAME.png or NAME.svg"
    )
    parser.add_argument("--no-plot", action="store_true", help="only NAME.csv")
    options = parser.parse_args(arguments)
    if min(options.trials, options.decoder_trials) < 1 or options.sweep_trials < 0 or options.rows < 1000:
        parser.error("there must be at least 1 trial and 1000 rows")
    if min(options.clusters, options.features) < 2:
        parser.error("there must be at least 2 clusters and 2 features")
    if min(options.sizes + options.sweep_sizes) < 2 / options.features:
        parser.error("there must be at least two landmarks for a cluster: no m/p below 2/d")
    if options.output.suffix not in ("", ".png", ".svg"):
        parser.error(f"a plot is .png or .svg, not {options.output.suffix}")
    # Now, not after ten minutes.
    if not options.output.parent.is_dir():
        parser.error(f"there is no folder {options.output.parent}")
    if not options.no_plot and find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: run scripts/setup report, or leave it out with --no-plot")
    options.sizes, options.sweep_sizes = sorted(options.sizes), sorted(options.sweep_sizes)
    options.variances = sorted(options.variances)
    return options


def main() -> None:
    options = parse()
    sets = data_sets(options)
    start, cpu = time.perf_counter(), time.process_time()
    results = run(options, sets)
    if not any(setting.figure == 1 for setting in results):
        raise SystemExit("all sketches would be larger than half of the rows: there must be more --rows")
    sweeps, median = sweeps_of(results, options), median_variance(results)
    if not options.no_plot:
        import matplotlib as mpl

        mpl.use("Agg")
        path = options.output.with_suffix(options.output.suffix or ".png")
        plot_sizes(results, options, path)
        if sweeps:
            plot_bandwidths(sweeps, median, path.with_stem(f"{path.stem}-bandwidths"))
    for task in options.tasks:
        print(f"{TASKS[task].title}, median of {options.trials} trials:\n")
        print(risk_table(results, task, options) + "\n")
    if {NYSTROM, FOURIER} <= {*options.series}:
        print("Trials in which Nyström (uniform) has a lower risk than Fourier at the same m:\n")
        print(win_table(results, options) + "\n")
        print("Does Nyström beat Fourier at equal m? The paper says yes. Here:\n")
        print(verdict(results, options) + "\n")
    if sweeps:
        good = ", ".join(f"{TASKS[task].good:g} for {task}" for task in options.tasks)
        print(f"Synthetic data, median of {options.sweep_trials} trials, the best in bold; good is {good}:\n")
        print(sweep_table(sweeps))
        print(f"\nThe median distance gives σ² = {median:.0f}.\n" if median else "")
    spent, busy = time.perf_counter() - start, time.process_time() - cpu
    print(f"{spent / 60:.1f} minutes, {busy / 60:.1f} on the processor; seed {options.seed}")


if __name__ == "__main__":
    main()
