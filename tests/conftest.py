import os
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings

import nysketch
from tests import BLAS
from tests.disturbances import PATIENCE
from tests.forks import Forks

# The first call of a compiled function takes seconds; how long tests take is nobody's promise. The same
# examples every time: a failure must be there again tomorrow.
settings.register_profile("nysketch", deadline=None, derandomize=True)
settings.load_profile("nysketch")

# A shell starts background jobs with Ctrl-C ignored, and their children inherit that: tests that interrupt a
# command must see what a terminal would. (What is caught here is at its default in a new program.)
signal.signal(signal.SIGINT, signal.default_int_handler)


def small_table(rows=600, seed=0):
    """Two features around a centre that depends on the seed, and positive weights."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "x": random.normal(seed, 1, rows),
            "y": random.normal(0, 2, rows),
            "w": random.uniform(0.5, 2, rows),
        }
    )


@pytest.fixture(scope="session")
def make_parquet():
    """Write a small Parquet file: `make_parquet(path, rows=600, seed=0, row_group_size=200)`."""

    def make(path, rows=600, seed=0, row_group_size=200):
        pq.write_table(small_table(rows, seed), path, row_group_size=row_group_size)
        return path

    return make


@pytest.fixture
def parquet(tmp_path, make_parquet):
    """A small Parquet file."""
    return make_parquet(tmp_path / "a.parquet")


def clean_environment(**changes):
    """Return the environment of a user who has set nothing."""
    kept = {name: value for name, value in os.environ.items() if name not in BLAS}
    kept = {name: value for name, value in kept.items() if not name.startswith("NYSKETCH_")}
    return kept | changes


@pytest.fixture(scope="session")
def cli_command():
    """The command line as a list, and the environment to run it in."""
    return [sys.executable, "-m", "nysketch"], clean_environment()


@pytest.fixture(scope="session")
def run_process(cli_command):
    """Run the command in a new interpreter: `run_process("info", path)` → returncode, stdout, stderr."""
    command, environment = cli_command

    def run(*args, env=None, text=True, **options):
        return subprocess.run(
            [*command, *map(str, args)],
            capture_output=True,
            text=text,
            env=environment | (env or {}),
            timeout=PATIENCE,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def run_cli(cli_command, run_process):
    """Run the command in a process that is forked, where that is the same as a new interpreter."""
    forks = Forks(cli_command[1])

    def run(*args, env=None, **options):
        env = env or {}
        # What an interpreter reads when it starts, and what starts interpreters itself.
        new = any(not name.startswith(("NYSKETCH_", "AWS_")) for name in env) or "--workers" in args
        if new or options.keys() - {"cwd", "input", "text", "prepare"}:
            return run_process(*args, env=env, **options)
        return forks.run(list(map(str, args)), env=env, timeout=PATIENCE, **options)

    yield run
    forks.stop()


@pytest.fixture
def start_cli(cli_command):
    """Start the command, after a program of disturbances.py; whatever is left of it is killed at the end."""
    started = []

    def start(*args, prepare="", cwd=None):
        program = f"{prepare}\nfrom nysketch.__main__ import main\nmain()"
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, args)],
            cwd=cwd,
            env=cli_command[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory, make_parquet):
    """Two Parquet files, sketches of them, a model, a job and its store; for reading only, write elsewhere.

    a, b and ab (both) share a basis of 20 landmarks; `blocks` differs in blocks, `alien` in its basis.
    """
    folder = tmp_path_factory.mktemp("shelf")
    paths = [make_parquet(folder / name, seed=seed) for seed, name in enumerate(["a.parquet", "b.parquet"])]
    a, b = map(os.fspath, paths)
    basis = nysketch.Basis.fit(a, columns=["x", "y"], landmarks=20)
    things = {
        "basis": basis,
        "a": nysketch.sketch(a, basis=basis),
        "b": nysketch.sketch(b, basis=basis),
        "blocks": nysketch.sketch(a, basis=basis, blocks=4),
        "alien": nysketch.sketch(b, columns=["x", "y"], landmarks=10),
        "weighted": nysketch.sketch(a, basis=basis, weights="w"),
    }
    for name, thing in (things | {"ab": things["a"] + things["b"]}).items():
        nysketch.save(thing, folder / f"{name}.nysk")
    nysketch.save_model(nysketch.learn_kmeans(things["a"], 3), folder / "model.json")
    settings = (
        '[job]\nstore = "store"\n[inputs]\npaths = ["a.parquet", "b.parquet"]\n[basis]\nlandmarks = 5\n'
    )
    (folder / "job.toml").write_text(settings)
    return folder
