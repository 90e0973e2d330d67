"""The Python interface: complete, documented, and with the names and defaults of the command line."""

import importlib.util
import inspect
import re
import warnings
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.cli import COMMANDS, group
from nysketch.errors import NysketchWarning

ROOT = Path(__file__).parent.parent.parent
SPEC = importlib.util.spec_from_file_location("python_reference", ROOT / "scripts" / "python_reference.py")
REFERENCE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(REFERENCE)

FUNCTIONS = [name for name in nysketch.__all__ if inspect.isfunction(getattr(nysketch, name))]

# The functions that do what a command does.
DOERS = {
    "sketch": [nysketch.sketch],
    "basis": [nysketch.Basis.fit, nysketch.save],
    "learn kmeans": [nysketch.learn_kmeans, nysketch.save_model],
    "learn gmm": [nysketch.learn_gmm, nysketch.save_model],
    "compare": [nysketch.compare_all],
    "independence": [nysketch.independence, nysketch.sketch],
    "report": [nysketch.write_report],
}
RENAMED = {"dataset": "datasets", "group": "groups", "kind": "kinds"}
# What only a shell needs: how things are printed, where inputs are listed, which cluster runs a pass.
SHELL_ONLY = {
    "json", "quiet", "verbose", "log-format", "from-file", "scheduler", "workers", "worker-wait",
    "worker-silence", "dry-run", "alarm", "show-config",
}  # fmt: skip
# Results that Python callers save themselves have no output; how they are saved is up to them.
SAVED_BY_CALLERS = {
    "basis": {"output", "if-exists", "lock-wait", "memory", "engine"},
    "learn kmeans": {"output", "if-exists", "lock-wait"},
    "learn gmm": {"output", "if-exists", "lock-wait"},
    "coreset": {"output", "if-exists", "lock-wait", "row-as", "weight-as"},
}
# Defaults that differ on purpose: Python reads a table that is in memory already, and a pair is explained.
OTHER_DEFAULTS = {
    ("*", "memory"),
    ("*", "engine"),
    ("*", "retries"),
    ("*", "timeout"),
    ("independence", "permutations"),
}


def commands():
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        inner = command.commands if isinstance(command, click.Group) else None
        yield from [(f"{name} {sub}", one) for sub, one in inner.items()] if inner else [(name, command)]


ALL = dict(commands())


def parameters_of(name):
    found = {}
    for doer in DOERS.get(name) or [getattr(nysketch, name)]:
        found = dict(inspect.signature(doer).parameters) | found
    return found


def options_of(name):
    for option in ALL[name].params:
        if isinstance(option, click.Option) and not option.hidden:
            flag = max((o for o in option.opts), key=len).lstrip("-")
            yield flag, option


@pytest.mark.parametrize("name", ALL)
def test_functions_have_the_options_of_their_commands(name):
    known = parameters_of(name)
    for flag, _ in options_of(name):
        if flag in SHELL_ONLY | SAVED_BY_CALLERS.get(name, set()):
            continue
        parameter = RENAMED.get(flag, flag.replace("-", "_"))
        assert parameter in known, f"{name} --{flag}"


@pytest.mark.parametrize("name", ALL)
def test_defaults_are_those_of_the_command_line(name):
    known = parameters_of(name)
    for flag, option in options_of(name):
        parameter = known.get(RENAMED.get(flag, flag.replace("-", "_")))
        given = option.to_info_dict()["default"]
        if (
            parameter is None
            or given is None
            or "UNSET" in str(given)
            or {("*", flag), (name, flag)} & OTHER_DEFAULTS
        ):
            continue
        ours = parameter.default
        one = given[0] if isinstance(given, list | tuple) and len(given) == 1 else given
        assert ours == one or (not ours and not one), f"{name} --{flag}: {one!r}, in Python {ours!r}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented(name):
    function = getattr(nysketch, name)
    text = inspect.getdoc(function)
    signature = inspect.signature(function)
    assert all(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in signature.parameters.values())
    assert all(p.annotation is not p.empty for p in signature.parameters.values())
    section = text[text.index("Parameters\n---") :]
    entries = re.findall(r"^(\w[\w, ]*?)(?: : .*)?$", section, re.MULTILINE)
    listed = {word for entry in entries for word in re.split(r",\s*", entry)}
    assert set(signature.parameters) <= listed
    assert "Examples\n---" in text


def test_every_public_name_is_in_the_reference():
    page = REFERENCE.TARGET.read_text(encoding="utf-8")
    listed = {name for names in REFERENCE.TITLES.values() for name in names}
    assert listed == set(nysketch.__all__) - {"__version__"}
    for name in FUNCTIONS:
        section = page[page.index(f"### nysketch.{name}\n") :]
        for parameter in inspect.signature(getattr(nysketch, name)).parameters:
            assert f"`{parameter}`" in section.split("\n### ")[0]


def test_the_reference_is_up_to_date():
    assert REFERENCE.TARGET.read_text(encoding="utf-8") == REFERENCE.reference()


# ---- what callers hear -----------------------------------------------------------------------------


@pytest.fixture
def table():
    rows = np.random.default_rng(0).normal(size=(300, 2))
    x = [None if i < 30 else value for i, value in enumerate(rows[:, 0])]
    return pa.table({"x": x, "y": rows[:, 1], "name": ["a"] * 300})


def test_left_out_columns_and_dropped_rows_are_warned_about(table):
    with pytest.warns(NysketchWarning) as caught:
        made = nysketch.sketch(table, landmarks=10, nulls="drop")
    texts = [str(one.message) for one in caught]
    assert texts[0].startswith("left out: name (constant a)")
    assert texts[1] == "30 of 300 rows (10 %) were dropped: they hold nulls, NaN or infinities"
    assert all(one.filename == __file__ for one in caught)
    assert made.dropped_rows == 30


def test_nothing_is_warned_about_where_nothing_is_left_out(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nysketch.sketch(table, columns=["y"], landmarks=10)
        nysketch.sketch(table, exclude=["x", "name"], landmarks=10)


def test_python_errors_speak_python(table):
    with pytest.raises(nysketch.NysketchError, match=r'Drop such rows with `nulls="drop"`') as caught:
        nysketch.sketch(table, columns=["x", "y"], landmarks=10, nulls="error")
    assert "nulls" in caught.value.options and "--" not in str(caught.value)
