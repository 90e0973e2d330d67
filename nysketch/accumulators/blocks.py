"""Kernel sums by random block of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from nysketch._support.exact import ExactSum
from nysketch._types import Arrays, Floats, Indices
from nysketch.accumulators.grids import grid_exponent
from nysketch.accumulators.limits import MOST_ROWS, Limits, require_weights
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, Statistic
from nysketch.basis.base import Basis

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation


@dataclass(frozen=True, eq=False)
class BlockSums(Statistic):
    """Kernel sums at the landmarks, row counts and weights, for each block of rows.

    Rows are assigned to blocks at random (tiles/hashing.py); the sum over blocks is the sum over rows,
    and the spread between blocks says how sure it is. `weights` is None where rows have no weights.
    """

    sums: ExactSum
    rows: Indices
    weights: ExactSum | None

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self:
        """Return the sums over no rows."""
        blocks = options.blocks
        return cls(
            ExactSum.zeros((blocks, basis.m)),
            np.zeros(blocks, np.int64),
            ExactSum.zeros(blocks) if options.weighted else None,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Blocks, landmarks."""
        blocks, m = self.sums.high.shape
        return blocks, m

    @property
    def weight(self) -> Floats:
        """The weight of each block: its number of rows where they have no weights."""
        return self.rows.astype(np.float64) if self.weights is None else self.weights.high

    def __add__(self, other: Self) -> Self:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights + other.weights
        return type(self)(self.sums + other.sums, self.rows + other.rows, weights)

    def __neg__(self) -> Self:
        weights = None if self.weights is None else -self.weights
        return type(self)(-self.sums, -self.rows, weights)

    def __sub__(self, other: Self) -> Self:
        return self + -other

    # ---- files

    def describe(self) -> dict[str, Any]:
        """There is nothing but the arrays."""
        return {}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        arrays: Arrays = {"blocks.rows": self.rows, **self.sums.arrays("blocks.sums")}
        if self.weights is not None:
            arrays |= self.weights.arrays("blocks.weights")
        return arrays

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool) -> Self:
        """Rebuild from what `arrays` returned."""
        sums = ExactSum.from_arrays("blocks.sums", arrays)
        weights = ExactSum.from_arrays("blocks.weights", arrays) if weighted else None
        rows = arrays["blocks.rows"]
        blocks = sums.high.shape[0]
        if rows.shape != (blocks,) or (weights is not None and weights.high.shape != (blocks,)):
            raise ValueError(f"its counts do not match {blocks} blocks")
        return cls(sums, rows, weights)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be sums over some rows."""
        if self.sums.high.shape != (len(self.rows), basis.m) or not len(self.rows):
            raise ValueError("its sums do not match the landmarks")
        if self.rows.dtype != np.int64 or (self.rows < 0).any() or sum(self.rows.tolist()) > MOST_ROWS:
            raise ValueError("its row counts are impossible")
        self.sums.check("blocks.sums")
        if self.weights is not None:
            self.weights.check("blocks.weights")
            if (self.weights.high < 0).any():
                raise ValueError("its weights are negative")
            require_weights("its weights", self.weights.high, self.rows, exact=tally.exact)
        limits = Limits.of(basis, tally.ranges)
        limits.require("its sums", self.sums.high, self.weight, weighted=self.weights is not None)

    def is_possible(self, basis: Basis) -> bool:
        """Tell whether rows can have these sums, given the range of the values that were added."""
        counts = (self.rows if self.weights is None else self.weights.high)[:, None]
        if (self.rows < 0).any() or (counts < 0).any():
            return False
        low, high = basis.range
        sums, slack = self.sums.high, 1e-3 * counts + 1e-9  # room for float32, but none beside 0
        return not (
            (np.isfinite(low) and (sums < low * counts - (slack if low else 0)).any())
            or (np.isfinite(high) and (sums > high * counts + slack).any())
        )

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return the number of blocks."""
        return {"blocks": len(self.rows)}

    def settings(self) -> dict[str, Any]:
        """Return the number of blocks, as an option."""
        return {"blocks": len(self.rows)}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of the sums: high and low parts, in snapshots, and of fragments under way."""
        sums = 8 * options.blocks * size.m
        return Memory(fixed=8 * sums, per_thread=4 * sums, stored=int(1.5 * sums))

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what reads the sums of a fragment."""
        return lambda chunk_rows: _Collector()

    def running(self, basis: Basis, options: PassOptions) -> _Running:
        """Return a running total that starts from this."""
        return _Running(self, basis, options)


@dataclass(frozen=True)
class _Part:
    sums: Floats
    rows: Indices
    weights: Floats


class _Collector:
    """Takes the kernel sums that every evaluation makes."""

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        self._evaluation = evaluation

    def add(self, chunk: EvaluatedChunk) -> None:
        """The evaluation has added its rows."""

    def finish(self) -> _Part:
        sums = self._evaluation.sums
        return _Part(self._evaluation.summer.sums(sums), sums.rows, sums.weights)


class _Running:
    limit = None

    def __init__(self, start: BlockSums, basis: Basis, options: PassOptions) -> None:
        from nysketch.tiles.sums import RunningSum, grid_of

        self._grid_exponent = grid_exponent(options.precision, weighted=options.weighted)
        self._sums = RunningSum(start.sums, grid_of(self._grid_exponent, basis.m, basis.magnitudes()))
        self._rows, self._weights = start.rows.copy(), start.weights

    def holds(self, part: _Part) -> bool:
        return self._sums.holds(part.sums)

    def add(self, part: _Part) -> None:
        self._sums.add(part.sums)
        self._rows += part.rows
        if self._weights is not None:
            self._weights = self._weights + ExactSum.of(part.weights, grid_exponent=self._grid_exponent)

    def snapshot(self) -> BlockSums:
        return BlockSums(self._sums.snapshot(), self._rows.copy(), self._weights)
