"""The section of a report with maps: where the rows of the newest partition are, and in which cluster."""

from __future__ import annotations

from nysketch.models.base import Model
from nysketch.plotting.charts import NARROW, WIDE
from nysketch.plotting.colours import SERIES
from nysketch.plotting.drawing import Drawing, Symbol, shape_of
from nysketch.plotting.landmark_map import by_share, centres_of, dots_of, fits, landmarks_of, word_for
from nysketch.plotting.projection import Projection, of_landmarks
from nysketch.plotting.scales import compact, count, number, plural, share
from nysketch.plotting.scatter import Centre, Dot, cloud
from nysketch.report.contents import Contents
from nysketch.report.html import Section, Table, figure, heading, key, paragraph
from nysketch.sketches.sketch import Sketch

# One per model; a map of some hundred symbols is the largest picture of a page.
_MOST_MAPS = 3
_MOST_KEYS = 16
# Landmarks with most rows, for a map without a model.
_MOST_LISTED = 20


def landmarks(contents: Contents) -> Section:
    """Return a map of the newest partition for every model, or one by density."""
    section = Section("map", "Map")
    sketch, newest = contents.sketch, contents.newest
    if sketch is None or newest is None:
        section.body.append(paragraph("The newest partition has no sketch."))
        return section
    basis = landmarks_of(sketch)
    if basis is None:
        words = "These sketches have no numeric landmarks to draw."
        section.body.append(paragraph(words))
        return section
    sized = sketch.cells is not None
    section.body.append(
        paragraph(
            f"The {count(basis.m)} landmarks"
            + (f", sized by the number of rows of {newest.name} nearest to each," if sized else "")
            + " in their first two principal directions.",
            "about",
        )
    )
    projection = of_landmarks(basis)
    fitting = [(name, found[-1][1]) for name, found in contents.models.items() if fits(found[-1][1], basis)]
    for which, (name, model) in enumerate(fitting[:_MOST_MAPS]):
        section.body += _by_cluster(sketch, projection, name, model, which)
    if not fitting:
        dots = dots_of(sketch, projection)
        section.body.append(_figure("map-0", dots, [], "Landmarks by density", projection, "", _listed(dots)))
    return section


def _by_cluster(sketch: Sketch, projection: Projection, name: str, model: Model, which: int) -> list[str]:
    word, numbers = word_for(model), by_share(model)
    dots = dots_of(sketch, projection, model, numbers, word=word)
    centres = centres_of(model, projection, numbers, word=word)
    title = f"Landmarks by {word} of {name}"
    table = _counted(dots, centres, word)
    return [
        heading(title),
        _figure(f"map-{which}", dots, centres, title, projection, _key(model.k, word), table),
    ]


def _figure(
    name: str,
    dots: list[Dot],
    centres: list[Centre],
    title: str,
    projection: Projection,
    symbols: str,
    numbers: Table,
) -> str:
    known = sum(dot.rows or 0.0 for dot in dots)
    description = f"{count(len(dots))} landmarks" + (f" with {compact(known)} rows" if known else "") + "; "
    description += "; ".join(centre.note for centre in centres[:_MOST_KEYS]) or "darker is denser"
    drawings = []
    for width, height in ((WIDE, 520.0), (NARROW, 340.0)):
        drawing, missing = cloud(
            dots,
            centres,
            title=title,
            description=description,
            axis_names=projection.names,
            width=width,
            height=height,
        )
        drawings.append(drawing)
    verb = "is" if missing == 1 else "are"
    left_out = f"{plural(missing, 'landmark')} far out or with the fewest rows {verb} not drawn."
    return figure(name, *drawings, key=symbols, caption=left_out if missing else "", numbers=numbers)


def _key(k: int, word: str) -> str:
    entries = [
        (Drawing(22, 16, "", "", [Symbol(11, 8, 5, shape_of(i), f"cloud{i % SERIES}")]), f"{word} {i + 1}")
        for i in range(min(k, _MOST_KEYS))
    ]
    entries.append((Drawing(22, 16, "", "", [Symbol(11, 8, 5, "cross", "centre")]), f"centre of a {word}"))
    return key(entries)


def _counted(dots: list[Dot], centres: list[Centre], word: str) -> Table:
    """Count landmarks and their rows in each cluster."""
    total = sum(dot.rows or 0.0 for dot in dots)
    rows = []
    for centre in sorted(centres, key=lambda centre: centre.series):
        own = [dot for dot in dots if dot.series == centre.series]
        held = sum(dot.rows or 0.0 for dot in own)
        part = [count(int(held)), share(held / total)] if total else ["–", "–"]
        rows.append([f"{word} {centre.name}", count(len(own)), *part, number(centre.x), number(centre.y)])
    header = [word, "landmarks", "nearest rows", "share", "centre, across", "centre, up"]
    return Table(header, rows)


def _listed(dots: list[Dot]) -> Table:
    """List the landmarks with most rows."""
    most = sorted(dots, key=lambda dot: (-(dot.rows or 0.0), dot.x, dot.y))[:_MOST_LISTED]
    rows = [
        [
            number(dot.x),
            number(dot.y),
            "–" if dot.rows is None else count(int(dot.rows)),
            number(dot.density, 2),
        ]
        for dot in most
    ]
    return Table(["across", "up", "nearest rows", "density (0 to 1)"], rows, ())
