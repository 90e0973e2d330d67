"""Servers in trouble: requests that fail now and then, bytes that never come, no answer at all."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import UnreadableError
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import sketch_to_file
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all
from tests.sources.kinds import csv, feather, hdf5_chunked, parquet
from tests.sources.servers import Silence

GROUPS, GROUP_ROWS = 9, 2000


@pytest.fixture
def stored(s3, bucket, tmp_path):
    """Two files of many row groups in the bucket; returns their URI."""
    random = np.random.default_rng(3)
    (tmp_path / "in").mkdir()
    for name in "ab":
        columns = {f"x{i}": random.normal(size=GROUPS * GROUP_ROWS) for i in range(3)}
        pq.write_table(pa.table(columns), tmp_path / f"in/{name}.parquet", row_group_size=GROUP_ROWS)
    s3.put_folder(bucket, tmp_path / "in", "in/")
    return f"s3://{bucket}/in"


def sketched(uri, output, **reading):
    """Sketch in this process, as the command does."""
    return sketch_to_file(
        open_source(uri, **reading),
        output,
        BasisOptions(m=20),
        PassOptions(blocks=4),
        execution=Execution(Threads(2)),
    )


@pytest.mark.slow
def test_one_request_in_twenty_fails_and_the_bytes_are_the_same(stored, proxied, tmp_path, no_waits, caplog):
    sketched(stored, tmp_path / "healthy.nysk")
    proxy = proxied(share=0.05, seed=1)
    with caplog.at_level("INFO", "nysketch"):
        sketched(stored, tmp_path / "flaky.nysk")
    assert (tmp_path / "flaky.nysk").read_bytes() == (tmp_path / "healthy.nysk").read_bytes()
    assert len(proxy.failures) > 2  # kinds of them
    # Where a connection was kept open and is gone, curl itself makes a new one.
    assert 5 < caplog.text.count("trying again") <= proxy.failures.total()
    assert not checkpoint_path(tmp_path / "flaky.nysk").exists()


@pytest.mark.slow
@pytest.mark.parametrize("make", [parquet, feather, csv, hdf5_chunked], ids=lambda make: make.__name__)
def test_every_format_survives_a_third_of_requests_failing(
    s3, bucket, proxied, table, rows, tmp_path, no_waits, make
):
    path = make(table, tmp_path)
    s3.put_folder(bucket, tmp_path)
    proxy = proxied(share=0.33, seed=1)
    source = open_source(path.replace(str(tmp_path), f"s3://{bucket}"), retries=15)
    np.testing.assert_array_equal(read_all(source), rows)
    assert proxy.failures.total() > 1


@pytest.mark.slow
def test_the_command_finishes_with_the_same_bytes(s3, stored, proxied, tmp_path, run_cli):
    proxy = proxied(share=0.05, seed=4)
    for name, port in (("healthy", s3.port), ("flaky", proxy.port)):
        uri = f"{stored}/a.parquet"
        done = run_cli("sketch", uri, "-m", 20, "-o", tmp_path / name, env=s3.environment(port))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "flaky").read_bytes() == (tmp_path / "healthy").read_bytes()
    assert proxy.failures.total() > 0
    assert "trying again (1 of 4) in" in done.stderr


@pytest.mark.slow
def test_a_cluster_finishes_with_the_same_bytes(s3, stored, proxied, tmp_path, run_cli):
    """Footers and pilot, then rows: read by workers, which try again by themselves."""
    proxy = proxied(share=0.05, seed=4)
    for name, port, flags in (
        ("healthy", s3.port, []),
        ("flaky", proxy.port, ["--engine", "dask", "--workers", "2"]),
    ):
        command = ["sketch", stored, "-m", 20, "-o", tmp_path / name, *flags]
        done = run_cli(*command, env=s3.environment(port))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "flaky").read_bytes() == (tmp_path / "healthy").read_bytes()
    assert proxy.failures.total() > 0


def page_of(tmp_path, group):
    """Return a byte in the middle of a row group of the second file."""
    column = pq.read_metadata(tmp_path / "in/b.parquet").row_group(group).column(1)
    return column.data_page_offset + column.total_compressed_size // 2


@pytest.mark.slow
def test_bytes_that_never_come_are_named_and_the_checkpoint_continues(s3, stored, proxied, tmp_path, run_cli):
    at = page_of(tmp_path, 7)

    def broken(method, path, first, last):
        return "500" if "b.parquet" in path and first <= at <= last else None

    proxy = proxied(broken=broken)
    basis = tmp_path / "basis.nysk"
    nysketch.save(nysketch.Basis.fit(str(tmp_path / "in"), landmarks=20), basis)
    command = ("sketch", stored, "--basis", basis, "--threads", 1, "-o", tmp_path / "s.nysk")
    limits = ("--retries", 1, "--timeout", 60)
    failed = run_cli(*command, *limits, env=s3.environment(proxy.port))
    assert failed.returncode == 3
    message = f"{stored}/b.parquet, row group 7: cannot read: failed 2 times: "
    assert message in failed.stderr
    assert "Finished work is kept: run again to continue" in failed.stderr
    assert proxy.failures["500"] == 2
    assert not (tmp_path / "s.nysk").exists()
    done = run_cli(*command, "--json", env=s3.environment())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["resumed_fragments"] >= GROUPS + 6
    whole = run_cli(*command[:-1], tmp_path / "t.nysk", env=s3.environment())
    assert whole.returncode == 0, whole.stderr
    assert (tmp_path / "s.nysk").read_bytes() == (tmp_path / "t.nysk").read_bytes()


@pytest.mark.slow
def test_progress_is_not_needed_between_failures_of_different_reads(s3, stored, proxied, no_waits):
    """Each read fails as often as allowed before it works; no fragment runs out of attempts."""
    seen = Counter()

    def twice(method, path, first, last):
        seen[method, path, first, last] += 1
        return "503" if last and seen[method, path, first, last] <= 2 else None

    proxied(broken=twice)
    assert len(read_all(open_source(stored, retries=2))) == 2 * GROUPS * GROUP_ROWS


# ---- silence -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(s3, bucket, silence, tmp_path, run_cli):
    done = run_cli(
        "sketch", f"s3://{bucket}/x.parquet", "--retries", 1, "--timeout", 0.5, "-o", tmp_path / "s.nysk",
        env=s3.environment(silence.port),
    )  # fmt: skip
    assert done.returncode == 3
    assert f"s3://{bucket}/x.parquet: cannot open: failed 2 times: " in done.stderr
    assert "trying again (1 of 1)" in done.stderr
    assert silence.connections == 2  # no hidden attempts


@pytest.mark.slow
def test_a_server_that_falls_silent_is_given_up(stored, proxied, tmp_path, no_waits):
    at, fallen = page_of(tmp_path, 5), []
    proxy = proxied()
    source = open_source(f"{stored}/b.parquet", retries=1, timeout=3)
    list(source.fragments())
    proxy.broken = lambda method, path, first, last: (
        fallen.append(1) or "silence" if first <= at <= last else None
    )
    message = r"b\.parquet, row group 5: cannot read: failed 2 times: .*[Tt]imeout"
    with pytest.raises(UnreadableError, match=message):
        read_all(source)
    assert len(fallen) == 2
    proxy.broken = lambda *request: None
    assert len(read_all(source)) == GROUPS * GROUP_ROWS


def test_a_web_server_that_never_answers_is_given_up(silence, no_waits):
    with pytest.raises(UnreadableError, match=r"x\.parquet: cannot look up: failed 2 times: "):
        open_source(f"http://127.0.0.1:{silence.port}/x.parquet", retries=1, timeout=0.3)


def test_nobody_at_home_is_said(s3, bucket, monkeypatch, no_waits):
    gone = Silence()
    gone.stop()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{gone.port}")
    with pytest.raises(UnreadableError, match=r"x\.parquet: cannot open: failed 3 times: .*connect"):
        open_source(f"s3://{bucket}/x.parquet", retries=2, timeout=1)
