"""Comparisons that tolerate corrupted rows: which blocks to leave out, and when they are too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nysketch.basis.quality import features_of
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import Embedded
from nysketch.twosample.median_of_means import (
    FEWEST_GROUPS,
    RobustCentre,
    geometric_median,
    monk_mmd,
    require_groups,
    robust_centre,
)
from nysketch.twosample.mmd import Blocks, dependence
from nysketch.twosample.results import AUTO, CONSECUTIVE, RANDOM, Options, Robustness
from nysketch.twosample.strategy import blocks_of, choose_partition, notes_on_partition

# Blocks that vary more than so many times as much as most sampled rows do are not made of such rows.
_WILDLY = 100.0
_SAMPLED, _FEWEST_SAMPLED = 500, 50


@dataclass(frozen=True, eq=False)
class Kept:
    """What is left of two sketches without their outlying blocks; which blocks to compare, and notes on both.

    `robustness` is what the median over all blocks says.
    """

    both: tuple[Embedded, Embedded]
    robustness: Robustness
    partition: str
    notes: list[str]


def leave_out_outliers(both: tuple[Embedded, Embedded], options: Options, names: tuple[str, str]) -> Kept:
    """Leave out the blocks of both that disagree with most others."""
    groups = options.robust
    assert groups is not None
    for side, name in zip(both, names, strict=True):
        require_groups(groups, len(side.random), name)
    of_random = [robust_centre(side.random, groups, seed=options.seed) for side in both]
    of_spans = [_centre_of_spans(side, groups, options.seed) for side in both]
    spans = [centre for centre in of_spans if centre is not None]
    first, second = (_leave_out(*parts) for parts in zip(both, of_random, of_spans, strict=True))
    left = first, second
    trouble = _notes_on_trouble(of_random, left, names, RANDOM)
    # Corrupted rows in one place of a file are in all random blocks, but in few spans.
    burst = bool(trouble) and options.blocks == AUTO and len(spans) == 2
    burst = burst and not _notes_on_trouble(spans, left, names, CONSECUTIVE)
    if burst:
        partition = CONSECUTIVE
        notes = ["The outliers are consecutive rows: spans of consecutive rows are compared."]
    else:
        partition = choose_partition(left, options, names)
        notes = notes_on_partition(left, options, names)
    centres = of_random
    if partition == CONSECUTIVE:
        wanted = groups if options.blocks == CONSECUTIVE else FEWEST_GROUPS
        for side, name in zip(both, names, strict=True):
            require_groups(wanted, 0 if side.spans is None else len(side.spans), name, "spans")
        # Runs of sorted rows vary as much as they like: what is left must be seen in random blocks.
        seen = [] if burst or options.blocks == CONSECUTIVE else trouble
        centres, trouble = spans, [] if burst else _notes_on_too_many(spans, names) or seen
    one, two = (blocks_of(side, partition) for side in both)
    median = monk_mmd(one, two, min(centre.groups for centre in centres), seed=options.seed)
    left_out = [part.numbers[centre.wild].tolist() for part, centre in zip((one, two), centres, strict=True)]
    robustness = Robustness(median, (left_out[0], left_out[1]), bool(trouble))
    return Kept(left, robustness, partition, notes + trouble)


def _notes_on_trouble(
    centres: list[RobustCentre], left: tuple[Embedded, ...], names: tuple[str, str], partition: str
) -> list[str]:
    """Say why what is left may be corrupted as well."""
    notes = _notes_on_too_many(centres, names)
    for name, side in zip(names, left, strict=True):
        blocks = side.random if partition == RANDOM else side.spans
        excess = None if blocks is None or notes else _excess(side.sketch, blocks)
        if excess is not None and excess > _WILDLY:
            notes.append(
                f"{name}: blocks vary {excess:.2g} times as much as typical rows do: corrupted rows in "
                "nearly all blocks, or very heavy tails. The MMD may be due to these, so there is no test. "
                "Sketch with more `blocks`."
            )
    return notes


def _centre_of_spans(side: Embedded, groups: int, seed: int) -> RobustCentre | None:
    """Find the centre of the spans, of which there may be fewer than groups."""
    if side.spans is None or min(groups, len(side.spans)) < FEWEST_GROUPS:
        return None
    return robust_centre(side.spans, min(groups, len(side.spans)), seed=seed)


def _leave_out(side: Embedded, of_random: RobustCentre, of_spans: RobustCentre | None) -> Embedded:
    random = side.random.only(of_random.kept())
    if side.spans is None or of_spans is None:
        return Embedded(side.sketch, random, None, None)
    spans = side.spans.only(of_spans.kept())
    # Corrupted rows that follow each other are in a few spans and in all random blocks: what these tell of
    # the order must not be left out. Scattered ones are in some of both, and say nothing.
    order = dependence(random, spans) if len(of_random.wild) else side.dependence
    return Embedded(side.sketch, random, spans, order)


def _notes_on_too_many(centres: list[RobustCentre], names: tuple[str, str]) -> list[str]:
    """Say so if half of the groups may hold a wild block of either side."""
    groups = min(centre.groups for centre in centres)
    if not any(c.astray for c in centres) and 2 * sum(len(c.wild) for c in centres) < groups:
        return []
    wild = " and ".join(
        f"most of {n}" if c.astray else f"{len(c.wild)} of {c.blocks} of {n}"
        for n, c in zip(names, centres, strict=True)
    )
    return [
        f"Outlying blocks ({wild}) are too many for the median of {groups} groups: the MMD may be due to "
        f"corrupted rows, so there is no test. {_remedy(groups, centres)}"
    ]


def _remedy(groups: int, centres: list[RobustCentre]) -> str:
    most = min(centre.blocks for centre in centres)
    larger = f"Use `robust={most}`, or sketch" if groups < most else "Sketch"
    return f"{larger} with more `blocks`."


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
