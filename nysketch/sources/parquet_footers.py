"""Footers of Parquet files, which grow with row groups and columns: parsed once for all threads that read.

Parsed, a footer takes nine times its size in the file: 200 MB for 100,000 row groups of two columns. What a
damaged one says of columns must not even be asked for.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nysketch._support.cancel import check_of_thread, stoppable
from nysketch.errors import UsageError
from nysketch.sources.locations import Location
from nysketch.sources.parquet_groups import buffer_bytes
from nysketch.sources.protocol import BESIDES_BYTES, PASS_BYTES

# Damaged names of columns are no UTF-8.
DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)

# Parsed footers, for each byte in the file: 8.8 to 9.0 as measured, with statistics and without.
_PARSED = 10
# Files below this size have no footer worth a look before it is parsed.
_LARGE_FILE_BYTES = 4 << 20


@functools.cache
def _parser(process: int) -> ThreadPoolExecutor:
    """Return the one thread that parses large footers, though files are opened eight at a time.

    Each thread has a heap of its own, which gives little back: eight of them would hold eight footers.
    """
    del process  # a fork has no threads
    return ThreadPoolExecutor(1, "nysketch-footers")


class Footer:
    """The footer of one file; it is parsed again only if nobody has needed it for a while."""

    def __init__(self, location: Location, memory: float) -> None:
        self._location, self._memory = location, memory
        self._reset()
        self.bytes = 0

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._parsed: Any = None  # a weak reference to pyarrow.parquet.FileMetaData

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need; they parse the footer for themselves."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_parsed")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def open(self, columns: int = 1) -> pq.ParquetFile:
        """Open the file to read so many of its columns at a time."""
        try:
            with self._lock:
                known = None if self._parsed is None else self._parsed()
                file = self._location.open()
                size = 0 if known is not None else self._size(file)
                if known is not None:
                    opened = _open(file, columns, known)
                elif size * _PARSED < _LARGE_FILE_BYTES:
                    opened = _open(file, columns)
                else:
                    opened = _parser(os.getpid()).submit(_open_for, check_of_thread(), file, columns).result()
                self._parsed = weakref.ref(opened.metadata)
                self.bytes = _PARSED * opened.metadata.serialized_size
                return opened
        except DAMAGE as error:
            what = "cannot read as Parquet (truncated or damaged?)"
            raise self._location.trouble(what, error) from error

    def _size(self, file: pa.NativeFile) -> int:
        """Return the size of the footer in the file, of large files; refuse one that does not fit."""
        size = int(file.size())
        if size < _LARGE_FILE_BYTES:
            return 0
        stored = int.from_bytes(file.read_at(8, size - 8)[:4], "little")
        parsed = _PARSED * min(stored, size)
        if parsed + BESIDES_BYTES > self._memory:
            raise UsageError(
                f"{self._location}: its footer of {stored / 1e6:,.0f} MB, of every column in every row "
                f"group, takes about {parsed / 1e6:,.0f} MB of memory, too much of the "
                f"{self._memory / 1e6:,.0f} MB allowed. Allow {(parsed + PASS_BYTES) / 1e6:,.0f} MB with "
                "`memory`, or write the file with larger row groups"
            )
        return min(stored, size)


def _open_for(check: Callable[[], None], file: pa.NativeFile, columns: int) -> pq.ParquetFile:
    """Open a file for another thread, which may be stopped."""
    with stoppable(check):
        return _open(file, columns)


def _open(file: pa.NativeFile, columns: int, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        metadata=metadata,
        pre_buffer=False,
        buffer_size=buffer_bytes(columns),
        page_checksum_verification=True,  # where the writer left checksums
    )


# ---- damage ------------------------------------------------------------------------------------------


class _LookedIntoError(Exception):
    """Somebody reads a file that is not to be read."""


class _NotToBeRead:
    """A file of any size whose bytes nobody may see."""

    closed = False

    def __init__(self) -> None:
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = 1 << 62 if whence == os.SEEK_END else offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        raise _LookedIntoError

    def close(self) -> None:
        """Do nothing."""


def is_sound(metadata: pq.FileMetaData, groups: Iterable[int], names: Sequence[str]) -> bool:
    """Tell whether one may ask pyarrow for these columns of row groups, as a footer describes them.

    Where that is damaged, such as by level histograms of the wrong length, the process ends: pyarrow lets no
    error out of `RowGroupMetaData.column`. To read the columns, it looks at the same before it reads
    anything, and says so.
    """
    nothing = pa.PythonFile(_NotToBeRead(), mode="r")
    file = pq.ParquetFile(nothing, metadata=metadata, pre_buffer=False, buffer_size=1)
    for group in groups:
        try:
            next(file.iter_batches(1, row_groups=[group], columns=list(names), use_threads=False), None)
        except _LookedIntoError:
            pass
        except DAMAGE:
            return False
    return True
