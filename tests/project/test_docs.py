"""Documentation is true: the command reference, the README's example, the example configurations."""

import contextlib
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.cli import COMMANDS
from tests.helpers import ROOT


def write_months(folder):
    for seed, month in enumerate(("january", "february")):
        rows = np.random.default_rng(seed).standard_normal((3000, 3))
        table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)})
        pq.write_table(table, folder / f"{month}.parquet")


def test_the_command_reference_is_what_help_says():
    made = runpy.run_path(str(ROOT / "scripts" / "command_reference.py"))["reference"]()
    stored = (ROOT / "docs" / "commands.md").read_text()
    assert made == stored, "run: python scripts/command_reference.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command):
    assert f"`nysketch {command} " in (ROOT / "README.md").read_text()


def test_the_python_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_months(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert examples
    for example in examples:
        exec(example, {})
    assert nysketch.load("both.nysk").rows == 6000


def test_the_shell_example_of_the_readme_runs(tmp_path):
    write_months(tmp_path)
    (tmp_path / "logs").mkdir()
    pq.write_table(pq.read_table(tmp_path / "january.parquet"), tmp_path / "logs" / "2024-01.parquet")
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## Sixty seconds") : text.index("The same in Python")]
    commands = re.findall(r"^\$ (nysketch .*?)(?:\s+#.*)?$", section, re.MULTILINE)
    assert len(commands) == 13
    for command in commands:
        line = command.replace("nysketch", f"{sys.executable} -m nysketch", 1)
        subprocess.run(line, shell=True, cwd=tmp_path, check=True, capture_output=True)
    parts = [nysketch.load(tmp_path / f"{name}.nysk") for name in ("feb", "feb-again")]
    assert np.array_equal(parts[0].kernel_sums, parts[1].kernel_sums)


def run_twice(config, *command, cwd):
    line = [sys.executable, "-m", "nysketch", "--config", str(ROOT / "configs" / config), *command]
    for _ in range(2):  # a job that runs every night finds its own output
        subprocess.run(line, cwd=cwd, check=True)
    return tomllib.loads((ROOT / "configs" / config).read_text())


def test_every_example_configuration_is_run_by_a_test():
    names = {path.name for path in (ROOT / "configs").iterdir()}
    commands = {"sketch.toml", "learn.toml", "compare.toml", "slurm-array.sh"}
    assert names == commands | {"nightly.toml", "taxi.toml"}  # jobs: see nightly/test_examples.py


def test_the_example_configuration_of_a_sketch_runs(tmp_path):
    write_months(tmp_path)
    settings = run_twice("sketch.toml", "sketch", "january.parquet", "-o", "day.nysk", cwd=tmp_path)["sketch"]
    made = nysketch.load(tmp_path / "day.nysk")
    assert made.basis.m == settings["landmarks"]
    assert made.basis.scaling == settings["scale"]


def test_the_example_configuration_of_a_comparison_runs(tmp_path):
    random = np.random.default_rng(0)
    basis = nysketch.Basis.fit(random.standard_normal((500, 2)), landmarks=20)
    for name, shift in (("typical", 0), ("today", 0), ("changed", 1)):
        made = nysketch.sketch(random.standard_normal((2000, 2)) + shift, basis=basis)
        nysketch.save(made, tmp_path / f"{name}.nysk")
    run_twice("compare.toml", "compare", "today.nysk", "--reference", "typical.nysk", cwd=tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as alarm:
        run_twice("compare.toml", "compare", "changed.nysk", "--reference", "typical.nysk", cwd=tmp_path)
    assert alarm.value.returncode == 7


def test_the_example_configuration_of_learning_runs(tmp_path):
    rows = np.random.default_rng(0).standard_normal((2000, 3))
    rows[:1000] += 10
    nysketch.save(nysketch.sketch(rows, landmarks=50), tmp_path / "day.nysk")
    run_twice("learn.toml", "learn", "kmeans", "day.nysk", "-o", "model.json", cwd=tmp_path)
    model = nysketch.load_model(tmp_path / "model.json")
    assert model.k == 2
    assert [entry["k"] for entry in model.facts["sweep"]] == list(range(2, 13))
    settings = run_twice("learn.toml", "learn", "gmm", "day.nysk", "-o", "mixture.json", cwd=tmp_path)
    mixture = nysketch.load_model(tmp_path / "mixture.json")
    assert (mixture.k, mixture.covariance_type) == (8, settings["learn"]["gmm"]["covariance"])


def test_the_example_of_a_slurm_array_runs(tmp_path):
    (tmp_path / "events").mkdir()
    write_months(tmp_path / "events")
    for month in ("january", "february"):
        path = tmp_path / "events" / f"{month}.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=500)

    def run(*line, **variables):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path} | variables
        return subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)

    script = ROOT / "configs" / "slurm-array.sh"
    assert run("nysketch", "basis", "events/*.parquet", "-m", "20", "-o", "basis.nysk").returncode == 0
    merge = ["nysketch", "merge", "parts", "-o", "events.nysk"]
    for task in ("3", "1", "2", "2"):
        done = run("bash", script, SLURM_ARRAY_TASK_ID=task, SLURM_CPUS_PER_TASK="1", PARTS="3")
        assert (done.returncode, done.stderr) == (0, "")
        if task == "1":
            refused = run(*merge)
            assert refused.returncode == 4 and "part 2 of 3 of" in refused.stderr
    assert run(*merge).returncode == 0
    basis = tmp_path / "basis.nysk"
    months = [f"events/{month}.parquet" for month in ("february", "january")]
    with contextlib.chdir(tmp_path):
        assert nysketch.to_bytes(nysketch.sketch(months, basis=basis)) == Path("events.nysk").read_bytes()


