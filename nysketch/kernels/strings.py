"""Kernels of strings: shared substrings (spectrum), shared subsequences with gaps (subsequence).

Both are normalised, k(x, x) = 1; a string too short to have what is compared has k = 0 with everything.
Strings are compared by code point, with nothing folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Rows
from nysketch.errors import UsageError
from nysketch.kernels.base import inverse_or_zero, whole

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LONGEST = 32
_CHARACTERS = 1 << 19


@dataclass(frozen=True)
class _OfStrings:
    """What the kernels of strings have in common."""

    length: int

    name: ClassVar[str]
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", whole(self.length, "length"))
        if not 1 <= self.length <= LONGEST:
            raise UsageError(f"`length` must be between 1 and {LONGEST} characters, not {self.length}")

    def gradient(self, X: Rows, Y: Rows, coefficients: Floats) -> Floats:
        """Raise a UsageError: there is nothing between two strings."""
        raise UsageError(f"the {self.name} kernel has no gradient: strings are discrete")

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "length": self.length}


@dataclass(frozen=True)
class Spectrum(_OfStrings):
    """The cosine between the counts of all substrings of `length` characters."""

    name: ClassVar[str] = "spectrum"

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        if sum(map(len, X)) < sum(map(len, Y)):
            return self(Y, X).T  # the counts of Y are kept, so Y should be the smaller
        known = [_counted(*self._grams(Y[part]), len(Y[part])) for part in _parts(Y)]
        values = np.empty((len(X), len(Y)))
        for rows in _parts(X):
            row_of, keys = self._grams(X[rows])
            _, _, lengths = _counted(row_of, keys, len(X[rows]))
            for (vocabulary, counts, norms), columns in zip(known, _parts(Y), strict=True):
                # Substrings that Y does not have count for the lengths only.
                shared = _counts(row_of, keys, len(X[rows]), vocabulary) @ counts.T
                values[rows, columns] = (
                    shared.toarray() * inverse_or_zero(lengths)[:, None] * inverse_or_zero(norms)
                )
        return values

    def diagonal(self, X: Rows) -> Floats:
        return np.array([len(text) >= self.length for text in X], np.float64)

    def _grams(self, X: Rows) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return row number and key of every substring of every string.

        Keys are 64-bit hashes: that two of a million substrings share one has a chance of 1 in 10⁷.
        """
        codes, lengths = code_points(X)
        keys = np.zeros(max(0, len(codes) - self.length + 1), np.uint64)
        for offset in range(self.length):
            keys = _mixed(keys ^ codes[offset : offset + len(keys)])
        row_of = np.repeat(np.arange(len(X)), lengths)
        # A window that starts in one string and ends in the next is a substring of neither.
        inside = row_of[: len(keys)] == row_of[self.length - 1 :]
        return row_of[: len(keys)][inside], keys[inside]

    def __str__(self) -> str:
        return f"spectrum of substrings of {self.length} characters"


def _parts(X: Rows) -> Iterator[slice]:
    """Cut strings into runs of some hundred thousand characters, which take some 30 MB to count."""
    start = characters = 0
    for i, text in enumerate(X):
        if characters and characters + len(text) > _CHARACTERS:
            yield slice(start, i)
            start, characters = i, 0
        characters += len(text)
    yield slice(start, len(X))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread words over all 64 bits, one to one (splitmix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _counts(
    row_of: NDArray[np.int64], keys: NDArray[np.uint64], rows: int, vocabulary: NDArray[np.uint64]
) -> csr_array:
    """Return how often each string has each key of the (sorted) vocabulary."""
    from scipy.sparse import csr_array

    if not len(vocabulary):
        return csr_array((rows, 1))
    place = np.minimum(np.searchsorted(vocabulary, keys), len(vocabulary) - 1)
    known = vocabulary[place] == keys
    ones = np.ones(int(known.sum()))
    return csr_array((ones, (row_of[known], place[known])), shape=(rows, len(vocabulary)))


def _counted(
    row_of: NDArray[np.int64], keys: NDArray[np.uint64], rows: int
) -> tuple[NDArray[np.uint64], csr_array, Floats]:
    """Return all keys there are, how often each string has each, and the length of these counts."""
    vocabulary = np.unique(keys)
    counts = _counts(row_of, keys, rows, vocabulary)
    squares: csr_array = counts**2
    return vocabulary, counts, np.asarray(np.sqrt(squares.sum(axis=1))).ravel()


@dataclass(frozen=True)
class Subsequence(_OfStrings):
    """Gap-weighted subsequences of `length` characters (Lodhi et al. 2002).

    Every common subsequence counts decay^(span in x + span in y): a gap costs as much as a character.
    """

    decay: float = 0.5

    name: ClassVar[str] = "subsequence"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.decay <= 1:
            raise UsageError(f"`decay` must be above 0 and at most 1, not {self.decay!r}")
        object.__setattr__(self, "decay", float(self.decay))

    def __call__(self, X: Rows, Y: Rows) -> Floats:
        values = self._weights(X, Y)
        return (
            values * inverse_or_zero(np.sqrt(self._own(X)))[:, None] * inverse_or_zero(np.sqrt(self._own(Y)))
        )

    def diagonal(self, X: Rows) -> Floats:
        return np.array([len(text) >= self.length for text in X], np.float64)

    def _weights(self, X: Rows, Y: Rows) -> Floats:
        from nysketch.kernels._subsequences import subsequence_weights  # loads the compiler

        return np.asarray(subsequence_weights(_coded(X), _coded(Y), self.length, self.decay))

    def _own(self, X: Rows) -> Floats:
        """Return the kernel of each string with itself, before it is normalised."""
        return np.array([self._weights(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(len(X))])

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"decay": self.decay}

    def __str__(self) -> str:
        return f"subsequences of {self.length} characters, decay {self.decay:g}"


def code_points(X: Rows) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the characters of all strings one after the other as numbers, and the strings' lengths."""
    codes = np.frombuffer("".join(X).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    return codes, np.array([len(text) for text in X], np.int64)


def _coded(X: Rows) -> Sequence[NDArray[np.uint32]]:
    return [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4") for text in X]
