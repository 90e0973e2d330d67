"""Sketch → coreset: the rows are gone, so it is made of landmarks."""

from __future__ import annotations

import numpy as np

from nysketch._support.blas import one_thread
from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis, require_landmarks
from nysketch.coresets.bounds import AUTO, bound_on, choose_size
from nysketch.coresets.coreset import (
    SAME,
    Coreset,
    RowDistribution,
    choose_functions,
    most_functions,
    notes_on_discrepancy,
    notes_on_size,
    points_to_thin,
)
from nysketch.coresets.discrepancy import discrepancy_to
from nysketch.coresets.recombination import adjust_weights, mismatch, recombine, thin_to_means
from nysketch.learning.decode.quadrature import convex_weights
from nysketch.sketches.sketch import Sketch


def coreset_of_sketch(sketch: Sketch, functions: int | str, *, method: str | None = None) -> Coreset:
    """Return landmarks with weights that represent the rows of a sketch; `functions` is a number or "auto".

    All landmarks are first given convex weights that reproduce the kernel sums. These are recombined to a
    few, of which more are left out one by one, such that the MMD to the data grows least; all the while, the
    means of the test functions are those of the data.
    """
    s = most_functions(functions)
    # With one thread: on a busy machine, threads that wait for each other take many times as long.
    with one_thread():
        return _coreset_of_sketch(sketch, s, method, auto=functions == AUTO)


def _coreset_of_sketch(sketch: Sketch, s: int, method: str | None, *, auto: bool) -> Coreset:
    basis = require_landmarks(sketch.basis, "a coreset")
    mean_kernel, rows = sketch.mean_kernel(), RowDistribution.of_sketch(sketch)
    carried, learned_from = choose_functions(basis, points_to_thin(s) - 1, method, rows)
    chosen = None
    if auto:
        chosen = choose_size(
            basis, carried, sketch.rows, sampled=rows.sampled, weights=rows.weights, mean_kernel=mean_kernel
        )
        s = chosen.functions
        carried = carried.first(points_to_thin(s) - 1)
    functions = carried.first(s)
    gram = basis.gram()
    values, means = functions.of(gram), functions.of(mean_kernel)
    near = _near_weights(sketch, basis, mean_kernel)
    weights, count = _with_means(values, means, near)
    notes = _notes_on_landmarks(count, len(functions))
    functions, values, means = functions.first(count), values[:, :count], means[:count]
    some, weights = recombine(carried.of(gram), weights)
    kept, weights = thin_to_means(
        gram[np.ix_(some, some)], mean_kernel[some], values[some], weights, means, most=s + 1
    )
    kept = some[kept]
    points = basis.landmarks[kept]
    distance = discrepancy_to(
        basis, basis.transform(points), weights, mean_kernel, sketch.tally.sample, of_rows=sketch.rows
    )
    off = mismatch(values[kept], means, weights)
    bound = bound_on(
        basis,
        functions,
        basis.transform(points),
        weights,
        sketch.tally.sample,
        of_rows=sketch.rows,
        mismatch=off,
    )
    return Coreset(
        basis=basis,
        points=points,
        weights=weights,
        numbers=kept,
        of_landmarks=True,
        of_rows=sketch.rows,
        dropped_rows=sketch.dropped_rows,
        functions=functions,
        learned_from=learned_from,
        wanted=s,
        mismatch=off,
        distance=distance,
        bound=bound,
        chosen=chosen,
        notes=(
            *([] if chosen is None else chosen.notes(distance)),
            *notes_on_size(basis, s, len(carried)),
            *notes,
            *notes_on_discrepancy(distance),
        ),
    )


def _near_weights(sketch: Sketch, basis: NystromBasis, mean_kernel: Floats) -> Floats:
    """Return convex weights of all landmarks that reproduce the kernel sums as well as they can."""
    prior = np.full(basis.m, 1 / basis.m)
    if sketch.cells is not None:
        shares = sketch.cells.rows if sketch.cells.weights is None else sketch.cells.weights.high
        prior = np.maximum(shares, 0.0) / max(float(np.maximum(shares, 0.0).sum()), 1e-300)
    return convex_weights(basis, basis.scaled_landmarks, mean_kernel, sketch.rows, prior)


def _with_means(functions: Floats, means: Floats, near: Floats) -> tuple[Floats, int]:
    """Return convex weights that have the means of the first functions, and of how many.

    Of all of them, if there are such weights; that is easy to tell, and for fewer functions there are more.
    """
    least, most = 0, functions.shape[1]
    found, count = near, most
    while True:
        weights = _exact_weights(functions[:, :count], means[:count], near)
        if weights is not None:
            found, least = weights, count
        else:
            most = count - 1
        if least >= most:
            # All landmarks, to move from to where they are nearest.
            return (found if least else 0.5 * near + 0.5 / len(near)), least
        count = (least + most + 1) // 2


def _exact_weights(functions: Floats, means: Floats, near: Floats) -> Floats | None:
    """Return convex weights with these means; None if there are none."""
    from scipy.optimize import nnls

    exact = adjust_weights(functions, means, near)
    if mismatch(functions, means, exact) <= SAME and abs(exact.sum() - 1) <= SAME:
        return exact
    # Near 0 the least change goes below it. This one finds positive weights if there are any.
    matrix = np.column_stack([np.ones(len(functions)), functions]).T
    found, _ = nnls(matrix, np.concatenate([[1.0], means]))
    # Half of the way, where it is as good, all landmarks have some weight left to be chosen from.
    for share in (0.5, 0.0):
        found = adjust_weights(functions, means, share * near + (1 - share) * found)
        if mismatch(functions, means, found) <= SAME and abs(found.sum() - 1) <= SAME:
            return found
    return None


def _notes_on_landmarks(count: int, wanted: int) -> list[str]:
    """Say so if landmarks have the means of only so many of the test functions that are wanted."""
    if count == wanted:
        return []
    return [
        f"no positive weights of the landmarks match the means of all {wanted} test functions; those of the "
        f"first {count} match, the others are close. Use more `landmarks`"
    ]
