"""Comparisons of sketches, one step after the other: how far apart they are, whether by chance, what moved.

The steps are in the modules next door. The statistics, in mmd.py, permutation.py and median_of_means.py, know
nothing of sketches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import Embedded, embed_both
from nysketch.twosample.explain import explain
from nysketch.twosample.mmd import MMDEstimate
from nysketch.twosample.multiple_testing import adjust_p_values
from nysketch.twosample.outliers import leave_out_outliers
from nysketch.twosample.results import ADJUSTMENTS, CONSECUTIVE, NONE, Comparison, Comparisons, Options
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
    return _compare(first, second, embed_both(first, second), names, wanted)


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
            both = shared.pair(i, j)
            found.append(_compare(sketches[i], sketches[j], both, (names[i], names[j]), wanted))
        except (IncompatibleError, InputError, UsageError) as error:
            raise type(error)(f"{names[i]} and {names[j]}: {error}") from error
    if len(pairs) > 1:
        found = adjust_p_values(found, adjustment)
    return Comparisons(list(names), list(pairs), found, adjustment if len(pairs) > 1 else NONE)


class _Shared:
    """Sketches in common coordinates: those at one basis are brought there once, not once per pair."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._sketches = sketches
        self._bases: dict[str, Any] = {}
        self._embedded: dict[int, Embedded] = {}

    def pair(self, i: int, j: int) -> tuple[Embedded, Embedded]:
        """Return two of them in coordinates that they share."""
        if self._sketches[i].basis == self._sketches[j].basis:
            return self._own(i), self._own(j)
        return embed_both(self._sketches[i], self._sketches[j])

    def _own(self, i: int) -> Embedded:
        if i not in self._embedded:
            sketch = self._sketches[i]
            basis = self._bases.setdefault(sketch.basis.digest, sketch.basis)
            self._embedded[i] = Embedded.of(sketch, basis.to_features)
        return self._embedded[i]


def _compare(
    first: Sketch,
    second: Sketch,
    both: tuple[Embedded, Embedded],
    names: tuple[str, str],
    options: Options,
) -> Comparison:
    robustness = None
    if options.robust is None:
        partition = choose_partition(both, options, names)
        notes = notes_on_partition(both, options, names)
    else:
        kept = leave_out_outliers(both, options, names)
        both, robustness, partition, notes = kept.both, kept.robustness, kept.partition, kept.notes
    one, two = (blocks_of(side, partition) for side in both)
    distance = MMDEstimate.of(one, two)
    test: str | None = None if options.test == NONE else options.test
    same_basis = first.basis == second.basis
    allowance: float | None = 0.0
    if not same_basis:
        require_no_permutation(test)
        allowance = landmark_allowance(first, second)
        notes += notes_on_landmarks(allowance, tested=test is not None)
    if allowance is None or (robustness is not None and robustness.overwhelmed):
        test = None  # a note says so
    notes += notes_on_shared_rows(first, second, names) + notes_on_precisions(first, second)
    if same_basis:
        notes += notes_on_own_landmarks(first, second, names)
    verdict = None
    if test is not None:
        tolerance = Tolerance(allowance or 0.0, rounding(first, second, both))
        weighted = first.weighted or second.weighted
        chosen = choose_test(one, two, test, partition, tolerance, weighted=weighted)
        notes += notes_on_test(chosen)
        verdict = run_test(chosen, tolerance, options)
    explanation = None
    if options.explain:
        seen = [first, second]
        consecutive = partition == CONSECUTIVE
        if robustness is not None:
            left_out = zip(seen, robustness.left_out, strict=True)
            seen = [without(sketch, gone, consecutive=consecutive) for sketch, gone in left_out]
        ratios = [side.dependence.ratio if consecutive and side.dependence else 1.0 for side in both]
        explanation = explain(*seen, ratios=ratios, consecutive=consecutive, regions=options.regions)
    return Comparison(
        names=names,
        rows=(first.rows, second.rows),
        distance=distance,
        blocks=partition,
        block_counts=(len(one), len(two)),
        dependences=(both[0].dependence, both[1].dependence),
        verdict=verdict,
        alpha=options.alpha,
        allowance=allowance or 0.0,
        robustness=robustness,
        explanation=explanation,
        notes=notes,
    )
