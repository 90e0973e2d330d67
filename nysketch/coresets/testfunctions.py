"""Test functions: what a coreset has in common with all rows. Linear combinations of the kernel at landmarks.

Of all functions in the span of the landmarks, those are wanted in which rows differ most. `nystrom` takes
the leading eigenvectors of the kernel matrix of the landmarks (k_s^Z of Hayakawa, Oberhauser and Lyons,
2023), which are right if landmarks are drawn like rows. `mercer` takes the leading eigenfunctions of the
kernel under the distribution of the rows (k_{s,Y}^Z, or k_{s,μ}^Z where this is known), of which the second
moments of the kernel values, h = E k(Z, x) k(x, Z), are all that is needed; it does not matter how landmarks
were chosen.

The paper computes the latter from a root H of h and its pseudo-inverse, which fails when eigenvalues fall
fast. Here, the values are first brought to the coordinates of the Nyström features Φ, which are orthonormal
functions and cut off where kernel values have no more digits; eigenvectors of E Φ Φᵀ are then as good as
these, and nothing else is inverted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromMap

METHODS = ("mercer", "nystrom")


@dataclass(frozen=True, eq=False)
class TestFunctions:
    """ψ(x) = matrixᵀ k(Z, x): orthonormal in the space of the kernel, the most important first.

    `strengths` are the mean squares of the functions: over rows, or landmarks.
    """

    matrix: Floats  # landmarks × functions
    strengths: Floats
    method: str

    __test__ = False  # pytest takes the name for a class of tests

    def __len__(self) -> int:
        return len(self.strengths)

    def of(self, values: Floats) -> Floats:
        """Return rows × functions, from the kernel values of rows (or sums, or means of them)."""
        return values @ self.matrix

    def first(self, count: int) -> TestFunctions:
        """Return the most important ones."""
        return TestFunctions(self.matrix[:, :count], self.strengths[:count], self.method)


def nystrom_functions(landmarks: NystromMap, count: int) -> TestFunctions:
    """Return up to `count` functions from the leading eigenvectors of the kernel matrix of the landmarks."""
    matrix = landmarks.matrix[::-1][:count].T
    m = landmarks.matrix.shape[1]
    return TestFunctions(np.ascontiguousarray(matrix), landmarks.eigenvalues[::-1][:count] / m, "nystrom")


def mercer_functions(landmarks: NystromMap, second_moments: Floats, count: int) -> TestFunctions:
    """Return up to `count` eigenfunctions of the kernel under a distribution with these second moments."""
    from scipy.linalg import eigh

    features = landmarks.matrix @ second_moments @ landmarks.matrix.T
    rank = len(features)
    count = min(count, rank)
    strengths, directions = eigh((features + features.T) / 2, subset_by_index=[rank - count, rank - 1])
    matrix = landmarks.matrix.T @ directions[:, ::-1]
    return TestFunctions(np.ascontiguousarray(matrix), np.maximum(strengths[::-1], 0.0), "mercer")
