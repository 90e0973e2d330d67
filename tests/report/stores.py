"""Stores for tests: like those of `nysketch run`, made from little data, or from none."""

import hashlib
import json

import numpy as np
import pyarrow as pa

import nysketch
from nysketch.sketches.describe import describe_quality

CHANGED = 9  # this partition and the next one are unlike the others


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, sort_keys=True, indent=2) + "\n")


def month(index):
    return f"{2019 + index // 12}-{index % 12 + 1:02}"


def rows_of(index, columns, rows=800):
    """Three clusters in some columns; those of a changed partition have moved."""
    random = np.random.default_rng(index)
    d = len(columns)
    which = random.choice(3, rows, p=[0.5, 0.3, 0.2])
    centres = np.random.default_rng(99).normal(0, 4, (3, d))
    found = centres[which] + random.normal(0, 1, (rows, d))
    if index in (CHANGED, CHANGED + 1):
        found[:, 0] += 2.5
        found[:, 1] -= 1.5
    return pa.table(dict(zip(columns, found.T, strict=True)))


def comparison(against, other, mine, theirs, columns):
    made = nysketch.compare(mine, theirs, permutations=99)
    shifts = sorted(
        ({"name": c, "shift": s, "error": 0.05} for c, s in zip(columns, shift(mine, theirs), strict=True)),
        key=lambda item: -abs(item["shift"]),
    )
    return {
        "against": against,
        "other": other,
        "mmd": made.mmd,
        "standard_error": made.distance.standard_error,
        "threshold": made.verdict.threshold,
        "p_value": made.p_value,
        "rejected": bool(made.rejected and made.mmd > 0.15),
        "verdict": "different" if made.rejected else None,
        "rows": [mine.rows, theirs.rows],
        "columns": shifts,
        "notes": [],
    }


def shift(mine, theirs):
    def mean(sketch):
        landmarks = sketch.basis.scaled_landmarks
        return (sketch.cells.rows @ landmarks + sketch.cells.sums.high.sum(axis=0)) / sketch.rows

    return (mean(mine) - mean(theirs)).tolist()


def make_store(
    path,
    *,
    partitions=14,
    columns=("distance", "fare", "tip", "hour"),
    m=40,
    models=("kmeans", "gmm"),
    compare=True,
    name="taxi",
    rename=month,
):
    """Make a store of sketched partitions; returns its path."""
    columns = list(columns)
    basis = nysketch.Basis.fit(rows_of(0, columns, 2000), landmarks=m)
    write_json(path / "store.json", {"schema_version": 1, "name": name, "settings": {}})
    nysketch.save(basis, path / "basis.nysk")
    sketches = {}
    for index in range(partitions):
        key = rename(index)
        table, dropped = rows_of(index, columns, 600 + 40 * (index % 5)), (7 * index) % 23
        nulls = pa.table({name: pa.nulls(dropped, pa.float64()) for name in columns})
        table = pa.concat_tables([table, nulls])
        sketch = sketches[key] = nysketch.sketch(table, basis=basis, blocks=32, nulls="drop")
        file = path / "partitions" / f"{key}.nysk"
        file.parent.mkdir(exist_ok=True)
        nysketch.save(sketch, file)
        describe_partition(path, key, sketch.rows, dropped, describe_quality(sketch), file)
        keys = list(sketches)
        if compare and index:
            found = [comparison("previous", keys[-2], sketch, sketches[keys[-2]], columns)]
            found.append(comparison("reference", keys[0], sketch, sketches[keys[0]], columns))
            write_json(path / "drift" / f"{key}.json", {"partition": key, "comparisons": found})
        for model in models:
            learn = nysketch.learn_kmeans if model == "kmeans" else nysketch.learn_gmm
            learned = learn(sketch, 3)
            for target in (path / "models" / model / f"{key}.json", path / "models" / f"{model}.json"):
                target.parent.mkdir(parents=True, exist_ok=True)
                nysketch.save_model(learned, target, if_exists="overwrite")
        append_run(path, key, index, alarms=[key] if index in (CHANGED, CHANGED + 2) else [])
    return path


def describe_partition(path, key, rows, dropped, quality=None, sketch=None, name=None):
    digest = hashlib.sha256(sketch.read_bytes()).hexdigest()[:32] if sketch else "0"
    described = {
        "name": name or key,
        "inputs": [{"path": f"data/{key}.parquet", "bytes": 1000, "mtime_ns": 1, "digest": None}],
        "rows": rows,
        "dropped_rows": dropped,
        "request": "r",
        "sketch": digest,
        "quality": quality,
    }
    write_json(path / "partitions" / f"{key}.json", described)


def append_run(path, key, index, alarms=(), exit_code=None, errors=()):
    run = {
        "started": f"2026-{index // 28 % 12 + 1:02}-{index % 28 + 1:02}T03:00:0{index % 10}Z",
        "seconds": 1.5 + index % 4,
        "exit_code": (7 if alarms else 0) if exit_code is None else exit_code,
        "new": [key],
        "changed": [],
        "removed": [],
        "unchanged": index,
        "rows": 600,
        "dropped_rows": 0,
        "alarms": list(alarms),
        "models": ["kmeans"],
        "errors": list(errors),
    }
    with (path / "history.jsonl").open("a") as file:
        file.write(json.dumps(run, sort_keys=True) + "\n")


def make_huge(path, partitions=3000):
    """Make a store with no sketches, but many partitions, comparisons and runs."""
    random = np.random.default_rng(0)
    write_json(path / "store.json", {"schema_version": 1, "name": "huge", "settings": {}})
    for index in range(partitions):
        key = f"day-{index:05}"
        quality = {
            "projection_error": 0.002,
            "sampling_error": 0.004,
            "mean_residual": 0.1,
            "advice": ["Enough."],
        }
        describe_partition(path, key, 1000 + index % 7, index % 3, quality)
        if index:
            found = [
                {
                    "against": kind,
                    "other": f"day-{index - 1:05}",
                    "mmd": float(random.uniform(0.01, 0.05)),
                    "standard_error": 0.01,
                    "threshold": 0.045,
                    "p_value": 0.3,
                    "rejected": index % 100 == 99,
                    "verdict": None,
                    "rows": [1000, 1000],
                    "columns": [
                        {"name": f"c{i}", "shift": float(random.normal()), "error": 0.1} for i in range(20)
                    ],
                    "notes": [],
                }
                for kind in ("previous", "weekday", "reference")
            ]
            write_json(path / "drift" / f"{key}.json", {"partition": key, "comparisons": found})
        append_run(path, key, index)
    return path
