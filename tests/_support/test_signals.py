"""Signals end the program alike, whenever they arrive: while it loads, while it works, while it ends."""

import os
import subprocess
import sys

import pytest

# Sends a signal at the n-th import or execution of a module: a moment that does not depend on the clock.
AT_EVENT = """
import signal, sys
at, name, count = int(sys.argv.pop(1)), sys.argv.pop(1), 0
def hook(event, args):
    global count
    if event in ("import", "exec"):
        count += 1
        if count == at:
            signal.raise_signal(getattr(signal, name))
from nysketch.__main__ import main
sys.addaudithook(hook)
main()
"""


def run(code, *args):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("signals") / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    return path


@pytest.mark.parametrize("at", [1, 10, 60, 150, 300, 500, 800])
def test_an_interrupt_while_modules_load(at, table, tmp_path):
    result = run(AT_EVENT, at, "SIGINT", "sketch", table, "-m", 5, "-o", tmp_path / "s.nysk")
    # click ends the line on which a terminal shows ^C
    assert (result.returncode, result.stderr.lstrip("\n")) == (130, "nysketch: error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_termination_while_modules_load(table, tmp_path):
    result = run(AT_EVENT, 200, "SIGTERM", "sketch", table, "-m", 5, "-o", tmp_path / "s.nysk")
    assert (result.returncode, result.stderr) == (143, "nysketch: error: terminated\n")


def test_an_interrupt_that_a_library_turns_into_another_error():
    code = """
import signal
from nysketch._support.signals import exit_with
def program():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise ImportError("half loaded") from error
exit_with(program)
"""
    result = run(code)
    assert (result.returncode, result.stderr) == (130, "nysketch: error: interrupted\n")


def test_an_interrupt_of_text_that_is_executed():
    """Python exits with -2 after that, unless something is done about it."""
    code = """
import signal
from nysketch._support.signals import exit_with
def program():
    try:
        exec("signal.raise_signal(signal.SIGINT)", {"signal": signal})
    except KeyboardInterrupt:
        return 130
exit_with(program)
"""
    assert run(code).returncode == 130


def test_an_interrupt_that_a_callback_swallows_is_raised_again_by_the_next_pass():
    """Such as those that look for the libraries whose threads are limited."""
    code = """
import ctypes, signal
from nysketch._support.signals import exit_with
from nysketch.engines.threads import run, run_in_order
def program():
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()
    if RUN == "run":
        list(run(lambda task, check: task, range(10), threads=2))
    else:
        list(run_in_order(lambda task, check: [task], range(10), threads=2))
    return 0
exit_with(program)
"""
    for way in ("run", "in order"):
        result = run(code.replace("RUN", repr(way)))
        assert result.returncode == 130 and result.stderr.endswith("nysketch: error: interrupted\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_while_a_lock_is_taken_leaves_no_file(name, tmp_path):
    code = """
import fcntl, signal, sys
from pathlib import Path
from nysketch._support.locks import output_lock
from nysketch._support.signals import exit_with
flock = fcntl.flock
def interrupted(*args):
    signal.raise_signal(getattr(signal, sys.argv[2]))
    flock(*args)
fcntl.flock = interrupted
def program():
    with output_lock(Path(sys.argv[1]) / "out"):
        return 0
exit_with(program)
"""
    result = run(code, tmp_path, name)
    assert result.returncode == {"SIGINT": 130, "SIGTERM": 143}[name]
    assert list(tmp_path.iterdir()) == []


def test_a_signal_after_the_end_changes_nothing():
    code = """
import atexit, signal
from nysketch._support.signals import exit_with
atexit.register(lambda: signal.raise_signal(signal.SIGINT))
exit_with(lambda: 7)
"""
    result = run(code)
    assert (result.returncode, result.stderr) == (7, "")


def test_other_errors_pass():
    code = "from nysketch._support.signals import exit_with; exit_with(lambda: 1 / 0)"
    result = run(code)
    assert result.returncode == 1 and "ZeroDivisionError" in result.stderr


def test_ctrl_c_stays_ignored_in_the_background_of_a_shell():
    code = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from nysketch._support.signals import exit_with
exit_with(lambda: signal.raise_signal(signal.SIGINT) or 5)
"""
    assert run(code).returncode == 5
