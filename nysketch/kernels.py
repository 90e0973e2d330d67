"""Kernels: values between rows, in float64, and what must be stored to rebuild them.

Rows arrive here scaled (see basis.py). The fast float32 evaluation inside the pass is tiles.py's
business and is tested against this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch.errors import CorruptSketchError, UsageError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Gaussian:
    """k(x, y) = exp(-|x - y|² / (2 bandwidth²))."""

    bandwidth: float

    def __post_init__(self) -> None:
        if not 1e-50 < self.bandwidth < 1e50:  # its square must be a number, too
            raise UsageError(f"bandwidth must be a positive number, not {self.bandwidth!r}")

    def __call__(self, X: Floats, Y: Floats) -> Floats:
        """Return the matrix of kernel values between the rows of X and of Y."""
        from scipy.spatial.distance import cdist

        # Differences first, squares second: no cancellation however far the rows are from 0.
        values: Floats = cdist(X, Y, "sqeuclidean")
        values *= -0.5 / self.bandwidth**2
        return np.exp(values, out=values)

    def describe(self) -> dict[str, Any]:
        """Return what the sketch file stores of this kernel."""
        return {"name": "gaussian", "bandwidth": self.bandwidth}


def kernel_from_description(description: dict[str, Any]) -> Gaussian:
    """Rebuild a kernel from what `describe` returned."""
    if description.get("name") != "gaussian":
        raise CorruptSketchError(f"unknown kernel {description.get('name')!r}: written by a newer nysketch?")
    return Gaussian(bandwidth=float(description["bandwidth"]))


def median_bandwidth(rows: Floats, seed: int, *, at_most: int = 1000) -> float:
    """Return the median distance between pairs of `rows` (of a subsample of `at_most`)."""
    from scipy.spatial.distance import pdist

    if len(rows) > at_most:
        rows = rows[np.random.default_rng(seed).choice(len(rows), at_most, replace=False)]
    distances = pdist(rows)
    if not distances.size or distances.max() == 0:
        return 1.0  # one distinct row: every bandwidth gives the same kernel matrix
    median = float(np.median(distances))
    # More than half of the pairs are duplicates: the median says nothing about the others.
    return median if median > 0 else float(np.median(distances[distances > 0]))
