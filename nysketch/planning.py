"""What a pass would take, before it reads a row: memory, threads that fit into it, size of the sketch."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from nysketch.basis import Column, total_width
from nysketch.engines.local import available_threads
from nysketch.errors import UsageError
from nysketch.pilot import rows_to_draw_from
from nysketch.reading import batch_rows_for, chunk_rows_for
from nysketch.sources import Source

log = logging.getLogger("nysketch")

DEFAULT_MEMORY = 512 * 10**6

# As measured: 230 MiB for Python and libraries with compiled code loaded, 40 more in a process that has to
# compile it, and something to spare.
_BASE_BYTES = 300 << 20
# A tile is smaller at any reasonable m, and larger only for thousands of landmarks.
_TILE_ROWS = 64


@dataclass(frozen=True)
class Plan:
    """What a pass would do; `threads` is as many as fit the memory, unless they were given."""

    columns: tuple[Column, ...]
    rows: int | None
    fragments: int
    threads: int
    memory_bytes: int
    sketch_bytes: int


def plan(
    source: Source,
    *,
    m: int,
    blocks: int,
    pilot_rows: int = 0,
    threads: int | None = None,
    batch_rows: int | None = None,
    memory: int = DEFAULT_MEMORY,
) -> Plan:
    """Plan a pass within `memory` bytes; raise UsageError if it does not fit."""
    d = total_width(source.columns)
    sums, landmarks = 8 * blocks * m, 8 * m * d
    chunk = chunk_rows_for(d) * (d * (8 + 4) + 32)
    batch = (batch_rows or batch_rows_for(d)) * d * 8 * 2
    # The rows of the pilot, scaled, and on their way to landmarks.
    pilot = 3 * 8 * min(pilot_rows, rows_to_draw_from(source)) * d if pilot_rows else 0
    fixed = _BASE_BYTES + pilot + 8 * sums + 4 * landmarks
    per_thread = source.reader_bytes + batch + chunk + 4 * m * _TILE_ROWS + 4 * sums
    fitting = (memory - fixed) // per_thread
    chosen = max(1, min(available_threads(), fitting)) if threads is None else threads
    if threads is None and chosen < available_threads():
        log.info(
            "using %d of %d processors to stay within %.0f MB; allow more with --memory",
            chosen,
            available_threads(),
            memory / 1e6,
        )
    needed = fixed + chosen * per_thread
    if needed > memory:
        fewer = " or --threads" if chosen > 1 else ""
        raise UsageError(
            f"this takes about {needed / 1e6:,.0f} MB of memory with {chosen} thread(s), more than the "
            f"{memory / 1e6:,.0f} MB allowed. Allow more with --memory, or use fewer landmarks (-m), "
            f"--blocks, --pilot-rows{fewer}"
        )
    return Plan(
        columns=source.columns,
        rows=source.rows,
        fragments=0 if source.rows is None else sum(1 for _ in source.fragments()),
        threads=chosen,
        memory_bytes=needed,
        sketch_bytes=int(1.5 * sums) + landmarks + 4096,
    )
