"""Trying again, against naive twins: what an undisturbed reading gives comes out, or one clear error."""

import gc
import io
import logging
import random
import threading
import weakref

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

import nysketch
from nysketch._support.cancel import stoppable
from nysketch.engines import threads
from nysketch.errors import InputError, InvalidRowsError, SchemaError, UnreadableError, UsageError
from nysketch.sources.open import open_source
from nysketch.sources.retry import RetriesExhausted, RetryingFile, RetryPolicy, is_refusal, retry_policy_of
from tests.sources.helpers import read_all
from tests.sources.kinds import FILES, hdf5_contiguous, parquet, uri

pytestmark = pytest.mark.usefixtures("no_waits")


@pytest.fixture(autouse=True, scope="module")
def _no_waits_in_properties():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nysketch.sources.retry._LONGEST_WAIT", 0.0)
        yield


# ---- batches -----------------------------------------------------------------------------------------


class Reading:
    """Batches of which each reading fails at the place that comes next in `failures`; None does not fail."""

    def __init__(self, batches, failures):
        self.batches, self.failures, self.readings = batches, list(failures), 0

    def __call__(self):
        fails = self.failures[self.readings] if self.readings < len(self.failures) else None
        self.readings += 1
        for number, batch in enumerate(self.batches):
            if number == fails:
                raise UnreadableError("place: no answer")
            yield batch
        if fails is not None and fails >= len(self.batches):
            raise UnreadableError("place: no answer")


def naive(batches, failures, retries):
    """Say what is yielded and whether it ends well: count attempts that bring nothing new."""
    have = without_gain = 0
    for fails in [*failures, None]:
        reached = len(batches) if fails is None else min(fails, len(batches))
        if reached > have:
            have, without_gain = reached, 0
        if fails is None:
            return batches, True
        without_gain += 1
        if without_gain > retries:
            return batches[:have], False
    raise AssertionError


@given(
    sizes=st.lists(st.integers(0, 3), max_size=6),
    failures=st.lists(st.integers(0, 7), max_size=12),
    retries=st.integers(0, 3),
)
def test_resumed_batches_are_those_of_a_naive_reading(sizes, failures, retries):
    batches = [[number] * size for number, size in enumerate(sizes)]
    reading = Reading(batches, failures)
    expected, ends_well = naive(batches, failures, retries)
    got = []
    try:
        for batch in RetryPolicy(retries).resume_on_error("place", reading):
            got.append(batch)  # noqa: PERF402 - what came before an error counts
        assert ends_well
    except UnreadableError as error:
        assert not ends_well
        assert str(error).startswith("place: no answer")
    assert got == expected


def test_errors_that_others_raise_pass_at_once():
    for error in (SchemaError("s"), InvalidRowsError("i"), InputError("e"), ValueError("v"), KeyError("k")):
        readings = 0

        def begin(error=error):
            nonlocal readings
            readings += 1
            yield [1]
            raise error

        with pytest.raises(type(error)):
            list(RetryPolicy(4).resume_on_error("place", begin))
        assert readings == 1


@pytest.mark.parametrize("second", [[[1, 2]], [[1, 2], [3]], [[1], [3, 4], [5]], []])
def test_other_rows_the_second_time_are_an_error(second):
    readings = iter([[[1, 2], [3, 4]], second])

    def begin():
        yield from next(readings)
        raise UnreadableError("no answer") if second else InputError("not reached")

    if not second:
        readings = iter([[[1]], []])

        def begin():
            batches = next(readings)
            yield from batches
            if batches:
                raise UnreadableError("no answer")

    with pytest.raises(InputError) as error:
        list(RetryPolicy(1).resume_on_error("f, row group 1", begin))
    if second != [[1, 2]]:
        assert "f, row group 1: had different rows when it was read again" in str(error.value)
        assert not isinstance(error.value, UnreadableError)


def test_the_last_error_tells_how_often_it_was_tried():
    with pytest.raises(UnreadableError, match=r"place: no answer \(failed 4 times\)"):
        list(RetryPolicy(3).resume_on_error("place", Reading([[1]], [0] * 9)))


def test_what_was_given_up_below_is_not_tried_again_above():
    readings = 0

    def begin():
        nonlocal readings
        readings += 1
        yield [1]
        raise UnreadableError("f: cannot read") from RetriesExhausted("failed 5 times")

    with pytest.raises(UnreadableError, match=r"f: cannot read$"):
        list(RetryPolicy(4).resume_on_error("f", begin))
    assert readings == 1


