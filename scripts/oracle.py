"""Prove that a change of the code changed no number: every command, its outputs byte for byte.

    python scripts/oracle.py record DIR                    # run all commands, write DIR/oracle.json
    python scripts/oracle.py compare DIR REFERENCE.json    # run them again, print all that differs
    python scripts/oracle.py against REV                   # the working tree against a revision of git

Tables are made from fixed seeds in a fresh directory, and every command runs there as a process of its own,
with relative paths. Kept are its exit code, what it prints, and a SHA-256 of every file it writes; of
sketches also one per array, of tables one per column, and JSON as it is, so that a difference can be named.
Floats are compared exactly. Only run times, dates of runs, process numbers and the directories of the files
and of the package are scrubbed.

`--package PATH` runs the package of another checkout, `--only TEXT` the steps whose names contain TEXT (and
those that they need), `--list` shows the steps, `--keep` leaves the files that were written, `--all` prints
every difference and not the first forty of each step. The exit code is 1 if there is any difference. Some
hundreds of processes take two minutes on two cores, and longer if functions have to be compiled first.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
AT_ONCE = 2
PATIENCE = 300  # seconds that one command may take
SHOWN = 40  # differences of one step that are printed
MODIFIED = 1_700_000_000  # time of change of all tables: stores remember it
VERSION = 1  # of what is recorded


# ---- tables --------------------------------------------------------------------------------------------

JOB = """
[job]
name = "oracle"
store = "store"
threads = 2
[inputs]
paths = "data/{date}.parquet"
columns = ["x", "y"]
[basis]
landmarks = 20
partitions = 2
[sketch]
blocks = 16
sample_rows = 200
far_rows = 20
runs = 8
[[windows]]
last = 3
[[windows]]
last = "all"
[[models]]
name = "kinds"
kind = "kmeans"
k = "2:3"
trials = 3
window = "last-3"
[[models]]
name = "mixture"
kind = "gmm"
k = 2
trials = 2
window = "all"
output = "mixture.json"
[[comparisons]]
against = "previous"
alpha = 0.01
alarm = true
[[comparisons]]
against = "reference"
reference = "2024-01-03"
[retention]
partitions = 5
"""

HIVE_JOB = """
[job]
store = "store"
threads = 1
[inputs]
paths = "../hive"
partition = "hive:part"
columns = ["x", "y", "z"]
weights = "w"
[basis]
landmarks = 12
kernel = "matern52"
scale = "robust"
[sketch]
blocks = 8
[[windows]]
last = 2
[[comparisons]]
against = "previous"
test = "bootstrap"
[report]
output = "nightly.html"
"""

CONFIG = """
[sketch]
landmarks = 15
scale = "robust"
columns = "x,y"
[learn.kmeans]
k = 3
trials = 2
"""


def make_tables(folder: Path) -> None:
    """Write all tables that the commands read: the same bytes every time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(20240201)
    centres = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, -2.0], [-2.0, 5.0, 3.0]])
    words = np.array(["red", "green", "blue", "orange", "violet", "grey", "dark red", "light green"])

    def table(rows: int, *, shift: float = 0.0, first: int = 0) -> pa.Table:
        points = centres[random.integers(0, 3, rows)] + random.normal(size=(rows, 3)) + shift
        embedded = random.normal(size=(rows, 4)).astype(np.float32)
        chosen = words[random.integers(0, len(words), (rows, 3))]
        return pa.table(
            {
                "id": np.arange(first, first + rows),
                "x": points[:, 0],
                "y": points[:, 1],
                "z": points[:, 2].astype(np.float32),
                "n": random.poisson(3, rows),
                "b": points[:, 0] > 1,
                "w": random.uniform(0.5, 2.0, rows),
                "t": pa.array([" ".join(three) for three in chosen.tolist()]),
                "e": pa.array(embedded.tolist(), pa.list_(pa.float32())),
            }
        )

    def group_table(rows: int) -> pa.Table:
        hidden = random.normal(size=rows)
        noise = random.normal(size=(rows, 5))
        return pa.table(
            {
                "a": hidden + 0.5 * noise[:, 0],
                "b": noise[:, 1],
                "c": hidden**2 + noise[:, 2],
                "d": noise[:, 3],
                "w": np.abs(noise[:, 4]) + 0.1,
            }
        )

    for name in ("data", "out", "parts", "hive/part=1", "hive/part=2", "hive/part=3"):
        (folder / name).mkdir(parents=True)
    for name in ("night/data", "night/more", "hivejob"):
        (folder / name).mkdir(parents=True)
    data = folder / "data"

    tables = [table(1500, first=1500 * i) for i in range(3)]
    for name, part in zip("abc", tables, strict=True):
        pq.write_table(part, data / f"{name}.parquet", row_group_size=400)
    whole = pa.concat_tables(tables)
    for i, part in enumerate(tables, start=1):
        pq.write_table(part.slice(0, 900), folder / f"hive/part={i}/rows.parquet", row_group_size=300)
    drifted = table(2000, shift=0.4)
    pq.write_table(drifted, data / "drift.parquet", row_group_size=500)

    columns = whole.select(["x", "y", "z", "w"]).slice(0, 2500)
    holes = random.random((2500, 2)) < 0.03
    gaps = np.where(random.random(2500) < 0.01, np.nan, columns["z"].to_numpy())
    with_nulls = pa.table(
        {
            "x": pa.array(columns["x"].to_numpy(), mask=holes[:, 0]),
            "y": pa.array(columns["y"].to_numpy(), mask=holes[:, 1]),
            "z": gaps,
            "w": columns["w"],
        }
    )
    pq.write_table(with_nulls, data / "nulls.parquet", row_group_size=600)

    far = columns["x"].to_numpy().copy()
    far[random.integers(0, 2500, 4)] = 1e4
    outliers = columns.set_column(0, "x", pa.array(far))
    pq.write_table(outliers, data / "outliers.parquet", row_group_size=600)
    pq.write_table(group_table(2500), data / "groups.parquet", row_group_size=700)

    _write_other_formats(data, columns)
    for day in range(1, 8):
        some = table(600, shift=1.5 if day == 6 else 0.0)
        where = "data" if day <= 4 else "more"
        pq.write_table(some, folder / f"night/{where}/2024-01-{day:02}.parquet", row_group_size=200)
    pq.write_table(table(500), folder / "night/more/2024-01-03.parquet", row_group_size=200)
    (folder / "night/job.toml").write_text(JOB)
    (folder / "hivejob/job.toml").write_text(HIVE_JOB)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "list.txt").write_text("# two of three\ndata/b.parquet\ndata/c.parquet\n")


