"""Grids of exact sums: how finely terms are rounded before they are added (_support/exact.py)."""

from __future__ import annotations

PRECISIONS = ("float32", "float64")

# Grid of the exact sums. A float32 kernel value is good to 1e-7, so 2**-44 (6e-14) on the sum over a
# fragment is invisible, and leaves `low` so short that it is stored in half the bytes.
GRID_FLOAT32 = -44
# Rows have weights between these, or 0: what sums on the next grid hold to better than 1e-6.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-12, 1e12
# For float64 values, and for weighted rows.
GRID_FINE = -64
# For sums of spans where those of blocks are on GRID_FLOAT32. They are compared with each other, to a few
# digits; and spans of up to 5e8 rows then need no `low` at all, a third of the bytes.
GRID_SPANS = -24

# What rounding may do to a sum of kernel values, relative to the weight of the rows.
SLACK = 1e-5


def grid_exponent(precision: str, *, weighted: bool) -> int:
    """Return the grid for sums of values around 1 of this precision."""
    return GRID_FLOAT32 if precision == "float32" and not weighted else GRID_FINE


def grid_exponent_of_spans(precision: str, *, weighted: bool) -> int:
    """Return the grid for the sums of spans."""
    return GRID_SPANS if precision == "float32" and not weighted else GRID_FINE


def grid_exponent_of_moments(*, weighted: bool, bounded: bool) -> int:
    """Return the grid for sums of products of two values, which are float64 whatever the precision."""
    # Far from all but a few landmarks, products are small, and small eigenvalues of their sums matter: hence
    # the fine grid. Kernels without a bound have no such values, but a row a thousand times as far out as
    # others has products 1e12 times as large, for a cubic kernel 1e18 times: what the coarser one just holds.
    return GRID_FINE if weighted or bounded else GRID_FLOAT32
