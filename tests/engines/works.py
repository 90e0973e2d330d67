"""Work that counts, waits, fails or kills its worker: for tests of engines. Shipped to workers by value."""

import os
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from nysketch.errors import InvalidRowsError, UnreadableError


@dataclass
class RunningCount:
    """Adds up rows, and remembers of which fragments."""

    rows: int = 0
    numbers: list = field(default_factory=list)

    def add(self, part):
        rows, numbers = part
        self.rows += rows
        self.numbers += numbers

    def total(self):
        return self.rows, list(self.numbers)


@dataclass
class Count:
    """Returns the rows of a fragment; notes every attempt as a file of the folder `notes`.

    `failing` maps fragment numbers to how often they fail, `deadly` are those that kill their worker. After
    the first few, fragments wait for the file `until`, if one is named.
    """

    source: object
    notes: Path
    failing: dict = field(default_factory=dict)
    deadly: tuple = ()
    invalid: tuple = ()
    seconds: float = 0.0
    until: Path | None = None

    def __setstate__(self, state):
        self.__dict__.update(state)
        (self.notes / f"unpacked-{os.getpid()}-{uuid.uuid4().hex}").touch()

    def __call__(self, fragment, check):
        check()
        attempts = list(self.notes.glob(f"try-{fragment.number}-*"))
        (self.notes / f"try-{fragment.number}-{os.getpid()}-{uuid.uuid4().hex}").touch()
        if fragment.number in self.deadly:
            os._exit(1)
        if len(attempts) < self.failing.get(fragment.number, 0):
            raise UnreadableError(f"{fragment.where}: cannot read")
        if fragment.number in self.invalid:
            raise InvalidRowsError(f"{fragment.where}: has 3 NaN")
        while self.until is not None and fragment.number > 3 and not self.until.exists():
            time.sleep(0.02)
        time.sleep(self.seconds)
        return fragment.rows, [fragment.number]

    def running(self):
        return RunningCount()


@dataclass
class Pieces(Count):
    """The same in pieces: one for each 50 rows."""

    def __call__(self, fragment, check):
        rows, (number,) = super().__call__(fragment, check)
        for start in range(0, rows, 50):
            yield number, start


def attempts(notes, number):
    """Return how often a fragment was tried, and by how many processes."""
    names = [path.name for path in notes.glob(f"try-{number}-*")]
    return len(names), len({name.split("-")[2] for name in names})
