"""What does a pass cost past one machine? Measured in pieces, put together on paper, and on a real cluster.

    scripts/setup dask && .venv/bin/python scripts/bench/scale.py [--section NAME] [--rows N] [--json out]

Sections (--section; both unless told otherwise):

  project   What a cluster would do with 10⁹, 10¹¹ and 10¹³ rows, d = 10, m = 1000. Measured here, on one
            core: rows a second from Parquet, seconds to open a file, to add a part to others and to receive
            one, size of a part on its way and of the sketch, and what the scheduler takes for a task. Then a
            simulation of the engine with these numbers, for as many threads as --threads says: threads take
            groups of fragments, the scheduler hands them out one by one, parts are added up in a tree, totals
            arrive at one client. What is assumed and not measured: every thread is as fast as one core here;
            a link moves 1 GB a second; the time of groups varies by 20 %; storage keeps up; files have 10⁸
            rows, and opening one takes 50 ms, eight at a time, as from an object store; nothing fails. The
            pilot, and the start of a cluster, are left out
  overhead  `nysketch sketch` of a file of --rows rows by two threads, and by a Dask cluster of two workers
            with one thread each, on the same two cores, in turn: seconds of both, and what the cluster took
            more; the files they write must be identical

On two cores, project takes two minutes; overhead at 60,000,000 rows and m = 4000 eight.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.engines.dask.batching import SECONDS, seconds_for
from nysketch.engines.dask.engine import FAN_IN
from nysketch.engines.dask.session import ARRIVALS
from nysketch.engines.dask.worker import TOTAL, Shipped, add_up, run_group, software
from nysketch.passes.accumulate import FragmentAccumulator
from nysketch.sources.open import open_source

D, M, GROUP_ROWS = 10, 1000, 250_000
ROWS = (10**9, 10**11, 10**13)
LINK, VARIATION, ROWS_PER_FILE, OPENING, OPENERS = 1e9, 0.2, 10**8, 0.05, 8


def write_table(path: Path, rows: int, seed: int = 0) -> None:
    """Write a mixture of ten Gaussians, row group by row group."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3, (10, D))
    names = [f"x{i}" for i in range(D)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, GROUP_ROWS):
            count = min(GROUP_ROWS, rows - start)
            X = centres[rng.integers(10, size=count)] + rng.standard_normal((count, D))
            writer.write_table(pa.table([pa.array(c) for c in X.T.astype(np.float32)], schema=schema))


# ---- measured -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds and bytes."""

    rows_per_second: float
    open_file: float
    add: float
    arrive: float
    task: float
    part_bytes: int
    file_bytes: int


def seconds(work: Callable[[], Any], at_least: float = 1.0) -> float:
    """Return how long something takes, on average over a second or more."""
    work()
    started, times = time.perf_counter(), 0
    while time.perf_counter() - started < at_least:
        work()
        times += 1
    return (time.perf_counter() - started) / times


def measure(folder: Path, rows: int, tasks: int) -> Costs:
    """Measure all costs on one core."""
    path = folder / "rows.parquet"
    write_table(path, rows)
    basis = nysketch.Basis.fit(str(path), landmarks=M)
    opening = seconds(lambda: open_source(str(path)).inputs())
    source = open_source(str(path))
    work = FragmentAccumulator(source, basis, PassOptions())
    shipped = Shipped(work, software())
    fragments = list(source.fragments())
    run_group(shipped, fragments[:1], TOTAL)  # loads machine code
    outcomes = [run_group(shipped, [fragment], TOTAL) for fragment in fragments]
    spent = sum(outcome.seconds for outcome in outcomes)
    some = outcomes[:FAN_IN]
    running = work.running()
    sketch = nysketch.sketch(str(path), basis=basis, threads=1)
    nysketch.save(sketch, folder / "s.nysk")
    return Costs(
        rows_per_second=rows / spent,
        open_file=opening,
        add=seconds(lambda: add_up(shipped, some)) / len(some),
        arrive=seconds(lambda: running.add(pickle.loads(pickle.dumps(outcomes[0].value, 5)))),
        task=scheduling(tasks),
        part_bytes=len(pickle.dumps(outcomes[0], 5)),
        file_bytes=(folder / "s.nysk").stat().st_size,
    )


