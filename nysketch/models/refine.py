"""Refining a model on the rows themselves: exact passes of Lloyd's algorithm, or of EM.

A pass reads all rows once, in bounded memory, and no pass makes the model worse on these rows. Sums are
taken relative to the model's own centres, so that columns far from 0 lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Progress
from nysketch.engines.protocol import Engine
from nysketch.errors import UsageError
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.score import Sums, sum_over
from nysketch.models.stored import AnyModel
from nysketch.sources.protocol import Source

Refined = TypeVar("Refined", bound=AnyModel)
# What adds up the results of a function over all rows.
SumOver = Callable[[Any], Sums]

# No variance of a component falls below this part of the narrowest component's of the first model, and no
# weight below the second: a component on a single row would have an infinite density there.
VARIANCE_FLOOR, WEIGHT_FLOOR = 1e-6, 1e-12
# Nor does a variance fall below this, in scaled units, however often a model is refined: a component that
# collapses a millionfold each time would soon be none.
LEAST_VARIANCE = 1e-24
# Changes below this, in scaled units, are those of rounding.
_NO_CHANGE = 1e-12
# (mean/deviation)², relative to the centre, up to which a variance may be the difference of two sums: six
# of sixteen digits cancel.
_CLOSE = 1e6


def refine(
    model: Refined,
    source: Source,
    passes: int,
    *,
    nulls: str = "keep",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Refined:
    """Return the model after up to `passes` passes over a source; fewer if one changes nothing.

    Rows are weighted by the source's weights, if it has any. Of the facts, `refined_passes` counts passes.
    `mean_squared_distance` is measured on the last pass, from the rows to the new centroids of their
    clusters; `mean_log_likelihood` is that of the mixture which the last pass began with. What the model
    would be measured at in another pass is the same or better.
    """
    require_passes(source, passes)
    if isinstance(model, KMeansModel):
        step: Callable[..., tuple[Any, dict[str, Any]]] = _lloyd
    else:
        expectation_maximisation = _of_mixed if model.encoded else _expectation_maximisation
        step = partial(expectation_maximisation, floors=_floors(model))
    before = int(model.number("refined_passes") or 0)
    for number in range(passes):
        report = None if progress is None else _of_all(progress, number, passes)
        total = partial(sum_over, model, source, nulls=nulls, engine=engine, progress=report)
        new, facts = step(model, total)
        changed = _has_changed(model, new)
        model = replace(new, facts=model.facts | facts | {"refined_passes": before + number + 1})
        if not changed:
            break
    return model


def require_passes(source: Source, passes: int) -> None:
    """Raise a UsageError unless the source can be read that often."""
    if passes < 1:
        raise UsageError(f"`refine` must be at least 1, not {passes}")
    if passes > 1 and not source.rereadable:
        raise UsageError(f"a stream can be read only once; {passes} passes are impossible")


def _of_all(progress: Progress, number: int, passes: int) -> Progress:
    """Return what reports the progress of one pass as that of all."""

    def report(done: int, total: int | None) -> None:
        if total is None:
            progress(done, None)
        else:
            progress(number * total + done, passes * total)

    return report


def _has_changed(old: AnyModel, new: AnyModel) -> bool:
    """Tell whether a pass changed anything but the last digits."""
    if isinstance(old, KMeansModel):
        assert isinstance(new, KMeansModel)
        return _has_moved(old.centroids, new.centroids, old.scaled_centroids, old.scale)
    assert isinstance(new, MixtureModel)
    return (
        _has_moved(old.means, new.means, old.scaled_means, old.scale)
        or not np.allclose(new.weights, old.weights, rtol=0, atol=_NO_CHANGE)
        or not np.allclose(new.scaled_covariances, old.scaled_covariances, rtol=_NO_CHANGE, atol=_NO_CHANGE)
    )


def _has_moved(old: Floats, new: Floats, scaled: Floats, scale: Floats) -> bool:
    return bool((np.abs(new - old) / scale > _NO_CHANGE * (1 + np.abs(scaled).max())).any())


# ---- k-means ---------------------------------------------------------------------------------------


def _lloyd(model: KMeansModel, sum_of: SumOver) -> tuple[KMeansModel, dict[str, Any]]:
    """Move each centroid to the mean of its rows; without any, it stays where it is."""

    def work(rows: Floats, weights: Floats | None) -> Sums:
        w = np.ones(len(rows)) if weights is None else weights
        labels, differences = model.nearest(rows)
        return {
            "members": np.bincount(labels, w, minlength=model.k),
            "differences": _sums_by_label(labels, differences, w, model.k),
            "squares": w @ np.einsum("ij,ij->i", differences, differences),
        }

    sums = sum_of(work)
    members, weight = sums["members"], float(sums["weight"])
    moves = _ratio(sums["differences"], members)
    squares = float(sums["squares"] - members @ np.square(moves).sum(axis=1))
    new = replace(model, centroids=model.centroids + moves * model.scale, shares=members / weight)
    return new, {"mean_squared_distance": max(squares, 0.0) / weight}


def _sums_by_label(labels: NDArray[np.int32], values: Floats, weights: Floats, k: int) -> Floats:
    """Return the weighted sums of the values with each of k labels."""
    from scipy.sparse import csr_array

    membership = csr_array((weights, labels, np.arange(len(labels) + 1)), shape=(len(labels), k))
    return np.asarray(membership.T @ values)


def _ratio(sums: Floats, members: Floats) -> Floats:
    """Return means, and 0 where there are no members."""
    return np.asarray(sums / np.where(members > 0, members, 1).reshape(-1, *[1] * (sums.ndim - 1)))


# ---- mixtures --------------------------------------------------------------------------------------


def _floors(model: MixtureModel) -> Floats:
    """Return the least variance of each feature, in scaled units; the model itself is not below it."""
    if model.covariance_type != "full":
        least = model.scaled_covariances.min(axis=0)
        if model.encoded:
            least = model.terms.least_variances(model.covariances)
        return np.asarray(np.minimum(least, np.maximum(VARIANCE_FLOOR * least, LEAST_VARIANCE)))
    narrowest = np.einsum("jaa->ja", model.scaled_covariances).min(axis=0)
    deviations = np.sqrt(narrowest)
    # Features that nearly determine each other make a component narrow across the columns.
    eigenvalues = np.linalg.eigvalsh(model.scaled_covariances / deviations[:, None] / deviations)
    across = float(eigenvalues.min())
    lowest = np.maximum(narrowest * min(VARIANCE_FLOOR, across), LEAST_VARIANCE)
    return np.asarray(np.minimum(narrowest * min(across, 1.0), lowest))


def _expectation_maximisation(
    model: MixtureModel, sum_of: SumOver, *, floors: Floats
) -> tuple[MixtureModel, dict[str, Any]]:
    """Give each component the weight, mean and covariance of its share of the rows."""
    moments = _moments_of(model)

    def work(rows: Floats, weights: Floats | None) -> Sums:
        densities, responsibilities = model.posterior(rows)
        likelihood = densities.sum() if weights is None else weights @ densities
        if weights is not None:
            responsibilities *= weights[:, None]
        members = responsibilities.sum(axis=0)
        differences, squares = moments(model.scaled(rows), responsibilities, members)
        return {
            "members": members,
            "differences": differences,
            "squares": squares,
            "likelihood": likelihood,
        }

    sums = sum_of(work)
    members, weight = sums["members"], float(sums["weight"])
    moves, squares = _ratio(sums["differences"], members), _ratio(sums["squares"], members)
    if model.covariance_type == "full":
        covariances = _full_above(squares - moves[:, :, None] * moves[:, None, :], floors)
        scales = model.scale[:, None] * model.scale
    else:
        variances = squares - moves**2
        if model.covariance_type == "spherical":
            variances = np.repeat(variances.mean(axis=1, keepdims=True), model.d, axis=1)
        covariances = np.maximum(variances, floors)
        scales = model.scale**2
    new_weights = np.maximum(members / weight, WEIGHT_FLOOR)
    # A component with hardly any rows keeps its mean and covariance: there is nothing to take others from.
    empty = members / weight < WEIGHT_FLOOR
    moves[empty], covariances[empty] = 0, model.scaled_covariances[empty]
    new = replace(
        model,
        weights=new_weights / new_weights.sum(),
        means=model.means + moves * model.scale,
        covariances=covariances * scales,
    )
    return new, {"mean_log_likelihood": float(sums["likelihood"]) / weight}


def _of_mixed(model: MixtureModel, sum_of: SumOver, *, floors: Floats) -> tuple[MixtureModel, dict[str, Any]]:
    """Give each component what its share of the rows has, where columns have kinds."""
    terms = model.terms

    def work(rows: Floats, weights: Floats | None) -> Sums:
        densities, responsibilities = model.posterior(rows)
        likelihood = densities.sum() if weights is None else weights @ densities
        if weights is not None:
            responsibilities *= weights[:, None]
        return {
            "likelihood": likelihood,
            "members": responsibilities.sum(axis=0),
            "statistics": responsibilities.T @ terms.statistics(model.scaled(rows)),
        }

    sums = sum_of(work)
    members, weight = sums["members"], float(sums["weight"])
    before = model.means, model.covariances
    means, covariances = terms.maximise(sums["statistics"], members, model.covariance_type, floors, before)
    weights = np.maximum(members / weight, WEIGHT_FLOOR)
    new = replace(model, weights=weights / weights.sum(), means=means, covariances=covariances)
    return new, {"mean_log_likelihood": float(sums["likelihood"]) / weight}


Moments = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]


def _moments_of(model: MixtureModel) -> Moments:
    """Return what adds up the differences from the means of components, and their squares (or products).

    It takes scaled rows, what each has to do with each component, and the sums of these.
    """
    means = model.scaled_means

    def from_products(Y: Floats, responsibilities: Floats, members: Floats) -> tuple[Floats, Floats]:
        rows, squares = responsibilities.T @ Y, responsibilities.T @ np.square(Y)
        centred = members[:, None] * means
        return rows - centred, squares - (2 * rows - centred) * means

    def one_by_one(Y: Floats, responsibilities: Floats, members: Floats) -> tuple[Floats, Floats]:
        del members
        sums, squares = np.empty_like(means), np.empty_like(model.covariances)
        for j, mean in enumerate(means):
            D = Y - mean
            weighted = responsibilities[:, j, None] * D
            sums[j] = weighted.sum(axis=0)
            squares[j] = weighted.T @ D if full else np.einsum("ij,ij->j", weighted, D)
        return sums, squares

    full = model.covariance_type == "full"
    close = not full and bool((np.square(means) <= _CLOSE * model.scaled_covariances).all())
    return from_products if close else one_by_one


def _full_above(covariances: Floats, floors: Floats) -> Floats:
    """Raise covariance matrices to the floors, in whichever direction they are below."""
    deviations = np.sqrt(floors)
    scales = deviations[:, None] * deviations
    values, vectors = np.linalg.eigh((covariances + covariances.transpose(0, 2, 1)) / 2 / scales)
    if (values >= 1).all():
        return np.asarray((covariances + covariances.transpose(0, 2, 1)) / 2)
    raised = (vectors * np.maximum(values, 1)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return np.asarray((raised + raised.transpose(0, 2, 1)) / 2 * scales)
