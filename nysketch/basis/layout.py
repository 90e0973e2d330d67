"""Where the numbers and the features of a row are, where columns have kinds; and from these to those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Indices
from nysketch.columns import Column
from nysketch.kinds import Category


@dataclass(frozen=True)
class Place:
    """A column, and the slices of its numbers in a row and of its features."""

    column: Column
    numbers: slice
    features: slice

    def of(self, rows: Floats) -> Floats:
        """Return what rows hold of the column: a vector, or rows × width where that is more than one."""
        return rows[:, self.numbers] if self.column.width > 1 else rows[:, self.numbers.start]

    def expand(self, rows: Floats) -> Floats:
        """Return the features that rows have for the column."""
        kind = self.column.kind
        return rows[:, self.numbers] if kind is None else kind.expand(self.of(rows))


@dataclass(frozen=True, eq=False)
class Layout:
    """The places of all columns.

    Features that are no indicators of categories are `dense`: products with landmarks take them. Those of
    categories are looked up by code.
    """

    places: tuple[Place, ...]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Layout:
        """Return the layout of columns, one after the other."""
        places, number, feature = [], 0, 0
        for column in columns:
            numbers = slice(number, number + column.width)
            features = slice(feature, feature + column.features)
            places.append(Place(column, numbers, features))
            number, feature = numbers.stop, features.stop
        return cls(tuple(places))

    @property
    def d(self) -> int:
        """How many features there are."""
        return int(self.places[-1].features.stop)

    @cached_property
    def categories(self) -> tuple[Place, ...]:
        """The columns of categories."""
        return tuple(place for place in self.places if isinstance(place.column.kind, Category))

    @cached_property
    def dense(self) -> Indices:
        """The features that are no indicators of categories."""
        parts = [np.arange(p.features.start, p.features.stop) for p in self._others()]
        return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)

    @cached_property
    def plain(self) -> Indices:
        """The features of columns without kinds."""
        parts = [np.arange(p.features.start, p.features.stop) for p in self.places if p.column.kind is None]
        return np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64)

    def _others(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if not isinstance(place.column.kind, Category))

    def expand(self, rows: Floats) -> Floats:
        """Return the features of rows."""
        out = np.empty((len(rows), self.d))
        for place in self.places:
            out[:, place.features] = place.expand(rows)
        return out

    def joined(self, rows: Floats, dense: Floats, indicators: Floats) -> Floats:
        """Return features of rows: dense ones as given, and of each indicator one of two values, 2 × d."""
        out = np.empty((len(rows), self.d))
        out[:] = indicators[0]
        out[:, self.dense] = dense
        starts = np.array([place.features.start for place in self.categories], np.int64)
        ones = self.codes(rows) + starts
        out[np.arange(len(rows))[:, None], ones] = indicators[1][ones]
        return out

    def expand_dense(self, rows: Floats) -> Floats:
        """Return the dense features of rows, column by column in memory."""
        places = self._others()
        width = sum(place.column.features for place in places)
        out = np.empty((len(rows), width), order="F")
        start = 0
        for place in places:
            stop = start + place.column.features
            out[:, start:stop] = place.expand(rows)
            start = stop
        return out

    def codes(self, rows: Floats) -> NDArray[np.int32]:
        """Return the codes of the categories of rows, rows × categories."""
        places = self.categories
        out = np.empty((len(rows), len(places)), np.int32)
        for i, place in enumerate(places):
            kind = place.column.kind
            assert isinstance(kind, Category)
            out[:, i] = kind.codes(rows[:, place.numbers.start])
        return out

    def ends(self, lower: Floats, upper: Floats) -> Floats:
        """Return the smallest and largest features of rows between two ends of each number, 2 × d."""
        out = np.empty((2, self.d))
        for place in self.places:
            kind, at = place.column.kind, place.numbers.start
            if kind is None:
                out[0, place.features], out[1, place.features] = lower[place.numbers], upper[place.numbers]
            else:
                out[0, place.features], out[1, place.features] = kind.ends(float(lower[at]), float(upper[at]))
        return out
