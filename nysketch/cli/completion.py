"""`nysketch completion`: a script that teaches a shell our commands, options and choices."""

from __future__ import annotations

import click

from nysketch.cli import COMPLETION_VARIABLE
from nysketch.cli._sections import command as sectioned


@sectioned(example="nysketch completion bash > ~/.nysketch-completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options, choices and files in bash, zsh or fish.

    \b
    To install it, run these lines once and start a new shell:
      bash  nysketch completion bash > ~/.nysketch-completion
            echo '. ~/.nysketch-completion' >> ~/.bashrc
      zsh   nysketch completion zsh > ~/.nysketch-completion
            echo '. ~/.nysketch-completion' >> ~/.zshrc
      fish  mkdir -p ~/.config/fish/completions
            nysketch completion fish > ~/.config/fish/completions/nysketch.fish

    Bash must be version 4.4 or later. In ~/.zshrc, the line must come after compinit.
    """  # noqa: D301 - click reads the control code \b
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "nysketch", COMPLETION_VARIABLE).source())
