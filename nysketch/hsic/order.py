"""Do rows depend on their neighbours, and in which groups? What decides how groups may be permuted.

Rows of one group may come in any order as long as those of the others are exchangeable: a file sorted by one
group is fine. If rows of two groups resemble their neighbours, a permutation of rows destroys what both have
by chance, and would find a dependence of any two slow series. Groups must keep their order then, and are
shifted against each other; and series must be long beside the time for which they remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nysketch._types import Floats, Indices, Rows
from nysketch.accumulators.sample_order import SampleOrder
from nysketch.basis.nystrom import NystromBasis

# Kernel values of so many landmarks show what order does to a group.
_LANDMARKS = 32
# Lags at which rows are compared, in the order of the sample; of neighbours also by how far they are apart.
_LAGS = (1, 2, 3, 4, 8, 16, 32)
_NEARBY = (1, 4, 16, 64, 256)
_FEWEST_PAIRS = 10
# In standard errors, a dozen for each group: of 30 groups of independent rows, one is called serial, of 900
# pairs one in both; and shifts are as good a test of independent rows. Of many rows, less than four does no
# harm.
_SIGNIFICANT, _OF_MANY, _MANY = 3.0, 4.0, 500
# Rows that are neighbours in a sorted file have almost the same value of the column it is sorted by.
_WINDOW = 16
# Pairs of rows within 16 rows of each other that are enough to see whether rows depend on their neighbours.
ENOUGH_NEIGHBOURS = 200
_NEIGHBOURS_WITHIN = 16
# Of so many rows, shifted means can be told from unshifted ones if rows depend on their neighbours.
_FEWEST_IN_ORDER = 200
# Means of n/16 rows vary so many times more than those of n/64 do, relative to independent rows, if rows
# remember for longer than a series can be shifted: 4 for a random walk, 1 for independent rows.
_LONG, _SHORT, _UNSETTLED = 16, 64, 2.0


@dataclass(frozen=True)
class GroupOrder:
    """What the order of rows is to a group.

    `serial`: rows resemble, or avoid, their neighbours. `sorted`: a column never falls, or never rises, from
    row to row of an input. `local`: they resemble their neighbours even among the 16 rows around them.
    `settled`: they are forgotten in a time that is short beside the series.
    """

    name: str
    serial: bool
    sorted: bool
    local: bool
    settled: bool

    @classmethod
    def of(cls, name: str, part: NystromBasis, rows: Rows, where: SampleOrder) -> GroupOrder:
        """Look at the rows of a group, scaled, in the order `where`."""
        values = rows[where.order]
        step = max(part.m // _LANDMARKS, 1)
        features = part.kernel(values, part.scaled_landmarks[::step][:_LANDMARKS])
        serial = _resembling(features, where.starts, where.gaps)
        if not serial:
            return cls(name, False, False, False, True)
        inside = where.gaps > 0
        inside[where.starts] = False
        windows = np.union1d(where.starts, np.arange(0, len(values), _WINDOW))
        return cls(
            name,
            serial,
            _monotone(values, inside),
            _resembling(features, windows, where.gaps),
            _is_settled(features),
        )


@dataclass(frozen=True)
class Order:
    """What the order of rows is to some groups: which of them are serial, and what follows from it."""

    groups: tuple[GroupOrder, ...]
    rows: int

    @property
    def serial(self) -> list[str]:
        """The names of groups whose rows resemble their neighbours."""
        return [group.name for group in self.groups if group.serial]

    @property
    def sorted_by(self) -> str | None:
        """The group that explains it all: the file is sorted by it, and others follow it but for noise."""
        for group in self.groups:
            others = [other for other in self.groups if other is not group and other.serial]
            if group.sorted and not any(other.local for other in others):
                return group.name
        return None

    @property
    def exchangeable(self) -> bool:
        """Whether rows may be permuted."""
        return len(self.serial) < 2 or self.sorted_by is not None

    @property
    def shiftable(self) -> bool:
        """Whether groups may be shifted against each other: all but one must be settled, in enough rows."""
        unsettled = sum(not group.settled for group in self.groups)
        return self.rows >= _FEWEST_IN_ORDER and unsettled < 2


def neighbours(where: SampleOrder) -> int:
    """Return how many sampled rows have another one shortly before them."""
    return int(((where.gaps > 0) & (where.gaps <= _NEIGHBOURS_WITHIN)).sum())


def group_orders(
    names: Sequence[str], parts: Sequence[NystromBasis], rows: Sequence[Rows], where: SampleOrder
) -> list[GroupOrder]:
    """Look at each group."""
    return [
        GroupOrder.of(name, part, values, where)
        for name, part, values in zip(names, parts, rows, strict=True)
    ]


def _resembling(features: Floats, starts: Indices, gaps: Indices) -> bool:
    """Tell whether neighbours resemble or avoid each other, beside rows of the same stretch.

    Of exchangeable rows, products of their deviations from the mean of n of them are −s²/n on average, and
    those of different pairs are uncorrelated.
    """
    n = len(features)
    lengths = np.diff(np.append(starts, n))
    stretch = np.repeat(np.arange(len(starts)), lengths)
    means = np.add.reduceat(features, starts, axis=0) / lengths[:, None]
    deviations = features - means[stretch]
    squares = np.add.reduceat((deviations**2).sum(axis=1), starts)
    expected = -(squares / np.maximum(lengths - 1, 1) / lengths)[stretch]
    usual = _mean_square_of_products(deviations)
    for lag in _LAGS:
        if n <= lag:
            break
        same = stretch[lag:] == stretch[:-lag]
        products = np.einsum("ij,ij->i", deviations[lag:], deviations[:-lag]) - expected[lag:]
        if lag > 1:
            if _significant(products[same], usual):
                return True
            continue
        nearby = [gaps[1:] <= most for most in _NEARBY]
        if any(_significant(products[same & (gaps[1:] > 0) & near], usual) for near in (*nearby, True)):
            return True
    return False


def _mean_square_of_products(deviations: Floats) -> float:
    """Return the mean of the squares of scalar products, over all pairs of different rows."""
    n = len(deviations)
    everything = float(((deviations.T @ deviations) ** 2).sum())
    own = float(((deviations**2).sum(axis=1) ** 2).sum())
    return max(everything - own, 0.0) / max(n * (n - 1), 1)


def _significant(products: Floats, usual: float) -> bool:
    if len(products) < _FEWEST_PAIRS:
        return False
    # Neighbours that hardly vary, as a flag that is set in three rows, say little of how products vary.
    error = float(np.sqrt(max((products**2).sum(), len(products) * usual)))
    limit = _SIGNIFICANT if len(products) < _MANY else _OF_MANY
    return error > 0 and abs(float(products.sum())) > limit * error


def _monotone(values: Rows, inside: NDArray[np.bool_]) -> bool:
    """Tell whether a column never falls, or never rises, between rows of one input."""
    steps = np.diff(values, axis=0)[inside[1:]]
    if not len(steps):
        return False
    moves = (steps != 0).any(axis=0)
    return bool((moves & ((steps >= 0).all(axis=0) | (steps <= 0).all(axis=0))).any())


def _is_settled(features: Floats) -> bool:
    """Tell whether means of many rows vary as those of independent rows do, but for a constant factor."""
    n = len(features)
    if n < _SHORT:
        return False
    long, short = (_variance_of_means(features, n // parts) for parts in (_LONG, _SHORT))
    return long <= _UNSETTLED * short


def _variance_of_means(features: Floats, length: int) -> float:
    """Return the variance of means of so many consecutive rows, times their number."""
    count = len(features) // length
    means = features[: count * length].reshape(count, length, -1).mean(axis=1)
    return length * float(means.var(axis=0, ddof=1).sum())
