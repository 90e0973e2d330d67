"""Table formats: the data files of the current version of a Delta Lake or Iceberg table.

Both keep files of older versions beside the current ones, so reading all files of the directory would be
wrong. Their own libraries say which files are current; these are then read like any others, by the names of
their columns. A table whose rows are not simply those of its files (rows deleted elsewhere, columns renamed)
is refused. How a directory is recognised as a table is in table_directories.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch._support.notices import log
from nysketch.errors import InputError, UnreadableError
from nysketch.sources.filesystems import S3FileSystem, options_of
from nysketch.sources.retry import IO_ERRORS, RetryPolicy, is_refusal

DELTA_LOG, ICEBERG_METADATA = "_delta_log", "metadata"
CATALOG = "iceberg:"
# What hive writes for a null into the name of a directory.
NULL_KEY = "__HIVE_DEFAULT_PARTITION__"
# Features of Delta that readers must know of, but that do not change what is in a data file.
_HARMLESS = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_MAPPING, _DELETIONS = "columnMapping", "deletionVectors"
# Errors of catalogs that may pass.
_PASSING = ("ServerError", "ServiceUnavailableError", "TooManyRequestsError")
_VERSION = re.compile(r"v?(\d+)(-[^/]*)?(\.gz)?\.metadata\.json(\.gz)?")


@dataclass(frozen=True)
class Entry:
    """What a table says of one of its files: its partition keys, and the columns that the table has."""

    keys: tuple[tuple[str, str], ...]
    columns: frozenset[str]


@dataclass(frozen=True)
class DataFile:
    """A file of a table, in a filesystem of pyarrow; `uri` is how the table calls it."""

    filesystem: Any
    path: str
    uri: str
    entry: Entry


def _missing(name: str, what: str, extra: str) -> InputError:
    return InputError(
        f"{name}: is {what}. Reading it needs the package {extra}: pip install 'nysketch[{extra}]'"
    )


# ---- Delta Lake --------------------------------------------------------------------------------------


def delta_files(table: str, name: str, filesystem: Any, root: str, retry: RetryPolicy) -> list[DataFile]:
    """Return the files of a Delta table at the URI or path `table`, which is `root` in the filesystem."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise _missing(name, "a Delta table", "delta") from None
    try:
        delta = DeltaTable(table, storage_options=_object_store(filesystem, retry))
        columns = frozenset(field.name for field in delta.schema().fields)
        _require_plain_files(delta, name)
        actions = pa.table(delta.get_add_actions(flatten=False)).to_pylist()
    except (DeltaError, OSError, ValueError) as error:
        raise UnreadableError(f"{name}: cannot read the log of this Delta table: {error}") from error
    log.info("%s: version %d of a Delta table, %d files", name, delta.version(), len(actions))
    files = []
    for action in actions:
        path = unquote(action["path"])
        if "://" in path:
            raise InputError(
                f"{name}: is a shallow clone: {path} belongs to another table. Make a deep clone"
            )
        keys = {key: _as_key(value) for key, value in (action.get("partition") or {}).items()}
        entry = Entry(tuple(keys.items()), columns)
        files.append(DataFile(filesystem, f"{root.rstrip('/')}/{path}", path, entry))
    return sorted(files, key=lambda file: file.path)


def _require_plain_files(delta: Any, name: str) -> None:
    """Refuse tables whose rows are not simply those of their files."""
    protocol, settings = delta.protocol(), delta.metadata().configuration
    features = set(protocol.reader_features or ())
    if settings.get("delta.columnMapping.mode", "none") != "none":
        raise InputError(
            f"{name}: this Delta table uses column mapping, which is not supported. Rewrite it without"
        )
    if _DELETIONS in features and _has_deletion_vectors(delta):
        raise InputError(
            f"{name}: this Delta table has deletion vectors, which are not supported. Purge the deleted "
            "rows: REORG TABLE … APPLY (PURGE)"
        )
    if unknown := features - _HARMLESS - {_MAPPING, _DELETIONS}:
        raise InputError(
            f"{name}: this Delta table uses {', '.join(sorted(unknown))}, which is not supported. Rewrite "
            "it without, or export it as Parquet"
        )