# ---- bytes -------------------------------------------------------------------------------------------


class Failing:
    """A file whose reads fail as `fails()` says, or come back short."""

    def __init__(self, content, fails):
        self._content, self._fails = content, fails

    def size(self):
        return len(self._content)

    def read_at(self, size, offset):
        trouble = self._fails()
        if trouble == "error":
            raise OSError("reset")
        part = self._content[offset : offset + size]
        return part[: len(part) // 2] if trouble == "short" else part

    def close(self):
        pass


@given(
    content=st.binary(max_size=200),
    steps=st.lists(st.tuples(st.sampled_from("rsie"), st.integers(-5, 220)), max_size=20),
    seed=st.integers(0, 1000),
)
def test_a_retrying_file_reads_like_one_in_memory(content, steps, seed):
    choose = random.Random(seed)
    file = RetryingFile(
        lambda: Failing(content, lambda: choose.choice(["error", "short", None])), "f", RetryPolicy(40)
    )
    twin = io.BytesIO(content)
    for step, number in steps:
        if step == "r":
            assert file.read(number) == twin.read(number)
        elif step == "s" and number >= 0:
            assert file.seek(number) == twin.seek(number)
        elif step == "e":
            assert file.seek(0, io.SEEK_END) == twin.seek(0, io.SEEK_END)
        elif step == "i" and number >= 0:
            mine, other = bytearray(number), bytearray(number)
            assert file.readinto(mine) == twin.readinto(other)
            assert mine == other
        assert file.tell() == twin.tell()


def test_a_file_that_was_replaced_meanwhile_is_not_read_on():
    contents = iter([b"12345678", b"1234"])
    trouble = iter(["error"])
    file = RetryingFile(lambda: Failing(next(contents), lambda: next(trouble, None)), "f", RetryPolicy(4))
    with pytest.raises(RetriesExhausted, match="size changed from 8 to 4 bytes"):
        file.read(3)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("x"),
        PermissionError("x"),
        OSError("When reading x: AWS Error ACCESS_DENIED during HeadObject operation: No response body."),
        OSError("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation"),
        OSError("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation"),
        OSError("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation"),
    ],
)
def test_refusals_are_not_tried_again(error):
    calls = []
    with pytest.raises(type(error)):
        RetryPolicy(4).call("f", lambda: (calls.append(1), (_ for _ in ()).throw(error)))
    assert len(calls) == 1
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28"),
        OSError("AWS Error UNKNOWN (HTTP status 503) during GetObject operation"),
        OSError("AWS Error SLOW_DOWN (HTTP status 429)"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
        pa.ArrowInvalid("half an answer"),
        EOFError(),
        type("ClientError", (Exception,), {"__module__": "aiohttp.client"})("of a library"),
    ],
)
def test_what_may_pass_is_tried_as_often_as_allowed(error):
    calls = []
    with pytest.raises(RetriesExhausted, match="failed 3 times"):
        RetryPolicy(2).call("f", lambda: (calls.append(1), (_ for _ in ()).throw(error)))
    assert len(calls) == 3


def test_mistakes_in_programs_are_not_hidden():
    for mistake in (TypeError("t"), AttributeError("a"), KeyError("k")):
        with pytest.raises(type(mistake)):
            RetryPolicy(4).call("f", lambda mistake=mistake: (_ for _ in ()).throw(mistake))


def test_errors_that_have_passed_leave_nothing_to_clear_away_later():
    class Held:
        pass

    def reader(failures):
        held = Held()

        def work():
            if failures:
                raise failures.pop()
            return weakref.ref(held)

        return RetryPolicy(4).call("f", work)

    gc.disable()
    try:
        assert reader([OSError("reset")])() is None
    finally:
        gc.enable()


def test_every_retry_is_told(caplog):
    failures = iter([OSError("reset"), OSError("reset")])
    with caplog.at_level(logging.INFO, "nysketch"):
        RetryPolicy(4).call(
            "s3://b/f", lambda: (_ for _ in ()).throw(e) if (e := next(failures, None)) else 1
        )
    told = [record.getMessage() for record in caplog.records]
    assert told[0].startswith("s3://b/f: trying again (1 of 4) in 0.0 s: reset")
    assert told[1].startswith("s3://b/f: trying again (2 of 4) in 0.0 s: reset")


