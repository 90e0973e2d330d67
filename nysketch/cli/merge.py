"""`nysketch merge`: the sketch of all rows of several sketches."""

from __future__ import annotations

import logging
from pathlib import Path

from nysketch.cli._common import print_sketch
from nysketch.cli._options import common
from nysketch.cli._options.types import GROUPS
from nysketch.cli._sections import INPUT, option
from nysketch.cli._sections import command as sectioned
from nysketch.files.find import sketch_files

log = logging.getLogger("nysketch")


@sectioned(
    common="output from_file if_exists partial",
    example="nysketch merge monday.nysk tuesday.nysk -o days.nysk",
)
@common.inputs
@common.output
@common.if_exists_fail_or_overwrite
@option(
    "--partial",
    section=INPUT,
    is_flag=True,
    help="Merge parts of `sketch --part` even if some are missing.",
)
@option(
    "--robust",
    section=INPUT,
    type=GROUPS,
    is_flag=False,
    flag_value="auto",
    metavar="auto|Q",
    help="Leave out the blocks of the sum with outlying rows (median of means over Q groups; auto: all "
    "blocks): a robust mean embedding, without cells and spans.",
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
    robust: int | str | None,
    force: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Add the sketches INPUT…, which must share a basis: files, globs, or directories of *.nysk files.

    The result is the same in any order, to the last bit. Counting the rows of a file twice is an error, and
    so are duplicate or missing parts of `sketch --part`.
    """
    from nysketch._support.intervals import in_words
    from nysketch.files.merge import merge_files, missing_in_words
    from nysketch.sketches.describe import describe_parts

    paths = sketch_files(inputs, but=output)
    overwrite = if_exists == "overwrite"
    made = merge_files(
        paths,
        output,
        overwrite=overwrite,
        force=force,
        partial=partial,
        robust=robust,
        lock_wait=lock_wait,
    )
    for path in made.doubled_inputs:
        log.warning("%s is an input of several sketches: its rows are counted more than once", path)
    for whole, parts in made.doubled_parts:
        words = f"{in_words(parts, whole.of)} of {whole.name}"
        log.warning("%s: in several sketches, and counted more than once", words)
    if made.missing_parts:
        log.info("%s", missing_in_words(made.missing_parts))
    if made.trimmed is not None:
        out = made.trimmed
        log.info("left out %d outlying blocks with %s rows", len(out.left_out), f"{out.rows_left_out:,}")
    print_sketch(
        made.sketch.rows,
        output,
        as_json=as_json,
        quiet=quiet,
        doubled_inputs=made.doubled_inputs,
        doubled_parts=[describe_parts(*parts) for parts in made.doubled_parts],
        missing_parts=[describe_parts(*parts) for parts in made.missing_parts],
        robust=None if made.trimmed is None else made.trimmed.describe(),
    )
