"""Writes `v5/`: files of format version 5, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v5"
FILES = ["monday.parquet", "tuesday.parquet"]

BASES = {
    "plain": {"columns": ["x", "y"]},
    "two": {"groups": {"a": ["x", "z"], "b": ["y"]}},
    "three": {
        "groups": {"a": ["z"], "b": ["x"], "c": ["y"]},
        "kernel": {"a": "gaussian", "b": "laplacian-l1", "c": "polynomial"},
    },
}
# The three groups have weights and sums of pairs.
PASSES = {"plain": {}, "two": {}, "three": {"weights": "w", "pairs": True}}


def groups_of(groups):
    return {
        "high": groups.sums.high.tolist(),
        "low": groups.sums.low.tolist(),
        "parts": [list(part) for part in groups.parts],
    }


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(5)
    for name, rows in zip(FILES, (700, 300), strict=True):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        columns["z"] = columns["x"] + random.normal(size=rows)
        pq.write_table(pa.table(columns), name, row_group_size=250)
    expected = {}
    for name, options in BASES.items():
        basis = nysketch.Basis.fit("monday.parquet", m=6, **options)
        sketch = nysketch.sketch(
            FILES,
            basis=basis,
            blocks=2,
            sample_rows=4,
            far_rows=3,
            runs=4,
            shuffles=99,
            shuffle_rows=5,
            **PASSES[name],
        )
        for suffix, thing in (("basis", basis), ("sketch", sketch)):
            nysketch.save(thing, f"{name}.{suffix}.nysk")
            expected[f"{name}.{suffix}.nysk"] = {"basis_digest": basis.digest, "kernel": str(basis.kernel)}
        expected[f"{name}.sketch.nysk"] |= {
            "block_rows": sketch.block_rows.tolist(),
            "cell_rows": sketch.cells.rows.tolist(),
            "groups": None if sketch.groups is None else groups_of(sketch.groups),
            "hsic": None if sketch.groups is None else nysketch.independence(sketch).hsic,
            "kernel_sums": sketch.kernel_sums.tolist(),
            "run_rows": sketch.runs.rows.tolist(),
            "sample_keys": sketch.tally.sample.keys.tolist(),
            "settings": sketch.settings,
            "total_weight": sketch.total_weight,
        }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    for name in FILES:
        Path(name).unlink()


if __name__ == "__main__":
    main()
