"""Directories that are tables of Delta Lake or Iceberg → the locations of their current files.

How a table is recognised, and why parts of one and directories of several are refused. Which files belong to
its current version is for table_formats.py to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow.fs as pafs

from nysketch.errors import InputError
from nysketch.sources.filesystems import without_secrets
from nysketch.sources.locations import Location
from nysketch.sources.retry import RetryPolicy, is_refusal
from nysketch.sources.table_formats import (
    DELTA_LOG,
    ICEBERG_METADATA,
    DataFile,
    catalog_files,
    delta_files,
    iceberg_files,
    is_metadata,
    newest_metadata,
)


def table_locations(
    filesystem: Any, root: str, name: str, uri: str, retry: RetryPolicy
) -> list[Location] | None:
    """Return the files of a table, or None if the directory is not one.

    The directory is `root` in the filesystem; `name` is how the user calls it, and `uri` where deltalake
    finds it.
    """
    kind = _kind_of_table(filesystem, root, name, retry)
    if kind is None:
        _require_whole_table(filesystem, root, name, retry)
        return None
    shown = name.rstrip("/")
    if kind == DELTA_LOG:
        files = delta_files(uri, name, filesystem, root, retry)
        found = [_location(file, f"{shown}/{file.uri}", retry) for file in files]
    else:
        found = iceberg_locations(filesystem, kind, name, retry, root=root)
    if not found:
        raise InputError(f"{name}: the table has no rows")
    return found


def catalog_locations(identifier: str, retry: RetryPolicy) -> list[Location]:
    """Return the files of an Iceberg table that a catalog knows: CATALOG.NAMESPACE.TABLE."""
    files = catalog_files(identifier, retry)
    return [_location(file, without_secrets(file.uri), retry) for file in files]


def iceberg_locations(
    filesystem: Any, path: str, name: str, retry: RetryPolicy, root: str | None = None
) -> list[Location]:
    """Return the files of the Iceberg table with this metadata; those below `root` are called by `name`."""
    is_local = isinstance(filesystem, pafs.LocalFileSystem)
    uri = path if is_local else f"{name.partition('://')[0]}://{path}"
    files = iceberg_files(uri, name, filesystem, retry)
    found = []
    for file in files:
        short = file.path.removeprefix(f"{root.rstrip('/')}/") if root is not None else file.path
        shown = without_secrets(file.uri) if short == file.path else f"{name.rstrip('/')}/{short}"
        found.append(_location(file, shown, retry))
    return found


def _location(file: DataFile, name: str, retry: RetryPolicy) -> Location:
    return Location(file.filesystem, file.path, name, retry, file.entry)


def require_no_table(name: str, inside: Sequence[PurePosixPath]) -> None:
    """Refuse a directory with tables in it: files of their older versions would be counted, too."""
    for path in inside:
        is_log = DELTA_LOG in path.parts[:-1]
        if is_log or (is_metadata(path.name) and path.parts[-2:-1] == (ICEBERG_METADATA,)):
            folder = DELTA_LOG if is_log else ICEBERG_METADATA
            table = "/".join([name.rstrip("/"), *path.parts[: path.parts.index(folder)]])
            what = "a Delta" if is_log else "an Iceberg"
            raise InputError(f"{name}: contains {what} table, {table}. Give each table separately")


def _kind_of_table(filesystem: Any, root: str, name: str, retry: RetryPolicy) -> str | None:
    """Return DELTA_LOG if a directory is a Delta table, the path of its metadata if it is one of Iceberg."""
    folders = [f"{root.rstrip('/')}/{folder}" for folder in (DELTA_LOG, ICEBERG_METADATA)]
    log, metadata = retry.call(name, lambda: filesystem.get_file_info(folders))
    if log.type == pafs.FileType.Directory:
        return DELTA_LOG
    if metadata.type != pafs.FileType.Directory:
        return None
    found = retry.call(name, lambda: filesystem.get_file_info(pafs.FileSelector(metadata.path)))
    listing = [info for info in found if info.type == pafs.FileType.File]
    versions = [info.path for info in listing if is_metadata(info.path)]
    if not versions:
        return None
    hint, hints = None, [info.path for info in listing if info.path.endswith("/version-hint.text")]
    if hints:
        with Location(filesystem, hints[0], name, retry).open() as file:
            hint = file.read().decode(errors="replace")
    return newest_metadata(versions, hint, name)


def _require_whole_table(filesystem: Any, root: str, name: str, retry: RetryPolicy) -> None:
    """Refuse a directory inside of a table: only the table knows which of its files are current."""
    *above, last = root.rstrip("/").split("/")
    while above and ("=" in last or last == "data"):
        try:
            kind = _kind_of_table(filesystem, "/".join(above), name, retry)
        except OSError as error:
            if is_refusal(error):  # access to this directory need not include those above it
                return
            raise
        if kind is not None:
            raise InputError(
                f"{name}: is inside a Delta or Iceberg table, of which only some files are current. Give "
                f"the table, {'/'.join(above)}"
            )
        *above, last = above
