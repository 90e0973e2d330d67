"""Which partition a file belongs to: by the date in its path, by hive keys, or by its own name.

Names of partitions are made so that their order is the order of time: dates as 2024-02-01, numbers of hive
keys with two digits or more.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from urllib.parse import quote

from nysketch.errors import InputError, UsageError
from nysketch.sources.filesystems import without_secrets
from nysketch.sources.locations import Location

FILE, DATE, HIVE = "file", "date", "hive:"
_DEFAULT_FORMAT = "%Y-%m-%d"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_DIGITS = {"Y": 4, "m": 2, "d": 2, "H": 2}
# By how fine the date is: the name of a partition.
_NAMES = {"Y": "%Y", "m": "%Y-%m", "d": "%Y-%m-%d", "H": "%Y-%m-%dT%H"}
_SUFFIXES = re.compile(r"\.(parquet|pq|h5|hdf5|hdf|he5|feather|arrow|ipc|csv|gz|bz2|zst|lz4)$", re.IGNORECASE)
# Formats that the name of a partition may have, whoever chose it.
_KNOWN = {"%Y-%m-%dT%H": "H", "%Y-%m-%d": "d", "%Y%m%d": "d", "%Y-%m": "m", "%Y%m": "m", "%Y": "Y"}
# File names have up to 255 bytes, and suffixes and temporary ones add to a name.
_LONGEST = 200


def safe(name: str) -> str:
    """Return a name that can be that of a file: other letters become %XX."""
    name = quote(name, safe=" =+,@()'")
    return "%2E" + name[1:] if name.startswith(".") else name


# ---- templates ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A path with `{date}` in it, as a glob and as a pattern that finds the date.

    `wider` is a glob for the same path with anything in place of the date.
    """

    text: str
    glob: str
    wider: str
    pattern: re.Pattern[str]
    directives: tuple[str, ...]  # of the groups of the pattern: Y, m, d, H

    def date_of(self, location: Location) -> str:
        """Return the date in the path of a file, as the name of a partition."""
        found = self.pattern.search(location.name)
        if found is None:
            raise InputError(f"{location}: does not match {self.text}")
        values: dict[str, str] = {}
        for directive, value in zip(self.directives, found.groups(), strict=True):
            if values.setdefault(directive, value) != value:
                raise InputError(
                    f"{location}: contradictory dates: %{directive} is {values[directive]} and {value}"
                )
        number = {key: int(value) for key, value in values.items()}
        try:
            date = datetime.datetime(number["Y"], number.get("m", 1), number.get("d", 1), number.get("H", 0))
        except ValueError as error:
            raise InputError(f"{location}: no date where {self.text} has one: {error}") from error
        finest = max(values, key="YmdH".index)
        return date.strftime(_NAMES[finest]).zfill(len("2000"))


def template(text: str) -> Template | None:
    """Return the template that a path is, or None if it has no `{date}`."""
    formats = _PLACEHOLDER.findall(text)
    if not formats:
        return None
    given = text.removeprefix("./").rstrip("/")
    text = without_secrets(text)  # as files are called, and messages may call it
    parts = _PLACEHOLDER.split(without_secrets(given))
    globs: list[str] = []  # of the placeholders
    pattern, directives = "" if "://" in text else "^", []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            pattern += _glob_as_pattern(part)
            continue
        globs.append("")
        name, colon, date_format = part.partition(":")
        if name != "date" or (colon and not date_format):
            raise UsageError(f"{text}: {{{part}}} is unknown; write {{date}} or {{date:%Y%m%d}}")
        for piece in re.split(r"(%.)", date_format or _DEFAULT_FORMAT):
            if not piece.startswith("%"):
                globs[-1] += piece
                pattern += re.escape(piece)
            elif piece[1:] in _DIGITS:
                digits = _DIGITS[piece[1:]]
                globs[-1] += "[0-9]" * digits
                pattern += f"([0-9]{{{digits}}})"
                directives.append(piece[1:])
            else:
                raise UsageError(f"{text}: {piece} is not allowed in {{date}}; use %Y, %m, %d and %H")
    coarser = "YmdH"[: max("YmdH".index(d) for d in directives) + 1] if directives else ""
    if not directives or any(d not in directives for d in coarser):
        raise UsageError(f"{text}: {{date}} needs the year, %Y, and every part down to its finest")
    remaining = iter(globs)
    glob_text = _PLACEHOLDER.sub(lambda _: next(remaining), given)
    try:
        wider = _PLACEHOLDER.sub("*", given)
        return Template(text, glob_text, wider, re.compile(pattern + "(?:/.*)?$"), tuple(directives))
    except re.error as error:
        raise UsageError(f"{text}: not a valid glob: {error}") from error


