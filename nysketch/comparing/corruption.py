"""Comparing in spite of bad rows: which blocks to leave out, and when there are too many of them."""

from __future__ import annotations

import numpy as np

from nysketch.comparing.embeddings import Embedded
from nysketch.comparing.results import AUTO, CONSECUTIVE, RANDOM, Options, Robustness
from nysketch.quality import features_of
from nysketch.robust import (
    FEWEST_GROUPS,
    RobustMean,
    geometric_median,
    monk_mmd,
    require_groups,
    robust_mean,
)
from nysketch.sketches import Sketch
from nysketch.twosample import Blocks, dependence

# Blocks that vary more than so many times as much as most sampled rows do are not made of such rows.
_WILDLY = 100.0
_SAMPLED, _FEWEST_SAMPLED = 500, 50


def without_bad_rows(
    both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str], notes: list[str]
) -> tuple[tuple[Embedded, Embedded], Robustness, str | None]:
    """Leave out the blocks of both that disagree with most others.

    Also return which blocks to compare, if bad rows decide that, and what the median over all blocks is.
    """
    groups = options.robust
    assert groups is not None
    of_random = [_centre(side.random, groups, name, options) for side, name in zip(both, names, strict=True)]
    of_runs = [None if side.runs is None else _centre_of_runs(side.runs, groups, options) for side in both]
    runs = [centre for centre in of_runs if centre is not None]
    left = tuple(_trimmed(*parts) for parts in zip(both, of_random, of_runs, strict=True))
    partition, centres = None, of_random
    trouble = _trouble(of_random, left, names, RANDOM)
    if options.blocks == CONSECUTIVE and len(runs) == 2:
        for side, name in zip(both, names, strict=True):
            require_groups(groups, 0 if side.runs is None else len(side.runs), name, "runs")
        partition, centres = CONSECUTIVE, runs
        # Runs of sorted rows vary as much as they like: what is left must be seen in random blocks.
        trouble = _too_many(runs, names)
    elif options.blocks == AUTO and trouble and len(runs) == 2:
        # Bad rows in one place of a file are in all random blocks, but in few runs.
        of_the_runs = _trouble(runs, left, names, CONSECUTIVE)
        if not of_the_runs:
            partition, centres, trouble = CONSECUTIVE, runs, []
            notes.append("Bad rows follow each other: runs of consecutive rows are compared.")
    notes += trouble
    sides = [side.runs if partition == CONSECUTIVE else side.random for side in both]
    one, two = (side for side in sides if side is not None)
    median = monk_mmd(one, two, min(centre.groups for centre in centres), seed=options.seed)
    left_out = [part.numbers[centre.wild].tolist() for part, centre in zip((one, two), centres, strict=True)]
    return (left[0], left[1]), Robustness(median, (left_out[0], left_out[1]), bool(trouble)), partition


def _trouble(
    centres: list[RobustMean], left: tuple[Embedded, ...], names: tuple[str, str], partition: str
) -> list[str]:
    """Say why what is left may be bad as well."""
    found = _too_many(centres, names)
    for name, side in zip(names, left, strict=True):
        blocks = side.random if partition == RANDOM else side.runs
        excess = None if blocks is None or found else _excess(side.sketch, blocks)
        if excess is not None and excess > _WILDLY:
            found.append(
                f"{name}: blocks of rows vary {excess:.2g} times as much as most rows do: bad rows in nearly "
                "all blocks, or very heavy tails. The MMD may be that of bad rows; sketch with more --blocks."
            )
    return found


def _centre(blocks: Blocks, groups: int, name: str, options: Options) -> RobustMean:
    require_groups(groups, len(blocks), name)
    return robust_mean(blocks, groups, seed=options.seed)


def _centre_of_runs(runs: Blocks, groups: int, options: Options) -> RobustMean | None:
    """Find the centre of the runs, of which there may be fewer than groups."""
    groups = min(groups, len(runs))
    return robust_mean(runs, groups, seed=options.seed) if groups >= FEWEST_GROUPS else None


def _trimmed(side: Embedded, of_random: RobustMean, of_runs: RobustMean | None) -> Embedded:
    random = side.random.only(of_random.kept())
    runs = None
    if side.runs is not None and of_runs is not None:
        runs = side.runs.only(of_runs.kept())
    return Embedded(side.sketch, random, runs, None if runs is None else dependence(random, runs))


def _too_many(centres: list[RobustMean], names: tuple[str, str]) -> list[str]:
    """Say so if half of the groups may hold a wild block of either side."""
    groups = min(centre.groups for centre in centres)
    if not any(c.astray for c in centres) and 2 * sum(len(c.wild) for c in centres) < groups:
        return []
    wild = " and ".join(
        f"{len(c.wild)} of {c.blocks} blocks of {n}" for n, c in zip(names, centres, strict=True)
    )
    return [
        f"Blocks disagree wildly ({wild}): too many for the median of {groups} groups, so the MMD may be "
        f"that of bad rows. {_remedy(groups, centres)}"
    ]


def _remedy(groups: int, centres: list[RobustMean]) -> str:
    most = min(centre.blocks for centre in centres)
    larger = f"Use --robust {most}, or sketch" if groups < most else "Sketch"
    return f"{larger} with more --blocks."


def _excess(sketch: Sketch, blocks: Blocks) -> float | None:
    """Return how much more blocks vary than rows do, by the median of the sampled rows; None if unknown."""
    sample, basis = sketch.tally.sample, sketch.basis
    if len(sample) < _FEWEST_SAMPLED or len(blocks) < 2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        features = features_of(basis, sample.scaled(basis.middle)[:_SAMPLED])
    features = features[np.isfinite(features).all(axis=1)]
    typical = float(np.median(((features - geometric_median(features)) ** 2).sum(axis=1)))
    return blocks.row_variance() / typical if typical > 0 else None
