"""Greedy decoders: CL-OMPR and sketch-and-shift. Atoms are added one by one where the residual asks for them.

Both add the atom that agrees best with what is not explained yet, replace the weakest once there are
more than k, and fit all of them together after every step. They differ in how they look for the next
atom: CL-OMPR climbs from several starts by L-BFGS-B; sketch-and-shift lets all starts climb together by
mean-shift, to the modes of the residual.

Atoms have a spread wherever the kernel allows for it, also for k-means: points fitted to blobs are the main
reason for bad solutions. The correlation with the residual is not divided by the length of the atom's
features: that falls to 0 away from the landmarks, and 0/0 is where the search would end up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.learning.decode.mixture import Mixture, reshape_covariances
from nysketch.learning.decode.moment_matching import LOOSE, TIGHT, Matching

# Given a spread and the residual, return where the next atom should be.
Search = Callable[[Floats, Floats, np.random.Generator], Floats]


def pursuit(
    matching: Matching,
    k: int,
    spread: Floats,
    search: Search,
    rng: np.random.Generator,
    *,
    start: Mixture | None = None,
    step: Callable[[], None] = lambda: None,
) -> Mixture:
    """Return k atoms found one by one; `spread` is the variance of features to start with.

    In 2k rounds from nothing, or in k rounds of replacement from a start.
    """
    mixture = None if start is None else matching.refine(matching.fit_weights(start), LOOSE)
    for _ in range(2 * k if mixture is None else k):
        residual = matching.target if mixture is None else matching.residual(mixture)
        now = spread if mixture is None else _typical(mixture, spread)
        mean = search(now, residual, rng)
        covariance = "full" if matching.family.covariance == "full" else "diag"
        atom = Mixture(np.zeros(1), mean[None, :], reshape_covariances(now[None, :], covariance))
        mixture = atom if mixture is None else mixture.join(atom)
        if len(mixture) > k:
            mixture = matching.strongest(mixture, k)
        mixture = matching.refine(matching.fit_weights(mixture), LOOSE)
        step()
    assert mixture is not None
    return matching.refine(mixture, TIGHT)


def _typical(mixture: Mixture, spread: Floats) -> Floats:
    """Return the spread that atoms turned out to have; at points, there is none to learn from."""
    variances = mixture.variances()
    return np.median(variances, axis=0) if variances.any() else spread


def _with_first(ranked: NDArray[np.intp], count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the first, and `count` others at random."""
    others = rng.choice(ranked, min(count, len(ranked)), replace=False)
    return np.unique(np.concatenate([ranked[:1], others]))


class Climb:
    """Climb the correlation with the residual by L-BFGS-B, from several starts, and take the best."""

    def __init__(self, matching: Matching, starts: Floats, count: int = 6) -> None:
        self._matching, self._starts, self._count = matching, starts, count

    def __call__(self, spread: Floats, residual: Floats, rng: np.random.Generator) -> Floats:
        """Return the mean of the next atom."""
        from scipy.optimize import minimize

        hill = Hill(self._matching, spread, residual)
        limits = self._matching.limits
        heights = hill.heights(self._starts)
        best = np.argsort(-heights)[: max(1, len(heights) // 4)]
        # The highest, and some of the high ones: where they lead differs from trial to trial.
        some = _with_first(best, self._count, rng)
        found = [
            minimize(
                lambda x: hill.downhill(x),
                limits.clip(self._starts[i]),
                jac=True,
                method="L-BFGS-B",
                bounds=np.stack([limits.lower, limits.upper], axis=1),
                options={"maxiter": 50},
            )
            for i in some
        ]
        return np.asarray(min(found, key=lambda result: result.fun).x)


class MeanShift:
    """Move many starts to the modes of the residual, all together, by mean-shift; take the highest."""

    def __init__(self, matching: Matching, starts: Floats, count: int = 100, rounds: int = 25) -> None:
        self._matching, self._starts, self._count, self._rounds = matching, starts, count, rounds

    def __call__(self, spread: Floats, residual: Floats, rng: np.random.Generator) -> Floats:
        """Return the mean of the next atom."""
        hill = Hill(self._matching, spread, residual)
        heights = hill.heights(self._starts)
        high = np.argsort(-heights)[: max(1, len(heights) // 2)]
        chosen = _with_first(high, self._count, rng)
        where, heights = self._starts[chosen], heights[chosen]
        reach = np.ones(len(where))
        # Where the residual is negative there is no hill: steps along its slope, in units of the highest.
        least = max(1e-9 * float(np.abs(heights).max()), 1e-300)
        for _ in range(self._rounds):
            # The fixed-point step of mean-shift is the gradient of the logarithm, times the squared width
            # of the hill; where that overshoots, for the residual has valleys too, half of it and so on.
            slopes = hill.slopes(where)
            ahead = self._matching.limits.clip(
                where + (reach / np.maximum(heights, least))[:, None] * hill.squared_width * slopes
            )
            then = hill.heights(ahead)
            better = then > heights
            where = np.where(better[:, None], ahead, where)
            gained = then - heights
            heights = np.where(better, then, heights)
            reach = np.where(better, np.minimum(2 * reach, 1), reach / 2)
            if not (gained[better] > 1e-6 * np.abs(heights[better])).any():
                break
        return np.asarray(where[heights.argmax()])


class Hill:
    """The correlation of an atom of given spread with the residual, as a function of its mean."""

    def __init__(self, matching: Matching, spread: Floats, residual: Floats) -> None:
        self._family = matching.family
        self._coefficients = matching.moments.adjoint(residual)
        kernel = self._family.basis.kernel
        width = getattr(kernel, "bandwidth", 1.0)
        self.squared_width = width**2 + spread
        self._spread = spread
        self._unit = 1 / max(float(np.abs(residual).max()), 1e-300)

    def _parameters(self, means: Floats) -> Floats:
        covariance = "full" if self._family.covariance == "full" else "diag"
        covariances = reshape_covariances(np.tile(self._spread, (len(means), 1)), covariance)
        return self._family.pack(Mixture(np.ones(len(means)), means, covariances))

    def heights(self, means: Floats) -> Floats:
        """Return the correlation for atoms with these means."""
        return self._family.values(self._parameters(means)) @ self._coefficients

    def slopes(self, means: Floats) -> Floats:
        """Return its gradients."""
        coefficients = np.tile(self._coefficients, (len(means), 1))
        return self._family.pullback(self._parameters(means), coefficients)[:, : means.shape[1]]

    def downhill(self, mean: Floats) -> tuple[float, Floats]:
        """Return minus the height and its gradient, in units that suit L-BFGS-B."""
        at = mean[None, :]
        return -self._unit * float(self.heights(at)[0]), -self._unit * self.slopes(at)[0]
