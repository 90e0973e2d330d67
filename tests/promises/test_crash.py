"""Killed, interrupted, out of disk, locked out: what is left behind, and what the next run makes of it."""

import fcntl
import json
import os
import random
import shutil
import signal

import pytest

import nysketch
from tests.disturbances import (
    PATIENCE,
    dying_at_call,
    dying_at_checkpoint,
    endless,
    full_disk,
    noting_waits,
    wait_for,
)

# Many row groups, and a checkpoint after each of them.
ROWS, ROW_GROUP = 5000, 50
SKETCH = ["sketch", "many.parquet", "-m", "20", "-o", "out.nysk", "--threads", "1"]
OFTEN = ["--checkpoint-every", "0"]
OLD = b"what was there before"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, make_parquet, run_cli):
    """A folder with the input and, as `expected`, the sketch of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    make_parquet(folder / "many.parquet", rows=ROWS, row_group_size=ROW_GROUP)
    result = run_cli(*SKETCH, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["resumed_fragments"] == 0
    (folder / "out.nysk").rename(folder / "expected")
    assert sorted(path.name for path in folder.iterdir()) == ["expected", "many.parquet"]
    return folder


@pytest.fixture
def folder(undisturbed, tmp_path):
    return shutil.copytree(undisturbed, tmp_path / "run")


@pytest.fixture(scope="module")
def interrupted(undisturbed, tmp_path_factory, run_cli):
    """A folder as SIGKILL leaves it, somewhere in the middle."""
    folder = shutil.copytree(undisturbed, tmp_path_factory.mktemp("killed") / "run")
    killed = run_cli(*SKETCH, *OFTEN, cwd=folder, prepare=dying_at_checkpoint(10))
    assert killed.returncode == -signal.SIGKILL
    assert (folder / "out.nysk.checkpoint").exists() and (folder / ".out.nysk.lock").exists()
    return folder


@pytest.fixture
def half_done(interrupted, tmp_path):
    return shutil.copytree(interrupted, tmp_path / "run")


@pytest.mark.slow
def test_killed_again_and_again_the_bytes_are_those_of_an_undisturbed_run(folder, tmp_path, run_cli):
    output, checkpoint = folder / "out.nysk", folder / "out.nysk.checkpoint"
    output.write_bytes(OLD)
    arguments = [*SKETCH, *OFTEN, "--if-exists", "overwrite"]
    whole = run_cli(*arguments, cwd=shutil.copytree(folder, tmp_path / "whole"), prepare=dying_at_call(0))
    assert whole.returncode == 0, whole.stderr
    calls, chance = int(whole.stderr.rsplit("calls: ", 1)[1]), random.Random(5)
    resumed = 0
    for _ in range(6):
        killed = run_cli(*arguments, cwd=folder, prepare=dying_at_call(chance.randrange(calls // 2)))
        if killed.returncode != -signal.SIGKILL:
            break  # there was little left to do
        assert output.read_bytes() == OLD
        resumed += checkpoint.exists()
    assert resumed >= 2
    result = run_cli(*arguments, "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert output.read_bytes() == (folder / "expected").read_bytes()
    assert not checkpoint.exists()


def test_a_killed_run_is_really_resumed(half_done, run_cli):
    result = run_cli(*SKETCH, "--json", cwd=half_done)
    assert result.returncode == 0, result.stderr
    assert 0 < json.loads(result.stdout)["resumed_fragments"] < ROWS // ROW_GROUP
    assert "resuming" in result.stderr
    assert (half_done / "out.nysk").read_bytes() == (half_done / "expected").read_bytes()
    assert not (half_done / "out.nysk.checkpoint").exists()
    assert not (half_done / ".out.nysk.lock").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_leaves_a_checkpoint_and_a_message(folder, start_cli, run_cli, number, code, word):
    checkpoint = folder / "out.nysk.checkpoint"
    process = start_cli(*SKETCH, *OFTEN, cwd=folder, prepare=endless(20))
    wait_for(checkpoint.exists, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stdout) == (code, "")
    assert word in stderr and "run the same command again to continue" in stderr
    assert "Traceback" not in stderr
    assert checkpoint.exists() and not (folder / "out.nysk").exists()
    assert not (folder / ".out.nysk.lock").exists()
    result = run_cli(*SKETCH, "--json", cwd=folder)
    assert json.loads(result.stdout)["resumed_fragments"] > 0
    assert (folder / "out.nysk").read_bytes() == (folder / "expected").read_bytes()


def test_a_changed_input_is_refused_until_restarted(half_done, run_cli, make_parquet):
    make_parquet(half_done / "many.parquet", rows=500, seed=3)
    result = run_cli(*SKETCH, cwd=half_done)
    assert (result.returncode, result.stdout) == (3, "")
    assert "many.parquet changed" in result.stderr and "--restart" in result.stderr
    assert (half_done / "out.nysk.checkpoint").exists() and not (half_done / "out.nysk").exists()
    result = run_cli(*SKETCH, "--restart", "--json", cwd=half_done)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["rows"], report["resumed_fragments"]) == (500, 0)
    assert not (half_done / "out.nysk.checkpoint").exists()


def test_a_touched_input_is_refused(half_done, run_cli):
    os.utime(half_done / "many.parquet")
    assert run_cli(*SKETCH, cwd=half_done).returncode == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [(["--seed", "1"], "options"), (["--columns", "x"], "columns"), (["--bandwidth", "2"], "basis")],
)
def test_changed_settings_are_refused(half_done, run_cli, change, named):
    result = run_cli(*SKETCH, *change, cwd=half_done)
    assert (result.returncode, result.stdout) == (3, "")
    assert named in result.stderr and "--restart" in result.stderr
    assert (half_done / "out.nysk.checkpoint").exists()


def test_a_corrupt_checkpoint_is_refused_with_a_remedy(half_done, run_cli):
    checkpoint = half_done / "out.nysk.checkpoint"
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 16
    checkpoint.write_bytes(content)
    result = run_cli(*SKETCH, cwd=half_done)
    assert (result.returncode, result.stdout) == (5, "")
    assert "out.nysk.checkpoint" in result.stderr and "--restart" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert run_cli(*SKETCH, "--restart", cwd=half_done).returncode == 0
    assert (half_done / "out.nysk").read_bytes() == (half_done / "expected").read_bytes()


def test_a_full_disk_leaves_the_old_output(folder, run_cli):
    (folder / "out.nysk").write_bytes(OLD)
    result = run_cli(*SKETCH, "--if-exists", "overwrite", cwd=folder, prepare=full_disk(4096))
    assert (result.returncode, result.stdout) == (1, "")
    assert "out.nysk: cannot write: File too large" in result.stderr and "Traceback" not in result.stderr
    assert (folder / "out.nysk").read_bytes() == OLD
    assert sorted(path.name for path in folder.iterdir()) == ["expected", "many.parquet", "out.nysk"]


def test_a_missing_output_folder_is_noticed_before_the_work(folder, run_cli):
    result = run_cli("sketch", "many.parquet", "-o", "missing/out.nysk", cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "missing/out.nysk: cannot write here: No such file or directory" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_output_folder_is_noticed_before_the_work(folder, run_cli):
    (folder / "locked").mkdir(mode=0o500)
    result = run_cli("sketch", "many.parquet", "-o", "locked/out.nysk", cwd=folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert "locked/out.nysk: cannot write here: Permission denied" in result.stderr


@pytest.mark.slow
def test_two_writers_of_one_output(parquet, run_cli, start_cli, tmp_path_factory):
    folder = parquet.parent
    arguments = ["sketch", "a.parquet", "-m", "5", "-o", "a.nysk"]
    with (folder / ".a.nysk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = run_cli(*arguments, cwd=folder)
        assert (result.returncode, result.stdout) == (75, "")
        assert "a.nysk: another process is writing it" in result.stderr and "--lock-wait" in result.stderr
        note = tmp_path_factory.mktemp("note") / "waits"
        wait = ["--lock-wait", PATIENCE]
        waiting = start_cli(*arguments, *wait, cwd=folder, prepare=noting_waits(note))
        wait_for(note.exists, waiting)
        assert not (folder / "a.nysk").exists()
    assert waiting.wait(timeout=PATIENCE) == 0
    assert nysketch.load(folder / "a.nysk").rows == 600
    assert sorted(path.name for path in folder.iterdir()) == ["a.nysk", "a.parquet"]


def test_a_lock_file_nobody_holds_does_not_block(parquet, run_cli):
    (parquet.parent / ".a.nysk.lock").touch()
    result = run_cli("sketch", "a.parquet", "-m", "5", "-o", "a.nysk", cwd=parquet.parent)
    assert result.returncode == 0, result.stderr
