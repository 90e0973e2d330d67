"""Writes `v4/`: files of format version 4, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v4"
FILES = ["monday.parquet", "tuesday.parquet"]
WORDS = ["alpha", "beta", "gamma", "delta", "épsilon", "zeta", ""]

BASES = {
    "gaussian": {"columns": ["x", "y"]},
    "plain": {"columns": ["x", "y"]},
    "product": {"groups": {"a": ["x"], "b": ["y"]}, "kernel": {"a": "laplacian-l1", "b": "polynomial"}},
    "fourier": {"columns": ["x", "y"], "features": "fourier"},
    "text": {"columns": ["s"], "kernel": "subsequence"},
}


def runs_of(runs):
    return {
        "level": runs.level,
        "rows": runs.rows.tolist(),
        "sums": runs.sums.high.tolist(),
        "weight": runs.weight.tolist(),
        "where": runs.where.tolist(),
    }


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(4)
    for name, rows in zip(FILES, (700, 300), strict=True):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        columns["x"][11] *= 1e100 if name == FILES[1] else 1  # beyond all cells
        columns["s"] = random.choice(WORDS, rows)
        pq.write_table(pa.table(columns), name, row_group_size=250)
    expected = {}
    for name, options in BASES.items():
        basis = nysketch.Basis.fit("monday.parquet", m=6, **options)
        weights = None if name == "plain" else "w"
        # Of the last one, whole files are a run; the others have runs within each.
        sketch = nysketch.sketch(
            FILES,
            basis=basis,
            blocks=2,
            sample_rows=5,
            far_rows=7,
            weights=weights,
            runs=1 if name == "text" else 6,
        )
        for suffix, thing in (("basis", basis), ("sketch", sketch)):
            nysketch.save(thing, f"{name}.{suffix}.nysk")
            expected[f"{name}.{suffix}.nysk"] = {"basis_digest": basis.digest, "kernel": str(basis.kernel)}
        expected[f"{name}.sketch.nysk"] |= {
            "block_rows": sketch.block_rows.tolist(),
            "kernel_sums": sketch.kernel_sums.tolist(),
            "mean_features": sketch.mean_features().tolist(),
            "sample_keys": sketch.tally.sample.keys.tolist(),
            "cell_rows": None if sketch.cells is None else sketch.cells.rows.tolist(),
            "runs": runs_of(sketch.runs),
            "settings": sketch.settings,
            "total_weight": sketch.total_weight,
        }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    for name in FILES:
        Path(name).unlink()


if __name__ == "__main__":
    main()
