"""The one guard of every output: no input is replaced, one process writes it, nothing is lost unasked.

How a file appears complete or not at all is in atomic.py, and the lock in locks.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nysketch._support.locks import output_lock
from nysketch._support.regular import require_replaceable
from nysketch.errors import OutputError, UsageError

# Exports, reports and pictures are written in seconds: a second writer just waits for the first one.
BRIEF_WAIT = 60.0


@contextmanager
def claimed(
    output: Path,
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    overwrite: bool,
    wait: float | None = None,
    hint: str = 'replace it with `if_exists="overwrite"`',
) -> Iterator[None]:
    """Hold `output` for the one who writes it, or raise before any work is done.

    Checks come in this order: `output` is a regular file if it is anything, and none of the `inputs`
    (UsageError); no other process writes it (LockedError, after `wait` seconds); it does not exist, unless
    `overwrite` is set (OutputError). Existence is checked under the lock: the process that held it before may
    have written the file meanwhile.

    `wait` is None where an output takes seconds, and the command has no --lock-wait. `hint` ends the
    message about an output that exists.
    """
    require_replaceable(output)
    refuse_to_replace(inputs, output)
    if wait is None:
        lock = output_lock(output, wait=BRIEF_WAIT, remedy="Try again once it has finished")
    else:
        lock = output_lock(output, wait=wait)
    with lock:
        refuse_to_overwrite(output, overwrite=overwrite, hint=hint)
        yield


def overwriting(if_exists: str) -> bool:
    """Say whether an output that exists shall be replaced."""
    if if_exists not in ("fail", "overwrite"):
        raise UsageError(f"`if_exists` must be fail or overwrite, not {if_exists!r}")
    return if_exists == "overwrite"


def refuse_to_replace(inputs: Iterable[str | os.PathLike[str]], output: Path) -> None:
    """Raise a UsageError if the output would destroy one of the files that it is made from."""
    for path in inputs if output.exists() else ():
        if Path(path).exists() and output.samefile(path):
            raise UsageError(f"{output}: is an input; choose another `output`")


def refuse_to_overwrite(
    path: Path, *, overwrite: bool, hint: str = 'replace it with `if_exists="overwrite"`'
) -> None:
    """Raise an OutputError if there is something at `path` that is to be kept."""
    if path.exists() and not overwrite:
        raise OutputError(f"{path}: exists already; {hint}")
