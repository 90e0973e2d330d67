"""Sketch, basis and checkpoint ↔ bytes: the only module that knows the layout (FORMAT.md).

The container is that of safetensors: the length of a JSON header as a little-endian u64, the header,
then the arrays back to back. On top of it, one canonical-JSON metadata string and a sha256 over the
header (with the digest's own digits as zeros) and the arrays. A file is accepted only if it is, byte
for byte, what we would write for its content; so every changed bit is noticed. Since anybody can
compute a checksum, what the content means is checked as well (validate.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch import __version__
from nysketch._support.atomic import atomic_file
from nysketch._types import Arrays
from nysketch.accumulators.protocol import is_count
from nysketch.accumulators.tally import Tally
from nysketch.basis.base import Basis
from nysketch.basis.stored import basis_from_parts
from nysketch.errors import CorruptSketchError, InputError, NysketchError, OutputError, UsageError, option
from nysketch.files.validate import check_basis, check_sums
from nysketch.provenance import Provenance
from nysketch.sketches.sketch import Sketch

FORMAT_VERSION = 7
# Older software takes what it does not know for an error, but asks for an upgrade only if the version is new:
# so files that hold parts of inputs have the new one, and all others stay as they are, to the last bit.
_WITHOUT_PARTS = 6
MAX_HEADER_BYTES = 1 << 20

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
            f"the metadata takes {length:,} bytes, more than the format's {MAX_HEADER_BYTES:,}. Too many "
            "columns: sketch fewer, or put features into one list column. Or parts of too many tables: "
            "merge all parts of each table first"
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


def _decode(file: BufferedIOBase, size: int) -> tuple[dict[str, Any], Arrays]:
    """Read metadata and arrays; raise ValueError (or a kin) on anything out of place."""
    if size < 8:
        raise ValueError(f"it has only {size} bytes")
    header_bytes = int.from_bytes(file.read(8), "little")
    if header_bytes > MAX_HEADER_BYTES or header_bytes > size - 8:
        raise ValueError("its header is incomplete: truncated, or not a nysketch file")
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
        raise ValueError("its size differs from that in its header: truncated?")
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
    if not all(is_count(n) for n in shape):
        raise ValueError(f"array {name!r} has an impossible shape")
    return dtype, shape


def _check_version(metadata: Any) -> None:
    """Refuse the future before anything else of it is looked at."""
    version = metadata["format_version"]
    if not is_count(version) or version == 0:
        raise ValueError("its format version is not a number")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"it has format version {version}, and nysketch {__version__} reads up to {FORMAT_VERSION}. "
            "Upgrade nysketch"
        )


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
            size = os.fstat(file.fileno()).st_size
            try:
                return _read(file, size, kinds, str(path))
            except CorruptSketchError as error:
                remedy = _remedy(path, file, size) if "sketch" in kinds and file.seekable() else None
                if remedy is None:
                    raise
                raise CorruptSketchError(remedy) from error
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error


# What files of data start with, and how those end that start with anything.
_DATA_STARTS = (b"PAR1", b"PARE", b"\x89HDF", b"ARROW1")
_DATA_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4")
# In Parquet and NPZ files of models, near their end; in JSON files, near their beginning.
_MODEL_MARKS = (b"nysketch_model", b'"kind": "kmeans"', b'"kind": "gmm"')
_LOOKED_AT_BYTES = 1 << 20


def _remedy(path: Path, file: BufferedIOBase, size: int) -> str | None:
    """Return what to do where data, or a model, was given for a sketch; None if it was something else."""
    file.seek(0)
    start = file.read(8)
    if start.startswith((b"{", b"PK", b"PAR1")):
        looked_at = file.read(_LOOKED_AT_BYTES)
        file.seek(max(0, size - _LOOKED_AT_BYTES))
        looked_at += file.read(_LOOKED_AT_BYTES)
        if any(mark in looked_at for mark in _MODEL_MARKS):
            readers = "`nysketch.assign`, `nysketch.score` and `nysketch.plot`"
            return f"{path}: this is a model, not a sketch. {readers} read models"
    if start.startswith(_DATA_STARTS) or path.name.lower().endswith(_DATA_SUFFIXES):
        stem = path.stem.removesuffix(".csv")
        data, output = (json.dumps(str(name)) for name in (path, path.with_name(f"{stem}.nysk")))
        call = f"nysketch.sketch({data}, output={output})".replace("`", "\u0060")
        return f"{path}: this is data, not a sketch. Run `{call}` first"
    return None


def _read(
    file: BufferedIOBase, size: int, kinds: tuple[str, ...], where: str
) -> tuple[dict[str, Any], Arrays]:
    try:
        metadata, arrays = _decode(file, size)
        kind = str(metadata["kind"])
    except _DAMAGE as error:
        raise CorruptSketchError(f"{where}: not a usable sketch file: {_reason(error)}") from error
    if kind not in kinds:
        raise CorruptSketchError(f"{where}: is a {kind:.20} file; expected a {' or '.join(kinds)} file")
    return metadata, arrays


# What reading parts that do not fit together can end in.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


# ---- sketches and bases ---------------------------------------------------------------------------


def _head(kind: str, version: int = _WITHOUT_PARTS) -> dict[str, Any]:
    return {"format_version": version, "kind": kind, "software": f"nysketch {__version__}"}


def sketch_parts(sketch: Sketch, kind: str = "sketch") -> tuple[dict[str, Any], Arrays]:
    """Return a sketch as metadata and arrays."""
    version = FORMAT_VERSION if sketch.provenance.parts else _WITHOUT_PARTS
    metadata = _head(kind, version) | {
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
    check_sums(sketch)
    return sketch


def _basis_from_parts(metadata: dict[str, Any], arrays: Arrays) -> Basis:
    try:
        basis = basis_from_parts(metadata["basis"], arrays)
    except NysketchError as error:  # such as a negative bandwidth
        raise ValueError(str(error)) from error
    check_basis(basis)
    return basis


def _parts(thing: Sketch | Basis) -> tuple[dict[str, Any], Arrays]:
    if isinstance(thing, Sketch):
        return sketch_parts(thing)
    return _head("basis") | {"basis": thing.describe()}, thing.arrays()


def save(thing: Sketch | Basis, path: str | os.PathLike[str]) -> None:
    """Write a sketch or a basis to a file, atomically and with a checksum. A file that exists is replaced.

    Parameters
    ----------
    thing : Sketch or Basis
        What to write.
    path : path
        File to write.

    Examples
    --------
    >>> nysketch.save(nysketch.sketch(df), "data.nysk")

    """
    _require_sound(thing, f"{path}: this cannot be saved")
    write_parts(Path(path), *_parts(thing))


def to_bytes(thing: Sketch | Basis) -> bytes:
    """Return what `save` would write, for sketches and bases that travel without files.

    Parameters
    ----------
    thing : Sketch or Basis
        What to turn into bytes.

    Returns
    -------
    bytes

    Examples
    --------
    >>> queue.put(nysketch.to_bytes(s))

    """
    _require_sound(thing, "this cannot be turned into bytes")
    return b"".join(_encode(*_parts(thing)))


def _require_sound(thing: Sketch | Basis, problem: str) -> None:
    """Raise a UsageError about what could not be read again."""
    try:
        check_basis(thing if isinstance(thing, Basis) else thing.basis)
        if isinstance(thing, Sketch):
            check_sums(thing)
    except ValueError as error:
        raise UsageError(f"{problem}: {error}") from error


def from_bytes(data: bytes | bytearray | memoryview) -> Sketch | Basis:
    """Return what `to_bytes` was given, checked like a file.

    Parameters
    ----------
    data : bytes
        What `to_bytes` returned, or the contents of a file.

    Returns
    -------
    Sketch or Basis

    Examples
    --------
    >>> total = sum(nysketch.from_bytes(data) for data in messages)

    """
    where = "these bytes"
    file = BytesIO(data)
    return _rebuilt(*_read(file, file.getbuffer().nbytes, ("sketch", "basis"), where), where)


def load(path: str | os.PathLike[str]) -> Sketch | Basis:
    """Read a sketch or a basis, verifying its checksum.

    Parameters
    ----------
    path : path
        File that `save` or a command wrote, in any version of the format.

    Returns
    -------
    Sketch or Basis

    Examples
    --------
    >>> total = nysketch.load("monday.nysk") + nysketch.load("tuesday.nysk")

    """
    return load_with_metadata(path)[0]


def load_with_metadata(path: str | os.PathLike[str]) -> tuple[Sketch | Basis, dict[str, Any]]:
    """Read a sketch or a basis, and what its file says about itself."""
    metadata, arrays = read_parts(Path(path), ("sketch", "basis"))
    return _rebuilt(metadata, arrays, str(path)), metadata


def _rebuilt(metadata: dict[str, Any], arrays: Arrays, where: str) -> Sketch | Basis:
    try:
        rebuild = sketch_from_parts if metadata["kind"] == "sketch" else _basis_from_parts
        thing = rebuild(metadata, arrays)
        _check_known(dict(metadata), arrays, *_parts(thing))
    except _DAMAGE as error:
        raise CorruptSketchError(f"{where}: its parts are inconsistent: {_reason(error)}") from error
    return thing


def _check_known(found: dict[str, Any], arrays: Arrays, metadata: dict[str, Any], ours: Arrays) -> None:
    """Raise ValueError if there is anything that we would not write: merging would lose it in silence."""
    for name, array in arrays.items():
        if name not in ours or ours[name].dtype != array.dtype:
            raise ValueError(f"array {name!r} has unexpected type {array.dtype}")
    # Older versions have less, and are written again as one that has all.
    if found["format_version"] < metadata["format_version"] <= _WITHOUT_PARTS:
        found["format_version"] = metadata["format_version"]
    if not isinstance(found.pop("software"), str):
        raise ValueError("it does not name its software")
    for name, value in found.items():
        if name not in metadata or _canonical(value) != _canonical(metadata[name]):
            raise ValueError(f"its metadata {name!r} is invalid")


def load_sketch(path: str | os.PathLike[str]) -> Sketch:
    """Read a sketch; a file that holds a basis only is an error."""
    thing = load(path)
    if isinstance(thing, Basis):
        raise CorruptSketchError(
            f"{path}: is a basis file; expected a sketch file. Sketch data with {option('basis', str(path))}"
        )
    return thing


def load_basis(path: str | os.PathLike[str]) -> Basis:
    """Read a basis, or that of a sketch."""
    thing = load(path)
    return thing if isinstance(thing, Basis) else thing.basis
