"""Choosing landmarks: candidate rows in (the pilot, scaled), m of them out.

`choose` is the door; the schemes below it share three pieces:

    _draw        indices with given probabilities         kmeans++ and rpcholesky
    _d2_seeding  far from those chosen is likely          kmeans++ (_d2_strings), and the start of kmeans
    _cholesky    pivots of the kernel matrix, by blocks   greedy and rpcholesky, which differ in their Pick

Landmarks come back in the order of their selection, so that the first few are a smaller sample. Where the
candidates are exhausted (duplicates, a kernel of low rank) fewer than m come back, but at least one.
Where candidates come from is passes/pilot.py's business, what landmarks are good for is base.py's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nysketch._support.blas import one_thread
from nysketch._types import Floats, Indices, Progress, Rows
from nysketch.errors import UsageError
from nysketch.kernels import Kernel

SAMPLINGS = ("uniform", "kmeans++", "leverage", "greedy", "rpcholesky", "kmeans")

Random = np.random.Generator
Chosen = tuple[Indices, dict[str, Any]]  # and the report

# What is left of a row's k(x, x) below this share is rounding: after 1000 pivots its error was 5e-15.
_ROUNDING = 1e-14

# Candidate pivots looked at together; only those accepted cost a column. 10,000 rows, 1000 pivots: one by
# one 5 s, in blocks of 64 to 256 0.7 s, of 512 1.4 s.
_BLOCK = 128

# Landmarks per effective dimension, when drawn by leverage.
_OVERSAMPLING = 2.0

# Rows of the dictionary that scores are computed with, per effective dimension and at least. Of all scores,
# 4 % were off by more than a factor of 2 (at 2 per dimension 9 %, at 4 2 %, and 1.5 times slower).
_DICTIONARY = 3.0
_SMALLEST_DICTIONARY = 64


@dataclass(frozen=True, eq=False)
class Choice:
    """Landmarks chosen from candidates, and what is to be said about how.

    `indices` says which candidates they are; the centres of kmeans are none of them. `report`, as JSON:

    - kmeans++, kmeans: `mean_squared_distance` of the candidates to their nearest landmark (for strings,
      in the feature space of the kernel)
    - leverage: `lambda`, as in l(lambda, i) = (K (K + lambda N I)^-1)_ii for N candidates;
      `effective_dimension`, the sum of all scores; min, median and max of the `scores`
    - greedy, rpcholesky: `residual_trace`, the share of the trace of K that the landmarks do not explain
    """

    rows: Rows
    indices: Indices | None
    report: dict[str, Any] = field(default_factory=dict)


def choose(
    sampling: str, candidates: Rows, kernel: Kernel, m: int, *, seed: int, progress: Progress | None = None
) -> Choice:
    """Choose m landmarks (or fewer: see above) among candidates, the same ones for the same seed."""
    if sampling not in SAMPLINGS:
        raise UsageError(f"`sampling` must be one of {', '.join(SAMPLINGS)}, not {sampling!r}")
    if sampling == "kmeans" and candidates.ndim == 1:
        raise UsageError('strings have no mean; use `sampling="kmeans++"`')
    m = min(m, len(candidates))
    if sampling == "uniform":
        indices = uniform(len(candidates), m, seed)
        return Choice(candidates[indices], indices)
    # Limits bind only libraries that are loaded: load this one before the limit, not inside it.
    import scipy.linalg  # noqa: F401

    rng = np.random.default_rng([seed, SAMPLINGS.index(sampling) + 1])
    tell: Progress = progress or (lambda *_: None)
    if sampling == "kmeans":
        return _kmeans(candidates, m, rng, tell)
    with one_thread():  # sums are rounded otherwise on another number of threads
        if sampling == "kmeans++" and candidates.ndim == 1:
            indices, report = _d2_strings(candidates, kernel, m, rng, tell)
        elif sampling == "kmeans++":
            indices, report = _d2_seeding(candidates, m, rng, tell)
        elif sampling == "leverage":
            indices, report = _leverage(candidates, kernel, m, rng, tell)
        elif sampling == "greedy":
            indices, report = _cholesky(candidates, kernel, m, _GreedyPick(), tell)
        else:
            indices, report = _cholesky(candidates, kernel, m, _RandomPick(rng), tell)
    return Choice(candidates[indices], indices, report)


def uniform(pilot_rows: int, m: int, seed: int) -> Indices:
    """Draw m of the pilot's rows without replacement, in random order."""
    chosen = np.random.default_rng([seed, 1]).choice(pilot_rows, m, replace=False)
    return chosen.astype(np.int64)


