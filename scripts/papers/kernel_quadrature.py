"""Figures 1 and 2 of "Sampling-based Nyström approximation and kernel quadrature" (ICML 2023), §5.2.

    scripts/setup report && .venv/bin/python scripts/papers/kernel_quadrature.py --out DIR

By Hayakawa, Oberhauser and Lyons. How well do n points with positive weights stand for a distribution μ, if
they are chosen among N draws Y from it such that s = n − 1 functions keep their means over Y? The error is
the worst one of an integral, over all functions of norm 1 in the space of the kernel: the MMD to μ.

Kernels are those of periodic Sobolev spaces on [0, 1]^d, products of
k_r(x, y) = 1 + 2 Σ_m m^(−2r) cos 2πm(x − y) over the coordinates; μ is uniform. So the squared error is
wᵀ(K − 1)w, and E k(x, t) k(t, y) is the kernel with 2r in the place of r. Functions are combinations of the
kernel at H, n points that cover the cube well (a grid; Halton points where d > 1), or at Z, H with 20 n draws
from a Beta(2, 5) distribution, which is not μ. Figure 1 has (d, r) = (1, 1), (2, 1) and (3, 3) with N = n²,
Figure 2 (1, 2) with N = n² and N = n³. Shown is log₁₀ of the squared error, mean and standard deviation.

What is compared:
- k_s^H, k_s^Z: the leading eigenvectors of the kernel matrix of H or Z.
- k_{s,Y}^Z, k_{s,μ}^Z: the leading eigenfunctions of the kernel projected on Z, under Y or μ, from
  `nysketch.coresets.testfunctions`.
- pinv, Y and pinv, μ (Figure 2): the same as the paper has them, (H⁺ v)ᵀ k(Z, ·) with H = h^(1/2) and v an
  eigenvector of H K⁺ H, by `numpy.linalg.pinv`. Rounding spoils them as n grows.
- ours, nystrom; ours, mercer; ours, mercer μ: 2n − 1 functions (as k_s^Z, k_{s,Y}^Z, k_{s,μ}^Z) and 2n points
  first, of which those n stay that change the mean embedding least, by
  `nysketch.coresets.recombination.thin`. The first s functions keep their means.
- Monte Carlo, uniform grid, Halton: n points of equal weight.
All of them see the same Y, H and Z in a trial (but the points of "Halton" are drawn apart). The four of the
paper also keep its inequality (12): the mean of √(k(x, x) − Σ f(x)²) over the points is at most that over Y.

It writes kernel-quadrature.csv, and kernel-quadrature-1.png and -2.png (--picture svg: .svg) if there is
matplotlib; it prints the means, the slopes of the logarithm over log n, and seconds per trial. What several
methods need is done once in a trial and counts for each of them. Where the public code of the authors was run
(d = 1 and 2, r = 1, N = n², also 20 trials), its mean is in brackets beside ours.

At the end it says whether these agree, and whether what the paper says of its figures holds here.

On one core, each figure takes about 20 minutes, most of them for the largest n.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import bernoulli, comb
from scipy.stats import qmc
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from nysketch.basis.nystrom import NystromMap
from nysketch.coresets.recombination import recombine, thin
from nysketch.coresets.testfunctions import mercer_functions, nystrom_functions

Floats = NDArray[np.float64]

OF_H, OF_Z, OF_Y, OF_MU = "k_s^H", "k_s^Z", "k_{s,Y}^Z", "k_{s,μ}^Z"
PINV_Y, PINV_MU = "pinv, Y", "pinv, μ"
OURS = {OF_Z: "ours, nystrom", OF_Y: "ours, mercer", OF_MU: "ours, mercer μ"}
MONTE_CARLO, GRID, HALTON = "Monte Carlo", "uniform grid", "Halton"

SIZES = (4, 8, 16, 32, 64, 128)
LARGEST = {1: 128, 2: 64}  # n, by figure
CONTAMINATION = 20  # draws from the wrong distribution for each point of H

# Means of 20 trials of the public code of the authors, by (d, r) with N = n², for n = 4, 8, 16, 32, 64; the
# last ones were not run for all.
REFERENCE = {
    (1, 1): {
        OF_H: (-0.25, -0.88, -1.43, -2.09, -2.68),
        OF_Z: (-0.38, -0.84, -1.40, -1.85, -2.37),
        OF_Y: (-0.33, -0.89, -1.44, -2.14, -2.69),
        OF_MU: (-0.33, -0.94, -1.48, -2.10),
        GRID: (-0.69, -1.29, -1.89, -2.49),
        MONTE_CARLO: (-0.10, -0.41, -0.75, -1.12, -1.22),
    },
    (2, 1): {
        OF_H: (0.72, 0.30, -0.11, -0.58, -1.05),
        OF_Z: (0.71, 0.35, -0.04, -0.44, -0.89),
        OF_Y: (0.60, 0.27, -0.17, -0.63, -1.10),
        OF_MU: (0.71, 0.26, -0.17, -0.63),
        HALTON: (0.57, 0.23, -0.22, -0.66),
        MONTE_CARLO: (0.60, 0.37, 0.02, -0.28, -0.58),
    },
}
# Two means of as many trials agree if they differ by no more standard errors of a difference than this, and
# by what rounding to two digits adds.
AGREE, ROUNDED = 3.0, 0.01
# Differences of log₁₀ that a figure does not show.
INVISIBLE = 0.1

# Kernel values in memory at once: 64 MB. So many are computed together that they stay in the cache.
CHUNK, CACHED = 1 << 23, 1 << 15

# Colours that are told apart without red or green (Okabe and Ito), a marker each for those without colours.
LOOKS = {
    OF_H: ("#E69F00", "o", "-"),
    OF_Z: ("#56B4E9", "s", "-"),
    OF_Y: ("#009E73", "^", "-"),
    OF_MU: ("#0072B2", "v", "-"),
    PINV_Y: ("#009E73", "^", ":"),
    PINV_MU: ("#0072B2", "v", ":"),
    OURS[OF_Z]: ("#56B4E9", "s", "--"),
    OURS[OF_Y]: ("#009E73", "^", "--"),
    OURS[OF_MU]: ("#0072B2", "v", "--"),
    MONTE_CARLO: ("#777777", "x", "-"),
    GRID: ("#000000", "+", "-"),
    HALTON: ("#000000", "+", "-"),
}


@dataclass(frozen=True)
class Space:
    """The periodic Sobolev space of smoothness r on the cube of d dimensions."""

    d: int
    r: int

    def excess(self, x: Floats, y: Floats) -> Floats:
        """Return k − 1, all points of x with all of y: small errors are sums of these, not of k."""
        found = np.empty((len(x), len(y)))
        step = max(CACHED // len(y), 1)
        for start in range(0, len(x), step):
            part = found[start : start + step]
            part[:] = _periodic(x[start : start + step, 0], y[:, 0], self.r)
            for i in range(1, self.d):
                other = _periodic(x[start : start + step, i], y[:, i], self.r)
                part += other * part
                part += other
        return found

    def kernel(self, x: Floats, y: Floats) -> Floats:
        """Return k, all points of x with all of y."""
        values = self.excess(x, y)
        values += 1.0
        return values

    def second_moments(self, z: Floats) -> Floats:
        """E k(z, t) k(t, z) over uniform t."""
        return Space(self.d, 2 * self.r).kernel(z, z)

    def squared_error(self, rule: Rule) -> float:
        """Return the squared worst-case error; the weights have the sum 1."""
        return float(rule.weights @ self.excess(rule.points, rule.points) @ rule.weights)


def _periodic(x: Floats, y: Floats, r: int) -> Floats:
    """2 Σ_m m^(−2r) cos 2πm(x − y), from the Bernoulli polynomial B_2r at |x − y|, in powers of (· − ½)²."""
    numbers = bernoulli(2 * r)
    scale = (-1) ** (r - 1) * (2 * math.pi) ** (2 * r) / math.factorial(2 * r)
    factors = [scale * comb(2 * r, 2 * j) * (2.0 ** (1 - 2 * j) - 1) * numbers[2 * j] for j in range(r + 1)]
    squares = np.abs(x[:, None] - y)
    squares -= 0.5
    squares *= squares
    values = squares * factors[0]
    for factor in factors[1:-1]:
        values += factor
        values *= squares
    values += factors[-1]
    return values


@dataclass(frozen=True)
class Rule:
    """Points, and the weights of a quadrature rule."""

    points: Floats
    weights: Floats

    @classmethod
    def equal(cls, points: Floats) -> Rule:
        """All weights are the same."""
        return cls(points, np.full(len(points), 1 / len(points)))


@dataclass(frozen=True)
class Draw:
    """The points of a trial."""

    covering: Floats  # H
    landmarks: Floats  # Z
    sample: Floats  # Y
    others: dict[str, Floats]  # that rules of equal weights have

    @classmethod
    def of(cls, d: int, n: int, N: int, rng: np.random.Generator) -> Draw:
        """Draw all of them."""
        grid = np.arange(1, n + 1)[:, None] / n
        H = grid if d == 1 else qmc.Halton(d, seed=rng).random(n)
        Z = np.concatenate([H, rng.beta(2, 5, (CONTAMINATION * n, d))])
        others = {MONTE_CARLO: rng.uniform(size=(n, d))}
        others |= {GRID: grid} if d == 1 else {HALTON: qmc.Halton(d, seed=rng).random(n)}
        return cls(H, Z, rng.uniform(size=(N, d)), others)


class Clock(dict[str, float]):
    """Seconds by method."""

    @contextmanager
    def running(self, *methods: str) -> Iterator[None]:
        """Measure what all of these methods need."""
        start = time.perf_counter()
        yield
        for method in methods:
            self[method] = self.get(method, 0.0) + time.perf_counter() - start


def chunks(points: Floats, width: int) -> Iterator[Floats]:
    """Cut points into parts, of each of which so many kernel values are held."""
    step = max(CHUNK // width, 1)
    return (points[start : start + step] for start in range(0, len(points), step))


def test_functions(space: Space, draw: Draw, n: int, clock: Clock, *, pinv: bool) -> dict[str, Floats]:
    """Return matrices, landmarks × functions; up to 2n − 1 functions of the methods that `OURS` has."""
    Z = draw.landmarks
    with clock.running(OF_H):
        found = {OF_H: nystrom_functions(NystromMap.of(space.kernel(draw.covering, draw.covering)), n - 1)}
    mercer = [OF_Y, OURS[OF_Y], OF_MU, OURS[OF_MU]]
    with clock.running(OF_Z, OURS[OF_Z], *mercer):
        landmarks = NystromMap.of(space.kernel(Z, Z))
    with clock.running(OF_Z, OURS[OF_Z]):
        found[OF_Z] = nystrom_functions(landmarks, 2 * n - 1)
    moments = {}
    with clock.running(OF_Y, OURS[OF_Y], PINV_Y):
        moments[OF_Y] = np.zeros((len(Z), len(Z)))
        for part in chunks(draw.sample, len(Z)):
            values = space.kernel(part, Z)
            moments[OF_Y] += values.T @ values
        moments[OF_Y] /= len(draw.sample)
    with clock.running(OF_MU, OURS[OF_MU], PINV_MU):
        moments[OF_MU] = space.second_moments(Z)
    for name, h in moments.items():
        with clock.running(name, OURS[name]):
            found[name] = mercer_functions(landmarks, h, 2 * n - 1)
    matrices = {name: functions.matrix for name, functions in found.items()}
    if pinv:
        with clock.running(PINV_Y, PINV_MU):
            inverse = np.linalg.pinv(space.kernel(Z, Z), hermitian=True)
        for name, of in ((PINV_Y, OF_Y), (PINV_MU, OF_MU)):
            with clock.running(name):
                matrices[name] = pseudo_inverse_functions(inverse, moments[of], n - 1)
    return matrices


def pseudo_inverse_functions(inverse: Floats, second_moments: Floats, count: int) -> Floats:
    """Return H⁺ v for the leading eigenvectors v of H K⁺ H, as the paper does."""
    squares, vectors = np.linalg.eigh(second_moments)
    H = vectors * np.sqrt(np.maximum(squares, 0.0)) @ vectors.T
    product = H @ inverse @ H
    size = len(product)
    _, leading = eigh((product + product.T) / 2, subset_by_index=[size - count, size - 1])
    return np.linalg.pinv(H, hermitian=True) @ leading[:, ::-1]


class Reduced:
    """Few points that have the means of all that were added, with the values of the functions there."""

    def __init__(self, d: int, count: int) -> None:
        self.points, self.weights, self.values = np.empty((0, d)), np.empty(0), np.empty((0, count))

    def add(self, points: Floats, weights: Floats, values: Floats, diagonal: float | None = None) -> None:
        """Add points, and leave out all but one more than there are functions.

        With k(x, x), the mean of the root of what orthonormal functions leave of it does not grow.
        """
        points, values = np.concatenate([self.points, points]), np.concatenate([self.values, values])
        costs = None
        if diagonal is not None:
            costs = np.sqrt(np.maximum(diagonal - (values**2).sum(axis=1), 0.0))
        kept, self.weights = recombine(values, np.concatenate([self.weights, weights]), costs)
        self.points, self.values = points[kept], values[kept]

    def thinned(self, space: Space, count: int, most: int) -> Rule:
        """Leave out more: the means of the first functions stay, the mean embedding almost."""
        K = space.kernel(self.points, self.points)
        kept, weights = thin(K, K @ self.weights, self.values[:, :count], self.weights, most)
        return Rule(self.points[kept], weights)

    @property
    def rule(self) -> Rule:
        """The points and their weights."""
        return Rule(self.points, self.weights)


def rules(space: Space, draw: Draw, functions: dict[str, Floats], n: int, clock: Clock) -> dict[str, Rule]:
    """Return a rule of n points for each method."""
    d, s, N = space.d, n - 1, len(draw.sample)
    plain = {name: Reduced(d, min(s, matrix.shape[1])) for name, matrix in functions.items()}
    more = {name: Reduced(d, functions[name].shape[1]) for name in OURS}
    of_landmarks = [name for name in functions if name != OF_H]
    diagonal = float(space.kernel(draw.sample[:1], draw.sample[:1])[0, 0])
    for part in chunks(draw.sample, len(draw.landmarks)):
        weights = np.full(len(part), 1 / N)
        with clock.running(OF_H):
            at_covering = space.kernel(part, draw.covering)
        with clock.running(*of_landmarks, *OURS.values()):
            at_landmarks = space.kernel(part, draw.landmarks)
        for name, matrix in functions.items():
            with clock.running(name, *([OURS[name]] if name in OURS else [])):
                values = (at_covering if name == OF_H else at_landmarks) @ matrix
            with clock.running(name):
                orthonormal = name not in (PINV_Y, PINV_MU)
                plain[name].add(part, weights, values[:, :s], diagonal if orthonormal else None)
            if name in OURS:
                with clock.running(OURS[name]):
                    more[name].add(part, weights, values)
    found = {name: reduced.rule for name, reduced in plain.items()}
    for name, reduced in more.items():
        with clock.running(OURS[name]):
            found[OURS[name]] = reduced.thinned(space, s, n)
    for name, points in draw.others.items():
        with clock.running(name):
            found[name] = Rule.equal(points)
    return found


@dataclass(frozen=True)
class Setting:
    """A panel of a figure."""

    figure: int
    space: Space
    power: int  # N = n^power

    def __str__(self) -> str:
        return f"d = {self.space.d}, r = {self.space.r}, N = n{'²' if self.power == 2 else '³'}"

    def sizes(self, most: int) -> list[int]:
        """Return the numbers of points."""
        return [n for n in SIZES if n <= min(most, LARGEST[self.figure])]


SETTINGS = (
    Setting(1, Space(1, 1), 2),
    Setting(1, Space(2, 1), 2),
    Setting(1, Space(3, 3), 2),
    Setting(2, Space(1, 2), 2),
    Setting(2, Space(1, 2), 3),
)


@dataclass(frozen=True)
class Cell:
    """What a method has found with n points, in each trial."""

    logarithms: list[float]  # log₁₀ of the squared error
    seconds: list[float]

    @property
    def mean(self) -> float:
        """The mean of the logarithms."""
        return float(np.mean(self.logarithms))

    @property
    def deviation(self) -> float:
        """Their standard deviation; of one trial there is none."""
        return float(np.std(self.logarithms, ddof=1)) if len(self.logarithms) > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """That of the mean."""
        return self.deviation / math.sqrt(len(self.logarithms))


Cells = dict[tuple[Setting, str, int], Cell]  # by method and n


def run_trial(setting: Setting, n: int, rng: np.random.Generator) -> tuple[dict[str, float], Clock]:
    """Return log₁₀ of the squared errors, and seconds."""
    clock = Clock()
    draw = Draw.of(setting.space.d, n, n**setting.power, rng)
    functions = test_functions(setting.space, draw, n, clock, pinv=setting.figure == 2)
    found = rules(setting.space, draw, functions, n, clock)
    return {name: math.log10(setting.space.squared_error(rule)) for name, rule in found.items()}, clock


def run(options: argparse.Namespace, settings: list[Setting]) -> Cells:
    """Run all trials; the table is written after each n, for the last take longest."""
    cells: Cells = {}
    run_trial(Setting(1, Space(1, 1), 2), 4, np.random.default_rng(0))  # compiles what shall not be measured
    steps = sum(len(setting.sizes(options.most)) for setting in settings) * options.trials
    with tqdm(total=steps, file=sys.stderr, disable=None, unit="trial") as bar:
        for setting in settings:
            for n in setting.sizes(options.most):
                bar.set_postfix_str(f"{setting}, n = {n}")
                for trial in range(options.trials):
                    space = setting.space
                    rng = np.random.default_rng([options.seed, space.d, space.r, setting.power, n, trial])
                    found, clock = run_trial(setting, n, rng)
                    for name in (name for name in LOOKS if name in found):
                        cell = cells.setdefault((setting, name, n), Cell([], []))
                        cell.logarithms.append(found[name])
                        cell.seconds.append(clock[name])
                    bar.update()
                write_csv(cells, options.out / "kernel-quadrature.csv")
    return cells


def write_csv(cells: Cells, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["d", "r", "power", "n", "method", "trials", "mean", "sd", "standard_error", "seconds"]
        )
        for (setting, name, n), cell in cells.items():
            numbers = (cell.mean, cell.deviation, cell.standard_error, np.mean(cell.seconds))
            writer.writerow(
                [setting.space.d, setting.space.r, setting.power, n, name, len(cell.logarithms)]
                + [f"{number:.6g}" for number in numbers]
            )


def slope(sizes: list[int], means: list[float]) -> float:
    """Return the power of n that the squared error is proportional to."""
    return float(np.polyfit(np.log10(sizes), means, 1)[0])


def reference(setting: Setting, name: str, n: int) -> float | None:
    """Return the mean that the code of the authors has, if it was run."""
    if setting.power != 2 or n not in SIZES:
        return None
    known = REFERENCE.get((setting.space.d, setting.space.r), {}).get(name, ())
    return known[SIZES.index(n)] if SIZES.index(n) < len(known) else None


def verdict(cells: Cells) -> list[str]:
    """Return sentences: do the means of the authors agree with ours, and do the paper's sentences hold?"""
    return [*_agreement(cells), *_recovery(cells), *_equality(cells), *_stability(cells)]


