"""Recombination: fewer points with other weights that have the same means. Carathéodory, made practical.

Given points with positive weights and some functions of them, `recombine` returns weights of which no more
are positive than there are functions, the constant one among them, and all means stay what they were. There
are many such weights: `thin` looks for those that are also near the points in the sense of a kernel.
`adjust_weights` makes up for rounding.

Functions come as a matrix, points × functions. Nothing here knows what the points are.
"""

from __future__ import annotations

import numpy as np

from nysketch._types import Floats, Indices

# Points are thrown together in so many groups for each function, of which one in so many stays.
_GROUPS = 2
# Directions that are eliminated together, so that the rest of the work is a matrix product.
_BLOCK = 32
# A weight may become so much negative, as a share of the mean weight, for a more stable step; it is 0 then.
_SLIP = 1e-14
# The matrix that is updated with every point that `thin` leaves out is computed afresh after so many.
_AFRESH = 64
# How many points `thin` tries to leave out before it takes a step that is cut short.
_TRIED = 32
# Steps to bring means to what they should be. What is less than this is rounding; and from there on, rounding
# may be what keeps them apart.
_ADJUSTMENTS, _ROUNDING, _NEARLY = 50, 1e-16, 1e-13
# Added to the kernel matrix, relative to its mean diagonal: kernels are singular to the last digits.
_RIDGE = 1e-10


def recombine(functions: Floats, weights: Floats, costs: Floats | None = None) -> tuple[Indices, Floats]:
    """Return points to keep and their new weights: Σ w f stays the same for every function, and so does Σ w.

    At most one point more is kept than there are functions; if points have costs, Σ w cost does not grow. The
    work is proportional to the points times the functions, and to the logarithm of the points times the third
    power of the functions: points are thrown together in groups that are recombined as if they were points,
    until there are few.
    """
    constant = np.column_stack([np.ones(len(functions)), functions])
    most = constant.shape[1]
    if costs is not None:
        # The mean cost is kept like those of the functions, and falls with the last point that is left out.
        kept, weights = recombine(np.column_stack([functions, costs]), weights)
        chosen, weights = _eliminate(constant[kept], weights, costs[kept])
        return kept[chosen], weights
    kept = np.flatnonzero(weights > 0)
    weights = weights[kept]
    while len(kept) > _GROUPS * most:
        group = np.arange(len(kept)) * (_GROUPS * most) // len(kept)
        starts = np.searchsorted(group, np.arange(_GROUPS * most))
        sums = np.add.reduceat(constant[kept] * weights[:, None], starts)
        totals = sums[:, 0].copy()
        chosen, changed = _eliminate(sums / totals[:, None], totals)
        factors = np.zeros(len(starts))
        factors[chosen] = changed / totals[chosen]
        weights = weights * factors[group]
        kept, weights = kept[weights > 0], weights[weights > 0]
    if len(kept) > most:
        chosen, weights = _eliminate(constant[kept], weights)
        kept = kept[chosen]
    return kept, weights


def _eliminate(functions: Floats, weights: Floats, costs: Floats | None = None) -> tuple[Indices, Floats]:
    """Move weights along directions that change no mean, until no more points are left than functions.

    Each step goes as far as weights stay positive, and leaves out the point whose weight becomes 0; it is
    then removed from all other directions, as in Gaussian elimination.
    """
    from nysketch.coresets._elimination import eliminate

    if len(weights) <= functions.shape[1]:
        return np.arange(len(weights)), weights
    directions = _null_space(functions)
    costs = np.zeros(len(weights)) if costs is None else costs
    weights = weights.copy()
    alive = np.ones(len(weights), bool)
    slip = _SLIP * float(weights.mean())
    for start in range(0, len(directions), _BLOCK):
        block, rest = directions[start : start + _BLOCK], directions[start + _BLOCK :]
        pivots = np.empty(len(block), np.int64)
        eliminate(block, weights, alive, slip, costs, pivots)
        used = pivots >= 0
        if used.any() and len(rest):
            _remove(block[used], pivots[used], rest)
    kept = np.flatnonzero(alive & (weights > 0))
    return kept, weights[kept]


def _null_space(functions: Floats) -> Floats:
    """Return directions, in rows, along which no mean changes.

    From L U = functions: what is orthogonal to the columns of L is so to all functions, however nearly these
    depend on each other. With partial pivoting no entry of L exceeds 1.
    """
    from scipy.linalg import lu, solve_triangular

    count = functions.shape[1]
    order, lower, _ = lu(functions, p_indices=True)
    square, rest = lower[:count], lower[count:]
    directions = np.empty((len(rest), len(lower)))
    directions[:, count:] = np.eye(len(rest))
    directions[:, :count] = -solve_triangular(square.T, rest.T, unit_diagonal=True, check_finite=False).T
    return np.ascontiguousarray(directions[:, order])


def _remove(block: Floats, pivots: Indices, rest: Floats) -> None:
    """Take the points `pivots` out of the directions `rest`; those of the block have 0 at earlier pivots."""
    from scipy.linalg import solve_triangular

    shares = solve_triangular(block[:, pivots].T, rest[:, pivots].T, lower=True, check_finite=False).T
    rest -= shares @ block
    rest[:, pivots] = 0.0


