"""From pilot rows to the kinds of columns: vocabularies, parts of times, quantiles; and how each is scaled.

A column counts as much as a standardised number, whatever its kind: the variances of its features add up to
1. Indicators of a category with shares p are divided by √(1 − Σp²), and the features of a place on a circle
or of a text by the root of their variance. The indicator of missing values, if their share is p, has the
variance 4p beside the 1 − p that known ones have, and no more than 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.basis.layout import Layout, Place
from nysketch.basis.scaling import Scaling, Wild, fit_scaling
from nysketch.columns import Column
from nysketch.errors import InputError, option
from nysketch.kinds import Category, KindRequest, Number, Text, Time
from nysketch.kinds.number import RANK, rank_knots
from nysketch.kinds.time import DAY, ELAPSED, HOUR, WEEKDAY, YEARDAY, turns_of

# Values of all vocabularies together, and of one: a landmark has a number in a table for each.
DEFAULT_VALUES = 500
MOST_VALUES = 200

# The variance that indicators are divided by is at least this: a value in one row of a thousand would be 31
# deviations from the others, and dominate them all. Here it is 4.5.
_LEAST_VARIANCE = 0.1

# Hour, weekday and day of the year, and missing times.
_MOST_PLACES = 7
# A missing value is as far from others as two deviations, where it is rare. At one deviation, with which
# number and indicator had variance 1 together, missing values that rose from 1 to 5 % of 20,000 rows of eight
# columns were found in 58 to 80 % of all cases, of which 90 are wanted.
_MISSING = 2.0

# A part of a time is taken if the pilot shows most of its circle. Of a month, days of the year say which
# month it is, not which season: every comparison with another would find them different.
_HOURS, _WEEKDAYS, _YEAR_DAYS = 6, 5, 330


def most_features(columns: Sequence[Column]) -> tuple[int, int]:
    """Return how many features columns will have at most, and how many of them are indicators of categories.

    Of those that have not seen the pilot, vocabularies may be as large as they can be.
    """
    others, known, unknown = 0, 0, 0
    for column in columns:
        kind = column.kind
        if isinstance(kind, Category):
            known += kind.features if kind.values else 0
            unknown += not kind.values
        elif isinstance(kind, Time):
            others += kind.features + 1 if kind.parts else _MOST_PLACES
        else:
            others += column.features
    values = known + min(MOST_VALUES * unknown, DEFAULT_VALUES + 2 * unknown) + 2 * unknown
    return others + values, values


def fit_kinds(
    rows: Floats,
    columns: Sequence[Column],
    values: Mapping[str, Mapping[float, str]],
    requests: Mapping[str, KindRequest],
) -> tuple[list[Column], Floats]:
    """Return columns with what their kinds take from pilot rows, and the rows as these columns have them.

    Categories come as numbers that `values` know the texts of; NaN is a missing value.
    """
    fitted, rows = list(columns), rows.copy(order="K")
    room = DEFAULT_VALUES
    for i, place in enumerate(Layout.of(columns).places):
        column, at = place.column, place.numbers.start
        if isinstance(column.kind, Text):
            gone = np.isnan(rows[:, at])
            _require_some(gone, column.name)
            fitted[i] = replace(column, kind=Text(missing=bool(gone.any())))
            continue
        if column.width > 1 or column.text:
            continue
        found = rows[:, at]
        if isinstance(column.kind, Category):
            kind, rows[:, at] = _vocabulary(
                found, values.get(column.name, {}), min(MOST_VALUES, max(room, 2))
            )
            room -= len(kind.values)
            fitted[i] = replace(column, kind=kind)
            continue
        gone = np.isnan(found)
        _require_some(gone, column.name)
        if isinstance(column.kind, Time):
            parts = column.kind.parts or _parts(found[~gone], column.name)
            fitted[i] = replace(column, kind=Time(parts, missing=bool(gone.any())))
            continue
        request = requests.get(column.name)
        if request is None and not gone.any():
            fitted[i] = replace(column, kind=None)
            continue
        transform = "linear" if request is None else request.transform
        knots = rank_knots(found) if transform == RANK else None
        if transform == "linear" and not gone.any():
            fitted[i] = replace(column, kind=None)
        else:
            fitted[i] = replace(column, kind=Number(transform, missing=bool(gone.any()), knots=knots))
    return fitted, rows


def _require_some(gone: NDArray[np.bool_], name: str) -> None:
    if gone.all():
        raise InputError(
            f"column {name!r} has no values in the pilot. Leave it out with {option('exclude', name)}"
        )


def _vocabulary(found: Floats, values: Mapping[float, str], most: int) -> tuple[Category, Floats]:
    """Return the most frequent values of a column, and the codes of all."""
    known, inverse, counts = np.unique(found, return_inverse=True, return_counts=True)
    texts = [
        values.get(float(number)) for number in known.tolist()
    ]  # none of missing values, nor of long ones
    present = [i for i, text in enumerate(texts) if text is not None]
    # Of values as frequent, those first that come first in a dictionary, whatever the order of rows.
    ordered = sorted(present, key=lambda i: (-int(counts[i]), str(texts[i]).encode()))[:most]
    kind = Category(tuple(str(texts[i]) for i in ordered))
    code_of = np.full(len(known), float(kind.other))
    code_of[np.isnan(known)] = kind.missing
    code_of[ordered] = np.arange(len(ordered))
    return kind, code_of[inverse]


def varying_parts(found: Floats) -> tuple[str, ...]:
    """Return the parts of a time that the pilot shows most of; there may be none."""
    hours = len(np.unique(np.floor(24 * turns_of(HOUR, found))))
    weekdays = len(np.unique(turns_of(WEEKDAY, found)))
    span = float(found.max() - found.min()) / DAY
    varies = {HOUR: hours >= _HOURS, WEEKDAY: weekdays >= _WEEKDAYS, YEARDAY: span >= _YEAR_DAYS}
    return tuple(part for part, enough in varies.items() if enough)


def _parts(found: Floats, name: str) -> tuple[str, ...]:
    parts = varying_parts(found)
    if not parts:
        raise InputError(
            f"column {name!r} is a time of which the pilot shows no full day, week or year: name its parts, "
            f"such as {option('kinds', {name: 'hour'})}, or leave it out with {option('exclude', name)}"
        )
    return parts


def facts_of_columns(rows: Floats, scaled: Floats, columns: Sequence[Column]) -> dict[str, dict[str, float]]:
    """Return what to remember of columns in the pilot: their share of the mean squared distance of two rows.

    And the share of rows whose value is missing, and of those whose value is in the vocabulary.
    """
    places = Layout.of(columns).places
    spread = [float(scaled[:, place.features].var(axis=0).sum()) for place in places]
    whole, found = sum(spread), dict[str, dict[str, float]]()
    for place, own in zip(places, spread, strict=True):
        kind, values = place.column.kind, rows[:, place.numbers.start]
        facts = {"share": own / whole if whole > 0 else 0.0}
        if isinstance(kind, Category):
            codes = kind.codes(values)
            facts["covered"] = float((codes < kind.other).mean())
            facts["missing"] = float((codes == kind.missing).mean())
        elif kind is not None:
            facts["missing"] = float(np.isnan(values).mean())
        found[place.column.name] = facts
    return found


@dataclass(frozen=True)
class Encoding:
    """Columns whose kinds know where their missing values go; centre and scale of each feature."""

    columns: tuple[Column, ...]
    center: Floats
    scale: Floats
    wild: tuple[Wild, ...]


def fit_encoding(rows: Floats, columns: Sequence[Column], scaling: str, trim: NDArray[np.bool_]) -> Encoding:
    """Return centre and scale of all features; `trim` says of which wild values are left out.

    Columns without kinds are scaled together, as if there were no others.
    """
    if all(column.kind is None for column in columns):
        plain_only = fit_scaling(rows, scaling, columns, trim)
        return Encoding(tuple(columns), plain_only.center, plain_only.scale, plain_only.wild)
    layout = Layout.of(columns)
    center, scale = np.zeros(layout.d), np.ones(layout.d)
    fitted, wild = list(columns), list[Wild]()
    plain = [place for place in layout.places if place.column.kind is None]
    if plain:
        numbers = np.concatenate([np.r_[place.numbers] for place in plain])
        features = np.concatenate([np.r_[place.features] for place in plain])
        found = fit_scaling(rows[:, numbers], scaling, [place.column for place in plain], trim[features])
        center[features], scale[features] = found.center, found.scale
        wild += found.wild
    for i, place in enumerate(layout.places):
        kind, at = place.column.kind, place.features
        if kind is None:
            continue
        values = place.of(rows)
        if isinstance(kind, Text):
            one = _of_text(kind, values, scaling)
        elif isinstance(kind, Number):
            one = _of_number(kind, values, scaling, place, trim)
            wild += one.wild
            fitted[i] = replace(place.column, kind=replace(kind, neutral=_middle(kind, values, one.center)))
        else:
            assert isinstance(kind, Category | Time)
            one, neutral = _of_places(kind, values, scaling)
            if isinstance(kind, Time):
                fitted[i] = replace(place.column, kind=replace(kind, neutral=neutral))
        center[at], scale[at] = one.center, one.scale
    return Encoding(tuple(fitted), center, scale, tuple(wild))


def _middle(kind: Number, values: Floats, center: Floats) -> float:
    """Return where missing values go."""
    if center[0] != 0:
        return float(center[0])
    return float(kind.transformed(values[~np.isnan(values)]).mean())


def _of_number(kind: Number, values: Floats, scaling: str, place: Place, trim: NDArray[np.bool_]) -> Scaling:
    gone = np.isnan(values)
    known = kind.transformed(values[~gone])[:, None]
    found = fit_scaling(known, scaling, [Column(place.column.name)], trim[place.features][:1])
    if not kind.missing:
        return found
    share = float(gone.mean())
    center, scale = (share, _missing_scale(share)) if scaling != "none" else (0.0, 1.0)
    return Scaling(np.append(found.center, center), np.append(found.scale, scale), found.wild)


def _of_places(kind: Category | Time, values: Floats, scaling: str) -> tuple[Scaling, tuple[float, ...]]:
    """Return the scaling of indicators, or of places on circles; and the mean of known places."""
    features = kind.expand(values)
    mean = features.mean(axis=0)
    neutral: tuple[float, ...]
    if isinstance(kind, Category):
        scale = np.full(len(mean), _root(1.0 - float(mean @ mean)))
        # Two codes differ by exactly a side of a simplex, which tiles and cells rely on.
        mean, neutral = np.zeros(len(mean)), ()
    else:
        known = ~np.isnan(values)
        mean_known = features[known].mean(axis=0)
        variances = features[known].var(axis=0)
        scale, at, places = np.ones(len(mean)), 0, []
        for part in kind.parts:
            width = 1 if part == ELAPSED else 2
            variance = float(variances[at : at + width].sum())
            deviation = np.sqrt(variance) if part == ELAPSED and variance > 0 else _root(variance)
            scale[at : at + width] = deviation
            places += mean_known[at : at + width].tolist()
            at += width
        if kind.missing:
            scale[at] = _missing_scale(1.0 - float(known.mean()))
        neutral = tuple(places)
        mean[:at] = mean_known[:at]
    if scaling == "none":
        return Scaling(np.zeros(len(mean)), np.ones(len(mean))), neutral
    return Scaling(mean, scale), neutral


def _of_text(kind: Text, values: Floats, scaling: str) -> Scaling:
    """Return the scaling of places on a sphere: one scale for all of their coordinates."""
    features = kind.expand(values)
    center, scale = np.zeros(kind.features), np.ones(kind.features)
    if scaling == "none":
        return Scaling(center, scale)
    known = float((~np.isnan(values[:, 0])).mean())
    # Missing texts have a place, too: all places together have the variance of known ones.
    scale[: kind.width] = _root(float(features[:, : kind.width].var(axis=0).sum()) / known)
    scale[kind.width :] = _missing_scale(1.0 - known)
    return Scaling(features.mean(axis=0), scale)


def _missing_scale(share: float) -> float:
    """Return what the indicator of missing values is divided by, if this is their share."""
    return _root((1.0 - share) * max(share, _MISSING**-2))


def _root(variance: float) -> float:
    return float(np.sqrt(max(variance, _LEAST_VARIANCE)))
