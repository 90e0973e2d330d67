"""JSON and TOML that anybody may have written: read as plain values, or refused with a ValueError.

Refused is what no writer of ours makes, and what would be trouble far from here: NaN and infinities, text
that is no Unicode, and nesting so deep that Python's recursion ends.
"""

from __future__ import annotations

import json
import math
import tomllib
from typing import Any, NoReturn

# The deepest that we write has eight levels.
_DEEPEST = 64
_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep"


def from_json(content: bytes | str) -> Any:
    """Return the value of JSON text."""
    try:
        value = json.loads(content, parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _require_plain(value)
    return value


def from_toml(content: bytes | str) -> dict[str, Any]:
    """Return the tables of TOML text, which may hold dates, `inf` and `nan`."""
    try:
        tables = tomllib.loads(content if isinstance(content, str) else content.decode("utf-8"))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _require_plain(tables, finite=False)
    return tables


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities, which are JSON to Python only."""
    raise ValueError(f"it holds {name}")


def _require_plain(value: Any, *, finite: bool = True) -> None:
    """Raise ValueError for what is nested too deeply, not finite, or no Unicode."""
    level = [value]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.keys()
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif isinstance(each, str):
                _require_unicode(each)
            elif finite and isinstance(each, float) and not math.isfinite(each):  # such as 1e999
                raise ValueError("it holds a number beyond all that can be represented")
        if not inner:
            return
        level = inner
    raise ValueError(_TOO_DEEP)


def _require_unicode(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no character") from None
