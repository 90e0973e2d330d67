"""`nysketch compare`: two-sample tests between sketches, and which columns shifted."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nysketch.cli import _output
from nysketch.cli._common import log_notes
from nysketch.cli._explanation import print_explanation
from nysketch.cli._options import common
from nysketch.cli._options.types import GROUPS
from nysketch.cli._sections import INPUT, OUTPUT, TEST, option
from nysketch.cli._sections import command as sectioned
from nysketch.errors import EXIT_ALARM, NysketchError, UsageError
from nysketch.files.find import sketch_files

if TYPE_CHECKING:
    from nysketch.twosample.mmd import MMDEstimate
    from nysketch.twosample.results import Comparison, Comparisons

# A matrix with more columns than this is read as a list.
_WIDEST_MATRIX = 8
_NOTABLE_SHARE = 0.1
ROBUST_METHODS = ["trim", "geometric-median", "bcd", "bcd-fast"]


@sectioned(
    common="reference chain alpha alarm explain as_json",
    example="nysketch compare january.nysk february.nysk --alarm",
)
@click.argument(
    "sketches", nargs=-1, metavar="SKETCH...", required=True, shell_complete=common.complete_files
)
@option(
    "--reference",
    section=INPUT,
    type=click.Path(path_type=Path),
    metavar="SKETCH",
    help="Compare each sketch with this one only.",
)
@option("--chain", section=INPUT, is_flag=True, help="Compare each sketch with the previous one only.")
@option(
    "--test",
    section=TEST,
    metavar="METHOD",
    type=click.Choice(["auto", "permutation", "bootstrap", "none"]),
    default="auto",
    show_default=True,
    help="permutation: permute blocks of rows; bootstrap: multiplier bootstrap over blocks; none; or auto: "
    "the best one that the sketches support.",
)
@option(
    "--permutations",
    section=TEST,
    type=click.IntRange(min=1),
    metavar="N",
    help="Random draws of the test. Default: 1000, or more if several comparisons need them.",
)
@common.alpha
@option(
    "--adjust",
    section=TEST,
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    show_default=True,
    help="Adjust p-values for several comparisons: control the family-wise error rate (holm) or the false "
    "discovery rate (bh).",
)
@option(
    "--blocks",
    section=TEST,
    metavar="KIND",
    type=click.Choice(["auto", "random", "consecutive"]),
    default="auto",
    show_default=True,
    help="Blocks for the test: random blocks, which assume independent rows; consecutive ones (spans), which "
    "do not; or auto.",
)
@option(
    "--robust",
    section=TEST,
    type=GROUPS,
    is_flag=False,
    flag_value="auto",
    metavar="auto|Q",
    help="Exclude outlying blocks, found on the blocks of both sketches together. Tolerates corrupted rows "
    "in fewer than half as many blocks as there are of a sketch (auto), or in fewer than Q/2.",
)
@option(
    "--robust-method",
    section=TEST,
    type=click.Choice(ROBUST_METHODS),
    default="trim",
    show_default=True,
    metavar="METHOD",
    help="With --robust: trim, the MMD of the blocks that are left; or a median of means over Q groups of "
    "all blocks (MONK): geometric-median, bcd or bcd-fast.",
)
@common.seed
@option(
    "--explain/--no-explain",
    section=OUTPUT,
    default=None,
    help="Show which columns and regions shifted. Default: for two sketches only.",
)
@option("--alarm", section=OUTPUT, is_flag=True, help="Exit with code 7 if a difference is significant.")
@common.as_json
@common.reporting
def command(
    sketches: tuple[str, ...],
    reference: Path | None,
    chain: bool,
    test: str,
    permutations: int | None,
    alpha: float,
    adjust: str,
    blocks: str,
    robust: int | str | None,
    robust_method: str,
    seed: int,
    explain: bool | None,
    alarm: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare the sketches SKETCH… by their maximum mean discrepancy (MMD), without the data.

    The MMD is the distance between two mean embeddings. It is 0 for identical rows, and at most 1.41 for
    kernels with values between 0 and 1. More than two sketches are compared pairwise. Sketches must have the
    same columns, scaling and kernel. If they share a basis and their blocks have equal sizes, the permutation
    test is exact.
    """
    from nysketch.files.format import load_sketch
    from nysketch.files.merge import log_missing_parts
    from nysketch.twosample.compare import compare_all

    if chain and reference is not None:
        raise UsageError("--chain and --reference cannot be combined")
    if alarm and test == "none":
        raise UsageError("--alarm needs a test: leave out --test none")
    paths = sketch_files(sketches, but=reference)
    if reference is not None:
        paths = [reference, *paths]
    if len(paths) < 2:
        raise UsageError("give at least two sketches to compare")
    pairs = list(combinations(range(len(paths)), 2))
    if reference is not None:
        pairs = [(0, i) for i in range(1, len(paths))]
    elif chain:
        pairs = list(pairwise(range(len(paths))))
    loaded = [load_sketch(path) for path in paths]
    for path, sketch in zip(paths, loaded, strict=True):
        log_missing_parts(sketch, f"the result for {path}")
    with _output.progress_bar("compare", " pairs", quiet=quiet) as progress:
        found = compare_all(
            loaded,
            [str(path) for path in paths],
            pairs,
            adjustment=adjust,
            progress=progress,
            test=test,
            permutations=permutations,
            alpha=alpha,
            seed=seed,
            blocks=blocks,
            robust=robust,
            robust_method=robust_method,
            explain=len(pairs) == 1 if explain is None else explain,
        )
    log_notes(note for comparison in found.found for note in comparison.notes)
    if as_json:
        _output.print_json(found.describe())
    elif len(pairs) == 1:
        _print_one(found.found[0])
    else:
        _print_many(found, matrix=reference is None and not chain and len(paths) <= _WIDEST_MATRIX)
    if alarm and found.rejected:
        return EXIT_ALARM
    untested = [comparison for comparison in found.found if comparison.verdict is None]
    if alarm and untested:
        one, other = untested[0].names
        raise NysketchError(f"{one} and {other} cannot be tested, so --alarm has no answer")
    return 0


