"""How freed memory is given back to the system: at once, or when an allocator likes.

What a process holds is what it may be killed for. pyarrow's default allocator keeps what one thread freed for
that thread: two threads that read in turn held twice as much as was in use, and it took more CPU time.
"""

from __future__ import annotations

import ctypes
import os
import sys

# Milliseconds until freed memory is given back. 0 takes three times the CPU time where pages are large.
_DECAY = "dirty_decay_ms:10,muzzy_decay_ms:0"


def choose_allocator() -> None:
    """Choose what holds Arrow's memory in this process and its children, unless someone has chosen.

    It has an effect only before pyarrow is imported; so it is for programs, not for libraries.
    """
    if sys.platform != "linux":  # where pyarrow may come without it
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", _DECAY)


def give_back() -> None:
    """Give back what was freed, between two kinds of work: the next would take its own beside it.

    After a pilot of 5,000 columns, 200 MB that nobody used were still held.
    """
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # other C libraries than GNU's have none
        if trim is not None:
            trim(0)
