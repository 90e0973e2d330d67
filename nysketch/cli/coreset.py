"""`nysketch coreset`: a few weighted rows that stand for all, from data or from sketches."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making, refuse_basis_making
from nysketch.cli._options.engine import EngineChoice, engine
from nysketch.cli.sketch import say_left_out, say_skipped
from nysketch.errors import EXIT_INPUTS_SKIPPED, UsageError

if TYPE_CHECKING:
    from nysketch.basis.base import Basis
    from nysketch.basis.options import BasisOptions
    from nysketch.coresets.coreset import Coreset
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions
    from nysketch.sources.protocol import Source

log = logging.getLogger("nysketch")

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
@engine
@common.memory
@common.if_exists_fail_or_overwrite
@common.lock_wait
@common.as_json
@common.reporting
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
    if_exists: str,
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
    from nysketch.coresets.files import Naming, coreset_to_file, require_writable

    started = time.perf_counter()
    if basis_path is not None:
        refuse_basis_making(click.get_current_context())
    of_sketches = [name.endswith(".nysk") for name in inputs]
    if any(of_sketches) and not all(of_sketches):
        raise UsageError(
            "sketches (*.nysk) and data cannot be combined: give either, or merge sketches first"
        )
    naming, skipped = Naming(weight_as, row_as), list[str]()
    saving: dict[str, Any] = {
        "naming": naming,
        "overwrite": if_exists == "overwrite",
        "lock_wait": lock_wait,
    }
    if all(of_sketches):
        common.refuse_others(
            click.get_current_context(), _OF_SKETCHES, "is for data; these are sketches, with no other rows"
        )
        paths = common.sketch_files(inputs)
        found = coreset_to_file(
            lambda: _of_sketches(paths, functions, method), output, inputs=paths, **saving
        )
    else:
        from nysketch.coresets.from_data import threads_within

        known, source = _opened(inputs, basis_path, basis_options, reading)
        say_left_out(source)
        skipped = list(map(str, source.skipped))
        require_writable(output, source.columns, source.kept)
        naming.require_free({column.name for column in source.columns} | set(source.kept.names))
        m = basis_options.most if known is None else _basis_of(known).m
        threads = engine.planned_threads or threads_within(memory, source, functions, m)
        how = {"method": method, "seed": seed, "wanted": basis_options}
        found = coreset_to_file(
            lambda: _of_data(
                source, functions, known, how, engine, nulls=nulls, threads=threads, quiet=quiet
            ),
            output,
            inputs=[*source.local_paths, *([basis_path] if basis_path else [])],
            **saving,
        )
    _print(found, output, time.perf_counter() - started, skipped, as_json=as_json, quiet=quiet)
    return EXIT_INPUTS_SKIPPED if skipped else 0


def _of_sketches(paths: list[Path], functions: int, method: str | None) -> Coreset:
    """Make a coreset of the landmarks of sketches."""
    from nysketch.coresets.from_sketch import coreset_of_sketch
    from nysketch.files.merge import merged

    return coreset_of_sketch(merged(paths, "the coreset"), functions, method=method)


def _basis_of(known: Basis | Sketch) -> Basis:
    from nysketch.sketches.sketch import Sketch

    return known.basis if isinstance(known, Sketch) else known


def _opened(
    inputs: list[str], basis_path: Path | None, wanted: BasisOptions, reading: ReadOptions
) -> tuple[Basis | Sketch | None, Source]:
    """Load the basis, if it is given, and open the data for it."""
    from nysketch.files.format import load
    from nysketch.sources.open import open_source

    if basis_path is None:
        return None, open_source(inputs, reading.for_basis(wanted))
    known = load(basis_path)
    return known, open_source(inputs, reading.for_basis(_basis_of(known)))


def _of_data(
    source: Source,
    functions: int,
    known: Basis | Sketch | None,
    how: dict[str, Any],
    engine: EngineChoice,
    *,
    nulls: str,
    threads: int,
    quiet: bool,
) -> Coreset:
    """Make a coreset of data."""
    from nysketch.coresets.from_data import condense_source, prepare

    with (
        _output.progress_bar("pilot", " fragments", quiet=quiet) as pilot_progress,
        _output.progress_bar("choosing", " landmarks", quiet=quiet) as choosing,
        _output.progress_bar("coreset", " rows", quiet=quiet) as progress,
        engine.opened(threads, source) as runner,
    ):
        plan = prepare(
            source,
            functions,
            known=known,
            nulls=nulls,
            engine=runner,
            progress=pilot_progress,
            choosing=choosing,
            **how,
        )
        return condense_source(source, plan, nulls=nulls, engine=runner, progress=progress)


def _print(
    found: Coreset, output: Path, seconds: float, skipped: list[str], *, as_json: bool, quiet: bool
) -> None:
    say_skipped(skipped)
    for note in found.notes:
        log.warning("%s", note)
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
    all_of_them = found.worth >= found.of_rows
    worth = "as many random rows as there are rows" if all_of_them else f"{found.worth:,.0f} random rows"
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
