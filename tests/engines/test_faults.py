"""Workers killed, fragments that fail, schedulers that go: nothing is lost, nothing hangs, all is named."""

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.engines.dask import monitor
from nysketch.engines.dask.engine import DaskEngine
from nysketch.engines.dask.engine import cluster as connect
from nysketch.engines.threads import Threads
from nysketch.errors import ClusterError, InputError, InvalidRowsError, NysketchError
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests.disturbances import PATIENCE, slow
from tests.engines.clusters import connected, kill, running, wait_for
from tests.engines.works import Count, Pieces, attempts

FRAGMENTS = 41

pytestmark = pytest.mark.slow  # most of them start a cluster of their own


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """60 row groups that take some hundredths of a second each."""
    path = tmp_path_factory.mktemp("table") / "rows.parquet"
    rows = np.random.default_rng(0).normal(size=(60_000, 4))
    pq.write_table(pa.table({f"x{i}": rows[:, i] for i in range(4)}), path, row_group_size=1000)
    return path


OPTIONS = PassOptions(precision="float64", blocks=4)


def sketched(table, output, engine, progress=None, **saving):
    return sketch_to_file(
        open_source(table),
        output,
        BasisOptions(m=100),
        OPTIONS,
        saving=Saving(**saving),
        execution=Execution(engine, progress=progress),
    )


