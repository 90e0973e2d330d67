"""`nysketch export`: a sketch's numbers for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common


@click.command(epilog="\b\nExample: nysketch export data.nysk -o landmarks.parquet")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@common.output
@click.option(
    "--to", "format", type=click.Choice(["npz", "json", "parquet"]), help="Default: by the output's suffix."
)
@common.if_exists_fail_or_overwrite
@common.as_json
@common.reporting
def command(path: Path, output: Path, format: str | None, if_exists: str, as_json: bool, quiet: bool) -> None:
    """Write the numbers of a sketch or basis FILE for other programs.

    NPZ and JSON hold landmarks, kernel sums, features and embedding weights; Parquet holds one row per
    landmark.
    """
    from nysketch.files.export import export_file

    export_file(path, output, format, overwrite=if_exists == "overwrite")
    if as_json:
        _output.print_json({"bytes": output.stat().st_size, "output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: written")
