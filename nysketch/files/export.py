"""A sketch's numbers for other programs: NPZ, JSON, or a Parquet table of landmarks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.atomic import atomic_file
from nysketch._support.outputs import claimed
from nysketch._support.string_arrays import text_arrays, text_from_arrays
from nysketch.basis.base import Basis
from nysketch.basis.fourier import FourierBasis
from nysketch.basis.nystrom import NystromBasis, require_landmarks
from nysketch.columns import feature_names
from nysketch.errors import InputError, UsageError
from nysketch.files.format import load
from nysketch.files.merge import log_missing_parts
from nysketch.kinds import Category, Number
from nysketch.sketches.describe import describe
from nysketch.sketches.sketch import Sketch

FORMATS = ("npz", "json", "parquet")


def export_file(path: Path, output: Path, format: str | None = None, *, overwrite: bool) -> None:
    """Write the sketch or basis at `path` to `output`, which must be another file."""
    format = _require_format(output, format)
    with claimed(output, inputs=[path], overwrite=overwrite):
        thing = load(path)
        log_missing_parts(thing, "the export")
        try:
            export(thing, output, format)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def export(thing: Sketch | Basis, path: Path, format: str | None = None) -> None:
    """Write a sketch or basis as `format`, or as the suffix of `path` says."""
    chosen = _require_format(path, format)
    arrays = _arrays(thing)
    with atomic_file(path) as file:
        if chosen == "npz":
            np.savez(file, **arrays)  # type: ignore[arg-type]
        elif chosen == "json":
            lists = _for_json(thing if isinstance(thing, Basis) else thing.basis, arrays)
            text = json.dumps(
                describe(thing, quality=False, measure=True) | {"arrays": lists},
                sort_keys=True,
                allow_nan=False,
            )
            file.write(text.encode() + b"\n")
        else:
            _write_landmarks(thing, arrays, file)


def _require_format(path: Path, format: str | None) -> str:
    """Return the format to write, by name or by the suffix of the path; it must be a known one."""
    chosen = format or path.suffix.lstrip(".")
    if chosen not in FORMATS:
        raise UsageError(
            f"{path}: cannot tell the format from the name; choose one with `format`: {', '.join(FORMATS)}"
        )
    return chosen


def _arrays(thing: Sketch | Basis) -> dict[str, NDArray[Any]]:
    basis = thing if isinstance(thing, Basis) else thing.basis
    arrays: dict[str, NDArray[Any]] = {
        "center": basis.center,
        "columns": np.array([column.name for column in basis.columns]),
        "kernel": np.array(json.dumps(basis.kernel.describe(), sort_keys=True)),
        "scale": basis.scale,
    }
    if isinstance(basis, NystromBasis) and basis.text:
        # NumPy has no strings of different lengths that would not be pickled.
        arrays |= text_arrays("landmarks", basis.landmarks)
    elif isinstance(basis, NystromBasis):
        arrays["landmarks"] = basis.landmarks
    elif isinstance(basis, FourierBasis):
        arrays["frequencies"] = basis.frequencies
    if basis.encoded:
        arrays |= _kinds(basis)
    if isinstance(thing, Sketch):
        arrays |= {
            "block_kernel_sums": thing.block_kernel_sums,
            "block_rows": thing.block_rows,
            "kernel_sums": thing.kernel_sums,
            "mean_features": thing.mean_features(),
        }
        if isinstance(basis, NystromBasis):
            arrays["embedding_weights"] = thing.embedding_weights()
        if isinstance(basis, NystromBasis) and thing.cells is not None:
            means = basis.scaled_landmarks + thing.cells.means
            arrays |= {
                "cell_means": means * basis.scale + basis.center,
                "cell_rows": thing.cells.rows,
            }
            if thing.weighted:
                arrays["cell_weights"] = thing.cells.weight
        if thing.second_moments is not None:
            arrays["second_moments"] = thing.second_moments.matrix()
    return arrays


def _kinds(basis: Basis) -> dict[str, NDArray[Any]]:
    """Return the names of features, and what codes and ranks of column i mean: `vocabulary.i`, `knots.i`.

    Landmarks have a code for each category: a place in its vocabulary, the next for others, then missing.
    Texts are as in sketch files: their bytes, and where each ends.
    """
    arrays = dict(text_arrays("features", np.array(feature_names(basis.columns), object)))
    arrays["kinds"] = np.array(json.dumps([column.describe() for column in basis.columns], sort_keys=True))
    for i, column in enumerate(basis.columns):
        if isinstance(column.kind, Category):
            arrays |= text_arrays(f"vocabulary.{i}", np.array(column.kind.values, object))
        elif isinstance(column.kind, Number) and column.kind.knots is not None:
            arrays[f"knots.{i}"] = column.kind.knots
    return arrays


def _for_json(basis: Basis, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return arrays as lists: texts as such, and missing values of landmarks as null."""
    texts = [name.removesuffix(".ends") for name in arrays if name.endswith(".ends")] if basis.encoded else []
    lists: dict[str, Any] = {name: text_from_arrays(name, arrays).tolist() for name in texts}
    hidden = {*texts, *(f"{name}.ends" for name in texts)}
    lists |= {name: array.tolist() for name, array in arrays.items() if name not in hidden}
    if basis.encoded and "landmarks" in lists:
        lists["landmarks"] = [
            [None if math.isnan(number) else number for number in row] for row in lists["landmarks"]
        ]
    return lists


def _write_landmarks(thing: Sketch | Basis, arrays: dict[str, NDArray[Any]], file: Any) -> None:
    """Write one row per landmark: its values in the data's units, kernel sum, weight, rows of its cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nysketch.sources.arrays import array_as_record_batch
    from nysketch.sources.decoding import decode

    basis = require_landmarks(thing if isinstance(thing, Basis) else thing.basis, "a table of landmarks")
    if basis.encoded:
        places = basis.layout.places
        table = {p.column.name: decode(basis.landmarks[:, p.numbers], p.column) for p in places}
    else:
        landmarks = array_as_record_batch(basis.landmarks, basis.columns, text=basis.text)
        table = dict(zip(landmarks.schema.names, landmarks.columns, strict=True))
    if isinstance(thing, Sketch):
        sums = {"kernel_sum": "kernel_sums", "embedding_weight": "embedding_weights"}
        sums |= {"cell_rows": "cell_rows"} if "cell_rows" in arrays else {}
        for name, array in sums.items():
            if name in table:
                raise UsageError(
                    f'the data already has a column {name!r}; use `format="npz"` or `format="json"`'
                )
            table[name] = pa.array(arrays[array])
    facts = json.dumps(describe(thing, quality=False, measure=True), sort_keys=True, allow_nan=False)
    pq.write_table(pa.table(table).replace_schema_metadata({"nysketch": facts}), file)
