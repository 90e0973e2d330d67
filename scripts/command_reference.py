"""Write the reference of commands from their own --help: `python scripts/command_reference.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nysketch.cli import ABOUT, COMMANDS, group
from nysketch.cli._sections import Command, write_options

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
SETTINGS: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "terminal_width": 100,
}


def reference() -> str:
    """Return the page: one section per command, one below it per section of its options."""
    parts = ["# Commands\n\nMade from `--help` by `scripts/command_reference.py`; a test keeps it true.\n"]
    context = click.Context(group, info_name="nysketch", **SETTINGS)
    parts.append(f"## nysketch\n\n```text\n{group.get_help(context)}\n```\n")
    for name in (*COMMANDS, *ABOUT):
        command = group.get_command(context, name)
        assert command is not None
        parts += sections(command, name, context)
    return "\n".join(parts)


def sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """Return the section of a command, and those of its own commands."""
    context = click.Context(command, info_name=name, parent=parent, **SETTINGS)
    parts = [f"## {context.command_path}\n"]
    if isinstance(command, click.Group):
        parts.append(f"```text\n{command.get_help(context)}\n```\n")
        for inner_name, inner in command.commands.items():
            parts += sections(inner, inner_name, context)
        return parts
    assert isinstance(command, Command)
    formatter = context.make_formatter()
    for write in (command.format_usage, command.format_help_text, command.format_epilog):
        write(context, formatter)
    parts.append(block(formatter))
    for title, options in command.sections(context).items():
        formatter = context.make_formatter()
        with formatter.indentation():
            write_options(options, context, formatter)
        parts += [f"### {title}\n", block(formatter)]
    return parts


def block(formatter: click.HelpFormatter) -> str:
    """Return what was written as a block of text."""
    text = formatter.getvalue().strip("\n")
    return f"```text\n{text}\n```\n"


if __name__ == "__main__":
    TARGET.write_text(reference())
