"""What theory says of a coreset: a bound on its MMD, and how many test functions are enough.

With s orthonormal test functions ψ, let r(x)² = k(x, x) − Σ ψ(x)² be what they leave of a row x. If weighted
rows ν have the means of the functions over all rows μ, the mean embeddings differ by nothing else, so
MMD ≤ ν(r) + μ(r). That is how Hayakawa, Oberhauser and Lyons (2023) prove their Theorem 3, in which weights
have ν(r) ≤ μ(r), inequality (12), and the bound is 2 μ(r). Ours are chosen by the MMD itself and may exceed
μ(r) a little, so ν(r) is computed: the bound holds for whatever weights there are. μ(r) is a mean over
sampled rows, two of its standard errors are added.

The bound does not know that what is left of different rows points in different directions. If it were that of
random rows, its mean square would be Σ_{i>s} σ_i/(s + 1), the sum over what the functions leave of the
eigenvalues. This is what `choose_size` takes for the MMD that s functions will have: in all measurements
(docs/benchmarks/coresets.md) it was 1.5 to 4 times the MMD, and the bound of the theorem 27 to 59 times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.accumulators.sample import RowSample
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import FEWEST_ROWS, weighted_mean
from nysketch.coresets.discrepancy import ALL_ROWS, MEASURED_ROWS, SURE, Discrepancy, representative
from nysketch.coresets.testfunctions import TestFunctions

AUTO = "auto"
# Test functions that are chosen at most where their number is to be found: the work grows with the third
# power. Of 20,000 rows of 50 columns, 100 took 1.4 s of CPU time, and 500 took 4.7 s.
MOST_FUNCTIONS = 500


@dataclass(frozen=True)
class Bound:
    """Means over the coreset and over all rows of what test functions leave of a row.

    `value` is the bound on the MMD: their sum, with two standard errors of the latter.
    """

    of_coreset: float
    of_rows: float
    of_rows_se: float
    value: float

    @property
    def keeps_inequality(self) -> bool:
        """Tell whether (12) of the paper holds, by what was measured."""
        return self.of_coreset <= self.of_rows


def bound_on(
    basis: NystromBasis,
    functions: TestFunctions,
    points: Rows,
    weights: Floats,
    sample: RowSample,
    *,
    of_rows: int,
    mismatch: float,
) -> Bound | None:
    """Return a bound on the MMD between weighted points, scaled, and all rows; None without sampled rows.

    `mismatch` is the largest difference between means of test functions, which counts, too.
    """
    sampled, shares = representative(sample, basis)
    if sampled is None or (len(sampled) < FEWEST_ROWS and len(sample) < of_rows):
        return None
    rows, shares = sampled[:ALL_ROWS], shares[:ALL_ROWS]
    share_left = 1 - len(rows) / max(of_rows, len(rows))
    mean, error = weighted_mean(_left(basis, functions, rows), shares, share_left=share_left)
    of_coreset = float(weights @ _left(basis, functions, points))
    differences = mismatch * math.sqrt(len(functions))
    return Bound(of_coreset, mean, error, of_coreset + mean + SURE * error + differences)


def _left(basis: NystromBasis, functions: TestFunctions, rows: Rows) -> Floats:
    """Return √(k(x, x) − Σ ψ(x)²) for every row, scaled."""
    explained = (functions.of(basis.evaluate(rows)) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(basis.kernel.diagonal(rows) - explained, 0.0)))


# ---- how many --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChosenSize:
    """A number of test functions, the MMD they are predicted to have, and the one that was aimed at.

    The target is the sampling error of the rows: nearer to them is not nearer to where they come from.
    """

    functions: int
    predicted_mmd: float
    target: float
    of_rows: int
    most: int

    @property
    def reached(self) -> bool:
        """Tell whether the predicted MMD is as small as wanted."""
        return self.predicted_mmd <= self.target

    def notes(self, distance: Discrepancy) -> list[str]:
        """Say so if the MMD is above the sampling error, as measured in the end."""
        if distance.mmd <= distance.sampling_error:
            return []
        found = (
            f"the MMD {distance.mmd:.2g} is above the sampling error {distance.sampling_error:.2g} of "
            f"{self.of_rows:,} rows"
        )
        if self.reached:
            return [f'{found}, at which `functions="auto"` aimed']
        more = "a number of `functions`" if self.most == MOST_FUNCTIONS else "more `landmarks`"
        return [f'`functions="auto"` stopped at {self.functions}, the maximum here: {found}. Use {more}']


def choose_size(
    basis: NystromBasis,
    functions: TestFunctions,
    of_rows: int,
    *,
    sampled: Rows | None = None,
    weights: Floats | None = None,
    mean_kernel: Floats | None = None,
) -> ChosenSize:
    """Return the smallest number of test functions whose predicted MMD is below the sampling error.

    What functions leave of rows is measured on sampled ones. Without any, it is known from their strengths;
    then the mean of k(Z, x) over all rows is needed.
    """
    if sampled is not None and len(sampled):
        total, squares, means = _on_rows(basis, functions, sampled, weights)
    else:
        assert mean_kernel is not None
        total = float(basis.kernel.diagonal(basis.scaled_landmarks).mean())
        squares, means = functions.strengths, functions.of(mean_kernel)
    # Rounding is about 1e-15 of the total.
    left = np.maximum(total - np.cumsum(squares), 0.0)
    target = math.sqrt(max(total - float(means @ means), 0.0) / max(of_rows, 1))
    most = min(MOST_FUNCTIONS, len(functions))
    predicted = np.sqrt(left[:most] / np.arange(2, most + 2))
    enough = np.flatnonzero(predicted <= target)
    s = int(enough[0]) + 1 if len(enough) else most
    return ChosenSize(s, float(predicted[s - 1]), target, of_rows, most)


def _on_rows(
    basis: NystromBasis, functions: TestFunctions, sampled: Rows, weights: Floats | None
) -> tuple[float, Floats, Floats]:
    """Return means over sampled rows: of k(x, x), of the squares of functions, and of functions."""
    # Evenly spaced: pilot rows are in the order of the source.
    some = np.unique(np.linspace(0, len(sampled) - 1, min(len(sampled), MEASURED_ROWS)).astype(np.int64))
    rows = sampled[some]
    shares = np.ones(len(rows)) if weights is None or not weights[some].any() else weights[some]
    shares = shares / shares.sum()
    values = functions.of(basis.evaluate(rows))
    return float(shares @ basis.kernel.diagonal(rows)), shares @ values**2, shares @ values
