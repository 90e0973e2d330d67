"""The sums of groups of columns: each part of the columns is evaluated like a basis of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.groups import GroupSums, Subset
from nysketch.basis.nystrom import NystromBasis
from nysketch.tiles.evaluators import evaluators_of, in_order
from nysketch.tiles.sums import add_on_grid, can_hold, grid_of

# Sums of one fragment: for each part an array, 1 × m, for each of its evaluators.
FragmentGroups = list[list[Floats]]


class GroupSummer:
    """Adds the values of chunks of rows for every part. Shared by threads, never written."""

    def __init__(self, basis: NystromBasis, parts: Sequence[Subset], precision: str) -> None:
        self._m = basis.m
        self._features = [basis.features_of(part) for part in parts]
        self._evaluators = [evaluators_of(basis.of_groups(part), precision) for part in parts]

    def workspace(self, chunk_rows: int) -> list[list[Any]]:
        """Return buffers for one thread that adds chunks of at most `chunk_rows` rows."""
        return [[e.workspace(chunk_rows) for e in evaluators] for evaluators in self._evaluators]

    def zeros(self) -> FragmentGroups:
        """Return sums to add to."""
        return [[np.zeros((1, self._m)) for _ in evaluators] for evaluators in self._evaluators]

    def add(
        self,
        rows: NDArray[Any],
        order: NDArray[np.int64],
        weights: Floats,
        into: FragmentGroups,
        ws: list[list[Any]],
    ) -> None:
        """Add the rows `order`, times their weights."""
        all_in_one = np.zeros(len(order), np.int64)
        for features, evaluators, sums, buffers in zip(
            self._features, self._evaluators, into, ws, strict=True
        ):
            part = _columns(rows, features)
            for evaluator, values, buffer in zip(evaluators, sums, buffers, strict=True):
                evaluator.add(part, order, all_in_one, weights, values, buffer)

    def sums(self, of: FragmentGroups) -> Floats:
        """Return parts × landmarks, in the order of the basis."""
        return np.concatenate([in_order(e, values) for e, values in zip(self._evaluators, of, strict=True)])


def _columns(rows: NDArray[Any], features: list[int]) -> NDArray[Any]:
    """Return some columns, without copying those that follow each other."""
    first, last = features[0], features[-1]
    if last - first == len(features) - 1:
        return rows[:, first : last + 1]
    return np.asfortranarray(rows[:, features])


class RunningGroups:
    """The sums over all fragments so far; `add` is exact, so their order does not matter."""

    def __init__(self, start: GroupSums, basis: NystromBasis, grid_exponent: int) -> None:
        """Add on this grid; for values of other magnitudes than 1, on one that is so many times coarser."""
        self._parts = start.parts
        self._grids = [
            grid_of(grid_exponent, basis.m, basis.of_groups(part).magnitudes()) for part in start.parts
        ]
        self._high, self._low = start.sums.high.copy(), start.sums.low.copy()

    def holds(self, sums: Floats) -> bool:
        """Tell whether the sums of a fragment can be added exactly; beyond that, order would show."""
        return all(can_hold(own, grid) for own, grid in zip(sums, self._grids, strict=True))

    def add(self, sums: Floats) -> None:
        """Add the sums of one fragment."""
        for i, grid in enumerate(self._grids):
            at = slice(i, i + 1)
            add_on_grid(sums[at], grid, self._high[at], self._low[at])

    def snapshot(self) -> GroupSums:
        """Return the sums as they are now."""
        return GroupSums(self._parts, ExactSum(self._high.copy(), self._low.copy()))
