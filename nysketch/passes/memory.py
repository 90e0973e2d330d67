"""What a pass would take, before it reads a row: memory, threads that fit into it, size of the sketch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nysketch.accumulators.cell_pass import HELD_ROWS
from nysketch.accumulators.options import PassOptions
from nysketch.accumulators.protocol import Memory, PassSize
from nysketch.accumulators.sample import DEFAULT_ROWS
from nysketch.accumulators.tally import STATISTICS
from nysketch.basis.base import Basis
from nysketch.basis.encoding import most_features
from nysketch.basis.options import BasisOptions
from nysketch.basis.quality import MEASURED_UP_TO
from nysketch.columns import Column
from nysketch.engines.threads import available_threads, log_fewer_threads
from nysketch.errors import UsageError
from nysketch.passes.chunks import batch_rows_for, chunk_rows_for
from nysketch.passes.pilot import pilot_rows_for, rows_to_draw_from
from nysketch.passes.shards import Shard, fragments_of, rows_of
from nysketch.sources.protocol import Source, require_room, row_width
from nysketch.tiles.sizes import tile_rows_for

# As measured: 270 MiB for Python and libraries with compiled code loaded, 35 more in a process that has to
# compile it, and something to spare: how much of a library is resident depends on the machine.
_BASE_BYTES = 330 << 20
# A tile is smaller at any reasonable m, and larger only for thousands of landmarks.
_TILE_ROWS = 64
# Metadata of a sketch file: settings, names of columns, inputs.
_METADATA_BYTES = 4096
# Where memory is short. A batch costs some ten microseconds per column whatever its size.
_LEAST_BATCH_ROWS = 256


@dataclass(frozen=True)
class Plan:
    """What a pass would do; `threads` is as many as fit the memory, unless they were given.

    `source` is what to read, of which each reader stays within its part of the memory; `spare_bytes` is the
    room there is for more.
    """

    columns: tuple[Column, ...]
    source: Source
    rows: int | None
    fragments: int
    threads: int
    memory_bytes: int
    memory_limit: int
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
        # The rows of the pilot, scaled, and on their way to landmarks; their features, where they are others.
        pilot = 3 * 8 * rows * row_width(source)
        if _has_kinds(source):
            pilot += 3 * 8 * rows * most_features(source.columns)[0]
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
    memory: int,
    shard: Shard | None = None,
    after: int = 0,
) -> Plan:
    """Plan a pass at a basis, or one that makes its basis first; raise UsageError if it does not fit.

    `after` is what work on the sketch takes once the pass has ended, besides the sketch.
    """
    if any(column.text for column in source.columns):  # of which only the first rows tell the width
        reader = source.reader_memory
        require_room(reader.least + reader.shared, memory, reader.where or "the input")
    d = row_width(source)
    size = Size(basis.m) if isinstance(basis, Basis) else Size.of(basis, d)
    taken = _bytes_of_pass(source, basis, options, size.m)
    fewer = ", or use fewer `landmarks` (or `max_landmarks`), `blocks`, `pilot_rows`"
    simpler = ", or leave out `second_moments`" if options.second_moments else ""
    room = room_for(
        source,
        memory,
        Taken(
            fixed=_BASE_BYTES + taken.fixed,
            per_thread=taken.per_thread,
            before=_BASE_BYTES + size.fitting_bytes(source),
            after=after,
        ),
        threads=threads,
        batch_rows=batch_rows,
        advice=fewer + " or `threads`" * (threads is not None and threads > 1) + simpler,
    )
    # After the pass not all of its memory is back, and threads matter more than a verdict, which can wait.
    judged = room.bytes + size.judging_bytes()
    return Plan(
        columns=source.columns,
        source=room.source,
        rows=rows_of(source, shard),
        fragments=0 if source.rows is None else sum(1 for _ in fragments_of(source, shard)),
        threads=room.threads,
        memory_bytes=judged if judged <= memory else room.bytes,
        memory_limit=memory,
        spare_bytes=memory - room.bytes,
        sketch_bytes=taken.stored + _METADATA_BYTES,
    )


def _bytes_of_pass(source: Source, basis: Basis | BasisOptions, options: PassOptions, m: int) -> Memory:
    """Return the memory of landmarks and of every statistic, but for that of reading."""
    width = d = row_width(source)
    values = 0
    if isinstance(basis, Basis) and basis.encoded:
        d, values = basis.d, sum(place.column.features for place in basis.layout.categories)
    elif _has_kinds(source):
        d, values = most_features(source.columns)
    size = PassSize(
        m=m,
        d=d,
        rows=source.rows,
        chunk_rows=chunk_rows_for(width),
        tile_bytes=4 * m * _TILE_ROWS,
        text=any(column.text for column in source.columns),
        features=basis.feature_map if isinstance(basis, Basis) else basis.features,
        groups=count_groups(basis),
        weighted=source.weights is not None,
        values=values,
    )
    landmarks = 8 * m * d
    chunk = size.chunk_rows * (width * (8 + 4) + 32)
    if d > width or values:
        # Features that are multiplied, codes and places of categories; those of rows that are kept, scaled.
        chunk += size.chunk_rows * ((d - values) * (8 + 4) + 2 * 4 * width)
        chunk += 4 * 8 * d * min(size.chunk_rows, max(DEFAULT_ROWS, tile_rows_for(m, d)))
        chunk += 2 * HELD_ROWS * (4 * width + 16) if values else 0
        landmarks += values * m // 2  # which of them differ from a value: as bits, and on the way there
    total = Memory(fixed=4 * landmarks, per_thread=chunk + size.tile_bytes, stored=8 * m * width)
    for kind in STATISTICS:
        total += kind.memory(size, options)
    return total


def _has_kinds(source: Source) -> bool:
    return any(column.kind is not None for column in source.columns)


def count_groups(basis: Basis | BasisOptions) -> int:
    """Return how many groups of columns the kernel is a product over; 0 if it is none."""
    return len(basis.groups or ())


@dataclass(frozen=True)
class Taken:
    """Bytes that work on rows takes besides reading them: in all, and for each thread.

    Before the threads begin, or after they have ended, work of other kinds may take more.
    """

    fixed: int
    per_thread: int
    before: int = 0
    after: int = 0


@dataclass(frozen=True)
class Room:
    """How many threads fit into a budget, the source as they read it, and what they take."""

    threads: int
    source: Source
    bytes: int


def room_for(
    source: Source,
    memory: int,
    taken: Taken,
    *,
    threads: int | None = None,
    batch_rows: int | None = None,
    advice: str = "",
) -> Room:
    """Return as many threads as fit, or so many, and what is left for each of them to read with.

    They get all they need to read as fast as can be, if one of them can; or else one of them reads smaller
    batches, and then fewer columns at once. Raise a UsageError if there is no room for that; `advice` is what
    helps besides more memory.
    """
    reader, row = source.reader_memory, 2 * 8 * row_width(source)
    default = batch_rows or batch_rows_for(row_width(source))
    fixed, count = taken.fixed + reader.shared, threads or 1
    choices = [default] if batch_rows else _batches_from(default)

    def needed(rows: int, reading: int, count: int) -> int:
        passing = fixed + count * (taken.per_thread + rows * row + reading)
        return max(
            passing, taken.before + reader.shared + count * (rows * row + reading), fixed + taken.after
        )

    least = needed(choices[-1], reader.least, count)
    if least > memory:
        reading = ""
        if reader.where and needed(choices[-1], 0, count) <= memory:  # nothing but reading is to blame
            reading = f"; {reader.least / 1e6:,.0f} MB for each thread that reads {reader.where}"
        raise UsageError(
            f"this takes about {math.ceil(least / 1e6):,} MB of memory with {count} thread(s), more than the "
            f"{memory / 1e6:,.0f} MB allowed{reading}. Allow more with `memory`{advice}"
        )
    rows = next((rows for rows in choices if needed(rows, reader.ample, count) <= memory), None)
    if rows is None:
        rows = next(rows for rows in choices if needed(rows, reader.least, count) <= memory)
    elif threads is None:
        each = taken.per_thread + rows * row + reader.ample
        count = max(1, min(available_threads(), (memory - fixed) // each))
        while count > 1 and needed(rows, reader.ample, count) > memory:
            count -= 1
    spare = min(memory - fixed - count * taken.per_thread, memory - taken.before - reader.shared)
    limit = spare // count - rows * row
    if threads is None:
        log_fewer_threads(count, memory)
    total = needed(rows, min(limit, reader.ample), count)
    return Room(count, source.within(limit, rows), total)


def _batches_from(rows: int) -> list[int]:
    """Return numbers of rows of a batch, the largest first."""
    sizes = [rows]
    while sizes[-1] > _LEAST_BATCH_ROWS:
        sizes.append(max(sizes[-1] // 2, _LEAST_BATCH_ROWS))
    return sizes
