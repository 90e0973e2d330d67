"""How fast is the pass? Rows per second of nysketch beside what one would write or install instead.

    scripts/setup bench && .venv/bin/python scripts/bench/sketch.py [--rows 200000] [--threads 1] [--json out]

Every contender sums the Gaussian kernel of the same float32 rows at the same landmarks, on the same number
of threads, in one run; sums are checked against each other. Times are CPU seconds, the best of --repeat.

  nysketch     this package: `nysketch.sketch` with a basis that is there already
  sklearn      sklearn.kernel_approximation.Nystroem.transform, summed by chunks
  keops        pykeops LazyTensor on the CPU, one reduction per chunk
  numpy        float32 matrix product and np.exp on tiles that fit the cache, summed
  floor        the matrix product alone plus the fused exponential and sum alone, on a tile already in cache:
               no reading, no packing, no blocks

"memory" starts from an array; "parquet" reads a Parquet file of float32 columns batch by batch, which
every contender does through the same pyarrow reader.

To see what a processor without AVX-512 would give, for all contenders, set before the run

    OPENBLAS_CORETYPE=Haswell
    NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
    NUMBA_CPU_NAME=haswell
    NUMBA_CPU_FEATURES=+avx2,+fma,+avx,+bmi,+bmi2,+popcnt,+sse4.2
    NUMBA_CACHE_DIR=$(mktemp -d)
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=200_000)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--repeat", type=int, default=5)
parser.add_argument("--dims", type=int, nargs="+", default=[2, 10, 50])
parser.add_argument("--landmarks", type=int, nargs="+", default=[100, 1000])
parser.add_argument("--json", type=Path, help="also write the numbers here")
options = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(options.threads)  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import nysketch  # noqa: E402
from nysketch.tiles import gaussian  # noqa: E402

CHUNK = 8192
Sums = Callable[[Iterator[Any]], Any]


def best(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Return the least CPU seconds of several runs, and the result."""
    seconds, result = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        result = work()
        seconds = min(seconds, time.process_time() - start)
    return seconds, result


def from_array(X: Any) -> Iterator[Any]:
    for start in range(0, len(X), CHUNK):
        yield X[start : start + CHUNK]


def from_parquet(path: Path) -> Iterator[Any]:
    file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    for batch in file.iter_batches(batch_size=CHUNK, use_threads=False):
        yield np.column_stack([column.to_numpy() for column in batch.columns])


def sklearn_sums(basis: nysketch.Basis) -> Sums:
    from sklearn.kernel_approximation import Nystroem

    Z = basis.transform(basis.landmarks).astype(np.float32)
    model = Nystroem(gamma=0.5 / basis.kernel.bandwidth**2, n_components=len(Z), random_state=0).fit(Z)
    # features → kernel sums: undo the normalisation K^(-1/2), so that all contenders give the same numbers
    eigenvalues, vectors = np.linalg.eigh(basis.gram()[np.ix_(*[model.component_indices_] * 2)])
    back = (vectors * np.sqrt(np.maximum(eigenvalues, 0))) @ vectors.T

    def sums(chunks: Iterator[Any]) -> Any:
        total = np.zeros(len(Z))
        for chunk in chunks:
            total += model.transform(basis.transform(chunk).astype(np.float32)).sum(axis=0)
        return (total @ back)[np.argsort(model.component_indices_)]

    return sums


def keops_sums(basis: nysketch.Basis) -> Sums:
    from pykeops.numpy import LazyTensor

    Z = basis.transform(basis.landmarks).astype(np.float32)
    gamma = 0.5 / basis.kernel.bandwidth**2

    def sums(chunks: Iterator[Any]) -> Any:
        z = LazyTensor(Z[:, None, :])
        total = np.zeros(len(Z))
        for chunk in chunks:
            x = LazyTensor(np.ascontiguousarray(basis.transform(chunk), np.float32)[None, :, :])
            total += (-((z - x) ** 2).sum(-1) * gamma).exp().sum(1).ravel()
        return total

    return sums


