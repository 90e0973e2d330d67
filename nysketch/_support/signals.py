"""Ctrl-C and SIGTERM: a program that is stopped says so once, and exits with the code of the signal.

Loading the libraries takes a moment, and whatever is being loaded then may turn an interrupt into another
error. So the signal itself is remembered, and this module imports nothing that takes time.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from nysketch._support import streams

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt, nothing that catches Exception stops it."""


_seen: signal.Signals | None = None
_holding = 0


def seen() -> signal.Signals | None:
    """Return the signal that asked this program to stop, if one did."""
    return _seen


def check() -> None:
    """Raise what a signal raised once more: a library may have swallowed it in a callback."""
    if _seen is not None:
        raise KeyboardInterrupt if _seen is signal.SIGINT else Terminated


@contextmanager
def held() -> Iterator[None]:
    """Let a signal wait until the end of the block: for a few steps that belong together."""
    global _holding
    if threading.current_thread() is not threading.main_thread():  # signals arrive there
        yield
        return
    _holding += 1
    try:
        yield
    finally:
        _holding -= 1
    check()


def exit_code(stop: signal.Signals) -> int:
    """Return the exit code of a program that was stopped by a signal."""
    return 128 + stop


def exit_with(program: Callable[[], int]) -> NoReturn:
    """Exit with the code that `program` returns, or with that of the signal that stopped it."""
    streams.fill_closed()
    try:
        _listen()
        code = program()
        _ignore()  # the outcome stands, whatever arrives while the interpreter ends
    except BaseException:
        _ignore()
        if _seen is None:
            raise
        streams.say(f"nysketch: error: {WORDS[_seen]}")
        code = exit_code(_seen)
    # If Ctrl-C interrupts the execution of text, as the definition of a dataclass is, Python kills itself
    # with SIGINT in the end, even though the interrupt was caught. The execution of other text clears that.
    exec("pass")
    sys.exit(code)


def _listen() -> None:
    # In the background of a shell Ctrl-C is ignored, and stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)


def _ignore() -> None:
    for stop in WORDS:
        signal.signal(stop, signal.SIG_IGN)


def _stop(signum: int, frame: FrameType | None) -> None:
    global _seen
    del frame
    _seen = signal.Signals(signum)
    if not _holding:
        check()
