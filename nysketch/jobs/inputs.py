"""What there is to read: files by partition, and how to tell whether one has changed.

A file is what it was if its size and time of change are, and its inode has been left alone; or, where only
these differ, if a digest of both its ends and of a Parquet file's whole footer is the same.
"""

from __future__ import annotations

import datetime
import fnmatch
import hashlib
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nysketch.errors import InputError, NoFilesError, UsageError
from nysketch.jobs.partition_names import partition_name, template
from nysketch.sources.expand import expand
from nysketch.sources.filesystems import without_secrets
from nysketch.sources.locations import Location
from nysketch.sources.retry import RetryPolicy, retry_policy_of

_END_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20
# A footer that claims to be larger is no footer.
_MAX_FOOTER_BYTES = 256 << 20
_PARQUET = b"PAR1"

# What a store remembers of an input: path, bytes, mtime_ns, digest.
InputRecord = dict[str, Any]


@dataclass
class Scan:
    """The files that a job means, by partition, in order; and what was left aside."""

    partitions: dict[str, list[Location]] = field(default_factory=dict)
    unmatched: list[str] = field(default_factory=list)  # paths that match nothing
    ignored: list[str] = field(default_factory=list)  # files beside those with a date, which have none
    unsettled: list[str] = field(default_factory=list)  # files that may still be written
    waiting: set[str] = field(default_factory=set)  # their partitions
    problems: dict[str, str] = field(default_factory=dict)  # path → what is wrong with it

    @property
    def files(self) -> int:
        """How many files there are."""
        return sum(map(len, self.partitions.values()))


def scan(inputs: Mapping[str, Any], *, base: Path | None = None, now: float | None = None) -> Scan:
    """Look up the files that `[inputs]` names, relative to the directory `base`; no rows are read."""
    found = Scan()
    located: list[tuple[Location, Any]] = []
    retry, trusted = retry_policy_of(inputs["retries"], inputs["timeout"]), inputs["allow_external"]
    for path in inputs["paths"]:
        dated = template(path)
        try:
            locations = expand(
                [path if dated is None else dated.glob], retry, base=base, allow_external=trusted
            )
        except NoFilesError:
            found.unmatched.append(without_secrets(path))
            continue
        except InputError as error:
            found.problems[without_secrets(path)] = str(error)
            continue
        located += [(location, dated) for location in locations]
    _require_once([location for location, _ in located])
    found.ignored = _without_date(inputs, {location.name for location, _ in located}, retry, base)
    now = time.time() if now is None else now
    for location, dated in located:
        if any(fnmatch.fnmatchcase(location.name, pattern) for pattern in inputs["ignore"]):
            continue
        try:
            name = partition_name(location, inputs["partition"], dated)
            if inputs["settle"] and _age(location, now) < inputs["settle"]:
                found.waiting.add(name)
                _require_past(location, now + inputs["settle"])
                found.unsettled.append(location.name)
                continue
        except InputError as error:
            found.problems[location.name] = str(error)
            continue
        found.partitions.setdefault(name, []).append(location)
    if inputs["partition"] == "file":
        _require_one_each(found.partitions)
    # A partition waits for all of its files: without one of them it would be another.
    found.partitions = {
        name: found.partitions[name] for name in sorted(found.partitions) if name not in found.waiting
    }
    return found


def _without_date(
    inputs: Mapping[str, Any], known: set[str], retry: RetryPolicy, base: Path | None
) -> list[str]:
    """Return the files that are called as a path with a date is, but for the date: nobody else reads them."""
    found: set[str] = set()
    for dated in filter(None, map(template, inputs["paths"])):
        try:
            found |= {
                location.name
                for location in expand(
                    [dated.wider], retry, base=base, allow_external=inputs["allow_external"]
                )
            }
        except InputError:  # they are none of our business
            continue
    ignore = inputs["ignore"]
    strays = (name for name in found - known if not any(fnmatch.fnmatchcase(name, one) for one in ignore))
    return sorted(strays)


