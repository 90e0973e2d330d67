"""Files far away: what passes by itself is waited for, and tried again.

Trouble is met where it is cheapest. A read of some bytes that fails is repeated alone (`PatientFile`): if one
read in twenty fails, a row group of 100 reads would have to be begun 170 times until none of them does. Where
the bytes came but make no sense, the fragment is read anew, and what was already handed out is passed over
(`Patience.resumed`). Either way the rows are those of an undisturbed reading, in the same batches.

What does not pass, such as a missing file or a refused password, is not tried again.
"""

from __future__ import annotations

import io
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from nysketch._support.cancel import check_stopped
from nysketch.errors import InputError, UnreadableError, UsageError
from nysketch.sources.filesystems import hide_addresses

log = logging.getLogger("nysketch")

Result = TypeVar("Result")
Batch = TypeVar("Batch", bound=Sized)

# What filesystems raise.
IO_ERRORS = (pa.ArrowException, OSError)
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 8.0
_STEP = 0.1
_LONGEST_TIMEOUT = 86_400.0
# Answers that stay the same: wrong name, wrong place, wrong password. 408 and 429 ask for patience.
_REFUSED = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_|MISSING_|SIGNATURE_|UNRECOGNIZED_CLIENT|EXPIRED_TOKEN|NO_SUCH_|"
    r"RESOURCE_NOT_FOUND|ACCOUNT_|OPT_IN_|UNAUTHORIZED)"
    r"|HTTP status (?!408|429)[34]\d\d"
)


class RetriesExhausted(OSError):
    """As many attempts as were allowed have failed."""


def is_refusal(error: BaseException) -> bool:
    """Say whether an error will be the same next time: what is asked for is missing, or not allowed."""
    refused = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
    return isinstance(error, refused) or (
        isinstance(error, OSError)
        and not isinstance(error, RetriesExhausted)
        and bool(_REFUSED.search(str(error)))
    )


def _as_io_error(error: Exception) -> Exception | None:
    """Return the I/O error that an exception is, or stands for; None if it is a mistake in a program.

    What is behind fsspec raises errors of its own: aiohttp, botocore, paramiko and so on.
    """
    if isinstance(error, IO_ERRORS):
        return error
    if type(error).__module__.partition(".")[0] in ("builtins", "nysketch"):
        return OSError("the file ended early") if isinstance(error, EOFError) else None
    text = f"{type(error).__name__}: {error}"
    status = getattr(error, "status", None)
    if status in (404, 410):
        return FileNotFoundError(text)
    return PermissionError(text) if status in (401, 403) else OSError(text)


