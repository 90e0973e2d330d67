"""Centre and scale of each column, from pilot rows; and which values are too wild to scale by.

A standard deviation is as large as the largest values make it: one 1e6 among 10,000 rows of deviation 1 gives
10,000, and the kernel sees no difference between the others any more. So "auto" leaves wild values out of the
mean and the deviation. The rows themselves stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.html_repr import counted
from nysketch._types import Floats
from nysketch.columns import Column, owners

# A value is wild if it is farther from the central 90 % of a column than three times their range. That of a
# normal column is 11.5 deviations from its mean, and of an exponential one 11: one row of 100,000. The share
# is that of bad rows on each side which it takes to hide them.
_CENTRAL = 0.05
_BEYOND = 3.0

# Wild values with less than this share of the variance stay: they change the deviation by at most a tenth,
# and columns with a few long tails keep the deviation that people expect.
_LEAST_SHARE = 0.2

# With less than this, nobody needs to be told.
_TOLD_SHARE = 0.5

# Quantiles of fewer rows say too little.
_FEWEST_ROWS = 20

# Farther out than so many deviations, a row would be too large for distances.
_FARTHEST = 1e50

# Divided by less, and then by a bandwidth, values may be no numbers any more.
SMALLEST_SCALE = 1e-200

_NAMED = 3  # columns, in a message


@dataclass(frozen=True)
class Wild:
    """The wild values of one column of the pilot: in how many rows, and their share of its variance."""

    column: str
    rows: int
    share: float
    left_out: bool  # of the scale

    @classmethod
    def require(cls, stored: Any) -> None:
        """Raise ValueError unless this is what the origin of a basis stores of one."""
        kinds = {"column": str, "rows": int, "share": float, "left_out": bool}
        if not isinstance(stored, dict) or {name: type(value) for name, value in stored.items()} != kinds:
            raise ValueError("its origin holds wild values that are none")
        if not 0 <= stored["share"] <= 1 or stored["rows"] < 0:
            raise ValueError("its origin holds wild values that are none")


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of each feature, and the columns that have wild values."""

    center: Floats
    scale: Floats
    wild: tuple[Wild, ...] = ()


def fit_scaling(rows: Floats, scaling: str, columns: Sequence[Column], trim: NDArray[np.bool_]) -> Scaling:
    """Return centre and scale of each feature; a constant feature keeps its own units.

    "auto" is "standard" without the wild values of the features to `trim`.
    """
    d = rows.shape[1]
    if scaling == "none":
        return Scaling(np.zeros(d), np.ones(d))
    largest = np.abs(rows).max(axis=0)
    wild: tuple[Wild, ...] = ()
    if scaling == "robust":
        lower, center, upper = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        scale = (upper - lower) / 1.3489795003921634  # of a Gaussian, this is its deviation
        # Half of the values equal: the quartiles see no spread, the deviation may.
        scale = np.where(scale > 0, scale, rows.std(axis=0))
    else:
        center, scale = rows.mean(axis=0), rows.std(axis=0)
        wild = _without_wild(rows, columns, trim & (scaling == "auto"), center, scale, largest)
    # The deviation of a constant column is rounding noise of its mean, not zero.
    varies = (scale > 1e-12 * largest) & (scale > SMALLEST_SCALE)
    return Scaling(center, np.where(varies, scale, 1.0), wild)


def _without_wild(
    rows: Floats,
    columns: Sequence[Column],
    trim: NDArray[np.bool_],
    center: Floats,
    scale: Floats,
    largest: Floats,
) -> tuple[Wild, ...]:
    """Find columns whose wild values hold much of the variance; leave these out of the features to `trim`.

    Centre, scale and largest value of such a feature are replaced in place.
    """
    names = owners(columns)
    found: dict[str, Wild] = {}
    for feature in np.flatnonzero(scale > 0):
        values = rows[:, feature]
        kept = ~is_wild(values)
        count = len(values) - int(kept.sum())
        if not count:
            continue
        middle = float(values[kept].mean())
        squares = (values - middle) ** 2
        share = float(squares[~kept].sum() / squares.sum())
        if not share >= _LEAST_SHARE:
            continue
        deviation = float(values[kept].std())
        trimmed = bool(trim[feature]) and squares.max() < (_FARTHEST * deviation) ** 2
        if trimmed:
            center[feature], scale[feature] = middle, deviation
            largest[feature] = np.abs(values[kept]).max()
        worst = Wild(names[feature], count, share, bool(trimmed))
        known = found.get(worst.column, worst)
        found[worst.column] = max(known, worst, key=lambda one: one.share)
    return tuple(found.values())