def _print_one(found: Comparison) -> None:
    _output.echo(f"{found.names[0]} and {found.names[1]}")
    _output.print_fields((f"  {name}", value) for name, value in _fields(found))
    explanation = found.explanation
    if explanation is None:
        return
    print_explanation(explanation, found.names)


def _fields(found: Comparison) -> list[tuple[str, str]]:
    distance, verdict = found.distance, found.verdict
    fields = [
        ("rows", f"{found.rows[0]:,} and {found.rows[1]:,}"),
        ("MMD", f"{distance.mmd:.4g}{_error(distance.standard_error)}"),
        ("squared", f"{distance.squared:.4g}" + _unbiased(distance)),
    ]
    if (distance.outside_share or 0.0) > _NOTABLE_SHARE:
        share = f"{distance.outside_share:.0%} of the squared MMD is outside the span of the landmarks"
        fields.append(("projections", f"MMD {distance.projected:.4g}; {share}"))
    if found.robustness is not None:
        fields += _robustness(found)
    ratios = [None if d is None else f"{d.ratio:.3g}" for d in found.dependences]
    if None not in ratios:
        fields.append(
            ("order of rows", f"variance ratio {ratios[0]} and {ratios[1]} (1 for independent rows)")
        )
    if verdict is None:
        return [*fields, ("test", "none")]
    how = {"permutation": "permutation", "bootstrap": "multiplier bootstrap"}[verdict.test]
    kind = "random blocks" if found.blocks == "random" else "spans of consecutive rows"
    power = []
    if found.detectable is not None and not found.rejected:
        if_clean = (
            "" if found.robustness is None else ", even without the corrupted rows that blocks cannot show"
        )
        power = [("power", f"a true MMD below {found.detectable:.2g} may go unseen{if_clean}")]
    counts = f"{verdict.blocks[0]} and {verdict.blocks[1]} {kind}"
    return [
        *fields,
        ("test", f"{how} of {counts}, {verdict.permutations:,} draws"),
        ("p-value", f"{verdict.p_value:.4g} (critical MMD {_critical(found)})"),
        *power,
        ("verdict", f"{_verdict(found)} at level {found.alpha:g}{_undecided(found)}"),
    ]


def _error(value: float) -> str:
    return f" ± {value:.2g}" if math.isfinite(value) else ""


def _unbiased(distance: MMDEstimate) -> str:
    if not math.isfinite(distance.squared_unbiased):
        return ""
    return f"; unbiased {distance.squared_unbiased:.4g}{_error(distance.squared_se)}"


def _verdict(found: Comparison) -> str:
    return "different" if found.rejected else "no significant difference"


def _critical(found: Comparison) -> str:
    return "infinite" if found.threshold is None else f"{found.threshold:.4g}"


def _undecided(found: Comparison) -> str:
    """Say so if that means little."""
    return f"; undecided: {_why_undecided(found)}" if found.undecided() else ""


def _why_undecided(found: Comparison) -> str:
    if found.blind:
        return "the landmarks express too little of the rows"
    if found.untested:
        return "the difference is outside the span of the landmarks, where the test does not look"
    return "too few rows to tell"


