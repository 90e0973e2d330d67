"""Killed, locked out, out of disk, read-only: the store ends as if nothing had happened."""

import fcntl
import random
import shutil
import signal
import subprocess

import pytest

from tests.disturbances import PATIENCE, dying_at_call, dying_at_change, full_disk, noting_waits, wait_for
from tests.jobs.jobs import JOB, Nightly, day

# Old partitions retire and inputs change, so that every step of a run has something to do.
RETAINING = JOB + "[retention]\npartitions = 4\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A job in the middle of its life: a store, then new, changed and late inputs."""
    nightly = Nightly(tmp_path_factory.mktemp("prepared") / "work", RETAINING)
    nightly.with_days(1, 3, 4, 5).run()
    nightly.write(4, seed=40)
    nightly.write(7, shift=3)
    return nightly.with_days(6, rows=300)


def copy_of(prepared, folder):
    shutil.copytree(prepared.folder, folder)  # with the times of the files
    nightly = object.__new__(Nightly)
    nightly.folder, nightly.job = folder, folder / "job.toml"
    return nightly


@pytest.fixture
def undisturbed(prepared, tmp_path):
    """The same job after a run that nothing disturbed, and its bytes."""
    done = copy_of(prepared, tmp_path / "undisturbed")
    summary = done.run()
    assert summary.new == [day(6), day(7)] and summary.changed == [day(4)]
    assert summary.retired and summary.alarms and summary.windows and summary.models
    return done.contents()


def counted(nightly, run_cli, disturbance, word, *flags):
    """Return how often an undisturbed run does what a disturbance counts."""
    whole = run_cli("run", nightly.job, "-q", *flags, prepare=disturbance(0))
    assert whole.returncode == 7, whole.stderr
    return int(whole.stderr.rsplit(f"{word}: ", 1)[1])


@pytest.mark.slow
def test_killed_at_changes_of_files_all_over_a_run(prepared, undisturbed, tmp_path, run_cli):
    changes = counted(copy_of(prepared, tmp_path / "whole"), run_cli, dying_at_change, "changes")
    assert changes > 60
    # Each on a copy of its own; odd ones die after the change, even ones before it.
    for number in random.Random(3).sample(range(1, changes + 1), 12):
        nightly = copy_of(prepared, tmp_path / f"killed-{number}")
        killed = run_cli("run", nightly.job, "-q", prepare=dying_at_change(number))
        assert killed.returncode == -signal.SIGKILL
        nightly.run()
        assert nightly.contents() == undisturbed, number


@pytest.mark.slow
def test_killed_at_twenty_random_moments_of_one_run(prepared, undisturbed, tmp_path, run_cli):
    """One run after another dies somewhere; should one come to its end, another store takes its place."""
    often = ["--set", "job.checkpoint_every=0"]
    calls = counted(copy_of(prepared, tmp_path / "whole"), run_cli, dying_at_call, "calls", *often)
    chance, killed, stores = random.Random(8), 0, 1
    nightly = copy_of(prepared, tmp_path / "killed-1")
    while killed < 20:
        number = 1 + int(chance.expovariate(8 / calls))
        result = run_cli("run", nightly.job, "-q", *often, prepare=dying_at_call(number))
        if result.returncode == -signal.SIGKILL:
            killed += 1
        else:
            assert result.returncode in (0, 7), result.stderr
            assert nightly.contents() == undisturbed
            stores += 1
            nightly = copy_of(prepared, tmp_path / f"killed-{stores}")
    assert nightly.run().exit_code in (0, 7)
    assert nightly.contents() == undisturbed


