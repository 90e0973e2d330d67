"""Writes `v7/`: files of format version 7, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever. Only
sketches that hold parts of their inputs have this version.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import nysketch

HERE = Path(__file__).parent / "v7"
FILES = ["monday.parquet", "tuesday.parquet"]


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)  # the sketches remember relative names
    random = np.random.default_rng(7)
    for name, rows in zip(FILES, (700, 300), strict=True):
        columns = {"x": random.normal(size=rows), "y": random.normal(3, 2, rows), "w": random.random(rows)}
        pq.write_table(pa.table(columns), name, row_group_size=60)
    basis = nysketch.Basis.fit(FILES, m=6, columns=["x", "y"])
    options = {"basis": basis, "blocks": 2, "sample_rows": 4, "far_rows": 3, "runs": 4, "weights": "w"}
    parts = [nysketch.sketch(FILES, part=f"{i}/5", **options) for i in range(1, 6)]
    monday = [nysketch.sketch(FILES[:1], part=f"{i}/2", **options) for i in (1, 2)]
    whole = nysketch.sketch(FILES, **options)
    things = {
        "part.nysk": parts[2],
        "rest.nysk": whole - parts[2],
        "several.nysk": parts[0] + parts[1] + parts[1] + parts[4] + monday[1],
        "beside.nysk": whole + monday[0],
    }
    expected = {}
    for name, sketch in things.items():
        nysketch.save(sketch, name)
        expected[name] = {
            "basis_digest": sketch.basis.digest,
            "block_rows": sketch.block_rows.tolist(),
            "held": [
                [whole.of, [list(stretch) for stretch in held]] for whole, held in sketch.provenance.parts
            ],
            "inputs": [[item.path, item.rows, times] for item, times in sketch.provenance.inputs],
            "kernel_sums": sketch.kernel_sums.tolist(),
            "missing": [
                [whole.of, [list(stretch) for stretch in missing]]
                for whole, missing in sketch.provenance.missing_parts()
            ],
            "total_weight": sketch.total_weight,
            "wholes": [
                [whole.digest, [[item.path, item.rows, times] for item, times in whole.inputs]]
                for whole, _ in sketch.provenance.parts
            ],
        }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    for name in FILES:
        Path(name).unlink()


if __name__ == "__main__":
    main()