def scheduling(tasks: int) -> float:
    """Return the seconds that a scheduler takes for one task of a group, of which nothing is left to do."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.submit(int, 0).result()
        started = time.perf_counter()
        client.gather([client.submit(int, i, key=f"task-{i}") for i in range(tasks)])
        return (time.perf_counter() - started) / tasks


# ---- simulated ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projection:
    """What a cluster would take."""

    rows: int
    threads: int
    hours: float
    efficiency: float  # of all threads, over the whole time
    groups: int
    group_seconds: float
    depth: int  # of the tree of sums, up to the client
    arrivals: int
    moved_bytes: float
    scheduler_busy: float
    client_busy: float


def project(rows: int, threads: int, costs: Costs, seed: int = 0) -> Projection:
    """Simulate a pass: threads that take groups, one scheduler, one client."""
    rng = np.random.default_rng(seed)
    group_seconds = max(SECONDS, seconds_for(threads, rows / costs.rows_per_second))
    groups = math.ceil(rows / (costs.rows_per_second * group_seconds))
    group_seconds = rows / costs.rows_per_second / groups
    bundle = max(FAN_IN, math.ceil(groups / ARRIVALS))
    depth = math.ceil(math.log(bundle, FAN_IN)) + 1
    sums = sum(math.ceil(bundle / FAN_IN**level) for level in range(1, depth))  # for each bundle
    # Of the parts that a sum needs, one is where it is made.
    moved = costs.part_bytes * (FAN_IN - 1) / FAN_IN
    group_extra = (1 + sums / bundle) * (costs.add + moved / LINK)
    free = [0.0] * threads
    scheduler = client = 0.0
    scheduler_busy = client_busy = 0.0
    started = rows / ROWS_PER_FILE * OPENING / OPENERS  # footers, before anything else
    scheduler = client = started
    varied = rng.lognormal(-(VARIATION**2) / 2, VARIATION, 1 << 16) * group_seconds
    ended, in_bundle, last = started, 0, 0.0
    for group in range(groups):
        idle = heapq.heappop(free)
        tasks = 1 + sums / bundle
        scheduler = max(scheduler, idle) + tasks * costs.task
        scheduler_busy += tasks * costs.task
        ended = scheduler + varied[group & 0xFFFF] + group_extra
        heapq.heappush(free, ended)
        in_bundle, last = in_bundle + 1, max(last, ended)
        if in_bundle == bundle or group == groups - 1:
            receive = costs.part_bytes / LINK + costs.arrive
            client = max(client, last) + receive
            client_busy += receive
            in_bundle, last = 0, 0.0
    wall = max(client, *free)
    arrivals = math.ceil(groups / bundle)
    return Projection(
        rows=rows,
        threads=threads,
        hours=wall / 3600,
        efficiency=rows / costs.rows_per_second / threads / wall,
        groups=groups,
        group_seconds=group_seconds,
        depth=depth,
        arrivals=arrivals,
        moved_bytes=(groups + sums * arrivals) * moved + arrivals * costs.part_bytes,
        scheduler_busy=scheduler_busy / wall,
        client_busy=client_busy / wall,
    )


def print_projections(costs: Costs, projections: list[Projection]) -> None:
    print(
        f"measured on one core: {costs.rows_per_second / 1e6:.2f} million rows a second; "
        f"{costs.open_file * 1e3:.1f} ms to open a file; {costs.add * 1e3:.1f} ms to add a part to others, "
        f"{costs.arrive * 1e3:.1f} ms to receive one; {costs.task * 1e3:.2f} ms for a task; "
        f"{costs.part_bytes / 1e6:.1f} MB for a part, {costs.file_bytes / 1e6:.1f} MB for the sketch\n"
    )
    print("| rows | threads | time | efficiency | groups | of | tree | arrivals | moved | scheduler busy |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for p in projections:
        print(
            f"| 10^{math.log10(p.rows):.0f} | {p.threads:,} | {duration(p.hours * 3600)} | "
            f"{p.efficiency:.0%} | {p.groups:,} | {p.group_seconds:.1f} s | {p.depth} | {p.arrivals:,} | "
            f"{p.moved_bytes / 1e9:,.1f} GB | {p.scheduler_busy:.0%} |"
        )


def duration(value: float) -> str:
    """Return seconds for people."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} s"


# ---- a real cluster --------------------------------------------------------------------------------


def overhead(folder: Path, rows: int, m: int, repeats: int) -> dict[str, Any]:
    """Sketch a file by threads and by a cluster, in turn; return what each took."""
    path, basis = folder / "rows.parquet", folder / "basis.nysk"
    write_table(path, rows)
    command = [sys.executable, "-m", "nysketch"]
    subprocess.run([*command, "basis", path, "-m", str(m), "-o", basis, "-q"], check=True)
    engines = {"threads": ["--threads", "2"], "dask": ["--engine", "dask", "--workers", "2"]}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
    for _ in range(repeats):
        for name, flags in engines.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = time.perf_counter()
            output = ["-o", folder / f"{name}.nysk", "--if-exists", "overwrite", "-q"]
            subprocess.run(
                [*command, "sketch", path, "--basis", basis, *output, *flags, "--memory", "4GB"], check=True
            )
            wall = time.perf_counter() - started
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            taken[name].append({"seconds": wall, "cpu_seconds": cpu})
            print(f"{name}: {wall:.1f} s, {cpu:.1f} s of CPU time", flush=True)
    same = (folder / "threads.nysk").read_bytes() == (folder / "dask.nysk").read_bytes()
    best = {name: min(run["seconds"] for run in runs) for name, runs in taken.items()}
    more = best["dask"] / best["threads"] - 1
    print(
        f"identical files: {same}; the cluster took {more:+.1%} beside two threads (best of {repeats} each)"
    )
    if not same:
        raise SystemExit("the files differ")
    return {"rows": rows, "m": m, "runs": taken, "identical": same, "overhead": more}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--section", choices=["project", "overhead"])
    parser.add_argument("--rows", type=int, default=60_000_000, help="of the overhead section")
    parser.add_argument("--measured-rows", type=int, default=4_000_000, help="of the project section")
    parser.add_argument("--tasks", type=int, default=3000, help="to measure the scheduler by")
    parser.add_argument("-m", type=int, default=4000, help="landmarks of the overhead section")
    parser.add_argument("--repeats", type=int, default=2, help="of the overhead section")
    parser.add_argument("--threads", type=int, nargs="+", default=[16, 256, 4096])
    parser.add_argument("--json", type=Path, help="write the results here, too")
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": platform.processor() or platform.machine()}
    with tempfile.TemporaryDirectory() as name:
        if options.section in (None, "project"):
            costs = measure(Path(name), options.measured_rows, options.tasks)
            projections = [project(rows, w, costs) for rows in ROWS for w in options.threads]
            print_projections(costs, projections)
            results |= {"costs": asdict(costs), "projections": [asdict(p) for p in projections]}
        if options.section in (None, "overhead"):
            results["overhead"] = overhead(Path(name), options.rows, options.m, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
