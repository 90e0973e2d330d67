"""What moved between two sketches: columns whose mean shifted, and regions that gained or lost rows.

A region is that around a landmark. The witness function, the difference of the two mean embeddings, is
positive where the first sample has more of its rows and negative where the second has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.columns import feature_names
from nysketch.kernels.base import inverse_or_zero
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import random_blocks, span_blocks, values_at
from nysketch.twosample.mmd import Blocks, uncorrelated
from nysketch.twosample.moments import (
    ColumnMoments,
    ScaledMoments,
    moments_of_cells,
    moments_of_sample,
)

# A column that varies by less than this, relative to its scale and its mean, is constant but for rounding.
_CONSTANT = 1e-6

# Landmarks that are more similar than this, by the kernel, tell the same story.
_ALIKE = 0.5


@dataclass(frozen=True)
class FeatureShift:
    """How a feature moved: `shift` is the second mean less the first, in standard deviations of the first.

    `spread` is the second standard deviation relative to the first. Both are None where it was constant.
    `set_aside` counts the rows of either with values far beyond all others, which are not in these numbers.
    """

    feature: str
    means: tuple[float, float]
    deviations: tuple[float, float]
    shift: float | None
    standard_error: float | None
    spread: float | None
    set_aside: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Region:
    """A landmark, in the units of the data, and the mean kernel values of the two samples there."""

    landmark: dict[str, Any]
    values: tuple[float, float]
    difference: float
    z: float | None  # in standard errors; None where these are unknown


@dataclass(frozen=True)
class Explanation:
    """Features by how much their means shifted, and the landmarks where each sample has more rows."""

    shifts: list[FeatureShift]
    shifts_from: str | None  # "cells": of all rows; "sample": of the sampled ones
    more_in_first: list[Region]
    more_in_second: list[Region]

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
    shifts, source = _shifts(first, second, ratios)
    more, less = _witness(first, second, consecutive, regions)
    return Explanation(shifts, source, more, less)


# ---- columns: means and deviations ----------------------------------------------------------------


def _shifts(first: Sketch, second: Sketch, ratios: Sequence[float]) -> tuple[list[FeatureShift], str | None]:
    if first.basis.text:
        return [], None
    for source, moments_of in (("cells", moments_of_cells), ("sample", moments_of_sample)):
        one, two = _comparable(moments_of(first), moments_of(second))
        if one is not None and two is not None:
            one, two = one.fewer(ratios[0]), two.fewer(ratios[1])
            tolerances = _CONSTANT * first.basis.scale
            found = [
                _shift(name, one, two, i, float(tolerances[i]))
                for i, name in enumerate(feature_names(first.basis.columns))
            ]
            # Those that were constant and are no more come first.
            found.sort(key=lambda s: -math.inf if s.shift is None else -abs(s.shift))
            return found, source
    return [], None


def _comparable(
    first: ScaledMoments | None, second: ScaledMoments | None
) -> tuple[ColumnMoments | None, ColumnMoments | None]:
    """Return moments of both without the wild values of features in which either has such."""
    if first is None or second is None:
        return None, None
    wild = first.wild_features() | second.wild_features()
    return first.without_wild(wild), second.without_wild(wild)


def _shift(name: str, one: ColumnMoments, two: ColumnMoments, i: int, tolerance: float) -> FeatureShift:
    means = float(one.means[i]), float(two.means[i])
    deviations = math.sqrt(one.variances[i]), math.sqrt(two.variances[i])
    aside = int(one.set_aside[i]), int(two.set_aside[i])
    unit, tolerance = deviations[0], tolerance + _CONSTANT * abs(means[0])
    if not unit > tolerance:
        moved = abs(means[0] - means[1]) > tolerance or deviations[1] > tolerance
        return FeatureShift(name, means, deviations, None if moved else 0.0, None, None, aside)
    error = math.sqrt(one.variances[i] / one.rows + two.variances[i] / two.rows)
    shift = (means[1] - means[0]) / unit
    return FeatureShift(name, means, deviations, shift, error / unit, deviations[1] / unit, aside)


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
        errors = np.sqrt(squares[0] + squares[1]) + _CONSTANT * np.abs(one)
    z = None if errors is None else difference * inverse_or_zero(errors)
    told = np.where(np.abs(difference) > _CONSTANT * np.abs(one), difference, 0.0)
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
        row[column.name] = part[0] if column.width == 1 else part
        start += column.width
    return row
