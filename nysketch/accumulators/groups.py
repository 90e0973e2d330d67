"""Kernel sums of groups of columns beside those of all columns: what tells whether groups are independent.

A part is one group, or a pair of them. At every landmark, the sum over all rows of the kernel of a part is
kept: sums of the same rows at the same landmark rows, of which only the columns of the part are seen. They
add and subtract like all other sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from nysketch._support.exact import ExactSum
from nysketch._types import Arrays, Floats, Rows
from nysketch.accumulators.grids import grid_exponent
from nysketch.accumulators.limits import Limits
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize, Statistic
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import NystromBasis
from nysketch.errors import UsageError

if TYPE_CHECKING:
    from nysketch.accumulators.tally import Tally
    from nysketch.tiles.evaluators import Evaluator
    from nysketch.tiles.summer import EvaluatedChunk, Evaluation

Subset = tuple[int, ...]  # of the groups, by their numbers


def subsets_of(groups: int, *, pairs: bool) -> tuple[Subset, ...]:
    """Return each group, and each pair of more than two: of two, the pair is what the sketch sums anyway."""
    singles: list[Subset] = [(i,) for i in range(groups)]
    return (*singles, *(combinations(range(groups), 2) if pairs and groups > 2 else ()))


def grouped(basis: Basis) -> NystromBasis | None:
    """Return the basis if it has groups to tell apart."""
    return basis if isinstance(basis, NystromBasis) and len(basis.groups) > 1 else None


def _require_grouped(basis: Basis) -> NystromBasis:
    found = grouped(basis)
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class GroupSums(Statistic):
    """Kernel sums of parts at the landmarks, parts × m."""

    parts: tuple[Subset, ...]
    sums: ExactSum

    noun = "sums of groups of columns"
    absent_description: ClassVar = {"groups": None}
    absent_summary: ClassVar = {"groups": None}
    absent_settings: ClassVar = {"pairs": False}

    @classmethod
    def zeros(cls, basis: Basis, options: PassOptions) -> Self | None:
        """Return the sums over no rows; None if nothing is to be permuted, or there are no groups."""
        product = grouped(basis)
        if product is None and options.pairs:
            raise UsageError(
                '`pairs` needs groups of columns: name them with `groups={"x": ["a", "b"], "y": ["c"]}`'
            )
        if product is None or not options.shuffles:
            return None
        parts = subsets_of(len(product.groups), pairs=options.pairs)
        return cls(parts, ExactSum.zeros((len(parts), basis.m)))

    @property
    def pairs(self) -> bool:
        """Whether there are sums of pairs."""
        return len(self.parts[-1]) > 1

    def only(self, parts: tuple[Subset, ...]) -> Self:
        """Return the sums of some of the parts."""
        if parts == self.parts:
            return self
        chosen = [self.parts.index(part) for part in parts]
        return type(self)(parts, ExactSum(self.sums.high[chosen], self.sums.low[chosen]))

    def __add__(self, other: Self) -> Self:
        parts = min(self.parts, other.parts, key=len)  # those of some of the rows would be of no use
        return type(self)(parts, self.only(parts).sums + other.only(parts).sums)

    def __neg__(self) -> Self:
        return type(self)(self.parts, -self.sums)

    def __sub__(self, other: Self) -> Self:
        return self + -other

    # ---- files

    def describe(self) -> dict[str, Any]:
        """Return everything but the arrays."""
        return {"groups": {"pairs": self.pairs}}

    def arrays(self) -> Arrays:
        """Return what the sketch file stores."""
        return self.sums.arrays("groups.sums")

    @classmethod
    def from_parts(
        cls, description: dict[str, Any], arrays: Arrays, basis: Basis, *, weighted: bool
    ) -> Self | None:
        """Rebuild from what `describe` and `arrays` returned; files of format versions 1 to 4 have none."""
        about, product = description.get("groups"), grouped(basis)
        if about is None:
            return None
        if product is None:
            raise ValueError("its basis has no groups")
        pairs = about["pairs"]
        if not isinstance(pairs, bool):
            raise ValueError("it does not say whether it has sums of pairs of groups")
        parts = subsets_of(len(product.groups), pairs=pairs)
        sums = ExactSum.from_arrays("groups.sums", arrays)
        if sums.high.shape != (len(parts), basis.m) or not np.isfinite(sums.high).all():
            raise ValueError("the sums of its groups do not match the groups and landmarks")
        return cls(parts, sums)

    def check(self, basis: Basis, tally: Tally) -> None:
        """Raise ValueError unless these can be the sums of groups of these rows."""
        self.sums.check("groups.sums")
        product, weight = _require_grouped(basis), np.asarray(tally.total_weight)
        weighted = tally.blocks.weights is not None
        for part, sums in zip(self.parts, self.sums.high, strict=True):
            limits = Limits.of(product.of_groups(part), tally.ranges.only(product.numbers_of(part)))
            limits.require("the sums of its groups", sums, weight, weighted=weighted)

    # ---- people

    def summary(self, basis: Basis) -> dict[str, Any]:
        """Return which groups can be told apart, and how."""
        return {"groups": {"names": [group.name for group in basis.groups], "pairs": self.pairs}}

    @classmethod
    def info_line(cls, facts: dict[str, Any]) -> tuple[str, str] | None:
        """Say which groups can be told apart, and how."""
        groups = facts["groups"]
        if groups is None:
            return None
        names, pairs = ", ".join(groups["names"]), ", also by pairs" if groups["pairs"] else ""
        return "groups", f"{names}; test them with `nysketch.independence`{pairs}"

    def settings(self) -> dict[str, Any]:
        """Return whether pairs are kept, as an option."""
        return {"pairs": self.pairs}

    # ---- the pass

    @classmethod
    def memory(cls, size: PassSize, options: PassOptions) -> Memory:
        """Return the memory of the sums, and of the buffers that each part has."""
        if size.groups < 2 or not options.shuffles:
            return Memory()
        parts = len(subsets_of(size.groups, pairs=options.pairs))
        sums = 8 * parts * size.m
        # Together the columns of the parts are those of the table, or twice in pairs.
        buffers = parts * (2 * size.chunk_rows * (4 * size.d + 32) + size.tile_bytes)
        return Memory(fixed=7 * sums, per_thread=buffers + 2 * sums, stored=int(1.5 * sums))

    def collectors(self, basis: Basis, options: PassOptions) -> Callable[[int], _Collector]:
        """Return what evaluates each part of the columns like a basis of its own."""
        product = _require_grouped(basis)
        return lambda chunk_rows: _Collector(product, self.parts, options.precision, chunk_rows)

    def running(self, basis: Basis, options: PassOptions) -> _Running:
        """Return a running total that starts from this."""
        return _Running(self, _require_grouped(basis), options)


class _Collector:
    def __init__(self, basis: NystromBasis, parts: Sequence[Subset], precision: str, chunk_rows: int) -> None:
        from nysketch.tiles.evaluators import evaluators_of
        from nysketch.tiles.points import PointMaker

        self._m = basis.m
        self._numbers = [basis.numbers_of(part) for part in parts]
        of_parts = [basis.of_groups(part) for part in parts]
        self._points = [PointMaker(part) for part in of_parts]
        self._evaluators: list[list[Evaluator]] = [evaluators_of(part, precision) for part in of_parts]
        self._buffers = [[e.workspace(chunk_rows) for e in of_part] for of_part in self._evaluators]

    def begin(self, evaluation: Evaluation, limit: int | None) -> None:
        # For each part an array for each of its evaluators.
        self._sums = [[np.zeros((1, self._m)) for _ in of_part] for of_part in self._evaluators]

    def add(self, chunk: EvaluatedChunk) -> None:
        all_in_one = np.zeros(len(chunk.order), np.int64)
        for numbers, points, evaluators, sums, buffers in zip(
            self._numbers, self._points, self._evaluators, self._sums, self._buffers, strict=True
        ):
            columns = points(_columns(chunk.chunk.rows, numbers))
            for evaluator, values, buffer in zip(evaluators, sums, buffers, strict=True):
                evaluator.add(columns, chunk.order, all_in_one, chunk.weights, values, buffer)

    def finish(self) -> Floats:
        from nysketch.tiles.evaluators import in_order

        pairs = zip(self._evaluators, self._sums, strict=True)
        return np.concatenate([in_order(evaluators, sums) for evaluators, sums in pairs])


def _columns(rows: Rows, numbers: list[int]) -> Rows:
    """Return some columns, without copying those that follow each other."""
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return rows[:, first : last + 1]
    return np.asfortranarray(rows[:, numbers])


class _Running:
    limit = None

    def __init__(self, start: GroupSums, basis: NystromBasis, options: PassOptions) -> None:
        from nysketch.tiles.sums import RunningSum, grid_of

        exponent = grid_exponent(options.precision, weighted=options.weighted)
        self._parts = start.parts
        # Each part has kernel values of other magnitudes, and a grid of its own.
        self._sums = [
            RunningSum(
                ExactSum(start.sums.high[i : i + 1], start.sums.low[i : i + 1]),
                grid_of(exponent, basis.m, basis.of_groups(part).magnitudes()),
            )
            for i, part in enumerate(start.parts)
        ]

    def holds(self, part: Floats) -> bool:
        return all(total.holds(own) for total, own in zip(self._sums, part, strict=True))

    def add(self, part: Floats) -> None:
        for i, total in enumerate(self._sums):
            total.add(part[i : i + 1])

    def snapshot(self) -> GroupSums:
        sums = [total.snapshot() for total in self._sums]
        high, low = np.concatenate([s.high for s in sums]), np.concatenate([s.low for s in sums])
        return GroupSums(self._parts, ExactSum(high, low))
