"""The guard of outputs: what is refused, in which order, and what is left behind: nothing."""

import fcntl
import os
import shutil

import pytest

import nysketch
from nysketch._support import outputs
from nysketch._support.locks import lock_path, output_lock
from nysketch._support.outputs import claimed
from nysketch.errors import LockedError, OutputError, UsageError
from nysketch.files.export import export_file
from nysketch.plotting.plots import plot
from tests.disturbances import PATIENCE, noting_waits, wait_for


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"


def test_an_output_is_held_while_it_is_written(output, tmp_path):
    with claimed(output, overwrite=False, wait=0):
        assert listing(tmp_path) == [".out.lock"]
        with pytest.raises(LockedError), claimed(output, overwrite=False, wait=0):
            pytest.fail("two writers")
        output.touch()
    assert listing(tmp_path) == ["out"]


def test_nothing_is_left_of_a_writer_that_failed(output, tmp_path):
    (tmp_path / ".out.0123abcd.tmp").touch()  # of one that was killed
    with pytest.raises(ZeroDivisionError), claimed(output, overwrite=False, wait=0):
        _ = 1 / 0
    assert listing(tmp_path) == []


def test_what_exists_is_kept_unless_it_may_go(output, tmp_path):
    output.touch()
    for hint, message in (
        ({}, 'replace it with `if_exists="overwrite"`'),
        ({"hint": "ask somebody"}, "ask somebody"),
    ):
        with (
            pytest.raises(OutputError, match=f"out: exists already; {message}"),
            claimed(output, overwrite=False, wait=0, **hint),
        ):
            pytest.fail("overwritten")
    with claimed(output, overwrite=True, wait=0):
        assert output.exists()
    assert listing(tmp_path) == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_input_is_refused_before_anything_else(output, tmp_path, overwrite):
    output.touch()
    link, missing = tmp_path / "link", tmp_path / "missing"
    link.symlink_to(output)
    with (
        output_lock(output),
        pytest.raises(UsageError, match="out: is an input; choose another `output`"),
        claimed(output, inputs=[missing, os.fspath(link)], overwrite=overwrite, wait=0),
    ):
        pytest.fail("replaced")


def test_what_another_process_wrote_meanwhile_is_seen(output):
    """Existence is checked under the lock, not before."""
    with output_lock(output):
        with pytest.raises(LockedError), claimed(output, overwrite=False, wait=0):
            pytest.fail("two writers")
        output.touch()
        with pytest.raises(LockedError), claimed(output, overwrite=False, wait=0):
            pytest.fail("two writers")  # busy is what it is, and not yet complete
    with pytest.raises(OutputError, match="exists already"), claimed(output, overwrite=False, wait=0):
        pytest.fail("overwritten")


def test_only_commands_with_the_flag_are_told_of_it(output, monkeypatch):
    monkeypatch.setattr(outputs, "BRIEF_WAIT", 0.2)
    told = []
    for wait in (0, None):
        with (
            output_lock(output),
            pytest.raises(LockedError) as trouble,
            claimed(output, overwrite=True, wait=wait),
        ):
            pytest.fail("two writers")
        told.append(str(trouble.value))
    assert all("out: another process is writing it (lock " in text for text in told)
    assert told[0].endswith("Wait for it with `lock_wait=SECONDS`")
    assert told[1].endswith("Try again once it has finished")


@pytest.mark.parametrize("write", [export_file, lambda path, *rest, **how: plot([path], *rest, **how)])
def test_exports_and_pictures_have_one_writer(shelf, tmp_path, monkeypatch, write):
    monkeypatch.setattr(outputs, "BRIEF_WAIT", 0.2)
    output = tmp_path / ("out.npz" if write is export_file else "out.svg")
    with output_lock(output), pytest.raises(LockedError):
        write(shelf / "a.nysk", output, overwrite=False)
    assert listing(tmp_path) == []
    write(shelf / "a.nysk", output, overwrite=False)
    assert listing(tmp_path) == [output.name]


# ---- real processes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["export", "a.nysk", "-o", "a.nysk", "--to", "npz"], "a.nysk"),
        (["export", "b.nysk", "-o", "link.nysk", "--to", "npz"], "link.nysk"),
        (["plot", "a.nysk", "-o", "link.svg"], "link.svg"),
    ],
)
@pytest.mark.parametrize("if_exists", ["fail", "overwrite"])
def test_no_sketch_is_replaced_by_what_is_made_of_it(run_cli, shelf, tmp_path, arguments, output, if_exists):
    for name in ("a.nysk", "b.nysk", "ab.nysk"):
        shutil.copy(shelf / name, tmp_path)
    (tmp_path / "link.nysk").symlink_to("b.nysk")
    (tmp_path / "link.svg").symlink_to("a.nysk")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = run_cli(*arguments, "--if-exists", if_exists, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{output}: is an input; choose another -o" in result.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("command", [["merge", "a.nysk", "b.nysk"], ["subtract", "ab.nysk", "b.nysk"]])
def test_a_total_may_be_kept_in_place(run_cli, shelf, tmp_path, command):
    for name in ("a.nysk", "b.nysk", "ab.nysk"):
        shutil.copy(shelf / name, tmp_path)
    assert run_cli(*command, "-o", "new.nysk", cwd=tmp_path).returncode == 0
    result = run_cli(*command, "-o", command[1], cwd=tmp_path)
    assert result.returncode == 1 and "exists already" in result.stderr
    assert run_cli(*command, "-o", command[1], "--if-exists", "overwrite", cwd=tmp_path).returncode == 0
    assert (tmp_path / command[1]).read_bytes() == (tmp_path / "new.nysk").read_bytes()


def test_a_directory_of_sketches_may_hold_the_output(run_cli, shelf, tmp_path):
    for name in ("a.nysk", "b.nysk"):
        shutil.copy(shelf / name, tmp_path)
    for _ in range(2):  # the second time, the output is in the directory
        result = run_cli("merge", ".", "-o", "both.nysk", "--if-exists", "overwrite", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert nysketch.load(tmp_path / "both.nysk").rows == 1200
    assert listing(tmp_path) == ["a.nysk", "b.nysk", "both.nysk"]


def test_a_quick_command_waits_for_another_writer(start_cli, shelf, tmp_path, tmp_path_factory):
    output, note = tmp_path / "out.npz", tmp_path_factory.mktemp("note") / "waits"
    with lock_path(output).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = start_cli("export", shelf / "a.nysk", "-o", output, prepare=noting_waits(note))
        wait_for(note.exists, waiting)
        assert not output.exists()
    assert waiting.wait(timeout=PATIENCE) == 0
    assert listing(tmp_path) == ["out.npz"]
