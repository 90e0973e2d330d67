"""Chunk: consecutive rows of a fragment, the unit in which rows reach the hot loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Rows


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a fragment; those with `keep` are valid. Views of a reused buffer.

    `first_row` counts from the start of the source, `row_in_input` from that of the input. `rows` are
    rows × d numbers, or as many strings (empty where there is none); `lower` and `upper` are the extremes
    of each column among the valid rows, of text those of its length in characters. `invalid` has a row for
    each that is not kept, and says which columns are invalid in it, last the weights; None if all are kept.
    `missing` says which numbers of kept rows are missing; None if none are.
    """

    first_row: int
    row_in_input: int
    rows: Rows
    keep: NDArray[np.bool_]
    weights: Floats | None
    lower: Floats
    upper: Floats
    invalid: NDArray[np.bool_] | None = None
    missing: NDArray[np.bool_] | None = None

    @property
    def dropped(self) -> int:
        """How many rows are not kept."""
        return 0 if self.invalid is None else len(self.invalid)
