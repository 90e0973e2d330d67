"""Kernels of the scalar product of two rows: linear, polynomial, cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.errors import UsageError
from nysketch.kernels.base import whole
from nysketch.kernels.radial import as_bandwidth

_ANYTHING = (-np.inf, np.inf)
LARGEST_DEGREE = 16


@dataclass(frozen=True)
class Linear:
    """x·y: the mean embedding is the mean row."""

    name: ClassVar[str] = "linear"
    range: ClassVar[tuple[float, float]] = _ANYTHING

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        return np.asarray(X @ Y.T)

    def diagonal(self, X: Rows) -> Floats:
        return np.asarray((X**2).sum(axis=1))

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        del X
        return np.asarray(coefficients @ Y)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Polynomial:
    """(x·y / bandwidth² + offset)^degree: the mean embedding holds all moments up to the degree."""

    bandwidth: float
    degree: int = 2
    offset: float = 1.0

    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", as_bandwidth(self.bandwidth))
        object.__setattr__(self, "degree", whole(self.degree, "degree"))
        if not 1 <= self.degree <= LARGEST_DEGREE:
            raise UsageError(f"`degree` must be between 1 and {LARGEST_DEGREE}, not {self.degree}")
        if not 0 <= self.offset < 1e50:
            raise UsageError(f"`offset` must be at least 0, not {self.offset!r}")
        object.__setattr__(self, "offset", float(self.offset))

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, np.inf) if self.degree % 2 == 0 else _ANYTHING

    def _base(self, X: Rows, Y: Rows) -> Floats:
        return np.asarray(X @ Y.T) / self.bandwidth**2 + self.offset

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        return self._base(X, Y) ** self.degree

    def diagonal(self, X: Rows) -> Floats:
        return np.asarray(((X**2).sum(axis=1) / self.bandwidth**2 + self.offset) ** self.degree)

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        slopes = self.degree * self._base(X, Y) ** (self.degree - 1) / self.bandwidth**2
        return np.asarray((coefficients * slopes) @ Y)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bandwidth": self.bandwidth,
            "degree": self.degree,
            "offset": self.offset,
        }

    def __str__(self) -> str:
        return f"{self.name} of degree {self.degree}, bandwidth {self.bandwidth:.6g}, offset {self.offset:g}"


@dataclass(frozen=True)
class Cosine:
    """x·y / (|x| |y|), and 0 where one of them is 0."""

    name: ClassVar[str] = "cosine"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        return np.asarray(unit_rows(X) @ unit_rows(Y).T)

    def diagonal(self, X: Rows) -> Floats:
        return np.asarray(X.any(axis=1), np.float64)

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        U, V = unit_rows(X), unit_rows(Y)
        along = (coefficients * (U @ V.T)).sum(axis=1)[:, None]
        norms = _norms(X)
        return np.asarray((coefficients @ V - along * U) / np.where(norms > 0, norms, np.inf))

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}

    def __str__(self) -> str:
        return self.name


def unit_rows(X: Rows) -> Floats:
    """Return the rows at length 1; a row of zeros stays one."""
    # By the largest value first: its square may be too large for a number, or too small.
    X = X / _largest(X)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(X / np.where(norms > 0, norms, 1.0))


def _norms(X: Rows) -> Floats:
    largest = _largest(X)
    return np.asarray(largest * np.linalg.norm(X / largest, axis=1, keepdims=True))


def _largest(X: Rows) -> Floats:
    """Return the largest absolute value of each row, or 1 if that is 0."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    return np.asarray(np.where(largest > 0, largest, 1.0))
