"""Write the reference of commands from their own --help: `python scripts/command_reference.py`."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import COMMANDS, group

HELP = {"help_option_names": ["-h", "--help"]}
TARGET = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"


def reference() -> str:
    """Return the page: one section per command."""
    parts = ["# Commands\n\nMade from `--help` by `scripts/command_reference.py`; a test keeps it true.\n"]
    context = click.Context(group, info_name="nysketch", terminal_width=100, max_content_width=100, **HELP)
    parts.append(f"## nysketch\n\n```text\n{group.get_help(context)}\n```\n")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        parts += sections(command, name, context)
    return "\n".join(parts)


def sections(command: click.Command, name: str, parent: click.Context) -> list[str]:
    """Return the section of a command, and those of its own commands."""
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=100, max_content_width=100, **HELP
    )
    parts = [f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for inner_name, inner in command.commands.items():
            parts += sections(inner, inner_name, context)
    return parts


if __name__ == "__main__":
    TARGET.write_text(reference())
