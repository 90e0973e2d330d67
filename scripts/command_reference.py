"""Write docs/commands.md from the commands' own --help: `python scripts/command_reference.py`."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import COMMANDS, group

HELP = {"help_option_names": ["-h", "--help"]}
TARGET = Path(__file__).parent.parent / "docs" / "commands.md"


def reference() -> str:
    """Return the page: one section per command."""
    parts = ["# Commands\n\nMade from `--help` by `scripts/command_reference.py`; a test keeps it true.\n"]
    context = click.Context(group, info_name="nysketch", terminal_width=100, max_content_width=100, **HELP)
    parts.append(f"## nysketch\n\n```text\n{group.get_help(context)}\n```\n")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(
            command, info_name=name, parent=context, terminal_width=100, max_content_width=100, **HELP
        )
        parts.append(f"## nysketch {name}\n\n```text\n{command.get_help(inner)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(reference())
