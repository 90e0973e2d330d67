"""Charts: numbers to drawings. Panels over partitions, heat maps, clouds of points.

What is shown where in a report is the business of report/sections/; how a drawing becomes a file is that of
svg.py and png.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nysketch.plotting.colours import SERIES, STEPS
from nysketch.plotting.drawing import Box, Drawing, Path, Symbol, Words, shape_of, shortened, text_width
from nysketch.plotting.scales import Scale, compact, finite, number, ticks

WIDE, NARROW = 840.0, 340.0

_Values = Sequence[float | None]


@dataclass(frozen=True)
class Series:
    """One line over the partitions; where a value is None, there is a gap."""

    name: str
    values: _Values
    errors: _Values = ()
    thresholds: _Values = ()
    alarms: Sequence[bool] = ()
    colour: int = 0
    notes: Sequence[str] = ()  # shown when a point is pointed at

    def reach(self) -> float:
        """Return the largest number that is drawn."""
        errors = list(self.errors) or [None] * len(self.values)
        tops = [
            v + (e if e is not None and math.isfinite(e) else 0.0)
            for v, e in zip(self.values, errors, strict=True)
            if v is not None and math.isfinite(v)
        ]
        return max([*tops, *finite(self.thresholds), 0.0])


@dataclass
class _Panel:
    """A field with axes: places along partitions, numbers upwards."""

    drawing: Drawing
    left: float
    right: float
    top: float
    bottom: float
    partitions: int
    up: Scale = field(init=False)

    def x(self, index: float) -> float:
        """Return the place of a partition: the middle of its share of the width."""
        return self.left + (index + 0.5) * (self.right - self.left) / max(self.partitions, 1)

    def draw_numbers(self, low: float, high: float, words: Callable[[float], str] = compact) -> None:
        """Choose the ticks that hold these numbers, and draw them with lines across."""
        found = ticks(low, high, 5)
        self.up = Scale(found[0], found[-1], self.bottom, self.top)
        for tick in found:
            y = self.up(tick)
            self.drawing.add(
                Path(((self.left, y), (self.right, y)), "axis" if tick == found[0] else "grid"),
                Words(self.left - 6, y + 4, words(tick), "muted", "end"),
            )

    def draw_names(self, names: Sequence[str]) -> None:
        """Write the names of partitions below, as many as there is room for; the last one always."""
        if not names:
            return
        room = (self.right - self.left) / len(names)
        widest = min(max(text_width(name, 11) for name in names), 110.0)
        # The last name ends where the picture does, if need be: the one before it must leave room for that.
        overhang = max(self.x(len(names) - 1) + widest / 2 + 1 - self.drawing.width, 0.0)
        every = max(math.ceil((widest + 10 + overhang) / room), 1)
        for index in range(len(names) - 1, -1, -every):
            x = self.x(index)
            half = text_width(shortened(names[index], widest + 8, 11), 11) / 2
            if x - half < 0 and index < len(names) - 1:  # would begin outside of the picture
                continue
            place = min(x, self.drawing.width - half - 1)
            self.drawing.add(
                Path(((x, self.bottom), (x, self.bottom + 4)), "axis"),
                Words(place, self.bottom + 17, shortened(names[index], widest + 8, 11), "muted", "middle"),
            )


def panels(
    names: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    description: str,
    width: float = WIDE,
    height: float = 170.0,
) -> Drawing:
    """Draw each series in a panel of its own, one below the other, with errors, thresholds and alarms."""
    left, gap, below = 56.0, 46.0, 26.0
    drawing = Drawing(width, len(series) * (height + gap) + below - 12, title, description)
    for row, one in enumerate(series):
        top = row * (height + gap) + gap - 12
        panel = _Panel(drawing, left, width - 10, top, top + height, len(names))
        drawing.add(Words(2, top - 14, shortened(one.name, width - 10, 13), "title"))
        panel.draw_numbers(0.0, one.reach())
        _draw_threshold(panel, one)
        _draw_series(panel, one, errors=True)
    panel.draw_names(names)
    return drawing


def lines(
    names: Sequence[str],
    series: Sequence[Series],
    *,
    title: str,
    description: str,
    width: float = WIDE,
    height: float = 240.0,
    words: Callable[[float], str] = compact,
    most: float | None = None,
) -> Drawing:
    """Draw several series in one panel, each with its name where it ends; what exceeds `most` at its edge."""
    labels = 140.0 if width >= WIDE else 98.0
    drawing = Drawing(width, height + 40, title, description)
    panel = _Panel(drawing, 56.0, width - labels, 12.0, height + 10, len(names))
    low = min([v for one in series for v in finite(one.values)] + [0.0])
    reach = max([one.reach() for one in series] + [0.0])
    panel.draw_numbers(low, reach if most is None else min(reach, most), words)
    ends = []
    for one in series:
        _draw_series(panel, one)
        last = next((v for v in reversed(one.values) if v is not None), None)
        if last is not None:
            ends.append((panel.up(last), one))
    for y, one in _apart(ends, 15.0, panel.top, panel.bottom):
        x = width - labels + 10
        drawing.add(Symbol(x, y, 4, shape_of(one.colour), f"point{one.colour % SERIES}"))
        drawing.add(Words(x + 9, y + 4, shortened(one.name, labels - 24)))
    panel.draw_names(names)
    return drawing


def _apart(
    ends: list[tuple[float, Series]], least: float, top: float, bottom: float
) -> list[tuple[float, Series]]:
    """Move labels apart that would be written over each other, as little as it takes."""
    ends = sorted(ends, key=lambda end: (end[0], end[1].name))
    least = min(least, (bottom - top) / max(len(ends) - 1, 1))
    places: list[float] = []
    for y, _ in ends:
        places.append(max(y, places[-1] + least) if places else max(y, top))
    limit = bottom
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], limit)
        limit = places[i] - least
    return [(place, one) for place, (_, one) in zip(places, ends, strict=True)]


def _draw_threshold(panel: _Panel, one: Series) -> None:
    """Draw the threshold as steps: each holds for its partition only."""
    half = (panel.right - panel.left) / max(panel.partitions, 1) / 2
    pieces: list[list[tuple[float, float]]] = [[]]
    for index, threshold in enumerate(one.thresholds):
        if threshold is None:
            pieces.append([])
            continue
        x, y = panel.x(index), panel.up(threshold)
        pieces[-1] += [(x - half, y), (x + half, y)]
    for piece in pieces:
        if piece:
            panel.drawing.add(Path(tuple(piece), "threshold"))


def _draw_series(panel: _Panel, one: Series, *, errors: bool = False) -> None:
    colour = one.colour % SERIES
    notes: list[str | None] = list(one.notes) or [None] * len(one.values)
    dots: list[Symbol] = []
    size = 4.0 if len(one.values) <= 60 else 2.5
    piece: list[tuple[float, float]] = []
    pieces = [piece]
    for index, value in enumerate(one.values):
        if value is None or not math.isfinite(value):
            piece = []
            pieces.append(piece)
            continue
        x, y = panel.x(index), panel.up(value)
        piece.append((x, y))
        error = one.errors[index] if errors and index < len(one.errors) else None
        if error is not None and math.isfinite(error):
            ends = (x, panel.up(value - error)), (x, panel.up(value + error))
            panel.drawing.add(Path(ends, f"error{colour}"))
        if index < len(one.alarms) and one.alarms[index]:
            dots.append(Symbol(x, y, size + 3, "diamond", "alarm", notes[index]))
        else:
            dots.append(Symbol(x, y, size, shape_of(one.colour), f"point{colour}", notes[index]))
    panel.drawing.add(*(Path(tuple(piece), f"line{colour}") for piece in pieces if len(piece) > 1))
    panel.drawing.add(*dots)


def bars(
    names: Sequence[str],
    values: Sequence[float],
    *,
    title: str,
    description: str,
    notes: Sequence[str],
    colour: int = 0,
    width: float = WIDE,
    height: float = 130.0,
    label: str = "",
    words: Callable[[float], str] = compact,
) -> Drawing:
    """Draw one bar per partition, under a label."""
    drawing = Drawing(width, height + 60, title, description)
    panel = _Panel(drawing, 56.0, width - 10, 30.0, height + 30, len(names))
    drawing.add(Words(2, 16, shortened(label, width - 10, 13), "title"))
    panel.draw_numbers(0.0, max([*finite(values), 0.0]), words)
    room = (panel.right - panel.left) / max(len(names), 1)
    thick = max(min(room * 0.75, 36.0), 0.8)
    for index, (value, note) in enumerate(zip(values, notes, strict=True)):
        y = panel.up(value)
        # What is there at all is seen: at least a pixel.
        y = min(y, panel.bottom - 1) if value > 0 else y
        drawing.add(
            Box(panel.x(index) - thick / 2, y, thick, panel.bottom - y, f"bar{colour % SERIES}", note)
        )
    panel.draw_names(names)
    return drawing


def heat_style(value: float, largest: float) -> str:
    """Return the style of a cell: by sign, and by how near to the largest the number is."""
    if not largest > 0 or not math.isfinite(value):
        return "more0"
    step = min(round(abs(value) / largest * STEPS), STEPS)
    return f"{'less' if value < 0 else 'more'}{step}"


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[_Values],
    *,
    title: str,
    description: str,
    words: Callable[[float], str] = number,
    width: float = WIDE,
    largest: float | None = None,
    signs: bool = True,
) -> Drawing:
    """Draw a table as cells of colour with their numbers in them; without signs, all from nothing up."""
    cell = 26.0
    left = min(max([text_width(name) for name in rows] + [40.0]) + 10, 0.28 * width)
    room = (width - left - 4) / max(len(columns), 1)
    widest = max([text_width(name, 11) for name in columns] + [0.0])
    turned = widest > room - 2
    top = min(widest, 110.0) + 12 if turned else 24.0
    drawing = Drawing(width, top + cell * len(rows) + 6, title, description)
    if largest is None:
        largest = max([abs(v) for row in values for v in finite(row)] + [0.0])
    for j, name in enumerate(columns):
        x = left + (j + 0.5) * room
        if turned:
            drawing.add(Words(x + 4, top - 6, shortened(name, 104, 11), "muted", turned=True))
        else:
            drawing.add(Words(x, top - 8, name, "muted", "middle"))
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        y = top + i * cell
        drawing.add(Words(left - 8, y + 17, shortened(name, left - 10), anchor="end"))
        for j, value in enumerate(row):
            if value is None:
                continue
            x = left + j * room
            style = heat_style(value, largest) if signs else heat_style(-abs(value), largest)
            drawing.add(Box(x, y, room, cell, style, f"{name}, {columns[j]}: {words(value)}"))
            if text_width(words(value), 11) < room:
                drawing.add(Words(x + room / 2, y + 17, words(value), "cell", "middle"))
    return drawing
