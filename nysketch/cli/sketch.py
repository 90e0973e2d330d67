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
    log_columns,
    log_left_out,
    log_notes,
    log_skipped,
)
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making, refuse_basis_making
from nysketch.cli._options.engine import EngineChoice, engine
from nysketch.cli._sections import (
    ADVANCED_INPUT,
    ADVANCED_KEEP,
    ADVANCED_RUNNING,
    BASIS,
    INPUT,
    KEEP,
    OUTPUT,
    RUNNING,
    option,
)
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_INPUTS_SKIPPED, ClusterError, UsageError

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.basis.options import BasisOptions
    from nysketch.passes.memory import Plan
    from nysketch.passes.to_file import Outcome
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions

log = logging.getLogger("nysketch")


@sectioned(
    common="output columns exclude nulls landmarks bandwidth scale basis_path threads if_exists",
    example="nysketch sketch 'logs/2024-*.parquet' --nulls drop -m 500 -o logs.nysk",
)
@common.inputs
@common.output
@common.table
@common.row_weights
@common.nulls_of_columns
@option(
    "--basis",
    "basis_path",
    section=BASIS,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the basis of this basis or sketch file. Required for standard input (-).",
)
@option(
    "--part",
    section=INPUT,
    metavar="I/N",
    help="Read only part I of N, such as 3/16. Give every part the same inputs, and add the parts with "
    "`nysketch merge`.",
)
@basis_making
@common.seed
@option(
    "--blocks",
    section=KEEP,
    type=int,
    metavar="N",
    default=64,
    show_default=True,
    help="Random blocks of rows with separate sums, for standard errors and tests.",
)
@option(
    "--sample-rows",
    section=KEEP,
    type=click.IntRange(min=0),
    metavar="N",
    help="Rows to keep as a sample, to measure quality. Default: 2000, fewer for very wide rows.",
)
@option(
    "--cells/--no-cells",
    section=KEEP,
    default=True,
    show_default=True,
    help="Keep sums over the rows nearest to each landmark. `nysketch learn` works best with them.",
)
@option(
    "--permutations",
    section=KEEP,
    aliases=["--shuffles"],
    type=click.IntRange(min=0),
    metavar="N",
    default=500,
    show_default=True,
    help="With --group: permutations for the test of `nysketch independence`. 0 keeps nothing for it.",
)
@option(
    "--pairs",
    section=KEEP,
    is_flag=True,
    help="With --group: keep sums to test pairs of groups, too.",
)
@option(
    "--far-rows",
    section=ADVANCED_KEEP,
    type=click.IntRange(min=0),
    metavar="N",
    help="Rows to keep that are farthest from their landmarks. Default: 500, fewer for very wide rows.",
)
@option(
    "--spans",
    section=ADVANCED_KEEP,
    aliases=["--runs"],
    type=click.IntRange(min=0),
    metavar="N",
    default=64,
    show_default=True,
    help="Maximum number of spans of consecutive rows with separate sums. 0 keeps none.",
)
@common.permutation_rows(ADVANCED_KEEP, ", at least --sample-rows")
@option(
    "--second-moments",
    section=ADVANCED_KEEP,
    is_flag=True,
    help="Keep sums of products of kernel values, for `nysketch coreset --method mercer`: a matrix of "
    "landmarks × landmarks. The pass takes many times longer.",
)
@option(
    "--precision",
    section=ADVANCED_RUNNING,
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Precision of kernel values. float64 is the slow reference.",
)
@engine
@option(
    "--batch-rows",
    section=ADVANCED_INPUT,
    type=click.IntRange(min=1),
    metavar="N",
    help="Rows to read at once. Default: about 4 MB.",
)
@common.memory
@option(
    "--checkpoint-every",
    section=ADVANCED_RUNNING,
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    callback=common.seconds,
    help="Interval between checkpoints, which are saved beside the output.",
)
@option("--restart", section=RUNNING, is_flag=True, help="Discard the checkpoint of an unfinished run.")
@option(
    "--if-exists",
    section=OUTPUT,
    type=click.Choice(["fail", "skip", "overwrite"]),
    default="fail",
    show_default=True,
    help="What to do if the output exists. skip: keep it if inputs and settings are the same.",
)
@common.lock_wait
@option(
    "--dry-run",
    section=RUNNING,
    is_flag=True,
    help="Show columns, fragments, memory and file size. Read no rows.",
)
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
    permutations: int,
    permutation_rows: int | None,
    spans: int,
    **kept: Any,  # the other options from --blocks to --precision: named like fields of PassOptions
) -> int:
    """Sketch INPUTs in one pass: Parquet, HDF5, CSV or Feather files, directories, globs, URIs, or -.

    Memory use does not depend on the number of rows. To continue an interrupted run, run the same command
    again.
    """
    from nysketch.accumulators.options import PassOptions
    from nysketch.basis.base import Basis
    from nysketch.files.format import load_basis
    from nysketch.passes.memory import count_groups, plan_pass
    from nysketch.passes.pilot import notes_on_constants_of
    from nysketch.passes.shards import as_shard
    from nysketch.passes.to_file import Saving, sketch_to_file
    from nysketch.sources.open import open_source

    started = time.perf_counter()
    shard = as_shard(part)
    basis: Basis | BasisOptions = basis_options
    if basis_path is not None:
        refuse_basis_making(click.get_current_context())
        basis = load_basis(basis_path)
    pass_options = PassOptions(
        seed=seed,
        nulls=nulls,
        weights=reading.weights,
        runs=spans,
        shuffles=permutations,
        shuffle_rows=permutation_rows,
        **kept,
    )
    source = open_source(inputs, reading.for_basis(basis), memory=memory)
    log_left_out(source)
    if isinstance(basis, Basis):
        log_notes(notes_on_constants_of(basis, source))
    if pass_options.pairs and count_groups(basis) < 2:
        raise UsageError("--pairs needs groups of columns: define them with --group x=a,b --group y=c")
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
            "every part computes the same basis from a pilot sample of all rows. To save time, run `nysketch "
            "basis` once, and give its file to the parts with --basis"
        )
    if dry_run:
        if output.exists() and if_exists == "fail":
            log.warning(
                "%s exists already: without --dry-run this command would fail; see --if-exists", output
            )
        _print_plan(planned, as_json)
        return 0
    saving = Saving(if_exists, checkpoint_every, restart, lock_wait)
    with (
        _log_how_to_continue(output),
        execution("sketch", engine, planned.threads, source, batch_rows=batch_rows, quiet=quiet) as running,
    ):
        outcome = sketch_to_file(
            planned.source,
            output,
            basis,
            pass_options,
            shard=shard,
            inputs=[] if basis_path is None else [basis_path],
            saving=saving,
            execution=running,
        )
    seconds = time.perf_counter() - started
    judge = planned.can_judge(outcome.sketch.basis.m)
    made = basis_path is None and not outcome.skipped
    _print_outcome(outcome, output, seconds, made=made, judge=judge, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if outcome.unreadable else 0


@contextmanager
def _log_how_to_continue(output: Path) -> Iterator[None]:
    """After Ctrl-C or SIGTERM, or if a cluster has gone, log what is left."""
    from nysketch._support.companions import checkpoint_path

    try:
        yield
    except (KeyboardInterrupt, Terminated, ClusterError):
        if checkpoint_path(output).exists():
            log.warning(
                "progress is saved in %s: run the same command again to continue", checkpoint_path(output)
            )
        raise


def _print_plan(plan: Plan, as_json: bool) -> None:
    from nysketch.sources.selection import shorten

    result: dict[str, Any] = {
        "columns": [str(column) for column in plan.columns],
        "fragments": plan.fragments,
        "threads": plan.threads,
        "memory_bytes": plan.memory_bytes,
        "memory_limit_bytes": plan.memory_limit,
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
            (
                "memory",
                f"at most {_output.size(plan.memory_bytes)} of the {_output.size(plan.memory_limit)} allowed",
            ),
            ("sketch file", f"about {_output.size(plan.sketch_bytes)}"),
        ]
    )


