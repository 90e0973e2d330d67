"""`nysketch help`: the same as --help, for those who ask this way."""

from __future__ import annotations

import click

from nysketch.cli import no_such_command
from nysketch.cli._sections import command as sectioned


@sectioned(example="nysketch help learn kmeans")
@click.argument("names", nargs=-1, metavar="[COMMAND [SUBCOMMAND]]")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or the list of commands."""
    assert ctx.parent is not None
    context = ctx.parent
    for name in names:
        outer = context.command
        if not isinstance(outer, click.Group):
            raise click.UsageError(f"{context.command_path!r} has no commands of its own", ctx)
        inner = outer.get_command(context, name)
        if inner is None:
            raise no_such_command(name, outer.list_commands(context), ctx)
        context = click.Context(inner, parent=context, info_name=name, **inner.context_settings)
    click.echo(context.get_help())
