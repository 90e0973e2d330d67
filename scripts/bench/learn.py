"""How good is what is learned from a sketch? Centroids and mixtures beside what one would use instead.

    scripts/setup bench && .venv/bin/python scripts/bench/learn.py [--data DIR] [--quick] [--json out]

Sections (--sections; all of them unless told otherwise), each a table or two:

  kmeans      k = the k of the data set (below), and k = 50
  mixtures    diagonal Gaussian mixtures, of the sets that have components to find
  landmarks   decoder cells with landmarks chosen in three ways, with the 500 farthest rows and without
  sorted      rows in the order of their clusters: decoders cells and auto, whose centroids must be the same
              to 1e-9, and one-pass mini-batch k-means
  sums        kernel or Fourier sums alone, no cells, no sample, of m = 2kd and 5kd features (mixture10)
  itself      what a model of sums alone says of itself, beside the truth, at m = 0.5 to 5 times its number of
              parameters p (made sets of k = 10): k-means as the ratio of mean squared distances, diagonal
              mixtures as the difference in nats per row; decoder auto, and whether `learn` would say it

Whatever learns is judged on all rows, in the scaled units of the sketch (columns standardised by its pilot);
rows are given to the others in these units too:

  excess      of k-means: its cost, the sum of squared distances, over that of "all rows", in percent; of
              mixtures: negative log-likelihood beyond that of "all rows", in nats per row. Below 0 is better
              than "all rows", which may end in a local minimum. Median of the seeds (least to greatest)
  seconds     CPU time of learning alone, one thread, median: of rows in memory, or of a loaded sketch. What
              the pass before it takes, with its pilot, is in the table of data sets
  bytes       what has to be kept to learn from: a sketch's file, or rows × columns × 8 (FAISS: 4); of one
              pass over rows that are not kept, the centroids
  bound/cost  what the sketch certifies of its centroids, an upper bound on their cost, over their cost

  all rows    scikit-learn's KMeans, 10 restarts (3 at k = 50); GaussianMixture, 5 restarts, tol 1e-5
  m rows      the same with 10 restarts, on as many rows as there are landmarks, drawn uniformly
  equal bytes the same with 10 restarts, on as many uniform rows as the sketch's file has room for
  landmarks   the same with 10 restarts, on the landmarks themselves, which are no uniform sample
  mini-batch  MiniBatchKMeans.partial_fit, batches of 1024, one pass; "sorted" by the clusters of "all rows"
  FAISS       faiss.Kmeans with its defaults (25 steps, one start, 256 rows per centroid), if it is installed
  auto, cells, quadrature, clomp, shift            decoders, of a sketch with default settings
  Fourier quadrature, Fourier clomp                decoders, of as many Fourier features

So that all of it takes half an hour: clomp and shift, of either kind of features, are run on mixture10 only,
and so is "sorted" at k = 50 (--thorough: both everywhere); "landmarks" is run for the first three seeds.

Data sets are made, anew for each seed, of 100,000 rows; "centres" are drawn from N(0, (2 k^(1/d))² I):

  mixture10   k = 10 centres, d = 10, N(0, I) around them
  mixture20   k = 20, d = 30
  widths      k = d = 10, deviations log-uniform in [0.5, 2] for each component and column, shares from
              Dirichlet(5); for mixtures only
  uneven      mixture10 with shares from 40 % down to 0.4 %
  tails       mixture10 with Student's t of 3 degrees of freedom around the centres
  outliers    mixture10 with 20 of its rows multiplied by 1000

or come with scikit-learn (digits), or from the Parquet files of --data, numeric columns of complete rows.
Of these k = 10. No mixtures are learned from them: their columns have few values, so that the likelihood has
no bound.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import sklearn  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy.spatial.distance import cdist  # noqa: E402
from sklearn.cluster import KMeans, MiniBatchKMeans  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.mixture import GaussianMixture  # noqa: E402
from tqdm import tqdm  # noqa: E402

import nysketch  # noqa: E402
from nysketch import learn_gmm, learn_kmeans  # noqa: E402
from nysketch.learning.decode import em  # noqa: E402
from nysketch.learning.decode.decoders import Task  # noqa: E402
from nysketch.learning.decode.evidence import Evidence  # noqa: E402
from nysketch.learning.decode.points import Points  # noqa: E402
from nysketch.learning.decode.select import Judge, candidates  # noqa: E402
from nysketch.models.kmeans import KMeansModel  # noqa: E402
from nysketch.models.mixture import MixtureModel  # noqa: E402

try:
    import faiss
except ImportError:
    faiss = None

Floats = NDArray[np.float64]
Random = np.random.Generator
Result = dict[str, Any]

MANY = 50  # clusters
RESTARTS = 10
# Of all rows. At k = 50 the best of three is good to a percent: two such runs on taxi trips differ by 0.8 %.
RESTARTS_AT_MANY, RESTARTS_OF_MIXTURES = 3, 5
LANDMARK_SEEDS = ITSELF_SEEDS = 3
# Sums of rows in another order may differ in their last bit; 1 of 5 small tables moved a centroid by 4e-11.
SAME = 1e-9
BATCH = 1024
FEWEST_ROWS = 1000  # of a file worth looking at


def centres(rng: Random, k: int, d: int) -> Floats:
    return 2 * k ** (1 / d) * rng.standard_normal((k, d))


def mixture(rng: Random, rows: int, *, k: int, d: int) -> Floats:
    return centres(rng, k, d)[rng.integers(k, size=rows)] + rng.standard_normal((rows, d))


def widths(rng: Random, rows: int) -> Floats:
    means, deviations = centres(rng, 10, 10), np.exp(rng.uniform(np.log(0.5), np.log(2), (10, 10)))
    which = rng.choice(10, rows, p=rng.dirichlet(np.full(10, 5.0)))
    return means[which] + deviations[which] * rng.standard_normal((rows, 10))


def uneven(rng: Random, rows: int) -> Floats:
    shares = np.geomspace(0.4, 0.004, 10)
    which = rng.choice(10, rows, p=shares / shares.sum())
    return centres(rng, 10, 10)[which] + rng.standard_normal((rows, 10))


def tails(rng: Random, rows: int) -> Floats:
    return centres(rng, 10, 10)[rng.integers(10, size=rows)] + rng.standard_t(3, (rows, 10))


def outliers(rng: Random, rows: int) -> Floats:
    made = mixture(rng, rows, k=10, d=10)
    made[rng.choice(rows, 20, replace=False)] *= 1000
    return made


@dataclass(frozen=True)
class DataSet:
    """Where rows come from, and what is worth doing with them."""

    draw: Callable[[Random, int], Floats]
    k: int = 10
    kmeans: bool = True
    mixtures: bool = False
    slow: int = 0  # at how many of the two numbers of clusters to do what takes long
    rows: int = 100_000

    def ks(self, options: argparse.Namespace) -> list[int]:
        """The numbers of clusters to look for."""
        return [self.k, options.many]


MADE = {
    "mixture10": DataSet(partial(mixture, k=10, d=10), mixtures=True, slow=2),
    "mixture20": DataSet(partial(mixture, k=20, d=30), k=20, mixtures=True),
    "widths": DataSet(widths, kmeans=False, mixtures=True),
    "uneven": DataSet(uneven, mixtures=True),
    "tails": DataSet(tails, mixtures=True),
    "outliers": DataSet(outliers),
}


def given(rows: Floats, **settings: Any) -> DataSet:
    return DataSet(lambda rng, count: rng.permutation(rows)[:count], rows=len(rows), **settings)


def read_table(path: Path) -> Floats | None:
    """Return the complete rows of a file, or None (and say so) if there are too few numbers in it."""
    table = pq.read_table(path)
    numeric = [
        field.name
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    ]
    columns = [table[name].to_numpy().astype(np.float64) for name in numeric]
    rows = np.column_stack(columns) if columns else np.empty((0, 0))
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows) < FEWEST_ROWS:
        print(f"{path.name}: left out, {len(rows):,} rows of {len(numeric)} numbers", file=sys.stderr)
        return None
    return rows


def data_sets(options: argparse.Namespace) -> dict[str, DataSet]:
    """Return the data sets that were asked for."""
    found = MADE | {"digits": given(load_digits().data)}
    if options.data is not None:
        paths = sorted(options.data.glob("*.parquet"))
        if not paths:
            print(f"{options.data}: no Parquet files there; other data only", file=sys.stderr)
        for path in paths:
            rows = read_table(path) if not options.sets or path.stem in options.sets else None
            if rows is not None:
                found[path.stem] = given(rows)
    for name in options.sets or ():
        if name not in found:
            raise SystemExit(f"there is no data set {name}, only {', '.join(found)}")
    return {name: found[name] for name in options.sets or found}


@dataclass(frozen=True)
class Job:
    """Work to be timed, and the bytes that must be there to do it."""

    work: Callable[[], Any]
    bytes: int


@dataclass(frozen=True)
class Saved:
    """A sketch, and the bytes of its file."""

    sketch: nysketch.Sketch
    bytes: int

    def kmeans(self, k: int, decoder: str, seed: int) -> Job:
        """Learn centroids from it."""
        return Job(lambda: learn_kmeans(self.sketch, k, decoder=decoder, seed=seed), self.bytes)

    def mixture(self, k: int, decoder: str, seed: int) -> Job:
        """Learn a mixture from it."""
        return Job(lambda: learn_gmm(self.sketch, k, decoder=decoder, seed=seed), self.bytes)


class Case:
    """The rows of a data set for one seed, their sketches, and what was learned already."""

    def __init__(self, name: str, data: DataSet, seed: int, options: argparse.Namespace) -> None:
        self.name, self.data, self.seed, self.options = name, data, seed, options
        self.slow = 2 if options.thorough else data.slow
        rows = min(data.rows, options.rows or data.rows)
        self.rows = data.draw(np.random.default_rng([seed, 99]), rows)
        self._sketches: dict[tuple[Any, ...], Saved] = {}
        self._found: dict[tuple[Any, ...], Result] = {}

    def sketch(self, **settings: Any) -> Saved:
        """Return a sketch of all rows; each is made once."""
        key = tuple(sorted(settings.items()))
        if key not in self._sketches:
            self._sketches[key] = self.made(self.rows, **{"landmarks": self.options.landmarks} | settings)
        return self._sketches[key]

    def made(self, rows: Floats, **settings: Any) -> Saved:
        """Make a sketch and return it as it comes from a file, with the file's size."""
        sketch = nysketch.sketch(rows, seed=self.seed, threads=1, **settings)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s.nysk"
            nysketch.save(sketch, path)
            return Saved(nysketch.load(path), path.stat().st_size)

    @cached_property
    def sketch_seconds(self) -> float:
        """CPU seconds of the pass with its pilot."""
        start = time.process_time()
        self.sketch()
        return time.process_time() - start

    @cached_property
    def basis(self) -> nysketch.Basis:
        """The basis of the sketch with default settings: its units are those of all costs."""
        return self.sketch().sketch.basis

    @cached_property
    def scaled(self) -> Floats:
        """All rows in these units."""
        return np.asarray(self.basis.transform(self.rows))

    def sample(self, count: int) -> Floats:
        """Draw scaled rows uniformly, or give all if there are no more."""
        rng = np.random.default_rng([self.seed, count])
        return self.scaled[rng.choice(len(self.scaled), min(count, len(self.scaled)), replace=False)]

    def order(self, k: int) -> NDArray[np.intp]:
        """The order of the clusters of "all rows"."""
        centroids = self.kmeans("all rows", k)["centroids"]
        labels = np.concatenate([cdist(part, centroids).argmin(axis=1) for part in _parts(self.scaled)])
        return np.argsort(labels, kind="stable")

    def cost(self, centroids: Floats) -> float:
        """The mean squared distance of all rows to the nearest centroid."""
        parts = _parts(self.scaled)
        return sum(cdist(part, centroids, "sqeuclidean").min(axis=1).sum() for part in parts) / len(self.rows)

    def kmeans(self, method: str, k: int) -> Result:
        """Return what a method of KMEANS has found; each is run once."""
        if (method, k) not in self._found:
            self._found[method, k] = self.judged(KMEANS[method](self, k))
        return self._found[method, k]

    def judged(self, job: Job) -> Result:
        """Learn centroids and return them (scaled) with their cost, seconds and bytes."""
        learned, seconds = timed(job.work)
        bound = None
        if isinstance(learned, KMeansModel):
            bound = learned.facts["certified_bound"]
            learned = (learned.centroids - self.basis.center) / self.basis.scale
        cost = self.cost(learned)
        found = {"centroids": learned, "cost": cost, "seconds": seconds, "bytes": job.bytes}
        return found if bound is None else found | {"bound": bound / cost}

    def excess(self, found: Result, k: int) -> Result:
        """Return what of a result goes into tables, with the excess over "all rows"."""
        listed = {name: value for name, value in found.items() if name != "centroids"}
        excess = 100 * (found["cost"] / self.kmeans("all rows", k)["cost"] - 1)
        return listed | {"set": self.name, "seed": self.seed, "k": k, "excess": excess}

    def mixture(self, method: str) -> Result:
        """Return what a method of MIXTURES has found, judged by the mean of −log p(x)."""
        if (method,) not in self._found:
            job = MIXTURES[method](self, self.data.k)
            model, seconds = timed(job.work)
            if isinstance(model, MixtureModel):
                cost = float(model.costs(self.rows).mean() - np.log(self.basis.scale).sum())
            else:
                cost = -float(model.score(self.scaled))
            self._found[method,] = {"cost": cost, "seconds": seconds, "bytes": job.bytes}
        return self._found[method,]


