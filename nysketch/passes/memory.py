"""What a pass would take, before it reads a row: memory, threads that fit into it, size of the sketch."""

from __future__ import annotations

from dataclasses import dataclass

from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize
from nysketch.accumulators.sample import DEFAULT_ROWS
from nysketch.accumulators.tally import STATISTICS
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
from nysketch.passes.pilot import pilot_rows_for, rows_to_draw_from
from nysketch.passes.shards import Shard, fragments_of, rows_of
from nysketch.sources.protocol import Source, row_width

DEFAULT_MEMORY = 512 * 10**6

# As measured: 230 MiB for Python and libraries with compiled code loaded, 40 more in a process that has to
# compile it, and something to spare.
_BASE_BYTES = 300 << 20
# A tile is smaller at any reasonable m, and larger only for thousands of landmarks.
_TILE_ROWS = 64
# Metadata of a sketch file: settings, names of columns, inputs.
_METADATA_BYTES = 4096


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
    taken = _bytes_of_pass(source, basis, options, size.m, batch_rows)
    fixed = _BASE_BYTES + taken.fixed
    spare = memory - fixed
    chosen = max(1, min(available_threads(), spare // taken.per_thread)) if threads is None else threads
    if threads is None:
        log_fewer_threads(chosen, memory)
    passing = fixed + chosen * taken.per_thread
    needed = max(passing, _BASE_BYTES + size.fitting_bytes(source))
    if memory <= _BASE_BYTES:
        raise UsageError(
            f"nysketch itself takes about {_BASE_BYTES / 1e6:,.0f} MB, more than the {memory / 1e6:,.0f} MB "
            "allowed. Allow more with `memory`"
        )
    if needed > memory:
        fewer = " or `threads`" if chosen > 1 else ""
        simpler = ", or leave out `second_moments`" if options.second_moments else ""
        raise UsageError(
            f"this takes about {needed / 1e6:,.0f} MB of memory with {chosen} thread(s), more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with `memory`, or use fewer `landmarks` (or "
            f"`max_landmarks`), `blocks`, `pilot_rows`{fewer}{simpler}"
        )
    # After the pass not all of its memory is back, and threads matter more than a verdict, which can wait.
    judged = passing + size.judging_bytes()
    return Plan(
        columns=source.columns,
        rows=rows_of(source, shard),
        fragments=0 if source.rows is None else sum(1 for _ in fragments_of(source, shard)),
        threads=chosen,
        memory_bytes=max(needed, judged) if judged <= memory else needed,
        spare_bytes=memory - passing,
        sketch_bytes=taken.stored + _METADATA_BYTES,
    )


def _bytes_of_pass(
    source: Source, basis: Basis | BasisOptions, options: PassOptions, m: int, batch_rows: int | None
) -> Memory:
    """Return the memory of reading, of landmarks and of every statistic."""
    d = row_width(source)
    size = PassSize(
        m=m,
        d=d,
        rows=source.rows,
        chunk_rows=chunk_rows_for(d),
        tile_bytes=4 * m * _TILE_ROWS,
        text=any(column.text for column in source.columns),
        features=basis.feature_map if isinstance(basis, Basis) else basis.features,
        groups=count_groups(basis),
        weighted=source.weights is not None,
    )
    landmarks = 8 * m * d
    chunk = size.chunk_rows * (d * (8 + 4) + 32)
    batch = (batch_rows or batch_rows_for(d)) * d * 8 * 2
    total = Memory(
        fixed=4 * landmarks,
        per_thread=source.reader_bytes + batch + chunk + size.tile_bytes,
        stored=landmarks,
    )
    for kind in STATISTICS:
        total += kind.memory(size, options)
    return total


def count_groups(basis: Basis | BasisOptions) -> int:
    """Return how many groups of columns the kernel is a product over; 0 if it is none."""
    return len(basis.groups or ())


def threads_that_fit(
    memory: int, *, fixed: int, per_thread: int, afterwards: int = 0, advice: str = ""
) -> int:
    """Return how many threads, at most one for each processor, fit into `memory` bytes.

    They share `fixed` bytes; `afterwards`, so many are needed where threads had theirs. Raise a UsageError
    if there is no room for one thread; `advice` is what helps besides more memory.
    """
    needed = fixed + max(per_thread, afterwards)
    if needed > memory:
        raise UsageError(
            f"this takes about {needed / 1e6:,.0f} MB of memory with one thread, more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with `memory`{advice}"
        )
    threads = min(available_threads(), (memory - fixed) // per_thread)
    log_fewer_threads(threads, memory)
    return threads
