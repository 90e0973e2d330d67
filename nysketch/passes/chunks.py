"""From fragments to chunks: batches of any size → runs of rows of fixed size, checked and numbered.

Chunks are cut at fixed places of a fragment, so that neither the batch size of a reader nor anything
else about reading can show in the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.html_repr import counted
from nysketch._types import Floats
from nysketch.accumulators.grids import LARGEST_WEIGHT, SMALLEST_WEIGHT
from nysketch.basis.base import Basis
from nysketch.columns import total_width
from nysketch.errors import InputError, InvalidRowsError, UsageError
from nysketch.kinds import Category
from nysketch.sources.protocol import TEXT_ROWS, Batch, Fragment, Source
from nysketch.sources.selection import names_of
from nysketch.tiles.chunk import Chunk

ERROR, DROP, KEEP = "error", "drop", "keep"
NULL_POLICIES = (ERROR, DROP, KEEP)
# By default, rows with missing values are kept if the basis is made for them, or knows what to do with them.
AUTO = "auto"


def chunk_rows_for(d: int) -> int:
    """Return the rows of a chunk: up to 4 MiB, which the cache nearly holds, but some for every block."""
    return int(np.clip((1 << 19) // d // 256 * 256, 512, 8192))


def batch_rows_for(d: int) -> int:
    """Return the default rows of a batch: about 4 MiB, more for very wide tables.

    A batch costs some ten microseconds per column whatever its size: 2048 rows are worth it.
    """
    return int(np.clip((1 << 19) // d, 2048, 65_536))


def require_null_policy(nulls: str) -> None:
    """Raise a UsageError unless this is something that can be done with rows that hold nulls."""
    if nulls not in NULL_POLICIES:
        raise UsageError(f"`nulls` must be one of {', '.join(NULL_POLICIES)}, not {nulls!r}")


def pilot_policy(nulls: str, *, text: bool) -> str:
    """Return what becomes of rows with nulls where a basis is to be made."""
    return nulls if nulls != AUTO else ERROR if text else KEEP


def pass_policy(nulls: str, basis: Basis, *, made: bool) -> str:
    """Return what becomes of rows with nulls at a basis, which may have been `made` for them."""
    if nulls != AUTO:
        return nulls
    return KEEP if basis.encoded or (made and not basis.text) else ERROR


def stored_policy(nulls: str, basis: Basis) -> str:
    """Return what a sketch remembers of it: that of a table without nulls is the same as it ever was."""
    return pass_policy(nulls, basis, made=False)


def require_batch_rows(batch_rows: int | None) -> None:
    """Raise a UsageError unless batches can have this many rows; None is the default."""
    if batch_rows is not None and batch_rows < 1:
        raise UsageError(f"`batch_rows` must be at least 1, not {batch_rows}")


class ChunkReader:
    """Reads fragments of one source as chunks; one per thread, for its buffers.

    With nulls="keep", missing values stay NaN in columns with kinds, which know what to do with them. In
    columns without, they get the numbers of `fill`, if there are any.
    """

    def __init__(
        self, source: Source, *, nulls: str, batch_rows: int | None = None, fill: Floats | None = None
    ) -> None:
        require_null_policy(nulls)
        require_batch_rows(batch_rows)
        self._source, self._nulls = source, nulls
        self._text = any(column.text for column in source.columns)
        most = TEXT_ROWS if self._text else np.iinfo(np.int64).max
        d = total_width(source.columns)
        self._batch_rows = min(batch_rows or batch_rows_for(d), most)
        self.chunk_rows = min(chunk_rows_for(d), most)
        self._rows: NDArray[Any] = (
            np.empty(self.chunk_rows, object)
            if self._text
            else np.empty((self.chunk_rows, d), order="F")  # columns arrive one by one
        )
        self._weights = np.empty(self.chunk_rows) if source.weights is not None else None
        self._all = np.ones(self.chunk_rows, bool)
        widths = [column.width for column in source.columns]
        self._starts = np.cumsum([0, *widths[:-1]])
        # Of a list with missing numbers, nothing is known.
        self._may_miss = np.repeat(
            [(column.width == 1 or column.kind is not None) and not column.text for column in source.columns],
            widths,
        )
        self._fill = fill
        self._texts: list[Mapping[str, Mapping[float, str]]] = []

    @property
    def texts(self) -> Mapping[str, Mapping[float, str]]:
        """The texts of categories without vocabularies, by column and number: of this chunk, and more."""
        found: dict[str, dict[float, str]] = {}
        for texts in self._texts:
            for name, known in texts.items():
                found.setdefault(name, {}).update(known)
        return found

    def chunks(self, fragment: Fragment, span_rows: int | None = None) -> Iterator[Chunk]:
        """Yield the chunks of a fragment; each is valid until the next is asked for.

        With `span_rows`, each is within one of the spans of so many rows that the input is cut into.
        """
        filled, done = 0, 0
        full = self._full_chunk(fragment, done, span_rows)
        self._texts = []
        for batch in self._source.read(fragment, self._batch_rows):
            taken, rows = 0, len(batch)
            self._texts.append(batch.texts)
            while taken < rows:
                count = min(rows - taken, full - filled)
                into, out = slice(filled, filled + count), slice(taken, taken + count)
                if self._text:
                    self._rows[into] = batch.values[0][out]
                else:
                    self._take_numbers(batch, out, into)
                if self._weights is not None:
                    assert batch.weights is not None
                    self._weights[into] = batch.weights[out].reshape(count)
                taken += count
                filled += count
                if filled == full:
                    yield self._chunk(fragment, done, filled)
                    self._texts = self._texts[-1:]
                    done, filled = done + filled, 0
                    full = self._full_chunk(fragment, done, span_rows)
        if filled:
            yield self._chunk(fragment, done, filled)

    def _full_chunk(self, fragment: Fragment, offset: int, span_rows: int | None) -> int:
        """Return how many rows the chunk that begins here has room for."""
        if span_rows is None:
            return self.chunk_rows
        return min(self.chunk_rows, span_rows - (fragment.row_in_input + offset) % span_rows)

    def _take_numbers(self, batch: Batch, out: slice, into: slice) -> None:
        start, count = 0, out.stop - out.start
        for column, array in zip(self._source.columns, batch.values, strict=True):
            # a column of width 1 may come as rows or as rows × 1
            part = array[out].reshape(count, column.width)
            # Long doubles become infinities, and signalling NaNs ordinary ones: both are found later.
            with np.errstate(over="ignore", invalid="ignore"):
                self._rows[into, start : start + column.width] = part
            if isinstance(column.kind, Category) and self._nulls != "keep":
                # A missing value has a code like any other, unless rows that have one are not wanted.
                codes = self._rows[into, start]
                codes[codes == column.kind.missing] = np.nan
            start += column.width

    def _chunk(self, fragment: Fragment, offset: int, count: int) -> Chunk:
        # A part of the buffer is no longer contiguous, for which the hot loop would be compiled again.
        rows = self._rows if count == self.chunk_rows else np.asfortranarray(self._rows[:count])
        weights = None if self._weights is None else self._weights[:count]
        values: Floats = _lengths(rows)[:, None] if self._text else rows
        # NaN and infinities show in the extremes, which are wanted anyway.
        lower, upper = values.min(axis=0), values.max(axis=0)
        keep, invalid = self._all[:count], None
        missing = None
        if self._nulls == "keep" and not self._text and np.isnan(lower).any():
            missing = np.isnan(rows) & self._may_miss
            if self._fill is not None:
                np.copyto(rows, self._fill, where=missing)
            gone = missing & np.isnan(rows)
            lower = rows.min(axis=0, where=~gone, initial=np.inf)
            upper = rows.max(axis=0, where=~gone, initial=-np.inf)
        # Of a column of which all values are missing, there are no extremes.
        empty = (lower == np.inf) & (upper == -np.inf) & (missing is not None)
        clean = bool((np.isfinite(lower) & np.isfinite(upper) | empty).all())
        if weights is not None:
            clean = clean and bool(np.isfinite(weights).all())
        if not clean:
            if self._nulls != "drop":
                raise self._diagnose(fragment)
            keep, invalid = self._find_invalid(values, weights)
            lower = values.min(axis=0, where=keep[:, None], initial=np.inf)
            upper = values.max(axis=0, where=keep[:, None], initial=-np.inf)
            if self._text:
                rows[np.isnan(values[:, 0])] = ""
        if weights is not None:
            self._check_weights(weights[keep], fragment)
        first, row_in_input = fragment.first_row + offset, fragment.row_in_input + offset
        return Chunk(first, row_in_input, rows, keep, weights, lower, upper, invalid, missing)

    def _find_invalid(
        self, values: Floats, weights: Floats | None
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows are valid, and which columns of the others are not."""
        finite = np.isfinite(values)
        keep = np.asarray(finite.all(axis=1))
        if weights is not None:
            keep &= np.isfinite(weights)
        bad = ~finite[~keep]
        if len(self._starts) < bad.shape[1]:  # lists, which are invalid as a whole
            bad = np.logical_or.reduceat(bad, self._starts, axis=1)
        of_weights = np.zeros(len(bad), bool) if weights is None else ~np.isfinite(weights[~keep])
        return keep, np.column_stack([bad, of_weights])

    def _check_weights(self, weights: Floats, fragment: Fragment) -> None:
        """Refuse negative weights, and positive ones that the grid of exact sums cannot hold."""
        bad = weights[(weights != 0) & ~((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))]
        if len(bad):
            raise InvalidRowsError(
                f"{fragment.where}: weights column {self._source.weights!r} has values such as {bad[0]:g}; "
                f"weights must be 0, or between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}. Rescale them"
            )

    def _diagnose(self, fragment: Fragment) -> InvalidRowsError:
        """Read the fragment again and say what is wrong with it, column by column."""
        columns = names_of(self._source.columns, self._source.weights)
        counts = {name: np.zeros(3, np.int64) for name in columns}  # nulls, NaN, infinities
        kept = {c.name for c in self._source.columns if self._nulls == KEEP and c.width == 1}
        for batch in self._source.read(fragment, self._batch_rows):
            arrays = [*batch.values] + ([batch.weights] if batch.weights is not None else [])
            for name, array, nulls in zip(columns, arrays, batch.nulls, strict=True):
                if array.dtype.kind != "f":
                    counts[name][0] += nulls  # of text; integers have none
                    continue
                with np.errstate(over="ignore", invalid="ignore"):
                    values = array.reshape(len(batch), -1).astype(np.float64, copy=False)
                nan, inf = np.isnan(values).any(axis=1), np.isinf(values).any(axis=1)
                # Rows of each; missing categories have a code, and are not NaN.
                found = [nulls, max(int(nan.sum()) - nulls, 0), int(inf.sum())]
                counts[name] += [0, 0, found[2]] if name in kept else found
        problems = [
            f"column {name!r} has "
            + ", ".join(
                f"{count:,} {what}"
                for count, what in zip(found, ("nulls", "NaN", "infinities"), strict=True)
                if count
            )
            for name, found in counts.items()
            if found.any()
        ]
        shown = "; ".join(problems[:5]) + (
            f"; and {counted(len(problems) - 5, 'more column')}" if len(problems) > 5 else ""
        )
        return InvalidRowsError(f"{fragment.where}: {shown}. {self._remedy()}")

    def _remedy(self) -> str:
        """Say what can be done about rows with nulls."""
        others = "" if self._text else ", or leave the column out (`exclude`, or a basis without it)"
        return f'Drop such rows with `nulls="drop"`{others}'


def require_declared_rows(fragment: Fragment, read: int) -> None:
    """Raise an InputError unless a fragment had the rows that it declares."""
    if read != fragment.rows:
        raise InputError(
            f"{fragment.where}: has {read:,} rows, but declares {fragment.rows:,}. Did the file change "
            "while it was read?"
        )


def no_rows_left(dropped: int) -> InputError:
    """Return the error for a source of which no rows can be used; so many were dropped."""
    if not dropped:
        return InputError("the source has no rows")
    return InputError(f"no rows left: all {dropped:,} were dropped for nulls, NaN or infinities")


def _lengths(texts: NDArray[Any]) -> Floats:
    """Return the number of characters of each string, NaN where there is none."""
    return np.fromiter((np.nan if text is None else len(text) for text in texts), np.float64, len(texts))
