"""The MMD of two samples from their sketches: how far is it from the exact one, and from the true one?

    scripts/setup report && .venv/bin/python scripts/papers/mmd.py -o mmd.png

"Nyström kernel mean embeddings" (Chatalic, Schreuder, Rudi, Rosasco; ICML 2022), §5, bounds the error of the
Nyström MMD, and §6.1 says that it "has exactly the same behavior" as that of the mean embedding, without a
figure. Here is one, with the data of §6.1: x from a mixture of 8 Gaussians N(c_i, I) in d = 10, centres drawn
from N(0, 5 I), and y from the same with all centres moved by a random vector of length --shift; n rows each;
the Gaussian kernel at the median distance of 1000 rows. Mixtures and kernel are drawn once.

Three numbers are compared: the MMD of the two mixtures, which has a closed form (Appendix G); the exact MMD
of the two samples, from some 2n² kernel values (the V-statistic); and that of their sketches at m landmarks.
The paper draws landmarks for x from x and for y from y; sketches share a basis, whose landmarks come from
both. Then both embeddings are projected on the same space, the MMD can only become smaller, and what it loses
is of second order: about |(I − P)(μ̂ − ν̂)|² / (2 MMD).

It writes NAME.csv (n, m, sampling; root of the mean squared error over trials, against the MMD of the samples
and that of the mixtures; seconds to choose landmarks and sketch both), where sampling "exact" with m = n is
the MMD of the samples, and NAME.png or NAME.svg, and prints both as tables. On one core it takes 5 minutes.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from dataclasses import dataclass, field
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
EXACT = "exact"

# Rows of a tile: 256 × 256 float64 values fit the cache.
TILE = 256

# Colours that are told apart without red or green (Okabe and Ito), a marker each for those without colours.
LOOKS = {
    "uniform": ("#E69F00", "o"),
    "kmeans++": ("#009E73", "s"),
    "leverage": ("#CC79A7", "^"),
    "greedy": ("#000000", "x"),
    "rpcholesky": ("#D55E00", "D"),
}
BLUE = "#0072B2"


def smoothed(points: Floats, centres: Floats, bandwidth: float, variance: float) -> Floats:
    """Return the Gaussian kernel between points and centres, convolved with N(0, variance · I)."""
    square = bandwidth**2
    height = (square / (square + variance)) ** (centres.shape[1] / 2)
    return height * np.exp(-cdist(points, centres, "sqeuclidean") / (2 * (square + variance)))


@dataclass(frozen=True)
class Pair:
    """Two mixtures of Gaussians N(c_i, I) of equal weight, and the kernel that compares them."""

    first: Floats
    second: Floats
    bandwidth: float

    @classmethod
    def drawn(cls, shift: float, seed: int) -> Pair:
        """Draw centres as the paper does; take the median distance of 1000 rows as bandwidth."""
        rng = np.random.default_rng([seed, 0])
        first = math.sqrt(CENTRE_VARIANCE) * rng.standard_normal((COMPONENTS, FEATURES))
        direction = rng.standard_normal(FEATURES)
        second = first + shift * direction / np.linalg.norm(direction)
        rows = np.concatenate(cls(first, second, 1.0).rows(500, rng))
        return cls(first, second, median_distance(rows, seed))

    def rows(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw n rows of each."""
        x, y = (
            centres[rng.integers(len(centres), size=n)] + rng.standard_normal((n, centres.shape[1]))
            for centres in (self.first, self.second)
        )
        return x, y

    def mmd(self) -> float:
        """The MMD of the mixtures."""
        return _root(
            *(
                float(smoothed(a, b, self.bandwidth, 2.0).mean())
                for a, b in ((self.first, self.first), (self.second, self.second), (self.first, self.second))
            )
        )

    def mmd_of(self, x: Floats, y: Floats) -> float:
        """The MMD of two samples, in quadratic time."""
        h = self.bandwidth
        return _root(mean_kernel(x, x, h), mean_kernel(y, y, h), mean_kernel(x, y, h))


