"""NumPy arrays, lists of rows and sparse matrices as sources; arrays as record batches for streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch.columns import Column, total_width
from nysketch.errors import InputError, SchemaError
from nysketch.kinds import Category
from nysketch.provenance import Input
from nysketch.sources.arrow import FRAGMENT_ROWS, choose_columns, to_numpy
from nysketch.sources.encoding import encode
from nysketch.sources.protocol import (
    Batch,
    Fragment,
    ReaderMemory,
    WithoutFiles,
    ranges_as_fragments,
    text_memory,
)
from nysketch.sources.selection import Field, Selection

# NumPy's letters for numbers, and for what may hold text.
_NUMBERS, _TEXTS = "biuf", "USOT"

# A sparse matrix is made dense a few rows at a time, 16 MiB of them; landmarks are dense as well.
_SPARSE_COLUMNS, _DENSE_BYTES = 10_000, 16 << 20


def _as_matrix(array: NDArray[Any], *, text: bool) -> NDArray[Any]:
    """Return the array as rows × columns; with `text`, as the one column that text must be."""
    matrix = array[:, None] if array.ndim == 1 else array
    holds_text = text and array.dtype.kind in _TEXTS and matrix.shape[1:] == (1,)
    if not holds_text and (array.dtype.kind not in _NUMBERS or matrix.ndim != 2):
        wanted = "one column of text" if text else "rows × columns of numbers"
        raise SchemaError(f"array: has shape {array.shape} and type {array.dtype}; expected {wanted}")
    return matrix


def _as_arrow_text(items: list[Any], first_row: int) -> pa.Array:
    """Return strings (or UTF-8 bytes) as Arrow has them; None, NaN and the NA of pandas are nulls."""
    try:
        return pa.array(items, pa.large_string(), from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError) as error:
        if len(items) > 1:  # find the one to name
            for row, item in enumerate(items, first_row):
                _as_arrow_text([item], row)
        raise InputError(f"array, row {first_row}: cannot be read as text: {error}") from error


def plain(part: NDArray[Any]) -> NDArray[Any]:
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
    kept = pa.schema([])

    def __init__(self, array: NDArray[Any], selection: Selection, like: Sequence[Column] | None) -> None:
        self._array = _as_matrix(array, text=selection.text)
        d = self._array.shape[1]
        known = columns_for(d, like)
        stops = np.cumsum([column.width for column in known]).tolist()
        spans = {c.name: slice(stop - c.width, stop) for c, stop in zip(known, stops, strict=True)}
        holds_text = array.dtype.kind in _TEXTS
        widths = {column.name: 0 if holds_text else column.width for column in known}
        fields = {name: Field(str(array.dtype), width, text=holds_text) for name, width in widths.items()}
        self.columns, self.left_out = choose_columns(fields, selection, "array", widths.__getitem__)
        self._spans = [spans[column.name] for column in self.columns]
        self.rows = len(self._array)
        self._text = selection.text
        if self._text:
            self.reader_memory += ReaderMemory.of(text_memory(array.dtype.itemsize))

    def fragments(self) -> Iterable[Fragment]:
        """Return ranges of FRAGMENT_ROWS rows."""
        return ranges_as_fragments(self, self.rows, FRAGMENT_ROWS, "array")

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield views of the array; of text, copies."""
        end = fragment.first_row + fragment.rows
        for start in range(fragment.first_row, end, batch_rows):
            part = self._part(start, min(start + batch_rows, end))
            if self._text:
                arrow = _as_arrow_text(part[:, 0].tolist(), start)
                strings, count = to_numpy(arrow, self.columns[0], "array")
                yield Batch([strings], None, [count])
                continue
            columns = [part[:, span] for span in self._spans]
            values, nulls = [plain(column) for column in columns], [_masked_rows(c) for c in columns]
            texts: dict[str, Mapping[float, str]] = {}
            for i, column in enumerate(self.columns):
                if isinstance(column.kind, Category):
                    encoded = encode(pa.array(values[i][:, 0]), column, "array")
                    values[i], nulls[i] = encoded.values[:, None], encoded.nulls
                    texts |= {column.name: encoded.texts} if encoded.texts else {}
            yield Batch(values, None, nulls, texts)

    def _part(self, start: int, stop: int) -> NDArray[Any]:
        return self._array[start:stop]

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield nothing: an array has no columns to keep."""
        del fragment, batch_rows
        return iter(())

    def inputs(self) -> tuple[Input, ...]:
        """Return the length of the array; it has no name."""
        return (Input("array", self.rows),)


class SparseSource(ArraySource):
    """The rows of a sparse matrix of SciPy, made dense a few at a time; its columns are those of an array."""

    def __init__(self, matrix: Any, selection: Selection, like: Sequence[Column] | None) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in _NUMBERS:
            raise SchemaError(
                f"sparse matrix: shape {matrix.shape} of {matrix.dtype}; it must be rows × columns of numbers"
            )
        if matrix.shape[1] > _SPARSE_COLUMNS:
            raise SchemaError(
                f"sparse matrix: has {matrix.shape[1]:,} columns. Rows are made dense to be sketched, so "
                f"{_SPARSE_COLUMNS:,} are the most. Reduce them first, with scikit-learn's TruncatedSVD or "
                "SparseRandomProjection"
            )
        super().__init__(np.empty((0, matrix.shape[1]), matrix.dtype), selection, like)
        self._matrix, self.rows = matrix.tocsr(), matrix.shape[0]
        row_bytes = 8 * max(matrix.shape[1], 1)
        self._most = max(_DENSE_BYTES // row_bytes, 1)
        self.reader_memory += ReaderMemory.of(min(_DENSE_BYTES, row_bytes * max(self.rows, 1)))

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Yield dense copies of a few rows each."""
        return super().read(fragment, min(batch_rows, self._most))

    def _part(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self._matrix[start:stop].toarray())