def test_commands_of_the_page_on_scaling_have_the_options_it_uses():
    text = (ROOT / "docs" / "scaling.md").read_text()
    reference = (ROOT / "docs" / "commands.md").read_text()
    lines = re.findall(
        r"nysketch ((?:sketch|basis|merge|info) [^\n`]*)", text.replace("\n              ", " ")
    )
    flags = {flag for line in lines for flag in re.findall(r"(--[a-z-]+)", line)}
    assert {"--part", "--basis", "--partial", "--if-exists"} <= flags
    for flag in flags:
        assert f" {flag}" in reference, flag
    for path in re.findall(r"\]\(\.\./([^)#]+)\)", text):
        assert (ROOT / path).exists(), path


class Frame:
    """As much of a Spark table as the recipe needs: partitions of Arrow batches, one of them empty."""

    def __init__(self, partitions):
        self.partitions = partitions

    def mapInArrow(self, function, schema):  # noqa: N802 - it is Spark's
        return Frame([list(function(iter(partition))) for partition in self.partitions])

    def collect(self):
        rows = [row for partition in self.partitions for batch in partition for row in batch.to_pylist()]
        return [SimpleNamespace(**row) for row in rows]


def test_the_recipe_for_spark_of_the_page_on_scaling_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    nysketch.save(nysketch.Basis.fit(table, landmarks=20), "basis.nysk")
    text = (ROOT / "docs" / "scaling.md").read_text()
    section = text[text.index("## Spark") : text.index("## Dask")]
    (recipe,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    batches = table.to_batches(max_chunksize=100)
    names = {"frame": Frame([batches[:3], [batches[0].slice(0, 0)], [], batches[3:]])}
    exec(recipe, names)
    here = nysketch.sketch(table, basis="basis.nysk")
    assert names["total"].rows == 1000
    assert np.allclose(names["total"].kernel_sums, here.kernel_sums, rtol=1e-12, atol=0)


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == nysketch.__version__
    assert f"## {nysketch.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_path_of_one_machine_is_written_anywhere():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    suspicious = re.compile(r"(?<![\w.])/(?:home|root|Users)/\w")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in (".py", ".md", ".toml", "") and path.is_file():
            assert not suspicious.search(path.read_text()), name
