"""What a pass would take, before it reads a row: memory, threads that fit into it, size of the sketch."""

from __future__ import annotations

from dataclasses import dataclass

from nysketch.accumulators.cells import default_far_rows
from nysketch.accumulators.groups import grouped, subsets_of
from nysketch.accumulators.sample import DEFAULT_ROWS, default_sample_rows
from nysketch.accumulators.second_moments import triangle_size
from nysketch.basis.base import Basis
from nysketch.basis.options import BasisOptions
from nysketch.basis.quality import MEASURED_UP_TO
from nysketch.columns import Column
from nysketch.engines.threads import available_threads, log_fewer_threads
from nysketch.errors import UsageError
from nysketch.passes.chunks import (
    batch_rows_for,
    chunk_rows_for,
)
from nysketch.passes.options import PassOptions
from nysketch.passes.pilot import pilot_rows_for, rows_to_draw_from
from nysketch.passes.shards import Shard, fragments_of, rows_of
from nysketch.sources.protocol import Source, row_width

DEFAULT_MEMORY = 512 * 10**6

# As measured: 230 MiB for Python and libraries with compiled code loaded, 40 more in a process that has to
# compile it, and something to spare.
_BASE_BYTES = 300 << 20
# A tile is smaller at any reasonable m, and larger only for thousands of landmarks.
_TILE_ROWS = 64
# Of values in float64, for second moments: some tiles, and what becomes of them; never fewer than 64 rows.
_VALUE_BYTES, _FEWEST_ROWS = 16 << 20, 64


@dataclass(frozen=True)
class Plan:
    """What a pass would do; `threads` is as many as fit the memory, unless they were given.

    `spare_bytes` is the room there is for more.
    """

    columns: tuple[Column, ...]
    rows: int | None
    fragments: int
    threads: int
    memory_bytes: int
    spare_bytes: int
    sketch_bytes: int

    def can_judge(self, m: int) -> bool:
        """Tell whether there is also room to measure the quality of a sketch at m landmarks."""
        return m <= MEASURED_UP_TO and Size(m).judging_bytes() <= self.spare_bytes


@dataclass(frozen=True)
class Size:
    """How large a basis is, or will be: functions, and the pilot it is made from, if it is made."""

    m: int
    pilot_rows: int = 0
    sampling: str = ""

    @classmethod
    def of(cls, wanted: BasisOptions, d: int) -> Size:
        """Return the size of a basis to be made."""
        return cls(wanted.most, pilot_rows_for(wanted, d), wanted.sampling)

    def fitting_bytes(self, source: Source) -> int:
        """Return the memory it takes to make the basis."""
        if not self.pilot_rows:
            return 0
        rows = min(self.pilot_rows, rows_to_draw_from(source))
        # The rows of the pilot, scaled, and on their way to landmarks.
        pilot = 3 * 8 * rows * row_width(source)
        return pilot + max(self._choosing_bytes(rows), self.judging_bytes())

    def _choosing_bytes(self, rows: int) -> int:
        if self.sampling in ("greedy", "rpcholesky"):  # a factor of the kernel matrix
            return 8 * rows * min(self.m, rows)
        if self.sampling == "leverage":  # matrices of a dictionary half as large again as the landmarks
            return 8 * 5 * self.m**2
        return 0

    def judging_bytes(self) -> int:
        """Return the memory it takes to measure the quality: eigenvectors, and features of some rows."""
        return int(8 * (3 * self.m**2 + 1.5 * DEFAULT_ROWS * self.m)) if self.m <= MEASURED_UP_TO else 0


def plan_pass(
    source: Source,
    basis: Basis | BasisOptions,
    options: PassOptions,
    *,
    threads: int | None = None,
    batch_rows: int | None = None,
    memory: int = DEFAULT_MEMORY,
    shard: Shard | None = None,
) -> Plan:
    """Plan a pass at a basis, or one that makes its basis first; raise UsageError if it does not fit."""
    d = row_width(source)
    size = Size(basis.m) if isinstance(basis, Basis) else Size.of(basis, d)
    groups = count_groups(basis)
    text = any(column.text for column in source.columns)
    return plan(
        source,
        size,
        blocks=options.blocks,
        sample_rows=options.sampled(d, text=text, groups=groups),
        cells=options.cells and basis.features == "nystrom",
        far_rows=options.far_rows,
        runs=options.runs,
        parts=len(subsets_of(groups, pairs=options.pairs)) if groups > 1 and options.shuffles else 0,
        second_moments=options.second_moments,
        threads=threads,
        batch_rows=batch_rows,
        memory=memory,
        only=shard,
    )