def _agreement(cells: Cells) -> list[str]:
    found = []
    for setting in dict.fromkeys(setting for setting, _, _ in cells):
        compared = [
            (abs(cell.mean - known), name, n, cell)
            for (other, name, n), cell in cells.items()
            if other == setting and (known := reference(setting, name, n)) is not None
        ]
        if not compared:
            continue
        # The authors' trials vary as much as ours. Of one trial nothing is known.
        good = [off <= ROUNDED + AGREE * math.sqrt(2) * cell.standard_error for off, _, _, cell in compared]
        off, name, n, _ = max(compared, key=lambda each: each[0])
        found.append(
            f"{setting}: {sum(good)} of {len(good)} means agree with those of the authors' code, within "
            f"{AGREE:g} standard errors; the largest difference is {off:.2f} ({name}, n = {n})."
        )
    return found


def _at_largest(cells: Cells, setting: Setting, *names: str) -> tuple[int, list[float]]:
    n = max(n for other, _, n in cells if other == setting)
    return n, [cells[setting, name, n].mean for name in names]


def _recovery(cells: Cells) -> list[str]:
    """Figure 1 (a, b): k_{s,Y}^Z and k_{s,μ}^Z are as good as k_s^H, though Z is contaminated."""
    found = []
    for setting in dict.fromkeys(s for s, _, _ in cells if s.figure == 1 and s.space.r == 1):
        n, (of_h, of_z, of_y, of_mu) = _at_largest(cells, setting, OF_H, OF_Z, OF_Y, OF_MU)
        holds = max(of_y, of_mu) <= of_h + INVISIBLE and max(of_y, of_mu) < of_z
        found.append(
            f"{setting}: eigenfunctions from a contaminated Z {'recover' if holds else 'do NOT recover'} the "
            f"error of k_s^H: {of_y:.2f} and {of_mu:.2f} against {of_h:.2f} (k_s^Z {of_z:.2f}) at n = {n}."
        )
    return found


