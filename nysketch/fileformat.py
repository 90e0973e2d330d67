"""Sketch, basis and checkpoint ↔ bytes: the only module that knows the layout (FORMAT.md).

The container is that of safetensors: the length of a JSON header as a little-endian u64, the header,
then the arrays back to back. On top of it, one canonical-JSON metadata string and a sha256 over the
header (with the digest's own digits as zeros) and the arrays. A file is accepted only if it is, byte
for byte, what we would write for its content; so every changed bit is noticed. Since anybody can
compute a checksum, what the content means is checked as well (`_check_basis`, `_check_sums`, `_check_cells`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch import __version__, quality
from nysketch.accumulators import PRECISIONS, Tally
from nysketch.atomic import atomic_file
from nysketch.basis import DRAWS, LARGEST_SCALED, SCALINGS, Basis, FourierBasis, NystromBasis
from nysketch.cells import EXTENT, Cells, key_of_distance, numeric_landmarks, spreads
from nysketch.errors import CorruptSketchError, InputError, NysketchError, OutputError, UsageError
from nysketch.exact import ExactSum
from nysketch.kernels import TEXT_KERNELS, Gaussian, Product
from nysketch.provenance import Provenance
from nysketch.sketches import Sketch

FORMAT_VERSION = 3
MAX_HEADER_BYTES = 1 << 20
Arrays = dict[str, NDArray[Any]]

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_NO_DIGEST = "0" * 64


# ---- the container: metadata and arrays ↔ bytes -------------------------------------------------


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _header(metadata: str, arrays: Arrays, digest: str) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"nysketch": metadata, "sha256": digest}}
    offset = 0
    for name, array in sorted(arrays.items()):
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    header = _canonical(entries).encode()
    return header + b" " * (-len(header) % 8)  # arrays start on a multiple of eight


def _digest(metadata: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(_header(metadata, arrays, _NO_DIGEST))
    for _, array in sorted(arrays.items()):
        sha.update(_bytes(array))
    return sha.hexdigest()


def _bytes(array: NDArray[Any]) -> memoryview:
    """View an array's buffer; memoryview refuses to cast empty arrays itself."""
    return array.reshape(-1).view(np.uint8).data


def require_small_header(metadata: dict[str, Any], arrays: Arrays) -> None:
    """Raise an OutputError if the names of columns and inputs are too many for the format."""
    length = len(_header(_canonical(metadata), arrays, _NO_DIGEST))
    if length > MAX_HEADER_BYTES:
        raise OutputError(
            f"the metadata takes {length:,} bytes, more than the format's {MAX_HEADER_BYTES:,}: "
            "too many columns; sketch fewer, or put features into one list column"
        )


def _encode(metadata: dict[str, Any], arrays: Arrays) -> Iterator[bytes | memoryview]:
    stored = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    require_small_header(metadata, stored)
    text = _canonical(metadata)
    header = _header(text, stored, _digest(text, stored))
    yield len(header).to_bytes(8, "little")
    yield header
    for _, array in sorted(stored.items()):
        yield _bytes(array)


def _decode(file: BufferedReader, size: int) -> tuple[dict[str, Any], Arrays]:
    """Read metadata and arrays; raise ValueError (or a kin) on anything out of place."""
    if size < 8:
        raise ValueError(f"it has only {size} bytes")
    header_bytes = int.from_bytes(file.read(8), "little")
    if header_bytes > MAX_HEADER_BYTES or header_bytes > size - 8:
        raise ValueError("the header does not fit: truncated, or not a nysketch file")
    raw = file.read(header_bytes)
    header = json.loads(raw)
    container = header.pop("__metadata__", None) if isinstance(header, dict) else None
    text = container.get("nysketch") if isinstance(container, dict) else None
    if not isinstance(text, str):
        raise ValueError("it is not a nysketch file")
    metadata = json.loads(text)
    _check_version(metadata)
    declared = {name: _declared(name, entry) for name, entry in header.items()}
    # Sizes are checked against the file before anything is allocated.
    total = sum(math.prod(shape) * dtype.itemsize for dtype, shape in declared.values())
    if total != size - 8 - header_bytes:
        raise ValueError("its size is not what its header says: truncated?")
    arrays: Arrays = {}
    for name, (dtype, shape) in sorted(declared.items()):
        array = np.empty(shape, dtype)
        if file.readinto(_bytes(array)) != array.nbytes:
            raise ValueError("it ended early")
        arrays[name] = array
    if raw != _header(text, arrays, _digest(text, arrays)):
        raise ValueError("its checksum does not match its content")
    if text != _canonical(metadata):
        raise ValueError("its metadata is not in canonical form")
    return metadata, arrays


