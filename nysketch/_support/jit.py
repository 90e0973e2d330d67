"""Machine code: how the few hot loops of the package are compiled. Importing this loads numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

# No reassociation: sums keep their order.
FAST = {"contract", "nnan", "ninf", "nsz"}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function without the interpreter lock, and keep the code for the next process if possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            kept: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:
            # Neither the package's directory nor the home directory can be written, as cron may have it:
            # every process compiles for itself, which takes some seconds.
            kept = numba.njit(nogil=True, **options)(function)
        return kept

    return decorate
