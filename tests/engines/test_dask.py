"""The Dask engine beside threads: the same bytes, whatever is asked for."""

import logging
import pickle
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import nysketch
from nysketch.coresets.fragments import FragmentRecombiner
from nysketch.engines.dask.engine import DaskEngine
from nysketch.engines.dask.engine import cluster as connect
from nysketch.engines.dask.monitor import ClusterMonitor
from nysketch.engines.dask.session import Session
from nysketch.engines.dask.worker import TOTAL
from nysketch.engines.threads import Threads
from nysketch.errors import ClusterError, UsageError
from nysketch.models.apply import assign
from nysketch.models.score import score
from nysketch.passes.accumulate import FragmentAccumulator
from nysketch.sources.open import open_source
from tests.conftest import clean_environment
from tests.engines.works import Count, Pieces, attempts

ROWS, FRAGMENTS = 3957, 41


def bits(sketch, tmp_path):
    nysketch.save(sketch, tmp_path / "x.nysk")
    data = (tmp_path / "x.nysk").read_bytes()
    (tmp_path / "x.nysk").unlink()
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"exclude": ["w"]},
        {"exclude": ["w"], "kernel": "polynomial", "second_moments": True},
        {"weights": "w", "precision": "float64", "spans": 7},
        {"groups": {"p": ["x0"], "q": ["x1", "x2"]}, "pairs": True, "permutation_rows": 300, "cells": False},
        {"features": "fourier", "exclude": ["w"], "blocks": 3},
        {"kernel": "spectrum", "columns": ["name"], "length": 2},
    ],
    ids=["plain", "moments", "weighted", "groups", "fourier", "text"],
)
def test_a_sketch_by_the_cluster_is_that_by_threads(files, engine, tmp_path, options):
    one = nysketch.sketch(str(files), landmarks=30, threads=1, **options)
    other = nysketch.sketch(str(files), landmarks=30, engine=engine, **options)
    assert bits(one, tmp_path) == bits(other, tmp_path)


@pytest.mark.slow
def test_columns_to_keep_and_labels_come_back_in_order(files, engine):
    model = nysketch.learn_kmeans(nysketch.sketch(str(files), exclude=["w"], landmarks=30, threads=1), 4)

    def labelled(engine):
        source = open_source(str(files), like=model.columns, keep=["name"])
        return pa.concat_tables(assign(model, source, distances=True, engine=engine)).combine_chunks()

    expected = labelled(Threads(2))
    assert len(expected) == ROWS
    assert labelled(engine).equals(expected)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "w"])
def test_scores_are_the_same_to_the_last_digit(files, engine, weights):
    sketch = nysketch.sketch(str(files), exclude=["w"], landmarks=30, threads=1)
    for model in (nysketch.learn_kmeans(sketch, 3), nysketch.learn_gmm(sketch, 2)):
        source = open_source(str(files), like=model.columns, weights=weights)
        assert score(model, source, engine=engine) == score(model, source, engine=Threads(1))


@pytest.mark.slow
def test_coresets_are_the_same(files, engine):
    options = {"exclude": ["w"], "keep": ["name"], "landmarks": 40}
    one = nysketch.coreset(str(files), 12, threads=2, **options)
    other = nysketch.coreset(str(files), 12, engine=engine, **options)
    assert one.numbers.tolist() == other.numbers.tolist()
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.distance == other.distance
    assert one.kept.equals(other.kept)


def test_everything_is_run_once_and_added_up_elsewhere(source, engine, notes):
    with closing(engine.run_together(Count(source, notes), source.fragments())) as finished:
        parts = [(fragments, part) for fragments, part in finished]
    assert sorted(f.number for fragments, _ in parts for f in fragments) == list(range(FRAGMENTS))
    assert sum(rows for _, (rows, _) in parts) == ROWS == engine.rows_elsewhere
    for fragments, (_, numbers) in parts:
        assert sorted(numbers) == sorted(f.number for f in fragments)
    assert any(len(fragments) > 1 for fragments, _ in parts)
    assert all(attempts(notes, number) == (1, 1) for number in range(FRAGMENTS))


def test_results_are_those_of_their_fragments(source, engine, notes):
    with closing(engine.run(Count(source, notes), source.fragments())) as finished:
        results = {fragment.number: result for fragment, result in finished}
    assert results == {f.number: (f.rows, [f.number]) for f in source.fragments()}


def test_pieces_are_in_order(source, engine, notes):
    with closing(engine.run_in_order(Pieces(source, notes), source.fragments())) as pieces:
        found = list(pieces)
    assert found == [(f.number, start) for f in source.fragments() for start in range(0, f.rows, 50)]
    assert engine.rows_elsewhere == ROWS


def test_work_is_shipped_once_to_each_worker(source, engine, notes):
    list(engine.run_together(Count(source, notes), source.fragments()))
    processes = [path.name.split("-")[1] for path in notes.glob("unpacked-*")]
    workers = {path.name.split("-")[2] for path in notes.glob("try-*")}
    assert len(processes) == len(set(processes))
    assert workers <= set(processes)


