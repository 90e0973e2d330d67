"""What a picture consists of: lines, shapes and words at places, each in a named style.

A drawing says what is to be seen, not how a file says it: svg.py and png.py write it. Places are in pixels
from the upper left corner. Which marks make a chart is charts.py's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nysketch.plotting.colours import SERIES, STEPS

Point = tuple[float, float]

# Shapes of symbols, in the order in which series take them; colour alone must not tell series apart.
SHAPES = ("circle", "square", "triangle", "diamond", "down", "plus", "cross", "pentagon")
# Letters are some 0.6 of their size wide, in the wider of common fonts.
_LETTER = 0.6


@dataclass(frozen=True)
class Style:
    """How marks look; colours are names in colours.py, None for none."""

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    size: float = 12.0
    bold: bool = False


STYLES = {
    "surface": Style(fill="surface"),
    "grid": Style(stroke="grid"),
    "axis": Style(stroke="muted"),
    "label": Style(fill="text"),
    "muted": Style(fill="muted", size=11.0),
    "title": Style(fill="text", size=13.0, bold=True),
    "cell": Style(fill="text", size=11.0),
    "alarm": Style(fill="alarm", stroke="surface"),
    "alarm-word": Style(fill="alarm", bold=True),
    "threshold": Style(stroke="muted", width=1.5, dash=(5, 4)),
    "centre": Style(fill="text", stroke="surface", width=1.5),
    "centre-word": Style(fill="text", size=12.0, bold=True),
    "halo": Style(fill="surface", opacity=0.8),
    **{f"line{i}": Style(stroke=f"series{i}", width=2.0) for i in range(SERIES)},
    **{f"error{i}": Style(stroke=f"series{i}", width=1.2) for i in range(SERIES)},
    **{f"bar{i}": Style(fill=f"series{i}") for i in range(SERIES)},
    **{f"point{i}": Style(fill=f"series{i}", stroke="surface", width=0.75) for i in range(SERIES)},
    **{f"cloud{i}": Style(f"series{i}", "surface", width=0.5, opacity=0.75) for i in range(SERIES)},
    **{f"area{i}": Style(f"series{i}", f"series{i}", width=1.5, opacity=0.15) for i in range(SERIES)},
    **{f"less{i}": Style(fill=f"less{i}", stroke="surface") for i in range(STEPS + 1)},
    **{f"more{i}": Style(fill=f"more{i}", stroke="surface") for i in range(STEPS + 1)},
    **{f"dense{i}": Style(fill=f"less{i}", stroke="muted", width=0.75) for i in range(STEPS + 1)},
}


@dataclass(frozen=True)
class Path:
    """A line through points; a filled shape if it is closed."""

    points: tuple[Point, ...]
    style: str
    closed: bool = False
    note: str | None = None

    def moved(self, down: float) -> Path:
        """Return it farther down."""
        return replace(self, points=tuple((x, y + down) for x, y in self.points))


@dataclass(frozen=True)
class Box:
    """A rectangle with its sides along the axes."""

    x: float
    y: float
    width: float
    height: float
    style: str
    note: str | None = None

    def moved(self, down: float) -> Box:
        """Return it farther down."""
        return replace(self, y=self.y + down)


@dataclass(frozen=True)
class Symbol:
    """A shape around a place; `size` is that of a circle's radius."""

    x: float
    y: float
    size: float
    shape: str
    style: str
    note: str | None = None

    def moved(self, down: float) -> Symbol:
        """Return it farther down."""
        return replace(self, y=self.y + down)


@dataclass(frozen=True)
class Words:
    """One line of text; `anchor` says which end of it is at the place. Turned ones read upwards."""

    x: float
    y: float
    text: str
    style: str = "label"
    anchor: str = "start"
    turned: bool = False

    def moved(self, down: float) -> Words:
        """Return it farther down."""
        return replace(self, y=self.y + down)


Mark = Path | Box | Symbol | Words


@dataclass
class Drawing:
    """Marks on a surface, later ones over earlier ones; what it shows is said in words, too."""

    width: float
    height: float
    title: str
    description: str = ""
    marks: list[Mark] = field(default_factory=list)

    def add(self, *marks: Mark) -> None:
        """Put marks over those that are there."""
        self.marks += marks


def visible(text: str) -> str:
    """Return text with � for control codes, which files have no place for or would obey."""
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "�" for c in text)


def text_width(text: str, size: float = 12.0) -> float:
    """Return roughly how wide text is."""
    return _LETTER * size * len(text)


def shortened(text: str, width: float, size: float = 12.0) -> str:
    """Return text that fits a width: what is too long ends in an ellipsis."""
    letters = max(int(width / (_LETTER * size)), 1)
    return text if len(text) <= letters else text[: max(letters - 1, 1)].rstrip() + "…"


def outline(symbol: Symbol) -> list[tuple[Point, ...]]:
    """Return the polygons of a symbol; none for a circle, which every file format has."""
    x, y, r = symbol.x, symbol.y, symbol.size
    if symbol.shape == "circle":
        return []
    if symbol.shape in ("plus", "cross"):
        arm, half = 1.2 * r, 0.42 * r
        corners = [
            (-half, -arm), (half, -arm), (half, -half), (arm, -half), (arm, half), (half, half),
            (half, arm), (-half, arm), (-half, half), (-arm, half), (-arm, -half), (-half, -half),
        ]  # fmt: skip
        turn = math.pi / 4 if symbol.shape == "cross" else 0.0
        return [tuple(_turned(x, y, corner, turn) for corner in corners)]
    # Polygons of about the area of the circle: corners, the direction of the first, and how far out.
    number, first, reach = {
        "square": (4, -45.0, 1.26),
        "triangle": (3, -90.0, 1.5),
        "diamond": (4, -90.0, 1.35),
        "down": (3, 90.0, 1.5),
        "pentagon": (5, -90.0, 1.2),
    }[symbol.shape]
    angles = [math.radians(first + 360 * i / number) for i in range(number)]
    return [tuple((x + reach * r * math.cos(a), y + reach * r * math.sin(a)) for a in angles)]


def _turned(x: float, y: float, corner: Point, angle: float) -> Point:
    cosine, sine = math.cos(angle), math.sin(angle)
    return x + corner[0] * cosine - corner[1] * sine, y + corner[0] * sine + corner[1] * cosine


def shape_of(number: int) -> str:
    """Return the shape of a series; with eight colours, 64 series differ from each other."""
    return SHAPES[(number + number // SERIES) % len(SHAPES)]


def ellipse(center: Point, axes: Sequence[Point], corners: int = 48) -> tuple[Point, ...]:
    """Return the polygon of center + cos(t)·axes[0] + sin(t)·axes[1]."""
    (x, y), (a, b) = center, axes
    angles = [2 * math.pi * i / corners for i in range(corners)]
    return tuple(
        (x + math.cos(t) * a[0] + math.sin(t) * b[0], y + math.cos(t) * a[1] + math.sin(t) * b[1])
        for t in angles
    )