def _equality(cells: Cells) -> list[str]:
    """Figure 1 (c): all four are equally good."""
    found = []
    for setting in dict.fromkeys(s for s, _, _ in cells if s.space.r == 3):
        n, means = _at_largest(cells, setting, OF_H, OF_Z, OF_Y, OF_MU)
        spread = max(means) - min(means)
        are = "are" if spread <= 2 * INVISIBLE else "are NOT"
        found.append(f"{setting}: the four {are} equally good, within {spread:.2f} at n = {n}.")
    return found


def _stability(cells: Cells) -> list[str]:
    """Figure 2: with pseudo-inverses, the error stops falling; in orthonormal coordinates it goes on."""
    found = []
    for setting in dict.fromkeys(s for s, _, _ in cells if s.figure == 2):
        n, (pinv, plain) = _at_largest(cells, setting, PINV_Y, OF_Y)
        loses = "loses" if pinv > plain + INVISIBLE else "does not lose"
        found.append(
            f"{setting}: the pseudo-inverse {loses} digits: {pinv:.2f} against {plain:.2f} in orthonormal "
            f"coordinates at n = {n}."
        )
    return found


def table(cells: Cells, setting: Setting) -> str:
    """Return means and standard errors as Markdown, the slopes, and seconds with the largest n.

    In brackets are the means that the code of the authors has.
    """
    sizes = sorted({n for other, _, n in cells if other == setting})
    lines = [
        f"| {setting} | {' | '.join(f'n = {n}' for n in sizes)} | slope | seconds, n = {sizes[-1]} |",
        "|---|" + "---|" * (len(sizes) + 2),
    ]
    for name in dict.fromkeys(name for other, name, _ in cells if other == setting):
        row = [cells[setting, name, n] for n in sizes]
        known = [reference(setting, name, n) for n in sizes]
        texts = [
            f"{cell.mean:.2f} ± {cell.standard_error:.2f}" + ("" if mean is None else f" ({mean:.2f})")
            for cell, mean in zip(row, known, strict=True)
        ]
        rate = f"{slope(sizes, [cell.mean for cell in row]):.2f}" if len(sizes) > 1 else ""
        lines.append(f"| {name} | {' | '.join(texts)} | {rate} | {np.mean(row[-1].seconds):.2g} |")
    return "\n".join(lines)


