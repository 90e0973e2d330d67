"""NumPy arrays as sources, and as record batches for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.basis import Column, total_width
from nysketch.errors import SchemaError
from nysketch.provenance import Input
from nysketch.sources.arrow import FRAGMENT_ROWS
from nysketch.sources.base import Batch, Field, Fragment, Selection, WithoutFiles, ranges_as_fragments


def _as_matrix(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2):
        raise SchemaError(
            f"array: shape {array.shape} of {array.dtype}; it must be rows × columns of numbers"
        )
    return array[:, None] if array.ndim == 1 else array


def _plain(part: NDArray[Any]) -> NDArray[Any]:
    """Return what is masked as NaN: NumPy drops masks without a word."""
    if isinstance(part, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(part.astype(np.float64), np.nan))
    return part


def _masked_rows(part: NDArray[Any]) -> int:
    return int(np.ma.getmaskarray(part).any(axis=1).sum()) if isinstance(part, np.ma.MaskedArray) else 0


class ArraySource(WithoutFiles):
    """The rows of a 2-D array; columns are x0, x1, … unless a basis names them."""

    rereadable = True
    weights = None

    def __init__(self, array: NDArray[Any], selection: Selection, like: Sequence[Column] | None) -> None:
        self._array = _as_matrix(array)
        d = self._array.shape[1]
        known = columns_for(d, like)
        stops = np.cumsum([column.width for column in known]).tolist()
        spans = {c.name: slice(stop - c.width, stop) for c, stop in zip(known, stops, strict=True)}
        fields = {column.name: Field(str(array.dtype), width=column.width) for column in known}
        names, self.left_out = selection.choose(fields, "array")
        self.columns = tuple(column for name in names for column in known if column.name == name)
        self._spans = [spans[column.name] for column in self.columns]
        self.rows = len(self._array)

    def fragments(self) -> Iterable[Fragment]:
        """Return ranges of FRAGMENT_ROWS rows."""
        return ranges_as_fragments(self, self.rows, FRAGMENT_ROWS, "array")

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield views of the array."""
        end = fragment.first_row + fragment.rows
        for start in range(fragment.first_row, end, batch_rows):
            part = self._array[start : min(start + batch_rows, end)]
            columns = [part[:, span] for span in self._spans]
            yield Batch([_plain(column) for column in columns], None, [_masked_rows(c) for c in columns])

    def inputs(self) -> tuple[Input, ...]:
        """Return the length of the array; it has no name."""
        return (Input("array", self.rows),)


def columns_for(d: int, like: Sequence[Column] | None) -> tuple[Column, ...]:
    """Name d unnamed features: as the basis does, or x0, x1, …"""
    if like is None:
        return tuple(Column(f"x{i}") for i in range(d))
    if total_width(like) != d:
        raise SchemaError(f"array: has {d} columns, the basis has {total_width(like)}")
    return tuple(like)


def array_as_record_batch(array: NDArray[Any], like: Sequence[Column] | None) -> pa.RecordBatch:
    """Turn a batch of rows into Arrow, for a stream of arrays."""
    matrix = _as_matrix(array)
    columns = columns_for(matrix.shape[1], like)
    matrix = _plain(matrix)
    if not matrix.dtype.isnative or matrix.dtype.itemsize > 8:  # which Arrow does not know
        matrix = matrix.astype(np.float64)
    arrays, start = [], 0
    for column in columns:
        part = matrix[:, start : start + column.width]
        flat = pa.array(np.ascontiguousarray(part).reshape(-1))
        wide = column.width > 1
        arrays.append(pa.FixedSizeListArray.from_arrays(flat, column.width) if wide else flat)
        start += column.width
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
