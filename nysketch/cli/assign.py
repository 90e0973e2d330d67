"""`nysketch assign`: a label for every row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._common import execution, log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.cli._sections import COLUMNS, OUTPUT, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_INPUTS_SKIPPED

if TYPE_CHECKING:
    from nysketch.sources.options import ReadOptions


@sectioned(
    common="output keep distances responsibilities nulls threads if_exists as_json",
    example="nysketch assign model.json 'logs/*.parquet' --keep id -o labels.parquet",
)
@click.argument("model_path", metavar="MODEL", type=click.Path(path_type=Path))
@common.inputs
@common.output
@common.files
@common.keep("Columns of any type to copy to the output: a,b,c.")
@option(
    "--responsibilities/--no-responsibilities",
    section=OUTPUT,
    default=None,
    help="For mixtures: write the probability of each component as columns p0, p1, … Default: yes.",
)
@option(
    "--distances",
    section=OUTPUT,
    is_flag=True,
    help="For k-means: write the distance to the centroid, in scaled units, as column distance.",
)
@option(
    "--nulls",
    section=COLUMNS,
    type=click.Choice(["keep", "error", "drop"]),
    default="keep",
    show_default=True,
    help="Rows with missing values: label them if columns of the model have kinds, which take them, else "
    "stop with an error; always stop; or write them without a label.",
)
@reads_rows
@common.writes_output
def command(
    model_path: Path,
    inputs: list[str],
    output: Path,
    reading: ReadOptions,
    responsibilities: bool | None,
    distances: bool,
    nulls: str,
    engine: EngineChoice,
    memory: int,
    overwrite: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write the cluster or component of every row of INPUTs to a table, in the order of the rows.

    The output is Parquet, CSV or Feather (.arrow), by its suffix. Columns are matched by name; extra columns
    are ignored. Memory use does not depend on the number of rows.
    """
    from nysketch._support.outputs import refuse_to_replace
    from nysketch.models.apply import assign_to_file, room_to_apply
    from nysketch.models.files import load_model
    from nysketch.sources.open import open_source

    started = time.perf_counter()
    refuse_to_replace([model_path], output)
    model = load_model(model_path)
    source = open_source(inputs, reading.for_columns(model.columns), memory=memory)
    room = room_to_apply(memory, source, model, engine.planned_threads)
    with execution("assign", engine, room.threads, source, quiet=quiet) as running:
        done = assign_to_file(
            model,
            room.source,
            output,
            responsibilities=responsibilities,
            distances=distances,
            nulls=nulls,
            overwrite=overwrite,
            lock_wait=lock_wait,
            engine=running.engine,
            progress=running.progress,
        )
    seconds = time.perf_counter() - started
    log_skipped(source.skipped)
    if as_json:
        _output.print_json(
            {
                "bytes": output.stat().st_size,
                "label_rows": list(done.label_rows),
                "output": str(output),
                "rows": done.rows,
                "seconds": round(seconds, 3),
                "skipped_inputs": list(map(str, source.skipped)),
                "unlabelled_rows": done.unlabelled_rows,
            }
        )
    elif not quiet:
        without = f", {done.unlabelled_rows:,} of them without a label" if done.unlabelled_rows else ""
        size = _output.size(output.stat().st_size)
        _output.echo(f"{output}: {done.rows:,} rows{without}; {size} in {seconds:.1f} s")
    return EXIT_INPUTS_SKIPPED if source.skipped else 0
