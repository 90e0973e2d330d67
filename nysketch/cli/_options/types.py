"""Values of options that click has no type for."""

from __future__ import annotations

from typing import Any

import click


class CountOrAuto(click.ParamType):  # type: ignore[type-arg]
    """A number of something, `least` or more, or `auto`; a `hint` follows the complaint about others."""

    def __init__(self, name: str, *, least: int = 1, hint: str = "") -> None:
        self.name, self._least, self._hint = name, least, hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Read one from text."""
        if value == "auto":
            return "auto"
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number < self._least:
            more = f", {self._least} or more," if self._least > 1 else ""
            self.fail(
                f"{value!r} is neither a number of {self.name}{more} nor 'auto'{self._hint}", param, ctx
            )
        return number


# Of blocks, for --robust, which can do without a value.
GROUPS = CountOrAuto("groups", least=3, hint=". Before a file name, write --robust auto")