def is_sparse(data: object) -> bool:
    """Say whether data are a sparse matrix or array of SciPy."""
    from_scipy = any(kind.__module__.startswith("scipy.sparse") for kind in type(data).__mro__)
    return from_scipy and hasattr(data, "tocsr")  # linear operators are not


def are_rows(data: Sequence[Any]) -> bool:
    """Say whether a list or tuple holds rows, as lists or tuples of numbers; or numbers, as one column."""
    return bool(data) and all(isinstance(item, list | tuple | Real) for item in data)


def array_of_rows(data: Sequence[Any]) -> NDArray[Any]:
    """Return a list of rows as an array; None is NaN."""
    lengths = [len(row) if isinstance(row, list | tuple) else None for row in data]
    for number, length in enumerate(lengths):
        if length != lengths[0]:
            raise SchemaError(
                f"list of rows: row {number} has {_in_words(length)}, row 0 has {_in_words(lengths[0])}"
            )
    for number, row in enumerate(data):
        for value in row if isinstance(row, list | tuple) else [row]:
            if value is not None and not isinstance(value, Real):
                raise SchemaError(
                    f"list of rows: row {number} holds {value!r}, a {type(value).__name__}; rows must hold "
                    "numbers. Use a dict of columns, or a table, for columns of other kinds"
                )
    return np.array(data, np.float64)


def _in_words(length: int | None) -> str:
    return "no columns: it is a number" if length is None else f"{length} column{'s' if length != 1 else ''}"


def columns_for(d: int, like: Sequence[Column] | None) -> tuple[Column, ...]:
    """Name d unnamed features: as the basis does, or x0, x1, …"""
    if like is None:
        return tuple(Column(f"x{i}") for i in range(d))
    if total_width(like) != d:
        raise SchemaError(f"array: has {d} columns, the basis has {total_width(like)}")
    return tuple(like)


def array_as_record_batch(
    array: NDArray[Any], like: Sequence[Column] | None, *, text: bool = False
) -> pa.RecordBatch:
    """Turn a batch of rows into Arrow, for a stream of arrays."""
    matrix = _as_matrix(array, text=text)
    columns = columns_for(matrix.shape[1], like)
    if matrix.dtype.kind in _TEXTS:
        return pa.RecordBatch.from_arrays([_as_arrow_text(matrix[:, 0].tolist(), 0)], [columns[0].name])
    matrix = plain(matrix)
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