def _print_outcome(
    outcome: Outcome,
    output: Path,
    seconds: float,
    *,
    made: bool,
    judge: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from nysketch.accumulators.dropped import DroppedRows
    from nysketch.accumulators.unknown import UnknownValues
    from nysketch.sketches.columns_table import columns_table
    from nysketch.sketches.losses import notes_on_losses

    sketch = outcome.sketch
    if made:
        log_columns(sketch.basis)
    log_skipped(outcome.unreadable)
    log_notes(notes_on_losses(sketch))
    if as_json:
        _output.print_json(
            {
                "basis_digest": sketch.basis.digest,
                "bytes": output.stat().st_size,
                "columns": [one.describe() for one in columns_table(sketch.basis)],
                "dropped_by_column": sketch.tally[DroppedRows].summary(sketch.basis)["dropped_by_column"],
                "dropped_rows": sketch.dropped_rows,
                "landmarks": sketch.basis.m,
                "left_out": sketch.basis.origin.get("left_out", {}),
                "output": str(output),
                "quality": _quality(sketch, judge=judge),
                "resumed_fragments": outcome.resumed_fragments,
                "rows": sketch.rows,
                "seconds": round(seconds, 3),
                "skipped_inputs": list(outcome.unreadable),
                "unknown_by_column": sketch.tally[UnknownValues].summary(sketch.basis)["unknown_by_column"],
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
            _output.echo("Quality not measured: it would need too much memory here. Run `nysketch info`")


def _quality(sketch: Sketch, *, judge: bool) -> dict[str, Any] | None:
    from nysketch.sketches.describe import describe_quality

    return describe_quality(sketch, up_to=sketch.basis.m if judge else 0, effective_dimension=False)
