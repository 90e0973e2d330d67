"""Many files as one source: their fragments in a row, their schemas checked against each other."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from nysketch._support.cancel import stoppable
from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError, UnreadableError
from nysketch.provenance import Input
from nysketch.sources.arrow import choose_columns
from nysketch.sources.csv import CSVFile
from nysketch.sources.expand import expand
from nysketch.sources.feather import FeatherFile
from nysketch.sources.hdf5 import HDF5File
from nysketch.sources.hive import PartitionedFile
from nysketch.sources.locations import Location, difference
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.protocol import Batch, Fragment, TableFile, input_key
from nysketch.sources.retry import RetryPolicy
from nysketch.sources.selection import Selection, require_field, require_numeric, require_same

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        kept: pa.Schema,
        skipped: Sequence[InputError] = (),
    ) -> None:
        self._files, self.columns, self.weights = files, columns, weights
        self.left_out, self.kept, self.skipped = left_out, kept, skipped
        self._inputs: tuple[Input, ...] | None = None
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
        widths: Mapping[str, int],
        retry: RetryPolicy | None = None,
    ) -> FilesSource:
        """Look up the inputs, open every file, and check that all have the columns of the first.

        `widths` are used for columns of lists where no file shows their length; `datasets` and
        `allow_external` are for HDF5.
        """
        opener = _Opener(selection, tuple(datasets), allow_external)
        files, skipped = _open_all(opener, expand(inputs, retry), skip_unreadable=skip_unreadable)
        columns, left_out = _choose_columns(files, selection, widths)
        kept = _shared_schema(files, selection.keep)
        if not any(sum(file.fragment_rows) for file in files):
            raise InputError(f"{files[0].location}: no rows")
        return cls(files, columns, weights=selection.weights, left_out=left_out, kept=kept, skipped=skipped)

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
        file, index = self._find(fragment)
        return _with_retries(file, index, lambda: file.read(index, self.columns, self.weights, batch_rows))

    def read_kept(self, fragment: Fragment, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read the columns of one fragment that pass through."""
        file, index = self._find(fragment)
        return _with_retries(file, index, lambda: file.read_kept(index, self.kept, batch_rows))

    def _find(self, fragment: Fragment) -> tuple[TableFile, int]:
        """Return the file of a fragment, and which of the file's it is."""
        which = self._which(fragment)
        return self._files[which], fragment.number - self._first_fragments[which]

    def _which(self, fragment: Fragment) -> int:
        return bisect.bisect_right(self._first_fragments, fragment.number) - 1

    def inputs(self) -> tuple[Input, ...]:
        """Return path, rows, size and digest of each file, as they were when first asked for."""
        if self._inputs is None:
            with _many_at_a_time(_fingerprint, self._files) as prints:
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
        with _many_at_a_time(_state, self._files) as states:
            return [future.result() for future in states]

    @property
    def local_paths(self) -> list[str]:
        """The files on this machine."""
        paths = (file.location.local_path for file in self._files)
        return [path for path in paths if path is not None]

    @property
    def reader_bytes(self) -> int:
        """The most memory that reading any of the files takes."""
        # The length of texts is only known by opening a file: that with the longest fragment is enough.
        longest = max(self._files, key=lambda file: max(file.fragment_rows, default=0))
        texts = sum(longest.text_bytes(column.name) for column in self.columns if column.text)
        return max(file.reader_bytes for file in self._files) + texts


@dataclass(frozen=True)
class _Opener:
    """Opens a file as what it is."""

    selection: Selection
    datasets: tuple[str, ...]
    allow_external: bool

    def open(self, location: Location) -> TableFile:
        """Open a file; retry if it is remote and cannot be read."""
        if location.is_remote:
            return location.retry.call_until_readable(location.name, lambda: self._open_once(location))
        return self._open_once(location)

    def _open_once(self, location: Location) -> TableFile:
        format, selection = location.format(), self.selection
        file: TableFile
        if format == "parquet":
            file = ParquetFile.open(location)
        elif format == "hdf5":
            file = HDF5File.open(
                location,
                self.datasets or self._named_text(location),
                selection.weights,
                allow_external=self.allow_external,
                text=selection.text,
                keep=[name for name in selection.keep if name not in location.partition],
            )
        elif format == "feather":
            file = FeatherFile.open(location)
        else:
            file = CSVFile.open(location, text=selection.text or bool(selection.keep))
        return PartitionedFile(file) if location.partition or location.entry else file

    def _named_text(self, location: Location) -> list[str]:
        """Return the text column if named: of many data sets of text, the others may be of any length."""
        named = (self.selection.columns or ()) if self.selection.text else ()
        return [name for name in named if name not in location.partition]


def _open_all(
    opener: _Opener, locations: Sequence[Location], *, skip_unreadable: bool
) -> tuple[list[TableFile], list[InputError]]:
    """Return the files, and why others are left out."""
    files: list[TableFile] = []
    skipped: list[InputError] = []
    with _many_at_a_time(opener.open, locations) as opened:
        for future in opened:
            try:
                files.append(future.result())
            except SchemaError:
                raise
            except InputError as error:
                if not skip_unreadable:
                    raise
                skipped.append(error)
    if not files:
        raise skipped[0]
    return files, skipped


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


@contextmanager
def _many_at_a_time(
    work: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Sequence[Future[Result]]]:
    """Run `work` on items in up to 8 threads, since it waits for the disk or network; cancel on leaving."""
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise CancelledError

    def stoppable_work(item: Item) -> Result:
        with stoppable(check):
            return work(item)

    with ThreadPoolExecutor(min(8, len(items))) as pool:
        futures = [pool.submit(stoppable_work, item) for item in items]
        try:
            yield futures
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _fingerprint(file: TableFile) -> Input:
    return file.location.fingerprint(sum(file.fragment_rows))


def _state(file: TableFile) -> list[Any]:
    info = file.location.info()
    return [file.location.name, info.size, info.mtime_ns, sum(file.fragment_rows)]


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
