"""Which candidate to believe: every one is scored on the same footing, and the best is kept.

    estimate    k-means: mean squared distance, of rows drawn from the cells with their spread. Mixtures: mean
                log-likelihood, of the sampled rows. Else of whichever of the two there is; if there is
                neither, of rows drawn from the candidate
    certified   from the cells: an upper bound on the mean squared distance of all rows, or a lower bound
                on their mean log-likelihood, true whatever the rows are
    objective   squared distance of the mean features from the sketch's, in units of what chance alone does;
                reported if one of the candidates was found by matching them

Candidates are compared by the estimate, or where a sketch has neither cells nor a sample, by the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nysketch.basis.quality import MEASURED_UP_TO
from nysketch.errors import UsageError
from nysketch.learning.certificate import certified_costs, certified_log_likelihood
from nysketch.learning.decode import em, weighted_kmeans
from nysketch.learning.decode.atoms import POINT, AtomFamily, has_spread
from nysketch.learning.decode.decoders import DECODERS, MATCH_MOMENTS, Step, Task
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture
from nysketch.learning.decode.points import Points, usual_draws

AUTO = "auto"
# Rows that a candidate is judged by if there are no others: its own.
_DRAWN = 10_000


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


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to judge by; the last `far` of them are the far rows of the sketch, which are known one by one."""

    points: Points
    far: int = 0

    @property
    def sampled(self) -> Points:
        """The others."""
        count = len(self.points) - self.far
        points = self.points
        return Points(points.weights[:count], points.means[:count], points.variances[:count])


class Judge:
    """Scores candidates for one sketch and one kind of model."""

    def __init__(self, evidence: Evidence, covariance: str | None, seed: int) -> None:
        self._evidence, self._covariance, self._seed = evidence, covariance, seed

    @cached_property
    def _rows(self) -> _Rows | None:
        cells, sample = self._evidence.points, self._evidence.sample
        if self._covariance is not None and sample is not None:
            return _Rows(sample) if cells is None else _with_far_rows(sample, self._evidence)
        if cells is not None:
            return _Rows(cells.draw(usual_draws(self._evidence.d), np.random.default_rng(self._seed)))
        return None if sample is None else _Rows(sample)

    @property
    def rows(self) -> Points | None:
        """Rows to judge by: like those of the sketch, or some of them."""
        return None if self._rows is None else self._rows.points

    @property
    def judged_by(self) -> str:
        """Where the rows came from; "fit" if there are none, and the candidate has to judge itself."""
        sampled = self._evidence.sample is not None and (
            self._covariance is not None or self._evidence.points is None
        )
        return "fit" if self.rows is None else "sample" if sampled else "cells"

    @property
    def independent_rows(self) -> int:
        """How many rows the estimate is worth: what is drawn from cells is worth no more than the cells."""
        if self.judged_by == "sample":
            assert self._evidence.sample is not None
            return len(self._evidence.sample)
        points = self._evidence.points
        return self._evidence.basis.m if points is None else len(points)

    def score(self, mixture: Mixture, *, objective: bool) -> Scores:
        """Score a candidate; its objective takes the feature map, and is worked out only if asked for."""
        judged = self._rows
        if judged is None:
            judged = _Rows(Points.of_rows(mixture.draw(_DRAWN, np.random.default_rng(self._seed))))
        rows, certified = judged.points, self._certified(mixture)
        distance = self._objective(mixture) if objective else None
        if self._covariance is None:
            return Scores(weighted_kmeans.cost(rows, mixture.means), certified, distance)
        error = None
        if self.judged_by == "sample":
            # Of the far rows nothing is left to chance.
            share = judged.sampled.weights.sum() / rows.weights.sum()
            error = float(share * em.log_likelihood_se(judged.sampled, mixture))
        return Scores(em.log_likelihood(rows, mixture), certified, distance, error)

    def _certified(self, mixture: Mixture) -> float | None:
        if self._covariance is None:
            costs = certified_costs(self._evidence, mixture.means)
            return None if costs is None else float(costs.sum())
        return certified_log_likelihood(self._evidence, mixture)

    def _objective(self, mixture: Mixture) -> float | None:
        spread = has_spread(self._evidence.basis) and not self._evidence.basis.encoded
        shape = self._covariance or ("diag" if spread else POINT)
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


def _with_far_rows(sample: Points, evidence: Evidence) -> _Rows:
    """Return the sample with the far rows, which the sketch knows one by one, in place of its own."""
    cells, basis = evidence.sketch.cells, evidence.landmarks
    assert cells is not None and basis is not None
    weights = np.ones(len(cells.far)) if cells.far.weights is None else cells.far.weights
    means = np.asarray(basis.scaled_landmarks[cells.far.cells] + cells.far.offsets)
    far = Points(weights, means, np.zeros_like(means))
    if not len(far):
        return _Rows(sample)
    squares = (cells.far.offsets**2).sum(axis=1)
    nearest = weighted_kmeans.squared_distances(sample.means, basis.scaled_landmarks).min(axis=1)
    near = nearest < (1 - 1e-5) * squares.min()
    rest = evidence.sketch.total_weight - far.weights.sum()
    if not near.any() or rest <= 0:
        return _Rows(sample)
    weights = sample.weights[near] * (rest / sample.weights[near].sum())
    points = Points(
        np.concatenate([weights, far.weights]),
        np.concatenate([sample.means[near], far.means]),
        np.zeros((len(weights) + len(far), basis.d)),
    )
    return _Rows(points, len(far))


def decoders_for(evidence: Evidence, task: Task) -> list[str]:
    """Return the decoders that suit a sketch and a task."""
    basis = evidence.basis
    if basis.encoded:  # places on circles and shares of values are no Gaussians
        return ["quadrature"] if evidence.points is None else ["cells"]
    fits = has_spread(basis) or task.covariance is None
    numbers = task.k * (AtomFamily(basis, task.covariance or POINT).size + 1) if fits else 0
    if evidence.points is not None:
        # The kernel sums may know better, if they are as many as what is asked of them.
        more = fits and numbers <= basis.m <= MEASURED_UP_TO and has_spread(basis)
        return ["cells", "quadrature"] if more else ["cells"]
    if not fits:
        raise UsageError(
            "a mixture cannot be learned from this sketch: it has no cells, and its kernel "
            f"({basis.kernel}) has no closed-form mean under a Gaussian. Sketch without `cells=False`, or "
            'with `kernel="gaussian"`'
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
    found: dict[str, Mixture] = {}
    for number, name in enumerate(names):
        rng = np.random.default_rng([seed, task.k, number])
        try:
            mixture = DECODERS[name](evidence, task, rng, step(name))
        except UsageError:
            if not found:  # what one decoder cannot do another may have done
                raise
            continue
        if decoder == AUTO and task.covariance is None and judge.judged_by == "cells" and name != "cells":
            assert judge.rows is not None
            mixture = em.from_centroids(
                judge.rows, weighted_kmeans.improve(judge.rows, mixture.means), "diag"
            )
        found[name] = mixture
    # The feature map takes its time: not for the objective alone.
    matched = not MATCH_MOMENTS.isdisjoint(found)
    return [
        Candidate(name, mixture, judge.score(mixture, objective=matched)) for name, mixture in found.items()
    ]
