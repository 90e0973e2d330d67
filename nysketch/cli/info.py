"""`nysketch info`: what a sketch or basis file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nysketch import ui
from nysketch.cli import options


@click.command(epilog="\b\nExample: nysketch info data.nysk --json | jq .rows")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@options.as_json
@options.reporting
def command(path: Path, as_json: bool, quiet: bool) -> None:
    """Show rows, columns, kernel, landmarks, rank and inputs of a sketch or basis FILE."""
    del quiet
    from nysketch.describe import describe
    from nysketch.fileformat import load_with_metadata

    thing, metadata = load_with_metadata(path)
    facts = describe(thing) | {
        "bytes": path.stat().st_size,
        "format_version": metadata["format_version"],
        "path": str(path),
        "software": metadata["software"],
    }
    if as_json:
        ui.print_json(facts)
    else:
        _print(facts)


def _print(facts: dict[str, Any]) -> None:
    kernel = facts["kernel"]
    rank = "not computed (many landmarks)" if facts["rank"] is None else facts["rank"]
    fields: list[tuple[str, Any]] = [
        ("file", f"{facts['path']} ({facts['kind']}, {ui.size(facts['bytes'])}, {facts['software']})")
    ]
    if facts["kind"] == "sketch":
        dropped = f" ({facts['dropped_rows']:,} more were dropped)" if facts["dropped_rows"] else ""
        weight = f", total weight {facts['total_weight']:g} ({facts['weights']})" if facts["weights"] else ""
        fields += [
            ("rows", f"{facts['rows']:,}{dropped}{weight}"),
            (
                "blocks",
                f"{facts['blocks']} of rows, seed {facts['seed']}, {facts['precision']} kernel values",
            ),
        ]
    fields += [
        ("features", facts["features"]),
        ("landmarks", f"{facts['landmarks']} (rows of the data: treat this file like a sample of them)"),
        ("kernel", f"{kernel['name']}, bandwidth {kernel['bandwidth']:.6g} on {facts['scaling']} scaling"),
        ("rank", rank),
        ("basis", facts["basis_digest"][:16]),
    ]
    ui.print_fields(fields)
    bounds = facts.get("ranges") == "bounds"
    _print_columns(facts["columns"], " (ranges are bounds: rows were subtracted)" if bounds else "")
    if facts["kind"] == "sketch":
        _print_inputs(facts)


def _print_columns(columns: list[dict[str, Any]], remark: str) -> None:
    shown = columns[:30]
    click.echo(f"\ncolumns{remark}")
    if "min" in columns[0]:
        ui.print_table(
            ["name", "width", "min", "max"],
            [[c["name"], str(c["width"]), _number(c["min"]), _number(c["max"])] for c in shown],
        )
    else:
        ui.print_table(["name", "width"], [[c["name"], str(c["width"])] for c in shown])
    if len(columns) > len(shown):
        ui.echo(f"  and {len(columns) - len(shown):,} more")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _print_inputs(facts: dict[str, Any]) -> None:
    for title, inputs in (
        ("inputs", facts["inputs"]),
        ("subtracted, but never added", facts["removed_inputs"]),
    ):
        if not inputs:
            continue
        click.echo(f"\n{title}")
        rows = [
            [
                item["path"] + (f" ({item['times']} times)" if item["times"] > 1 else ""),
                f"{item['rows']:,} rows",
                "" if item["bytes"] is None else ui.size(item["bytes"]),
            ]
            for item in inputs[:20]
        ]
        ui.print_table(["path", "rows", "size"], rows)
        more = len(inputs) - len(rows) + (facts["unlisted_inputs"] if title == "inputs" else 0)
        if more:
            ui.echo(f"  and {more:,} more")
