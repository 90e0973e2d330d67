"""`nysketch export`: a sketch's numbers for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import options
from nysketch.errors import OutputError


@click.command(epilog="Example: nysketch export data.nysk -o landmarks.parquet")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@options.output
@click.option(
    "--to", "format", type=click.Choice(["npz", "json", "parquet"]), help="Default: by the output's suffix."
)
@options.if_exists_fail_or_overwrite
@options.reporting
def command(path: Path, output: Path, format: str | None, if_exists: str, quiet: bool) -> None:
    """Write the numbers of a sketch or basis FILE for other programs.

    NPZ and JSON hold landmarks, kernel sums, features and embedding weights; Parquet holds one row per
    landmark.
    """
    from nysketch.export import export
    from nysketch.fileformat import load

    if if_exists == "fail" and output.exists():
        raise OutputError(f"{output}: exists already; see --if-exists overwrite")
    export(load(path), output, format)
    if not quiet:
        click.echo(f"{output}: written")