def _draw(weights: Floats, count: int, rng: Random) -> Indices:
    """Draw indices with replacement, with probabilities proportional to weights, never one of weight 0."""
    cumulated = np.cumsum(weights)
    points = rng.random(count) * cumulated[-1]
    # The largest random number times the total may round to the total, which is beyond every row.
    points = np.minimum(points, np.nextafter(cumulated[-1], 0.0))
    drawn: Indices = np.searchsorted(cumulated, points, side="right")
    return drawn


# Clusters: kmeans++ and kmeans


def _d2_seeding(candidates: Floats, m: int, rng: Random, tell: Progress) -> Chosen:
    """Draw each next landmark with probability proportional to its squared distance to those before.

    Of a few draws the one that leaves the least is taken. Written here, not taken from scikit-learn, whose
    distances cancel: with one outlier of 1e100 it chose 2 distinct rows of 100, with one of 1e9 95.
    """
    from scipy.spatial.distance import cdist

    draws = 2 + int(np.log(m))
    chosen = np.zeros(m, dtype=np.int64)
    nearest = np.ones(len(candidates))  # the first is drawn uniformly
    for t in range(m):
        drawn = _draw(nearest, draws if t else 1, rng)
        # Differences first, squares second: the distance of duplicates is exactly 0.
        distances = cdist(candidates[drawn], candidates, "sqeuclidean")
        if t:
            np.minimum(distances, nearest, out=distances)
        best = int(np.argmin(distances.sum(axis=1)))
        chosen[t], nearest = drawn[best], distances[best]
        if t % 64 == 0:
            tell(t, m)
        if not nearest.any():  # all others coincide with one of those chosen
            break
    tell(m, m)
    return chosen[: t + 1], {"mean_squared_distance": float(nearest.mean())}


def _d2_strings(candidates: Rows, kernel: Kernel, m: int, rng: Random, tell: Progress) -> Chosen:
    """D² seeding in the feature space of the kernel, one draw each, by blocks: see _RandomPick.

    Kernels of strings cost much per call, before the first value: one by one took 10 to 20 times as long.
    """
    diagonal = kernel.diagonal(candidates)

    def distances(these: Indices, those: Indices) -> Floats:
        scale = diagonal[these][:, None] + diagonal[those]
        values = scale - 2.0 * kernel(candidates[these], candidates[those])
        return np.where(values > _ROUNDING * scale, values, 0.0)

    everything = np.arange(len(candidates))
    pick = _RandomPick(rng)
    chosen = new = rng.integers(len(candidates), size=1)
    nearest = np.full(len(candidates), np.inf)
    while True:
        nearest = np.minimum(nearest, distances(new, everything).min(axis=0))
        nearest[chosen] = 0.0
        tell(len(chosen), m)
        if len(chosen) == m or not nearest.any():
            break
        block = pick.block(nearest)
        within, before = distances(block, block), nearest[block]
        accepted: list[int] = []
        now, start = before, 0
        while (position := pick.next(block, before, now, start)) is not None:
            now = np.where(block == block[position], 0.0, np.minimum(now, within[position]))
            start = position + 1
            accepted.append(position)
        new = block[accepted][: m - len(chosen)]
        chosen = np.concatenate([chosen, new])
    tell(m, m)
    return chosen, {"mean_squared_distance": float(nearest.mean())}


def _kmeans(candidates: Floats, m: int, rng: Random, tell: Progress) -> Choice:
    """Return the centres of mini-batch k-means, started from D² seeding, in the order of the seeds."""
    from sklearn.cluster import MiniBatchKMeans

    with one_thread():
        seeds, report = _d2_seeding(candidates, m, rng, tell)
        centres = candidates[seeds]
        if len(seeds) < m or m == len(candidates):  # the distinct rows themselves: nothing to improve
            return Choice(centres, None, report)
        clusters = MiniBatchKMeans(
            m,
            init=centres,
            n_init=1,
            batch_size=max(1024, 4 * m),  # as good as all rows at m = 1000, at half the time
            max_iter=100,
            reassignment_ratio=0.0,  # small clusters are not to be given up: D² seeding meant them
            random_state=int(rng.integers(2**31)),
        ).fit(candidates)
    _, first = np.unique(clusters.cluster_centers_, axis=0, return_index=True)
    centres = np.asarray(clusters.cluster_centers_, dtype=np.float64)[np.sort(first)]
    return Choice(centres, None, {"mean_squared_distance": float(clusters.inertia_) / len(candidates)})