def _parts(rows: Floats) -> Iterable[Floats]:
    return (rows[start : start + 2000] for start in range(0, len(rows), 2000))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = work()
    return result, time.process_time() - start


Method = Callable[[Case, int], Job]


def kmeans_of(rows: Floats, k: int, restarts: int, seed: int) -> Job:
    model = KMeans(k, n_init=restarts, random_state=seed)
    return Job(lambda: model.fit(rows).cluster_centers_, rows.nbytes)


def mixture_of(rows: Floats, k: int, restarts: int, seed: int) -> Job:
    model = GaussianMixture(
        k, covariance_type="diag", n_init=restarts, tol=1e-5, max_iter=300, random_state=seed
    )
    return Job(lambda: model.fit(rows), rows.nbytes)


def all_rows(case: Case, k: int) -> Job:
    return kmeans_of(case.scaled, k, RESTARTS if k < MANY else RESTARTS_AT_MANY, case.seed)


def equal_bytes(case: Case) -> Floats:
    return case.sample(case.sketch().bytes // (8 * case.scaled.shape[1]))


def on_landmarks(case: Case, k: int) -> Job:
    return kmeans_of(np.asarray(case.basis.scaled_landmarks), k, RESTARTS, case.seed)


def mini_batch(case: Case, k: int, *, in_order: bool) -> Job:
    order = case.order(k) if in_order else np.arange(len(case.rows))

    def one_pass() -> Floats:
        model = MiniBatchKMeans(k, batch_size=BATCH, random_state=case.seed)
        for start in range(0, len(order), BATCH):
            model.partial_fit(case.scaled[order[start : start + BATCH]])
        return model.cluster_centers_

    return Job(one_pass, 8 * k * case.scaled.shape[1])


def faiss_kmeans(case: Case, k: int) -> Job:
    rows = case.scaled.astype(np.float32)

    def train() -> Floats:
        model = faiss.Kmeans(rows.shape[1], k, seed=case.seed + 1)
        model.train(rows)
        return model.centroids.astype(np.float64)

    return Job(train, rows.nbytes)


def decoded(case: Case, k: int, *, decoder: str, **settings: Any) -> Job:
    return case.sketch(**settings).kmeans(k, decoder, case.seed)


def decoded_mixture(case: Case, k: int, *, decoder: str) -> Job:
    return case.sketch().mixture(k, decoder, case.seed)


KMEANS: dict[str, Method] = {
    "all rows": all_rows,
    "FAISS": faiss_kmeans,
    "mini-batch": partial(mini_batch, in_order=False),
    "mini-batch, sorted": partial(mini_batch, in_order=True),
    "m rows": lambda case, k: kmeans_of(case.sample(case.basis.m), k, RESTARTS, case.seed),
    "equal bytes": lambda case, k: kmeans_of(equal_bytes(case), k, RESTARTS, case.seed),
    "landmarks": on_landmarks,
    **{name: partial(decoded, decoder=name) for name in ("auto", "cells", "quadrature", "clomp", "shift")},
    **{
        f"Fourier {name}": partial(decoded, decoder=name, features="fourier")
        for name in ("quadrature", "clomp")
    },
}
SLOW = ("clomp", "shift", "Fourier clomp")

MIXTURES: dict[str, Method] = {
    "all rows": lambda case, k: mixture_of(case.scaled, k, RESTARTS_OF_MIXTURES, case.seed),
    "m rows": lambda case, k: mixture_of(case.sample(case.basis.m), k, RESTARTS, case.seed),
    "equal bytes": lambda case, k: mixture_of(equal_bytes(case), k, RESTARTS, case.seed),
    **{name: partial(decoded_mixture, decoder=name) for name in ("auto", "cells", "quadrature")},
}


def run_kmeans(case: Case) -> Iterator[Result]:
    for number, k in enumerate(case.data.ks(case.options)):
        for method in KMEANS:
            if (method == "FAISS" and faiss is None) or (method in SLOW and number >= case.slow):
                continue
            yield case.excess(case.kmeans(method, k), k) | {"method": method}


def run_mixtures(case: Case) -> Iterator[Result]:
    if case.data.mixtures:
        for method in MIXTURES:
            found = case.mixture(method)
            excess = found["cost"] - case.mixture("all rows")["cost"]
            key = {"set": case.name, "seed": case.seed, "k": case.data.k, "method": method}
            yield key | found | {"excess": excess}


def run_landmarks(case: Case) -> Iterator[Result]:
    if case.seed >= LANDMARK_SEEDS:
        return
    for sampling in ("uniform", "kmeans++", "kmeans"):
        with_far = case.sketch() if sampling == "kmeans++" else case.sketch(sampling=sampling)
        without = case.made(case.rows, basis=with_far.sketch.basis, far_rows=0)
        for sketch, method in ((with_far, sampling), (without, f"{sampling}, no far rows")):
            for k in case.data.ks(case.options):
                known = method == "kmeans++"  # the default: it may have been decoded already
                found = (
                    case.kmeans("cells", k) if known else case.judged(sketch.kmeans(k, "cells", case.seed))
                )
                yield case.excess(found, k) | {"method": method}


def run_sorted(case: Case) -> Iterator[Result]:
    for k in case.data.ks(case.options)[: max(case.slow, 1)]:
        for method in ("mini-batch", "mini-batch, sorted", "cells", "auto"):
            yield case.excess(case.kmeans(method, k), k) | {"method": method}
        in_order = case.made(case.rows[case.order(k)], basis=case.basis)
        for decoder in ("cells", "auto"):
            found = case.judged(in_order.kmeans(k, decoder, case.seed))
            shift = float(np.abs(case.kmeans(decoder, k)["centroids"] - found["centroids"]).max())
            yield case.excess(found, k) | {"method": f"{decoder}, sorted", "shift": shift}


def span_sums(case: Case) -> Iterator[Result]:
    if case.name != "mixture10":
        return
    k, d = case.data.k, case.scaled.shape[1]
    for factor in (2, 5):
        m = factor * k * d
        key = {"m": f"{factor}kd"}
        rows = case.judged(kmeans_of(case.sample(m), k, RESTARTS, case.seed))
        yield case.excess(rows, k) | key | {"method": "m rows"}
        for features in ("nystrom", "fourier"):
            for decoder in ("quadrature", "clomp"):
                settings = {"landmarks": m, "features": features, "cells": False, "sample_rows": 0}
                found = case.judged(decoded(case, k, decoder=decoder, **settings))
                name = decoder if features == "nystrom" else f"Fourier {decoder}"
                yield case.excess(found, k) | key | {"method": name}


def run_itself(case: Case) -> Iterator[Result]:
    if case.name not in MADE or case.data.k != 10 or case.seed >= ITSELF_SEEDS:
        return
    k, d = case.data.k, case.rows.shape[1]
    for covariance, parameters in ((None, k * (d + 1)), ("diag", k * (2 * d + 1) - 1)):
        for factor in (0.5, 0.9, 1.2, 2, 5):
            settings = {"landmarks": int(factor * parameters), "cells": False, "sample_rows": 0}
            sketch = case.sketch(**settings, far_rows=0).sketch
            evidence = Evidence(sketch)
            judge = Judge(evidence, covariance, case.seed)
            task = Task(k, covariance)
            found = candidates(evidence, task, "auto", judge, case.seed, lambda _: lambda: None)
            best = judge.best(found)
            rows = np.asarray(sketch.basis.transform(case.rows))
            if covariance is None:
                sums = (
                    cdist(part, best.mixture.means, "sqeuclidean").min(axis=1).sum() for part in _parts(rows)
                )
                excess = best.scores.estimate / (sum(sums) / len(rows))
            else:
                excess = best.scores.estimate - em.log_likelihood(Points.of_rows(rows), best.mixture)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", nysketch.NysketchWarning)
                learn = learn_kmeans if covariance is None else learn_gmm
                said = learn(sketch, k, seed=case.seed).facts["not_estimated"] is None
            yield {
                "set": case.name,
                "model": "k-means" if covariance is None else "mixture",
                "m": f"{factor} p",
                "method": "auto",
                "seed": case.seed,
                "rank": sketch.rank / parameters,
                "objective": best.scores.objective,
                "excess": float(excess),
                "said": said,
            }


SECTIONS: dict[str, Callable[[Case], Iterator[Result]]] = {
    "kmeans": run_kmeans,
    "mixtures": run_mixtures,
    "landmarks": run_landmarks,
    "sorted": run_sorted,
    "sums": span_sums,
    "itself": run_itself,
}


def run_set(name: str, data: DataSet, options: argparse.Namespace, bar: Any) -> list[Result]:
    """Return what was measured on one data set, with the section each entry belongs to."""
    results: list[Result] = []
    for seed in range(options.seeds):
        case = Case(name, data, seed, options)
        n, d = case.rows.shape
        about = {"rows": n, "d": d, "seconds": case.sketch_seconds, "bytes": case.sketch().bytes}
        results.append({"section": "sets", "set": name, "seed": seed} | about)
        for section in options.sections:
            bar.set_postfix_str(f"{name}, seed {seed}, {section}")
            if data.kmeans or section in ("mixtures", "itself"):
                results += [{"section": section} | found for found in SECTIONS[section](case)]
            bar.update()
    return results


def middle(results: list[Result], value: str) -> float:
    return float(np.median([r[value] for r in results]))


def spread(results: list[Result], form: str) -> str:
    """Return the median of the excess, and the least and the greatest if there are several seeds."""
    values = [r["excess"] for r in results]
    ends = [form.format(v) for v in (np.median(values), min(values), max(values))]
    return ends[0] if len(values) == 1 else f"{ends[0]} ({ends[1]} to {ends[2]})"


def size(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def grouped(results: list[Result], *names: str) -> dict[tuple[Any, ...], list[Result]]:
    """Return the seeds of each combination, in the order of appearance."""
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for r in results:
        groups.setdefault(tuple(r[name] for name in names), []).append(r)
    return groups


def print_rows(title: str, header: list[str], rows: Iterable[list[str]]) -> None:
    print(f"\n{title}:\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_sets(results: list[Result]) -> None:
    rows = [
        [
            name,
            f"{of_set[0]['rows']:,}",
            str(of_set[0]["d"]),
            f"{middle(of_set, 'seconds'):.2f}",
            size(middle(of_set, "bytes")),
        ]
        for (name,), of_set in grouped(results, "set").items()
    ]
    print_rows("Data sets and their sketches", ["data", "rows", "d", "seconds of the pass", "bytes"], rows)


def print_long(title: str, results: list[Result], form: str) -> None:
    """Print one line for each data set, number of clusters and method."""
    bounds = any("bound" in r for r in results)
    rows = []
    for (name, k, method), seeds in grouped(results, "set", "k", "method").items():
        row = [name, str(k), method, spread(seeds, form), f"{middle(seeds, 'seconds'):.2f}"]
        row.append(size(middle(seeds, "bytes")))
        if bounds:
            row.append(f"{middle(seeds, 'bound'):.3f}" if "bound" in seeds[0] else "")
        rows.append(row)
    header = ["data", "k", "method", "excess", "seconds", "bytes"] + ["bound/cost"] * bounds
    print_rows(title, header, rows)


def print_wide(title: str, results: list[Result], form: str, by: tuple[str, ...], spreads: bool) -> None:
    """Print one line for each data set, and a column for each method."""
    methods = list(dict.fromkeys(r["method"] for r in results))
    rows = []
    for key, of_row in grouped(results, *by).items():
        cells = grouped(of_row, "method")
        shown = [
            "" if (m,) not in cells
            else spread(cells[m,], form) if spreads
            else form.format(middle(cells[m,], "excess"))
            for m in methods
        ]  # fmt: skip
        rows.append([*map(str, key), *shown])
    print_rows(title, [*("data" if name == "set" else name for name in by), *methods], rows)


def print_sorted(results: list[Result]) -> None:
    print_wide("Rows sorted by cluster: excess, %", results, "{:.2f}", ("set", "k"), spreads=True)
    shifts = [r["shift"] for r in results if "shift" in r]
    print(
        f"\nCentroids of sorted and unsorted rows are identical to the last bit in {shifts.count(0.0)} of "
        f"{len(shifts)} cases; the largest difference is {max(shifts):.1e} (scaled units)."
    )


def print_itself(results: list[Result]) -> None:
    rows = [
        [
            *key,
            spread(seeds, "{:.2f}"),
            f"{middle(seeds, 'rank'):.2f}",
            f"{middle(seeds, 'objective'):.2g}",
            f"{sum(r['said'] for r in seeds)} of {len(seeds)}",
        ]
        for key, seeds in grouped(results, "set", "model", "m").items()
    ]
    header = ["data", "model", "m", "said / true, or said − true", "sums / p", "objective", "said"]
    print_rows("What a model says of itself", header, rows)


def print_results(results: list[Result]) -> None:
    sections = {name: of_one for (name,), of_one in grouped(results, "section").items()}
    print_sets(sections["sets"])
    if "kmeans" in sections:
        print_long("k-means: excess in %", sections["kmeans"], "{:.2f}")
        title = "k-means: excess in %, medians"
        print_wide(title, sections["kmeans"], "{:.1f}", ("set", "k"), spreads=False)
    if "mixtures" in sections:
        print_long("Mixtures: excess in nats per row", sections["mixtures"], "{:.4f}")
    if "landmarks" in sections:
        title = "Landmarks for cells: excess of k-means in %"
        print_wide(title, sections["landmarks"], "{:.1f}", ("set", "k"), spreads=True)
    if "sorted" in sections:
        print_sorted(sections["sorted"])
    if "sums" in sections:
        title = "Sums alone: excess of k-means in %"
        print_wide(title, sections["sums"], "{:.2f}", ("set", "k", "m"), spreads=True)
    if "itself" in sections:
        print_itself(sections["itself"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a folder of Parquet files")
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="these only; files by name without .parquet"
    )
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=[*SECTIONS], metavar="NAME")
    parser.add_argument("--rows", type=int, help="of a data set, at most")
    parser.add_argument("--landmarks", type=int, default=1000, metavar="M")
    parser.add_argument("--many", type=int, default=MANY, metavar="K", help="the larger number of clusters")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--thorough", action="store_true", help="also what takes long, everywhere")
    parser.add_argument(
        "--quick", action="store_true", help="few rows and landmarks, three sets, one seed: a minute"
    )
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    if options.quick:
        options.rows, options.landmarks, options.many, options.seeds = 3000, 100, 15, 1
        options.sets = options.sets or ["mixture10", "widths", "tails"]
    return options


def main() -> None:
    options = parse()
    sets = data_sets(options)
    nysketch.sketch(np.arange(500.0)[:, None], landmarks=10, threads=1)  # compiled code is loaded
    results: list[Result] = []
    total = len(sets) * options.seeds * len(options.sections)
    with tqdm(total=total, file=sys.stderr, disable=None, unit="section") as bar:
        for name, data in sets.items():
            results += run_set(name, data, options, bar)
            if options.json:  # after each set: it takes long
                options.json.write_text(json.dumps(results, indent=1, sort_keys=True))
    print(
        f"{platform.machine()}, one thread, NumPy {np.__version__}, scikit-learn {sklearn.__version__}, "
        f"{'no FAISS' if faiss is None else f'FAISS {faiss.__version__}'}; m = {options.landmarks}, "
        f"{options.seeds} seed(s)"
    )
    print_results(results)
    moved = [f"{r['set']}, seed {r['seed']}, k = {r['k']}" for r in results if r.get("shift", 0.0) > SAME]
    if moved:
        raise SystemExit(f"the order of rows shows in the centroids: {'; '.join(moved)}")


if __name__ == "__main__":
    main()