def _declared(name: str, entry: dict[str, Any]) -> tuple[np.dtype[Any], list[int]]:
    """Return type and shape of an array as the header declares them."""
    dtype, shape = _DTYPES.get(entry["dtype"]), entry["shape"]
    if dtype is None:
        raise ValueError(f"array {name!r} has an unknown type")
    if not all(_is_count(n) for n in shape):
        raise ValueError(f"array {name!r} has an impossible shape")
    return dtype, shape


def _check_version(metadata: Any) -> None:
    """Refuse the future before anything else of it is looked at."""
    version = metadata["format_version"]
    if not _is_count(version) or version == 0:
        raise ValueError("its format version is not a number")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {version}, and nysketch {__version__} reads up to {FORMAT_VERSION}. "
            "Upgrade nysketch"
        )


def _is_count(value: Any) -> bool:
    """Tell a non-negative 64-bit integer from everything else JSON has, `true` included."""
    return type(value) is int and 0 <= value < 2**63


# ---- files: --------------------------------------------------------------------------------------


def write_parts(path: Path, metadata: dict[str, Any], arrays: Arrays) -> None:
    """Write metadata and arrays to `path`, atomically."""
    with atomic_file(path) as file:
        for part in _encode(metadata, arrays):
            file.write(part)


def read_parts(path: Path, kinds: tuple[str, ...]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_parts` wrote, if its kind is one of `kinds`."""
    try:
        with path.open("rb") as file:
            metadata, arrays = _decode(file, os.fstat(file.fileno()).st_size)
            kind = str(metadata["kind"])
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except _DAMAGE as error:
        raise CorruptSketchError(f"{path}: not a usable sketch file: {_reason(error)}") from error
    if kind not in kinds:
        raise CorruptSketchError(f"{path}: holds a {kind:.20}, not a {' or a '.join(kinds)}")
    return metadata, arrays


# What reading parts that do not fit together can end in.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


# ---- sketches and bases ---------------------------------------------------------------------------


def _head(kind: str) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "kind": kind, "software": f"nysketch {__version__}"}


def sketch_parts(sketch: Sketch, kind: str = "sketch") -> tuple[dict[str, Any], Arrays]:
    """Return a sketch as metadata and arrays."""
    metadata = _head(kind) | {
        "basis": sketch.basis.describe(),
        "provenance": sketch.provenance.describe(),
        "settings": sketch.settings,
        **sketch.tally.describe(),
    }
    return metadata, sketch.basis.arrays() | sketch.tally.arrays()


def sketch_from_parts(metadata: dict[str, Any], arrays: Arrays) -> Sketch:
    """Rebuild a sketch; raise ValueError or a kin where the parts do not fit together."""
    basis = _basis_from_parts(metadata, arrays)
    tally = Tally.from_parts(metadata, arrays, basis)
    provenance = Provenance.from_description(metadata["provenance"])
    sketch = Sketch(basis, tally, dict(metadata["settings"]), provenance)
    _check_sums(sketch)
    return sketch


def _basis_from_parts(metadata: dict[str, Any], arrays: Arrays) -> Basis:
    try:
        basis = Basis.from_parts(metadata["basis"], arrays)
    except NysketchError as error:  # such as a negative bandwidth
        raise ValueError(str(error)) from error
    _check_basis(basis)
    return basis


def _check_basis(basis: Basis) -> None:
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


def _check_sums(sketch: Sketch) -> None:
    """Raise ValueError unless these can be the sums over some rows."""
    blocks, ranges, settings = sketch.tally.blocks, sketch.tally.ranges, sketch.settings
    if blocks.sums.high.shape != (len(blocks.rows), sketch.basis.m) or not len(blocks.rows):
        raise ValueError("sums do not fit the landmarks")
    if blocks.rows.dtype != np.int64 or (blocks.rows < 0).any() or sum(blocks.rows.tolist()) >= 2**63:
        raise ValueError("its row counts are impossible")
    if not _is_count(sketch.dropped_rows):
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


# What rounding may do to sums of squares, relative to them and to the square of the spread: a million
# fragments on the grid of 2**-44 make 2**-25 of it at most.
_ROUNDING, _GRAINS = 1e-9, 2.0**-20


def _check_cells(sketch: Sketch, cells: Cells) -> None:
    """Raise ValueError unless these can be the cells of the rows of this sketch."""
    landmarks = numeric_landmarks(sketch.basis)
    if landmarks is None:
        raise ValueError("its basis is one without cells")
    rows = cells.rows
    if rows.dtype != np.int64 or (rows < 0).any() or not _is_count(cells.beyond):
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


def _check_settings(settings: dict[str, Any], *, weighted: bool) -> None:
    weights = settings.get("weights")
    if settings["precision"] not in PRECISIONS:
        raise ValueError("its precision is unknown")
    if not isinstance(weights, str | None) or weighted != (weights is not None):
        raise ValueError("it does not say which column its weights are from")
    counts = [settings.get(name, 0) for name in ("blocks", "seed")]
    counts += [0 if settings.get(name) is None else settings[name] for name in ("sample_rows", "far_rows")]
    if not all(map(_is_count, counts)):
        raise ValueError("its settings are impossible")
    if not isinstance(settings.get("nulls", ""), str) or not isinstance(settings.get("cells", True), bool):
        raise ValueError("its settings are impossible")


def _check_exact(name: str, exact: ExactSum) -> None:
    if exact.high.dtype != np.float64 or not np.isfinite(exact.high).all():
        raise ValueError(f"{name} holds something that is not a finite number")
    with np.errstate(over="ignore"):  # a hostile low part
        if not np.array_equal(exact.high + exact.low, exact.high):
            raise ValueError(f"{name} is not in canonical form")


def _parts(thing: Sketch | Basis) -> tuple[dict[str, Any], Arrays]:
    if isinstance(thing, Sketch):
        return sketch_parts(thing)
    return _head("basis") | {"basis": thing.describe()}, thing.arrays()


def save(thing: Sketch | Basis, path: str | os.PathLike[str]) -> None:
    """Write a sketch or a basis to `path`, atomically and with a checksum."""
    try:
        _check_basis(thing if isinstance(thing, Basis) else thing.basis)
        if isinstance(thing, Sketch):
            _check_sums(thing)
    except ValueError as error:
        raise UsageError(f"{path}: this cannot be saved: {error}") from error
    write_parts(Path(path), *_parts(thing))


def load(path: str | os.PathLike[str]) -> Sketch | Basis:
    """Read a sketch or a basis, verifying its checksum."""
    return load_with_metadata(path)[0]


def load_with_metadata(path: str | os.PathLike[str]) -> tuple[Sketch | Basis, dict[str, Any]]:
    """Read a sketch or a basis, and what its file says about itself."""
    metadata, arrays = read_parts(Path(path), ("sketch", "basis"))
    try:
        rebuild = sketch_from_parts if metadata["kind"] == "sketch" else _basis_from_parts
        thing = rebuild(metadata, arrays)
        _check_known(metadata | {"format_version": FORMAT_VERSION}, arrays, *_parts(thing))
    except _DAMAGE as error:
        raise CorruptSketchError(f"{path}: its parts do not fit together: {_reason(error)}") from error
    return thing, metadata


def _check_known(found: dict[str, Any], arrays: Arrays, metadata: dict[str, Any], ours: Arrays) -> None:
    """Raise ValueError if there is anything that we would not write: merging would lose it in silence."""
    for name, array in arrays.items():
        if name not in ours or ours[name].dtype != array.dtype:
            raise ValueError(f"nysketch writes no array {name!r} of {array.dtype}")
    if not isinstance(found.pop("software"), str):
        raise ValueError("it does not name its software")
    for name, value in found.items():
        if name not in metadata or _canonical(value) != _canonical(metadata[name]):
            raise ValueError(f"its metadata {name!r} is not what nysketch writes")


def load_sketch(path: str | os.PathLike[str]) -> Sketch:
    """Read a sketch; a file that holds a basis only is an error."""
    thing = load(path)
    if isinstance(thing, Basis):
        raise CorruptSketchError(f"{path}: holds a basis, not a sketch. Sketch data with --basis {path}")
    return thing


def load_basis(path: str | os.PathLike[str]) -> Basis:
    """Read a basis, or that of a sketch."""
    thing = load(path)
    return thing if isinstance(thing, Basis) else thing.basis