# Leverage scores


def _leverage(candidates: Rows, kernel: Kernel, m: int, rng: Random, tell: Progress) -> Chosen:
    """Draw without replacement, with probabilities proportional to approximate ridge leverage scores.

    BLESS (Rudi et al. 2018): the ridge falls by halves, until the effective dimension times the
    oversampling is m. At each level a few candidates are scored with the weighted dictionary of the level
    before, and the dictionary of this level is drawn from them by score.
    """
    diagonal = np.maximum(kernel.diagonal(candidates), 0.0)
    trace = float(diagonal.sum())
    if trace == 0:
        return rng.integers(len(candidates), size=1), _describe_scores(0.0, diagonal)
    scorer = _Scorer(candidates, kernel, diagonal)
    ridge, factor, told = trace, float(_SMALLEST_DICTIONARY), 0
    while True:
        # No score exceeds the ceiling, so no row is kept with more than this probability.
        looked_at = np.minimum(factor * scorer.ceiling(ridge), 1.0)
        level = np.flatnonzero(rng.random(len(candidates)) < looked_at)
        scores = scorer.scores(level, ridge)
        dimension = float((scores / looked_at[level]).sum())
        factor = max(_DICTIONARY, _SMALLEST_DICTIONARY / max(dimension, 1e-3))
        kept = np.minimum(factor * scores, looked_at[level])
        inside = rng.random(len(level)) < kept / looked_at[level]
        scorer.dictionary, scorer.probabilities = level[inside], kept[inside]
        told = max(told, min(int(_OVERSAMPLING * dimension), m))  # an estimate, which may fall
        tell(told, m)
        if _OVERSAMPLING * dimension >= m or ridge <= 1e-10 * trace:
            break
        ridge /= 2
    scores = scorer.scores(np.arange(len(candidates)), ridge)
    # Efraimidis and Spirakis: the smallest of these are a draw without replacement, in order.
    with np.errstate(divide="ignore"):
        order = np.argsort(rng.standard_exponential(len(scores)) / scores)
    tell(m, m)
    return order[: min(m, np.count_nonzero(scores))], _describe_scores(ridge, scores)


def _describe_scores(ridge: float, scores: Floats) -> dict[str, Any]:
    spread = {"min": float(scores.min()), "median": float(np.median(scores)), "max": float(scores.max())}
    return {"lambda": ridge / len(scores), "effective_dimension": float(scores.sum()), "scores": spread}


