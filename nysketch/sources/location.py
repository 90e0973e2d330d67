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
from urllib.parse import unquote, urlsplit

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
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")  # of CSV, as pyarrow tells it from the name
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
        if info.type != pafs.FileType.File:
            raise InputError(f"{self}: not a regular file; give an Arrow stream on standard input, as -")
        return info

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
            raise InputError(f"{self}: cannot read: {error}") from error
        return Input(self.name, rows, info.size, sha.hexdigest()[:32])

    def format(self) -> str:
        """Tell the format from the first bytes, or from the name where they say nothing."""
        by_name = _format_of_name(PurePosixPath(self.path))
        try:
            if self.info().size == 0:
                raise InputError(f"{self}: the file is empty (0 bytes)")
            with self.open() as file:
                start = file.read(4)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self}: cannot open: {error}") from error
        found = _MAGIC.get(bytes(start))
        if found is None and by_name in (None, "parquet", "feather"):
            kind = "not a Parquet, HDF5, Feather or CSV file" if by_name is None else f"not a {by_name} file"
            if bytes(start) == b"\xff\xff\xff\xff":
                kind = "an Arrow stream, not a file with a footer; give it on standard input, as -"
            raise InputError(f"{self}: {kind}: it starts with {bytes(start)!r}")
        return found or str(by_name)


def difference(location: Location, known: Input) -> str | None:
    """Say in what a file differs, on this machine, from what is known of it; None if it is the same."""
    try:
        found = location.fingerprint(known.rows)
    except InputError as error:
        return str(error)
    if found.bytes != known.bytes:
        return f"{location}: has {found.bytes} bytes, but {known.bytes} where the job was started"
    if found.digest != known.digest:
        return f"{location}: has another content than where the job was started"
    return None


def expand(inputs: Sequence[str]) -> list[Location]:
    """Return the files that paths, globs, directories and URIs stand for, in a stable order."""
    locations = [location for text in inputs for location in _expand_one(text)]
    seen: dict[tuple[str, str], str] = {}
    for location in locations:
        try:
            location.path.encode()
        except UnicodeEncodeError:
            raise InputError(f"{location.name!r}: the name is no UTF-8; rename or link the file") from None
        local = location.local_path
        key = location.filesystem.type_name, location.path if local is None else os.path.realpath(local)
        if key in seen:
            also = "" if seen[key] == location.name else f", also as {seen[key]}"
            raise UsageError(f"{location}: given twice{also}; its rows would be counted twice")
        seen[key] = location.name
    return locations


def _expand_one(text: str) -> list[Location]:
    if "://" in text:
        return list(_expand_uri(text))
    local = pafs.LocalFileSystem()
    try:
        paths = _expand_local(text)
    except OSError as error:
        raise InputError(f"{text}: cannot look up: {error}") from error
    return [Location(local, os.fspath(Path(path).absolute()), path) for path in paths]


def _expand_local(text: str) -> list[str]:
    if _GLOB & set(text) and not Path(text).exists():
        # Path.glob takes no absolute patterns.
        matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207
        matches = [path for path in matches if _is_meant(Path(path).name, Path(text).name)]
        found = [path for path in matches if _is_file(Path(path))]
        if "**" not in text:  # which matches what is in the directories too
            found += [file for path in matches if Path(path).is_dir() for file in _data_below(Path(path))]
        if not found:
            raise InputError(f"{text}: no files match")
        return sorted(found)
    if Path(text).is_dir():
        found = _data_below(Path(text))
        if not found:
            raise InputError(f"{text}: no data files in this directory (looked for {_suffix_list()})")
        return found
    return [text]


def _is_file(path: Path) -> bool:
    """Count links that lead nowhere as files: they must be complained about, not passed over."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _data_below(root: Path) -> list[str]:
    return sorted(
        os.fspath(path)
        for path in root.rglob("*")
        if _is_file(path) and _is_data(PurePosixPath(path.relative_to(root)))
    )


def _expand_uri(uri: str) -> Iterator[Location]:
    scheme = uri.split("://", 1)[0] + "://"
    name = _without_secrets(uri)
    before, slash, rest = uri.removeprefix(scheme).partition("/")
    encoded = scheme + before + slash + rest.replace("[", "%5B").replace("]", "%5D")
    try:
        filesystem, path = pafs.FileSystem.from_uri(encoded)
        # Everything before the first pattern is a directory to list.
        parts = path.split("/")
        fixed = next((i for i, part in enumerate(parts) if _GLOB & set(part)), len(parts))
        base = "/".join(parts[:fixed])
        info = filesystem.get_file_info(base)
        if info.type != pafs.FileType.Directory:
            yield Location(filesystem, path, name)
            return
        listing = filesystem.get_file_info(pafs.FileSelector(base, recursive=True))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{name}: cannot open: {str(error).replace(encoded, name)}") from None
    files = [info.path for info in listing if info.type == pafs.FileType.File]
    if fixed < len(parts):
        files = [file for file in files if _matches(file.split("/"), parts)]
        files = [file for file in files if _is_meant(PurePosixPath(file).name, parts[-1])]
    else:
        files = [file for file in files if _is_data(PurePosixPath(file[len(base) :].lstrip("/")))]
    if not files:
        raise InputError(f"{name}: no files match" if fixed < len(parts) else f"{name}: no data files")
    for file in sorted(files):
        yield Location(filesystem, file, scheme + file)


def _without_secrets(uri: str) -> str:
    """Return the URI without user, password and options: it ends up in messages and sketches."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _matches(parts: list[str], patterns: list[str]) -> bool:
    if patterns[:1] == ["**"]:  # any number of directories, also none
        return any(_matches(parts[i:], patterns[1:]) for i in range(len(parts) + 1))
    if not parts or not patterns:
        return not parts and not patterns
    return fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def _format_of_name(path: PurePosixPath) -> str | None:
    """Return the format that a name promises; `x.csv.gz` is CSV, `x.parquet.tmp` is nothing."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-2:-1] == [".csv"] and suffixes[-1] in _COMPRESSED:
        return "csv"
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def _is_data(path: PurePosixPath) -> bool:
    """Skip what writers leave beside the data: names that start with `_` or a dot."""
    hidden = any(part[0] in "._" and "=" not in part for part in path.parts)
    return not hidden and _format_of_name(path) is not None


def _is_meant(name: str, pattern: str) -> bool:
    """Say whether a pattern means what it matches: `*` is not meant for Spark's `_SUCCESS`."""
    return name[:1] not in ("_", ".") or "=" in name or pattern[:1] == name[:1]


def _suffix_list() -> str:
    return ", ".join(f"*{suffix}" for suffix in SUFFIXES)
