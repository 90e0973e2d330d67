"""URIs → filesystems: those of pyarrow with time-outs, and all others that fsspec knows.

Credentials come from the environment (variables, files, roles), as each filesystem documents it. Those in a
URI (user, password, options) are used, and never shown.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from nysketch.errors import InputError, UsageError

# An address in a message, up to what cannot belong to it.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")

_HTTP = ("http", "https")
# Where the name before the @ is that of a container.
_AZURE = ("abfs", "abfss")
# fsspec's filesystems that take a time-out, for connecting at least.
_WITH_TIMEOUT = ("ftp", "sftp", "ssh")
# What leads to other addresses, which are in the URI, in its options or in the file that it names.
_INDIRECT = frozenset(
    (
        "async_wrapper", "asyncwrapper", "blockcache", "cached", "dask", "dir", "filecache", "generic",
        "libarchive", "reference", "simplecache", "tar", "zip",
    )
)  # fmt: skip
# What fsspec's filesystems raise for addresses that they did not expect.
_NOT_MEANT = (TypeError, AttributeError, LookupError, AssertionError, NotImplementedError, RecursionError)
# Between the addresses of a chain there are two colons, and in these addresses of servers, too.
_IPV6 = re.compile(r"(?<=://)([^/@\[]*@)?\[[0-9A-Fa-f:.]*\]")
_LINK = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.-]*://)")
_UNKNOWN = "Unrecognized filesystem type"
# Options of a URI whose values are words like any other.
_HARMLESS = ("scheme", "region")


def connect(uri: str, *, timeout: float, allow_external: bool = False) -> tuple[Any, str]:
    """Return a filesystem of pyarrow that answers within `timeout` seconds or fails, and the path in it.

    Addresses that lead from one place to another are followed only if `allow_external` trusts them.
    """
    scheme = scheme_of(uri)
    if "::" in scheme or scheme in _INDIRECT:
        return _connect_by_fsspec(uri, timeout=timeout, allow_external=allow_external)
    before, slash, rest = uri.removeprefix(f"{scheme}://").partition("/")
    # Brackets belong to globs, but not into URIs.
    encoded = f"{scheme}://{before}{slash}{rest.replace('[', '%5B').replace(']', '%5D')}"
    try:
        filesystem, path = pafs.FileSystem.from_uri(encoded)
    except pa.ArrowInvalid as error:
        if _UNKNOWN not in str(error) and not _is_chain(uri):
            raise ValueError(str(error)) from None  # and no I/O error: it will not pass
        return _connect_by_fsspec(uri, timeout=timeout, allow_external=allow_external)
    except ImportError as error:
        raise _missing_package(uri, error) from None
    if isinstance(filesystem, pafs.S3FileSystem):
        filesystem = S3FileSystem.like(filesystem, timeout=timeout)
    elif scheme in ("gs", "gcs") and "retry_limit_seconds" not in uri:
        limit = datetime.timedelta(seconds=timeout)
        filesystem = type(filesystem)(**(options_of(filesystem) | {"retry_time_limit": limit}))
    return filesystem, path


def options_of(filesystem: Any) -> dict[str, Any]:
    """Return what a filesystem of pyarrow was made with: what is pickled of it."""
    options: dict[str, Any] = filesystem.__reduce__()[1][0]
    return options


class S3FileSystem(pafs.S3FileSystem):  # type: ignore[misc] # pyarrow has no types
    """S3 without attempts of its own, also when it was pickled: retry.py knows better when to stop.

    pyarrow's would make three attempts of 3 seconds each: too short for a slow server, and nothing is said.
    """

    @classmethod
    def like(cls, other: pafs.S3FileSystem, *, timeout: float) -> S3FileSystem:
        """Return another one's copy."""
        return cls._made(options_of(other) | {"connect_timeout": timeout, "request_timeout": timeout})

    @classmethod
    def _made(cls, options: dict[str, Any]) -> S3FileSystem:
        return cls(**options, retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1))

    def __reduce__(self) -> tuple[Any, ...]:
        return S3FileSystem._made, (super().__reduce__()[1][0],)


