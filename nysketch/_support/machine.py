"""How much memory there is: that of the machine, or what its container may use of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# A part of what there is, so that a pass disturbs nobody; but no less than most passes need.
_SHARE, _LEAST = 8, 512 * 10**6


def default_memory() -> int:
    """Return the memory a pass may take unless it is told: an eighth of what there is, 512 MB at least."""
    return max(available_memory() // _SHARE, _LEAST)


def available_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process can have at most; 0 if nobody knows.

    `root` is where `proc` and `sys` are found.
    """
    limits = list(_cgroup_limits(root))
    if hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit > 0), default=0)


def _cgroup_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, and of those around them.

    In a container, the path of a group may be that outside of it: then the group is at the top.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":  # version 2
            top, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        path = PurePosixPath(group.lstrip("/"))
        for part in (path, *path.parents):
            for text in _lines(top / part / name):
                if text.isdecimal():  # version 2 has "max" for none, version 1 a number beyond all machines
                    yield int(text)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
