"""scripts/oracle.py: it finds what has changed, names it, and covers every command."""

import copy
import importlib.util
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.cli import COMMANDS
from tests.helpers import ROOT

SCRIPT = ROOT / "scripts" / "oracle.py"


@pytest.fixture(scope="module")
def oracle():
    spec = importlib.util.spec_from_file_location("oracle", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["oracle"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["oracle"]


@pytest.fixture
def folder(tmp_path):
    """Files as commands write them: a sketch, a model, a table."""
    random = np.random.default_rng(0)
    nysketch.save(nysketch.sketch(random.normal(size=(50, 2)), landmarks=5, threads=1), tmp_path / "a.nysk")
    (tmp_path / "model.json").write_text(json.dumps({"k": 2, "shares": [0.25, 0.75]}))
    pq.write_table(pa.table({"label": [0, 1, 1], "id": ["a", "b", "c"]}), tmp_path / "labels.parquet")
    return tmp_path


def recorded(oracle, folder):
    files = oracle.files_below(folder, [path.name for path in sorted(folder.iterdir())])
    step = {"arguments": ["info"], "exit": 0, "files": files, "stderr": [], "stdout": {"mmd": 0.1, "n": 3}}
    made = {"equal": {}, "leftovers": [], "steps": {"a step": step}, "tables": {}, "version": oracle.VERSION}
    return json.loads(json.dumps(made))


def test_the_same_is_no_difference(oracle, folder):
    assert oracle.all_differences(recorded(oracle, folder), recorded(oracle, folder)) == {}


def test_a_changed_byte_of_any_file_is_found(oracle, folder):
    before = recorded(oracle, folder)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"0.75", b"0.76") if path.suffix == ".json" else content + b"\0")
        if path.suffix != ".parquet":  # whose end says where its parts are
            lines = oracle.all_differences(before, recorded(oracle, folder))["a step"]
            assert lines[0].startswith(f"{path.name}: other bytes")
        path.write_bytes(content)
    assert oracle.all_differences(before, recorded(oracle, folder)) == {}


def test_the_changed_array_number_or_column_is_named(oracle, folder):
    before = recorded(oracle, folder)
    content = bytearray((folder / "a.nysk").read_bytes())
    content[-1] ^= 1
    (folder / "a.nysk").write_bytes(content)
    (folder / "model.json").write_text(json.dumps({"k": 2, "shares": [0.25, np.nextafter(0.75, 1)]}))
    pq.write_table(pa.table({"label": [0, 1, 0], "id": ["a", "b", "c"]}), folder / "labels.parquet")
    lines = oracle.all_differences(before, recorded(oracle, folder))["a step"]
    assert [line.split(" became ")[0] for line in lines if line.startswith("model.json: contents")] == [
        "model.json: contents.shares[1]: 0.75"
    ]
    assert sum(line.startswith("labels.parquet: contents.label") for line in lines) == 1
    assert not any("contents.id" in line for line in lines)
    assert sum(line.startswith("a.nysk: contents") for line in lines) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"mmd": 0.1}, {"mmd": 0.10000000000000002}, ["mmd: 0.1 became 0.10000000000000002"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]: 2 became 3"]),
        ({"a": 1}, {"a": 1.0}, ["a: 1 became 1.0"]),
        ({"a": 0.0}, {"a": -0.0}, ["a: 0.0 became -0.0"]),
        ({"a": True}, {"a": 1}, ["a: true became 1"]),
        ({"a": 1}, {"b": 1}, ["a: gone, was 1", "b: new, is 1"]),
        (["x", "y"], ["x"], [": 2 items became 1", ' - "y"']),
        ({"a": None}, {"a": None}, []),
    ],
)
def test_differences_of_json_are_exact_and_named(oracle, old, new, said):
    assert oracle.differences(old, new) == said


def test_all_that_a_step_does_counts(oracle, folder):
    before = recorded(oracle, folder)

    def after(change):
        new = copy.deepcopy(before)
        change(new["steps"]["a step"])
        return oracle.all_differences(before, new)

    assert after(lambda step: step.update(exit=1)) == {"a step": ["exit: 0 became 1"]}
    assert after(lambda step: step["stdout"].update(n=4)) == {"a step": ["stdout.n: 3 became 4"]}
    assert after(lambda step: step["files"].pop("a.nysk")) == {"a step": ["a.nysk: gone"]}
    assert after(lambda step: step["files"].update(more=None)) == {"a step": ["more: gone"]}
    assert len(after(lambda step: step["stderr"].append("warning"))["a step"]) == 2


def test_a_step_that_was_not_run_is_a_difference_unless_some_were_left_out(oracle, folder):
    before = recorded(oracle, folder)
    after = before | {"steps": {}}
    assert oracle.all_differences(before, after) == {"a step": ["not run any more"]}
    assert oracle.all_differences(before, after, partly=True) == {}
    assert oracle.all_differences(after, before) == {"a step": ["not in the reference"]}


def test_only_what_differs_from_run_to_run_is_scrubbed(oracle):
    line = "/x/y/a.nysk: 1,500 rows at 20 landmarks; 63.7 kB in 0.3 s, MMD 0.31 on 2024-02-01T03:15:00Z"
    assert oracle.scrub_text(line, "/x/y") == (
        "<here>/a.nysk: 1,500 rows at 20 landmarks; 63.7 kB in <time>, MMD 0.31 on <date>"
    )
    assert oracle.printed('{"seconds": 0.2, "rows": 3, "started": null}', "") == {
        "seconds": "<scrubbed>",
        "rows": 3,
        "started": None,
    }


def test_every_command_is_covered(oracle):
    assert {step.command for step in oracle.steps() if not step.name.startswith("error/")} >= {*COMMANDS}
    learned = {step.arguments[1] for step in oracle.steps() if step.command == "learn"}
    assert learned >= {"kmeans", "gmm"}


def test_steps_come_after_what_they_need(oracle):
    waits = oracle.needs(oracle.steps())
    assert "basis/default" in waits["sketch/part-2"]
    assert {"sketch/part-1", "sketch/part-2", "sketch/part-3"} <= {*waits["merge/parts"]}
    assert "run/first" in waits["run/second"]
    names = {step.name for step in oracle.chosen(oracle.steps(), "assign/gmm-labels")}
    assert {"assign/gmm-labels", "learn/gmm", "sketch/parquet"} <= names and len(names) < 6
    made = {name for step in oracle.steps() for name in step.outputs}
    read = {word for step in oracle.steps() for word in step.arguments if word.startswith(("out/", "parts/"))}
    assert read <= made
