"""How many clusters? A model for each number that is tried, and which of them is best.

Each is learned by learner.py, from what the sketch says once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    learner = Learner(sketch, **options)
    models = [learner.model(k) for k in ks]
    if not models:
        raise UsageError("`k` names no number of clusters")
    if options.get("covariance") is not None:
        values = [model.facts["bic"] for model in models]
        chosen = min(range(len(models)), key=lambda i: values[i])
        return Sweep("bic", models, values, models[chosen])
    if len(models) == 1:
        return Sweep("calinski_harabasz", models, [None], models[0])
    total = learner.model(1).facts["mean_squared_distance"]
    values = [_calinski_harabasz(model, total, sketch.rows) for model in models]
    # Without a value: the first whose clusters have no width, or else the last to choose.
    exact = (model for model in models if not model.facts["mean_squared_distance"] > 0)
    chosen = max(range(len(models)), key=lambda i: -1.0 if values[i] is None else values[i])
    return Sweep("calinski_harabasz", models, values, next(exact, models[chosen]))


def _calinski_harabasz(model: AnyModel, total: float, rows: int) -> float | None:
    """Return the index; it says nothing of one cluster, nor where clusters have no width."""
    within = model.facts["mean_squared_distance"]
    if model.k < 2 or rows <= model.k or not within > 0:
        return None
    return float((total - within) / (model.k - 1) / (within / (rows - model.k)))
