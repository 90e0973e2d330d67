"""`nysketch independence`: HSIC tests between groups of columns, from sketches or from data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._common import execution, log_left_out, log_notes, log_skipped
from nysketch.cli._options import common
from nysketch.cli._options.basis import basis_making
from nysketch.cli._options.engine import EngineChoice, reads_rows
from nysketch.cli._sections import OUTPUT, TEST, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_ALARM, EXIT_INPUTS_SKIPPED, NysketchError, UsageError, WrongKindError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.accumulators.options import PassOptions
    from nysketch.basis.options import BasisOptions
    from nysketch.hsic.results import Independence
    from nysketch.sketches.sketch import Sketch
    from nysketch.sources.options import ReadOptions

# These also apply to sketches; all others are about reading and sketching data.
_OF_THE_TEST = {
    "inputs", "from_file", "alpha", "permutations", "pairs", "blocks", "seed", "alarm", "threads",
    "as_json", "quiet", "verbose", "log_format",
}  # fmt: skip


@sectioned(
    common="group pairs permutations alpha alarm columns nulls landmarks scale as_json",
    example="nysketch independence trips.parquet --group when=hour,weekday --group pay=fare,tip",
)
@common.inputs
@common.table
@common.nulls_of_columns
@basis_making
@common.seed
@option(
    "--permutations",
    section=TEST,
    aliases=["--shuffles"],
    type=click.IntRange(min=0),
    metavar="N",
    help="Random permutations of the test. 0: no test. Default: 500, or as many as the sketch was made for.",
)
@common.permutation_rows(TEST)
@option("--pairs", section=TEST, is_flag=True, help="Also test each pair of groups.")
@option(
    "--blocks",
    section=TEST,
    metavar="KIND",
    type=click.Choice(["auto", "random", "consecutive"]),
    default="auto",
    show_default=True,
    help="What to permute: rows, which assumes independent rows (random); groups as a whole, shifted in the "
    "order of the rows, which does not (consecutive); or auto.",
)
@common.alpha
@option("--alarm", section=OUTPUT, is_flag=True, help="Exit with code 7 if a dependence is significant.")
@reads_rows
@common.as_json
@common.reporting
def command(
    inputs: list[str],
    reading: ReadOptions,
    nulls: str,
    basis_options: BasisOptions,
    seed: int,
    permutations: int | None,
    permutation_rows: int | None,
    pairs: bool,
    blocks: str,
    alpha: float,
    alarm: bool,
    engine: EngineChoice,
    memory: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Test groups of columns for independence, by the Hilbert-Schmidt independence criterion (HSIC).

    INPUTs are sketches made with --group, which are merged. With --group, INPUTs are data: they are sketched
    in memory first.
    """
    from nysketch.accumulators.options import DEFAULT_SHUFFLES, PassOptions
    from nysketch.engines.threads import available_threads
    from nysketch.hsic.independence import independence, require_shuffles

    if alarm and permutations == 0:
        raise UsageError("--alarm needs a test: leave out --permutations 0")
    unreadable: tuple[str, ...] = ()
    if basis_options.groups:
        count = len(basis_options.groups)
        if permutations is not None:  # now, not after hours of reading
            require_shuffles(permutations, alpha, math.comb(count, 2) if pairs and count > 2 else 0)
        # All that a test needs, and nothing else.
        options = PassOptions(
            seed=seed,
            nulls=nulls,
            cells=False,
            sample_rows=0,
            shuffles=permutations or DEFAULT_SHUFFLES,
            shuffle_rows=permutation_rows,
            pairs=pairs,
        )
        sketch, unreadable = _sketched(inputs, reading, basis_options, options, engine, memory, quiet=quiet)
    else:
        common.refuse_others(
            click.get_current_context(),
            _OF_THE_TEST,
            "applies to data only; without --group the inputs are sketches",
        )
        from nysketch.files.merge import merged

        try:
            sketch = merged(sketch_files(inputs), "the result")
        except WrongKindError as error:
            raise WrongKindError(
                f"{error}. (To test data directly, name groups of columns with --group)"
            ) from error
    with _output.progress_bar("test", " tests", quiet=quiet) as progress:
        found = independence(
            sketch,
            alpha=alpha,
            shuffles=permutations,
            seed=seed,
            pairs=pairs,
            blocks=blocks,
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
    if alarm and any(each.verdict is None for each in (found, *found.pairs)):
        raise NysketchError("the groups cannot be tested, so --alarm has no answer")
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
    from nysketch._support.allocator import give_back
    from nysketch.hsic.independence import TEST_BYTES
    from nysketch.passes.memory import count_groups, plan_pass
    from nysketch.passes.sketching import sketch_source
    from nysketch.sources.open import open_source

    source = open_source(inputs, reading.for_basis(basis), memory=memory)
    log_left_out(source)
    log_skipped(source.skipped)
    if count_groups(basis) < 2:
        raise UsageError("give at least two groups: --group x=a,b --group y=c")
    planned = plan_pass(
        source, basis, options, threads=engine.planned_threads, memory=memory, after=TEST_BYTES
    )
    with execution("sketch", engine, planned.threads, source, quiet=quiet) as running:
        sketch = sketch_source(planned.source, basis, options, execution=running)
    give_back()  # what the pass took
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
                {None: "untested", True: "dependent", False: ""}[pair.rejected],
            ]
            for pair in found.pairs
        ]
        _output.print_table(["groups", "HSIC", "error", "normalised", "p-value", "adjusted", "verdict"], rows)


def _fields(found: Independence) -> list[tuple[str, str]]:
    error = "" if found.standard_error is None else f" ± {found.standard_error:.2g}"
    fields = [("rows", f"{found.rows:,}"), ("HSIC", f"{found.hsic:.4g}{error}")]
    if found.normalised is not None:
        fields.append(("normalised", f"{found.normalised:.3g} (1 if the groups determine each other)"))
    verdict = found.verdict
    if verdict is None:
        return [*fields, ("test", "none")]
    some = verdict.permuted_rows < found.rows
    how = f"{verdict.permuted_rows:,} sampled rows" if some else "all rows"
    kind = "asymptotic"
    if verdict.exact:
        kind = "exact for these rows" if some else "exact"
    draws = "permutations" if found.blocks == "random" else "shifts"
    which = "V-HSIC" if verdict.kind == "v-hsic" else "at landmarks"
    answer = "dependent" if found.rejected else "no significant dependence"
    return [
        *fields,
        ("test", f"{verdict.permutations:,} {draws} of {how} ({kind})"),
        ("statistic", f"{verdict.statistic:.4g} {which} (critical value {verdict.threshold:.4g})"),
        ("p-value", f"{verdict.p_value:.4g}"),
        ("verdict", f"{answer} at level {found.alpha:g}"),
    ]
