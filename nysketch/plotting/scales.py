"""From numbers to places and words: scales of axes, round ticks, numbers for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high` along an axis, at places from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the place of a number; beyond the ends, the end."""
        if not self.high > self.low:
            return (self.start + self.stop) / 2
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers, at most so many, evenly from at most `low` to at least `high`."""
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        return [0.0, 1.0]
    if high - low <= 1e-7 * max(abs(low), abs(high)):  # too near to each other for ticks with few digits
        spread = abs(low) / 2 or 1.0
        low, high = low - spread if low < 0 else min(low, 0.0), high + spread
    step = _round_step((high - low) / max(most - 1, 1))
    while True:
        # A thousandth of a step beyond the last tick is on it.
        first, last = math.floor(low / step + 1e-3), math.ceil(high / step - 1e-3)
        last = max(last, first + 1)
        if last - first < most or last - first <= 2:
            return [i * step for i in range(first, last + 1)]
        step = _round_step(1.5 * step)


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the numbers among values that may be missing, or none."""
    return [v for v in values if isinstance(v, int | float) and math.isfinite(v)]


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for people: so many digits, groups of thousands, a true minus."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits + 4) and not isinstance(value, int):
        words = f"{value:.{digits - 1}e}"
    elif abs(value) >= 10 ** (digits - 1):
        words = f"{value:,.0f}"
    elif abs(value) >= 1e-4:
        decimals = digits - 1 - math.floor(math.log10(abs(value)))
        words = f"{value:.{decimals}f}"
        words = words.rstrip("0").rstrip(".") if "." in words else words
    else:
        words = f"{value:.{digits - 1}e}"
    return words.replace("-", "−").replace("e−0", "e−").replace("e+0", "e")


def count(value: int) -> str:
    """Return a whole number with groups of thousands."""
    return f"{value:,}".replace("-", "−")


def signed(value: float | None) -> str:
    """Return a number with its sign and two decimals, fewer where it is large."""
    if value is None or not math.isfinite(value):
        return "–"
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    words = f"{value:+,.{decimals}f}" if abs(value) < 1e6 else f"{value:+.1e}"
    return "0.00" if words in ("+0.00", "-0.00") else words.replace("-", "−")


def compact(value: float) -> str:
    """Return a number in few letters, for the ticks of an axis: 250k, 1.5M."""
    for limit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            unit = 1e3 if letter == "k" else limit
            return f"{value / unit:,.4g}{letter}".replace("-", "−")
    return number(value) if abs(value) < 1 else f"{value:,.6g}".replace("-", "−")


def share(value: float) -> str:
    """Return a share in percent."""
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return "1 row", "2 rows" or "no rows"."""
    if number == 1:
        return f"1 {one}"
    return f"{count(number) if number else 'no'} {many or one + 's'}"
