"""Checkpoints: the finished fragments of a pass and their sums, saved beside the output.

A checkpoint belongs to one request (inputs, columns, basis, options): the same command continues it,
any other is refused. Because sums are exact (_support/exact.py), a resumed pass ends in the same bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from nysketch._support.notices import log
from nysketch.accumulators.tally import Tally
from nysketch.errors import CheckpointMismatchError, CorruptCheckpointError, CorruptSketchError, InputError
from nysketch.files.format import read_parts, sketch_from_parts, sketch_parts, write_parts
from nysketch.sketches.sketch import Sketch


def checkpoint_path(output: Path) -> Path:
    """Return where the checkpoint of an output is."""
    return output.with_name(output.name + ".checkpoint")


def _as_stored(request: dict[str, Any]) -> Any:
    """Return a request as it will be read back."""
    return json.loads(json.dumps(request))


class Checkpoint:
    """The checkpoint of one output; `partial` is the unfinished sketch found there, if any.

    It must have been left by the same request, or by one of the `alternatives` that would have given the
    same sums so far: else a CheckpointMismatchError is raised, and a CorruptCheckpointError if it is damaged.
    """

    def __init__(
        self,
        output: Path,
        request: dict[str, Any],
        *,
        every: float,
        alternatives: Sequence[dict[str, Any]] = (),
        restart: bool = False,
    ) -> None:
        self.path = checkpoint_path(output)
        self._request = _as_stored(request)
        self._alternatives = [_as_stored(other) for other in alternatives]
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
        try:
            metadata, arrays = read_parts(self.path, ("checkpoint",))
            found = json.loads(arrays.pop("request").tobytes())
            done = np.unpackbits(arrays.pop("done"))
            self.partial = sketch_from_parts(metadata, arrays)
            different = [name for name, value in self._request.items() if found.get(name) != value]
            if found in self._alternatives:
                different = []
            changes = [self._change(name, found.get(name)) for name in different]
        except InputError as error:  # of the file system
            raise CheckpointMismatchError(str(error)) from error
        except (CorruptSketchError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptCheckpointError(
                f"{self.path}: unusable checkpoint: {error}. Start over with `restart=True`"
            ) from error
        if different:
            raise CheckpointMismatchError(
                f"{self.path}: left by a run with different {'; '.join(changes)}. Restore these to continue "
                "it, or start over with `restart=True`"
            )
        self._done = set(np.flatnonzero(done).tolist())

    def _change(self, name: str, found: Any) -> str:
        """Say what differs between the checkpoint's request and ours."""
        ours = self._request[name]
        if name == "inputs":
            either = {tuple(item) for item in ours} ^ {tuple(item) for item in found}
            return f"inputs ({min(item[0] for item in either)} changed)"
        if isinstance(ours, dict) and isinstance(found, dict):
            items = [
                f"{key} {found.get(key)!r}, now {ours[key]!r}" for key in ours if found.get(key) != ours[key]
            ]
            return f"{name} ({', '.join(items)})"
        if name == "part":
            return f"part ({found or 'all'}, now {ours or 'all'})"
        return name

    def resume(self, nothing: Tally) -> tuple[Tally, set[int]]:
        """Return the sums and fragment numbers done so far."""
        if self.partial is None:
            return nothing, set()
        log.info("resuming %s: %d fragments already finished", self.path, len(self._done))
        return self.partial.tally, set(self._done)

    def due(self) -> bool:
        """Tell whether it is time to save."""
        return time.monotonic() - self._last_save >= self._every

    def save(self, partial: Sketch, done: set[int]) -> None:
        """Save the sums of the fragments `done`, atomically."""
        metadata, arrays = sketch_parts(partial, kind="checkpoint")
        flags = np.zeros(max(done) + 1, bool)
        flags[list(done)] = True
        # An array and not metadata: it lists all inputs, of which there may be more than fit a header.
        request = np.frombuffer(json.dumps(self._request).encode(), np.uint8)
        write_parts(self.path, metadata, arrays | {"done": np.packbits(flags), "request": request})
        self._last_save = time.monotonic()

    def remove(self) -> None:
        """Delete the checkpoint: its work is in the output, or is worthless."""
        with suppress(FileNotFoundError):
            self.path.unlink()