@dataclass(frozen=True)
class RetryPolicy:
    """How often to try again after trouble, and how many seconds to wait for an answer."""

    retries: int = 4
    timeout: float = 30.0

    def call(self, place: str, work: Callable[[], Result]) -> Result:
        """Return what `work` does, at the first attempt without an I/O error."""
        failed = 0
        while True:
            check_stopped()
            try:
                return work()
            except Exception as error:
                failed += 1
                self._judge(place, failed, error)

    def _judge(self, place: str, failed: int, raised: Exception) -> None:
        """Wait for the next attempt, or raise what ends them.

        Not in `call`: a variable there would make a circle of the error and the frames that it has passed,
        with all that readers hold open, to be cleared away in any thread. What belongs to h5py would wait for
        its lock, which is held while a file is read; even in the thread that the reading waits for.
        """
        error = _as_io_error(raised)
        if error is None or isinstance(error, RetriesExhausted):
            raise raised
        if is_refusal(error):
            raise error from None
        if failed > self.retries:
            raise RetriesExhausted(f"{_attempts(failed)}: {hide_addresses(str(error))}") from error
        self._wait(place, failed, error)

    def again(self, place: str, work: Callable[[], Result]) -> Result:
        """Return what `work` does, at the first attempt without an UnreadableError."""
        failed = 0
        while True:
            try:
                return work()
            except UnreadableError as error:
                failed += 1
                self._after(place, failed, error)

    def resumed(self, place: str, begin: Callable[[], Iterator[Batch]]) -> Iterator[Batch]:
        """Yield the batches of `begin()`; after an UnreadableError, those that are missing from a new one.

        The count of attempts starts again with every batch that is gained.
        """
        gained: list[int] = []  # the rows of the batches that were yielded
        failed = 0
        while True:
            number = 0
            try:
                for number, batch in enumerate(begin(), 1):
                    if number > len(gained):
                        gained.append(len(batch))
                        failed = 0
                        yield batch
                    elif len(batch) != gained[number - 1]:
                        raise _changed(place)
                if number < len(gained):
                    raise _changed(place)
                return
            except UnreadableError as error:
                failed += 1
                self._after(place, failed, error)

    def _after(self, place: str, failed: int, error: UnreadableError) -> None:
        """Wait for the next attempt, or raise the error if there have been enough."""
        if isinstance(error.__cause__, RetriesExhausted) or not self.retries:
            raise error
        if failed > self.retries:
            raise UnreadableError(f"{error} ({_attempts(failed)})") from error.__cause__
        self._wait(place, failed, error)

    def _wait(self, place: str, failed: int, error: Exception) -> None:
        """Wait for a while that doubles each time, and is never quite the same for two who wait."""
        seconds = min(_FIRST_WAIT * 2 ** (failed - 1), _LONGEST_WAIT) * random.uniform(0.75, 1.25)
        reason = hide_addresses(str(error)).removeprefix(f"{place}: ")
        log.info("%s: trying again (%d of %d) in %.1f s: %s", place, failed, self.retries, seconds, reason)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            check_stopped()
            time.sleep(min(left, _STEP))


def retry_policy_of(retries: int | None, timeout: float | None) -> RetryPolicy:
    """Return the patience asked for; None is the usual one."""
    usual = RetryPolicy()
    patience = RetryPolicy(
        usual.retries if retries is None else retries, usual.timeout if timeout is None else timeout
    )
    if patience.retries < 0:
        raise UsageError(f"the number of retries cannot be {patience.retries}")
    if not 0 < patience.timeout < _LONGEST_TIMEOUT:
        raise UsageError(f"a time-out of {patience.timeout:g} seconds makes no sense")
    return patience


def _attempts(count: int) -> str:
    return f"failed {count} times" if count > 1 else "failed"


def _changed(place: str) -> InputError:
    return InputError(f"{place}: had other rows when it was read again. Was the file changed meanwhile?")


class RetryingFile(io.RawIOBase):
    """A file of a filesystem that is far away, for reading: reads are repeated, and never come back short."""

    def __init__(self, open_file: Callable[[], Any], place: str, patience: RetryPolicy) -> None:
        super().__init__()
        self._open, self._place, self._patience = open_file, place, patience
        self._file: Any = None
        self._at = 0
        self.bytes: int = patience.call(place, self._opened)

    def _opened(self) -> int:
        self._file = self._open()
        return int(self._file.size())

    def _part(self, size: int) -> bytes:
        if self._file is None and (size_now := self._opened()) != self.bytes:
            raise RetriesExhausted(f"its size changed from {self.bytes:,} to {size_now:,} bytes")
        try:
            part: bytes = self._file.read_at(size, self._at)
            if len(part) < size:
                raise OSError(f"{len(part):,} bytes came, not {size:,}, from byte {self._at:,} on")
        except BaseException:
            self._drop()
            raise
        return part

    def _drop(self) -> None:
        file, self._file = self._file, None
        with suppress(*IO_ERRORS):
            file.close()

    def read(self, size: int | None = -1, /) -> bytes:
        """Return as many bytes as are asked for and there are."""
        left = max(self.bytes - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        if not size:
            return b""
        part = self._patience.call(self._place, lambda: self._part(size))
        self._at += size
        return part

    def readall(self) -> bytes:
        """Return the rest."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as there are bytes."""
        view = memoryview(buffer).cast("B")
        part = self.read(len(view))
        view[: len(part)] = part
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go somewhere; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.bytes}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._at

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Let go of the file; trouble in that does not matter any more."""
        if self._file is not None:
            self._drop()
        super().close()
