"""Where files are: paths, globs, directories, URIs and tables of files → locations that can be opened.

How to reach filesystems is said in filesystems.py, what to do when they do not answer in retry.py, and
which files make up a table of Delta Lake or Iceberg in table_formats.py.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch.errors import InputError, NoFilesError, UnreadableError, UsageError
from nysketch.provenance import Input
from nysketch.sources import table_formats
from nysketch.sources.filesystems import connect, hide_addresses, hide_secrets, is_single, without_secrets
from nysketch.sources.retry import RetriesExhausted, RetryingFile, RetryPolicy, is_refusal

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
_STREAM_BYTES = 1 << 22
_NO_RETRIES = RetryPolicy(retries=0)  # with files on this machine: what they say once, they say again


@dataclass(frozen=True)
class Location:
    """A file: `path` inside `filesystem`; `name` is how the user called it. It can be pickled.

    The `entry` is that of the table it belongs to, if any.
    """

    filesystem: Any
    path: str
    name: str
    patience: RetryPolicy = field(default_factory=RetryPolicy)
    entry: table_formats.Entry | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def local_path(self) -> str | None:
        """The path for libraries that open files themselves, if the file is local."""
        return self.path if isinstance(self.filesystem, pafs.LocalFileSystem) else None

    @property
    def is_remote(self) -> bool:
        """Whether the file is one of those that may fail to answer, and answer later."""
        return self.local_path is None

    def open(self) -> Any:
        """Return a random-access file of Arrow."""
        return pa.PythonFile(self.open_for_python()) if self.is_remote else self._open()

    def open_for_python(self) -> Any:
        """Return a random-access file for libraries that take those of Python."""
        return RetryingFile(self._open, self.name, self.patience) if self.is_remote else self._open()

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
        patience = self.patience if self.is_remote else _NO_RETRIES
        try:
            info = patience.call(self.name, lambda: self.filesystem.get_file_info(self.path))
        except (pa.ArrowException, OSError) as error:
            raise self.trouble("cannot look up", error) from error
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
            raise self.trouble("cannot read", error) from error
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
            raise self.trouble("cannot open", error) from error
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


def expand(
    inputs: Sequence[str | Location], patience: RetryPolicy | None = None, *, base: Path | None = None
) -> list[Location]:
    """Return the files that paths, globs, directories and URIs stand for, in a stable order.

    Relative paths start in the directory `base`, by default the working directory; files are called by the
    names that were given, all the same.

    A directory that is a table of Delta Lake or Iceberg stands for the files of its current version, and
    so do `….metadata.json` and `iceberg:CATALOG.NAMESPACE.TABLE`.
    """
    patience = patience or RetryPolicy()
    locations = [location for item in inputs for location in _expand_one(item, patience, base or Path())]
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


def _expand_one(item: str | Location, patience: RetryPolicy, base: Path) -> list[Location]:
    if isinstance(item, Location):
        return [item]
    if "://" in item:
        return _expand_uri(item, patience)
    try:
        if item.startswith(table_formats.CATALOG) and not Path(base, item).exists():
            files = table_formats.catalog_files(item.removeprefix(table_formats.CATALOG), patience)
            return [_of_table(file, without_secrets(file.uri), patience) for file in files]
        return _expand_local(item, patience, base)
    except OSError as error:
        raise InputError(f"{item}: cannot look up: {error}") from error


def _of_table(file: table_formats.DataFile, name: str, patience: RetryPolicy) -> Location:
    return Location(file.filesystem, file.path, name, patience, file.entry)


# ---- paths -------------------------------------------------------------------------------------------


def _expand_local(text: str, patience: RetryPolicy, base: Path) -> list[Location]:
    at = Path(base, text)
    if _GLOB & set(text) and not at.exists():
        # Path.glob takes no absolute patterns.
        matches = sorted(glob.glob(text, root_dir=base, recursive=True))  # noqa: PTH207
        matches = [path for path in matches if _is_meant(Path(path).name, at.name)]
        found = [_local(path, base) for path in matches if _is_file(Path(base, path))]
        if "**" not in text:  # which matches what is in the directories too
            folders = [path for path in matches if Path(base, path).is_dir()]
            found += [file for path in folders for file in _below(path, patience, base)]
        if not found:
            raise NoFilesError(f"{text}: no files match")
        return sorted(found, key=lambda location: location.name)
    if at.is_dir():
        found = _below(text, patience, base)
        if not found:
            raise NoFilesError(f"{text}: no data files in this directory (looked for {_suffix_list()})")
        return found
    if table_formats.is_metadata(text) and at.is_file():
        return _of_metadata(pafs.LocalFileSystem(), os.fspath(at.absolute()), text, patience)
    return [_local(text, base)]


def _local(path: str, base: Path) -> Location:
    return Location(pafs.LocalFileSystem(), os.fspath(Path(base, path).absolute()), path)


def _is_file(path: Path) -> bool:
    """Count links that lead nowhere as files: they must be complained about, not passed over."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _below(directory: str, patience: RetryPolicy, base: Path) -> list[Location]:
    """Return the data files of a directory, or of the table that it is."""
    root, local = Path(base, directory), pafs.LocalFileSystem()
    absolute = os.fspath(root.absolute())
    table = _table(local, absolute, directory, absolute, patience)
    if table is not None:
        return table
    files = sorted(os.fspath(path) for path in root.rglob("*") if _is_file(path))
    inside = [PurePosixPath(path).relative_to(root) for path in files]
    _require_no_table(directory, inside)
    return [_local(os.fspath(Path(directory, short)), base) for short in inside if _is_data(short)]


