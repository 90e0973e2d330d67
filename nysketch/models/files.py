"""Models ↔ files: JSON for people, Parquet and NPZ for other programs; each can be loaded again.

All three hold the description that `Model.describe` gives, as JSON text, and nothing else of them is
read. So a model is checked in one place, whatever file it comes from.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from errno import EINVAL
from io import BufferedReader
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.atomic import atomic_file
from nysketch._support.documents import refuse_constant
from nysketch._support.outputs import overwriting, refuse_to_overwrite
from nysketch._support.regular import open_regular
from nysketch.errors import CorruptSketchError, InputError, OutputError, UsageError, WrongKindError
from nysketch.files.kinds import what_to_do
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.stored import AnyModel, from_description

FORMATS = ("json", "parquet", "npz")

# Three million numbers; what is larger was not meant to be a model.
_MAX_TEXT_BYTES = 64 << 20
# Lists, dictionaries and strings of the text: empty ones take sixty times as much memory as text.
_MAX_CONTAINERS, _MAX_STRINGS = 1 << 21, 1 << 20
# An NPZ file holds the text with four bytes a character; the footer of Parquet holds it twice.
_MAX_NPZ_BYTES, _MAX_FOOTER_BYTES = 4 * _MAX_TEXT_BYTES, 3 * _MAX_TEXT_BYTES
# The list of members of an NPZ file: a dozen, with their names.
_MAX_LIST_BYTES = 1 << 16
# Where the text is: a key of Parquet's metadata, an array of an NPZ file.
_KEY = "nysketch_model"


def require_format(path: Path, format: str | None = None) -> str:
    """Return the format to write, by name or by the suffix of the path; it must be a known one."""
    chosen = format or path.suffix.lstrip(".").lower()
    if chosen not in FORMATS:
        raise UsageError(f"{path}: cannot tell the format from the name; end it in .json, .parquet or .npz")
    return chosen


def save_model(
    model: AnyModel,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    if_exists: str = "fail",
) -> None:
    """Write a model to a file, atomically.

    Parameters
    ----------
    model : KMeansModel or MixtureModel
        What to write.
    path : path
        File to write.
    format : {"json", "parquet", "npz"}, optional
        Default: by the suffix of `path`.
    if_exists : {"fail", "overwrite"}
        What to do if the file exists.

    Examples
    --------
    >>> nysketch.save_model(model, "model.json")

    """
    path = Path(path)
    chosen = require_format(path, format)
    refuse_to_overwrite(path, overwrite=overwriting(if_exists))
    description = model.describe()
    text = _readable(description)
    if len(text) > _MAX_TEXT_BYTES:
        most = f"more than the {_MAX_TEXT_BYTES:,} of a model file"
        raise OutputError(f"{path}: the model takes {len(text):,} bytes, {most}")
    table = _table(model, path) if chosen == "parquet" else {}
    with atomic_file(path) as file:
        if chosen == "json":
            file.write(text.encode())
        elif chosen == "npz":
            arrays = {name: getattr(model, name) for name in ("scale", *model.arrays)}
            features = np.array(model.features)
            np.savez(file, **arrays, columns=features, **{_KEY: np.array(text)})  # type: ignore[arg-type]
        else:
            _write_parquet(table, text, file)


def _readable(description: dict[str, Any]) -> str:
    """Return JSON with sorted keys, one to a line, and one line for each row of a matrix."""
    lines = (f"  {json.dumps(key)}: {_value(value)}" for key, value in sorted(description.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        rows = ",\n".join(f"    {json.dumps(row, allow_nan=False)}" for row in value)
        return f"[\n{rows}\n  ]"
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _table(model: AnyModel, path: Path) -> dict[str, NDArray[np.float64]]:
    """Return columns with one row per cluster or component."""
    share = {"share": model.shares} if isinstance(model, KMeansModel) else {"weight": model.weights}
    middles = model.centroids if isinstance(model, KMeansModel) else model.means
    columns = [*share.items(), *zip(model.features, middles.T, strict=True)]
    if isinstance(model, MixtureModel) and model.covariance_type != "full":
        columns += zip((f"var:{name}" for name in model.features), model.covariances.T, strict=True)
    elif isinstance(model, MixtureModel):
        columns += [("covariance", model.covariances)]
    table = dict(columns)
    if len(table) < len(columns):
        names = [name for name, _ in columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{path}: there would be two columns named {twice!r}; write .json or .npz")
    return table


def _write_parquet(table: dict[str, NDArray[np.float64]], text: str, file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        name: pa.array(list(values.reshape(len(values), -1)) if values.ndim > 1 else values)
        for name, values in table.items()
    }
    pq.write_table(pa.table(columns).replace_schema_metadata({_KEY: text}), file)


def load_model(path: str | os.PathLike[str]) -> AnyModel:
    """Read a model from JSON, Parquet or NPZ, whatever the file is called, and check it.

    Parameters
    ----------
    path : path
        File that `save_model` or a command wrote.

    Returns
    -------
    KMeansModel or MixtureModel

    Examples
    --------
    >>> nysketch.load_model("model.json").centroids

    """
    path = Path(path)
    try:
        file = open_regular(path)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise InputError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from error
    try:
        with file:
            return from_description(_read_json(_text_of(file)))
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno != EINVAL:
            raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
        remedy = what_to_do(path, "model") if isinstance(error, _NoModelError) else None
        if remedy is not None:
            raise WrongKindError(remedy) from error
        raise CorruptSketchError(f"{path}: not a usable model file: {error}") from error


# What files that are none can end in: those of others, and damaged or hostile ones of ours.
_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    OverflowError,
    RecursionError,
    MemoryError,
    EOFError,
    OSError,  # of places before the beginning, in archives
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted archive
    SyntaxError,  # a header of NumPy's
    TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class _NoModelError(ValueError):
    """A file is sound as far as it was read, and holds something else."""


def _read_json(text: bytes | str) -> Any:
    """Parse a description, unless it would take far more memory than a model."""
    marks = (b"[", b"{", b'"') if isinstance(text, bytes) else ("[", "{", '"')
    lists, objects, quotes = (text.count(mark) for mark in marks)  # type: ignore[arg-type]
    if lists + objects > _MAX_CONTAINERS or quotes > 2 * _MAX_STRINGS:
        raise ValueError(
            f"it has more than the {_MAX_CONTAINERS:,} lists or {_MAX_STRINGS:,} strings of a model file"
        )
    return json.loads(text, parse_constant=refuse_constant)


def _text_of(file: BufferedReader) -> bytes | str:
    """Return the description in a file."""
    start = file.peek(4)[:4]
    if start == b"PAR1":
        return _text_of_parquet(file)
    if start == b"PK\x03\x04":
        return _text_of_npz(file)
    content = file.read(64)
    if not content.lstrip()[:1] == b"{":
        raise _NoModelError("it is neither JSON, Parquet nor NPZ")
    content += file.read(_MAX_TEXT_BYTES - len(content) + 1)
    _require_small(len(content), _MAX_TEXT_BYTES)
    return content


def _require_small(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it is too large: it has more than the {most:,} bytes of a model file")


def _text_of_parquet(file: BufferedReader) -> bytes:
    """Return what the footer keeps at our key.

    The footer is found by its length, at the end of the file, and searched for the pair of key and value. It
    is not parsed: of a hostile one, that could take thirty times its size.
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(max(end - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > end - 12:
        raise ValueError("it cannot be read as Parquet: truncated?")
    _require_small(length, _MAX_FOOTER_BYTES)
    file.seek(end - 8 - length)
    footer = file.read(length)
    # Thrift's compact protocol: a field of bytes is 0x18, their number as a varint, and the bytes.
    key = b"\x18" + bytes([len(_KEY)]) + _KEY.encode() + b"\x18"
    start = footer.find(key) + len(key)
    if start < len(key):
        raise _NoModelError("it is a Parquet file without a model")
    size, shift = 0, 0
    while shift < 35:
        byte = footer[start]
        size, start, shift = size | (byte & 0x7F) << shift, start + 1, shift + 7
        if byte < 0x80:
            break
    _require_small(size, _MAX_TEXT_BYTES)
    return footer[start : start + size]


def _text_of_npz(file: BufferedReader) -> str:
    _require_few_members(file)
    with zipfile.ZipFile(file) as archive:
        try:
            member = archive.getinfo(f"{_KEY}.npy")
        except KeyError:
            raise _NoModelError("it is an archive without a model") from None
        # A few compressed bytes may be gigabytes; we compress none.
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError("its description is compressed")
        _require_small(member.file_size, _MAX_NPZ_BYTES)
        with archive.open(member) as stored:
            version = np.lib.format.read_magic(stored)
            read_header = np.lib.format.read_array_header_1_0
            if version != (1, 0):
                read_header = np.lib.format.read_array_header_2_0
            shape, _, dtype = read_header(stored)
            if shape != () or dtype.kind != "U" or dtype.itemsize > member.file_size:
                raise ValueError("its description is not text")
            return str(np.frombuffer(stored.read(dtype.itemsize), dtype)[0])


def _require_few_members(file: BufferedReader) -> None:
    """Raise ValueError if an archive has more members than a model: the list of them is read as a whole."""
    file.seek(max(file.seek(0, io.SEEK_END) - 42, 0))
    end = file.read(42)  # the place of a longer list, if there is one; how many members; no comment
    if end[-22:-18] != b"PK\x05\x06" or end[:4] == b"PK\x06\x07":
        raise ValueError("it is no archive of a model, or truncated")
    if int.from_bytes(end[-10:-6], "little") > _MAX_LIST_BYTES:
        raise ValueError("it has more members than a model")
