"""`nysketch export`: the arrays of a sketch for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import OUTPUT, option
from nysketch.cli._sections import command as sectioned


@sectioned(example="nysketch export data.nysk -o landmarks.parquet")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@common.output
@option(
    "--format",
    aliases=["--to"],
    section=OUTPUT,
    type=click.Choice(["npz", "json", "parquet"]),
    help="Format of the output. Default: by its suffix.",
)
@common.if_exists_fail_or_overwrite
@common.as_json
@common.reporting
def command(path: Path, output: Path, format: str | None, if_exists: str, as_json: bool, quiet: bool) -> None:
    """Convert a sketch or basis FILE for use in other programs.

    NPZ and JSON contain landmarks, kernel sums, features and embedding weights. Parquet contains one row per
    landmark.
    """
    from nysketch.files.export import export_file

    export_file(path, output, format, overwrite=if_exists == "overwrite")
    if as_json:
        _output.print_json({"bytes": output.stat().st_size, "output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: written")
