"""Writes `v1/`: files of format version 1, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v1"


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(1)
    for name, rows in (("monday.parquet", 700), ("tuesday.parquet", 300)):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        pq.write_table(pa.table(columns), name, row_group_size=250)
    basis = nysketch.Basis.fit("monday.parquet", columns=["x", "y"], m=8)
    files = ["monday.parquet", "tuesday.parquet"]
    things = {
        "basis.nysk": basis,
        "float32.nysk": nysketch.sketch(files, basis=basis, blocks=4),
        "weighted.nysk": nysketch.sketch(files, basis=basis, blocks=4, weights="w"),
        "float64.nysk": nysketch.sketch(files, basis=basis, blocks=4, precision="float64"),
    }
    expected = {}
    for name, thing in things.items():
        nysketch.save(thing, name)
        expected[name] = {"basis_digest": basis.digest, "bandwidth": basis.kernel.bandwidth}
        if isinstance(thing, nysketch.Sketch):
            lower, upper = thing.column_ranges
            expected[name] |= {
                "block_rows": thing.block_rows.tolist(),
                "inputs": [[item.path, item.rows, item.digest] for item, _ in thing.provenance.inputs],
                "kernel_sums": thing.kernel_sums.tolist(),
                "lower": lower.tolist(),
                "rows": thing.rows,
                "settings": thing.settings,
                "total_weight": thing.total_weight,
                "upper": upper.tolist(),
            }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    for name in files:
        Path(name).unlink()


if __name__ == "__main__":
    main()
