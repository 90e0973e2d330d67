"""The colours of pages and pictures, by the part they play, for light and dark; and how they are told apart.

Series colours are those of Okabe and Ito, which colour-blind people can tell apart, made darker or lighter
until they contrast with what is behind them: text by 4.5 to 1, lines and symbols by 3 to 1 (WCAG 2, AA).
No meaning is left to colour alone: series also differ in the shapes of their symbols, cells of a heat map
carry their numbers.
"""

from __future__ import annotations

SERIES = 8
# Steps on either side of nothing in a heat map of signed numbers, and of one that starts at nothing.
STEPS = 5

_SERIES_LIGHT = (
    "#0072b2", "#c85200", "#00825f", "#b5548a", "#8a6d00", "#555b66", "#6a4fb3", "#8c2d19",
)  # fmt: skip
_SERIES_DARK = (
    "#56b4e9", "#ff8a3d", "#2bc795", "#e39ac4", "#f0d34d", "#c9ced6", "#b3a1ff", "#ff9d8f",
)  # fmt: skip


def mixed(first: str, second: str, share: float) -> str:
    """Return the colour that has a share of the second colour in it."""
    pairs = zip(_channels(first), _channels(second), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def _theme(
    *,
    page: str,
    surface: str,
    text: str,
    muted: str,
    grid: str,
    alarm: str,
    quiet: str,
    link: str,
    series: tuple[str, ...],
    less: str,
    more: str,
) -> dict[str, str]:
    """Return all colours of a theme; `less` and `more` are the ends of a heat map of signed numbers."""
    steps = {}
    for step in range(STEPS + 1):
        steps[f"more{step}"] = mixed(surface, more, step / STEPS)
        steps[f"less{step}"] = mixed(surface, less, step / STEPS)
    plain = {
        "page": page, "surface": surface, "text": text, "muted": muted, "grid": grid, "alarm": alarm,
        "quiet": quiet, "link": link,
    }  # fmt: skip
    return plain | {f"series{i}": colour for i, colour in enumerate(series)} | steps


LIGHT = _theme(
    page="#f4f5f7", surface="#ffffff", text="#1c2128", muted="#59616d", grid="#dfe3e8", alarm="#b3261e",
    quiet="#1b6e43", link="#005a9c", series=_SERIES_LIGHT, less="#6fb1e8", more="#f3a868",
)  # fmt: skip
DARK = _theme(
    page="#101318", surface="#191d24", text="#e9ecf1", muted="#a3acb9", grid="#343b46", alarm="#ff8f86",
    quiet="#6bd29b", link="#86c5ff", series=_SERIES_DARK, less="#1f639c", more="#94500f",
)  # fmt: skip


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours after WCAG 2: from 1, none, to 21, black on white."""
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
