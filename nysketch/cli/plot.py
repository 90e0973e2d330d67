"""`nysketch plot`: a single picture of sketches or of a model."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.files.find import sketch_files


@click.command(epilog="\b\nExample: nysketch plot data.nysk --model model.json -o data.svg")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...")
@common.output
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    help="Model whose clusters colour the landmarks of a sketch. Default: colour by density.",
)
@click.option(
    "--columns",
    type=click.UNPROCESSED,
    callback=common.names,
    metavar="NAMES",
    help="Two columns to draw along: x,y. Default: the directions in which landmarks, or centres, vary most.",
)
@common.if_exists_fail_or_overwrite
@common.as_json
@common.reporting
def command(
    inputs: tuple[str, ...],
    output: Path,
    model: Path | None,
    columns: tuple[str, ...] | None,
    if_exists: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Draw a sketch (*.nysk) or a model; of several sketches, how far apart they are.

    A sketch is drawn as its landmarks, as large as they have rows nearest to them; a model as its centres, as
    large as their shares, with ellipses if it is a mixture; several sketches as a table of their distances
    (MMD). The output is SVG or PNG, by its suffix; PNG needs matplotlib (pip install 'nysketch[report]').
    """
    from nysketch.plotting.plots import plot

    models = [name for name in inputs if Path(name).suffix in (".json", ".parquet", ".npz")]
    paths = [*map(Path, inputs)] if models else sketch_files(inputs)
    drawing = plot(paths, output, model=model, columns=columns, overwrite=if_exists == "overwrite")
    if as_json:
        facts = {"description": drawing.description, "title": drawing.title}
        _output.print_json(facts | {"bytes": output.stat().st_size, "output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: {drawing.title}")
