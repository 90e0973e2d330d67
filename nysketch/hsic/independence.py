"""Are groups of columns independent? From a sketch: HSIC, a test, how strong it is, and the same for pairs.

The statistics are those of statistic.py and v_statistic.py. Here they get what they need from a sketch: means
at the landmarks from the sums over all rows, and sampled rows to shuffle. If the sample is all rows, the test
is exact; otherwise it compares the statistic of all rows with what shuffling does to that of the sample.
Where rows are copies of others, or resemble their neighbours in several groups, sums over all rows seem to
say more than they do: the sampled rows alone are tested, one of each, in the order of their file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.blas import one_thread
from nysketch._support.seeds import require_seed
from nysketch._types import Floats, Rows
from nysketch.accumulators.groups import Subset
from nysketch.accumulators.options import DEFAULT_SHUFFLES, MOST_SHUFFLES
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError
from nysketch.hsic import statistic, v_statistic
from nysketch.hsic.estimate import estimate
from nysketch.hsic.order import Order
from nysketch.hsic.results import Independence
from nysketch.hsic.statistic import HSICTestResult
from nysketch.hsic.view import FEWEST_ROWS, View
from nysketch.kernels import Product
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.multiple_testing import holm
from nysketch.twosample.results import AUTO, CONSECUTIVE, PARTITIONS, RANDOM

# Sampled rows to measure the strength of a dependence, and its error, on: pairs of them take a second.
_MEASURED_ROWS = 2000
# Rows in which groups must be expected to vary together for the asymptotic test: as for a table of counts.
_FEWEST_VARYING = 5.0


def independence(
    sketch: Sketch,
    *,
    alpha: float = 0.05,
    shuffles: int | None = None,
    seed: int = 0,
    pairs: bool = False,
    blocks: str = AUTO,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Independence:
    """Tell whether the groups of columns of a sketch are independent of each other.

    `shuffles` are as many as the sketch was made for, and as alpha needs, unless told otherwise; 0 for no
    test. `blocks` is what is permuted: rows, which are taken as independent of each other (random); groups as
    a whole, shifted against each other in the order of the rows (consecutive); or what suits the rows.
    """
    if blocks not in PARTITIONS:
        raise UsageError(f"`blocks` must be one of {', '.join(PARTITIONS)}, not {blocks!r}")
    if not 0 < alpha < 1:
        raise UsageError(f"`alpha` must be between 0 and 1, not {alpha:g}")
    require_seed(seed)
    with one_thread():
        view = View.of(sketch)
        count = len(view.basis.groups)
        wanted: list[Subset] = [tuple(range(count))]
        if pairs and count > 2:
            wanted += combinations(range(count), 2)
            view.require_pairs()
        draws = _shuffles(sketch, shuffles, alpha, len(wanted) - 1)
        how = _How(alpha, draws, seed, blocks, threads)
        found = []
        for number, part in enumerate(wanted):
            if progress is not None:
                progress(number, len(wanted))
            found.append(_of_part(view, part, how))
    if progress is not None:
        progress(len(wanted), len(wanted))
    joint, rest = found[0], found[1:]
    notes = [*dict.fromkeys([*view.notes, *(note for each in found for note in each.notes)])]
    return replace(joint, pairs=tuple(_adjust_pairs(rest)), notes=notes)


# What a test takes besides the sketch: matrices of 2,000 sampled rows, some at a time. Compiling its code
# took 18 MiB beyond that.
TEST_BYTES = 145 << 20


def require_shuffles(shuffles: int, alpha: float, pairs: int = 0) -> None:
    """Raise a UsageError if nothing could be rejected by so few shuffles, or there are too many."""
    if not 0 <= shuffles <= MOST_SHUFFLES:
        raise UsageError(f"`permutations` must be between 0 and {MOST_SHUFFLES}, not {shuffles}")
    together = max(pairs, 1)  # p-values that are adjusted for their number
    if shuffles and (shuffles + 1) * alpha < together * (1 - 1e-9):
        raise UsageError(
            f"with {shuffles} permutations no p-value is below {together / (shuffles + 1):.2g}: nothing can "
            f"be rejected at `alpha={alpha:g}`. Use more `permutations`"
        )


def _shuffles(sketch: Sketch, shuffles: int | None, alpha: float, pairs: int) -> int:
    """Return how many to draw: what was asked for, or what the sketch was made for and alpha needs."""
    if shuffles is None:
        usual = int(sketch.settings.get("shuffles") or DEFAULT_SHUFFLES)
        shuffles = max(usual, min(math.ceil(4 * max(pairs, 1) / alpha), MOST_SHUFFLES))
    require_shuffles(shuffles, alpha, pairs)
    return shuffles


def _adjust_pairs(pairs: list[Independence]) -> list[Independence]:
    tested = [(pair, pair.p_value) for pair in pairs]
    values = [value for _, value in tested if value is not None]
    if len(values) < 2:
        return pairs
    together = iter(holm(np.array(values, np.float64)).tolist())
    return [
        pair if value is None else replace(pair, p_value_adjusted=next(together)) for pair, value in tested
    ]


@dataclass(frozen=True)
class _How:
    alpha: float
    permutations: int
    seed: int
    blocks: str
    threads: int

    @property
    def settings(self) -> dict[str, Any]:
        """What every test is told."""
        return {
            "permutations": self.permutations,
            "alpha": self.alpha,
            "seed": self.seed,
            "threads": self.threads,
        }


def _of_part(view: View, part: Subset, how: _How) -> Independence:
    basis = view.basis if len(part) == len(view.basis.groups) else view.basis.of_groups(part)
    mean, means = view.means(part)
    parts = [view.parts[number] for number in part]
    at_landmarks = math.sqrt(statistic.hsic_squared(basis, parts, mean, means))
    rows = view.rows[:, view.basis.features_of(part)]
    some = rows if len(rows) == view.worth <= _MEASURED_ROWS else rows[:_MEASURED_ROWS]
    hsic, error, strength = at_landmarks, None, None
    if len(some) >= FEWEST_ROWS and not view.sketch.weighted:
        found = estimate(basis, mean, means, some, view.worth)
        hsic, error, strength = found.hsic, found.standard_error, found.normalised
    verdict, blocks, notes = None, RANDOM, list[str]()
    if not how.permutations:
        pass
    elif view.sketch.weighted:
        notes.append("Rows have weights, and weighted rows cannot be permuted: no test.")
    elif len(rows) < FEWEST_ROWS:
        notes.append(
            "The sketch has no sampled rows to permute: no test. Sketch with more `permutation_rows`."
        )
    else:
        in_order = Order(tuple(view.orders[number] for number in part), len(rows))
        blocks = _blocks(view, in_order, how.blocks)
        notes += _notes_on_order(view, in_order, how.blocks, blocks)
        if blocks == RANDOM or in_order.shiftable:
            verdict, more = _tested(view, basis, parts, (mean, means), rows, how, blocks)
            notes += more
    return Independence(
        groups=tuple(group.name for group in basis.groups),
        rows=view.sketch.rows,
        hsic=hsic,
        standard_error=error,
        hsic_at_landmarks=at_landmarks,
        normalised=strength,
        verdict=verdict,
        alpha=how.alpha,
        notes=notes,
        blocks=blocks,
    )


def _blocks(view: View, found: Order, wanted: str) -> str:
    """Choose what to permute: rows, unless those of several groups resemble their neighbours."""
    if wanted != AUTO:
        return wanted
    return RANDOM if found.exchangeable and not view.unseen_order() else CONSECUTIVE


def _notes_on_order(view: View, found: Order, wanted: str, blocks: str) -> list[str]:
    """Say what `_blocks` has made of rows that resemble their neighbours, or why there is no test."""
    who = " and ".join(found.serial)
    if blocks == RANDOM:
        if found.sorted_by is not None and len(found.serial) > 1:
            return [
                f"Rows are sorted by {found.sorted_by}, and other groups follow it: rows are taken as "
                "independent of each other."
            ]
        if found.exchangeable:
            return []
        return [
            f'Rows resemble their neighbours in {who}. `blocks="random"` ignores this: valid if rows are '
            "independent and merely sorted; otherwise the test rejects too often."
        ]
    cause = f"Rows resemble their neighbours in {who}" if len(found.serial) > 1 else ""
    if not cause and wanted == AUTO:
        cause = "Rows depend on their neighbours, in too few sampled rows to tell in which groups"
    if not found.shiftable:
        return [
            f"{cause or 'Rows are taken in their order'}, for longer than so few rows can be shifted: no "
            "test. Any two slow series look dependent. If rows are independent and merely sorted, use "
            '`blocks="random"`.'
        ]
    if not cause:
        return []
    only = "" if view.all_rows else f"; only the {len(view.rows):,} sampled rows are tested"
    return [
        f"{cause}: groups are shifted against each other in the order of the rows, not permuted{only}. "
        'If rows are independent and merely sorted, use `blocks="random"`: it has more power. HSIC and its '
        "error assume independent rows."
    ]


def _tested(
    view: View,
    basis: NystromBasis,
    parts: list[NystromBasis],
    at_landmarks: tuple[Floats, Floats],
    rows: Rows,
    how: _How,
    blocks: str,
) -> tuple[HSICTestResult, list[str]]:
    """Test some groups; also say what is special about it."""
    kernel = basis.kernel
    assert isinstance(kernel, Product)
    varying = [number for number, group in enumerate(kernel.groups) if _varies(group.of(rows))]
    constant = [group.name for number, group in enumerate(kernel.groups) if number not in varying]
    alone = blocks == CONSECUTIVE or view.copies is not None or view.all_rows
    notes = []
    if constant and view.all_rows:
        notes.append(f"{', '.join(constant)}: constant, and independent of everything.")
    if not alone and _varying_together(kernel, rows) < _FEWEST_VARYING:
        alone = True
        notes.append(
            f"{', '.join(group.name for group in kernel.groups)}: too few rows vary in several groups at "
            "once for asymptotics to hold. The test uses the sampled rows only; more `permutation_rows` "
            "have more power."
        )
    if not alone:
        return _sampled_test(basis, parts, *at_landmarks, rows, view.sketch.rows, how.settings), notes
    if len(varying) < 2:
        return statistic.constant_verdict(how.permutations, len(rows)), notes
    if blocks == CONSECUTIVE:
        rows = rows[view.where.order]
    if constant:
        rows, kernel = rows[:, basis.features_of(varying)], kernel.only(varying)
        assert isinstance(kernel, Product)
    if v_statistic.suits(kernel, len(rows)):
        return v_statistic.v_test(kernel, rows, in_order=blocks == CONSECUTIVE, **how.settings), notes
    in_order = blocks == CONSECUTIVE
    return statistic.exact_test(kernel, rows, landmarks=basis.m, in_order=in_order, **how.settings), notes


def _varies(rows: Rows) -> bool:
    return bool((rows != rows[0]).any())


def _varying_together(kernel: Product, rows: Rows) -> float:
    """Return in how many rows the two groups that vary least would both vary, if they were independent.

    A group varies where it is not what it is most often. Of rare flags there may be none that are set
    together in the sample, and some among all rows: shuffling the sample does not tell what chance does.
    """
    shares = []
    for group in kernel.groups:
        _, counts = np.unique(group.of(rows), axis=0, return_counts=True)
        shares.append(1 - float(counts.max()) / len(rows))
    one, other = sorted(shares)[:2]
    return len(rows) * one * other


def _sampled_test(
    basis: NystromBasis,
    parts: list[NystromBasis],
    mean: Floats,
    means: Floats,
    rows: Rows,
    count: int,
    settings: dict[str, Any],
) -> HSICTestResult:
    """Test by a sample; of landmarks that are rows of the data, only what other landmarks express counts.

    They express themselves fully, and other rows less well: with many columns the test would reject too
    often. Leaving these rows out is no remedy. They may have been chosen for where they are, in the tails of
    all groups at once, and without them groups would depend on each other.
    """
    own, times = _own_rows(basis, rows)
    found, sampled = int((own >= 0).sum()), len(rows) / count
    if not found:
        return statistic.sampled_test(basis, mean, means, rows, of_rows=count, **settings)
    # A landmark that is many rows is expressed as well as any other of these.
    single = times <= 1
    alone = statistic.only_own(basis) * single
    of_groups = np.array([statistic.only_own(part) for part in parts]) * single
    # Are all landmarks rows of the data, or only some, whose number is known but not which ones they are?
    expected = basis.m * sampled
    share = 1.0 if found + 4 * np.sqrt(expected * (1 - sampled)) >= expected else found / expected
    return statistic.sampled_test(
        basis,
        mean - share * alone / count,
        means - share * of_groups / count,
        rows,
        of_rows=count,
        own=own,
        of_groups=of_groups,
        excess=share * (1 - share) * float(alone.sum()) / count**2,
        **settings,
    )


def _own_rows(basis: NystromBasis, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each landmark the number of the sampled row that it is, or -1; and how many rows it is.

    To the digits that a sample has.
    """

    def keys(of: Rows) -> list[bytes]:
        return [row.tobytes() for row in (of - basis.middle).astype(np.float32)]

    of_rows = keys(rows)
    times, numbers = Counter(of_rows), {key: number for number, key in enumerate(of_rows)}
    landmarks = keys(basis.scaled_landmarks)
    return (
        np.array([numbers.get(key, -1) for key in landmarks], np.int64),
        np.array([times[key] for key in landmarks], np.int64),
    )
