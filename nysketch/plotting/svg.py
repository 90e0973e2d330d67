"""Drawings as SVG: inside a page, whose style sheet has their styles, or as files of their own."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from nysketch.plotting.colours import DARK, LIGHT
from nysketch.plotting.drawing import (
    STYLES,
    Box,
    Drawing,
    Mark,
    Path,
    Point,
    Style,
    Symbol,
    Words,
    outline,
    visible,
)

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


def style_sheet() -> str:
    """Return the CSS of all marks; its colours are variables that `themes` sets."""
    rules = [f".n-{name}{{{_declarations(style)}}}" for name, style in STYLES.items()]
    return f"svg text{{font-family:{FONT}}}\n" + "\n".join(rules) + "\n"


def themes(selector: str) -> str:
    """Return the CSS that sets the colours, for light and dark surroundings; prints are light."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in theme.items()) for theme in (LIGHT, DARK)
    )
    return (
        f"{selector}{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"
    )


def _declarations(style: Style) -> str:
    parts = [
        f"fill:{_colour(style.fill)}",
        f"stroke:{_colour(style.stroke)}",
        f"stroke-width:{style.width:g}px" if style.stroke else "",
        f"stroke-dasharray:{' '.join(f'{d:g}' for d in style.dash)}" if style.dash else "",
        f"fill-opacity:{style.opacity:g}" if style.opacity < 1 else "",
        f"font-size:{style.size:g}px" if style.fill and not style.stroke else "",
        "font-weight:600" if style.bold else "",
    ]
    return ";".join(part for part in parts if part)


def _colour(name: str | None) -> str:
    return "none" if name is None else f"var(--{name})"


def inline(drawing: Drawing, name: str, css_class: str = "") -> str:
    """Return the element for a page; `name` makes the identifiers of its title and description unique."""
    return _element(drawing, name, f" class={quoteattr(css_class)}" if css_class else "", "")


def document(drawing: Drawing) -> str:
    """Return a file of its own, with its styles and a surface behind the marks."""
    style = f"<style>\n{themes('svg')}{style_sheet()}</style>"
    surface = _mark(Box(0, 0, drawing.width, drawing.height, "surface"))
    size = f' width="{drawing.width:g}" height="{drawing.height:g}" xmlns="http://www.w3.org/2000/svg"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + _element(drawing, "picture", size, style + surface)
        + "\n"
    )


def small(drawing: Drawing) -> str:
    """Return the element for a symbol in a line of text, which says the same: screen readers skip it."""
    size = f'viewBox="0 0 {drawing.width:g} {drawing.height:g}"'
    return f'<svg {size} aria-hidden="true">{"".join(map(_mark, drawing.marks))}</svg>'


def _element(drawing: Drawing, name: str, attributes: str, first: str) -> str:
    described = f' aria-describedby="{name}-d"' if drawing.description else ""
    parts = [
        f'<svg viewBox="0 0 {drawing.width:g} {drawing.height:g}" role="img" '
        f'aria-labelledby="{name}-t"{described}{attributes}>',
        f'<title id="{name}-t">{text(drawing.title)}</title>',
        f'<desc id="{name}-d">{text(drawing.description)}</desc>' if drawing.description else "",
        first,
        *map(_mark, drawing.marks),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def text(words: str) -> str:
    """Escape text for XML and HTML."""
    return escape(visible(words))


def _mark(mark: Mark) -> str:
    match mark:
        case Words():
            anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
            turned = f' transform="rotate(-90 {_n(mark.x)} {_n(mark.y)})"' if mark.turned else ""
            place = f'x="{_n(mark.x)}" y="{_n(mark.y)}"'
            return f'<text {place} class="n-{mark.style}"{anchor}{turned}>{text(mark.text)}</text>'
        case Box():
            place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.width)}" height="{_n(mark.height)}"'
            return _noted("rect", place, mark.style, mark.note)
        case Symbol(shape="circle"):
            return _noted(
                "circle", f'cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.size)}"', mark.style, mark.note
            )
        case Symbol():
            place = "".join(_points(polygon) + "Z" for polygon in outline(mark))
            return _noted("path", f'd="{place}"', mark.style, mark.note)
        case Path():
            place = _points(mark.points) + ("Z" if mark.closed else "")
            return _noted("path", f'd="{place}"', mark.style, mark.note)


def _noted(element: str, place: str, style: str, note: str | None) -> str:
    """Return an element; browsers show its note when pointed at."""
    start = f'<{element} {place} class="n-{style}"'
    return f"{start}/>" if note is None else f"{start}><title>{text(note)}</title></{element}>"


def _points(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _n(value: float) -> str:
    """Return a place to a tenth of a pixel: what nobody sees must not change the bytes."""
    words = f"{value:.1f}".removesuffix(".0")
    return "0" if words == "-0" else words