@pytest.fixture(scope="module")
def expected(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("expected") / "s.nysk"
    sketched(table, path, Threads(1))
    return path.read_bytes()


def once_at(share, action):
    """Return a progress callback that acts once that share of the rows is read."""
    acted = []

    def progress(done, total):
        if done >= share * total and not acted:
            acted.append(done)
            action()

    return progress


def engine_of(client, **options):
    return DaskEngine(client, **({"patience": PATIENCE, "seconds": 0.05, "fan_in": 2} | options))


# ---- workers ---------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_changes_nothing(table, expected, tmp_path):
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        progress = once_at(0.3, lambda: kill(cluster.workers[0].pid))
        sketched(table, output, engine_of(client), progress=progress)
        assert cluster.workers[0].wait() == -signal.SIGKILL
    assert output.read_bytes() == expected


def test_all_workers_may_be_killed_if_others_come(table, expected, tmp_path):
    """What they had been sent is sent again."""
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:

        def replace():
            kill(cluster.workers[0].pid)
            cluster.add_worker()

        sketched(table, output, engine_of(client), progress=once_at(0.3, replace))
    assert output.read_bytes() == expected


def test_nothing_waits_for_ever_when_the_last_worker_goes(table, expected, tmp_path):
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:

        def kill_all():
            for worker in cluster.workers:
                kill(worker.pid)

        with pytest.raises(ClusterError, match=r"no workers for 1 s.*`worker_wait`"):
            sketched(table, output, engine_of(client, patience=1), progress=once_at(0.5, kill_all))
    assert checkpoint_path(output).exists()
    assert not output.exists()
    assert sketched(table, output, Threads(1)).resumed_fragments > 0
    assert output.read_bytes() == expected


def freeze(process):
    """Stop a process without closing its connections, as if its machine were cut off."""
    process.send_signal(signal.SIGSTOP)


# Longer than a busy machine keeps a worker from answering.
SILENCE = 8


def test_the_work_of_a_frozen_worker_is_done_by_others(table, expected, tmp_path, caplog):
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        progress = once_at(0.3, lambda: freeze(cluster.workers[0]))
        sketched(table, output, engine_of(client, silence=SILENCE), progress=progress)
    assert output.read_bytes() == expected
    silent = r"worker tcp://127\S+ has been silent for \d+ s"
    assert re.search(rf"{silent}; after {SILENCE} s, others do its work", caplog.text)
    assert re.search(rf"{silent}: others do its work", caplog.text)


@pytest.mark.parametrize("way", ["run_together", "run_in_order"])
def test_what_a_worker_brings_that_was_given_up_does_not_count(source, notes, tmp_path, caplog, way):
    """It thaws while others do its work."""
    kind = Pieces if way == "run_in_order" else Count
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        work = kind(source, notes, until=notes / "thawed")

        def both_wait():
            tries = [path.name for n in range(4, FRAGMENTS) for path in notes.glob(f"try-{n}-*")]
            return len({name.split("-")[2] for name in tries}) == 2

        def disturb():
            wait_for(both_wait)
            freeze(cluster.workers[0])
            wait_for(lambda: re.search(r"silent for \d+ s: others do its work", caplog.text))
            cluster.workers[0].send_signal(signal.SIGCONT)
            work.until.touch()

        with ThreadPoolExecutor() as pool:
            disturbed = pool.submit(disturb)
            results = list(getattr(engine_of(client, silence=SILENCE), way)(work, source.fragments()))
            disturbed.result()
    if way == "run_in_order":
        assert results == [(f.number, start) for f in source.fragments() for start in range(0, f.rows, 50)]
    else:
        numbers = [number for _, (_, some) in results for number in some]
        assert sorted(numbers) == list(range(FRAGMENTS))


def test_a_worker_that_is_frozen_from_the_beginning_is_not_waited_for(source, notes, tmp_path):
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        freeze(cluster.workers[0])
        results = list(engine_of(client, silence=SILENCE).run(Count(source, notes), source.fragments()))
    assert len(results) == FRAGMENTS


def test_a_cluster_of_frozen_workers_ends_with_their_names(table, expected, tmp_path):
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        engine = engine_of(client, silence=SILENCE, patience=1)
        match = r"no workers for 1 s \(tcp://127\S+ did not answer\)"
        with pytest.raises(ClusterError, match=match):
            sketched(table, output, engine, progress=once_at(0.5, lambda: freeze(cluster.workers[0])))
    assert sketched(table, output, Threads(1)).resumed_fragments > 0
    assert output.read_bytes() == expected


def test_a_cluster_without_workers_is_not_waited_for_for_ever(source, notes, tmp_path):
    with running(tmp_path, workers=0) as cluster, connected(cluster) as client:
        engine = engine_of(client, patience=0.5)
        with pytest.raises(ClusterError, match=r"no workers for 0\.5 s"):
            next(engine.run(Count(source, notes), source.fragments()))


@pytest.mark.parametrize("how", ["together", "in order"])
def test_a_fragment_that_kills_every_worker_is_named(source, notes, tmp_path, how):
    never = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": 0}
    with running(tmp_path, workers=0, **never) as cluster, connected(cluster) as client:
        cluster.add_worker(nanny=True)
        engine = engine_of(client, seconds=5, patience=PATIENCE)
        engine_run = engine.run_together if how == "together" else engine.run_in_order
        kind = Count if how == "together" else Pieces
        work, done = kind(source, notes, deadly=(17,)), set()
        with (
            pytest.raises(NysketchError, match=r"a.parquet, row group 17: every worker that read it died"),
            closing(engine_run(work, source.fragments())) as finished,
        ):
            for result in finished:
                done |= {f.number for f in result[0]} if how == "together" else {result[0]}
    assert 17 not in done
    assert done >= set(range(8)) if how == "together" else done == set(range(17))


# ---- fragments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.02, 5])
def test_fragments_that_fail_now_and_then_are_tried_again(source, engine, client, notes, seconds):
    engine = engine_of(client, seconds=seconds)
    work = Count(source, notes, failing={3: 1, 4: 3, 40: 2})
    parts = [part for _, part in engine.run_together(work, source.fragments())]
    assert sorted(number for _, numbers in parts for number in numbers) == list(range(FRAGMENTS))
    assert [attempts(notes, number)[0] for number in (3, 4, 5, 40)] == [2, 4, 1, 3]
    assert attempts(notes, 4)[1] == 2  # by another worker, too
    assert engine.rows_elsewhere == source.rows


def test_pieces_stay_in_order_when_fragments_are_tried_again(source, engine, notes):
    work = Pieces(source, notes, failing={0: 1, 7: 3, 8: 1})
    found = list(engine.run_in_order(work, source.fragments()))
    assert found == [(f.number, start) for f in source.fragments() for start in range(0, f.rows, 50)]


def test_a_fragment_that_always_fails_is_named_and_others_kept(source, engine, notes):
    work, done = Count(source, notes, failing={5: 99}), set()
    message = r"a.parquet, row group 5: cannot read \(tried 4 times, at last by worker tcp://127"
    with (
        pytest.raises(InputError, match=message),
        closing(engine.run_together(work, source.fragments())) as finished,
    ):
        for fragments, _ in finished:
            done |= {fragment.number for fragment in fragments}
    assert attempts(notes, 5)[0] == 4
    assert set(range(5)) <= done and 5 not in done


@pytest.mark.parametrize("way", ["run", "run_in_order"])
def test_other_ways_to_run_give_up_on_it_as_well(source, engine, notes, way):
    kind = Pieces if way == "run_in_order" else Count
    with pytest.raises(InputError, match="row group 5: cannot read"):
        list(getattr(engine, way)(kind(source, notes, failing={5: 99}), source.fragments()))


def test_what_cannot_get_better_is_not_tried_again(source, engine, notes):
    with pytest.raises(InvalidRowsError, match=r"row group 9: has 3 NaN$"):
        list(engine.run_together(Count(source, notes, invalid=(9, 30)), source.fragments()))
    assert attempts(notes, 9)[0] == 1


def test_a_damaged_row_group_is_named_and_the_rest_kept(table, expected, client, tmp_path):
    """And once the file is whole again, the same command continues."""
    path, output = tmp_path / "rows.parquet", tmp_path / "s.nysk"
    whole = table.read_bytes()
    metadata = pq.ParquetFile(table).metadata.row_group(30).column(2)
    damaged = bytearray(whole)
    damaged[metadata.data_page_offset : metadata.data_page_offset + 40] = bytes(40)
    path.write_bytes(damaged)
    basis = nysketch.Basis.fit(str(table), landmarks=100)
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns

    def run(engine):
        return sketch_to_file(open_source(path), output, basis, OPTIONS, execution=Execution(engine))

    with pytest.raises(InputError, match=r"(?s)rows.parquet, row group 30: cannot read.*tried 3 times"):
        run(engine_of(client, retries=2))
    assert checkpoint_path(output).exists()
    path.write_bytes(whole)
    os.utime(path, ns=times)
    assert run(engine_of(client)).resumed_fragments >= 20
    other = tmp_path / "other.nysk"
    sketch_to_file(open_source(path), other, basis, OPTIONS, execution=Execution(Threads(1)))
    assert output.read_bytes() == other.read_bytes()


# ---- schedulers ------------------------------------------------------------------------------------


def test_a_scheduler_that_goes_leaves_a_checkpoint_to_continue_from(table, expected, tmp_path):
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        progress = once_at(0.5, lambda: kill(cluster.scheduler.pid))
        address = re.escape(cluster.address)
        with pytest.raises(ClusterError, match=f"the Dask scheduler at {address} is gone"):
            sketched(table, output, engine_of(client), progress=progress)
    assert sketched(table, output, Threads(1)).resumed_fragments > 0
    assert output.read_bytes() == expected


def test_a_frozen_scheduler_is_not_waited_for(table, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(monitor, "ANSWER", 5.0)
    output = tmp_path / "s.nysk"
    with running(tmp_path, workers=2) as cluster, connected(cluster) as client:
        progress = once_at(0.5, lambda: freeze(cluster.scheduler))
        with pytest.raises(ClusterError, match=f"the Dask scheduler at {re.escape(cluster.address)} is gone"):
            sketched(table, output, engine_of(client), progress=progress)
        cluster.stop()
    assert sketched(table, output, Threads(1)).resumed_fragments > 0
    assert output.read_bytes() == expected


def test_an_address_without_a_scheduler(run_cli, table, tmp_path):
    run = run_cli(
        *["sketch", table, "-o", tmp_path / "s.nysk", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"],
        *["--worker-wait", "1"],
    )
    assert run.returncode == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_scheduler_file_that_is_not_there(run_cli, table, tmp_path):
    run = run_cli(
        *["sketch", table, "-o", tmp_path / "s.nysk", "--engine", "dask", "--scheduler", "nowhere.json"]
    )
    assert run.returncode == 1
    assert "nowhere.json: no such file" in run.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_stops_its_workers_and_can_be_continued(
    cli_command, run_cli, tmp_path, how, table
):
    command, environment = cli_command
    many = tmp_path / "many.parquet"
    pq.write_table(pq.read_table(table).slice(0, 20_000), many, row_group_size=50)
    # In every process, workers too: 400 fragments of 0.3 s are not finished before the signal.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(slow(0.3))
    paths = f"{tmp_path / 'site'}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    flags = ["sketch", many, "-m", 50]
    output, whole = tmp_path / "s.nysk", tmp_path / "whole.nysk"
    assert run_cli(*flags, "-o", whole).returncode == 0
    distributed = [*flags, "-o", output, "--engine", "dask", "--workers", "2", "--checkpoint-every", "0"]
    process = subprocess.Popen(
        [*command, *map(str, distributed)],
        env=environment | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: checkpoint_path(output).exists() or process.poll() is not None)
    process.send_signal(how)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + how, errors
    assert "Traceback" not in errors
    assert "run the same command again to continue" in errors
    with pytest.raises(ProcessLookupError):  # neither workers nor nannies are left
        wait_for(lambda: os.killpg(process.pid, 0))
    done = run_cli(*flags, "-o", output, "--json")
    assert json.loads(done.stdout)["resumed_fragments"] > 0
    assert output.read_bytes() == whole.read_bytes()


def test_an_interrupted_command_waits_for_no_frozen_workers(cli_command, run_cli, table, expected, tmp_path):
    """Nor for the moment at which its work would go to others."""
    command, environment = cli_command
    output = tmp_path / "s.nysk"
    flags = [
        *["sketch", table, "-m", "100", "--precision", "float64", "--blocks", "4", "--checkpoint-every", "0"],
        *["-o", output, "--worker-silence", "9999"],
    ]
    with running(tmp_path, workers=2) as cluster:
        process = subprocess.Popen(
            [*command, *map(str, flags), "--engine", "dask", "--scheduler", str(cluster.file)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: checkpoint_path(output).exists() or process.poll() is not None)
        for worker in cluster.workers:
            freeze(worker)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "Traceback" not in errors and "run the same command again to continue" in errors
    done = run_cli(*flags, "--json")
    assert json.loads(done.stdout)["resumed_fragments"] > 0
    assert output.read_bytes() == expected


# ---- workers that are not fit for it ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ("import nysketch; nysketch.__version__ = '0.0.9'", r"nysketch 0\.0\.9, here "),
        ("import sys; sys.modules['nysketch'] = None", "has no nysketch of this version"),
        (
            "import platform; platform.python_version_tuple = lambda: ('3', '99', '0')",
            r"Python 3\.99, here 3\.",
        ),
    ],
    ids=["older", "without", "Python"],
)
def test_workers_with_other_software_are_named(source, notes, tmp_path, prepare, message):
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        cluster.add_worker(prepare=prepare)
        client.wait_for_workers(2, timeout=PATIENCE)
        with pytest.raises(ClusterError, match=f"1 of 2 workers cannot take part: tcp://127.*{message}"):
            next(engine_of(client).run(Count(source, notes), source.fragments()))


def test_other_versions_of_libraries_are_warned_of(source, notes, tmp_path, caplog):
    prepare = "import importlib.metadata as m; v = m.version; "
    prepare += "m.version = lambda name: '0.1' if name == 'numpy' else v(name)"
    with running(tmp_path, workers=0) as cluster, connected(cluster) as client:
        cluster.add_worker(prepare=prepare)
        results = dict(engine_of(client).run(Count(source, notes), source.fragments()))
    assert len(results) == FRAGMENTS
    assert re.search(
        r"worker tcp://127.*numpy 0\.1, here .*: sums may differ in their last digits", caplog.text
    )


OLDER = "import nysketch; nysketch.__version__ = '0.0.9'"
WITHOUT = "import sys; sys.modules['nysketch'] = None"


def test_workers_with_other_software_that_come_later_are_named_too(source, notes, tmp_path):
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        # There is work left when the other one has started, and until it is noticed.
        work = Count(source, notes, until=notes / "never")
        match = r"1 of 1 workers cannot take part: tcp://127.*nysketch 0\.0\.9, here "
        with (
            pytest.raises(ClusterError, match=match),
            closing(engine_of(client).run(work, source.fragments())) as finished,
        ):
            next(finished)
            cluster.add_worker(prepare=OLDER)
            client.wait_for_workers(2, timeout=PATIENCE)
            list(finished)


def test_workers_without_our_software_that_come_later_do_no_harm(source, notes, tmp_path):
    """They are named; or they end by themselves at their first task, before anybody can ask them."""
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        work = Count(source, notes, seconds=0.2, until=notes / "both are there")
        results = []
        with closing(engine_of(client).run(work, source.fragments())) as finished:
            results.append(next(finished))
            worker = cluster.add_worker(prepare=WITHOUT)
            client.wait_for_workers(2, timeout=PATIENCE)
            work.until.touch()
            try:
                results += finished
            except ClusterError as error:
                assert "has no nysketch of this version" in str(error)
            else:
                assert worker.wait(timeout=PATIENCE) is not None
                assert len(results) == FRAGMENTS
        assert len({fragment.number for fragment, _ in results}) == len(results)


# As if a machine had another disk.
ELSEWHERE = """
import dataclasses
from nysketch.sources.locations import Location
info = Location.info
Location.info = lambda self: info(dataclasses.replace(self, path=self.path.replace("b.parquet", "gone")))
"""


def test_workers_that_lack_the_files_are_named(source, notes, tmp_path):
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        cluster.add_worker(prepare=ELSEWHERE)
        client.wait_for_workers(2, timeout=PATIENCE)
        with pytest.raises(ClusterError, match=r"1 of 2 workers cannot take part.*b\.parquet: no such file"):
            next(engine_of(client).run(Count(source, notes), source.fragments()))


def test_workers_that_come_later_are_looked_at_when_they_read(source, notes, tmp_path, caplog):
    """What one of them cannot read, another one can."""
    caplog.set_level("INFO")
    with running(tmp_path, workers=1) as cluster, connected(cluster) as client:
        engine = engine_of(client)
        work = Count(source, notes, seconds=0.02, until=notes / "both are there")
        with closing(engine.run(work, source.fragments())) as finished:
            results = [next(finished)]
            cluster.add_worker(prepare=ELSEWHERE.replace("b.parquet", "c.parquet"))
            client.wait_for_workers(2, timeout=PATIENCE)
            work.until.touch()
            results += finished
    assert sorted(fragment.number for fragment, _ in results) == list(range(FRAGMENTS))
    assert len({path.name.split("-")[2] for path in notes.glob("try-*")}) == 2


def test_connecting_needs_one_address_or_a_number(tmp_path):
    with pytest.raises(nysketch.NysketchError, match="give a `scheduler`, or a number"), connect():
        pass
