"""A store: what `nysketch run` keeps of a job, and how to read it.

    STORE/
      store.json                 name of the job, and settings that cannot change any more
      basis.nysk                 what all sketches share
      partitions/NAME.nysk       one sketch per partition; NAME.json: its inputs, rows, quality
      windows/WINDOW.nysk        the sum of the partitions in a window; WINDOW.json: which ones
      retired.nysk, .json        the sum of the partitions that retention has removed
      models/MODEL.json          the newest model; models/MODEL/NAME.json: as it was when NAME was the newest
      drift/NAME.json            how NAME differs from others
      alarms.json                the comparisons that runs have reported, so that each alarm is raised once
      history.jsonl              one line per run
      report.html                if the job asks for it

Names of partitions sort in the order of time. Nothing here needs the data, and nothing here writes: that
is the business of a run, which holds the lock of store.json.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from nysketch.basis.base import Basis
from nysketch.errors import CorruptSketchError, InputError, UsageError, WrongKindError
from nysketch.files.format import load_basis, load_sketch
from nysketch.files.row_counts import row_counts
from nysketch.jobs.records import DRIFT, MODEL_FACTS, PARTITION, RETIRED, RUN, STORE, WINDOW, MisfitError
from nysketch.jobs.schema import PAGES
from nysketch.jobs.store_io import (
    MADE_AGAIN,
    RESTORE,
    described,
    digest_of,
    file_digest,
    pending,
    read_json,
    read_lines,
)
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch
from nysketch.sources.selection import EXCLUDED, ROW_WEIGHTS

SCHEMA_VERSION = 1
SKETCH, JSON = ".nysk", ".json"
REMADE_FROM_INPUTS = f"{MADE_AGAIN} if its inputs are still there"
_FOLDERS = ("partitions", "windows", "models", "drift")


@dataclass(frozen=True)
class Partition:
    """One sketch of a store, as partitions/NAME.json describes it."""

    name: str
    rows: int
    dropped_rows: int
    inputs: list[dict[str, Any]]  # path, bytes, mtime_ns, digest
    request: str  # digest of what made the sketch
    sketch: str  # digest of the sketch file
    quality: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)  # what to know of its rows


@dataclass(frozen=True)
class Window:
    """A sum of partitions, as windows/NAME.json describes it."""

    name: str
    partitions: list[str]
    steps: int = 0  # additions and subtractions since the last fresh merge
    members: dict[str, str] = field(default_factory=dict)  # partition → digest of its sketch
    digest: str = ""  # of the window's own sketch file


def not_watched(basis: Basis) -> dict[str, str]:
    """Return the columns that no sketch of a store has, and why, but for those that the job excludes."""
    left_out = basis.origin.get("left_out", {})
    return {name: why for name, why in left_out.items() if why not in (EXCLUDED, ROW_WEIGHTS)}


class Store:
    """A store on disk; every method reads what is there now."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def open(cls, path: str | Path) -> Store:
        """Return the store at `path`, or say why there is none."""
        store = cls(Path(path))
        if not store.path.exists():
            raise InputError(f"{path}: no such directory; `nysketch.run` creates a store")
        if not store.path.is_dir():
            raise UsageError(
                f"{path}: not a directory, so not a store; give the directory that the job file names"
            )
        if not store.file.exists():
            raise UsageError(f"{path}: not a store: it has no store.json. `nysketch.run` creates one")
        store.description()
        return store

    # ---- where things are ------------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        """The file whose lock is that of the store."""
        return self.path / "store.json"

    @property
    def files(self) -> list[Path]:
        """The files in the directory, but for reports."""
        return [path for path in self.path.rglob("*") if path.suffix.lower() not in PAGES and path.is_file()]

    @property
    def basis_file(self) -> Path:
        """The basis of all sketches."""
        return self.path / "basis.nysk"

    @property
    def retired_file(self) -> Path:
        """The sum of retired partitions."""
        return self.path / "retired.nysk"

    @property
    def alarms_file(self) -> Path:
        """What runs have reported."""
        return self.path / "alarms.json"

    @property
    def report_note(self) -> Path:
        """Which report there is, and of which state of the store."""
        return self.path / "report.json"

    @property
    def history_file(self) -> Path:
        """One line per run."""
        return self.path / "history.jsonl"

    @property
    def folders(self) -> list[Path]:
        """The directory itself and those in it."""
        models = self.path / "models"
        inner = sorted(path for path in models.iterdir() if path.is_dir()) if models.is_dir() else []
        return [self.path, *(self.path / name for name in _FOLDERS), *inner]

    def partition_file(self, name: str) -> Path:
        """The sketch of a partition; its description is beside it."""
        return self.path / "partitions" / (name + SKETCH)

    def window_file(self, name: str) -> Path:
        """The sketch of a window; its description is beside it."""
        return self.path / "windows" / (name + SKETCH)

    def drift_file(self, name: str) -> Path:
        """The comparisons of a partition."""
        return self.path / "drift" / (name + JSON)

    def model_file(self, name: str, partition: str | None = None) -> Path:
        """The newest model of this name, or that with `partition` as the newest one."""
        models = self.path / "models"
        return models / (name + JSON) if partition is None else models / name / (partition + JSON)

    # ---- what it holds ---------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Return store.json: name, settings."""
        return read_json(self.file, STORE, RESTORE, first=self._require_readable)

    def _require_readable(self, found: Any) -> None:
        """Ask for an upgrade before anything is said to be damaged that is only new."""
        version = found.get("schema_version") if isinstance(found, dict) else None
        if type(version) is int and version > SCHEMA_VERSION:
            raise UsageError(
                f"{self.file}: has store version {version}; this nysketch reads up to {SCHEMA_VERSION}. "
                "Upgrade nysketch"
            )

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.description()["name"])

    def partition_names(self) -> list[str]:
        """Return the names of all partitions, in order."""
        return _stems(self.path / "partitions", JSON)

    def partitions(self) -> list[Partition]:
        """Return all partitions, in order."""
        return [self.partition(name) for name in self.partition_names()]

    def partition(self, name: str) -> Partition:
        """Return one partition."""
        path = self.partition_file(name)
        found = read_json(described(path), PARTITION, REMADE_FROM_INPUTS)
        partition = Partition(**{each.name: found[each.name] for each in fields(Partition)})
        told = partition.rows, partition.dropped_rows
        # Only of the sketch that is described: another one may be about to be replaced by it.
        others = row_counts(path) not in (None, told) and file_digest(path) == partition.sketch
        if others and row_counts(path) not in (None, told):
            raise CorruptSketchError(
                f"{described(path)}: damaged: it tells of {told[0]:,} rows and {told[1]:,} dropped ones, and "
                f"its sketch of others; {REMADE_FROM_INPUTS}"
            )
        return partition

    def sketch(self, name: str) -> Sketch:
        """Return the sketch of a partition."""
        return _load(self.partition_file(name), self.partition(name).sketch)

    def basis(self) -> Basis:
        """Return what all sketches share."""
        return load_basis(self.basis_file)

    def window_names(self) -> list[str]:
        """Return the names of all windows, sorted."""
        return _stems(self.path / "windows", JSON)

    def windows(self) -> dict[str, Window]:
        """Return all windows by name."""
        return {name: self.window(name) for name in self.window_names()}

    def window(self, name: str) -> Window:
        """Return one window."""
        path = described(self.window_file(name))
        found = read_json(path, WINDOW)
        if found["partitions"] != sorted(found["members"]):
            raise CorruptSketchError(f"{path}: damaged: its two lists of partitions differ; {MADE_AGAIN}")
        return Window(name, found["partitions"], found["steps"], found["members"], found["digest"])

    def window_sketch(self, name: str) -> Sketch:
        """Return the sum of the partitions in a window."""
        return _load(self.window_file(name), self.window(name).digest)

    def retired(self) -> list[str]:
        """Return the names of partitions that retention has removed."""
        return sorted(self._retired()["partitions"])

    def retired_members(self) -> dict[str, str]:
        """Return the partitions in the sum of retired ones, with the digests that their sketches had."""
        return dict(self._retired()["members"])

    def retired_sketch(self) -> Sketch:
        """Return the sum of retired partitions."""
        return _load(self.retired_file, self._retired()["digest"] or "")

    def _retired(self) -> dict[str, Any]:
        path = described(self.retired_file)
        if path.exists():
            return read_json(path, RETIRED, RESTORE)
        if self.retired_file.exists():
            raise CorruptSketchError(f"{path}: missing, though there is {self.retired_file.name}; {RESTORE}")
        return {"partitions": [], "members": {}}

    def models(self) -> dict[str, list[tuple[str, AnyModel]]]:
        """Return all models by name: as they were with each partition as the newest one, in order."""
        return {
            model: [
                (name, stored_model(self.model_file(model, name)))
                for name in _stems(self.path / "models" / model, JSON)
            ]
            for model in _stems(self.path / "models", JSON)
        }

    def newest_models(self) -> dict[str, AnyModel]:
        """Return the newest model of each name."""
        return {model: stored_model(self.model_file(model)) for model in _stems(self.path / "models", JSON)}

    def drift(self) -> dict[str, list[dict[str, Any]]]:
        """Return the comparisons of each partition, in order."""
        return {name: self.comparisons(name) for name in _stems(self.path / "drift", JSON)}

    def comparisons(self, name: str) -> list[dict[str, Any]]:
        """Return the comparisons of one partition; none if there are none yet."""
        path = self.drift_file(name)
        found: list[dict[str, Any]] = read_json(path, DRIFT)["comparisons"] if path.exists() else []
        return found

    def history(self) -> list[dict[str, Any]]:
        """Return what each run did, oldest first; lines that are damaged do not count."""
        return read_lines(self.history_file, RUN)[0]

    def damaged_history(self) -> list[str]:
        """Return which lines of the history are damaged, and what helps."""
        return read_lines(self.history_file, RUN)[1]


