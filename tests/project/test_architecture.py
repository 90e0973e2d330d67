"""docs/architecture.md is true: every module it names exists, and commands walk as it says."""

import re
import subprocess
import sys

import pytest

import nysketch
from scripts.imports import ORDER
from tests.helpers import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text()
WALKS = dict(re.findall(r"^### `nysketch (\w+)[^\n]*\n(.*?)(?=^##)", TEXT, re.DOTALL | re.MULTILINE))


def named(text):
    """Return the files in backticks, as paths in the checkout."""
    return re.findall(r"`((?:\w+/)*\w+\.(?:py|md))`", text)


def test_every_file_it_names_exists():
    files = named(TEXT)
    assert len(set(files)) > 60
    missing = [
        file
        for file in files
        if not any(
            (folder / file).exists() for folder in (ROOT, ROOT / "nysketch", ROOT / "nysketch/accumulators")
        )
    ]
    assert not missing
    for folder in re.findall(r"`((?:\w+/)+)`", TEXT):
        assert (ROOT / "nysketch" / folder).is_dir(), folder


def test_the_picture_is_the_order_of_imports():
    picture = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)[1]
    names = [name for line in picture.splitlines() for name in line[:50].split() if name.isidentifier()]
    assert names == ORDER


def test_the_words_are_there():
    for name in ("Sketch", "Tally", "Basis"):
        assert f"`{name}`" in TEXT
    assert "STATISTICS" in TEXT and nysketch.__doc__


@pytest.fixture(scope="module")
def entered():
    """The modules that each command enters, in the order in which it does so first."""
    script = ROOT / "scripts" / "walks.py"
    output = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
    blocks = re.findall(r"^(\w+): nysketch .*\n((?:  .*\n?)+)", output, re.MULTILINE)
    return {name: [line.split()[0] for line in lines.splitlines()] for name, lines in blocks}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sketch", "learn", "compare", "coreset", "run"])
def test_a_command_walks_as_described(command, entered):
    steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\Z)", WALKS[command], re.DOTALL | re.MULTILINE)
    assert len(steps) >= 7
    # The first module of every step is on the main line; others are beside it, or for other cases.
    main = [named(step)[0] for step in steps]
    places = [entered[command].index(module) for module in main]
    assert places == sorted(places), [module for module, _ in sorted(zip(main, places, strict=True))]
