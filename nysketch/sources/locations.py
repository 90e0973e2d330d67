"""A file of a table, wherever it is: how it is opened, what format it has, and whether it is still the same.

Which files paths, globs, directories and URIs mean is in expand.py. How to reach filesystems is in
filesystems.py, how errors of remote ones are retried in retry.py.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch._support.regular import noun_of_irregular
from nysketch.errors import InputError, UnreadableError, WrongKindError
from nysketch.provenance import Input
from nysketch.sources.filesystems import hide_addresses
from nysketch.sources.retry import NO_RETRIES, RetriesExhausted, RetryingFile, RetryPolicy, is_refusal
from nysketch.sources.table_formats import Entry

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
    ".he5": "hdf5",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
    ".csv": "csv",
}
_MAGIC = {b"PAR1": "parquet", b"PARE": "parquet", b"\x89HDF": "hdf5", b"ARRO": "feather"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")  # of CSV, as pyarrow tells it from the name
_DIGESTED_BYTES = 1 << 16
_RECOGNISED_BYTES = 64
_STREAM_BYTES = 1 << 22


@dataclass(frozen=True)
class Location:
    """A file: `path` inside `filesystem`; `name` is how the user called it. It can be pickled.

    The `entry` is that of the table it belongs to, if any.
    """

    filesystem: Any
    path: str
    name: str
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    entry: Entry | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def local_path(self) -> str | None:
        """The path for libraries that open files themselves, if the file is local."""
        return self.path if isinstance(self.filesystem, pafs.LocalFileSystem) else None

    @property
    def is_remote(self) -> bool:
        """Whether the file is elsewhere: errors in reading it may pass, and are retried."""
        return self.local_path is None

    def open(self) -> Any:
        """Return a random-access file of Arrow."""
        return pa.PythonFile(self.open_for_python()) if self.is_remote else self._open()

    def open_for_python(self) -> Any:
        """Return a random-access file for libraries that take those of Python."""
        return RetryingFile(self._open, self.name, self.retry) if self.is_remote else self._open()

    def open_stream(self) -> Any:
        """Return the content to read from start to end, decompressed if the name says that it must be."""
        if not self.is_remote:
            return self.filesystem.open_input_stream(self.path, compression="detect")
        # One request for each read would be slow.
        stream = pa.BufferedInputStream(self.open(), _STREAM_BYTES)
        if not self.path.lower().endswith(_COMPRESSED):
            return stream
        return pa.CompressedInputStream(stream, pa.Codec.detect(self.path.lower()).name)

    def _open(self) -> Any:
        return self.filesystem.open_input_file(self.path)

    @property
    def partition(self) -> dict[str, str]:
        """The keys that the table tells, or those of the path: `year=2020/part.parquet` has year 2020."""
        if self.entry is not None:
            return dict(self.entry.keys)
        pairs = (part.split("=", 1) for part in PurePosixPath(self.name).parts[:-1] if "=" in part)
        return {key: unquote(value) for key, value in pairs}

    def trouble(self, what: str, error: Exception, where: str = "") -> InputError:
        """Return our error for one in reading bytes; `where` is a place in the file."""
        reason = hide_addresses(str(error)) if self.is_remote else str(error)
        kind = InputError if is_refusal(error) else UnreadableError
        if isinstance(error, RetriesExhausted):
            what = what.removesuffix(" (truncated or damaged?)")
        return kind(f"{where or self}: {what}: {reason}")

    def info(self) -> Any:
        """Return size and modification time."""
        retry = self.retry if self.is_remote else NO_RETRIES
        try:
            info = retry.call(self.name, lambda: self.filesystem.get_file_info(self.path))
        except (pa.ArrowException, OSError) as error:
            raise self.trouble("cannot look up", error) from error
        if info.type == pafs.FileType.NotFound:
            raise InputError(f"{self}: no such file")
        if info.type != pafs.FileType.File:
            noun = noun_of_irregular(self.path) if self.local_path is not None else None
            raise InputError(
                f"{self}: is {noun or 'no file'}, and only regular files can be read from any place. Write "
                "its content to a file first, or give an Arrow stream on standard input, as -"
            )
        return info

    def last_change(self, now: float) -> int | None:
        """Return when the content was last changed, in nanoseconds; None if the filesystem does not know.

        Anybody can date a file in the future, which says nothing; but not its inode, if it is local.
        """
        changed: int | None = self.info().mtime_ns
        if changed is not None and changed > now * 1e9 and self.local_path is not None:
            return os.stat(self.local_path).st_ctime_ns  # noqa: PTH116 - it is text
        return changed

    def inode(self) -> tuple[int, int, int] | None:
        """Return what changes with every change of a local file; but also with its permissions and links."""
        if self.local_path is None:
            return None
        try:
            found = os.stat(self.local_path)  # noqa: PTH116 - it is text
        except OSError:  # it has gone
            return None
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def fingerprint(self, rows: int) -> Input:
        """Return size and a digest of both ends, where all formats keep what changes with them."""
        info = self.info()
        try:
            with self.open() as file:
                sha = hashlib.sha256(file.read(_DIGESTED_BYTES))
                if info.size > _DIGESTED_BYTES:
                    file.seek(max(_DIGESTED_BYTES, info.size - _DIGESTED_BYTES))
                    sha.update(file.read(_DIGESTED_BYTES))
        except (pa.ArrowException, OSError) as error:
            raise self.trouble("cannot read", error) from error
        return Input(self.name, rows, info.size, sha.hexdigest()[:32])

    def format(self) -> str:
        """Tell the format from the first bytes, or from the name where they say nothing."""
        by_name = format_of_name(PurePosixPath(self.path))
        try:
            if self.info().size == 0:
                raise InputError(f"{self}: the file is empty (0 bytes)")
            with self.open() as file:
                start = bytes(file.read(_RECOGNISED_BYTES))
        except (pa.ArrowException, OSError) as error:
            raise self.trouble("cannot open", error) from error
        found = _MAGIC.get(start[:4])
        if found is None and by_name in (None, "parquet", "feather"):
            kind = "not a Parquet, HDF5, Feather or CSV file" if by_name is None else f"not a {by_name} file"
            if start[8:9] == b"{" and b"__metadata__" in start:
                raise WrongKindError(f"{self}: this is a sketch or a basis, not data; rows are read here")
            if start.lstrip().startswith(b"{"):
                raise WrongKindError(f"{self}: this is JSON, perhaps a model, not data; rows are read here")
            if start[:4] == b"\xff\xff\xff\xff":
                kind = "an Arrow stream, not a file with a footer; give it on standard input, as -"
            raise InputError(f"{self}: {kind}: it starts with {start[:4]!r}")
        return found or str(by_name)


def difference(location: Location, known: Input) -> str | None:
    """Say in what a file differs, on this machine, from what is known of it; None if it is the same."""
    try:
        found = location.fingerprint(known.rows)
    except InputError as error:
        return str(error)
    if found.bytes != known.bytes:
        return f"{location}: has {found.bytes} bytes, but {known.bytes} where the pass was started"
    if found.digest != known.digest:
        return f"{location}: has different content where the pass was started"
    return None


def format_of_name(path: PurePosixPath) -> str | None:
    """Return the format that a name promises; `x.csv.gz` is CSV, `x.parquet.tmp` is nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-2:-1] == [".csv"] and suffixes[-1] in _COMPRESSED:
        return "csv"
    return SUFFIXES.get(suffixes[-1]) if suffixes else None
