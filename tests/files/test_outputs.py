"""The guard of outputs: what is refused, in which order, and what is left behind: nothing."""

import fcntl
import os
import re
import shutil

import pytest

import nysketch
from nysketch._support import outputs
from nysketch._support.companions import beside, checkpoint_path, lock_path
from nysketch._support.locks import output_lock
from nysketch._support.outputs import claimed
from nysketch.errors import InputError, LockedError, OutputError, UsageError
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


@pytest.mark.parametrize("linked", [False, True])
def test_the_next_picture_removes_what_a_killed_one_left(shelf, tmp_path, linked):
    """Also where the output is a link: temporary files are beside what it leads to."""
    for name in (".p.svg.deadbeef.tmp", ".q.svg.deadbeef.tmp", ".p.svg.lock"):
        (tmp_path / name).touch()
    output = tmp_path / "elsewhere" / "link.svg" if linked else tmp_path / "p.svg"
    output.parent.mkdir(exist_ok=True)
    if linked:
        output.symlink_to(tmp_path / "p.svg")
    plot([shelf / "a.nysk"], output)
    there = [".q.svg.deadbeef.tmp", *(["elsewhere"] if linked else []), "p.svg"]
    assert listing(tmp_path) == there and listing(output.parent) == (["link.svg"] if linked else there)


def test_a_link_and_what_it_leads_to_have_one_writer(output, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(output)
    with (
        claimed(link, overwrite=True, wait=0),
        pytest.raises(LockedError),
        claimed(output, overwrite=True, wait=0),
    ):
        pytest.fail("two writers")


@pytest.mark.parametrize("length", [230, 240, 245, 250, 255])
def test_long_names_have_short_companions(make_parquet, tmp_path, length):
    """Names of 255 bytes are all that file systems allow."""
    folder = tmp_path / "new"
    folder.mkdir()
    ending = "é.nysk"
    output = folder / ("x" * (length - len(ending.encode())) + ending)
    data = make_parquet(tmp_path / "a.parquet")
    names = set()

    def progress(done, total):
        names.update(listing(folder))

    how = {"landmarks": 5, "threads": 1, "output": output, "checkpoint_every": 0}
    nysketch.sketch(data, progress=progress, **how)
    assert listing(folder) == [output.name] and len(names) >= 2
    assert all(len(name.encode()) <= 255 for name in names)
    twin = output.with_name("y" + output.name[1:])
    assert len({lock_path(output), lock_path(twin), checkpoint_path(output), checkpoint_path(twin)}) == 4
    temporary = beside(output, ".", ".0123abcd.tmp")
    temporary.touch()
    beside(twin, ".", ".0123abcd.tmp").touch()
    nysketch.sketch(data, if_exists="overwrite", **how)
    assert not temporary.exists() and len(listing(folder)) == 2


def test_a_name_that_cannot_be_is_a_wrong_one(tmp_path):
    with pytest.raises(UsageError, match="this name is longer than the file system allows"):
        nysketch.sketch("no.parquet", output=tmp_path / ("x" * 256))


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
        (["merge", "a.nysk", "b.nysk", "-o", "a.nysk"], "a.nysk"),
        (["merge", "a.nysk", "b.nysk", "-o", "hard.nysk"], "hard.nysk"),
        (["subtract", "ab.nysk", "b.nysk", "-o", "link.nysk"], "link.nysk"),
        (["sketch", "a.parquet", "--basis", "b.nysk", "-o", "link.nysk"], "link.nysk"),
        (["sketch", "--from-file", "list", "-o", "list"], "list"),
        (["sketch", "a.parquet", "bad.parquet", "--skip-unreadable", "-o", "bad.parquet"], "bad.parquet"),
        (["learn", "kmeans", "a.nysk", "-k", "2", "-o", "a.nysk", "--to", "json"], "a.nysk"),
    ],
)
@pytest.mark.parametrize("if_exists", ["fail", "overwrite"])
def test_no_sketch_is_replaced_by_what_is_made_of_it(run_cli, shelf, tmp_path, arguments, output, if_exists):
    for name in ("a.nysk", "b.nysk", "ab.nysk"):
        shutil.copy(shelf / name, tmp_path)
    (tmp_path / "link.nysk").symlink_to("b.nysk")
    (tmp_path / "link.svg").symlink_to("a.nysk")
    (tmp_path / "hard.nysk").hardlink_to(tmp_path / "b.nysk")
    shutil.copy(shelf / "a.parquet", tmp_path)
    (tmp_path / "list").write_text("a.parquet\n")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = run_cli(*arguments, "--if-exists", if_exists, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{output}: is an input; choose another -o" in result.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_no_function_replaces_what_it_reads(shelf, tmp_path):
    paths = [shutil.copy(shelf / name, tmp_path) for name in ("ab.nysk", "b.nysk", "a.parquet", "model.json")]
    whole, part, data, model = map(os.fspath, paths)
    link = tmp_path / "link.nysk"
    link.hardlink_to(part)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    how = {"if_exists": "overwrite"}
    for call in (
        lambda: nysketch.merge([whole, part], output=link, force=True, **how),
        lambda: nysketch.subtract(whole, part, output=whole, **how),
        lambda: nysketch.subtract(whole, part, output=link, **how),
        lambda: nysketch.sketch(data, basis=part, output=link, **how),
        lambda: nysketch.sketch(data, landmarks=5, output=data, **how),
        lambda: nysketch.export(part, link, format="npz", **how),
        lambda: nysketch.assign(model, data, output=data, **how),
    ):
        with pytest.raises(UsageError, match="is an input; choose another `output`"):
            call()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_directory_of_sketches_may_hold_the_output(run_cli, shelf, tmp_path):
    for name in ("a.nysk", "b.nysk"):
        shutil.copy(shelf / name, tmp_path)
    for _ in range(2):  # the second time, the output is in the directory
        result = run_cli("merge", ".", "-o", "both.nysk", "--if-exists", "overwrite", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert nysketch.load(tmp_path / "both.nysk").rows == 1200
    assert listing(tmp_path) == ["a.nysk", "b.nysk", "both.nysk"]


@pytest.mark.parametrize("given", ["there", "there/*.nysk"])
def test_a_directory_of_nothing_but_the_output_has_no_sum(shelf, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    only = shutil.copy(shelf / "a.nysk", "there")
    before = (tmp_path / only).read_bytes()
    with pytest.raises(InputError, match=rf"{re.escape(given)}: no sketches besides there/a\.nysk"):
        nysketch.merge(given, output=only, if_exists="overwrite")
    assert (tmp_path / only).read_bytes() == before


def test_a_quick_command_waits_for_another_writer(start_cli, shelf, tmp_path, tmp_path_factory):
    output, note = tmp_path / "out.npz", tmp_path_factory.mktemp("note") / "waits"
    with lock_path(output).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = start_cli("export", shelf / "a.nysk", "-o", output, prepare=noting_waits(note))
        wait_for(note.exists, waiting)
        assert not output.exists()
    assert waiting.wait(timeout=PATIENCE) == 0
    assert listing(tmp_path) == ["out.npz"]
