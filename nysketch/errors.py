"""Every error nysketch raises on purpose, and the exit code each one carries.

    NysketchError                    1   something failed
    ├── UsageError                   2   the request itself makes no sense
    ├── InputError                   3   an input cannot be read
    │   ├── NoFilesError             3   a glob or directory has no files
    │   ├── UnreadableError          3   its bytes cannot be read, or are damaged; may work at another time
    │   ├── SchemaError              3   its columns are not what was asked for
    │   ├── InvalidRowsError         3   it holds nulls, NaN, infinities or negative weights
    │   ├── WrongKindError           3   it is something else than was asked for: data, not a sketch
    │   └── CheckpointMismatchError  3   a checkpoint was left by another request, or cannot be read
    ├── IncompatibleError            4   two sketches that do not belong together
    ├── CorruptSketchError           5   a sketch or model file is damaged, or nobody knows what it is
    │   ├── CorruptCheckpointError   5   a checkpoint is damaged
    │   └── CorruptOutputError       5   the output that exists, and was to be kept, is damaged
    ├── OutputError                  1   a result cannot be written
    │   └── StaleOutputError         1   the output that exists is not what would be made now
    ├── ClusterError                 1   a cluster, or its last worker, is not there or not fit
    └── LockedError                 75   another process is writing the same output

The library raises these and nothing else for foreseeable trouble; the command line turns them into
one message and the exit code (``nysketch/cli/__init__.py``). More exit codes carry no error:
6, finished but some inputs were skipped; 7, an alarm that was asked for; 130/143, stopped by SIGINT/SIGTERM.

Messages name options as keyword arguments in backticks: "Drop such rows with `nulls="drop"`". Python callers
read them as they are; `in_shell` spells them as flags: "Drop such rows with --nulls drop". This holds for
errors, warnings and the notes of results alike. JSON, and what jobs keep in their store, have flags: they
are what the command line prints, whoever runs it.
"""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any

EXIT_INPUTS_SKIPPED = 6
EXIT_ALARM = 7


class NysketchWarning(UserWarning):
    """Something to know about a result: columns that were left out, rows that were dropped, weak evidence."""


class NysketchError(Exception):
    """Base of all errors below; `str()` of it is the message for people."""

    exit_code = 1

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the message is about, by their names in Python."""
        return tuple(found["name"] for found in _OPTION.finditer(str(self)) if found["name"])


class UsageError(NysketchError):
    """The request contradicts itself or asks for something that cannot be."""

    exit_code = 2


class InputError(NysketchError):
    """An input is missing, unreadable, empty or truncated."""

    exit_code = 3


class NoFilesError(InputError):
    """Nothing is where files were looked for; there may be some later."""


class UnreadableError(InputError):
    """Bytes could not be read, or make no sense: may work at another time, or on another machine."""


class SchemaError(InputError):
    """A column is missing, of the wrong type, or differs between files."""


class InvalidRowsError(InputError):
    """Rows hold nulls, NaN, infinities or negative weights."""


class WrongKindError(InputError):
    """A file is not what was asked for, but something else of use: data or a model in place of a sketch."""


class CheckpointMismatchError(InputError):
    """A checkpoint cannot be continued: it was left by another request, or cannot be read."""


class IncompatibleError(NysketchError):
    """Two sketches (or a sketch and a basis) cannot be combined."""

    exit_code = 4


class CorruptSketchError(NysketchError):
    """A sketch or model file is damaged, truncated, from the future, or nothing that is known."""

    exit_code = 5


class CorruptCheckpointError(CorruptSketchError):
    """A checkpoint is damaged."""


class CorruptOutputError(CorruptSketchError):
    """An output exists and was to be kept if it is up to date, but it is damaged."""


class OutputError(NysketchError):
    """A result could not be written; what was there before is untouched."""


class StaleOutputError(OutputError):
    """An output exists and was to be kept if it is up to date, but it was made from something else."""


class ClusterError(NysketchError):
    """A cluster cannot be reached, has gone, has no workers, or workers without the software or the files."""


class LockedError(NysketchError):
    """Another process holds the lock of this output."""

    exit_code = 75


# ---- how options are spelled -----------------------------------------------------------------------

# A keyword argument, `name` or `name=value`, or a function, `nysketch.name(…)`.
_OPTION = re.compile(
    r"`(?:(?P<name>[a-z][a-z0-9_]*)(?:=(?P<value>[^`]*))?"
    r"|nysketch\.(?P<function>[A-Za-z_.]+)(?:\((?P<given>[^`]*)\))?)`"
)

# Options and functions whose names differ between Python and the command line.
FLAGS = {
    "landmarks": "-m",
    "k": "-k",
    "output": "-o",
    "datasets": "--dataset",
    "groups": "--group",
    "kinds": "--kind",
}
COMMANDS = {
    "Basis.fit": "basis",
    "learn_kmeans": "learn kmeans",
    "learn_gmm": "learn gmm",
    "write_report": "report",
}

# Where values that are ready for JSON hold messages.
_MESSAGES = frozenset({"advice", "error", "errors", "notes", "skipped", "skipped_inputs"})


def option(name: str, value: Any = None) -> str:
    """Name an option in a message, as a keyword argument in backticks; with a value that is not constant."""
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\x60")
        return f'`{name}="{quoted}"`'
    return f"`{name}`" if value is None else f"`{name}={value!r}`"


def in_shell(message: str) -> str:
    """Spell the options that a message names as flags, and functions as commands."""
    return _OPTION.sub(_respell, message)


def json_in_shell(value: Any, *, message: bool = False) -> Any:
    """Spell options as flags in a value that is ready for JSON, in messages only: names stay as they are."""
    if isinstance(value, str):
        return in_shell(value) if message else value
    if isinstance(value, dict):
        return {key: json_in_shell(item, message=message or key in _MESSAGES) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_in_shell(item, message=message) for item in value]
    return value


def _respell(found: re.Match[str]) -> str:
    if found["name"]:
        return _flag(found["name"], found["value"])
    command = COMMANDS.get(found["function"], found["function"])
    try:
        call = ast.parse(f"f({found['given'] or ''})", mode="eval").body
    except SyntaxError:  # such as f(…)
        return f"`nysketch {command}`"
    assert isinstance(call, ast.Call)
    given = [shlex.quote(str(ast.literal_eval(value))) for value in call.args]
    given += [_flag(option.arg or "", ast.unparse(option.value)) for option in call.keywords]
    return f"`{' '.join(['nysketch', command, *given])}`"


def _flag(name: str, value: str | None) -> str:
    flag = FLAGS.get(name, "--" + name.replace("_", "-"))
    if value is None or value == "True":
        return flag
    if value == "False":
        return flag.replace("--", "--no-", 1)
    try:
        given = ast.literal_eval(value)
    except (ValueError, SyntaxError):  # a placeholder, such as N
        return f"{flag} {value}"
    if isinstance(given, dict):
        return " ".join(f"{flag} {shlex.quote(f'{key}={_listed(values)}')}" for key, values in given.items())
    return f"{flag} {shlex.quote(_listed(given))}"


def _listed(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
