"""Every command in an interpreter of its own; other tests fork it from one that has all modules loaded."""

import re
import shutil

import pytest

from nysketch.cli import COMMANDS

ARGUMENTS = {
    "sketch": ["a.parquet", "-m", 5, "-o", "new.nysk"],
    "basis": ["a.parquet", "-m", 5, "-o", "new.nysk"],
    "info": ["a.nysk"],
    "verify": ["a.nysk", "b.nysk"],
    "merge": ["a.nysk", "b.nysk", "-o", "new.nysk"],
    "subtract": ["ab.nysk", "b.nysk", "-o", "new.nysk"],
    "learn": ["kmeans", "a.nysk", "-k", 2, "-o", "new.json"],
    "assign": ["model.json", "a.parquet", "-o", "new.csv"],
    "score": ["model.json", "a.parquet"],
    "compare": ["a.nysk", "b.nysk"],
    "independence": ["a.parquet", "-m", 10, "--group", "p=x", "--group", "q=y"],
    "coreset": ["a.parquet", "-m", 20, "-s", 5, "-o", "new.csv"],
    "report": ["store", "-o", "new.html"],
    "plot": ["a.nysk", "-o", "new.svg"],
    "export": ["a.nysk", "-o", "new.json"],
    "run": ["job.toml"],
    "status": ["store"],
}
# Those that start something of their own, or explain themselves and nothing else.
ELSEWHERE = {"completion", "help"}


def ran(run, command, folder):
    """Return what a command leaves, prints and says, but for the seconds it took."""
    result = run(command, *ARGUMENTS[command], cwd=folder)
    moments = r"\d+(\.\d+)? m?s\b|\d{4}-\d\d-\d\d[T ][\d:]+"
    said = [re.sub(moments, "", text) for text in (result.stdout, result.stderr)]
    made = {path.name: path.read_bytes() for path in folder.glob("new.*") if path.suffix != ".html"}
    return result.returncode, *said, made


@pytest.mark.slow
@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_forked_command_does_what_that_of_an_interpreter_does(
    command, shelf, tmp_path, run_process, run_cli
):
    shutil.copytree(shelf, tmp_path / "one")
    if command in ("report", "status"):
        assert run_cli("run", "job.toml", "-q", cwd=tmp_path / "one").returncode == 0
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    found = ran(run_process, command, tmp_path / "one")
    assert found[0] == 0, found
    assert ran(run_cli, command, tmp_path / "other") == found


def test_every_command_is_run():
    assert set(COMMANDS) - ELSEWHERE == set(ARGUMENTS)
