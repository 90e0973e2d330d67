"""What do categories cost? Passes over mixed tables beside that over their numbers alone.

    scripts/setup bench && .venv/bin/python scripts/bench/kinds.py [--rows 400000] [--json out]

Every table is sketched at a basis that is there already, in memory and from Parquet, with one thread. Times
are CPU seconds, the best of --repeat; tables take turns, so that a busy machine slows all of them.

  numbers      ten columns of numbers
  codes        and ten of categories with 50 values each, as dictionaries
  strings      the same as plain strings
  one of 50    ten numbers and one category of 50 values
  million      ten numbers and one category of up to a million distinct strings
  holes        ten numbers, a tenth of each missing
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rows", type=int, default=400_000)
parser.add_argument("--repeat", type=int, default=5)
parser.add_argument("--landmarks", type=int, default=1000)
parser.add_argument("--json", type=Path, help="also write the numbers here")
options = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before anything loads BLAS or OpenMP

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import nysketch  # noqa: E402


def tables(rows: int) -> dict[str, tuple[pa.Table, dict[str, str]]]:
    """Return the tables, and the kinds of their columns."""
    random = np.random.default_rng(0)
    numbers = {f"x{i}": random.normal(size=rows) for i in range(10)}
    values = pa.array([f"value {i}" for i in range(50)])
    strings = {f"c{i}": values.take(pa.array(random.zipf(1.3, rows) % 50)) for i in range(10)}
    codes = {name: column.dictionary_encode() for name, column in strings.items()}
    names = pa.array([f"id-{i}" for i in random.integers(0, 1_000_000, rows)])
    holes = {name: np.where(random.random(rows) < 0.1, np.nan, column) for name, column in numbers.items()}
    return {
        "numbers": (pa.table(numbers), {}),
        "codes": (pa.table(numbers | codes), dict.fromkeys(codes, "category")),
        "strings": (pa.table(numbers | strings), dict.fromkeys(strings, "category")),
        "one of 50": (pa.table(numbers | {"c0": strings["c0"]}), {"c0": "category"}),
        "million": (pa.table(numbers | {"c0": names}), {"c0": "category"}),
        "holes": (pa.table(holes), {}),
    }


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources: list[tuple[str, str, Any, Any]] = []
        for name, (table, kinds) in tables(options.rows).items():
            path = Path(folder) / f"{name}.parquet"
            pq.write_table(table, path, row_group_size=65_536)
            basis = nysketch.Basis.fit(
                table, kinds=kinds, nulls="keep", landmarks=options.landmarks, sampling="uniform"
            )
            sources += [("memory", name, table, basis), ("parquet", name, path, basis)]
        for _ in range(options.repeat):
            for where, name, data, basis in sources:
                start = time.process_time()
                nysketch.sketch(data, basis=basis, nulls="keep", threads=1)
                taken = time.process_time() - start
                times = found.setdefault(where, {})
                times[name] = min(times.get(name, taken), taken)
    print(f"{options.rows:,} rows, {options.landmarks} landmarks\n")
    print("| columns | memory, s | times numbers | Parquet, s | times numbers |\n|---|---|---|---|---|")
    for name in found["memory"]:
        cells = [f"{times[name]:.2f} | {times[name] / times['numbers']:.2f}" for times in found.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


main()
