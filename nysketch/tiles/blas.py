"""The one routine of BLAS that is wanted as it is. Importing this loads the BLAS of SciPy.

`scipy.linalg.blas.dsyrk` holds the interpreter lock, so that threads would wait for each other, and NumPy's
product of a matrix with its own transpose cannot add to what is there: at 1000 landmarks and 131 rows that
took more than twice as long.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Called by ctypes, it runs without the lock.
_dsyrk = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 10)(
    get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
)


def add_gram(tile: Floats, into: Floats) -> None:
    """Add the products of a tile's columns with each other to the upper triangle, stored by column."""
    rows, m = tile.shape
    # It is told addresses only.
    if tile.dtype != np.float64 or into.dtype != np.float64 or into.shape != (m, m):
        raise ValueError("a tile and its products must be float64, and fit each other")
    if not into.flags.f_contiguous or not into.flags.writeable:
        raise ValueError("the products must be in column order")
    tile = np.ascontiguousarray(tile)
    upper, plain = ctypes.c_char(b"U"), ctypes.c_char(b"N")
    order, depth, one = ctypes.c_int(m), ctypes.c_int(rows), ctypes.c_double(1.0)
    at = ctypes.addressof
    _dsyrk(
        at(upper), at(plain), at(order), at(depth),
        at(one), tile.ctypes.data, at(order), at(one), into.ctypes.data, at(order),
    )  # fmt: skip
