"""What several of these tests need: read a source to the end, write a Parquet file in one line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nysketch.passes.chunks import ChunkReader
from nysketch.sources.open import open_source


def read_all(source, batch_rows=1000):
    """Return all rows as one float64 matrix, batches concatenated in order."""
    parts = []
    for fragment in source.fragments():
        for batch in source.read(fragment, batch_rows):
            columns = [np.asarray(array, np.float64).reshape(len(batch), -1) for array in batch.values]
            parts.append(np.hstack(columns))
    return np.concatenate(parts)


def read_chunks(source, batch_rows=None, nulls="error"):
    """Return copies of (first_row, rows, keep, weights) of every chunk."""
    reader = ChunkReader(source, nulls=nulls, batch_rows=batch_rows)
    return [
        (c.first_row, c.rows.copy(), c.keep.copy(), None if c.weights is None else c.weights.copy())
        for fragment in source.fragments()
        for c in reader.chunks(fragment)
    ]


def counted_nulls(source):
    """Return the nulls per column over all batches."""
    counts = [batch.nulls for fragment in source.fragments() for batch in source.read(fragment, 1000)]
    return np.sum(counts, axis=0).tolist()


def write_parquet(path: Path, columns, **options):
    """Write a dict of columns (or a table) and return the path as a string."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return str(path)


def open_table(columns, /, **options):
    """Open a dict of columns as a table in memory."""
    return open_source(pa.table(columns), **options)
