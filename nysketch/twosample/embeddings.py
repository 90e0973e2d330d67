"""From sketches to feature vectors that can be compared: blocks of rows in coordinates of a common space.

Sketches at the same basis share its features. With other landmarks, but the same kernel of the same columns,
both mean embeddings are functions of the same space, and the kernel between the two sets of landmarks says
how they lie in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import Quality
from nysketch.columns import owners
from nysketch.errors import IncompatibleError
from nysketch.kernels import (
    Gaussian,
    GaussianSum,
    Kernel,
    LaplacianL1,
    LaplacianL2,
    Matern32,
    Matern52,
    Product,
)
from nysketch.kinds.differences import difference
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.mmd import Blocks, Dependence, dependence

Coordinates = Callable[[Floats], Floats]  # kernel sums at landmarks, along the last axis → features


@dataclass(frozen=True, eq=False)
class Embedded:
    """The rows of a sketch as feature vectors, summed over random blocks and over consecutive rows."""

    sketch: Sketch
    random: Blocks
    spans: Blocks | None
    dependence: Dependence | None

    @classmethod
    def of(cls, sketch: Sketch, coordinates: Coordinates) -> Embedded:
        """Bring a sketch to such coordinates."""
        sketch.require_weight()
        random, spans = random_blocks(sketch, coordinates), span_blocks(sketch, coordinates)
        return cls(sketch, random, spans, None if spans is None else dependence(random, spans))


def random_blocks(sketch: Sketch, coordinates: Coordinates = lambda values: values) -> Blocks:
    """Return the random blocks of a sketch in such coordinates: kernel sums, unless told otherwise."""
    blocks = sketch.tally.blocks
    weights = blocks.rows if blocks.weights is None else blocks.weights.high
    return Blocks.of(coordinates(blocks.sums.high), weights, weighted=sketch.weighted)


def span_blocks(sketch: Sketch, coordinates: Coordinates = lambda values: values) -> Blocks | None:
    """Return its spans of consecutive rows; None if it has none."""
    spans = sketch.spans
    if spans is None:
        return None
    return Blocks.of(coordinates(spans.sums.high), spans.weight, weighted=sketch.weighted)


def common_coordinates(first: Sketch, second: Sketch) -> tuple[Coordinates, Coordinates]:
    """Return coordinates that the features of both have in common; raise IncompatibleError if none."""
    if first.basis == second.basis:
        return first.basis.to_features, first.basis.to_features
    return joint_coordinates(first.basis, second.basis)


def joint_coordinates(first: Basis, second: Basis) -> tuple[Coordinates, Coordinates]:
    """Return coordinates for sketches with different landmarks: in those of the first, and what is left."""
    mine, theirs = require_same_kernel(first, second)
    # The scalar products of the orthonormal features of the two.
    across = mine.nystrom.matrix @ _cross_gram(mine, theirs) @ theirs.nystrom.matrix.T
    # |b|² = |across b|² + |rest b|² for every b.
    eigenvalues, vectors = np.linalg.eigh(np.eye(theirs.rank) - across.T @ across)
    rest = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * vectors.T

    def of_first(values: Floats) -> Floats:
        features = mine.to_features(values)
        return np.concatenate([features, np.zeros((*features.shape[:-1], theirs.rank))], axis=-1)

    def of_second(values: Floats) -> Floats:
        features = theirs.to_features(values)
        return np.concatenate([features @ across.T, features @ rest.T], axis=-1)

    return of_first, of_second


def _cross_gram(mine: NystromBasis, theirs: NystromBasis) -> Floats:
    """Return the kernel between the landmarks of two bases."""
    return mine.kernel(mine.scaled_landmarks, mine.transform(theirs.landmarks))


def require_same_kernel(first: Basis, second: Basis) -> tuple[NystromBasis, NystromBasis]:
    """Raise IncompatibleError, naming both values, unless the bases differ in their landmarks alone."""
    if not (isinstance(first, NystromBasis) and isinstance(second, NystromBasis)):
        first.require_same(second)  # names what differs
        raise AssertionError
    _require_same_kinds(first, second)
    if first.columns != second.columns or first.kernel != second.kernel:
        first.require_same(second)
    same = np.array_equal(first.scale, second.scale)
    # Of the difference of two rows, the centre is no part.
    if not same or not (_of_differences(first.kernel) or np.array_equal(first.center, second.center)):
        if first.scaling != second.scaling:
            first.require_same(second)
        what = "centres" if same else "scales"
        values = [b.center if same else b.scale for b in (first, second)]
        at = int(np.flatnonzero(values[0] != values[1])[0])
        names = owners(first.columns)
        raise IncompatibleError(
            f"the sketches scale their columns differently, so they have different kernels: the {what} of "
            f"{names[at]!r} are {values[0][at]:.6g} and {values[1][at]:.6g}. Make both with the same "
            '`basis`, or with `scale="none"` and the same `bandwidth`'
        )
    return first, second


def _require_same_kinds(first: Basis, second: Basis) -> None:
    """Raise IncompatibleError, naming the first column that is encoded otherwise: no kernel spans both."""
    for mine, theirs in zip(first.columns, second.columns, strict=False):
        if mine.name == theirs.name and mine.kind != theirs.kind:
            raise IncompatibleError(
                f"the sketches encode column {mine.name!r} differently: "
                f"{difference(mine.kind, theirs.kind)}. Make both with the same `basis`"
            )


_RADIAL = (Gaussian, GaussianSum, LaplacianL1, LaplacianL2, Matern32, Matern52)


def _of_differences(kernel: Kernel) -> bool:
    """Tell whether the kernel depends on the difference of two rows alone."""
    if isinstance(kernel, Product):
        return all(_of_differences(group.kernel) for group in kernel.groups)
    return isinstance(kernel, _RADIAL)


def projection_error_bound(sketch: Sketch) -> float | None:
    """Return how far the mean embedding may be from what the landmarks can express; None if unknown.

    Two standard errors more than it is estimated to be from the sampled rows.
    """
    quality = sketch.quality(effective_dimension=False)
    if not isinstance(quality, Quality):
        return None
    return quality.projection_error + 2 * quality.projection_error_se


def values_at(landmarks_of: NystromBasis, sketch: Sketch) -> Floats:
    """Return the mean embedding of a sketch at the landmarks of a basis with the same kernel."""
    if sketch.basis == landmarks_of:
        return sketch.mean_kernel()
    _, basis = require_same_kernel(landmarks_of, sketch.basis)
    return _cross_gram(landmarks_of, basis) @ sketch.embedding_weights()
