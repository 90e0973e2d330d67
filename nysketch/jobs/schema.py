"""The tables and keys of a job file: what each must be, and what it is if it is not there.

Whether settings make sense together is config.py's business.
"""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nysketch._support.sizes import bytes_of
from nysketch.errors import UsageError

Check = Callable[[Any], Any]
_LARGEST = 2**63 - 1
# Of a name, and of a path with the directory of the job file in front.
_LONGEST_NAME, _LONGEST = 255, 3500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,199}")

# How the name of a report ends.
PAGES = (".html", ".htm")


class _NotAChoiceError(ValueError):
    """A word that is none of those allowed; the message lists them, and what was probably meant."""


@dataclass(frozen=True)
class Key:
    """One setting: `check` returns the value to use, or raises ValueError with what it must be."""

    check: Check
    default: Any = None


# ---- what values can be ------------------------------------------------------------------------------


def text(value: Any) -> str:
    """Take any text but an empty one."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a string")
    if "\0" in value:  # it may be a path
        raise ValueError("must be a string without null characters")
    return value


def path(value: Any) -> str:
    """Take what can be the path of a file."""
    if any(len(part.encode()) > _LONGEST_NAME for part in text(value).split("/")) or len(value) > _LONGEST:
        raise ValueError(f"must be a path, with names of at most {_LONGEST_NAME} bytes")
    return str(value)


def name(value: Any) -> str:
    """Take what can also be the name of a file."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            "must be a name of letters, digits and any of . _ = + - that starts with a letter or digit, and "
            "has at most 200 of them"
        )
    return value


def page(value: Any) -> str:
    """Take the name of an HTML file."""
    if not path(value).lower().endswith(PAGES):
        raise ValueError("must be the name of an HTML file: end it in .html")
    return str(value)


def texts(value: Any) -> list[str]:
    """Take one text or a list of them."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise ValueError("must be a string or a list of strings")
    return [text(item) for item in items]


def flag(value: Any) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def count(least: int = 0) -> Check:
    """Take whole numbers from `least`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"must be a whole number, {least} or more")
        if value > _LARGEST:
            raise ValueError(f"must be at most {_LARGEST}")
        return value

    return check


