"""`nysketch.plot`: pictures of sketches, models, and distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nysketch._support.outputs import overwriting
from nysketch.api._data import AnyPath, listed
from nysketch.basis.base import Basis
from nysketch.models.stored import AnyModel
from nysketch.plotting import plots
from nysketch.plotting.drawing import Drawing
from nysketch.plotting.svg import document
from nysketch.sketches.sketch import Sketch


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing that shows itself in notebooks."""

    drawing: Drawing

    def __repr__(self) -> str:
        return f"<Picture: {self.drawing.title}>"

    def _repr_svg_(self) -> str:
        return document(self.drawing)


Drawable = Sketch | Basis | AnyModel | AnyPath


def plot(
    what: Drawable | Iterable[Drawable],
    output: AnyPath | None = None,
    *,
    model: AnyModel | AnyPath | None = None,
    columns: Sequence[str] | None = None,
    if_exists: str = "fail",
) -> Picture:
    """Draw a sketch, a basis or a model, or how far several sketches are apart.

    A sketch is drawn as its landmarks, sized by the rows nearest to them; a model as its centres, sized by
    their shares, with ellipses for mixtures; several sketches as a table of their distances (MMD).

    Parameters
    ----------
    what : Sketch, Basis, model, path, or list of sketches
        What to draw.
    output : path, optional
        SVG or PNG file to write; PNG needs matplotlib.
    model : model or path, optional
        Colour a sketch by the clusters of this model instead of by density.
    columns : pair of str, optional
        Columns to draw along. Default: the directions in which the landmarks vary most.
    if_exists : {"fail", "overwrite"}
        What to do if `output` exists.

    Returns
    -------
    Picture
        It shows itself in notebooks.

    Examples
    --------
    >>> nysketch.plot(s, "data.svg", model=model)

    """
    given = listed(what)
    if output is None:
        return Picture(plots.draw(given, model=model, columns=columns))
    overwrite = overwriting(if_exists)
    return Picture(plots.plot(given, Path(output), model=model, columns=columns, overwrite=overwrite))