def plot(cells: Cells, settings: list[Setting], path: Path) -> None:
    """Draw a panel for each setting of a figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.fonttype"], mpl.rcParams["svg.hashsalt"] = (
        "none",
        "kernel quadrature",
    )  # small
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(settings), figsize=(4.6 * len(settings), 5.2), squeeze=False, layout="constrained"
    )
    handles = {}
    for axis, setting in zip(axes[0], settings, strict=True):
        sizes = sorted({n for other, _, n in cells if other == setting})
        for name in dict.fromkeys(name for other, name, _ in cells if other == setting):
            colour, marker, line = LOOKS[name]
            mean = np.array([cells[setting, name, n].mean for n in sizes])
            deviation = np.array([cells[setting, name, n].deviation for n in sizes])
            (handles[name],) = axis.plot(
                sizes, mean, line, color=colour, marker=marker, markersize=4, linewidth=1.2
            )
            axis.fill_between(sizes, mean - deviation, mean + deviation, color=colour, alpha=0.1, linewidth=0)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [str(n) for n in sizes])
        axis.set(title=str(setting), xlabel="n", ylabel="log₁₀ of the squared worst-case error")
        axis.grid(visible=True, color="#dddddd", linewidth=0.6)
    figure.legend(handles.values(), handles, fontsize=8, ncols=4, loc="outside lower center")
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", choices=["1", "2", "all"], default="all")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument(
        "--most", type=int, default=SIZES[-1], metavar="N", help="the largest n; 64 at most in Figure 2"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", choices=["png", "svg"], default="png", help="format of the plots")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="for the table and the plots")
    options = parser.parse_args(arguments)
    if options.trials < 1 or options.most < SIZES[0]:
        parser.error(f"there must be at least 1 trial and {SIZES[0]} points")
    if not options.out.is_dir():
        parser.error(f"there is no folder {options.out}")
    return options


def main() -> None:
    options = parse()
    start = time.perf_counter()
    settings = [each for each in SETTINGS if options.figure in (str(each.figure), "all")]
    cells = run(options, settings)
    print(f"log₁₀ of the squared worst-case error, mean of {options.trials} trials ± its standard error:\n")
    for setting in settings:
        print(table(cells, setting) + "\n")
    for sentence in verdict(cells):
        print(sentence)
    print(f"\n{time.perf_counter() - start:.0f} s; seed {options.seed}")
    if find_spec("matplotlib") is None:
        print("No plots: these need matplotlib (scripts/setup report)", file=sys.stderr)
        return
    for number in dict.fromkeys(setting.figure for setting in settings):
        panels = [setting for setting in settings if setting.figure == number]
        plot(cells, panels, options.out / f"kernel-quadrature-{number}.{options.picture}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
