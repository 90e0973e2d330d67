"""How much memory do commands take, and is it what --memory allows? Peak resident memory of whole processes.

    scripts/setup && .venv/bin/python scripts/bench/memory.py [--only NAME ...] [--software CHECKOUT ...]

Every case is a file, a command and a budget, in a folder that is deleted afterwards. The peak is the kernel's
own high-water mark of the process, so that it does not depend on how busy the machine is. Where a command
refuses because its budget is too small, it is run again with the number that it names. --software names
checkouts of other versions of this package to run the same commands with; --cold compiles everything anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as pafeather
import pyarrow.parquet as pq

import nysketch
from nysketch.models.files import save_model

HERE = Path(nysketch.__file__).parent.parent
MB = 10**6
WATCHED = """
import atexit, re, sys
from pathlib import Path
from nysketch.cli import main
def peak():
    found = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    print("PEAK", 1024 * int(found.group(1)), file=sys.stderr)
atexit.register(peak)
main()
"""


# ---- files -------------------------------------------------------------------------------------------


def noise(rows: int, dtype: str = "f8", seed: int = 0) -> np.ndarray:
    """Return numbers that do not compress: a million, again and again in long columns."""
    block = np.random.default_rng(seed).normal(size=min(rows, 1_000_003)).astype(dtype)
    return np.resize(block, rows)


def numbers(columns: int, rows: int, dtype: str = "f8") -> pa.Table:
    """Return a table of numbers."""
    return pa.table({f"c{i}": noise(rows, dtype, i) for i in range(columns)})


def parquet(table: pa.Table, **options: Any) -> Callable[[Path], None]:
    """Return what writes a table as Parquet, in one row group unless said otherwise."""
    return lambda path: pq.write_table(table, path, **{"row_group_size": 64 << 20} | options)


@cache
def wide(columns: int, rows: int, dtype: str = "f8", **options: Any) -> Callable[[Path], None]:
    """Return what writes numbers as Parquet."""
    return lambda path: parquet(numbers(columns, rows, dtype), **options)(path)


def embeddings(width: int, rows: int, *, fixed: bool) -> Callable[[Path], None]:
    """Return what writes vectors, as lists of fixed or of any length."""

    def write(path: Path) -> None:
        values = pa.array(noise(width * rows, "f4"))
        lists = (
            pa.FixedSizeListArray.from_arrays(values, width)
            if fixed
            else pa.ListArray.from_arrays(np.arange(0, width * rows + 1, width, dtype=np.int32), values)
        )
        table = pa.table({"id": np.arange(rows), "vector": lists})
        if path.suffix == ".feather":
            pafeather.write_feather(table, path)
        else:
            pq.write_table(table, path, row_group_size=rows)

    return write


def one_batch(columns: int, rows: int, compression: str) -> Callable[[Path], None]:
    """Return what writes numbers as a Feather file of one record batch."""
    return lambda path: pafeather.write_feather(numbers(columns, rows), path, compression, chunksize=rows)


def constants(path: Path) -> None:
    """Write columns that never change beside one that does, and no statistics that say so."""
    rows = 2 * MB
    table = pa.table({"x": noise(rows)} | {f"c{i}": np.full(rows, float(i)) for i in range(40)})
    whole = {"data_page_size": 1 << 30, "write_batch_size": 1 << 26, "max_rows_per_page": 1 << 26}
    parquet(table, use_dictionary=False, compression="zstd", write_statistics=False, **whole)(path)


def groups_of_one_row(count: int) -> Callable[[Path], None]:
    """Return what writes row groups of one row: most of the file is its footer."""

    def write(path: Path) -> None:
        table = numbers(2, count)
        with pq.ParquetWriter(path, table.schema) as writer:
            for row in range(count):
                writer.write_table(table.slice(row, 1))

    return write


def repeated(rows: int, distinct: int, columns: int, **options: Any) -> Callable[[Path], None]:
    """Return what writes columns that hold a few numbers again and again: they are stored as dictionaries."""

    def write(path: Path) -> None:
        random = np.random.default_rng(0)
        table = {
            f"c{i}": random.normal(size=distinct)[random.integers(distinct, size=rows)]
            for i in range(columns)
        }
        parquet(pa.table(table), **options)(path)

    return write


def page_bomb(path: Path) -> None:
    """Write 180 kB that are pages of 240 MB."""
    column = np.zeros(60 * MB, "f4")
    column[::7] = 1  # neither constant nor much larger
    table = pa.table({f"c{i}": column for i in range(8)})
    whole = {"data_page_size": 1 << 30, "write_batch_size": 1 << 26, "max_rows_per_page": 1 << 26}
    parquet(table, use_dictionary=False, compression="zstd", write_statistics=False, **whole)(path)


@cache
def with_others(rows: int, columns: int) -> Callable[[Path], None]:
    """Return what writes numbers beside columns that are not read: texts, structs, lists, binaries."""

    def write(path: Path) -> None:
        ids = np.arange(rows)
        texts = pa.array([f"{i:x}" * 40 for i in ids])
        others = {
            "text": texts,
            "struct": pa.StructArray.from_arrays([pa.array(ids), texts], ["a", "b"]),
            "list": pa.ListArray.from_arrays(
                np.arange(0, rows * 8 + 1, 8, dtype=np.int32), pa.array(np.tile(ids, 8))
            ),
            "blob": texts.cast(pa.binary()),
        }
        table = numbers(columns, rows)
        for name, column in others.items():
            table = table.append_column(name, column)
        parquet(table)(path)

    return write


def hdf5(rows: int, columns: int, chunks: tuple[int, int], **options: Any) -> Callable[[Path], None]:
    """Return what writes a matrix in chunks."""

    def write(path: Path) -> None:
        with h5py.File(path, "w") as file:
            made = file.create_dataset(
                "x", (rows, columns), "f4", chunks=chunks, compression="lzf", **options
            )
            for start in range(0, rows, chunks[0]):
                count = min(chunks[0], rows - start)
                made[start : start + count] = noise(count * columns, "f4").reshape(count, columns)

    return write


# ---- cases -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A file, a command on it, and what it may take."""

    name: str
    make: Callable[[Path], None]
    suffix: str = ".parquet"
    command: tuple[str, ...] = ("sketch", "-m", "100")
    budget: int = 512 * MB
    needs: tuple[str, ...] = field(default=())  # what is made first: a model, a sketch


