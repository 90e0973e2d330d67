"""Which blocks and which test suit two sketches, and notes that say why, in words for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError
from nysketch.sketches.sketch import Sketch
from nysketch.twosample import mmd, permutation
from nysketch.twosample.embeddings import Embedded, projection_error_bound
from nysketch.twosample.mmd import FEWEST_BLOCKS, Blocks, Dependence
from nysketch.twosample.permutation import BOOTSTRAP, PERMUTATION, MMDTestResult
from nysketch.twosample.results import AUTO, CONSECUTIVE, DEFAULT_PERMUTATIONS, RANDOM, Options

# Relative to the length of a mean embedding. What float32 does to a row is the same in both samples, and only
# sums are rounded differently; beside float64, its own error shows, 1.2e-4 where all rows were the same.
_ROUNDING, _MIXED = 1e-6, 5e-4

# A landmark counts itself among the rows of the sample it was drawn from: more than this share of its sum.
_OWN_SHARE = 0.1


@dataclass(frozen=True)
class Tolerance:
    """How large an MMD may be without any difference between the samples.

    `allowance` is what different landmarks account for, `floor` what the rounding of kernel values does.
    """

    allowance: float = 0.0
    floor: float = 0.0


def rounding(first: Sketch, second: Sketch, both: tuple[Embedded, Embedded]) -> float:
    """Return the MMD that the rounding of kernel values may lead to."""
    length = max(float(np.linalg.norm(side.random.mean)) for side in both)
    same = first.settings["precision"] == second.settings["precision"]
    return length * (_ROUNDING if same else _MIXED)


def blocks_of(side: Embedded, partition: str) -> Blocks:
    """Return the blocks of one side."""
    if partition == RANDOM:
        return side.random
    assert side.spans is not None
    return side.spans


def choose_partition(both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str]) -> str:
    """Choose the blocks: spans of consecutive rows if rows depend on their neighbours."""
    lacking = _lacking_spans(both, names)
    if options.blocks == CONSECUTIVE:
        if lacking:
            raise UsageError(
                f"{lacking[0]}: has fewer than {FEWEST_BLOCKS} spans of consecutive rows. Sketch it with "
                '`spans=64`, or use `blocks="random"`'
            )
        return CONSECUTIVE
    spans_needed = options.blocks == AUTO and bool(_dependent(both, names))
    return CONSECUTIVE if spans_needed and not lacking else RANDOM


def notes_on_partition(
    both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str]
) -> list[str]:
    """Say what `choose_partition` has made of rows that depend on their neighbours."""
    dependent = [
        (name, f"rows depend on their neighbours or are sorted (variance ratio {found.ratio:.3g})")
        for name, found in _dependent(both, names)
    ]
    if not dependent or options.blocks == CONSECUTIVE:
        return []
    if options.blocks == RANDOM:
        return [
            f'{name}: {text}. `blocks="random"` ignores this: valid if rows are independent and merely '
            "sorted; otherwise the test rejects too often."
            for name, text in dependent
        ]
    lacking = _lacking_spans(both, names)
    if lacking:
        name, text = dependent[0]
        return [
            f"{name}: {text}, but {lacking[0]} has too few spans of consecutive rows to correct for it: the "
            "test may reject too often."
        ]
    return [
        f"{name}: {text}: spans of consecutive rows are compared. If rows are independent and merely "
        'sorted, use `blocks="random"`: it has more power.'
        for name, text in dependent
    ]


def _lacking_spans(both: tuple[Embedded, Embedded], names: tuple[str, str]) -> list[str]:
    """Return the names of those with too few spans to compare."""
    return [
        name
        for name, side in zip(names, both, strict=True)
        if side.spans is None or len(side.spans) < FEWEST_BLOCKS
    ]


def _dependent(both: tuple[Embedded, Embedded], names: tuple[str, str]) -> list[tuple[str, Dependence]]:
    """Return the names of those whose rows depend on their neighbours, and by how much."""
    return [
        (name, side.dependence)
        for name, side in zip(names, both, strict=True)
        if side.dependence is not None and side.dependence.found
    ]


def require_no_permutation(test: str | None) -> None:
    """Raise a UsageError if samples at different landmarks were to exchange their blocks."""
    if test == PERMUTATION:
        raise UsageError(
            'a permutation test needs sketches at the same landmarks; use `test="bootstrap"`, or make both '
            "with the same `basis`"
        )


def landmark_allowance(first: Sketch, second: Sketch) -> float | None:
    """Return how much of the MMD may be due to different landmarks; None if that is unknown."""
    errors = [projection_error_bound(sketch) for sketch in (first, second)]
    return None if None in errors else sum(error for error in errors if error is not None)


def notes_on_landmarks(allowance: float | None, *, tested: bool) -> list[str]:
    """Say what different landmarks do to the MMD and to its test."""
    if allowance is None:
        return [
            "The landmarks differ, and without sampled rows it is unknown how much of the MMD is due to "
            "that: no test."
        ]
    return [
        f"The landmarks differ: up to {allowance:.2g} of the MMD of the projections may be due to that"
        + (", which the test allows for." if tested else ".")
    ]


@dataclass(frozen=True, eq=False)
class ChosenTest:
    """A test, and the blocks of both samples to test; `equal` are such that hold equally many rows.

    None if blocks cannot be put together like that, or are too few to test anything.
    """

    test: str
    blocks: tuple[Blocks, Blocks]
    equal: tuple[Blocks, Blocks] | None
    weighted: bool

    @property
    def fewest(self) -> int:
        """How many blocks there are of the sample that has fewer."""
        return min(map(len, self.blocks))


# Of samples whose blocks differ in size by more than this, the larger one knows the spread of rows better:
# heavy tails may be missing from the smaller, and the bootstrap takes it by what it has. Of 300 and 100,000
# taxi trips (linear kernel), 20.7 % were found different by the bootstrap, 3.3 % by exchanging the blocks.
_FAR_FROM_EQUAL = 8.0


def choose_test(
    one: Blocks,
    two: Blocks,
    test: str,
    partition: str,
    tolerance: Tolerance,
    *,
    weighted: bool,
    draws: int = DEFAULT_PERMUTATIONS,
) -> ChosenTest:
    """Choose between permutation and bootstrap if that is left open, and put blocks together for it."""
    if partition == CONSECUTIVE:
        one, two = mmd.uncorrelated(one), mmd.uncorrelated(two)
    if min(len(one), len(two)) < 2:
        if test != AUTO:
            raise UsageError(
                "a test needs at least 2 blocks of rows in each sketch; sketch with more `blocks`"
            )
        return ChosenTest(test, (one, two), None, weighted)
    equal = permutation.exchangeable(one, two) or permutation.exchangeable_few(one, two, draws)
    if test == AUTO:
        may_exchange = partition == RANDOM and not tolerance.allowance and not weighted
        permuted = equal is not None or _far_from_equal(one, two)
        test = PERMUTATION if may_exchange and permuted else BOOTSTRAP
    return ChosenTest(test, (one, two), equal, weighted)


def _far_from_equal(one: Blocks, two: Blocks) -> bool:
    sizes = sorted(side.weight / len(side) for side in (one, two))
    return sizes[1] > _FAR_FROM_EQUAL * sizes[0]


def notes_on_test(chosen: ChosenTest) -> list[str]:
    """Say what makes a test rough, too careful or impossible."""
    if chosen.fewest < 2:
        return ["Too few blocks of rows, or too few rows, for a test: sketch with more `blocks`."]
    notes = []
    if chosen.fewest < FEWEST_BLOCKS:
        notes.append(f"Only {chosen.fewest} blocks of rows: the p-value is rough.")
    if chosen.test == PERMUTATION and chosen.weighted:
        notes.append(
            "Rows have weights: the permutation test treats blocks of equal weight as equally precise, and "
            "may reject too rarely. The bootstrap does not."
        )
    if chosen.test == PERMUTATION and chosen.equal is None and not _far_from_equal(*chosen.blocks):
        notes.append(
            "Blocks of the two samples cannot be made equally large: the permutation test is approximate."
        )
    return notes


def run_test(chosen: ChosenTest, tolerance: Tolerance, options: Options) -> MMDTestResult | None:
    """Test whether the two are samples of the same; None if there is too little to test it on."""
    if chosen.fewest < 2:
        return None
    settings: dict[str, Any] = {
        "alpha": options.alpha,
        "permutations": options.draws(),
        "rng": np.random.default_rng(options.seed),
        "floor": tolerance.floor,
    }
    allowance = 0.0
    if chosen.test == BOOTSTRAP:
        allowance = tolerance.allowance
        found = permutation.bootstrap_test(*chosen.blocks, allowance=allowance, **settings)
    else:
        found = permutation.permutation_test(*(chosen.equal or chosen.blocks), **settings)
    # Different landmarks may hide as much of a difference as they may pretend.
    detectable = mmd.detectable_mmd(*chosen.blocks, found.threshold - allowance) + 2 * allowance
    return replace(found, detectable=detectable)


def notes_on_shared_rows(first: Sketch, second: Sketch, names: tuple[str, str]) -> list[str]:
    """Warn if the two contain the same input: they are not independent then."""
    shared = first.provenance.shared_with(second.provenance)
    shared += [whole.inputs[0][0] for whole, _ in first.provenance.parts_shared_with(second.provenance)]
    if not shared:
        return []
    return [
        f"{shared[0].path} is in {names[0]} and in {names[1]}: shared rows hide a difference, and the test "
        "rejects too rarely. Remove them from one side first with `nysketch.subtract`."
    ]


def notes_on_precisions(first: Sketch, second: Sketch) -> list[str]:
    """Warn if kernel values were rounded differently."""
    precisions = [sketch.settings["precision"] for sketch in (first, second)]
    if precisions[0] == precisions[1]:
        return []
    return [
        f"The sketches have kernel values in {precisions[0]} and {precisions[1]}: an MMD below {_MIXED:g} "
        "may be due to that, and counts as zero."
    ]


def notes_on_own_landmarks(first: Sketch, second: Sketch, names: tuple[str, str]) -> list[str]:
    """Warn of a narrow kernel if the landmarks are rows of one of the two."""
    basis = first.basis
    if not isinstance(basis, NystromBasis) or not basis.range[0] >= 0 or first.weighted or second.weighted:
        return []
    own = basis.kernel.diagonal(basis.scaled_landmarks)
    # What a landmark adds to its own sum; more than all of it, if it is no row of the sample.
    shares = [own / np.maximum(sketch.kernel_sums, 1e-300) for sketch in (first, second)]
    among = [bool((share <= 1 + 1e-4).all()) for share in shares]
    if among[0] == among[1]:
        return []
    owner = 0 if among[0] else 1
    share = float(np.median(shares[owner]))
    if share < _OWN_SHARE:
        return []
    return [
        f"The landmarks are rows of {names[owner]}, and the kernel is so narrow that each makes up "
        f"{share:.0%} of its neighbourhood: the MMD is too large, and the test hardly ever rejects. Use a "
        "larger `bandwidth`, or make the basis from other rows."
    ]