def _write_other_formats(data: Path, columns: Any) -> None:
    import h5py
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather

    pyarrow.feather.write_feather(columns, str(data / "x.feather"), chunksize=500)
    pyarrow.csv.write_csv(columns, str(data / "x.csv"))
    with (data / "x.arrows").open("wb") as file, pa.ipc.new_stream(file, columns.schema) as writer:
        writer.write_table(columns, max_chunksize=700)
    with h5py.File(data / "x.h5", "w") as file:
        rows = np.column_stack([columns[name].to_numpy() for name in "xyz"])
        file.create_dataset("rows", data=rows, chunks=(400, 3), compression="gzip")
        for name in columns.column_names:
            file.create_dataset(f"columns/{name}", data=columns[name].to_numpy(), chunks=(500,))
    (data / "text.parquet").write_text("these are no rows\n")


def copy_archives(checkout: Path, folder: Path) -> list[str]:
    """Copy the sketches of all versions of the format; return their names, such as v1/basis.nysk."""
    names = []
    for path in sorted(checkout.glob("tests/**/archives/v*/*.nysk")):
        name = f"{path.parent.name}/{path.name}"
        if name in names:
            raise SystemExit(f"oracle: there are two archives {name}")
        names.append(name)
        copy = folder / "archives" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    if not names:
        raise SystemExit("oracle: found no archives tests/**/archives/v*/*.nysk")
    damaged = bytearray((folder / "archives" / names[0]).read_bytes())
    damaged[-20] ^= 1
    (folder / "damaged.nysk").write_bytes(damaged)
    (folder / "short.nysk").write_bytes(damaged[:100])
    return names


def settle(folder: Path) -> None:
    """Give all files the same time of change."""
    for path in folder.rglob("*"):
        os.utime(path, (MODIFIED, MODIFIED))


# ---- steps ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One process. It waits for earlier steps whose outputs its arguments name, and for those in `after`."""

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...] = ()  # files and directories
    after: tuple[str, ...] = ()
    stdin: str | None = None
    script: str | None = None  # Python to run instead of the command line
    stderr: bool = True

    @property
    def command(self) -> str | None:
        """The command of nysketch that is run, if it is one."""
        words = list(self.arguments)
        if words[:1] == ["--config"]:
            words = words[2:]
        return words[0] if words and not words[0].startswith("-") else None

    def process(self) -> list[str]:
        """Return what to start."""
        if self.script is not None:
            return [sys.executable, "-c", self.script, *self.arguments]
        return [sys.executable, "-m", "nysketch", *self.arguments]

    def needs(self, other: Step) -> bool:
        """Say whether this step must wait for an earlier one."""
        if other.name in self.after:
            return True
        words = [*self.arguments, *([self.stdin] if self.stdin else [])]
        return any(
            word == made or made.startswith(f"{word}/") or word.startswith(f"{made}/") or fnmatch(made, word)
            for made in other.outputs
            for word in words
        )


def _step(name: str, line: str, *also: str, **options: Any) -> Step:
    """Return the step of a command line; its outputs are what follows -o, and others."""
    words = tuple(shlex.split(line))
    written = tuple(after for word, after in pairwise(words) if word == "-o")
    return Step(name, words, (*written, *also), **options)


def _sketches() -> Iterator[Step]:
    """Every kind of source, kernel and setting of `sketch` and `basis`."""
    xyz = "data/a.parquet data/b.parquet data/c.parquet --columns x,y,z -m 40"
    for name, options in {
        "parquet": f"{xyz}",
        "threads-1": f"{xyz} --threads 1",
        "threads-2": f"{xyz} --threads 2",
        "checkpoints": f"{xyz} --threads 1 --checkpoint-every 0.001",
        "batches": f"{xyz} --batch-rows 128 --threads 2",
        "directory": "hive --columns x,y,z -m 40",
        "hive": "hive -m 30 --exclude id,w,e",
        "glob": "'data/[abc].parquet' --columns x,n,b -m 30",
        "list-file": "data/a.parquet --from-file list.txt --columns x,y,z -m 40",
        "feather": "data/x.feather --columns x,y,z -m 30",
        "csv": "data/x.csv --columns x,y,z -m 30",
        "hdf5": "data/x.h5 --dataset rows -m 30",
        "hdf5-columns": "data/x.h5 --dataset columns/x --dataset columns/y -m 30",
        "hdf5-weights": "data/x.h5 --dataset columns/x --dataset columns/y --dataset columns/w"
        " --weights columns/w -m 30",
        "list-column": "data/a.parquet --columns e,x -m 30",
        "all-numeric": "data/a.parquet -m 30",
        "weights": f"{xyz} --weights w",
        "nulls": "data/nulls.parquet --columns x,y,z --nulls drop -m 30",
        "nulls-weights": "data/nulls.parquet --columns x,y,z --weights w --nulls drop -m 30",
        "skip-unreadable": "data/a.parquet data/text.parquet --columns x,y --skip-unreadable -m 20",
        "outliers": "data/outliers.parquet --columns x,y,z -m 30",
        "drift": "data/drift.parquet --columns x,y,z -m 40",
        "float64": f"{xyz} --precision float64",
        "no-cells": f"{xyz} --no-cells --runs 0 --sample-rows 0",
        "far-rows": f"{xyz} --far-rows 7 --sample-rows 50 --blocks 8 --runs 16",
        "no-far-rows": f"{xyz} --far-rows 0 --seed 5",
        "second-moments": f"{xyz} --second-moments",
        "auto": "data/a.parquet --columns x,y -m auto --max-landmarks 120",
        "pilot": f"{xyz} --pilot-rows 500 --scale none",
        "robust-scale": f"{xyz} --scale robust --bandwidth 0.5*median",
        "laplacian-l1": f"{xyz} --kernel laplacian-l1",
        "laplacian-l2": f"{xyz} --kernel laplacian-l2",
        "matern32": f"{xyz} --kernel matern32",
        "matern52": f"{xyz} --kernel matern52 --precision float64",
        "polynomial": f"{xyz} --kernel polynomial --degree 3 --offset 0.5 --second-moments",
        "linear": "data/a.parquet --columns x,y,z -m 3 --kernel linear",
        "cosine": f"{xyz} --kernel cosine",
        "sum": f"{xyz} --bandwidth 0.5,1,2",
        "spectrum": "data/a.parquet --columns t --kernel spectrum --length 2 -m 25",
        "subsequence": "data/a.parquet --columns t --kernel subsequence --length 2 --decay 0.7 -m 20"
        " --sample-rows 100",
        "fourier": f"{xyz} --features fourier",
        "fourier-adapted": f"{xyz} --features fourier --frequencies adapted-radius --weights w",
        "groups": "data/groups.parquet --group p=a,b --group q=c --group r=d --pairs -m 30 --shuffles 100",
        "two-groups": "data/groups.parquet --group p=a --group q=c --kernel q=laplacian-l1 --bandwidth p=0.8"
        " --weights w --shuffle-rows 800 -m 30 --shuffles 100",
        "no-shuffles": "data/groups.parquet --group p=a --group q=c,d --shuffles 0 -m 30 --second-moments",
        "part-1": f"{xyz} --basis out/basis.nysk --part 1/3",
        "part-2": f"{xyz} --basis out/basis.nysk --part 2/3",
        "part-3": f"{xyz} --basis out/basis.nysk --part 3/3",
        "same-basis-a": "data/a.parquet --basis out/basis.nysk",
        "same-basis-b": "data/b.parquet --basis out/basis.nysk",
        "same-basis-c": "data/c.parquet --basis out/parquet.nysk",
        "same-basis-drift": "data/drift.parquet --basis out/basis.nysk",
        "same-basis-outliers": "data/outliers.parquet --basis out/basis.nysk",
        "of-basis": "data/a.parquet data/b.parquet data/c.parquet --basis out/basis.nysk",
    }.items():
        if "--basis" in options:
            options = options.replace(" --columns x,y,z -m 40", "")
        if name == "part-1":
            yield _step("basis/default", f"basis {xyz} --json -o out/basis.nysk")
        folder = "parts" if name.startswith("part-") else "out"
        yield _step(f"sketch/{name}", f"sketch {options} --json -o {folder}/{name}.nysk")
    for sampling in ("uniform", "leverage", "greedy", "rpcholesky", "kmeans"):
        yield _step(
            f"sketch/sampling-{sampling}", f"sketch {xyz} --sampling {sampling} --json -o out/{sampling}.nysk"
        )
    yield _step(
        "sketch/stdin", "sketch - --basis out/basis.nysk --json -o out/stdin.nysk", stdin="data/x.arrows"
    )
    yield _step("sketch/text-output", "sketch data/a.parquet --columns x,y -m 20 -o out/text-output.nysk")
    yield _step(
        "sketch/json-log", "sketch data/a.parquet --columns x -m 20 --log-format json -v -o out/json-log.nysk"
    )
    yield _step(
        "sketch/up-to-date",
        f"sketch {xyz} --if-exists skip --json -o out/parquet.nysk",
        after=("sketch/parquet",),
    )
    yield _step("sketch/config", "--config config.toml sketch data/a.parquet --json -o out/config.nysk")
    dry = "--threads 2 --dry-run -o out/never.nysk"
    yield _step("sketch/dry-run", f"sketch {xyz} {dry}")
    yield _step("sketch/dry-run-json", f"sketch {xyz} --second-moments {dry} --json")
    yield _step("sketch/dry-run-part", f"sketch hive --basis out/basis.nysk --part 2/3 {dry} --json")
    yield _step(
        "sketch/dask",
        f"sketch {xyz} --engine dask --workers 2 --json -o out/dask.nysk",
        stderr=False,  # what a cluster says of itself
    )
    yield _step("basis/fourier", f"basis {xyz} --features fourier -o out/fourier.basis.nysk")
    yield _step(
        "basis/sampled",
        "basis data/nulls.parquet --nulls drop --sampling rpcholesky -m 20 --json -o out/rp.basis.nysk",
    )
    yield _step(
        "basis/groups", "basis data/groups.parquet --group p=a --group q=c,d -m 20 --json -o out/g.basis.nysk"
    )


