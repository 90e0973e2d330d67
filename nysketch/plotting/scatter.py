"""Clouds of points: landmarks as symbols, as large as they have rows; centres of clusters over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nysketch.plotting.colours import SERIES, STEPS
from nysketch.plotting.drawing import (
    Box,
    Drawing,
    Path,
    Point,
    Symbol,
    Words,
    ellipse,
    shape_of,
    shortened,
    text_width,
)
from nysketch.plotting.scales import Scale, compact, ticks

# Points that are drawn: the ones with most rows. More make a large file, and no better picture.
MOST_POINTS = 800
# The picture shows these quantiles of the points, and of the rows they represent; a few are often so far
# out that nothing else could be seen.
_SHOWN, _SHOWN_ROWS = (0.05, 0.95), (0.005, 0.995)
# So many times their range may rows and centres reach beyond the points; a centre farther out is drawn at
# the edge.
_REACH = 1.5


@dataclass(frozen=True)
class Dot:
    """A point with its rows (None: unknown) and its series, or else how dense it is, from 0 to 1."""

    x: float
    y: float
    rows: float | None
    series: int | None
    density: float | None
    note: str


@dataclass(frozen=True)
class Centre:
    """The middle of a cluster, or of a component with its ellipses' half-axes; `size` is of its symbol."""

    x: float
    y: float
    name: str
    note: str
    series: int
    axes: tuple[Point, Point] | None = None
    size: float | None = None


def cloud(
    dots: Sequence[Dot],
    centres: Sequence[Centre],
    *,
    title: str,
    description: str,
    axis_names: tuple[str, str],
    width: float,
    height: float,
    same_units: bool = True,
) -> tuple[Drawing, int]:
    """Draw points and centres; return the drawing, and how many points are outside of it or left out."""
    drawing = Drawing(width, height, title, description)
    left, right, top, bottom = 50.0, width - 10, 24.0, height - 42
    across, up = _scales(dots, centres, (left, right, top, bottom), same_units=same_units)
    _draw_axes(drawing, across, up, axis_names)
    inside = [d for d in dots if across.low <= d.x <= across.high and up.low <= d.y <= up.high]
    # Those with most rows are drawn first, under the others; and last those without, which are small.
    inside.sort(key=lambda d: (-(d.rows or 0.0), d.x, d.y))
    drawn = inside[:MOST_POINTS]
    largest = max([d.rows or 0.0 for d in dots] + [0.0])
    biggest = 0.032 * width
    for dot in drawn:
        if dot.rows is None or largest <= 0:
            size = 3.2
        else:
            size = 1.4 + biggest * math.sqrt(max(dot.rows, 0.0) / largest)
        if dot.series is None:
            shape, style = "circle", f"dense{round(STEPS * (dot.density or 0.0))}"
        else:
            shape, style = shape_of(dot.series), f"cloud{dot.series % SERIES}"
        drawing.add(Symbol(across(dot.x), up(dot.y), size, shape, style, dot.note))
    for centre in centres:
        _draw_centre(drawing, centre, across, up)
    return drawing, len(dots) - len(drawn)


def _draw_centre(drawing: Drawing, centre: Centre, across: Scale, up: Scale) -> None:
    x, y = across(centre.x), up(centre.y)
    beyond = not (across.low <= centre.x <= across.high and up.low <= centre.y <= up.high)
    name = f"{centre.name} (farther out)" if beyond else centre.name
    if centre.axes is not None and not beyond:
        wide, high = _per_unit(across), _per_unit(up)
        for deviations in (2, 1):
            axes = [(deviations * a * wide, deviations * b * high) for a, b in centre.axes]
            drawing.add(Path(ellipse((x, y), axes), f"area{centre.series % SERIES}", True, centre.note))
    if centre.size is not None:
        drawing.add(
            Symbol(x, y, centre.size, shape_of(centre.series), f"point{centre.series % SERIES}", centre.note)
        )
        x += centre.size
    else:
        drawing.add(Symbol(x, y, 6, "cross", "centre", centre.note))
    wide = text_width(name) + 6
    side = x + 8 if x + 8 + wide < drawing.width else x - 8 - wide - (2 * centre.size if centre.size else 0)
    drawing.add(Box(side, y - 9, wide, 17, "halo"), Words(side + 3, y + 4, name, "centre-word"))


