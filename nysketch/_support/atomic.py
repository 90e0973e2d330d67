"""Files that appear complete or not at all: temporary file beside the target, fsync, replace."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from nysketch._support.companions import beside, checkpoint_path
from nysketch._support.regular import require_replaceable
from nysketch.errors import OutputError


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears at `path` complete or not at all."""
    require_replaceable(path)
    path = Path(os.path.realpath(path))  # a link stays one; what it points to is replaced
    temporary = beside(path, ".", f".{secrets.token_hex(4)}.tmp")
    try:
        # Made by the kernel, so that its permissions follow the umask.
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OutputError(f"{path}: cannot write here: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot write: {error.strerror or error}. What was there before is untouched"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(output: Path) -> None:
    """Remove temporary files of an output, and its checkpoint, that a killed process left behind.

    Only for the holder of the output's lock: nobody else is writing such files.
    """
    where_it_leads = [Path(os.path.realpath(output))] if output.is_symlink() else []
    for path in (output, *where_it_leads):
        ours = "|".join(_temporary_names(one) for one in (path, checkpoint_path(path)))
        with suppress(OSError):
            for found in path.parent.iterdir():
                if re.fullmatch(ours, found.name):
                    found.unlink()


def _temporary_names(path: Path) -> str:
    """Return a pattern for the temporary files of a path."""
    ending = f".{'0' * 8}.tmp"
    return re.escape(beside(path, ".", ending).name.removesuffix(ending)) + r"\.[0-9a-f]{8}\.tmp"
