"""Who evaluates the functions of a basis: the fastest of gaussian.py, general.py and reference.py."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels import gaussian_bandwidths
from nysketch.tiles.gaussian import GaussianTiles
from nysketch.tiles.general import GeneralTiles
from nysketch.tiles.points import Points
from nysketch.tiles.reference import Reference
from nysketch.tiles.spans import SpansByRow


class Evaluator(Protocol):
    """Evaluates the functions of a basis at many rows and adds them up. Shared by threads, never written."""

    def workspace(self, chunk_rows: int) -> Any:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        ...

    def add(
        self,
        points: Points,
        order: NDArray[np.int64],
        block_of: NDArray[np.int64],
        weights: Floats,
        sums: Floats,
        ws: Any,
        spans: SpansByRow | None = None,
    ) -> None:
        """Add the values of the rows `order`, times their weights, to sums of their blocks (and spans)."""
        ...

    def ordered(self, sums: Floats) -> Floats:
        """Return such sums in the order of the basis."""
        ...


def evaluators_of(basis: Basis, precision: str) -> list[Evaluator]:
    """Return the fastest evaluators whose mean is what the basis wants."""
    if precision == "float64" or basis.text:
        return [Reference(basis)]
    if isinstance(basis, NystromBasis) and (widths := gaussian_bandwidths(basis.kernel, basis.d)):
        return [GaussianTiles(basis, width) for width in widths]
    return [GeneralTiles(basis)]


def in_order(evaluators: list[Evaluator], values: list[Floats]) -> Floats:
    """Return such values, of one array for each evaluator, in the order of the basis."""
    parts = [e.ordered(sums) for e, sums in zip(evaluators, values, strict=True)]
    return parts[0] if len(parts) == 1 else np.asarray(sum(parts)) / len(parts)
