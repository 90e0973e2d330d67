"""A coreset: a few rows with positive weights that represent all rows. The choice of its test functions.

A coreset has the same means of s test functions (testfunctions.py) as all rows, exactly, with at most s + 1
rows (recombination.py). Of data it is made of any rows, in one pass: from_data.py. Of a saved sketch, whose
rows are gone, it is made of landmarks: from_sketch.py. discrepancy.py measures how near it is to the data;
the notes that tell of a coreset that is worse than it should be are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nysketch._support.html_repr import counted, html_table, listed, one_line, with_error
from nysketch._types import Floats, Indices, Rows
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import relative_weights
from nysketch.columns import Column
from nysketch.coresets.bounds import AUTO, MOST_FUNCTIONS, Bound, ChosenSize
from nysketch.coresets.discrepancy import Discrepancy
from nysketch.coresets.testfunctions import METHODS, TestFunctions, mercer_functions, nystrom_functions
from nysketch.errors import UsageError
from nysketch.learning.decode.atoms import second_moments
from nysketch.learning.decode.mixture import Mixture
from nysketch.models.mixture import MixtureModel
from nysketch.sketches.sketch import Sketch

if TYPE_CHECKING:
    import pyarrow as pa

# More points are found first, that match more functions, and then thinned: of rows of ten columns, 64 that
# match 63 functions and no more had an MMD of 0.0095, 64 of 128 one of 0.0052, and 64 of 256 one of 0.0048.
_MORE = 4
# But not more than these: the work grows with their third power.
_MOST_THINNED = 1500

# What landmarks count beside sampled rows, where second moments are those of a sample: in directions in which
# the sample does not vary, they decide.
_SHARE_OF_LANDMARKS = 0.01

# Means that agree to this are the same: the promise, with room for rounding.
SAME = 1e-10

# Sampled rows that are evaluated at a time.
_STEP = 1024


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Coreset:
    """Rows, in the data's units, and their weights: positive, with a sum of 1.

    `numbers` are those of the rows in the source, from 0; or of landmarks, if these are the rows. `kept` is a
    table of the columns that pass through, row by row.
    """

    basis: NystromBasis
    points: Rows
    weights: Floats
    numbers: Indices
    of_landmarks: bool
    of_rows: int
    dropped_rows: int
    functions: TestFunctions
    learned_from: str  # what the functions were learned from, in words
    wanted: int  # test functions asked for
    mismatch: float  # largest difference between means of test functions
    distance: Discrepancy
    bound: Bound | None  # that of the theorem, for these weights
    chosen: ChosenSize | None = None  # how many functions, if that was to be found
    notes: tuple[str, ...] = ()
    kept: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        rows = f"{len(self):,} of {counted(self.of_rows, 'row')}"
        return one_line("Coreset", rows, f"MMD {with_error(self.distance.mmd, self.distance.standard_error)}")

    def _repr_html_(self) -> str:
        facts = {
            "rows": f"{len(self):,} of {self.of_rows:,}",
            "MMD": with_error(self.distance.mmd, self.distance.standard_error),
            "MMD, at most": None if self.distance.bound is None else f"{self.distance.bound:.2g}",
            "sampling error": f"{self.distance.sampling_error:.2g}",
            "worth random rows": f"{round(self.equivalent_random_rows):,}",
            "test functions": f"{len(self.functions):,}",
            "columns": listed(self.columns),
            "notes": "; ".join(self.notes) or None,
        }
        return html_table("Coreset", facts)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the points are rows of."""
        return self.basis.columns

    @property
    def effective_rows(self) -> float:
        """1 / Σ w²: as many rows of equal weight vary as much."""
        return 1.0 / float((self.weights**2).sum())

    @property
    def equivalent_random_rows(self) -> float:
        """How many rows drawn at random are as near to the data, on average; at most all of them."""
        return min(len(self) * self.distance.gain**2, float(self.of_rows))

    def describe(self) -> dict[str, Any]:
        """Return all but the rows, ready for JSON."""
        bound, chosen = self.bound, self.chosen
        return {
            "auto": chosen
            and {
                "functions": chosen.functions,
                "most": chosen.most,
                "predicted_mmd": chosen.predicted_mmd,
                "reached": chosen.reached,
                "target": chosen.target,
            },
            "basis_digest": self.basis.digest,
            "bound": self.distance.bound,
            "dropped_rows": self.dropped_rows,
            "effective_rows": self.effective_rows,
            "functions": len(self.functions),
            "functions_from": self.learned_from,
            "functions_wanted": self.wanted,
            "kind": "coreset",
            "method": self.functions.method,
            "mismatch": self.mismatch,
            "mmd": self.distance.mmd,
            "mmd_standard_error": self.distance.standard_error,
            "notes": list(self.notes),
            "of_landmarks": self.of_landmarks,
            "of_rows": self.of_rows,
            "random_mmd": self.distance.random_mmd,
            "residual_of_coreset": bound and bound.of_coreset,
            "residual_of_rows": bound and bound.of_rows,
            "residual_of_rows_se": bound and bound.of_rows_se,
            "rows": len(self),
            "sampling_error": self.distance.sampling_error,
            "theorem_bound": bound and bound.value,
            "worth_random_rows": round(self.equivalent_random_rows),
        }


def most_functions(s: int | str) -> int:
    """Return the number of test functions, or the largest that "auto" may find; else raise UsageError."""
    if isinstance(s, str):
        if s != AUTO:
            raise UsageError(f"`functions` must be a number or 'auto', not {s!r}")
        return MOST_FUNCTIONS
    if s < 1:
        raise UsageError(f"`functions` must be at least 1, not {s}")
    return s


