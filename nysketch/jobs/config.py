"""Job file, variables and flags → the settings of a run; which of them may never change.

Paths in a job file are relative to its directory. Settings, stores and messages have them as they are written
there; `Job.at` says where they are.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nysketch._support.documents import from_toml
from nysketch._support.machine import default_memory
from nysketch._support.regular import read_once
from nysketch._support.sizes import bytes_of
from nysketch.accumulators.options import PassOptions
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.errors import InputError, UsageError, option
from nysketch.jobs.partition_names import require_partition
from nysketch.jobs.schema import LISTS, STORED_NAMES, TABLES, Key, checked, checked_value, unknown
from nysketch.models.files import require_format
from nysketch.sources.filesystems import without_secrets
from nysketch.sources.options import ReadOptions
from nysketch.twosample.results import Options as CompareOptions

PREFIX = "NYSKETCH_RUN_"
ALL = "all"
_BASIS_KEYWORDS = {"landmarks": "m", "scale": "scaling"}  # the others have the names of BasisOptions
_NOT_OF_A_BASIS = ("file", "partitions")
# Reading: what the sums depend on. Nulls are not among it: to drop what was an error changes no old sketch.
_READING = ("columns", "exclude", "weights", "dataset", "allow_external")


@dataclass(frozen=True)
class Job:
    """The settings of a job, checked; `settings` has all of them, tables as in the job file."""

    path: Path
    settings: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The directory of the job file, where relative paths in it start."""
        return self.path.parent

    def at(self, path: str | Path) -> Path:
        """Return where a path of the job file is."""
        return self.folder / path

    def as_written(self, message: str) -> str:
        """Return a message with the paths of the job as they are written in the job file.

        Messages are kept in the history of a store: they may not depend on where a run was started.
        """
        settings = self.settings
        written = [settings["job"]["store"], settings["basis"]["file"], settings["report"]["output"]]
        written += [model["output"] for model in self.models]
        written += [comparison["reference"] for comparison in self.comparisons]
        for path in map(Path, filter(None, written)):
            at = self.at(path)
            # Not inside of a longer path. Errors in writing name the file that a link leads to.
            either = "|".join(map(re.escape, (str(at), os.path.realpath(at))))
            message = str(path).join(re.split(rf"(?<![\w/.~-])(?:{either})", message))
        return message

    @property
    def name(self) -> str:
        """What the job is called."""
        return str(self.settings["job"]["name"])

    @property
    def store(self) -> Path:
        """The directory of the store."""
        return self.at(self.settings["job"]["store"])

    @property
    def inputs(self) -> dict[str, Any]:
        """What to read, and how."""
        return dict(self.settings["inputs"])

    @property
    def windows(self) -> list[dict[str, Any]]:
        """Which sums to keep."""
        return list(self.settings["windows"])

    @property
    def models(self) -> list[dict[str, Any]]:
        """What to learn."""
        return list(self.settings["models"])

    @property
    def comparisons(self) -> list[dict[str, Any]]:
        """What to compare each partition with."""
        return list(self.settings["comparisons"])

    @property
    def outputs(self) -> list[Path]:
        """The files outside the store that a run writes: the report, and copies of models."""
        named = [self.settings["report"]["output"], *(model["output"] for model in self.models)]
        return [self.at(path) for path in named if path is not None]

    @property
    def named_files(self) -> list[Path]:
        """The files that a run reads, besides its inputs, as far as they are there."""
        named = [self.settings["basis"]["file"], *(one["reference"] for one in self.comparisons)]
        paths = [self.path, *(self.at(path) for path in named if path is not None)]
        return [path for path in paths if path.is_file()]

    @property
    def memory(self) -> int:
        """Bytes to stay within."""
        given = self.settings["job"]["memory"]
        return default_memory() if given is None else bytes_of(given)

    def basis_options(self) -> BasisOptions:
        """Return how to make the basis."""
        made = {key: value for key, value in self.settings["basis"].items() if key not in _NOT_OF_A_BASIS}
        return BasisOptions(**{_BASIS_KEYWORDS.get(key, key): value for key, value in made.items()})

    def pass_options(self) -> PassOptions:
        """Return what to keep of the rows."""
        inputs = self.settings["inputs"]
        return PassOptions(**self._stored_sketch(), nulls=inputs["nulls"], weights=inputs["weights"])

    def read_options(self, basis: Basis | BasisOptions) -> ReadOptions:
        """Return how to read inputs for a basis; columns are chosen only as long as it is to be made."""
        inputs = self.settings["inputs"]
        to_be_made = isinstance(basis, BasisOptions)
        return ReadOptions(
            columns=inputs["columns"] if to_be_made else None,
            exclude=inputs["exclude"] if to_be_made else (),
            weights=inputs["weights"],
            datasets=inputs["dataset"],
            allow_external=inputs["allow_external"],
        ).for_basis(basis)

    def fixed(self) -> dict[str, Any]:
        """Return the settings that must stay as they were when the store was made."""
        return {
            "basis": self.settings["basis"],
            "inputs": {key: self.settings["inputs"][key] for key in _READING},
            "sketch": self._stored_sketch(),
        }

    def _stored_sketch(self) -> dict[str, Any]:
        """Return what to keep of the rows, by the names that sketches and stores have for it."""
        return {STORED_NAMES.get(key, key): value for key, value in self.settings["sketch"].items()}