def stored_model(path: Path) -> AnyModel:
    """Return a model, whose facts say which run learned it."""
    from nysketch.models.files import load_model

    remedy = f"{MADE_AGAIN} if it is one of the newest; else remove it"
    try:
        model = load_model(path)
        facts = MODEL_FACTS(model.facts)
        digest = facts["nightly"].get("digest")
        if digest is not None and digest != digest_of_model(model):
            raise MisfitError("does not match the digest in it")
        return replace(model, facts=facts)
    except MisfitError as error:
        raise CorruptSketchError(f"{path}: damaged: {error}; {remedy}") from error
    except (CorruptSketchError, WrongKindError) as error:
        raise CorruptSketchError(f"{error}; {remedy}") from error


def digest_of_model(model: AnyModel) -> str:
    """Return a digest of all that a model says, but for that digest itself."""
    facts = dict(model.facts)
    if isinstance(facts.get("nightly"), dict):
        facts["nightly"] = {key: value for key, value in facts["nightly"].items() if key != "digest"}
    arrays = {name: getattr(model, name).tolist() for name in ("scale", *model.arrays)}
    return digest_of([model.kind, model.features, arrays, facts])


def _load(path: Path, digest: str) -> Sketch:
    """Load a sketch; from its waiting place if a run was killed before it could rename it."""
    waiting = pending(path)
    if waiting.exists() and file_digest(waiting) == digest:
        return load_sketch(waiting)
    sketch = load_sketch(path)
    if file_digest(path) != digest:
        raise CorruptSketchError(
            f"{path}: is not the sketch that {described(path).name} describes. Restore the right one, or "
            "remove it: the next `nysketch.run` makes it again"
        )
    return sketch


def _stems(folder: Path, suffix: str) -> list[str]:
    """Return the names of files in a folder, without their suffix, sorted."""
    try:
        names = [path.name for path in folder.iterdir() if path.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{folder}: cannot read: {error.strerror or error}") from error
    return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix) and name[0] != ".")
