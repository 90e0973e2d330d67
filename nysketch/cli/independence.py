"""`nysketch independence`: whether groups of columns depend on each other, from sketches or from data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._common import execution, log_left_out, log_notes, log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.errors import EXIT_ALARM, EXIT_INPUTS_SKIPPED, CorruptSketchError, NysketchError, UsageError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.accumulators.options import PassOptions
    from nysketch.basis.options import BasisOptions
    from nysketch.hsic.independence import Independence
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions

# With sketches, these have their meaning still; all others say how data are to be sketched.
_OF_THE_TEST = {
    "inputs", "from_file", "alpha", "shuffles", "pairs", "seed", "alarm", "threads",
    "as_json", "quiet", "verbose", "log_format",
}  # fmt: skip


@click.command(
    epilog="\b\nExample: nysketch independence trips.parquet --group when=hour,weekday --group pay=fare,tip"
)
@common.inputs
@common.table
@common.nulls
@basis_making
@common.seed
@click.option(
    "--shuffles",
    type=click.IntRange(min=0),
    help="Random shuffles to compare with; 0: no test. Default: 500, or what the sketch was made for.",
)
@common.shuffle_rows
@click.option("--pairs", is_flag=True, help="Also tell which pairs of groups depend on each other.")
@common.alpha
@click.option("--alarm", is_flag=True, help="Exit with code 7 if groups depend on each other beyond chance.")
@reads_rows
@common.as_json
@common.reporting
def command(
    inputs: list[str],
    reading: ReadOptions,
    nulls: str,
    basis_options: BasisOptions,
    seed: int,
    shuffles: int | None,
    shuffle_rows: int | None,
    pairs: bool,
    alpha: float,
    alarm: bool,
    engine: EngineChoice,
    memory: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Tell whether groups of columns are independent of each other, by their HSIC.

    INPUTs are sketches made with --group, which are merged; or, if this command has --group, data to be
    sketched first, without leaving a file.
    """
    from nysketch.accumulators.options import DEFAULT_SHUFFLES, PassOptions
    from nysketch.engines.threads import available_threads
    from nysketch.hsic.independence import independence, require_shuffles

    if alarm and shuffles == 0:
        raise UsageError("--alarm needs a test: leave out --shuffles 0")
    unreadable: tuple[str, ...] = ()
    if basis_options.groups:
        count = len(basis_options.groups)
        if shuffles is not None:  # now, not after hours of reading
            require_shuffles(shuffles, alpha, math.comb(count, 2) if pairs and count > 2 else 0)
        # All that a test needs, and nothing else.
        options = PassOptions(
            seed=seed,
            nulls=nulls,
            cells=False,
            sample_rows=0,
            shuffles=shuffles or DEFAULT_SHUFFLES,
            shuffle_rows=shuffle_rows,
            pairs=pairs,
        )
        sketch, unreadable = _sketched(inputs, reading, basis_options, options, engine, memory, quiet=quiet)
    else:
        common.refuse_others(
            click.get_current_context(),
            _OF_THE_TEST,
            "is for data; these are sketches, since there is no --group",
        )
        from nysketch.files.merge import merged

        try:
            sketch = merged(sketch_files(inputs), "what is told")
        except CorruptSketchError as error:
            raise CorruptSketchError(
                f"{error}. (To test data, name groups of columns with --group)"
            ) from error
    with _output.progress_bar("test", " tests", quiet=quiet) as progress:
        found = independence(
            sketch,
            alpha=alpha,
            shuffles=shuffles,
            seed=seed,
            pairs=pairs,
            threads=engine.threads or available_threads(),
            progress=progress,
        )
    log_notes(found.notes)
    if as_json:
        _output.print_json(found.describe() | {"skipped_inputs": list(unreadable)})
    else:
        _print(found)
    if alarm and any(each.rejected for each in (found, *found.pairs)):
        return EXIT_ALARM
    if alarm and found.verdict is None:
        raise NysketchError("no test was possible: --alarm cannot tell whether groups depend on each other")
    return EXIT_INPUTS_SKIPPED if unreadable else 0


def _sketched(
    inputs: list[str],
    reading: ReadOptions,
    basis: BasisOptions,
    options: PassOptions,
    engine: EngineChoice,
    memory: int,
    *,
    quiet: bool,
) -> tuple[Sketch, tuple[str, ...]]:
    """Sketch data in memory; also return the inputs that were skipped."""
    from nysketch.passes.memory import count_groups, plan_pass
    from nysketch.passes.sketching import sketch_source
    from nysketch.sources.open import open_source

    source = open_source(inputs, reading.for_basis(basis))
    log_left_out(source)
    log_skipped(source.skipped)
    if count_groups(basis) < 2:
        raise UsageError("there must be two groups or more: --group x=a,b --group y=c")
    planned = plan_pass(source, basis, options, threads=engine.planned_threads, memory=memory)
    with execution("sketch", engine, planned.threads, source, quiet=quiet) as running:
        sketch = sketch_source(source, basis, options, execution=running)
    return sketch, tuple(map(str, source.skipped))


def _print(found: Independence) -> None:
    _output.echo(", ".join(found.groups))
    _output.print_fields((f"  {name}", value) for name, value in _fields(found))
    if found.pairs:
        click.echo("\npairs")
        rows = [
            [
                f"{pair.groups[0]}, {pair.groups[1]}",
                f"{pair.hsic:.4g}",
                "" if pair.standard_error is None else f"{pair.standard_error:.2g}",
                "" if pair.normalised is None else f"{pair.normalised:.3g}",
                "" if pair.p_value is None else f"{pair.p_value:.3g}",
                "" if pair.p_value_adjusted is None else f"{pair.p_value_adjusted:.3g}",
                "dependent" if pair.rejected else "",
            ]
            for pair in found.pairs
        ]
        _output.print_table(["groups", "HSIC", "error", "normalised", "p-value", "adjusted", "verdict"], rows)


def _fields(found: Independence) -> list[tuple[str, str]]:
    error = "" if found.standard_error is None else f" ± {found.standard_error:.2g}"
    fields = [("rows", f"{found.rows:,}"), ("HSIC", f"{found.hsic:.4g}{error}")]
    if found.normalised is not None:
        fields.append(("normalised", f"{found.normalised:.3g}; 1 at most, if groups determine each other"))
    verdict = found.verdict
    if verdict is None:
        return [*fields, ("test", "none")]
    some = verdict.permuted_rows < found.rows
    how = f"{verdict.permuted_rows:,} sampled rows" if some else "all rows"
    kind = "asymptotic: right for many rows"
    if verdict.exact:
        kind = "exact, of these alone" if some else "exact"
    answer = "dependent" if found.rejected else "no dependence beyond chance"
    return [
        *fields,
        ("test", f"{verdict.permutations:,} shuffles of {how} ({kind})"),
        ("statistic", f"{verdict.statistic:.4g}; rejected beyond {verdict.threshold:.4g}"),
        ("p-value", f"{verdict.p_value:.4g}"),
        ("verdict", f"{answer} at level {found.alpha:g}"),
    ]