def load_job(
    path: str | Path, *, changes: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Job:
    """Read a job file; `changes` like `table.key=value` and variables override what is in it."""
    path = Path(path)
    try:
        tables = from_toml(read_once(path))
    except OSError as error:
        raise InputError(f"{path}: cannot read the job file: {error.strerror or error}") from error
    except ValueError as error:  # of TOML, or broken UTF-8
        raise UsageError(f"{path}: not a job file: {error}") from error
    try:
        settings = _resolved(tables, path)
        for variable, value in sorted((os.environ if environment is None else environment).items()):
            if variable.startswith(PREFIX):
                _set_by_variable(settings, variable, value)
        for change in changes:
            _set_by_flag(settings, change)
        job = Job(path, _completed(settings))
        _require_sense(job)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return job


def _resolved(tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return all settings of the file, and defaults for the others."""
    for table, value in tables.items():
        if table not in TABLES and table not in LISTS:
            raise unknown("table", table, [*TABLES, *LISTS])
        if table in LISTS and not isinstance(value, list):
            raise UsageError(f"[{table}] is a list of tables: write [[{table}]]")
        if table in TABLES and isinstance(value, list):
            raise UsageError(f"[[{table}]] is one table: write [{table}]")
    tables = tables | {"sketch": _renamed(tables.get("sketch", {}))}
    settings: dict[str, Any] = {
        table: checked(f"[{table}]", tables.get(table, {}), keys) for table, keys in TABLES.items()
    }
    for table, keys in LISTS.items():
        entries = [checked(f"[[{table}]]", entry, keys) for entry in tables.get(table, [])]
        settings[table] = [_named(table, entry) for entry in entries]
    if settings["job"]["name"] is None:
        settings["job"]["name"] = path.stem
    return settings


def _renamed(table: Any) -> Any:
    """Return the settings of a sketch by their names; those that files store are accepted, too."""
    if not isinstance(table, dict):
        return table
    for name, stored in STORED_NAMES.items():
        if name in table and stored in table:
            raise UsageError(f"[sketch]: {name} and {stored} are the same setting; leave out {stored}")
    names = {stored: name for name, stored in STORED_NAMES.items()}
    return {names.get(key, key): value for key, value in table.items()}


def _named(table: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Return a table of a list with a name: by default what it is."""
    if entry["name"] is None:
        last = entry.get("last")
        usual = {
            "windows": ALL if last == ALL else f"last-{last}",
            "models": entry.get("kind"),
            "comparisons": entry.get("against"),
        }[table]
        if usual is None:
            missing = {"models": "kind", "comparisons": "against"}[table]
            raise UsageError(f"[[{table}]]: {missing} is missing")
        return entry | {"name": usual}
    return entry


# ---- what overrides the file -------------------------------------------------------------------------


def _set_by_flag(settings: dict[str, Any], change: str) -> None:
    where, equals, value = change.partition("=")
    parts = where.strip().replace("-", "_").split(".")
    table = parts[0]
    if not equals or len(parts) < 2:
        raise UsageError(f"{option('set', change)} does not have the form table.key=value")
    if table not in settings:
        raise unknown(f"{option('set', change)}: table", table, settings)
    if table in TABLES:
        entry, key, keys = settings[table], ".".join(parts[1:]), TABLES[table]
    else:
        wanted, key, keys = ".".join(where.strip().split(".")[1:-1]), parts[-1], LISTS[table]
        entries = {entry["name"]: entry for entry in settings[table]}
        if wanted not in entries:
            raise unknown(f"{option('set', change)}: name", wanted, entries or [f"no [[{table}]]"])
        entry = entries[wanted]
    _set(f"{option('set', change)}:", entry, key, value, keys)


def _set_by_variable(settings: dict[str, Any], variable: str, value: str) -> None:
    """Use a variable if it begins with the name of a table; others belong to the flags of the command."""
    table, _, rest = variable.removeprefix(PREFIX).lower().partition("_")
    if table in TABLES:
        _set(f"{variable}:", settings[table], rest, value, TABLES[table])
    elif table in LISTS:
        for entry in settings[table]:
            start = re.sub("[^a-z0-9]", "_", entry["name"].lower()) + "_"
            if rest.startswith(start) and rest.removeprefix(start) in LISTS[table]:
                _set(f"{variable}:", entry, rest.removeprefix(start), value, LISTS[table])
                return
        raise UsageError(
            f"{variable}: names no key of a [[{table}]]; the form is {PREFIX}{table.upper()}_NAME_KEY"
        )


def _set(where: str, entry: dict[str, Any], key: str, value: str, keys: Mapping[str, Key]) -> None:
    if keys is TABLES["sketch"]:
        (key,) = _renamed({key: value})
    if key not in keys:
        raise unknown(f"{where} key", key, keys)
    try:
        typed: Any = from_toml(f"value = {value}")["value"]
    except ValueError:
        typed = value
    try:
        entry[key] = checked_value(f"{where} {key}", typed, keys[key])
    except UsageError:
        entry[key] = checked_value(f"{where} {key}", value, keys[key])  # text that looks like a number


# ---- do they make sense together? --------------------------------------------------------------------


def _completed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with defaults that depend on others, and refuse those that miss what they need."""
    for table, key, remedy in (
        ("job", "store", 'name a directory: store = "store"'),
        ("inputs", "paths", 'name the files to read: paths = "data/{date}.parquet"'),
    ):
        if not settings[table][key]:
            raise UsageError(f"[{table}] {key} is missing; {remedy}")
    for table in LISTS:
        name = _twice([entry["name"] for entry in settings[table]])
        if name is not None:
            raise UsageError(f"[[{table}]]: two are named {name!r}; rename one")
    inputs = settings["inputs"]
    path = _twice(inputs["paths"])
    if path is not None:
        raise UsageError(f"[inputs] paths: {without_secrets(path)!r} is there twice; leave out one")
    inputs["partition"] = require_partition(inputs["partition"], inputs["paths"])
    windows = {window["name"] for window in settings["windows"]}
    for model in settings["models"]:
        where = f"[[models]] {model['name']}"
        for key in ("kind", "k"):
            if model[key] is None:
                raise UsageError(f"{where}: {key} is missing")
        model["window"] = model["window"] or ALL
        if model["window"] == ALL and ALL not in windows:
            settings["windows"].append({"name": ALL, "last": ALL})
            windows.add(ALL)
        if model["window"] not in windows:
            raise unknown(f"{where}: window", model["window"], sorted(windows))
        if model["kind"] == "kmeans" and model["covariance"] is not None:
            raise UsageError(f"{where}: covariance applies to gmm only")
        if model["kind"] == "gmm":
            model["covariance"] = model["covariance"] or "diag"
    return settings


def _twice(names: Sequence[str]) -> str | None:
    """Return the first of some names that is there more than once."""
    return next((name for name, times in Counter(names).items() if times > 1), None)


def _require_sense(job: Job) -> None:
    settings = job.settings
    copies: dict[str, str] = {}
    for model in settings["models"]:
        where = f"[[models]] {model['name']}"
        if model["output"] is None:
            continue
        try:
            require_format(Path(model["output"]))
        except UsageError as error:
            raise UsageError(f"{where}: output = {error}") from error
        other = copies.setdefault(os.path.normpath(model["output"]), model["name"])
        if other != model["name"]:
            raise UsageError(f"{where}: {other} has the same output, {model['output']}; choose another")
    for comparison in settings["comparisons"]:
        where = f"[[comparisons]] {comparison['name']}"
        if comparison["against"] is None:
            raise UsageError(f"{where}: against is missing")
        if (comparison["against"] == "reference") != (comparison["reference"] is not None):
            needs = 'needs reference = "the name of a partition, or a sketch file"'
            raise UsageError(f'{where}: against = "reference" {needs}, and no other does')
        if comparison["alarm"] and comparison["test"] == "none":
            raise UsageError(f'{where}: an alarm needs a test; leave out test = "none"')
        try:
            compare_options(comparison).require_draws(len(settings["comparisons"]))
        except UsageError as error:
            raise UsageError(f"{where}: {_in_toml(str(error))}") from error
    kept = settings["retention"]["partitions"]
    for window in settings["windows"]:
        if kept != ALL and window["last"] != ALL and window["last"] > kept:
            raise UsageError(
                f"[[windows]] {window['name']} is over {window['last']} partitions, but [retention] keeps "
                f"{kept}; keep more, or shorten the window"
            )
    if settings["basis"]["file"] is not None:
        for key, setting in TABLES["basis"].items():
            if key != "file" and settings["basis"][key] != setting.default:
                raise UsageError(
                    f"[basis] {key} applies to a new basis, but file names an existing one; leave out either"
                )
    for table, make in (("basis", job.basis_options), ("sketch", job.pass_options)):
        try:
            make()
        except UsageError as error:
            raise UsageError(f"[{table}]: {_in_toml(str(error))}") from error


def _in_toml(message: str) -> str:
    """Spell the options that a message names as in a job file: `test="none"` is test = "none"."""

    def spelled(found: re.Match[str]) -> str:
        name = found["name"]
        value = {"True": "true", "False": "false"}.get(found["value"], found["value"])
        return name if value is None else f"{name} = {value}"

    return re.sub(r"`(?P<name>[a-z_]+)(?:=(?P<value>[^`]*))?`", spelled, message)


def compare_options(comparison: Mapping[str, Any]) -> CompareOptions:
    """Return how to compare, as the library wants to be told."""
    names = ("alpha", "test", "permutations", "blocks", "robust", "robust_method", "seed")
    return CompareOptions(**{key: comparison[key] for key in names})


# What a store was made with by default before there was "auto": it keeps its basis.
_STAYS = (("basis", "scale", "auto", "standard"), ("basis", "bandwidth", "auto", "median"))

# Settings that stores made before do not have, and what they were.
_BEFORE = {("basis", "kinds"): None}


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say which settings differ from those that a store was made with."""
    found = []
    for table in now:
        before = stored.get(table, {})
        for key, value in now[table].items():
            was = before.get(key, _BEFORE.get((table, key), value))
            if was != value and (table, key, value, was) not in _STAYS:
                found.append(f"[{table}] {key} was {_plain(was)}, now {_plain(value)}")
    return found


# ---- printing ----------------------------------------------------------------------------------------


def as_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as a job file that would give the same; what is not set is left out."""
    lines = []
    for table, value in settings.items():
        for entry in value if isinstance(value, list) else [value]:
            lines.append(f"[[{table}]]" if isinstance(value, list) else f"[{table}]")
            lines += [f"{key} = {_plain(item)}" for key, item in entry.items() if item is not None]
            lines.append("")
    return "\n".join(lines)


def _plain(value: Any) -> str:
    """Return a value as TOML writes it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_plain(item)}" for key, item in value.items()) + " }"
    if isinstance(value, str):
        return _quoted(value)
    return repr(value)


def _key(text: str) -> str:
    return text if re.fullmatch("[A-Za-z0-9_-]+", text) else _quoted(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
