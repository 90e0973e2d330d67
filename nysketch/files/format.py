"""Sketches and bases ↔ metadata and arrays, in files: with container.py, all that knows FORMAT.md.

Damage is noticed by the container. Since anybody can compute a checksum, what the content means is checked as
well (validate.py).
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import Any

from nysketch import __version__
from nysketch._types import Arrays
from nysketch.accumulators.tally import Tally
from nysketch.accumulators.unknown import UnknownValues
from nysketch.basis.base import Basis
from nysketch.basis.stored import basis_from_parts
from nysketch.errors import (
    CorruptSketchError,
    NysketchError,
    UsageError,
    WrongKindError,
    option,
)
from nysketch.files.container import (
    DAMAGE,
    FORMAT_VERSION,
    WITH_PARTS,
    WITHOUT_PARTS,
    canonical,
    encode,
    read_from,
    read_parts,
    reason,
    write_parts,
)
from nysketch.files.validate import check_basis, check_sums
from nysketch.provenance import Provenance
from nysketch.sketches.sketch import Sketch


def _head(kind: str, version: int) -> dict[str, Any]:
    return {"format_version": version, "kind": kind, "software": f"nysketch {__version__}"}


def _version(basis: Basis, *, parts: bool = False, unknown: bool = False) -> int:
    """Return the oldest version of the format that has what there is."""
    return FORMAT_VERSION if basis.encoded or unknown else WITH_PARTS if parts else WITHOUT_PARTS


def sketch_parts(sketch: Sketch, kind: str = "sketch") -> tuple[dict[str, Any], Arrays]:
    """Return a sketch as metadata and arrays."""
    counts = sketch.tally.get(UnknownValues)
    unknown = counts is not None and counts.some
    version = _version(sketch.basis, parts=bool(sketch.provenance.parts), unknown=unknown)
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
    _check_known(dict(metadata), arrays, *sketch_parts(sketch, kind=metadata["kind"]))
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
    return _head("basis", _version(thing)) | {"basis": thing.describe()}, thing.arrays()


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
    return b"".join(encode(*_parts(thing)))


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
    size = file.getbuffer().nbytes
    return _rebuilt(*read_from(file, size, size, ("sketch", "basis"), where), where)


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
        if metadata["kind"] == "sketch":
            return sketch_from_parts(metadata, arrays)
        basis = _basis_from_parts(metadata, arrays)
        _check_known(dict(metadata), arrays, *_parts(basis))
        return basis
    except DAMAGE as error:
        raise CorruptSketchError(f"{where}: its parts are inconsistent: {reason(error)}") from error


def _check_known(found: dict[str, Any], arrays: Arrays, metadata: dict[str, Any], ours: Arrays) -> None:
    """Raise ValueError if there is anything that we would not write: merging would lose it in silence."""
    for name, array in arrays.items():
        if name not in ours or ours[name].dtype != array.dtype:
            raise ValueError(f"array {name!r} has unexpected type {array.dtype}")
    # Older versions have less, and are written again as one that has all.
    if found["format_version"] < metadata["format_version"] <= WITHOUT_PARTS:
        found["format_version"] = metadata["format_version"]
    if not isinstance(found.pop("software"), str):
        raise ValueError("it does not name its software")
    for name, value in found.items():
        if name not in metadata or canonical(value) != canonical(metadata[name]):
            raise ValueError(f"its metadata {name!r} is invalid")


def load_sketch(path: str | os.PathLike[str]) -> Sketch:
    """Read a sketch; a file that holds a basis only is an error."""
    thing = load(path)
    if isinstance(thing, Basis):
        raise WrongKindError(
            f"{path}: is a basis file; expected a sketch file. Sketch data with {option('basis', str(path))}"
        )
    return thing


def load_basis(path: str | os.PathLike[str]) -> Basis:
    """Read a basis, or that of a sketch."""
    thing = load(path)
    return thing if isinstance(thing, Basis) else thing.basis