def _has_deletion_vectors(delta: Any) -> bool:
    if not hasattr(delta, "deletion_vectors"):  # of an older version: there may be some
        return True
    return any(batch.num_rows for batch in delta.deletion_vectors())


def _as_key(value: Any) -> str:
    """Return the value of a partition as hive would write it."""
    if value is None:
        return NULL_KEY
    return str(value).lower() if isinstance(value, bool) else str(value)


def _object_store(filesystem: Any, retry: RetryPolicy) -> dict[str, str]:
    """Return for deltalake, which reads the log by itself, how a filesystem is reached."""
    if isinstance(filesystem, pafs.LocalFileSystem):
        return {}
    seconds = f"{retry.timeout:g}s"
    common = {"timeout": seconds, "connect_timeout": seconds, "max_retries": str(retry.retries)}
    if not isinstance(filesystem, pafs.S3FileSystem):
        return common
    s3 = options_of(filesystem)
    endpoint = _endpoint(s3)
    found = {
        "aws_access_key_id": s3["access_key"],
        "aws_secret_access_key": s3["secret_key"],
        "aws_session_token": s3["session_token"],
        "aws_region": filesystem.region,
        "aws_endpoint_url": endpoint,
        "aws_allow_http": "true" if endpoint.startswith("http:") else "",
        "aws_skip_signature": "true" if s3["anonymous"] else "",
    }
    return common | {key: value for key, value in found.items() if value}


def _endpoint(s3: Mapping[str, Any]) -> str:
    """Return the URL of a server other than Amazon's, if there is one."""
    endpoint = str(s3["endpoint_override"] or "")
    return endpoint if "://" in endpoint or not endpoint else f"{s3['scheme']}://{endpoint}"


# ---- Iceberg -----------------------------------------------------------------------------------------


def newest_metadata(paths: Iterable[str], hint: str | None, name: str) -> str:
    """Return the path of the metadata that an Iceberg table's directory means: by its hint, or its number."""
    numbered: dict[int, list[str]] = {}
    for path in paths:
        if found := _VERSION.fullmatch(path.rpartition("/")[2]):
            numbered.setdefault(int(found[1]), []).append(path)
    newest = max(numbered)
    if hint is not None and hint.strip().isdigit() and int(hint) in numbered:
        newest = int(hint)
    if len(numbered[newest]) > 1:
        listed = ", ".join(sorted(path.rpartition("/")[2] for path in numbered[newest]))
        raise InputError(
            f"{name}: this Iceberg table has two metadata files of version {newest}: {listed}. Give the "
            "current one, or name the table by its catalog: iceberg:CATALOG.NAMESPACE.TABLE"
        )
    return numbered[newest][0]


def is_metadata(path: str) -> bool:
    """Say whether a path is one of a metadata file of Iceberg."""
    return _VERSION.fullmatch(path.rpartition("/")[2]) is not None


def iceberg_files(metadata: str, name: str, filesystem: Any, retry: RetryPolicy) -> list[DataFile]:
    """Return the files of the Iceberg table with the metadata file at this URI or path."""

    def load() -> Any:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(metadata, _file_io(filesystem))

    return _iceberg_files(load, name, retry)


def catalog_files(identifier: str, retry: RetryPolicy) -> list[DataFile]:
    """Return the files of an Iceberg table that a catalog knows: CATALOG.NAMESPACE.TABLE."""
    name = f"{CATALOG}{identifier}"
    catalog, _, table = identifier.partition(".")
    if not catalog or "." not in table:
        raise InputError(f"{name}: write iceberg:CATALOG.NAMESPACE.TABLE")

    def load() -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog(catalog).load_table(table)

    return _iceberg_files(load, name, retry)


def _file_io(filesystem: Any) -> dict[str, str]:
    """Return for pyiceberg, which reads metadata by itself, how a filesystem is reached."""
    io = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    if not isinstance(filesystem, pafs.S3FileSystem):
        return io
    s3 = options_of(filesystem)
    found = {
        "s3.access-key-id": s3["access_key"],
        "s3.secret-access-key": s3["secret_key"],
        "s3.session-token": s3["session_token"],
        "s3.region": filesystem.region,  # or pyiceberg would ask Amazon for it
        "s3.endpoint": _endpoint(s3),
        "s3.anonymous": "true" if s3["anonymous"] else "",
        "s3.connect-timeout": str(s3["connect_timeout"]),
        "s3.request-timeout": str(s3["request_timeout"]),
    }
    return io | {key: value for key, value in found.items() if value}


