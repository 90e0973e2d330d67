"""`nysketch subtract`: the sketch of the rows that remain."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from nysketch.cli._common import print_sketch
from nysketch.cli._options import common
from nysketch.cli._sections import command as sectioned

log = logging.getLogger("nysketch")


@sectioned(example="nysketch subtract year.nysk january.nysk -o rest.nysk")
@click.argument("whole", metavar="WHOLE", type=click.Path(path_type=Path))
@click.argument("parts", nargs=-1, required=True, metavar="PART...", type=click.Path(path_type=Path))
@common.output
@common.if_exists_fail_or_overwrite
@common.force
@common.lock_wait
@common.as_json
@common.reporting
def command(
    whole: Path,
    parts: tuple[Path, ...],
    output: Path,
    if_exists: str,
    force: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Subtract the sketches PART… from the sketch WHOLE, which must contain their rows."""
    from nysketch.files.merge import subtract_files

    result, missing = subtract_files(
        whole, parts, output, overwrite=if_exists == "overwrite", force=force, lock_wait=lock_wait
    )
    for path in missing:
        log.warning("%s was subtracted, but is not among the inputs of %s", path, whole)
    print_sketch(result.rows, output, as_json=as_json, quiet=quiet, missing_inputs=missing)
