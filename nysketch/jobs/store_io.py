"""Files of a store: JSON that is complete and checked, digests, pairs of files that change together, history.

JSON has a checksum of its own, so that a changed digit is noticed; and since anybody can compute one, its
shape is checked as well (records.py). What the files mean is store.py's business.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from nysketch._support.atomic import atomic_file
from nysketch._support.documents import from_json
from nysketch._support.regular import open_regular
from nysketch.errors import CorruptSketchError, InputError, OutputError, json_in_shell
from nysketch.files.format import save
from nysketch.jobs.records import DIGEST, Check
from nysketch.sketches.sketch import Sketch

_LEFTOVER = re.compile(r"\..+\.(lock|[0-9a-f]{8}\.tmp)")
_CHUNK_BYTES = 1 << 20
# Bytes looked at, at a time, for the end of the last complete line of a history.
_TAIL_BYTES = 1 << 16
_CHECKSUM = "checksum"
# What helps if a file is damaged.
MADE_AGAIN = "the next `nysketch.run` makes it again"
RESTORE = "restore it from a copy"


def as_json(value: Any) -> bytes:
    """Return the bytes that a store holds for a value: the same value, the same bytes."""
    return (json.dumps(value, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def _sealed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value as files have it: messages name options as flags, and there is a checksum."""
    content = json_in_shell({key: each for key, each in value.items() if key != _CHECKSUM})
    sealed: dict[str, Any] = content | {_CHECKSUM: digest_of(content)}
    return sealed


def _unsealed(value: Any, shape: Check) -> dict[str, Any]:
    """Return what was sealed, if it is whole and has that shape; files of older versions have no checksum."""
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    content = {key: each for key, each in value.items() if key != _CHECKSUM}
    if _CHECKSUM in value and value[_CHECKSUM] != digest_of(content):
        raise ValueError("its checksum does not match its content")
    checked: dict[str, Any] = shape(content)
    return checked


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a value and its checksum, atomically; its messages name options as flags."""
    with atomic_file(path) as file:
        file.write(as_json(_sealed(value)))


def read_json(
    path: Path, shape: Check, remedy: str = MADE_AGAIN, *, first: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Read a value of that shape, one of records.py; say what helps if the file is damaged.

    `first` looks at the value before anything else is known of it.
    """
    try:
        with open_regular(path) as file:
            value = from_json(file.read())
        if first is not None:
            first(value)
        return _unsealed(value, shape)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except ValueError as error:
        raise CorruptSketchError(f"{path}: damaged: {error}; {remedy}") from error


def read_json_or_none(path: Path, shape: Check) -> dict[str, Any] | None:
    """Read a value, or None where there is none or it is damaged: it will be made again."""
    try:
        return read_json(path, shape)
    except (InputError, CorruptSketchError):
        return None


def digest_of(value: Any) -> str:
    """Return a digest of a value, as it would be written."""
    return hashlib.sha256(as_json(value)).hexdigest()[:32]


def file_digest(path: Path) -> str | None:
    """Return a digest of a file, or None if there is no such file."""
    sha = hashlib.sha256()
    try:
        with open_regular(path) as file:
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
    description = read_json_or_none(described(path), DIGEST)
    if description is not None and description["digest"] == file_digest(waiting):
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
    line = json.dumps(_sealed(value), sort_keys=True, allow_nan=False).encode() + b"\n"
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


def read_lines(path: Path, shape: Check) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the values of a file of JSON lines, and which lines are damaged.

    A last line that was cut short does not count: the next one takes its place.
    """
    try:
        with open_regular(path) as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    values, damaged = [], []
    for number, line in enumerate(lines[:-1], start=1):  # after the last newline there is nothing
        try:
            values.append(_unsealed(from_json(line), shape))
        except ValueError as error:
            damaged.append(f"{path}, line {number}: damaged: {error}; remove this line")
    return values, damaged
