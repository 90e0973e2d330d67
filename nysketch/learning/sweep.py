"""How many clusters? A model for each number that is tried, and which of them is best.

Each is learned by learner.py, from what the sketch says once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nysketch._support.notices import log
from nysketch.errors import UsageError
from nysketch.learning.learner import Learner
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch


@dataclass(frozen=True)
class Sweep:
    """Models for several k, the value of the criterion for each, and the best of them."""

    criterion: str
    models: list[AnyModel]
    values: list[float | None]
    best: AnyModel

    def table(self) -> list[dict[str, Any]]:
        """Return one entry per k, ready for JSON."""
        names = [f"mean_{what}" for what in ("squared_distance", "log_likelihood")]
        names += [f"certified_{what}" for what in ("bound", "log_likelihood")]
        return [
            {"k": model.k, self.criterion: value}
            | {name: model.facts[name] for name in names if name in model.facts}
            for model, value in zip(self.models, self.values, strict=True)
        ]


def sweep(sketch: Sketch, ks: Iterable[int], **options: Any) -> Sweep:
    """Learn models for several k from a sketch alone, and choose among them.

    Centroids by the index of Caliński and Harabasz, the variance between clusters over that within, each
    per degree of freedom: the largest is best. Mixtures by the Bayesian information criterion of the rows
    that their likelihood is measured on: the smallest is best.
    """
    found = _sweep(sketch, ks, **options)
    for note in [*found.best.facts["notes"], *_notes_on_wild_rows(sketch, options.get("robust"))]:
        log.warning("%s", note)
    return found


def _notes_on_wild_rows(sketch: Sketch, robust: int | str | None) -> list[str]:
    """Say so if single rows may be far enough off to become clusters of their own."""
    wild = [one for one in sketch.basis.origin.get("wild", ()) if one["left_out"]]
    if robust is not None or not wild:
        return []
    one = max(wild, key=lambda one: float(one["share"]))
    return [
        f"column {one['column']!r} has values far beyond all others ({one['rows']} pilot rows hold "
        f"{one['share']:.0%} of its variance): such rows may take clusters for themselves. If they are "
        'wrong, leave them out with `robust="auto"`'
    ]


def _sweep(sketch: Sketch, ks: Iterable[int], **options: Any) -> Sweep:
    learner = Learner(sketch, **options)
    models = [learner.model(k) for k in ks]
    if not models:
        raise UsageError("`k` names no number of clusters")
    if options.get("covariance") is not None:
        values = [model.facts["bic"] for model in models]
        return Sweep("bic", models, values, _best(models, [None if v is None else -v for v in values]))
    if len(models) == 1:
        return Sweep("calinski_harabasz", models, [None], models[0])
    total = learner.model(1).facts["mean_squared_distance"]
    values = [_calinski_harabasz(model, total, sketch.rows) for model in models]
    # The first whose clusters have no width has no value, and nothing is better.
    exact = (model for model in models if model.facts["mean_squared_distance"] == 0)
    return Sweep("calinski_harabasz", models, values, next(exact, None) or _best(models, values))


def _best(models: list[AnyModel], values: list[float | None]) -> AnyModel:
    """Return the model with the largest value.

    If none has one, it is the first of those that can be judged: of models that match the kernel sums, the
    one with the fewest clusters. If none can, it is the one that matches them best, of those that they
    determine: others match anything.
    """
    known = [(value, model) for value, model in zip(values, models, strict=True) if value is not None]
    if known:
        return max(known, key=lambda pair: pair[0])[1]
    judged = [model for model in models if model.facts["not_estimated"] is None]
    determined = [model for model in models if not model.facts["notes"]]
    return judged[0] if judged else min(determined, key=_objective) if determined else models[0]


def _calinski_harabasz(model: AnyModel, total: float | None, rows: int) -> float | None:
    """Return the index; it says nothing of one cluster, nor where clusters have no width."""
    within = model.facts["mean_squared_distance"]
    if total is None or within is None or model.k < 2 or rows <= model.k or not within > 0:
        return None
    return float((total - within) / (model.k - 1) / (within / (rows - model.k)))


def _objective(model: AnyModel) -> float:
    found = model.number("objective")
    return math.inf if found is None else found
