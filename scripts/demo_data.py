"""Write the demonstration table: rows of a mixture of ten Gaussians in ten dimensions, sorted by cluster.

Sorted, because real files often are, and because a sketch does not mind. Columns are float32 features
x0 … x9 and the number of the true cluster, as a string: leave it out with `--exclude cluster`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CLUSTERS, FEATURES = 10, 10


def write(path: Path, rows: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    centres = 4 * rng.standard_normal((CLUSTERS, FEATURES))
    sizes = np.full(CLUSTERS, rows // CLUSTERS)
    sizes[: rows % CLUSTERS] += 1
    names = [f"x{i}" for i in range(FEATURES)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("cluster", pa.string())])
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema) as writer:
        for cluster, size in enumerate(sizes):
            values = centres[cluster] + rng.standard_normal((size, FEATURES), dtype=np.float32)
            columns = [pa.array(column.astype(np.float32)) for column in values.T]
            label = pa.array([str(cluster)]).take(pa.array(np.zeros(size, np.int64)))
            writer.write_table(pa.table([*columns, label], schema=schema), row_group_size=100_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    options = parser.parse_args()
    write(options.path, options.rows)
    print(f"{options.path}: {options.rows:,} rows, {options.path.stat().st_size / 1e6:.0f} MB")


main()