SHOWN_BY_INFO = (
    "parquet weights nulls float64 no-cells far-rows second-moments auto polynomial linear sum "
    "spectrum subsequence fourier groups two-groups outliers list-column hive hdf5-columns leverage basis "
    "fourier.basis"
)


def _sums() -> Iterator[Step]:
    """`info`, `verify`, `merge`, `subtract`, `export`, `plot`."""
    for name in SHOWN_BY_INFO.split():
        yield _step(f"info/{name}", f"info out/{name}.nysk --json")
    yield _step("info/text", "info out/weights.nysk")
    yield _step("info/text-groups", "info out/groups.nysk")
    yield _step("info/part", "info parts/part-2.nysk --json")
    yield _step("info/against", "info out/same-basis-drift.nysk --against out/same-basis-a.nysk --json")
    yield _step("info/against-text", "info out/drift.nysk --against out/basis.nysk")
    yield _step("verify/text", "verify out/parquet.nysk out/basis.nysk out/fourier.nysk")
    yield _step(
        "verify/json", "verify parts --json", after=("sketch/part-1", "sketch/part-2", "sketch/part-3")
    )
    abc = "out/same-basis-a.nysk out/same-basis-b.nysk out/same-basis-c.nysk"
    yield _step("merge/parts", "merge parts --json -o out/merged-parts.nysk")
    yield _step("merge/three", f"merge {abc} --json -o out/merged.nysk")
    yield _step(
        "merge/order",
        "merge out/same-basis-c.nysk out/same-basis-a.nysk out/same-basis-b.nysk -o out/merged-order.nysk",
    )
    yield _step(
        "merge/partial", "merge parts/part-3.nysk parts/part-1.nysk --partial --json -o out/partial.nysk"
    )
    yield _step(
        "merge/force",
        "merge out/same-basis-a.nysk out/same-basis-a.nysk --force --json -o out/doubled.nysk",
    )
    yield _step(
        "subtract/one", "subtract out/merged.nysk out/same-basis-b.nysk --json -o out/subtracted.nysk"
    )
    yield _step("subtract/text", f"subtract out/of-basis.nysk {abc} -o out/nothing.nysk")
    yield _step(
        "subtract/part", "subtract out/merged-parts.nysk parts/part-2.nysk --json -o out/rest-parts.nysk"
    )
    yield _step("info/merged", "info out/merged.nysk --json")
    yield _step("info/subtracted", "info out/subtracted.nysk --json")
    yield _step("info/partial", "info out/partial.nysk --json")
    for suffix in ("npz", "json", "parquet"):
        yield _step(f"export/{suffix}", f"export out/weights.nysk --json -o out/export.{suffix}")
    yield _step("export/fourier", "export out/fourier.nysk --to json -o out/export-fourier.json")
    yield _step("export/basis", "export out/basis.nysk -o out/export-basis.json")
    yield _step("export/text-kernel", "export out/spectrum.nysk --json -o out/export-spectrum.json")
    yield _step("plot/sketch", "plot out/parquet.nysk --json -o out/plot.svg")
    yield _step(
        "plot/sketch-model",
        "plot out/parquet.nysk --model out/kmeans.json --columns x,z -o out/plot-model.svg",
        after=("learn/kmeans",),
    )
    yield _step("plot/mixture", "plot out/gmm-full.json -o out/plot-mixture.svg", after=("learn/gmm-full",))
    yield _step("plot/distances", f"plot {abc} out/same-basis-drift.nysk --json -o out/plot-distances.svg")
    yield _step("plot/png", "plot out/parquet.nysk -o out/plot.png")