def _root(xx: float, yy: float, xy: float) -> float:
    return math.sqrt(max(xx + yy - 2 * xy, 0.0))


def mean_kernel(X: Floats, Y: Floats, bandwidth: float) -> float:
    """Return the mean of all kernel values, tile by tile; of half of the tiles if X is Y."""
    half_x, half_y = (-0.5 * (Z**2).sum(axis=1) / bandwidth**2 for Z in (X, Y))
    left = np.column_stack([X / bandwidth, half_x, np.ones(len(X))])
    right = np.column_stack([Y / bandwidth, np.ones(len(Y)), half_y])
    sums = []
    for i in range(0, len(X), TILE):
        part = left[i : i + TILE]
        for j in range(i if X is Y else 0, len(Y), TILE):
            values = part @ right[j : j + TILE].T
            np.exp(values, out=values)
            sums.append(float(values.sum()) * (2 if X is Y and i != j else 1))
    return math.fsum(sums) / (len(X) * len(Y))


def sketched_mmd(
    x: Floats, y: Floats, bandwidth: float, m: int, sampling: str, pilot_rows: int, seed: int
) -> float:
    """The MMD from two sketches at the same landmarks, chosen from a sample of both."""
    basis = nysketch.Basis.fit(
        np.concatenate([x, y]),
        landmarks=m,
        sampling=sampling,
        kernel="gaussian",
        bandwidth=bandwidth,
        scale="none",
        pilot_rows=min(2 * len(x), max(pilot_rows, m)),
        seed=seed,
        threads=1,
    )
    means = [
        nysketch.sketch(
            rows, basis=basis, blocks=1, precision="float64", sample_rows=0, cells=False, threads=1
        ).mean_features()
        for rows in (x, y)
    ]
    return float(np.linalg.norm(means[0] - means[1]))


def enough_landmarks(n: int) -> int:
    """√n log √n."""
    return round(math.sqrt(n) * math.log(math.sqrt(n)))


def landmark_counts(wanted: list[int], n: int) -> list[int]:
    return sorted({m for m in (*wanted, enough_landmarks(n)) if m <= n})


@dataclass
class Measured:
    """The MMD of some estimate minus that of the samples, minus that of the mixtures, and its seconds."""

    of_sample: list[float] = field(default_factory=list)
    of_mixtures: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


Results = dict[tuple[int, int, str], Measured]  # by n, m and sampling


def rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def run_trial(
    options: argparse.Namespace, pair: Pair, n: int, trial: int, results: Results, bar: Any, *, sketch: bool
) -> None:
    x, y = pair.rows(n, np.random.default_rng([options.seed, n, trial + 1]))
    truth = pair.mmd()

    def note(m: int, sampling: str, start: float, value: float, sample: float) -> None:
        found = results.setdefault((n, m, sampling), Measured())
        found.seconds.append(time.perf_counter() - start)
        found.of_sample.append(value - sample)
        found.of_mixtures.append(value - truth)
        bar.update()

    bar.set_postfix_str(f"n = {n:,}, trial {trial}, exact")
    start = time.perf_counter()
    sample = pair.mmd_of(x, y)
    note(n, EXACT, start, sample, sample)
    if not sketch:
        return
    for m in landmark_counts(options.landmarks, n):
        for sampling in options.samplings:
            bar.set_postfix_str(f"n = {n:,}, trial {trial}, {m} {sampling}")
            start = time.perf_counter()
            seed = 1000 * options.seed + trial
            value = sketched_mmd(x, y, pair.bandwidth, m, sampling, options.pilot_rows, seed)
            note(m, sampling, start, value, sample)


def run(options: argparse.Namespace, pair: Pair) -> Results:
    results: Results = {}
    trials = list(zip(options.rows, options.trials, options.exact_trials, strict=True))
    steps = sum(
        most + count * len(landmark_counts(options.landmarks, n)) * len(options.samplings)
        for n, count, most in trials
    )
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="MMD") as bar:
        for n, count, most in trials:
            for trial in range(most):
                run_trial(options, pair, n, trial, results, bar, sketch=trial < count)
    return results


