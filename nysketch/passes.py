"""One pass: source → sketch. Threads over fragments, progress, checkpoint, and what is asked of files.

`sketch` works in memory for any source; `sketch_to_file` is what the command line runs: lock, existing
output, resume, atomic save. How rows become chunks is reading.py's business, how chunks become sums is
tiles.py's, who runs the fragments is an engine's.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nysketch.accumulators import ColumnRanges, Tally, grid_exponent
from nysketch.atomic import remove_leftovers
from nysketch.basis import DEFAULT_LANDMARKS, SCALINGS, Basis
from nysketch.checkpoint import Checkpoint, checkpoint_path
from nysketch.engines import local
from nysketch.errors import InputError, OutputError, UsageError
from nysketch.fileformat import load_basis, load_sketch, require_small_header, save, sketch_parts
from nysketch.locks import output_lock
from nysketch.pilot import fit_basis
from nysketch.provenance import Provenance
from nysketch.reading import ChunkReader
from nysketch.sketches import Sketch
from nysketch.sources import Fragment, Source, open_source

if TYPE_CHECKING:
    from nysketch.tiles import KernelSummer

log = logging.getLogger("nysketch")

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class PassOptions:
    """What the sums depend on, besides the rows and the basis."""

    blocks: int = 64
    seed: int = 0
    precision: str = "float32"
    nulls: str = "error"
    weights: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 65_536:
            raise UsageError(f"the number of blocks must be between 1 and 65536, not {self.blocks}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"the seed must be between 0 and 2**63 - 1, not {self.seed}")
        if self.precision not in ("float32", "float64"):
            raise UsageError(f"precision must be float32 or float64, not {self.precision!r}")


@dataclass(frozen=True)
class BasisOptions:
    """How to make a basis when none is given."""

    m: int = DEFAULT_LANDMARKS
    scaling: str = "standard"
    bandwidth: float | str = "median"
    pilot_rows: int | None = None

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise UsageError(f"scaling must be one of {', '.join(SCALINGS)}, not {self.scaling!r}")


def sketch(
    data: Any,
    *,
    basis: Basis | Sketch | str | os.PathLike[str] | None = None,
    m: int = DEFAULT_LANDMARKS,
    scaling: str = "standard",
    bandwidth: float | str = "median",
    pilot_rows: int | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weights: str | None = None,
    nulls: str = "error",
    blocks: int = 64,
    seed: int = 0,
    precision: str = "float32",
    threads: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    **source_options: Any,
) -> Sketch:
    """Sketch rows: paths, `-`, an array, a table, a stream or an iterator of batches.

    `basis` is a Basis, a Sketch whose basis is taken, or the path of a file with either; without it
    one is made from a pilot sample, for which the source must be readable twice.
    """
    known = as_basis(basis)
    source = open_source(
        data,
        columns=columns,
        exclude=exclude,
        weights=weights,
        like=None if known is None else known.columns,
        **source_options,
    )
    options = PassOptions(blocks, seed, precision, nulls, weights)
    if known is None:
        wanted = BasisOptions(m, scaling, bandwidth, pilot_rows)
        known = make_basis(source, wanted, options, threads=threads)
    return run_pass(source, known, options, threads=threads, batch_rows=batch_rows, progress=progress)


def as_basis(basis: Basis | Sketch | str | os.PathLike[str] | None) -> Basis | None:
    """Return the basis that a user meant."""
    if basis is None or isinstance(basis, Basis):
        return basis
    return basis.basis if isinstance(basis, Sketch) else load_basis(basis)


def make_basis(
    source: Source,
    wanted: BasisOptions,
    options: PassOptions,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Basis:
    """Make a basis from a pilot of the source that is about to be sketched."""
    basis = fit_basis(
        source,
        **asdict(wanted),
        seed=options.seed,
        nulls=options.nulls,
        threads=threads,
        progress=progress,
    )
    if basis.m < wanted.m:
        log.warning("only %d rows to choose from: %d landmarks, not %d", basis.m, basis.m, wanted.m)
    return replace(basis, origin=basis.origin | {"requested": asdict(wanted)})


def run_pass(
    source: Source,
    basis: Basis,
    options: PassOptions,
    *,
    threads: int | None = None,
    batch_rows: int | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
) -> Sketch:
    """Read all fragments of the source and return their sketch; save progress if there is a checkpoint.

    Whatever ends the pass early (an unreadable fragment, Ctrl-C) leaves the finished fragments in the
    checkpoint.
    """
    from nysketch.tiles import KernelSummer, RunningSums  # compiles or loads machine code: not for --help

    threads = local.available_threads() if threads is None else threads
    if threads < 1:
        raise UsageError(f"the number of threads must be at least 1, not {threads}")
    summer = KernelSummer(basis, blocks=options.blocks, seed=options.seed, precision=options.precision)
    worker = _Worker(source, summer, options, batch_rows)
    weighted = source.weights is not None
    total = Tally.zeros(options.blocks, basis.m, basis.d, weighted=weighted)
    done: set[int] = set()
    if checkpoint is not None:
        total, done = checkpoint.resume(total)
    running = RunningSums(total.blocks, grid_exponent(options.precision, weighted=weighted))
    ranges, dropped = total.ranges, total.dropped
    finished_before = frozenset(done)
    rows_done = sum(f.rows for f in source.fragments() if f.number in finished_before) if done else 0
    todo = (f for f in source.fragments() if f.number not in finished_before)
    if progress is not None:
        progress(rows_done, source.rows)

    consistent = True  # the sums are those of the fragments in `done`, no more and no less

    def so_far(provenance: Provenance) -> Sketch:
        return Sketch(basis, Tally(running.snapshot(), ranges, dropped), asdict(options), provenance)

    try:
        # Closing stops the workers: without it, they would finish what they have before an error shows.
        with closing(local.run(worker, todo, threads=threads)) as finished:
            for fragment, part in finished:
                consistent = False  # a signal may arrive between any two of these lines
                running.add(part.kernel_sums, part.rows, part.weights)
                ranges, dropped = ranges + part.ranges, dropped + part.dropped
                done.add(fragment.number)
                consistent = True
                rows_done += fragment.rows
                if progress is not None:
                    progress(rows_done, source.rows)
                if checkpoint is not None and checkpoint.due():
                    checkpoint.save(so_far(Provenance()), done)
    except BaseException:
        if checkpoint is not None and done and consistent:
            with suppress(OutputError):  # a full disk: the error on its way matters more
                checkpoint.save(so_far(Provenance()), done)
        raise
    result = so_far(Provenance.of(source.inputs()))
    if not result.rows:
        raise InputError(
            f"no rows left: {result.dropped_rows:,} were dropped for nulls, NaN or infinities"
            if result.dropped_rows
            else "the source has no rows"
        )
    return result


@dataclass(frozen=True)
class _Part:
    """What one fragment adds."""

    kernel_sums: NDArray[np.float64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]
    ranges: ColumnRanges
    dropped: int


class _Worker:
    """Turns one fragment into its part of the sums; buffers are kept per thread."""

    def __init__(
        self, source: Source, summer: KernelSummer, options: PassOptions, batch_rows: int | None
    ) -> None:
        self._source, self._summer, self._options = source, summer, options
        self._batch_rows = batch_rows
        self._local = threading.local()
        ChunkReader(source, nulls=options.nulls, batch_rows=batch_rows)  # complain before threads start

    def __call__(self, fragment: Fragment, check: Callable[[], None]) -> _Part:
        if not hasattr(self._local, "reader"):
            self._local.reader = ChunkReader(
                self._source, nulls=self._options.nulls, batch_rows=self._batch_rows
            )
            self._local.workspace = self._summer.workspace(self._local.reader.chunk_rows)
        reader, workspace = self._local.reader, self._local.workspace
        sums = self._summer.zeros()
        ranges = ColumnRanges.empty(self._summer.d)
        dropped = read = 0
        for chunk in reader.chunks(fragment):
            check()
            self._summer.add(chunk.first_row, chunk.rows, chunk.keep, chunk.weights, sums, workspace)
            ranges = ranges + ColumnRanges(chunk.lower, chunk.upper)
            dropped += chunk.dropped
            read += len(chunk.rows)
        if read != fragment.rows:
            raise InputError(
                f"{fragment.where}: has {read:,} rows, not the {fragment.rows:,} it declares. "
                "Was the file changed while it was read?"
            )
        return _Part(self._summer.kernel_sums(sums), sums.rows, sums.weights, ranges, dropped)


# ---- sketching to a file --------------------------------------------------------------------------

IF_EXISTS = ("fail", "skip", "overwrite")


@dataclass(frozen=True)
class Outcome:
    """What `sketch_to_file` did."""

    sketch: Sketch
    skipped: bool = False  # the output existed and was up to date
    resumed_fragments: int = 0
    unreadable: tuple[str, ...] = ()


def sketch_to_file(
    source: Source,
    output: Path,
    *,
    basis: Basis | None,
    wanted: BasisOptions,
    options: PassOptions,
    if_exists: str = "fail",
    checkpoint_every: float = 30.0,
    restart: bool = False,
    lock_wait: float = 0.0,
    threads: int | None = None,
    batch_rows: int | None = None,
    pilot_progress: Callable[[int, int], None] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Sketch a source into `output`, resuming what an earlier run of the same request left behind."""
    if if_exists not in IF_EXISTS:
        raise UsageError(f"if_exists must be one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
    with output_lock(output, wait=lock_wait):
        if output.exists() and if_exists == "fail":
            raise OutputError(f"{output}: exists already; see --if-exists skip|overwrite")
        remove_leftovers(output)
        if output.exists() and if_exists == "skip":
            have = _up_to_date(source, output, basis, wanted, options)
            checkpoint_path(output).unlink(missing_ok=True)  # killed just before it would have gone
            return Outcome(have, skipped=True)
        before = _state(source)
        checkpoint = None
        if before is not None:
            request = _request(source, basis, wanted, options) | {"inputs": before}
            checkpoint = Checkpoint(output, request, every=checkpoint_every, restart=restart)
            if checkpoint.partial is not None:
                basis = checkpoint.partial.basis
        if basis is None:
            basis = make_basis(source, wanted, options, threads=threads, progress=pilot_progress)
        if before is not None:
            nothing = Tally.zeros(options.blocks, basis.m, basis.d, weighted=source.weights is not None)
            provenance = Provenance.of(source.inputs())
            # Better told now than after hours of reading.
            require_small_header(*sketch_parts(Sketch(basis, nothing, asdict(options), provenance)))
        result = run_pass(
            source,
            basis,
            options,
            threads=threads,
            batch_rows=batch_rows,
            progress=progress,
            checkpoint=checkpoint,
        )
        if _state(source) != before:
            if checkpoint is not None:
                checkpoint.remove()
            raise InputError(
                "an input changed while it was being read, so the sums belong to no version of it. "
                "Run the command again once it is complete"
            )
        save(result, output)
        if checkpoint is not None:
            checkpoint.remove()
        return Outcome(
            result,
            resumed_fragments=0 if checkpoint is None else checkpoint.resumed,
            unreadable=tuple(map(str, getattr(source, "skipped", ()))),
        )


def _state(source: Source) -> Any:
    """Return what tells a changed input from an unchanged one; None if there is no going back to it."""
    state = getattr(source, "state", None)
    return None if state is None else state()


def _request(
    source: Source, basis: Basis | None, wanted: BasisOptions, options: PassOptions
) -> dict[str, Any]:
    return {
        "basis": asdict(wanted) if basis is None else basis.digest,
        "columns": [[column.name, column.width] for column in source.columns],
        "options": asdict(options),
    }


def _up_to_date(
    source: Source, output: Path, basis: Basis | None, wanted: BasisOptions, options: PassOptions
) -> Sketch:
    """Return the sketch at `output` if it is what this request would make; otherwise say what differs."""
    have = load_sketch(output)
    made = have.basis.origin.get("requested") if basis is None else have.basis.digest
    stored = {
        "basis": made,
        "columns": [[column.name, column.width] for column in have.basis.columns],
        "options": have.settings,
        "inputs": have.provenance,
    }
    asked = _request(source, basis, wanted, options) | {"inputs": Provenance.of(source.inputs())}
    different = [name for name, value in asked.items() if stored[name] != value]
    written = output.stat().st_mtime_ns
    if any(mtime is not None and mtime >= written for _, _, mtime, _ in _state(source) or ()):
        different.append("modification time of an input")
    if different:
        raise OutputError(
            f"{output}: exists, but was made from something else ({', '.join(sorted(different))} differ). "
            "Replace it with --if-exists overwrite"
        )
    return have
