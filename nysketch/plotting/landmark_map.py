"""Maps of a sketch: its landmarks in two dimensions, the centres of a model over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis, numeric_landmarks
from nysketch.columns import feature_names
from nysketch.models.base import Model
from nysketch.models.mixture import MixtureModel
from nysketch.plotting.projection import Projection, covariance, middles, shares
from nysketch.plotting.scales import count, share
from nysketch.plotting.scatter import Centre, Dot
from nysketch.sketches.sketch import Sketch


def landmarks_of(thing: Sketch | Basis) -> NystromBasis | None:
    """Return the basis if its landmarks are points that a map can show."""
    return numeric_landmarks(thing if isinstance(thing, Basis) else thing.basis)


def fits(model: Model, basis: NystromBasis) -> bool:
    """Tell whether a model is of the features that landmarks have."""
    if basis.encoded:
        return model.columns == basis.columns
    return model.features == feature_names(basis.columns)


def _labels(model: Model, basis: NystromBasis) -> Sequence[int]:
    landmarks = np.asarray(basis.landmarks, np.float64)
    # Codes and seconds are numbers that a model has inside, and no values of a table.
    found = model._labels(landmarks) if basis.encoded else model.labels(landmarks)
    labels: list[int] = found.tolist()
    return labels


def dots_of(
    thing: Sketch | Basis,
    projection: Projection,
    model: Model | None = None,
    numbers: Sequence[int] = (),
    *,
    word: str = "cluster",
) -> list[Dot]:
    """Return the landmarks; `numbers` say which series each cluster of the model is.

    Without a model they are as dense as the kernel says: its mean over all rows, at the landmark.
    """
    basis = landmarks_of(thing)
    assert basis is not None
    landmarks = np.asarray(basis.landmarks, np.float64)
    places = projection(basis.expand(landmarks))
    sketch = thing if isinstance(thing, Sketch) and thing.rows else None
    rows = None if sketch is None or sketch.cells is None else sketch.cells.rows
    labels = None if model is None else _labels(model, basis)
    density = None
    if labels is None and sketch is not None and sketch.total_weight > 0:
        values = sketch.mean_kernel()
        low, high = float(values.min()), float(values.max())
        density = (values - low) / (high - low) if high > low else values * 0
    dots = []
    for i, (x, y) in enumerate(places.tolist()):
        series = None if labels is None else numbers[int(labels[i])]
        notes = [
            "" if rows is None else f"{count(int(rows[i]))} rows nearest to this landmark",
            "" if series is None else f"{word} {series + 1}",
        ]
        dots.append(
            Dot(
                x,
                y,
                None if rows is None else float(rows[i]),
                series,
                None if density is None else float(density[i]),
                ", ".join(note for note in notes if note) or "a landmark",
            )
        )
    return dots


def centres_of(
    model: Model,
    projection: Projection,
    numbers: Sequence[int],
    *,
    word: str = "cluster",
    sized: float | None = None,
) -> list[Centre]:
    """Return the centres; those of mixtures with ellipses. With `sized`, symbols are as large as shares."""
    parts = shares(model)
    found = []
    for i, (x, y) in enumerate(projection(middles(model)).tolist()):
        axes = None
        if isinstance(model, MixtureModel):
            (a, b), (c, d) = projection.ellipse_axes(covariance(model, i)).tolist()
            axes = ((a, b), (c, d))
        found.append(
            Centre(
                x,
                y,
                str(numbers[i] + 1) + ("" if sized is None else f": {share(float(parts[i]))}"),
                f"{word} {numbers[i] + 1}: {share(float(parts[i]))} of the rows",
                numbers[i],
                axes,
                None if sized is None else 3 + sized * float(np.sqrt(parts[i] / parts.max())),
            )
        )
    return found


def by_share(model: Model) -> list[int]:
    """Return for each cluster its place among all, the largest first."""
    order = np.argsort(-shares(model), kind="stable")
    numbers = np.empty(len(order), int)
    numbers[order] = np.arange(len(order))
    return numbers.tolist()


def word_for(model: Model) -> str:
    """Return what the parts of a model are called."""
    return "component" if isinstance(model, MixtureModel) else "cluster"
