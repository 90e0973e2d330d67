"""Values in float64 by the plain definitions of the basis: slow, obvious, and for strings the only way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.tiles.points import Points
from nysketch.tiles.sizes import tile_rows_for
from nysketch.tiles.spans import SpansByRow

# What the kernels of strings do for every call, for the landmarks, is worth so many rows at least.
_TEXT_ROWS = 512


class Reference:
    """Adds values of the functions of any basis."""

    def __init__(self, basis: Basis) -> None:
        self._basis = basis
        self._step = max(_TEXT_ROWS if basis.text else 0, tile_rows_for(basis.m, basis.d))

    def workspace(self, chunk_rows: int) -> None:
        """There are no buffers to keep."""

    def add(
        self,
        points: Points,
        order: NDArray[np.int64],
        block_of: NDArray[np.int64],
        weights: Floats,
        sums: Floats,
        ws: None,
        spans: SpansByRow | None = None,
    ) -> None:
        """Add the values of the rows `order`, times their weights, to sums of their blocks (and spans)."""
        for start in range(0, len(order), self._step):
            part = slice(start, start + self._step)
            with np.errstate(over="ignore", invalid="ignore"):  # the pass complains about infinite sums
                values = self._basis.values(points.rows[order[part]])
                values *= weights[part, None]
                np.add.at(sums, block_of[part], values)
                if spans is not None:
                    np.add.at(spans.sums, spans.span_of[part], values)

    def ordered(self, sums: Floats) -> Floats:
        """Return the sums in the order of the basis, which is theirs."""
        return sums
