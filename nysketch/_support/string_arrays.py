"""Strings as two plain arrays: their UTF-8 bytes back to back, and where each ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Arrays


def text_width(strings: Iterable[str]) -> int:
    """Return how many numbers of 8 bytes a string takes on average, and at least one."""
    lengths = [len(text.encode()) for text in strings]
    return max(1, -(-sum(lengths) // (8 * max(len(lengths), 1))))


def text_arrays(name: str, strings: NDArray[Any]) -> Arrays:
    """Return the arrays that hold a one-dimensional array of strings."""
    encoded = [text.encode() for text in strings]
    ends = np.cumsum([len(data) for data in encoded], dtype=np.int64).reshape(len(encoded))
    return {name: np.frombuffer(b"".join(encoded), np.uint8), f"{name}.ends": ends}


def text_from_arrays(name: str, arrays: Arrays) -> NDArray[Any]:
    """Rebuild what `text_arrays` took; raise ValueError where the arrays hold no strings."""
    data, ends = arrays[name], arrays[f"{name}.ends"]
    if data.dtype != np.uint8 or ends.dtype != np.int64 or data.ndim != 1 or ends.ndim != 1:
        raise ValueError(f"{name} holds no strings")
    starts = np.concatenate([[0], ends])
    # Not by differences: of hostile integers, these overflow.
    if (starts[1:] < starts[:-1]).any() or starts[-1] != len(data):
        raise ValueError(f"the strings of {name} do not fit their bytes")
    content = data.tobytes()
    strings = np.empty(len(ends), object)
    strings[:] = [content[a:b].decode() for a, b in zip(starts[:-1], ends, strict=True)]
    return strings
