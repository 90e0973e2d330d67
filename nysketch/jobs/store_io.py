"""Files of a store: JSON that is always complete, digests, pairs of files that change together, the history.

What the files mean is store.py's business.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nysketch._support.atomic import atomic_file
from nysketch.errors import CorruptSketchError, InputError, OutputError, json_in_shell
from nysketch.files.format import save
from nysketch.sketches.sketch import Sketch

_LEFTOVER = re.compile(r"\..+\.(lock|[0-9a-f]{8}\.tmp)")
_CHUNK_BYTES = 1 << 20
# Bytes looked at, at a time, for the end of the last complete line of a history.
_TAIL_BYTES = 1 << 16


def as_json(value: Any) -> bytes:
    """Return the bytes that a store holds for a value: the same value, the same bytes."""
    return (json.dumps(value, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Any) -> None:
    """Write a value, atomically; its messages name options as flags."""
    with atomic_file(path) as file:
        file.write(as_json(json_in_shell(value)))


def read_json(path: Path, remedy: str = "remove it: the next `nysketch.run` makes it again") -> Any:
    """Read a value; say what helps if the file is damaged."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptSketchError(f"{path}: not a usable file of a store: {error}; {remedy}") from error


def read_json_or_none(path: Path) -> Any:
    """Read a value, or None where there is none or it is damaged: it will be made again."""
    try:
        return read_json(path)
    except (InputError, CorruptSketchError):
        return None


def digest_of(value: Any) -> str:
    """Return a digest of a value, as it would be written."""
    return hashlib.sha256(as_json(value)).hexdigest()[:32]


def file_digest(path: Path) -> str | None:
    """Return a digest of a file, or None if there is no such file."""
    sha = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                sha.update(chunk)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    return sha.hexdigest()[:32]


# ---- a sketch and the JSON that describes it: two files, one change ----------------------------------


def described(path: Path) -> Path:
    """Return the JSON beside a sketch; names may have dots in them, so only the last suffix goes."""
    return path.with_name(path.name.removesuffix(".nysk") + ".json")


def pending(path: Path) -> Path:
    """Return where a sketch waits until the JSON beside it says that it is the one."""
    return path.with_name(path.name + ".next")


def save_described(sketch: Sketch, path: Path, description: dict[str, Any]) -> None:
    """Replace a sketch and its description together: the description is what decides.

    Killed before the description is replaced, the old pair is still whole; killed after it, the new sketch
    is there under its waiting name, and `settle_pair` puts it into its place.
    """
    waiting = pending(path)
    save(sketch, waiting)
    write_json(described(path), description | {"digest": file_digest(waiting)})
    replace_file(waiting, path)


def settle_pair(path: Path) -> None:
    """Finish, or undo, a change of a sketch and its description that was cut short."""
    waiting = pending(path)
    if not waiting.exists():
        return
    description = read_json_or_none(described(path))
    if isinstance(description, dict) and description.get("digest") == file_digest(waiting):
        replace_file(waiting, path)
    else:
        remove(waiting)


def replace_file(old: Path, new: Path) -> None:
    """Rename a file over another."""
    try:
        old.replace(new)
    except OSError as error:
        raise OutputError(f"{new}: cannot write: {error.strerror or error}") from error


def remove(*paths: Path) -> None:
    """Remove files, if they are there."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot remove: {error.strerror or error}") from error


def make_folder(path: Path) -> None:
    """Make a directory and those above it, unless they are there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot create this directory: {error.strerror or error}") from error


def sweep(folders: Iterable[Path], *, but: Path) -> None:
    """Remove temporary files and locks that killed runs left, but for the lock that makes it safe."""
    for folder in folders:
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                if _LEFTOVER.fullmatch(path.name) and path != but:
                    remove(path)


# ---- the history --------------------------------------------------------------------------------------


def append_line(path: Path, value: dict[str, Any]) -> None:
    """Append a value to a file of JSON lines; what a killed run left of its line goes first.

    A line that cannot be written whole is taken back.
    """
    line = json.dumps(json_in_shell(value), sort_keys=True, allow_nan=False).encode() + b"\n"
    try:
        with path.open("a+b", buffering=0) as file:
            end = _end_of_lines(file)
            file.truncate(end)
            try:
                written = file.write(line)
                if written != len(line):
                    raise OSError(None, "the disk is full")
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {error.strerror or error}") from error


def _end_of_lines(file: Any) -> int:
    """Return where the last complete line ends."""
    position: int = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - _TAIL_BYTES)
        file.seek(start)
        newline: int = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the values of a file of JSON lines; a last line that was cut short does not count."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    values = []
    for line in lines[:-1]:  # after the last newline there is nothing, or what was cut short
        with suppress(ValueError, RecursionError):
            value = json.loads(line)
            if isinstance(value, dict):
                values.append(value)
    return values