def test_waits_double_and_are_never_quite_the_same(monkeypatch):
    waited = []
    monkeypatch.setattr("nysketch.sources.retry._LONGEST_WAIT", 8.0)
    monkeypatch.setattr("nysketch.sources.retry.log.info", lambda text, *values: waited.append(values[3]))
    monkeypatch.setattr("nysketch.sources.retry.check_stopped", lambda: None)
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("nysketch.sources.retry.time.monotonic", lambda: next(clock))
    with pytest.raises(RetriesExhausted):
        RetryPolicy(7).call("f", lambda: (_ for _ in ()).throw(OSError("reset")))
    for seconds, middle in zip(waited, [0.5, 1, 2, 4, 8, 8, 8], strict=True):
        assert 0.75 * middle <= seconds <= 1.25 * middle
    assert len(set(waited)) == 7


def test_nobody_waits_for_rows_that_nobody_wants(monkeypatch):
    monkeypatch.setattr("nysketch.sources.retry._FIRST_WAIT", 1000.0)
    monkeypatch.setattr("nysketch.sources.retry._LONGEST_WAIT", 1000.0)
    begun = threading.Event()

    def work(task, check):
        begun.set()
        if task:
            RetryPolicy(4).call("f", lambda: (_ for _ in ()).throw(OSError("no answer")))
        return task

    results = threads.run(work, [0, 1], threads=2, meanwhile=lambda: None)
    assert next(results) == (0, 0)
    begun.wait()
    results.close()  # returns, although the other one waits for a quarter of an hour


def test_the_check_of_a_thread_is_that_of_its_innermost_work():
    seen = []
    with stoppable(lambda: seen.append("outer")):
        with stoppable(lambda: seen.append("inner")):
            RetryPolicy(0).call("f", lambda: None)
        RetryPolicy(0).call("f", lambda: None)
    RetryPolicy(0).call("f", lambda: None)
    assert seen == ["inner", "outer"]


@pytest.mark.parametrize(("retries", "timeout"), [(-1, None), (None, 0), (None, float("nan")), (None, 1e9)])
def test_a_policy_must_make_sense(retries, timeout):
    with pytest.raises(UsageError):
        retry_policy_of(retries, timeout)


# ---- a filesystem of fsspec that fails ---------------------------------------------------------------


class FlakyFileSystem(MemoryFileSystem):
    """Files in memory; a share of reads fails, and reads of the byte `broken` always do."""

    protocol = "flaky"
    cachable = False
    store: dict = {}  # noqa: RUF012 - as in the parent, of all instances
    pseudo_dirs = [""]  # noqa: RUF012
    share, broken, choose, reads, opened = 0.0, None, random.Random(0), 0, 0

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.removeprefix("flaky://").strip("/")

    def _open(self, path, mode="rb", **options):
        file = super()._open(path, mode, **options)
        if mode != "rb":
            return file
        FlakyFileSystem.opened += 1
        return _FlakyFile(file.getvalue())


class _FlakyFile(io.BytesIO):
    def __init__(self, content):
        super().__init__(content)
        self.size = len(content)

    def read(self, size=-1):
        FlakyFileSystem.reads += 1
        at, broken = self.tell(), FlakyFileSystem.broken
        if FlakyFileSystem.choose.random() < FlakyFileSystem.share:
            raise OSError("reset by peer")
        if broken is not None and at <= broken < at + size:
            raise OSError("sector not found")
        return super().read(size)


@pytest.fixture
def flaky(tmp_path, monkeypatch):
    """A function that puts the files of a kind into the filesystem, and returns their names there."""
    fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
    monkeypatch.setattr(FlakyFileSystem, "choose", random.Random(7))
    for name, value in (("share", 0.0), ("broken", None)):
        monkeypatch.setattr(FlakyFileSystem, name, value)
    FlakyFileSystem.store.clear()

    def put(make, table):
        made = make(table, tmp_path)
        filesystem = FlakyFileSystem()
        for path in tmp_path.rglob("*"):
            if path.is_file():
                filesystem.pipe_file(f"/box/{path.relative_to(tmp_path)}", path.read_bytes())
        paths = made if isinstance(made, list) else [made]
        return [str(path).replace(str(tmp_path), "flaky://box") for path in paths]

    return put


@pytest.mark.parametrize("make", [make for make in FILES if make is not uri], ids=lambda make: make.__name__)
def test_every_format_survives_reads_that_fail(flaky, table, rows, small_pieces, monkeypatch, make):
    paths = flaky(make, table)
    before = FlakyFileSystem.reads
    monkeypatch.setattr(FlakyFileSystem, "share", 0.2)
    source = open_source(paths, retries=12)
    np.testing.assert_array_equal(read_all(source, 50), rows)
    assert FlakyFileSystem.reads > before


