"""Basis: what two sketches must share to be added or compared.

Columns and their order, scaling, kernel, landmarks; and a digest over exactly these, which decides
compatibility. Reading pilot rows from files is pilot.py's business, choosing landmarks among them is
landmarks.py's, bytes are fileformat.py's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch import landmarks as landmark_sampling
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.kernels import Gaussian, kernel_from_description, median_bandwidth

Floats = NDArray[np.float64]

SCALINGS = ("none", "standard", "robust")
DEFAULT_LANDMARKS = 1000

# Largest scaled value of a landmark; divided by the smallest bandwidth it can still be squared.
LARGEST = 1e100

# Eigenvalues of the kernel matrix below this share of the largest are noise: float32 kernel sums carry
# about 1e-7 of relative error, and a feature divides it by the root of its eigenvalue. Here the error of
# the mean features was 3e-5 at most, the sampling error of a billion rows; at 1e-10 it was 2e-4.
RANK_CUTOFF = 1e-8


@dataclass(frozen=True)
class Column:
    """A column of the table; a list column of length d has width d, all others width 1."""

    name: str
    width: int = 1

    def __str__(self) -> str:
        return self.name if self.width == 1 else f"{self.name}[{self.width}]"


def total_width(columns: Iterable[Column]) -> int:
    """Return the number d of features that columns make together."""
    return sum(column.width for column in columns)


@dataclass(frozen=True)
class NystromMap:
    """Φ(x) = matrix · k(Z, x), an r-dimensional feature map with Φ(x)·Φ(y) ≈ k(x, y)."""

    matrix: Floats
    eigenvalues: Floats

    @property
    def rank(self) -> int:
        """The number r of eigenvalues kept."""
        return len(self.eigenvalues)


@dataclass(frozen=True, eq=False, repr=False)
class Basis:
    """Columns, scaling, kernel and landmarks: the coordinate system of a sketch.

    `landmarks` are in the data's own units; `transform` brings rows to the kernel's.
    `origin` says how the basis was made (sampling, seed, pilot rows); it does not enter the digest.
    """

    columns: tuple[Column, ...]
    scaling: str
    center: Floats
    scale: Floats
    kernel: Gaussian
    landmarks: Floats
    origin: dict[str, Any] = field(default_factory=dict)

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
        **options: Any,
    ) -> Basis:
        """Make a basis from a uniform sample of rows: paths, an array or a table.

        The column of row `weights`, if there is one, is no feature; it does not change the sample.
        Options are those of `nysketch.pilot.fit_basis`: m, scaling, bandwidth, seed, pilot_rows, nulls.
        """
        # The one place where this layer reaches up: people look for `fit` on the class.
        from nysketch.pilot import fit_basis
        from nysketch.sources import open_source

        source = open_source(
            data,
            columns=columns,
            exclude=exclude,
            weights=weights,
            datasets=datasets,
            allow_external=allow_external,
        )
        return fit_basis(source, **options)

    @classmethod
    def from_rows(
        cls,
        rows: Floats,
        columns: Sequence[Column],
        *,
        m: int = DEFAULT_LANDMARKS,
        scaling: str = "standard",
        bandwidth: float | str = "median",
        seed: int = 0,
    ) -> Basis:
        """Make a basis from pilot rows that are in memory (all finite, in the data's units)."""
        if m < 1:
            raise UsageError(f"the number of landmarks must be at least 1, not {m}")
        if not len(rows):
            raise InputError("there are no rows to choose landmarks from")
        require_seed(seed)
        with np.errstate(over="ignore", invalid="ignore"):
            center, scale = _fit_scaling(rows, scaling)
        _require_finite(center, scale, columns)
        scaled = (rows - center) / scale
        if np.abs(scaled).max() > LARGEST:
            raise InputError(
                f"some column holds values beyond {LARGEST:g}, too large to take distances between. "
                "Leave it out with --exclude"
            )
        if bandwidth == "median":
            width = median_bandwidth(scaled, seed)
        else:
            try:
                width = float(bandwidth)
            except ValueError:
                raise UsageError(f"bandwidth must be 'median' or a number, not {bandwidth!r}") from None
        chosen = landmark_sampling.uniform(len(rows), min(m, len(rows)), seed)
        origin = {
            "bandwidth": "median" if bandwidth == "median" else "given",
            "pilot_rows": len(rows),
            "sampling": "uniform",
            "seed": seed,
        }
        return cls(
            columns=tuple(columns),
            scaling=scaling,
            center=center,
            scale=scale,
            kernel=Gaussian(width),
            landmarks=np.ascontiguousarray(rows[chosen]),
            origin=origin,
        )

    @property
    def m(self) -> int:
        """The number of landmarks."""
        return len(self.landmarks)

    @property
    def d(self) -> int:
        """The number of features: the widths of all columns together."""
        return int(self.landmarks.shape[1])

    def transform(self, rows: Floats) -> Floats:
        """Bring rows from the data's units to those of the kernel."""
        return (rows - self.center) / self.scale

    def kernel_at_landmarks(self, rows: Floats) -> Floats:
        """Return k(rows, Z) in float64, for rows in the data's units."""
        return self.kernel(self.transform(rows), self.transform(self.landmarks))

    @cached_property
    def gram(self) -> Floats:
        """K = k(Z, Z)."""
        return self.kernel_at_landmarks(self.landmarks)

    @cached_property
    def nystrom(self) -> NystromMap:
        """The Nyström feature map, cut off at RANK_CUTOFF of the largest eigenvalue."""
        from scipy.linalg import eigh

        eigenvalues, vectors = eigh(self.gram)
        kept = eigenvalues > RANK_CUTOFF * eigenvalues[-1]
        matrix = vectors[:, kept].T / np.sqrt(eigenvalues[kept])[:, None]
        return NystromMap(matrix, eigenvalues[kept])

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays, for the sketch file and for people."""
        return {
            "columns": [[column.name, column.width] for column in self.columns],
            "kernel": self.kernel.describe(),
            "origin": self.origin,
            "scaling": self.scaling,
        }

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays, by the names they have in a sketch file."""
        return {
            "basis.center": self.center,
            "basis.landmarks": self.landmarks,
            "basis.scale": self.scale,
        }

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Basis:
        """Rebuild a basis from what `describe` and `arrays` returned."""
        columns = tuple(Column(str(name), int(width)) for name, width in description["columns"])
        basis = cls(
            columns=columns,
            scaling=str(description["scaling"]),
            center=arrays["basis.center"],
            scale=arrays["basis.scale"],
            kernel=kernel_from_description(description["kernel"]),
            landmarks=arrays["basis.landmarks"],
            origin=dict(description["origin"]),
        )
        d = total_width(columns)
        shapes = (basis.landmarks.shape[1:], basis.center.shape, basis.scale.shape)
        if any(shape != (d,) for shape in shapes):
            raise ValueError(f"arrays of shapes {shapes} do not fit {d} features")
        return basis

    @cached_property
    def digest(self) -> str:
        """Sha256 over all that the kernel sums depend on."""
        description = {name: self.describe()[name] for name in ("columns", "kernel", "scaling")}
        sha = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            sha.update(f"{name}{array.shape}".encode())
            sha.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
        return sha.hexdigest()

    def __repr__(self) -> str:
        return f"<Basis {self.digest[:12]}: {self.m} landmarks × {self.d} features, {self.kernel}>"

    def __eq__(self, other: object) -> bool:
        """Tell whether kernel sums at the two bases can be added."""
        return self.digest == other.digest if isinstance(other, Basis) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def merged_origin(self, other: Basis) -> Basis:
        """Return this basis with what both say of their origin: the order of merging must not show."""
        if self.origin == other.origin:
            return self
        common = {key: value for key, value in self.origin.items() if other.origin.get(key) == value}
        return replace(self, origin=common)

    def require_same(self, other: Basis) -> None:
        """Raise IncompatibleError, naming what differs and both values, unless the digests agree."""
        if self == other:
            return
        for what, mine, theirs in (
            ("columns", _names(self.columns), _names(other.columns)),
            ("scaling", self.scaling, other.scaling),
            ("kernel", self.kernel.describe(), other.kernel.describe()),
            ("number of landmarks", self.m, other.m),
        ):
            if mine != theirs:
                raise IncompatibleError(
                    f"the sketches have different bases: {what} {mine} and {theirs}. "
                    "Make both with the same --basis"
                )
        raise IncompatibleError(
            "the sketches have different bases: same columns and kernel, but other landmarks or "
            f"scaling factors (digests {self.digest[:12]} and {other.digest[:12]}). "
            "Make both with the same --basis"
        )


def _names(columns: Sequence[Column]) -> str:
    return ", ".join(map(str, columns))


def require_seed(seed: int) -> None:
    """Raise a UsageError unless this can seed everything random."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"the seed must be between 0 and 2**63 - 1, not {seed}")


def _require_finite(center: Floats, scale: Floats, columns: Sequence[Column]) -> None:
    names = [column.name for column in columns for _ in range(column.width)]
    for name, c, s in zip(names, center, scale, strict=True):
        if not (np.isfinite(c) and np.isfinite(s)):
            raise InputError(
                f"column {name!r} holds values too large to scale by: leave it out with --exclude {name}, "
                "or use --scale none"
            )


def _fit_scaling(rows: Floats, scaling: str) -> tuple[Floats, Floats]:
    """Return centre and scale of each feature; a constant feature keeps its own units."""
    d = rows.shape[1]
    if scaling == "none":
        return np.zeros(d), np.ones(d)
    if scaling == "standard":
        center, scale = rows.mean(axis=0), rows.std(axis=0)
    elif scaling == "robust":
        lower, center, upper = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        scale = (upper - lower) / 1.3489795003921634  # of a Gaussian, this is its deviation
        # Half of the values equal: the quartiles see no spread, the deviation may.
        scale = np.where(scale > 0, scale, rows.std(axis=0))
    else:
        raise UsageError(f"scaling must be one of {', '.join(SCALINGS)}, not {scaling!r}")
    # The deviation of a constant column is rounding noise of its mean, not zero.
    varies = scale > 1e-12 * np.abs(rows).max(axis=0)
    return center, np.where(varies, scale, 1.0)
