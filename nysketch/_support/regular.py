"""Regular files, and what is none: directories, FIFOs, devices, sockets, neither waited for nor replaced.

A file that is read from any place must be a regular one. What is read once from start to end (job files,
configurations, lists of inputs) may also come from a pipe, as `<(…)` of a shell gives it, up to some size.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from nysketch.errors import UsageError

_NOUNS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
# Names of streams of this process, whatever they are connected to.
_STREAMS = ("-", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_STREAM_FOLDERS = ("/dev/fd/", "/proc/")
# Far more than any job file or list of inputs has; a device may have no end.
_MOST_BYTES = 64 << 20


def noun_of_irregular(path: str | os.PathLike[str]) -> str | None:
    """Return what a path leads to, in words, unless it is a regular file or nothing."""
    with suppress(OSError, ValueError):  # a name with a null byte is a ValueError
        return _noun(os.stat(path).st_mode)  # noqa: PTH116 - paths may be text
    return None


def _noun(mode: int) -> str | None:
    return next((noun for is_one, noun in _NOUNS if is_one(mode)), None)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file for reading, or raise an OSError at once: nothing is waited for."""
    _require_no_dash(path)
    _require_regular(os.stat(path).st_mode)  # noqa: PTH116 - not after opening it, which may start a device
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    noun = _noun(mode)
    if noun is not None:
        raise OSError(errno.EINVAL, f"it is {noun}, not a regular file. Write its content to a file first")


def read_once(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file or of a pipe; raise an OSError if it has none to give, or too much."""
    _require_no_dash(path)
    mode = os.stat(path).st_mode  # noqa: PTH116 - as above
    if stat.S_ISCHR(mode) and os.stat(path).st_rdev == os.stat(os.devnull).st_rdev:  # noqa: PTH116
        return b""
    if not stat.S_ISFIFO(mode):
        with open_regular(path) as file:
            return read_limited(file)
    # Not blocking, or a pipe without a writer would be waited for; a writer that there is may take its time.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb") as file:
        content = read_limited(file)
    if not content:
        raise OSError(errno.EINVAL, "nothing comes out of this pipe: nobody writes to it")
    return content


def _require_no_dash(path: str | os.PathLike[str]) -> None:
    if os.fspath(path) == "-" and not Path(path).exists():
        raise FileNotFoundError(
            errno.ENOENT, "standard input can be data (an Arrow stream) or a list of inputs; name a file"
        )


def read_limited(file: BinaryIO) -> bytes:
    """Return all that comes out of a file; raise an OSError if it is more than anybody needs."""
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {_MOST_BYTES >> 20} MiB")
    return content


def require_replaceable(output: Path) -> None:
    """Raise a UsageError if `output` is something that no file may take the place of.

    A file appears complete or not at all, by taking the place of what was there: also of a device.
    """
    place = os.path.abspath(output)  # noqa: PTH100 - links are not followed: they lead to what is meant
    if str(output) in _STREAMS or place in _STREAMS or place.startswith(_STREAM_FOLDERS):
        raise UsageError(
            f"{output}: results cannot be written to a stream, since files appear complete or not at all; "
            "name a file as `output`"
        )
    try:
        noun = _noun(output.stat().st_mode)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            raise UsageError(f"{output}: this name is longer than the file system allows") from None
        return  # there is nothing yet, or it will be seen when it is written
    if noun is not None:
        raise UsageError(f"{output}: is {noun}, not a regular file; choose another `output`")
