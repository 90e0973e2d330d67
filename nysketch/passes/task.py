"""What all work on fragments shares: readers, rows counted, columns kept, inputs that must not change.

How a fragment becomes chunks is next door, in chunks.py; who runs the work on which fragments is an engine's
choice. What comes of the chunks is up to the task: pilot.py, accumulate.py, and the models and coresets that
read rows.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch._types import Floats, Progress
from nysketch.engines.protocol import Check, Engine, PicklableTask, nothing
from nysketch.errors import InputError
from nysketch.passes.chunks import (
    ChunkReader,
    require_batch_rows,
    require_declared_rows,
    require_null_policy,
)
from nysketch.sources.protocol import TEXT_ROWS, Fragment, Source
from nysketch.tiles.chunk import Chunk

Made = TypeVar("Made")
Result = TypeVar("Result")


class _MadeOnce(Generic[Made]):
    """A property of a task that is made when first asked for, kept, and never pickled."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def _made(self, task: FragmentTask[Any], kept: dict[str, Any]) -> Made:
        if self._name not in kept:
            kept[self._name] = self._make(task)
        made: Made = kept[self._name]
        return made


class per_thread(_MadeOnce[Made]):  # noqa: N801 - a decorator, like functools.cached_property
    """A property of a task that each thread makes for itself: buffers."""

    def __get__(self, task: FragmentTask[Any], owner: type) -> Made:
        return self._made(task, task._local.__dict__)


class per_process(_MadeOnce[Made]):  # noqa: N801 - a decorator, like functools.cached_property
    """A property of a task that all threads of a process share: compiled code, with what it needs."""

    def __get__(self, task: FragmentTask[Any], owner: type) -> Made:
        with task._lock:
            return self._made(task, task._shared)


class FragmentTask(PicklableTask, Generic[Result]):
    """Work on the fragments of a source, by any number of threads, here or in other processes.

    A subclass says in `__call__` what comes of a fragment; it gets the rows from `chunks`. What it declares
    `per_thread` or `per_process` stays where it was made; all other attributes are pickled.
    """

    _process_local = ("_local", "_lock", "_shared", "rows_read")

    def __init__(
        self, source: Source, *, nulls: str, batch_rows: int | None = None, fill: Floats | None = None
    ) -> None:
        require_null_policy(nulls)  # rather than in a thread
        require_batch_rows(batch_rows)
        self.source, self._nulls, self._batch_rows, self._fill = source, nulls, batch_rows, fill
        self._init_process_state()

    def _init_process_state(self) -> None:
        """Make what belongs to this process."""
        self._local, self._lock = threading.local(), threading.RLock()
        self._shared: dict[str, Any] = {}
        self.rows_read = 0  # by this process, also of fragments that are under way: one may take minutes

    @abstractmethod
    def __call__(self, fragment: Fragment, check: Check) -> Result:
        """Return what comes of a fragment."""

    @per_thread
    def reader(self) -> ChunkReader:
        """The reader of this thread, whose buffer is used for all chunks."""
        return ChunkReader(self.source, nulls=self._nulls, batch_rows=self._batch_rows, fill=self._fill)

    def chunks(self, fragment: Fragment, check: Check, span_rows: int | None = None) -> Iterator[Chunk]:
        """Yield the chunks of a fragment; each is valid until the next is asked for.

        Raise an InputError at the end unless these were the rows that the fragment declares. With
        `span_rows`, each chunk is within one of the spans of so many rows that the input is cut into.
        """
        read = 0
        for chunk in self.reader.chunks(fragment, span_rows):
            check()
            yield chunk
            read += len(chunk.rows)
            with self._lock:
                self.rows_read += len(chunk.rows)
        require_declared_rows(fragment, read)


class KeptColumns:
    """The columns of a fragment that pass through, which are read beside its chunks."""

    def __init__(self, source: Source, fragment: Fragment) -> None:
        self._schema: pa.Schema = source.kept
        self._first_row, self._where = fragment.first_row, fragment.where
        self._batches: Iterator[pa.RecordBatch] = (
            source.read_kept(fragment, TEXT_ROWS) if len(self._schema) else iter(())
        )
        self._rest: list[pa.RecordBatch] = []

    def take_next(self, rows: int) -> list[pa.ChunkedArray]:
        """Return the columns of the next rows."""
        if not len(self._schema):
            return []
        taken, missing = [], rows
        while missing:
            batch = self._rest.pop() if self._rest else next(self._batches, None)
            if batch is None:
                raise self._too_few()
            if len(batch) > missing:
                self._rest = [batch.slice(missing)]
            taken.append(batch.slice(0, missing))
            missing -= len(taken[-1])
        columns: list[pa.ChunkedArray] = pa.Table.from_batches(taken).columns
        return columns

    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return the columns of the rows with these numbers in the source, in this order."""
        order = np.argsort(numbers, kind="stable")
        wanted, first = numbers[order] - self._first_row, 0
        taken = [self._schema.empty_table()]
        for batch in self._batches if len(wanted) else ():
            here = wanted[(wanted >= first) & (wanted < first + len(batch))] - first
            if len(here):
                taken.append(pa.Table.from_batches([batch.take(pa.array(here))]))
            first += len(batch)
        table = pa.concat_tables(taken)
        if len(table) != len(numbers):
            raise self._too_few()
        return table.take(np.argsort(order, kind="stable"))

    def _too_few(self) -> InputError:
        return InputError(f"{self._where}: columns to keep have fewer rows than others")


def row_reporter(
    progress: Progress | None,
    task: FragmentTask[Any],
    engine: Engine,
    *,
    rows: int | None,
    rows_before: int = 0,
) -> Callable[[], None]:
    """Return a function that tells `progress` how many rows have been read so far, here and elsewhere.

    `rows` is how many there are in all, of which `rows_before` were read before the task began.
    """
    if progress is None:
        return nothing
    return lambda: progress(rows_before + task.rows_read + engine.rows_elsewhere, rows)


@contextmanager
def unchanged(source: Source) -> Iterator[None]:
    """Raise an InputError if files change while they are read."""
    before = source.state()
    if before is not None:
        source.inputs()  # they are compared with what they are now
    yield
    require_unchanged(source, before)


def require_unchanged(
    source: Source, before: list[list[Any]] | None, *, why: str = "the result matches no version of it"
) -> None:
    """Raise an InputError unless the state of a source is still the one `before`; `why` says what is lost."""
    changed = "an input" if source.state() != before else source.altered()
    if changed is not None:
        remedy = "Try again once it is complete"
        raise InputError(f"{changed} changed while it was being read, so {why}. {remedy}")
