"""`nysketch.coreset`: a few weighted rows in place of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nysketch._types import Floats, Progress
from nysketch.api._data import AnyPath, as_known, basis_or_options, engine_within, memory_bytes, open_rows
from nysketch.basis.base import Basis
from nysketch.basis.options import DEFAULT_CAP, DEFAULT_LANDMARKS, DEFAULT_SAMPLING, BasisOptions
from nysketch.coresets.coreset import Coreset
from nysketch.coresets.from_data import (
    CoresetOptions,
    basis_of,
    coreset_of_source,
    open_with_originals,
    room_to_reduce,
)
from nysketch.coresets.from_sketch import coreset_of_sketch
from nysketch.engines.protocol import Engine
from nysketch.models.mixture import MixtureModel
from nysketch.passes.execution import Execution
from nysketch.sketches.sketch import Sketch
from nysketch.sources.options import ReadOptions


def coreset(
    data: Any,
    functions: int | str = 100,
    *,
    method: str | None = None,
    measure: MixtureModel | Floats | None = None,
    basis: Basis | Sketch | AnyPath | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | Sequence[str] | None = None,
    emphasis: Mapping[str, float] | None = None,
    weights: str | None = None,
    keep: Sequence[str] = (),
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
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> Coreset:
    """Choose a few weighted rows that have the same means of test functions as all rows.

    Parameters
    ----------
    data
        Rows: anything that `sketch` takes; or a Sketch, whose landmarks are chosen from.
    functions : int or "auto"
        Number of test functions whose means agree. There are at most one more rows. "auto" chooses as many as
        it takes for an MMD below the sampling error of the rows, up to 500.
    method : {"mercer", "nystrom"}, optional
        How test functions are chosen. Default: "mercer" if second moments or sampled rows are known.
    measure : MixtureModel or array, optional
        The distribution of the rows, if it is known, for "mercer": a mixture, or the matrix E k(z, x) k(x,
        z') at the landmarks of `basis`.
    basis : Basis, Sketch or path, optional
        The basis to use. A sketch also lends its second moments or sampled rows. By default a basis is made
        from a pilot sample.
    columns, exclude, weights, nulls
        Which columns and rows to read: see `sketch`.
    kinds : mapping of str to str, or list of str, optional
        Kinds of columns that shall be others than by their types, such as {"price": "log",
        "zip": "category", "ts": "hour,weekday"}, or ["price=log", "zip=category"]: "number", "log", "rank",
        "category", "time", or parts of a time: "hour", "weekday", "yearday", "elapsed".
    emphasis : mapping of str to float, optional
        Columns that count more, or less: {"price": 2} doubles what `price` adds to squared distances.
    keep : list of str
        Columns of any type to copy beside the chosen rows.
    landmarks, max_landmarks, sampling, features, frequencies, scale, pilot_rows, seed
        How the basis is made: see `sketch`.
    kernel, bandwidth, degree, offset, length, decay, groups
        The kernel: see `sketch`.
    datasets, allow_external, skip_unreadable, retries, timeout
        How files are read: see `sketch`.
    threads, engine, memory
        Who reads the rows: see `sketch`.
    progress : callable, optional
        Called with the rows that were read, and the rows there are (None if unknown).

    Returns
    -------
    Coreset
        With the chosen `points`, their `weights`, how far they are from all rows, and a bound on that.

    Examples
    --------
    >>> few = nysketch.coreset("logs/*.parquet", 100)
    >>> few.points, few.weights

    """
    if isinstance(data, Sketch):
        return coreset_of_sketch(data, functions, method=method)
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
    given = basis_or_options(as_known(basis), wanted)
    reading = ReadOptions(
        columns=columns,
        exclude=exclude,
        weights=weights,
        keep=keep,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory),
    )
    made = basis_of(given)
    source = open_with_originals(partial(open_rows, data), reading.for_basis(made))
    most = made.m if isinstance(made, Basis) else made.most
    runner, source = engine_within(engine, threads, reading.memory, source, room_to_reduce, functions, most)
    options = CoresetOptions(functions, method, measure, seed, nulls, tuple(reading.keep))
    execution = Execution(runner, progress=progress)
    return coreset_of_source(source, given, options, execution)