def test_leaving_early_leaves_nothing_behind(source, client, engine, notes):
    with closing(engine.run(Count(source, notes, seconds=0.5), source.fragments())) as finished:
        next(finished)
    assert len(list(notes.glob("try-*"))) < FRAGMENTS
    assert not client.futures


@pytest.mark.slow
def test_progress_only_ever_rises_to_all_rows(files, engine):
    seen = []
    nysketch.sketch(
        str(files),
        exclude=["w"],
        landmarks=10,
        engine=engine,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (ROWS, ROWS)


def test_a_cluster_reads_files_only(engine):
    with pytest.raises(UsageError, match="can only read files"):
        nysketch.sketch(pa.table({"x": [1.0, 2.0, 3.0]}), landmarks=2, engine=engine)


def test_an_engine_has_its_own_threads(files, engine):
    with pytest.raises(UsageError, match="`threads` is for this process"):
        nysketch.sketch(str(files), engine=engine, threads=2)


def test_work_takes_along_what_others_need_and_nothing_else(source):
    basis = nysketch.Basis.fit(str(source.local_paths[0]), exclude=["w"], landmarks=20)
    from nysketch.accumulators.blocks import BlockSums
    from nysketch.accumulators.options import PassOptions
    from nysketch.coresets.coreset import RowDistribution, choose_functions

    functions, _ = choose_functions(basis, 5, "nystrom", RowDistribution())
    for work in (
        FragmentAccumulator(source, basis, PassOptions()),
        FragmentRecombiner(source, basis, functions, "error"),
    ):
        fragment = next(iter(source.fragments()))

        def run(work, fragment=fragment):
            result = work(fragment, lambda: None)
            sums = result.parts[BlockSums].sums if hasattr(result, "parts") else next(result).kernel_sums
            return sums.tobytes()

        assert run(work) == run(pickle.loads(pickle.dumps(work)))
        assert len(pickle.dumps(work)) < 30_000  # no buffers


@pytest.mark.slow
@pytest.mark.parametrize("by", ["address", "file"])
def test_the_command_line_runs_on_a_cluster(run_cli, cluster, files, tmp_path, by):
    common = ["sketch", files, "--exclude", "w", "-m", "20"]
    here, there = tmp_path / "here.nysk", tmp_path / "there.nysk"
    assert run_cli(*common, "-o", here).returncode == 0
    where = cluster.address if by == "address" else cluster.file
    run = run_cli(*common, "-o", there, "--engine", "dask", "--scheduler", where)
    assert run.returncode == 0, run.stderr
    assert here.read_bytes() == there.read_bytes()
    assert "distributed" not in run.stderr


@pytest.mark.slow
def test_the_command_line_starts_workers_of_its_own(run_cli, files, tmp_path):
    flags = ["--engine", "dask", "--workers", "2"]
    common = ["--exclude", "w", "-m", "20", "--group", "p=x0", "--group", "q=x1,x2"]
    here = run_cli("independence", files, *common)
    there = run_cli("independence", files, *common, *flags)
    assert there.returncode == 0, there.stderr
    assert here.stdout == there.stdout


@pytest.mark.slow
def test_other_commands_run_on_a_cluster(run_cli, cluster, files, tmp_path):
    model = tmp_path / "model.json"
    sketch = nysketch.sketch(str(files), exclude=["w"], landmarks=30, threads=1)
    nysketch.save_model(nysketch.learn_kmeans(sketch, 3), model)
    flags = ["--engine", "dask", "--scheduler", cluster.address]
    for name, arguments in {
        "coreset.csv": ["coreset", files, "--exclude", "w", "-m", "20", "-s", "5", "--keep", "name"],
        "labels.parquet": ["assign", model, files, "--keep", "name"],
        "basis.nysk": ["basis", files, "--exclude", "w", "-m", "20"],
    }.items():
        here, there = tmp_path / f"here-{name}", tmp_path / f"there-{name}"
        assert run_cli(*arguments, "-o", here).returncode == 0
        run = run_cli(*arguments, "-o", there, *flags)
        assert run.returncode == 0, run.stderr
        assert here.read_bytes() == there.read_bytes()
    assert run_cli("score", model, files).stdout == run_cli("score", model, files, *flags).stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--engine", "dask"], "needs either --scheduler ADDRESS"),
        (["--engine", "dask", "--workers", "1", "--scheduler", "tcp://127.0.0.1:1"], "needs either"),
        (["--engine", "dask", "--workers", "1", "--threads", "2"], "--threads is for the local engine"),
        (["--workers", "2"], "--workers is for a cluster: add --engine dask"),
        (["--scheduler", "tcp://127.0.0.1:1"], "--scheduler is for a cluster"),
    ],
)
def test_flags_that_contradict_each_other(run_cli, files, tmp_path, flags, message):
    run = run_cli("sketch", files, "-o", tmp_path / "s.nysk", *flags)
    assert run.returncode == 2
    assert message in run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ("threads = 8", ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"]),
        ('engine = "dask"\nworkers = 2', ["--scheduler", "tcp://127.0.0.1:9"]),
    ],
)
def test_flags_win_over_settings_that_do_not_go_with_them(run_cli, files, tmp_path, settings, flags):
    (tmp_path / "c.toml").write_text(f"[sketch]\n{settings}\n")
    command = ["--config", tmp_path / "c.toml", "sketch", files, "-o", tmp_path / "s.nysk"]
    run = run_cli(*command, *flags, "--worker-wait", "1")
    assert run.returncode == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in run.stderr


