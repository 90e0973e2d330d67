"""What moved in each column, in its own terms: means of numbers, shares of values, places on a clock.

Means of indicators are shares, and those of places on a circle say where most times are. So all of it follows
from the means of features; cells tell these of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nysketch._types import Floats, Indices
from nysketch.basis.base import Basis
from nysketch.basis.layout import Place
from nysketch.columns import Column, feature_names
from nysketch.kinds import Category, Number, Text, Time
from nysketch.kinds.differences import name_of
from nysketch.kinds.time import DAY, ELAPSED, HOUR, WEEKDAY, YEAR
from nysketch.twosample.moments import ColumnMoments

# A column that varies by less than this, relative to its scale and its mean, is constant but for rounding.
CONSTANT = 1e-6
# Values that gained and lost most, of each category.
_VALUES = 5
# Mean places on a circle that are known no better than to this part of it are none.
_KNOWN = 0.125
# Hours of a day, days of a week, days of a year.
_PERIODS = {HOUR: 24.0, WEEKDAY: 7.0}
# The mean absolute value of a standard normal variable.
_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class FeatureShift:
    """How a feature moved: `shift` is the second mean less the first, in standard deviations of the first.

    `spread` is the second standard deviation relative to the first. Both are None where it was constant.
    `set_aside` counts the rows of either with values far beyond all others, which are not in these numbers.
    """

    feature: str
    means: tuple[float, float]
    deviations: tuple[float, float]
    shift: float | None
    standard_error: float | None
    spread: float | None
    set_aside: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class ValueShares:
    """A value of a category, and its shares in the rows of both."""

    value: str
    shares: tuple[float, float]
    standard_error: float


@dataclass(frozen=True)
class PartShift:
    """How times moved on a circle: mean places, in hours, days since Monday or days since New Year.

    `concentration` is 1 where all times are at one place, and 0 where there is no mean place. Then, and where
    too few rows tell, there is no `shift`.
    """

    part: str
    means: tuple[float, float]
    concentration: tuple[float, float]
    shift: float | None
    standard_error: float | None


@dataclass(frozen=True)
class ColumnChange:
    """How a column moved, in its own terms.

    `distance` is that of the means of its scaled features: as for numbers, in standard deviations of the
    pilot. `by_chance` is what it is where nothing moved. `share` is its part of the squared distance over all
    columns. `missing` are the shares of missing values in both, None if they are not known. Numbers have a
    `shift`, of a list the largest; times `parts`; categories the rest.
    """

    column: str
    kind: str
    distance: float
    by_chance: float
    share: float
    missing: tuple[float, float] | None = None
    shift: FeatureShift | None = None
    parts: tuple[PartShift, ...] = ()
    total_variation: float | None = None
    total_variation_by_chance: float | None = None
    gained: tuple[ValueShares, ...] = ()
    lost: tuple[ValueShares, ...] = ()
    other: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class _Both:
    """Moments of both; `missing[i]` is the feature that is the share of missing ones of feature i, or −1."""

    basis: Basis
    one: ColumnMoments
    two: ColumnMoments
    missing: Indices
    neutral: Floats

    @classmethod
    def of(cls, basis: Basis, moments: tuple[ColumnMoments, ColumnMoments]) -> _Both:
        missing, neutral = np.full(basis.d, -1), np.zeros(basis.d)
        for place in basis.layout.places:
            kind, at = place.column.kind, place.features
            if not isinstance(kind, Number | Time) or not kind.missing:
                continue
            places = slice(at.start, at.stop - 1)
            neutral[places], missing[places] = kind.neutral, at.stop - 1
        return cls(basis, *moments, missing, neutral)

    def known(self, i: int) -> tuple[_Known, _Known]:
        """Return moments of the known values of a feature, on both sides."""
        return self._known(self.one, i), self._known(self.two, i)

    def _known(self, side: ColumnMoments, i: int) -> _Known:
        mean, variance, rows = float(side.means[i]), float(side.variances[i]), side.rows
        missing, neutral = int(self.missing[i]), float(self.neutral[i])
        if missing < 0:
            return _Known(mean, variance, rows)
        # Wild values are no missing ones: among the others, these have a larger share.
        known = 1.0 - float(side.means[missing]) / float(side.left[i])
        if known * rows < 0.5:
            return _Known(neutral, 0.0, 1.0)
        away = (mean - neutral) / known
        rest = (variance + (mean - neutral) ** 2) / known - away**2
        return _Known(neutral + away, max(rest, 0.0), known * rows)


@dataclass(frozen=True)
class _Known:
    mean: float
    variance: float
    rows: float


def column_changes(
    basis: Basis,
    moments: tuple[ColumnMoments, ColumnMoments],
    missing: tuple[Floats | None, Floats | None],
) -> list[ColumnChange]:
    """Return how each column moved, those that moved most first.

    `missing` are the shares of rows without a value, by column, where no feature says so.
    """
    both = _Both.of(basis, moments)
    one, two = moments
    scaled = ((two.means - one.means) / basis.scale) ** 2
    chance = (one.variances / one.rows + two.variances / two.rows) / basis.scale**2
    total = float(scaled.sum())
    found = []
    for i, place in enumerate(basis.layout.places):
        at = place.features
        distance = float(scaled[at].sum())
        counted = None
        if missing[0] is not None and missing[1] is not None:
            counted = float(missing[0][i]), float(missing[1][i])
        found.append(
            ColumnChange(
                column=place.column.name,
                kind=_kind_of(place.column),
                distance=math.sqrt(distance),
                by_chance=math.sqrt(float(chance[at].sum())),
                share=distance / total if total > 0 else 0.0,
                **_terms(place, both, counted),
            )
        )
    return sorted(found, key=lambda change: -change.distance)


def _kind_of(column: Column) -> str:
    return "list" if column.kind is None and column.width > 1 else name_of(column.kind)


def feature_shifts(basis: Basis, moments: tuple[ColumnMoments, ColumnMoments]) -> list[FeatureShift]:
    """Return how the features moved that are numbers, those that moved most first.

    Means and deviations are those of known values, where a feature says which are missing.
    """
    both = _Both.of(basis, moments)
    return _sorted([shift for place in basis.layout.places for shift in _shifts_of(place, both)])


def _terms(place: Place, both: _Both, counted: tuple[float, float] | None) -> dict[str, Any]:
    kind, at = place.column.kind, place.features
    if isinstance(kind, Category):
        return _of_category(kind, both.one, both.two, at)
    if isinstance(kind, Number | Text | Time) and kind.missing:
        counted = float(both.one.means[at.stop - 1]), float(both.two.means[at.stop - 1])
    shifts = _sorted(_shifts_of(place, both))
    return {
        "missing": None if counted is None else (_share(counted[0]), _share(counted[1])),
        "parts": tuple(_of_parts(kind, both, at.start)) if isinstance(kind, Time) else (),
        "shift": shifts[0] if shifts else None,
    }


# ---- numbers --------------------------------------------------------------------------------------


def _shifts_of(place: Place, both: _Both) -> list[FeatureShift]:
    names = feature_names([place.column])
    return [_feature_shift(names[i - place.features.start], both, i) for i in _number_features(place)]


def _sorted(shifts: list[FeatureShift]) -> list[FeatureShift]:
    """Return those that moved most first, and before them those that were constant and are no more."""
    return sorted(shifts, key=lambda s: -math.inf if s.shift is None else -abs(s.shift))


def _number_features(place: Place) -> list[int]:
    """Return the features of a column that are numbers: no indicators, and no places on circles."""
    kind, start = place.column.kind, place.features.start
    if kind is None:
        return list(range(start, place.features.stop))
    if isinstance(kind, Number):
        return [start]
    if isinstance(kind, Time) and ELAPSED in kind.parts:
        return [start + 2 * kind.parts.index(ELAPSED)]
    return []


def _feature_shift(name: str, both: _Both, i: int) -> FeatureShift:
    sides = both.known(i)
    means = sides[0].mean, sides[1].mean
    deviations = math.sqrt(sides[0].variance), math.sqrt(sides[1].variance)
    aside = int(both.one.set_aside[i]), int(both.two.set_aside[i])
    unit, tolerance = deviations[0], CONSTANT * (float(both.basis.scale[i]) + abs(means[0]))
    if not unit > tolerance:
        moved = abs(means[0] - means[1]) > tolerance or deviations[1] > tolerance
        return FeatureShift(name, means, deviations, None if moved else 0.0, None, None, aside)
    error = math.sqrt(sum(side.variance / side.rows for side in sides))
    shift = (means[1] - means[0]) / unit
    return FeatureShift(name, means, deviations, shift, error / unit, deviations[1] / unit, aside)


# ---- categories -----------------------------------------------------------------------------------


def _of_category(kind: Category, one: ColumnMoments, two: ColumnMoments, at: slice) -> dict[str, Any]:
    # Shares, but for what rounding leaves of none and of all.
    first, second = np.clip(one.means[at], 0.0, 1.0), np.clip(two.means[at], 0.0, 1.0)
    errors = np.sqrt(first * (1 - first) / one.rows + second * (1 - second) / two.rows)
    change = second - first
    values = np.arange(len(kind.values))

    def told(order: Sequence[int]) -> tuple[ValueShares, ...]:
        return tuple(
            ValueShares(kind.values[v], (_share(first[v]), _share(second[v])), float(errors[v]))
            for v in order
        )

    by_gain = values[np.argsort(-change[values], kind="stable")].tolist()
    return {
        "gained": told([v for v in by_gain if change[v] > CONSTANT][:_VALUES]),
        "lost": told([v for v in reversed(by_gain) if change[v] < -CONSTANT][:_VALUES]),
        "missing": (_share(first[kind.missing]), _share(second[kind.missing])),
        "other": (_share(first[kind.other]), _share(second[kind.other])),
        "total_variation": min(0.5 * float(np.abs(change).sum()), 1.0),
        "total_variation_by_chance": 0.5 * _MEAN_ABSOLUTE * float(errors.sum()),
    }


def _share(value: float) -> float:
    """Return a share without what rounding did to it."""
    return min(max(float(value), 0.0), 1.0)


# ---- times ----------------------------------------------------------------------------------------


def _of_parts(kind: Time, both: _Both, start: int) -> list[PartShift]:
    found, at = [], start
    for part in kind.parts:
        if part != ELAPSED:
            cosines, sines = both.known(at), both.known(at + 1)
            found.append(
                _of_circle(
                    part, [(complex(c.mean, s.mean), c.rows) for c, s in zip(cosines, sines, strict=True)]
                )
            )
        at += 1 if part == ELAPSED else 2
    return found


def _of_circle(part: str, sides: list[tuple[complex, float]]) -> PartShift:
    """Return the shift of a mean place; `sides` are the mean points of the circle, and numbers of rows."""
    period = _PERIODS.get(part, YEAR / DAY)
    lengths = [min(abs(point), 1.0) for point, _ in sides]
    angles = [math.atan2(point.imag, point.real) / (2 * math.pi) for point, _ in sides]
    # Of the angle of a mean point, in turns: the deviation across is at most that of all directions.
    variance = sum(
        (1 - length**2) / max(rows * length**2, 1e-300)
        for length, (_, rows) in zip(lengths, sides, strict=True)
    )
    error = math.sqrt(variance) / (2 * math.pi)
    shift = (angles[1] - angles[0] + 0.5) % 1.0 - 0.5
    known = error < _KNOWN
    return PartShift(
        part,
        (angles[0] % 1.0 * period, angles[1] % 1.0 * period),
        (lengths[0], lengths[1]),
        shift * period if known else None,
        error * period if known else None,
    )
