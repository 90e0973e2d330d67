"""One writer per output: an advisory lock that the kernel drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nysketch._support import signals
from nysketch._support.atomic import remove_leftovers
from nysketch._support.companions import lock_path
from nysketch.errors import LockedError, OutputError


@contextmanager
def output_lock(
    output: Path, *, wait: float = 0.0, remedy: str = "Wait for it with `lock_wait=SECONDS`"
) -> Iterator[None]:
    """Hold the lock of `output`, or raise LockedError after `wait` seconds of trying."""
    path = lock_path(output)
    deadline = time.monotonic() + wait
    descriptor = None
    try:
        while descriptor is None:
            with signals.held():  # or it would leave a file behind that nobody knows of
                descriptor = _try_lock(path, output)
            if descriptor is None:
                if time.monotonic() >= deadline:
                    raise LockedError(f"{output}: another process is writing it (lock {path}). {remedy}")
                time.sleep(0.1)
        remove_leftovers(output)
        yield
    finally:
        if descriptor is not None:
            # Unlink while still holding it: whoever opened the old file notices that it has gone.
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)


def _try_lock(path: Path, output: Path) -> int | None:
    """Return the descriptor that holds the lock, or None if somebody else does."""
    while True:
        try:
            # Not through a link that somebody else may have put there.
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise OutputError(f"{output}: cannot write here: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(descriptor)
            raise OutputError(f"{output}: cannot lock {path}: {error.strerror}") from error
        os.close(descriptor)  # its last holder removed it just now: try the new one
