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
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import overwriting, refuse_to_overwrite
from nysketch.errors import CorruptSketchError, InputError, OutputError, UsageError
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.stored import AnyModel, from_description

FORMATS = ("json", "parquet", "npz")

# Three million numbers; what is larger was not meant to be a model.
_MAX_TEXT_BYTES = 64 << 20
# An NPZ file holds the text with four bytes a character, and the numbers; Parquet has the text twice.
_MAX_FILE_BYTES = 8 * _MAX_TEXT_BYTES
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
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise InputError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from error
    except MemoryError as error:
        raise CorruptSketchError(f"{path}: not a usable model file: it is too large") from error
    try:
        if len(content) > _MAX_FILE_BYTES:
            raise ValueError("it is too large")
        text = _text_of(content)
        if len(text) > _MAX_TEXT_BYTES:
            raise ValueError("it is too large")
        return from_description(json.loads(text, parse_constant=_refuse_constant))
    except _DAMAGE as error:
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
    OSError,  # Arrow's, of Parquet
    NotImplementedError,  # an unknown compression
    RuntimeError,  # an encrypted archive
    SyntaxError,  # a header of NumPy's
    zipfile.BadZipFile,
    zlib.error,
)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}")


def _text_of(content: bytes) -> bytes | str:
    """Return the description in a file."""
    if content.startswith(b"PAR1"):
        return _text_of_parquet(content)
    if content.startswith(b"PK\x03\x04"):
        return _text_of_npz(content)
    if content[8:9] == b"{" and b"__metadata__" in content[:100]:
        raise ValueError("it is a sketch or a basis. Learn a model from it, and use that")
    if not content.lstrip()[:1] == b"{":
        raise ValueError("it is neither JSON, Parquet nor NPZ")
    return content


def _text_of_parquet(content: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(pa.BufferReader(content)).metadata or {}
    except pa.ArrowException as error:
        raise ValueError(f"it cannot be read as Parquet: {error}") from error
    text: bytes | None = metadata.get(_KEY.encode())
    if text is None:
        raise ValueError("it is a Parquet file without a model; does it hold data?")
    return text


def _text_of_npz(content: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = f"{_KEY}.npy"
        if name not in archive.namelist():
            raise ValueError("it is an archive without a model")
        # A few bytes may declare to be terabytes.
        with archive.open(name) as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    if len(raw) > _MAX_FILE_BYTES:
        raise ValueError("it is too large")
    array = np.load(io.BytesIO(raw), allow_pickle=False)
    if array.shape != () or array.dtype.kind != "U":
        raise ValueError("its description is not text")
    return str(array)
