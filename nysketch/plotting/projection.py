"""Rows in two dimensions: along two columns, or where landmarks or centres vary most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import Column, feature_names
from nysketch.errors import UsageError
from nysketch.kinds import Number
from nysketch.models.base import Model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel

# A few landmarks may be very far out: beyond these quantiles of its column, a value does not turn the axes.
_QUANTILES = (0.02, 0.98)
# Columns that an axis is named after: those with the largest parts in it.
_NAMED = 3
_LONGEST_NAME = 60


@dataclass(frozen=True, eq=False)
class Projection:
    """x ↦ axes · (x − center) / scale, from d numbers in the data's units to two."""

    center: Floats
    scale: Floats
    axes: Floats  # 2 × d
    names: tuple[str, str]
    of_columns: bool = False

    def __call__(self, rows: Floats) -> Floats:
        """Return the two coordinates of every row."""
        return np.asarray(((rows - self.center) / self.scale) @ self.axes.T)

    def ellipse_axes(self, covariance: Floats) -> Floats:
        """Return the half-axes of the projected ellipse, one standard deviation, for a d × d covariance."""
        scaled = self.axes / self.scale
        values, vectors = np.linalg.eigh(scaled @ covariance @ scaled.T)
        return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))).T)


def middles(model: Model) -> Floats:
    """Return the centroids, or means, of a model."""
    if isinstance(model, KMeansModel):
        return model.centroids
    assert isinstance(model, MixtureModel)
    return model.means


def shares(model: Model) -> Floats:
    """Return which part of the rows each cluster or component has."""
    if isinstance(model, KMeansModel):
        return model.shares
    assert isinstance(model, MixtureModel)
    return model.weights


def covariance(model: MixtureModel, component: int) -> Floats:
    """Return the d × d covariance of a component, in the data's units."""
    found = model.covariances[component]
    return found if found.ndim == 2 else np.diag(found)


def principal(rows: Floats, center: Floats, scale: Floats, features: Sequence[str]) -> Projection:
    """Return the projection on the two directions in which scaled rows vary most."""
    scaled = (rows - center) / scale
    low, high = np.quantile(scaled, _QUANTILES, axis=0)
    middle = np.clip(scaled, low, high).mean(axis=0)
    deviations = np.clip(scaled, low, high) - middle
    if not deviations.any():  # so few rows that quantiles make them one
        middle = scaled.mean(axis=0)
        deviations = scaled - middle
    # Eigenvectors of the d × d scatter, or the few of very wide rows.
    _, values, vectors = np.linalg.svd(deviations, full_matrices=False)
    axes = np.zeros((2, len(features)))
    found = min(2, len(vectors))
    axes[:found] = vectors[:found]
    for axis in axes:  # its sign is arbitrary: make the largest part positive
        axis *= -1.0 if axis[np.abs(axis).argmax()] < 0 else 1.0
    total = float((values**2).sum()) or 1.0
    parts = [float(v**2) / total for v in values[:2]] + [0.0, 0.0]
    names = (
        _axis_name("first", axes[0], parts[0], features),
        _axis_name("second", axes[1], parts[1], features),
    )
    return Projection(center + middle * scale, scale, axes, names)


def _axis_name(which: str, axis: Floats, part: float, features: Sequence[str]) -> str:
    order = np.argsort(-np.abs(axis), kind="stable")[:_NAMED]
    named = [
        f"{'−' if axis[i] < 0 else ''}{_shortened(features[i])}"
        for i in order
        if abs(axis[i]) > 0.25 * np.abs(axis).max()
    ]
    words = f": {', '.join(named)}" if axis.any() else ""
    return f"{which} direction ({100 * part:.0f} % of the variance){words}"


def _shortened(feature: str) -> str:
    """Return the name of a feature; that of a category holds a value, which may be of any length."""
    return feature if len(feature) <= _LONGEST_NAME else feature[: _LONGEST_NAME - 1] + "…"


def of_landmarks(basis: NystromBasis) -> Projection:
    """Return the projection in which scaled landmarks vary most."""
    names = feature_names(basis.columns)
    features = basis.expand(np.asarray(basis.landmarks, np.float64))
    return principal(features, basis.center, basis.scale, names)


def of_model(model: Model) -> Projection:
    """Return the projection in which the scaled centres of a model vary most."""
    return principal(middles(model), model.center, model.scale, model.features)


def of_columns(names: Sequence[str], columns: Sequence[Column]) -> Projection:
    """Return the projection on two features, in the units of the data.

    They go by their own names; where a column has one number, such as its logarithm, also by that of the
    column.
    """
    if len(names) != 2:
        raise UsageError(f"`columns` must name two columns, not {len(names)}")
    features = feature_names(columns)
    first = np.cumsum([0, *(column.features for column in columns)]).tolist()
    numbers = {c.name: at for c, at in zip(columns, first, strict=False) if isinstance(c.kind, Number)}
    axes = np.zeros((2, len(features)))
    labels = []
    for i, name in enumerate(names):
        at = features.index(name) if name in features else numbers.get(name)
        if at is None:
            raise UsageError(f"`columns`: {_unknown(name, columns, features)}")
        axes[i, at] = 1.0
        labels.append(_shortened(features[at]))
    zeros = np.zeros(len(features))
    return Projection(zeros, zeros + 1.0, axes, (labels[0], labels[1]), of_columns=True)


def _unknown(name: str, columns: Sequence[Column], features: Sequence[str]) -> str:
    """Say what there is instead of a column."""
    for column in columns:
        if column.name == name and column.kind is not None:
            own = [_shortened(feature) for feature in column.kind.labels(name)]
            known = ", ".join(own[:5]) + (", …" if len(own) > 5 else "")
            return f"column {name!r} is a {column.kind.name}, which has no place on an axis; name {known}"
    known = ", ".join(map(_shortened, features[:20])) + (", …" if len(features) > 20 else "")
    return f"there is no column {name!r}; there are {known}"
