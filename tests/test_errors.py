"""Errors, how messages spell options, and what Python callers hear."""

import logging
import shlex
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nysketch._support.notices import log, notice
from nysketch.errors import NysketchError, NysketchWarning, UsageError, in_shell, json_in_shell, option


@pytest.mark.parametrize(
    ("message", "shell"),
    [
        ('Drop such rows with `nulls="drop"`', "Drop such rows with --nulls drop"),
        ("use more `permutations`", "use more --permutations"),
        ("try `landmarks=200`", "try -m 200"),
        ("`cells=False` and `allow_external=True`", "--no-cells and --allow-external"),
        ('`groups={"x": ["a", "b"], "y": ["c"]}`', "--group x=a,b --group y=c"),
        ("`columns=NAME`", "--columns NAME"),
        ("call `nysketch.merge(force=True)`", "call `nysketch merge --force`"),
        ("`nysketch.Basis.fit`", "`nysketch basis`"),
        ("`nysketch.learn_kmeans(robust=9)`", "`nysketch learn kmeans --robust 9`"),
        ("column 'nulls' of a.csv", "column 'nulls' of a.csv"),
        ("run `dask worker ADDRESS`", "run `dask worker ADDRESS`"),
    ],
)
def test_options_are_spelled_as_flags(message, shell):
    assert in_shell(message) == shell


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_names_survive_both_spellings(name):
    """A column of any name is excluded by what the message says, in Python and in a shell."""
    message = option("exclude", name)
    assert eval(f"dict({message[1:-1]})") == {"exclude": name}
    assert shlex.split(in_shell(message)) == ["--exclude", name]


def test_messages_in_json_have_flags_and_names_stay():
    said = "use `blocks=64`"
    value = {"path": said, "files": [{"error": said}], "skipped": {said: said}, "quality": {"advice": [said]}}
    assert json_in_shell(value | {"rows": 3, "notes": None}) == {
        "path": said,
        "files": [{"error": "use --blocks 64"}],
        "skipped": {said: "use --blocks 64"},
        "quality": {"advice": ["use --blocks 64"]},
        "rows": 3,
        "notes": None,
    }


def test_errors_before_logging_is_set_up_are_errors_with_flags():
    code = """if True:
        from nysketch.cli import _report
        from nysketch.errors import UsageError
        raise SystemExit(_report(UsageError('use `nulls="drop"`')))
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "nysketch: error: use --nulls drop\n")


def test_errors_carry_their_options():
    error = UsageError('leave out `columns`, or use `nulls="drop"`')
    assert error.options == ("columns", "nulls")
    assert NysketchError("it failed").options == ()


@pytest.mark.parametrize("say", [notice, log.warning])
def test_python_callers_are_warned(say):
    with pytest.warns(NysketchWarning, match="3 rows dropped") as caught:
        say("%d rows dropped", 3)
    assert caught[0].filename == __file__


def test_details_are_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log.info("a detail")


def test_whoever_sets_up_logging_hears_it_too(caplog):
    with caplog.at_level(logging.INFO, "nysketch"), pytest.warns(NysketchWarning):
        notice("left out: %s", "name")
    assert [record.getMessage() for record in caplog.records] == ["left out: name"]
