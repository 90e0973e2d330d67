"""How many threads fit into a budget of memory."""

import pytest

from nysketch.errors import UsageError
from nysketch.passes import memory
from nysketch.passes.memory import threads_that_fit


@pytest.fixture(autouse=True)
def processors(monkeypatch):
    monkeypatch.setattr(memory, "available_threads", lambda: 8)


@pytest.mark.parametrize(
    ("allowed", "threads"), [(150, 1), (199, 1), (200, 2), (499, 7), (500, 8), (9999, 8)]
)
def test_as_many_threads_as_fit_and_as_there_are_processors(allowed, threads):
    assert threads_that_fit(allowed, fixed=100, per_thread=50) == threads


def test_what_comes_afterwards_takes_the_place_of_threads():
    assert threads_that_fit(300, fixed=100, per_thread=50, afterwards=200) == 4
    with pytest.raises(UsageError):
        threads_that_fit(299, fixed=100, per_thread=50, afterwards=200)


def test_no_room_for_one_thread_is_an_error_that_says_what_helps():
    words = (
        r"^this takes about 2,150 MB of memory with one thread, more than the 1,000 MB allowed\. "
        r"Allow more with `memory`, or less of it$"
    )
    with pytest.raises(UsageError, match=words):
        threads_that_fit(10**9, fixed=2 * 10**9, per_thread=15 * 10**7, advice=", or less of it")
