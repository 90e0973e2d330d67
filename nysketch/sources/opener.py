"""Opening files as what they are, several at a time: it waits for the disk or the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from nysketch._support.cancel import stoppable
from nysketch.errors import InputError, SchemaError
from nysketch.sources.csv import CSVFile
from nysketch.sources.feather import FeatherFile
from nysketch.sources.hdf5 import HDF5File
from nysketch.sources.hive import PartitionedFile
from nysketch.sources.locations import Location
from nysketch.sources.parquet import ParquetFile
from nysketch.sources.protocol import TableFile
from nysketch.sources.selection import Selection

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Opener:
    """Opens a file as what it is."""

    selection: Selection
    datasets: tuple[str, ...]
    allow_external: bool
    memory: float

    def open(self, location: Location) -> TableFile:
        """Open a file; retry if it is remote and cannot be read."""
        if location.is_remote:
            return location.retry.call_until_readable(location.name, lambda: self._open_once(location))
        return self._open_once(location)

    def _open_once(self, location: Location) -> TableFile:
        format, selection = location.format(), self.selection
        file: TableFile
        if format == "parquet":
            file = ParquetFile.open(location, self.memory)
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
            file = FeatherFile.open(location, self.memory)
        else:
            file = CSVFile.open(location, text=selection.text or bool(selection.keep))
        return PartitionedFile(file) if location.partition or location.entry else file

    def _named_text(self, location: Location) -> list[str]:
        """Return the text column if named: of many data sets of text, the others may be of any length."""
        named = (self.selection.columns or ()) if self.selection.text else ()
        return [name for name in named if name not in location.partition]


def open_all(
    opener: Opener, locations: Sequence[Location], *, skip_unreadable: bool
) -> tuple[list[TableFile], list[InputError]]:
    """Return the files, and why others are left out."""
    files: list[TableFile] = []
    skipped: list[InputError] = []
    with many_at_a_time(opener.open, locations) as opened:
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


@contextmanager
def many_at_a_time(
    work: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Sequence[Future[Result]]]:
    """Run `work` on items in up to 8 threads; cancel on leaving."""
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
