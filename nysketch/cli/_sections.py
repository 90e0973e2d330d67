"""Help that can be read: options in titled sections, the common ones first, experts' last.

An option names its section where it is defined (`option`); a command names its common options, which move
to a section of their own at the top (`command`). Commands with few options show them in one list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.parser import _OptionParser

COMMON = "Common options"
INPUT = "Input"
COLUMNS = "Columns and rows"
MODEL = "Model"
CORESET = "Coreset"
BASIS = "Landmarks and kernel"
TEST = "Test"
KEEP = "What to keep"
RUNNING = "Running"
OUTPUT = "Output"
ADVANCED_INPUT = "Input (advanced)"
ADVANCED_BASIS = "Landmarks and kernel (advanced)"
ADVANCED_KEEP = "What to keep (advanced)"
ADVANCED_RUNNING = "Running (advanced)"
DASK = "Dask cluster (advanced)"

# In the order in which they are shown.
SECTIONS = (
    COMMON, INPUT, COLUMNS, MODEL, CORESET, BASIS, TEST, KEEP, RUNNING, OUTPUT,
    ADVANCED_INPUT, ADVANCED_BASIS, ADVANCED_KEEP, ADVANCED_RUNNING, DASK,
)  # fmt: skip

# Up to this many options are one list: titles would only be in the way.
_FEW = 10
_COLUMN = 26


class Option(click.Option):
    """An option with a section in the help, and perhaps old names that work but are not shown."""

    def __init__(self, *args: Any, section: str, aliases: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section
        self.aliases = tuple(aliases)

    def add_to_parser(self, parser: _OptionParser, ctx: click.Context) -> None:
        """Accept the old names, too; `opts` has only those that help and completion show."""
        shown = self.opts
        self.opts = [*shown, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out ranges such as x>=1: a message names them to those who miss them."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def option(
    *flags: str, section: str, aliases: Sequence[str] = (), **attributes: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return `click.option` for a section of the help."""
    return click.option(*flags, cls=Option, section=section, aliases=aliases, **attributes)


class Command(click.Command):
    """A command whose help has sections; `common` holds the names of the parameters to show first."""

    def __init__(self, *args: Any, common: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.common = common.split()

    def sections(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Return the options to show, by the title of their section."""
        options = {p.name: p for p in self.get_params(ctx) if isinstance(p, click.Option) and not p.hidden}
        if len(options) <= _FEW:
            return {"Options": list(options.values())}
        help_option = self.get_help_option(ctx)
        shown = [options.pop(name) for name in self.common]
        if help_option is not None:
            shown.append(options.pop(help_option.name))
        found = {title: [each for each in options.values() if _section(each) == title] for title in SECTIONS}
        return {title: each for title, each in (found | {COMMON: shown}).items() if each}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections, all with the same columns."""
        for title, options in self.sections(ctx).items():
            with formatter.section(title):
                write_options(options, ctx, formatter)


def _section(shown: click.Option) -> str | None:
    return shown.section if isinstance(shown, Option) else None


def write_options(
    options: Sequence[click.Option], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write flags and what they do in two columns, which are as wide in every section."""
    records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
    formatter.write_dl([(f"{flags:<{_COLUMN}}", text) for flags, text in records], col_max=_COLUMN)


def command(*, common: str = "", example: str) -> Callable[[Callable[..., Any]], Command]:
    """Return `click.command` for help in sections, which ends with an example."""
    return click.command(cls=Command, common=common, epilog=f"\b\nExample: {example}")
