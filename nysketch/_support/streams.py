"""Standard streams that are closed, or that nobody reads any more: work goes on without them."""

from __future__ import annotations

import os
import sys


def fill_closed() -> None:
    """Connect streams that are closed, as by `2>&-`, with the null device.

    Else the next file that is opened gets their number, and whatever a library says there is written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            discard(number)
            if number:  # that there is no input is said where it is asked for
                setattr(sys, name, os.fdopen(number, "w", closefd=False))


def discard(number: int) -> None:
    """Let a stream end in the null device; also what is still to be flushed."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    if descriptor == number:
        os.set_inheritable(descriptor, True)  # as streams are
        return
    os.dup2(descriptor, number)
    os.close(descriptor)


def say(text: str) -> None:
    """Write a line to stderr if somebody reads it; its loss is no reason to fail."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a stream that was closed by a program is a ValueError
        discard(2)