def _models() -> Iterator[Step]:
    """`learn`, `assign`, `score`."""
    for name, options in {
        "kmeans": "kmeans out/parquet.nysk -k 3",
        "kmeans-range": "kmeans out/parquet.nysk -k 2:5 --trials 4",
        "kmeans-several": "kmeans out/same-basis-a.nysk out/same-basis-b.nysk -k 3 --trials 3 --seed 7",
        "kmeans-cells": "kmeans out/weights.nysk -k 3 --decoder cells --trials 3",
        "kmeans-quadrature": "kmeans out/parquet.nysk -k 3 --decoder quadrature --trials 3",
        "kmeans-clomp": "kmeans out/no-cells.nysk -k 3 --decoder clomp --trials 2",
        "kmeans-shift": "kmeans out/parquet.nysk -k 3 --decoder shift --trials 2",
        "kmeans-fourier": "kmeans out/fourier.nysk -k 3 --trials 2",
        "kmeans-robust": "kmeans out/outliers.nysk -k 3 --robust 15 --trials 3",
        "kmeans-refine": "kmeans out/parquet.nysk -k 3 --trials 2 --refine 3 --data data/a.parquet"
        " --data data/b.parquet",
        "kmeans-refine-weights": "kmeans out/nulls-weights.nysk -k 3 --trials 2 --refine 2"
        " --data data/nulls.parquet --nulls drop",
        "gmm": "gmm out/parquet.nysk -k 3 --trials 3",
        "gmm-full": "gmm out/parquet.nysk -k 3 --covariance full --trials 2",
        "gmm-spherical": "gmm out/weights.nysk -k 2:3 --covariance spherical --trials 2",
        "gmm-clomp": "gmm out/parquet.nysk -k 3 --decoder clomp --trials 2",
        "gmm-shift": "gmm out/parquet.nysk -k 2 --decoder shift --trials 2",
        "gmm-fourier": "gmm out/fourier.nysk -k 3 --trials 2",
        "gmm-robust": "gmm out/same-basis-outliers.nysk -k 3 --robust 15 --trials 2",
        "gmm-refine": "gmm out/parquet.nysk -k 3 --trials 2 --refine 2 --data data/a.parquet",
    }.items():
        yield _step(f"learn/{name}", f"learn {options} --json -o out/{name}.json")
    yield _step("learn/text", "learn kmeans out/parquet.nysk -k 2:4 --trials 2 -o out/learned.npz")
    yield _step("learn/text-gmm", "learn gmm out/parquet.nysk -k 2 --trials 2 -o out/learned.parquet")
    yield _step(
        "learn/config", "--config config.toml learn kmeans out/config.nysk --json -o out/config-model.json"
    )
    ab = "data/a.parquet data/b.parquet"
    for name, options in {
        "kmeans": f"out/kmeans.json {ab} --distances --keep id,t --json -o out/labels.parquet",
        "csv": "out/kmeans-range.json data/x.csv -o out/labels.csv",
        "nulls": "out/kmeans.json data/nulls.parquet --nulls drop --json -o out/labels.arrow",
        "gmm": f"out/gmm-full.json {ab} --json -o out/responsibilities.parquet",
        "gmm-labels": "out/gmm.json hive --no-responsibilities --json -o out/components.parquet",
    }.items():
        yield _step(f"assign/{name}", f"assign {options}")
    for name, options in {
        "kmeans": f"out/kmeans.json {ab} --json",
        "kmeans-text": f"out/kmeans.json {ab} --weights w",
        "kmeans-nulls": "out/kmeans-refine-weights.json data/nulls.parquet --nulls drop --json",
        "gmm": f"out/gmm.json {ab} --json",
        "gmm-text": "out/gmm-full.json data/drift.parquet",
        "npz": f"out/learned.npz {ab} --json",
    }.items():
        yield _step(f"score/{name}", f"score {options}")


def _answers() -> Iterator[Step]:
    """`compare`, `independence`, `coreset`."""
    abc = "out/same-basis-a.nysk out/same-basis-b.nysk out/same-basis-c.nysk"
    drift = "out/same-basis-drift.nysk"
    for name, options in {
        "same": "out/same-basis-a.nysk out/same-basis-b.nysk --json",
        "text": f"out/same-basis-a.nysk {drift}",
        "drift": f"out/same-basis-a.nysk {drift} --alarm --json",
        "other-landmarks": "out/parquet.nysk out/uniform.nysk --json",
        "fourier": "out/fourier.nysk out/fourier.nysk --test none --json",
        "matrix": f"{abc} {drift} --json",
        "matrix-text": f"{abc} {drift} --adjust bh",
        "chain": f"{abc} {drift} --chain --explain --json",
        "reference": f"out/same-basis-b.nysk {drift} --reference out/same-basis-a.nysk --adjust none --json",
        "robust": "out/same-basis-a.nysk out/same-basis-outliers.nysk --robust 11 --json",
        "bootstrap": f"out/same-basis-a.nysk {drift} --test bootstrap --permutations 300 --seed 3 --json",
        "permutation": f"out/same-basis-a.nysk {drift} --test permutation --blocks random --json",
        "consecutive": f"out/same-basis-a.nysk {drift} --blocks consecutive --json",
        "subtracted": f"out/subtracted.nysk {drift} --json",
    }.items():
        yield _step(f"compare/{name}", f"compare {options}")
    groups = "--group p=a --group q=c --group r=b,d"
    for name, options in {
        "sketch": "out/groups.nysk --json",
        "sketch-pairs": "out/groups.nysk --pairs --json",
        "text": "out/groups.nysk --pairs",
        "weights": "out/two-groups.nysk --alpha 0.01 --json",
        "alarm": "out/groups.nysk --alpha 0.02 --seed 4 --alarm --json",
        "no-test": "out/groups.nysk --shuffles 0 --json",
        "data": f"data/groups.parquet {groups} -m 30 --shuffles 100 --json",
        "data-pairs": f"data/groups.parquet {groups} -m 25 --pairs --shuffles 99 --seed 2 --json",
    }.items():
        yield _step(f"independence/{name}", f"independence {options}")
    xyz = "data/a.parquet data/b.parquet --columns x,y,z -m 40"
    for name, options in {
        "mercer": f"{xyz} -s 12 --method mercer --keep id,t --json -o out/mercer.parquet",
        "nystrom": f"{xyz} -s 12 --method nystrom --json -o out/nystrom.parquet",
        "weights": f"{xyz} -s 8 --weights w --weight-as v --row-as r -o out/coreset.csv",
        "moments": "data/a.parquet -s 10 --basis out/second-moments.nysk --json -o out/moments.arrow",
        "nulls": "data/nulls.parquet --columns x,y -m 20 -s 6 --nulls drop --json -o out/few-nulls.parquet",
        "auto": f"{xyz} -s auto --json -o out/auto.parquet",
        "sketch": "out/parquet.nysk -s 10 --json -o out/few-landmarks.parquet",
        "sketch-auto": "out/parquet.nysk -s auto --json -o out/auto-landmarks.parquet",
        "sketch-mercer": "out/second-moments.nysk -s 10 --method mercer --json -o out/few-mercer.parquet",
        "sketch-nystrom": "out/same-basis-a.nysk out/same-basis-b.nysk -s 9 --method nystrom"
        " -o out/few-nystrom.parquet",
    }.items():
        yield _step(f"coreset/{name}", f"coreset {options}")


