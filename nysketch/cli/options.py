"""Options that mean the same on every command, defined once."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nysketch import ui
from nysketch.errors import InputError, UsageError

Command = Callable[..., Any]


def _set_log_format(ctx: click.Context, param: click.Parameter, log_format: str) -> str:
    """Use the format also for complaints about the other options."""
    del ctx, param
    ui.set_up_logging(quiet=False, verbose=False, log_format=log_format)
    return log_format


def reporting(command: Command) -> Command:
    """Add -q, -v and --log-format, and set up the log accordingly; passes `quiet` on."""

    @click.option("-q", "--quiet", is_flag=True, help="Only warnings and errors; no progress.")
    @click.option("-v", "--verbose", is_flag=True, help="Details, and tracebacks of internal errors.")
    @click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,
        callback=_set_log_format,
        help="Format of what goes to stderr.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, quiet: bool, verbose: bool, log_format: str, **kwargs: Any) -> Any:
        ui.set_up_logging(quiet=quiet, verbose=verbose, log_format=log_format)
        return command(*args, quiet=quiet, **kwargs)

    return wrapped


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")


def _file_name(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    if not path.name:
        raise click.BadParameter("a file name is needed", ctx, param)
    if path == Path("-"):
        raise click.BadParameter("results cannot be written to standard output; name a file", ctx, param)
    return path


output = click.option(
    "-o",
    "--output",
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


lock_wait = click.option(
    "--lock-wait",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    callback=seconds,
    help="How long to wait for another run on the same output.",
)

if_exists_fail_or_overwrite = click.option(
    "--if-exists",
    type=click.Choice(["fail", "overwrite"]),
    default="fail",
    show_default=True,
    help="What to do if the output exists.",
)


force = click.option(
    "--force", is_flag=True, help="Trust me: rows are counted as often as I say, whatever the inputs listed."
)


def inputs(command: Command) -> Command:
    """Add INPUT… and --from-file; passes `inputs`, a list of strings, on."""

    @click.argument("inputs", nargs=-1, metavar="INPUT...")
    @click.option(
        "--from-file",
        type=click.Path(path_type=Path),
        metavar="LIST",
        help="File with one more input per line; lines that start with # are comments.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, inputs: tuple[str, ...], from_file: Path | None, **kwargs: Any) -> Any:
        return command(*args, inputs=all_inputs(inputs, from_file), **kwargs)

    return wrapped


def all_inputs(inputs: tuple[str, ...], from_file: Path | None) -> list[str]:
    """Return the inputs of the command line and of the list."""
    listed = list(inputs)
    if from_file is not None:
        try:
            lines = from_file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{from_file}: cannot read the list of inputs: {error}") from error
        listed += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not listed:
        raise UsageError("no inputs were given")
    return listed


def sketch_files(inputs: Sequence[str], *, but: Path | None = None) -> list[Path]:
    """Return the files that paths, globs and directories of sketches stand for, in a stable order.

    A file may be named twice, but a glob or directory must not bring it a second time; nor do they bring
    the file `but`, which is the output of an earlier run.
    """
    files: list[tuple[str, str]] = []  # with their real paths
    brought: dict[str, str] = {}  # real path → the glob or directory
    for text in inputs:
        try:
            matches = [
                (name, os.path.realpath(name))
                for name in _matches(text)
                if name == text or but is None or os.path.realpath(name) != os.path.realpath(but)
            ]
        except (OSError, ValueError) as error:
            raise InputError(f"{text}: cannot look up: {error}") from error
        files += matches
        brought |= {real: text for name, real in matches if name != text}
    times = Counter(real for _, real in files)
    for name, real in files:
        if times[real] > 1 and real in brought:
            raise UsageError(f"{name}: given twice, once by {brought[real]}")
    return [Path(name) for name, _ in files]


def _matches(text: str) -> list[str]:
    import glob

    path = Path(text)
    is_directory = bool(text) and path.is_dir()
    if not is_directory and (path.exists() or not glob.has_magic(text)):
        return [text]
    pattern = os.fspath(Path(glob.escape(text), "*.nysk")) if is_directory else text
    # Path.glob takes no absolute patterns, and finds hidden files.
    matches = [name for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
    if not matches:
        what = "no *.nysk files in this directory" if is_directory else "no files match"
        raise InputError(f"{text}: {what}")
    return matches


def _names(ctx: click.Context, param: click.Parameter, value: Any) -> tuple[str, ...] | None:
    """Take column names from `a,b,c`, where quotes protect commas in them, or from a TOML array."""
    import csv

    del ctx, param
    if value is None:
        return None
    if isinstance(value, str):
        value = next(csv.reader([value], skipinitialspace=True), [])
    return tuple(str(name).strip() for name in value if str(name).strip())


def table(command: Command) -> Command:
    """Add the options that say which rows and columns to read; passes them on as `table_options`."""

    @click.option(
        "--columns",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAMES",
        help="Columns to use, in this order: a,b,c. Default: all numeric ones.",
    )
    @click.option(
        "--exclude",
        type=click.UNPROCESSED,
        callback=_names,
        metavar="NAMES",
        help="Columns to leave out: a,b,c.",
    )
    @click.option("--dataset", multiple=True, help="HDF5 data set to read; repeat for several 1-D ones.")
    @click.option(
        "--allow-external",
        is_flag=True,
        help="Trust HDF5 files: follow links, external storage and virtual data sets.",
    )
    @click.option(
        "--skip-unreadable", is_flag=True, help="Skip files that cannot be opened, and exit with code 6."
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        columns: tuple[str, ...] | None,
        exclude: tuple[str, ...] | None,
        dataset: tuple[str, ...],
        allow_external: bool,
        skip_unreadable: bool,
        **kwargs: Any,
    ) -> Any:
        options = {
            "columns": columns,
            "exclude": exclude or (),
            "datasets": dataset,
            "allow_external": allow_external,
            "skip_unreadable": skip_unreadable,
        }
        return command(*args, table_options=options, **kwargs)

    return wrapped


nulls = click.option(
    "--nulls",
    type=click.Choice(["error", "drop"]),
    default="error",
    show_default=True,
    help="Rows with nulls, NaN or infinities: stop, or drop and count them.",
)
seed = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random."
)
threads = click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Worker threads. Default: one per processor, as far as they fit --memory.",
)


class _Landmarks(click.ParamType):  # type: ignore[type-arg]
    """A number, or `auto`."""

    name = "landmarks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Read one from text."""
        if value == "auto":
            return "auto"
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < 1:
            self.fail(f"{value!r} is neither a number of landmarks nor 'auto'", param, ctx)
        return number


