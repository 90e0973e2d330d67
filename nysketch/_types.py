"""Types of arrays, defined once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Labels = NDArray[np.int32]
# Rows of a table: rows × features, or strings, one a row.
Rows = NDArray[Any]
# Arrays by the names they have in a file.
Arrays = dict[str, NDArray[Any]]