MORE_DAYS = f"""
import os, shutil
from pathlib import Path
for path in sorted(Path("night/more").iterdir()):
    shutil.copyfile(path, Path("night/data") / path.name)
    os.utime(Path("night/data") / path.name, ({MODIFIED}, {MODIFIED + 60}))
"""

# A report shows when runs were and how long they took, and the status counts the bytes of the history: let
# all runs be equally long, so that every byte counts.
SAME_TIMES = """
import json
import sys
from pathlib import Path
history = Path(sys.argv[1])
lines = [json.loads(line) for line in history.read_text().splitlines()]
for number, line in enumerate(lines):
    line.update(started=f"2024-02-{number + 1:02}T03:15:00+00:00", seconds=1.5)
history.write_text("".join(json.dumps(line, sort_keys=True) + "\\n" for line in lines))
"""


def _nights() -> Iterator[Step]:
    """`run`, `status`, `report`."""
    job, store = "run night/job.toml", "night/store"
    yield _step("run/show-config", f"{job} --show-config")
    yield _step("run/show-config-json", f"{job} --set basis.landmarks=25 --show-config --json")
    yield _step("run/dry-run", f"{job} --dry-run --json")
    nights = ["run/show-config", "run/show-config-json", "run/dry-run"]

    def night(step: str, line: str, *made: str, **options: Any) -> Step:
        """Return a step that waits for all that were at the store before it."""
        found = _step(step, line, *made, after=tuple(nights), **options)
        nights.append(step)
        return found

    times = f"{store}/history.jsonl"
    yield night("run/first", f"{job} --json", store)
    yield night("run/first-times", times, script=SAME_TIMES)
    yield night("status/first", f"status {store} --json")
    yield night("run/more-days", "", "night/data", script=MORE_DAYS)
    yield night("run/dry-run-more", f"{job} --dry-run")
    yield night("run/second", f"{job} --json", store, "night/mixture.json")
    yield night("run/nothing-to-do", job, store)
    yield night("run/times", times, script=SAME_TIMES)
    yield night("status/json", f"status {store} --json")
    yield night("status/text", f"status {store}")
    yield night("report/html", f"report {store} --json -o out/report.html")
    yield night("report/text", f"report {store} -o out/report-again.html")
    yield _step("run/hive", "run hivejob/job.toml --json", "hivejob/store", "hivejob/nightly.html")
    times = "hivejob/store/history.jsonl"
    yield _step("run/hive-times", times, script=SAME_TIMES, after=("run/hive",))
    after = {"after": ("run/hive-times",)}
    yield _step("status/hive", "status hivejob/store", **after)
    yield _step("report/hive", "report hivejob/store -o out/report-hive.html", **after)


def _errors() -> Iterator[Step]:
    """Commands that fail: what they say, and their exit codes."""
    never = "-o out/never.nysk"
    for name, line in {
        "missing-file": f"sketch data/none.parquet {never}",
        "no-match": f"sketch 'data/none-*.parquet' {never}",
        "wrong-column": f"sketch data/a.parquet --columns x,nothing {never}",
        "text-column": f"sketch data/a.parquet --columns t {never}",
        "wrong-weights": f"sketch data/a.parquet --columns x --weights t {never}",
        "nulls": f"sketch data/nulls.parquet --columns x,y --threads 1 {never}",
        "no-table": f"sketch data/text.parquet {never}",
        "exists": "sketch data/a.parquet --columns x,y -m 20 -o out/text-output.nysk",
        "usage": f"sketch data/a.parquet --kernel nothing {never}",
        "no-command": "sketches",
        "no-option": "info out/parquet.nysk --nothing",
        "json-log": f"sketch data/none.parquet --log-format json {never}",
        "too-many-landmarks": f"sketch data/a.parquet --columns x -m 0 {never}",
        "groups-twice": f"sketch data/groups.parquet --group p=a --group q=a {never}",
        "part": f"sketch data/a.parquet --basis out/basis.nysk --part 4/3 {never}",
        "stdin-basis": f"sketch - {never}",
        "incompatible-merge": f"merge out/parquet.nysk out/uniform.nysk {never}",
        "merge-twice": f"merge out/same-basis-a.nysk out/same-basis-a.nysk {never}",
        "merge-missing-part": f"merge parts/part-1.nysk parts/part-2.nysk {never}",
        "subtract-other": f"subtract out/same-basis-a.nysk out/same-basis-b.nysk {never}",
        "compare-bandwidths": "compare out/directory.nysk out/list-file.nysk --json",
        "compare-kernels": "compare out/parquet.nysk out/matern32.nysk",
        "damaged": "info damaged.nysk",
        "damaged-verify": "verify out/basis.nysk damaged.nysk short.nysk --json",
        "no-sketch": "info data/a.parquet",
        "learn-text": "learn kmeans out/spectrum.nysk -k 3 -o out/never.json",
        "learn-too-many": "learn kmeans out/linear.nysk -k 5000 -o out/never.json",
        "independence-no-sums": "independence out/no-shuffles.nysk",
        "independence-no-test": "independence out/two-groups.nysk --alarm",
        "independence-no-groups": "independence out/parquet.nysk",
        "coreset-text-moments": "coreset out/fourier.nysk -s 5 -o out/never.parquet",
        "assign-columns": "assign out/kmeans.json data/groups.parquet -o out/never.parquet",
        "score-no-model": "score out/export.json data/a.parquet",
        "plot-suffix": "plot out/parquet.nysk -o out/never.pdf",
        "export-suffix": "export out/parquet.nysk -o out/never.txt",
        "run-setting": "run night/job.toml --set basis.landmark=3 --show-config",
        "run-missing": "run night/none.toml",
        "status-no-store": "status data",
        "report-no-store": "report data -o out/never.html",
        "config": "--config list.txt info out/parquet.nysk",
    }.items():
        yield _step(f"error/{name}", line.replace("out/never", f"out/never-{name}"))


