"""How many fragments make a task: enough to keep a worker busy for seconds.

A scheduler takes about a millisecond for each task, and a part of a sketch is some megabytes: too much
overhead for a row group that takes ten milliseconds. But a group that takes minutes would be lost with its
worker. The rate at which rows are read is learned during the run; until then, groups have one fragment.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from nysketch.sources.protocol import Fragment

# How long a group should take.
SECONDS = 2.0
# How long the scheduler takes for each group, at most: on large clusters, groups must take longer.
# (Measured: 3 ms for a task from the client to a worker and back, all on two cores.)
HANDING_OUT = 0.004
_MOST_FRAGMENTS = 2000
# The share of what was learned that each group replaces: caches warm up, machines get busy.
_FORGOTTEN = 0.1


def seconds_for(threads: int, work: float) -> float:
    """Return how long groups should take at least, if there are so many seconds of work for all threads.

    Long enough that the scheduler keeps up with the threads; but no longer than submitting all groups takes,
    since at the end all threads wait for the last group.
    """
    return min(HANDING_OUT * threads, math.sqrt(HANDING_OUT * work))


class Groups:
    """Cuts fragments into groups of consecutive ones."""

    def __init__(
        self, fragments: Iterable[Fragment], *, seconds: float = SECONDS, most_rows: int | None = None
    ) -> None:
        self._fragments = iter(fragments)
        self._seconds = self.seconds = seconds
        self._most_rows = most_rows
        self._next: Fragment | None = None  # not asked for before it is needed: that may read files
        self._again: deque[tuple[Fragment, ...]] = deque()
        self._rows = self._spent = 0.0

    def __bool__(self) -> bool:
        """Say whether there are any left."""
        return bool(self._again) or self._peek() is not None

    def _peek(self) -> Fragment | None:
        """Return the next fragment without taking it."""
        if self._next is None:
            self._next = next(self._fragments, None)
        return self._next

    @property
    def rows_per_group(self) -> float:
        """How many rows a group has room for, as far as is known."""
        if not self._spent:
            return 0.0
        rows = self.seconds * self._rows / self._spent
        return rows if self._most_rows is None else min(rows, self._most_rows)

    def serve(self, threads: int, rows: int) -> None:
        """Make groups large enough for so many threads that have so many rows in all to read."""
        if self._spent:
            self.seconds = max(self._seconds, seconds_for(threads, rows * self._spent / self._rows))

    def learn(self, rows: int, seconds: float) -> None:
        """Record how long one thread took for so many rows."""
        if not rows:  # a group that failed at once
            return
        self._rows = (1 - _FORGOTTEN) * self._rows + rows
        self._spent = (1 - _FORGOTTEN) * self._spent + seconds

    def put_back(self, fragments: tuple[Fragment, ...]) -> None:
        """Return a group to the front, to be taken again as it is."""
        self._again.append(fragments)

    def take(self) -> tuple[Fragment, ...]:
        """Return the next group, of one fragment at least."""
        if self._again:
            return self._again.popleft()
        room, group = self.rows_per_group, list[Fragment]()
        while len(group) < _MOST_FRAGMENTS and (fragment := self._peek()) is not None:
            room -= fragment.rows
            if group and room < 0:
                break
            group.append(fragment)
            self._next = None
        return tuple(group)
