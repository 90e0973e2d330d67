"""`nysketch merge`: the sketch of all rows of several sketches."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from nysketch.cli._common import print_sketch
from nysketch.cli._options import common
from nysketch.files.find import sketch_files

log = logging.getLogger("nysketch")


@click.command(epilog="\b\nExample: nysketch merge monday.nysk tuesday.nysk -o days.nysk")
@common.inputs
@common.output
@common.if_exists_fail_or_overwrite
@click.option(
    "--partial", is_flag=True, help="Also merge parts (of `sketch --part`) of which others are missing yet."
)
@common.force
@common.lock_wait
@common.as_json
@common.reporting
def command(
    inputs: list[str],
    output: Path,
    if_exists: str,
    partial: bool,
    force: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Add the sketches INPUT…, which must share a basis: files, globs, or directories of *.nysk files.

    The order does not matter, to the last bit. A file whose rows are in two of the sketches is refused, and
    so are parts of `sketch --part` if one is there twice, or missing.
    """
    from nysketch._support.intervals import in_words
    from nysketch.files.merge import merge_files, missing_in_words
    from nysketch.sketches.describe import describe_parts

    paths = sketch_files(inputs, but=output)
    overwrite = if_exists == "overwrite"
    made = merge_files(paths, output, overwrite=overwrite, force=force, partial=partial, lock_wait=lock_wait)
    for path in made.doubled_inputs:
        log.warning("%s is in more than one of these sketches: its rows are counted twice", path)
    for whole, parts in made.doubled_parts:
        words = f"{in_words(parts, whole.of)} of {whole.name}"
        log.warning("%s: in more than one of these sketches, and counted twice", words)
    if made.missing_parts:
        log.info("%s", missing_in_words(made.missing_parts))
    print_sketch(
        made.sketch.rows,
        output,
        as_json=as_json,
        quiet=quiet,
        doubled_inputs=made.doubled_inputs,
        doubled_parts=[describe_parts(*parts) for parts in made.doubled_parts],
        missing_parts=[describe_parts(*parts) for parts in made.missing_parts],
    )
