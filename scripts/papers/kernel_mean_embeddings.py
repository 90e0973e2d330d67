"""Figures 1 and 2 of "Nyström kernel mean embeddings" (Chatalic, Schreuder, Rudi, Rosasco; ICML 2022), §6.

    scripts/setup report && .venv/bin/python scripts/papers/kernel_mean_embeddings.py --data DIR -o figure.svg

How far from the mean embedding μ of a distribution is the embedding μ̂ of n rows, and how far is its
projection μ̂_m on m landmarks, which is what a sketch keeps? The paper proves that about m = √n log √n
landmarks drawn uniformly are enough for both to be equally far, if the spectrum decays fast, and shows it

  1  for a mixture of p = 8 Gaussians N(c_i, I) in d = 10, centres drawn from N(0, 5 I), and the Gaussian
     kernel at the median distance of 1000 rows. Here centres and kernel are drawn once, for all n and trials
  2  for real tables: the distribution is that of the N rows of a table, of which n = 10⁴ are drawn. The
     paper has text features, audio features, sensors and places; here it is *NAME*.parquet (--tables) of
     --data DIR: numeric columns of complete rows, standardised, at most --most rows of them

Errors are exact, not estimated. For the mixture ⟨μ, μ⟩ and μ(x) have closed forms (Appendix G); for a
table all N² kernel values are summed. The n² kernel values of |μ̂|² are summed in tiles, and
|μ − μ̂_m|² = ⟨μ, μ⟩ − 2 αᵀμ(Z) + αᵀKα takes α from `embedding_weights()` of a sketch of all n rows. Other
schemes than the paper's uniform one choose from the same --pilot-rows. Of the heuristics that the paper draws
beside its own, only the greedy one of L. Chen et al. is here.

It writes NAME.csv (data, n, m, sampling; mean, 5 % and 95 % quantiles over trials of the error, and of its
ratio to the error of μ̂, which is listed as sampling "empirical" with m = n), NAME.png or NAME.svg, and
prints the ratios at m = √n log √n, and whether they bear the paper out.

On one core, n = 10³ and 20 trials take 1½ minutes, n = 10⁴ and 10 trials 4 minutes, n = 10⁵ and 3 trials
5 minutes. Sketches are in float64; with float32, errors were the same to four digits at n = 10⁵.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import nysketch
from nysketch.kernels.options import median_distance

Floats = NDArray[np.float64]

COMPONENTS, FEATURES, CENTRE_VARIANCE = 8, 10, 5.0
EMPIRICAL = "empirical"
MIXTURE = "mixture"
# An error of the same order as another: what the paper reads off its figures.
SAME_ORDER = 2.0
# And errors of two kinds of landmarks that are similar.
SIMILAR = 1.5
STATISTICS = ("mean", "p05", "p95")

# Rows of a tile: 256 × 256 float64 values fit the cache; at 512 it took half as long again.
TILE = 256

# Colours that are told apart without red or green (Okabe and Ito), a marker each for those without colours.
LOOKS = {
    "uniform": ("#E69F00", "o"),
    "kmeans++": ("#009E73", "s"),
    "leverage": ("#CC79A7", "^"),
    "greedy": ("#000000", "x"),
    "rpcholesky": ("#D55E00", "D"),
    "kmeans": ("#56B4E9", "v"),
}
BLUE = "#0072B2"


class Distribution(Protocol):
    """Rows can be drawn from it, and its mean embedding is known."""

    @property
    def bandwidth(self) -> float:
        """Of the Gaussian kernel."""
        ...

    def rows(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows."""
        ...

    def embedding(self, points: Floats) -> Floats:
        """μ at points."""
        ...

    def squared_norm(self) -> float:
        """⟨μ, μ⟩."""
        ...


