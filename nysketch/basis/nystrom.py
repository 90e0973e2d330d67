"""Kernel values at landmarks, and the Nyström features made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from nysketch._support.string_arrays import text_arrays, text_width
from nysketch._types import Arrays, Floats, Rows
from nysketch.basis.base import Basis
from nysketch.errors import UsageError
from nysketch.kernels import Product
from nysketch.kernels.base import inverse_or_zero

# Eigenvalues of the kernel matrix below this share of the largest are noise: float32 kernel sums carry
# about 1e-7 of relative error, and a feature divides it by the root of its eigenvalue. Here the error of
# the mean features was 3e-5 at most, the sampling error of a billion rows; at 1e-10 it was 2e-4.
RANK_CUTOFF = 1e-8

# A row farther than so many spreads from its landmark, in any column, is in no cell: 1e300 is a mistake and
# would drown everything else. Squares of what is left, on a grid of 2**-44, stay exact (2**105 times the
# grid) for 8192 rows at the very limit in one cell.
EXTENT = 2.0**24


@dataclass(frozen=True)
class NystromMap:
    """Φ(x) = matrix · k(Z, x), an r-dimensional feature map with Φ(x)·Φ(y) ≈ k(x, y)."""

    matrix: Floats
    eigenvalues: Floats

    @classmethod
    def of(cls, K: Floats) -> NystromMap:
        """Return the map for a kernel matrix k(Z, Z), which is overwritten."""
        from scipy.linalg import eigh

        # Landmarks of unit length span the same space, and one far out does not cut off all others.
        lengths = np.sqrt(np.diag(K))
        inverse = inverse_or_zero(lengths)
        K *= inverse[:, None]
        K *= inverse
        # In place wherever possible: these are the largest matrices that anything here needs.
        eigenvalues, vectors = eigh(K, overwrite_a=True)
        first = int(np.searchsorted(eigenvalues, RANK_CUTOFF * eigenvalues[-1], side="right"))
        matrix = vectors.T[first:]
        matrix *= inverse
        matrix /= np.sqrt(eigenvalues[first:])[:, None]
        return cls(matrix, eigenvalues[first:])

    @property
    def rank(self) -> int:
        """The number r of eigenvalues kept."""
        return len(self.eigenvalues)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NystromBasis(Basis):
    """Kernel values at landmarks: rows of the data, in the data's own units (or strings)."""

    landmarks: Rows

    feature_map: ClassVar[str] = "nystrom"

    @property
    def m(self) -> int:
        """The number of landmarks."""
        return len(self.landmarks)

    @cached_property
    def scaled_landmarks(self) -> Rows:
        """Z, in the units of the kernel."""
        return self.transform(self.landmarks)

    def features_of(self, numbers: Sequence[int]) -> list[int]:
        """Return the features of some groups."""
        return [i for n in numbers for i in range(self.groups[n].start, self.groups[n].stop)]

    def numbers_of(self, numbers: Sequence[int]) -> list[int]:
        """Return the places in a row of the numbers of some groups."""
        places = self.layout.places
        return [i for n in self._columns_of(numbers) for i in range(*places[n].numbers.indices(self.width))]

    def _columns_of(self, numbers: Sequence[int]) -> list[int]:
        owner = np.repeat(np.arange(len(self.columns)), [column.features for column in self.columns])
        return list(dict.fromkeys(owner[self.features_of(numbers)].tolist()))

    def of_groups(self, numbers: Sequence[int]) -> NystromBasis:
        """Return the basis with the same landmark rows, of which only some groups of columns are seen."""
        assert isinstance(self.kernel, Product)
        features = self.features_of(numbers)
        return NystromBasis(
            columns=tuple(self.columns[i] for i in self._columns_of(numbers)),
            scaling=self.scaling,
            center=self.center[features],
            scale=self.scale[features],
            kernel=self.kernel.only(numbers),
            landmarks=self.landmarks[:, self.numbers_of(numbers)],
        )

    @property
    def row_width(self) -> int:
        """Of text, what landmarks take on average."""
        if not self.text:
            return super().row_width
        return text_width(self.landmarks)

    @cached_property
    def middle(self) -> Floats:
        """The median of the scaled landmarks: a few of them may be very far out."""
        return super().middle if self.text else np.median(self.scaled_landmarks, axis=0)

    @cached_property
    def spreads(self) -> Floats:
        """A power of two near the spread of the landmarks in each column: the unit of its grids."""
        deviations = np.abs(self.scaled_landmarks - self.middle)
        # Of those that deviate at all: most of a sparse column is 0. Medians, since landmarks may be far out.
        found = np.array([np.median(column[column > 0]) if column.any() else 0.0 for column in deviations.T])
        if not found.any():  # a single landmark: its values are all that is known
            found = np.maximum(np.abs(self.middle), 1.0)
        typical = np.median(found[found > 0])
        # Where all landmarks agree, rows will hardly differ more than in other columns; where they differ in
        # their last digits only, these are not what distances are made of.
        found = np.clip(np.where(found > 0, found, 2.0**-8 * typical), 2.0**-20 * typical, None)
        # Squares must be numbers, also of a thousand billion rows with such weights.
        return np.asarray(np.ldexp(1.0, np.clip(np.frexp(found)[1] - 1, -440, 440)))

    def evaluate(self, scaled: Rows) -> Floats:
        """Return k(x, Z) for every row."""
        return self.kernel(scaled, self.scaled_landmarks)

    @property
    def range(self) -> tuple[float, float]:
        """The range of the kernel."""
        return self.kernel.range

    def magnitudes(self) -> Floats:
        """Return √(k(z,z) k(x,x)) for each landmark and a typical row, where the kernel has no bound."""
        if np.isfinite(self.range).all():
            return super().magnitudes()
        own = self.kernel.diagonal(self.scaled_landmarks)
        typical = np.median(own[own > 0]) if (own > 0).any() else 1.0
        return np.asarray(np.sqrt(np.where(own > 0, own, typical)) * np.sqrt(typical))

    def gram(self) -> Floats:
        """Return K = k(Z, Z)."""
        return self.evaluate(self.scaled_landmarks)

    @cached_property
    def nystrom(self) -> NystromMap:
        """The Nyström feature map, cut off at RANK_CUTOFF of the largest eigenvalue."""
        return NystromMap.of(self.gram())

    @property
    def rank(self) -> int:
        """How many directions the landmarks span, numerically."""
        return self.nystrom.rank

    def to_features(self, values: Floats) -> Floats:
        """Return K^(-1/2) k(Z, x), in the coordinates of the eigenvectors kept."""
        return values @ self.nystrom.matrix.T

    def _residuals(self, rows: Rows) -> Floats:
        scaled = self.transform(rows)
        features = self.to_features(self.evaluate(scaled))
        captured = np.einsum("ij,ij->i", features, features)
        return np.asarray(np.sqrt(np.maximum(self.kernel.diagonal(scaled) - captured, 0.0)))

    def arrays(self) -> Arrays:
        """Return the arrays, by the names they have in a sketch file."""
        if self.text:
            return super().arrays() | text_arrays("basis.landmarks", self.landmarks)
        return super().arrays() | {"basis.landmarks": self.landmarks}


def numeric_landmarks(basis: Basis) -> NystromBasis | None:
    """Return the basis if its landmarks are points in space, which distances need."""
    return basis if isinstance(basis, NystromBasis) and not basis.text else None


def spreads(basis: NystromBasis) -> Floats:
    """Return a power of two near the spread of the landmarks in each column: the unit of its grids."""
    return basis.spreads


def require_landmarks(basis: Basis, what: str) -> NystromBasis:
    """Return the basis if it has landmarks, for `what` needs them."""
    if not isinstance(basis, NystromBasis):
        raise UsageError(f"{what} needs landmarks, not Fourier features")
    return basis
