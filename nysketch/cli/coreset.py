"""`nysketch coreset`: a few weighted rows that stand for all, from data or from sketches."""

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
from nysketch.errors import EXIT_INPUTS_SKIPPED, UsageError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.basis.options import BasisOptions
    from nysketch.coresets.coreset import Coreset
    from nysketch.sources.options import ReadOptions

# With sketches, these have their meaning still; all others say how data are to be read.
_OF_SKETCHES = {
    "inputs", "from_file", "output", "functions", "method", "weight_as", "row_as", "if_exists", "lock_wait",
    "as_json", "quiet", "verbose", "log_format",
}  # fmt: skip


@click.command(
    epilog="\b\nExample: nysketch coreset 'logs/*.parquet' -s 100 --keep id,time -o coreset.parquet"
)
@common.inputs
@common.output
@click.option(
    "-s",
    "--functions",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Test functions whose means stay exactly the same. There will be one row more, at most.",
)
@click.option(
    "--method",
    type=click.Choice(["mercer", "nystrom"]),
    help="How test functions are chosen: by how rows differ, of which second moments or sampled rows tell, "
    "or by how landmarks do. Default: mercer where rows are known.",
)
@common.table
@common.row_weights
@common.keep("Columns of any type to copy beside the others: a,b,c. Columns of the kernel keep their type.")
@common.nulls
@click.option(
    "--basis",
    "basis_path",
    type=click.Path(path_type=Path),
    help="Basis or sketch file whose basis to use, and whose second moments or sampled rows. Required for "
    "standard input (-).",
)
@basis_making
@common.seed
@click.option("--weight-as", default="weight", show_default=True, help="Name of the column of weights.")
@click.option(
    "--row-as",
    default="row",
    show_default=True,
    help="Name of the column of row numbers, which count from 0 over all inputs (of landmarks: landmark).",
)
@reads_rows
@common.writes_output
def command(
    inputs: list[str],
    output: Path,
    functions: int,
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
    """Choose a few rows, with positive weights, that stand for all rows of INPUTs.

    INPUTs are data, read in one pass in memory that does not grow with the rows; or sketches (*.nysk), which
    are merged: then the rows are landmarks, and no data is needed. The weighted rows have the same means of
    the test functions as all rows, and their distance to the data (MMD) is printed beside that of random
    rows. The output is Parquet, CSV or Feather (.arrow), by its suffix.
    """
    from nysketch.basis.base import Basis
    from nysketch.coresets.files import (
        Naming,
        coreset_of_sketches_to_file,
        coreset_to_file,
        require_writable,
    )
    from nysketch.coresets.from_data import CoresetOptions, basis_of, threads_within
    from nysketch.files.format import load
    from nysketch.sources.open import open_source

    started = time.perf_counter()
    if basis_path is not None:
        refuse_basis_making(click.get_current_context())
    of_sketches = [name.endswith(".nysk") for name in inputs]
    if any(of_sketches) and not all(of_sketches):
        raise UsageError(
            "sketches (*.nysk) and data cannot be combined: give either, or merge sketches first"
        )
    options = CoresetOptions(functions, method, seed=seed, nulls=nulls)
    naming, skipped = Naming(weight_as, row_as), list[str]()
    if all(of_sketches):
        common.refuse_others(
            click.get_current_context(), _OF_SKETCHES, "is for data; these are sketches, with no other rows"
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
        source = open_source(inputs, reading.for_basis(basis))
        log_left_out(source)
        skipped = list(map(str, source.skipped))
        require_writable(output, source, naming)
        m = basis.m if isinstance(basis, Basis) else basis.most
        threads = engine.planned_threads or threads_within(memory, source, functions, m)
        with execution("coreset", engine, threads, source, quiet=quiet) as running:
            found = coreset_to_file(
                source,
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
    dropped = f" ({found.dropped_rows:,} were dropped)" if found.dropped_rows else ""
    what = f"{len(found)} {'landmarks' if found.of_landmarks else 'rows'}"
    _output.echo(
        f"{output}: {what} for {found.of_rows:,} rows{dropped}; {_output.size(size)} in {seconds:.1f} s"
    )
    distance = found.distance
    error = "" if distance.standard_error is None else f" ± {distance.standard_error:.1g}"
    gain = f", {distance.gain:.3g} times as far" if distance.gain > 1 else ""
    equivalent = found.equivalent_random_rows
    worth = f"{equivalent:,.0f} random rows"
    if equivalent >= found.of_rows:
        worth = "as many random rows as there are rows"
    _output.print_fields(
        [
            ("MMD to the data", f"{distance.mmd:.3g}{error}"),
            ("of random rows", f"{distance.random_mmd:.3g} on average, {len(found)} of them{gain}"),
            ("worth", worth),
            (
                "test functions",
                f"{len(found.functions)} ({found.functions.method}, from {found.learned_from}); "
                f"means agree to {found.mismatch:.1g}",
            ),
            (
                "weights",
                f"{found.weights.min():.2g} to {found.weights.max():.2g}, as even as "
                f"{found.effective_rows:.0f} equal ones",
            ),
        ]
    )
