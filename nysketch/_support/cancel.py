"""Cancelling: a token that a thread carries, so that waits deep inside a read can be ended.

An engine wraps the work of each of its threads in `stoppable(check)`, where `check` raises once the result is
no longer wanted: after Ctrl-C, or an error elsewhere. Code that waits, such as the backoff in
sources/retry.py, calls `check_stopped` now and then. The two need not know each other, and the functions
between them need not pass the token on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# The `check` of each thread, if it has one.
_token = threading.local()


@contextmanager
def stoppable(check: Callable[[], None]) -> Iterator[None]:
    """Have `check_stopped` call `check` in this thread, until the block ends."""
    before = getattr(_token, "check", None)
    _token.check = check
    try:
        yield
    finally:
        _token.check = before


def check_of_thread() -> Callable[[], None]:
    """Return the `check` of this thread, for another thread that does some of its work."""
    check: Callable[[], None] | None = getattr(_token, "check", None)
    return check if check is not None else lambda: None


def check_stopped() -> None:
    """Raise what the `check` of this thread raises, if its work was cancelled; without one, return."""
    if (check := getattr(_token, "check", None)) is not None:
        check()
