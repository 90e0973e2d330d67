"""`nysketch basis`: a pilot sample of the rows → a basis file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nysketch.cli import _output
from nysketch.cli._common import (
    columns_in_words,
    execution,
    landmarks_in_words,
    log_columns,
    log_left_out,
    log_skipped,
)
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_INPUTS_SKIPPED

if TYPE_CHECKING:
    from nysketch.basis.options import BasisOptions
    from nysketch.sources.options import ReadOptions


@sectioned(
    common="output columns exclude nulls landmarks kernel bandwidth scale threads if_exists",
    example="nysketch basis january.parquet -m 500 -o year.basis.nysk",
)
@common.inputs
@common.output
@common.table
@common.nulls_of_columns
@basis_making
@common.seed
@reads_rows
@common.writes_output
def command(
    inputs: list[str],
    output: Path,
    reading: ReadOptions,
    nulls: str,
    basis_options: BasisOptions,
    seed: int,
    engine: EngineChoice,
    memory: int,
    overwrite: bool,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    """Choose columns, scaling, kernel and landmarks from a uniform sample of the rows of INPUTs.

    Sketches with the same basis can be added, subtracted and compared.
    """
    from nysketch.accumulators.options import PassOptions
    from nysketch.passes.memory import plan_pass
    from nysketch.passes.to_file import basis_to_file
    from nysketch.sketches.columns_table import columns_table
    from nysketch.sketches.describe import describe_quality
    from nysketch.sources.open import open_source

    source = open_source(inputs, reading.for_basis(basis_options), memory=memory)
    log_left_out(source)
    least = PassOptions(blocks=1, runs=0, shuffles=0)
    planned = plan_pass(source, basis_options, least, threads=engine.planned_threads, memory=memory)
    with execution("basis", engine, planned.threads, source, quiet=quiet) as running:
        basis = basis_to_file(
            planned.source,
            output,
            basis_options,
            seed=seed,
            nulls=nulls,
            overwrite=overwrite,
            lock_wait=lock_wait,
            execution=running,
        )
    log_columns(basis)
    log_skipped(source.skipped)
    if as_json:
        _output.print_json(
            {
                "basis_digest": basis.digest,
                "columns": [one.describe() for one in columns_table(basis)],
                "features": basis.d,
                "kernel": basis.kernel.describe(),
                "landmarks": basis.m,
                "origin": basis.origin,
                "output": str(output),
                "skipped_inputs": list(map(str, source.skipped)),
            }
        )
    elif not quiet:
        _output.echo(
            f"{output}: {landmarks_in_words(basis)} of {columns_in_words(basis)}, kernel {basis.kernel}"
        )
        quality = describe_quality(basis)
        for sentence in [] if quality is None else quality["advice"]:
            _output.echo_message(sentence)
    return EXIT_INPUTS_SKIPPED if source.skipped else 0
