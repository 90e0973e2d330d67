"""Comparisons of sketches, one step after the other: how far apart they are, whether by chance, what moved.

The steps are in the modules next door. The statistics, in mmd.py, permutation.py and median_of_means.py, know
nothing of sketches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nysketch.basis.base import Basis
from nysketch.basis.residual_kernel import SampledRows
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.block_descent import TRIM
from nysketch.twosample.embeddings import Coordinates, Embedded, common_coordinates
from nysketch.twosample.explain import explain
from nysketch.twosample.multiple_testing import adjust_p_values
from nysketch.twosample.outliers import leave_out_outliers
from nysketch.twosample.outside import (
    measure_distance,
    of_projections,
    rows_to_use,
    sample_both,
    sampled_rows,
)
from nysketch.twosample.results import (
    ADJUSTMENTS,
    CONSECUTIVE,
    MATTERS,
    NONE,
    Comparison,
    Comparisons,
    Options,
)
from nysketch.twosample.strategy import (
    Tolerance,
    blocks_of,
    choose_partition,
    choose_test,
    landmark_allowance,
    notes_on_landmarks,
    notes_on_own_landmarks,
    notes_on_partition,
    notes_on_precisions,
    notes_on_shared_rows,
    notes_on_test,
    require_no_permutation,
    rounding,
    run_test,
)
from nysketch.twosample.trimming import without

__all__ = ["Comparison", "Comparisons", "Options", "compare", "compare_all"]


def compare(
    first: Sketch, second: Sketch, *, names: tuple[str, str] = ("first", "second"), **options: Any
) -> Comparison:
    """Compare two sketches: their MMD with its error, a test, and what moved; options as in `Options`."""
    wanted = Options(**options)
    wanted.require_draws()
    return _compare(_Shared([first, second]).pair(0, 1), names, wanted)


def compare_all(
    sketches: Sequence[Sketch],
    names: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    *,
    adjustment: str = "holm",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Comparisons:
    """Compare pairs of sketches, given by their positions."""
    wanted = Options(**options)
    if adjustment not in ADJUSTMENTS:
        raise UsageError(f"`adjust` must be one of {', '.join(ADJUSTMENTS)}, not {adjustment!r}")
    together = 1 if adjustment == NONE else len(pairs)
    wanted.require_draws(together)
    wanted = replace(wanted, permutations=wanted.draws(together))
    shared = _Shared(sketches)
    found = []
    for count, (i, j) in enumerate(pairs):
        if progress is not None:
            progress(count, len(pairs))
        try:
            found.append(_compare(shared.pair(i, j), (names[i], names[j]), wanted))
        except (IncompatibleError, InputError, UsageError) as error:
            raise type(error)(f"{names[i]} and {names[j]}: {error}") from error
    if len(pairs) > 1:
        found = adjust_p_values(found, adjustment)
    return Comparisons(list(names), list(pairs), found, adjustment if len(pairs) > 1 else NONE)


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two sketches in common coordinates, and sampled rows of both, `most` of each."""

    sketches: tuple[Sketch, Sketch]
    both: tuple[Embedded, Embedded]
    coordinates: tuple[Coordinates, Coordinates]
    samples: tuple[SampledRows | None, SampledRows | None]
    most: int


class _Shared:
    """Sketches in common coordinates: those at one basis are brought there once, not once per pair."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._sketches = sketches
        self._bases: dict[str, Basis] = {}
        self._embedded: dict[int, Embedded] = {}
        self._sampled: dict[int, SampledRows | None] = {}

    def pair(self, i: int, j: int) -> _Pair:
        """Return two of them in coordinates that they share."""
        first, second = self._sketches[i], self._sketches[j]
        most = rows_to_use(len(self._sketches), first.basis.row_width, text=first.basis.text)
        if first.basis != second.basis:
            coordinates = common_coordinates(first, second)
            both = Embedded.of(first, coordinates[0]), Embedded.of(second, coordinates[1])
            samples = sample_both((first, second), coordinates, most)
            return _Pair((first, second), both, coordinates, samples, most)
        basis = self._bases.setdefault(first.basis.digest, first.basis)
        for k in (i, j):
            if k not in self._embedded:
                self._embedded[k] = Embedded.of(self._sketches[k], basis.to_features)
                self._sampled[k] = sampled_rows(self._sketches[k], basis.to_features, most)
        return _Pair(
            (first, second),
            (self._embedded[i], self._embedded[j]),
            (basis.to_features, basis.to_features),
            (self._sampled[i], self._sampled[j]),
            most,
        )


def _compare(pair: _Pair, names: tuple[str, str], options: Options) -> Comparison:
    (first, second), both = pair.sketches, pair.both
    robustness = kept = None
    same_basis = first.basis == second.basis
    if options.robust is None:
        partition = choose_partition(both, options, names)
        notes = notes_on_partition(both, options, names)
    else:
        kept = leave_out_outliers(both, options, names, exact=same_basis)
        both, robustness, partition, notes = kept.both, kept.robustness, kept.partition, kept.notes
    one, two = (blocks_of(side, partition) for side in both)
    seen, samples = pair.sketches, pair.samples
    consecutive = partition == CONSECUTIVE
    if robustness is not None:
        left_out = zip(seen, robustness.left_out, strict=True)
        rest = [without(sketch, gone, consecutive=consecutive) for sketch, gone in left_out]
        seen = rest[0], rest[1]
        samples = sample_both(seen, pair.coordinates, pair.most)
    ratios = [side.dependence.ratio if consecutive and side.dependence else 1.0 for side in both]
    measured = measure_distance(one, two, samples, seen, ratios, names)
    if kept is not None and options.robust_method != TRIM:
        measured = of_projections(kept.distance(), measured)
    test: str | None = None if options.test == NONE else options.test
    allowance: float | None = 0.0
    if not same_basis:
        require_no_permutation(test)
        allowance = landmark_allowance(first, second)
        notes += notes_on_landmarks(allowance, tested=test is not None)
    if allowance is None or (kept is not None and not kept.tested):
        test = None  # a note says so
    notes += measured.notes if allowance is not None else []
    notes += notes_on_shared_rows(first, second, names) + notes_on_precisions(first, second)
    if same_basis:
        notes += notes_on_own_landmarks(first, second, names)
    verdict = None
    if test is not None and kept is not None and options.robust_method != TRIM:
        verdict = kept.test(options, Tolerance(allowance or 0.0, rounding(first, second, both)))
    elif test is not None:
        tolerance = Tolerance(allowance or 0.0, rounding(first, second, both))
        weighted = first.weighted or second.weighted
        chosen = choose_test(one, two, test, partition, tolerance, weighted=weighted, draws=options.draws())
        notes += notes_on_test(chosen)
        verdict = run_test(chosen, tolerance, options)
    explanation = None
    if options.explain:
        explanation = explain(*seen, ratios=ratios, consecutive=consecutive, regions=options.regions)
    return Comparison(
        names=names,
        rows=(first.rows, second.rows),
        distance=measured.distance,
        blocks=partition,
        block_counts=(len(one), len(two)),
        dependences=(both[0].dependence, both[1].dependence),
        verdict=verdict,
        alpha=options.alpha,
        allowance=allowance or 0.0,
        robustness=robustness,
        explanation=explanation,
        notes=notes,
        sampled_rows=measured.sampled_rows,
        seen=measured.seen,
        blind=measured.blind,
        untested=measured.untested,
        matters=MATTERS if first.basis.kernel.range[1] <= 1 else None,
    )