def numpy_sums(basis: nysketch.Basis) -> Sums:
    factor = 1 / basis.kernel.bandwidth
    Z = basis.transform(basis.landmarks) * factor
    landmarks = np.vstack([Z.T, np.ones(len(Z)), -0.5 * (Z**2).sum(axis=1)]).astype(np.float32)
    step = max(16, (1 << 18) // (4 * len(Z)))
    tile = np.empty((step, len(Z)), np.float32)

    def sums(chunks: Iterator[Any]) -> Any:
        total = np.zeros(len(Z))
        for chunk in chunks:
            x = (basis.transform(chunk) * factor).astype(np.float32)
            norms = -0.5 * np.einsum("ij,ij->i", x, x)
            rows = np.column_stack([x, norms, np.ones(len(x), np.float32)])
            for start in range(0, len(rows), step):
                part = rows[start : start + step]
                values = np.matmul(part, landmarks, out=tile[: len(part)])
                np.exp(values, out=values)
                total += values.sum(axis=0)
        return total

    return sums


def floor_seconds(basis: nysketch.Basis, rows: int, repeat: int) -> tuple[float, float]:
    """Return CPU seconds of the matrix product alone and of the exponential and sum alone."""
    summer = gaussian.GaussianTiles(basis, np.full(basis.d, basis.kernel.bandwidth))
    ws = summer.workspace(summer.tile_rows)
    rng = np.random.default_rng(0)
    ws.packed[:-1] = 0.1 * rng.standard_normal(ws.packed[:-1].shape)
    step = summer.tile_rows
    count = rows // step
    part = ws.packed[:, :step].T
    blocks, weights, sums = np.zeros(step, np.int64), np.ones(step), np.zeros((1, basis.m))

    def product() -> None:
        for _ in range(count):
            summer._product(part, ws.tile)

    def exponential() -> float:
        spent = 0.0
        for _ in range(count):
            summer._product(part, ws.tile)
            start = time.process_time()
            gaussian._add_tile(ws.tile, blocks, weights, sums)
            spent += time.process_time() - start
        return spent

    product()
    return best(product, repeat)[0], min(exponential() for _ in range(repeat))


def compare(d: int, m: int, folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng([d, m])
    X = rng.standard_normal((options.rows, d), dtype=np.float32)
    path = folder / f"{d}.parquet"
    pq.write_table(pa.table({f"x{i}": column for i, column in enumerate(X.T)}), path, row_group_size=50_000)
    basis = nysketch.Basis.fit(X[:20_000], landmarks=m)
    contenders: dict[str, Sums] = {"sklearn": sklearn_sums(basis), "numpy": numpy_sums(basis)}
    try:
        contenders["keops"] = keops_sums(basis)
    except ImportError as error:
        print(f"keops left out: {error}", file=sys.stderr)
    result: dict[str, Any] = {"d": d, "m": m, "rows": options.rows, "threads": options.threads}
    for where, chunks, source in (
        ("memory", lambda: from_array(X), X),
        ("parquet", lambda: from_parquet(path), path),
    ):

        def ours(source: Any = source) -> Any:
            return nysketch.sketch(source, basis=basis, threads=options.threads).kernel_sums

        ours()  # compiled code is loaded
        seconds, expected = best(ours, options.repeat)
        result[where] = {"nysketch": seconds}
        for name, sums in contenders.items():
            sums(iter([X[:CHUNK]]))  # warm up, compile
            repeat = options.repeat if name == "numpy" else 2  # the others take long, and are not close
            result[where][name], found = best(lambda s=sums, c=chunks: s(c()), repeat)
            error = np.max(np.abs(found / expected - 1))
            # scikit-learn loses digits in K^(-1/2) where the kernel matrix is nearly singular (d = 2)
            if error > (2e-2 if name == "sklearn" else 1e-4):
                raise SystemExit(f"{name} disagrees by {error:.1e} at d = {d}, m = {m}")
    result["gemm"], result["exp"] = floor_seconds(basis, options.rows, options.repeat)
    return result


def table(results: list[dict[str, Any]]) -> None:
    print("| d | m | from | Mrows/s | × sklearn | × keops | × numpy | % of floor | floor: GEMM + exp (s) |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in results:
        for where in ("memory", "parquet"):
            t = r[where]
            ratio = {
                k: f"{t[k] / t['nysketch']:.1f}" if k in t else "–" for k in ("sklearn", "keops", "numpy")
            }
            floor = r["gemm"] + r["exp"]
            print(
                f"| {r['d']} | {r['m']} | {where} | {r['rows'] / t['nysketch'] / 1e6:.2f} "
                f"| {ratio['sklearn']} | {ratio['keops']} | {ratio['numpy']} "
                f"| {100 * floor / t['nysketch']:.0f} | {r['gemm']:.3f} + {r['exp']:.3f} |",
                flush=True,
            )


def main() -> None:
    import numba
    import threadpoolctl

    print(
        f"{platform.machine()}, {options.threads} thread(s), Python {platform.python_version()}, "
        f"NumPy {np.__version__}, numba {numba.__version__}, "
        f"BLAS {threadpoolctl.threadpool_info()[0].get('architecture')}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(d, m, Path(folder)) for d in options.dims for m in options.landmarks]
    table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True))


main()
