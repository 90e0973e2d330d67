"""Clusters in the terms of their columns: means of numbers, shares of values, typical times, missing shares.

A centroid has a number for each feature. What people ask is what its rows have in each column: `present`
answers in plain values, ready for JSON, `in_words` in a few words.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.basis.layout import Place
from nysketch.kinds import Category, Number, Time
from nysketch.kinds.number import LINEAR
from nysketch.kinds.time import ELAPSED, HOUR, WEEKDAY, YEARDAY
from nysketch.models.kmeans import KMeansModel
from nysketch.models.stored import AnyModel

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Most frequent values of a category that are listed, and how many of them in words.
_MOST_VALUES, _MOST_IN_WORDS = 10, 3
# Of less than this share known, or of means this near the middle of a circle, nothing can be said.
_LEAST_KNOWN, _LEAST_CONCENTRATION = 1e-9, 0.1
# In words, shares below this are not worth one.
_LEAST_SHARE = 0.005
# The circle of each part of a time, in its unit.
_CIRCLES = {HOUR: (24.0, "h"), WEEKDAY: (7.0, "days"), YEARDAY: (365.2425, "days")}


def present(model: AnyModel) -> list[dict[str, Any]]:
    """Return what the rows of each cluster have in each column, by label, ready for JSON."""
    centres, shares = (
        (model.centroids, model.shares) if isinstance(model, KMeansModel) else (model.means, model.weights)
    )
    return [
        {
            "cluster": label,
            "columns": [_column(place, centre[place.features]) for place in model.layout.places],
            "share": float(share),
        }
        for label, (centre, share) in enumerate(zip(centres, shares, strict=True))
    ]


def _column(place: Place, features: Floats) -> dict[str, Any]:
    kind, about = place.column.kind, {"name": place.column.name}
    if kind is None:
        means = features.tolist()
        return about | {"kind": "number", "mean": means[0] if place.column.width == 1 else means}
    if isinstance(kind, Category):
        return about | _category(kind, features)
    assert isinstance(kind, Number | Time)
    missing = float(np.clip(features[-1], 0, 1)) if kind.missing else 0.0
    known = features[: kind.features - kind.missing]
    # Missing values are at the neutral place, which says nothing of the others.
    if 1 - missing > _LEAST_KNOWN:
        known = (known - missing * np.asarray(kind.neutral)) / (1 - missing)
    else:
        known = np.full(len(known), np.nan)
    own = _number(kind, float(known[0])) if isinstance(kind, Number) else _time(kind, known)
    return about | own | {"missing": missing}


def _number(kind: Number, mean: float) -> dict[str, Any]:
    """Return the mean; of a transformed number, the number that has the mean transformed value."""
    if kind.transform == LINEAR:
        return {"kind": kind.name, "mean": _finite(mean)}
    restored = float(kind.restored(np.array([mean]))[0])
    return {"kind": kind.name, "transform": kind.transform, "typical": _finite(restored)}


def _category(kind: Category, shares: Floats) -> dict[str, Any]:
    shares = np.clip(shares, 0, 1)
    order = np.argsort(-shares[: kind.other], kind="stable")[:_MOST_VALUES]
    values = [{"share": float(shares[i]), "value": kind.values[i]} for i in order.tolist() if shares[i] > 0]
    return {
        "kind": kind.name,
        "missing": float(shares[kind.missing]),
        "other": float(shares[kind.other]),
        "values": values,
    }


def _time(kind: Time, known: Floats) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    at = 0
    for part in kind.parts:
        if part == ELAPSED:
            parts[part] = {"mean": _date(float(known[at]))}
            at += 1
            continue
        cosine, sine = known[at : at + 2].tolist()
        parts[part] = _on_circle(part, cosine, sine)
        at += 2
    return {"kind": kind.name, "parts": parts}


def _on_circle(part: str, cosine: float, sine: float) -> dict[str, Any]:
    """Return the circular mean, its concentration from 0 (anywhere) to 1, and the deviation."""
    concentration = math.hypot(cosine, sine)
    if not concentration >= _LEAST_CONCENTRATION:
        return {"concentration": _finite(concentration), "deviation": None, "mean": None}
    circle, _ = _CIRCLES[part]
    deviation = math.sqrt(2 * abs(math.log(min(concentration, 1.0)))) * circle / (2 * math.pi)
    turn = math.atan2(sine, cosine) / (2 * math.pi) % 1.0
    return {
        "concentration": min(concentration, 1.0),
        "deviation": deviation,
        "mean": _named(part, turn),
    }


def _named(part: str, turn: float) -> str:
    """Return the hour, the weekday or the day of the year at a place on its circle."""
    if part == HOUR:
        minutes = round(turn * 1440) % 1440
        return f"{minutes // 60:02d}:{minutes % 60:02d}"
    if part == WEEKDAY:
        return _WEEKDAYS[round(turn * 7) % 7]
    day = datetime.date(2001, 1, 1) + datetime.timedelta(days=min(round(turn * 365.2425), 364))
    return f"{day.day} {_MONTHS[day.month - 1]}"


def _date(days: float) -> str | None:
    try:
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=days))
    except (OverflowError, ValueError):
        return None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


# ---- words


def in_words(column: dict[str, Any]) -> str:
    """Say what `present` found in a column."""
    if column["kind"] == Category.name:
        shown = [each for each in column["values"][:_MOST_IN_WORDS] if each["share"] >= _LEAST_SHARE]
        words = [f"{each['value']} {each['share']:.0%}" for each in shown]
        rest = 1 - column["missing"] - sum(each["share"] for each in shown)
        if shown and rest >= _LEAST_SHARE:
            words.append(f"others {rest:.0%}")
        elif not shown and rest >= _LEAST_SHARE:
            words.append(f"many values {rest:.0%}")
    elif column["kind"] == Time.name:
        words = [_part_in_words(part, found) for part, found in column["parts"].items()]
    elif "typical" in column:
        words = ["–" if column["typical"] is None else f"typically {column['typical']:.4g}"]
    else:
        mean = column["mean"]
        shown = mean[:4] if isinstance(mean, list) else [mean]
        words = ["–" if value is None else f"{value:.4g}" for value in shown]
        words += ["…"] if isinstance(mean, list) and len(mean) > len(shown) else []
    missing = column.get("missing", 0.0)
    return ", ".join([*words, *([f"{missing:.0%} missing"] if missing >= _LEAST_SHARE else [])])


def _part_in_words(part: str, found: dict[str, Any]) -> str:
    if part == ELAPSED:
        return found["mean"] or "–"
    if found["mean"] is None:
        return f"any {'day of the year' if part == YEARDAY else part}"
    return f"{found['mean']} ± {found['deviation']:.2g} {_CIRCLES[part][1]}"
