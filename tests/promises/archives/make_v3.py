"""Writes `v3/`: files of format version 3, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v3"
FILES = ["monday.parquet", "tuesday.parquet"]
WORDS = ["alpha", "beta", "gamma", "delta", "épsilon", "zeta", ""]

BASES = {
    "gaussian": {"columns": ["x", "y"]},
    "plain": {"columns": ["x", "y"]},
    "product": {"groups": {"a": ["x"], "b": ["y"]}, "kernel": {"a": "laplacian-l1", "b": "polynomial"}},
    "fourier": {"columns": ["x", "y"], "features": "fourier"},
    "text": {"columns": ["s"], "kernel": "subsequence"},
}


def cells_of(cells):
    return {
        "beyond": cells.beyond,
        "far_cells": cells.far.cells.tolist(),
        "far_offsets": cells.far.offsets.tolist(),
        "rows": cells.rows.tolist(),
        "squares": cells.squares.high.tolist(),
        "sums": cells.sums.high.tolist(),
        "weight": cells.weight.tolist(),
    }


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(3)
    for name, rows in zip(FILES, (700, 300), strict=True):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        columns["x"][11] *= 1e100 if name == FILES[1] else 1  # beyond all cells
        columns["s"] = random.choice(WORDS, rows)
        pq.write_table(pa.table(columns), name, row_group_size=250)
    expected = {}
    for name, options in BASES.items():
        basis = nysketch.Basis.fit("monday.parquet", m=6, **options)
        weights = None if name == "plain" else "w"
        sketch = nysketch.sketch(FILES, basis=basis, blocks=2, sample_rows=5, far_rows=7, weights=weights)
        for suffix, thing in (("basis", basis), ("sketch", sketch)):
            nysketch.save(thing, f"{name}.{suffix}.nysk")
            expected[f"{name}.{suffix}.nysk"] = {"basis_digest": basis.digest, "kernel": str(basis.kernel)}
        expected[f"{name}.sketch.nysk"] |= {
            "block_rows": sketch.block_rows.tolist(),
            "kernel_sums": sketch.kernel_sums.tolist(),
            "mean_features": sketch.mean_features().tolist(),
            "sample_keys": sketch.tally.sample.keys.tolist(),
            "cells": None if sketch.cells is None else cells_of(sketch.cells),
            "settings": sketch.settings,
            "total_weight": sketch.total_weight,
        }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    for name in FILES:
        Path(name).unlink()


if __name__ == "__main__":
    main()