@dataclass(frozen=True)
class Mixture:
    """Gaussians N(c_i, I) of equal weight, and what is known about them under a Gaussian kernel."""

    centres: Floats
    bandwidth: float

    @classmethod
    def drawn(cls, seed: int) -> Mixture:
        """Draw centres as the paper does; take the median distance of 1000 rows as bandwidth."""
        rng = np.random.default_rng([seed, 0])
        centres = math.sqrt(CENTRE_VARIANCE) * rng.standard_normal((COMPONENTS, FEATURES))
        rows = cls(centres, 1.0).rows(1000, rng)
        return cls(centres, median_distance(rows, seed))

    def rows(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows."""
        which = rng.integers(len(self.centres), size=n)
        return self.centres[which] + rng.standard_normal((n, self.centres.shape[1]))

    def embedding(self, points: Floats) -> Floats:
        """μ at points: the mean of k(x, point) over the distribution."""
        return self._smoothed(points, 1.0).mean(axis=1)

    def squared_norm(self) -> float:
        """⟨μ, μ⟩: the mean of k(x, y) over independent x and y."""
        return float(self._smoothed(self.centres, 2.0).mean())

    def _smoothed(self, points: Floats, variance: float) -> Floats:
        """Return the kernel between points and centres, convolved with N(0, variance · I)."""
        square = self.bandwidth**2
        height = (square / (square + variance)) ** (self.centres.shape[1] / 2)
        return height * np.exp(-cdist(points, self.centres, "sqeuclidean") / (2 * (square + variance)))


def kernel_means(X: Floats, bandwidth: float) -> Floats:
    """Return the mean kernel value of each row with all rows: tiles of half of the matrix, in float64."""
    half = -0.5 * (X**2).sum(axis=1) / bandwidth**2
    left = np.column_stack([X / bandwidth, half, np.ones(len(X))])
    right = np.column_stack([X / bandwidth, np.ones(len(X)), half])
    sums = np.zeros(len(X))
    starts = range(0, len(X), TILE)
    for i in starts:
        part = left[i : i + TILE]
        for j in starts[i // TILE :]:
            values = part @ right[j : j + TILE].T
            np.exp(values, out=values)
            sums[i : i + TILE] += values.sum(axis=1)
            if i != j:
                sums[j : j + TILE] += values.sum(axis=0)
    return sums / len(X)


def squared_norm(X: Floats, bandwidth: float) -> float:
    """|μ̂|², the mean of all n² kernel values."""
    return math.fsum(kernel_means(X, bandwidth)) / len(X)


class Table:
    """The rows of a table, each as likely as any other."""

    def __init__(self, X: Floats, seed: int) -> None:
        self.X = X
        self.bandwidth = median_distance(X[np.random.default_rng(seed).permutation(len(X))[:1000]], seed)
        self._means = kernel_means(X, self.bandwidth)
        self._by_row = {row.tobytes(): mean for row, mean in zip(X, self._means, strict=True)}

    @classmethod
    def read(cls, path: Path, most: int, seed: int) -> Table:
        """Return the numeric columns of complete rows, standardised."""
        table = pq.read_table(path)
        numeric = [
            field.name
            for field in table.schema
            if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        ]
        X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in numeric])
        X = X[np.isfinite(X).all(axis=1)]
        X = np.random.default_rng([seed, 2]).permutation(X)[:most]
        deviations = X.std(axis=0)
        return cls(
            np.ascontiguousarray((X - X.mean(axis=0))[:, deviations > 0] / deviations[deviations > 0]), seed
        )

    def rows(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows, with replacement."""
        return self.X[rng.integers(len(self.X), size=n)]

    def embedding(self, points: Floats) -> Floats:
        """μ at points: known for the rows of the table, worked out for others."""
        known = [self._by_row.get(np.ascontiguousarray(point).tobytes()) for point in points]
        found = np.array([math.nan if mean is None else mean for mean in known])
        for i in np.flatnonzero(np.isnan(found)):
            square = ((self.X - points[i]) ** 2).sum(axis=1)
            found[i] = np.exp(-square / (2 * self.bandwidth**2)).mean()
        return found

    def squared_norm(self) -> float:
        """⟨μ, μ⟩: the mean of all N² kernel values."""
        return math.fsum(self._means) / len(self._means)


def empirical_error(of: Distribution, X: Floats) -> float:
    """|μ − μ̂|."""
    cross = float(of.embedding(X).mean())
    return math.sqrt(of.squared_norm() - 2 * cross + squared_norm(X, of.bandwidth))


def nystrom_error(of: Distribution, sketch: nysketch.Sketch) -> float:
    """|μ − μ̂_m|."""
    basis = sketch.basis
    weights = sketch.embedding_weights()
    cross = float(weights @ of.embedding(basis.landmarks))
    return math.sqrt(of.squared_norm() - 2 * cross + float(weights @ basis.gram() @ weights))


def enough_landmarks(n: int) -> int:
    """√n log √n."""
    return round(math.sqrt(n) * math.log(math.sqrt(n)))


def landmark_counts(wanted: list[int], n: int) -> list[int]:
    return sorted({m for m in (*wanted, enough_landmarks(n)) if m <= n})


class Key(NamedTuple):
    """What an error is of."""

    data: str
    n: int
    m: int
    sampling: str

    @property
    def empirical(self) -> Key:
        """The same rows, all of them."""
        return Key(self.data, self.n, self.n, EMPIRICAL)


Errors = dict[Key, list[float]]  # one for each trial


@dataclass(frozen=True)
class Panel:
    """n rows of a distribution, drawn several times."""

    data: str
    of: Distribution
    n: int
    trials: int

    @property
    def title(self) -> str:
        """Data, and n."""
        return f"{self.data}, n = {self.n:,}"


def run_trial(options: argparse.Namespace, panel: Panel, trial: int, bar: Any) -> Errors:
    """Return the errors of one sample of n rows."""
    n, of = panel.n, panel.of
    bar.set_postfix_str(f"{panel.title}, trial {trial}, empirical")
    X = of.rows(n, np.random.default_rng([options.seed, n, trial + 1]))
    errors: Errors = {Key(panel.data, n, n, EMPIRICAL): [empirical_error(of, X)]}
    bar.update()
    for m in landmark_counts(options.landmarks, n):
        for sampling in options.samplings:
            bar.set_postfix_str(f"{panel.title}, trial {trial}, {m} {sampling}")
            basis = nysketch.Basis.fit(
                X,
                landmarks=m,
                sampling=sampling,
                kernel="gaussian",
                bandwidth=of.bandwidth,
                scale="none",
                pilot_rows=min(n, max(options.pilot_rows, m)),
                seed=1000 * options.seed + trial,
                threads=1,
            )
            sketch = nysketch.sketch(X, basis=basis, precision=options.precision, threads=1)
            errors[Key(panel.data, n, m, sampling)] = [nystrom_error(of, sketch)]
            bar.update()
    return errors


def run(options: argparse.Namespace, panels: list[Panel]) -> tuple[Errors, dict[str, float]]:
    """Return all errors, and the seconds that each panel took."""
    errors: Errors = {}
    seconds: dict[str, float] = {}
    steps = sum(
        panel.trials * (1 + len(landmark_counts(options.landmarks, panel.n)) * len(options.samplings))
        for panel in panels
    )
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="embedding") as bar:
        for panel in panels:
            start = time.process_time()
            for trial in range(panel.trials):
                for key, found in run_trial(options, panel, trial, bar).items():
                    errors.setdefault(key, []).extend(found)
            seconds[panel.title] = time.process_time() - start
            write_csv(errors, options.output.with_suffix(".csv"))  # should this end early
    return errors, seconds


