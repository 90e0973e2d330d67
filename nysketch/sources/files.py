"""Many files as one source: their fragments in a row, their schemas checked against each other."""

from __future__ import annotations

import bisect
import copy
import functools
import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError, UnreadableError
from nysketch.kinds import Category
from nysketch.provenance import Input
from nysketch.sources.arrow import choose_columns
from nysketch.sources.expand import expand
from nysketch.sources.hive import PartitionedFile
from nysketch.sources.locations import Location, difference
from nysketch.sources.opener import Opener, many_at_a_time, open_all
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.protocol import (
    Batch,
    Fragment,
    ReaderMemory,
    TableFile,
    input_key,
    with_fewer_columns,
    with_other_kinds,
)
from nysketch.sources.retry import RetryPolicy
from nysketch.sources.selection import Selection, names_of, require_field, require_numeric, require_same

# Where footers do not tell the extremes of columns: rows, fragments of a file and files to look at.
_LOOKED_AT_ROWS, _LOOKED_AT = 256, 64
# Extremes of so many files are held at a time: those of a thousand columns take 200 kB.
_AT_A_TIME = 32


class FilesSource:
    """The rows of all files that paths, globs, directories and URIs mean.

    It can be pickled, and its copy reads the same rows without opening the files first: it holds what their
    footers say, and no open file.
    """

    rereadable = is_files = True

    def __init__(
        self,
        files: Sequence[TableFile],
        columns: tuple[Column, ...],
        *,
        weights: str | None = None,
        left_out: Mapping[str, str],
        optional: frozenset[str] = frozenset(),
        kept: pa.Schema,
        skipped: Sequence[InputError] = (),
        unread: Sequence[Location] = (),
    ) -> None:
        self._files, self.columns, self.weights = files, columns, weights
        self._unread = unread
        self.left_out, self.kept, self.skipped = left_out, kept, skipped
        self.optional = optional
        self._inputs: tuple[Input, ...] | None = None
        self._inodes: list[tuple[int, int, int] | None] = []
        self._memory: tuple[tuple[Column, ...], ReaderMemory, ReaderMemory] | None = None
        self._limits: tuple[int, int] | None = None  # of reading columns, and those to keep
        self._most_rows: int | None = None  # of a batch
        self._originals: set[int] = set()  # files that were compared with what is known of them
        counts = [rows for file in files for rows in file.fragment_rows]
        self._first_rows = [0, *np.cumsum(counts, dtype=np.int64).tolist()]
        self._first_fragments = [0, *np.cumsum([len(f.fragment_rows) for f in files]).tolist()]
        self.rows: int = self._first_rows[-1]

    @classmethod
    def open(
        cls,
        inputs: Sequence[str | Location],
        selection: Selection,
        *,
        datasets: Sequence[str] = (),
        allow_external: bool = False,
        skip_unreadable: bool = False,
        memory: int | None = None,
        widths: Mapping[str, int],
        retry: RetryPolicy | None = None,
    ) -> FilesSource:
        """Look up the inputs, open every file, and check that all have the columns of the first.

        `widths` are used for columns of lists where no file shows their length; `datasets` are for HDF5;
        `allow_external` is for HDF5 and for URIs that lead to others. What cannot be opened within `memory`
        bytes is refused.
        """
        opener = Opener(selection, tuple(datasets), allow_external, math.inf if memory is None else memory)
        locations = expand(inputs, retry, allow_external=allow_external)
        files, skipped = open_all(opener, locations, skip_unreadable=skip_unreadable)
        columns, left_out = _choose_columns(files, selection, widths)
        kept = _shared_schema(files, selection.keep)
        if not any(sum(file.fragment_rows) for file in files):
            raise InputError(f"{files[0].location}: no rows")
        read = {file.location.path for file in files}
        return cls(
            files,
            columns,
            weights=selection.weights,
            left_out=left_out,
            optional=selection.optional(columns),
            kept=kept,
            skipped=skipped,
            unread=[place for place in locations if place.path not in read],
        )

    def without(self, left_out: Mapping[str, str]) -> FilesSource:
        """Return a source of the same rows that leaves out more columns, for these reasons."""
        return with_fewer_columns(self, left_out)

    def with_kinds(self, columns: Sequence[Column]) -> FilesSource:
        """Return a source of the same rows that reads its columns by the kinds which these have."""
        return with_other_kinds(self, columns)

    def extremes(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the extremes over all rows, of Parquet files with statistics; else over some rows."""
        looked = dict.fromkeys(range(0, len(self._files), -(-len(self._files) // _LOOKED_AT)))
        found: dict[str, tuple[float, float]] = {}
        for start in range(0, len(self._files), _AT_A_TIME):
            files = self._files[start : start + _AT_A_TIME]
            with many_at_a_time(partial(_extremes, names=names), files) as ends:
                for index, (file, future) in enumerate(zip(files, ends, strict=True), start):
                    known = future.result()
                    rest = [name for name in names if name not in known] if index in looked else []
                    if rest:
                        offered = file.fields
                        some = [name for name in rest if name in offered]
                        known |= _extremes_of_some_rows(self._limited(file, 0), some)
                    for name, (lower, upper) in known.items():
                        before = found.get(name, (lower, upper))
                        found[name] = (min(lower, before[0]), max(upper, before[1]))
        return found

    def fragments(self) -> Iterable[Fragment]:
        """Return row groups and row ranges, file by file."""
        number = 0
        for file, known in zip(self._files, self.inputs(), strict=True):
            key = input_key(f"{known.bytes} {known.digest}")
            first = self._first_rows[number]
            for index, rows in enumerate(file.fragment_rows):
                start = self._first_rows[number]
                yield Fragment(number, start, rows, file.where(index), start - first, key)
                number += 1

    def read(self, fragment: Fragment, batch_rows: int) -> Iterator[Batch]:
        """Read one fragment of one file."""
        file, index = self._find(fragment, 0)
        rows = min(batch_rows, self._most_rows or batch_rows)
        return _with_retries(file, index, lambda: file.read(index, self.columns, self.weights, rows))

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the columns of one fragment that pass through."""
        file, index = self._find(fragment, 1)
        return _with_retries(file, index, lambda: file.read_kept(index, self.kept, batch_rows))

    def _find(self, fragment: Fragment, part: int) -> tuple[TableFile, int]:
        """Return the file of a fragment, to be read within a limit, and which of the file's it is."""
        which = self._which(fragment)
        return self._limited(self._files[which], part), fragment.number - self._first_fragments[which]

    def _limited(self, file: TableFile, part: int) -> TableFile:
        """Return a file as it is to be read within the limit, if there is one."""
        return file if self._limits is None else file.within(self._limits[part])

    def _which(self, fragment: Fragment) -> int:
        return bisect.bisect_right(self._first_fragments, fragment.number) - 1

    def inputs(self) -> tuple[Input, ...]:
        """Return path, rows, size and digest of each file, as they were when first asked for."""
        if self._inputs is None:
            self._inodes = [file.location.inode() for file in self._files]  # before anything is read of them
            with many_at_a_time(_fingerprint, self._files) as prints:
                self._inputs = tuple(future.result() for future in prints)
        return self._inputs

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes need; which files they have is for them to find out."""
        return self.__dict__ | {"_originals": set()}

    def require_original(self, fragment: Fragment) -> None:
        """Raise an UnreadableError unless the fragment's file is, here, the one that was opened."""
        which = self._which(fragment)
        if which in self._originals:
            return
        problem = difference(self._files[which].location, self.inputs()[which])
        if problem is not None:
            raise UnreadableError(problem)
        self._originals.add(which)

    def some_files(self, most: int) -> list[tuple[Location, Input]]:
        """Return the locations of at most so many files, and what is known of them."""
        step = -(-len(self._files) // most)
        pairs = zip(self._files[::step], self.inputs()[::step], strict=True)
        return [(file.location, known) for file, known in pairs]

    def state(self) -> list[list[Any]]:
        """Return name, size, time of change and rows of each file."""
        with many_at_a_time(_state, self._files) as states:
            return [future.result() for future in states]

    def altered(self) -> str | None:
        """Return a file whose content differs from when `inputs` were first asked for, whatever its date."""
        if self._inputs is None:
            return None
        for file, inode, known in zip(self._files, self._inodes, self._inputs, strict=True):
            location = file.location
            # Permissions and links change the inode, too: the digest decides.
            if inode is not None and location.inode() != inode and difference(location, known) is not None:
                return location.name
        return None

    def last_changes(self) -> list[int | None]:
        """Return when each file was last changed, in nanoseconds."""
        now = time.time()
        with many_at_a_time(lambda file: file.location.last_change(now), self._files) as changes:
            return [future.result() for future in changes]

    @property
    def local_paths(self) -> list[str]:
        """The files on this machine, also those that are skipped."""
        places = [*(file.location for file in self._files), *self._unread]
        return [place.path for place in places if not place.is_remote]

    @property
    def reader_memory(self) -> ReaderMemory:
        """The most memory that reading any of the files takes."""
        if self._memory is None or self._memory[0] != self.columns:
            self._memory = (self.columns, *self._measure())
        _, read, kept = self._memory
        return read + kept

    def _measure(self) -> tuple[ReaderMemory, ReaderMemory]:
        """Return the memory of reading the columns, and of those to keep."""
        # The length of texts is only known by opening a file: that with the longest fragment is enough.
        longest = max(self._files, key=lambda file: max(file.fragment_rows, default=0))
        texts = sum(longest.text_bytes(column.name) for column in self.columns if column.text)
        # Batches of categories have more rows, of which only different ones become strings of Python.
        categories = [c.name for c in self.columns if isinstance(c.kind, Category)]
        offered = longest.fields
        texts += sum(3 * longest.text_bytes(name) for name in categories if offered[name].text)
        read = self._memory_of(names_of(self.columns, self.weights)) + ReaderMemory.of(texts)
        kept = self._memory_of(self.kept.names) if len(self.kept) else ReaderMemory.of(0)
        return read, kept

    def _memory_of(self, names: Sequence[str]) -> ReaderMemory:
        """Return what is enough to read these columns of any of the files."""
        # Of Parquet files, looking into pages takes time: those of the largest row group are enough.
        parquet = [file for file in self._files if isinstance(_stored(file), ParquetFile)]
        measured = [file for file in self._files if not isinstance(_stored(file), ParquetFile)]
        if parquet:
            measured.append(max(parquet, key=lambda file: _largest_group(_stored(file))))
        memory = functools.reduce(operator.or_, (file.reader_memory(names) for file in measured))
        # Readers share the footer of one file; of several files, each may read another.
        others = memory.shared if len(self._files) > 1 else 0
        return replace(memory, ample=memory.ample + others, least=memory.least + others)

    def within(self, limit: int, batch_rows: int) -> FilesSource:
        """Return the same source, of which each reader stays within so many bytes and rows of a batch."""
        whole = self.reader_memory
        assert self._memory is not None
        _, read, kept = self._memory
        if not len(self.kept):
            limits = (limit, 0)
        else:  # what is spare goes to either in proportion
            spare = max(limit - whole.least, 0) / max(whole.ample, 1)
            limits = (int(read.least + spare * read.ample), int(kept.least + spare * kept.ample))
        limited = copy.copy(self)
        limited._limits, limited._most_rows = limits, batch_rows
        return limited


def _choose_columns(
    files: Sequence[TableFile], selection: Selection, widths: Mapping[str, int]
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Choose columns of the first file that all others have as well; return why others are left out."""
    first = files[0]
    where = str(first.location)

    def width_of(name: str) -> int:
        found = (_list_width(file, name) for file in files)  # the first may hold nulls only
        return next((width for width in found if width), widths.get(name, 0))

    offered = first.fields
    columns, left_out = choose_columns(offered, selection, where, width_of)
    if selection.columns is None and selection.automatic:
        columns, gone = _in_all_files(columns, files, selection)
        left_out |= gone
    for file in files[1:]:
        fields = file.fields
        require_same(fields, columns, str(file.location), first=offered, first_where=where)
        if selection.weights is not None:
            field = require_field(fields, selection.weights, str(file.location))
            require_numeric(field, selection.weights, str(file.location))
        if selection.columns is None:
            taken = (n for n, field in fields.items() if not field.why_left_out(text=selection.text))
            left_out |= dict.fromkeys((n for n in taken if n not in offered), f"not in {where}")
    return columns, left_out


def _in_all_files(
    columns: tuple[Column, ...], files: Sequence[TableFile], selection: Selection
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Return the columns without those taken for their type that some file does not have, and why not."""
    offered = files[0].fields
    automatic = [
        column
        for column in columns
        if column.name not in selection.kinds and selection.is_automatic(offered[column.name])
    ]
    gone: dict[str, str] = {}
    for file in files[1:] if automatic else ():
        fields = file.fields
        for column in automatic:
            field = fields.get(column.name)
            if column.name not in gone and (field is None or not field.is_usable(column)):
                what = "not" if field is None else f"{field.type}"
                gone[column.name] = f"{what} in {file.location}"
    return tuple(column for column in columns if column.name not in gone), gone


def _fingerprint(file: TableFile) -> Input:
    return file.location.fingerprint(sum(file.fragment_rows))


def _state(file: TableFile) -> list[Any]:
    info = file.location.info()
    return [file.location.name, info.size, info.mtime_ns, sum(file.fragment_rows)]


def _stored(file: TableFile) -> TableFile:
    """Return the file without the keys of its path."""
    return file.stored if isinstance(file, PartitionedFile) else file


def _largest_group(file: TableFile) -> int:
    return file.largest_bytes if isinstance(file, ParquetFile) else 0


def _extremes(file: TableFile, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the extremes of columns of a file, as far as its footer tells them."""
    stored = _stored(file)
    return stored.extremes(names) if isinstance(stored, ParquetFile) else {}


def _extremes_of_some_rows(file: TableFile, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the extremes of columns among the first rows of some fragments."""
    columns = [Column(name) for name in names if file.fields[name].width == 1]
    fragments = [index for index, rows in enumerate(file.fragment_rows) if rows]
    found: dict[str, tuple[float, float]] = {}
    for index in fragments[:: -(-len(fragments) // _LOOKED_AT) or 1] if columns else ():
        read = partial(file.read, index, columns, None, _LOOKED_AT_ROWS)
        first = next(_with_retries(file, index, read), None)
        if first is None:
            continue  # its footer declares more rows than there are: reading them will say so
        for column, values in zip(columns, first.values, strict=True):
            known = values[np.isfinite(values)]
            if len(known):
                lower, upper = found.get(column.name, (np.inf, -np.inf))
                found[column.name] = (min(lower, float(known.min())), max(upper, float(known.max())))
    return found


def _with_retries(file: TableFile, index: int, begin: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Read a fragment; of a remote file, read it again after an error."""
    location = file.location
    return location.retry.resume_on_error(file.where(index), begin) if location.is_remote else begin()


def _shared_schema(files: Sequence[TableFile], names: Sequence[str]) -> pa.Schema:
    """Return the types of columns that pass through: those that hold what all files have."""
    shared = files[0].kept_schema(names)
    for file in files[1:]:
        try:
            shared = pa.unify_schemas([shared, file.kept_schema(names)], promote_options="permissive")
        except pa.ArrowException as error:
            raise SchemaError(
                f"{file.location}: a column of `keep` has a different type in earlier files: {error}"
            ) from error
    return shared


def _list_width(file: TableFile, name: str) -> int:
    """Return the width of a column in one file; 0 where it cannot be told."""
    field = file.fields.get(name)
    if field is None:
        return 0
    return file.list_width(name) if field.width is None else field.width
