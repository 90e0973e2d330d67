"""How many threads fit into a budget of memory, and what each of them may read with."""

import pytest

from nysketch.errors import UsageError
from nysketch.passes import memory
from nysketch.passes.memory import Taken, room_for
from nysketch.sources.protocol import ReaderMemory

# Batches of 256 rows of one column take 4 kB, which shows in none of these numbers.
MB = 10**6


class FakeSource:
    """A source whose readers take what they are said to; it remembers what they may take."""

    columns, rereadable = (), True

    def __init__(self, ample=0, least=0, shared=0, where=""):
        self.reader_memory = ReaderMemory(ample * MB, least * MB, shared * MB, where)

    def within(self, limit, batch_rows):
        limited = FakeSource()
        limited.limit, limited.batch_rows = limit / MB, batch_rows
        return limited


@pytest.fixture(autouse=True)
def processors(monkeypatch):
    monkeypatch.setattr(memory, "available_threads", lambda: 8)
    monkeypatch.setattr(memory, "row_width", lambda source: 1)
    monkeypatch.setattr(memory, "batch_rows_for", lambda d: 1)


def room(allowed, taken, source=None, **options):
    return room_for(source or FakeSource(), allowed * MB, taken, **options)


@pytest.mark.parametrize(
    ("allowed", "threads"), [(151, 1), (199, 1), (201, 2), (499, 7), (501, 8), (9999, 8)]
)
def test_as_many_threads_as_fit_and_as_there_are_processors(allowed, threads):
    assert room(allowed, Taken(100 * MB, 50 * MB)).threads == threads


def test_what_comes_before_and_afterwards_takes_the_place_of_threads():
    assert room(301, Taken(100 * MB, 50 * MB, after=200 * MB)).threads == 4
    for other in (Taken(100 * MB, 50 * MB, after=200 * MB), Taken(100 * MB, 50 * MB, before=300 * MB)):
        with pytest.raises(UsageError):
            room(299, other)


def test_readers_share_footers_and_the_rest_of_the_budget():
    taken = Taken(100 * MB, 50 * MB)
    two = room(301, taken, FakeSource(ample=40, least=10, shared=20))
    assert two.threads == 2 and 40 <= two.source.limit < 41
    assert 299 * MB < two.bytes <= 301 * MB
    more = room(500, taken, FakeSource(ample=40, least=10, shared=20), threads=1)
    assert 329 < more.source.limit < 331 and 209 * MB < more.bytes < 211 * MB


def test_one_thread_reads_with_less_than_is_ample():
    source = FakeSource(ample=400, least=30)
    found = room(300, Taken(100 * MB, 50 * MB), source)
    assert found.threads == 1 and 149 < found.source.limit <= 150
    assert 299 * MB < found.bytes <= 300 * MB
    with pytest.raises(UsageError, match=r"^this takes about 181 MB of memory with 1 thread\(s\)"):
        room(179, Taken(100 * MB, 50 * MB), source)


def test_threads_that_are_wanted_share_what_there_is():
    found = room(300, Taken(100 * MB, 50 * MB), FakeSource(ample=400, least=10), threads=2)
    assert found.threads == 2 and 49 < found.source.limit <= 50
    with pytest.raises(UsageError, match=r"takes about 401 MB of memory with 5 thread\(s\)"):
        room(300, Taken(100 * MB, 50 * MB), FakeSource(ample=400, least=10), threads=5)


def test_batches_become_smaller_before_columns_are_read_apart(monkeypatch):
    monkeypatch.setattr(memory, "row_width", lambda source: 10_000)
    monkeypatch.setattr(memory, "batch_rows_for", lambda d: 2048)
    found = room(300, Taken(100 * MB, 0), FakeSource(ample=50, least=5))
    assert found.source.batch_rows == 512 and found.source.limit >= 50
    assert (
        room(300, Taken(100 * MB, 0), FakeSource(ample=5, least=5), batch_rows=1000).source.batch_rows == 1000
    )


def test_no_room_for_one_thread_is_an_error_that_says_what_helps():
    words = (
        r"^this takes about 2,151 MB of memory with 1 thread\(s\), more than the 1,000 MB allowed\. "
        r"Allow more with `memory`, or less of it$"
    )
    with pytest.raises(UsageError, match=words):
        room(1000, Taken(2000 * MB, 150 * MB), advice=", or less of it")


def test_the_place_in_a_file_that_takes_too_much_is_named():
    source = FakeSource(ample=400, least=30, where="x.parquet, row group 3 (its largest page has 20 MB)")
    words = r"179 MB allowed; 30 MB for each thread that reads x\.parquet, row group 3 \(its largest page"
    with pytest.raises(UsageError, match=words):
        room(179, Taken(100 * MB, 50 * MB), source)
    with pytest.raises(UsageError, match=r"allowed\. Allow more"):  # which would not fit without it, either
        room(149, Taken(100 * MB, 50 * MB), source)


def test_the_memory_that_is_named_is_enough():
    taken, source = Taken(100 * MB + 400_000, 50 * MB), FakeSource(ample=400, least=30)
    with pytest.raises(UsageError, match=r"takes about (\d+) MB") as refused:
        room(150, taken, source)
    named = int(str(refused.value).split("about ")[1].split()[0])
    assert named == 181 and room(named, taken, source).threads == 1