def number(low: float, high: float = math.inf, *, open_ends: bool = False) -> Check:
    """Take numbers from `low` to `high`, or between them."""

    def check(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fits or not math.isfinite(value) or (open_ends and value in (low, high)):
            between = f"between {low:g} and {high:g}" if open_ends else f"{low:g} or more"
            raise ValueError(f"must be a number {between}")
        return float(value)

    return check


def choice(*allowed: str) -> Check:
    """Take one of some words."""

    def check(value: Any) -> str:
        if value not in allowed:
            words = ", ".join(map(repr, allowed))
            raise _NotAChoiceError(f"must be one of {words}{_suggest(value, allowed)}")
        return str(value)

    return check


def memory(value: Any) -> str:
    """Take a size like 512MB."""
    try:
        bytes_of(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("must be a size like 512MB or 2GiB") from None
    return str(value)


def count_or(word: str, least: int = 1) -> Check:
    """Take a whole number, or one word."""

    def check(value: Any) -> Any:
        if value == word:
            return word
        try:
            return count(least)(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {word!r}") from None

    return check


def numbers(value: Any) -> int | str:
    """Take a number of clusters, or a range of them such as "2:8"."""
    first, colon, last = str(value).partition(":")
    fits = first.isdecimal() and (not colon or last.isdecimal()) and not isinstance(value, bool)
    if not fits or not 1 <= int(first) <= int(last or first):
        raise ValueError('must be a whole number, 1 or more, or a range such as "2:8"')
    return f"{first}:{last}" if colon else int(first)


def per_group(value: Any) -> str | dict[str, str]:
    """Take one value for all groups of columns, or a table with one for each."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, dict) and value:
        return {key: str(per_group(inner)) for key, inner in value.items()}
    try:
        return text(value)
    except ValueError:
        raise ValueError("must be a string, or a table with one string per group") from None


def groups(value: Any) -> dict[str, list[str]]:
    """Take a table of groups of columns."""
    if not isinstance(value, dict) or not value:
        raise ValueError('must be a table such as { x = ["a", "b"], y = ["c"] }')
    return {key: texts(columns) for key, columns in value.items()}


def kinds(value: Any) -> dict[str, str]:
    """Take a table of kinds of columns."""
    if not isinstance(value, dict) or not value:
        raise ValueError('must be a table such as { price = "log", zip = "category" }')
    return {column: ",".join(texts(kind)) for column, kind in value.items()}


def factors(value: Any) -> dict[str, float]:
    """Take a table of numbers by column."""
    if not isinstance(value, dict) or not value:
        raise ValueError("must be a table such as { price = 2 }")
    return {key: number(0)(factor) for key, factor in value.items()}


# ---- the tables --------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, Key]] = {
    "job": {
        "name": Key(text),  # the name of the job file
        "store": Key(path),
        "threads": Key(count(1)),
        "memory": Key(memory),
        "lock_wait": Key(number(0), 0.0),
        "checkpoint_every": Key(number(0), 30.0),
        "verify_every": Key(count(1), 30),
    },
    "inputs": {
        "paths": Key(texts),
        "partition": Key(text),
        "ignore": Key(texts, []),
        "settle": Key(number(0), 0.0),
        "digest": Key(choice("ends", "content"), "ends"),
        "columns": Key(texts),
        "exclude": Key(texts, []),
        "weights": Key(text),
        "nulls": Key(choice("auto", "error", "drop", "keep"), "auto"),
        "dataset": Key(texts, []),
        "allow_external": Key(flag, False),
        "retries": Key(count(), 4),
        "timeout": Key(number(0), 30.0),
    },
    "basis": {
        "file": Key(path),
        "partitions": Key(count(1), 1),
        "landmarks": Key(count_or("auto"), 1000),
        "max_landmarks": Key(count(1), 2000),
        "sampling": Key(text, "kmeans++"),
        "features": Key(text, "nystrom"),
        "frequencies": Key(text, "gaussian"),
        "kernel": Key(per_group, "gaussian"),
        "bandwidth": Key(per_group, "auto"),
        "degree": Key(count(1), 2),
        "offset": Key(number(-math.inf), 1.0),
        "length": Key(count(1), 3),
        "decay": Key(number(0), 0.5),
        "groups": Key(groups),
        "kinds": Key(kinds),
        "emphasis": Key(factors),
        "scale": Key(choice("auto", "standard", "robust", "none"), "auto"),
        "pilot_rows": Key(count(1)),
    },
    "sketch": {
        "blocks": Key(count(1), 64),
        "seed": Key(count(), 0),
        "precision": Key(choice("float32", "float64"), "float32"),
        "sample_rows": Key(count()),
        "cells": Key(flag, True),
        "far_rows": Key(count()),
        "spans": Key(count(), 64),
        "permutations": Key(count(), 500),
        "permutation_rows": Key(count()),
        "pairs": Key(flag, False),
        "second_moments": Key(flag, False),
    },
    "drift": {"adjust": Key(choice("holm", "bh", "none"), "holm")},
    "retention": {
        "partitions": Key(count_or("all"), "all"),
        "retired": Key(choice("sum", "forget"), "sum"),
    },
    "removed": {"policy": Key(choice("keep", "drop"), "keep")},
    "report": {"output": Key(page)},
}

LISTS: dict[str, dict[str, Key]] = {
    "windows": {"name": Key(name), "last": Key(count_or("all"), "all")},
    "models": {
        "name": Key(name),
        "kind": Key(choice("kmeans", "gmm")),
        "k": Key(numbers),
        "window": Key(name),
        "output": Key(path),
        "covariance": Key(choice("spherical", "diag", "full")),
        "decoder": Key(choice("auto", "cells", "quadrature", "clomp", "shift"), "auto"),
        "trials": Key(count(1)),
        "seed": Key(count(), 0),
        "robust": Key(count_or("auto", 3)),
    },
    "comparisons": {
        "name": Key(name),
        "against": Key(choice("previous", "weekday", "year", "reference")),
        "reference": Key(path),
        "alarm": Key(flag, False),
        "alpha": Key(number(0, 1, open_ends=True), 0.05),
        "at_least": Key(number(0), 0.0),
        "test": Key(choice("auto", "permutation", "bootstrap", "none"), "auto"),
        "permutations": Key(count(1)),
        "blocks": Key(choice("auto", "random", "consecutive"), "auto"),
        "robust": Key(count_or("auto", 3)),
        "robust_method": Key(choice("trim", "geometric-median", "bcd", "bcd-fast"), "trim"),
        "seed": Key(count(), 0),
    },
}

# Settings of a sketch that files store by other names: see FORMAT.md.
STORED_NAMES = {"spans": "runs", "permutations": "shuffles", "permutation_rows": "shuffle_rows"}

# What people may write who know the Python names, or the flags.
_SYNONYMS = {
    "m": "landmarks",
    "scaling": "scale",
    "group": "groups",
    "kind": "kinds",
    "datasets": "dataset",
    "path": "paths",
    "input": "inputs",
    "window": "windows",
    "model": "models",
    "comparison": "comparisons",
    "compare": "comparisons",
    "adjust": "adjust in [drift]",
    "min_mmd": "at_least",
}


def unknown(what: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error of a name that does not exist, with the one that was probably meant."""
    known = list(known)
    return UsageError(f"{what} {key!r} is unknown{_suggest(key, known) or '; known are ' + ', '.join(known)}")


def _suggest(value: Any, known: Iterable[str]) -> str:
    word, known = str(value).replace("-", "_"), list(known)
    meant = _SYNONYMS.get(word, "")
    close = [meant] if meant.split(" ")[0] in (*known, "adjust") and meant else []
    close = close or difflib.get_close_matches(word, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def checked(where: str, table: Any, keys: Mapping[str, Key]) -> dict[str, Any]:
    """Return the settings of one table, with those that are not there at their defaults."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} must be a table of settings, not {reprlib.repr(table)}")
    found = {key: setting.default for key, setting in keys.items()}
    for given, value in table.items():
        key = given.replace("-", "_")
        if key not in keys:
            raise unknown(f"{where}: key", given, keys)
        found[key] = checked_value(f"{where} {key}", value, keys[key])
    return found


def checked_value(where: str, value: Any, key: Key) -> Any:
    """Return one setting, or say what it must be."""
    try:
        return key.check(value)
    except _NotAChoiceError as error:
        raise UsageError(f"{where} {error}") from None
    except ValueError as error:
        raise UsageError(f"{where} {error}, not {reprlib.repr(value)}") from None