def _glob_as_pattern(text: str) -> str:
    """Return a glob as a regular expression; [...] is the same in both but for its negation."""
    pieces = re.split(r"(\*\*/?|\*|\?|\[[^]]+\])", text)
    known = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(
        known.get(piece) or (piece.replace("[!", "[^", 1) if piece.startswith("[") else re.escape(piece))
        for piece in pieces
    )


def partition_name(location: Location, partition: str, dated: Template | None) -> str:
    """Return the name of the partition that a file belongs to."""
    name = _partition_name(location, partition, dated)
    if len(name.encode()) > _LONGEST:
        raise InputError(f"{location}: the name of its partition would exceed {_LONGEST} bytes; rename it")
    return name


def _partition_name(location: Location, partition: str, dated: Template | None) -> str:
    if partition == DATE:
        assert dated is not None
        return dated.date_of(location)
    if partition == FILE:
        name = PurePosixPath(location.name).name
        while shorter := _SUFFIXES.sub("", name):
            if shorter == name:
                break
            name = shorter
        return safe(name)
    keys = [key.strip() for key in partition.removeprefix(HIVE).split(",")]
    found = location.partition
    for key in keys:
        if key not in found:
            raise InputError(
                f"{location}: its path has no directory {key}=…, which [inputs] partition asks for"
            )
    return safe("-".join(found[key].zfill(2) if found[key].isdigit() else found[key] for key in keys))


def require_partition(partition: str | None, paths: Sequence[str]) -> str:
    """Return how files become partitions, by default that which the paths suggest; refuse nonsense."""
    dated = [template(path) is not None for path in paths]
    if partition is None:
        return DATE if all(dated) else FILE
    if partition == DATE and not all(dated):
        path = without_secrets(paths[dated.index(False)])
        raise UsageError(f'[inputs] partition = "date", but there is no {{date}} in {path}')
    keys = partition.removeprefix(HIVE) if partition.startswith(HIVE) else "-"
    if partition not in (FILE, DATE) and (keys == "-" or not all(key.strip() for key in keys.split(","))):
        raise UsageError(
            f'[inputs] partition must be "file", "date" or "hive:KEY" (several: "hive:year,month"), '
            f"not {partition!r}"
        )
    return partition


# ---- names that are dates ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Period:
    """The time that a partition covers: its beginning, and Y, m, d or H for how long it is."""

    start: datetime.datetime
    unit: str

    @property
    def next(self) -> Period:
        """The one after it."""
        start = self.start
        if self.unit == "Y":
            return Period(start.replace(year=start.year + 1), "Y")
        if self.unit == "m":
            return Period((start.replace(day=1) + datetime.timedelta(days=32)).replace(day=1), "m")
        return Period(start + datetime.timedelta(**{"days" if self.unit == "d" else "hours": 1}), self.unit)

    @property
    def a_year_before(self) -> Period | None:
        """The same time of the year before; there may be none, of the 29th of February."""
        try:
            return Period(self.start.replace(year=self.start.year - 1), self.unit)
        except ValueError:
            return None


def period(name: str) -> Period | None:
    """Return the time that a partition covers, if its name is a date."""
    for date_format, unit in _KNOWN.items():
        try:
            start = datetime.datetime.strptime(name, date_format)
        except ValueError:
            continue
        if start.strftime(date_format) == name:
            return Period(start, unit)
    return None


def gaps(names: Iterable[str], *, most: int = 1000) -> list[str]:
    """Return the dates that are missing between the first and the last; none if names are no dates."""
    periods = [period(name) for name in names]
    known = sorted({p for p in periods if p is not None}, key=lambda p: p.start)
    if len(known) < len(periods) or len({p.unit for p in known}) != 1:
        return []
    missing: list[str] = []
    for before, after in pairwise(known):
        following = before.next
        while following.start < after.start and len(missing) < most:
            missing.append(following.start.strftime(_NAMES[following.unit]))
            following = following.next
    return missing
