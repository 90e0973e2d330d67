"""`nysketch.assign` and `nysketch.score`: what a model says of rows, in files of any size or in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from nysketch._support.notices import notice
from nysketch._support.outputs import overwriting, refuse_to_replace
from nysketch._support.regular import require_replaceable
from nysketch._types import Progress
from nysketch.api._data import AnyPath, as_model, engine_within, memory_bytes, open_rows, say_dropped
from nysketch.engines.protocol import Engine
from nysketch.errors import UsageError
from nysketch.models import apply
from nysketch.models import score as scoring
from nysketch.models.stored import AnyModel
from nysketch.sources.options import ReadOptions


def assign(
    model: AnyModel | AnyPath,
    data: Any,
    *,
    output: AnyPath | None = None,
    keep: Sequence[str] = (),
    responsibilities: bool | None = None,
    distances: bool = False,
    nulls: str = "keep",
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    memory: int | str | None = None,
    if_exists: str = "fail",
    lock_wait: float = 0.0,
    progress: Progress | None = None,
) -> pa.Table | apply.Assigned:
    """Label every row with its cluster or component.

    Columns are found by name, in any order; there may be more than the model needs.

    Parameters
    ----------
    model : KMeansModel, MixtureModel or path
        The model, or its file.
    data
        Rows: anything that `sketch` takes.
    output : path, optional
        Parquet, CSV or Feather (.arrow) file to write. Then memory does not grow with the rows.
    keep : list of str
        Columns of any type to copy beside the labels.
    responsibilities : bool, optional
        Add the probabilities p0, p1, … of the components. Default: for mixtures.
    distances : bool
        Add the distance to the centroid, in scaled units.
    nulls : {"keep", "error", "drop"}
        Missing values: take them as such where columns of the model have kinds, and stop where none has;
        stop; or leave the label of these rows null. Infinities are errors, unless they are dropped.
    datasets, allow_external, skip_unreadable, retries, timeout
        How files are read: see `sketch`.
    threads, engine, memory
        Who reads the rows: see `sketch`.
    if_exists : {"fail", "overwrite"}
        What to do if `output` exists.
    lock_wait : float
        Seconds to wait for another process that writes `output`.
    progress : callable, optional
        Called with the rows that were read, and the rows there are (None if unknown).

    Returns
    -------
    pyarrow.Table or Assigned
        The labels in a table with a row for every row, in order; with `output`, how many there are.

    Examples
    --------
    >>> labels = nysketch.assign(model, df)["label"]
    >>> nysketch.assign("model.json", "logs/*.parquet", keep=["id"], output="labels.parquet")

    """
    if output is not None:
        require_replaceable(Path(output))
    known = as_model(model)
    reading = ReadOptions(
        keep=keep,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory),
    )
    source = open_rows(data, reading.for_columns(known.columns))
    runner, source = engine_within(engine, threads, reading.memory, source, apply.room_to_apply, known)
    overwrite = overwriting(if_exists)
    if output is None:
        if overwrite or lock_wait:
            raise UsageError("`if_exists` and `lock_wait` are for an `output`")
        tables = apply.assign(
            known,
            source,
            responsibilities=responsibilities,
            distances=distances,
            nulls=nulls,
            engine=runner,
            progress=progress,
        )
        found = pa.concat_tables(tables)
        _say_unlabelled(found["label"].null_count, len(found))
        return found
    if isinstance(model, str | os.PathLike):
        refuse_to_replace([model], Path(output))
    done = apply.assign_to_file(
        known,
        source,
        Path(output),
        responsibilities=responsibilities,
        distances=distances,
        nulls=nulls,
        overwrite=overwrite,
        lock_wait=lock_wait,
        engine=runner,
        progress=progress,
    )
    _say_unlabelled(done.unlabelled_rows, done.rows)
    return done


def _say_unlabelled(unlabelled: int, rows: int) -> None:
    if unlabelled:
        notice(
            "%s of %s rows have no label: they hold nulls, NaN or infinities", f"{unlabelled:,}", f"{rows:,}"
        )


def score(
    model: AnyModel | AnyPath,
    data: Any,
    *,
    weights: str | None = None,
    nulls: str = "keep",
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> scoring.Score:
    """Measure how well a model describes rows, in one pass.

    Parameters
    ----------
    model : KMeansModel, MixtureModel or path
        The model, or its file.
    data
        Rows: anything that `sketch` takes.
    weights : str, optional
        Column of non-negative row weights.
    nulls : {"keep", "error", "drop"}
        Missing values: take them as such where columns of the model have kinds, and stop where none
        has; stop; or drop these rows. Infinities are errors, unless they are dropped.
    datasets, allow_external, skip_unreadable, retries, timeout
        How files are read: see `sketch`.
    threads, engine, memory
        Who reads the rows: see `sketch`.
    progress : callable, optional
        Called with the rows that were read, and the rows there are (None if unknown).

    Returns
    -------
    Score
        `mean_cost` is the mean squared distance to the nearest centroid in scaled units, or minus the mean
        log-likelihood in nats; `standard_error` is its error.

    Examples
    --------
    >>> nysketch.score(model, "logs/*.parquet", nulls="drop").mean_cost

    """
    known = as_model(model)
    reading = ReadOptions(
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory),
    )
    source = open_rows(data, reading.for_columns(known.columns))
    runner, source = engine_within(engine, threads, reading.memory, source, apply.room_to_apply, known)
    found = scoring.score(known, source, nulls=nulls, engine=runner, progress=progress)
    say_dropped(found.dropped_rows, found.rows)
    return found
