"""Single pictures: of a sketch, of a model, of several sketches; SVG or PNG."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch.basis.base import Basis
from nysketch.columns import feature_names
from nysketch.errors import IncompatibleError, UsageError
from nysketch.files.format import load
from nysketch.files.kinds import MODEL, kind_of
from nysketch.models.files import load_model
from nysketch.models.mixture import MixtureModel
from nysketch.models.stored import AnyModel
from nysketch.plotting.charts import heat_map
from nysketch.plotting.drawing import Drawing, Words, text_width
from nysketch.plotting.landmark_map import by_share, centres_of, dots_of, fits, landmarks_of, word_for
from nysketch.plotting.png import require_matplotlib, write_png
from nysketch.plotting.projection import of_columns, of_landmarks, of_model
from nysketch.plotting.scales import count, number, plural
from nysketch.plotting.scatter import cloud
from nysketch.plotting.svg import document
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.compare import compare_all

FORMATS = ("svg", "png")
_WIDTH, _HEIGHT = 800.0, 600.0
# Pairs are compared one by one: 40 sketches are 780 of them, some seconds.
_MOST_SKETCHES = 40


# What can be drawn: something in memory, or a file that holds it.
Drawable = Sketch | Basis | AnyModel | str | os.PathLike[str]


def plot(
    inputs: Sequence[Drawable],
    output: str | Path,
    *,
    model: AnyModel | str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Drawing:
    """Draw a sketch, a basis or a model, or how far several sketches are apart: SVG or PNG, by the suffix.

    A sketch is coloured by density, or by the clusters of `model`; `columns` are two to draw it along,
    instead of those directions in which it varies most.
    """
    output = Path(output)
    format = output.suffix.lstrip(".").lower()
    if format not in FORMATS:
        raise UsageError(f"{output}: cannot tell the format from the name; end it in .svg or .png")
    if not inputs:
        raise UsageError("no inputs were given")
    if format == "png":
        require_matplotlib()
    files = [given for given in (*inputs, model) if isinstance(given, str | os.PathLike)]
    with claimed(output, inputs=files, overwrite=overwrite):
        drawing = draw(inputs, model=model, columns=columns)
        with atomic_file(output) as file:
            if format == "png":
                write_png(drawing, file)
            else:
                file.write(document(drawing).encode())
    return drawing


def draw(
    inputs: Sequence[Drawable],
    *,
    model: AnyModel | str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Drawing:
    """Draw what `plot` writes."""
    if len(inputs) > 1:
        if model is not None or columns is not None:
            raise UsageError(
                "`model` and `columns` apply to one sketch; several are drawn by their distances"
            )
        return _of_several(inputs)
    name = _name(inputs[0], 1)
    try:
        thing = _loaded(inputs[0])
        if isinstance(thing, Sketch | Basis):
            known = load_model(model) if isinstance(model, str | os.PathLike) else model
            return draw_sketch(thing, Path(name).name, known, columns=columns)
        if model is not None:
            raise UsageError("it is a model already; `model` needs a sketch")
        return draw_model(thing, Path(name).name, columns=columns)
    except (UsageError, IncompatibleError) as error:
        raise type(error)(f"{name}: {error}") from error


def _name(given: Drawable, number: int) -> str:
    return os.fspath(given) if isinstance(given, str | os.PathLike) else f"sketch {number}"


def _loaded(given: Drawable) -> Sketch | Basis | AnyModel:
    if not isinstance(given, str | os.PathLike):
        return given
    path = Path(given)
    kind = kind_of(path)
    # Of a file that is neither, what is wrong with the model is worth more.
    if kind == MODEL or (kind is None and path.suffix != ".nysk"):
        return load_model(path)
    return load(path)


def draw_sketch(
    thing: Sketch | Basis,
    name: str,
    model: AnyModel | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> Drawing:
    """Draw the landmarks of a sketch, as large as they have rows, by density or by cluster."""
    basis = landmarks_of(thing)
    if basis is None:
        raise UsageError("a map needs numeric landmarks, not Fourier features or text")
    if model is not None and not fits(model, basis):
        theirs, ours = (", ".join(names[:10]) for names in (model.features, feature_names(basis.columns)))
        raise IncompatibleError(
            f"the model has columns {theirs}, the sketch {ours}; learn a model from this sketch"
        )
    projection = of_landmarks(basis) if columns is None else of_columns(columns, basis.columns)
    word = "cluster" if model is None else word_for(model)
    numbers = [] if model is None else by_share(model)
    dots = dots_of(thing, projection, model, numbers, word=word)
    centres = [] if model is None else centres_of(model, projection, numbers, word=word)
    rows = f" of {plural(thing.rows, 'row')}" if isinstance(thing, Sketch) else ""
    density = isinstance(thing, Sketch) and thing.rows > 0
    by = f", by {word}" if model is not None else ", darker where denser" if density else ""
    title = f"{name}: {count(basis.m)} landmarks{rows}{by}"
    drawing, missing = cloud(
        dots,
        centres,
        title=title,
        description="; ".join(centre.note for centre in centres),
        axis_names=projection.names,
        width=_WIDTH,
        height=_HEIGHT,
        same_units=columns is None,
    )
    more = f" ({count(missing)} far out or with few rows not drawn)" if missing else ""
    return _titled(drawing, title + more)


def draw_model(model: AnyModel, name: str, *, columns: Sequence[str] | None = None) -> Drawing:
    """Draw the centres of a model, as large as their shares; those of mixtures with ellipses."""
    projection = of_model(model) if columns is None else of_columns(columns, model.columns)
    word = word_for(model)
    centres = centres_of(model, projection, by_share(model), word=word, sized=14.0)
    ellipses = ", ellipses at one and two standard deviations" if isinstance(model, MixtureModel) else ""
    title = f"{name}: {plural(model.k, word)}, sized by share{ellipses}"
    drawing, _ = cloud(
        [],
        centres,
        title=title,
        description="; ".join(centre.note for centre in centres),
        axis_names=projection.names,
        width=_WIDTH,
        height=_HEIGHT,
        same_units=columns is None,
    )
    return _titled(drawing, title)


def _of_several(inputs: Sequence[Drawable]) -> Drawing:
    if len(inputs) > _MOST_SKETCHES:
        raise UsageError(
            f"{len(inputs)} sketches are too many for one picture; give at most {_MOST_SKETCHES}"
        )
    names = [_name(given, number) for number, given in enumerate(inputs, 1)]
    sketches = []
    for given, name in zip(inputs, names, strict=True):
        thing = load(given) if isinstance(given, str | os.PathLike) else given
        if not isinstance(thing, Sketch):
            kind = "basis" if isinstance(thing, Basis) else "model"
            raise UsageError(f"{name}: is a {kind} file; expected a sketch file")
        sketches.append(thing)
    return draw_distances(sketches, [Path(name).name.removesuffix(".nysk") for name in names])


def draw_distances(sketches: Sequence[Sketch], names: Sequence[str]) -> Drawing:
    """Draw how far sketches are apart from each other, all pairs."""
    n = len(sketches)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    found = compare_all(sketches, names, pairs, test="none", explain=False, adjustment="none")
    values: list[list[float | None]] = [[None] * n for _ in range(n)]
    for (i, j), one in zip(pairs, found.found, strict=True):
        values[i][j] = values[j][i] = one.mmd if math.isfinite(one.mmd) else None
    title = f"Distances (MMD) of {n} sketches"
    farthest = max(found.found, key=lambda one: one.mmd)
    drawing = heat_map(
        list(names),
        list(names),
        values,
        title=title,
        description=f"Farthest apart: {' and '.join(farthest.names)}, {number(farthest.mmd)}.",
        words=lambda value: number(value, 2),
        width=_WIDTH,
        signs=False,
    )
    return _titled(drawing, title)


def _titled(drawing: Drawing, title: str) -> Drawing:
    """Write the title over a picture, which a page would have around it; it is broken to fit."""
    lines, line = [], ""
    for word in title.split(" "):
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, 13) > drawing.width - 20:
            lines.append(line)
            longer = word
        line = longer
    lines.append(line)
    room = 12.0 + 18 * len(lines)
    moved = Drawing(drawing.width, drawing.height + room, drawing.title, drawing.description)
    moved.add(*(Words(10, 20 + 18 * i, words, "title") for i, words in enumerate(lines)))
    moved.add(*(mark.moved(room) for mark in drawing.marks))
    return moved
