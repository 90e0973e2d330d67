"""The command line: parse, call one library function, print. One small file per command.

Commands are imported when they run, so that `nysketch --help` is quick; each imports the library inside
its body for the same reason. This module turns errors into messages and exit codes, and nothing else
does.

completion.py   shell completion
help.py         `nysketch help`, the same as --help
_common.py      what several commands do: passes with progress bars, notes, words
_options/       options that several commands share
_output.py      messages, tables, JSON, progress
_explanation.py what moved between two sketches
_sections.py    options and commands whose help has titled sections
"""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from nysketch import __version__
from nysketch._support import signals, streams
from nysketch._support.allocator import choose_allocator
from nysketch._support.documents import from_toml
from nysketch._support.regular import read_once
from nysketch.cli import _output
from nysketch.cli._options.common import CONFIG
from nysketch.cli._sections import Option
from nysketch.errors import NysketchError

# By it shells ask for completions, however nysketch was started.
COMPLETION_VARIABLE = "_NYSKETCH_COMPLETE"

_TITLED: dict[str, dict[str, str]] = {
    "Sketch": {
        "sketch": "Sketch files of any size in one pass.",
        "basis": "Choose the columns, scaling, kernel and landmarks to share.",
        "info": "Show the contents and the quality of a sketch.",
        "verify": "Check that sketch files are complete and undamaged.",
        "merge": "Add sketches: the result describes all their rows.",
        "subtract": "Subtract sketches: the result describes the remaining rows.",
        "export": "Convert a sketch to NPZ, JSON or Parquet.",
    },
    "Learn and test": {
        "learn": "Learn k-means or Gaussian mixtures from sketches alone.",
        "assign": "Label every row with its cluster or component.",
        "score": "Measure how well a model fits data.",
        "compare": "Two-sample tests between sketches: MMD, p-values, shifts.",
        "independence": "Test groups of columns for independence (HSIC).",
        "coreset": "Select a few weighted rows that represent all rows.",
        "plot": "Plot a sketch, a model, or the distances between sketches.",
    },
    "Operate": {
        "run": "Update a store of sketches, one per partition; made for cron.",
        "status": "Show the state of a store: partitions, gaps, drift, last run.",
        "report": "Write a report on a store as one HTML file.",
    },
}
COMMANDS = {name: summary for commands in _TITLED.values() for name, summary in commands.items()}
# These are about the program itself: they have no settings.
ABOUT = {
    "completion": "Print a script for shell completion.",
    "help": "Show the help of a command.",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *ABOUT]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(cmd_name) if cmd_name in COMMANDS or cmd_name in ABOUT else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in {**_TITLED, "About nysketch": ABOUT}.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            raise no_such_command(args[0], names, ctx)
        return super().resolve_command(ctx, args)


