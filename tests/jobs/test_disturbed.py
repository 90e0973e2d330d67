"""Killed, locked out, out of disk, read-only: the store ends as if nothing had happened."""

import fcntl
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

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


# Announces every change of a file, and dies at the one whose number is given.
DYING = """
import os, pathlib, signal, sys
count, last = 0, int(sys.argv.pop(1))
def counted(function):
    def call(*args, **options):
        global count
        result = None if dies_before and count + 1 == last else function(*args, **options)
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call
dies_before = last % 2 == 0
for name in ("replace", "unlink"):
    setattr(pathlib.Path, name, counted(getattr(pathlib.Path, name)))
os.fsync = counted(os.fsync)
from nysketch.cli import main
try:
    main()
finally:
    print("changes:", count, file=sys.stderr)
"""


def dying(nightly, number, environment):
    command = [sys.executable, "-c", DYING, str(number), "run", str(nightly.job), "-q"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_killed_at_changes_of_files_all_over_a_run(prepared, undisturbed, tmp_path, cli_command):
    environment = cli_command[1]
    whole = dying(copy_of(prepared, tmp_path / "whole"), 0, environment)
    assert whole.returncode == 7, whole.stderr
    changes = int(whole.stderr.rsplit("changes: ", 1)[1])
    assert changes > 60
    # Each on a copy of its own; odd ones die after the change, even ones before it.
    for number in random.Random(3).sample(range(1, changes + 1), 12):
        nightly = copy_of(prepared, tmp_path / f"killed-{number}")
        assert dying(nightly, number, environment).returncode == -signal.SIGKILL
        nightly.run()
        assert nightly.contents() == undisturbed, number


@pytest.mark.slow
def test_killed_at_twenty_random_moments_of_one_run(prepared, tmp_path, cli_command):
    command, environment = cli_command
    copy_of(prepared, tmp_path / "more").with_days(6, 8, 9, rows=6000)  # a second's worth of checkpoints
    prepared = copy_of(prepared, tmp_path / "prepared")
    for number in (6, 8, 9):
        shutil.copy2(tmp_path / "more" / "data" / f"{day(number)}.parquet", prepared.input(number))
    undisturbed = copy_of(prepared, tmp_path / "undisturbed")

    def start(nightly):
        often = ["--set", "job.checkpoint_every=0", "--lock-wait", "60"]
        arguments = [*command, "run", str(nightly.job), "-q", *often]
        return subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE)

    with start(undisturbed) as process:
        assert waits_for_lock(undisturbed, process)
        started = time.monotonic()
        assert process.wait() == 7, process.stderr.read()
    usual = time.monotonic() - started
    nightly, chance, killed, finished = copy_of(prepared, tmp_path / "killed"), random.Random(8), 0, 0
    while killed < 20:
        with start(nightly) as process:
            if waits_for_lock(nightly, process):
                time.sleep(chance.expovariate(20 / usual))
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        finished += process.returncode != -signal.SIGKILL
        assert finished < 10  # too quick to be killed
    assert nightly.run().exit_code in (0, 7)
    assert nightly.contents() == undisturbed.contents()


def waits_for_lock(nightly, process):
    """Wait until a run has begun in earnest: before that, there is nothing to disturb."""
    lock = nightly.folder / "store" / ".store.json.lock"
    opened = time.monotonic()
    while process.poll() is None and time.monotonic() - opened < 60:
        if _is_held(lock):
            return True
        time.sleep(0.001)
    return False


def _is_held(lock):
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def test_a_second_run_exits_with_75_or_waits(nightly, run_cli, cli_command):
    command, environment = cli_command
    (nightly.folder / "store").mkdir()
    with (nightly.folder / "store" / ".store.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run_cli("run", nightly.job)
        assert (result.returncode, result.stdout) == (75, "")
        assert "store.json: another process is writing it" in result.stderr and "--lock-wait" in result.stderr
        waiting = subprocess.Popen([*command, "run", str(nightly.job), "--lock-wait", "60"], env=environment)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(timeout=2)
    assert waiting.wait(timeout=60) == 0
    assert nightly.run().idle


def test_two_runs_at_once_do_the_work_once(nightly, cli_command):
    command, environment = cli_command
    arguments = [*command, "run", str(nightly.job), "-q", "--lock-wait", "60"]
    both = [subprocess.Popen(arguments, env=environment) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert sorted(len(line["new"]) for line in nightly.store.history()) == [0, 3]


LIMITED = (
    "import resource, sys; limit = int(sys.argv.pop(1));"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit));"
    "from nysketch.cli import main; main()"
)


@pytest.mark.parametrize(
    "too_large", [f"partitions/{day(7)}.nysk", "windows/all.nysk", f"drift/{day(5)}.json"]
)
def test_a_full_disk_is_an_error_and_the_next_run_recovers(
    prepared, undisturbed, tmp_path, cli_command, too_large
):
    limit = len(undisturbed[too_large]) - 1
    nightly = copy_of(prepared, tmp_path / "full")
    before = nightly.contents()
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), "run", str(nightly.job)],
        env=cli_command[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
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
