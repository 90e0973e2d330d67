"""The JSON files of a store: the shape of each, and the check that a file has it.

Whoever reads one (store_io.read_json) says which it is, and gets values of these types or an error that
names the file and the place in it: nobody who uses them looks again. What older versions did not write has a
default. Keys that are not listed here are kept: newer versions may write more.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any], Any]
_REQUIRED = object()
# Whole numbers are those of the sketch format.
_LARGEST = 2**63 - 1
# Distances, errors, shifts: beyond this, their squares are no numbers any more.
_HUGE = 1e150
_LONGEST_NAME = 255


class MisfitError(ValueError):
    """A value that is not what it must be, and where it is."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(f"{place.removeprefix('.') or 'the whole'} {what}")
        self.what, self.place = what, place

    def inside(self, place: str) -> MisfitError:
        """Return the same error, of a value that is at this place of another one."""
        return MisfitError(self.what, place + self.place)


@dataclass(frozen=True)
class Field:
    """One key of an object, with the value it has in files that lack it."""

    check: Check
    default: Any = _REQUIRED


def _must(be: str, value: Any) -> MisfitError:
    return MisfitError(f"must be {be}, not {reprlib.repr(value)}")


# ---- values --------------------------------------------------------------------------------------------


def text(value: Any) -> str:
    """Take any text."""
    if not isinstance(value, str):
        raise _must("text", value)
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, of which models may hold some
        raise _must("text", ascii(value)) from None
    return str(value)


def file_name(value: Any) -> str:
    """Take the name of a partition or window, which is that of a file, too."""
    if not text(value) or value[0] == "." or set(value) & {"/", "\0"}:
        raise _must("the name of a file", value)
    if len(value.encode()) > _LONGEST_NAME:
        raise MisfitError(f"must have at most {_LONGEST_NAME} bytes")
    return str(value)


def flag(value: Any) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise _must("true or false", value)
    return value


def integer(value: Any) -> int:
    """Take a whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise _must("a whole number", value)
    return value


def count(value: Any) -> int:
    """Take a whole number that is not negative."""
    if integer(value) < 0:
        raise _must("a whole number, 0 or more", value)
    return int(value)


def number(value: Any) -> float:
    """Take a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _HUGE:
        raise _must("a number", value)
    return value


def measure(value: Any) -> float:
    """Take a finite number that is not negative."""
    if number(value) < 0:
        raise _must("a number, 0 or more", value)
    return float(value)


def probability(value: Any) -> float:
    """Take a number from 0 to 1."""
    if not 0 <= number(value) <= 1:
        raise _must("a number from 0 to 1", value)
    return float(value)


def anything(value: Any) -> Any:
    """Take whatever is there: it is only compared, or printed as JSON."""
    return value


def or_none(check: Check) -> Check:
    """Take null, too."""
    return lambda value: None if value is None else check(value)


def list_of(check: Check, *, length: int | None = None) -> Check:
    """Take a list."""

    def checked(value: Any) -> list[Any]:
        if not isinstance(value, list) or length not in (None, len(value)):
            raise _must("a list" if length is None else f"a list of {length}", value)
        return [_inside(f"[{index}]", check, each) for index, each in enumerate(value)]

    return checked


