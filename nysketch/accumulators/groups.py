"""Kernel sums of groups of columns beside those of all columns: what tells whether groups are independent.

A part is one group, or a pair of them. At every landmark, the sum over all rows of the kernel of a part is
kept: sums of the same rows at the same landmark rows, of which only the columns of the part are seen. They
add and subtract like all other sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from nysketch._types import Arrays
from nysketch.accumulators.exact import ExactSum
from nysketch.basis.nystrom import NystromBasis

Subset = tuple[int, ...]  # of the groups, by their numbers

DEFAULT_SHUFFLES, MOST_SHUFFLES = 500, 10**6
# So many rows tell what chance does far better than anybody needs; and of so few, all are there.
DEFAULT_SHUFFLED_ROWS = 50_000
_DEFAULT_BYTES = 8 << 20


def default_shuffled_rows(d: int) -> int:
    """Return how many rows of d features to keep for shuffling: fewer if they are wide."""
    return min(DEFAULT_SHUFFLED_ROWS, _DEFAULT_BYTES // (4 * d + 8))


def subsets_of(groups: int, *, pairs: bool) -> tuple[Subset, ...]:
    """Return each group, and each pair of more than two: of two, the pair is what the sketch sums anyway."""
    singles: list[Subset] = [(i,) for i in range(groups)]
    return (*singles, *(combinations(range(groups), 2) if pairs and groups > 2 else ()))


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Kernel sums of parts at the landmarks, parts × m."""

    parts: tuple[Subset, ...]
    sums: ExactSum

    @classmethod
    def zeros(cls, basis: NystromBasis, *, pairs: bool) -> GroupSums:
        """Return the sums over no rows."""
        parts = subsets_of(len(basis.groups), pairs=pairs)
        return cls(parts, ExactSum.zeros((len(parts), basis.m)))

    @property
    def pairs(self) -> bool:
        """Whether there are sums of pairs."""
        return len(self.parts[-1]) > 1

    def only(self, parts: tuple[Subset, ...]) -> GroupSums:
        """Return the sums of some of the parts."""
        if parts == self.parts:
            return self
        chosen = [self.parts.index(part) for part in parts]
        return GroupSums(parts, ExactSum(self.sums.high[chosen], self.sums.low[chosen]))

    def __add__(self, other: GroupSums) -> GroupSums:
        parts = min(self.parts, other.parts, key=len)  # those of some of the rows would be of no use
        return GroupSums(parts, self.only(parts).sums + other.only(parts).sums)

    def __neg__(self) -> GroupSums:
        return GroupSums(self.parts, -self.sums)

    def __sub__(self, other: GroupSums) -> GroupSums:
        return self + -other

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"pairs": self.pairs}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return self.sums.arrays("groups.sums")

    @classmethod
    def from_parts(cls, description: dict[str, Any], arrays: Arrays, basis: NystromBasis) -> GroupSums:
        """Rebuild from what `describe` and `arrays` returned; raise ValueError where they do not fit."""
        pairs = description["pairs"]
        if not isinstance(pairs, bool):
            raise ValueError("it does not say whether it has sums of pairs of groups")
        parts = subsets_of(len(basis.groups), pairs=pairs)
        sums = ExactSum.from_arrays("groups.sums", arrays)
        if sums.high.shape != (len(parts), basis.m) or not np.isfinite(sums.high).all():
            raise ValueError("the sums of groups do not fit the groups and landmarks")
        return cls(parts, sums)


def grouped(basis: Any) -> NystromBasis | None:
    """Return the basis if it has groups to tell apart."""
    return basis if isinstance(basis, NystromBasis) and len(basis.groups) > 1 else None
