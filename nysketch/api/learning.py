"""`nysketch.learn_kmeans` and `nysketch.learn_gmm`: a sketch → a model, without the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nysketch._support.machine import default_memory
from nysketch._types import Progress
from nysketch.api._data import AnyPath, as_sketch, memory_bytes, open_rows
from nysketch.errors import UsageError
from nysketch.learning.learner import DecodingProgress
from nysketch.learning.to_file import learn, refined
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.refine import require_passes
from nysketch.models.stored import AnyModel
from nysketch.sketches.sketch import Sketch
from nysketch.sources.options import ReadOptions


def learn_kmeans(
    sketch: Sketch | AnyPath | Iterable[Sketch | AnyPath],
    k: int | Iterable[int],
    *,
    decoder: str = "auto",
    trials: int | None = None,
    seed: int = 0,
    robust: int | str | None = None,
    refine: int = 0,
    data: Any = None,
    weights: str | None = None,
    nulls: str = "keep",
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: DecodingProgress | None = None,
    refine_progress: Progress | None = None,
) -> KMeansModel:
    """Learn k centroids from a sketch, without the data.

    Parameters
    ----------
    sketch : Sketch, path, or list of them
        What to learn from. Several are added first.
    k : int or iterable of int
        Number of clusters. Of several, such as `range(2, 21)`, the best by the index of Caliński and
        Harabasz is returned; `model.facts["sweep"]` has them all.
    decoder : {"auto", "cells", "clomp", "shift", "quadrature"}
        How centroids are found. "auto" tries what suits the sketch and keeps the best.
    trials : int, optional
        Random starts. Default: by decoder.
    seed : int
        Seed of everything random.
    robust : {"auto"} or int, optional
        Learn from blocks of rows that agree, by a median of means over this many groups. Tolerates fewer
        than half as many corrupted rows.
    refine : int
        Passes over `data` to refine the model by: exact steps of Lloyd's algorithm.
    data
        Rows to refine on: anything that `sketch` takes.
    weights : str, optional
        Column of row weights of `data`. Default: that of the sketch.
    nulls : {"keep", "error", "drop"}
        Missing values of `data`: take them as such where columns of the model have kinds, and stop where none
        has; stop; or drop these rows. Infinities are errors, unless they are dropped.
    datasets, allow_external, skip_unreadable, retries, timeout
        How files of `data` are read: see `sketch`.
    threads : int, optional
        Threads that read `data`. Default: one per processor, as far as they fit `memory`.
    memory : int or str, optional
        Memory to stay within while reading `data`. Default: an eighth of the memory of the
        machine or its container, but at least 512 MB.
    progress : callable, optional
        Called with the name of a step and a count.
    refine_progress : callable, optional
        Called with the rows of `data` that were read, and the rows there are.

    Returns
    -------
    KMeansModel
        With `centroids` in units of the data, `shares`, `labels(rows)`, and `facts`: mean squared distance,
        certified bound.

    Examples
    --------
    >>> model = nysketch.learn_kmeans(s, 10)
    >>> df["cluster"] = model.labels(df)

    """
    reading = ReadOptions(
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory) or default_memory(),
    )
    options = {"decoder": decoder, "trials": trials, "seed": seed, "robust": robust, "progress": progress}
    rows = {"nulls": nulls, "threads": threads, "memory": reading.memory, "progress": refine_progress}
    model = _learn(sketch, k, {"covariance": None} | options, data, refine, reading, rows)
    assert isinstance(model, KMeansModel)
    return model


def learn_gmm(
    sketch: Sketch | AnyPath | Iterable[Sketch | AnyPath],
    k: int | Iterable[int],
    *,
    covariance: str = "diag",
    decoder: str = "auto",
    trials: int | None = None,
    seed: int = 0,
    robust: int | str | None = None,
    refine: int = 0,
    data: Any = None,
    weights: str | None = None,
    nulls: str = "keep",
    datasets: Sequence[str] = (),
    allow_external: bool = False,
    skip_unreadable: bool = False,
    retries: int | None = None,
    timeout: float | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: DecodingProgress | None = None,
    refine_progress: Progress | None = None,
) -> MixtureModel:
    """Learn a mixture of k Gaussians from a sketch, without the data.

    Parameters
    ----------
    sketch : Sketch, path, or list of them
        What to learn from. Several are added first.
    k : int or iterable of int
        Number of components. Of several, such as `range(2, 21)`, the best by the Bayesian information
        criterion is returned; `model.facts["sweep"]` has them all.
    covariance : {"spherical", "diag", "full"}
        Shape of the components.
    decoder : {"auto", "cells", "clomp", "shift", "quadrature"}
        How components are found. "auto" tries what suits the sketch and keeps the best.
    trials : int, optional
        Random starts. Default: by decoder.
    seed : int
        Seed of everything random.
    robust : {"auto"} or int, optional
        Learn from blocks of rows that agree, by a median of means over this many groups. Tolerates fewer
        than half as many corrupted rows.
    refine : int
        Passes over `data` to refine the model by: exact steps of EM.
    data
        Rows to refine on: anything that `sketch` takes.
    weights : str, optional
        Column of row weights of `data`. Default: that of the sketch.
    nulls : {"keep", "error", "drop"}
        Missing values of `data`: take them as such where columns of the model have kinds, and stop where none
        has; stop; or drop these rows. Infinities are errors, unless they are dropped.
    datasets, allow_external, skip_unreadable, retries, timeout
        How files of `data` are read: see `sketch`.
    threads : int, optional
        Threads that read `data`. Default: one per processor, as far as they fit `memory`.
    memory : int or str, optional
        Memory to stay within while reading `data`. Default: an eighth of the memory of the
        machine or its container, but at least 512 MB.
    progress : callable, optional
        Called with the name of a step and a count.
    refine_progress : callable, optional
        Called with the rows of `data` that were read, and the rows there are.

    Returns
    -------
    MixtureModel
        With `weights`, `means` and `covariances` in units of the data, `labels(rows)`, and `facts`: mean
        log-likelihood, certified bound.

    Examples
    --------
    >>> model = nysketch.learn_gmm("data.nysk", range(2, 21))

    """
    reading = ReadOptions(
        weights=weights,
        datasets=datasets,
        allow_external=allow_external,
        skip_unreadable=skip_unreadable,
        retries=retries,
        timeout=timeout,
        memory=memory_bytes(memory) or default_memory(),
    )
    options = {"decoder": decoder, "trials": trials, "seed": seed, "robust": robust, "progress": progress}
    rows = {"nulls": nulls, "threads": threads, "memory": reading.memory, "progress": refine_progress}
    model = _learn(sketch, k, {"covariance": covariance} | options, data, refine, reading, rows)
    assert isinstance(model, MixtureModel)
    return model


def _learn(
    given: Sketch | AnyPath | Iterable[Sketch | AnyPath],
    k: int | Iterable[int],
    options: dict[str, Any],
    data: Any,
    passes: int,
    reading: ReadOptions,
    rows: dict[str, Any],
) -> AnyModel:
    if (data is None) != (passes == 0):
        raise UsageError("`refine`, the number of passes, and the `data` to read go together")
    sketch = as_sketch(given, "the model")
    if isinstance(k, str):
        raise UsageError(f"`k` must be a number, or several such as range(2, 21), not {k!r}")
    ks = list(k) if isinstance(k, Iterable) else [k]
    source = None
    if data is not None:  # better told now that it cannot be read
        reading = reading.weighted_as(sketch.settings.get("weights"))
        source = open_rows(data, reading.for_basis(sketch.basis))
        require_passes(source, passes)
    model = learn(sketch, ks, **options).best
    if source is None:
        return model
    return refined(model, sketch, source, passes, **rows)
