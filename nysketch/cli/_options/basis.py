"""The options that make a basis: shared by `sketch`, `basis`, `coreset` and `independence`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from nysketch.cli._options.common import Command, names
from nysketch.cli._options.types import CountOrAuto
from nysketch.cli._sections import ADVANCED_BASIS, BASIS, COLUMNS, option
from nysketch.errors import UsageError


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
        found = names(ctx, param, columns)
        if not name.strip() or not found:
            raise click.BadParameter(f"{text!r} is not of the form NAME=COLUMN,COLUMN", ctx, param)
        if name.strip() in groups:
            raise click.BadParameter(f"two groups have the name {name.strip()!r}", ctx, param)
        groups[name.strip()] = list(found)
    return groups or None


def _kinds(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str] | None:
    """Read `COLUMN=KIND`, once or more."""
    from nysketch.kinds import parse_kinds

    del ctx, param
    return {column: str(kind) for column, kind in parse_kinds(values).items()} or None


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
    "kind": "kinds",
    "emphasis": "emphasis",
    "scale": "scaling",
    "pilot_rows": "pilot_rows",
}
_ASKED_FOR = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def basis_making(command: Command) -> Command:
    """Add the options that make a basis; passes them on as `basis_options`."""

    @option(
        "-m",
        "--landmarks",
        section=BASIS,
        type=CountOrAuto("landmarks"),
        default=1000,
        show_default=True,
        metavar="N|auto",
        help="Number of landmarks (or Fourier features). auto: double it until the error of the landmarks "
        "is below the sampling error.",
    )
    @option(
        "--max-landmarks",
        section=ADVANCED_BASIS,
        type=click.IntRange(min=1),
        metavar="N",
        default=2000,
        show_default=True,
        help="Upper limit of -m auto.",
    )
    @option(
        "--sampling",
        section=ADVANCED_BASIS,
        metavar="METHOD",
        type=click.Choice(["uniform", "kmeans++", "leverage", "greedy", "rpcholesky", "kmeans"]),
        default="kmeans++",
        show_default=True,
        help="How to choose landmarks from the pilot sample: uniform, kmeans++, leverage, greedy, rpcholesky "
        "or kmeans.",
    )
    @option(
        "--features",
        section=ADVANCED_BASIS,
        type=click.Choice(["nystrom", "fourier"]),
        default="nystrom",
        show_default=True,
        help="Feature map: kernel values at landmarks, or random Fourier features, which keep no rows in the "
        "file.",
    )
    @option(
        "--frequencies",
        section=ADVANCED_BASIS,
        type=click.Choice(["gaussian", "adapted-radius"]),
        default="gaussian",
        show_default=True,
        help="Distribution of Fourier frequencies.",
    )
    @option(
        "--kernel",
        section=BASIS,
        multiple=True,
        default=["gaussian"],
        show_default=True,
        metavar="[GROUP=]NAME",
        callback=_per_group,
        help="Kernel: gaussian, laplacian-l1, laplacian-l2, matern32, matern52, polynomial, linear or "
        "cosine. For a text column: spectrum or subsequence.",
    )
    @option(
        "--bandwidth",
        section=BASIS,
        multiple=True,
        default=["auto"],
        show_default=True,
        metavar="[GROUP=]B",
        callback=_per_group,
        help="Bandwidth: median (of the distances between rows), a multiple such as 0.5*median, or a number "
        "in scaled units. Several, separated by commas, give the mean of their Gaussian kernels. auto: the "
        "median, and finer ones if rows lie in clumps far below it.",
    )
    @option(
        "--degree",
        section=ADVANCED_BASIS,
        type=click.IntRange(min=1),
        metavar="N",
        default=2,
        show_default=True,
        help="Degree of the polynomial kernel.",
    )
    @option(
        "--offset",
        section=ADVANCED_BASIS,
        type=float,
        metavar="X",
        default=1.0,
        show_default=True,
        help="Constant term of the polynomial kernel.",
    )
    @option(
        "--length",
        section=ADVANCED_BASIS,
        type=click.IntRange(min=1),
        metavar="N",
        default=3,
        show_default=True,
        help="Substring length of the text kernels, in characters.",
    )
    @option(
        "--decay",
        section=ADVANCED_BASIS,
        type=float,
        metavar="X",
        default=0.5,
        show_default=True,
        help="Decay factor of the subsequence kernel, per character and gap.",
    )
    @option(
        "--group",
        section=COLUMNS,
        multiple=True,
        metavar="NAME=COLUMNS",
        callback=_groups,
        help="Group of columns with a kernel of its own: x=a,b. Repeat it for each group. The kernel is the "
        "product over groups.",
    )
    @option(
        "--kind",
        section=COLUMNS,
        multiple=True,
        metavar="COLUMN=KIND",
        callback=_kinds,
        help="Kind of a column: number, log or rank (for heavy tails), category, time, or parts of a time: "
        "hour,weekday,yearday,elapsed. Repeat it for each column: --kind price=log --kind zip=category.",
    )
    @option(
        "--emphasis",
        section=COLUMNS,
        multiple=True,
        metavar="COLUMN=FACTOR",
        help="Let a column count more: price=2 doubles what it adds to squared distances, 0.5 halves it. "
        "Repeat it for each column.",
    )
    @option(
        "--scale",
        section=BASIS,
        type=click.Choice(["auto", "standard", "robust", "none"]),
        default="auto",
        show_default=True,
        help="Scale columns by their standard deviation: without wild values (auto), or of all values "
        "(standard); or by their quartiles (robust).",
    )
    @option(
        "--pilot-rows",
        section=ADVANCED_BASIS,
        type=click.IntRange(min=1),
        metavar="N",
        help="Rows in the pilot sample, which sets scaling, bandwidth and landmarks. Default: 10 per "
        "landmark, at least 10,000, at most 32 MB, and never fewer than the landmarks.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from nysketch.basis.options import BasisOptions

        wanted = {keyword: kwargs.pop(parameter) for parameter, keyword in _BASIS_MAKING.items()}
        if kwargs.get("basis_path") is None:
            _refuse_idle(click.get_current_context(), wanted)
        return command(*args, basis_options=BasisOptions(**wanted), **kwargs)

    return wrapped


def _refuse_idle(ctx: click.Context, wanted: dict[str, Any]) -> None:
    """Refuse options, given on the command line, that would have no effect."""
    kernels = wanted["kernel"].values() if isinstance(wanted["kernel"], dict) else [wanted["kernel"]]
    idle = {
        "--degree": "polynomial" not in kernels and "is for the polynomial kernel",
        "--offset": "polynomial" not in kernels and "is for the polynomial kernel",
        "--length": not {"spectrum", "subsequence"} & {*kernels} and "is for text kernels",
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
    """Refuse options that make a basis where one is given; a settings file may hold them."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name in _BASIS_MAKING and source in _ASKED_FOR:
            flag = "/".join(parameter.opts)
            where = f" (from {parameter.envvar})" if source == ParameterSource.ENVIRONMENT else ""
            raise UsageError(f"{flag}{where}: has no effect with --basis; leave out one of them")