API = """
import hashlib
import inspect
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

import nysketch


def digest(thing):
    made = thing if isinstance(thing, bytes) else np.ascontiguousarray(thing).tobytes()
    return hashlib.sha256(made).hexdigest()


found = {}
random = np.random.default_rng(7)
X = random.normal(size=(1200, 3)) + 4.0 * random.integers(0, 2, (1200, 1))
Y = random.normal(size=(900, 3)) + 3.7 * random.integers(0, 2, (900, 1))

# Revisions before the names of options were made those of the command line have others.
known = inspect.signature(nysketch.sketch).parameters
LANDMARKS = "landmarks" if "landmarks" in known else "m"
PERMUTATIONS = "permutations" if "permutations" in known else "shuffles"
ESTIMATOR = {"landmarks" if "landmarks" in known else "n_landmarks": 20}
def landmarks(number):
    return {LANDMARKS: number}
first = nysketch.sketch(X, **landmarks(30), threads=1)
second = nysketch.sketch(Y, basis=first, threads=2)
both = first + second
for name, one in {"first": first, "second": second, "both": both, "minus": both - first}.items():
    found[name] = digest(nysketch.to_bytes(one))
    found[name + " sums"] = digest(one.kernel_sums)
    found[name + " facts"] = [one.rows, one.rank, [a.tolist() for a in one.column_ranges]]
    found[name + " features"] = digest(one.mean_features())
    found[name + " weights"] = digest(one.embedding_weights())
    found[name + " advice"] = one.quality().advice()
again = nysketch.from_bytes(nysketch.to_bytes(both))
found["again"] = digest(nysketch.to_bytes(again))

basis = nysketch.Basis.fit(X, **landmarks(12), kernel="matern32", sampling="rpcholesky", seed=3)
found["basis"] = [basis.digest, digest(nysketch.to_bytes(basis))]
table = pa.table({"x": X[:, 0], "y": X[:, 1], "z": X[:, 2], "w": np.abs(X[:, 0]) + 0.5})
keeping = landmarks(20) | {"second_moments": True, "threads": 1}
weighted = nysketch.sketch(table, columns=["x", "y"], weights="w", **keeping)
found["weighted"] = digest(nysketch.to_bytes(weighted))
batches = nysketch.sketch(iter(table.select(["x", "y", "z"]).to_batches(max_chunksize=250)),
                          basis=nysketch.Basis.fit(table.select(["x", "y", "z"]), **landmarks(15)), threads=1)
found["batches"] = digest(nysketch.to_bytes(batches))

model = nysketch.learn_kmeans(both, 2, trials=3)
found["kmeans"] = [model.centroids.tolist(), model.shares.tolist(), model.facts]
mixture = nysketch.learn_gmm(both, 2, covariance="full", trials=2)
found["gmm facts"] = mixture.facts
nysketch.save_model(mixture, "out/api-model.json")
nysketch.save(both, "out/api-both.nysk")
found["loaded"] = [repr(nysketch.load_model("out/api-model.json")), repr(nysketch.load("out/api-both.nysk"))]
found["compare"] = nysketch.compare(first, second, permutations=200).describe()
few = nysketch.coreset(X, 10, basis=first)
found["coreset"] = [few.describe(), few.numbers.tolist(), few.weights.tolist(), digest(few.points)]
few = nysketch.coreset(both, 8)
found["coreset of sketch"] = [few.describe(), few.numbers.tolist(), few.weights.tolist()]
keeping = landmarks(20) | {PERMUTATIONS: 100, "threads": 1}
grouped = nysketch.sketch(table, groups={"p": ["x"], "q": ["y", "z"]}, **keeping)
found["grouped"] = digest(nysketch.to_bytes(grouped))
found["independence"] = nysketch.independence(grouped).describe()

kmeans = nysketch.SketchedKMeans(n_clusters=2, **ESTIMATOR, random_state=0).fit(X)
found["estimator"] = [kmeans.cluster_centers_.tolist(), digest(kmeans.predict(Y))]
found["estimator distances"] = digest(kmeans.transform(Y))
found["estimator sketch"] = digest(nysketch.to_bytes(kmeans.partial_fit(Y).sketch_))
gaussians = nysketch.SketchedGaussianMixture(n_components=2, **ESTIMATOR, random_state=0).fit(X)
found["mixture"] = [digest(gaussians.predict_proba(Y)), float(gaussians.score(Y))]
try:
    nysketch.sketch(X, **landmarks(0))
except nysketch.NysketchError as error:
    found["error"] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""

ARCHIVES_API = """
import hashlib
import json
from pathlib import Path

import nysketch

found = {}
for path in sorted(Path("archives").glob("v*/*.nysk")):
    thing = nysketch.load(path)
    entry = {"written again": hashlib.sha256(nysketch.to_bytes(thing)).hexdigest()}
    if isinstance(thing, nysketch.Sketch):
        entry["sums"] = thing.kernel_sums.tolist()
        entry["features"] = hashlib.sha256(thing.mean_features().tobytes()).hexdigest()
        entry["rows"] = thing.rows
    found[path.parent.name + "/" + path.name] = entry
