"""A small nightly job, and what tests do with its store."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nysketch.jobs.config import load_job
from nysketch.jobs.run import run_job
from nysketch.jobs.store import Store
from nysketch.report.write import write_report

JOB = """
[job]
store = "store"
threads = 1
[inputs]
paths = "data/{date}.parquet"
[basis]
landmarks = 10
[sketch]
blocks = 16
sample_rows = 100
far_rows = 10
runs = 8
[[windows]]
last = 3
[[windows]]
last = "all"
[[models]]
name = "kinds"
kind = "kmeans"
k = 2
trials = 2
window = "last-3"
[[comparisons]]
against = "previous"
alpha = 0.01
alarm = true
"""


def day(number):
    return str(datetime.date(2024, 1, 1) + datetime.timedelta(number - 1))


class Nightly:
    """A folder with a job file, data and, after a run, a store."""

    def __init__(self, folder, text=JOB):
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.job = folder / "job.toml"
        self.job.write_text(text)

    def with_days(self, *numbers, **options):
        for number in numbers:
            self.write(number, **options)
        return self

    def write(self, number, *, shift=0.0, rows=200, seed=None, row_group_size=50):
        random = np.random.default_rng(number if seed is None else seed)
        values = random.standard_normal((rows, 2)) + shift
        table = pa.table({"x": values[:, 0], "y": values[:, 1]})
        pq.write_table(table, self.input(number), row_group_size=row_group_size)

    def input(self, number):
        return self.folder / "data" / f"{day(number)}.parquet"

    def append(self, text):
        self.job.write_text(self.job.read_text() + text)

    def run(self, *changes, **options):
        """Run in this process; quicker than a process of its own."""
        job = load_job(self.job, changes=changes, environment={})
        return run_job(job, **{"write_report": write_report} | options)

    @property
    def store(self):
        return Store.open(self.folder / "store")

    def contents(self, *, history=False):
        """Return the bytes of every file in the store."""
        root = self.folder / "store"
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and (history or path.name != "history.jsonl")
        }


def sums_of(sketch):
    """The arrays that must be the same in a kept window and in a fresh merge."""
    skipped = ("columns.", "far.", "runs.", "sample.")
    return {name: array for name, array in sketch.tally.arrays().items() if not name.startswith(skipped)}


def fresh_merge(store, names):
    return sum(store.sketch(name) for name in names)


def assert_windows_are_sums(store):
    for name, window in store.windows().items():
        kept, merged = (
            sums_of(store.window_sketch(name)),
            sums_of(fresh_merge(store, window.partitions)),
        )
        assert kept.keys() == merged.keys()
        for key, array in kept.items():
            assert np.array_equal(array, merged[key]), (name, key)
