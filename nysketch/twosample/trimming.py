"""Sketches without outliers: the blocks that disagree with most others are left out.

Each block is a random part of all rows (or a run of consecutive ones), so the others still represent the
whole. Cells and second moments are not kept by block: what is learned from such a sketch is learned from its
kernel sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nysketch._support.exact import ExactSum
from nysketch.accumulators.blocks import BlockSums
from nysketch.accumulators.dropped import DroppedRows
from nysketch.accumulators.sample import RowSample
from nysketch.accumulators.spans import Spans
from nysketch.accumulators.tally import Tally
from nysketch.sketches.sketch import Sketch
from nysketch.twosample.embeddings import random_blocks, span_blocks
from nysketch.twosample.median_of_means import FEWEST_GROUPS, require_groups, require_robust, robust_centre

# A row this many times farther from the median than most is an outlier.
_FARTHER = 50.0


@dataclass(frozen=True, eq=False)
class Trimmed:
    """A sketch of the blocks that agree; `left_out` are the numbers of the others.

    `overwhelmed` if they are too many for the median to be trusted.
    """

    sketch: Sketch
    blocks: str  # "random" or "consecutive"
    left_out: list[int]
    rows_left_out: int
    groups: int
    overwhelmed: bool

    def describe(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "blocks": self.blocks,
            "groups": self.groups,
            "left_out": self.left_out,
            "overwhelmed": self.overwhelmed,
            "rows_left_out": self.rows_left_out,
        }


def trim(sketch: Sketch, groups: int | str, *, seed: int = 0) -> Trimmed:
    """Leave out the blocks of a sketch that are far from the median of `groups` groups of them.

    "auto" is as many groups as there are blocks; of more, there are so many.

    Random blocks, unless outliers are in too many of these and follow each other: then spans of rows.
    """
    sketch.require_weight()
    to_features = sketch.basis.to_features
    kind, blocks = "random", random_blocks(sketch, to_features)
    require_robust(groups)
    require_groups(FEWEST_GROUPS, len(blocks), "the sketch")
    groups = min(groups, len(blocks)) if isinstance(groups, int) else len(blocks)
    centre = robust_centre(blocks, groups, seed=seed)
    spans = span_blocks(sketch, to_features) if centre.crowded else None
    if spans is not None and len(spans) >= FEWEST_GROUPS:
        of_spans = robust_centre(spans, min(groups, len(spans)), seed=seed)
        if not of_spans.crowded:
            kind, blocks, centre = "consecutive", spans, of_spans
    left_out = blocks.numbers[centre.wild].tolist()
    rest = without(sketch, left_out, consecutive=kind == "consecutive")
    return Trimmed(rest, kind, left_out, sketch.rows - rest.rows, centre.groups, centre.crowded)


def trimmed_sketch(sketch: Sketch, groups: int | str, *, seed: int = 0) -> Trimmed:
    """Leave out blocks of a sketch that is to be kept: its settings say which, and how many rows they had."""
    found = trim(sketch, groups, seed=seed)
    settings = sketch.settings | {"cells": False, "robust": found.describe()}
    return replace(found, sketch=replace(found.sketch, settings=settings))


def without(sketch: Sketch, left_out: Sequence[int] | NDArray[np.int64], *, consecutive: bool) -> Sketch:
    """Return the sketch without some of its blocks, or spans, and without sampled rows that are far off."""
    parts = sketch.tally.blocks
    if consecutive and sketch.spans is not None:
        parts = _as_blocks(sketch.spans)
    kept = np.setdiff1d(np.arange(len(parts.rows)), left_out)
    tally = sketch.tally
    # Nothing is known of the other statistics without these rows.
    rest = Tally(_only(parts, kept), tally.ranges, tally[DroppedRows], _without_outliers(tally.sample))
    return replace(sketch, tally=rest)


def _as_blocks(spans: Spans) -> BlockSums:
    return BlockSums(spans.sums, spans.rows, spans.weights)


def _only(parts: BlockSums, kept: NDArray[np.int64]) -> BlockSums:
    def part(sums: ExactSum) -> ExactSum:
        return ExactSum(sums.high[kept], sums.low[kept])

    weights = None if parts.weights is None else part(parts.weights)
    return BlockSums(part(parts.sums), parts.rows[kept], weights)


def inliers(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which rows are not many times farther from the middle than most are."""
    rows = np.asarray(rows, np.float64)
    distances = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    return np.asarray(distances <= _FARTHER * max(float(np.median(distances)), 1e-300))


def _without_outliers(sample: RowSample) -> RowSample:
    if sample.rows.dtype == object or len(sample) < 2:
        return sample
    kept = inliers(sample.rows)
    weights = None if sample.weights is None else sample.weights[kept]
    return replace(sample, keys=sample.keys[kept], rows=sample.rows[kept], weights=weights)
