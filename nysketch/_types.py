"""Types of arrays, and of functions that hear of progress, defined once."""

from __future__ import annotations

from collections.abc import Callable
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
# Called with how much is done, and how much there is to do: None where that is unknown.
Progress = Callable[[int, int | None], None]
