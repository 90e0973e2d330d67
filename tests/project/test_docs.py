"""Documentation is true: links, examples, options, exit codes, the command reference, the configurations.

The output of commands is test_transcripts.py's business, that of --json test_json.py's.
"""

import contextlib
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch import errors
from nysketch.cli import COMMANDS, group
from scripts import transcripts
from tests.helpers import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOP = [
    f'python "{ROOT}/scripts/demo_orders.py"',
    "nysketch sketch january.csv -m 200 -o january.nysk",
    "nysketch sketch february.csv --basis january.nysk -o february.nysk",
    "nysketch merge january.nysk february.nysk -o both.nysk",
]


def write_months(folder):
    for seed, month in enumerate(("january", "february")):
        rows = np.random.default_rng(seed).standard_normal((3000, 3))
        table = pa.table({f"x{i}": column for i, column in enumerate(rows.T)})
        pq.write_table(table, folder / f"{month}.parquet")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with the orders of the tutorial and sketches of them, as `<!-- run -->` blocks expect."""
    folder = tmp_path_factory.mktemp("shop")
    for command in SHOP:
        transcripts.shell(command, folder)
    return folder


@pytest.fixture
def desk(shop, tmp_path, monkeypatch):
    """A copy of the shop to work in."""
    folder = shutil.copytree(shop, tmp_path / "desk")
    monkeypatch.chdir(folder)
    return folder


def prose(path):
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@cache
def anchors(path):
    """Return the anchors of a page, as GitHub makes them from its headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def test_the_command_reference_is_what_help_says():
    made = runpy.run_path(str(ROOT / "scripts" / "command_reference.py"))["reference"]()
    stored = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert made == stored, "run: python scripts/command_reference.py"


def test_the_readme_is_short():
    assert (ROOT / "README.md").stat().st_size <= 10_000


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_and_a_guide_have_every_command(command):
    assert f"`nysketch {command} " in (ROOT / "README.md").read_text()
    guides = "".join(path.read_text() for path in (ROOT / "docs" / "guides").iterdir())
    assert re.search(rf"nysketch\s{command}\b", guides)


def test_the_index_links_every_page():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages - {"index.md"} == {link for link in pages if f"]({link})" in index}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_in_backticks_exist(page):
    for name in re.findall(r"`((?:scripts|tests|configs|docs)/[\w/.-]+)`", prose(page)):
        assert (ROOT / name).exists(), name


def commands_in(page):
    """Return the command lines of a page's blocks of code; continued lines are joined."""
    blocks = re.findall(
        r"^```(?:console|sh|yaml|crontab|ini)$(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"(?:\\)?\n\s+(?=-)", " ", "".join(blocks))
    return re.findall(r"\bnysketch ((?:" + "|".join(COMMANDS) + r") [^\n]*)", text)


def options_of(words):
    """Return the options that the command has which these words begin with."""
    command = group.get_command(click.Context(group), words[0])
    if isinstance(command, click.Group):
        command = command.commands[words[1]]
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    return {name for parameter in shown for name in (*parameter.opts, *parameter.secondary_opts)} | {"-h"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_have_the_options_that_examples_use(page):
    for line in commands_in(page):
        words = line.split()
        for flag in re.findall(r"(?<=\s)(--?[a-z][a-z-]*)", line.partition(" # ")[0]):
            assert flag in options_of(words), line


# Options of other programs, of scripts, and one that there is not.
OTHERS = {
    "docs/contributing.md": {"--check"},
    "docs/benchmarks/attacks.md": {"--count"},
    "docs/benchmarks/coresets.md": {"--section", "--most", "--out", "--picture"},
    "docs/benchmarks/memory.md": {"--software", "--cold"},
    "docs/benchmarks/scale.md": {"--section", "--rows"},
    "docs/benchmarks/speed.md": {"--rows", "--repeat"},
    "docs/benchmarks/ugly-data.md": {"--software"},
    "docs/guides/clusters.md": {"--array", "--mem", "--for", "--drop-nulls", "--scheduler-file"},
    "docs/guides/inputs.md": {"--by"},
}


TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which may speak of the past


@pytest.mark.parametrize("page", TODAY, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_options_in_the_text_exist(page):
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text()
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", reference))
    spans = re.findall(r"`([^`\n]*)`", prose(page))
    found = {flag for span in spans for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)}
    assert found - known == OTHERS.get(page.relative_to(ROOT).as_posix(), set())


def test_examples_with_options_are_found():
    flags = {
        flag
        for line in commands_in(ROOT / "docs/guides/clusters.md")
        for flag in re.findall(r"--[a-z-]+", line)
    }
    assert {"--part", "--basis", "--if-exists", "--scheduler", "--memory"} <= flags


RUN = re.compile(r"<!-- run -->\n\n```(python|console)\n(.*?)```", re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if RUN.search(page.read_text())], ids=lambda path: path.stem
)
def test_examples_run(page, desk, capsys):
    for language, block in RUN.findall(page.read_text()):
        if language == "python":
            exec(block, {})
        else:
            for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
                transcripts.shell(line, desk)


def test_enough_examples_run():
    found = [language for page in PAGES for language, _ in RUN.findall(page.read_text())]
    assert found.count("python") >= 5 and found.count("console") >= 4


def pages_of_exit_codes():
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    classes = {name: int(code) for name, code in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)}
    return codes, classes


def test_exit_codes_are_those_of_the_errors():
    codes, classes = pages_of_exit_codes()
    raised = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.NysketchError)
    }
    assert classes == raised
    stopped = {128 + signal.SIGINT, 128 + signal.SIGTERM}
    assert codes == {0, errors.EXIT_INPUTS_SKIPPED, errors.EXIT_ALARM, *raised.values(), *stopped}


def run_twice(config, *command, cwd):
    line = [sys.executable, "-m", "nysketch", "--config", str(ROOT / "configs" / config), *command]
    for _ in range(2):  # a job that runs every night finds its own output
        subprocess.run(line, cwd=cwd, check=True)
    return tomllib.loads((ROOT / "configs" / config).read_text())


def test_every_example_configuration_is_run_by_a_test():
    names = {path.name for path in (ROOT / "configs").iterdir()}
    commands = {"sketch.toml", "learn.toml", "compare.toml", "slurm-array.sh"}
    assert names == commands | {"nightly.toml", "taxi.toml"}  # jobs: see nightly/test_examples.py


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


class Frame:
    """As much of a Spark table as the recipe needs: partitions of Arrow batches, one of them empty."""

    def __init__(self, partitions):
        self.partitions = partitions

    def mapInArrow(self, function, schema):  # noqa: N802 - it is Spark's
        return Frame([list(function(iter(partition))) for partition in self.partitions])

    def collect(self):
        rows = [row for partition in self.partitions for batch in partition for row in batch.to_pylist()]
        return [SimpleNamespace(**row) for row in rows]


def test_the_recipe_for_spark_of_the_page_on_clusters_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"x": np.random.default_rng(0).normal(size=1000)})
    nysketch.save(nysketch.Basis.fit(table, landmarks=20), "basis.nysk")
    text = (ROOT / "docs" / "guides" / "clusters.md").read_text()
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
