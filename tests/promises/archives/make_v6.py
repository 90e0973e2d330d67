"""Writes `v6/`: files of format version 6, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v6"
FILES = ["monday.parquet", "tuesday.parquet"]

BASES = {
    "gaussian": {"columns": ["x", "y"]},
    "plain": {"columns": ["x", "y"]},
    "polynomial": {"columns": ["x", "y"], "kernel": "polynomial"},
    "fourier": {"columns": ["x", "y"], "features": "fourier"},
    "text": {"columns": ["t"], "kernel": "spectrum"},
}
# All but the plain one have second moments; the polynomial kernel also has weights.
PASSES = {name: {"second_moments": name != "plain"} for name in BASES}
PASSES["polynomial"]["weights"] = "w"


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(6)
    for name, rows in zip(FILES, (700, 300), strict=True):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        columns["t"] = ["".join(random.choice(list("abc"), 4)) for _ in range(rows)]
        pq.write_table(pa.table(columns), name, row_group_size=250)
    expected = {}
    for name, options in BASES.items():
        basis = nysketch.Basis.fit("monday.parquet", m=6, **options)
        sketch = nysketch.sketch(
            FILES, basis=basis, blocks=2, sample_rows=4, far_rows=3, runs=4, **PASSES[name]
        )
        for suffix, thing in (("basis", basis), ("sketch", sketch)):
            nysketch.save(thing, f"{name}.{suffix}.nysk")
            expected[f"{name}.{suffix}.nysk"] = {"basis_digest": basis.digest, "kernel": str(basis.kernel)}
        moments = sketch.second_moments
        expected[f"{name}.sketch.nysk"] |= {
            "block_rows": sketch.block_rows.tolist(),
            "cell_rows": None if sketch.cells is None else sketch.cells.rows.tolist(),
            "kernel_sums": sketch.kernel_sums.tolist(),
            "moments": None
            if moments is None
            else {"high": moments.sums.high.tolist(), "low": moments.sums.low.tolist()},
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
