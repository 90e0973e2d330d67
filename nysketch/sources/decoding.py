"""Numbers of rows → values of a table: texts of codes, times, nulls. The way back from encoding.py.

What a vocabulary does not have is `(other)`, a time has no zone, and a text is `(text)`: the rest is lost
where rows are numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nysketch._types import Floats
from nysketch.columns import Column
from nysketch.kinds import Category, Text, Time

# Years 1 to 9999 in seconds, as kinds/time.py has them; others are no timestamps.
_MOST_SECONDS = 9.2e12


def decode(numbers: Floats, column: Column) -> pa.Array:
    """Return the values that the numbers of a column represent; rows × width of lists."""
    values = np.ascontiguousarray(numbers, np.float64)
    if isinstance(column.kind, Text):
        return pa.array([column.kind.value(value) for value in values[:, 0].tolist()], pa.string())
    if column.width > 1:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), column.width)
    values = values.reshape(-1)
    kind = column.kind
    if isinstance(kind, Category):
        codes = kind.codes(values)
        texts = pa.array([kind.label(code) for code in range(kind.missing)], pa.string())
        return texts.take(pa.array(codes, mask=codes == kind.missing))
    gone = np.isnan(values)
    if isinstance(kind, Time):
        gone |= np.abs(values) > _MOST_SECONDS
        microseconds = np.rint(np.where(gone, 0.0, values) * 1e6).astype(np.int64)
        return pa.array(microseconds, mask=gone).cast(pa.timestamp("us"))
    return pa.array(values, mask=gone) if gone.any() else pa.array(values)