def test_the_local_engine_wins_over_settings_of_a_cluster(run_cli, files, tmp_path):
    (tmp_path / "c.toml").write_text('[sketch]\nengine = "dask"\nscheduler = "tcp://127.0.0.1:9"\n')
    command = ["--config", tmp_path / "c.toml", "sketch", files, "--exclude", "w", "-m", "5"]
    assert run_cli(*command, "-o", tmp_path / "s.nysk", "--engine", "local").returncode == 0


def test_totals_are_added_up_by_two_at_least(client):
    with pytest.raises(UsageError, match="at least two at a time"):
        DaskEngine(client, fan_in=1)


def test_a_result_that_takes_long_is_sent_once(source, client, notes):
    """A limit on the wait would have it sent again, and again."""

    class Slow:
        status, key, calls = "finished", "slow", 0

        def result(self):
            Slow.calls += 1
            time.sleep(1.5)
            return "sent"

    monitor = ClusterMonitor(client, 30, 600, lambda: None, lambda new: None)
    with Session(client, monitor, Count(source, notes), TOTAL, retries=3) as session:
        assert session._fetch(Slow()) == "sent"
    assert Slow.calls == 1


def test_standard_input_is_not_for_clusters(run_cli, shelf, tmp_path):
    stream = tmp_path / "stream"
    with pa.OSFile(str(stream), "wb") as sink, pa.ipc.new_stream(sink, pa.schema([("x", "f8"), ("y", "f8")])):
        pass
    with stream.open("rb") as stdin:
        run = run_cli(
            *["sketch", "-", "--basis", shelf / "basis.nysk", "-o", tmp_path / "s.nysk"],
            *["--engine", "dask", "--workers", "1"],
            stdin=stdin,
        )
    assert run.returncode == 2
    assert "leave out --engine dask" in run.stderr


def test_a_file_that_is_another_one_elsewhere_is_noticed(files, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(files, folder)
    source = open_source(str(folder), exclude=["w"])
    source.inputs()
    fragments = list(source.fragments())
    for fragment in fragments:
        source.require_original(fragment)
    there = pickle.loads(pickle.dumps(source))  # which was not looked at there, whatever was here
    (folder / "a.parquet").write_bytes((files / "c.parquet").read_bytes())
    (folder / "b.parquet").unlink()
    for number, message in ((0, "bytes, but"), (25, "no such file")):
        with pytest.raises(nysketch.NysketchError, match=message):
            there.require_original(fragments[number])
    there.require_original(fragments[-1])


def test_engines_can_be_had_from_a_client(client, files, tmp_path):
    """What a notebook with a cluster does."""
    made = nysketch.sketch(Path(files), exclude=["w"], landmarks=10, engine=DaskEngine(client))
    assert made.rows == ROWS


LOGGERS = ("distributed", "distributed.client", "distributed.core", "distributed.nanny")


@pytest.fixture
def levels():
    """A function that returns the levels of Dask's loggers, which are all different."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for level, logger in enumerate(loggers, logging.INFO):
        logger.setLevel(level)
    yield lambda: [logger.level for logger in loggers]
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def test_dask_is_silent_while_the_engine_is_open_and_not_for_good(cluster, levels):
    before = levels()
    with connect(cluster.address):
        assert levels() == [logging.CRITICAL] * len(LOGGERS)
    assert levels() == before


def test_dask_is_not_silent_for_good_after_a_cluster_on_this_machine():
    """In another process: what the scheduler does to sockets is no business of these tests."""
    program = f"""
import distributed, logging
from nysketch.engines.dask.engine import cluster
loggers = [logging.getLogger(name) for name in {LOGGERS}]
for level, logger in enumerate(loggers, logging.INFO):
    logger.setLevel(level)
before = [logger.level for logger in loggers]
with cluster(workers=1):
    assert all(logger.level == logging.CRITICAL for logger in loggers)
assert [logger.level for logger in loggers] == before
"""
    done = subprocess.run([sys.executable, "-c", program], env=clean_environment(), capture_output=True)
    assert done.returncode == 0, done.stderr


def test_dask_is_not_silenced_by_a_scheduler_that_does_not_answer(levels):
    before = levels()
    with (
        pytest.raises(ClusterError, match="no Dask scheduler answers"),
        connect("tcp://127.0.0.1:9", patience=1),
    ):
        pass
    assert levels() == before
