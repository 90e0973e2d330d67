"""Figure 1 of "Nyström kernel mean embeddings" (Chatalic, Schreuder, Rudi, Rosasco; ICML 2022), §6.1.

    scripts/setup report && .venv/bin/python scripts/papers/kernel_mean_embeddings.py -o figure1.png

How far from the mean embedding μ of a distribution is the embedding μ̂ of n rows, and how far is its
projection μ̂_m on m landmarks, which is what a sketch keeps? The paper proves that about m = √n log √n
landmarks drawn uniformly are enough for both to be equally far, and shows it for a mixture of p = 8
Gaussians N(c_i, I) in d = 10, centres drawn from N(0, 5 I), and the Gaussian kernel at the median distance
of 1000 rows. Here centres and kernel are drawn once, for all n and all trials.

Errors are exact, not estimated: ⟨μ, μ⟩ and μ(x) have closed forms (Appendix G), the n² kernel values of
|μ̂|² are summed in tiles, and |μ − μ̂_m|² = ⟨μ, μ⟩ − 2 αᵀμ(Z) + αᵀKα takes α from `embedding_weights()` of
a sketch of all rows. Other schemes than the paper's uniform one choose from the same --pilot-rows.

It writes NAME.csv (n, m, sampling; mean, 5 % and 95 % quantiles over trials of the error, and of its ratio
to the error of μ̂, which is listed as sampling "empirical" with m = n), NAME.png or NAME.svg, and prints
the ratios at m = √n log √n.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import nysketch
from nysketch.kernels.options import median_distance

Floats = NDArray[np.float64]

COMPONENTS, FEATURES, CENTRE_VARIANCE = 8, 10, 5.0
EMPIRICAL = "empirical"
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


def squared_norm(X: Floats, bandwidth: float) -> float:
    """|μ̂|², the mean of all n² kernel values: tiles of half of the matrix, in float64."""
    half = -0.5 * (X**2).sum(axis=1) / bandwidth**2
    left = np.column_stack([X / bandwidth, half, np.ones(len(X))])
    right = np.column_stack([X / bandwidth, np.ones(len(X)), half])
    starts = range(0, len(X), TILE)
    sums = []
    for i in starts:
        part = left[i : i + TILE]
        for j in starts[i // TILE :]:
            values = part @ right[j : j + TILE].T
            np.exp(values, out=values)
            sums.append(float(values.sum()) * (1 if i == j else 2))
    return math.fsum(sums) / len(X) ** 2


def empirical_error(mixture: Mixture, X: Floats) -> float:
    """|μ − μ̂|."""
    cross = float(mixture.embedding(X).mean())
    return math.sqrt(mixture.squared_norm() - 2 * cross + squared_norm(X, mixture.bandwidth))


def nystrom_error(mixture: Mixture, sketch: nysketch.Sketch) -> float:
    """|μ − μ̂_m|."""
    basis = sketch.basis
    weights = sketch.embedding_weights()
    cross = float(weights @ mixture.embedding(basis.landmarks))
    return math.sqrt(mixture.squared_norm() - 2 * cross + float(weights @ basis.gram() @ weights))


def enough_landmarks(n: int) -> int:
    """√n log √n."""
    return round(math.sqrt(n) * math.log(math.sqrt(n)))


def landmark_counts(wanted: list[int], n: int) -> list[int]:
    return sorted({m for m in (*wanted, enough_landmarks(n)) if m <= n})


Errors = dict[tuple[int, int, str], list[float]]  # by n, m and sampling, one for each trial


def run_trial(options: argparse.Namespace, mixture: Mixture, n: int, trial: int, bar: Any) -> Errors:
    """Return the errors of one sample of n rows."""
    bar.set_postfix_str(f"n = {n:,}, trial {trial}, empirical")
    X = mixture.rows(n, np.random.default_rng([options.seed, n, trial + 1]))
    errors: Errors = {(n, n, EMPIRICAL): [empirical_error(mixture, X)]}
    bar.update()
    for m in landmark_counts(options.landmarks, n):
        for sampling in options.samplings:
            bar.set_postfix_str(f"n = {n:,}, trial {trial}, {m} {sampling}")
            basis = nysketch.Basis.fit(
                X,
                landmarks=m,
                sampling=sampling,
                kernel="gaussian",
                bandwidth=mixture.bandwidth,
                scale="none",
                pilot_rows=min(n, max(options.pilot_rows, m)),
                seed=1000 * options.seed + trial,
                threads=1,
            )
            sketch = nysketch.sketch(X, basis=basis, precision=options.precision, threads=1)
            errors[n, m, sampling] = [nystrom_error(mixture, sketch)]
            bar.update()
    return errors


def run(options: argparse.Namespace, mixture: Mixture) -> tuple[Errors, dict[int, float]]:
    """Return all errors, and the seconds that each n took."""
    errors: Errors = {}
    seconds: dict[int, float] = {}
    trials = dict(zip(options.rows, options.trials, strict=True))
    steps = sum(
        count * (1 + len(landmark_counts(options.landmarks, n)) * len(options.samplings))
        for n, count in trials.items()
    )
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="embedding") as bar:
        for n, count in trials.items():
            start = time.perf_counter()
            for trial in range(count):
                for key, found in run_trial(options, mixture, n, trial, bar).items():
                    errors.setdefault(key, []).extend(found)
            seconds[n] = time.perf_counter() - start
    return errors, seconds


def statistics(values: list[float] | Floats) -> dict[str, float]:
    low, high = np.quantile(values, [0.05, 0.95])
    return dict(zip(STATISTICS, (float(np.mean(values)), float(low), float(high)), strict=True))


def ratios(errors: Errors, key: tuple[int, int, str]) -> Floats:
    """Return |μ − μ̂_m| / |μ − μ̂|, trial by trial."""
    n = key[0]
    return np.array(errors[key]) / np.array(errors[n, n, EMPIRICAL])


def write_csv(errors: Errors, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["n", "m", "sampling", "trials", "statistic", "error", "ratio"])
        for key in sorted(errors):
            of_error, of_ratio = statistics(errors[key]), statistics(ratios(errors, key))
            for name in STATISTICS:
                writer.writerow(
                    [*key, len(errors[key]), name, f"{of_error[name]:.6g}", f"{of_ratio[name]:.6g}"]
                )


def plot(errors: Errors, options: argparse.Namespace, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = len(options.rows)
    figure, axes = plt.subplots(1, panels, figsize=(4.2 * panels, 4.2), sharey=True, squeeze=False)
    for axis, n in zip(axes[0], options.rows, strict=True):
        counts = landmark_counts(options.landmarks, n)
        own = statistics(errors[n, n, EMPIRICAL])
        axis.axhline(own["mean"], color=BLUE, linewidth=2, label="all rows, |μ − μ̂|")
        axis.axhspan(own["p05"], own["p95"], color=BLUE, alpha=0.2, linewidth=0)
        for sampling in options.samplings:
            colour, marker = LOOKS[sampling]
            curve = [statistics(errors[n, m, sampling]) for m in counts]
            mean, low, high = ([point[name] for point in curve] for name in STATISTICS)
            axis.plot(counts, mean, color=colour, marker=marker, markersize=4, linewidth=1.2, label=sampling)
            axis.fill_between(counts, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.axvline(enough_landmarks(n), color="#777777", linestyle=":", label="m = √n log √n")
        axis.set(xscale="log", yscale="log", xlabel="landmarks m", title=f"n = {n:,}")
        axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes[0, 0].set_ylabel("|μ − μ̂_m|")
    axes[0, -1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def ratio_table(errors: Errors, options: argparse.Namespace) -> str:
    lines = [
        f"| n | trials | m | {' | '.join(options.samplings)} |",
        "|---|---|---|" + "---|" * len(options.samplings),
    ]
    for n in options.rows:
        m = enough_landmarks(n)
        cells = []
        for sampling in options.samplings:
            of = statistics(ratios(errors, (n, m, sampling)))
            cells.append(f"{of['mean']:.3f} ({of['p05']:.3f}–{of['p95']:.3f})")
        lines.append(f"| {n:,} | {len(errors[n, n, EMPIRICAL])} | {m} | {' | '.join(cells)} |")
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 10_000, 100_000], metavar="N")
    parser.add_argument(
        "--trials", type=int, nargs="+", default=[20, 10, 3], help="one number for each of --rows, or for all"
    )
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


def main() -> None:
    options = parse()
    mixture = Mixture.drawn(options.seed)
    with threadpool_limits(1):
        errors, seconds = run(options, mixture)
    write_csv(errors, options.output.with_suffix(".csv"))
    if not options.no_plot:
        plot(errors, options, options.output.with_suffix(options.output.suffix or ".png"))
    print(f"bandwidth {mixture.bandwidth:.4g}, |μ|² = {mixture.squared_norm():.6g}, seed {options.seed}\n")
    print("|μ − μ̂_m| / |μ − μ̂| at m = √n log √n, mean (5 %–95 %):\n")
    print(ratio_table(errors, options))
    print("\n" + ", ".join(f"n = {n:,}: {spent:.0f} s" for n, spent in seconds.items()))


if __name__ == "__main__":
    main()