KMEANS, MODEL = ("model",), ("--model",)
CASES = [
    *(
        Case(f"{columns:,} columns × {rows:,} {dtype}", wide(columns, rows, dtype))
        for columns, rows, dtype in (
            (10, 2_000_000, "f8"),
            (30, 600_000, "f8"),
            (60, 300_000, "f8"),
            (100, 300_000, "f8"),
            (200, 200_000, "f8"),
            (500, 100_000, "f4"),
            (1000, 40_000, "f4"),
            (2000, 20_000, "f4"),
            (5000, 8_000, "f4"),
        )
    ),
    Case(
        "200 columns, 2 threads",
        wide(200, 100_000),
        command=("sketch", "-m", "100", "--threads", "2"),
        budget=1000 * MB,
    ),
    Case("200 columns, 1 GB", wide(200, 200_000), budget=1000 * MB),
    Case("100 columns, not compressed", wide(100, 200_000, compression="none")),
    Case("100 columns, zstd, pages V2", wide(100, 200_000, compression="zstd", data_page_version="2.0")),
    Case(
        "100 columns, byte stream split",
        wide(100, 200_000, use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT"),
    ),
    Case(
        "30 columns, pages of 16 MB", wide(30, 3_000_000, "f4", data_page_size=16 << 20, use_dictionary=False)
    ),
    Case("lists of 384, 60,000 rows", embeddings(384, 60_000, fixed=True)),
    Case("lists of 768, defaults", embeddings(768, 40_000, fixed=True), command=("sketch",), budget=0),
    Case("lists of 768, 40,000 rows", embeddings(768, 40_000, fixed=False)),
    Case("lists of 1536, fixed", embeddings(1536, 20_000, fixed=True)),
    Case("lists of 1536, any length", embeddings(1536, 20_000, fixed=False)),
    Case("1,000 row groups of 1,000 rows × 20", wide(20, 1_000_000, "f4", row_group_size=1000)),
    Case("row groups of 1,000 rows × 500", wide(500, 20_000, "f4", row_group_size=1000)),
    Case("one row group of 20 million × 3", wide(3, 20_000_000, "f4")),
    Case("20,000 row groups of one row", groups_of_one_row(20_000)),
    Case("dictionaries of 100 numbers × 100", repeated(300_000, 100, 100)),
    Case("dictionaries of 8 MB × 20", repeated(2_000_000, 1_000_000, 20, dictionary_pagesize_limit=32 << 20)),
    Case("nested and unused columns", with_others(100_000, 20)),
    Case("pages of 240 MB × 8", page_bomb),
    Case("HDF5, 300 × 100,000", hdf5(100_000, 300, (1000, 300)), ".h5"),
    Case("HDF5, chunks of 100 MB", hdf5(250_000, 200, (125_000, 200)), ".h5"),
    Case(
        "HDF5, chunks of 300 MB",
        hdf5(375_000, 200, (375_000, 200)),
        ".h5",
        ("sketch", "-m", "100", "--allow-external"),
    ),
    Case("CSV, 300 columns", lambda path: pacsv.write_csv(numbers(300, 20_000), path), ".csv"),
    Case(
        "Feather, lz4, 1,000,000 × 20",
        lambda path: pafeather.write_feather(numbers(20, 1_000_000, "f4"), path, "lz4", chunksize=1_000_000),
        ".feather",
    ),
    Case("Feather, lz4, one batch of 2,000,000 × 20", one_batch(20, 2 * MB, "lz4"), ".feather"),
    Case("Feather, mapped, one batch of 2,000,000 × 50", one_batch(50, 2 * MB, "uncompressed"), ".feather"),
    Case("Feather, lists of 1536", embeddings(1536, 70_000, fixed=False), ".feather"),
    Case("40 constants, pages of 16 MB, no statistics", constants),
    Case("basis, 200 columns", wide(200, 150_000), command=("basis", "-m", "300")),
    Case("coreset, 100 columns", wide(100, 200_000), command=("coreset", "-s", "30", "-m", "100")),
    Case(
        "coreset, row groups of 1,000 × 100",
        wide(100, 50_000, row_group_size=1000),
        command=("coreset", "-s", "30", "-m", "100"),
    ),
    Case(
        "coreset, texts kept",
        with_others(100_000, 60),
        command=("coreset", "-s", "30", "-m", "100", "--keep", "text"),
    ),
    Case("assign, 200 columns", wide(200, 150_000), command=("assign",), needs=KMEANS),
    Case("assign, texts kept", with_others(100_000, 60), command=("assign", "--keep", "text"), needs=KMEANS),
    Case("score, 200 columns", wide(200, 150_000), command=("score",), needs=KMEANS),
    Case("learn --refine, 200 columns", wide(200, 150_000), command=("learn",), needs=KMEANS),
    Case("independence, 200 columns", wide(200, 100_000), command=("independence", "-m", "100")),
    Case("run, 200 columns", wide(200, 150_000), command=("run",)),
    Case("defaults, 16 columns", wide(16, 1_000_000), command=("sketch",), budget=0),
]
OUTPUTS = {"sketch": ".nysk", "basis": ".nysk", "coreset": ".csv", "assign": ".parquet", "learn": ".json"}


def arguments_of(case: Case, path: Path, folder: Path) -> list[str]:
    """Return the command on the file, without its budget; what it needs is made before the first."""
    name, *options = case.command
    sketch, model = folder / "first.nysk", folder / "first.json"
    if case.needs and not model.exists():
        first = next(nysketch_rows(path))
        made = nysketch.sketch(first, landmarks=50)
        nysketch.save(made, sketch)
        save_model(nysketch.learn_kmeans(made, 5), model)
    output = ["-o", str(folder / f"output{OUTPUTS[name]}")] if name in OUTPUTS else []
    overwrite = ["--if-exists", "overwrite"] if output else []
    if name == "run":
        job = folder / "job.toml"
        limits = f'memory = "{case.budget}"'
        job.write_text(
            f'[job]\nstore = "store"\n{limits}\n[inputs]\npaths = ["{path}"]\n[basis]\nlandmarks = 100\n'
        )
        return ["run", str(job)]
    if name in ("assign", "score"):
        return [name, str(model), str(path), *options, *output, *overwrite]
    if name == "learn":
        return [
            "learn",
            "kmeans",
            str(sketch),
            "-k",
            "5",
            "--refine",
            "2",
            "--data",
            str(path),
            *output,
            *overwrite,
        ]
    if name == "independence":
        halves = [",".join(f"c{i}" for i in range(start, start + 100)) for start in (0, 100)]
        groups = ["--group", f"x={halves[0]}", "--group", f"y={halves[1]}"]
        return [name, str(path), *options, *groups]
    return [name, str(path), *options, *output, *overwrite]


def nysketch_rows(path: Path) -> Any:
    """Yield tables of a few rows."""
    for batch in pq.ParquetFile(path).iter_batches(2000):
        table = pa.table(batch)
        yield table.select([name for name in table.column_names if name.startswith("c")])


# ---- runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What became of a process: its peak, what it planned, its messages and CPU seconds."""

    code: int
    peak: int
    messages: str
    seconds: float


def run(arguments: list[str], folder: Path, software: Path, budget: int, *, cold: bool) -> Run:
    """Run a command in a process of its own."""
    limit = ["--memory", str(budget)] if budget and arguments[0] != "run" else []
    environment = os.environ | {"PYTHONPATH": str(software), "OPENBLAS_NUM_THREADS": "1"}
    if cold:
        environment["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments, *limit],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    found = re.search(r"PEAK (\d+)", done.stderr)
    return Run(done.returncode, int(found.group(1)) if found else 0, done.stderr, seconds)


def default_budget(software: Path) -> int:
    """Return the budget of a command that is not told one."""
    code = "from nysketch._support.machine import default_memory; print(default_memory())"
    environment = os.environ | {"PYTHONPATH": str(software)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    return int(done.stdout) if done.returncode == 0 else 512 * MB


def row_of(case: Case, path: Path, folder: Path, software: Path, *, cold: bool) -> list[str]:
    """Return the cells of the table for one version: budget, peak, their ratio, CPU seconds."""
    budget = case.budget or default_budget(software)
    arguments = arguments_of(case, path, folder)
    done = run(arguments, folder, software, case.budget, cold=cold)
    note = ""
    needed = re.search(r"this takes about ([\d,]+) MB|Allow ([\d,]+) MB with", done.messages)
    if done.code and needed:
        refused = budget
        budget = int((needed.group(1) or needed.group(2)).replace(",", "")) * MB + MB
        note = f"refused {refused // MB}"
        done = run(arguments, folder, software, budget, cold=cold)
    if done.code:
        return [
            note or "",
            f"failed: {done.messages.splitlines()[-2][:60] if done.messages else done.code}",
            "",
            "",
        ]
    return [
        f"{budget / MB:,.0f}{f' ({note})' if note else ''}",
        f"{done.peak / MB:,.0f}",
        f"{done.peak / budget:.2f}",
        f"{done.seconds:.1f}",
    ]


def main() -> None:
    """Print a table: of each case and version the budget, the peak in MB, their ratio, CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="words of the names of cases")
    parser.add_argument("--software", nargs="*", type=Path, default=[], help="checkouts of other versions")
    parser.add_argument("--cold", action="store_true", help="compile everything anew")
    parser.add_argument("--json", type=Path, help="write the table here, too")
    options = parser.parse_args()
    versions = [HERE, *options.software]
    print("| case | " + " | ".join("budget, MB | peak, MB | peak / budget | CPU s" for _ in versions) + " |")
    print("|---" * (1 + 4 * len(versions)) + "|")
    table = []
    for case in CASES:
        if options.only and not any(word in case.name for word in options.only):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path = folder / f"rows{case.suffix}"
            case.make(path)
            cells = [row_of(case, path, folder, version, cold=options.cold) for version in versions]
        table.append([case.name, *(cell for row in cells for cell in row)])
        print("| " + " | ".join(table[-1]) + " |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
