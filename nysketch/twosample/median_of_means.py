"""Median of means: estimates that a few corrupted rows cannot spoil, however wrong these are.

A mean over all rows follows a single row of 1e18 anywhere if the kernel has no bound. The median over groups
of blocks does not, as long as fewer than half of the groups hold such a row: a number of corrupted rows, not
a share. The MMD is MONK, that of Lerasle, Szabó, Mathieu and Lecué (2019), from block sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nysketch._types import Floats, Indices
from nysketch.errors import UsageError
from nysketch.twosample.mmd import Blocks

FEWEST_GROUPS = 3
AUTO_GROUPS = "auto"
_STEPS = 16  # groups are drawn anew at each of them
_REGROUPINGS = 16
# A block is wild if its distance from the centre is above the median by so many deviations: in one of 100
# comparisons without any outliers, for a single feature, and hardly ever for more.
_WILD = 6.0
# Or if it is so many times farther than a quarter of all blocks: of normal numbers, one in 10⁹ is.
_FAR = 19.0
# Relative to its length, a mean is known to so much.
ROUNDING = 1e-10


def require_robust(groups: int | str | None) -> None:
    """Raise a UsageError unless this is a number of groups, "auto" for any, or nothing."""
    if isinstance(groups, str) and groups != AUTO_GROUPS:
        raise UsageError(f'`robust` must be "auto" or a number of groups, not {groups!r}')
    if isinstance(groups, int) and groups < FEWEST_GROUPS:
        raise UsageError(f"`robust` must be at least {FEWEST_GROUPS}, not {groups}")


def require_groups(groups: int, blocks: int, name: str, kind: str = "blocks") -> None:
    """Raise a UsageError unless the blocks suffice for the groups."""
    if groups < FEWEST_GROUPS:
        raise UsageError(f"`robust` must be at least {FEWEST_GROUPS}, not {groups}")
    if groups > blocks:
        raise UsageError(
            f"{name}: has {blocks} {kind} of rows, too few for {groups} groups. Use a smaller `robust`, or "
            f"sketch with more `{kind}`"
        )


def geometric_median(points: Floats, weights: Floats | None = None) -> Floats:
    """Return the point with the smallest sum of distances to all points: no minority can drag it far.

    Weiszfeld's iteration, from the best of the points; it may end at one of them (Vardi and Zhang, 2000).
    """
    weights = np.ones(len(points)) if weights is None else weights
    distances = _distances(points)
    best = int(np.argmin(distances @ weights))
    # Relative to it: the digits of what is near must not drown in what is far.
    relative = points - points[best]
    at = np.zeros(points.shape[1])
    scale = float(np.median(np.linalg.norm(relative, axis=1)))
    for _ in range(1000):
        lengths = np.linalg.norm(relative - at, axis=1)
        here = lengths <= 1e-12 * scale
        pulls = np.divide(weights, lengths, out=np.zeros(len(points)), where=~here)
        if not pulls.any():
            break
        target = pulls @ relative / pulls.sum()
        # At one of the points: stay, unless the others pull harder than it weighs.
        force = float(np.linalg.norm(pulls @ (relative - at)))
        hold = min(float(weights[here].sum()) / force, 1.0) if here.any() and force > 0 else 0.0
        moved = (1 - hold) * (target - at)
        at = at + moved
        if float(np.linalg.norm(moved)) <= 1e-10 * scale:
            break
    return np.asarray(points[best] + at)


def _distances(points: Floats) -> Floats:
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(points, points))


def _deal(blocks: int, groups: int, rng: np.random.Generator) -> Indices:
    """Deal blocks to groups at random, as evenly as they go."""
    return rng.permutation(np.arange(blocks) % groups)


@dataclass(frozen=True, eq=False)
class RobustCentre:
    """A centre that most groups of blocks agree on, and which blocks do not.

    `wild` are the blocks to leave out. `astray` if some blocks are far closer to each other than to the
    centre: then most are wild, and the centre is theirs.
    """

    centre: Floats
    wild: Indices
    groups: int
    blocks: int
    astray: bool

    @property
    def crowded(self) -> bool:
        """Whether wild blocks may be in half of the groups."""
        return self.astray or 2 * len(self.wild) >= self.groups

    def kept(self) -> Indices:
        """Return the blocks that agree."""
        return np.setdiff1d(np.arange(self.blocks), self.wild)


def robust_centre(blocks: Blocks, groups: int, *, seed: int = 0) -> RobustCentre:
    """Find the centre of a sample: the geometric median of the means of groups of blocks."""
    rng = np.random.default_rng(seed)
    if groups == len(blocks):
        centre = geometric_median(blocks.means)
    else:  # groups drawn at random leave their chance in it, which other groups take out again
        centres = [
            geometric_median(blocks.group(_deal(len(blocks), groups, rng)).means) for _ in range(_REGROUPINGS)
        ]
        centre = geometric_median(np.array(centres))
    # A block of n rows is 1/√n from the centre by chance.
    distances = np.linalg.norm(blocks.means - centre, axis=1) * np.sqrt(blocks.weights)
    limit = far_limit(distances, float(np.linalg.norm(centre)), float(np.median(blocks.weights)))
    astray = float(np.median(distances)) > _FAR * _closest(blocks)
    return RobustCentre(centre, np.flatnonzero(distances > limit), groups, len(blocks), astray)


def far_limit(distances: Floats, length: float, weight: float) -> float:
    """Return the distance beyond which a block is wild, given those of all blocks, in units of a single row.

    `length` is that of a mean, `weight` that of a block: they say what rounding does.
    """
    middle = float(np.median(distances))
    deviation = 1.4826 * float(np.median(np.abs(distances - middle)))
    # Where most blocks are the same, what little the others differ is not wild.
    limit = middle + _WILD * max(deviation, 0.05 * middle)
    # Where nearly half of them are wild, so are the median and the deviation. (A quarter of the blocks may be
    # the same to the last digit, if rows have few values.)
    near = float(np.quantile(distances, 0.25))
    return min(limit, _FAR * near) if near > ROUNDING * length * math.sqrt(weight) else limit


def _closest(blocks: Blocks) -> float:
    """Return how far apart blocks are where they are closest: an eighth of them, and the mean of such.

    Blocks with the same mean, as those of few different rows, do not count.
    """
    neighbours = max(len(blocks) // 8, 1)
    distances = np.sort(_distances(blocks.means), axis=1)[:, neighbours]
    distances = np.where(distances > ROUNDING * np.linalg.norm(blocks.means, axis=1), distances, np.inf)
    at = int(np.argmin(distances))
    return float(distances[at]) * math.sqrt(blocks.weights[at] / 2)


@dataclass(frozen=True, eq=False)
class RobustMMD:
    """The MMD as most groups of blocks see it."""

    value: float
    groups: int
    group_values: Floats  # of the last step, in order

    @property
    def disagreement(self) -> float:
        """Return how far apart the middle half of the groups is, relative to the value."""
        lower, upper = np.quantile(self.group_values, [0.25, 0.75])
        return float((upper - lower) / self.value) if self.value > 0 else math.inf


def monk_mmd(first: Blocks, second: Blocks, groups: int, *, seed: int = 0) -> RobustMMD:
    """Return sup_f med_q ⟨f, μ_q − ν_q⟩ over groups q of blocks, approximately.

    Each step deals the blocks to groups anew and takes for f the direction that most of their differences
    agree on, their geometric median. The paper takes the difference of the one group with the median value:
    it has the noise of that group alone, which made the value 16 % too small where this one was right to 1 %.
    The result is the median over the steps: a single one has the chance of its groups in it.
    """
    rng = np.random.default_rng(seed)
    values, found = np.zeros(groups), []
    for _ in range(_STEPS):
        differences = (
            first.group(_deal(len(first), groups, rng)).means
            - second.group(_deal(len(second), groups, rng)).means
        )
        f = geometric_median(differences)
        length = float(np.linalg.norm(f))
        values = np.sort(differences @ f) / length if length > 0 else values
        found.append(float(np.median(values)))
    return RobustMMD(max(float(np.median(found)), 0.0), groups, values)
