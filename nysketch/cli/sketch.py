"""`nysketch sketch`: files of any size → one sketch file."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch._support.signals import Terminated
from nysketch.cli import _output
from nysketch.cli._common import (
    columns_in_words,
    execution,
    landmarks_in_words,
    log_left_out,
    log_skipped,
)
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making, refuse_basis_making
from nysketch.cli._options.engine import EngineChoice, engine
from nysketch.errors import EXIT_INPUTS_SKIPPED, ClusterError, UsageError

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.basis.options import BasisOptions
    from nysketch.passes.memory import Plan
    from nysketch.passes.to_file import Outcome
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions

log = logging.getLogger("nysketch")


@click.command(epilog="\b\nExample: nysketch sketch 'logs/2024-*.parquet' --nulls drop -m 500 -o logs.nysk")
@common.inputs
@common.output
@common.table
@common.row_weights
@common.nulls
@click.option(
    "--basis",
    "basis_path",
    type=click.Path(path_type=Path),
    help="Basis or sketch file whose basis to use. Required for standard input (-).",
)
@click.option(
    "--part",
    metavar="I/N",
    help="Read part I of N only, such as 3/16, of the same inputs each time; `nysketch merge` adds them.",
)
@basis_making
@common.seed
@click.option(
    "--blocks", type=int, default=64, show_default=True, help="Blocks of rows to keep separate sums for."
)
@click.option(
    "--sample-rows",
    type=click.IntRange(min=0),
    help="Rows to keep as a sample, to measure quality by. Default: 2000, fewer if they are very wide.",
)
@click.option(
    "--cells/--no-cells",
    default=True,
    show_default=True,
    help="Keep sums over the rows nearest to each landmark.",
)
@click.option(
    "--far-rows",
    type=click.IntRange(min=0),
    help="Rows to keep because they are farthest from their landmarks. Default: 500, fewer if they are very "
    "wide.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    help="Runs of consecutive rows to keep separate sums for, at most; 0: none.",
)
@click.option(
    "--shuffles",
    type=click.IntRange(min=0),
    default=500,
    show_default=True,
    help="Shuffles by which `nysketch independence` tells chance, with --group; 0: keep nothing for that.",
)
@common.shuffle_rows
@click.option("--pairs", is_flag=True, help="Keep sums to test pairs of groups, too.")
@click.option(
    "--second-moments",
    is_flag=True,
    help="Keep sums of products of kernel values, for `nysketch coreset --method mercer`: a matrix of "
    "landmarks × landmarks, which takes many times as long as all the rest.",
)
@click.option(
    "--precision",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Of kernel values; float64 is the slow reference.",
)
@engine
@click.option(
    "--batch-rows", type=click.IntRange(min=1), help="Rows to read at once. Default: about 4 MB worth."
)
@common.memory
@click.option(
    "--checkpoint-every",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    callback=common.seconds,
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
@common.lock_wait
@click.option("--dry-run", is_flag=True, help="Show columns, fragments, memory and file size; read no rows.")
@common.as_json
@common.reporting
def command(
    inputs: list[str],
    output: Path,
    reading: ReadOptions,
    nulls: str,
    basis_path: Path | None,
    part: str | None,
    basis_options: BasisOptions,
    seed: int,
    engine: EngineChoice,
    batch_rows: int | None,
    memory: int,
    checkpoint_every: float,
    restart: bool,
    if_exists: str,
    lock_wait: float,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **kept: Any,  # from --blocks to --precision: options with the names of fields of PassOptions
) -> int:
    """Sketch INPUTs in one pass: Parquet, HDF5, CSV or Feather files, directories, globs, URIs, or -.

    Memory does not grow with the rows. An interrupted run continues where it stopped when the same
    command is given again.
    """
    from nysketch.accumulators.options import PassOptions
    from nysketch.files.format import load_basis
    from nysketch.passes.memory import count_groups, plan_pass
    from nysketch.passes.shards import as_shard
    from nysketch.passes.to_file import Saving, sketch_to_file
    from nysketch.sources.open import open_source

    started = time.perf_counter()
    shard = as_shard(part)
    basis: Basis | BasisOptions = basis_options
    if basis_path is not None:
        refuse_basis_making(click.get_current_context())
        basis = load_basis(basis_path)
    pass_options = PassOptions(seed=seed, nulls=nulls, weights=reading.weights, **kept)
    source = open_source(inputs, reading.for_basis(basis))
    log_left_out(source)
    if pass_options.pairs and count_groups(basis) < 2:
        raise UsageError("--pairs is for groups of columns: name them with --group x=a,b --group y=c")
    planned = plan_pass(
        source,
        basis,
        pass_options,
        threads=engine.planned_threads,
        batch_rows=batch_rows,
        memory=memory,
        shard=shard,
    )
    if shard is not None and basis_path is None:
        log.info(
            "every part makes the same basis from a pilot of all rows: `nysketch basis` once, and --basis "
            "for the parts, would save that"
        )
    if dry_run:
        if output.exists() and if_exists == "fail":
            log.warning("%s exists already: the run itself would stop, see --if-exists", output)
        _print_plan(planned, as_json)
        return 0
    saving = Saving(if_exists, checkpoint_every, restart, lock_wait)
    with (
        _log_how_to_continue(output),
        execution("sketch", engine, planned.threads, source, batch_rows=batch_rows, quiet=quiet) as running,
    ):
        outcome = sketch_to_file(
            source, output, basis, pass_options, shard=shard, saving=saving, execution=running
        )
    seconds = time.perf_counter() - started
    judge = planned.can_judge(outcome.sketch.basis.m)
    _print_outcome(outcome, output, seconds, judge=judge, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if outcome.unreadable else 0


@contextmanager
def _log_how_to_continue(output: Path) -> Iterator[None]:
    """After Ctrl-C or SIGTERM, or if a cluster has gone, log what is left."""
    from nysketch.files.checkpoint import checkpoint_path

    try:
        yield
    except (KeyboardInterrupt, Terminated, ClusterError):
        if checkpoint_path(output).exists():
            log.warning("finished work is in %s: the same command continues it", checkpoint_path(output))
        raise


def _print_plan(plan: Plan, as_json: bool) -> None:
    from nysketch.sources.selection import shorten

    result: dict[str, Any] = {
        "columns": [str(column) for column in plan.columns],
        "fragments": plan.fragments,
        "threads": plan.threads,
        "memory_bytes": plan.memory_bytes,
        "rows": plan.rows,
        "sketch_bytes": plan.sketch_bytes,
    }
    if as_json:
        _output.print_json(result)
        return
    _output.print_fields(
        [
            ("columns", shorten(result["columns"], most=20)),
            ("rows", "unknown" if plan.rows is None else f"{plan.rows:,}"),
            ("fragments", f"{plan.fragments:,}"),
            ("threads", plan.threads),
            ("memory", f"about {_output.size(plan.memory_bytes)}"),
            ("sketch file", f"about {_output.size(plan.sketch_bytes)}"),
        ]
    )


def _print_outcome(
    outcome: Outcome, output: Path, seconds: float, *, judge: bool, as_json: bool, quiet: bool
) -> None:
    sketch = outcome.sketch
    log_skipped(outcome.unreadable)
    if as_json:
        _output.print_json(
            {
                "basis_digest": sketch.basis.digest,
                "bytes": output.stat().st_size,
                "dropped_rows": sketch.dropped_rows,
                "landmarks": sketch.basis.m,
                "output": str(output),
                "quality": _quality(sketch, judge=judge),
                "resumed_fragments": outcome.resumed_fragments,
                "rows": sketch.rows,
                "seconds": round(seconds, 3),
                "skipped_inputs": list(outcome.unreadable),
                "up_to_date": outcome.skipped,
            }
        )
    elif outcome.skipped and not quiet:
        _output.echo(f"{output}: up to date, nothing done")
    elif not quiet:
        dropped = f", {sketch.dropped_rows:,} rows dropped" if sketch.dropped_rows else ""
        what = f"{columns_in_words(sketch.basis)} at {landmarks_in_words(sketch.basis)}"
        size = _output.size(output.stat().st_size)
        _output.echo(f"{output}: {sketch.rows:,} rows × {what}{dropped}; {size} in {seconds:.1f} s")
        quality = _quality(sketch, judge=judge)
        if quality is not None:
            whose = "" if quality["measured_on"] == "sample" else "When the basis was made: "
            for sentence in quality["advice"]:
                _output.echo_message(whose + sentence)
        elif not judge:
            _output.echo(
                "`nysketch info` tells how good it is: to measure it here would take too much memory"
            )


def _quality(sketch: Sketch, *, judge: bool) -> dict[str, Any] | None:
    from nysketch.sketches.describe import describe_quality

    return describe_quality(sketch, up_to=sketch.basis.m if judge else 0, effective_dimension=False)
