"""Basis: what two sketches must share to be added or compared.

Columns and their order, scaling, kernel, landmarks or frequencies; and a digest over exactly these,
which decides compatibility. How a basis is made from pilot rows is fitting.py's business, reading them
from files is pilot.py's, bytes are fileformat.py's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch.errors import IncompatibleError, UsageError
from nysketch.kernels import Floats, Group, Kernel, Product, Rows, kernel_from_description
from nysketch.kernels.base import inverse_or_zero
from nysketch.texts import text_arrays, text_from_arrays, text_width

SCALINGS = ("none", "standard", "robust")
DRAWS = ("gaussian", "adapted-radius")  # of Fourier frequencies

# Eigenvalues of the kernel matrix below this share of the largest are noise: float32 kernel sums carry
# about 1e-7 of relative error, and a feature divides it by the root of its eigenvalue. Here the error of
# the mean features was 3e-5 at most, the sampling error of a billion rows; at 1e-10 it was 2e-4.
RANK_CUTOFF = 1e-8


# No scaled value is beyond it.
LARGEST_SCALED = 1e300


@dataclass(frozen=True)
class Column:
    """A column of the table; a list column of length d has width d, all others width 1.

    A column of `text` holds strings, for the string kernels; it is the only one of its basis.
    """

    name: str
    width: int = 1
    text: bool = False

    def __str__(self) -> str:
        return self.name if self.width == 1 else f"{self.name}[{self.width}]"

    def describe(self) -> list[Any]:
        """Return what the sketch file stores."""
        return [self.name, self.width, *(["text"] if self.text else [])]

    @classmethod
    def from_description(cls, name: Any, width: Any, kind: Any = "number") -> Column:
        """Rebuild a column from what `describe` returned."""
        return cls(str(name), int(width), text=kind == "text")


def total_width(columns: Iterable[Column]) -> int:
    """Return the number d of features that columns make together."""
    return sum(column.width for column in columns)


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

    features: ClassVar[str]

    @classmethod
    def fit(
        cls,
        data: Any,
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        weights: str | None = None,
        datasets: Sequence[str] = (),
        allow_external: bool = False,
        retries: int | None = None,
        timeout: float | None = None,
        seed: int = 0,
        nulls: str = "error",
        threads: int | None = None,
        **options: Any,
    ) -> Basis:
        """Make a basis from a uniform sample of rows: paths, an array or a table.

        The column of row `weights`, if there is one, is no feature; it does not change the sample.
        Options are those of `nysketch.fitting.BasisOptions`: m, kernel, bandwidth, sampling and so on.
        """
        # Here and in `from_rows` this layer reaches up: people look for them on the class.
        from nysketch.engines.local import Threads
        from nysketch.fitting import BasisOptions
        from nysketch.pilot import fit_basis
        from nysketch.sources import open_source

        wanted = BasisOptions.of(options)
        source = open_source(
            data,
            columns=wanted.columns_to_read(columns),
            exclude=exclude,
            weights=weights,
            datasets=datasets,
            allow_external=allow_external,
            retries=retries,
            timeout=timeout,
            text=wanted.text,
        )
        return fit_basis(source, wanted, seed=seed, nulls=nulls, engine=Threads(threads))

    @classmethod
    def from_rows(cls, rows: Rows, columns: Sequence[Column], *, seed: int = 0, **options: Any) -> Basis:
        """Make a basis from pilot rows that are in memory; options as for `fit`."""
        from nysketch.fitting import BasisOptions, fit_rows

        return fit_rows(rows, columns, BasisOptions.of(options), seed=seed)

    @property
    def m(self) -> int:
        """How many functions are summed: landmarks, or Fourier features."""
        raise NotImplementedError

    @property
    def d(self) -> int:
        """The number of features of a row: the widths of all columns together."""
        return total_width(self.columns)

    @property
    def text(self) -> bool:
        """Whether rows are strings."""
        return self.columns[0].text

    @property
    def row_width(self) -> int:
        """How many numbers of 8 bytes a row takes: the features, or what strings take on average."""
        return self.d

    @cached_property
    def middle(self) -> Floats:
        """A point amid the scaled rows; rows of a sample are stored relative to it, to lose few digits."""
        return np.zeros(self.d)

    def transform(self, rows: Rows) -> Rows:
        """Bring rows from the data's units to those of the kernel; strings stay what they are."""
        if self.text:
            return rows
        with np.errstate(over="ignore"):  # near the largest of all numbers; infinities have no direction
            return np.clip((rows - self.center) / self.scale, -LARGEST_SCALED, LARGEST_SCALED)

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

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays, for the sketch file and for people."""
        return {
            "columns": [column.describe() for column in self.columns],
            "kernel": self.kernel.describe(),
            "origin": self.origin,
            "scaling": self.scaling,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, by the names they have in a sketch file."""
        return {"basis.center": self.center, "basis.scale": self.scale}

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Basis:
        """Rebuild a basis from what `describe` and `arrays` returned."""
        columns = tuple(Column.from_description(*entry) for entry in description["columns"])
        common: dict[str, Any] = {
            "columns": columns,
            "scaling": str(description["scaling"]),
            "center": arrays["basis.center"],
            "scale": arrays["basis.scale"],
            "kernel": kernel_from_description(description["kernel"]),
            "origin": dict(description["origin"]),
        }
        basis: Basis
        if "frequencies" in description:
            draw = str(description["frequencies"])
            basis = FourierBasis(**common, frequencies=arrays["basis.frequencies"], draw=draw)
            shapes = [basis.frequencies.shape[1:]]
        elif columns[0].text:
            basis = NystromBasis(**common, landmarks=text_from_arrays("basis.landmarks", arrays))
            shapes = []
        else:
            basis = NystromBasis(**common, landmarks=arrays["basis.landmarks"])
            shapes = [basis.landmarks.shape[1:]]
        shapes += [basis.center.shape, basis.scale.shape]
        if any(shape != (basis.d,) for shape in shapes):
            raise ValueError(f"arrays of shapes {shapes} do not fit {basis.d} features")
        return basis

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
        return f"<{type(self).__name__} {self.digest[:12]}: {self.m} × {self.d} features, {self.kernel}>"

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
            ("features", self.features, other.features),
            ("kernel", str(self.kernel), str(other.kernel)),
            ("number of landmarks or features", self.m, other.m),
        ):
            if mine != theirs:
                raise IncompatibleError(
                    f"the sketches have different bases: {what} {mine} and {theirs}. "
                    "Make both with the same --basis"
                )
        raise IncompatibleError(
            "the sketches have different bases: same columns and kernel, but other landmarks, frequencies or "
            f"scaling factors (digests {self.digest[:12]} and {other.digest[:12]}). "
            "Make both with the same --basis"
        )