# ---- test functions --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowDistribution:
    """What is known of the distribution of rows, to learn test functions from; nothing, by default.

    `second_moments` are the mean of k(Z, x) k(x, Z): over `of_rows` rows; or, if these are 0, under a
    distribution that is known. Without them, `sampled` rows (scaled, with `weights`) tell of the others.
    """

    second_moments: Floats | None = None
    of_rows: int = 0
    sampled: Rows | None = None
    weights: Floats | None = None

    @classmethod
    def of_sketch(cls, sketch: Sketch) -> RowDistribution:
        """Return what a sketch knows of how its rows vary."""
        sample = sketch.tally.sample
        rows = sample.scaled(sketch.basis.middle) if len(sample) else None
        moments = None
        if sketch.second_moments is not None and sketch.total_weight > 0:
            moments = sketch.second_moments.matrix() / sketch.total_weight
        return cls(moments, sketch.rows, rows, sample.weights)

    @classmethod
    def of_measure(cls, measure: MixtureModel | Floats, basis: NystromBasis) -> RowDistribution:
        """Return what is known if rows come from a mixture; or if E k(Z, x) k(x, Z) is this matrix."""
        if not isinstance(measure, MixtureModel):
            moments = np.asarray(measure, np.float64)
            if moments.shape != (basis.m, basis.m) or not np.isfinite(moments).all():
                raise UsageError(
                    f"the measure must be a mixture, or its {basis.m} × {basis.m} matrix of second moments "
                    "at the landmarks"
                )
            return cls(moments)
        if basis.encoded:
            raise UsageError(
                "a mixture as measure needs a basis of numbers: second moments are unknown where columns "
                "have kinds. Leave it out, or give the matrix"
            )
        if measure.columns != basis.columns:
            names = ", ".join(map(str, basis.columns))
            raise UsageError(f"the measure must have the columns of the basis: {names}")
        scales = basis.scale[:, None] * basis.scale if measure.covariance_type == "full" else basis.scale**2
        means = basis.transform(measure.means)
        return cls(second_moments(basis, Mixture(measure.weights, means, measure.covariances / scales)))


def choose_functions(
    basis: NystromBasis, count: int, method: str | None, rows: RowDistribution
) -> tuple[TestFunctions, str]:
    """Return up to `count` test functions, and what they were learned from; without a method, the best."""
    if method not in (None, *METHODS):
        raise UsageError(f"`method` must be one of {', '.join(METHODS)}, not {method!r}")
    if method == "nystrom":
        return nystrom_functions(basis.nystrom, count), f"{basis.m:,} landmarks"
    if rows.second_moments is not None:
        functions = mercer_functions(basis.nystrom, rows.second_moments, count)
        known = f"{rows.of_rows:,} rows" if rows.of_rows else "a known distribution"
        return functions, f"second moments of {known}"
    sampled = rows.sampled
    if sampled is None or not len(sampled):
        if method is None:
            return nystrom_functions(basis.nystrom, count), f"{basis.m:,} landmarks"
        raise UsageError(
            '`method="mercer"` needs second moments or sampled rows, and the sketch has neither. Sketch '
            'with `second_moments=True` or `sample_rows`, or use `method="nystrom"`'
        )
    shares = relative_weights(rows.weights, len(sampled))
    moments = np.zeros((basis.m, basis.m))
    for start in range(0, len(sampled), _STEP):
        part = slice(start, start + _STEP)
        values = basis.evaluate(sampled[part])
        moments += (values * shares[part, None]).T @ values / len(sampled)
    gram = basis.gram()
    moments += _SHARE_OF_LANDMARKS * (gram @ gram) / basis.m
    return mercer_functions(basis.nystrom, moments, count), f"{len(sampled):,} sampled rows"


def points_to_thin(s: int) -> int:
    """Return how many points, at most, the s + 1 of a coreset shall be chosen from."""
    return max(s + 1, min(_MORE * (s + 1), _MOST_THINNED))


# ---- notes -----------------------------------------------------------------------------------------


def notes_on_size(basis: NystromBasis, s: int, found: int) -> list[str]:
    """Say so if there are fewer test functions than asked for."""
    if found >= s:
        return []
    are, landmarks = ("is", "landmark spans") if found == 1 else ("are", f"{basis.m:,} landmarks span")
    return [
        f"there {are} {found} test function{'s' if found != 1 else ''}, not {s}: the {landmarks} no more in "
        "the feature space. Use more `landmarks`, or a kernel that distinguishes more rows"
    ]


def notes_on_discrepancy(distance: Discrepancy) -> list[str]:
    """Say so if random rows would be as good, or if nobody can tell."""
    if distance.standard_error is None and distance.mmd > 0:
        return [
            "without sampled rows, the part of the data outside the span of the landmarks is unknown: the "
            "MMD has no standard error"
        ]
    if distance.random_mmd and distance.mmd > distance.random_mmd:
        return [
            "random rows would be closer to the data: the landmarks do not cover it. Use a basis made from "
            "this data, or more `landmarks`"
        ]
    return []


def notes_on_means(functions: TestFunctions, off: float) -> list[str]:
    """Say so if means of test functions do not agree to the promised digits."""
    if off <= SAME * max(1.0, float(np.sqrt(functions.strengths.max(initial=0.0)))):
        return []
    return [
        f"means of test functions agree only to {off:.2g}: rows differ by too many orders of magnitude. Use "
        'a bounded kernel such as `kernel="gaussian"`, or leave the column out with `exclude`'
    ]
