"""Options that mean the same on every command, defined once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nysketch._support.machine import default_memory
from nysketch._support.outputs import refuse_to_replace
from nysketch._support.regular import read_limited, read_once, require_replaceable
from nysketch._support.sizes import bytes_of
from nysketch.cli import _output
from nysketch.cli._sections import ADVANCED_INPUT, COLUMNS, INPUT, OUTPUT, RUNNING, TEST, option
from nysketch.errors import InputError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nysketch.sources.options import ReadOptions

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


def stack(*decorators: Decorator) -> Decorator:
    """Return one decorator for several; --help lists their options in this order."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _set_log_format(ctx: click.Context, param: click.Parameter, log_format: str) -> str:
    """Use the format also for errors in the other options."""
    del ctx, param
    _output.set_up_logging(quiet=False, verbose=False, log_format=log_format)
    return log_format


def reporting(command: Command) -> Command:
    """Add -q, -v and --log-format, and set up the log accordingly; passes `quiet` on."""

    @option("-q", "--quiet", section=OUTPUT, is_flag=True, help="Print warnings and errors only.")
    @option(
        "-v",
        "--verbose",
        section=OUTPUT,
        is_flag=True,
        help="Print details, and tracebacks of internal errors.",
    )
    @option(
        "--log-format",
        section=OUTPUT,
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,
        callback=_set_log_format,
        help="Format of log lines on stderr.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, quiet: bool, verbose: bool, log_format: str, **kwargs: Any) -> Any:
        _output.set_up_logging(quiet=quiet, verbose=verbose, log_format=log_format)
        return command(*args, quiet=quiet, **kwargs)

    return wrapped


as_json = option(
    "--json", "as_json", section=OUTPUT, is_flag=True, help="Print the result as one JSON object."
)


# Where the context of a command has the path of --config.
CONFIG = "nysketch.config"


def _file_name(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """Refuse what cannot be written, before anything is read; existing files are checked under their lock."""
    if not path.name:
        raise click.BadParameter("this is not a file name", ctx, param)
    require_replaceable(path)
    refuse_to_replace([ctx.meta[CONFIG]] if CONFIG in ctx.meta else [], path)
    return path


output = option(
    "-o",
    "--output",
    section=OUTPUT,
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_file_name,
    help="File to write.",
)


def seconds(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Refuse negative durations and NaN, which would make waiting endless."""
    if not value >= 0:
        raise click.BadParameter(f"{value} is not a number of seconds", ctx, param)
    return value


lock_wait = option(
    "--lock-wait",
    section=OUTPUT,
    type=float,
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    callback=seconds,
    help="How long to wait if another process is writing the same output.",
)

if_exists_fail_or_overwrite = option(
    "--if-exists",
    section=OUTPUT,
    type=click.Choice(["fail", "overwrite"]),
    default="fail",
    show_default=True,
    help="What to do if the output exists.",
)


def writes_output(command: Command) -> Command:
    """Add --if-exists, --lock-wait, --json and what `reporting` adds; passes `overwrite` on for the first."""

    @if_exists_fail_or_overwrite
    @lock_wait
    @as_json
    @reporting
    @functools.wraps(command)
    def wrapped(*args: Any, if_exists: str, **kwargs: Any) -> Any:
        return command(*args, overwrite=if_exists == "overwrite", **kwargs)

    return wrapped


force = option("--force", section=INPUT, is_flag=True, help="Skip the double-counting check.")


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Let the shell complete names of files, where more than names of files is accepted."""
    from click.shell_completion import CompletionItem

    del ctx, param
    return [CompletionItem(incomplete, type="file")]


def inputs(command: Command) -> Command:
    """Add INPUT… and --from-file; passes `inputs`, a list of strings, on."""

    @click.argument("inputs", nargs=-1, metavar="INPUT...", shell_complete=complete_files)
    @option(
        "--from-file",
        section=INPUT,
        type=click.Path(path_type=Path),
        metavar="LIST",
        help="Text file with one more input per line, or - for standard input. Lines that start with # are "
        "comments.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, inputs: tuple[str, ...], from_file: Path | None, **kwargs: Any) -> Any:
        if from_file is not None and "output" in kwargs:
            refuse_to_replace([from_file], kwargs["output"])
        return command(*args, inputs=all_inputs(inputs, from_file), **kwargs)

    return wrapped


def all_inputs(inputs: tuple[str, ...], from_file: Path | None) -> list[str]:
    """Return the inputs of the command line and of the list."""
    listed = list(inputs)
    if from_file is not None:
        try:
            lines = _list_of(from_file).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{from_file}: cannot read the list of inputs: {reason}") from error
        listed += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not listed:
        raise UsageError("no inputs given")
    return listed


def _list_of(from_file: Path) -> str:
    if from_file != Path("-"):
        return read_once(from_file).decode()
    if sys.stdin is None:
        raise InputError("standard input is closed: no list of inputs can be read from it")
    return read_limited(sys.stdin.buffer).decode()


def names(ctx: click.Context, param: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """Take column names from `a,b,c`, where quotes protect commas in them, or from a TOML array."""
    import csv

    del ctx, param
    if value is None:
        return None
    if isinstance(value, str):
        value = next(csv.reader([value], skipinitialspace=True), [])
    return tuple(str(name).strip() for name in value if str(name).strip())


def files(command: Command) -> Command:
    """Add the options that say how files are read; passes them on as `reading`, a ReadOptions."""

    @option(
        "--skip-unreadable",
        section=INPUT,
        is_flag=True,
        help="Skip files that cannot be opened, and exit with code 6.",
    )
    @option(
        "--dataset",
        section=ADVANCED_INPUT,
        multiple=True,
        metavar="PATH",
        help="HDF5 dataset to read. Repeat it for several one-dimensional ones.",
    )
    @option(
        "--allow-external",
        section=ADVANCED_INPUT,
        is_flag=True,
        help="Follow links, external storage and virtual datasets in HDF5 files, and addresses that lead to "
        "others (simplecache::…, reference://…). For trusted inputs only.",
    )
    @option(
        "--retries",
        section=ADVANCED_INPUT,
        type=click.IntRange(min=0),
        metavar="N",
        default=4,
        show_default=True,
        help="Retries of a failed remote read, at increasing intervals.",
    )
    @option(
        "--timeout",
        section=ADVANCED_INPUT,
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for each response of a remote server.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        dataset: tuple[str, ...],
        allow_external: bool,
        skip_unreadable: bool,
        retries: int,
        timeout: float,
        **kwargs: Any,
    ) -> Any:
        from nysketch.sources.options import ReadOptions

        reading = ReadOptions(
            datasets=dataset,
            allow_external=allow_external,
            skip_unreadable=skip_unreadable,
            retries=retries,
            timeout=timeout,
        )
        return command(*args, reading=reading, **kwargs)

    return wrapped


def table(command: Command) -> Command:
    """Add the options that say which columns to read, and how; passes them on as `reading`."""

    @option(
        "--columns",
        section=COLUMNS,
        type=click.UNPROCESSED,
        callback=names,
        metavar="NAMES",
        help="Columns to use, in this order: a,b,c. Default: all columns but serial numbers, "
        "identifiers, free text and constants.",
    )
    @option(
        "--exclude",
        section=COLUMNS,
        type=click.UNPROCESSED,
        callback=names,
        metavar="NAMES",
        help="Columns to leave out: a,b,c.",
    )
    @files
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        reading: ReadOptions,
        columns: tuple[str, ...] | None,
        exclude: tuple[str, ...] | None,
        **kwargs: Any,
    ) -> Any:
        return command(*args, reading=replace(reading, columns=columns, exclude=exclude or ()), **kwargs)

    return wrapped


def weights(help: str) -> Decorator:
    """Add --weights, below `files` or `table`, to what they pass on as `reading`."""

    def decorate(command: Command) -> Command:
        @option("--weights", section=COLUMNS, metavar="COLUMN", help=help)
        @functools.wraps(command)
        def wrapped(*args: Any, reading: ReadOptions, weights: str | None, **kwargs: Any) -> Any:
            return command(*args, reading=replace(reading, weights=weights), **kwargs)

        return wrapped

    return decorate


row_weights = weights("Column of non-negative row weights.")


nulls_of_columns = option(
    "--nulls",
    section=COLUMNS,
    type=click.Choice(["auto", "error", "drop", "keep"]),
    default="auto",
    show_default=True,
    help="Rows with nulls or NaN: stop with an error; drop and count them, and those with infinities; or "
    "keep them: a missing value takes a neutral place, and counts as missing. auto: keep if a basis is made, "
    "or has kinds of columns; else error.",
)

nulls = option(
    "--nulls",
    section=COLUMNS,
    type=click.Choice(["error", "drop"]),
    default="error",
    show_default=True,
    help="Rows with nulls, NaN or infinities: stop with an error, or drop and count them.",
)


nulls_of_model = option(
    "--nulls",
    section=COLUMNS,
    type=click.Choice(["keep", "error", "drop"]),
    default="keep",
    show_default=True,
    help="Rows with missing values: keep them if columns of the model have kinds, which take them, else stop "
    "with an error; always stop; or drop and count them.",
)


def keep(help: str) -> Decorator:
    """Add --keep, for columns that pass through, below `files` or `table`, to what they pass on."""

    def decorate(command: Command) -> Command:
        @option("--keep", section=COLUMNS, type=click.UNPROCESSED, callback=names, metavar="NAMES", help=help)
        @functools.wraps(command)
        def wrapped(*args: Any, reading: ReadOptions, keep: tuple[str, ...] | None, **kwargs: Any) -> Any:
            return command(*args, reading=replace(reading, keep=keep or ()), **kwargs)

        return wrapped

    return decorate


def refuse_others(ctx: click.Context, meant: set[str], why: str) -> None:
    """Refuse parameters, given on the command line or by a variable, that are not `meant` here."""
    asked = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") in asked
        if given and parameter.name not in meant:
            raise UsageError(f"{'/'.join(parameter.opts)}: {why}")


seed = option(
    "--seed",
    section=RUNNING,
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of all random choices.",
)
alpha = option(
    "--alpha",
    section=TEST,
    metavar="LEVEL",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Significance level of the test.",
)


def permutation_rows(section: str, more: str = "") -> Decorator:
    """Return --permutation-rows, in a section of the help, which may say `more`."""
    return option(
        "--permutation-rows",
        section=section,
        aliases=["--shuffle-rows"],
        type=click.IntRange(min=0),
        metavar="N",
        help=f"Rows to sample for the permutation test of independence{more}. Default: 50,000, fewer for "
        "very wide rows.",
    )


threads = option(
    "--threads",
    section=RUNNING,
    type=click.IntRange(min=1),
    metavar="N",
    help="Worker threads. Default: one per processor, as far as --memory allows.",
)


def _bytes(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int:
    """Read sizes like 512MB, 2GB or 1.5 GiB; by default, see machine.py."""
    if text is None:
        return default_memory()
    try:
        return bytes_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error


memory = option(
    "--memory",
    section=RUNNING,
    metavar="SIZE",
    callback=_bytes,
    help="Memory limit. It determines the default number of threads. Default: an eighth of the memory of the "
    "machine, or of its container, but at least 512 MB.",
)
