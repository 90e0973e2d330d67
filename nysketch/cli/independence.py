"""`nysketch independence`: whether groups of columns depend on each other, from sketches or from data."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making
from nysketch.cli._options.engine import EngineChoice, engine
from nysketch.cli.sketch import say_left_out, say_skipped
from nysketch.errors import EXIT_ALARM, EXIT_INPUTS_SKIPPED, CorruptSketchError, NysketchError, UsageError

if TYPE_CHECKING:
    from nysketch.basis.options import BasisOptions
    from nysketch.hsic.independence import Independence
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions

log = logging.getLogger("nysketch")

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
@engine
@common.memory
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
    from nysketch.engines.threads import available_threads
    from nysketch.hsic.independence import independence, require_shuffles

    if alarm and shuffles == 0:
        raise UsageError("--alarm needs a test: leave out --shuffles 0")
    unreadable: tuple[str, ...] = ()
    if basis_options.groups:
        count = len(basis_options.groups)
        if shuffles is not None:  # now, not after hours of reading
            require_shuffles(shuffles, alpha, math.comb(count, 2) if pairs and count > 2 else 0)
        sketch, unreadable = _sketched(
            inputs, reading, nulls, basis_options, seed, shuffles, shuffle_rows, pairs, engine, memory,
            quiet=quiet,
        )  # fmt: skip
    else:
        common.refuse_others(
            click.get_current_context(),
            _OF_THE_TEST,
            "is for data; these are sketches, since there is no --group",
        )
        from nysketch.files.merge import merged

        try:
            sketch = merged(common.sketch_files(inputs), "what is told")
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
    for note in found.notes:
        log.warning("%s", note)
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
    nulls: str,
    wanted: BasisOptions,
    seed: int,
    shuffles: int | None,
    shuffle_rows: int | None,
    pairs: bool,
    engine: EngineChoice,
    memory: int,
    *,
    quiet: bool,
) -> tuple[Sketch, tuple[str, ...]]:
    """Sketch data in memory, with all that a test needs and nothing else."""
    from nysketch.accumulators.groups import DEFAULT_SHUFFLES
    from nysketch.passes.memory import plan_pass
    from nysketch.passes.options import PassOptions
    from nysketch.passes.sketching import make_basis, run_pass
    from nysketch.sources.open import open_source

    source = open_source(inputs, reading.for_basis(wanted))
    say_left_out(source)
    say_skipped(source.skipped)
    assert wanted.groups is not None
    if len(wanted.groups) < 2:
        raise UsageError("there must be two groups or more: --group x=a,b --group y=c")
    how = PassOptions(
        seed=seed,
        nulls=nulls,
        cells=False,
        sample_rows=0,
        shuffles=shuffles or DEFAULT_SHUFFLES,
        shuffle_rows=shuffle_rows,
        pairs=pairs,
    )
    planned = plan_pass(source, wanted, how, threads=engine.planned_threads, memory=memory)
    with (
        _output.progress_bar("pilot", " fragments", quiet=quiet) as pilot_progress,
        _output.progress_bar("choosing", " landmarks", quiet=quiet) as choosing,
        _output.progress_bar("sketch", " rows", quiet=quiet) as progress,
        engine.opened(planned.threads, source) as runner,
    ):
        basis = make_basis(
            source,
            wanted,
            seed=seed,
            nulls=nulls,
            engine=runner,
            progress=pilot_progress,
            choosing=choosing,
        )
        sketch = run_pass(source, basis, how, wanted=wanted, engine=runner, progress=progress)
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
    some = verdict.shuffled_rows < found.rows
    how = f"{verdict.shuffled_rows:,} sampled rows" if some else "all rows"
    kind = "asymptotic: right for many rows"
    if verdict.exact:
        kind = "exact, of these alone" if some else "exact"
    answer = "dependent" if found.rejected else "no dependence beyond chance"
    return [
        *fields,
        ("test", f"{verdict.shuffles:,} shuffles of {how} ({kind})"),
        ("statistic", f"{verdict.statistic:.4g}; rejected beyond {verdict.threshold:.4g}"),
        ("p-value", f"{verdict.p_value:.4g}"),
        ("verdict", f"{answer} at level {found.alpha:g}"),
    ]
