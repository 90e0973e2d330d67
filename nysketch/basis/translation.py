"""Features of rows at one basis → those of the same rows at another, whose kinds are of another pilot.

What a sketch keeps of single rows are features. A code of a vocabulary tells the value, and a logarithm the
number: both can be encoded again. Values that were in no vocabulary stay so.
"""

from __future__ import annotations

import numpy as np

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.columns import Column
from nysketch.errors import IncompatibleError
from nysketch.kinds import Category, Number, Time
from nysketch.kinds.differences import difference


def translated(features: Floats, theirs: Basis, mine: Basis) -> Floats:
    """Return features (in the units of the data) of rows, as `mine` has them, from those of `theirs`.

    Both have columns of the same names; raise IncompatibleError if one is of another kind.
    """
    out = np.empty((len(features), mine.d))
    for there, here in zip(theirs.layout.places, mine.layout.places, strict=True):
        part = features[:, there.features]
        out[:, here.features] = _column(part, there.column, here.column, mine.center[here.features])
    return out


def _column(features: Floats, there: Column, here: Column, center: Floats) -> Floats:
    theirs, mine = there.kind, here.kind
    if theirs == mine:
        return features
    if isinstance(theirs, Category) and isinstance(mine, Category):
        codes = [mine.code_of.get(value, mine.other) for value in theirs.values]
        table = np.zeros((theirs.features, mine.features))
        table[np.arange(theirs.features), [*codes, mine.other, mine.missing]] = 1.0
        return features @ table
    if isinstance(theirs, Number | None) and isinstance(mine, Number | None) and here.width == 1:
        values = features[:, 0] if theirs is None else theirs.restored(features[:, 0])
        if theirs is not None and theirs.missing:
            values = np.where(features[:, 1] > 0.5, np.nan, values)
        if mine is not None:
            return mine.expand(values)
        return np.where(np.isnan(values), center[0], values)[:, None]
    if isinstance(theirs, Time) and isinstance(mine, Time) and theirs.parts == mine.parts:
        return _times(features, theirs, mine)
    raise IncompatibleError(
        f"column {here.name!r} is encoded differently: {difference(theirs, mine)}. Make both with the "
        "same kinds"
    )


def _times(features: Floats, theirs: Time, mine: Time) -> Floats:
    out = np.zeros((len(features), mine.features))
    places = len(mine.neutral)
    out[:, :places] = features[:, :places]
    if theirs.missing:
        gone = features[:, -1] > 0.5
        out[gone, :places] = mine.neutral
        if mine.missing:
            out[gone, -1] = 1.0
    return out
