"""Learned models: cluster centres and Gaussian mixtures, and what they say of rows.

Everything is in the units of the data; distances are measured after dividing each feature by its scale.
Where columns have kinds, rows are numbers, from which features are made first.
How a model is learned from a sketch is the business of learning/. Its files are in files.py and stored.py;
apply.py, score.py and refine.py bring it to the rows of a source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nysketch import __version__
from nysketch._support.html_repr import listed
from nysketch._types import Floats, Labels
from nysketch.basis.layout import Layout
from nysketch.columns import Column, feature_names, total_features, total_width
from nysketch.errors import InvalidRowsError, UsageError
from nysketch.models.columns import described

# Models without kinds have the first, and are read by all versions of nysketch.
SCHEMA_VERSION, SCHEMA_VERSION_OF_KINDS = 1, 2

# No row is farther from the centre than this, in scaled units: squares of its squares must stay finite.
FAR = 1e50
EPSILON = float(np.finfo(np.float64).eps)
# Numbers in a temporary array: 2 MiB, which a cache holds.
_BLOCK_NUMBERS = 1 << 18
# Squares from a matrix product are taken if their error is below this, absolutely or relatively.
ABSOLUTE_ERROR, RELATIVE_ERROR = 1e-10, 1e-9


def block_rows_for(k: int) -> int:
    """Return how many rows to look at together, for k numbers each."""
    return int(np.clip(_BLOCK_NUMBERS // k, 64, 8192))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Model:
    """What all models share. `facts` say how it was obtained, ready for JSON.

    `fill` are the numbers that missing values get in columns without kinds, if others have kinds.
    """

    columns: tuple[Column, ...]
    scale: Floats
    facts: dict[str, Any] = field(default_factory=dict)
    fill: Floats | None = None

    kind: ClassVar[str]
    # What is stored under these names, besides the facts.
    arrays: ClassVar[tuple[str, ...]]
    settings: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in ("scale", *self.arrays):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds values that are not finite numbers")
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names) or not all(c.width > 0 for c in self.columns):
            raise ValueError("columns are not distinct names with their widths")
        if any(column.text for column in self.columns):
            raise ValueError("a model has no columns of text")
        self._require_fill()
        if not self.k:
            raise ValueError("there are no clusters or components")
        self._require_shape("scale", (self.d,))
        if not (self.scale > 0).all():
            raise ValueError("scale is not positive")
        try:
            json.dumps(self.facts, allow_nan=False)
        except TypeError as error:
            raise ValueError(f"facts cannot be written as JSON: {error}") from error
        for name in self.facts:
            if name in (*COMMON_KEYS, *self.arrays, *self.settings) or (
                self.encoded and name in KEYS_OF_KINDS
            ):
                raise ValueError(f"a fact cannot be called {name!r}: the name is reserved")

    def require_columns(self, columns: tuple[Column, ...]) -> None:
        """Raise a UsageError unless these are the columns of the model."""
        if columns != self.columns:
            names = ", ".join(map(str, self.columns))
            raise UsageError(f"the source must have the columns of the model: {names}")

    def _require_shape(self, name: str, shape: tuple[int, ...]) -> None:
        found = getattr(self, name).shape
        if found != shape:
            raise ValueError(f"{name} has shape {found}, not {shape}")

    def _require_proportions(self, name: str) -> None:
        proportions = getattr(self, name)
        self._require_shape(name, (self.k,))
        if (proportions < 0).any() or abs(math.fsum(proportions) - 1) > 1e-6:
            raise ValueError(f"{name} must not be negative, and must sum to 1")

    def _require_near(self, name: str) -> None:
        """Refuse centres that are as far out as no rows can be, on both sides of the centre."""
        self._require_shape(name, (self.k, self.d))
        with np.errstate(over="ignore", invalid="ignore"):
            if not (np.abs((getattr(self, name) - self.center) / self.scale) < 4 * FAR).all():
                raise ValueError(f"{name} are out of range once they are scaled")

    def _require_fill(self) -> None:
        if not self.encoded:
            if self.fill is not None:
                raise ValueError("fill is of no use where no column has a kind")
            return
        fill = np.ascontiguousarray(self.fill, dtype=np.float64)
        object.__setattr__(self, "fill", fill)
        plain = np.repeat([c.kind is None for c in self.columns], [c.width for c in self.columns])
        if fill.shape != (self.width,) or not np.isfinite(fill[plain]).all():
            raise ValueError("fill is not a finite number for each column without a kind")

    @property
    def k(self) -> int:
        """How many clusters or components there are."""
        raise NotImplementedError

    @property
    def d(self) -> int:
        """The number of features of a row."""
        return total_features(self.columns)

    @property
    def width(self) -> int:
        """How many numbers a row has: as many as features, unless columns have kinds."""
        return total_width(self.columns)

    @cached_property
    def encoded(self) -> bool:
        """Whether some columns have kinds, so that features are made of rows."""
        return any(column.kind is not None for column in self.columns)

    @cached_property
    def layout(self) -> Layout:
        """Where the numbers and features of each column are."""
        return Layout.of(self.columns)

    @property
    def features(self) -> list[str]:
        """A name for each feature: a column of width w > 1 gives name[0] … name[w-1]."""
        return feature_names(self.columns)

    def policy(self, nulls: str) -> str:
        """Return what to do with missing values: only a model of columns with kinds can keep them."""
        return "error" if nulls == "keep" and not self.encoded else nulls

    @property
    def center(self) -> Floats:
        """A point amid the rows. Distances are computed relative to it: columns may be far from 0."""
        raise NotImplementedError

    def labels(self, data: Any) -> Labels:
        """Return the number of the cluster or component that each row belongs to.

        Parameters
        ----------
        data
            Rows: whatever `nysketch.sketch` takes. Columns are found by name, in any order and among others;
            those of an array or a list of rows have no names, and must be those of the model in its order.
            Missing values are errors, unless columns of the model have kinds. Tables larger than memory are
            labelled by `nysketch.assign`.

        Returns
        -------
        numpy.ndarray
            A whole number from 0 to k − 1 for each row.

        """
        return self._at_rows(data, self._labels, dtype=np.int32)

    def predict(self, data: Any) -> Labels:
        """Return what `labels` returns: scikit-learn has this name for it."""
        return self.labels(data)

    def costs(self, data: Any) -> Floats:
        """Return how badly the model describes each row: what learning makes small, on average."""
        raise NotImplementedError

    def _labels(self, rows: Floats) -> Labels:
        raise NotImplementedError

    def _at_rows(
        self,
        data: Any,
        function: Callable[[Floats], NDArray[Any]],
        *,
        shape: tuple[int, ...] = (),
        dtype: DTypeLike = np.float64,
    ) -> NDArray[Any]:
        """Return what a function says of every row; of a matrix in memory, without copies."""
        remedy = 'Drop such rows first, or use `nysketch.assign(nulls="drop")`'
        if isinstance(data, np.ndarray) and _is_plain_matrix(data) and not self.encoded:
            if not np.isfinite(data).all():
                raise InvalidRowsError(f"array: holds NaN or infinities. {remedy}")
            return function(data)
        from nysketch.passes.rows import at_rows

        return at_rows(
            self.columns,
            data,
            function,
            remedy=remedy,
            shape=shape,
            dtype=dtype,
            nulls=self.policy("keep"),
            fill=self.fill,
        )

    def expand(self, rows: Floats) -> Floats:
        """Make features of rows, in the data's units."""
        return self.layout.expand(rows) if self.encoded else rows

    def scaled(self, rows: Floats) -> Floats:
        """Bring rows from the data's units to features in those of the distances, relative to the centre."""
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"rows have shape {rows.shape}, not rows × {self.width}")
        return self.scaled_features(self.expand(rows))

    def scaled_features(self, features: Floats) -> Floats:
        """Bring features from the data's units to those of the distances, relative to the centre."""
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((features - self.center) / self.scale, -FAR, FAR))

    @property
    def block_rows(self) -> int:
        """How many rows to look at together: those with kinds may have many more features than numbers."""
        return block_rows_for(max(self.k, self.d) if self.encoded else self.k)

    def _blocks(self, rows: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield scaled rows, few enough at a time to have k numbers for each of them."""
        step = self.block_rows
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, self.scaled(rows[part])

    def _facts(self) -> dict[str, object]:
        """Return what a notebook shows of the model, beside what it is."""
        shown = ("decoder", "mean_squared_distance", "mean_log_likelihood")
        facts = {name.replace("_", " "): self.facts.get(name) for name in shown}
        return {"columns": listed(self.columns)} | {
            name: f"{fact:.6g}" if isinstance(fact, float) else fact for name, fact in facts.items()
        }

    def number(self, fact: str) -> float | None:
        """Return a fact that is a number; files may say anything."""
        value = self.facts.get(fact)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def describe(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; `from_description` takes it back."""
        description = {
            **self.facts,
            **{name: getattr(self, name).tolist() for name in ("scale", *self.arrays)},
            **{name: getattr(self, name) for name in self.settings},
            "columns": self.features,
            "column_widths": [column.features for column in self.columns],
            "kind": self.kind,
            "schema_version": SCHEMA_VERSION,
            "software": f"nysketch {__version__}",
        }
        if not self.encoded:
            return description
        return description | {
            "column_kinds": [described(column) for column in self.columns],
            "fill": [None if np.isnan(x) else x for x in np.asarray(self.fill).tolist()],
            "schema_version": SCHEMA_VERSION_OF_KINDS,
        }


def _is_plain_matrix(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.dtype.kind in "biuf" and not isinstance(array, np.ma.MaskedArray)


# Names that every description has, and those of models of columns with kinds.
COMMON_KEYS = ("columns", "column_widths", "kind", "scale", "schema_version", "software")
KEYS_OF_KINDS = ("column_kinds", "fill")


def row_squares(differences: Floats) -> Floats:
    """Return the squared length of each row."""
    return np.asarray(np.einsum("ij,ij->i", differences, differences))


def set_by_difference(
    Y: Floats,
    centres: Floats,
    pairs: NDArray[np.bool_],
    into: Floats,
    precisions: Floats | None = None,
) -> None:
    """Set the squared distances of the `pairs` of rows and centres, without cancellation."""
    rows, which = np.nonzero(pairs)
    step = max(_BLOCK_NUMBERS // Y.shape[1], 1)
    for start in range(0, len(rows), step):
        i, j = rows[start : start + step], which[start : start + step]
        squares = (Y[i] - centres[j]) ** 2
        into[i, j] = squares.sum(axis=1) if precisions is None else (squares * precisions[j]).sum(axis=1)