def _per_group(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> str | dict[str, str]:
    """Read `VALUE` for all groups, and `GROUP=VALUE` for some."""
    chosen: dict[str, str] = {}
    for text in values:
        group, equals, value = text.rpartition("=")
        if (equals and not group) or not value:
            raise click.BadParameter(f"{text!r} is neither VALUE nor GROUP=VALUE", ctx, param)
        if group in chosen:
            raise click.BadParameter(f"given twice: {chosen[group]} and {value}", ctx, param)
        chosen[group] = value
    return chosen[""] if set(chosen) == {""} else chosen


def _groups(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, list[str]] | None:
    """Read `NAME=a,b,c`, once or more."""
    groups: dict[str, list[str]] = {}
    for text in values:
        name, _, columns = text.partition("=")
        names = _names(ctx, param, columns)
        if not name.strip() or not names:
            raise click.BadParameter(f"{text!r} is not of the form NAME=COLUMN,COLUMN", ctx, param)
        if name.strip() in groups:
            raise click.BadParameter(f"there are two groups {name.strip()!r}", ctx, param)
        groups[name.strip()] = list(names)
    return groups or None


# Parameter → keyword of BasisOptions.
_BASIS_MAKING = {
    "landmarks": "m",
    "max_landmarks": "max_landmarks",
    "sampling": "sampling",
    "features": "features",
    "frequencies": "frequencies",
    "kernel": "kernel",
    "bandwidth": "bandwidth",
    "degree": "degree",
    "offset": "offset",
    "length": "length",
    "decay": "decay",
    "group": "groups",
    "scale": "scaling",
    "pilot_rows": "pilot_rows",
}
_ASKED_FOR = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def basis_making(command: Command) -> Command:
    """Add the options that make a basis; passes them on as `basis_options`."""

    @click.option(
        "-m",
        "--landmarks",
        type=_Landmarks(),
        default=1000,
        show_default=True,
        metavar="N|auto",
        help="Number of landmark rows (or Fourier features). auto: double it until the error of the "
        "landmarks is below that of the sampling.",
    )
    @click.option(
        "--max-landmarks",
        type=click.IntRange(min=1),
        default=2000,
        show_default=True,
        help="Where -m auto stops.",
    )
    @click.option(
        "--sampling",
        type=click.Choice(["uniform", "kmeans++", "leverage", "greedy", "rpcholesky", "kmeans"]),
        default="kmeans++",
        show_default=True,
        help="How landmarks are chosen from the pilot.",
    )
    @click.option(
        "--features",
        type=click.Choice(["nystrom", "fourier"]),
        default="nystrom",
        show_default=True,
        help="What is summed: kernel values at landmarks, or random Fourier features (no rows in the file).",
    )
    @click.option(
        "--frequencies",
        type=click.Choice(["gaussian", "adapted-radius"]),
        default="gaussian",
        show_default=True,
        help="How Fourier frequencies are drawn.",
    )
    @click.option(
        "--kernel",
        multiple=True,
        default=["gaussian"],
        show_default=True,
        metavar="[GROUP=]NAME",
        callback=_per_group,
        help="gaussian, laplacian-l1, laplacian-l2, matern32, matern52, polynomial, linear or cosine; "
        "for a text column spectrum or subsequence.",
    )
    @click.option(
        "--bandwidth",
        multiple=True,
        default=["median"],
        show_default=True,
        metavar="[GROUP=]B",
        callback=_per_group,
        help="median (of distances), 0.5*median, or a number in scaled units; several with commas make a "
        "sum of Gaussians.",
    )
    @click.option(
        "--degree",
        type=click.IntRange(min=1),
        default=2,
        show_default=True,
        help="Of the polynomial kernel.",
    )
    @click.option(
        "--offset",
        type=float,
        default=1.0,
        show_default=True,
        help="Constant inside the polynomial kernel.",
    )
    @click.option(
        "--length",
        type=click.IntRange(min=1),
        default=3,
        show_default=True,
        help="Characters of the substrings that kernels of text compare.",
    )
    @click.option(
        "--decay",
        type=float,
        default=0.5,
        show_default=True,
        help="What each character, or gap, of a subsequence counts.",
    )
    @click.option(
        "--group",
        multiple=True,
        metavar="NAME=COLUMNS",
        callback=_groups,
        help="Columns that share a kernel, x=a,b; repeat it. The kernel is then the product over groups.",
    )
    @click.option(
        "--scale",
        type=click.Choice(["none", "standard", "robust"]),
        default="standard",
        show_default=True,
        help="Scaling of columns, from the pilot: by deviation, or by quartiles.",
    )
    @click.option(
        "--pilot-rows",
        type=click.IntRange(min=1),
        help="Rows in the pilot sample. Default: 10 per landmark and at least 10,000, but at most 32 MB "
        "worth, and never fewer than the landmarks.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from nysketch.fitting import BasisOptions

        wanted = {keyword: kwargs.pop(parameter) for parameter, keyword in _BASIS_MAKING.items()}
        if kwargs.get("basis_path") is None:
            _refuse_idle(click.get_current_context(), wanted)
        return command(*args, basis_options=BasisOptions(**wanted), **kwargs)

    return wrapped


def _refuse_idle(ctx: click.Context, wanted: dict[str, Any]) -> None:
    """Complain about options, given on the command line, that would do nothing."""
    kernels = wanted["kernel"].values() if isinstance(wanted["kernel"], dict) else [wanted["kernel"]]
    idle = {
        "--degree": "polynomial" not in kernels and "is for the polynomial kernel",
        "--offset": "polynomial" not in kernels and "is for the polynomial kernel",
        "--length": not {"spectrum", "subsequence"} & {*kernels} and "is for the kernels of text",
        "--decay": "subsequence" not in kernels and "is for the subsequence kernel",
        "--frequencies": wanted["features"] != "fourier" and "is for --features fourier",
        "--sampling": wanted["features"] == "fourier" and "is for landmarks, not for Fourier features",
        "--max-landmarks": wanted["m"] != "auto" and "is for -m auto",
    }
    for flag, why in idle.items():
        source = ctx.get_parameter_source(flag.strip("-").replace("-", "_"))
        if why and source == ParameterSource.COMMANDLINE:
            raise UsageError(f"{flag} {why}; leave it out")


def refuse_basis_making(ctx: click.Context) -> None:
    """Complain about options that make a basis where one is given; a settings file may hold them."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name in _BASIS_MAKING and source in _ASKED_FOR:
            flag = "/".join(parameter.opts)
            where = f" (from {parameter.envvar})" if source == ParameterSource.ENVIRONMENT else ""
            raise UsageError(f"{flag}{where}: is for making a basis, but --basis gives one; leave out either")


def _bytes(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    """Read sizes like 512MB, 2GB or 1.5 GiB."""
    match = re.fullmatch(r"([0-9.]+)\s*([kMGT]?)(i?)B?", text.strip())
    try:
        number = float(match.group(1)) if match else 0.0
    except ValueError:
        number = 0.0
    if match is None or number <= 0:
        raise click.BadParameter(f"{text!r} is not a size like 512MB or 2GiB", ctx, parameter)
    base = 1024 if match.group(3) else 1000
    return int(number * base ** " kMGT".index(match.group(2) or " "))


memory = click.option(
    "--memory",
    default="512MB",
    show_default=True,
    metavar="SIZE",
    callback=_bytes,
    help="Memory to stay within: decides how many threads run by default.",
)
