"""Do rows depend on their neighbours? An answer that a few corrupted rows have no effect on.

mmd.dependence compares variances, which a single row of 1e18 decides. Here it is most blocks that decide; and
blocks and spans are compared with all of their rows, in equal numbers. (Random blocks without the outlying
ones vary less than spans that still hold corrupted rows: that is no order.)
"""

from __future__ import annotations

import math

import numpy as np

from nysketch._types import Floats
from nysketch.twosample.median_of_means import geometric_median
from nysketch.twosample.mmd import FEWEST_BLOCKS, Blocks, Dependence, dependence

# The variance of spans with a burst of b outliers is b times that of random blocks; of scattered ones, five
# would have to meet in one span.
_BURST = 5.0


def order_despite_outliers(random: Blocks, spans: Blocks) -> Dependence | None:
    """Compare the spread of most spans with that of most random blocks that hold as many rows."""
    fewer = min(len(random), len(spans))
    if fewer < FEWEST_BLOCKS:
        return None
    blocks = random.group(np.arange(len(random)) % fewer)
    stretches = spans.group(np.arange(len(spans)) * fewer // len(spans))
    plain = dependence(blocks, stretches)
    if plain is None:
        return None
    if plain.ratio > _BURST:
        return plain
    usual, consecutive = (_spread(part) for part in (blocks, stretches))
    middle = float(np.median(usual))
    ratio = float(np.median(consecutive)) / middle if middle > 0 else 1.0
    return Dependence(ratio, _larger(consecutive, usual))


def _spread(blocks: Blocks) -> Floats:
    """Return the squared distances of blocks from their middle, relative to their precision."""
    apart = blocks.means - geometric_median(blocks.means)
    return np.asarray((apart**2).sum(axis=1) * blocks.weights)


def _larger(one: Floats, other: Floats) -> float:
    """Return by how many standard errors one is larger: Mann and Whitney's statistic."""
    above = (one[:, None] > other).sum() + 0.5 * (one[:, None] == other).sum()
    n, m = len(one), len(other)
    return float(above - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
