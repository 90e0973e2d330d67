"""Random Fourier features: cosines and sines at random frequencies, which hold no rows of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nysketch._types import Arrays, Floats, Rows
from nysketch.basis.base import Basis

DRAWS = ("gaussian", "adapted-radius")  # of Fourier frequencies


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FourierBasis(Basis):
    """Cosines and sines of ω·x at random frequencies ω, in the units of the kernel.

    They do not depend on the data (but for its scaling), so the file holds no rows. `draw` says how the
    frequencies were drawn: "gaussian" ones, whose features approximate the kernel, or "adapted-radius".
    """

    frequencies: Floats
    draw: str

    feature_map: ClassVar[str] = "fourier"

    @property
    def m(self) -> int:
        """Two features for each frequency: all cosines, then all sines."""
        return 2 * len(self.frequencies)

    def evaluate(self, scaled: Rows) -> Floats:
        """Return cos ω·x for all frequencies, then sin ω·x."""
        angles = scaled @ self.frequencies.T
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    @property
    def range(self) -> tuple[float, float]:
        """Cosines and sines."""
        return -1.0, 1.0

    @property
    def rank(self) -> int:
        """All of them."""
        return self.m

    def to_features(self, values: Floats) -> Floats:
        """Scale cosines and sines so that Φ(x)·Φ(x) = 1."""
        return np.asarray(values / np.sqrt(len(self.frequencies)))

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return super().describe() | {"frequencies": self.draw}

    def arrays(self) -> Arrays:
        """Return the arrays, by the names they have in a sketch file."""
        return super().arrays() | {"basis.frequencies": self.frequencies}


def draw_frequencies(count: int, d: int, draw: str, rng: np.random.Generator) -> Floats:
    """Draw frequencies for a kernel of bandwidth 1.

    "gaussian" ones are the spectrum of the Gaussian kernel: in many dimensions all of nearly one length.
    "adapted-radius" ones have lengths of density ∝ √(R² + R⁴/4) exp(−R²/2), which is where the features
    of Gaussian mixtures change most with their parameters.
    """
    normal = rng.normal(size=(count, d))
    if draw == "gaussian":
        return normal
    grid = np.linspace(0.0, 10.0, 10_001)  # exp(-50) of the mass is beyond
    density = np.sqrt(grid**2 + grid**4 / 4) * np.exp(-(grid**2) / 2)
    cumulative = np.cumsum(density)
    radii = np.interp(rng.uniform(size=count), cumulative / cumulative[-1], grid)
    lengths = np.linalg.norm(normal, axis=1)
    return np.asarray(normal * (radii / np.where(lengths > 0, lengths, 1.0))[:, None])
