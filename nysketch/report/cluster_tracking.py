"""Clusters over time: which cluster of a model is which of the model before it.

Learning numbers clusters as it finds them. Here those of successive models are paired so that their centres
move as little as possible together, and numbered by their shares in the newest model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from nysketch._types import Floats
from nysketch.models.base import Model
from nysketch.plotting.projection import middles, shares


@dataclass(frozen=True, eq=False)
class Track:
    """A cluster over partitions: its number in each model, its share and its centre; None where it is not."""

    numbers: list[int | None]
    shares: list[float | None]
    centres: list[Floats | None]

    @classmethod
    def absent(cls, partitions: int) -> Track:
        """Return the track of a cluster that is nowhere."""
        return cls([None] * partitions, [None] * partitions, [None] * partitions)

    def put(self, at: int, number: int, model: Model) -> None:
        """Say which cluster of a model it is."""
        self.numbers[at] = number
        self.shares[at] = float(shares(model)[number])
        self.centres[at] = middles(model)[number]

    def moved(self, scale: Floats) -> list[float | None]:
        """Return how far its centre is from where it was first, in scaled units."""
        known = [centre for centre in self.centres if centre is not None]
        return [None if c is None else float(np.linalg.norm((c - known[0]) / scale)) for c in self.centres]


def same_features(models: Sequence[Model]) -> int:
    """Return how many of the newest models have the features of the newest."""
    count = 0
    for model in reversed(models):
        if model.features != models[-1].features:
            break
        count += 1
    return count


def tracks(models: Sequence[Model]) -> list[Track]:
    """Follow clusters from the newest model, the last one, back to the oldest; all have the same features."""
    if not models:
        return []
    newest = models[-1]
    found: list[Track] = []
    positions: list[Floats] = []  # where each was last seen
    for number in np.argsort(-shares(newest), kind="stable").tolist():
        track = Track.absent(len(models))
        track.put(len(models) - 1, number, newest)
        found.append(track)
        positions.append(middles(newest)[number])
    for at in range(len(models) - 2, -1, -1):
        model = models[at]
        centres = middles(model) / newest.scale
        before = np.array(positions) / newest.scale
        distances = np.linalg.norm(before[:, None] - centres[None], axis=2)
        pairs = dict(zip(*(side.tolist() for side in linear_sum_assignment(distances)), strict=True))
        taken = set(pairs.values())
        for which, number in pairs.items():
            found[which].put(at, number, model)
            positions[which] = middles(model)[number]
        for number in range(model.k):
            if number not in taken:  # a cluster that a later model has no more
                track = Track.absent(len(models))
                track.put(at, number, model)
                found.append(track)
                positions.append(middles(model)[number])
    return found
