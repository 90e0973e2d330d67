"""Sketch, basis and checkpoint ↔ bytes: the only module that knows the layout (FORMAT.md).

The container is that of safetensors: the length of a JSON header as a little-endian u64, the header,
then the arrays back to back. On top of it, one canonical-JSON metadata string and a sha256 over the
header (with the digest's own digits as zeros) and the arrays. A file is accepted only if its header
is, byte for byte, the header we would write for its content; so every changed bit is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nysketch import __version__
from nysketch.accumulators import Tally
from nysketch.basis import Basis
from nysketch.errors import CorruptSketchError, InputError, NysketchError, OutputError
from nysketch.provenance import Provenance
from nysketch.sketches import Sketch

FORMAT_VERSION = 1
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


def _encode(metadata: dict[str, Any], arrays: Arrays) -> Iterator[bytes | memoryview]:
    stored = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    text = _canonical(metadata)
    header = _header(text, stored, _digest(text, stored))
    if len(header) > MAX_HEADER_BYTES:
        raise OutputError(
            f"the metadata takes {len(header):,} bytes, more than the format's {MAX_HEADER_BYTES:,}: "
            "too many columns; sketch fewer, or put features into one list column"
        )
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
    if not isinstance(header, dict) or "nysketch" not in header.get("__metadata__", {}):
        raise ValueError("it is not a nysketch file")
    container = header.pop("__metadata__")
    # Sizes are checked against the file before anything is allocated.
    declared = {
        name: (_DTYPES[entry["dtype"]], [int(n) for n in entry["shape"]]) for name, entry in header.items()
    }
    if any(n < 0 for _, shape in declared.values() for n in shape):
        raise ValueError("a shape is negative")
    total = sum(math.prod(shape) * dtype.itemsize for dtype, shape in declared.values())
    if total != size - 8 - header_bytes:
        raise ValueError(f"it should have {8 + header_bytes + total:,} bytes and has {size:,}")
    arrays: Arrays = {}
    for name, (dtype, shape) in sorted(declared.items()):
        array = np.empty(shape, dtype)
        if file.readinto(_bytes(array)) != array.nbytes:
            raise ValueError("it ended early")
        arrays[name] = array
    metadata = container["nysketch"]
    digest = _digest(metadata, arrays)
    if raw != _header(metadata, arrays, digest):
        raise ValueError("its checksum does not match its content")
    return json.loads(metadata), arrays


# ---- atomic files ---------------------------------------------------------------------------------


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears at `path` complete or not at all."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise OutputError(f"{path}: cannot write here: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot write: {error.strerror or error}. What was there before is untouched"
        ) from error
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()


def _umask() -> int:
    """Return the process's umask; there is no way to read it without setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


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
            version, kind = metadata["format_version"], metadata["kind"]
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptSketchError(f"{path}: not a usable sketch file: {error}") from error
    if version > FORMAT_VERSION:
        raise CorruptSketchError(
            f"{path}: format version {version}; this nysketch {__version__} reads up to "
            f"{FORMAT_VERSION}. Upgrade nysketch"
        )
    if kind not in kinds:
        raise CorruptSketchError(f"{path}: holds a {kind}, not a {' or a '.join(kinds)}")
    return metadata, arrays


# ---- sketches and bases ---------------------------------------------------------------------------


def _head(kind: str) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "kind": kind, "software": f"nysketch {__version__}"}


def sketch_parts(sketch: Sketch, kind: str = "sketch") -> tuple[dict[str, Any], Arrays]:
    """Return a sketch as metadata and arrays."""
    metadata = _head(kind) | {
        "basis": sketch.basis.describe(),
        "dropped_rows": sketch.dropped_rows,
        "provenance": sketch.provenance.describe(),
        "settings": sketch.settings,
    }
    return metadata, sketch.basis.arrays() | sketch.tally.arrays()


def sketch_from_parts(metadata: dict[str, Any], arrays: Arrays) -> Sketch:
    """Rebuild a sketch; raise ValueError or a kin where the parts do not fit together."""
    basis = Basis.from_parts(metadata["basis"], arrays)
    tally = Tally.from_arrays(arrays, dropped=int(metadata["dropped_rows"]))
    if tally.blocks.shape[1] != basis.m or tally.ranges.lower.shape != (basis.d,):
        raise ValueError("sums do not fit the landmarks")
    provenance = Provenance.from_description(metadata["provenance"])
    return Sketch(basis, tally, dict(metadata["settings"]), provenance)


def save(thing: Sketch | Basis, path: str | os.PathLike[str]) -> None:
    """Write a sketch or a basis to `path`, atomically and with a checksum."""
    if isinstance(thing, Sketch):
        write_parts(Path(path), *sketch_parts(thing))
    else:
        write_parts(Path(path), _head("basis") | {"basis": thing.describe()}, thing.arrays())


def load(path: str | os.PathLike[str]) -> Sketch | Basis:
    """Read a sketch or a basis, verifying its checksum."""
    metadata, arrays = read_parts(Path(path), ("sketch", "basis"))
    try:
        if metadata["kind"] == "basis":
            return Basis.from_parts(metadata["basis"], arrays)
        return sketch_from_parts(metadata, arrays)
    except NysketchError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise CorruptSketchError(f"{path}: its parts do not fit together: {error}") from error


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
