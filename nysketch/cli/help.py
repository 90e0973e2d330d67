"""`nysketch help`: the same as --help, for those who ask this way."""

from __future__ import annotations

from collections.abc import Iterable

import click

from nysketch.cli import no_such_command
from nysketch.cli._sections import command as sectioned


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    assert ctx.parent is not None
    try:
        context = _context(ctx.parent, ctx.params["names"] or ())
    except click.UsageError:
        return []
    return [name for name in _commands(context) if name.startswith(incomplete)]


@sectioned(example="nysketch help learn kmeans")
@click.argument("names", nargs=-1, metavar="[COMMAND [SUBCOMMAND]]", shell_complete=_complete)
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or the list of commands."""
    assert ctx.parent is not None
    click.echo(_context(ctx.parent, names).get_help())


def _context(context: click.Context, names: Iterable[str]) -> click.Context:
    """Return the context in which the command of these names, one inside the other, would run."""
    for name in names:
        outer = context.command
        inner = outer.get_command(context, name) if isinstance(outer, click.Group) else None
        if inner is None:
            raise no_such_command(name, _commands(context), context)
        context = click.Context(inner, parent=context, info_name=name)
    return context


def _commands(context: click.Context) -> list[str]:
    return context.command.list_commands(context) if isinstance(context.command, click.Group) else []
