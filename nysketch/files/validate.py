"""Whether what a file holds can be a basis, or the sums of some rows: anybody can compute a checksum.

Bytes are format.py's business. What was read is checked here before it is used, and what is to be written
before it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch.accumulators.cells import EXTENT, Cells, key_of_distance, numeric_landmarks, spreads
from nysketch.accumulators.exact import ExactSum
from nysketch.accumulators.grids import PRECISIONS
from nysketch.accumulators.groups import MOST_SHUFFLES, GroupSums, grouped
from nysketch.accumulators.second_moments import SecondMoments
from nysketch.accumulators.spans import COARSEST, FINEST, INPUT_BITS, MOST_SPANS, ROW_BITS, Spans
from nysketch.basis import quality
from nysketch.basis.base import LARGEST_SCALED, SCALINGS, Basis
from nysketch.basis.fourier import DRAWS, FourierBasis
from nysketch.basis.nystrom import NystromBasis
from nysketch.kernels import TEXT_KERNELS, Gaussian, Product
from nysketch.sketches.sketch import Sketch


def is_count(value: Any) -> bool:
    """Tell a non-negative 64-bit integer from everything else JSON has, `true` included."""
    return type(value) is int and 0 <= value < 2**63


def check_basis(basis: Basis) -> None:
    """Raise ValueError unless kernel values can be computed at this basis."""
    names = [column.name for column in basis.columns]
    if not names or len(set(names)) < len(names) or not all(c.width > 0 for c in basis.columns):
        raise ValueError("its columns are not a list of different names with their widths")
    if basis.scaling not in SCALINGS:
        raise ValueError("its scaling is unknown")
    if not basis.m:
        raise ValueError("it has no landmarks")
    for name, array in basis.arrays().items():
        of_text = basis.text and name.startswith("basis.landmarks")
        if not of_text and (array.dtype != np.float64 or not np.isfinite(array).all()):
            raise ValueError(f"{name} holds something that is not a finite number")
    if not (basis.scale > 0).all():
        raise ValueError("basis.scale is not positive")
    _check_kernel(basis)
    _check_origin(basis)


def _check_origin(basis: Basis) -> None:
    """Raise ValueError unless what `info` shows of the making of a basis is what was written."""
    origin = basis.origin
    if "held_out" in origin:
        measured = quality.from_description(origin["held_out"])
        if isinstance(measured, quality.FourierQuality) != isinstance(basis, FourierBasis):
            raise ValueError("its origin is that of another kind of basis")
    names = ("sampling", "frequencies")
    if not all(isinstance(origin.get(name, ""), str) for name in names):
        raise ValueError("its origin is impossible")
    if "sampling_report" in origin and "sampling" not in origin:
        raise ValueError("its origin is impossible")
    numbers = [*origin.get("sampling_report", {}).values()]
    numbers += [number for tried in origin.get("auto", []) for number in tried.values()]
    for value in numbers:
        for number in value.values() if isinstance(value, dict) else [value]:
            if type(number) not in (int, float) or not abs(number) < 1e100:
                raise ValueError("its origin holds something that is not a number")
    for tried in origin.get("auto", []):
        if set(tried) != {"landmarks", "projection_error", "projection_error_se", "sampling_error"}:
            raise ValueError("its origin is impossible")


def _check_kernel(basis: Basis) -> None:
    """Raise ValueError unless the kernel is one for these columns and landmarks."""
    kernel = basis.kernel
    if basis.text != (kernel.name in TEXT_KERNELS) or (basis.text and len(basis.columns) > 1):
        raise ValueError("its kernel is not one for its columns")
    if isinstance(kernel, Product) and kernel.groups[-1].stop != basis.d:
        raise ValueError("the groups of its kernel do not fit its columns")
    if isinstance(basis, FourierBasis):
        if not isinstance(kernel, Gaussian) or basis.draw not in DRAWS:
            raise ValueError("its Fourier features are of an unknown kind")
        return
    assert isinstance(basis, NystromBasis)
    with np.errstate(over="ignore", invalid="ignore"):
        if not basis.text and not (np.abs(basis.scaled_landmarks) < LARGEST_SCALED).all():
            raise ValueError("its landmarks are out of range once they are scaled")
        if not np.isfinite(basis.kernel.diagonal(basis.scaled_landmarks)).all():
            raise ValueError("its landmarks are out of the range of its kernel")


def check_sums(sketch: Sketch) -> None:
    """Raise ValueError unless these can be the sums over some rows."""
    blocks, ranges, settings = sketch.tally.blocks, sketch.tally.ranges, sketch.settings
    if blocks.sums.high.shape != (len(blocks.rows), sketch.basis.m) or not len(blocks.rows):
        raise ValueError("sums do not fit the landmarks")
    if blocks.rows.dtype != np.int64 or (blocks.rows < 0).any() or sum(blocks.rows.tolist()) >= 2**63:
        raise ValueError("its row counts are impossible")
    if not is_count(sketch.dropped_rows):
        raise ValueError("its number of dropped rows is impossible")
    _check_exact("blocks.sums", blocks.sums)
    if blocks.weights is not None:
        _check_exact("blocks.weights", blocks.weights)
        if (blocks.weights.high < 0).any():
            raise ValueError("its weights are negative")
    if any(a.dtype != np.float64 or a.shape != (sketch.basis.d,) for a in (ranges.lower, ranges.upper)):
        raise ValueError("column ranges do not fit the columns")
    # Of no rows, the ranges are empty: from infinity to minus infinity.
    bounded = np.isfinite(ranges.lower) & np.isfinite(ranges.upper) & (ranges.lower <= ranges.upper)
    empty = (ranges.lower == np.inf) & (ranges.upper == -np.inf)
    if not (bounded if sketch.rows else bounded | empty).all():
        raise ValueError("its column ranges are impossible")
    _check_settings(settings, weighted=sketch.weighted)
    if sketch.cells is not None:
        _check_cells(sketch, sketch.cells)
    if sketch.spans is not None:
        _check_spans(sketch, sketch.spans)
    if sketch.groups is not None:
        _check_groups(sketch, sketch.groups)
    if sketch.second_moments is not None:
        _check_second_moments(sketch, sketch.second_moments)


# What rounding may do to sums of squares, relative to them and to the square of the spread: a million
# fragments on the grid of 2**-44 make 2**-25 of it at most.
_ROUNDING, _GRAINS = 1e-9, 2.0**-20


def _check_cells(sketch: Sketch, cells: Cells) -> None:
    """Raise ValueError unless these can be the cells of the rows of this sketch."""
    landmarks = numeric_landmarks(sketch.basis)
    if landmarks is None:
        raise ValueError("its basis is one without cells")
    rows = cells.rows
    if rows.dtype != np.int64 or (rows < 0).any() or not is_count(cells.beyond):
        raise ValueError("the row counts of its cells are impossible")
    if sum(rows.tolist()) + cells.beyond != sketch.rows:
        raise ValueError("the rows of its cells are not those of its blocks")
    _check_exact("cells.sums", cells.sums)
    _check_exact("cells.squares", cells.squares)
    if cells.weights is not None:
        _check_exact("cells.weights", cells.weights)
    _check_far(landmarks, cells)
    # What a subtraction leaves was rounded when there were more rows, and of the last one nothing is known.
    if sketch.tally.ranges.exact and sketch.rows:
        _check_moments(sketch, cells, spreads(landmarks))


def _check_moments(sketch: Sketch, cells: Cells, unit: NDArray[np.float64]) -> None:
    """Raise ValueError unless there can be rows with these weights, sums and squares."""
    weight, sums, squares = cells.weight, cells.sums.high, cells.squares.high
    if (weight < 0).any() or weight[cells.rows == 0].any() or sums[cells.rows == 0].any():
        raise ValueError("the weights of its cells are impossible")
    if not cells.beyond and not np.isclose(weight.sum(), sketch.total_weight, rtol=1e-6):
        raise ValueError("the weights of its cells are not those of its blocks")
    with np.errstate(over="ignore"):
        # Cauchy and Schwarz: rows without any spread have the smallest squares.
        least = sums * sums / np.where(weight > 0, weight, 1.0)[:, None]
        most = weight[:, None] * (EXTENT * unit) ** 2
    slack = _GRAINS * unit**2
    if (squares < 0).any() or (squares * (1 + _ROUNDING) + slack < least).any():
        raise ValueError("the sums of its cells are too large for their squares")
    if (squares > most * (1 + _ROUNDING) + slack).any():
        raise ValueError("the squares of its cells are too large for their rows")


def _check_far(basis: NystromBasis, cells: Cells) -> None:
    """Raise ValueError unless far rows can be rows of these cells, and their keys are their distances."""
    far = cells.far
    if not len(far):
        return
    named = far.kept.rows[:, 0]
    if not ((named >= 0) & (named < basis.m) & (named == np.floor(named))).all():
        raise ValueError("its far rows are in cells that do not exist")
    if (np.bincount(far.cells, minlength=basis.m) > cells.rows).any():
        raise ValueError("its far rows are more than the rows of their cells")
    if not (np.abs(far.offsets) <= EXTENT * spreads(basis)).all():
        raise ValueError("its far rows are too far to be in a cell")
    squared = np.zeros(len(far))
    for column in far.offsets.T:  # in this order, as the pass adds them
        squared += column * column
    if not np.array_equal(key_of_distance(squared), far.kept.keys):
        raise ValueError("far.keys are not the distances of far.rows")


def _check_spans(sketch: Sketch, spans: Spans) -> None:
    """Raise ValueError unless these can be the runs of the rows of this sketch."""
    if not is_count(spans.capacity) or not 1 <= spans.capacity <= MOST_SPANS or len(spans) > spans.capacity:
        raise ValueError("its runs are more than there is room for")
    if not is_count(spans.level) or not FINEST <= spans.level <= COARSEST:
        raise ValueError("the level of its runs is impossible")
    _check_places(spans)
    rows = spans.rows
    if rows.dtype != np.int64 or (rows < 0).any() or sum(rows.tolist()) != sketch.rows:
        raise ValueError("the rows of its runs are not those of its blocks")
    _check_exact("runs.sums", spans.sums)
    if spans.weights is not None:
        _check_exact("runs.weights", spans.weights)
    # What a subtraction leaves was rounded when there were more rows, and of the last one nothing is known.
    if sketch.tally.ranges.exact and sketch.rows:
        weight = spans.weight
        if (weight < 0).any() or weight[rows == 0].any() or spans.sums.high[rows == 0].any():
            raise ValueError("the weights of its runs are impossible")
        if not np.isclose(weight.sum(), sketch.total_weight, rtol=1e-6):
            raise ValueError("the weights of its runs are not those of its blocks")


def _check_groups(sketch: Sketch, groups: GroupSums) -> None:
    """Raise ValueError unless these can be the sums of groups of the rows of this sketch."""
    _check_exact("groups.sums", groups.sums)
    basis = grouped(sketch.basis)
    assert basis is not None
    # What a subtraction leaves was rounded when there were more rows.
    if not sketch.tally.ranges.exact or not sketch.rows:
        return
    for part, sums in zip(groups.parts, groups.sums.high, strict=True):
        low, high = basis.of_groups(part).range
        slack = _SLACK * sketch.total_weight
        if (sums < low * sketch.total_weight - slack).any() or (
            np.isfinite(high) and (sums > high * sketch.total_weight + slack).any()
        ):
            raise ValueError("the sums of its groups are impossible for its rows")


def _check_second_moments(sketch: Sketch, moments: SecondMoments) -> None:
    """Raise ValueError unless these can be products of values, summed over the rows of this sketch."""
    _check_exact("moments.sums", moments.sums)
    # What a subtraction leaves was rounded when there were more rows.
    if not sketch.tally.ranges.exact or not sketch.rows:
        return
    diagonal, weight = moments.diagonal, sketch.total_weight
    low, high = sketch.basis.range
    with np.errstate(over="ignore", invalid="ignore"):  # of kernels without a bound, and of hostile numbers
        unit = np.sqrt(weight) * sketch.basis.magnitudes()
        most = max(low * low, high * high) * weight + _SLACK * unit**2
        if (diagonal < 0).any() or (diagonal > most).any():
            raise ValueError("its second moments are impossible for its rows")
        lengths = np.sqrt(diagonal)
        for i, row in enumerate(moments.rows()):
            slack = _SLACK * unit[i] * unit[i:]
            # Cauchy and Schwarz.
            most = (1 + _SLACK) * lengths[i] * lengths[i:] + slack
            if (np.abs(row) > most).any() or (low >= 0 and (row < -slack).any()):
                raise ValueError("its second moments are impossible for its rows")


# What rounding may do to a sum of kernel values, relative to the weight of the rows.
_SLACK = 1e-5


def _check_places(spans: Spans) -> None:
    """Raise ValueError unless runs are where runs of their level can be, in order."""
    where = spans.where
    if where.dtype != np.int64:
        raise ValueError("the addresses of its runs are not integers")
    # Beyond the bits of rows, the level takes away those of inputs.
    taken = max(spans.level, ROW_BITS) - ROW_BITS
    bounds = [1 << (INPUT_BITS - taken), 1 << (ROW_BITS - min(spans.level, ROW_BITS))]
    if (where < 0).any() or (where >= bounds).any():
        raise ValueError("the addresses of its runs are out of range")
    before, after = where[:-1], where[1:]
    same = before[:, 0] == after[:, 0]
    if not ((before[:, 0] < after[:, 0]) | (same & (before[:, 1] < after[:, 1]))).all():
        raise ValueError("its runs are not in order")


def _check_settings(settings: dict[str, Any], *, weighted: bool) -> None:
    weights = settings.get("weights")
    if settings["precision"] not in PRECISIONS:
        raise ValueError("its precision is unknown")
    if not isinstance(weights, str | None) or weighted != (weights is not None):
        raise ValueError("it does not say which column its weights are from")
    counts = [settings.get(name, 0) for name in ("blocks", "seed", "runs", "shuffles")]
    optional = [settings.get(name) for name in ("sample_rows", "far_rows", "shuffle_rows")]
    counts += [0 if count is None else count for count in optional]
    if not all(map(is_count, counts)) or settings.get("shuffles", 0) > MOST_SHUFFLES:
        raise ValueError("its settings are impossible")
    flags = [settings.get(name, True) for name in ("cells", "pairs", "second_moments")]
    if not isinstance(settings.get("nulls", ""), str) or not all(isinstance(flag, bool) for flag in flags):
        raise ValueError("its settings are impossible")


def _check_exact(name: str, exact: ExactSum) -> None:
    if exact.high.dtype != np.float64 or not np.isfinite(exact.high).all():
        raise ValueError(f"{name} holds something that is not a finite number")
    with np.errstate(over="ignore"):  # a hostile low part
        if not np.array_equal(exact.high + exact.low, exact.high):
            raise ValueError(f"{name} is not in canonical form")
