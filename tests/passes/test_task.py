"""Work on fragments: what a thread, a process and others of it have; rows counted; inputs that change."""

import os
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
    KeptColumns,
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
    [
        ({"nulls": "ignore"}, "`nulls` must be one of"),
        ({"nulls": "drop", "batch_rows": 0}, "`batch_rows` must be at least 1"),
    ],
)
def test_options_are_checked_before_anything_is_read(source, options, match):
    with pytest.raises(UsageError, match=match):
        Sums(source, **options)


def test_a_fragment_must_have_the_rows_it_declares(source):
    task, fragment = Sums(source, nulls="error"), next(iter(source.fragments()))
    with pytest.raises(InputError, match="has 100 rows, but declares 99"):
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
        pytest.raises(InputError, match=r"so the result matches no version of it\. Try"),
        unchanged(source),
    ):
        pq.write_table(pa.table({"x": np.arange(3.0)}), path)
    with pytest.raises(InputError, match="so the sums match no version of it"):
        require_unchanged(source, before, why="the sums match no version of it")
    with pytest.raises(ZeroDivisionError), unchanged(source):
        path.write_bytes(b"")
        raise ZeroDivisionError


def test_an_input_that_is_overwritten_is_noticed_whatever_its_date(path):
    """As by a program that writes into the file, or puts another in its place, and sets the old date."""
    old, new = path.with_name("old"), path.with_name("new")
    for file, first in ((old, 1.0), (new, 2.0)):
        plain = {"compression": "none", "use_dictionary": False}
        pq.write_table(pa.table({"x": np.arange(first, first + 6)}), file, **plain)
    assert old.stat().st_size == new.stat().st_size

    def in_place():
        path.write_bytes(new.read_bytes())

    def by_renaming():
        new.rename(path)

    for overwrite in (in_place, by_renaming):
        path.write_bytes(old.read_bytes())
        source = open_source(str(path))
        before = path.stat()
        with (
            pytest.raises(InputError, match=r"x\.parquet changed while it was being read"),
            unchanged(source),
        ):
            source.inputs()
            overwrite()
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_permissions_links_and_reading_change_no_input(path, source):
    with unchanged(source):
        source.inputs()
        path.chmod(0o600)
        path.with_name("link").hardlink_to(path)
        found = path.stat()
        os.utime(path, ns=(found.st_atime_ns + 10**9, found.st_mtime_ns))
        moved = path.rename(path.with_name("away"))
        moved.rename(path)


KEPT = pa.table({"id": [f"row {i}" for i in range(ROWS)], "twice": np.arange(ROWS) * 2})


@pytest.fixture
def keeping(tmp_path):
    path = tmp_path / "kept.parquet"
    pq.write_table(KEPT.append_column("x", pa.array(np.zeros(ROWS))), path, row_group_size=400)
    return open_source(str(path), columns=["x"], keep=["id", "twice"])


@pytest.mark.parametrize("steps", [(400,), (1, 399), (150, 150, 100)])
def test_columns_pass_through_in_order_a_few_rows_at_a_time(keeping, steps):
    for fragment in list(keeping.fragments())[:2]:
        kept, first = KeptColumns(keeping, fragment), fragment.first_row
        for rows in steps:
            assert pa.table(kept.take_next(rows), KEPT.schema.names).equals(KEPT.slice(first, rows))
            first += rows
        with pytest.raises(InputError, match="columns to keep have fewer rows than others"):
            kept.take_next(1)


@pytest.mark.parametrize("numbers", [[], [400], [799, 400, 401], [500, 500, 410]])
def test_columns_pass_through_for_any_rows_of_a_fragment(keeping, numbers):
    fragment = list(keeping.fragments())[1]
    found = KeptColumns(keeping, fragment).take(np.array(numbers, np.int64))
    assert found.equals(KEPT.take(pa.array(numbers, pa.int64())))
    with pytest.raises(InputError, match="columns to keep have fewer rows than others"):
        KeptColumns(keeping, fragment).take(np.array([*numbers, 800]))


def test_nothing_passes_through_unless_it_is_kept(source):
    assert KeptColumns(source, next(iter(source.fragments()))).take_next(3) == []