@dataclass(frozen=True)
class NystromMap:
    """Φ(x) = matrix · k(Z, x), an r-dimensional feature map with Φ(x)·Φ(y) ≈ k(x, y)."""

    matrix: Floats
    eigenvalues: Floats

    @classmethod
    def of(cls, K: Floats) -> NystromMap:
        """Return the map for a kernel matrix k(Z, Z), which is overwritten."""
        from scipy.linalg import eigh

        # Landmarks of unit length span the same space, and one far out does not cut off all others.
        lengths = np.sqrt(np.diag(K))
        inverse = inverse_or_zero(lengths)
        K *= inverse[:, None]
        K *= inverse
        # In place wherever possible: these are the largest matrices that anything here needs.
        eigenvalues, vectors = eigh(K, overwrite_a=True)
        first = int(np.searchsorted(eigenvalues, RANK_CUTOFF * eigenvalues[-1], side="right"))
        matrix = vectors.T[first:]
        matrix *= inverse
        matrix /= np.sqrt(eigenvalues[first:])[:, None]
        return cls(matrix, eigenvalues[first:])

    @property
    def rank(self) -> int:
        """The number r of eigenvalues kept."""
        return len(self.eigenvalues)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NystromBasis(Basis):
    """Kernel values at landmarks: rows of the data, in the data's own units (or strings)."""

    landmarks: Rows

    features: ClassVar[str] = "nystrom"

    @property
    def m(self) -> int:
        """The number of landmarks."""
        return len(self.landmarks)

    @cached_property
    def scaled_landmarks(self) -> Rows:
        """Z, in the units of the kernel."""
        return self.transform(self.landmarks)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of columns whose kernels are multiplied; none if there is but one kernel."""
        return self.kernel.groups if isinstance(self.kernel, Product) else ()

    def features_of(self, numbers: Sequence[int]) -> list[int]:
        """Return the features of some groups."""
        return [i for n in numbers for i in range(self.groups[n].start, self.groups[n].stop)]

    def of_groups(self, numbers: Sequence[int]) -> NystromBasis:
        """Return the basis with the same landmark rows, of which only some groups of columns are seen."""
        assert isinstance(self.kernel, Product)
        features = self.features_of(numbers)
        owner = np.repeat(np.arange(len(self.columns)), [column.width for column in self.columns])
        return NystromBasis(
            columns=tuple(self.columns[i] for i in dict.fromkeys(owner[features].tolist())),
            scaling=self.scaling,
            center=self.center[features],
            scale=self.scale[features],
            kernel=self.kernel.only(numbers),
            landmarks=self.landmarks[:, features],
        )

    @property
    def row_width(self) -> int:
        """Of text, what landmarks take on average."""
        if not self.text:
            return self.d
        return text_width(self.landmarks)

    @cached_property
    def middle(self) -> Floats:
        """The median of the scaled landmarks: a few of them may be very far out."""
        return super().middle if self.text else np.median(self.scaled_landmarks, axis=0)

    def evaluate(self, scaled: Rows) -> Floats:
        """Return k(x, Z) for every row."""
        return self.kernel(scaled, self.scaled_landmarks)

    @property
    def range(self) -> tuple[float, float]:
        """The range of the kernel."""
        return self.kernel.range

    def magnitudes(self) -> Floats:
        """Return √(k(z,z) k(x,x)) for each landmark and a typical row, where the kernel has no bound."""
        if np.isfinite(self.range).all():
            return super().magnitudes()
        own = self.kernel.diagonal(self.scaled_landmarks)
        typical = np.median(own[own > 0]) if (own > 0).any() else 1.0
        return np.asarray(np.sqrt(np.where(own > 0, own, typical)) * np.sqrt(typical))

    def gram(self) -> Floats:
        """Return K = k(Z, Z)."""
        return self.evaluate(self.scaled_landmarks)

    @cached_property
    def nystrom(self) -> NystromMap:
        """The Nyström feature map, cut off at RANK_CUTOFF of the largest eigenvalue."""
        return NystromMap.of(self.gram())

    @property
    def rank(self) -> int:
        """How many directions the landmarks span, numerically."""
        return self.nystrom.rank

    def to_features(self, values: Floats) -> Floats:
        """Return K^(-1/2) k(Z, x), in the coordinates of the eigenvectors kept."""
        return values @ self.nystrom.matrix.T

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, by the names they have in a sketch file."""
        if self.text:
            return super().arrays() | text_arrays("basis.landmarks", self.landmarks)
        return super().arrays() | {"basis.landmarks": self.landmarks}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FourierBasis(Basis):
    """Cosines and sines of ω·x at random frequencies ω, in the units of the kernel.

    They do not depend on the data (but for its scaling), so the file holds no rows. `draw` says how the
    frequencies were drawn: "gaussian" ones, whose features approximate the kernel, or "adapted-radius".
    """

    frequencies: Floats
    draw: str

    features: ClassVar[str] = "fourier"

    @property
    def m(self) -> int:
        """Two features for each frequency: all cosines, then all sines."""
        return 2 * len(self.frequencies)

    def evaluate(self, scaled: Rows) -> Floats:
        """Return cos ω·x for all frequencies, then sin ω·x."""
        angles = scaled @ self.frequencies.T
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    @property
    def range(self) -> tuple[float, float]:
        """Cosines and sines."""
        return -1.0, 1.0

    @property
    def rank(self) -> int:
        """All of them."""
        return self.m

    def to_features(self, values: Floats) -> Floats:
        """Scale cosines and sines so that Φ(x)·Φ(x) = 1."""
        return np.asarray(values / np.sqrt(len(self.frequencies)))

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return super().describe() | {"frequencies": self.draw}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, by the names they have in a sketch file."""
        return super().arrays() | {"basis.frequencies": self.frequencies}


def require_landmarks(basis: Basis, what: str) -> NystromBasis:
    """Return the basis if it has landmarks, for `what` needs them."""
    if not isinstance(basis, NystromBasis):
        raise UsageError(f"{what} needs landmarks, and there are Fourier features instead")
    return basis


def agreed(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the entries that are the same in both; one that is missing is not None."""
    return {key: value for key, value in mine.items() if key in theirs and theirs[key] == value}


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(map(str, columns))


def require_seed(seed: int) -> None:
    """Raise a UsageError unless this can seed everything random."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"the seed must be between 0 and 2**63 - 1, not {seed}")
