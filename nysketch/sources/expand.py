"""What the user names → the files that are meant: paths, globs, directories, URIs and tables.

A file is a `Location` (locations.py). How a directory is recognised as a table of Delta Lake or Iceberg is in
table_directories.py.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch.errors import InputError, NoFilesError, UnreadableError, UsageError
from nysketch.sources.filesystems import connect, hide_secrets, is_single, without_secrets
from nysketch.sources.locations import SUFFIXES, Location, format_of_name
from nysketch.sources.retry import NO_RETRIES, RetryPolicy, is_refusal
from nysketch.sources.table_directories import (
    catalog_locations,
    iceberg_locations,
    require_no_table,
    table_locations,
)
from nysketch.sources.table_formats import CATALOG, is_metadata

_GLOB = frozenset("*?[")


def expand(
    inputs: Sequence[str | Location],
    retry: RetryPolicy | None = None,
    *,
    base: Path | None = None,
    allow_external: bool = False,
) -> list[Location]:
    """Return the files that paths, globs, directories and URIs mean, in a stable order.

    Relative paths start in the directory `base`, by default the working directory; files are called by the
    names that were given, all the same.

    A directory that is a table of Delta Lake or Iceberg means the files of its current version, and so do
    `….metadata.json` and `iceberg:CATALOG.NAMESPACE.TABLE`. URIs that lead to others need `allow_external`.
    """
    retry = retry or RetryPolicy()
    locations = [
        location for item in inputs for location in _expand_one(item, retry, base or Path(), allow_external)
    ]
    seen: dict[tuple[str, str], str] = {}
    for location in locations:
        try:
            location.path.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"{location.name!r}: the name is not valid UTF-8; rename or link the file"
            ) from None
        local = location.local_path
        key = location.filesystem.type_name, location.path if local is None else os.path.realpath(local)
        if key in seen:
            also = "" if seen[key] == location.name else f", also as {seen[key]}"
            raise UsageError(f"{location}: given twice{also}; its rows would be counted twice")
        seen[key] = location.name
    return locations


def _expand_one(item: str | Location, retry: RetryPolicy, base: Path, allow_external: bool) -> list[Location]:
    if isinstance(item, Location):
        return [item]
    if "://" in item:
        return _expand_uri(item, retry, allow_external)
    try:
        if item.startswith(CATALOG) and not Path(base, item).exists():
            return catalog_locations(item.removeprefix(CATALOG), retry)
        return _expand_local(item, retry, base)
    except OSError as error:
        raise InputError(f"{item}: cannot be listed: {error}") from error


# ---- paths -------------------------------------------------------------------------------------------


def _expand_local(text: str, retry: RetryPolicy, base: Path) -> list[Location]:
    at = Path(base, text)
    if _GLOB & set(text) and not at.exists():
        # Path.glob takes no absolute patterns.
        matches = sorted(glob.glob(text, root_dir=base, recursive=True))  # noqa: PTH207
        matches = [path for path in matches if _is_meant(Path(path).name, at.name)]
        found = [_local(path, base) for path in matches if _is_file(Path(base, path))]
        if "**" not in text:  # which matches what is in the directories too
            folders = [path for path in matches if Path(base, path).is_dir()]
            found += [file for path in folders for file in _below(path, retry, base)]
        if not found:
            raise NoFilesError(f"{text}: no files match")
        return sorted(found, key=lambda location: location.name)
    if at.is_dir():
        found = _below(text, retry, base)
        if not found:
            raise NoFilesError(f"{text}: no data files in this directory (looked for {_suffix_list()})")
        return found
    if is_metadata(text) and at.is_file():
        return iceberg_locations(pafs.LocalFileSystem(), os.fspath(at.absolute()), text, retry)
    return [_local(text, base)]


def _local(path: str, base: Path) -> Location:
    return Location(pafs.LocalFileSystem(), os.fspath(Path(base, path).absolute()), path)


def _is_file(path: Path) -> bool:
    """Say whether a path is no directory: a broken link or a pipe must raise an error, and not be skipped."""
    return not path.is_dir()


def _below(directory: str, retry: RetryPolicy, base: Path) -> list[Location]:
    """Return the data files of a directory, or of the table that it is."""
    root, local = Path(base, directory), pafs.LocalFileSystem()
    absolute = os.fspath(root.absolute())
    table = table_locations(local, absolute, directory, absolute, retry)
    if table is not None:
        return table
    files = sorted(os.fspath(path) for path in root.rglob("*") if _is_file(path))
    inside = [PurePosixPath(path).relative_to(root) for path in files]
    require_no_table(directory, inside)
    return [_local(os.fspath(Path(directory, short)), base) for short in inside if _is_data(short)]


# ---- URIs --------------------------------------------------------------------------------------------


def _expand_uri(uri: str, retry: RetryPolicy, allow_external: bool) -> list[Location]:
    name = without_secrets(uri)
    try:
        return _list_uri(uri, name, retry, allow_external)
    except (pa.ArrowException, OSError, ValueError) as error:
        kind = UnreadableError if isinstance(error, OSError) and not is_refusal(error) else InputError
        raise kind(f"{name}: cannot open: {hide_secrets(str(error), uri)}") from None


def _list_uri(uri: str, name: str, retry: RetryPolicy, allow_external: bool) -> list[Location]:
    filesystem, path = retry.call(
        name, lambda: connect(uri, timeout=retry.timeout, allow_external=allow_external)
    )
    if is_single(uri):
        return [Location(filesystem, path, name, retry)]
    if isinstance(filesystem, pafs.LocalFileSystem):
        retry = NO_RETRIES
    # Everything before the first pattern is a directory to list.
    parts = path.rstrip("/").split("/")
    fixed = next((i for i, part in enumerate(parts) if _GLOB & set(part)), len(parts))
    base = "/".join(parts[:fixed])
    info = retry.call(name, lambda: filesystem.get_file_info(base or path))
    is_glob = fixed < len(parts)
    if info.type != pafs.FileType.Directory and not is_glob:
        if is_metadata(path) and info.type == pafs.FileType.File:
            return iceberg_locations(filesystem, path, name, retry)
        return [Location(filesystem, path, name, retry)]
    if not is_glob and (table := table_locations(filesystem, base, name, name, retry)) is not None:
        return table
    selector = pafs.FileSelector(base, allow_not_found=True, recursive=True)
    listing = retry.call(name, lambda: filesystem.get_file_info(selector))
    files = sorted(info.path for info in listing if info.type == pafs.FileType.File)
    if is_glob:
        files = [file for file in files if _matches(file.split("/"), parts)]
        files = [file for file in files if _is_meant(PurePosixPath(file).name, parts[-1])]
    else:
        inside = [PurePosixPath(file[len(base) :].lstrip("/")) for file in files]
        require_no_table(name, inside)
        files = [file for file, short in zip(files, inside, strict=True) if _is_data(short)]
    if not files:
        raise NoFilesError(f"{name}: no files match" if is_glob else f"{name}: no data files")
    shown = "/".join(unquote(name).rstrip("/").split("/")[: fixed - len(parts) or None])
    return [Location(filesystem, file, shown + file[len(base) :], retry) for file in files]


# ---- names ------------------------------------------------------------------------------------------


def _matches(parts: list[str], patterns: list[str]) -> bool:
    if patterns[:1] == ["**"]:  # any number of directories, also none
        return any(_matches(parts[i:], patterns[1:]) for i in range(len(parts) + 1))
    if not parts or not patterns:
        return not parts and not patterns
    return fnmatch.fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def _is_data(path: PurePosixPath) -> bool:
    """Skip what writers leave beside the data: names that start with `_` or a dot."""
    hidden = any(part[0] in "._" and "=" not in part for part in path.parts)
    return not hidden and format_of_name(path) is not None


def _is_meant(name: str, pattern: str) -> bool:
    """Say whether a pattern means what it matches: `*` is not meant for Spark's `_SUCCESS`."""
    return name[:1] not in ("_", ".") or "=" in name or pattern[:1] == name[:1]


def _suffix_list() -> str:
    return ", ".join(f"*{suffix}" for suffix in SUFFIXES)
