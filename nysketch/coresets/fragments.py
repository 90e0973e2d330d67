"""Fragments → a few weighted rows each, with the means of all of their rows: merge and reduce.

A block of rows is cut into groups, whose sums of test functions are recombined as if they were points; the
groups that are left are cut into smaller ones, and so on, until the groups are rows. So most rows are
evaluated once, and only sums are multiplied with the matrix of the test functions. What is left of a block is
merged with what is left of others, and reduced again when that has become too much: always in the order of
the rows, so that neither threads nor batches show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nysketch._types import Floats, Rows
from nysketch.accumulators.sample import ChunkSampler, GatheredSample, RowSample, default_sample_rows
from nysketch.basis.nystrom import NystromBasis
from nysketch.coresets.recombination import recombine
from nysketch.coresets.testfunctions import TestFunctions
from nysketch.engines.protocol import Check
from nysketch.passes.task import FragmentTask, KeptColumns, per_process, per_thread
from nysketch.sources.protocol import Fragment, Source
from nysketch.tiles.chunk import Chunk

if TYPE_CHECKING:
    from nysketch.tiles.float64 import RowValues

# Groups for each function at every level; of so many, one is left. For many functions fewer, for the memory.
_GROUPS, _MANY_FUNCTIONS = 8, 256
# So many levels of groups within a block: it has rows enough for the work on groups to be little beside them.
_ROWS_PER_GROUP = 64
_BLOCK_BYTES = 32 << 20
# What is left of blocks is recombined once there is so many times as much as may be left.
HELD = 4
# Rows whose norms are computed at a time.
_STEP = 4096


def groups_for(functions: int) -> int:
    """Return how many groups of rows are recombined at a time."""
    return (_GROUPS if functions <= _MANY_FUNCTIONS else _GROUPS // 2) * functions


def block_rows_of(functions: int, d: int) -> int:
    """Return how many rows are recombined at a time."""
    rows = _ROWS_PER_GROUP * groups_for(functions)
    return int(max(min(rows, _BLOCK_BYTES // (8 * max(d, 1))), 2 * functions, 512))


@dataclass(frozen=True, eq=False)
class Reduction:
    """Weighted rows that represent some fragments, and sums over all rows of these.

    `functions` are the values of the functions that are carried, `kept` the columns that pass through.
    """

    numbers: NDArray[np.int64]
    points: Rows
    weights: Floats
    functions: Floats
    kernel_sums: Floats
    norm_sum: float  # of w k(x, x)
    rows: int
    dropped: int
    sample: RowSample
    kept: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        kept = 0 if self.kept is None else self.kept.nbytes
        return int(self.points.nbytes + self.functions.nbytes + self.kernel_sums.nbytes + kept)

    def only(self, which: NDArray[np.int64], weights: Floats) -> Reduction:
        """Return some of the points, with new weights."""
        return replace(
            self,
            numbers=self.numbers[which],
            points=self.points[which],
            weights=weights,
            functions=self.functions[which],
            kept=None if self.kept is None else self.kept.take(which),
        )

    @classmethod
    def union(cls, parts: Sequence[Reduction]) -> Reduction:
        """Return the points of all parts: together they represent all rows of these."""
        kept = [part.kept for part in parts if part.kept is not None]
        return cls(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.points for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.functions for part in parts]),
            np.sum([part.kernel_sums for part in parts], axis=0),
            sum(part.norm_sum for part in parts),
            sum(part.rows for part in parts),
            sum(part.dropped for part in parts),
            RowSample.union([part.sample for part in parts]),
            pa.concat_tables(kept) if kept else None,
        )


def filled(rows: Rows, basis: NystromBasis) -> Rows:
    """Return rows with the numbers that missing values have in columns without kinds."""
    if basis.text or not np.isnan(rows).any():
        return rows
    return np.where(np.isnan(rows), basis.fill, rows)


def merge_reductions(parts: Sequence[Reduction]) -> Reduction:
    """Merge parts, whose order is that of their rows, and reduce them again if they have many points."""
    together = Reduction.union(parts)
    if len(together) > HELD * (together.functions.shape[1] + 1):
        together = together.only(*recombine(together.functions, together.weights))
    return together


class FragmentRecombiner(FragmentTask[Iterator[Reduction]]):
    """Reduces one fragment to a few weighted rows."""

    def __init__(self, source: Source, basis: NystromBasis, functions: TestFunctions, nulls: str) -> None:
        super().__init__(source, nulls=nulls, fill=basis.fill)
        self._basis, self._functions = basis, functions
        self._block_rows = block_rows_of(len(functions) + 1, basis.row_width)
        # One half to choose by, the other to judge by: see discrepancy.py.
        self._capacity = 2 * default_sample_rows(basis.row_width, text=basis.text)
        # Keys beyond it are not in the sample of all rows. It only ever falls, so a stale one does no harm.
        self.sample_bound = self._no_sample().bound

    @per_process
    def _values(self) -> RowValues:
        from nysketch.tiles.float64 import RowValues  # compiles or loads machine code: not for --help

        return RowValues(self._basis)

    @per_thread
    def _sampler(self) -> ChunkSampler:
        return ChunkSampler(self._basis, self._capacity, self.reader.chunk_rows)

    def _no_block(self) -> _Block:
        none = np.empty(0, object) if self._basis.text else np.empty((0, self._basis.width))
        return _Block(self._block_rows, none)

    def _no_sample(self) -> RowSample:
        weighted = self.source.weights is not None
        return RowSample.empty(self._capacity, self._basis.d, text=self._basis.text, weighted=weighted)

    def __call__(self, fragment: Fragment, check: Check) -> Iterator[Reduction]:
        """Yield the reduction of a fragment."""
        sample = GatheredSample(self._no_sample())
        parts: list[Reduction] = []
        block = self._no_block()
        dropped = 0
        for chunk in self.chunks(fragment, check):
            sample.add(self._sample(fragment, chunk, sample.bound))
            block.add(chunk)
            dropped += chunk.dropped
            if block.full:
                parts.append(self._reduce(block))
                parts = [merge_reductions(parts)]
        if len(block) or not parts:
            parts.append(self._reduce(block))
        reduction, kept = merge_reductions(parts), None
        if len(self.source.kept):
            kept = KeptColumns(self.source, fragment).take(reduction.numbers)
        yield replace(reduction, dropped=dropped, sample=sample.united(), kept=kept)

    def _sample(self, fragment: Fragment, chunk: Chunk, bound: int) -> RowSample:
        return self._sampler(chunk, fragment.input_key, min(bound, self.sample_bound))

    def _reduce(self, block: _Block) -> Reduction:
        """Return what is left of the rows of a block."""
        given, weights, numbers = block.take_all()
        rows = filled(given, self._basis)
        norms = self._norms(rows, weights)
        most = groups_for(len(self._functions) + 1)
        kernel_sums: Floats | None = None
        left, some_rows = np.arange(len(rows)), rows
        while len(left) > most:
            group_of = np.arange(len(left)) // -(-len(left) // most)
            sums = self._values.group_sums(some_rows, weights, group_of)
            kernel_sums = sums.sum(axis=0) if kernel_sums is None else kernel_sums
            totals = np.bincount(group_of, weights).astype(np.float64)
            some = np.flatnonzero(totals > 0)
            functions = self._functions.of(sums)[some] / totals[some, None]
            del sums  # the largest that a thread holds
            chosen, changed = recombine(functions, totals[some])
            factors = np.zeros(len(totals))
            factors[some[chosen]] = changed / totals[some[chosen]]
            weights = weights * factors[group_of]
            left, weights = left[weights > 0], weights[weights > 0]
            some_rows = rows[left]
        values = self._values.of(some_rows)
        kernel_sums = weights @ values if kernel_sums is None else kernel_sums
        positive = np.flatnonzero(weights > 0)
        reduction = Reduction(
            numbers[left],
            given[left],
            weights,
            self._functions.of(values),
            kernel_sums,
            norms,
            len(rows),
            0,
            self._no_sample(),
        )
        return merge_reductions([reduction.only(positive, weights[positive])])

    def _norms(self, rows: Rows, weights: Floats) -> float:
        """Return the sum of k(x, x) times the weights."""
        total = 0.0
        for start in range(0, len(rows), _STEP):
            part = slice(start, start + _STEP)
            total += float(weights[part] @ self._basis.kernel.diagonal(self._basis.transform(rows[part])))
        return total


class _Block:
    """Valid rows that wait to be recombined together."""

    def __init__(self, most: int, none: Rows) -> None:
        self._most, self._count, self._none = most, 0, none
        self._parts: list[tuple[Rows, Floats, NDArray[np.int64]]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= self._most

    def add(self, chunk: Chunk) -> None:
        """Add the valid rows of a chunk, whose buffer will be used again."""
        keep = np.flatnonzero(chunk.keep)
        weights = np.ones(len(keep)) if chunk.weights is None else chunk.weights[keep]
        rows = np.ascontiguousarray(chunk.rows[keep])
        if chunk.missing is not None:
            rows[chunk.missing[keep]] = np.nan  # they are to come out as they went in
        self._parts.append((rows, weights, chunk.first_row + keep))
        self._count += len(keep)

    def take_all(self) -> tuple[Rows, Floats, NDArray[np.int64]]:
        """Return all rows, their weights and numbers, and hold them no longer."""
        rows = np.empty((self._count, *self._none.shape[1:]), self._none.dtype)
        weights, numbers = np.empty(self._count), np.empty(self._count, np.int64)
        start = 0
        for some, some_weights, some_numbers in self._parts:
            part = slice(start, start + len(some))
            rows[part], weights[part], numbers[part] = some, some_weights, some_numbers
            start = part.stop
        self._parts, self._count = [], 0
        return rows, weights, numbers
