"""Writes `v8/`: files of format version 8, and in expected.json what they must always be read as.

Ran once, with the release that introduced the version; the files are kept as they are, for ever. Only
bases with columns of other kinds than numbers have this version.
"""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

import nysketch

HERE = Path(__file__).parent / "v8"


def table():
    random = np.random.default_rng(8)
    seconds = 1_700_000_000 + random.integers(0, 400 * 86_400, 500)
    city = np.array(["Köln", "", "東京", "a\tb"], object)[random.choice(4, 500, p=[0.5, 0.3, 0.15, 0.05])]
    city[::9] = None
    return pa.table(
        {
            "city": pa.array(city, pa.string()),
            "price": pa.array(np.where(random.random(500) < 0.2, np.nan, random.lognormal(size=500))),
            "size": random.exponential(size=500),
            "ts": pa.array(seconds.astype("datetime64[s]")),
            "x": random.normal(size=500),
            "w": random.uniform(0.5, 2, 500),
        }
    )


KINDS = {"city": "category", "price": "log", "size": "rank", "ts": "hour,weekday,elapsed"}
CASES = {
    "mixed": {"kinds": KINDS, "pilot_rows": 40},
    "weighted": {"kinds": {"city": "category", "ts": "hour"}, "weights": "w"},
    "categories": {"kinds": {"city": "category"}, "columns": ["city"]},
}


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)
    rows, expected = table(), {}
    for name, options in CASES.items():
        sketch = nysketch.sketch(
            rows if "weights" in options else rows.drop(["w"]),
            nulls="keep", landmarks=6, blocks=2, sample_rows=4, far_rows=3, spans=4, seed=1, threads=1,
            **options,
        )  # fmt: skip
        nysketch.save(sketch.basis, f"{name}.basis.nysk")
        nysketch.save(sketch, f"{name}.sketch.nysk")
        cells = sketch.cells
        expected[name] = {
            "basis_digest": sketch.basis.digest,
            "cells": [cells.rows.tolist(), cells.sums.high.tolist(), cells.squares.high.tolist()],
            "kernel_sums": sketch.kernel_sums.tolist(),
            "kinds": [column.describe() for column in sketch.basis.columns],
            "landmarks": [
                [None if np.isnan(x) else x for x in row] for row in sketch.basis.landmarks.tolist()
            ],
            "scaled": sketch.basis.scaled_landmarks.tolist(),
            "vocabulary": list(sketch.basis.columns[0].kind.values),
        }
    Path("expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
