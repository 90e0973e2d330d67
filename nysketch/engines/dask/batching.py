"""How many fragments a worker is given at a time: so many that it is busy for seconds.

A scheduler takes about a millisecond for each task, and a part of a sketch is some megabytes: too much beside
a row group that takes ten milliseconds. And a group that takes minutes would be lost with its worker. The
rate at which rows are read is learned on the way; until then, fragments go one by one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from nysketch.sources.protocol import Fragment

# How long a group shall take.
SECONDS = 2.0
# Of its own time, a scheduler shall need no more than this for each group: on large clusters, groups must
# take longer. (Measured: 3 ms for a task from the client to a worker and back, all on two cores.)
HANDING_OUT = 0.004
_MOST_FRAGMENTS = 2000
# Of what was learned, so much is forgotten with each group: caches warm up, machines get busy.
_FORGOTTEN = 0.1


def seconds_for(threads: int, work: float) -> float:
    """Return how long groups must take at least, of so many seconds of work for all threads together.

    So long that the scheduler keeps up with the threads; but no longer than handing out all groups takes,
    since at the end all wait for the last one.
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
        self._next: Fragment | None = next(self._fragments, None)
        self._again: deque[tuple[Fragment, ...]] = deque()
        self._rows = self._spent = 0.0

    def __bool__(self) -> bool:
        """Tell whether there are any left."""
        return bool(self._again) or self._next is not None

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
        """Take note of how long so many rows took one thread."""
        if not rows:  # a group that failed at once
            return
        self._rows = (1 - _FORGOTTEN) * self._rows + rows
        self._spent = (1 - _FORGOTTEN) * self._spent + seconds

    def put_back(self, fragments: tuple[Fragment, ...]) -> None:
        """Give a group out again, as it is, before all others."""
        self._again.append(fragments)

    def take(self) -> tuple[Fragment, ...]:
        """Return the next group, of one fragment at least."""
        if self._again:
            return self._again.popleft()
        room, group = self.rows_per_group, list[Fragment]()
        while self._next is not None and len(group) < _MOST_FRAGMENTS:
            room -= self._next.rows
            if group and room < 0:
                break
            group.append(self._next)
            self._next = next(self._fragments, None)
        return tuple(group)