def statistics(values: list[float] | Floats) -> dict[str, float]:
    low, high = np.quantile(values, [0.05, 0.95])
    return dict(zip(STATISTICS, (float(np.mean(values)), float(low), float(high)), strict=True))


def ratios(errors: Errors, key: Key) -> Floats:
    """Return |μ − μ̂_m| / |μ − μ̂|, trial by trial."""
    return np.array(errors[key]) / np.array(errors[key.empirical])


def write_csv(errors: Errors, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Key._fields, "trials", "statistic", "error", "ratio"])
        for key in sorted(errors):
            of_error, of_ratio = statistics(errors[key]), statistics(ratios(errors, key))
            for name in STATISTICS:
                writer.writerow(
                    [*key, len(errors[key]), name, f"{of_error[name]:.6g}", f"{of_ratio[name]:.6g}"]
                )


def plot(errors: Errors, options: argparse.Namespace, panels: list[Panel], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "nysketch"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.8), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        counts = landmark_counts(options.landmarks, panel.n)
        own = statistics(errors[Key(panel.data, panel.n, panel.n, EMPIRICAL)])
        axis.axhline(own["mean"], color=BLUE, linewidth=2, label="all rows, |μ − μ̂|")
        axis.axhspan(own["p05"], own["p95"], color=BLUE, alpha=0.2, linewidth=0)
        for sampling in options.samplings:
            colour, marker = LOOKS[sampling]
            curve = [statistics(errors[Key(panel.data, panel.n, m, sampling)]) for m in counts]
            mean, low, high = ([point[name] for point in curve] for name in STATISTICS)
            axis.plot(counts, mean, color=colour, marker=marker, markersize=4, linewidth=1.2, label=sampling)
            axis.fill_between(counts, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.axvline(enough_landmarks(panel.n), color="#777777", linestyle=":", label="m = √n log √n")
        axis.set(xscale="log", yscale="log", xlabel="landmarks m", title=panel.title)
        axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes[0, 0].set_ylabel("|μ − μ̂_m|")
    axes[0, -1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def ratio_table(errors: Errors, options: argparse.Namespace, panels: list[Panel]) -> str:
    lines = [
        f"| data | n | trials | m | {' | '.join(options.samplings)} |",
        "|---|---|---|---|" + "---|" * len(options.samplings),
    ]
    for panel in panels:
        for m in landmark_counts(options.landmarks, panel.n):
            cells = []
            for sampling in options.samplings:
                of = statistics(ratios(errors, Key(panel.data, panel.n, m, sampling)))
                cells.append(f"{of['mean']:.3f} ({of['p05']:.3f}–{of['p95']:.3f})")
            mark = f"**{m}**" if m == enough_landmarks(panel.n) else str(m)
            lines.append(f"| {panel.data} | {panel.n:,} | {panel.trials} | {mark} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts(errors: Errors, options: argparse.Namespace, panels: list[Panel]) -> str:
    """Say of each panel whether m = √n log √n landmarks are enough, and which scheme needs fewest."""
    lines = []
    for panel in panels:
        counts, rule = landmark_counts(options.landmarks, panel.n), enough_landmarks(panel.n)

        def mean(m: int, sampling: str, panel: Panel = panel) -> float:
            return statistics(ratios(errors, Key(panel.data, panel.n, m, sampling)))["mean"]

        for sampling in options.samplings[:1]:
            ratio = mean(rule, sampling)
            holds = "holds" if ratio < SAME_ORDER else "does not hold"
            few = [m for m in counts if mean(m, sampling) < SAME_ORDER]
            first = f"and that from m = {few[0]} on" if few else "at any m that was tried"
            lines.append(
                f"- {panel.title}, {sampling}: at m = √n log √n = {rule} the error is {ratio:.2f} times that "
                f"of all rows. That it is of the same order (below {SAME_ORDER:g} times) {holds}, {first}"
            )
        if {"uniform", "greedy"} <= {*options.samplings}:
            beside = mean(rule, "greedy") / mean(rule, "uniform")
            holds = "holds" if 1 / SIMILAR <= beside <= SIMILAR else "does not hold"
            lines.append(
                f"- {panel.title}: that greedy landmarks are similar (within {SIMILAR:g} times) {holds}: "
                f"their error is {beside:.2f} times that of uniform ones"
            )
        best = min(options.samplings, key=lambda each: mean(rule, each))
        others = ", ".join(f"{each} {mean(rule, each):.2f}" for each in options.samplings)
        lines.append(f"- {panel.title}: the least error at this m is that of {best} ({others})")
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figures", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000], metavar="N")
    parser.add_argument(
        "--trials", type=int, nargs="+", default=[20, 10, 3], help="one number for each of --rows, or for all"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of Parquet files, for Figure 2")
    parser.add_argument(
        "--tables",
        nargs="+",
        default=["bike", "kegg", "taxi"],
        metavar="NAME",
        help="the files, by parts of their names",
    )
    parser.add_argument("--most", type=int, default=100_000, metavar="N", help="rows of a table, at most")
    parser.add_argument("--table-rows", type=int, default=10_000, metavar="N", help="drawn from a table")
    parser.add_argument("--table-trials", type=int, default=20)
    parser.add_argument(
        "--landmarks",
        type=int,
        nargs="+",
        default=[10, 18, 32, 56, 100, 178, 316, 562, 1000],
        metavar="M",
        help="√n log √n is added",
    )
    parser.add_argument(
        "--samplings",
        nargs="+",
        choices=LOOKS,
        default=["uniform", "kmeans++", "leverage", "greedy", "rpcholesky"],
        metavar="SCHEME",
    )
    parser.add_argument("--pilot-rows", type=int, default=10_000, help="rows that landmarks are chosen from")
    parser.add_argument(
        "--precision",
        choices=["float32", "float64"],
        default="float64",
        help="of the sketches; float32 is faster",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("kernel-mean-embeddings.png"), help="NAME.png or NAME.svg"
    )
    parser.add_argument("--no-plot", action="store_true", help="only NAME.csv")
    options = parser.parse_args(arguments)
    if len(options.trials) == 1:
        options.trials *= len(options.rows)
    if len(options.trials) != len(options.rows):
        parser.error("--trials takes one number, or as many as --rows")
    if min(options.rows) < 10 or min(options.trials) < 1 or min(options.landmarks) < 1:
        parser.error("there must be at least 10 rows, 1 trial and 1 landmark")
    if options.output.suffix not in ("", ".png", ".svg"):
        parser.error(f"a plot is .png or .svg, not {options.output.suffix}")
    # Now, not after ten minutes.
    if not options.output.parent.is_dir():
        parser.error(f"there is no folder {options.output.parent}")
    if not options.no_plot and find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: run scripts/setup report, or leave it out with --no-plot")
    return options


def panels_of(options: argparse.Namespace) -> list[Panel]:
    panels = []
    if 1 in options.figures:
        mixture = Mixture.drawn(options.seed)
        panels += [
            Panel(MIXTURE, mixture, n, trials) for n, trials in zip(options.rows, options.trials, strict=True)
        ]
    for name in options.tables if 2 in options.figures and options.data is not None else ():
        paths = sorted(options.data.glob(f"*{name}*.parquet"))
        if paths:
            table = Table.read(paths[0], options.most, options.seed)
            panels.append(Panel(name, table, options.table_rows, options.table_trials))
        else:
            print(f"{options.data}: no *{name}*.parquet there, left out", file=sys.stderr)
    return panels


def main() -> None:
    options = parse()
    with threadpool_limits(1):
        panels = panels_of(options)
        if not panels:
            raise SystemExit("Figure 2 needs tables: give their folder with --data")
        errors, seconds = run(options, panels)
    if not options.no_plot:
        plot(errors, options, panels, options.output.with_suffix(options.output.suffix or ".png"))
    for data, of in {panel.data: panel.of for panel in panels}.items():
        size = f"{len(of.X):,} rows, {of.X.shape[1]} columns, " if isinstance(of, Table) else ""
        print(f"{data}: {size}bandwidth {of.bandwidth:.4g}, |μ|² = {of.squared_norm():.6g}")
    print(f"\n|μ − μ̂_m| / |μ − μ̂|, mean (5 %–95 %); m = √n log √n in bold; seed {options.seed}:\n")
    print(ratio_table(errors, options, panels))
    print(
        "\nThe paper says that m = √n log √n uniform landmarks have an error of the same order as all n rows,"
    )
    print("on all of its tables but the one of text features, and that greedy landmarks are similar. Here:\n")
    print(verdicts(errors, options, panels))
    print("\nCPU: " + ", ".join(f"{title}: {spent:.0f} s" for title, spent in seconds.items()))


if __name__ == "__main__":
    main()