def notes_on_tiny(rows: Floats, columns: Sequence[Column]) -> list[str]:
    """Say which columns vary, but by too little to scale them by."""
    names = owners(columns)
    with np.errstate(over="ignore"):
        spread = rows.max(axis=0) - rows.min(axis=0)
    tiny = dict.fromkeys(names[i] for i in np.flatnonzero((spread > 0) & (spread < SMALLEST_SCALE)))
    if not tiny:
        return []
    listed = ", ".join(map(repr, list(tiny)[:_NAMED])) + (", …" if len(tiny) > _NAMED else "")
    return [
        f"columns that vary by less than {SMALLEST_SCALE:g} have no effect: {listed}. Multiply their "
        "values, or leave them out with `exclude`"
    ]


def is_wild(values: Floats) -> NDArray[np.bool_]:
    """Tell which values of a column are far beyond the central ones.

    Where half of the values are the same, such as the zeros of a rare flag, the others are looked at.
    """
    if len(values) < _FEWEST_ROWS:
        return np.zeros(len(values), bool)
    ordered = np.sort(values)
    usual = ordered[len(ordered) // 2]
    first, last = np.searchsorted(ordered, [usual, np.nextafter(usual, np.inf)])
    if 2 * (last - first) >= len(ordered):
        ordered = np.delete(ordered, slice(first, last))
    if not len(ordered):
        return np.zeros(len(values), bool)
    # Ranks, not interpolated quantiles: between 1 and 1e6 there is nothing.
    skipped = int(np.ceil(_CENTRAL * (len(ordered) - 1)))
    lower = min(ordered[min(skipped, len(ordered) - 1)], usual)
    upper = max(ordered[max(len(ordered) - 1 - skipped, 0)], usual)
    margin = _BEYOND * (upper - lower)
    return np.asarray((values < lower - margin) | (values > upper + margin))


def notes_on_wild(wild: Sequence[Wild], rows: int) -> list[str]:
    """Say which columns have wild values that hold much of their variance, and what to do."""
    told = sorted((one for one in wild if one.share >= _TOLD_SHARE), key=lambda one: -one.share)
    return [
        f"{_listed(part, rows)}. {advice}"
        for part, advice in (
            ([one for one in told if one.left_out], _LEFT_OUT),
            ([one for one in told if not one.left_out], _NOT_LEFT_OUT),
        )
        if part
    ]


_LEFT_OUT = (
    "Such values are left out of the scale. If a column has so long a tail, and not a few wrong values, "
    'its kind log or rank (`kinds`), or `scale="robust"`, shows more of the other rows'
)
_NOT_LEFT_OUT = (
    'Scaled by that, the other rows look alike. `scale="auto"` leaves such values out of the scale if the '
    'kernel has a bound, as the gaussian one has; `scale="robust"` goes by quartiles'
)


def _listed(wild: Sequence[Wild], rows: int) -> str:
    more = f"; and {counted(len(wild) - _NAMED, 'more column')}" if len(wild) > _NAMED else ""
    return "; ".join(_described(one, rows) for one in wild[:_NAMED]) + more


def _described(one: Wild, rows: int) -> str:
    verb = "holds" if one.rows == 1 else "hold"
    share = "nearly all" if one.share > 0.995 else f"{100 * one.share:.0f} %"
    return f"column {one.column!r}: {one.rows:,} of {rows:,} pilot rows {verb} {share} of its variance"