def slope(results: Results, sizes: list[int]) -> float:
    """The power of n that the error of the exact MMD falls with: the steepness of the line through all n."""
    errors = [rms(results[n, n, EXACT].of_mixtures) for n in sizes]
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def write_csv(results: Results, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["n", "m", "sampling", "trials", "error_to_sample", "error_to_mixtures", "seconds"])
        for key in sorted(results):
            found = results[key]
            numbers = (rms(found.of_sample), rms(found.of_mixtures), float(np.median(found.seconds)))
            writer.writerow([*key, len(found.seconds), *(f"{number:.6g}" for number in numbers)])


def plot(results: Results, options: argparse.Namespace, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sizes = options.rows
    columns = math.ceil((len(sizes) + 2) / 2)
    figure, grid = plt.subplots(2, columns, figsize=(4.6 * columns, 7.6))
    *axes, errors, seconds = grid.ravel()
    for axis in axes[len(sizes) :]:
        axis.set_visible(False)
    for axis, n in zip(axes, sizes, strict=False):
        counts = landmark_counts(options.landmarks, n)
        own = rms(results[n, n, EXACT].of_mixtures)
        axis.set_ylabel("error of the MMD (root mean square)")
        axis.axhline(own, color=BLUE, linewidth=2, label="exact, against the mixtures'")
        for sampling in options.samplings:
            colour, marker = LOOKS[sampling]
            found = [rms(results[n, m, sampling].of_sample) for m in counts]
            text = f"{sampling}, against the exact"
            axis.plot(counts, found, color=colour, marker=marker, markersize=4, linewidth=1.2, label=text)
        axis.axvline(enough_landmarks(n), color="#777777", linestyle=":", label="m = √n log √n")
        axis.set(xscale="log", yscale="log", xlabel="landmarks m", title=f"n = {n:,}")
    axes[0].legend(fontsize=7)
    exact = [results[n, n, EXACT] for n in sizes]
    errors.plot(
        sizes,
        [rms(found.of_mixtures) for found in exact],
        color=BLUE,
        linewidth=2,
        label="exact, to the mixtures'",
    )
    seconds.plot(sizes, [np.median(found.seconds) for found in exact], color=BLUE, linewidth=2, label="exact")
    for sampling in options.samplings:
        colour, marker = LOOKS[sampling]
        found = [results[n, enough_landmarks(n), sampling] for n in sizes]
        looks = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2, "label": sampling}
        errors.plot(sizes, [rms(each.of_sample) for each in found], **looks)
        seconds.plot(sizes, [np.median(each.seconds) for each in found], **looks)
    first = rms(exact[0].of_mixtures)
    errors.plot(
        sizes, [first * math.sqrt(sizes[0] / n) for n in sizes], ":", color="#777777", label="n^(−1/2)"
    )
    errors.set(xscale="log", yscale="log", xlabel="n", title="errors, m = √n log √n")
    seconds.set(xscale="log", yscale="log", xlabel="n", title="seconds, m = √n log √n")
    errors.legend(fontsize=7)
    for axis in grid.ravel():
        axis.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def error_table(results: Results, options: argparse.Namespace) -> str:
    """Return |sketch − exact| / |exact − mixtures| as Markdown."""
    lines = [f"| n | m | {' | '.join(options.samplings)} |", "|---|---|" + "---|" * len(options.samplings)]
    for n in options.rows:
        own = rms(results[n, n, EXACT].of_mixtures)
        for m in landmark_counts(options.landmarks, n):
            cells = [f"{rms(results[n, m, s].of_sample) / own:.2g}" for s in options.samplings]
            star = " = √n log √n" if m == enough_landmarks(n) else ""
            lines.append(f"| {n:,} | {m}{star} | {' | '.join(cells)} |")
    return "\n".join(lines)


