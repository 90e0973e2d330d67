"""Cluster centres: a row belongs to the nearest one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._support.html_repr import counted, html_table, listed, one_line
from nysketch._types import Floats, Labels
from nysketch.models.base import EPSILON, Model, row_squares, set_by_difference


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KMeansModel(Model):
    """Cluster centres. `shares` tell which part of the rows, or of their weight, each cluster has."""

    centroids: Floats
    shares: Floats

    kind: ClassVar[str] = "kmeans"
    arrays: ClassVar[tuple[str, ...]] = ("centroids", "shares")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_near("centroids")
        self._require_proportions("shares")

    def __repr__(self) -> str:
        return one_line("KMeansModel", f"{counted(self.k, 'cluster')} × {counted(self.d, 'feature')}")

    def _repr_html_(self) -> str:
        shares = listed(f"{share:.1%}" for share in sorted(self.shares, reverse=True))
        return html_table("KMeansModel", {"clusters": self.k, "shares": shares} | self._facts())

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centroids)

    @cached_property
    def center(self) -> Floats:
        """The mean of the centroids."""
        return np.asarray(self.centroids[0] + (self.centroids - self.centroids[0]).mean(axis=0))

    @cached_property
    def scaled_centroids(self) -> Floats:
        """The centroids in the units of the distances, relative to the centre."""
        return self.scaled_features(self.centroids)

    @cached_property
    def _half_squares(self) -> Floats:
        return np.asarray(row_squares(self.scaled_centroids) / 2)

    def _labels(self, rows: Floats) -> Labels:
        """Return the number of the nearest centroid; of several as near, the first."""
        labels = np.empty(len(rows), np.int32)
        for part, Y in self._blocks(rows):
            labels[part] = self._nearest(Y)
        return labels

    def squared_distances(self, data: Any) -> Floats:
        """Return the squared distance to the nearest centroid, in scaled units.

        Parameters
        ----------
        data
            Rows, as `labels` takes them.

        Returns
        -------
        numpy.ndarray
            A number for each row.

        """
        return self._at_rows(data, lambda rows: row_squares(self.nearest(rows)[1]))

    costs = squared_distances

    def distances_to_all(self, data: Any) -> Floats:
        """Return the distance of each row to each centroid, in scaled units."""

        def work(rows: Floats) -> Floats:
            from scipy.spatial.distance import cdist

            return np.asarray(cdist(self.scaled(rows), self.scaled_centroids))

        return self._at_rows(data, work, shape=(self.k,))

    def nearest(self, rows: Floats) -> tuple[Labels, Floats]:
        """Return the number of the nearest centroid, and what the scaled row differs by from it."""
        labels, differences = np.empty(len(rows), np.int32), np.empty((len(rows), self.d))
        for part, Y in self._blocks(rows):
            labels[part] = nearest = self._nearest(Y)
            np.subtract(Y, self.scaled_centroids[nearest], out=differences[part])
        return labels, differences

    def _nearest(self, Y: Floats) -> NDArray[np.intp]:
        """Find the nearest centroids by a matrix product, and by differences where it cannot tell."""
        halves = self._half_squares - Y @ self.scaled_centroids.T  # half of |y − c|² − |y|²
        longest = math.sqrt(2 * self._half_squares.max())
        error = (self.d + 3) * EPSILON * longest * (np.sqrt(row_squares(Y)) + longest)
        candidates = halves <= (halves.min(axis=1) + 2 * error)[:, None]
        labels: NDArray[np.intp] = candidates.argmax(axis=1)
        doubtful = np.flatnonzero(np.count_nonzero(candidates, axis=1) > 1)
        if len(doubtful):
            distances = np.full((len(doubtful), self.k), np.inf)
            set_by_difference(Y[doubtful], self.scaled_centroids, candidates[doubtful], distances)
            labels[doubtful] = distances.argmin(axis=1)
        return labels
