"""What a run did, or would do: for people, for programs, and for the history."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from nysketch.errors import EXIT_ALARM, EXIT_INPUTS_SKIPPED, InputError, NysketchError


@dataclass
class Summary:
    """One run; lists hold names of partitions, windows and models."""

    job: str
    store: str
    dry_run: bool = False
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # with their inputs
    retired: list[str] = field(default_factory=list)  # too old to be kept
    unchanged: int = 0
    rows: int = 0  # of new and changed partitions
    dropped_rows: int = 0
    compared: list[str] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    undecided: list[dict[str, Any]] = field(default_factory=list)  # new comparisons that could see too little
    skipped: dict[str, str] = field(default_factory=dict)  # partition or file → what is wrong
    waiting: list[str] = field(default_factory=list)  # files that may still be written
    unmatched: list[str] = field(default_factory=list)  # paths of the job that match nothing
    ignored: list[str] = field(default_factory=list)  # files like those of a path, but without a date
    not_watched: dict[str, str] = field(default_factory=dict)  # column → why; of the run that made the basis
    notes: dict[str, list[str]] = field(default_factory=dict)  # partition → what to know of its rows
    errors: list[str] = field(default_factory=list)
    report: str | None = None
    exit_code: int = 0
    started: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._clock = time.monotonic()
        self._error_code = 0

    def note_error(self, error: NysketchError, what: str | None = None) -> None:
        """Note what went wrong where the rest of the run can go on."""
        self.errors.append(str(error) if what is None else f"{what}: {error}")
        self._error_code = self._error_code or error.exit_code

    def rename(self, named: Callable[[str], str]) -> None:
        """Call files by other names in all messages."""
        self.errors = [named(error) for error in self.errors]
        self.skipped = {name: named(why) for name, why in self.skipped.items()}

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        done = (self.new, self.changed, self.removed, self.retired, self.windows, self.models, self.compared)
        return not any(done) and self.report is None

    def finish(self, partitions: int) -> None:
        """Decide the exit code: an alarm is heard once, other trouble comes again with the next run."""
        if self.alarms:
            self.exit_code = EXIT_ALARM
        elif self.errors:
            self.exit_code = self._error_code or 1
        elif self.skipped:
            self.exit_code = EXIT_INPUTS_SKIPPED if partitions else InputError.exit_code
        self.stop_clock()

    def stop_clock(self) -> None:
        """Note how long it took."""
        self.seconds = round(time.monotonic() - self._clock, 3)

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)

    def sentence(self) -> str:
        """Say in one line what was done."""
        skipped = f"; {len(self.skipped)} inputs skipped" if self.skipped else ""
        if self.idle:
            return f"{self.store}: nothing to do, {_count(self.unchanged, 'partition')} up to date{skipped}"
        counts = [
            f"{len(names)} {what}"
            for what, names in (
                ("new", self.new),
                ("changed", self.changed),
                ("removed", self.removed),
                ("retired", self.retired),
            )
            if names
        ]
        parts = [f"{', '.join([*counts, f'{self.unchanged} unchanged'])} partitions"]
        if self.rows or self.dropped_rows:
            dropped = f" ({self.dropped_rows:,} dropped)" if self.dropped_rows else ""
            parts.append(f"{self.rows:,} rows{dropped}")
        for what, names in (("windows", self.windows), ("models", self.models)):
            if names:
                parts.append(f"{what} {', '.join(names)}")
        if self.dry_run:
            return f"{self.store}: would do: {'; '.join(parts)}{skipped}"
        alarms = _count(len(self.alarms), "alarm") if self.alarms else "no alarms"
        undecided = f"; {_count(len(self.undecided), 'comparison')} undecided" if self.undecided else ""
        return f"{self.store}: {'; '.join(parts)}; {alarms}{undecided}{skipped}; {self.seconds:.1f} s"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
