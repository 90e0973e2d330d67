"""docs/reference/json.md has every key that commands print with --json, and no other."""

import contextlib
import io
import json
import logging
import os
import re
import runpy
import sys

import numpy as np
import pytest

import nysketch
from nysketch.cli import COMMANDS, group
from nysketch.errors import NysketchError
from tests.helpers import ROOT

TEXT = (ROOT / "docs" / "reference" / "json.md").read_text()
JOB = """
[job]
store = "store"
[inputs]
paths = ["january.csv", "february.csv"]
exclude = ["country"]
[basis]
landmarks = 20
[[windows]]
last = "all"
[[models]]
kind = "kmeans"
k = 2
[[comparisons]]
against = "previous"
alpha = 0.99
alarm = true
[[comparisons]]
name = "strict"
against = "previous"
alpha = 0.001
at_least = 0.001
"""
# Section of the page, and commands that together print all of its keys.
LINES = [
    ("sketch", "sketch january.csv -m 20 -o january.nysk"),
    ("sketch", "sketch february.csv --basis january.nysk -o february.nysk"),
    ("dry run", "sketch january.csv -m 20 -o dry.nysk --dry-run"),
    ("sketch", "sketch january.csv --basis january.nysk --part 1/2 -o part.nysk"),
    ("basis", "basis january.csv -m 20 -o basis.nysk"),
    ("info", "info february.nysk --against january.nysk"),
    ("info", "info part.nysk"),
    ("info", "info basis.nysk"),
    ("verify", "verify january.nysk job.toml"),
    ("merge", "merge january.nysk february.nysk -o both.nysk"),
    ("subtract", "subtract both.nysk january.nysk -o rest.nysk"),
    ("learn kmeans", "learn kmeans both.nysk -k 2:3 -o kmeans.json"),
    ("learn gmm", "learn gmm both.nysk -k 2:3 -o gmm.json"),
    ("info", "info both.nysk --quality"),
    ("info", "info kmeans.json"),
    ("info", "info gmm.json"),
    ("verify", "verify gmm.json"),
    ("assign", "assign kmeans.json january.csv -o labels.csv"),
    ("score", "score kmeans.json january.csv"),
    ("score", "score gmm.json january.csv"),
    ("comparison", "compare january.nysk february.nysk --robust 5"),
    ("compare", "compare january.nysk february.nysk rest.nysk"),
    ("independence", "independence january.csv -m 20 --group a=price --group b=days --group c=age --pairs"),
    ("coreset", "coreset both.nysk -s auto -o few.csv"),
    ("plot", "plot both.nysk -o both.svg"),
    ("export", "export both.nysk -o both.npz"),
    ("run", "run job.toml"),
    ("status", "status store"),
    ("report", "report store -o report.html"),
    ("learn kmeans", "learn kmeans mixed.nysk -k 2 --trials 1 -o mixed.json"),
    ("learn gmm", "learn gmm mixed.nysk -k 2 --trials 1 -o mixture.json"),
    ("info", "info mixed.json"),
    ("info", "info mixed.nysk"),
    ("comparison", "compare mixed.nysk later.nysk --permutations 99"),
]


def documented():
    """Return, by section, the keys and what the page says of them."""
    sections = re.findall(r"^## ([\w ]+)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return {
        name: {
            key: row[1]
            for row in re.findall(r"^\| (`.*?) \| (.*) \|$", body, re.MULTILINE)
            for key in re.findall(r"`([^`]+)`", row[0])
        }
        for name, body in sections
    }


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each line prints, run in this process: loading everything 25 times would take a minute."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "job.toml").write_text(JOB)
    log = logging.getLogger("nysketch")
    before = log.handlers, log.level, log.propagate
    found = []
    with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.redirect_stdout(io.StringIO()), pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["demo_orders.py"])
            runpy.run_path(os.fspath(ROOT / "scripts" / "demo_orders.py"), run_name="__main__")
        for path in folder.glob("*.csv"):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:2000]))
        days = np.datetime64("2024-01-01", "s") + 10_007 * np.arange(3000)
        mixed = {
            "at": days,
            "tail": np.exp(np.arange(3000) % 7),
            "city": np.arange(3000) % 3,
            "n": days.astype(int),
        }
        kinds = {"at": "hour,weekday,yearday,elapsed", "tail": "log", "city": "category"}
        here = nysketch.sketch(mixed, kinds=kinds, landmarks=20, seed=1)
        nysketch.save(here, "mixed.nysk")
        later = mixed | {"at": days + 50_000, "city": np.arange(3000) % 4}
        later["n"] = np.where(np.arange(3000) % 3, 1.0, np.nan)
        nysketch.save(nysketch.sketch(later, basis=here, nulls="keep"), "later.nysk")
        for section, line in LINES:
            with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(NysketchError):
                group.main([*line.split(), "--json"], standalone_mode=False)
            found.append((section, line, json.loads(output.getvalue())))
    log.handlers, log.level, log.propagate = before
    return found


class Keys:
    """Walks through what was printed, beside the sections of the page."""

    def __init__(self):
        self.sections = documented()
        self.seen = set()
        self.unknown = []

    def walk(self, section, value, prefix=""):
        keys = self.sections[section]
        for name, inner in value.items():
            nested = isinstance(inner, list) and any(isinstance(item, dict) for item in inner)
            path = f"{prefix}{name}"
            if isinstance(inner, list) and f"{path}[]" in keys:
                path += "[]"
            deeper = [key for key in keys if key.startswith((f"{path}.", f"{path}[]."))]
            if path not in keys and not deeper:
                if name != "schema_version":
                    self.unknown.append((section, path))
                continue
            self.seen.add((section, path))
            elsewhere = re.search(r"(?:see|each a) \[[^]]*\]\(#([\w-]+)\)", keys.get(path, ""))
            target = elsewhere and elsewhere[1].replace("-", " ")
            for item in [inner] if isinstance(inner, dict) else inner if nested else []:
                if deeper:
                    self.walk(section, item, f"{path}[]." if nested else f"{path}.")
                elif target:
                    self.walk(target, item)


@pytest.mark.slow
def test_the_page_has_the_keys_that_are_printed(printed):
    keys = Keys()
    for section, _, value in printed:
        assert value["schema_version"] == 1
        keys.walk(section, value)
    assert keys.unknown == []
    written = {(section, key) for section, entries in keys.sections.items() for key in entries}
    left = sorted(written - keys.seen)
    assert left == []


def test_every_command_is_there(printed):
    assert {line.split()[0] for _, line, _ in printed} == set(COMMANDS)
