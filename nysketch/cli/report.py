"""`nysketch report`: a store as one HTML file."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common

log = logging.getLogger("nysketch")


@click.command(epilog="\b\nExample: nysketch report store/ -o report.html")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
@common.output
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "overwrite"]),
    default="overwrite",
    show_default=True,
    help="What to do if the output exists. A report is made to be made again.",
)
@common.as_json
@common.reporting
def command(store: Path, output: Path, if_exists: str, as_json: bool, quiet: bool) -> None:
    """Write what a STORE of `nysketch run` holds as one HTML file that needs nothing else.

    It shows drift over time, which columns moved, clusters over time, a map of the newest partition, rows,
    quality and runs; on screens of any size, light and dark. The same store gives the same bytes.
    """
    from nysketch.report.write import write_report

    made = write_report(store, output, overwrite=if_exists == "overwrite")
    for problem in made.problems:
        log.warning("%s", problem)
    if as_json:
        _output.print_json(made.describe() | {"output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: {made.headline} ({_output.size(made.bytes)})")
