"""Certificates: what is known for certain of a model on all rows of a sketch, without the rows.

    certificate                a bound for the centroids of a model, in scaled units and in those of the data
    why_none                   why there is none
    recertify                  the same for a model that was refined on data since
    certified_costs            the bound itself, feature by feature: from above, on the mean squared distance
    certified_log_likelihood   its counterpart for mixtures: from below, on the mean log-likelihood

Both bounds come from the cells of the sketch, and hold whatever their rows are. The last two are in scaled
units, and also score the candidates of decoders (decode/select.py); estimates, which may err on either side,
are there alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.learning.decode import em, weighted_kmeans
from nysketch.learning.decode.evidence import Evidence
from nysketch.learning.decode.mixture import Mixture
from nysketch.models.kmeans import KMeansModel
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch

# Rounding in the sums of the cells is far below this.
_ROUNDING = 1e-9


def certificate(sketch: Sketch, model: KMeansModel, evidence: Evidence | None = None) -> dict[str, Any]:
    """Return what a sketch certifies about centroids, also those that were not learned from it.

    The mean squared distance of all rows to the nearest centroid is at most the bound: in scaled units, in
    which the model measures distances; and in the data's own units, to the centroid that is nearest in these.
    """
    evidence = evidence or Evidence(sketch)
    basis = evidence.basis
    costs = certified_costs(evidence, (model.centroids - basis.center) / basis.scale)
    # Shares of values and places on circles have no unit of the data.
    unscaled = None if costs is None or basis.encoded else float(costs @ basis.scale**2)
    return {
        "certified_bound": None if costs is None else float(costs.sum()),
        "certified_bound_data_units": unscaled,
        "not_certified": None if costs is not None else why_none(evidence),
        "rows_beyond_cells": evidence.beyond,
    }


def why_none(evidence: Evidence, *, full: bool = False) -> str:
    """Say why nothing is certified."""
    cells, beyond = evidence.sketch.cells, evidence.beyond
    if cells is None:
        return "the sketch has no cells"
    if beyond:
        rows = "1 row lies" if beyond == 1 else f"{beyond:,} rows lie"
        return f"{rows} beyond all cells"
    if full:
        return "cells do not know how columns vary together, and the covariances are full"
    return "there are no rows in the cells"


def recertify(model: AnyModel, sketch: Sketch) -> AnyModel:
    """Return a model that was refined on data with facts that are true of it now.

    The scores it had were those of the model before; the new one was measured on the data. Centroids get a
    new certificate from the sketch; a mixture has none any more.
    """
    outdated = ("bic", "candidates", "objective")
    facts = {name: value for name, value in model.facts.items() if name not in outdated}
    facts |= {"judged_by": "data", "not_estimated": None, "notes": [], "objective": None}
    if isinstance(model, KMeansModel):
        return replace(model, facts=facts | certificate(sketch, model))
    return replace(
        model,
        facts=facts
        | {
            "certified_log_likelihood": None,
            "mean_log_likelihood_se": None,
            "not_certified": "the mixture was refined on data since it was learned",
        },
    )


def certified_costs(evidence: Evidence, centroids: Floats) -> Floats | None:
    """Return an upper bound on the mean squared distance of all rows to the nearest centroid, by feature.

    Each cell is given to one centroid as a whole: the sum of its rows' squared distances to that is known
    exactly, and none of them is nearer to it than to the nearest. There is no bound without cells, nor if
    rows were too far out to be in any.
    """
    points = evidence.cautious_points
    if points is None or evidence.beyond:
        return None
    nearest = weighted_kmeans.squared_distances(points.means, centroids).argmin(axis=1)
    away = (np.abs(points.means - centroids[nearest]) + _digits(evidence)) ** 2 + points.variances
    return np.asarray((1 + _ROUNDING) * (points.weights @ away) / points.weights.sum())


def certified_log_likelihood(evidence: Evidence, mixture: Mixture) -> float | None:
    """Return a lower bound on the mean log-likelihood of all rows, in scaled units.

    Of full covariances there is none: what cells know of the covariance of their rows is its diagonal.
    """
    points = evidence.cautious_points
    if points is None or evidence.beyond or mixture.full:
        return None
    mean = em.log_likelihood(points, mixture, _digits(evidence))
    return mean - _ROUNDING * (abs(mean) + evidence.d)


def _digits(evidence: Evidence) -> Floats:
    """Return how well rows and centres are known: to the last digits of their columns, no better."""
    lower, upper = evidence.basis.layout.ends(*evidence.sketch.column_ranges)
    return np.asarray(
        4 * np.finfo(float).eps * np.maximum(np.abs(lower), np.abs(upper)) / evidence.basis.scale
    )
