"""Cancelling: whoever runs some work says how to ask whether to go on, and slow steps inside ask it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Per thread: what to call while waiting; it raises once nobody wants the rows any more.
_asking = threading.local()


@contextmanager
def stoppable(check: Callable[[], None]) -> Iterator[None]:
    """Let `check` end the waits of this thread, and the attempts that would follow them, by an exception."""
    before = getattr(_asking, "check", None)
    _asking.check = check
    try:
        yield
    finally:
        _asking.check = before


def check_stopped() -> None:
    if (check := getattr(_asking, "check", None)) is not None:
        check()
