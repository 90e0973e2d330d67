"""`nysketch sketch`: files of any size → one sketch file."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch import ui
from nysketch.cli import options
from nysketch.errors import EXIT_INPUTS_SKIPPED

if TYPE_CHECKING:
    from nysketch.passes import BasisOptions, Outcome
    from nysketch.sources import Source

log = logging.getLogger("nysketch")


@click.command(epilog="Example: nysketch sketch 'logs/2024-*.parquet' --nulls drop -m 500 -o logs.nysk")
@options.inputs
@options.output
@options.table
@click.option("--weights", metavar="COLUMN", help="Column of non-negative row weights.")
@options.nulls
@click.option(
    "--basis",
    "basis_path",
    type=click.Path(path_type=Path),
    help="Basis or sketch file whose basis to use. Required for standard input (-).",
)
@options.basis_making
@options.seed
@click.option(
    "--blocks", type=int, default=64, show_default=True, help="Blocks of rows to keep separate sums for."
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Of kernel values; float64 is the slow reference.",
)
@options.threads
@click.option("--batch-rows", type=int, help="Rows to read at once. Default: about 4 MB worth.")
@click.option(
    "--checkpoint-every",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to save progress beside the output.",
)
@click.option("--restart", is_flag=True, help="Discard the checkpoint of an unfinished run.")
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "skip", "overwrite"]),
    default="fail",
    show_default=True,
    help="If the output exists; skip only if it was made from the same inputs and settings.",
)
@click.option(
    "--lock-wait", type=float, default=0.0, metavar="SECONDS", help="Wait for another run on the same output."
)
@click.option("--dry-run", is_flag=True, help="Show columns, fragments, memory and file size; read no rows.")
@options.as_json
@options.reporting
def command(
    inputs: list[str],
    output: Path,
    table_options: dict[str, Any],
    weights: str | None,
    nulls: str,
    basis_path: Path | None,
    basis_options: BasisOptions,
    seed: int,
    blocks: int,
    precision: str,
    threads: int | None,
    batch_rows: int | None,
    checkpoint_every: float,
    restart: bool,
    if_exists: str,
    lock_wait: float,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Sketch INPUTs in one pass: Parquet, HDF5, CSV or Feather files, directories, globs, URIs, or -.

    Memory does not grow with the rows. An interrupted run continues where it stopped when the same
    command is given again.
    """
    from nysketch.fileformat import load_basis
    from nysketch.passes import PassOptions, plan, sketch_to_file
    from nysketch.sources import open_source

    started = time.perf_counter()
    basis = None if basis_path is None else load_basis(basis_path)
    pass_options = PassOptions(blocks, seed, precision, nulls, weights)
    source = open_source(
        inputs, weights=weights, like=None if basis is None else basis.columns, **table_options
    )
    say_left_out(source)
    if dry_run:
        m = basis_options.m if basis is None else basis.m
        _print_plan(plan(source, m, blocks=blocks, threads=threads, batch_rows=batch_rows), as_json)
        return 0
    with (
        ui.progress_bar("pilot", " fragments", quiet=quiet) as pilot_progress,
        ui.progress_bar("sketch", " rows", quiet=quiet) as progress,
    ):
        outcome = sketch_to_file(
            source,
            output,
            basis=basis,
            wanted=basis_options,
            options=pass_options,
            if_exists=if_exists,
            checkpoint_every=checkpoint_every,
            restart=restart,
            lock_wait=lock_wait,
            threads=threads,
            batch_rows=batch_rows,
            pilot_progress=pilot_progress,
            progress=progress,
        )
    _print_outcome(outcome, output, time.perf_counter() - started, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if outcome.unreadable else 0


def say_left_out(source: Source) -> None:
    """Tell which columns will not be used, and why."""
    from nysketch.sources.base import shorten

    if source.left_out:
        log.info("left out: %s", shorten(f"{name} ({why})" for name, why in source.left_out.items()))


def _print_plan(plan: Any, as_json: bool) -> None:
    result = {
        "columns": [str(column) for column in plan.columns],
        "fragments": plan.fragments,
        "memory_bytes": plan.memory_bytes,
        "rows": plan.rows,
        "sketch_bytes": plan.sketch_bytes,
    }
    if as_json:
        ui.print_json(result)
        return
    ui.print_fields(
        [
            ("columns", ", ".join(result["columns"])),
            ("rows", "unknown" if plan.rows is None else f"{plan.rows:,}"),
            ("fragments", f"{plan.fragments:,}"),
            ("memory", f"about {ui.size(plan.memory_bytes)}"),
            ("sketch file", f"about {ui.size(plan.sketch_bytes)}"),
        ]
    )


def _print_outcome(outcome: Outcome, output: Path, seconds: float, *, as_json: bool, quiet: bool) -> None:
    sketch = outcome.sketch
    for problem in outcome.unreadable:
        log.warning("skipped %s", problem)
    if as_json:
        ui.print_json(
            {
                "basis_digest": sketch.basis.digest,
                "bytes": output.stat().st_size,
                "dropped_rows": sketch.dropped_rows,
                "output": str(output),
                "resumed_fragments": outcome.resumed_fragments,
                "rows": sketch.rows,
                "seconds": round(seconds, 3),
                "skipped_inputs": list(outcome.unreadable),
                "up_to_date": outcome.skipped,
            }
        )
    elif outcome.skipped and not quiet:
        click.echo(f"{output}: up to date, nothing done")
    elif not quiet:
        dropped = f", {sketch.dropped_rows:,} rows dropped" if sketch.dropped_rows else ""
        click.echo(
            f"{output}: {sketch.rows:,} rows × {sketch.basis.d} features at {sketch.basis.m} landmarks"
            f"{dropped}; {ui.size(output.stat().st_size)} in {seconds:.1f} s"
        )