def _per_unit(scale: Scale) -> float:
    return (scale.stop - scale.start) / (scale.high - scale.low)


def _scales(
    dots: Sequence[Dot],
    centres: Sequence[Centre],
    sides: tuple[float, float, float, float],
    *,
    same_units: bool,
) -> tuple[Scale, Scale]:
    left, right, top, bottom = sides
    shown = [_shown(dots, i) for i in range(2)]
    near = [c for c in centres if not dots or all(_is_near(c, i, *shown[i]) for i in range(2))]
    ranges = []
    for i in range(2):
        ends = [*shown[i], *(v for c in near for v in _extent(c, i))]
        low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
        if not high - low > 1e-9 * max(abs(low), abs(high)):
            low, high = low - (abs(low) / 2 or 1.0), high + (abs(high) / 2 or 1.0)
        margin = 0.09 * (high - low)
        ranges.append((low - margin, high + margin))
    if same_units:  # then a distance is as long in every direction
        per_pixel = max(
            (ranges[0][1] - ranges[0][0]) / (right - left), (ranges[1][1] - ranges[1][0]) / (bottom - top)
        )
        halves = ((right - left) * per_pixel / 2, (bottom - top) * per_pixel / 2)
        ranges = [((a + b) / 2 - h, (a + b) / 2 + h) for (a, b), h in zip(ranges, halves, strict=True)]
    return Scale(*ranges[0], left, right), Scale(*ranges[1], bottom, top)


def _shown(dots: Sequence[Dot], i: int) -> list[float]:
    """Return the smallest and largest coordinate that most points and most rows are between."""
    if not dots:
        return []
    values = np.array([(d.x, d.y)[i] for d in dots])
    low, high = np.quantile(values, _SHOWN).tolist()
    rows = np.array([d.rows or 0.0 for d in dots])
    if rows.any():
        order = np.argsort(values, kind="stable")
        shares = np.cumsum(rows[order]) / rows.sum()
        first, last = np.minimum(np.searchsorted(shares, _SHOWN_ROWS), len(order) - 1)
        room = _REACH * (high - low)
        low, high = (
            min(low, max(values[order[first]], low - room)),
            max(high, min(values[order[last]], high + room)),
        )
    return [float(low), float(high)]


def _is_near(centre: Centre, i: int, low: float, high: float) -> bool:
    room = _REACH * (high - low)
    return low - room <= (centre.x, centre.y)[i] <= high + room


def _extent(centre: Centre, i: int) -> tuple[float, float]:
    place = (centre.x, centre.y)[i]
    reach = 2 * math.hypot(*(axis[i] for axis in centre.axes)) if centre.axes is not None else 0.0
    return place - reach, place + reach


def _draw_axes(drawing: Drawing, across: Scale, up: Scale, names: tuple[str, str]) -> None:
    left, right, bottom, top = across.start, across.stop, up.start, up.stop
    for tick in ticks(across.low, across.high, 7 if drawing.width > 400 else 5):
        if across.low <= tick <= across.high:
            x = across(tick)
            drawing.add(Path(((x, top), (x, bottom)), "grid"))
            drawing.add(Words(x, bottom + 16, compact(tick), "muted", "middle"))
    for tick in ticks(up.low, up.high, 7):
        if up.low <= tick <= up.high:
            y = up(tick)
            drawing.add(Path(((left, y), (right, y)), "grid"))
            drawing.add(Words(left - 6, y + 4, compact(tick), "muted", "end"))
    drawing.add(Path(((left, top), (left, bottom), (right, bottom)), "axis"))
    drawing.add(
        Words(right, bottom + 34, shortened(f"{names[0]} →", right - left, 11), "muted", "end"),
        Words(2, 14, shortened(f"↑ {names[1]}", drawing.width - 4, 11), "muted"),
    )
