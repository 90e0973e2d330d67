"""Messages name options that exist, as Python spells them, and speak the words of the field."""

import ast
import re

import click
import pytest

from nysketch.cli import group
from nysketch.errors import _OPTION, COMMANDS, FLAGS, in_shell
from tests.helpers import ROOT

PACKAGE = ROOT / "nysketch"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Where flags are no options of nysketch: what spells them, CSS variables, other programs.
FLAGS_ALLOWED = {
    "errors.py": {"--group", "--dataset", "--kind", "--no-"},
    "report/html.py": {"--alarm", "--grid", "--link", "--muted", "--page", "--quiet", "--surface", "--text"},
    "engines/dask/engine.py": {"--scheduler-file"},
}
# Renamed on the command line; the old names are aliases there.
RENAMED = {"runs": "spans", "shuffles": "permutations", "shuffle_rows": "permutation_rows"}
# Functions that are no commands, and backticks around what is no option.
FUNCTIONS = {"save_model"}
ODD = re.compile(r"\b(stands? for|stands? up to|(is|are) told|does not show|so many)\b", re.IGNORECASE)


def docstrings(tree):
    """Return the nodes of strings that are statements: documentation."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def texts(path, *, documentation):
    """Yield line and text of all strings of a module; values in them are left out."""
    tree = ast.parse(path.read_text())
    skipped = set() if documentation else docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def modules(*, cli):
    paths = sorted(PACKAGE.rglob("*.py"))
    return [path for path in paths if cli or path.relative_to(PACKAGE).parts[0] != "cli"]


def commands(command=group, name=""):
    """Yield all commands that have options, by name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            yield from commands(command.get_command(context, inner), f"{name} {inner}".strip())
    else:
        yield name, command


def parameters():
    """Return the names of all options, as keyword arguments."""
    flags = {flag for _, command in commands() for p in command.params for flag in (*p.opts, p.name)}
    names = {flag.removeprefix("--").replace("-", "_") for flag in flags if not re.match("-[^-]", flag)}
    names |= {name for name, flag in FLAGS.items() if flag in flags}
    return names | {new for old, new in RENAMED.items() if old in names}


def test_the_library_names_no_flags():
    found = set()
    for path in modules(cli=False):
        inner = path.relative_to(PACKAGE).as_posix()
        for line, text in texts(path, documentation=False):
            allowed = FLAGS_ALLOWED.get(inner, set())
            found |= {(inner, line, flag) for flag in FLAG.findall(text) if flag not in allowed}
    assert not found


def test_options_and_functions_that_messages_name_exist():
    known, functions = parameters(), {name for name, _ in commands()}
    unknown = []
    for path in modules(cli=False):
        for line, text in texts(path, documentation=False):
            for named in _OPTION.finditer(text):
                where = f"{path.relative_to(ROOT)}:{line}: {named[0]}"
                if named["name"] and named["name"] not in known:
                    unknown.append(where)
                function = named["function"]
                if function and COMMANDS.get(function, function) not in functions | FUNCTIONS:
                    unknown.append(where)
    assert not unknown


def test_what_the_command_line_says_of_options_can_be_typed():
    flags = {
        flag for _, command in commands() for p in command.params for flag in (*p.opts, *p.secondary_opts)
    }
    for name in parameters() & {"landmarks", "k", "output", "datasets", "groups", "nulls", "pilot_rows"}:
        assert in_shell(f"`{name}`") in flags
    assert in_shell("`cells=False`") in flags


@pytest.mark.parametrize("part", ["library", "cli"])
def test_messages_and_help_speak_the_words_of_the_field(part):
    cli = part == "cli"
    odd = [
        f"{path.relative_to(ROOT)}:{line}: {found[0]}"
        for path in modules(cli=True)
        if (path.relative_to(PACKAGE).parts[0] == "cli") == cli
        for line, text in texts(path, documentation=cli)
        for found in ODD.finditer(text)
    ]
    assert not odd


def test_documents_speak_the_words_of_the_field():
    odd = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for found in ODD.finditer(re.sub(r"\s+", " ", path.read_text()))
    ]
    assert not odd
