"""Run the job of configs/taxi.toml month by month, as cron would, over three years of taxi trips.

    python scripts/examples/taxi_nightly.py --data DIR

DIR holds nyc_taxi_360k.parquet: 10,000 yellow-cab trips of each month from 2018 to 2020, with the month in
the column `file_month`. Each month a file arrives and `nysketch run` is started, 36 times; then once more, to
find nothing to do. Prints what each month differs by, which months raised an alarm, how many of the ordinary
months before March 2020 did, and how far the windows are from fresh merges. Takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import nysketch
from nysketch.jobs.store import Store

CONFIG = Path(__file__).parent.parent.parent / "configs" / "taxi.toml"
# From March 2020 on nothing was ordinary.
ORDINARY_UNTIL = "2020-02"
ALARM = 7


def months_of(table: Path) -> list[tuple[str, object]]:
    """Return the trips of each month, in order."""
    trips = pq.read_table(table)
    numbers = sorted(set(trips["file_month"].to_pylist()))
    return [(f"{n // 100}-{n % 100:02}", trips.filter(pc.equal(trips["file_month"], n))) for n in numbers]


def run(job: Path, *changes: str) -> dict:
    """Run the job once and return its summary; alarms are no failure."""
    flags = [flag for change in changes for flag in ("--set", change)]
    command = [sys.executable, "-m", "nysketch", "run", str(job), "--json", "-q", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, ALARM):
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}\n{done.stderr}")
    summary = json.loads(done.stdout)
    assert summary["exit_code"] == done.returncode
    return summary


def arrays_of(sketch: nysketch.Sketch) -> dict[str, np.ndarray]:
    """Return the sums of a sketch: what merging and subtracting must leave the same."""
    sums = sketch.tally.arrays()
    return {name: sums[name] for name in sums if name.split(".")[0] in ("blocks", "cells")}


def farthest_from_fresh(store: Store) -> float:
    """Return the largest difference of any window from a fresh merge, relative to the largest number."""
    worst = 0.0
    for name, window in store.windows().items():
        kept = arrays_of(store.window_sketch(name))
        merged = arrays_of(sum(store.sketch(partition) for partition in window.partitions))
        assert kept.keys() >= {"blocks.sums", "cells.sums"}
        for key in kept.keys() | merged.keys():
            scale = max(float(np.abs(merged[key]).max()), 1e-300)
            worst = max(worst, float(np.abs(kept[key] - merged[key]).max()) / scale)
    return worst


def month_by_month(table: Path, folder: Path, changes: list[str]) -> tuple[list[dict], float, dict]:
    """Let months arrive; return what runs did, how far windows were from fresh merges, and a last run."""
    (folder / "trips").mkdir()
    job = Path(shutil.copy(CONFIG, folder))
    store, worst, summaries = Store(folder / "taxi-store"), 0.0, []
    for month, trips in months_of(table):
        pq.write_table(trips, folder / "trips" / f"{month}.parquet")
        summaries.append(run(job, *changes) | {"month": month})
        worst = max(worst, farthest_from_fresh(store))
    return summaries, worst, run(job, *changes)


def main() -> None:
    """Print months and alarms."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data", type=Path, required=True, help="folder with nyc_taxi_360k.parquet")
    parser.add_argument("--set", action="append", default=[], help="a setting of the job: table.key=value")
    parser.add_argument("--keep", type=Path, help="copy files, job and store here")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = options.data / "nyc_taxi_360k.parquet"
        summaries, worst, again = month_by_month(table, folder, options.set)
        store = Store.open(folder / "taxi-store")
        for month, comparisons in store.drift().items():
            print(month, *(f"{c['name']} {c['mmd']:.3f} p {c['p_value']:.1g}" for c in comparisons), sep="  ")
        if options.keep is not None:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True)
    alarms = {summary["month"] for summary in summaries if summary["alarms"]}
    ordinary = [s["month"] for s in summaries if s["month"] <= ORDINARY_UNTIL]
    false = sorted(alarms.intersection(ordinary))
    print(
        f"{len(summaries)} runs in {time.perf_counter() - started:.0f} s; alarms: {', '.join(sorted(alarms))}"
    )
    print(f"ordinary months with an alarm: {len(false)} of {len(ordinary)} {' '.join(false)}".rstrip())
    print(f"windows are within {worst:.1g} of fresh merges, in all runs")
    idle = not (again["new"] or again["changed"] or again["windows"] or again["models"])
    print(f"a run with nothing new {'did nothing' if idle else 'DID SOMETHING'}")


if __name__ == "__main__":
    main()
