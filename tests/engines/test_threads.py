"""The local engine: everything is run once, errors and departures stop the rest."""

import threading
from contextlib import closing

import pytest
import threadpoolctl

from nysketch.engines import threads


@pytest.mark.parametrize("count", [1, 3])
def test_every_task_is_run_once(count):
    results = dict(threads.run(lambda task, check: task**2, range(100), threads=count))
    assert results == {i: i**2 for i in range(100)}


def test_no_more_than_two_tasks_per_thread_are_taken_ahead():
    taken = []

    def tasks():
        for i in range(50):
            taken.append(i)
            yield i

    with closing(threads.run(lambda task, check: task, tasks(), threads=2)) as results:
        for done, _ in enumerate(results, start=1):
            assert len(taken) <= done + 4


def test_what_succeeded_is_handed_out_before_an_error():
    release = threading.Event()

    def work(task, check):
        if task == 5:
            release.wait(10)
            raise ValueError("task 5")
        if task == 4:
            release.set()
        return task

    seen = []
    with (
        pytest.raises(ValueError, match="task 5"),
        closing(threads.run(work, range(50), threads=1)) as results,
    ):
        seen.extend(task for task, _ in results)
    assert seen[:5] == [0, 1, 2, 3, 4]


def test_leaving_early_stops_what_is_under_way():
    started, stopped = threading.Event(), threading.Event()

    def work(task, check):
        if task == 0:
            return task
        started.set()
        try:
            while True:
                check()
        finally:
            stopped.set()

    with closing(threads.run(work, range(3), threads=2)) as results:
        assert next(results) == (0, 0)
        assert started.wait(10)
    assert stopped.is_set()  # closing waits for the workers, and they do not wait for ever


def test_the_caller_hears_of_long_tasks():
    calls, enough = 0, threading.Event()

    def meanwhile():
        nonlocal calls
        calls += 1
        if calls >= 2:
            enough.set()

    assert list(threads.run(lambda task, check: enough.wait(30), [0], threads=1, meanwhile=meanwhile)) == [
        (0, True)
    ]
    assert calls >= 2


def test_blas_gets_one_thread_while_workers_run():
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS

    def work(task, check):
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(2):
        assert set(work(0, None)) == {2}
        for _, limits in threads.run(work, range(4), threads=2):
            assert set(limits) == {1}
        assert set(work(0, None)) == {2}