def _require_once(locations: Sequence[Location]) -> None:
    seen: set[str] = set()
    for location in locations:
        if location.name in seen:
            raise UsageError(f"{location}: matches two of [inputs] paths; its rows would be counted twice")
        seen.add(location.name)


def _require_one_each(partitions: Mapping[str, Sequence[Location]]) -> None:
    for name, locations in partitions.items():
        if len(locations) > 1:
            raise UsageError(
                f"{locations[0]} and {locations[1]} would both become the partition {name!r}. Put a "
                '{date} into [inputs] paths, or say partition = "hive:KEY"'
            )


def _age(location: Location, now: float) -> float:
    """Return how long ago a file was changed, in seconds."""
    changed = location.last_change(now)
    return float("inf") if changed is None else now - changed / 1e9


def _require_past(location: Location, latest: float) -> None:
    """Raise an InputError if a file is dated so late that waiting for it to settle would not end."""
    changed = (location.last_change(latest) or 0) / 1e9
    if changed > latest:
        date = datetime.datetime.fromtimestamp(changed, datetime.UTC).isoformat(" ", "minutes")
        raise InputError(
            f"{location}: is dated in the future ({date}), so [inputs] settle cannot tell whether it is "
            "complete. Correct its date (touch), or the clock"
        )


# ---- fingerprints ------------------------------------------------------------------------------------


def fingerprints(
    locations: Sequence[Location], known: Sequence[InputRecord], *, content: bool = False
) -> list[InputRecord]:
    """Return what to remember of files; those that are `known` and look the same are not read again."""
    before = {item["path"]: item for item in known}
    return [_fingerprint(location, before.get(location.name), content) for location in locations]


def altered_since(locations: Sequence[Location], moment: int) -> bool:
    """Tell whether the inode of a local file has changed since then, in nanoseconds, whatever its date.

    It does with the content, and also with permissions and links.
    """
    inodes = (location.inode() for location in locations)
    return any(inode is not None and inode[-1] >= moment for inode in inodes)


def _fingerprint(location: Location, before: InputRecord | None, content: bool) -> InputRecord:
    info = location.info()
    record = {"path": location.name, "bytes": info.size, "mtime_ns": info.mtime_ns}
    looks_the_same = before is not None and all(before.get(key) == value for key, value in record.items())
    if before is not None and looks_the_same and info.mtime_ns is not None and before.get("digest"):
        return record | {"digest": before["digest"]}
    return record | {"digest": _digest(location, info.size, content)}


def _digest(location: Location, size: int, content: bool) -> str:
    try:
        with location.open() as file:
            if content:
                sha = hashlib.sha256()
                while chunk := file.read(_CHUNK_BYTES):
                    sha.update(chunk)
                return sha.hexdigest()[:32]
            sha = hashlib.sha256(file.read(_END_BYTES))
            end = max(min(_END_BYTES, size), size - max(_END_BYTES, _footer_bytes(file, size)))
            file.seek(end)
            sha.update(file.read(size - end))
    except (pa.ArrowException, OSError) as error:
        raise location.trouble("cannot read", error) from error
    return sha.hexdigest()[:32]


def _footer_bytes(file: Any, size: int) -> int:
    """Return how long the footer of a Parquet file is, with its length and magic; 0 for other files."""
    if size < 12:
        return 0
    file.seek(size - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    return length + 8 if magic == _PARQUET and length + 12 <= size and length < _MAX_FOOTER_BYTES else 0


def same_content(one: Sequence[InputRecord], other: Sequence[InputRecord]) -> bool:
    """Tell whether inputs are the same but for their times of change."""
    return _contents(one) == _contents(other)


def still_there(now: Sequence[InputRecord], before: Sequence[InputRecord]) -> bool:
    """Tell whether all that is there was there before, as it is: some inputs may have gone."""
    return _contents(now) <= _contents(before)


def _contents(inputs: Sequence[InputRecord]) -> set[tuple[Any, ...]]:
    return {(item["path"], item["bytes"], item["digest"]) for item in inputs}