def _connect_by_fsspec(uri: str, *, timeout: float, allow_external: bool) -> tuple[Any, str]:
    name, scheme = without_secrets(uri), scheme_of(uri)
    if not allow_external and (_is_chain(uri) or scheme in _INDIRECT):
        raise UsageError(
            f"{name}: this address leads to another one, so that it may fetch anything from anywhere. If you "
            "trust it, use `allow_external=True`; a :: in a name is written %3A%3A"
        )
    try:
        import fsspec
    except ImportError:
        raise InputError(
            f"{name}: {scheme}:// needs fsspec, which is not installed: pip install 'nysketch[remote]'"
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(uri, **_fsspec_options(scheme, timeout))
    except ImportError as error:
        raise _missing_package(uri, error) from None
    except (ValueError, *_NOT_MEANT) as error:
        reason = hide_secrets(f"{type(error).__name__}: {error}", uri)
        raise UsageError(f"{name}: fsspec cannot open such an address: {reason}") from None
    return pafs.PyFileSystem(_Handler(filesystem)), path


def _is_chain(uri: str) -> bool:
    return "::" in _IPV6.sub("", uri)


def _missing_package(uri: str, error: ImportError) -> InputError:
    return InputError(f"{without_secrets(uri)}: a package is missing for {scheme_of(uri)}://: {error}")


class _Handler(pafs.FSSpecHandler):  # type: ignore[misc] # pyarrow has no types
    """fsspec as a filesystem of pyarrow, but honest about what is missing and what did not answer."""

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        """Return type, size and time of change of files."""
        infos = []
        for path in paths:
            try:
                with _true_reason(path):
                    infos.append(self._create_file_info(path, self.fs.info(path)))
            except FileNotFoundError:
                infos.append(pafs.FileInfo(path, pafs.FileType.NotFound))
        return infos

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        """Return type, size and time of change of the files in a directory."""
        with _true_reason(selector.base_dir):
            found: list[Any] = super().get_file_info_selector(selector)
            return found

    def open_input_file(self, path: str) -> Any:
        """Return a random-access file."""
        # Not by `isfile` first, as the parent does: it says no to whatever a server answers in its trouble.
        with _true_reason(path):
            return pa.PythonFile(self.fs.open(path, mode="rb"), mode="r")


@contextmanager
def _true_reason(path: str) -> Iterator[None]:
    """Raise what a FileNotFoundError hides: fsspec calls all missing that a web server fails to deliver.

    What its filesystems raise if an address is not of the form that they expect is a UsageError.
    """
    try:
        yield
    except _NOT_MEANT as error:
        reason = hide_addresses(f"{type(error).__name__}: {error}")
        raise UsageError(f"{path}: fsspec cannot open such an address: {reason}") from None
    except FileNotFoundError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, FileNotFoundError):
            raise
        raise cause from None


def _fsspec_options(scheme: str, timeout: float) -> dict[str, Any]:
    """Return a time-out as the filesystem takes it; not all do."""
    if scheme in _WITH_TIMEOUT:
        return {"timeout": timeout}
    if scheme in _HTTP:
        try:
            from aiohttp import ClientTimeout
        except ImportError:
            return {}  # fsspec will say what it misses
        return {"client_kwargs": {"timeout": ClientTimeout(connect=timeout, sock_read=timeout)}}
    return {}


def scheme_of(uri: str) -> str:
    """Return what comes before `://`."""
    return uri.partition("://")[0]


def is_single(uri: str) -> bool:
    """Say whether a URI is never a directory or a glob: web servers list nothing, and ? begins a query."""
    return scheme_of(uri) in _HTTP


def without_secrets(uri: str) -> str:
    """Return the URI without user, password and options: it ends up in messages and sketches."""
    return "::".join(_plain(address) if "://" in address else address for address in _LINK.split(uri))


def _plain(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:  # such as an unfinished IPv6 address
        return re.sub(r"://[^/]*@", "://", address).partition("?")[0]
    user, at, host = parts.netloc.rpartition("@")
    container = user.partition(":")[0] + at if parts.scheme in _AZURE and user.partition(":")[0] else ""
    return f"{parts.scheme}://{container}{host}{parts.path}"


def hide_addresses(text: str) -> str:
    """Return a message without users, passwords and options of whatever addresses are in it."""
    return _ADDRESS.sub(lambda found: without_secrets(found[0]), text)


def hide_secrets(text: str, uri: str) -> str:
    """Return a message about a URI without what the URI should not have shown."""
    text = text.replace(uri, without_secrets(uri))
    for address in _LINK.split(uri):
        text = _hide_secrets_of(address, text)
    return text


def _hide_secrets_of(address: str, text: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return hide_addresses(text)
    user, _, _ = parts.netloc.rpartition("@")
    values = [value for key, value in parse_qsl(parts.query) if key not in _HARMLESS]
    password = user.partition(":")[2]
    for secret in (parts.query, user if password else "", password, unquote(password), *values):
        # Short ones are no secrets, but letters of other words.
        text = text.replace(secret, "…") if len(secret) > 3 else text
    return text
