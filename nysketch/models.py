"""Learned models: cluster centres and Gaussian mixtures, and what they say of rows.

Everything is in the units of the data; distances are measured after dividing each column by its scale.
How a model is learned from a sketch is decode/'s business, its files are modelfiles.py's, rows come
from assigning.py and refining.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch import __version__
from nysketch.basis import Column, total_width

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

SCHEMA_VERSION = 1
COVARIANCE_TYPES = ("spherical", "diag", "full")

# No row is farther from the centre than this, in scaled units: squares of its squares must stay finite.
FAR = 1e50
# For the same reason, no Gaussian is narrower than its inverse.
_NARROWEST = 1e-20
_EPSILON = float(np.finfo(np.float64).eps)
# Numbers in a temporary array: 2 MiB, which a cache holds.
_BLOCK_NUMBERS = 1 << 18
# Squares from a matrix product are taken if their error is below this, absolutely or relatively.
_ABSOLUTE_ERROR, _RELATIVE_ERROR = 1e-10, 1e-9


def block_rows_for(k: int) -> int:
    """Return how many rows to look at together, for k numbers each."""
    return int(np.clip(_BLOCK_NUMBERS // k, 64, 8192))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Model:
    """What all models share. `facts` say how it was obtained, ready for JSON."""

    columns: tuple[Column, ...]
    scale: Floats
    facts: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str]
    # What is stored under these names, besides the facts.
    arrays: ClassVar[tuple[str, ...]]
    settings: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in ("scale", *self.arrays):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds something that is not a finite number")
        names = [column.name for column in self.columns]
        if not names or len(set(names)) < len(names) or not all(c.width > 0 for c in self.columns):
            raise ValueError("columns are not different names with their widths")
        if any(column.text for column in self.columns):
            raise ValueError("a model has no columns of text")
        if not self.k:
            raise ValueError("there are no clusters or components")
        self._require_shape("scale", (self.d,))
        if not (self.scale > 0).all():
            raise ValueError("scale is not positive")
        try:
            json.dumps(self.facts, allow_nan=False)
        except TypeError as error:
            raise ValueError(f"facts are not ready for JSON: {error}") from error
        for name in self.facts:
            if name in _COMMON or name in (*self.arrays, *self.settings):
                raise ValueError(f"{name!r} is no name for a fact: it has a meaning of its own")

    def _require_shape(self, name: str, shape: tuple[int, ...]) -> None:
        found = getattr(self, name).shape
        if found != shape:
            raise ValueError(f"{name} has shape {found}, not {shape}")

    def _require_shares(self, name: str) -> None:
        shares = getattr(self, name)
        self._require_shape(name, (self.k,))
        if (shares < 0).any() or abs(math.fsum(shares) - 1) > 1e-6:
            raise ValueError(f"{name} are not shares: they must not be negative, and sum to 1")

    def _require_near(self, name: str) -> None:
        """Refuse centres that are as far out as no rows can be, on both sides of the centre."""
        self._require_shape(name, (self.k, self.d))
        with np.errstate(over="ignore", invalid="ignore"):
            if not (np.abs((getattr(self, name) - self.center) / self.scale) < 4 * FAR).all():
                raise ValueError(f"{name} are out of range once they are scaled")

    @property
    def k(self) -> int:
        """How many clusters or components there are."""
        raise NotImplementedError

    @property
    def d(self) -> int:
        """The number of features of a row."""
        return total_width(self.columns)

    @property
    def features(self) -> list[str]:
        """A name for each feature: a column of width w > 1 gives name[0] … name[w-1]."""
        return [name for column in self.columns for name in _features(column)]

    @property
    def center(self) -> Floats:
        """A point amid the rows. Distances are computed relative to it: columns may be far from 0."""
        raise NotImplementedError

    def labels(self, rows: Floats) -> Labels:
        """Return the number of the cluster or component that each row belongs to."""
        raise NotImplementedError

    def costs(self, rows: Floats) -> Floats:
        """Return how badly the model describes each row: what learning makes small, on average."""
        raise NotImplementedError

    def scaled(self, rows: Floats) -> Floats:
        """Bring rows from the data's units to those of the distances, relative to the centre."""
        if rows.ndim != 2 or rows.shape[1] != self.d:
            raise ValueError(f"rows have shape {rows.shape}, not rows × {self.d}")
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((rows - self.center) / self.scale, -FAR, FAR))

    def _blocks(self, rows: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield scaled rows, few enough at a time to have k numbers for each of them."""
        step = block_rows_for(self.k)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, self.scaled(rows[part])

    def number(self, fact: str) -> float | None:
        """Return a fact that is a number; files may say anything."""
        value = self.facts.get(fact)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def describe(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; `from_description` takes it back."""
        return {
            **self.facts,
            **{name: getattr(self, name).tolist() for name in ("scale", *self.arrays)},
            **{name: getattr(self, name) for name in self.settings},
            "columns": self.features,
            "column_widths": [column.width for column in self.columns],
            "kind": self.kind,
            "schema_version": SCHEMA_VERSION,
            "software": f"nysketch {__version__}",
        }


# Names that every description has.
_COMMON = ("columns", "column_widths", "kind", "scale", "schema_version", "software")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KMeansModel(Model):
    """Cluster centres. `shares` tell which part of the rows, or of their weight, each cluster has."""

    centroids: Floats
    shares: Floats

    kind: ClassVar[str] = "kmeans"
    arrays: ClassVar[tuple[str, ...]] = ("centroids", "shares")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_near("centroids")
        self._require_shares("shares")

    def __repr__(self) -> str:
        return f"<KMeansModel: {self.k} clusters × {self.d} features>"

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centroids)

    @cached_property
    def center(self) -> Floats:
        """The mean of the centroids."""
        return np.asarray(self.centroids[0] + (self.centroids - self.centroids[0]).mean(axis=0))

    @cached_property
    def scaled_centroids(self) -> Floats:
        """The centroids in the units of the distances, relative to the centre."""
        return self.scaled(self.centroids)

    @cached_property
    def _half_squares(self) -> Floats:
        return np.asarray(_squares(self.scaled_centroids) / 2)

    def labels(self, rows: Floats) -> Labels:
        """Return the number of the nearest centroid; of several as near, the first."""
        labels = np.empty(len(rows), np.int32)
        for part, Y in self._blocks(rows):
            labels[part] = self._nearest(Y)
        return labels

    def squared_distances(self, rows: Floats) -> Floats:
        """Return the squared distance to the nearest centroid, in scaled units."""
        return _squares(self.nearest(rows)[1])

    costs = squared_distances

    def nearest(self, rows: Floats) -> tuple[Labels, Floats]:
        """Return the number of the nearest centroid, and what the scaled row differs by from it."""
        labels, differences = np.empty(len(rows), np.int32), np.empty((len(rows), self.d))
        for part, Y in self._blocks(rows):
            labels[part] = nearest = self._nearest(Y)
            np.subtract(Y, self.scaled_centroids[nearest], out=differences[part])
        return labels, differences

    def _nearest(self, Y: Floats) -> NDArray[np.intp]:
        """Find the nearest centroids by a matrix product, and by differences where it cannot tell."""
        halves = self._half_squares - Y @ self.scaled_centroids.T  # half of |y − c|² − |y|²
        longest = math.sqrt(2 * self._half_squares.max())
        error = (self.d + 3) * _EPSILON * longest * (np.sqrt(_squares(Y)) + longest)
        candidates = halves <= (halves.min(axis=1) + 2 * error)[:, None]
        labels: NDArray[np.intp] = candidates.argmax(axis=1)
        doubtful = np.flatnonzero(np.count_nonzero(candidates, axis=1) > 1)
        if len(doubtful):
            distances = np.full((len(doubtful), self.k), np.inf)
            _by_difference(Y[doubtful], self.scaled_centroids, candidates[doubtful], distances)
            labels[doubtful] = distances.argmin(axis=1)
        return labels


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixtureModel(Model):
    """A mixture of Gaussians.

    Covariances are k × d variances, or k × d × d if they are "full". "spherical" ones are so in scaled
    units: v·scale² in those of the data.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    covariance_type: str

    kind: ClassVar[str] = "gmm"
    arrays: ClassVar[tuple[str, ...]] = ("weights", "means", "covariances")
    settings: ClassVar[tuple[str, ...]] = ("covariance_type",)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_shares("weights")
        self._require_near("means")
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ValueError(f"covariance_type must be one of {', '.join(COVARIANCE_TYPES)}")
        full = self.covariance_type == "full"
        self._require_shape("covariances", (self.k, self.d, self.d) if full else (self.k, self.d))
        if full:
            deviations = np.sqrt(np.maximum(np.einsum("jaa->ja", self.scaled_covariances), 0))
            skew = np.abs(self.scaled_covariances - self.scaled_covariances.transpose(0, 2, 1))
            if (skew > 1e-8 * deviations[:, :, None] * deviations[:, None, :]).any():
                raise ValueError("covariances are not symmetric")
            if not (np.abs(self._whitening) < 1 / _NARROWEST).all():
                raise ValueError("covariances are not positive definite")
            return
        variances = self.scaled_covariances
        if not (variances > _NARROWEST**2).all():
            raise ValueError("covariances are not positive")
        spread = variances.max(axis=1) - variances.min(axis=1)
        if self.covariance_type == "spherical" and (spread > 1e-8 * variances.max(axis=1)).any():
            raise ValueError("covariances are not spherical: they are not multiples of scale²")

    def __repr__(self) -> str:
        return f"<MixtureModel: {self.k} {self.covariance_type} components × {self.d} features>"

    @property
    def k(self) -> int:
        """The number of components."""
        return len(self.weights)

    @property
    def parameters(self) -> int:
        """How many numbers can be chosen freely."""
        d = self.d
        each = {"spherical": 1, "diag": d, "full": d * (d + 1) // 2}[self.covariance_type]
        return self.k - 1 + self.k * (d + each)

    @cached_property
    def center(self) -> Floats:
        """The mean of the mixture."""
        return np.asarray(self.means[0] + self.weights @ (self.means - self.means[0]))

    @cached_property
    def scaled_means(self) -> Floats:
        """The means in the units of the distances, relative to the centre."""
        return self.scaled(self.means)

    @cached_property
    def scaled_covariances(self) -> Floats:
        """The covariances in the units of the distances."""
        with np.errstate(over="ignore", invalid="ignore"):  # where this happens, they are refused
            if self.covariance_type == "full":
                return np.asarray(self.covariances / self.scale[:, None] / self.scale)
            return np.asarray(self.covariances / self.scale / self.scale)

    @cached_property
    def _whitening(self) -> Floats:
        """Of full covariances, the inverse Cholesky factors: each makes its Gaussian a round one."""
        try:
            factors = np.linalg.cholesky(self.scaled_covariances)
        except np.linalg.LinAlgError as error:
            raise ValueError("covariances are not positive definite") from error
        return np.tril(np.linalg.inv(factors))

    @cached_property
    def _peaks(self) -> Floats:
        """The logarithm of each component's density at its mean, times its weight."""
        if self.covariance_type == "full":
            widths = -np.log(np.einsum("jaa->ja", self._whitening)).sum(axis=1)
        else:
            widths = np.log(self.scaled_covariances).sum(axis=1) / 2
        widths = widths + np.log(self.scale).sum() + self.d / 2 * math.log(2 * math.pi)
        with np.errstate(divide="ignore"):  # a component without weight is nowhere
            return np.asarray(np.log(self.weights) - widths)

    def labels(self, rows: Floats) -> Labels:
        """Return the number of the component that each row most likely comes from."""
        labels = np.empty(len(rows), np.int32)
        for part, Y in self._blocks(rows):
            labels[part] = self._log_joint(Y).argmax(axis=1)
        return labels

    def log_densities(self, rows: Floats) -> Floats:
        """Return log p(x) for each row, in the data's units."""
        densities = np.empty(len(rows))
        for part, Y in self._blocks(rows):
            densities[part] = _normalised(self._log_joint(Y))[0]
        return densities

    def costs(self, rows: Floats) -> Floats:
        """Return −log p(x) for each row."""
        return -self.log_densities(rows)

    def responsibilities(self, rows: Floats) -> Floats:
        """Return the probability of each component, given the row: rows × k."""
        return self.posterior(rows)[1]

    def posterior(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return log p(x) for each row, and the probabilities of the components."""
        densities, shares = np.empty(len(rows)), np.empty((len(rows), self.k))
        for part, Y in self._blocks(rows):
            densities[part], shares[part] = _normalised(self._log_joint(Y))
        return densities, shares

    def _log_joint(self, Y: Floats) -> Floats:
        """Return log(weight · density) of every component at scaled rows."""
        squares = self._whitened_squares(Y) if self.covariance_type == "full" else self._weighted_squares(Y)
        squares *= -0.5
        squares += self._peaks
        return squares

    def _whitened_squares(self, Y: Floats) -> Floats:
        squares = np.empty((len(Y), self.k))
        for j, (mean, whitening) in enumerate(zip(self.scaled_means, self._whitening, strict=True)):
            squares[:, j] = _squares((Y - mean) @ whitening.T)
        return squares

    def _weighted_squares(self, Y: Floats) -> Floats:
        """Return Σ (y − mean)²/variance from matrix products, or from differences where digits cancel."""
        precisions = 1 / self.scaled_covariances
        weighted = self.scaled_means * precisions
        lengths = (Y * Y) @ precisions.T
        lengths += (self.scaled_means * weighted).sum(axis=1)
        squares: Floats = lengths - 2 * (Y @ weighted.T)
        lengths *= (self.d + 3) * _EPSILON  # now what may be wrong
        doubtful = lengths > _ABSOLUTE_ERROR + _RELATIVE_ERROR * np.abs(squares)
        if doubtful.any():
            _by_difference(Y, self.scaled_means, doubtful, squares, precisions)
        return squares


def from_description(description: Any) -> KMeansModel | MixtureModel:
    """Rebuild a model from what `describe` returned; raise ValueError where something is wrong with it."""
    if not isinstance(description, dict) or not all(name in description for name in _COMMON):
        raise ValueError("it is not the description of a model")
    version = description["schema_version"]
    if type(version) is not int or version < 1:
        raise ValueError("its schema version is not a number")
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"it has schema version {version}, and nysketch {__version__} reads up to {SCHEMA_VERSION}. "
            "Upgrade nysketch"
        )
    kinds = [kind for kind in (KMeansModel, MixtureModel) if kind.kind == description["kind"]]
    if not kinds or not isinstance(description["software"], str):
        raise ValueError("it is a model of an unknown kind")
    kind = kinds[0]
    own = ("scale", *kind.arrays, *kind.settings)
    for name in own:
        if name not in description:
            raise ValueError(f"{name} are missing")
    values: dict[str, Any] = {name: _numbers(name, description[name]) for name in ("scale", *kind.arrays)}
    values |= {name: _text(name, description[name]) for name in kind.settings}
    return kind(
        columns=_columns(description["columns"], description["column_widths"]),
        facts={key: value for key, value in description.items() if key not in (*_COMMON, *own)},
        **values,
    )


def _features(column: Column) -> list[str]:
    return (
        [column.name] if column.width == 1 else [f"{column.name}[{index}]" for index in range(column.width)]
    )


def _columns(features: Any, widths: Any) -> tuple[Column, ...]:
    """Return the columns that have these features."""
    if not isinstance(features, list) or not isinstance(widths, list):
        raise ValueError("its columns are no list")
    if not all(type(width) is int and 0 < width <= len(features) for width in widths):
        raise ValueError("its columns have impossible widths")
    starts = np.cumsum([0, *widths]).tolist()
    if starts[-1] != len(features):
        raise ValueError("its columns do not have the widths it says")
    columns = []
    for start, width in zip(starts, widths, strict=False):
        name = _text("columns", features[start])
        columns.append(Column(name if width == 1 else name.removesuffix("[0]"), width))
    if [name for column in columns for name in _features(column)] != features:
        raise ValueError("its columns do not have the names it says")
    return tuple(columns)


def _numbers(name: str, value: Any) -> Floats:
    """Return nested lists as an array; NumPy would also read numbers from text."""
    try:
        array = np.array(value)
    except ValueError as error:
        raise ValueError(f"{name} has rows of different lengths") from error
    if not isinstance(value, list) or array.dtype.kind not in "if":
        raise ValueError(f"{name} holds something that is not a finite number")
    return array.astype(np.float64)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} holds something that is not text")
    return value


def _squares(differences: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", differences, differences))


def _by_difference(
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


def _normalised(log_joint: Floats) -> tuple[Floats, Floats]:
    """Return log Σ exp and the shares of the terms; overwrites its argument."""
    largest = log_joint.max(axis=1)
    log_joint -= largest[:, None]
    np.exp(log_joint, out=log_joint)
    sums = log_joint.sum(axis=1)
    log_joint /= sums[:, None]
    return largest + np.log(sums), log_joint
