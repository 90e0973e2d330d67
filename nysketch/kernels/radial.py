"""Kernels of the distance between two rows: Gaussian, Laplacian, Matérn, and sums of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.errors import UsageError

ROOT3, ROOT5 = 3**0.5, 5**0.5
FARTHEST = 1e6


@dataclass(frozen=True)
class _OfDistance:
    """A kernel f(distance / bandwidth) with f(0) = 1 and values between 0 and 1."""

    bandwidth: float

    name: ClassVar[str]
    metric: ClassVar[str] = "euclidean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", as_bandwidth(self.bandwidth))

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def distances(self, X: Rows, Y: Rows) -> Floats:
        """Return the distances between rows in units of the bandwidth."""
        from scipy.spatial.distance import cdist

        # Differences first, squares second: no cancellation however far the rows are from 0. Every
        # profile is 0 long before FARTHEST, where powers of the distance are still numbers.
        with np.errstate(over="ignore"):
            return np.minimum(np.asarray(cdist(X, Y, self.metric)) / self.bandwidth, FARTHEST)

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        return self.profile(self.distances(X, Y))

    def profile(self, r: Floats) -> Floats:
        """Return f(r)."""
        raise NotImplementedError

    def slope(self, r: Floats) -> Floats:
        """Return f'(r) / r, and 0 where that has no limit."""
        raise NotImplementedError

    def diagonal(self, X: Rows) -> Floats:
        return np.ones(len(X))

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        pull = coefficients * self.slope(self.distances(X, Y))
        gradient: Floats = (pull.sum(axis=1)[:, None] * X - pull @ Y) / self.bandwidth**2
        return gradient

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "bandwidth": self.bandwidth}

    def __str__(self) -> str:
        return f"{self.name}, bandwidth {self.bandwidth:.6g}"


def as_bandwidth(bandwidth: float) -> float:
    """Return a bandwidth; raise a UsageError unless it is a positive number whose square is one, too."""
    if not 1e-50 < bandwidth < 1e50:
        raise UsageError(
            f"`bandwidth` must be between 1e-50 and 1e50, not {bandwidth!r}. If it was found from rows, "
            'multiply or scale their columns: `scale="standard"`'
        )
    return float(bandwidth)


@dataclass(frozen=True)
class Gaussian(_OfDistance):
    """exp(-|x - y|² / (2 bandwidth²))."""

    name: ClassVar[str] = "gaussian"

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        from scipy.spatial.distance import cdist

        # As `profile` of `distances`, but without the root.
        values: Floats = cdist(X, Y, "sqeuclidean")
        with np.errstate(over="ignore"):
            values *= -0.5 / self.bandwidth**2
        return np.exp(values, out=values)

    def profile(self, r: Floats) -> Floats:
        return np.exp(-0.5 * r**2)

    def slope(self, r: Floats) -> Floats:
        return -self.profile(r)


@dataclass(frozen=True)
class LaplacianL2(_OfDistance):
    """exp(-|x - y| / bandwidth), Euclidean distance: the Matérn kernel of smoothness ½."""

    name: ClassVar[str] = "laplacian-l2"

    def profile(self, r: Floats) -> Floats:
        return np.exp(-r)

    def slope(self, r: Floats) -> Floats:
        return -np.exp(-r) / np.where(r > 0, r, np.inf)


@dataclass(frozen=True)
class Matern32(_OfDistance):
    """(1 + t) exp(-t), t = √3 |x - y| / bandwidth."""

    name: ClassVar[str] = "matern32"

    def profile(self, r: Floats) -> Floats:
        t = ROOT3 * r
        return (1 + t) * np.exp(-t)

    def slope(self, r: Floats) -> Floats:
        return -3 * np.exp(-ROOT3 * r)


@dataclass(frozen=True)
class Matern52(_OfDistance):
    """(1 + t + t²/3) exp(-t), t = √5 |x - y| / bandwidth."""

    name: ClassVar[str] = "matern52"

    def profile(self, r: Floats) -> Floats:
        t = ROOT5 * r
        return (1 + t + t**2 / 3) * np.exp(-t)

    def slope(self, r: Floats) -> Floats:
        t = ROOT5 * r
        return -5 / 3 * (1 + t) * np.exp(-t)


@dataclass(frozen=True)
class LaplacianL1(_OfDistance):
    """exp(-Σ_k |x_k - y_k| / bandwidth)."""

    name: ClassVar[str] = "laplacian-l1"
    metric: ClassVar[str] = "cityblock"

    def profile(self, r: Floats) -> Floats:
        return np.exp(-r)

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        pull = coefficients * self(X, Y)
        # One feature at a time: the signs of all at once are rows × rows × features.
        sides = [(pull * np.sign(x[:, None] - y)).sum(axis=1) for x, y in zip(X.T, Y.T, strict=True)]
        return -np.stack(sides, axis=1) / self.bandwidth


@dataclass(frozen=True)
class GaussianSum:
    """The mean of Gaussian kernels at several bandwidths: sees structure at all of these scales."""

    bandwidths: tuple[float, ...]

    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        if len(self.bandwidths) < 2:
            raise UsageError("a sum of Gaussian kernels needs at least two bandwidths")
        object.__setattr__(self, "bandwidths", tuple(map(as_bandwidth, self.bandwidths)))

    @property
    def parts(self) -> tuple[Gaussian, ...]:
        """The kernels whose mean it is."""
        return tuple(map(Gaussian, self.bandwidths))

    @property
    def range(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        total = sum(part(X, Y) for part in self.parts)
        return np.asarray(total) / len(self.bandwidths)

    def diagonal(self, X: Rows) -> Floats:
        return np.ones(len(X))

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        total = sum(part.gradient(X, Y, coefficients) for part in self.parts)
        return np.asarray(total) / len(self.bandwidths)

    def describe(self) -> dict[str, Any]:
        return {"name": "gaussian-sum", "bandwidths": list(self.bandwidths)}

    def __str__(self) -> str:
        return f"gaussian, mean over bandwidths {', '.join(f'{b:.6g}' for b in self.bandwidths)}"
