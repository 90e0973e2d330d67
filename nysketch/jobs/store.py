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

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nysketch.basis.base import Basis
from nysketch.errors import CorruptSketchError, InputError, UsageError
from nysketch.files.format import load_basis, load_sketch
from nysketch.jobs.store_io import described, file_digest, pending, read_json, read_lines
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch

SCHEMA_VERSION = 1
SKETCH, JSON = ".nysk", ".json"
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


@dataclass(frozen=True)
class Window:
    """A sum of partitions, as windows/NAME.json describes it."""

    name: str
    partitions: list[str]
    steps: int = 0  # additions and subtractions since the last fresh merge
    members: dict[str, str] = field(default_factory=dict)  # partition → digest of its sketch
    digest: str = ""  # of the window's own sketch file


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
        found = read_json(self.file, "restore it from a copy")
        version = found.get("schema_version") if isinstance(found, dict) else None
        if type(version) is not int:
            raise CorruptSketchError(f"{self.file}: not a description of a store; restore it from a copy")
        if version > SCHEMA_VERSION:
            raise UsageError(
                f"{self.file}: has store version {version}; this nysketch reads up to {SCHEMA_VERSION}. "
                "Upgrade nysketch"
            )
        return dict(found)

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.description().get("name", self.path.name))

    def partition_names(self) -> list[str]:
        """Return the names of all partitions, in order."""
        return _stems(self.path / "partitions", JSON)

    def partitions(self) -> list[Partition]:
        """Return all partitions, in order."""
        return [self.partition(name) for name in self.partition_names()]

    def partition(self, name: str) -> Partition:
        """Return one partition."""
        path = described(self.partition_file(name))
        found = read_json(path)
        try:
            return Partition(
                name=str(found["name"]),
                rows=int(found["rows"]),
                dropped_rows=int(found["dropped_rows"]),
                inputs=[dict(item) for item in found["inputs"]],
                request=str(found["request"]),
                sketch=str(found["sketch"]),
                quality=found.get("quality"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptSketchError(
                f"{path}: does not describe a partition ({type(error).__name__}: {error}); remove it: the "
                "next `nysketch.run` makes it again"
            ) from error

    def sketch(self, name: str) -> Sketch:
        """Return the sketch of a partition."""
        return _load(self.partition_file(name), self.partition(name).sketch)

    def basis(self) -> Basis:
        """Return what all sketches share."""
        return load_basis(self.basis_file)

    def windows(self) -> dict[str, Window]:
        """Return all windows by name."""
        return {name: self.window(name) for name in _stems(self.path / "windows", JSON)}

    def window(self, name: str) -> Window:
        """Return one window."""
        path = described(self.window_file(name))
        found = read_json(path)
        try:
            return Window(
                name,
                [str(partition) for partition in found["partitions"]],
                int(found["steps"]),
                {str(key): str(value) for key, value in found["members"].items()},
                str(found["digest"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptSketchError(
                f"{path}: does not describe a window ({type(error).__name__}: {error}); remove it: the next "
                "`nysketch.run` makes it again"
            ) from error

    def window_sketch(self, name: str) -> Sketch:
        """Return the sum of the partitions in a window."""
        return _load(self.window_file(name), self.window(name).digest)

    def retired(self) -> list[str]:
        """Return the names of partitions that retention has removed."""
        return sorted(self._retired().get("partitions", []))

    def retired_members(self) -> dict[str, str]:
        """Return the partitions in the sum of retired ones, with the digests that their sketches had."""
        return dict(self._retired().get("members", {}))

    def _retired(self) -> dict[str, Any]:
        path = described(self.retired_file)
        if not path.exists() and not self.retired_file.exists():
            return {}
        found = read_json(path, "restore it from a copy") if path.exists() else None
        whole = isinstance(found, dict) and isinstance(found.get("partitions"), list)
        if found is None or not whole or not isinstance(found.get("members"), dict):
            raise CorruptSketchError(
                f"{path}: missing, or without a list of retired partitions; restore it from a copy"
            )
        return dict(found)

    def models(self) -> dict[str, list[tuple[str, AnyModel]]]:
        """Return all models by name: as they were with each partition as the newest one, in order."""
        from nysketch.models.files import load_model

        return {
            model: [
                (name, load_model(self.model_file(model, name)))
                for name in _stems(self.path / "models" / model, JSON)
            ]
            for model in _stems(self.path / "models", JSON)
        }

    def drift(self) -> dict[str, list[dict[str, Any]]]:
        """Return the comparisons of each partition, in order."""
        found = {}
        for name in _stems(self.path / "drift", JSON):
            path = self.drift_file(name)
            value = read_json(path)
            if not isinstance(value, dict) or not isinstance(value.get("comparisons"), list):
                raise CorruptSketchError(
                    f"{path}: does not contain comparisons; remove it: the next `nysketch.run` makes it again"
                )
            found[name] = value["comparisons"]
        return found

    def history(self) -> list[dict[str, Any]]:
        """Return what each run did, oldest first; a last line that was cut short does not count."""
        return read_lines(self.history_file)


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
