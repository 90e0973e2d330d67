"""`nysketch.sketch`: rows of any kind → a sketch, in memory or in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nysketch._support.notices import log
from nysketch._support.regular import require_replaceable
from nysketch._types import Progress
from nysketch.accumulators.options import DEFAULT_SHUFFLES, DEFAULT_SPANS, PassOptions
from nysketch.api._data import AnyPath, basis_or_options, memory_bytes, open_rows
from nysketch.basis.base import Basis
from nysketch.basis.options import DEFAULT_CAP, DEFAULT_LANDMARKS, DEFAULT_SAMPLING, BasisOptions
from nysketch.engines.protocol import Engine
from nysketch.engines.threads import engine_of
from nysketch.errors import UsageError
from nysketch.passes.execution import Execution
from nysketch.passes.memory import plan_pass
from nysketch.passes.pilot import notes_on_constants_of
from nysketch.passes.shards import Shard, as_shard
from nysketch.passes.sketching import as_basis, sketch_source
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sketches.losses import say_losses
from nysketch.sketches.sketch import Sketch
from nysketch.sources.options import ReadOptions


def sketch(
    data: Any,
    *,
    basis: Basis | Sketch | AnyPath | None = None,
    output: AnyPath | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | Sequence[str] | None = None,
    emphasis: Mapping[str, float] | None = None,
    weights: str | None = None,
    nulls: str = "auto",
    landmarks: int | str = DEFAULT_LANDMARKS,
    max_landmarks: int = DEFAULT_CAP,
    sampling: str = DEFAULT_SAMPLING,
    features: str = "nystrom",
    frequencies: str = "gaussian",
    scale: str = "auto",
    kernel: str | Mapping[str, str] = "gaussian",
    bandwidth: str | float | Sequence[float] | Mapping[str, Any] = "auto",
    degree: int = 2,
    offset: float = 1.0,
    length: int = 3,
    decay: float = 0.5,
    groups: Mapping[str, Sequence[str]] | None = None,
    pilot_rows: int | None = None,
    seed: int = 0,
    blocks: int = 64,
    sample_rows: int | None = None,
    cells: bool = True,
    far_rows: int | None = None,
    spans: int = DEFAULT_SPANS,
    permutations: int = DEFAULT_SHUFFLES,
    permutation_rows: int | None = None,
    pairs: bool = False,
    second_moments: bool = False,
    precision: str = "float32",
    part: Shard | str | None = None,
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    batch_rows: int | None = None,
    memory: int | str | None = None,
    if_exists: str = "fail",
    checkpoint_every: float = 30.0,
    restart: bool = False,
    lock_wait: float = 0.0,
    progress: Progress | None = None,
) -> Sketch:
    """Sketch rows in one pass, in memory that does not grow with them.

    Parameters
    ----------
    data
        Rows: a data frame (pandas, polars), a DuckDB relation, an Arrow table, stream or dataset, a dict of
        columns, an array, an iterator of batches; or paths, globs, directories and URIs of Parquet, HDF5,
        CSV or Feather files.
    basis : Basis, Sketch or path, optional
        The basis to use. Sketches can be added and compared if they share one. By default one is made from
        a pilot sample, for which `data` must be readable twice.
    output : path, optional
        File to write the sketch to, as the command does: progress is saved beside it, and the same call
        continues after an interruption. The sketch is returned all the same.
    columns, exclude : list of str, optional
        Columns to use, in this order, and columns to leave out. Default: all but serial
        numbers, identifiers, free text and constants.
    kinds : mapping of str to str, or list of str, optional
        Kinds of columns that shall be others than by their types, such as {"price": "log",
        "zip": "category", "ts": "hour,weekday"}, or ["price=log", "zip=category"]: "number", "log", "rank",
        "category", "time", or parts of a time: "hour", "weekday", "yearday", "elapsed".
    emphasis : mapping of str to float, optional
        Columns that count more, or less: {"price": 2} doubles what `price` adds to squared distances.
    weights : str, optional
        Column of non-negative row weights.
    nulls : {"auto", "error", "drop", "keep"}
        What to do with rows that hold nulls or NaN: stop; drop them, and those with infinities; or keep
        them, where a missing value takes a neutral place and counts as missing. "auto" keeps them if a
        basis is made, or the one that is given has kinds of columns; else it stops.
    landmarks : int or "auto"
        Number of landmark rows, or of Fourier features. "auto" doubles it until the error of the landmarks
        is below that of the sampling, up to `max_landmarks`.
    max_landmarks : int
        Where `landmarks="auto"` stops.
    sampling : {"kmeans++", "uniform", "leverage", "greedy", "rpcholesky", "kmeans"}
        How landmarks are chosen from the pilot.
    features : {"nystrom", "fourier"}
        What is summed: kernel values at landmarks, or random Fourier features (no rows in the file).
    frequencies : {"gaussian", "adapted-radius"}
        How Fourier frequencies are drawn.
    scale : {"auto", "standard", "robust", "none"}
        Scaling of columns, from the pilot: by standard deviations, without wild values or with them, by
        quartiles, or not at all. For kernels without a bound, "auto" is "standard".
    kernel : str or dict
        "gaussian", "laplacian-l1", "laplacian-l2", "matern32", "matern52", "polynomial", "linear" or
        "cosine"; for a text column "spectrum" or "subsequence". A dict gives one for each group.
    bandwidth : str, float, list of float or dict
        "median" (of the distances in the pilot), "0.5*median", or a number in scaled units. Several make a
        mean of Gaussians. "auto" is the median, and finer ones beside it if rows lie in clumps far below it:
        for a Gaussian kernel at landmarks; with groups, it is the median. A dict gives one for each group.
    degree, offset : int, float
        Degree of the polynomial kernel, and the constant inside.
    length, decay : int, float
        Characters of the substrings that kernels of text compare, and the weight of each character or gap.
    groups : dict of str to list of str, optional
        Groups of columns that share a kernel. The kernel is then the product over groups.
    pilot_rows : int, optional
        Rows in the pilot sample. Default: 10 per landmark, at least 10,000, at most 32 MB.
    seed : int
        Seed of everything random. The same seed gives the same bytes.
    blocks : int
        Blocks of rows to keep separate sums for: tests and standard errors come from them.
    sample_rows : int, optional
        Rows to keep as a sample, to measure quality by. Default: 2000, fewer if they are very wide.
    cells : bool
        Keep sums over the rows nearest to each landmark.
    far_rows : int, optional
        Rows to keep because they are farthest from their landmarks. Default: 500, fewer if they are very
        wide.
    spans : int
        Spans of consecutive rows to keep separate sums for, at most; 0 for none.
    permutations : int
        Permutations to prepare for `independence`, with `groups`; 0 to keep nothing for that.
    permutation_rows : int, optional
        Rows to sample for permutations. Default: 50,000, fewer if they are very wide.
    pairs : bool
        Keep sums to test pairs of groups, too.
    second_moments : bool
        Keep sums of products of kernel values, for `coreset(method="mercer")`. Slow.
    precision : {"float32", "float64"}
        Precision of kernel values; float64 is the slow reference.
    part : str, optional
        Read one part of the rows only, such as "3/16". All sixteen sketches add up to that of all rows.
    datasets : list of str, optional
        HDF5 data sets to read.
    allow_external : bool
        Trust the inputs: follow links, external storage and virtual data sets of HDF5 files, and addresses
        that lead to others, such as simplecache::… and reference://….
    skip_unreadable : bool
        Skip files that cannot be opened, with a warning.
    retries, timeout : int, float, optional
        How often to try a remote file again, and the seconds to wait for each answer. Default: 4 and 30.
    threads : int, optional
        Worker threads. Default: one per processor, as far as they fit `memory`.
    engine : Engine, optional
        Who reads the rows, such as `nysketch.engines.dask.DaskEngine(client)`. Default: threads of this
        process.
    batch_rows : int, optional
        Rows to read at once. Default: about 4 MB worth.
    memory : int or str, optional
        Memory to stay within, such as "2GB": decides how many threads run. Default: not limited.
    if_exists : {"fail", "skip", "overwrite"}
        What to do if `output` exists; skip only if it was made from the same inputs and settings.
    checkpoint_every : float
        Seconds after which progress is saved beside `output`.
    restart : bool
        Discard the checkpoint of an unfinished run.
    lock_wait : float
        Seconds to wait for another process that writes `output`.
    progress : callable, optional
        Called with the rows that were read, and the rows there are (None if unknown).

    Returns
    -------
    Sketch
        It can be added, subtracted, compared, saved, and learned from.

    Warns
    -----
    NysketchWarning
        If columns were left out or rows were dropped.

    Examples
    --------
    >>> s = nysketch.sketch(df, nulls="drop")
    >>> s = nysketch.sketch("logs/2024-*.parquet", landmarks=500, output="logs.nysk")

    """
    wanted = BasisOptions(
        m=landmarks,
        max_landmarks=max_landmarks,
        features=features,
        frequencies=frequencies,
        sampling=sampling,
        scaling=scale,
        kernel=kernel,
        bandwidth=bandwidth,  # type: ignore[arg-type]  # it becomes text
        degree=degree,
        offset=offset,
        length=length,
        decay=decay,
        groups=groups,
        pilot_rows=pilot_rows,
        kinds=kinds,
        emphasis=emphasis,
    )
    options = PassOptions(
        blocks=blocks,
        seed=seed,
        precision=precision,
        nulls=nulls,
        weights=weights,
        sample_rows=sample_rows,
        cells=cells,
        far_rows=far_rows,
        runs=spans,
        shuffles=permutations,
        shuffle_rows=permutation_rows,
        pairs=pairs,
        second_moments=second_moments,
    )
    saving = Saving(if_exists, checkpoint_every, restart, lock_wait)
    if output is None and saving != Saving():
        raise UsageError("`if_exists`, `checkpoint_every`, `restart` and `lock_wait` are for an `output`")
    if output is not None:
        require_replaceable(Path(output))
    shard = as_shard(part)
    chosen = basis_or_options(as_basis(basis), wanted)
    reading = ReadOptions(
        columns=columns,
        exclude=exclude,
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory),
    )
    source = open_rows(data, reading.for_basis(chosen))
    for note in notes_on_constants_of(chosen, source) if isinstance(chosen, Basis) else ():
        log.warning("%s", note)
    if reading.memory is not None:
        plan = plan_pass(
            source,
            chosen,
            options,
            threads=threads,
            batch_rows=batch_rows,
            memory=reading.memory,
            shard=shard,
        )
        source = plan.source
        threads = plan.threads if engine is None else threads
    execution = Execution(engine_of(engine, threads), batch_rows, progress)
    if output is None:
        made = sketch_source(source, chosen, options, shard=shard, execution=execution)
    else:
        outcome = sketch_to_file(
            source,
            Path(output),
            chosen,
            options,
            shard=shard,
            inputs=[basis] if isinstance(basis, str | os.PathLike) else [],
            saving=saving,
            execution=execution,
        )
        made = outcome.sketch
    say_losses(made)
    return made
