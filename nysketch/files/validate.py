"""Whether what a file holds can be a basis, or the sums of some rows: anybody can compute a checksum.

Bytes are format.py's business. What was read is checked here before it is used, and what is to be written
before it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nysketch.accumulators.grids import PRECISIONS
from nysketch.accumulators.options import MOST_SHUFFLES
from nysketch.accumulators.protocol import is_count
from nysketch.basis import quality
from nysketch.basis.base import LARGEST_SCALED, SCALINGS, Basis
from nysketch.basis.fourier import DRAWS, FourierBasis
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.scaling import Wild
from nysketch.errors import InputError
from nysketch.kernels import TEXT_KERNELS, Gaussian, Product
from nysketch.kinds import Category
from nysketch.sketches.sketch import Sketch

# Frequencies are drawn near 1 and divided by bandwidths, which are above 1e-50.
LARGEST_FREQUENCY = 1e60


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
        # Kinds check their own, and missing values of landmarks are NaN in columns with kinds.
        of_text = basis.text and name.startswith("basis.landmarks")
        if of_text or name.startswith("basis.kinds.") or (basis.encoded and name == "basis.landmarks"):
            continue
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not finite numbers")
    if basis.encoded:
        _check_encoded(basis)
    if not (basis.scale > 0).all():
        raise ValueError("basis.scale is not positive")
    _check_kernel(basis)
    _check_origin(basis)


def _check_encoded(basis: Basis) -> None:
    """Raise ValueError unless categories are scaled as one, and landmarks can be rows of such columns."""
    for (
        place
    ) in basis.layout.categories:  # two codes are a side apart in two features, and equal in all others
        center, scale = basis.center[place.features], basis.scale[place.features]
        if center.any() or (scale != scale[0]).any():
            raise ValueError("the values of a category are scaled in different ways")
    if not isinstance(basis, NystromBasis):
        return
    landmarks = basis.landmarks
    if landmarks.dtype != np.float64 or np.isinf(landmarks).any():
        raise ValueError("basis.landmarks holds values that are not numbers")
    for place in basis.layout.places:
        kind, values = place.column.kind, landmarks[:, place.numbers]
        if isinstance(kind, Category):
            if not np.isin(values, np.arange(kind.features)).all():
                raise ValueError("basis.landmarks holds codes that are in no vocabulary")
        elif kind is None and not np.isfinite(values).all():
            raise ValueError("basis.landmarks holds values that are not finite numbers")
        if kind is not None and not np.isfinite(place.expand(landmarks)).all():
            raise ValueError("basis.landmarks holds values that are out of range")


def require_sound(basis: Basis) -> None:
    """Raise an InputError if sketches at this basis could not be read again: known before the pass."""
    try:
        check_basis(basis)
    except ValueError as error:
        raise InputError(
            f"sketches at this basis could not be saved: {error}. Leave out columns of very small or large "
            "numbers with `exclude`, or rescale them"
        ) from error


def _are_shares(facts: dict[str, Any]) -> bool:
    known = facts.keys() <= {"share", "covered", "missing"}
    return known and all(type(share) is float and 0 <= share <= 1 for share in facts.values())


def _check_origin(basis: Basis) -> None:
    """Raise ValueError unless what `info` shows of the making of a basis is what was written."""
    origin = basis.origin
    if "held_out" in origin:
        measured = quality.from_origin(origin)
        if isinstance(measured, quality.FourierQuality) != isinstance(basis, FourierBasis):
            raise ValueError("its origin belongs to another kind of basis")
    names = ("sampling", "frequencies")
    if not all(isinstance(origin.get(name, ""), str) for name in names):
        raise ValueError("its origin is impossible")
    left_out, constants = origin.get("left_out", {}), origin.get("constants", {})
    if not all(isinstance(why, str) for why in left_out.values()):
        raise ValueError("its origin is impossible")
    if not all(type(value) is float and np.isfinite(value) for value in constants.values()):
        raise ValueError("its origin holds values that are not numbers")
    dropped = origin.get("pilot_dropped", {"dropped": 0, "rows": 0})
    if set(dropped) != {"dropped", "rows"} or not all(map(is_count, dropped.values())):
        raise ValueError("its origin is impossible")
    for counts in origin.get("pilot_unknown", {}).values():
        if set(counts) != {"missing", "unseen"} or not all(map(is_count, counts.values())):
            raise ValueError("its origin is impossible")
    for one in origin.get("wild", []):
        Wild.require(one)
    of_columns = origin.get("pilot_columns", {})
    if not all(isinstance(facts, dict) and _are_shares(facts) for facts in of_columns.values()):
        raise ValueError("its origin holds shares that are none")
    if "sampling_report" in origin and "sampling" not in origin:
        raise ValueError("its origin is impossible")
    numbers = [*origin.get("sampling_report", {}).values()]
    numbers += [number for tried in origin.get("auto", []) for number in tried.values()]
    for value in numbers:
        for number in value.values() if isinstance(value, dict) else [value]:
            if type(number) not in (int, float) or not abs(number) < 1e300:
                raise ValueError("its origin holds values that are not numbers")
    for tried in origin.get("auto", []):
        if set(tried) != {"landmarks", "projection_error", "projection_error_se", "sampling_error"}:
            raise ValueError("its origin is impossible")


def _check_kernel(basis: Basis) -> None:
    """Raise ValueError unless the kernel is one for these columns and landmarks."""
    kernel = basis.kernel
    if basis.text != (kernel.name in TEXT_KERNELS) or (basis.text and len(basis.columns) > 1):
        raise ValueError("its kernel does not apply to its columns")
    if isinstance(kernel, Product) and kernel.groups[-1].stop != basis.d:
        raise ValueError("the groups of its kernel do not match its columns")
    if isinstance(basis, FourierBasis):
        if not isinstance(kernel, Gaussian) or basis.draw not in DRAWS:
            raise ValueError("its Fourier features are of an unknown kind")
        if not (np.abs(basis.frequencies) < LARGEST_FREQUENCY).all():
            raise ValueError("its frequencies are out of range")
        return
    assert isinstance(basis, NystromBasis)
    with np.errstate(over="ignore", invalid="ignore"):
        if not basis.text and not (np.abs(basis.scaled_landmarks) < LARGEST_SCALED).all():
            raise ValueError("its landmarks are out of range once they are scaled")
        if not np.isfinite(basis.kernel.diagonal(basis.scaled_landmarks)).all():
            raise ValueError("its landmarks are out of the range of its kernel")


def check_sums(sketch: Sketch) -> None:
    """Raise ValueError unless these can be the sums over some rows: each statistic checks its own."""
    sketch.tally.check(sketch.basis)
    _check_settings(sketch.settings, weighted=sketch.weighted)


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