class _Scorer:
    """Leverage scores, given a dictionary of rows that were kept with probabilities `probabilities`."""

    def __init__(self, candidates: Rows, kernel: Kernel, diagonal: Floats) -> None:
        self.candidates, self.kernel, self.diagonal = candidates, kernel, diagonal
        self.dictionary = np.zeros(0, dtype=np.int64)
        self.probabilities = np.zeros(0)

    def ceiling(self, ridge: float) -> Floats:
        """The score of a row orthogonal to all others; no score is higher."""
        return self.diagonal / (self.diagonal + ridge)

    def scores(self, rows: Indices, ridge: float) -> Floats:
        """Return (k(x,x) − k(x,D)(K_DD + ridge·P)⁻¹k(D,x)) / ridge, P the diagonal of probabilities."""
        from scipy.linalg import cholesky, solve_triangular

        if not len(self.dictionary):
            return self.ceiling(ridge)[rows]
        Z = self.candidates[self.dictionary]
        # Scaled by P^-1/2 from both sides, the smallest eigenvalue is the ridge: safe to factorise.
        scale = 1.0 / np.sqrt(self.probabilities)[:, None]
        K = self.kernel(Z, Z)
        K *= scale
        K *= scale.T
        K[np.diag_indices(len(Z))] += ridge
        lower = cholesky(K.T, lower=True, overwrite_a=True)  # transposed it is as LAPACK wants it: no copy
        residuals = self.diagonal[rows]
        step = max(256, (4 << 20) // len(Z))
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            columns = self.kernel(Z, self.candidates[rows[part]]) * scale
            explained = solve_triangular(lower, columns, lower=True, overwrite_b=True, check_finite=False)
            residuals[part] -= np.einsum("ij,ij->j", explained, explained)
        # The bounds of the exact score; rounding cannot make one negative or zero.
        floor = self.diagonal[rows] / (self.diagonal.sum() + ridge)
        return np.clip(residuals / ridge, floor, self.ceiling(ridge)[rows])


# Pivots of the kernel matrix: greedy and rpcholesky


class _GreedyPick:
    """The next pivot is the row with the largest residual; of equals, the first."""

    negligible = 1e-12  # share of the largest k(x, x): such a residual is not worth a landmark

    def block(self, residuals: Floats) -> Indices:
        """Return the rows of the largest residuals, and remember the largest of all others."""
        order = np.argsort(-residuals, kind="stable")[: _BLOCK + 1]
        self.outside = (float(residuals[order[-1]]), int(order[-1])) if len(order) > _BLOCK else (-1.0, 0)
        return np.sort(order[:_BLOCK])

    def next(self, block: Indices, before: Floats, now: Floats, start: int) -> int | None:
        """Return the position of the next pivot, unless it may be outside: residuals there only fall."""
        best = int(np.argmax(now))
        value, row = self.outside
        inside = now[best] > value or (now[best] == value and block[best] < row)
        return best if inside else None


class _RandomPick:
    """The next pivot is drawn with probability proportional to its residual (Chen et al. 2022).

    Drawn by blocks from the residuals at the block's start, and accepted with the share that is left of
    them, pivots have exactly the law of those drawn one by one (Epperly et al. 2024).
    """

    negligible = 0.0

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def block(self, residuals: Floats) -> Indices:
        """Return proposals; a row may be proposed twice, but nothing of it is left the second time."""
        return _draw(residuals, min(_BLOCK, len(residuals)), self.rng)

    def next(self, block: Indices, before: Floats, now: Floats, start: int) -> int | None:
        """Return the position of the first proposal accepted, from `start` on."""
        accepted = self.rng.random(len(block) - start) * before[start:] < now[start:]
        return start + int(np.argmax(accepted)) if accepted.any() else None


Pick = _GreedyPick | _RandomPick


def _cholesky(candidates: Rows, kernel: Kernel, m: int, pick: Pick, tell: Progress) -> Chosen:
    """Return the pivots of a partial Cholesky decomposition of the kernel matrix, m at most.

    A block of candidate pivots is reduced by itself, on a small matrix; the columns of those accepted are
    then computed together, by matrix products (one by one, the N×m factor would be read m times).
    """
    from scipy.linalg import solve_triangular

    diagonal = np.maximum(kernel.diagonal(candidates), 0.0)
    trace = float(diagonal.sum())
    if trace == 0:
        return np.zeros(1, dtype=np.int64), {"residual_trace": 0.0}
    tiny = np.maximum(_ROUNDING * diagonal, pick.negligible * diagonal.max())
    residuals = np.where(diagonal > tiny, diagonal, 0.0)
    factor = np.empty((m, len(candidates)))
    pivots = np.zeros(0, dtype=np.int64)
    while (done := len(pivots)) < m and residuals.sum() > 1e-13 * trace:
        tell(done, m)
        block = pick.block(residuals)
        inside = factor[:done, block]
        schur = kernel(candidates[block], candidates[block]) - inside.T @ inside
        accepted, lower = _reduce(schur, block, residuals[block], tiny[block], pick, m - done)
        new = block[accepted]
        columns = kernel(candidates[new], candidates) - factor[:done, new].T @ factor[:done]
        columns = solve_triangular(lower, columns, lower=True, overwrite_b=True, check_finite=False)
        factor[done : done + len(new)] = columns
        residuals -= np.einsum("ij,ij->j", columns, columns)
        residuals[residuals <= tiny] = 0.0
        pivots = np.concatenate([pivots, new])
        residuals[pivots] = 0.0
    tell(m, m)
    return pivots, {"residual_trace": float(residuals.sum() / trace)}


def _reduce(
    schur: Floats, block: Indices, before: Floats, tiny: Floats, pick: Pick, most: int
) -> tuple[list[int], Floats]:
    """Pick pivots in a block; return their positions and the Cholesky factor of their Schur complement."""
    accepted: list[int] = []
    lower = np.zeros((min(most, len(block)), len(block)))
    now, start = before.copy(), 0
    while len(accepted) < most and now.any():
        position = pick.next(block, before, now, start)
        if position is None:
            break
        t, start = len(accepted), position + 1
        column = (schur[position] - lower[:t, position] @ lower[:t]) / np.sqrt(now[position])
        column[position] = np.sqrt(now[position])
        lower[t] = column
        accepted.append(position)
        now = now - column**2
        now[(now <= tiny) | (block == block[position])] = 0.0
    return accepted, lower[: len(accepted), accepted].T
