"""The decoders: evidence → mixture. One signature, whatever they use of the sketch.

    clomp        greedy pursuit in the kernel sums, with replacement          (pursuit.py)
    shift        the same, with atoms found by mean-shift                     (pursuit.py)
    quadrature   convex weights on landmarks, clustered, then moment matching (quadrature.py)
    cells        k-means or EM on cells and far rows                          (weighted_kmeans.py, em.py)

For k-means the mixture's means are the centroids. Which decoder to believe is select.py's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.errors import UsageError
from nysketch.learning.decode import em, weighted_kmeans
from nysketch.learning.decode.atoms import POINT, has_spread
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture, of_points, reshape_covariances
from nysketch.learning.decode.moment_matching import LOOSE, TIGHT, Matching
from nysketch.learning.decode.points import Points, usual_draws
from nysketch.learning.decode.pursuit import Climb, MeanShift, Search, pursuit

# Of many starts so many are followed to the end.
_FOLLOWED = 3
_FOLLOWED_BY_EM = 8
_EM_LOOSE = 40
_DRAWN_FOR_EM = 20_000
_GREEDY_TRIALS = 8
_RESTARTS = 20
# A fit this close, in units of what chance alone would do, will not be beaten by another trial.
_NOTHING_LEFT = 2.0


@dataclass(frozen=True)
class Task:
    """What to learn: k clusters, or components with a covariance of some shape."""

    k: int
    covariance: str | None = None  # None: k-means
    trials: int | None = None  # None: as many as suit the decoder


Step = Callable[[], None]
Decoder = Callable[[Evidence, Task, np.random.Generator, Step], Mixture]


def _atoms(evidence: Evidence, task: Task) -> str:
    """Return the shape of the atoms to fit: with spread also for k-means, wherever the kernel allows."""
    if task.covariance is not None:
        return task.covariance
    return "diag" if has_spread(evidence.basis) and not evidence.basis.encoded else POINT


def to_centroids(mixture: Mixture, rng: np.random.Generator) -> Mixture:
    """Turn a fitted mixture into centroids: of unequal clusters the best ones are not the means.

    Lloyd's algorithm finds them, on rows drawn from the mixture.
    """
    mixture = mixture.normalise()
    if not mixture.covariances.any():
        return mixture
    alive = mixture.only(np.flatnonzero(mixture.weights > 0))
    rows = Points(alive.weights, alive.means, alive.variances()).draw(usual_draws(alive.means.shape[1]), rng)
    centroids = weighted_kmeans.improve(rows, mixture.means)
    return em.from_centroids(rows, centroids, "diag")


def _greedy(
    evidence: Evidence,
    task: Task,
    rng: np.random.Generator,
    step: Step,
    search: Callable[[Matching, Floats], Search],
) -> Mixture:
    """Run the pursuit several times, from mixtures that cover the data and from nothing; keep the best fit.

    From nothing, features are compared as they are. In whitened coordinates the first atoms, which have to
    represent everything, end up where nothing is: ten Gaussians in ten dimensions then cost 2.2 to 3.6 times
    what they should, against 1.0 to 1.5 times. Only a start made of rows is good enough to go on from in
    whitened coordinates. What is found is fitted, and compared, in these.
    """
    require_enough(Points.of_rows(evidence.support), task.k, "landmarks")
    shape = _atoms(evidence, task)
    # Full covariances are found from diagonal ones: fewer parameters while there is much to decide.
    few = "diag" if shape == "full" else shape
    plain, whitened = evidence.matching(few, plain=True), evidence.matching(few)
    spread = evidence.variances / task.k ** (2 / evidence.d) / 2
    starts = _starts(evidence, task.k, rng)
    found: list[Mixture] = []
    for trial in range(task.trials or _GREEDY_TRIALS):
        start = starts[trial // 2 % len(starts)] if trial % 2 == 0 else None
        matching = whitened if start is not None and evidence.knows_rows else plain
        looking = search(matching, evidence.support)
        mixture = pursuit(matching, task.k, spread, looking, rng, start=start, step=step)
        found.append(mixture if matching is whitened else whitened.refine(mixture, TIGHT))
        if whitened.distance(found[-1]) < _NOTHING_LEFT * whitened.expected_distance(task.k):
            break
    best = min(found, key=whitened.distance)
    if shape == "full":
        wider = Mixture(best.weights, best.means, reshape_covariances(best.covariances, "full"))
        best = evidence.matching("full").refine(wider, TIGHT)
    return best.normalise() if task.covariance else to_centroids(best, rng)


def _starts(evidence: Evidence, k: int, rng: np.random.Generator) -> list[Mixture]:
    """Return what k-means finds on weighted landmarks, the best first.

    From one run of k-means instead of the best of 20, three mixtures of 16 ended 2 to 4 nats off.
    """
    support = evidence.quadrature
    centroids = weighted_kmeans.starts(support, k, _RESTARTS, rng)
    return [em.from_centroids(support, each, "diag") for each in centroids[:_GREEDY_TRIALS]]


def clomp(evidence: Evidence, task: Task, rng: np.random.Generator, step: Step) -> Mixture:
    """Decode the kernel sums by CL-OMPR."""
    return _greedy(evidence, task, rng, step, Climb)


def shift(evidence: Evidence, task: Task, rng: np.random.Generator, step: Step) -> Mixture:
    """Decode the kernel sums by sketch-and-shift."""
    return _greedy(evidence, task, rng, step, MeanShift)


def quadrature(evidence: Evidence, task: Task, rng: np.random.Generator, step: Step) -> Mixture:
    """Decode the kernel sums as weights on the landmarks, clustered, then matched."""
    points = evidence.quadrature
    require_enough(points, task.k, "landmarks")
    starts = weighted_kmeans.starts(points, task.k, task.trials or _RESTARTS, rng, step)[:_FOLLOWED]
    if evidence.basis.encoded:
        # Moved until the moments match, centroids would be no shares of values, nor places within circles.
        return of_points(starts[0], em.from_centroids(points, starts[0], "diag").weights)
    matching = evidence.matching(_atoms(evidence, task))
    found = []
    for centroids in starts:
        if matching.family.covariance == POINT:
            start = of_points(centroids, em.from_centroids(points, centroids, "diag").weights)
        else:
            start = em.from_centroids(points, centroids, matching.family.covariance)
            if task.covariance:
                start, _ = em.fit(points, start, task.covariance, steps=30)
        found.append(matching.refine(start, LOOSE))
    best = matching.refine(min(found, key=matching.distance), TIGHT)
    return best.normalise() if task.covariance else to_centroids(best, rng)


def cells(evidence: Evidence, task: Task, rng: np.random.Generator, step: Step) -> Mixture:
    """Decode the cells: k-means or EM on their means and spreads, and on the far rows."""
    points = evidence.points
    if points is None:
        raise UsageError(
            "this sketch has no cells (made with `cells=False` or Fourier features, or merged with such a "
            "sketch); use another `decoder`"
        )
    require_enough(points, task.k, "cells and far rows")
    starts = weighted_kmeans.starts(points, task.k, task.trials or _RESTARTS, rng, step)
    if task.covariance is not None:
        return _mixture_of_cells(evidence, points, starts, task.covariance, rng)
    rows = points.draw(usual_draws(evidence.d), rng)
    found = [weighted_kmeans.improve(rows, start) for start in starts[:_FOLLOWED]]
    best = min(found, key=lambda centroids: weighted_kmeans.cost(rows, centroids))
    return em.from_centroids(points, best, "diag")


def _mixture_of_cells(
    evidence: Evidence, points: Points, starts: list[Floats], covariance: str, rng: np.random.Generator
) -> Mixture:
    """Run EM on cells from several starts: the best clusters often are not where the best mixture is.

    Then on rows drawn from the cells. That sees what is within a cell, at the price of chance: the sampled
    rows tell which is better.
    """
    fits = [
        em.fit(points, em.from_centroids(points, start, covariance), covariance, steps=_EM_LOOSE)
        for start in starts[:_FOLLOWED_BY_EM]
    ]
    on_cells, _ = em.fit(points, max(fits, key=lambda fit: fit[1])[0], covariance)
    sample = evidence.sample
    if sample is None:
        return on_cells
    drawn = points.draw(min(_DRAWN_FOR_EM, usual_draws(evidence.d)), rng)
    on_rows, _ = em.fit(drawn, on_cells, covariance, steps=_EM_LOOSE)
    return max(on_cells, on_rows, key=lambda mixture: em.log_likelihood(sample, mixture))


def require_enough(points: Points, k: int, what: str) -> None:
    """Raise a UsageError unless there are k different points."""
    different = len(np.unique(points.means, axis=0))
    if k > different:
        raise UsageError(
            f"`k={k}` exceeds the {different:,} distinct {what} of this sketch. Use a smaller `k`, or "
            "sketch with more `landmarks`"
        )


DECODERS: dict[str, Decoder] = {
    "clomp": clomp,
    "shift": shift,
    "quadrature": quadrature,
    "cells": cells,
}
# Those that match the moments of the sketch, which takes its feature map.
MATCH_MOMENTS = frozenset({"clomp", "shift", "quadrature"})