def many_groups(table, folder):
    """More than the footer and what is read with it."""
    pq.write_table(pa.concat_tables([table] * 30), folder / "one.parquet", row_group_size=5000)
    return str(folder / "one.parquet")


def test_a_byte_that_cannot_be_read_is_named_after_the_attempts_allowed(flaky, tmp_path, table):
    source = open_source(flaky(many_groups, table), retries=2)
    list(source.fragments())
    pages = pq.read_metadata(tmp_path / "one.parquet").row_group(3).column(1)
    FlakyFileSystem.broken = pages.data_page_offset + 5
    with pytest.raises(UnreadableError) as error:
        read_all(source)
    assert str(error.value).startswith(
        "flaky://box/one.parquet, row group 3: cannot read: failed 3 times: sector not found"
    )
    FlakyFileSystem.broken = None  # and once it can be read, it is
    assert len(read_all(source)) == 30 * len(table)


def test_damage_on_the_way_is_read_anew_without_rows_lost_or_doubled(flaky, table, rows, monkeypatch):
    paths = flaky(parquet, table)
    source = open_source(paths)
    fragments = list(source.fragments())
    damaged = iter([False, True, True, False, True])

    class Damaging(_FlakyFile):
        def read(self, size=-1):
            part = super().read(size)
            return bytes(len(part)) if next(damaged, False) else part

    monkeypatch.setattr("tests.sources.test_retry._FlakyFile", Damaging)
    found = np.concatenate([batch.values[0] for f in fragments for batch in source.read(f, 40)])
    np.testing.assert_array_equal(found, rows[:, 0])
    assert next(damaged, None) is None


def test_after_an_error_a_parquet_file_is_opened_anew(flaky, table, monkeypatch):
    source = open_source(flaky(parquet, table), retries=0)
    fragments = list(source.fragments())
    list(source.read(fragments[0], 1000))
    opened = FlakyFileSystem.opened
    list(source.read(fragments[1], 1000))
    assert FlakyFileSystem.opened == opened  # it was still open
    monkeypatch.setattr(FlakyFileSystem, "share", 1.0)
    with pytest.raises(UnreadableError):
        list(source.read(fragments[2], 1000))
    monkeypatch.setattr(FlakyFileSystem, "share", 0.0)
    opened = FlakyFileSystem.opened
    assert sum(len(batch) for batch in source.read(fragments[2], 1000)) == fragments[2].rows
    assert FlakyFileSystem.opened > opened


def test_wrong_rows_and_columns_are_not_tried_again(flaky, table, caplog):
    holes = pa.table({"x": [1.0, float("nan")]})
    with caplog.at_level("INFO"):
        with pytest.raises(InvalidRowsError):
            nysketch.sketch(flaky(parquet, holes), landmarks=1, nulls="error")
        with pytest.raises(SchemaError):
            open_source(flaky(parquet, table), columns=["nope"])
        with pytest.raises(SchemaError):
            open_source(flaky(hdf5_contiguous, table), datasets=["nope"])
    assert "trying again" not in caplog.text


def test_files_on_this_machine_are_not_tried_again(table, tmp_path, caplog):
    path = parquet(table, tmp_path)
    (tmp_path / "one.parquet").write_bytes((tmp_path / "one.parquet").read_bytes()[:-20])
    with caplog.at_level("INFO"), pytest.raises(UnreadableError, match="truncated or damaged"):
        open_source(path)
    assert "trying again" not in caplog.text


def test_a_sketch_from_a_flaky_filesystem_is_that_from_a_healthy_one(flaky, table, monkeypatch):
    paths = flaky(parquet, table)
    expected = nysketch.sketch(paths, landmarks=20, threads=2)
    monkeypatch.setattr(FlakyFileSystem, "share", 0.15)
    found = nysketch.sketch(paths, landmarks=20, threads=2, retries=15)
    assert found.kernel_sums.tobytes() == expected.kernel_sums.tobytes()
    assert found.provenance == expected.provenance


def test_opening_fails_after_the_attempts_allowed_or_is_skipped(flaky, table, monkeypatch):
    paths = flaky(parquet, table)
    monkeypatch.setattr(FlakyFileSystem, "share", 1.0)
    with pytest.raises(UnreadableError, match=r"one\.parquet: cannot open: failed 4 times: reset by peer"):
        open_source(paths, retries=3)
    with pytest.raises(UnreadableError):  # all that there was
        open_source(paths, retries=1, skip_unreadable=True)
