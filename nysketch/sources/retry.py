"""Retries: reading remote files again after errors that may pass, with exponential backoff.

Errors are retried at the cheapest level. A read of some bytes that fails is repeated alone (`RetryingFile`):
if one read in twenty fails, a row group of 100 reads would have to be started 170 times until none of them
does. If the bytes arrive but are corrupted, the fragment is read again, and batches that were already yielded
are skipped (`RetryPolicy.resume_on_error`). Either way the caller gets the rows of an undisturbed read, in
the same batches.

Permanent errors, such as a missing file or a rejected password, are not retried. How to connect to a
filesystem is in filesystems.py; how a wait is cancelled, in _support/cancel.py.
"""

from __future__ import annotations

import io
import random
import re
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from nysketch._support.cancel import check_stopped
from nysketch._support.notices import log
from nysketch.errors import InputError, UnreadableError, UsageError
from nysketch.sources.filesystems import hide_addresses

Result = TypeVar("Result")
Batch = TypeVar("Batch", bound=Sized)

# What filesystems raise.
IO_ERRORS = (pa.ArrowException, OSError)
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 8.0
_STEP = 0.1
_LONGEST_TIMEOUT = 86_400.0
# Permanent errors: wrong name, wrong place, wrong password. 408 and 429 ask to try again later.
_REFUSED = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_|MISSING_|SIGNATURE_|UNRECOGNIZED_CLIENT|EXPIRED_TOKEN|NO_SUCH_|"
    r"RESOURCE_NOT_FOUND|ACCOUNT_|OPT_IN_|UNAUTHORIZED)"
    r"|HTTP status (?!408|429)[34]\d\d"
)


class RetriesExhausted(OSError):
    """All attempts that the policy allows have failed."""


def is_refusal(error: BaseException) -> bool:
    """Say whether an error is permanent: the file is missing, or access to it is denied."""
    refused = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
    return isinstance(error, refused) or (
        isinstance(error, OSError)
        and not isinstance(error, RetriesExhausted)
        and bool(_REFUSED.search(str(error)))
    )


def _as_io_error(error: Exception) -> Exception | None:
    """Return the exception as an I/O error; None if it is a bug in a program.

    The libraries behind fsspec raise errors of their own: aiohttp, botocore, paramiko and so on.
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
    """How often to retry after an error, and how many seconds to wait for an answer."""

    retries: int = 4
    timeout: float = 30.0

    def call(self, place: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`; retry it after I/O errors."""
        failed = 0
        while True:
            check_stopped()
            try:
                return work()
            except Exception as error:
                failed += 1
                self._after_io_error(place, failed, error)

    def _after_io_error(self, place: str, failed: int, raised: Exception) -> None:
        """Wait for the next attempt, or raise the error if it is permanent or was the last one allowed.

        Not in `call`: a local variable there would form a reference cycle of the error and the frames of its
        traceback, with all that readers hold open, which may be collected in any thread. Objects of h5py then
        wait for its lock, which is held while a file is read, even in the thread that the read waits for.
        """
        error = _as_io_error(raised)
        if error is None or isinstance(error, RetriesExhausted):
            raise raised
        if is_refusal(error):
            raise error from None
        if failed > self.retries:
            raise RetriesExhausted(f"{_attempts(failed)}: {hide_addresses(str(error))}") from error
        self._back_off(place, failed, error)

    def call_until_readable(self, place: str, work: Callable[[], Result]) -> Result:
        """Return the result of `work`; retry it after an UnreadableError."""
        failed = 0
        while True:
            try:
                return work()
            except UnreadableError as error:
                failed += 1
                self._after_unreadable(place, failed, error)

    def resume_on_error(self, place: str, begin: Callable[[], Iterator[Batch]]) -> Iterator[Batch]:
        """Yield the batches of `begin()`; after an UnreadableError, begin again and skip those yielded.

        Every new batch resets the count of attempts.
        """
        yielded: list[int] = []  # the rows of each batch
        failed = 0
        while True:
            number = 0
            try:
                for number, batch in enumerate(begin(), 1):
                    if number > len(yielded):
                        yielded.append(len(batch))
                        failed = 0
                        yield batch
                    elif len(batch) != yielded[number - 1]:
                        raise _changed(place)
                if number < len(yielded):
                    raise _changed(place)
                return
            except UnreadableError as error:
                failed += 1
                self._after_unreadable(place, failed, error)

    def _after_unreadable(self, place: str, failed: int, error: UnreadableError) -> None:
        """Wait for the next attempt, or raise the error if no more are allowed."""
        if isinstance(error.__cause__, RetriesExhausted) or not self.retries:
            raise error
        if failed > self.retries:
            raise UnreadableError(f"{error} ({_attempts(failed)})") from error.__cause__
        self._back_off(place, failed, error)

    def _back_off(self, place: str, failed: int, error: Exception) -> None:
        """Wait; the time doubles with each attempt, with jitter so that readers do not retry all at once."""
        seconds = min(_FIRST_WAIT * 2 ** (failed - 1), _LONGEST_WAIT) * random.uniform(0.75, 1.25)
        reason = hide_addresses(str(error)).removeprefix(f"{place}: ")
        log.info("%s: trying again (%d of %d) in %.1f s: %s", place, failed, self.retries, seconds, reason)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            check_stopped()
            time.sleep(min(left, _STEP))