@pytest.mark.slow
def test_a_second_run_exits_with_75_or_waits(nightly, run_cli, start_cli, tmp_path):
    (nightly.folder / "store").mkdir()
    with (nightly.folder / "store" / ".store.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run_cli("run", nightly.job)
        assert (result.returncode, result.stdout) == (75, "")
        assert "store.json: another process is writing it" in result.stderr and "--lock-wait" in result.stderr
        note = tmp_path / "waits"
        waiting = start_cli("run", nightly.job, "--lock-wait", PATIENCE, prepare=noting_waits(note))
        wait_for(note.exists, waiting)
        assert not (nightly.folder / "store" / "store.json").exists()
    assert waiting.wait(timeout=PATIENCE) == 0
    assert nightly.run().idle


def test_killed_before_there_is_a_store(nightly, run_cli, tmp_path):
    """A run makes folders before store.json: they are no directory of something else."""
    done = copy_of(nightly, tmp_path / "undisturbed")
    done.run()
    number, begun = 0, False
    while not begun:
        number += 1
        killed = copy_of(nightly, tmp_path / f"killed-{number}")
        dying = run_cli("run", killed.job, "-q", prepare=dying_at_change(number))
        assert dying.returncode == -signal.SIGKILL
        begun = (killed.folder / "store" / "store.json").exists()
        killed.run()
        assert killed.contents() == done.contents()
    assert number > 1


@pytest.mark.slow
def test_two_runs_at_once_do_the_work_once(nightly, start_cli):
    both = [start_cli("run", nightly.job, "-q", "--lock-wait", PATIENCE) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(len(line["new"]) for line in nightly.store.history()) == [0, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "too_large", [f"partitions/{day(7)}.nysk", "windows/all.nysk", f"drift/{day(5)}.json"]
)
def test_a_full_disk_is_an_error_and_the_next_run_recovers(
    prepared, undisturbed, tmp_path, run_cli, too_large
):
    limit = len(undisturbed[too_large]) - 1
    nightly = copy_of(prepared, tmp_path / "full")
    before = nightly.contents()
    result = run_cli("run", nightly.job, prepare=full_disk(limit))
    assert result.returncode == 1, result.stderr
    assert "cannot write: File too large" in result.stderr and "Traceback" not in result.stderr
    after = nightly.contents()
    kept = [name for name in before if "partitions" in name and day(4) not in name]
    assert all(after[name] == before[name] for name in kept)
    nightly.run()
    assert nightly.contents() == undisturbed


def test_a_store_that_cannot_be_written(nightly, run_cli, not_root):
    nightly.run()
    before = nightly.contents(history=True)
    nightly.write(4)
    store = nightly.folder / "store"
    store.chmod(0o500)
    try:
        result = run_cli("run", nightly.job)
        assert result.returncode == 1 and "cannot write here: Permission denied" in result.stderr
        assert nightly.contents(history=True) == before
        assert run_cli("status", store).returncode == 0
    finally:
        store.chmod(0o700)
    assert nightly.run().new == [day(4)]


def test_a_read_only_file_system(nightly, run_cli, tmp_path):
    """The same for root, who may write anywhere but there; needs the right to mount."""
    nightly.run()
    store = nightly.folder / "store"
    if subprocess.run(
        ["mount", "--bind", "-o", "ro", store, store], capture_output=True, check=False
    ).returncode:
        pytest.skip("no right to mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", store], capture_output=True, check=False)
        result = run_cli("run", nightly.job)
    finally:
        subprocess.run(["umount", store], check=True)
    assert result.returncode == 1 and "Read-only file system" in result.stderr
    assert nightly.run().idle


def test_a_small_file_system_that_fills_up(prepared, undisturbed, tmp_path, cli_command, run_cli):
    """A disk that is really full; needs the right to mount one."""
    nightly = copy_of(prepared, tmp_path / "small")
    store, saved = nightly.folder / "store", tmp_path / "saved"
    store.rename(saved)
    store.mkdir()
    used = sum(path.stat().st_size // 4096 * 4096 + 4096 for path in saved.rglob("*") if path.is_file())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={used + 12_288}", "tmpfs", store]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount")
    try:
        shutil.copytree(saved, store, dirs_exist_ok=True)
        before = nightly.contents()
        result = run_cli("run", nightly.job)
        assert result.returncode == 1 and "No space left on device" in result.stderr, result.stderr
        kept = [name for name in before if "partitions" in name and day(4) not in name]
        assert all(nightly.contents()[name] == before[name] for name in kept)
        enlarge = ["mount", "-o", f"remount,size={used * 4}", store]
        subprocess.run(enlarge, check=True)
        nightly.run()
        assert nightly.contents() == undisturbed
    finally:
        subprocess.run(["umount", store], check=True)
