"""Which candidate to believe: every one is scored on the same footing, and the best is kept.

    estimate    k-means: mean squared distance, of rows drawn from the cells with their spread. Mixtures: mean
                log-likelihood, of the sampled rows. Else of whichever of the two there is; if there is
                neither, of rows drawn from the candidate
    certified   from the cells: an upper bound on the mean squared distance of all rows, or a lower bound
                on their mean log-likelihood, true whatever the rows are
    objective   squared distance of the mean features from the sketch's, in units of what chance alone does

Candidates are compared by the estimate, or where a sketch has neither cells nor a sample, by the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nysketch.decode import em, lloyd
from nysketch.decode.atoms import POINT, AtomFamily, has_spread
from nysketch.decode.decoders import DECODERS, Step, Task
from nysketch.decode.evidence import Evidence
from nysketch.decode.mixtures import Floats, Mixture
from nysketch.decode.points import Points, usual_draws
from nysketch.errors import UsageError
from nysketch.quality import MEASURED_UP_TO

AUTO = "auto"
# Rows that a candidate is judged by if there are no others: its own.
_DRAWN = 10_000
# Rounding in the sums of the cells is far below this.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Scores:
    """How good a candidate is, as far as the sketch can tell."""

    estimate: float
    certified: float | None
    objective: float | None
    standard_error: float | None = None  # of the estimate, if it is a mean over sampled rows

    def describe(self) -> dict[str, Any]:
        """Return plain values."""
        return {"certified": self.certified, "estimate": self.estimate, "objective": self.objective}


@dataclass(frozen=True, eq=False)
class Candidate:
    """What a decoder found."""

    decoder: str
    mixture: Mixture
    scores: Scores


class Judge:
    """Scores candidates for one sketch and one kind of model."""

    def __init__(self, evidence: Evidence, covariance: str | None, seed: int) -> None:
        self._evidence, self._covariance, self._seed = evidence, covariance, seed

    @cached_property
    def rows(self) -> Points | None:
        """Rows to judge by: like those of the sketch, or some of them."""
        cells, sample = self._evidence.points, self._evidence.sample
        if self._covariance is not None and sample is not None:
            return sample
        if cells is None:
            return sample
        return cells.drawn(usual_draws(self._evidence.d), np.random.default_rng(self._seed))

    @property
    def judged_by(self) -> str:
        """Where the rows came from; "fit" if there are none, and the candidate has to judge itself."""
        sampled = self.rows is self._evidence.sample
        return "fit" if self.rows is None else "sample" if sampled else "cells"

    @property
    def independent_rows(self) -> int:
        """How many rows the estimate is worth: what is drawn from cells is worth no more than the cells."""
        if self.judged_by == "sample":
            assert self.rows is not None
            return len(self.rows)
        points = self._evidence.points
        return self._evidence.basis.m if points is None else len(points)

    def score(self, mixture: Mixture) -> Scores:
        """Score a candidate."""
        rows = self.rows
        if rows is None:
            rows = Points.of_rows(mixture.draw(_DRAWN, np.random.default_rng(self._seed)))
        certified, objective = self._certified(mixture), self._objective(mixture)
        if self._covariance is None:
            return Scores(lloyd.cost(rows, mixture.means), certified, objective)
        error = em.standard_error(rows, mixture) if self.judged_by == "sample" else None
        return Scores(em.log_likelihood(rows, mixture), certified, objective, error)

    def _certified(self, mixture: Mixture) -> float | None:
        if self._covariance is None:
            costs = certified_costs(self._evidence, mixture.means)
            return None if costs is None else float(costs.sum())
        points = self._evidence.exact_points
        # What cells know of their rows' covariance is its diagonal.
        if points is None or self._evidence.beyond or mixture.full:
            return None
        mean = em.log_likelihood(points, mixture)
        return mean - _ROUNDING * abs(mean)

    def _objective(self, mixture: Mixture) -> float | None:
        if self._evidence.basis.m > MEASURED_UP_TO:
            return None
        shape = self._covariance or ("diag" if has_spread(self._evidence.basis) else POINT)
        if shape != POINT and not has_spread(self._evidence.basis):
            return None
        matching = self._evidence.matching(shape)
        return matching.distance(mixture) / matching.moments.noise

    def best(self, candidates: list[Candidate]) -> Candidate:
        """Return the best of the candidates."""
        if self.rows is None:
            return min(candidates, key=lambda c: np.inf if c.scores.objective is None else c.scores.objective)
        sign = 1.0 if self._covariance is None else -1.0
        return min(candidates, key=lambda c: sign * c.scores.estimate)


def certified_costs(evidence: Evidence, centroids: Floats) -> Floats | None:
    """Return an upper bound on the mean squared distance of all rows to the nearest centroid, by feature.

    Each cell is given to one centroid as a whole: the sum of its rows' squared distances to that is known
    exactly, and none of them is nearer to it than to the nearest. There is no bound without cells, nor if
    rows were too far out to be in any.
    """
    points = evidence.exact_points
    if points is None or evidence.beyond:
        return None
    nearest = lloyd.squared_distances(points.means, centroids).argmin(axis=1)
    away = (points.means - centroids[nearest]) ** 2 + points.variances
    costs = points.weights @ away / points.weights.sum()
    # Rows are known to the last digit of their columns, no better.
    basis = evidence.basis
    lower, upper = evidence.sketch.column_ranges
    digits = np.finfo(float).eps * (np.maximum(np.abs(lower), np.abs(upper)) / basis.scale)
    return np.asarray((1 + _ROUNDING) * costs + 4 * digits * np.sqrt(costs) + 4 * digits**2)


def decoders_for(evidence: Evidence, task: Task) -> list[str]:
    """Return the decoders that suit a sketch and a task."""
    basis = evidence.basis
    fits = has_spread(basis) or task.covariance is None
    numbers = task.k * (AtomFamily(basis, task.covariance or POINT).size + 1) if fits else 0
    if evidence.points is not None:
        # The kernel sums may know better, if they are as many as what is asked of them.
        more = fits and numbers <= basis.m <= MEASURED_UP_TO and has_spread(basis)
        return ["cells", "quadrature"] if more else ["cells"]
    if not fits:
        raise UsageError(
            f"a mixture cannot be learned from this sketch: it has no cells, and its kernel ({basis.kernel}) "
            "does not know the mean of a Gaussian. Sketch without --no-cells, or with --kernel gaussian"
        )
    return ["quadrature", "clomp"]


def candidates(
    evidence: Evidence,
    task: Task,
    decoder: str,
    judge: Judge,
    seed: int,
    step: Callable[[str], Step],
) -> list[Candidate]:
    """Return what the decoder finds; for `auto`, what all find that suit the sketch."""
    names = decoders_for(evidence, task) if decoder == AUTO else [decoder]
    found = []
    for number, name in enumerate(names):
        rng = np.random.default_rng([seed, task.k, number])
        mixture = DECODERS[name](evidence, task, rng, step(name))
        if decoder == AUTO and task.covariance is None and judge.judged_by == "cells" and name != "cells":
            assert judge.rows is not None
            mixture = em.from_centroids(judge.rows, lloyd.improved(judge.rows, mixture.means), "diag")
        found.append(Candidate(name, mixture, judge.score(mixture)))
    return found
