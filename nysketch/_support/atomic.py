"""Files that appear complete or not at all: temporary file beside the target, fsync, replace."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from nysketch.errors import OutputError


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears at `path` complete or not at all."""
    path = Path(os.path.realpath(path))  # a link stays one; what it points to is replaced
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
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
    ours = re.compile(rf"\.{re.escape(output.name)}(\.checkpoint)?\.[0-9a-f]{{8}}\.tmp")
    with suppress(OSError):
        for path in output.parent.iterdir():
            if ours.fullmatch(path.name):
                path.unlink()
