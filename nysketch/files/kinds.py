"""What a file is, by its bytes: whoever gives data, a model or a basis for a sketch is told what to do.

    sketch      a .nysk file: a sketch, a basis or a checkpoint, which format.py tells apart
    model       JSON, Parquet or NPZ of models/files.py
    coreset     Parquet or Feather of coresets/files.py
    export      NPZ or Parquet of export.py
    job, store  a job file; the directory that `nysketch run` keeps
    data        any other table that sources/ would read

Only the beginning of a file and what its format keeps at the end are read.
"""

from __future__ import annotations

import json
import os
import re
from io import BufferedIOBase
from pathlib import Path

from nysketch._support.regular import open_regular

SKETCH, MODEL, CORESET, EXPORT, JOB, STORE, DATA = (
    "sketch", "model", "coreset", "export", "job", "store", "data",
)  # fmt: skip

# What files of data start with, and how those end that start with anything.
_DATA_STARTS = (b"PAR1", b"PARE", b"\x89HDF", b"ARROW1")
_DATA_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".csv.lz4")
# As models/files.py, coresets/files.py and export.py write them.
_MODEL_KEY = b"nysketch_model"
_MODEL_IN_JSON = re.compile(rb'"kind"\s*:\s*"(kmeans|gmm)"')
_CORESET_MARK, _EXPORT_MARK = b'"kind": "coreset"', b'"kernel_text": '
# A model has at most 64 MiB of text.
_MOST_BYTES = 65 << 20
_END_BYTES = 1 << 20


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a file; None if it is unknown, or cannot be read."""
    try:
        if Path(path).is_dir():
            return STORE if Path(path, "store.json").is_file() else None
        with open_regular(path) as file:
            return _kind(Path(path).name.lower(), file, os.fstat(file.fileno()).st_size)
    except (OSError, ValueError):  # a name with a null byte is a ValueError
        return None


def _kind(name: str, file: BufferedIOBase, size: int) -> str | None:
    start = file.read(64)
    if start[8:9] == b"{" and b"__metadata__" in start:
        return SKETCH
    if start.lstrip().startswith(b"{"):
        file.seek(0)
        return MODEL if _MODEL_IN_JSON.search(file.read(_MOST_BYTES)) else None
    if start.startswith(b"PK"):
        end = _end(file, size, _END_BYTES)  # the list of its files
        return MODEL if _MODEL_KEY in end else EXPORT if b"mean_features.npy" in end else None
    if start.startswith((b"PAR1", b"ARROW1")):
        return _kind_of_table(start + _footer(file, size))
    if name.endswith(".toml"):
        return JOB
    return DATA if start.startswith(_DATA_STARTS) or name.endswith(_DATA_SUFFIXES) else None


def _kind_of_table(footer: bytes) -> str:
    if _MODEL_KEY in footer:
        return MODEL
    if _CORESET_MARK in footer:
        return CORESET
    return EXPORT if _EXPORT_MARK in footer and b"nysketch" in footer else DATA


def _footer(file: BufferedIOBase, size: int) -> bytes:
    """Return the metadata of a Parquet or Feather file, which end with its length and their magic."""
    end = _end(file, size, 10)
    length = end[-8:-4] if end.endswith(b"PAR1") else end[:4]
    return _end(file, size, min(int.from_bytes(length, "little") + 10, _MOST_BYTES))


def _end(file: BufferedIOBase, size: int, count: int) -> bytes:
    file.seek(max(0, size - count))
    return file.read(count)


def what_to_do(path: str | os.PathLike[str], wanted: str) -> str | None:
    """Say what a file is that was given for a sketch or a model, and what to do; None if it is unknown."""
    path, kind = Path(path), kind_of(path)
    if kind == wanted:
        return None
    match kind:
        case "data" | "coreset":
            stem = path.stem.removesuffix(".csv")
            data, output = (json.dumps(str(name)) for name in (path, path.with_name(f"{stem}.nysk")))
            weights = ', weights="weight"' if kind == CORESET else ""
            call = f"nysketch.sketch({data}{weights}, output={output})".replace("`", "\\u0060")
            noun = "data" if kind == DATA else "a coreset, a table of weighted rows"
            then = "" if wanted == SKETCH else ", and learn a model from the sketch"
            remedy = f"Run `{call}` first{then}"
        case "model":
            noun = "a model"
            remedy = "`nysketch.assign`, `nysketch.score`, `nysketch.plot` and `nysketch.info` read models"
        case "sketch":
            noun = "a sketch or a basis"
            remedy = "Learn a model from it: `nysketch.learn_kmeans`, `nysketch.learn_gmm`"
        case "export":
            noun, remedy = "an export, for other programs", "Use the .nysk file that it was made from"
        case "job":
            noun, remedy = "a job file", "`nysketch.run` takes it"
        case "store":
            noun, remedy = "a store", f"Its sketches are {path / 'partitions'}{os.sep}*.nysk"
        case _:
            return None
    return f"{path}: this is {noun}, not a {wanted}. {remedy}"
