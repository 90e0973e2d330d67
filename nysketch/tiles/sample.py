"""The sample of a chunk of rows: those whose keys are smallest (accumulators/sample.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.accumulators.sample import RowSample
from nysketch.basis.base import Basis
from nysketch.tiles.hashing import find_sample


def sample_rows(
    basis: Basis,
    first_row: int,
    rows: NDArray[Any],
    keep: NDArray[np.bool_],
    weights: Floats | None,
    found: NDArray[np.int64],
    keys: NDArray[np.int64],
    *,
    key: int,
    bound: int,
    capacity: int,
) -> RowSample:
    """Return a sample of `capacity` of the rows `keep`, numbered from `first_row`, with keys up to `bound`.

    `found` and `keys` are buffers for as many rows.
    """
    # Without the user's seed: the same row must be found again when its file is subtracted.
    count = find_sample(first_row, keep, np.uint64(key), bound, found, keys)
    found, keys = found[:count], keys[:count]
    if count > capacity:  # at first, all of them: no need to look at the others
        bound = int(np.partition(keys, capacity)[capacity]) - 1
        found, keys = found[keys <= bound], keys[keys <= bound]
    taken = None if weights is None else weights[found]
    with np.errstate(over="ignore"):  # cut off by the sample
        kept = basis.transform(rows[found])
        kept = kept if basis.text else kept - basis.middle
    return RowSample.of(keys.copy(), kept, taken, bound=bound, capacity=capacity)
