"""What every source of rows offers, and every file of one; and the little that sources have in common.

A source is a sequence of fragments, each a range of consecutive rows that one worker reads in batches. Rows
are numbered over the whole source, so that what happens to a row does not depend on which worker read it.
Which columns are read is decided in selection.py; the formats have a module each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch._support.string_arrays import text_width
from nysketch.columns import Column, total_width
from nysketch.errors import InputError, UsageError
from nysketch.provenance import Input
from nysketch.sources.locations import Location
from nysketch.sources.selection import Field

# What is there besides a reader, before a pass is planned; and what a pass takes with default options.
BESIDES_BYTES, PASS_BYTES = 160 << 20, 512 * 10**6


@dataclass(frozen=True)
class Fragment:
    """Rows [first_row, first_row + rows) of a source; `where` is how messages call it.

    In its input (a file, say) the first of them has the number `row_in_input`, and `input_key` identifies the
    content of that input. The two decide which blocks the rows are assigned to, so that the rows of a file
    get the same blocks whatever other files are read with it.
    """

    number: int
    first_row: int
    rows: int
    where: str
    row_in_input: int
    input_key: int


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: one array per chosen column, 1-D or rows × width; nulls are NaN.

    Text is a 1-D array of str objects; nulls are None. Categories and times are numbers (encoding.py); where
    no vocabulary is known yet, `texts` has that of every number, by column.
    `nulls` counts, per column, the rows with any (the weights, where there are any, come last).
    """

    values: Sequence[NDArray[Any]]
    weights: NDArray[Any] | None
    nulls: Sequence[int]
    texts: Mapping[str, Mapping[float, str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values[0])


@dataclass(frozen=True)
class ReaderMemory:
    """Memory that one reader of a source may hold beside the batch it yields, and all of them together.

    `ample` is what it takes to read as fast as can be, `least` what it cannot do without: in between it reads
    fewer columns or rows at once. `where` is the place that needs most, in words, if it is one of a file.
    """

    ample: int
    least: int
    shared: int = 0
    where: str = ""

    @classmethod
    def of(cls, size: int, where: str = "") -> ReaderMemory:
        """Return that of a reader which takes as much as it takes."""
        return cls(size, size, where=where)

    def __add__(self, other: ReaderMemory) -> ReaderMemory:
        shared, where = max(self.shared, other.shared), self._larger(other).where
        return ReaderMemory(self.ample + other.ample, self.least + other.least, shared, where)

    def __or__(self, other: ReaderMemory) -> ReaderMemory:
        """Return what is enough for either."""
        shared, where = max(self.shared, other.shared), self._larger(other).where
        return ReaderMemory(max(self.ample, other.ample), max(self.least, other.least), shared, where)

    def _larger(self, other: ReaderMemory) -> ReaderMemory:
        return max(self, other, key=lambda memory: memory.least)


def require_room(least: int, memory: float, where: str, remedy: str = "") -> None:
    """Raise a UsageError if looking at rows at `where`, before a pass is planned, takes too much memory."""
    if least + BESIDES_BYTES > memory:
        enough = (least + PASS_BYTES) / 1e6
        raise UsageError(
            f"{where}: takes about {least / 1e6:,.0f} MB of memory to read, too much of the "
            f"{memory / 1e6:,.0f} MB allowed. Allow {enough:,.0f} MB with `memory`{remedy}"
        )


class Source(Protocol):
    """Rows to read."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read, in this order."""
        ...

    @property
    def weights(self) -> str | None:
        """The column of row weights, if any."""
        ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """Which columns are not among `columns`, and why."""
        ...

    @property
    def optional(self) -> frozenset[str]:
        """Which of `columns` are read because nobody named any: they are left out if they are no features."""
        ...

    def without(self, left_out: Mapping[str, str]) -> Source:
        """Return a source of the same rows that leaves out more columns, for these reasons."""
        ...

    def with_kinds(self, columns: Sequence[Column]) -> Source:
        """Return a source of the same rows that reads its columns by the kinds which these have."""
        ...

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the smallest and largest number of columns, read or not, as far as it costs no pass.

        They are those of all rows where they are known, and else of a few rows here and there.
        """
        ...

    @property
    def rows(self) -> int | None:
        """How many rows there are; None for a stream."""
        ...

    @property
    def rereadable(self) -> bool:
        """Whether rows can be read more than once."""
        ...

    def fragments(self) -> Iterable[Fragment]:
        """Return the fragments in the order of their rows."""
        ...

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Read a fragment in batches of at most about `batch_rows` rows."""
        ...

    @property
    def kept(self) -> Any:
        """The Arrow schema of the columns that pass through unchanged, of any type."""
        ...

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[Any]:
        """Read these columns of a fragment's rows, as record batches of that schema."""
        ...

    def inputs(self) -> tuple[Input, ...]:
        """Return what was read, for the sketch's provenance (of a stream: after reading it)."""
        ...

    @property
    def is_files(self) -> bool:
        """Whether it is made of files, which other processes can read as well."""
        ...

    def state(self) -> list[list[Any]] | None:
        """Return name, size, time of change and rows of each file; None if it is not made of files."""
        ...

    def altered(self) -> str | None:
        """Return a file whose content differs from when `inputs` were first asked for, whatever its date."""
        ...

    def last_changes(self) -> Sequence[int | None]:
        """Return when each file was last changed, in nanoseconds; None where that is unknown."""
        ...

    def require_original(self, fragment: Fragment) -> None:
        """Raise an UnreadableError unless a fragment's file is the one that was opened, perhaps elsewhere."""
        ...

    def some_files(self, most: int) -> Sequence[tuple[Any, Input]]:
        """Return the locations of a few files, and what is known of them, to look for them elsewhere."""
        ...

    @property
    def local_paths(self) -> Sequence[str]:
        """The files on this machine that are read: no output may replace them."""
        ...

    @property
    def skipped(self) -> Sequence[InputError]:
        """Why inputs were left out."""
        ...

    @property
    def reader_memory(self) -> ReaderMemory:
        """Memory that one reader may hold beside the batch it yields, with the columns to keep."""
        ...

    def within(self, limit: int, batch_rows: int) -> Source:
        """Return the same source, of which each reader stays within so many bytes and rows of a batch."""
        ...


class TableFile(Protocol):
    """One file of any format."""

    location: Location
    fragment_rows: list[int]

    def reader_memory(self, names: Sequence[str]) -> ReaderMemory:
        """Return the memory that one reader of these columns may hold beside the batch it yields."""
        ...

    def within(self, limit: int) -> TableFile:
        """Return the same file, of which each reader stays within so many bytes, if it can."""
        ...

    @property
    def fields(self) -> Mapping[str, Field]:
        """The columns on offer."""
        ...

    def where(self, index: int) -> str:
        """Return how messages call a fragment."""
        ...

    def list_width(self, name: str) -> int:
        """Return the length of the lists in a column."""
        ...

    def text_bytes(self, name: str) -> int:
        """Estimate the memory that a column of text takes to read, its batches included."""
        ...

    def read(
        self, index: int, columns: Sequence[Column], weights: str | None, batch_rows: int
    ) -> Iterator[Batch]:
        """Yield the rows of a fragment."""
        ...

    def kept_schema(self, names: Sequence[str]) -> pa.Schema:
        """Return names and types of columns that pass through."""
        ...

    def read_kept(self, index: int, kept: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield other columns of a fragment's rows, as they are but for the types in `kept`."""
        ...


class WithoutFiles:
    """A base of sources that are not made of files."""

    columns: tuple[Column, ...]
    left_out: Mapping[str, str]
    optional: frozenset[str] = frozenset()
    is_files = False
    local_paths: Sequence[str] = ()
    skipped: Sequence[InputError] = ()
    reader_memory = ReaderMemory.of(1 << 20)

    def without(self, left_out: Mapping[str, str]) -> Self:
        """Return a source of the same rows that leaves out more columns, for these reasons."""
        return with_fewer_columns(self, left_out)

    def with_kinds(self, columns: Sequence[Column]) -> Self:
        """Return a source of the same rows that reads its columns by the kinds which these have."""
        return with_other_kinds(self, columns)

    def within(self, limit: int, batch_rows: int) -> Self:
        """Return the source itself: its rows are there already, and others come as they like."""
        return self

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return nothing: what is not read of a stream is gone."""
        return {}

    def require_original(self, fragment: Fragment) -> None:
        """Do nothing: such a source is never read by other processes."""

    def some_files(self, most: int) -> Sequence[tuple[Any, Input]]:
        """Return nothing."""
        return ()

    def state(self) -> None:
        """Return None: whether such a source has changed is unknown, and no other process can read it."""

    def altered(self) -> None:
        """Return None: there are no files."""

    def last_changes(self) -> Sequence[int | None]:
        """Return nothing."""
        return ()


class _Columned(Protocol):
    columns: tuple[Column, ...]
    left_out: Mapping[str, str]


Columned = TypeVar("Columned", bound=_Columned)


def with_fewer_columns(source: Columned, left_out: Mapping[str, str]) -> Columned:
    """Return a copy of a source that leaves out more columns; it shares all else."""
    fewer = object.__new__(type(source))
    fewer.__dict__.update(source.__dict__)
    fewer.columns = tuple(column for column in source.columns if column.name not in left_out)
    fewer.left_out = {**source.left_out, **left_out}
    return fewer


def with_other_kinds(source: Columned, columns: Sequence[Column]) -> Columned:
    """Return a copy of a source that reads its columns by the kinds that others of these names have."""
    kinds = {column.name: column.kind for column in columns}
    copy = object.__new__(type(source))
    copy.__dict__.update(source.__dict__)
    copy.columns = tuple(replace(c, kind=kinds.get(c.name, c.kind)) for c in source.columns)
    return copy


# Most rows of text that are held at once, as a batch or a chunk: texts may be long.
TEXT_ROWS = 2048


def text_memory(row_bytes: float) -> int:
    """Estimate the memory of texts of so many bytes a row on their way from a reader to a chunk.

    They are held three times: by the reader, in the batch, and in the chunk before it. A Python string takes
    some 64 bytes more than its text.
    """
    return int(3 * TEXT_ROWS * (row_bytes + 64))


def input_key(content: bytes | str) -> int:
    """Return the 64-bit number that identifies an input when its rows are assigned to blocks."""
    data = content.encode() if isinstance(content, str) else content
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


_KEY_ROWS = 64


def key_of_rows(batches: Iterable[Batch]) -> int:
    """Return the key of an input that is not a file, from its first rows."""
    seen, parts = 0, []
    for batch in batches:
        parts.append([array[: _KEY_ROWS - seen] for array in batch.values])
        seen += len(batch)
        if seen >= _KEY_ROWS:
            break
    columns = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return input_key(b"".join(map(_column_bytes, columns)))


def _column_bytes(values: NDArray[Any]) -> bytes:
    """Return what a column holds as bytes, the same on every machine and from every format."""
    if values.dtype.kind != "O":
        with np.errstate(over="ignore", invalid="ignore"):  # long doubles, signalling NaNs
            return values.astype("<f8").tobytes()
    texts = (None if text is None else text.encode() for text in values)
    none = b"\xff" * 8  # where others have their length
    return b"".join(none if text is None else len(text).to_bytes(8, "little") + text for text in texts)


def ranges_as_fragments(source: Source, rows: int, step: int, name: str) -> Iterator[Fragment]:
    """Cut a source in memory into fragments of `step` rows."""
    key = key_of_rows(source.read(Fragment(0, 0, min(rows, _KEY_ROWS), name, 0, 0), _KEY_ROWS))
    for number, first in enumerate(range(0, rows, step)):
        count = min(step, rows - first)
        yield Fragment(number, first, count, f"{name}, rows {first}–{first + count - 1}", first, key)


_WIDTH_ROWS = 256


def row_width(source: Source) -> int:
    """Return the size of a row in numbers of 8 bytes; for text, the average over the first rows."""
    if not any(column.text for column in source.columns):
        return total_width(source.columns)
    if not source.rereadable:
        return 1
    for fragment in source.fragments():
        for batch in source.read(fragment, _WIDTH_ROWS):
            return text_width(text for text in batch.values[0] if text is not None)
    return 1
