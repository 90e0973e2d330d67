"""Drawings as PNG, by matplotlib, which the extra `report` brings."""

from __future__ import annotations

import warnings
from typing import IO, Any

from nysketch.errors import UsageError
from nysketch.plotting.colours import LIGHT
from nysketch.plotting.drawing import STYLES, Box, Drawing, Mark, Path, Style, Symbol, Words, outline, visible

# Pixels of a drawing are drawn twice as fine, for screens that show them so and for prints.
_FINER = 2
_PIXELS_PER_INCH = 100


def require_matplotlib() -> None:
    """Raise a UsageError, with what helps, where there is no matplotlib."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "PNG pictures need matplotlib: install it (pip install 'nysketch[report]'), or write .svg"
        ) from error


def write_png(drawing: Drawing, file: IO[bytes]) -> None:
    """Write a drawing in its light colours; the same drawing gives the same bytes."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (drawing.width / _PIXELS_PER_INCH, drawing.height / _PIXELS_PER_INCH)
    figure = Figure(figsize=size, dpi=_FINER * _PIXELS_PER_INCH, facecolor=LIGHT["surface"])
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, drawing.width)
    axes.set_ylim(drawing.height, 0)
    axes.axis("off")
    for order, mark in enumerate(drawing.marks):
        _add(axes, mark, order)
    # Without its own metadata, which names matplotlib's version.
    canvas: Any = FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks are shown as boxes
        canvas.print_png(file, metadata={"Software": None, "Title": visible(drawing.title)})


def _add(axes: Any, mark: Mark, order: int) -> None:
    from matplotlib.patches import Circle, Polygon, Rectangle

    style = STYLES[mark.style]
    look = _look(style) | {"zorder": order}
    match mark:
        case Words():
            axes.text(
                mark.x,
                mark.y,
                # A dollar sign would begin a formula.
                visible(mark.text).replace("$", r"\$"),
                color=LIGHT[style.fill or "text"],
                fontsize=_points(style.size),
                fontweight="bold" if style.bold else "normal",
                ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
                va="baseline",
                rotation=90 if mark.turned else 0,
                rotation_mode="anchor",
                zorder=order,
            )
        case Box():
            axes.add_patch(Rectangle((mark.x, mark.y), mark.width, mark.height, **look))
        case Symbol(shape="circle"):
            axes.add_patch(Circle((mark.x, mark.y), mark.size, **look))
        case Symbol():
            for polygon in outline(mark):
                axes.add_patch(Polygon(polygon, closed=True, **look))
        case Path(closed=True):
            axes.add_patch(Polygon(mark.points, closed=True, **look))
        case Path():
            axes.add_patch(Polygon(mark.points, closed=False, **(look | {"facecolor": "none"})))


def _look(style: Style) -> dict[str, Any]:
    from matplotlib.colors import to_rgba

    # Dashes are in units of the line's width.
    dash = (0, tuple(d / style.width for d in style.dash)) if style.dash else "solid"
    return {
        "facecolor": "none" if style.fill is None else to_rgba(LIGHT[style.fill], style.opacity),
        "edgecolor": "none" if style.stroke is None else LIGHT[style.stroke],
        "linewidth": _points(style.width),
        "linestyle": dash,
    }


def _points(pixels: float) -> float:
    """Return a length in the points of typography, 72 to an inch."""
    return pixels * 72 / _PIXELS_PER_INCH