NO_RETRIES = RetryPolicy(retries=0)  # for local files: their errors are permanent


def retry_policy_of(retries: int | None, timeout: float | None) -> RetryPolicy:
    """Return the policy with these settings; None is the default of each."""
    default = RetryPolicy()
    retry = RetryPolicy(
        default.retries if retries is None else retries, default.timeout if timeout is None else timeout
    )
    if retry.retries < 0:
        raise UsageError(f"`retries` must be at least 0, not {retry.retries}")
    if not 0 < retry.timeout < _LONGEST_TIMEOUT:
        raise UsageError(
            f"`timeout` must be between 0 and {_LONGEST_TIMEOUT:g} seconds, not {retry.timeout:g}"
        )
    return retry


def _attempts(count: int) -> str:
    return f"failed {count} times" if count > 1 else "failed"


def _changed(place: str) -> InputError:
    return InputError(f"{place}: had different rows when it was read again. Did the file change meanwhile?")


class RetryingFile(io.RawIOBase):
    """A remote file, for reading: reads are retried, and return all bytes that were asked for.

    After an error the file is opened again; `open_file` returns one of pyarrow.
    """

    def __init__(self, open_file: Callable[[], Any], place: str, retry: RetryPolicy) -> None:
        super().__init__()
        self._open, self._place, self._retry = open_file, place, retry
        self._file: Any = None
        self._at = 0
        # Like io.FileIO, a file is open from the beginning: without its size, it could not even seek.
        self.bytes: int = retry.call(place, self._reopen)

    def _reopen(self) -> int:
        """Open the file, and return its size."""
        self._file = self._open()
        return int(self._file.size())

    def _read_once(self, size: int) -> bytes:
        if self._file is None and (size_now := self._reopen()) != self.bytes:
            raise RetriesExhausted(f"its size changed from {self.bytes:,} to {size_now:,} bytes")
        try:
            part: bytes = self._file.read_at(size, self._at)
            if len(part) < size:
                raise OSError(f"{len(part):,} bytes arrived instead of {size:,}, from byte {self._at:,} on")
        except BaseException:
            self._release()
            raise
        return part

    def _release(self) -> None:
        """Close the file; errors in that no longer matter."""
        file, self._file = self._file, None
        with suppress(*IO_ERRORS):
            file.close()

    def read(self, size: int | None = -1, /) -> bytes:
        """Return `size` bytes, or all that are left if there are fewer."""
        left = max(self.bytes - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        if not size:
            return b""
        part = self._retry.call(self._place, lambda: self._read_once(size))
        self._at += size
        return part

    def readall(self) -> bytes:
        """Return all bytes that are left."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, as far as bytes are left; return how many were read."""
        view = memoryview(buffer).cast("B")
        part = self.read(len(view))
        view[: len(part)] = part
        return len(part)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set where the next read begins; nothing is read."""
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
        """Close the file."""
        if self._file is not None:
            self._release()
        super().close()
