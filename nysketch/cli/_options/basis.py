"""The options that make a basis: shared by `sketch` and `basis`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from nysketch.cli._options.common import Command, names
from nysketch.errors import UsageError


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
        found = names(ctx, param, columns)
        if not name.strip() or not found:
            raise click.BadParameter(f"{text!r} is not of the form NAME=COLUMN,COLUMN", ctx, param)
        if name.strip() in groups:
            raise click.BadParameter(f"there are two groups {name.strip()!r}", ctx, param)
        groups[name.strip()] = list(found)
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
        from nysketch.basis.options import BasisOptions

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
