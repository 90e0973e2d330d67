"""Which blocks and which test suit two sketches; `notes` say why, in words for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError
from nysketch.sketches.sketch import Sketch
from nysketch.twosample import mmd, permutation
from nysketch.twosample.embeddings import Embedded
from nysketch.twosample.mmd import FEWEST_BLOCKS, Blocks, Dependence
from nysketch.twosample.permutation import BOOTSTRAP, PERMUTATION, Verdict
from nysketch.twosample.results import AUTO, CONSECUTIVE, RANDOM, Options

# Relative to the length of a mean embedding. What float32 does to a row is the same in both samples, and only
# sums are rounded differently; beside float64, its own error shows, 1.2e-4 where all rows were the same.
_ROUNDING, _MIXED = 1e-6, 5e-4

# A landmark counts itself among the rows of the sample it was drawn from: more than this share of its sum.
_OWN_SHARE = 0.1


@dataclass(frozen=True)
class Limits:
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


def choose_partition(
    both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str], notes: list[str]
) -> str:
    """Choose the blocks: spans of consecutive rows if rows depend on their neighbours."""
    lacking = [
        name
        for name, side in zip(names, both, strict=True)
        if side.spans is None or len(side.spans) < FEWEST_BLOCKS
    ]
    if options.blocks == CONSECUTIVE:
        if lacking:
            raise UsageError(
                f"{lacking[0]}: has fewer than {FEWEST_BLOCKS} runs of consecutive rows. Sketch it with "
                "--runs 64, or use --blocks random"
            )
        return CONSECUTIVE
    ordered = [
        (name, side.dependence)
        for name, side in zip(names, both, strict=True)
        if side.dependence is not None and side.dependence.found
    ]
    if options.blocks == RANDOM:
        for name, found in ordered:
            notes.append(
                f"{name}: {_dependent(found)}. With --blocks random this is ignored: right if rows are "
                "independent and merely sorted; otherwise the test rejects too often."
            )
        return RANDOM
    if not ordered:
        return RANDOM
    if lacking:
        notes.append(
            f"{ordered[0][0]}: {_dependent(ordered[0][1])}, but {lacking[0]} has too few runs of consecutive "
            "rows to allow for it: the test may reject too often."
        )
        return RANDOM
    for name, found in ordered:
        notes.append(
            f"{name}: {_dependent(found)}: runs of consecutive rows are compared. If rows are independent "
            "and merely sorted, use --blocks random: it sees more."
        )
    return CONSECUTIVE


def _dependent(found: Dependence) -> str:
    return f"rows depend on their neighbours or are sorted (variance ratio {found.ratio:.3g})"


def run_test(
    one: Blocks,
    two: Blocks,
    test: str,
    partition: str,
    limits: Limits,
    weighted: bool,
    options: Options,
    notes: list[str],
) -> Verdict | None:
    """Test whether the two are samples of the same; None if there is too little to test it on."""
    if partition == CONSECUTIVE:
        one, two = mmd.uncorrelated(one), mmd.uncorrelated(two)
    fewest = min(len(one), len(two))
    if fewest < 2:
        if test != AUTO:
            raise UsageError(
                "a test needs at least 2 blocks of rows of each sketch; sketch with more --blocks"
            )
        notes.append("Too few blocks of rows, or too few rows, for a test: sketch with more --blocks.")
        return None
    if fewest < FEWEST_BLOCKS:
        notes.append(f"Only {fewest} blocks of rows: the p-value is rough.")
    equal = permutation.exchangeable(one, two)
    if test == AUTO:
        exact = partition == RANDOM and not limits.allowance and not weighted and equal is not None
        test = PERMUTATION if exact else BOOTSTRAP
    settings: dict[str, Any] = {
        "alpha": options.alpha,
        "permutations": options.draws(),
        "rng": np.random.default_rng(options.seed),
        "floor": limits.floor,
    }
    if test == BOOTSTRAP:
        return permutation.bootstrap_test(one, two, allowance=limits.allowance, **settings)
    if weighted:
        notes.append(
            "Rows have weights: the permutation test takes blocks of equal weight for equally sure, and may "
            "reject too rarely. The bootstrap does not."
        )
    if equal is None:
        notes.append(
            "Blocks of the two samples cannot be made equally large: the permutation test is approximate."
        )
        return permutation.permutation_test(one, two, **settings)
    return permutation.permutation_test(*equal, **settings)


def warn_of_shared_rows(first: Sketch, second: Sketch, names: tuple[str, str]) -> list[str]:
    """Warn if the two contain the same input: they are not independent then."""
    shared = first.provenance.shared_with(second.provenance)
    shared += [whole.inputs[0][0] for whole, _ in first.provenance.parts_shared_with(second.provenance)]
    if not shared:
        return []
    return [
        f"{shared[0].path} is in {names[0]} and in {names[1]}: what they share hides a difference, and the "
        "test rejects too rarely. Take it away from one of them first (nysketch subtract)."
    ]


def warn_of_precisions(first: Sketch, second: Sketch) -> list[str]:
    """Warn if kernel values were rounded differently."""
    precisions = [sketch.settings["precision"] for sketch in (first, second)]
    if precisions[0] == precisions[1]:
        return []
    return [
        f"The sketches have kernel values in {precisions[0]} and {precisions[1]}: an MMD below "
        f"{_MIXED:g} may be due to that, and counts as none."
    ]


def warn_of_own_landmarks(first: Sketch, second: Sketch, names: tuple[str, str]) -> list[str]:
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
        f"The landmarks are rows of {names[owner]}, and the kernel is so narrow that each is {share:.0%} of "
        "what is near it: the MMD is too large, and the test hardly ever rejects. Take a larger --bandwidth, "
        "or the basis from other rows."
    ]
