"""Basis: what two sketches must share to be added or compared.

Columns and their order, scaling, kernel, landmarks or frequencies; and a digest over exactly these,
which decides compatibility. How a basis is made from pilot rows is fit.py's business, reading them
from files is passes/pilot.py's, bytes are files/format.py's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nysketch._support.html_repr import counted, html_table, listed, one_line
from nysketch._types import Arrays, Floats, Indices, Rows
from nysketch.basis.layout import Layout
from nysketch.columns import Column, total_features, total_width
from nysketch.errors import IncompatibleError, UsageError
from nysketch.kernels import Group, Kernel, Product

SCALINGS = ("none", "standard", "robust")
# No scaled value is beyond it.
LARGEST_SCALED = 1e300

# Values of the functions that are computed at a time, where rows are many: 8 MiB.
_VALUES = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Basis:
    """The coordinate system of a sketch: the functions of a row that are summed over all rows.

    There are two kinds, NystromBasis and FourierBasis; what they share is here. `transform` brings rows
    from the data's units to the kernel's. `origin` says how the basis was made; it does not enter the
    digest.
    """

    columns: tuple[Column, ...]
    scaling: str
    center: Floats
    scale: Floats
    kernel: Kernel
    origin: dict[str, Any] = field(default_factory=dict)

    feature_map: ClassVar[str]

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        kinds: Mapping[str, str] | Sequence[str] | None = None,
        emphasis: Mapping[str, float] | None = None,
        weights: str | None = None,
        nulls: str = "auto",
        landmarks: int | str = 1000,
        max_landmarks: int = 2000,
        sampling: str = "kmeans++",
        features: str = "nystrom",
        frequencies: str = "gaussian",
        scale: str = "auto",
        kernel: str | Mapping[str, str] = "gaussian",
        bandwidth: str | float | Sequence[float] | Mapping[str, Any] = "auto",
        degree: int = 2,
        offset: float = 1.0,
        length: int = 3,
        decay: float = 0.5,
        groups: Mapping[str, Sequence[str]] | None = None,
        pilot_rows: int | None = None,
        seed: int = 0,
        datasets: Sequence[str] = (),
        allow_external: bool = False,
        skip_unreadable: bool = False,
        retries: int | None = None,
        timeout: float | None = None,
        threads: int | None = None,
    ) -> Basis:
        """Make a basis from a uniform sample of rows, for sketches to share.

        Parameters
        ----------
        data
            Rows: anything that `nysketch.sketch` takes and that can be read twice.
        columns, exclude : list of str, optional
            Columns to use, in this order, and columns to leave out. Default: all but serial
            numbers, identifiers, free text and constants.
        kinds : mapping of str to str, or list of str, optional
            Kinds of columns that shall be others than by their types, such as {"price": "log",
            "zip": "category", "ts": "hour,weekday"}, or ["price=log", "zip=category"]: "number", "log",
            "rank", "category", "time", or parts of a time: "hour", "weekday", "yearday", "elapsed".
        emphasis : mapping of str to float, optional
            Columns that count more, or less: {"price": 2} doubles what `price` adds to squared distances.
        weights : str, optional
            Column of row weights, which is no feature. It has no effect on the sample.
        nulls : {"auto", "error", "drop", "keep"}
            What to do with rows that hold nulls or NaN: see `nysketch.sketch`.
        landmarks, max_landmarks, sampling, features, frequencies, scale, pilot_rows, seed
            How the basis is made: see `nysketch.sketch`.
        kernel, bandwidth, degree, offset, length, decay, groups
            The kernel: see `nysketch.sketch`.
        datasets, allow_external, skip_unreadable, retries, timeout
            How files are read: see `nysketch.sketch`.
        threads : int, optional
            Worker threads. Default: one per processor.

        Returns
        -------
        Basis

        Examples
        --------
        >>> basis = nysketch.Basis.fit("january.parquet", landmarks=500)
        >>> nysketch.save(basis, "year.basis.nysk")

        """
        # People look for it on the class: one of two places where this layer reaches up.
        from nysketch.passes.pilot import basis_of_data

        return basis_of_data(
            data,
            {
                "columns": columns,
                "exclude": exclude,
                "weights": weights,
                "datasets": datasets,
                "allow_external": allow_external,
                "skip_unreadable": skip_unreadable,
                "retries": retries,
                "timeout": timeout,
            },
            {
                "m": landmarks,
                "max_landmarks": max_landmarks,
                "sampling": sampling,
                "features": features,
                "frequencies": frequencies,
                "scaling": scale,
                "kernel": kernel,
                "bandwidth": bandwidth,
                "degree": degree,
                "offset": offset,
                "length": length,
                "decay": decay,
                "groups": groups,
                "pilot_rows": pilot_rows,
                "kinds": kinds,
                "emphasis": emphasis,
            },
            seed=seed,
            nulls=nulls,
            threads=threads,
        )

    @property
    def m(self) -> int:
        """How many functions are summed: landmarks, or Fourier features."""
        raise NotImplementedError

    @property
    def d(self) -> int:
        """The number of features of a row: those of all columns together."""
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
    def text(self) -> bool:
        """Whether rows are strings."""
        return self.columns[0].text

    @property
    def row_width(self) -> int:
        """How many numbers of 8 bytes a row takes: the features, or what strings take on average."""
        return self.d

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of columns whose kernels are multiplied; none if there is but one kernel."""
        return self.kernel.groups if isinstance(self.kernel, Product) else ()

    @cached_property
    def middle(self) -> Floats:
        """A point amid the scaled rows; rows of a sample are stored relative to it, to lose few digits."""
        return np.zeros(self.d)

    @cached_property
    def fill(self) -> Floats:
        """The numbers that missing values get in columns without kinds: their centres. NaN in all others."""
        numbers = np.full(self.width, np.nan)
        for place in self.layout.places:
            if place.column.kind is None and not place.column.text:
                numbers[place.numbers] = self.center[place.features]
        return numbers

    def expand(self, rows: Rows) -> Rows:
        """Make features of rows, in the data's units."""
        return self.layout.expand(rows) if self.encoded else rows

    def transform(self, rows: Rows) -> Rows:
        """Bring rows from the data's units to features in those of the kernel; strings stay what they are."""
        if self.text:
            return rows
        if self.encoded:
            dense = self.scaled_features(self.layout.expand_dense(rows), self.layout.dense)
            return self.layout.joined(rows, dense, self._scaled_indicators)
        return self.scaled_features(rows)

    def scaled_ends(self, lower: Floats, upper: Floats) -> Floats:
        """Return the smallest and largest scaled features of rows between two ends of each number, 2 × d."""
        ends = self.layout.ends(lower, upper) if self.encoded else np.stack([lower, upper])
        return self.scaled_features(ends)

    def scaled_features(self, features: Floats, at: Indices | slice = slice(None)) -> Floats:
        """Bring features, or some of them, from the units of the data to those of the kernel."""
        center, scale = self.center[at], self.scale[at]
        with np.errstate(over="ignore"):  # near the largest of all numbers; infinities have no direction
            return np.asarray(np.clip((features - center) / scale, -LARGEST_SCALED, LARGEST_SCALED))

    @cached_property
    def _scaled_indicators(self) -> Floats:
        return self.scaled_features(np.array([[0.0], [1.0]]))

    def evaluate(self, scaled: Rows) -> Floats:
        """Return the values of the m functions at scaled rows, in float64."""
        raise NotImplementedError

    def values(self, rows: Rows) -> Floats:
        """Return the values of the m functions at rows in the data's units, in float64."""
        return self.evaluate(self.transform(rows))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and largest value that these functions can take."""
        raise NotImplementedError

    def magnitudes(self) -> Floats:
        """Return how large the values of each function typically are: 1, unless they have no bound."""
        return np.ones(self.m)

    @property
    def rank(self) -> int:
        """How many features `to_features` gives."""
        raise NotImplementedError

    def to_features(self, values: Floats) -> Floats:
        """Turn values (of one row, or means over rows; along the last axis) into features Φ.

        Φ(x)·Φ(y) ≈ k(x, y).
        """
        raise NotImplementedError

    def features(self, data: Any, *, nulls: str = "error") -> Floats:
        """Return the features Φ of rows, in the data's units: Φ(x)·Φ(y) ≈ k(x, y).

        Rows are scaled as the basis says. They are read a few at a time; the result is in memory.

        Parameters
        ----------
        data
            Rows: whatever `nysketch.sketch` takes. Columns are found by name, in any order and among others;
            those of an array or a list of rows have no names, and must be those of the basis in its order.
        nulls
            What becomes of rows with nulls, NaN or infinities: "error" raises an InvalidRowsError, "nan"
            gives them features that are NaN.

        Returns
        -------
        numpy.ndarray
            Rows × `rank` numbers: Nyström features, or cosines and sines.

        Examples
        --------
        >>> import nysketch
        >>> basis = nysketch.Basis.fit({"x": [0.0, 1.0, 2.0]}, landmarks=3)
        >>> basis.features({"y": [5.0, 6.0], "x": [0.5, 1.5]}).shape
        (2, 3)

        """
        return self._at_rows(data, self._features, shape=(self.rank,), nulls=nulls)

    def residuals(self, data: Any, *, nulls: str = "error") -> Floats:
        """Return how far each row is from the span of the landmarks: √(k(x, x) − |Φ(x)|²).

        It is 0 for a row that is a landmark. For one that is unlike all of them it is up to √k(x, x), which
        is 1 for a Gaussian kernel. `nysketch.info` reports its mean and quantiles over the sampled rows.

        Parameters
        ----------
        data
            Rows: whatever `nysketch.sketch` takes. Columns are found by name, in any order and among others;
            those of an array or a list of rows have no names, and must be those of the basis in its order.
        nulls
            What becomes of rows with nulls, NaN or infinities: "error" raises an InvalidRowsError, "nan"
            gives them a residual that is NaN.

        Returns
        -------
        numpy.ndarray
            A number for each row, not negative.

        Examples
        --------
        >>> import nysketch
        >>> basis = nysketch.Basis.fit({"x": [0.0, 1.0, 2.0]}, landmarks=3)
        >>> basis.residuals({"x": [1.0, 100.0]}).round(3).tolist()
        [0.0, 1.0]

        """
        return self._at_rows(data, self._residuals, nulls=nulls)

    def _features(self, rows: Rows) -> Floats:
        return self.to_features(self.values(rows))

    def _residuals(self, rows: Rows) -> Floats:
        raise UsageError(
            "residuals are what landmarks do not capture: a basis of Fourier features has no landmarks"
        )

    def _at_rows(
        self, data: Any, function: Callable[[Rows], Floats], *, nulls: str, shape: tuple[int, ...] = ()
    ) -> Floats:
        """Return what a function of rows, in the data's units, says of all rows of data."""
        # People look for it on the class, as for `fit`.
        from nysketch.passes.rows import at_rows

        return at_rows(
            self.columns,
            data,
            function,
            remedy='Drop such rows first, or get NaN for them with `nulls="nan"`',
            shape=shape,
            nulls=nulls,
            step=max(_VALUES // self.m, 1),
        )

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays, for the sketch file and for people."""
        return {
            "columns": [column.describe() for column in self.columns],
            "kernel": self.kernel.describe(),
            "origin": self.origin,
            "scaling": self.scaling,
        }

    def arrays(self) -> Arrays:
        """Return the arrays, by the names they have in a sketch file."""
        arrays: Arrays = {"basis.center": self.center, "basis.scale": self.scale}
        for i, column in enumerate(self.columns):
            if column.kind is not None:
                arrays |= {f"basis.kinds.{i}.{name}": array for name, array in column.kind.arrays().items()}
        return arrays

    @cached_property
    def digest(self) -> str:
        """Sha256 over all that the sums depend on."""
        description = {name: value for name, value in self.describe().items() if name != "origin"}
        sha = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            sha.update(f"{name}{array.shape}".encode())
            sha.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return sha.hexdigest()

    def __repr__(self) -> str:
        return one_line("Basis", *self._outline())

    def _outline(self) -> tuple[str, ...]:
        """Return the facts that tell one basis from another at a glance."""
        what = "landmark" if self.feature_map == "nystrom" else "Fourier feature"
        return (
            counted(len(self.columns), "column"),
            f"{self.m} {what}{'s' if self.m != 1 else ''}",
            f"{self.kernel.name} kernel",
        )

    def _shown(self) -> dict[str, object]:
        """Return what a notebook shows of the basis."""
        return {
            "columns": listed(self.columns),
            "landmarks" if self.feature_map == "nystrom" else "Fourier features": f"{self.m:,}",
            "kernel": self.kernel,
            "scaling": self.scaling,
            "digest": self.digest[:12],
        }

    def _repr_html_(self) -> str:
        return html_table("Basis", self._shown())

    def __eq__(self, other: object) -> bool:
        """Tell whether sums at the two bases can be added."""
        return self.digest == other.digest if isinstance(other, Basis) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def merged_origin(self, other: Basis) -> Basis:
        """Return this basis with what both say of their origin: the order of merging must not show."""
        if self.origin == other.origin:
            return self
        return replace(self, origin=agreed(self.origin, other.origin))

    def require_same(self, other: Basis) -> None:
        """Raise IncompatibleError, naming what differs and both values, unless the digests agree."""
        if self == other:
            return
        for what, mine, theirs in (
            ("columns", _names(self.columns), _names(other.columns)),
            ("scaling", self.scaling, other.scaling),
            ("features", self.feature_map, other.feature_map),
            ("kernel", str(self.kernel), str(other.kernel)),
            ("numbers of landmarks or features", self.m, other.m),
        ):
            if mine != theirs:
                raise IncompatibleError(
                    f"the sketches have different bases: {what} {mine} and {theirs}. Make both with the "
                    "same `basis`"
                )
        raise IncompatibleError(
            "the sketches have different bases: same columns and kernel, different landmarks, frequencies "
            f"or scaling factors (digests {self.digest[:12]} and {other.digest[:12]}). Make both with the "
            "same `basis`"
        )


def agreed(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that are the same in both; one that is missing is not None."""
    return {key: value for key, value in mine.items() if key in theirs and theirs[key] == value}


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(map(str, columns))
