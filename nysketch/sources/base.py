"""What every source of rows offers, and how columns are chosen. The formats live next door.

A source is a sequence of fragments, each a run of consecutive rows that one worker reads in batches.
Rows are numbered over the whole source, so that what happens to a row never depends on who read it.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nysketch.basis import Column, total_width
from nysketch.errors import InputError, SchemaError
from nysketch.provenance import Input
from nysketch.texts import text_width


@dataclass(frozen=True)
class Fragment:
    """Rows [first_row, first_row + rows) of a source; `where` is how messages call it.

    In its input (a file, say) the first of them has the number `row_in_input`, and `input_key` stands for
    the content of that input. The two decide which blocks the rows are dealt to, so that a file is dealt
    alike whatever it is read together with.
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

    Text is a 1-D array of str objects; nulls are None.
    `nulls` counts, per column, the rows with any (the weights, where there are any, come last).
    """

    values: Sequence[NDArray[Any]]
    weights: NDArray[Any] | None
    nulls: Sequence[int]

    def __len__(self) -> int:
        return len(self.values[0])


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
        """The Arrow schema of the columns that pass through: of any type, and no business of a sketch."""
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
        """Return name, size, time of change and rows of each file; None if there is no going back to it."""
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
    def reader_bytes(self) -> int:
        """Memory that one reader may hold beside the batch it yields."""
        ...


class WithoutFiles:
    """What sources have in common that are not made of files."""

    is_files = False
    local_paths: Sequence[str] = ()
    skipped: Sequence[InputError] = ()
    reader_bytes = 1 << 20

    def require_original(self, fragment: Fragment) -> None:
        """There is nothing to mistake it for: such a source is never read elsewhere."""

    def some_files(self, most: int) -> Sequence[tuple[Any, Input]]:
        """Return nothing."""
        return ()

    def state(self) -> None:
        """There is no telling whether such a source has changed, nor a way back to it in another process."""


# Most rows of text that are held at once, as a batch or a chunk: texts may be long.
TEXT_ROWS = 2048


def text_memory(row_bytes: float) -> int:
    """Estimate what texts of so many bytes take on their way from a reader to a chunk.

    They are there three times: as the reader has them, as the batch, and as the chunk before it. To a
    Python string belong some 64 bytes more.
    """
    return int(3 * TEXT_ROWS * (row_bytes + 64))


@dataclass(frozen=True)
class Field:
    """A column on offer. `width` is 0 if it holds no numbers, None for a list of unknown length.

    `left_out` says why it is not taken as numbers unless named, `text_left_out` why not as text.
    """

    type: str
    width: int | None = 1
    left_out: str = ""
    text: bool = False
    text_left_out: str = ""

    def is_usable(self, *, text: bool) -> bool:
        """Say whether it can be read as text, or else as numbers."""
        return self.text if text else self.width != 0

    def why_left_out(self, *, text: bool) -> str:
        """Return why it is not taken unless named; nothing if it is taken."""
        if not text:
            return self.left_out
        return self.text_left_out if self.text else self.type


@dataclass(frozen=True)
class Selection:
    """Which columns the user wants: all numeric ones unless `columns` are named; or the one of `text`.

    Those to `keep` pass through unchanged, whether or not they are among the others.
    """

    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    weights: str | None = None
    text: bool = False
    keep: tuple[str, ...] = ()

    def choose(self, fields: Mapping[str, Field], where: str) -> tuple[list[str], dict[str, str]]:
        """Return the names of the chosen columns in order, and why the others are left out."""
        for name in (*(self.columns or ()), *self.exclude, *filter(None, [self.weights])):
            require_field(fields, name, where)
        if self.weights is not None and fields[self.weights].width != 1:
            raise SchemaError(
                f"{where}: weights column {self.weights!r} has type {fields[self.weights].type}; "
                "it must be numeric"
            )
        left_out: dict[str, str] = {}
        chosen: list[str] = []
        for name in self.columns if self.columns is not None else fields:
            field = fields[name]
            if name in self.exclude:
                left_out[name] = "excluded"
            elif name == self.weights:
                left_out[name] = "row weights"
            elif self.columns is None and (why := field.why_left_out(text=self.text)):
                left_out[name] = why
            else:
                chosen.append(name)
        if not chosen:
            reasons = shorten(f"{name} ({why})" for name, why in left_out.items())
            what = "text column" if self.text else "numeric columns"
            raise SchemaError(
                f"{where}: no {what} to sketch. Left out: {reasons or 'nothing: no columns at all'}"
            )
        if self.text and len(chosen) > 1:
            raise SchemaError(
                f"{where}: there are {len(chosen)} text columns: {shorten(chosen)}. "
                "Say which one to read with --columns NAME"
            )
        if len(set(chosen)) < len(chosen):
            twice = next(name for name in chosen if chosen.count(name) > 1)
            raise SchemaError(f"column {twice!r} is named twice in --columns, or in two groups")
        return chosen, left_out


def require_field(fields: Mapping[str, Field], name: str, where: str) -> Field:
    """Return the field `name`, or raise an error that names the likely one."""
    field = fields.get(name)
    if field is None:
        close = difflib.get_close_matches(name, list(fields)[:1000], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; it has {shorten(fields)}"
        raise SchemaError(f"{where}: no column {name!r}{hint}")
    return field


def require_numeric(field: Field, name: str, where: str) -> None:
    """Raise a SchemaError unless the field can be read as numbers."""
    if not field.is_usable(text=False):
        kernels = ". Text is for string kernels, such as --kernel spectrum" if field.text else ""
        raise SchemaError(
            f"{where}: column {name!r} has type {field.type}, which is not numeric. "
            f"Leave it out with --exclude {name} (or use a basis without it), or convert it first{kernels}"
        )


def require_text(field: Field, name: str, where: str) -> None:
    """Raise a SchemaError unless the field can be read as text."""
    if not field.is_usable(text=True):
        raise SchemaError(
            f"{where}: column {name!r} has type {field.type}, not text; string kernels need a text column"
        )


def require_same(
    fields: Mapping[str, Field],
    columns: Iterable[Column],
    where: str,
    *,
    first: Mapping[str, Field],
    first_where: str,
) -> None:
    """Raise a SchemaError unless `columns`, chosen from `first`, are here too, as text or numbers as wide."""
    for column in columns:
        field = fields.get(column.name)
        if field is None:
            raise SchemaError(
                f"{where}: no column {column.name!r}, which {first_where} has. "
                "Choose columns that all share with --columns"
            )
        if not field.is_usable(text=column.text):
            remedy = "Convert" if column.text else f"Leave it out with --exclude {column.name}, or convert"
            raise SchemaError(
                f"{where}: column {column.name!r} has type {field.type}, "
                f"in {first_where} it is {first[column.name].type}. {remedy} it first"
            )
        if not column.text and field.width not in (None, column.width):
            raise SchemaError(
                f"{where}: column {column.name!r} has width {field.width}, "
                f"in {first_where} it has {column.width}. Leave it out with --exclude {column.name}"
            )


def input_key(content: bytes | str) -> int:
    """Return the 64-bit number that stands for an input in the dealing of its rows to blocks."""
    data = content.encode() if isinstance(content, str) else content
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")


_KEY_ROWS = 64


def key_of_rows(batches: Iterable[Batch]) -> int:
    """Return the key of an input that has no bytes of its own, from its first rows."""
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
        with np.errstate(over="ignore"):  # long doubles
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
    """Return how many numbers of 8 bytes a row takes; of text, as many as the first rows take on average."""
    if not any(column.text for column in source.columns):
        return total_width(source.columns)
    if not source.rereadable:
        return 1
    for fragment in source.fragments():
        for batch in source.read(fragment, _WIDTH_ROWS):
            return text_width(text for text in batch.values[0] if text is not None)
    return 1


def names_of(columns: Iterable[Column], weights: str | None) -> list[str]:
    """Return the names of the columns to read, that of the weights last."""
    return [*(column.name for column in columns), *filter(None, [weights])]


def shorten(names: Iterable[str], most: int = 8) -> str:
    """Join names, but never a million of them."""
    listed = list(names)
    shown = ", ".join(listed[:most])
    return shown if len(listed) <= most else f"{shown} and {len(listed) - most:,} more"
