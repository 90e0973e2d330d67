"""Work on fragments: what a thread, a process and others of it have; rows counted; inputs that change."""

import pickle
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch.engines.threads import Threads
from nysketch.errors import InputError, UsageError
from nysketch.passes.task import (
    FragmentTask,
    per_process,
    per_thread,
    require_unchanged,
    row_reporter,
    unchanged,
)
from nysketch.sources.open import open_source

ROWS, GROUP = 1000, 100


class Sums(FragmentTask):
    """The sum of the rows of a fragment."""

    @per_process
    def shared(self):
        return [threading.get_ident()]

    @per_thread
    def buffer(self):
        return np.zeros(self.reader.chunk_rows)

    def __call__(self, fragment, check):
        return sum(float(chunk.rows.sum()) for chunk in self.chunks(fragment, check))


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"x": np.arange(float(ROWS))}), tmp_path / "x.parquet", row_group_size=GROUP)
    return tmp_path / "x.parquet"


@pytest.fixture
def source(path):
    return open_source(str(path))


def nothing():
    pass


@pytest.mark.parametrize("threads", [1, 3])
def test_each_thread_has_its_own_and_all_share_the_rest(source, threads):
    task, meet = Sums(source, nulls="error"), threading.Barrier(threads)
    finished = Threads(threads).run(task, source.fragments())
    assert sum(total for _, total in finished) == ROWS * (ROWS - 1) / 2
    assert task.rows_read == ROWS
    made = []

    def look():
        meet.wait()
        made.append((task.reader, task.reader, task.buffer, task.shared))
        meet.wait()

    workers = [threading.Thread(target=look) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(first is second for first, second, _, _ in made)
    for which, count in ((0, threads), (2, threads), (3, 1)):
        assert len({id(found[which]) for found in made}) == count


def test_what_is_made_stays_where_it_was_made(source):
    task = Sums(source, nulls="error")
    fragment = next(iter(source.fragments()))
    task(fragment, nothing)
    task.buffer[:] = 7
    task.shared.append("mine")
    elsewhere = pickle.loads(pickle.dumps(task))
    assert elsewhere.rows_read == 0 and task.rows_read == GROUP
    assert len(elsewhere.shared) == 1 and not elsewhere.buffer.any()
    assert elsewhere(fragment, nothing) == task(fragment, nothing)


@pytest.mark.parametrize(
    ("options", "match"),
    [({"nulls": "ignore"}, "nulls must be one of"), ({"nulls": "drop", "batch_rows": 0}, "at least 1 row")],
)
def test_options_are_checked_before_anything_is_read(source, options, match):
    with pytest.raises(UsageError, match=match):
        Sums(source, **options)


def test_a_fragment_must_have_the_rows_it_declares(source):
    task, fragment = Sums(source, nulls="error"), next(iter(source.fragments()))
    with pytest.raises(InputError, match="has 100 rows, not the 99 it declares"):
        task(replace(fragment, rows=99), nothing)
    first = next(task.chunks(replace(fragment, rows=99), nothing))  # whoever leaves early need not know
    assert len(first.rows) == GROUP


def test_a_task_stops_when_it_is_told_to(source):
    def check():
        raise KeyboardInterrupt

    task = Sums(source, nulls="error")
    with pytest.raises(KeyboardInterrupt):
        task(next(iter(source.fragments())), check)
    assert task.rows_read == 0


def test_rows_are_reported_here_and_elsewhere(source):
    seen = []
    task, engine = Sums(source, nulls="error"), Threads(1)
    report = row_reporter(lambda *rows: seen.append(rows), task, engine, rows=ROWS, rows_before=5)
    report()
    task(next(iter(source.fragments())), nothing)
    engine.rows_elsewhere = 30
    report()
    assert seen == [(5, ROWS), (5 + GROUP + 30, ROWS)]
    row_reporter(None, task, engine, rows=None)()


def test_inputs_must_not_change_while_they_are_read(path, source):
    before = source.state()
    with unchanged(source):
        pass
    with (
        pytest.raises(InputError, match=r"so the result belongs to no version of it\. Run"),
        unchanged(source),
    ):
        pq.write_table(pa.table({"x": np.arange(3.0)}), path)
    with pytest.raises(InputError, match="so the sums belong to no version of it"):
        require_unchanged(source, before, why="the sums belong to no version of it")
    with pytest.raises(ZeroDivisionError), unchanged(source):
        path.write_bytes(b"")
        raise ZeroDivisionError