def size_table(results: Results, options: argparse.Namespace) -> str:
    """Return errors and seconds of the exact MMD and of sketches at m = √n log √n, as Markdown."""
    names = [EXACT, *options.samplings]
    lines = [
        f"| n | m | {' | '.join(f'{name}: error | seconds' for name in names)} |",
        "|---|---|" + "---|---|" * len(names),
    ]
    for n in options.rows:
        m = enough_landmarks(n)
        exact, *sketched = [results[n, n if name == EXACT else m, name] for name in names]
        errors = [rms(exact.of_mixtures), *(rms(each.of_sample) for each in sketched)]
        seconds = [np.median(each.seconds) for each in (exact, *sketched)]
        cells = [f"{error:.2e} | {spent:.2f}" for error, spent in zip(errors, seconds, strict=True)]
        lines.append(f"| {n:,} | {m} | {' | '.join(cells)} |")
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000], metavar="N")
    parser.add_argument(
        "--trials", type=int, nargs="+", default=[15, 15, 8, 3], help="one number, or one for each n"
    )
    parser.add_argument(
        "--exact-trials",
        type=int,
        nargs="+",
        default=[200, 100, 40, 8],
        metavar="TRIALS",
        help="of which only the first are sketched, too",
    )
    parser.add_argument(
        "--landmarks",
        type=int,
        nargs="+",
        default=[10, 20, 40, 80, 160, 320],
        metavar="M",
        help="√n log √n is added",
    )
    parser.add_argument(
        "--samplings",
        nargs="+",
        choices=LOOKS,
        default=["uniform", "kmeans++", "leverage"],
        metavar="SCHEME",
    )
    parser.add_argument("--pilot-rows", type=int, default=5000, help="rows that landmarks are chosen from")
    parser.add_argument("--shift", type=float, default=2.0, help="between the centres of x and of y")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("mmd.png"), help="NAME.png or NAME.svg")
    parser.add_argument("--csv", type=Path, metavar="NAME.csv", help="if it shall have another name")
    parser.add_argument("--no-plot", action="store_true", help="only tables")
    options = parser.parse_args(arguments)
    for name in ("trials", "exact_trials"):
        counts = getattr(options, name)
        setattr(options, name, counts * len(options.rows) if len(counts) == 1 else counts)
        if len(getattr(options, name)) != len(options.rows):
            parser.error(f"--{name.replace('_', '-')} takes one number, or as many as --rows")
    options.exact_trials = [max(pair) for pair in zip(options.trials, options.exact_trials, strict=True)]
    if len({*options.rows}) < 2 or min(options.rows) < 10 or min(options.trials + options.landmarks) < 1:
        parser.error("there must be two sizes from 10 rows on, and at least 1 trial and 1 landmark")
    if options.output.suffix not in ("", ".png", ".svg"):
        parser.error(f"a plot is .png or .svg, not {options.output.suffix}")
    options.output = options.output.with_suffix(options.output.suffix or ".png")
    options.csv = options.csv or options.output.with_suffix(".csv")
    # Now, not after five minutes.
    for folder in (options.output.parent, options.csv.parent):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    if not options.no_plot and find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: run scripts/setup report, or leave it out with --no-plot")
    return options


def main() -> None:
    options = parse()
    start = time.perf_counter()
    pair = Pair.drawn(options.shift, options.seed)
    with threadpool_limits(1):
        results = run(options, pair)
    write_csv(results, options.csv)
    if not options.no_plot:
        plot(results, options, options.output)
    print(f"bandwidth {pair.bandwidth:.4g}, MMD {pair.mmd():.5g}, seed {options.seed}; trials ", end="")
    trials = zip(options.rows, options.trials, options.exact_trials, strict=True)
    print(", ".join(f"{most} ({count} with sketches) at n = {n:,}" for n, count, most in trials))
    print("\n|sketch − exact| / |exact − mixtures|, root mean square over trials:\n")
    print(error_table(results, options))
    print("\nError of the exact MMD to that of the mixtures, of sketches to the exact MMD; seconds:\n")
    print(size_table(results, options))
    power = slope(results, options.rows)
    print(f"\nThe error of the exact MMD falls as n^{power:.2f}; where n is small its bias, 1/n, adds to it.")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