def map_of(check: Check, *, keys: Check = text) -> Check:
    """Take an object with any keys, all of whose values are alike."""

    def checked(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _must("an object", value)
        return {_inside("", keys, key): _inside(f".{key}", check, each) for key, each in value.items()}

    return checked


def record(fields: Mapping[str, Field], *, fill: bool = True) -> Check:
    """Take an object with certain keys; those that it lacks get their defaults, if asked to."""

    def checked(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _must("an object", value)
        found = dict(value)
        for key, field in fields.items():
            if key in value:
                found[key] = _inside(f".{key}", field.check, value[key])
            elif field.default is _REQUIRED:
                raise MisfitError("is missing", f".{key}")
            elif fill:
                found[key] = field.default
        return found

    return checked


def _inside(place: str, check: Check, value: Any) -> Any:
    try:
        return check(value)
    except MisfitError as error:
        raise error.inside(place) from None


# ---- the files -----------------------------------------------------------------------------------------

STORE = record(
    {"schema_version": Field(integer), "name": Field(text), "settings": Field(map_of(map_of(anything)))}
)

_INPUT = record(
    {
        "path": Field(text),
        "bytes": Field(count),
        "mtime_ns": Field(or_none(integer)),
        "digest": Field(or_none(text)),
    }
)
_QUALITY = record(
    {
        "advice": Field(list_of(text), []),
        "kernel_error": Field(or_none(number), None),
        "mean_residual": Field(or_none(number), None),
        "projection_error": Field(or_none(number), None),
        "sampling_error": Field(or_none(number), None),
    },
    fill=False,
)
PARTITION = record(
    {
        "name": Field(text),
        "inputs": Field(list_of(_INPUT)),
        "rows": Field(count),
        "dropped_rows": Field(count),
        "request": Field(text),
        "sketch": Field(text),
        "quality": Field(or_none(_QUALITY), None),
        "notes": Field(list_of(text), []),
    }
)

_MEMBERS = map_of(text, keys=file_name)  # partition → digest of its sketch
WINDOW = record(
    {
        "partitions": Field(list_of(file_name)),
        "members": Field(_MEMBERS),
        "steps": Field(count),
        "digest": Field(text),
        "rows": Field(or_none(count), None),
    }
)
# Without a sum of them, there is no digest.
RETIRED = record(
    {
        "partitions": Field(list_of(file_name)),
        "members": Field(_MEMBERS),
        "digest": Field(or_none(text), None),
    }
)

# What the sum of partitions has, of a window or of retired ones.
DIGEST = record({"digest": Field(or_none(text), None)})

_COLUMN = record(
    {
        "name": Field(text),
        "shift": Field(or_none(number), None),
        "error": Field(or_none(number), None),
        "words": Field(or_none(text), None),
    }
)
_COMPARISON = record(
    {
        "against": Field(text),
        "at_least": Field(measure, 0.0),
        "columns": Field(list_of(_COLUMN)),
        "detectable": Field(or_none(measure), None),
        "mmd": Field(measure),
        "name": Field(text, None),  # older: that which it is against
        "notes": Field(list_of(text), []),
        "other": Field(text),
        "p_value": Field(or_none(probability)),
        "rejected": Field(flag),
        "rows": Field(list_of(count, length=2)),
        "sketches": Field(list_of(text, length=2), ["", ""]),
        "standard_error": Field(or_none(measure), None),
        "threshold": Field(or_none(number), None),
        "undecided": Field(or_none(flag), None),
        "verdict": Field(or_none(text), None),
    }
)


def _comparison(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = _COMPARISON(value)
    return found | {"name": found["name"] or found["against"]}


DRIFT = record(
    {
        "comparisons": Field(list_of(_comparison)),
        "errors": Field(list_of(text), []),
        "failed": Field(list_of(text), []),
        "request": Field(text, ""),
    }
)

ALARMS = record(
    {
        "partitions": Field(
            map_of(
                record(
                    {
                        "failed": Field(list_of(text), []),
                        "others": Field(map_of(text), {}),
                        "sketch": Field(text),
                    }
                )
            )
        )
    }
)

REPORT = record({"output": Field(text), "state": Field(text)})

# What a model remembers of the run that learned it, among its facts.
_LEARNED = record({"newest": Field(file_name), "request": Field(text), "window": Field(file_name)})
_BY_HAND = {"newest": None, "request": None, "window": None}
MODEL_FACTS = record({"nightly": Field(_LEARNED, _BY_HAND), "rows": Field(or_none(count), None)})

# A line of the history; commands show it, and no run depends on more of it than what was ignored.
RUN = record(
    {
        "alarms": Field(list_of(anything), []),
        "errors": Field(list_of(text), []),
        "exit_code": Field(or_none(integer), None),
        "ignored": Field(list_of(text), []),
        "rows": Field(count, 0),
        "seconds": Field(or_none(measure), None),
        "skipped": Field(map_of(text), {}),
        "started": Field(or_none(text), None),
        **{each: Field(list_of(text), []) for each in ("new", "changed", "removed")},
    }
)
