"""Values of a table → the numbers that rows have for columns with kinds: codes, seconds, places of texts.

A category is known by its text: `5` is the same value in columns of integers, decimals and strings, `true`
in those of truth values. Before there is a vocabulary, while the pilot is read, a value is known by 52 bits
of its digest, which do not depend on what else a file has, and the texts travel along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nysketch._types import Floats
from nysketch.columns import Column
from nysketch.errors import InputError, SchemaError
from nysketch.kinds import Category, Text, Time
from nysketch.sources.text_vectors import text_vectors

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_DAY = 86_400.0
# Texts are held several times while they are encoded: so many bytes at a time.
_PIECE_BYTES = 4 << 20
# Floats up to here are written as integers are.
_WHOLE = 2.0**53
# Longer texts, in bytes, are in no vocabulary: they name nothing, and every sketch would carry them.
LONGEST_VALUE = 200


@dataclass(frozen=True)
class Encoded:
    """The numbers of a column, NaN where a value is missing; how many are; and texts of digests, if any.

    Numbers are a vector, or rows × width for texts.
    """

    values: NDArray[np.float64]
    nulls: int
    texts: Mapping[float, str] = field(default_factory=dict)


def encode(array: pa.Array, column: Column, where: str) -> Encoded:
    """Return the numbers of a column of categories, texts or times."""
    try:
        if isinstance(column.kind, Category):
            return _categories(array, column.kind)
        if isinstance(column.kind, Text):
            values = _places(array)
            return Encoded(values, int(np.isnan(values[:, 0]).sum()))
        assert isinstance(column.kind, Time)
        values = seconds(array)
        return Encoded(values, array.null_count)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: column {column.name!r} holds text that is not valid UTF-8: {error}"
        ) from error
    except pa.ArrowException as error:
        raise SchemaError(f"{where}: column {column.name!r} of type {array.type}: {error}") from error


# ---- categories


def _categories(array: pa.Array, kind: Category) -> Encoded:
    if pa.types.is_dictionary(array.type):
        return _of_dictionary(array, kind)
    if array.nbytes > _PIECE_BYTES and len(array) > 1:
        step = max(len(array) * _PIECE_BYTES // array.nbytes, 1)
        pieces = [_categories(array.slice(at, step), kind) for at in range(0, len(array), step)]
        known = {digest: text for piece in pieces for digest, text in piece.texts.items()}
        return Encoded(np.concatenate([p.values for p in pieces]), sum(p.nulls for p in pieces), known)
    texts = as_texts(array)
    if not kind.values:
        return _digests(texts)
    found = pc.index_in(texts, value_set=_vocabulary(kind))
    codes = found.fill_null(kind.other).to_numpy(zero_copy_only=False).astype(np.float64)
    if texts.null_count:
        codes[texts.is_null().to_numpy(zero_copy_only=False)] = kind.missing
    return Encoded(codes, texts.null_count)


def _of_dictionary(array: pa.DictionaryArray, kind: Category) -> Encoded:
    """Encode the values of a dictionary once; nulls can hide in the values and in the indices."""
    of_values = _categories(array.dictionary, kind)
    table, missing = of_values.values, float(kind.missing) if kind.values else np.nan
    indices, gone = array.indices, None
    if indices.null_count:
        gone = indices.is_null().to_numpy(zero_copy_only=False)
        indices = indices.fill_null(0)
        table = table if len(table) else np.array([missing])
    at = indices.to_numpy()
    # Files may say anything, and negative numbers would count from the end.
    if len(at) and not (int(at.min()) >= 0 and int(at.max()) < len(table)):
        raise pa.ArrowInvalid("a dictionary has no value that it is asked for")
    values = table.take(at)
    if gone is not None:
        values[gone] = missing
    nulls = 0
    if gone is not None or of_values.nulls:
        nulls = int((np.isnan(values) if not kind.values else values == missing).sum())
    return Encoded(values, nulls, of_values.texts)


@lru_cache(maxsize=256)
def _vocabulary(kind: Category) -> pa.Array:
    return pa.array(kind.values, pa.large_string())


def as_texts(array: pa.Array) -> pa.Array:
    """Return values as text; NaN is a missing value."""
    kind = array.type
    if pa.types.is_large_string(kind):
        return array
    if pa.types.is_decimal(kind):
        array, kind = array.cast(pa.float64()), pa.float64()
    if not pa.types.is_floating(kind):
        return array.cast(pa.large_string())
    array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    # 5.0 is 5, there is but one zero, and 10,000,000 is not 1e+07.
    whole = pc.and_(pc.equal(array, pc.trunc(array)), pc.less(pc.abs(array), pa.scalar(_WHOLE, kind)))
    numbers = pc.if_else(whole, array, pa.scalar(0.0, kind)).cast(pa.int64())
    return pc.if_else(whole, numbers.cast(pa.large_string()), array.cast(pa.large_string()))


def _digests(texts: pa.Array) -> Encoded:
    coded = texts.dictionary_encode()
    known = coded.dictionary.to_pylist()
    digests = [digest_of(text) for text in known]
    at = coded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = np.array([*digests, np.nan])[at] if digests else np.full(len(texts), np.nan)
    values[coded.indices.is_null().to_numpy(zero_copy_only=False)] = np.nan
    short = {at: text for at, text in zip(digests, known, strict=True) if len(text.encode()) <= LONGEST_VALUE}
    return Encoded(values, texts.null_count, short)


def digest_of(text: str) -> float:
    """Return 52 bits that identify a value, as a number."""
    return float(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 12)


# ---- texts


def _places(array: pa.Array) -> Floats:
    """Return the places of texts; equal ones are looked at once."""
    if pa.types.is_dictionary(array.type):
        # Of a dictionary, only what is used; nulls can hide in the values and in the indices.
        indices = array.indices.dictionary_encode()
        used = array.dictionary.take(indices.dictionary.cast(pa.int64()))
        return _taken(_places(used), indices.indices)
    coded = as_texts(array).dictionary_encode()
    return _taken(text_vectors(coded.dictionary.to_pylist()), coded.indices)


def _taken(places: Floats, indices: pa.Array) -> Floats:
    """Return the places at some indices, NaN where these are null."""
    at = indices.fill_null(len(places)).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(np.concatenate([places, np.full((1, places.shape[1]), np.nan)])[at])


# ---- times


def seconds(array: pa.Array) -> Floats:
    """Return times as seconds since 1970 on the clock of their zone; times of the day since midnight."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            array = pc.local_timestamp(array)
        return _floats(array.cast(pa.timestamp(kind.unit)).cast(pa.int64())) / _PER_SECOND[kind.unit]
    if pa.types.is_date32(kind):
        return _floats(array.cast(pa.int32())) * _DAY
    if pa.types.is_date64(kind):
        return _floats(array.cast(pa.int64())) / _PER_SECOND["ms"]
    integer = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    return _floats(array.cast(integer)) / _PER_SECOND[kind.unit]


def _floats(array: pa.Array) -> Floats:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)