def count_groups(basis: Basis | BasisOptions) -> int:
    """Return how many groups of columns the kernel is a product over; 0 if it is none."""
    if isinstance(basis, BasisOptions):
        return len(basis.groups or ())
    product = grouped(basis)
    return 0 if product is None else len(product.groups)


def plan(
    source: Source,
    size: Size,
    *,
    blocks: int,
    sample_rows: int | None = None,
    cells: bool = True,
    far_rows: int | None = None,
    runs: int = 0,
    parts: int = 0,
    second_moments: bool = False,
    threads: int | None = None,
    batch_rows: int | None = None,
    memory: int = DEFAULT_MEMORY,
    only: Shard | None = None,
) -> Plan:
    """Plan a pass within `memory` bytes; raise UsageError if it does not fit.

    `parts` are the groups of columns, and pairs of them, that are summed apart; `only` is the part of the
    source that is read.
    """
    d, m = row_width(source), size.m
    sums, landmarks = 8 * blocks * m, 8 * m * d
    text = any(column.text for column in source.columns)
    # Keys and orders besides the rows.
    sampled = default_sample_rows(d, text=text) if sample_rows is None else sample_rows
    sample = (4 * d + 24) * (sampled if source.rows is None else min(sampled, source.rows))
    # Sums and squares, each of the size of the landmarks.
    celled = 2 * landmarks if cells and not text else 0
    far = (8 * d + 32) * (default_far_rows(d) if far_rows is None else far_rows) if celled else 0
    span_sums, part_sums = 8 * runs * m, 8 * parts * m
    chunk = chunk_rows_for(d) * (d * (8 + 4) + 32 + (48 if celled else 0))
    batch = (batch_rows or batch_rows_for(d)) * d * 8 * 2
    # Of cells: high and low parts, these in a snapshot, landmarks by column; fragments of a thread under way.
    # Of runs the same, and coarser ones on their way; those of a fragment, one by one and together.
    fixed = _BASE_BYTES + 8 * sums + 4 * landmarks + 5 * celled + 4 * (sample + far) + 6 * span_sums
    per_thread = source.reader_bytes + batch + chunk + 4 * m * _TILE_ROWS + 4 * sums
    per_thread += 3 * (celled + sample + far) + 2 * span_sums + (sums if runs else 0)
    # Of each part, buffers of its own; together its columns are those of the table, or twice in pairs.
    per_thread += parts * (2 * chunk_rows_for(d) * (4 * d + 32) + 4 * m * _TILE_ROWS) + 2 * part_sums
    fixed += 6 * part_sums + 8 * parts * m
    products = 8 * triangle_size(m) if second_moments else 0
    if products:
        # High and low parts, these in a snapshot and in the checkpoint that was resumed. Of a thread: the
        # matrix, what is added to it, and the triangles of two fragments that wait.
        fixed += 6 * products
        per_thread += 2 * 8 * m**2 + 2 * products + max(_VALUE_BYTES, 2 * 8 * m * _FEWEST_ROWS)
    spare = memory - fixed
    chosen = max(1, min(available_threads(), spare // per_thread)) if threads is None else threads
    if threads is None:
        log_fewer_threads(chosen, memory)
    passing = fixed + chosen * per_thread
    needed = max(passing, _BASE_BYTES + size.fitting_bytes(source))
    if memory <= _BASE_BYTES:
        raise UsageError(
            f"nysketch itself takes about {_BASE_BYTES / 1e6:,.0f} MB, more than the {memory / 1e6:,.0f} MB "
            "allowed. Allow more with --memory"
        )
    if needed > memory:
        fewer = " or --threads" if chosen > 1 else ""
        simpler = ", or leave out --second-moments" if second_moments else ""
        raise UsageError(
            f"this takes about {needed / 1e6:,.0f} MB of memory with {chosen} thread(s), more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with --memory, or use fewer landmarks (-m, "
            f"--max-landmarks), --blocks, --pilot-rows{fewer}{simpler}"
        )
    # After the pass not all of its memory is back, and threads matter more than a verdict, which can wait.
    judged = passing + size.judging_bytes()
    return Plan(
        columns=source.columns,
        rows=rows_of(source, only),
        fragments=0 if source.rows is None else sum(1 for _ in fragments_of(source, only)),
        threads=chosen,
        memory_bytes=max(needed, judged) if judged <= memory else needed,
        spare_bytes=memory - passing,
        sketch_bytes=int(1.5 * (sums + celled))
        # Only sums of weights need more digits.
        + (span_sums if source.weights is None else int(1.5 * span_sums))
        + landmarks
        + int(1.5 * part_sums)
        + 2 * products
        + sample
        + far
        + (8 * m if celled else 0)
        + 4096,
    )
