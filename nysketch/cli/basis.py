"""`nysketch basis`: a pilot sample of the rows → a basis file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch import ui
from nysketch.cli import options
from nysketch.cli.basis_options import basis_making
from nysketch.cli.engine_options import EngineChoice, engine
from nysketch.cli.sketch import columns_of, count_of, open_for_basis, plan_pass, say_left_out, say_skipped
from nysketch.errors import EXIT_INPUTS_SKIPPED

if TYPE_CHECKING:
    from nysketch.fitting import BasisOptions


@click.command(epilog="\b\nExample: nysketch basis january.parquet -m 500 -o year.basis.nysk")
@options.inputs
@options.output
@options.table
@options.nulls
@basis_making
@options.seed
@engine
@options.memory
@options.if_exists_fail_or_overwrite
@options.lock_wait
@options.as_json
@options.reporting
def command(
    inputs: list[str],
    output: Path,
    table_options: dict[str, Any],
    nulls: str,
    basis_options: BasisOptions,
    seed: int,
    engine: EngineChoice,
    memory: int,
    if_exists: str,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    """Choose columns, scaling, kernel and landmarks from a uniform sample of the rows of INPUTs.

    Sketches made with the same basis can be added, subtracted and compared.
    """
    from nysketch.jobs import basis_to_file
    from nysketch.quality import from_description

    source = open_for_basis(inputs, basis_options, table_options)
    say_left_out(source)
    planned = plan_pass(source, None, basis_options, blocks=1, threads=engine.planned_threads, memory=memory)
    with (
        ui.progress_bar("pilot", " fragments", quiet=quiet) as progress,
        ui.progress_bar("choosing", " landmarks", quiet=quiet) as choosing,
        engine.opened(planned.threads, source) as runner,
    ):
        basis = basis_to_file(
            source,
            output,
            wanted=basis_options,
            seed=seed,
            nulls=nulls,
            overwrite=if_exists == "overwrite",
            lock_wait=lock_wait,
            engine=runner,
            progress=progress,
            choosing=choosing,
        )
    say_skipped(source.skipped)
    if as_json:
        ui.print_json(
            {
                "basis_digest": basis.digest,
                "features": basis.d,
                "kernel": basis.kernel.describe(),
                "landmarks": basis.m,
                "origin": basis.origin,
                "output": str(output),
                "skipped_inputs": list(map(str, source.skipped)),
            }
        )
    elif not quiet:
        ui.echo(f"{output}: {count_of(basis)} of {columns_of(basis)}, kernel {basis.kernel}")
        if "held_out" in basis.origin:
            for sentence in from_description(basis.origin["held_out"]).advice():
                ui.echo(sentence)
    return EXIT_INPUTS_SKIPPED if source.skipped else 0
