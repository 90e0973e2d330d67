"""Clumps of rows that are too narrow for a kernel: which there are, and what to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nysketch._types import Rows
from nysketch.kernels import (
    Gaussian,
    GaussianSum,
    Kernel,
    LaplacianL1,
    LaplacianL2,
    Matern32,
    Matern52,
    Product,
)
from nysketch.kernels.bandwidths import clumped


@dataclass(frozen=True)
class Clumps:
    """Rows that lie in clumps far narrower than the (smallest) bandwidth of their kernel."""

    share: float  # of the rows
    radius: float  # within which these have the neighbours in their clump: its median
    bandwidth: float
    auto: bool  # whether a bandwidth "auto" would be finer
    group: str | None = None  # of columns

    def note(self) -> str:
        """Say what is not seen, and what to try."""
        where = "" if self.group is None else f" of group {self.group!r}"
        remedy = '`bandwidth="auto"`' if self.auto else "a smaller `bandwidth`"
        return (
            f"{100 * self.share:.0f} % of the rows lie in clumps, with their neighbours within "
            f"{self.radius:.2g}, 1/{self.bandwidth / self.radius:.0f} of the bandwidth{where}: "
            "structure that fine is not seen. "
            f"Try {remedy}."
        )


def clumps_of(kernel: Kernel, X: Rows) -> Clumps | None:
    """Return the clumps of rows that are too narrow for a kernel with a bandwidth, or for one of a group."""
    if isinstance(kernel, Product):
        found = [(group, clumps_of(group.kernel, group.of(X))) for group in kernel.groups]
        named = [replace(one, auto=False, group=group.name) for group, one in found if one is not None]
        return max(named, key=lambda one: one.share, default=None)
    if isinstance(kernel, GaussianSum):
        bandwidth, metric = min(kernel.bandwidths), Gaussian.metric
    elif isinstance(kernel, Gaussian | LaplacianL1 | LaplacianL2 | Matern32 | Matern52):
        bandwidth, metric = kernel.bandwidth, kernel.metric
    else:
        return None
    clumps = clumped(X, bandwidth, metric=metric)
    return None if clumps is None else Clumps(*clumps, bandwidth, auto=isinstance(kernel, Gaussian))


def clumps_from_description(description: Mapping[str, Any]) -> Clumps:
    """Rebuild clumps from their values; raise ValueError if these are none."""
    known = {field.name for field in fields(Clumps)}
    if set(description) != known or not isinstance(description["group"], str | None):
        raise ValueError("its clumps are impossible")
    numbers = [description[name] for name in ("share", "radius", "bandwidth")]
    if not all(type(value) in (int, float) and 0 < value < 1e100 for value in numbers):
        raise ValueError("its clumps are impossible")
    if not isinstance(description["auto"], bool):
        raise ValueError("its clumps are impossible")
    return Clumps(**description)
