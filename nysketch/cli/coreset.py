"""`nysketch coreset`: a few weighted rows that represent all, from data or from sketches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._common import execution, log_left_out, log_notes, log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making, refuse_basis_making
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.cli._options.types import CountOrAuto
from nysketch.cli._sections import BASIS, CORESET, OUTPUT, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_INPUTS_SKIPPED, UsageError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.basis.options import BasisOptions
    from nysketch.coresets.coreset import Coreset
    from nysketch.sources.options import ReadOptions

# These also apply to sketches; all others are about reading data.
_OF_SKETCHES = {
    "inputs", "from_file", "output", "functions", "method", "weight_as", "row_as", "if_exists", "lock_wait",
    "as_json", "quiet", "verbose", "log_format",
}  # fmt: skip


@sectioned(
    common="functions output columns exclude keep nulls landmarks scale basis_path if_exists",
    example="nysketch coreset 'logs/*.parquet' -s 100 --keep id,time -o coreset.parquet",
)
@common.inputs
@common.output
@option(
    "-s",
    "--functions",
    section=CORESET,
    type=CountOrAuto("test functions"),
    metavar="N|auto",
    default=100,
    show_default=True,
    help="Number of test functions whose means are preserved exactly. The coreset has at most one row more. "
    "auto: as many as it takes for an MMD below the sampling error, up to 500.",
)
@option(
    "--method",
    section=CORESET,
    type=click.Choice(["mercer", "nystrom"]),
    help="Test functions: eigenfunctions estimated from second moments or sampled rows (mercer), or from the "
    "landmarks alone (nystrom). Default: mercer if rows are available.",
)
@common.table
@common.row_weights
@common.keep("Columns of any type to copy to the output: a,b,c. Columns of the kernel keep their type.")
@common.nulls_of_columns
@option(
    "--basis",
    "basis_path",
    section=BASIS,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use the basis of this basis or sketch file, and its second moments or sampled rows. Required for "
    "standard input (-).",
)
@basis_making
@common.seed
@option(
    "--weight-as",
    section=OUTPUT,
    default="weight",
    show_default=True,
    metavar="NAME",
    help="Name of the output column of weights.",
)
@option(
    "--row-as",
    section=OUTPUT,
    metavar="NAME",
    default="row",
    show_default=True,
    help="Name of the output column of row numbers, from 0 over all inputs. For sketches the default is "
    "landmark.",
)
@reads_rows
@common.writes_output
def command(
    inputs: list[str],
    output: Path,
    functions: int | str,
    method: str | None,
    reading: ReadOptions,
    nulls: str,
    basis_path: Path | None,
    basis_options: BasisOptions,
    seed: int,
    weight_as: str,
    row_as: str,
    engine: EngineChoice,
    memory: int,
    overwrite: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    """Select a few rows, with positive weights, that represent all rows of INPUTs.

    INPUTs are data, read in one pass; memory use does not depend on the number of rows. Or they are sketches
    (*.nysk), which are merged: then landmarks are selected, without the data. The weighted rows have the same
    means of the test functions as all rows. Their distance to the data (MMD) is printed beside that of as
    many random rows, a bound, and the sampling error of the data. The output is Parquet, CSV or Feather
    (.arrow), by its suffix.
    """
    from nysketch.basis.base import Basis
    from nysketch.coresets.files import (
        Naming,
        coreset_of_sketches_to_file,
        coreset_to_file,
        require_writable,
    )
    from nysketch.coresets.from_data import (
        CoresetOptions,
        basis_of,
        open_with_originals,
        room_to_reduce,
    )
    from nysketch.files.format import load
    from nysketch.sources.open import open_source

    started = time.perf_counter()
    if basis_path is not None:
        refuse_basis_making(click.get_current_context())
    of_sketches = [name.endswith(".nysk") for name in inputs]
    if any(of_sketches) and not all(of_sketches):
        raise UsageError("sketches (*.nysk) and data cannot be combined: give one or the other")
    options = CoresetOptions(functions, method, seed=seed, nulls=nulls, keep=tuple(reading.keep))
    naming, skipped = Naming(weight_as, row_as), list[str]()
    if all(of_sketches):
        common.refuse_others(
            click.get_current_context(), _OF_SKETCHES, "applies to data only; the inputs are sketches"
        )
        found = coreset_of_sketches_to_file(
            sketch_files(inputs),
            output,
            options,
            naming=naming,
            overwrite=overwrite,
            lock_wait=lock_wait,
        )
    else:
        given = basis_options if basis_path is None else load(basis_path)
        basis = basis_of(given)
        source = open_with_originals(
            lambda options: open_source(inputs, options, memory=memory), reading.for_basis(basis)
        )
        log_left_out(source)
        skipped = list(map(str, source.skipped))
        require_writable(output, source, naming)
        m = basis.m if isinstance(basis, Basis) else basis.most
        room = room_to_reduce(memory, source, functions, m, engine.planned_threads)
        with execution("coreset", engine, room.threads, source, quiet=quiet) as running:
            found = coreset_to_file(
                room.source,
                output,
                given,
                options,
                naming=naming,
                inputs=[] if basis_path is None else [basis_path],
                overwrite=overwrite,
                lock_wait=lock_wait,
                execution=running,
            )
    _print(found, output, time.perf_counter() - started, skipped, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if skipped else 0


def _print(
    found: Coreset, output: Path, seconds: float, skipped: list[str], *, as_json: bool, quiet: bool
) -> None:
    log_skipped(skipped)
    log_notes(found.notes)
    size = output.stat().st_size
    if as_json:
        facts = {
            "bytes": size,
            "output": str(output),
            "seconds": round(seconds, 3),
            "skipped_inputs": skipped,
        }
        _output.print_json(found.describe() | facts)
        return
    if quiet:
        return
    dropped = f" ({found.dropped_rows:,} dropped)" if found.dropped_rows else ""
    what = f"{len(found)} {'landmarks' if found.of_landmarks else 'rows'}"
    _output.echo(
        f"{output}: {what} for {found.of_rows:,} rows{dropped}; {_output.size(size)} in {seconds:.1f} s"
    )
    distance = found.distance
    error = "" if distance.standard_error is None else f" ± {distance.standard_error:.1g}"
    gain = f", {distance.gain:.3g} times as large" if distance.gain > 1 else ""
    equivalent = found.equivalent_random_rows
    worth = f"{equivalent:,.0f} random rows"
    if equivalent >= found.of_rows:
        worth = "more random rows than the data has"
    _output.print_fields(
        [
            ("MMD to the data", f"{distance.mmd:.3g}{error}; {_bounds(found)}"),
            ("sampling error", f"{distance.sampling_error:.2g} of {found.of_rows:,} rows"),
            ("MMD of random rows", f"{distance.random_mmd:.3g} on average for {len(found)} rows{gain}"),
            ("equivalent to", worth),
            (
                "test functions",
                f"{len(found.functions)}{_why(found)} ({found.functions.method}, from "
                f"{found.learned_from}); means agree to {found.mismatch:.1g}",
            ),
            (
                "weights",
                f"{found.weights.min():.2g} to {found.weights.max():.2g}; effective sample size "
                f"{found.effective_rows:.0f}",
            ),
        ]
    )


def _bounds(found: Coreset) -> str:
    """Return what the MMD cannot exceed, by what is known of the landmarks and by the theorem."""
    if found.distance.bound is None or found.bound is None:
        return "no bound without sampled rows"
    return f"at most {found.distance.bound:.2g} ({found.bound.value:.2g} by the theorem)"


def _why(found: Coreset) -> str:
    """Return why this number of test functions was chosen, if it was to be found."""
    chosen = found.chosen
    if chosen is None:
        return ""
    why = "for" if chosen.reached else "the maximum, for"
    return f", {why} a predicted MMD of {chosen.predicted_mmd:.2g}"
