"""`nysketch merge`: the sketch of all rows of several sketches."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from nysketch import ui
from nysketch.cli import options

log = logging.getLogger("nysketch")


@click.command(epilog="\b\nExample: nysketch merge monday.nysk tuesday.nysk -o days.nysk")
@options.inputs
@options.output
@options.if_exists_fail_or_overwrite
@options.force
@options.lock_wait
@options.as_json
@options.reporting
def command(
    inputs: list[str],
    output: Path,
    if_exists: str,
    force: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Add the sketches INPUT…, which must share a basis: files, globs, or directories of *.nysk files.

    The order does not matter, to the last bit. A file whose rows are in two of the sketches is refused.
    """
    from nysketch.combine import merge_files

    paths = options.sketch_files(inputs, but=output)
    overwrite = if_exists == "overwrite"
    result, doubled = merge_files(paths, output, overwrite=overwrite, force=force, lock_wait=lock_wait)
    for path in doubled:
        log.warning("%s is in more than one of these sketches: its rows are counted twice", path)
    report(result.rows, output, as_json=as_json, quiet=quiet, doubled_inputs=doubled)


def report(rows: int, output: Path, *, as_json: bool, quiet: bool, **more: object) -> None:
    """Print what was written."""
    if as_json:
        ui.print_json({"bytes": output.stat().st_size, "output": str(output), "rows": rows, **more})
    elif not quiet:
        ui.echo(f"{output}: {rows:,} rows; {ui.size(output.stat().st_size)}")
