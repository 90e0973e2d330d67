"""What moved between two sketches, as `nysketch compare` prints it: columns, and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.kinds.words import in_words

if TYPE_CHECKING:
    from nysketch.twosample.columns import ColumnChange, FeatureShift
    from nysketch.twosample.explain import Explanation, Region

_SHOWN_COLUMNS = 8
_SHOWN_VALUES = 6


def print_explanation(explanation: Explanation, names: tuple[str, str]) -> None:
    """Print columns by how far they moved, in their own terms, and where each sketch has more rows."""
    whose = "all rows" if explanation.shifts_from == "cells" else "sampled rows"
    kinds = any(change.kind not in ("number", "list") for change in explanation.columns)
    if kinds:
        click.echo(f"\ncolumns by their share of the squared distance of means ({whose})")
        _print_columns(explanation.columns)
    elif explanation.shifts:
        click.echo(f"\nshifts of column means, in standard deviations ({whose})")
        _print_shifts(explanation.shifts)
    for name, regions in zip(names, (explanation.more_in_first, explanation.more_in_second), strict=True):
        if regions:
            click.echo()
            _output.echo(f"{name} has more rows near")
            _print_regions(
                regions,
                [change.column for change in explanation.columns]
                if kinds
                else [shift.feature for shift in explanation.shifts],
                kinds=kinds,
            )


def _print_columns(changes: list[ColumnChange]) -> None:
    from nysketch.twosample.words import change_in_words

    rows = [
        [
            change.column,
            change.kind,
            f"{change.share:.0%}",
            f"{change.distance:.3g} ± {change.by_chance:.1g}",
            change_in_words(change),
        ]
        for change in changes[:_SHOWN_COLUMNS]
    ]
    _output.print_table(["name", "kind", "share", "distance", "what moved"], rows, words=(1, 4))
    if len(changes) > _SHOWN_COLUMNS:
        _output.echo(f"  and {len(changes) - _SHOWN_COLUMNS:,} more")


def _print_shifts(shifts: list[FeatureShift]) -> None:
    rows = [
        [
            shift.feature,
            "was constant" if shift.shift is None else f"{shift.shift:+.3g}",
            "" if shift.standard_error is None else f"{shift.standard_error:.2g}",
            f"{shift.means[0]:.5g}",
            f"{shift.means[1]:.5g}",
            "" if shift.spread is None else f"{shift.spread:.3g}",
        ]
        for shift in shifts[:_SHOWN_COLUMNS]
    ]
    _output.print_table(["name", "shift", "error", "mean of first", "of second", "spread ratio"], rows)
    if len(shifts) > _SHOWN_COLUMNS:
        _output.echo(f"  and {len(shifts) - _SHOWN_COLUMNS:,} more")
    for shift in shifts[:_SHOWN_COLUMNS]:
        if any(shift.set_aside):
            first, second = shift.set_aside
            _output.echo(
                f"  {shift.feature}: without {first:,} rows of the first and {second:,} of the second, whose "
                "values are far beyond all others"
            )


def _print_regions(regions: list[Region], order: list[str], *, kinds: bool) -> None:
    """Print landmarks by the columns that moved most."""
    for region in regions:
        columns = [name if name in region.landmark else name.rpartition("[")[0] for name in order]
        names = list(dict.fromkeys(columns)) or list(region.landmark)
        values = ", ".join(
            f"{name} {_value(region.landmark[name], kinds=kinds)}" for name in names[:_SHOWN_VALUES]
        )
        more = (
            f" and {len(region.landmark) - _SHOWN_VALUES} more"
            if len(region.landmark) > _SHOWN_VALUES
            else ""
        )
        z = "" if region.z is None else f", {abs(region.z):.1f} standard errors"
        _output.echo(f"  {values}{more}  (mean kernel {region.values[0]:.3g} and {region.values[1]:.3g}{z})")


def _value(value: Any, *, kinds: bool) -> str:
    if value is None:
        return "missing"
    if isinstance(value, str):
        return in_words(value, 40) if kinds else repr(value if len(value) <= 40 else value[:40] + "…")
    if isinstance(value, list):
        return "[" + ", ".join(f"{x:.4g}" for x in value[:3]) + (", …]" if len(value) > 3 else "]")
    return f"{value:.4g}"
