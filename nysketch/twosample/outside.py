"""The part of the MMD outside the span of the landmarks, from the sampled rows that sketches carry.

Kernel sums tell how far apart the projections of two mean embeddings are. Rows that the landmarks do not
express, such as those of a drift that leads far away from them, differ outside of that span as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nysketch._types import Floats
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.quality import FEWEST_ROWS, MEASURED_STRINGS, relative_weights
from nysketch.basis.residual_kernel import OutsidePart, SampledRows, outside_part
from nysketch.sketches.quality import is_representative
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import Coordinates
from nysketch.twosample.mmd import Blocks, MMDEstimate

# Sampled rows of a sketch that are used, at most: their features, with 1000 landmarks, take 8 MB. Fewer where
# more sketches are compared with each other than this.
_MOST, _MOST_OF_MANY, _MANY = 1000, 250, 16
# Differences of numbers between two samples, at most: of rows of 768 numbers 510 are used, for half a second.
_WORK, _FEWEST_USED = 2e8, 200
# Rows that are less than this outside, relative to their squared length, are so by rounding.
_ROUNDING = 1e-9
# More than this share of MMD² from outside the span is worth a word.
_NOTABLE = 0.1
# So many standard errors from 0, a part outside the span is no chance: of 790 pairs of the same rows (normal,
# t(3), lognormal; 10 to 200 columns, 15 to 100 landmarks) none had as much.
_BEYOND_CHANCE = 4.0
# Of rows that are so much outside the span, the projections tell nearly nothing.
_LOST = 0.9
# By so much a median of means may differ from the mean without a word.
_OFF = 0.15
_REMEDY = "Use more landmarks, or make the basis from rows of both."


def rows_to_use(sketches: int, width: int, *, text: bool) -> int:
    """Return how many sampled rows of each of so many sketches are used, of rows with so many numbers."""
    most = _MOST if sketches <= _MANY else _MOST_OF_MANY
    if text:
        return min(most, MEASURED_STRINGS)
    return min(most, max(int(math.sqrt(_WORK / max(width, 1))), _FEWEST_USED))


def sampled_rows(sketch: Sketch, coordinates: Coordinates, most: int) -> SampledRows | None:
    """Return sampled rows of a sketch with their coordinates; None if they cannot tell of all rows."""
    sample, basis, n = sketch.tally.sample, sketch.basis, sketch.rows
    if not n or not isinstance(basis, NystromBasis):
        return None
    if not is_representative(sample, sketch.total_weight / n):
        return None
    keys, rows, weights = sample.keys[:most], sample.scaled(basis.middle)[:most], sample.weights
    bound = sample.bound if len(keys) == len(sample) else int(keys[-1])
    if weights is not None:
        # Rows without weight do not count, here or in the table.
        n = round(n * float((weights > 0).mean())) if len(weights) else 0
        counted = weights[:most] > 0
        keys, rows, weights = keys[counted], rows[counted], weights[:most][counted]
    if not len(rows) or len(rows) < min(FEWEST_ROWS, n):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        features = coordinates(basis.evaluate(rows))
    finite = np.isfinite(features).all(axis=1) & np.isfinite(basis.kernel.diagonal(rows))
    if not finite.all():  # of kernels without a bound: what is left would not be a sample
        return None
    shares = relative_weights(weights, len(rows))
    return SampledRows(basis.kernel, rows, features, shares, max(n, len(rows)), keys, bound)


def sample_both(
    sketches: tuple[Sketch, Sketch], coordinates: tuple[Coordinates, Coordinates], most: int
) -> tuple[SampledRows | None, SampledRows | None]:
    """Return sampled rows of two sketches, both in the units of the first."""
    first, second = (sampled_rows(*each, most) for each in zip(sketches, coordinates, strict=True))
    bases = [sketch.basis for sketch in sketches]
    if second is not None and not bases[0].text and (bases[0].center != bases[1].center).any():
        moved = second.rows + (bases[1].center - bases[0].center) / bases[0].scale
        second = replace(second, rows=moved)
    return first, second


@dataclass(frozen=True)
class Measured:
    """The MMD of all rows, and notes; `blind` if projections tell next to nothing of the rows.

    `untested` if a difference beyond chance is outside the span, where the test does not look.
    `seen` is how much of what chance does to MMD² is in the span: the test sees as much of a difference that
    is no more in the span than rows are.
    """

    distance: MMDEstimate
    notes: list[str]
    sampled_rows: tuple[int, int] | None = None
    blind: bool = False
    untested: bool = False
    seen: float = 1.0


def measure_distance(
    one: Blocks,
    two: Blocks,
    samples: tuple[SampledRows | None, SampledRows | None],
    sketches: tuple[Sketch, Sketch],
    ratios: Sequence[float],
    names: tuple[str, str],
) -> Measured:
    """Measure the MMD of all rows from blocks and from sampled rows, and say where it is to be doubted."""
    inside = MMDEstimate.of(one, two)
    if not isinstance(sketches[0].basis, NystromBasis):
        return Measured(inside, [])  # Fourier features are the kernel
    first, second = samples
    if first is None or second is None:
        lacking = names[0] if first is None else names[1]
        note = (
            f"{lacking}: too few sampled rows to tell what the landmarks do not express. The MMD is that of "
            "the projections on their span, and may be too small. Sketch with `sample_rows`."
        )
        return Measured(inside, [note])
    same = sketches[0].basis == sketches[1].basis
    found = outside_part(first, second)
    beyond = _shrunk(found.unbiased, found.variance_of_sampling)
    variance = found.variance((ratios[0], ratios[1]))
    distance = inside.plus(
        _added(found, beyond, inside, (first, second), same_landmarks=same),
        found.unbiased,
        variance=variance + _covariance(found, one.mean - two.mean, (first, second), ratios),
        at_least=max(sum(found.degenerate), found.variance_of_sampling),
    )
    certain = beyond if found.unbiased**2 > 9 * found.variance_of_sampling else 0.0
    blind = min(first.share_outside, second.share_outside) > _LOST
    notes, used = _notes(distance, certain, blind=blind), (len(first), len(second))
    untested = distance.projected**2 < (
        1 - _NOTABLE
    ) * distance.squared and found.unbiased > _BEYOND_CHANCE * math.sqrt(variance)
    return Measured(distance, notes, used, blind, untested, _share_seen(inside, found))


def of_projections(distance: MMDEstimate, whole: Measured) -> Measured:
    """Return an MMD of projections, such as a median of means has, with what the MMD of all rows says of it.

    Sampled rows are not in the groups of a median: there is no part outside the span to add.
    """
    share, projected = whole.distance.outside_share or 0.0, whole.distance.projected
    notes = list(whole.notes)
    if share > _NOTABLE and not whole.blind:
        notes = [
            "A median of means has the MMD of the projections on the span of the landmarks only: "
            f"{share:.0%} of the squared MMD of all rows is outside of it. {_REMEDY}"
        ]
    if abs(distance.mmd - projected) > _OFF * projected:
        notes.append(
            f"Without outlying blocks, the MMD of the projections is {projected:.4g}: the median of means is "
            f"{distance.mmd:.4g} because its groups are noisy. Use fewer groups with `robust`."
        )
    return replace(whole, distance=distance, notes=notes)


def _share_seen(inside: MMDEstimate, found: OutsidePart) -> float:
    by_chance = inside.squared - inside.squared_unbiased, max(found.squared - found.unbiased, 0.0)
    if not by_chance[0] > 0:
        return 1.0
    return max(by_chance[0] / (by_chance[0] + by_chance[1]), 1e-6)


def _notes(distance: MMDEstimate, certain: float, *, blind: bool) -> list[str]:
    """Say so if much is outside the span; `certain` is what is no chance of it."""
    if blind:
        return [
            "The landmarks express next to nothing of the rows of either: the test sees the projections on "
            f"their span only, and has hardly any power. {_REMEDY}"
        ]
    if (distance.outside_share or 0.0) > _NOTABLE and certain > _NOTABLE * distance.squared:
        share = f"{distance.outside_share or 0.0:.0%}"
        return [
            f"{share} of the squared MMD is outside the span of the landmarks: it is estimated from sampled "
            f"rows, and the test sees only the rest (MMD {distance.projected:.4g}). {_REMEDY}"
        ]
    return []


def _added(
    found: OutsidePart,
    beyond: float,
    inside: MMDEstimate,
    samples: tuple[SampledRows, SampledRows],
    *,
    same_landmarks: bool,
) -> float:
    """Return what is outside the span: what chance alone leads to, known well, and what is beyond."""
    by_chance = found.squared - found.unbiased
    # With different landmarks the projections are on different spaces: their distance may also be too large.
    outside = max(by_chance + beyond, 0.0 if same_landmarks else -inside.squared)
    length = max(float((side.shares * side.squared_norms).mean()) for side in samples)
    return outside if abs(outside) > _ROUNDING * length else 0.0


def _shrunk(estimate: float, variance: float) -> float:
    """Return nothing of an estimate within its standard error, and nearly all of one that is far beyond."""
    return 0.0 if estimate**2 <= variance else estimate - variance / estimate


def _covariance(
    found: OutsidePart,
    difference: Floats,
    samples: tuple[SampledRows, SampledRows],
    ratios: Sequence[float],
) -> float:
    """Return twice the covariance of the two parts: rows with much inside the span have little outside."""
    total = 0.0
    for sign, pull, side, ratio in zip((1.0, -1.0), found.pulls, samples, ratios, strict=True):
        shares, along = side.shares, sign * (side.features @ difference)
        products = (along - (shares * along).mean()) * (pull - (shares * pull).mean())
        total += 8 * ratio * float((shares**2 * products).mean()) / side.of_rows
    return total
