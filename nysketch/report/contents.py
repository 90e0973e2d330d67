"""What a report tells of: everything that a store holds, read once and checked.

A file that is missing or damaged costs what it holds, not the report: it is named among the problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nysketch.errors import NysketchError, in_shell
from nysketch.jobs.drift_step import is_alarm, is_undecided, usual_detectable, verdict_beside
from nysketch.jobs.store import Partition, Store, not_watched, stored_model
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch

_Found = TypeVar("_Found")

_AGAINST = {
    "previous": "the previous partition",
    "weekday": "the previous same weekday",
    "year": "the same time a year earlier",
    "reference": "the reference",
}

# Pictures and tables show so many of the latest partitions; older ones are summed up.
LATEST = 120


@dataclass(frozen=True)
class Moved:
    """How far the mean of a column moved, in standard deviations; None if it was constant before.

    Where a number does not say it all, as of categories, `words` do.
    """

    name: str
    shift: float | None
    error: float | None
    words: str | None = None


@dataclass(frozen=True)
class Compared:
    """A partition against another one, as drift/NAME.json tells."""

    name: str  # of the comparison, in the job
    against: str
    other: str
    mmd: float | None
    standard_error: float | None
    threshold: float | None  # of the test, or what the job calls large enough, if that is more
    p_value: float | None
    alarm: bool  # more than chance, and large enough to matter
    verdict: str | None
    columns: list[Moved]
    notes: list[str]
    detectable: float | None = None  # the true MMD that the test would have found
    undecided: bool = False  # the test found nothing, and could not

    @property
    def label(self) -> str:
        """What it compares with, in words: its name, if the job gave it one of its own."""
        return _AGAINST.get(self.against, self.against) if self.name == self.against else self.name


@dataclass
class Contents:
    """A store as a report sees it; lists are in the order of time."""

    name: str
    partitions: list[Partition] = field(default_factory=list)
    compared: dict[str, list[Compared]] = field(default_factory=dict)  # by the name of the partition
    models: dict[str, list[tuple[str, AnyModel]]] = field(default_factory=dict)
    model_partitions: dict[str, int] = field(default_factory=dict)  # how many each has, also unread ones
    history: list[dict[str, Any]] = field(default_factory=list)
    not_watched: dict[str, str] = field(default_factory=dict)  # column → why
    retired: int = 0  # partitions that retention has removed
    sketch: Sketch | None = None  # of the newest partition
    problems: list[str] = field(default_factory=list)

    @property
    def latest(self) -> list[Partition]:
        """The partitions that pictures show."""
        return self.partitions[-LATEST:]

    @property
    def newest(self) -> Partition | None:
        """The last partition."""
        return self.partitions[-1] if self.partitions else None

    def alarms(self, partition: str) -> list[Compared]:
        """Return the comparisons of a partition that found more than chance."""
        return [one for one in self.compared.get(partition, []) if one.alarm]

    def kinds(self) -> dict[str, str]:
        """Return the names of comparisons, and what each compares with in words; in the job's order."""
        newest_first = (one for name in reversed(self.compared) for one in self.compared[name])
        return {one.name: one.label for one in newest_first}


def read_contents(store: Store | str | Path) -> Contents:
    """Read a store; raise only if there is none."""
    store = store if isinstance(store, Store) else Store.open(store)
    found = Contents(store.name)
    files: dict[str, str] = {}  # partition → its name as a file
    for file in _or_none(found, store.partition_names) or []:
        partition = _or_none(found, partial(store.partition, file))
        if partition is not None:
            found.partitions.append(partition)
            files[partition.name] = file
    drift = {name: _or_none(found, partial(store.comparisons, file)) for name, file in files.items()}
    compared = {name: comparisons for name, comparisons in drift.items() if comparisons}
    usual = usual_detectable(compared)
    found.compared = {name: [_compared(one, usual) for one in some] for name, some in compared.items()}
    _read_models(found, store, {file: name for name, file in files.items()})
    basis = _or_none(found, store.basis) if store.basis_file.exists() else None
    found.not_watched = {} if basis is None else not_watched(basis)
    found.retired = len(_or_none(found, store.retired) or [])
    found.history = _or_none(found, store.history) or []
    found.problems += _or_none(found, store.damaged_history) or []
    if found.newest is not None:
        found.sketch = _or_none(found, partial(store.sketch, files[found.newest.name]))
    # Named from the store on: a copy of it elsewhere has the same report.
    found.problems = [in_shell(problem).replace(f"{store.path}/", "") for problem in found.problems]
    return found


def _or_none(found: Contents, read: Callable[[], _Found]) -> _Found | None:
    """Return what can be read, or else None, and keep the reason."""
    try:
        return read()
    except NysketchError as error:
        found.problems.append(str(error))
        return None


def _read_models(found: Contents, store: Store, names: dict[str, str]) -> None:
    """Read the latest models of each name, and the newest one alone if that is all there is."""
    folder = store.path / "models"
    models = sorted({p.name.removesuffix(".json") for p in _entries(folder) if not p.name.startswith(".")})
    for model in models:
        inner = sorted(p.name.removesuffix(".json") for p in _entries(folder / model) if p.suffix == ".json")
        files = [(names.get(name, name), store.model_file(model, name)) for name in inner if name[0] != "."]
        if not files and store.model_file(model).exists():
            newest = found.newest.name if found.newest is not None else ""
            files = [(newest, store.model_file(model))]
        read = []
        for name, path in files[-LATEST:]:
            one = _or_none(found, partial(stored_model, path))
            if one is not None:
                read.append((name, one))
        if read:
            found.models[model] = read
            found.model_partitions[model] = len(files)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # there are none
        return []


def _compared(one: dict[str, Any], usual: Mapping[str, float]) -> Compared:
    threshold = one["threshold"]
    return Compared(
        name=one["name"],
        against=one["against"],
        other=one["other"],
        mmd=one["mmd"],
        standard_error=one["standard_error"],
        threshold=None if threshold is None else max(threshold, one["at_least"]),
        p_value=one["p_value"],
        alarm=is_alarm(one),
        verdict=verdict_beside(one, usual),
        columns=[
            Moved(column["name"], column["shift"], column["error"], column["words"])
            for column in one["columns"]
        ],
        notes=one["notes"],
        detectable=one["detectable"],
        undecided=is_undecided(one, usual),
    )
