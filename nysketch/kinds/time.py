"""Times: the hour of the day, the day of the week and of the year as places on circles; elapsed time.

A time is a number of seconds since 1970 on the clock of its own zone, so that nine o'clock is nine o'clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays, Floats
from nysketch.kinds.base import Kind, finite_number, flag

HOUR, WEEKDAY, YEARDAY, ELAPSED = "hour", "weekday", "yearday", "elapsed"
PARTS = (HOUR, WEEKDAY, YEARDAY, ELAPSED)
DAY = 86_400.0
YEAR = 365.2425 * DAY
_MONDAY = 4  # 1970-01-01 was a Thursday: so many days later it was Monday
_YEAR_ZERO = np.datetime64("1970-01-01", "Y")
# Years 1 and 9999, and a year more on either side: others have no calendar.
_FIRST, _LAST = -62_167_219_200.0, 253_433_923_200.0


@dataclass(frozen=True)
class Time(Kind):
    """Some parts of a time, and whether it is missing, if values of the pilot were.

    Each part on a circle has two features, its cosine and its sine; elapsed time has one, in days. A missing
    time has the features `neutral`.
    """

    parts: tuple[str, ...] = ()
    missing: bool = False
    neutral: tuple[float, ...] = ()

    name: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        if len(set(self.parts)) < len(self.parts) or not set(self.parts) <= set(PARTS):
            raise ValueError("the parts of a time are unknown")
        if not self.neutral:
            object.__setattr__(self, "neutral", (0.0,) * self._places)
        if len(self.neutral) != self._places:
            raise ValueError("the parts of a time have impossible features")
        at = 0
        for part in self.parts:
            if part == ELAPSED:
                at += 1
                continue
            if not all(-1.0 <= place <= 1.0 for place in self.neutral[at : at + 2]):
                raise ValueError("a missing time has a place outside of a circle")
            at += 2

    @property
    def _places(self) -> int:
        return sum(1 if part == ELAPSED else 2 for part in self.parts)

    @property
    def features(self) -> int:
        """Two for each part on a circle, one for elapsed time, one for missing times."""
        return self._places + self.missing

    def value(self, number: float) -> str | None:
        """Return a time on the clock of its zone, such as 2024-01-31T09:00:00; None out of the calendar."""
        return iso_time(number) if _FIRST <= number <= _LAST else None

    def labels(self, column: str) -> list[str]:
        """Return names such as cos(hour of ts)."""
        names = []
        for part in self.parts:
            names += [f"{column} (elapsed days)"] if part == ELAPSED else _on_circle(part, column)
        return [*names, *([f"{column} is missing"] if self.missing else [])]

    def expand(self, values: Floats) -> Floats:
        """Return cosines and sines, days, and which times are missing."""
        gone = ~((values >= _FIRST) & (values <= _LAST))
        known = np.where(gone, 0.0, values)
        out = np.empty((len(values), self.features))
        at = 0
        for part in self.parts:
            if part == ELAPSED:
                out[:, at] = known / DAY
                at += 1
                continue
            angles = 2 * np.pi * turns_of(part, known)
            out[:, at], out[:, at + 1] = np.cos(angles), np.sin(angles)
            at += 2
        out[gone, :at] = self.neutral
        if self.missing:
            out[:, at] = gone
        return out

    def ends(self, lower: float, upper: float) -> tuple[Floats, Floats]:
        """Return −1 and 1, for elapsed time the days, for missing times 0 and 1."""
        low, high = np.full(self.features, -1.0), np.ones(self.features)
        at = 0
        for part in self.parts:
            if part == ELAPSED:
                low[at] = np.fmin(lower / DAY, self.neutral[at])
                high[at] = np.fmax(upper / DAY, self.neutral[at])
            at += 1 if part == ELAPSED else 2
        if self.missing:
            low[at] = 0.0
        return low, high

    @property
    def indicators(self) -> NDArray[np.bool_]:
        """That of missing times."""
        return np.arange(self.features) >= self._places

    def describe(self) -> dict[str, Any]:
        """Return everything."""
        about = {"missing": self.missing, "neutral": list(self.neutral), "parts": list(self.parts)}
        return super().describe() | about

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays) -> Time:
        """Rebuild from what `describe` returned."""
        del arrays  # there are none
        neutral = tuple(finite_number(value, "the neutral value") for value in description["neutral"])
        parts = tuple(str(part) for part in description["parts"])
        return cls(parts, flag(description["missing"], "the flag of missing values"), neutral)


def _on_circle(part: str, column: str) -> list[str]:
    return [f"cos({part} of {column})", f"sin({part} of {column})"]


def iso_time(seconds: float) -> str:
    """Return seconds since 1970 as date and time, to the microsecond."""
    text = str(np.datetime64(round(seconds * 1e6), "us"))
    return text.rstrip("0").rstrip(".") if "." in text else text


def turns_of(part: str, seconds: Floats) -> Floats:
    """Return where times are on the circle of a part, from 0 to 1; weekdays are seven places."""
    if part == HOUR:
        return np.asarray(np.mod(seconds, DAY) / DAY)
    days = np.floor(seconds / DAY)
    if part == WEEKDAY:
        return np.asarray(np.mod(days - _MONDAY, 7) / 7)
    dates = days.astype("datetime64[D]")
    first = dates.astype("datetime64[Y]").astype("datetime64[D]")
    return np.asarray((dates - first).astype(np.float64) * DAY / YEAR)