print(json.dumps(found))
"""


def steps(archives: Iterable[str] = ()) -> list[Step]:
    """Return all steps, those that others need before them."""
    made = [*_sketches(), *_models(), *_sums(), *_answers(), *_nights(), *_errors()]
    made.append(_step("version", "--version"))
    made.append(_step("api/public-names", "", "out/api-model.json", "out/api-both.nysk", script=API))
    made.append(_step("api/archives", "", script=ARCHIVES_API))
    made.append(_step("archive/verify", "verify 'archives/v*/*.nysk' --json"))
    made += [_step(f"archive/{name}", f"info archives/{name} --json") for name in archives]
    names = [step.name for step in made]
    assert len(set(names)) == len(names), "two steps have the same name"
    return made


# Files that must have the same bytes, however they were made.
EQUAL = {
    "threads": ("out/parquet.nysk", "out/threads-1.nysk", "out/threads-2.nysk", "out/dask.nysk"),
    "checkpoints": ("out/parquet.nysk", "out/checkpoints.nysk"),
    "a list of files": ("out/parquet.nysk", "out/list-file.nysk"),
    "parts": ("out/of-basis.nysk", "out/merged-parts.nysk"),
    "sums in any order": ("out/merged.nysk", "out/merged-order.nysk"),
    "reports": ("out/report.html", "out/report-again.html"),
}


def needs(all_steps: list[Step]) -> dict[str, list[str]]:
    """Return the names of the earlier steps that each step waits for."""
    waits: dict[str, list[str]] = {}
    for position, step in enumerate(all_steps):
        waits[step.name] = [other.name for other in all_steps[:position] if step.needs(other)]
        unknown = set(step.after) - set(waits)
        if unknown:
            raise ValueError(f"{step.name} waits for {sorted(unknown)}, which do not come before it")
    return waits


def chosen(all_steps: list[Step], only: str | None) -> list[Step]:
    """Return the steps whose names contain a text, and those they need."""
    if only is None:
        return all_steps
    waits = needs(all_steps)
    wanted = {step.name for step in all_steps if only in step.name}
    for step in reversed(all_steps):
        if step.name in wanted:
            wanted.update(waits[step.name])
    if not wanted:
        raise SystemExit(f"oracle: no step has {only!r} in its name; --list shows them")
    return [step for step in all_steps if step.name in wanted]


# ---- what is kept --------------------------------------------------------------------------------------

_TIMED = {"seconds", "started", "finished", "rows_per_second", "pid"}
_SCRUBBED = "<scrubbed>"
_TIME = r"\d[\d.,]*\s?(?:ms|s|min|h)\b"
_PATTERNS = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|\+00:00| UTC)?"), "<date>"),
    (re.compile(rf"\b(in|took|after|for) {_TIME}"), r"\1 <time>"),
    (re.compile(r"\d[\d.,]*\s?[kMG]?\s?rows(?:/s| per second)"), "<speed>"),
    (re.compile(rf"(exit code \d+, ){_TIME}"), r"\1<time>"),
    (re.compile(rf"<td>{_TIME}</td>"), "<td><time></td>"),
    (re.compile(r"\bpid \d+"), "pid <number>"),
]


def scrub_text(text: str, folder: str) -> str:
    """Take out what may differ from run to run: the working directory, dates, durations, processes."""
    if folder:
        text = text.replace(folder, "<here>")
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def scrub(value: Any, folder: str = "") -> Any:
    """Take the same out of parsed JSON."""
    if isinstance(value, dict):
        return {
            key: _SCRUBBED if key in _TIMED and inner is not None else scrub(inner, folder)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [scrub(inner, folder) for inner in value]
    return scrub_text(value, folder) if isinstance(value, str) else value


def printed(text: str, folder: str) -> Any:
    """Return what was printed: JSON as its value, other text as lines without progress bars."""
    try:
        value = json.loads(text)
    except ValueError:
        lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
        return [scrub_text(_log_line(line), folder) for line in lines if line.strip()]
    return scrub(value, folder)


def _log_line(line: str) -> str:
    """Return a line of a JSON log without run times; any other line as it is."""
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return json.dumps(scrub(value), sort_keys=True)


def fingerprint(path: Path) -> dict[str, Any]:
    """Return the SHA-256 of a file, and as much of what it holds as names a difference."""
    content = path.read_bytes()
    contents: Any = None
    if path.suffix == ".jsonl":
        contents = [scrub(json.loads(line)) for line in content.decode().splitlines()]
        content = json.dumps(contents, sort_keys=True).encode()
    elif path.name == "nightly.html":  # written by a run, which tells when it was
        content = scrub_text(content.decode(), "").encode()
        contents = _lines_of(content)
    elif path.suffix == ".json":
        contents = json.loads(content)
    elif path.suffix == ".nysk":
        contents = _arrays_of(content)
    elif path.suffix == ".npz":
        contents = _members_of(path)
    elif path.suffix in (".parquet", ".arrow"):
        contents = _columns_of(path)
    elif path.suffix in (".svg", ".csv", ".html"):
        contents = _lines_of(content)
    return {"bytes": len(content), "contents": contents, "sha256": _sha(content)}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lines_of(content: bytes) -> list[str]:
    return [line if len(line) < 400 else _sha(line.encode()) for line in content.decode().splitlines()]


def _arrays_of(content: bytes) -> dict[str, Any]:
    """Return the metadata of a sketch file and a digest of each of its arrays."""
    length = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    found = {"metadata": json.loads(header.pop("__metadata__")["nysketch"])}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        found[name] = [entry["dtype"], entry["shape"], _sha(rest[first:last])]
    return found


def _members_of(path: Path) -> dict[str, Any]:
    import numpy as np

    with np.load(path, allow_pickle=False) as members:
        return {name: [str(one.dtype), list(one.shape), _sha(one.tobytes())] for name, one in members.items()}


def _columns_of(path: Path) -> dict[str, Any]:
    import pyarrow.feather
    import pyarrow.parquet as pq

    table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.feather.read_table(str(path))
    found: dict[str, Any] = {"rows": table.num_rows}
    for field, column in zip(table.schema, table.columns, strict=True):
        found[field.name] = [str(field.type), _sha(repr(column.to_pylist()).encode())]
    return found


def files_below(folder: Path, outputs: Iterable[str]) -> dict[str, Any]:
    """Return the fingerprints of outputs, and of all files in directories; None for what is not there."""
    found: dict[str, Any] = {}
    for output in outputs:
        path = folder / output
        if path.is_dir():
            for inner in sorted(path.rglob("*")):
                if inner.is_file():
                    found[inner.relative_to(folder).as_posix()] = fingerprint(inner)
        else:
            found[output] = fingerprint(path) if path.is_file() else None
    return found


# ---- running -------------------------------------------------------------------------------------------


def environment(package: Path) -> dict[str, str]:
    """Return the environment of all commands: that of this process, with one package and no settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NYSKETCH_")}
    return kept | {"PYTHONPATH": str(package), "COLUMNS": "100", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def require_package(package: Path) -> None:
    """Stop unless the commands would run the package of this checkout."""
    line = "import nysketch, pathlib; print(pathlib.Path(nysketch.__file__).resolve().parent.parent)"
    with tempfile.TemporaryDirectory() as elsewhere:
        asked = subprocess.run(
            [sys.executable, "-c", line],
            cwd=elsewhere,
            env=environment(package),
            capture_output=True,
            text=True,
        )
    if asked.stdout.strip() != str(package):
        raise SystemExit(f"oracle: {package} has no package nysketch that can be imported\n{asked.stderr}")


def run_step(step: Step, folder: Path, package: Path) -> dict[str, Any]:
    """Run one command and return all that is kept of it."""
    stdin = (folder / step.stdin).open("rb") if step.stdin else None
    try:
        done = subprocess.run(
            step.process(),
            cwd=folder,
            env=environment(package),
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired as late:
        say(f"WARNING: {step.name} was stopped after {PATIENCE} s")
        done = subprocess.CompletedProcess(late.cmd, -1, late.stdout or b"", late.stderr or b"")
    finally:
        if stdin:
            stdin.close()
    here = str(folder)
    out, err = (
        text.decode(errors="replace").replace(str(package), "<package>")
        for text in (done.stdout, done.stderr)
    )
    if "internal error" in err or "Traceback" in err:
        say(f"WARNING: {step.name} failed: {err.strip()}")
    return {
        "arguments": list(step.arguments),
        "exit": done.returncode,
        "files": files_below(folder, step.outputs),
        "stderr": printed(err, here) if step.stderr else None,
        "stdout": printed(out, here),
    }


@contextmanager
def workplace(folder: Path, package: Path, *, keep: bool) -> Iterator[tuple[Path, list[str]]]:
    """Yield a fresh directory with all tables, and the names of the archives; remove it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="work-", dir=folder)).resolve()
    try:
        make_tables(place)
        names = copy_archives(package, place)
        settle(place)
        yield place, names
    finally:
        if keep:
            say(f"files are in {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def observe(folder: Path, package: Path, *, only: str | None = None, keep: bool = False) -> dict[str, Any]:
    """Run all steps and return what is kept of them."""
    require_package(package)
    started = time.monotonic()
    with workplace(folder, package, keep=keep) as (place, archives):
        given = {name: _sha((place / name).read_bytes()) for name in _files(place)}
        wanted = chosen(steps(archives), only)
        results = _run_all(wanted, place, package)
        found: dict[str, Any] = {"steps": results, "tables": given, "version": VERSION}
        if only is None:
            known = {name for result in results.values() for name in result["files"]}
            found["leftovers"] = sorted({*_files(place)} - known - {*given})
            found["equal"] = {name: _are_equal(place, files) for name, files in EQUAL.items()}
            for name, equal in found["equal"].items():
                if not equal:
                    say(f"WARNING: not the same bytes: {', '.join(EQUAL[name])}")
    files = sum(len(result["files"]) for result in results.values())
    say(f"{len(results)} commands, {files} files, {time.monotonic() - started:.0f} s")
    return found


def _run_all(wanted: list[Step], place: Path, package: Path) -> dict[str, Any]:
    """Run steps, a few at once. They are submitted in order, so nobody waits for one that has not begun."""
    waits = needs(wanted)
    futures: dict[str, Future[dict[str, Any]]] = {}

    def run(step: Step) -> dict[str, Any]:
        for name in waits[step.name]:
            futures[name].result()
        return run_step(step, place, package)

    results = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for step in wanted:
            futures[step.name] = pool.submit(run, step)
        try:
            for count, step in enumerate(wanted, start=1):
                results[step.name] = futures[step.name].result()
                say(f"{count}/{len(wanted)} {step.name}: exit code {results[step.name]['exit']}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _files(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())


def _are_equal(place: Path, names: Iterable[str]) -> bool:
    paths = [place / name for name in names]
    return all(path.is_file() for path in paths) and len({path.read_bytes() for path in paths}) == 1


def say(line: str) -> None:
    """Tell how far it is."""
    print(f"oracle: {line}", file=sys.stderr, flush=True)


# ---- differences ---------------------------------------------------------------------------------------


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Return all differences of two JSON values, exactly: 1 is not 1.0, and 0.0 is not -0.0."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted({*old, *new}):
            inner = f"{where}.{key}" if where else key
            if key not in new:
                found.append(f"{inner}: gone, was {_short(old[key])}")
            elif key not in old:
                found.append(f"{inner}: new, is {_short(new[key])}")
            else:
                found += differences(old[key], new[key], inner)
        return found
    if isinstance(old, list) and isinstance(new, list):
        if len(old) == len(new):
            pairs = enumerate(zip(old, new, strict=True))
            return [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]")]
        return [f"{where}: {len(old)} items became {len(new)}", *_changed_items(old, new, where)]
    if _exact(old) == _exact(new):
        return []
    return [f"{where}: {_short(old)} became {_short(new)}"]


def _changed_items(old: list[Any], new: list[Any], where: str) -> list[str]:
    before, after = ([_exact(item) for item in items] for items in (old, new))
    lines = difflib.unified_diff(before, after, lineterm="", n=0)
    return [f"{where} {line[0]} {_cut(line[1:])}" for line in lines if line[:3] not in ("---", "+++", "@@ ")]


def _exact(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    return _cut(_exact(value))


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"


def file_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return how the files of a step differ."""
    found = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            if before is not after or (name in old) != (name in new):
                found.append(f"{name}: {'gone' if after is None else 'new'}")
        elif before["sha256"] != after["sha256"]:
            found.append(f"{name}: other bytes, {before['bytes']} became {after['bytes']}")
            found += differences(before["contents"], after["contents"], f"{name}: contents")
    return found


def step_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return how two results of a step differ."""
    found = [
        line
        for part in ("arguments", "exit", "stdout", "stderr")
        for line in differences(old[part], new[part], part)
    ]
    return found + file_differences(old["files"], new["files"])


def all_differences(
    old: dict[str, Any], new: dict[str, Any], *, partly: bool = False
) -> dict[str, list[str]]:
    """Return the differences by step; if only some steps were run again, of these alone."""
    if old.get("version") != new["version"]:
        raise SystemExit(f"oracle: the reference has version {old.get('version')}, not {new['version']}")
    before, after = old["steps"], new["steps"]
    found = {}
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            lines = [] if partly else ["not run any more"]
        elif name not in before:
            lines = ["not in the reference"]
        else:
            lines = step_differences(before[name], after[name])
        if lines:
            found[name] = lines
    for part in ("tables", "leftovers", "equal"):
        if part in old and part in new and (lines := differences(old[part], new[part], part)):
            found[part] = lines
    return found


def show(found: dict[str, list[str]], *, everything: bool) -> None:
    """Print differences."""
    for name, lines in found.items():
        print(f"{name}:")
        shown = lines if everything else lines[:SHOWN]
        for line in shown:
            print(f"  {line}")
        if len(shown) < len(lines):
            print(f"  … and {len(lines) - len(shown):,} more: --all")
    print(f"{len(found)} steps differ" if found else "no difference")


# ---- command line --------------------------------------------------------------------------------------


def record(folder: Path, package: Path, **options: Any) -> Path:
    """Write what the commands do now to oracle.json."""
    found = observe(folder, package, **options)
    target = folder / "oracle.json"
    partial = target.with_suffix(".json.part")
    partial.write_text(json.dumps(found, sort_keys=True, indent=1) + "\n")
    partial.replace(target)
    say(f"wrote {target}")
    return target


def compare(
    folder: Path, reference: Path, package: Path, *, only: str | None, keep: bool, everything: bool
) -> int:
    """Print how the commands differ from what was recorded; return 1 if they do."""
    old = json.loads(reference.read_text())
    new = observe(folder, package, only=only, keep=keep)
    found = all_differences(old, new, partly=only is not None)
    show(found, everything=everything)
    return 1 if found else 0


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Yield a temporary worktree of a revision."""
    git = ["git", "-C", str(CHECKOUT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        place = Path(folder).resolve() / "checkout"
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), revision], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--only", metavar="TEXT", help="steps whose names contain TEXT, and those they need")
    shared.add_argument("--package", type=Path, default=CHECKOUT, help="checkout whose package is run")
    shared.add_argument("--keep", action="store_true", help="leave the files that were written")
    shared.add_argument("--all", action="store_true", help="print every difference")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], parents=[shared])
    parser.add_argument("--list", action="store_true", help="show the steps and stop")
    inner = parser.add_subparsers(dest="what")
    for name in ("record", "compare", "against"):
        # Options may also follow the command; there they must not undo what came before it.
        one = inner.add_parser(name, parents=[shared], argument_default=argparse.SUPPRESS)
        if name == "against":
            one.add_argument("revision", metavar="REV")
            continue
        one.add_argument("folder", metavar="DIR", type=Path)
        if name == "compare":
            one.add_argument("reference", metavar="REFERENCE.json", type=Path)
    return parser


def main() -> int:
    """Do what the command line asks."""
    parser = arguments()
    given = parser.parse_args()
    if given.list:
        for step in chosen(steps(), given.only):
            print(f"{step.name}: {shlex.join(step.arguments)}")
        return 0
    if given.what is None:
        parser.error("what is to be done: record, compare or against?")
    package = given.package.resolve()
    if given.what == "record":
        record(given.folder, package, only=given.only, keep=given.keep)
        return 0
    options = {"only": given.only, "keep": given.keep, "everything": given.all}
    if given.what == "compare":
        return compare(given.folder, given.reference, package, **options)
    with tempfile.TemporaryDirectory(prefix="oracle-") as name, checked_out(given.revision) as old:
        folder = Path(name)
        reference = record(folder, old, only=given.only)
        return compare(folder, reference, package, **(options | {"keep": False}))


if __name__ == "__main__":
    sys.exit(main())
