"""`nysketch report`: a report on a store as one HTML file."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import OUTPUT, option
from nysketch.cli._sections import command as sectioned

log = logging.getLogger("nysketch")


@sectioned(example="nysketch report store/ -o report.html")
@click.argument("store", metavar="STORE", type=click.Path(path_type=Path))
@common.output
@option(
    "--if-exists",
    section=OUTPUT,
    type=click.Choice(["fail", "overwrite"]),
    default="overwrite",
    show_default=True,
    help="What to do if the output exists.",
)
@common.as_json
@common.reporting
def command(store: Path, output: Path, if_exists: str, as_json: bool, quiet: bool) -> None:
    """Write a report on a STORE of `nysketch run` as one self-contained HTML file.

    It shows drift over time, shifted columns, clusters over time, a map of the newest partition, row counts,
    quality and the log of runs. The same store gives the same bytes.
    """
    from nysketch.report.write import write_report

    made = write_report(store, output, overwrite=if_exists == "overwrite")
    for problem in made.problems:
        log.warning("%s", problem)
    if as_json:
        _output.print_json(made.describe() | {"output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: {made.headline} ({_output.size(made.bytes)})")