# ---- URIs --------------------------------------------------------------------------------------------


def _expand_uri(uri: str, patience: RetryPolicy) -> list[Location]:
    name = without_secrets(uri)
    try:
        return _found_by_uri(uri, name, patience)
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = UnreadableError if isinstance(error, OSError) and not is_refusal(error) else InputError
        raise kind(f"{name}: cannot open: {hide_secrets(str(error), uri)}") from None


def _found_by_uri(uri: str, name: str, patience: RetryPolicy) -> list[Location]:
    filesystem, path = patience.call(name, lambda: connect(uri, timeout=patience.timeout))
    if is_single(uri):
        return [Location(filesystem, path, name, patience)]
    if isinstance(filesystem, pafs.LocalFileSystem):
        patience = _NO_RETRIES
    # Everything before the first pattern is a directory to list.
    parts = path.rstrip("/").split("/")
    fixed = next((i for i, part in enumerate(parts) if _GLOB & set(part)), len(parts))
    base = "/".join(parts[:fixed])
    info = patience.call(name, lambda: filesystem.get_file_info(base or path))
    is_glob = fixed < len(parts)
    if info.type != pafs.FileType.Directory and not is_glob:
        if table_formats.is_metadata(path) and info.type == pafs.FileType.File:
            return _of_metadata(filesystem, path, name, patience)
        return [Location(filesystem, path, name, patience)]
    if not is_glob and (table := _table(filesystem, base, name, name, patience)) is not None:
        return table
    selector = pafs.FileSelector(base, allow_not_found=True, recursive=True)
    listing = patience.call(name, lambda: filesystem.get_file_info(selector))
    files = sorted(info.path for info in listing if info.type == pafs.FileType.File)
    if is_glob:
        files = [file for file in files if _matches(file.split("/"), parts)]
        files = [file for file in files if _is_meant(PurePosixPath(file).name, parts[-1])]
    else:
        inside = [PurePosixPath(file[len(base) :].lstrip("/")) for file in files]
        _require_no_table(name, inside)
        files = [file for file, short in zip(files, inside, strict=True) if _is_data(short)]
    if not files:
        raise NoFilesError(f"{name}: no files match" if is_glob else f"{name}: no data files")
    shown = "/".join(unquote(name).rstrip("/").split("/")[: fixed - len(parts) or None])
    return [Location(filesystem, file, shown + file[len(base) :], patience) for file in files]


