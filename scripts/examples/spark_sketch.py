"""Sketch a Spark table: every partition by itself, where it is, then a sum of all.

    python scripts/examples/spark_sketch.py 'events/*.parquet' -o events.nysk
    spark-submit --master yarn scripts/examples/spark_sketch.py hdfs:///events --basis b.nysk -o events.nysk

Workers get Arrow batches by `mapInArrow`, so that rows never become Python objects, and memory does not grow
with their number; each partition returns one sketch, of a few hundred kilobytes. Workers add up groups of
these, and the driver adds up the sums. Driver and workers need nysketch and, for `mapInArrow`, pandas.

To use `sketch_frame` in a job of your own, copy it: a frame, a basis, and options of `nysketch.sketch`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import nysketch

COLUMN = "sketch"


def sketch_frame(frame: DataFrame, basis: nysketch.Basis, **options: object) -> nysketch.Sketch:
    """Return the sketch of all rows of a frame; `options` are those of `nysketch.sketch`."""
    spark = frame.sparkSession
    shared = spark.sparkContext.broadcast(nysketch.to_bytes(basis))

    def as_batch(sketch: nysketch.Sketch) -> pa.RecordBatch:
        return pa.record_batch([pa.array([nysketch.to_bytes(sketch)], pa.binary())], [COLUMN])

    def sketch_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with_rows = (batch for batch in batches if batch.num_rows)
        first = next(with_rows, None)
        if first is not None:  # an empty partition has nothing to add
            known = nysketch.from_bytes(shared.value)
            # A task of Spark is one core.
            yield as_batch(nysketch.sketch(chain([first], with_rows), basis=known, threads=1, **options))

    def add_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sketches = (nysketch.from_bytes(item.as_py()) for batch in batches for item in batch[COLUMN])
        first = next(sketches, None)
        if first is not None:
            yield as_batch(sum(sketches, start=first))

    partitions = frame.rdd.getNumPartitions()
    made = frame.mapInArrow(sketch_partition, f"{COLUMN} binary")
    # A tree of two levels: no worker, nor the driver, adds up more than the root of them.
    sums = made.repartition(max(1, math.isqrt(partitions))).mapInArrow(add_up, f"{COLUMN} binary")
    total = [nysketch.from_bytes(bytes(row[COLUMN])) for row in sums.toLocalIterator()]
    if not total:
        raise SystemExit("there are no rows to sketch")
    return sum(total[1:], start=total[0])


def basis_of_sample(frame: DataFrame, m: int, *, seed: int, **options: object) -> nysketch.Basis:
    """Return a basis from a sample of the rows, for which all of them are read twice."""
    wanted = max(10 * m, 10_000)
    fraction = min(1.0, 1.2 * wanted / max(1, frame.count()))
    rows = frame.sample(fraction=fraction, seed=seed).collect()
    if not rows:
        raise SystemExit("there are no rows to make a basis from")
    table = pa.table({name: [row[name] for row in rows] for name in frame.columns})
    return nysketch.Basis.fit(table, landmarks=m, seed=seed, **options)


def main() -> None:
    """Read Parquet files with Spark, sketch what is left after a condition, and save the sketch."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("inputs", nargs="+", help="Parquet files or directories, as Spark takes them")
    parser.add_argument("-o", "--output", type=Path, required=True, help="sketch file to write")
    parser.add_argument(
        "--basis", type=Path, help="basis or sketch file; without it, one is made from a sample"
    )
    parser.add_argument("-m", "--landmarks", type=int, default=1000, help="of a basis that is made")
    parser.add_argument("--columns", help="a,b,c; by default those of the basis, or all")
    parser.add_argument("--where", help="condition on rows, in SQL")
    parser.add_argument("--weights", help="column of row weights")
    parser.add_argument("--drop-nulls", action="store_true", help="leave out rows with nulls or NaN")
    parser.add_argument("--partitions", type=int, help="deal the rows anew, to so many partitions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", help="such as local[4]; spark-submit says it otherwise")
    options = parser.parse_args()

    builder = SparkSession.builder.appName("nysketch")
    spark = (builder.master(options.master) if options.master else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.parquet(*options.inputs)
    if options.where:
        frame = frame.where(options.where)
    given = None
    if options.basis:
        thing = nysketch.load(options.basis)
        given = thing if isinstance(thing, nysketch.Basis) else thing.basis
    weights = [options.weights] if options.weights else []
    if options.columns:
        columns = options.columns.split(",")
    elif given is not None:
        columns = [column.name for column in given.columns]
    else:
        columns = [name for name in frame.columns if name not in weights]
    frame = frame.select(*columns, *weights)
    if options.drop_nulls:
        frame = frame.na.drop()
    if options.partitions:
        frame = frame.repartition(options.partitions)
    basis = given or basis_of_sample(frame.select(*columns), options.landmarks, seed=options.seed)
    sketch = sketch_frame(frame, basis, weights=options.weights, seed=options.seed)
    nysketch.save(sketch, options.output)
    print(f"{options.output}: {sketch.rows:,} rows from {frame.rdd.getNumPartitions()} partitions")
    spark.stop()


if __name__ == "__main__":
    main()
