"""`nysketch basis`: a pilot sample of the rows → a basis file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch import ui
from nysketch.cli import options
from nysketch.cli.sketch import refuse_to_replace_an_input, say_left_out
from nysketch.errors import EXIT_INPUTS_SKIPPED, OutputError

if TYPE_CHECKING:
    from nysketch.passes import BasisOptions


@click.command(epilog="\b\nExample: nysketch basis january.parquet -m 500 -o year.basis.nysk")
@options.inputs
@options.output
@options.table
@options.nulls
@options.basis_making
@options.seed
@options.threads
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
    threads: int | None,
    if_exists: str,
    lock_wait: float,
    as_json: bool,
    quiet: bool,
) -> int:
    """Choose columns, scaling, kernel and landmarks from a uniform sample of the rows of INPUTs.

    Sketches made with the same basis can be added, subtracted and compared.
    """
    from nysketch.fileformat import save
    from nysketch.locks import output_lock
    from nysketch.passes import PassOptions, make_basis
    from nysketch.sources import open_source

    source = open_source(inputs, **table_options)
    refuse_to_replace_an_input(source, output)
    say_left_out(source)
    with output_lock(output, wait=lock_wait):
        if if_exists == "fail" and output.exists():
            raise OutputError(f"{output}: exists already; see --if-exists overwrite")
        with ui.progress_bar("pilot", " fragments", quiet=quiet) as progress:
            basis = make_basis(
                source, basis_options, PassOptions(seed=seed, nulls=nulls), threads=threads, progress=progress
            )
        save(basis, output)
    if as_json:
        ui.print_json(
            {
                "bandwidth": basis.kernel.bandwidth,
                "basis_digest": basis.digest,
                "features": basis.d,
                "landmarks": basis.m,
                "output": str(output),
            }
        )
    elif not quiet:
        ui.echo(
            f"{output}: {basis.m} landmarks × {basis.d} features, "
            f"Gaussian kernel of bandwidth {basis.kernel.bandwidth:.4g}"
        )
    return EXIT_INPUTS_SKIPPED if getattr(source, "skipped", ()) else 0
