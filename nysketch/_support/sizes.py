"""Sizes of memory as people write them: 512MB, 2GB, 1.5 GiB."""

from __future__ import annotations

import re


def bytes_of(text: str) -> int:
    """Return the number of bytes that a text like 512MB denotes; raise ValueError if it denotes none."""
    match = re.fullmatch(r"([0-9.]+)\s*([kMGT]?)(i?)B?", text.strip())
    try:
        number = float(match.group(1)) if match else 0.0
    except ValueError:
        number = 0.0
    if match is None or number <= 0:
        raise ValueError(f"{text!r} is not a size like 512MB or 2GiB")
    base = 1024 if match.group(3) else 1000
    return int(number * base ** " kMGT".index(match.group(2) or " "))
