"""Choosing landmarks: pilot rows in, the indices of m of them out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def uniform(pilot_rows: int, m: int, seed: int) -> NDArray[np.int64]:
    """Draw m of the pilot's rows without replacement, in the order of the pilot."""
    chosen = np.random.default_rng([seed, 1]).choice(pilot_rows, m, replace=False)
    return np.sort(chosen).astype(np.int64)
