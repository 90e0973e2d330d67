"""Kernel sums by random block of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays
from nysketch.accumulators.exact import ExactSum


@dataclass(frozen=True, eq=False)
class BlockSums:
    """Kernel sums at the landmarks, row counts and weights, for each block of rows.

    Rows are dealt to blocks at random (tiles.deal_blocks); the sum over blocks is the sum over rows,
    and the spread between blocks says how sure it is. `weights` is None where rows have no weights.
    """

    sums: ExactSum
    rows: NDArray[np.int64]
    weights: ExactSum | None

    @classmethod
    def zeros(cls, blocks: int, m: int, *, weighted: bool) -> BlockSums:
        """Return the sums over no rows."""
        return cls(
            ExactSum.zeros((blocks, m)),
            np.zeros(blocks, np.int64),
            ExactSum.zeros(blocks) if weighted else None,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Blocks, landmarks."""
        blocks, m = self.sums.high.shape
        return blocks, m

    def __add__(self, other: BlockSums) -> BlockSums:
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights + other.weights
        return BlockSums(self.sums + other.sums, self.rows + other.rows, weights)

    def __neg__(self) -> BlockSums:
        weights = None if self.weights is None else -self.weights
        return BlockSums(-self.sums, -self.rows, weights)

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        arrays: Arrays = {"blocks.rows": self.rows, **self.sums.arrays("blocks.sums")}
        if self.weights is not None:
            arrays |= self.weights.arrays("blocks.weights")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> BlockSums:
        """Rebuild from what `arrays` returned."""
        sums = ExactSum.from_arrays("blocks.sums", arrays)
        weights = ExactSum.from_arrays("blocks.weights", arrays) if "blocks.weights" in arrays else None
        rows = arrays["blocks.rows"]
        blocks = sums.high.shape[0]
        if rows.shape != (blocks,) or (weights is not None and weights.high.shape != (blocks,)):
            raise ValueError(f"counts do not fit {blocks} blocks")
        return cls(sums, rows, weights)
