"""What all work on fragments shares: a reader per thread, rows counted, inputs that must not change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nysketch.engines.protocol import Check, Engine, PicklableTask
from nysketch.errors import InputError, UsageError
from nysketch.models.base import Model
from nysketch.passes.chunks import ChunkReader, require_declared_rows
from nysketch.passes.sketching import Progress
from nysketch.sources.protocol import Fragment, Source
from nysketch.tiles.chunk import Chunk


class RowReader(PicklableTask):
    """Reads the rows of a source for a model, and counts them; for any number of threads."""

    _process_local = ("_local", "_lock", "_rows", "_progress")

    def __init__(self, model: Model, source: Source, *, nulls: str, progress: Progress | None) -> None:
        if source.columns != model.columns:
            names = ", ".join(map(str, model.columns))
            raise UsageError(f"the source must have the columns of the model: {names}")
        self.source, self._nulls = source, nulls
        self._init_process_state()
        self._progress: Progress | None = progress
        ChunkReader(source, nulls=nulls)  # complain before threads start

    def _init_process_state(self) -> None:
        """Make what belongs to this process."""
        self._local, self._lock = threading.local(), threading.Lock()
        self._rows = 0
        self._progress = None

    def chunks(self, fragment: Fragment, check: Check) -> Iterator[Chunk]:
        """Yield the chunks of a fragment, all of its rows; each is valid until the next is asked for."""
        if not hasattr(self._local, "reader"):
            self._local.reader = ChunkReader(self.source, nulls=self._nulls)
        read = 0
        for chunk in self._local.reader.chunks(fragment):
            check()
            yield chunk
            read += len(chunk.rows)
            with self._lock:
                self._rows += len(chunk.rows)
        require_declared_rows(fragment, read)

    def report(self, engine: Engine) -> None:
        """Tell how many rows have been read, here and elsewhere."""
        if self._progress is not None:
            self._progress(self._rows + engine.rows_elsewhere, self.source.rows)


@contextmanager
def unchanged(source: Source) -> Iterator[None]:
    """Raise an InputError if files change while they are read."""
    before = source.state()
    yield
    if source.state() != before:
        raise InputError(
            "an input changed while it was being read, so the result belongs to no version of it. "
            "Run the command again once it is complete"
        )
