"""Sums of one fragment and of all fragments so far, by block."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from nysketch import exact
from nysketch.accumulators import BlockSums
from nysketch.compiled import compiled
from nysketch.exact import ExactSum

Floats = NDArray[np.float64]

_two_sum = numba.njit(inline="always")(exact.two_sum)


@compiled()
def _add_on_grid(terms, grid, high, low):  # type: ignore[no-untyped-def]
    """Do what `ExactSum.__add__` does with `ExactSum.of(terms)`, in place and in one sweep.

    Every column has a grid of its own.
    """
    for i in range(terms.shape[0]):
        for j in range(terms.shape[1]):
            term = np.rint(terms[i, j] / grid[j]) * grid[j]
            total, error = _two_sum(high[i, j], term)
            total, error = _two_sum(total, error + low[i, j])
            high[i, j] = total + 0.0
            low[i, j] = error + 0.0


class FragmentSums:
    """Values, row counts and (where rows have them) weights by block, while a fragment is read.

    `values` has one array for each evaluator, whose order of columns is the evaluator's own.
    """

    def __init__(self, evaluators: int, blocks: int, m: int) -> None:
        self.values = [np.zeros((blocks, m)) for _ in range(evaluators)]
        self.rows = np.zeros(blocks, np.int64)
        self.weights = np.zeros(blocks)


class RunningSums:
    """The sums over all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: BlockSums, grid_exponent: int, magnitudes: Floats | None = None) -> None:
        """Add on this grid; for values of other magnitudes than 1, on one that is so many times coarser."""
        self._grid_exponent = grid_exponent
        larger = 0 if magnitudes is None else np.frexp(magnitudes)[1] - 1
        self._grid = np.ldexp(np.ones(start.shape[1]), grid_exponent + larger)
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()
        self._rows = start.rows.copy()
        self._weights = start.weights

    def holds(self, kernel_sums: Floats) -> bool:
        """Tell whether the sums of a fragment can be added exactly; beyond that, order would show."""
        # Half of what exact.py promises leaves room for other fragments.
        return bool((np.abs(kernel_sums) <= 2.0**104 * self._grid).all())

    def add(self, kernel_sums: Floats, rows: NDArray[np.int64], weights: Floats) -> None:
        """Add the sums of one fragment."""
        _add_on_grid(kernel_sums, self._grid, self._high, self._low)
        self._rows += rows
        if self._weights is not None:
            self._weights = self._weights + ExactSum.of(weights, grid_exponent=self._grid_exponent)

    def snapshot(self) -> BlockSums:
        """Return the sums as they are now."""
        return BlockSums(ExactSum(self._high.copy(), self._low.copy()), self._rows.copy(), self._weights)
