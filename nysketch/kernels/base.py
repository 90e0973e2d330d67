"""What every kernel offers."""

from __future__ import annotations

import operator
from typing import Any, Protocol

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.errors import UsageError

# Scaled rows: rows × features, or a one-dimensional array of strings for the kernels of text.


class Kernel(Protocol):
    """A positive semidefinite function of two rows. A value: two of equal parameters are equal."""

    @property
    def name(self) -> str:
        """What `--kernel` calls it."""
        ...

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        """Return the matrix of values between the rows of X and of Y."""
        ...

    def diagonal(self, X: Rows) -> Floats:
        """Return k(x, x) for every row."""
        ...

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        """Return Σ_j coefficients[i, j] ∇_x k(x_i, y_j) for every row of X.

        The sum, not its terms: they would take rows × rows × features of memory, and nobody wants them.
        Where a kernel has a kink the gradient of the kink is 0.
        """
        ...

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest value it can take."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the sketch file stores of this kernel; `kernel_from_description` rebuilds it."""
        ...

    def __str__(self) -> str:
        """Return its name and parameters for people."""
        ...


def inverse_or_zero(lengths: Floats) -> Floats:
    """1 / length, and 0 for the length 0, or one so small that its inverse is no number."""
    smallest = np.finfo(np.float64).tiny
    return np.asarray(np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths >= smallest))


def whole(value: Any, name: str) -> int:
    """Return a parameter that must be a whole number, or raise a UsageError that says so."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"`{name}` must be an integer, not {value!r}") from None
