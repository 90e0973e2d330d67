"""Texts → places on a sphere: pieces of words, hashed, counted and projected.

The pieces are those of 3 to 5 characters within words, in lower case, with a space before and after the word:
what `analyzer="char_wb"` of scikit-learn's HashingVectorizer makes. Its counts are projected by fixed signs
and divided by their norm, so that a typing error moves a text a little, and texts without a common piece are
about at right angles. Counts and signs are whole numbers, whose sums are exact in any order: all machines
make the same numbers of a text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from nysketch._types import Floats
from nysketch.kinds.text import DIMENSIONS

# So much of a text is looked at. A text of 10 MB would take seconds, and gigabytes for its pieces.
LONGEST = 10_000

# Texts with so many characters in all are hashed together: their pieces take some 30 MB.
_TOGETHER = 1 << 18

_HASHED_TO = 1 << 14
_SEED = b"nysketch text 1"


def text_vectors(texts: Sequence[str | None]) -> Floats:
    """Return the places of texts, rows × DIMENSIONS; NaN where there is none."""
    out = np.full((len(texts), DIMENSIONS), np.nan)
    for start, part in _in_parts(texts):
        known = np.array([i for i, text in enumerate(part) if text is not None], np.int64)
        if len(known):
            counts = _hasher().transform([part[i] for i in known])
            out[start + known] = _on_sphere(np.asarray(counts @ _signs(), np.float64))
    return out


def _in_parts(texts: Sequence[str | None]) -> Iterator[tuple[int, list[str | None]]]:
    """Yield the texts, cut to what is looked at, in parts of limited length, each with its first number."""
    part, start, size = list[str | None](), 0, 0
    for i, text in enumerate(texts):
        short = None if text is None else text[:LONGEST]
        part.append(short)
        size += len(short or "")
        if size >= _TOGETHER:
            yield start, part
            part, start, size = [], i + 1, 0
    yield start, part


def _on_sphere(places: Floats) -> Floats:
    """Divide rows of whole numbers by their norms; nothing stays where it is."""
    norms = np.sqrt((places**2).sum(axis=1))
    return places / np.where(norms > 0, norms, 1.0)[:, None]


@cache
def _hasher() -> Any:
    # Only where there is text: to import it takes half a second.
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 5), n_features=_HASHED_TO, norm=None, dtype=np.float32
    )


@cache
def _signs() -> Any:
    """Return the projection: signs that depend on nothing but a constant."""
    digest = hashlib.shake_256(_SEED).digest(_HASHED_TO * DIMENSIONS // 8)
    bits = np.unpackbits(np.frombuffer(digest, np.uint8)).reshape(_HASHED_TO, DIMENSIONS)
    return (2.0 * bits - 1.0).astype(np.float32)