def _robustness(found: Comparison) -> list[tuple[str, str]]:
    robust = found.robustness
    assert robust is not None
    median, unseen = robust.median, robust.unseen
    fields = [
        ("median MMD", f"{median.value:.4g} over {median.groups} groups of all blocks"),
        ("excluded" if robust.trimmed else "outlying", _left_out(found)),
    ]
    if robust.overwhelmed or not robust.trimmed:
        return fields
    rows = f"up to {robust.tolerates:,} corrupted rows in both together, however far off"
    hidden = (
        f"rows up to {unseen.deviations:.2g} deviations off: 1 % of them moves the MMD by up to "
        f"{unseen.mmd_per_percent:.2g}"
    )
    return [*fields, ("tolerates", rows), ("cannot tell", hidden)]


def _left_out(found: Comparison) -> str:
    assert found.robustness is not None
    kind = "blocks" if found.blocks == "random" else "spans"
    parts = []
    for name, numbers in zip(found.names, found.robustness.left_out, strict=True):
        listed = ", ".join(map(str, numbers[:12])) + (" …" if len(numbers) > 12 else "")
        parts.append(f"{len(numbers)} {kind} of {name}" + (f" ({listed})" if numbers else ""))
    return "; ".join(parts)


def _print_many(found: Comparisons, *, matrix: bool) -> None:
    if matrix:
        _print_matrix(found)
    else:
        _print_list(found)
    tested = [comparison for comparison in found.found if comparison.verdict is not None]
    if tested:
        how = {"holm": "Holm's", "bh": "Benjamini and Hochberg's", "none": "no"}[found.adjustment]
        _output.echo(
            f"{len(found.rejected)} of {len(tested)} differences are significant at level "
            f"{tested[0].alpha:g}, with {how} adjustment"
        )
    undecided = [comparison for comparison in tested if comparison.undecided()]
    if undecided:
        why = {_why_undecided(comparison) for comparison in undecided}
        _output.echo(f"{len(undecided)} of {len(tested)} are undecided: {'; '.join(sorted(why))}")
    sampled = [rows for comparison in found.found for rows in comparison.sampled_rows or ()]
    if sampled:
        _output.echo(
            "The part of an MMD outside the span of the landmarks is estimated from up to "
            f"{max(sampled):,} sampled rows of each sketch"
        )


def _print_matrix(found: Comparisons) -> None:
    """Print MMDs below the diagonal and p-values above it."""
    cells = [["" for _ in found.names] for _ in found.names]
    for (i, j), comparison in zip(found.pairs, found.found, strict=True):
        cells[j][i] = f"{comparison.mmd:.4g}" + ("*" if comparison.rejected else "")
        p = comparison.p_value if comparison.p_value_adjusted is None else comparison.p_value_adjusted
        cells[i][j] = "" if p is None else f"p {p:.3g}" + ("?" if comparison.undecided() else "")
    for i, name in enumerate(found.names):
        _output.echo(f"  {i + 1:>2}  {name}")
    doubtful = ", ? where undecided" if any(each.undecided() for each in found.found) else ""
    click.echo(f"\nMMD below the diagonal, p-values above{doubtful}")
    header = ["", *(str(i + 1) for i in range(len(found.names)))]
    _output.print_table(header, [[str(i + 1), *row] for i, row in enumerate(cells)])


def _print_list(found: Comparisons) -> None:
    rows = []
    for comparison in found.found:
        p, adjusted = comparison.p_value, comparison.p_value_adjusted
        rows.append(
            [
                f"{comparison.names[0]} and {comparison.names[1]}",
                f"{comparison.mmd:.4g}",
                _error(comparison.distance.standard_error).removeprefix(" ± "),
                "" if p is None else f"{p:.3g}",
                "" if adjusted is None else f"{adjusted:.3g}",
                "different" if comparison.rejected else "undecided" if comparison.undecided() else "",
                _moved_most(comparison),
            ]
        )
    header = ["sketches", "MMD", "error", "p-value", "adjusted", "verdict", "largest shift"]
    used = [i for i in range(len(header)) if i < 3 or any(row[i] for row in rows)]
    _output.print_table([header[i] for i in used], [[row[i] for i in used] for row in rows])


def _moved_most(comparison: Comparison) -> str:
    if comparison.explanation is None or not comparison.explanation.columns:
        return ""
    change = comparison.explanation.columns[0]
    if change.kind not in ("number", "list"):
        return f"{change.column} {change.distance:.2g}"
    first = comparison.explanation.shifts[0]
    return first.feature + (" was constant" if first.shift is None else f" {first.shift:+.2g}")
