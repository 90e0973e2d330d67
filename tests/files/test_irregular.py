"""FIFOs, devices, sockets and directories: neither waited for nor replaced. No real device is written to."""

import os
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import nysketch
from nysketch._support.regular import open_regular, read_once
from nysketch.errors import InputError, UsageError
from tests.disturbances import PATIENCE

KINDS = ("directory", "fifo", "device", "socket")
NULL, ZERO = (1, 3), (1, 5)


def device(path, numbers=NULL):
    """Make a node of our own: the machine needs its own."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*numbers))
        path.open("rb").close()
    except OSError:
        pytest.skip("devices cannot be made here")
    return path


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make something that is no regular file; return its name in the working directory."""
    monkeypatch.chdir(tmp_path)

    def make(kind, name="odd"):
        path = tmp_path / name
        if kind == "directory":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            device(path)
        else:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(name)
        return name

    return make


def listing(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def identity(path):
    found = os.lstat(path)
    return stat.S_IFMT(found.st_mode), found.st_ino, found.st_rdev


# ---- outputs -----------------------------------------------------------------------------------------

# None of the inputs exists: the output is refused before anything is read.
WRITERS = {
    "sketch": ["no.parquet", "-o"],
    "basis": ["no.parquet", "-o"],
    "merge": ["no.nysk", "-o"],
    "subtract": ["no.nysk", "no.nysk", "-o"],
    "learn": ["kmeans", "no.nysk", "-k", 2, "--to", "json", "-o"],
    "assign": ["no.json", "no.parquet", "-o"],
    "coreset": ["no.parquet", "-o"],
    "export": ["no.nysk", "--to", "npz", "-o"],
    "plot": ["no.nysk", "-o"],
    "report": ["no", "-o"],
}


@pytest.mark.parametrize("command", WRITERS)
def test_no_command_replaces_a_device(run_cli, make, tmp_path, command):
    make("device", "odd.svg")
    before = identity("odd.svg")
    result = run_cli(command, *WRITERS[command], "odd.svg", "--if-exists", "overwrite", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "odd.svg: is a device, not a regular file; choose another -o" in result.stderr
    assert identity("odd.svg") == before and listing(".") == ["odd.svg"]


PYTHON = {
    "sketch": lambda path: nysketch.sketch("no.parquet", output=path, if_exists="overwrite"),
    "merge": lambda path: nysketch.merge(["no.nysk"], output=path, if_exists="overwrite"),
    "subtract": lambda path: nysketch.subtract("no", "no", output=path, if_exists="overwrite"),
    "assign": lambda path: nysketch.assign("no", "no.parquet", output=path, if_exists="overwrite"),
    "export": lambda path: nysketch.export("no", path, format="npz", if_exists="overwrite"),
    "plot": lambda path: nysketch.plot("no", output=path, if_exists="overwrite"),
    "write_report": lambda path: nysketch.write_report("no", path),
    "save": lambda path: nysketch.save(nysketch.sketch({"x": [1.0, 2.0]}, landmarks=1), path),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", PYTHON)
def test_no_function_replaces_what_is_no_file(make, kind, function):
    name = make(kind, "odd.html" if function == "write_report" else "odd.svg")
    before = identity(name)
    with pytest.raises(UsageError, match=f"{name}: is a .*, not a regular file; choose another `output`"):
        PYTHON[function](name)
    assert identity(name) == before and listing(".") == [name]


def test_a_link_to_a_device_is_left_alone(make, tmp_path):
    make("device")
    (tmp_path / "link").symlink_to("odd")
    with pytest.raises(UsageError, match="link: is a device"):
        PYTHON["sketch"]("link")
    assert (tmp_path / "link").readlink() == Path("odd")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1"])
def test_streams_are_no_outputs_even_if_they_lead_to_a_file(run_cli, tmp_path, name):
    """run_cli connects stdout to a regular file, which a rename would replace behind its back."""
    result = run_cli("export", "no.nysk", "--to", "npz", "-o", name, "--if-exists", "overwrite", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{name}: results cannot be written to a stream" in result.stderr


# ---- inputs ------------------------------------------------------------------------------------------

READERS = {
    "info": (["info", "odd"], 3),
    "verify": (["verify", "odd"], 3),
    "sketch": (["sketch", "odd", "-o", "new.nysk"], 3),
    "basis": (["sketch", "a.parquet", "--basis", "odd", "-o", "new.nysk"], 3),
    "model": (["score", "odd", "a.parquet"], 3),
    "plot": (["plot", "odd", "-o", "new.svg"], 3),
    "job": (["run", "odd"], 3),
    "list": (["sketch", "--from-file", "odd", "-o", "new.nysk"], 3),
    "config": (["--config", "odd", "sketch", "a.parquet", "-o", "new.nysk"], 2),
    "checkpoint": (["sketch", "a.parquet", "-m", 5, "-o", "odd"], 3),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_nothing_waits_for_what_is_no_file(run_cli, make, shelf, tmp_path, reader, kind):
    """A FIFO that nobody writes to, and a device that never ends."""
    arguments, code = READERS[reader]
    odd = "odd.checkpoint" if reader == "checkpoint" else "odd"
    if kind == "device":
        device(tmp_path / odd, ZERO)
    else:
        make(kind, odd)
    shutil.copy(shelf / "a.parquet", tmp_path)
    result = run_cli(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert "odd" in result.stdout + result.stderr and "internal" not in result.stderr
    said = " ".join((result.stdout + result.stderr).split())
    assert "regular file" in said or "comes out of this pipe" in said
    assert listing(".") == ["a.parquet", odd]


@pytest.mark.parametrize(
    "line", ["info -", "score - x.parquet", "run -", "--config - info x", "plot - -o x.svg"]
)
def test_standard_input_is_no_sketch_model_or_job(run_cli, tmp_path, line):
    result = run_cli(*line.split(), cwd=tmp_path)
    assert result.returncode in (2, 3)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "standard input can be data (an Arrow stream) or a list of inputs; name a file" in said


def test_a_pipe_in_a_directory_of_data_is_not_skipped(make, shelf, tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copy(shelf / "a.parquet", "." if tmp_path.name == "data" else tmp_path / "data")
    make("fifo", "data/b.parquet")
    for given in ("data", "data/*.parquet"):
        with pytest.raises(InputError, match=r"data/b\.parquet: is a pipe \(FIFO\), and only regular files"):
            nysketch.sketch(given)


# ---- what is read once may come from a pipe ----------------------------------------------------------


@pytest.fixture
def shell(cli_command, tmp_path):
    """Run a line of bash, in which `nysketch` is the command."""
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    command, environment = cli_command

    def shell(line):
        function = f'nysketch() {{ {" ".join(command)} "$@"; }}; '
        return subprocess.run(
            ["bash", "-c", function + line],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=PATIENCE,
        )

    return shell


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "nysketch sketch --from-file <(ls *.parquet) -m 5 -q -o new.nysk",
        "nysketch --config <(printf '[sketch]\\nlandmarks = 5\\n') sketch a.parquet -q -o new.nysk",
        "nysketch --config /dev/null sketch --from-file - -m 5 -q -o new.nysk < list",
    ],
)
def test_lists_and_settings_may_come_from_a_shell(shell, shelf, tmp_path, line):
    shutil.copy(shelf / "a.parquet", tmp_path)
    (tmp_path / "list").write_text("a.parquet\n")
    result = shell(line)
    assert result.returncode == 0, result.stderr
    made = nysketch.load(tmp_path / "new.nysk")
    assert (made.rows, made.basis.m) == (600, 5)


@pytest.mark.slow
def test_data_from_a_pipe_are_refused_with_the_remedy(shell, shelf, tmp_path):
    shutil.copy(shelf / "a.parquet", tmp_path)
    result = shell("nysketch sketch <(cat a.parquet) -m 5 -o new.nysk")
    assert result.returncode == 3
    assert "is a pipe (FIFO)" in result.stderr and "give an Arrow stream on standard input" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_stream_arrives_through_a_pipe(cli_command, shelf, tmp_path, name):
    command, environment = cli_command
    table = pa.table({"x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, 0.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arguments = ["sketch", name, "--basis", shelf / "basis.nysk", "-q", "-o", tmp_path / "s.nysk"]
    content = sink.getvalue().to_pybytes()
    result = subprocess.run([*command, *arguments], input=content, env=environment, timeout=PATIENCE)
    assert result.returncode == 0
    assert nysketch.load(tmp_path / "s.nysk").rows == 3


def test_a_pipe_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="nobody writes to it"):
        read_once(path)
    with pytest.raises(OSError, match=r"it is a pipe \(FIFO\), not a regular file"):
        open_regular(path)
    keeper = os.open(path, os.O_RDWR)  # so that the writer need not wait
    text = b"x" * 300_000  # more than a pipe holds
    writer = threading.Thread(target=path.write_bytes, args=[text])
    writer.start()
    found = []
    reader = threading.Thread(target=lambda: found.append(read_once(path)))
    reader.start()
    writer.join()
    os.close(keeper)
    reader.join()
    assert found == [text]


def test_no_list_is_endless(tmp_path):
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(OSError, match="it has more than 64 MiB"):
        read_once(huge)
    assert read_once(device(tmp_path / "null")) == b""


def test_a_directory_of_sketches_hides_no_pipe_and_no_broken_link(make, shelf, tmp_path):
    shutil.copy(shelf / "a.nysk", tmp_path)
    (tmp_path / "b.nysk").symlink_to("gone.nysk")
    with pytest.raises(InputError, match=r"b\.nysk: cannot read: No such file"):
        nysketch.merge(".")
    (tmp_path / "b.nysk").unlink()
    make("fifo", "b.nysk")
    with pytest.raises(InputError, match=r"b\.nysk: cannot read: it is a pipe"):
        nysketch.merge("*.nysk")