def _iceberg_files(load: Callable[[], Any], name: str, retry: RetryPolicy) -> list[DataFile]:
    """Return the files of a table that `load` loads."""
    try:
        from pyiceberg.io.pyarrow import PyArrowFileIO
    except ImportError:
        raise _missing(name, "an Iceberg table", "iceberg") from None
    try:
        table = retry.call(name, lambda: _attempt(load, name))
        _require_stable_names(table, name)
        tasks = retry.call(name, lambda: _attempt(lambda: list(table.scan().plan_files()), name))
    except IO_ERRORS as error:
        kind = InputError if is_refusal(error) else UnreadableError
        raise kind(f"{name}: cannot read this Iceberg table: {error}") from error
    log.info("%s: an Iceberg table, %d files", name, len(tasks))
    io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)

    @functools.cache  # one for all files of a bucket
    def connected(scheme: str, host: str) -> Any:
        filesystem = io.fs_by_scheme(scheme, host or None)
        if isinstance(filesystem, pafs.S3FileSystem):
            return S3FileSystem.like(filesystem, timeout=retry.timeout)
        return pafs.LocalFileSystem() if scheme == "file" else filesystem

    columns = frozenset(field.name for field in table.schema().fields)
    files = []
    for task in tasks:
        _require_whole_file(task, name)
        scheme, host, path = io.parse_location(task.file.file_path)[:3]
        entry = Entry(tuple(_identity_keys(table, task.file)), columns)
        files.append(DataFile(connected(scheme, host), path, task.file.file_path, entry))
    return sorted(files, key=lambda file: file.path)


def _attempt(work: Callable[[], Any], name: str) -> Any:
    """Do something with pyiceberg; what is worth another attempt is an I/O error, all else is ours."""
    try:
        return work()
    except IO_ERRORS:
        raise
    except Exception as error:  # of pyiceberg, of its catalogs, and of what is behind them
        text = f"{type(error).__name__}: {error}"
        if type(error).__name__ in _PASSING:
            raise OSError(text) from error
        raise InputError(f"{name}: cannot read this Iceberg table: {text}") from error


def _require_stable_names(table: Any, name: str) -> None:
    """Refuse a table in which a name has meant two columns, or a column has had two names."""
    current = {field.field_id: field.name for field in table.schema().fields}
    for schema in table.metadata.schemas:
        for field in schema.fields:
            if current.get(field.field_id, field.name) != field.name:
                raise InputError(
                    f"{name}: column {current[field.field_id]!r} of this Iceberg table was called "
                    f"{field.name!r}, and may still be so in older files. Rewrite the table"
                )
            if field.field_id not in current and field.name in current.values():
                raise InputError(
                    f"{name}: this Iceberg table once had another column {field.name!r}, which may still be "
                    "in older files. Rewrite the table"
                )


def _require_whole_file(task: Any, name: str) -> None:
    """Refuse a file that is not Parquet, or of which other files say that some rows do not count."""
    if task.delete_files:
        raise InputError(
            f"{name}: this Iceberg table has delete files (merge-on-read), which are not supported. Compact "
            "it first: CALL catalog.system.rewrite_data_files(…)"
        )
    kind = task.file.file_format
    if str(getattr(kind, "name", kind)).upper() != "PARQUET":
        raise InputError(
            f"{name}: {task.file.file_path} is not Parquet; rewrite the table with Parquet files"
        )


def _identity_keys(table: Any, file: Any) -> Iterator[tuple[str, str]]:
    """Yield columns by which the table is partitioned as they are: files need not hold them."""
    schema, spec = table.schema(), table.specs()[file.spec_id]
    values: Sequence[Any] = [file.partition[i] for i in range(len(spec.fields))]
    for part, value in zip(spec.fields, values, strict=True):
        if str(part.transform) == "identity" and (column := schema.find_column_name(part.source_id)):
            kind = schema.find_type(part.source_id)
            yield column, NULL_KEY if value is None else part.transform.to_human_string(kind, value)
