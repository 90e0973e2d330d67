"""What moved between two sketches: columns, in their own terms, and regions that gained or lost rows.

A region is that around a landmark. The witness function, the difference of the two mean embeddings, is
positive where the first sample has more of its rows and negative where the second has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.accumulators.unknown import UnknownValues
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels.base import inverse_or_zero
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.columns import (
    CONSTANT,
    ColumnChange,
    FeatureShift,
    column_changes,
    feature_shifts,
)
from nysketch.twosample.embeddings import random_blocks, span_blocks, values_at
from nysketch.twosample.mmd import Blocks, uncorrelated
from nysketch.twosample.moments import (
    ColumnMoments,
    ScaledMoments,
    moments_of_cells,
    moments_of_sample,
)

# Landmarks that are more similar than this, by the kernel, tell the same story.
_ALIKE = 0.5


@dataclass(frozen=True)
class Region:
    """A landmark, in the units of the data, and the mean kernel values of the two samples there."""

    landmark: dict[str, Any]
    values: tuple[float, float]
    difference: float
    z: float | None  # in standard errors; None where these are unknown


@dataclass(frozen=True)
class Explanation:
    """Features by how much their means shifted, and the landmarks where each sample has more rows.

    `shifts` are those of numbers; `columns` says of every column what moved, in its own terms.
    """

    shifts: list[FeatureShift]
    shifts_from: str | None  # "cells": of all rows; "sample": of the sampled ones
    more_in_first: list[Region]
    more_in_second: list[Region]
    columns: list[ColumnChange] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def explain(
    first: Sketch,
    second: Sketch,
    *,
    consecutive: bool = False,
    ratios: Sequence[float] = (1.0, 1.0),
    regions: int = 3,
) -> Explanation:
    """Say what moved from the first sketch to the second; both have the same kernel of the same columns.

    Standard errors are from spans if rows are `consecutive`, and where there are none for a column as many
    times larger as the variance `ratios` say.
    """
    shifts, columns, source = _shifts(first, second, ratios)
    more, less = _witness(first, second, consecutive, regions)
    return Explanation(shifts, source, more, less, columns)


# ---- columns: means and deviations ----------------------------------------------------------------


def _shifts(
    first: Sketch, second: Sketch, ratios: Sequence[float]
) -> tuple[list[FeatureShift], list[ColumnChange], str | None]:
    if first.basis.text:
        return [], [], None
    for source, moments_of in (("cells", moments_of_cells), ("sample", moments_of_sample)):
        one, two = _comparable(moments_of(first), moments_of(second))
        if one is not None and two is not None:
            both = one.fewer(ratios[0]), two.fewer(ratios[1])
            found = feature_shifts(first.basis, both)
            missing = _missing_shares(first), _missing_shares(second)
            return found, column_changes(first.basis, both, missing), source
    return [], [], None


def _missing_shares(sketch: Sketch) -> Floats | None:
    """Return the share of rows without a value, by column; None where rows have weights, or it is unknown."""
    counts = sketch.tally.get(UnknownValues)
    return None if counts is None or sketch.weighted else counts.missing / max(sketch.rows, 1)


def _comparable(
    first: ScaledMoments | None, second: ScaledMoments | None
) -> tuple[ColumnMoments | None, ColumnMoments | None]:
    """Return moments of both without the wild values of features in which either has such."""
    if first is None or second is None:
        return None, None
    wild = first.wild_features() | second.wild_features()
    return first.without_wild(wild), second.without_wild(wild)


# ---- regions: the witness function at landmarks ---------------------------------------------------


def _witness(
    first: Sketch, second: Sketch, consecutive: bool, most: int
) -> tuple[list[Region], list[Region]]:
    bases = [basis for basis in (first.basis, second.basis) if isinstance(basis, NystromBasis)]
    found = [
        region
        for basis in dict.fromkeys(bases)
        for region in _regions(basis, first, second, consecutive, most)
    ]
    more = sorted((region for region in found if region.difference > 0), key=lambda r: -r.difference)
    less = sorted((region for region in found if region.difference < 0), key=lambda r: r.difference)
    return more[:most], less[:most]


def _regions(
    basis: NystromBasis, first: Sketch, second: Sketch, consecutive: bool, most: int
) -> list[Region]:
    """Return the landmarks of a basis where the witness function is largest and smallest."""
    one, two = values_at(basis, first), values_at(basis, second)
    difference = one - two
    errors = None
    blocks = [_kernel_blocks(sketch, consecutive) for sketch in (first, second)]
    if first.basis == second.basis and min(map(len, blocks)) > 1:
        squares = [(side.deviations() ** 2).sum(axis=0) for side in blocks]
        # Where rows are the same, what is left is rounding.
        errors = np.sqrt(squares[0] + squares[1]) + CONSTANT * np.abs(one)
    z = None if errors is None else difference * inverse_or_zero(errors)
    told = np.where(np.abs(difference) > CONSTANT * np.abs(one), difference, 0.0)
    chosen = [*_unlike(basis, told, most), *_unlike(basis, -told, most)]
    return [
        Region(
            _landmark(basis, j),
            (float(one[j]), float(two[j])),
            float(difference[j]),
            None if z is None else float(z[j]),
        )
        for j in chosen
    ]


def _kernel_blocks(sketch: Sketch, consecutive: bool) -> Blocks:
    spans = span_blocks(sketch) if consecutive else None
    return random_blocks(sketch) if spans is None else uncorrelated(spans)


def _unlike(basis: NystromBasis, values: Floats, most: int) -> list[int]:
    """Return the landmarks with the largest positive values that are not like those before them."""
    lengths = inverse_or_zero(np.sqrt(basis.kernel.diagonal(basis.scaled_landmarks)))
    chosen: list[int] = []
    left = values > 0
    while left.any() and len(chosen) < most:
        best = int(np.argmax(np.where(left, values, -np.inf)))
        chosen.append(best)
        alike = basis.kernel(basis.scaled_landmarks[best : best + 1], basis.scaled_landmarks)[0]
        left &= alike * lengths * lengths[best] < _ALIKE
        left[best] = False
    return chosen


def _landmark(basis: NystromBasis, j: int) -> dict[str, Any]:
    """Return a landmark as a row of the table."""
    if basis.text:
        return {basis.columns[0].name: str(basis.landmarks[j])}
    row, start = {}, 0
    for column in basis.columns:
        part = basis.landmarks[j, start : start + column.width].tolist()
        if column.kind is not None:
            row[column.name] = column.kind.value(part[0])
        else:
            row[column.name] = part[0] if column.width == 1 else part
        start += column.width
    return row
