"""Checkpoints: the finished fragments of a pass and their sums, saved beside the output.

A checkpoint belongs to one request (inputs, columns, basis, options): the same command continues it,
any other is refused. Because sums are exact (exact.py), a resumed pass ends in the same bytes.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nysketch.accumulators import Tally
from nysketch.errors import CorruptSketchError, InputError
from nysketch.fileformat import read_parts, sketch_from_parts, sketch_parts, write_parts
from nysketch.sketches import Sketch

log = logging.getLogger("nysketch")


class Checkpoint:
    """The checkpoint of one output; `partial` is the unfinished sketch found there, if any."""

    def __init__(self, output: Path, request: dict[str, Any], *, every: float, restart: bool = False) -> None:
        self.path = output.with_name(output.name + ".checkpoint")
        self._request = json.loads(json.dumps(request))  # as it will be read back
        self._every = every
        self._last_save = time.monotonic()
        self.partial: Sketch | None = None
        self._done: set[int] = set()
        if restart:
            self.remove()
        if self.path.exists():
            self._load()

    @property
    def resumed(self) -> int:
        """How many fragments an earlier run had finished."""
        return len(self._done)

    def _load(self) -> None:
        remedy = "Start over with --restart"
        try:
            metadata, arrays = read_parts(self.path, ("checkpoint",))
            self.partial = sketch_from_parts(metadata, arrays)
            self._done = set(np.flatnonzero(np.unpackbits(arrays["done"])).tolist())
            found = metadata["request"]
        except (CorruptSketchError, ValueError, KeyError, TypeError) as error:
            raise CorruptSketchError(f"{self.path}: unusable checkpoint: {error}. {remedy}") from error
        different = [name for name, value in self._request.items() if found.get(name) != value]
        if different:
            what = ", ".join(different)
            example = ""
            if "inputs" in different:
                ours = {tuple(item) for item in self._request["inputs"]}
                changed = [item[0] for item in found["inputs"] if tuple(item) not in ours]
                example = f" (such as {changed[0]})" if changed else ""
            raise InputError(
                f"{self.path}: left by a run with other {what}{example}. "
                f"Put things back as they were to continue it. {remedy}"
            )

    def resume(self, nothing: Tally) -> tuple[Tally, set[int]]:
        """Return the sums and fragment numbers done so far."""
        if self.partial is None:
            return nothing, set()
        log.info("resuming %s: %d fragments were finished", self.path, len(self._done))
        return self.partial.tally, set(self._done)

    def due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() - self._last_save >= self._every

    def save(self, partial: Sketch, done: set[int]) -> None:
        """Save the sums of the fragments `done`, atomically."""
        metadata, arrays = sketch_parts(partial, kind="checkpoint")
        flags = np.zeros(max(done) + 1, bool)
        flags[list(done)] = True
        write_parts(self.path, metadata | {"request": self._request}, arrays | {"done": np.packbits(flags)})
        self._last_save = time.monotonic()

    def remove(self) -> None:
        """Delete the checkpoint: its work is in the output, or is worthless."""
        with suppress(FileNotFoundError):
            self.path.unlink()
