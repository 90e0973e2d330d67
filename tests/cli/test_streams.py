"""Standard streams that are closed, or not read: the work is done, and the exit code is right."""

import os
import shutil
import subprocess

import pytest

import nysketch
from tests.disturbances import PATIENCE


@pytest.fixture
def closing(cli_command, tmp_path):
    """Run a command as a shell does with such redirections."""
    command, environment = cli_command

    def closing(redirections, *arguments):
        line = f'exec "$@" {redirections}'
        return subprocess.run(
            ["sh", "-c", line, "sh", *command, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return closing


@pytest.mark.slow
@pytest.mark.parametrize("redirections", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_keeps_no_work_from_being_done(closing, shelf, tmp_path, redirections):
    arguments = [shelf / "a.parquet", "--basis", shelf / "basis.nysk", "-v", "-o", "s.nysk"]
    made = closing(redirections, "sketch", *arguments)
    assert made.returncode == 0
    assert (tmp_path / "s.nysk").read_bytes() == (shelf / "a.nysk").read_bytes()
    assert (made.stdout == "") == (redirections != "2>&-")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["info", "no.nysk"], 3), (["info", "--no-such-option"], 2), (["info"], 2), (["verify", "bad.nysk"], 5)],
)
def test_a_failure_keeps_its_exit_code(closing, tmp_path, arguments, code):
    (tmp_path / "bad.nysk").write_bytes(b"no sketch")
    found = closing("2>&-", *arguments)
    assert (found.returncode, found.stderr) == (code, "")


@pytest.mark.parametrize(
    ("redirection", "message"),
    [("<&-", "standard input is closed"), ("</dev/zero", "it has more than 64 MiB")],
)
def test_a_list_comes_from_standard_input_or_not_at_all(closing, redirection, message):
    found = closing(redirection, "sketch", "--from-file", "-", "-o", "s.nysk")
    assert found.returncode == 3 and message in found.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["sketch", "a.parquet", "-m", "5", "-v", "-o", "s.nysk"], 0), (["info", "no.nysk"], 3), (["info"], 2)],
)
def test_nobody_needs_to_read_the_log(cli_command, shelf, tmp_path, arguments, code):
    shutil.copy(shelf / "a.parquet", tmp_path)
    command, environment = cli_command
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(
        [*command, *arguments],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=writer,
        timeout=PATIENCE,
    )
    os.close(writer)
    assert found.returncode == code
    if code == 0:
        assert nysketch.load(tmp_path / "s.nysk").rows == 600
