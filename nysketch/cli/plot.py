"""`nysketch plot`: one picture of sketches or of a model."""

from __future__ import annotations

from pathlib import Path

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._sections import COLUMNS, INPUT, option
from nysketch.cli._sections import command as sectioned


@sectioned(example="nysketch plot data.nysk --model model.json -o data.svg")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE...", shell_complete=common.complete_files)
@common.output
@option(
    "--model",
    section=INPUT,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Colour the landmarks of a sketch by the clusters of this model. Default: by density.",
)
@option(
    "--columns",
    section=COLUMNS,
    type=click.UNPROCESSED,
    callback=common.names,
    metavar="NAMES",
    help="Two columns for the axes: x,y. Default: the principal components of the landmarks or centres.",
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
    """Plot a sketch (*.nysk), a model, or the distances between several sketches.

    A sketch is shown by its landmarks, sized by the number of rows nearest to them; a model by its centres,
    sized by their shares, with ellipses for a mixture; several sketches by a table of their distances (MMD).
    The output is SVG or PNG, by its suffix. PNG needs matplotlib (pip install 'nysketch[report]').
    """
    from nysketch.plotting.plots import plot

    models = [name for name in inputs if Path(name).suffix in (".json", ".parquet", ".npz")]
    paths = [*map(Path, inputs)] if models else common.sketch_files(inputs)
    drawing = plot(paths, output, model=model, columns=columns, overwrite=if_exists == "overwrite")
    if as_json:
        facts = {"description": drawing.description, "title": drawing.title}
        _output.print_json(facts | {"bytes": output.stat().st_size, "output": str(output)})
    elif not quiet:
        _output.echo(f"{output}: {drawing.title}")