def thin(
    kernel: Floats, target: Floats, functions: Floats, weights: Floats, most: int | None = None
) -> tuple[Indices, Floats]:
    """Leave out points one by one, such that wᵀ kernel w − 2 wᵀ target grows as little as possible.

    As with `recombine` the means of all functions stay the same and weights positive, and at most one point
    more is kept than there are functions (or `most` points, if that is more). `kernel` is the kernel matrix
    of the points, `target` what a mean embedding is at each.
    """
    kept = np.flatnonzero(weights > 0)
    total = float(weights.sum())
    weights = weights[kept] / total
    means, target = weights @ functions[kept], target / total
    most = max(functions.shape[1] + 1, most or 0)
    kernel = kernel + _RIDGE * float(np.diag(kernel).mean()) * np.eye(len(kernel))
    constant = np.column_stack([np.ones(len(functions)), functions])
    while len(kept) > most:
        part = _Thinner(kernel[np.ix_(kept, kept)], target[kept], constant[kept], weights)
        for _ in range(min(_AFRESH, len(kept) - most)):
            part.leave_one_out()
        kept, weights = kept[part.kept], part.weights
    kept, weights = kept[weights > 0], weights[weights > 0]
    return kept, total * adjust_weights(functions[kept], means, weights)


class _Thinner:
    """Weights on some points, and P: how they change along directions that change no mean.

    P = N (Nᵀ K N)⁻¹ Nᵀ, N the null space of the functions: −P g is the step to the least value from where the
    gradient is g, and setting the weight of point i to 0 at the least cost, w_i²/P_ii, changes the weights by
    −w_i/P_ii times column i.
    """

    def __init__(self, kernel: Floats, target: Floats, functions: Floats, weights: Floats) -> None:
        from scipy.linalg import cho_factor, cho_solve, qr

        self._kernel, self._target, self.weights = kernel, target, weights.copy()
        self.kept = np.arange(len(weights))
        null = qr(functions)[0][:, functions.shape[1] :]
        reduced = null.T @ kernel @ null
        self._p = null @ cho_solve(cho_factor(reduced), null.T)

    def leave_one_out(self) -> None:
        """Leave out the point that matters least."""
        gradient = self._kernel @ self.weights - self._target
        step = -(self._p @ gradient)
        length, first = self._longest(step)
        self.weights = self.weights + min(length, 1.0) * step
        if length >= 1.0:
            first = self._cheapest()
        self._drop(first)

    def _longest(self, step: Floats) -> tuple[float, int]:
        """Return how much of a step can be taken before a weight is 0, and which one."""
        falling = np.flatnonzero(step < 0)
        if not len(falling):
            return np.inf, -1
        lengths = self.weights[falling] / -step[falling]
        return float(lengths.min()), int(falling[lengths.argmin()])

    def _cheapest(self) -> int:
        """Set the weight to 0 that can be at the least cost, if all others stay positive."""
        diagonal = np.maximum(np.diag(self._p), 1e-300)
        order = np.argsort(self.weights**2 / diagonal)
        for i in order[:_TRIED]:
            changed = self.weights - self.weights[i] / diagonal[i] * self._p[:, i]
            changed[i] = 0.0
            if (changed >= 0).all():
                self.weights = changed
                return int(i)
        i = order[0]
        step = -self.weights[i] / diagonal[i] * self._p[:, i]
        length, first = self._longest(step)
        self.weights = self.weights + length * step
        return first

    def _drop(self, i: int) -> None:
        others = np.arange(len(self.weights)) != i
        column = self._p[others, i]
        self._p = self._p[np.ix_(others, others)] - np.outer(column, column) / max(self._p[i, i], 1e-300)
        self._kernel = self._kernel[np.ix_(others, others)]
        self._target, self.kept = self._target[others], self.kept[others]
        self.weights = np.maximum(self.weights[others], 0.0)


def adjust_weights(functions: Floats, means: Floats, weights: Floats) -> Floats:
    """Return the weights, changed a little to give all functions these means, with Σ w = 1.

    Weights change in proportion to what they are, as little as possible and never below 0; those that are 0
    stay so. Where no such weights are found, the means are as near as it got.
    """
    constant = np.column_stack([np.ones(len(functions)), functions])
    wanted = np.concatenate([[1.0], means])
    lengths = np.sqrt((constant**2).mean(axis=0))
    lengths[lengths == 0] = 1.0
    matrix, wanted = (constant / lengths).T, wanted / lengths
    last = np.inf
    for _ in range(_ADJUSTMENTS):
        off = wanted - matrix @ weights
        size = float(np.abs(off).max())
        if size <= _ROUNDING or (size < _NEARLY and size > 0.5 * last):
            break  # as good as it gets
        last = size
        roots = np.sqrt(weights)
        change = roots * np.linalg.lstsq(matrix * roots, off, rcond=1e-13)[0]
        # A step that goes below 0 is taken as far as half of the way there, for each weight on its own.
        weights = np.maximum(weights + change, 0.5 * weights)
    return weights


def thin_to_means(
    kernel: Floats,
    target: Floats,
    functions: Floats,
    weights: Floats,
    means: Floats,
    most: int | None = None,
) -> tuple[Indices, Floats]:
    """Thin points whose means are these but for rounding, and adjust the weights of what stays to the means.

    Arguments are those of `thin`; points whose weights become 0 are left out.
    """
    kept, weights = thin(kernel, target, functions, weights, most)
    weights = adjust_weights(functions[kept], means, weights)
    return kept[weights > 0], weights[weights > 0]


def mismatch(functions: Floats, means: Floats, weights: Floats) -> float:
    """Return the largest difference between means of points and what they should be."""
    return float(np.abs(weights @ functions - means).max(initial=0.0))
