"""A small table with everything in it: categories, holes, heavy tails, times, and clusters that are known."""

import numpy as np
import pyarrow as pa

KINDS = {"city": "category", "price": "log", "flag": "category", "ts": "hour,weekday", "tail": "rank"}


def table(rows=1500, *, seed=0):
    """Return the table and the cluster of each row."""
    rng = np.random.default_rng(seed)
    cluster = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    city = np.array(["NYC", "LA", "SF", "<b>\n"])
    known = np.where(rng.random(rows) < 0.9, cluster, rng.integers(0, 4, rows))
    hours = cluster * 6 + 4 + rng.normal(size=rows)
    days = np.datetime64("2024-01-01", "s") + rng.integers(0, 366, rows) * 86400
    x = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows) + 4 * cluster)
    ts = pa.array(days + (hours * 3600).astype(int), mask=rng.random(rows) < 0.05)
    columns = {
        "city": pa.array(city[known], mask=rng.random(rows) < 0.05),
        "price": np.exp(rng.normal(size=rows) * 0.5 + 2 * cluster),
        "x": pa.array(x, from_pandas=True),
        "y": 1e6 + rng.normal(size=rows),
        "ts": ts,
        "flag": rng.random(rows) < 0.3,
        "tail": rng.standard_cauchy(rows),
    }
    return pa.table(columns), cluster
