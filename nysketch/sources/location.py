"""Where files are: paths, globs, directories and URIs → locations that can be opened."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch.errors import InputError, UsageError
from nysketch.provenance import Input

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
_GLOB = frozenset("*?[")
_DIGESTED_BYTES = 1 << 16


@dataclass(frozen=True)
class Location:
    """A file: `path` inside `filesystem`; `name` is how the user called it."""

    filesystem: Any
    path: str
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def local_path(self) -> str | None:
        """The path for libraries that open files themselves, if the file is local."""
        return self.path if isinstance(self.filesystem, pafs.LocalFileSystem) else None

    def open(self) -> Any:
        """Return a random-access file."""
        return self.filesystem.open_input_file(self.path)

    @property
    def partition(self) -> dict[str, str]:
        """The hive keys of the path: `year=2020/part.parquet` has year 2020."""
        pairs = (part.split("=", 1) for part in PurePosixPath(self.name).parts[:-1] if "=" in part)
        return {key: unquote(value) for key, value in pairs}

    def info(self) -> Any:
        """Return size and modification time."""
        try:
            info = self.filesystem.get_file_info(self.path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self}: cannot look up: {error}") from error
        if info.type == pafs.FileType.NotFound:
            raise InputError(f"{self}: no such file")
        return info

    def fingerprint(self, rows: int) -> Input:
        """Return size and a digest of both ends, where all formats keep what changes with them."""
        info = self.info()
        with self.open() as file:
            sha = hashlib.sha256(file.read(_DIGESTED_BYTES))
            if info.size > _DIGESTED_BYTES:
                file.seek(max(_DIGESTED_BYTES, info.size - _DIGESTED_BYTES))
                sha.update(file.read(_DIGESTED_BYTES))
        return Input(self.name, rows, info.size, sha.hexdigest()[:32])

    def format(self) -> str:
        """Tell the format from the first bytes, or from the name where they say nothing."""
        suffixes = PurePosixPath(self.path).suffixes
        by_name = next((SUFFIXES[s] for s in reversed(suffixes) if s in SUFFIXES), None)
        try:
            if self.info().size == 0:
                raise InputError(f"{self}: the file is empty (0 bytes)")
            with self.open() as file:
                start = file.read(4)
        except OSError as error:
            raise InputError(f"{self}: cannot open: {error}") from error
        found = _MAGIC.get(bytes(start))
        if found is None and by_name in (None, "parquet", "feather"):
            kind = "not a Parquet, HDF5, Feather or CSV file" if by_name is None else f"not a {by_name} file"
            raise InputError(f"{self}: {kind}: it starts with {bytes(start)!r}")
        return found or str(by_name)


def expand(inputs: Sequence[str]) -> list[Location]:
    """Return the files that paths, globs, directories and URIs stand for, in a stable order."""
    locations = [location for text in inputs for location in _expand_one(text)]
    seen: set[str] = set()
    for location in locations:
        if location.path in seen:
            raise UsageError(f"{location}: given twice; its rows would be counted twice")
        seen.add(location.path)
    return locations


def _expand_one(text: str) -> Iterator[Location]:
    if "://" in text:
        yield from _expand_uri(text)
        return
    local = pafs.LocalFileSystem()
    if _GLOB & set(text) and not Path(text).exists():
        # Path.glob takes no absolute patterns.
        matches = glob.glob(text, recursive=True)  # noqa: PTH207
        found = sorted(path for path in matches if Path(path).is_file())
        if not found:
            raise InputError(f"{text}: no files match")
        for path in found:
            yield Location(local, os.fspath(Path(path).absolute()), path)
    elif Path(text).is_dir():
        root = Path(text)
        found = sorted(
            os.fspath(path)
            for path in root.rglob("*")
            if path.is_file() and _is_data(PurePosixPath(path.relative_to(root)))
        )
        if not found:
            raise InputError(f"{text}: no data files in this directory (looked for {_suffix_list()})")
        for path in found:
            yield Location(local, os.fspath(Path(path).absolute()), path)
    else:
        yield Location(local, os.fspath(Path(text).absolute()), text)


def _expand_uri(uri: str) -> Iterator[Location]:
    scheme = uri.split("://", 1)[0] + "://"
    try:
        filesystem, path = pafs.FileSystem.from_uri(uri)
        # Everything before the first pattern is a directory to list.
        parts = path.split("/")
        fixed = next((i for i, part in enumerate(parts) if _GLOB & set(part)), len(parts))
        base = "/".join(parts[:fixed])
        info = filesystem.get_file_info(base)
        if info.type != pafs.FileType.Directory:
            yield Location(filesystem, path, uri)
            return
        listing = filesystem.get_file_info(pafs.FileSelector(base, recursive=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{uri}: cannot open: {error}") from error
    files = [info.path for info in listing if info.type == pafs.FileType.File]
    if fixed < len(parts):
        files = [file for file in files if _matches(file.split("/"), parts)]
    else:
        files = [file for file in files if _is_data(PurePosixPath(file[len(base) :].lstrip("/")))]
    if not files:
        raise InputError(f"{uri}: no files match" if fixed < len(parts) else f"{uri}: no data files")
    for file in sorted(files):
        yield Location(filesystem, file, scheme + file)


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(
        fnmatch.fnmatchcase(part, pattern) for part, pattern in zip(parts, patterns, strict=True)
    )


def _is_data(path: PurePosixPath) -> bool:
    """Skip what writers leave beside the data: names that start with `_` or a dot."""
    hidden = any(part[0] in "._" and "=" not in part for part in path.parts)
    return not hidden and any(suffix in SUFFIXES for suffix in path.suffixes)


def _suffix_list() -> str:
    return ", ".join(f"*{suffix}" for suffix in SUFFIXES)