def no_such_command(name: str, names: Iterable[str], ctx: click.Context) -> click.UsageError:
    """Return an error that names the likely command."""
    import difflib

    close = difflib.get_close_matches(name, list(names), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return click.UsageError(f"No such command {name!r}.{hint}", ctx)


@functools.cache
def _load(name: str) -> click.Command:
    """Import a command, and name its variables; once, since they are those of the command itself."""
    command: click.Command = import_module(f"nysketch.cli.{name}").command
    _name_variables(command, f"NYSKETCH_{name}")
    return command


def _name_variables(command: click.Command, prefix: str) -> None:
    """Let every option also be given by an environment variable named after its command."""
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flags = [max(parameter.opts, key=len), *_aliases(parameter)]
            named = [f"{prefix}_{flag.strip('-')}".replace("-", "_").upper() for flag in flags]
            parameter.envvar = named if len(named) > 1 else named[0]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            _name_variables(inner, f"{prefix}_{name}")


def _aliases(parameter: click.Parameter) -> tuple[str, ...]:
    return parameter.aliases if isinstance(parameter, Option) else ()


def _read_config(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Make the tables of a TOML file the defaults of the commands they are named after."""
    if path is None:
        return
    try:
        tables = from_toml(read_once(path))
    except (OSError, ValueError) as error:  # TOML errors and broken UTF-8 are ValueErrors
        reason = getattr(error, "strerror", None) or error
        raise click.BadParameter(f"{path}: {reason}", ctx, param) from error
    ctx.meta[CONFIG] = path
    ctx.default_map = {}
    for name, table in tables.items():
        if name not in COMMANDS or not isinstance(table, dict):
            raise click.BadParameter(f"{path}: [{name}] is not a command", ctx, param)
        try:
            ctx.default_map[name] = _defaults(_load(name), name, table)
        except ValueError as error:
            raise click.BadParameter(f"{path}: {error}", ctx, param) from error


def _defaults(command: click.Command, name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults in a table of settings; a command's own commands have tables inside it."""
    inner = command.commands if isinstance(command, click.Group) else {}
    parameters = {
        flag.lstrip("-").replace("-", "_"): parameter
        for parameter in command.params
        for flag in (*_aliases(parameter), *parameter.opts)
    }
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        parameter = parameters.get(key.replace("-", "_"))
        if key in inner and isinstance(value, dict):
            defaults[key] = _defaults(inner[key], f"{name}.{key}", value)
        elif parameter is not None and parameter.name is not None:
            try:
                defaults[parameter.name] = _as_typed(parameter, value)
            except ValueError as error:
                raise ValueError(f"[{name}] {key} {error}") from error
        else:
            raise ValueError(f"[{name}] has no option {key!r}")
    return defaults


def _as_typed(parameter: click.Parameter, value: Any) -> Any:
    """Turn a TOML value into what the command line would hold, for click to check it just the same."""
    if parameter.multiple or parameter.nargs == -1:
        return [_as_text(item) for item in value] if isinstance(value, list) else [_as_text(value)]
    if isinstance(value, list) and parameter.type is click.UNPROCESSED:  # names, which may hold commas
        return [_as_text(item) for item in value]
    if isinstance(value, bool) and getattr(parameter, "is_flag", False):
        return value
    return _as_text(value)


def _as_text(value: Any) -> str:
    if isinstance(value, list | dict):
        raise ValueError(f"must be one value, not a {'list' if isinstance(value, list) else 'table'}")
    if "\0" in str(value):
        raise ValueError("must not hold null characters")
    return str(value)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample: nysketch sketch data.parquet -o data.nysk && nysketch info data.nysk",
)
@click.version_option(__version__, "-V", "--version", prog_name="nysketch")
@click.option(
    "--config",
    metavar="FILE",
    envvar="NYSKETCH_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file of default options, with a table per command. NYSKETCH_* variables override it, and "
    "flags override both.",
)
def group() -> None:
    """Compress tables that do not fit in memory into small mergeable sketches, in one pass.

    Cluster, compare and test from the sketches alone. `nysketch help COMMAND` shows the options of a command.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    signals.exit_with(execute)


def execute() -> int:
    """Run the command line and return its exit code."""
    choose_allocator()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # none if closed
            stream.reconfigure(errors="backslashreplace")  # a name the locale has no letters for
    try:
        result = group.main(standalone_mode=False, complete_var=COMPLETION_VARIABLE)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BaseException as error:
        return _report(error)


def _report(error: BaseException) -> int:
    """Say what ended the command, and return the exit code that belongs to it."""
    log = logging.getLogger("nysketch")
    stop = signals.seen()
    if stop is not None:  # whatever became of it on the way
        _complain(log, signals.WORDS[stop])
        return signals.exit_code(stop)
    match error:
        case click.ClickException():
            if _log_format(getattr(error, "ctx", None)) == "json":
                _output.set_up_logging(quiet=False, verbose=False, log_format="json")
                _complain(log, error.format_message())
            else:
                _show(error)
            return error.exit_code
        case NysketchError():
            _complain(log, str(error))
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            _complain(log, "interrupted")
            return signals.exit_code(signal.SIGINT)
        case BrokenPipeError():
            # The reader of our results has gone (`| head`): say nothing, and flush nothing more.
            streams.discard(1)
            return 1
        case OSError():
            _complain(log, f"cannot continue: {error}")
            streams.discard(1)
            return 1
        case MemoryError():
            _complain(log, "out of memory: use fewer --threads, fewer landmarks (-m) or fewer --blocks")
            return 1
        case Exception() if not log.isEnabledFor(logging.DEBUG):
            where = "This is a bug; run with -v for a traceback"
            _complain(log, f"internal error: {type(error).__name__}: {error}. {where}")
            return 1
    raise error


def _log_format(ctx: click.Context | None) -> str | None:
    """Return the log format that was asked for, also where click could not parse the command line."""
    flags = re.findall(r"(?<=\0)--log-format[=\0]([^\0]*)", "\0".join(sys.argv))
    if flags:
        return str(flags[-1])
    if ctx is None:
        return None
    names, inner = ["LOG_FORMAT"], ctx
    while inner.parent is not None:
        names.insert(0, inner.info_name or "")
        inner = inner.parent
    variable = os.environ.get("_".join(["NYSKETCH", *names]).upper())
    return variable or ctx.lookup_default("log_format")


def _show(error: click.ClickException) -> None:
    try:
        error.show()
    except OSError:  # nobody reads it
        streams.discard(2)


def _complain(log: logging.Logger, message: str) -> None:
    """Log an error, also before logging was set up."""
    if not _output.logging_is_set_up():
        _output.set_up_logging(quiet=False, verbose=False, log_format="text")
    log.error("%s", message)
