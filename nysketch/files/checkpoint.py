"""Checkpoints: the finished fragments of a pass and their sums, saved beside the output.

A checkpoint belongs to one request (inputs, columns, basis, options): the same command continues it,
any other is refused. Because sums are exact (_support/exact.py), a resumed pass ends in the same bytes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.companions import checkpoint_path
from nysketch._support.notices import log
from nysketch.accumulators.tally import Tally
from nysketch.errors import CheckpointMismatchError, CorruptCheckpointError, CorruptSketchError, InputError
from nysketch.files.container import DAMAGE, read_parts, write_parts
from nysketch.files.format import sketch_from_parts, sketch_parts
from nysketch.sketches.sketch import Sketch

# A request may be so much longer than ours, and still be read: to say what differs.
_MOST_REQUESTS, _FEW_BYTES = 4, 1 << 20


def _count(flags: NDArray[np.uint8]) -> int:
    """Return how many flags are set, some at a time: apart they take eight times as much memory."""
    step = 1 << 20
    return sum(int(np.unpackbits(flags[i : i + step]).sum()) for i in range(0, len(flags), step))


def _flags(stored: NDArray[Any]) -> NDArray[np.uint8]:
    if stored.dtype != np.uint8 or stored.ndim != 1:
        raise ValueError("its list of finished fragments is impossible")
    return stored


def _parsed(stored: bytes, ours: bytes) -> Any:
    """Return the request in a checkpoint; parsed only if it is not much larger than ours, to spare memory."""
    if len(stored) > _MOST_REQUESTS * len(ours) + _FEW_BYTES:
        raise ValueError("it was left by a run with many more inputs")
    return json.loads(stored)


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
        self._flags = np.zeros(0, np.uint8)  # of finished fragments, eight in a byte
        if restart:
            self.remove()
        if self.path.exists():
            self._load()

    @property
    def resumed(self) -> int:
        """How many fragments an earlier run had finished."""
        return _count(self._flags)

    def _load(self) -> None:
        try:
            metadata, arrays = read_parts(self.path, ("checkpoint",))
            found = _parsed(arrays.pop("request").tobytes(), json.dumps(self._request).encode())
            self._flags = _flags(arrays.pop("done"))
            self.partial = sketch_from_parts(metadata, arrays)
            different = [name for name, value in self._request.items() if found.get(name) != value]
            if found in self._alternatives:
                different = []
            changes = [self._change(name, found.get(name)) for name in different]
        except InputError as error:  # of the file system
            raise CheckpointMismatchError(str(error)) from error
        except (CorruptSketchError, *DAMAGE) as error:
            raise self.unusable(error) from error
        if different:
            raise CheckpointMismatchError(
                f"{self.path}: left by a run with different {'; '.join(changes)}. Restore these to continue "
                "it, or start over with `restart=True`"
            )

    def unusable(self, why: object) -> CorruptCheckpointError:
        """Return the error for a checkpoint that cannot be continued."""
        return CorruptCheckpointError(
            f"{self.path}: unusable checkpoint: {why}. Start over with `restart=True`"
        )

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

    def resume(self, nothing: Tally, fragments: Iterable[tuple[int, int]]) -> tuple[Tally, set[int]]:
        """Return the sums and the fragments done so far, of all `fragments`: their numbers and rows.

        Sums of other fragments are refused, though the checksum be right.
        """
        if self.partial is None:
            return nothing, set()
        tally = self.partial.tally
        if not tally.ranges.exact or tally.settings() != nothing.settings():
            raise self.unusable("its sums were made with other settings")
        done = {number: rows for number, rows in fragments if self._is_done(number)}
        if len(done) != self.resumed:
            raise self.unusable(f"of {self.resumed:,} finished fragments, {len(done):,} exist")
        rows, held = sum(done.values()), tally.rows + tally.dropped
        if rows != held:
            raise self.unusable(f"its finished fragments have {rows:,} rows, and its sums {held:,}")
        log.info("resuming %s: %d fragments already finished", self.path, len(done))
        return tally, set(done)

    def _is_done(self, number: int) -> bool:
        byte, bit = divmod(number, 8)
        return byte < len(self._flags) and bool(self._flags[byte] >> (7 - bit) & 1)

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
