"""The container of sketches, bases and checkpoints: metadata and arrays ↔ bytes (FORMAT.md).

It is that of safetensors: the length of a JSON header as a little-endian u64, the header, then the arrays
back to back. On top of it, one canonical-JSON metadata string and a sha256 over the header (with the digest's
own digits as zeros) and the arrays. A file is accepted only if it is, byte for byte, what we would write for
its content; so every changed bit is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch import __version__
from nysketch._support.atomic import atomic_file
from nysketch._support.regular import open_regular
from nysketch._types import Arrays
from nysketch.accumulators.protocol import is_count
from nysketch.errors import CorruptSketchError, InputError, OutputError, WrongKindError
from nysketch.files.kinds import what_to_do

FORMAT_VERSION = 8
# Older software takes what it does not know for an error, but asks for an upgrade only if the version is new:
# so files with columns that have kinds have the new one, those that hold parts of inputs the one before, and
# all others stay as they are, to the last bit.
WITH_PARTS = 7
WITHOUT_PARTS = 6
MAX_HEADER_BYTES = 1 << 20
# What a file may claim to hold, and what it may claim for each byte that is on the disk: the rest would be
# holes, which cost nothing to make and as much memory as anything else. Few bytes are harmless.
MAX_BYTES, MAX_BYTES_PER_BYTE, HARMLESS_BYTES = 1 << 38, 100, 64 << 20

_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_NO_DIGEST = "0" * 64
KINDS = ("sketch", "basis", "checkpoint")

# Type and shape of each array, by name.
Layout = dict[str, tuple[np.dtype[Any], list[int]]]


def canonical(value: Any) -> str:
    """Return JSON that is the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _header(metadata: str, layout: Layout, digest: str) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"nysketch": metadata, "sha256": digest}}
    offset = 0
    for name, (dtype, shape) in sorted(layout.items()):
        end = offset + math.prod(shape) * dtype.itemsize
        entries[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    header = canonical(entries).encode()
    return header + b" " * (-len(header) % 8)  # arrays start on a multiple of eight


def _layout(arrays: Arrays) -> Layout:
    return {name: (array.dtype, list(array.shape)) for name, array in arrays.items()}


def _digest(metadata: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(_header(metadata, _layout(arrays), _NO_DIGEST))
    for _, array in sorted(arrays.items()):
        sha.update(_bytes(array))
    return sha.hexdigest()


def _bytes(array: NDArray[Any]) -> memoryview:
    """View an array's buffer; memoryview refuses to cast empty arrays itself."""
    return array.reshape(-1).view(np.uint8).data


def require_small_header(metadata: dict[str, Any], arrays: Arrays) -> None:
    """Raise an OutputError if the names of columns and inputs are too many for the format."""
    length = len(_header(canonical(metadata), _layout(arrays), _NO_DIGEST))
    if length > MAX_HEADER_BYTES:
        raise OutputError(
            f"the metadata takes {length:,} bytes, more than the format's {MAX_HEADER_BYTES:,}. Too many "
            "columns: sketch fewer, or put features into one list column. Or parts of too many tables: "
            "merge all parts of each table first"
        )


def encode(metadata: dict[str, Any], arrays: Arrays) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file with this content, in pieces."""
    stored = {
        name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        for name, array in arrays.items()
    }
    require_small_header(metadata, stored)
    size = sum(array.nbytes for array in stored.values())
    if size > MAX_BYTES - MAX_HEADER_BYTES - 8:
        raise OutputError(f"the arrays take {size:,} bytes, more than the format's {MAX_BYTES:,}")
    text = canonical(metadata)
    header = _header(text, _layout(stored), _digest(text, stored))
    yield len(header).to_bytes(8, "little")
    yield header
    for _, array in sorted(stored.items()):
        yield _bytes(array)


@dataclass(frozen=True)
class Header:
    """What comes before the arrays: bytes; metadata, as text and parsed; types and shapes of the arrays."""

    raw: bytes
    text: str
    metadata: dict[str, Any]
    layout: Layout

    def offset(self, name: str) -> int:
        """Return where an array begins, from the end of the header."""
        before = (self.layout[other] for other in self.layout if other < name)
        return sum(math.prod(shape) * dtype.itemsize for dtype, shape in before)


def read_header(file: BufferedIOBase, size: int) -> Header:
    """Read the header of a file of this size; raise ValueError (or a kin) if it is not one of ours."""
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
    layout = {name: _declared(name, entry) for name, entry in header.items()}
    total = sum(math.prod(shape) * dtype.itemsize for dtype, shape in layout.values())
    if total != size - 8 - header_bytes:
        raise ValueError("its size differs from that in its header: truncated?")
    return Header(raw, text, metadata, layout)


def _decode(file: BufferedIOBase, size: int, on_disk: int) -> tuple[dict[str, Any], Arrays]:
    """Read metadata and arrays; raise ValueError (or a kin) on anything out of place."""
    header = read_header(file, size)
    # Sizes and checksum are checked before anything is allocated.
    if size - 8 - len(header.raw) > HARMLESS_BYTES:
        _require_there(size, on_disk)
        _check_digest(file, header)
    arrays: Arrays = {}
    for name, (dtype, shape) in sorted(header.layout.items()):
        array = np.empty(shape, dtype)
        if file.readinto(_bytes(array)) != array.nbytes:
            raise ValueError("it ended early")
        arrays[name] = array
    if header.raw != _header(header.text, header.layout, _digest(header.text, arrays)):
        raise ValueError("its checksum does not match its content")
    if header.text != canonical(header.metadata):
        raise ValueError("its metadata is not in canonical form")
    return header.metadata, arrays


def _require_there(size: int, on_disk: int) -> None:
    """Raise ValueError if a file claims too much."""
    if size > MAX_BYTES:
        raise ValueError(f"it claims {size:,} bytes, more than the format's {MAX_BYTES:,}")
    if size > MAX_BYTES_PER_BYTE * on_disk:
        raise ValueError(
            f"it claims {size:,} bytes, but only {on_disk:,} are on the disk, and the rest are holes. If it "
            "is sound, make a copy without holes"
        )


def _check_digest(file: BufferedIOBase, header: Header) -> None:
    """Raise ValueError unless the checksum is right; read what follows the header, and go back to it."""
    start, sha = file.tell(), hashlib.sha256(_header(header.text, header.layout, _NO_DIGEST))
    while part := file.read(1 << 20):
        sha.update(part)
    if header.raw != _header(header.text, header.layout, sha.hexdigest()):
        raise ValueError("its checksum does not match its content")
    file.seek(start)


def _declared(name: str, entry: dict[str, Any]) -> tuple[np.dtype[Any], list[int]]:
    """Return type and shape of an array as the header declares them."""
    dtype, shape = _DTYPES.get(entry["dtype"]), entry["shape"]
    if dtype is None:
        raise ValueError(f"array {name!r} has an unknown type")
    if not isinstance(shape, list) or not all(is_count(n) for n in shape):
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


def write_parts(path: Path, metadata: dict[str, Any], arrays: Arrays) -> None:
    """Write metadata and arrays to `path`, atomically."""
    with atomic_file(path) as file:
        for part in encode(metadata, arrays):
            file.write(part)


def read_parts(path: Path, kinds: tuple[str, ...]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_parts` wrote, if its kind is one of `kinds`."""
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            # Some file systems do not say how much there is of a file: it has a header, so 0 is unknown.
            on_disk = 512 * getattr(found, "st_blocks", 0) or found.st_size
            try:
                return read_from(file, found.st_size, on_disk, kinds, str(path))
            except CorruptSketchError as error:
                remedy = what_to_do(path, "sketch") if "sketch" in kinds else None
                if remedy is None:
                    raise
                raise WrongKindError(remedy) from error
    except OSError as error:
        remedy = what_to_do(path, "sketch") if path.is_dir() else None
        if remedy is not None:
            raise WrongKindError(remedy) from error
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error


def read_from(
    file: BufferedIOBase, size: int, on_disk: int, kinds: tuple[str, ...], where: str
) -> tuple[dict[str, Any], Arrays]:
    """Read what `encode` gave, if its kind is one of `kinds`; `where` names it in errors."""
    try:
        metadata, arrays = _decode(file, size, on_disk)
        kind = str(metadata["kind"])
    except DAMAGE as error:
        raise CorruptSketchError(f"{where}: not a usable sketch file: {reason(error)}") from error
    if kind not in kinds:
        named = kind if kind in KINDS else f"{kind!r:.20}"
        problem = f"{where}: is a {named} file; expected a {' or '.join(kinds)} file"
        if kind == "checkpoint":
            raise WrongKindError(f"{problem}. Finish the pass: run the command that left it once more")
        raise CorruptSketchError(problem)
    return metadata, arrays


# What reading parts that do not fit together can end in.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)


def reason(error: Exception) -> str:
    """Return what is wrong, in words."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
