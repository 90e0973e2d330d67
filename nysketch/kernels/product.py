"""Products of kernels over groups of columns: the kernels of independence."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nysketch._types import Floats, Rows
from nysketch.errors import UsageError
from nysketch.kernels.base import Kernel
from nysketch.kernels.radial import Gaussian, GaussianSum


@dataclass(frozen=True)
class Group:
    """A kernel of the features from `start` up to `stop`; `name` is the user's word for them."""

    name: str
    start: int
    stop: int
    kernel: Kernel

    def of(self, X: Rows) -> Rows:
        """Return the features of this group."""
        return X[:, self.start : self.stop]

    def describe(self) -> dict[str, Any]:
        """Return what the sketch file stores."""
        return {"name": self.name, "features": [self.start, self.stop], "kernel": self.kernel.describe()}


@dataclass(frozen=True)
class Product:
    """Π_g k_g(x_g, y_g) over groups of features that follow each other without gaps."""

    groups: tuple[Group, ...]

    name: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        stops = [group.stop for group in self.groups]
        if not stops or [group.start for group in self.groups] != [0, *stops[:-1]]:
            raise UsageError("the groups of a product kernel must follow each other without gaps")
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names) or any(group.start >= group.stop for group in self.groups):
            raise UsageError("the groups of a product kernel must have different names, and columns")

    def only(self, numbers: Sequence[int]) -> Kernel:
        """Return the kernel of some groups, whose features follow each other then."""
        if len(numbers) == 1:
            return self.groups[numbers[0]].kernel
        chosen, start = [], 0
        for group in (self.groups[number] for number in numbers):
            stop = start + group.stop - group.start
            chosen.append(Group(group.name, start, stop, group.kernel))
            start = stop
        return Product(tuple(chosen))

    @property
    def range(self) -> tuple[float, float]:
        low, high = 1.0, 1.0
        for group in self.groups:
            # 0 times infinity is 0 here: a bound of 0 is reached.
            ends = [a * b if a and b else 0.0 for a, b in itertools.product((low, high), group.kernel.range)]
            low, high = min(ends), max(ends)
        return low, high

    def factors(self, X: Rows, Y: Rows) -> list[Floats]:
        """Return the matrix of each group's kernel."""
        return [group.kernel(group.of(X), group.of(Y)) for group in self.groups]

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        product = np.ones((len(X), len(Y)))
        for factor in self.factors(X, Y):
            product *= factor
        return product

    def diagonal(self, X: Rows) -> Floats:
        product = np.ones(len(X))
        for group in self.groups:
            product *= group.kernel.diagonal(group.of(X))
        return product

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        factors = self.factors(X, Y)
        parts = []
        for i, group in enumerate(self.groups):
            others = coefficients.copy()
            for j, factor in enumerate(factors):
                if j != i:
                    others *= factor
            parts.append(group.kernel.gradient(group.of(X), group.of(Y), others))
        return np.concatenate(parts, axis=1)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "groups": [group.describe() for group in self.groups]}

    def __str__(self) -> str:
        return "product of " + "; ".join(f"{group.name}: {group.kernel}" for group in self.groups)


def gaussian_bandwidths(kernel: Kernel, d: int) -> list[Floats]:
    """Return the bandwidth of each of d features, for each of the Gaussians that a kernel is the mean of.

    There are none if it is no such kernel.
    """
    if isinstance(kernel, Gaussian):
        return [np.full(d, kernel.bandwidth)]
    if isinstance(kernel, GaussianSum):
        return [np.full(d, width) for width in kernel.bandwidths]
    if isinstance(kernel, Product):
        parts = [gaussian_bandwidths(group.kernel, group.stop - group.start) for group in kernel.groups]
        if all(len(part) == 1 for part in parts):
            return [np.concatenate([part[0] for part in parts])]
    return []