# ---- tables ------------------------------------------------------------------------------------------


def _table(filesystem: Any, root: str, name: str, uri: str, patience: RetryPolicy) -> list[Location] | None:
    """Return the files of the table that a directory is, or None if it is none."""
    kind = _kind_of_table(filesystem, root, name, patience)
    if kind is None:
        _require_whole_table(filesystem, root, name, patience)
        return None
    shown = name.rstrip("/")
    if kind == table_formats.DELTA_LOG:
        files = table_formats.delta_files(uri, name, filesystem, root, patience)
        found = [_of_table(file, f"{shown}/{file.uri}", patience) for file in files]
    else:
        found = _of_metadata(filesystem, kind, name, patience, root=root)
    if not found:
        raise InputError(f"{name}: the table has no rows")
    return found


def _kind_of_table(filesystem: Any, root: str, name: str, patience: RetryPolicy) -> str | None:
    """Return how to know what files a directory's table has: by Delta's log, or Iceberg's metadata file."""
    folders = [
        f"{root.rstrip('/')}/{folder}" for folder in (table_formats.DELTA_LOG, table_formats.ICEBERG_METADATA)
    ]
    log, metadata = patience.call(name, lambda: filesystem.get_file_info(folders))
    if log.type == pafs.FileType.Directory:
        return table_formats.DELTA_LOG
    if metadata.type != pafs.FileType.Directory:
        return None
    listing = patience.call(name, lambda: filesystem.get_file_info(pafs.FileSelector(metadata.path)))
    versions = [info.path for info in listing if table_formats.is_metadata(info.path)]
    if not versions:
        return None
    hint, hints = None, [info.path for info in listing if info.path.endswith("/version-hint.text")]
    if hints:
        with Location(filesystem, hints[0], name, patience).open() as file:
            hint = file.read().decode(errors="replace")
    return table_formats.newest_metadata(versions, hint, name)


def _of_metadata(
    filesystem: Any, path: str, name: str, patience: RetryPolicy, root: str | None = None
) -> list[Location]:
    """Return the files of the Iceberg table with this metadata; those below `root` are called by `name`."""
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    uri = path if is_local else f"{name.partition('://')[0]}://{path}"
    files = table_formats.iceberg_files(uri, name, filesystem, patience)
    found = []
    for file in files:
        short = file.path.removeprefix(f"{root.rstrip('/')}/") if root is not None else file.path
        shown = without_secrets(file.uri) if short == file.path else f"{name.rstrip('/')}/{short}"
        found.append(_of_table(file, shown, patience))
    return found


def _require_no_table(name: str, inside: Sequence[PurePosixPath]) -> None:
    """Refuse a directory in which there are tables: their files would be counted with those they replaced."""
    for path in inside:
        is_log = table_formats.DELTA_LOG in path.parts[:-1]
        if is_log or (
            table_formats.is_metadata(path.name) and path.parts[-2:-1] == (table_formats.ICEBERG_METADATA,)
        ):
            folder = table_formats.DELTA_LOG if is_log else table_formats.ICEBERG_METADATA
            table = "/".join([name.rstrip("/"), *path.parts[: path.parts.index(folder)]])
            what = "a Delta" if is_log else "an Iceberg"
            raise InputError(f"{name}: there is {what} table in it, {table}. Give each table by itself")


def _require_whole_table(filesystem: Any, root: str, name: str, patience: RetryPolicy) -> None:
    """Refuse a part of a table's directory: which of its files are current, only the table tells."""
    *above, last = root.rstrip("/").split("/")
    while above and ("=" in last or last == "data"):
        try:
            kind = _kind_of_table(filesystem, "/".join(above), name, patience)
        except OSError as error:
            if is_refusal(error):  # who may read this directory need not be allowed to look above it
                return
            raise
        if kind is not None:
            raise InputError(
                f"{name}: lies inside of a Delta or Iceberg table, of which only some files are current. "
                f"Give the table, {'/'.join(above)}"
            )
        *above, last = above


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
