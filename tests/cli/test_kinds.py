"""Kinds of columns and missing values on the command line, in Python and in job files."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import SchemaError, UsageError
from nysketch.files.format import load_basis
from nysketch.jobs.config import differences, load_job

ROWS = 400
CITIES = np.array(["Oslo", "Bonn", "Rome"])


def table(rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    known = random.random(rows) > 0.1
    hours = random.integers(0, 30 * 24, rows).astype("timedelta64[h]")
    return pa.table(
        {
            "x": random.normal(size=rows),
            "price": np.exp(2 * random.normal(size=rows)),
            "gap": pa.array(np.where(known, random.normal(size=rows), np.nan), from_pandas=True),
            "city": CITIES[random.integers(0, 3, rows)],
            "ts": np.datetime64("2024-03-01T00", "s") + hours,
        }
    )


KINDS = ("--kind", "price=log", "--kind", "city=category", "--kind", "ts=hour,weekday")


@pytest.fixture
def mixed(tmp_path):
    path = tmp_path / "mixed.parquet"
    pq.write_table(table(), path)
    return path


def kinds_of(basis):
    return {column.name: None if column.kind is None else column.kind.describe() for column in basis.columns}


def test_kinds_are_those_asked_for(run_cli, tmp_path, mixed):
    out = tmp_path / "s.nysk"
    done = run_cli("sketch", mixed, "-o", out, "-m", 50, *KINDS, "--nulls", "keep")
    assert done.returncode == 0, done.stderr
    sketch = nysketch.load(out)
    assert sketch.rows == ROWS
    found = kinds_of(sketch.basis)
    assert found["x"] is None
    assert found["price"]["transform"] == "log"
    assert found["gap"]["missing"]
    assert found["city"] == {"kind": "category", "values": 3}
    assert found["ts"]["parts"] == ["hour", "weekday"]


def test_the_command_line_and_python_ask_for_the_same(run_cli, tmp_path, mixed):
    out = tmp_path / "b.nysk"
    assert run_cli("basis", mixed, "-o", out, "-m", 50, *KINDS, "--nulls", "keep").returncode == 0
    made = load_basis(out)
    mapping = {"price": "log", "city": "category", "ts": "hour,weekday"}
    listed = [f"{column}={kind}" for column, kind in mapping.items()]
    for kinds in (mapping, listed, {"ts": ["hour", "weekday"]} | {k: mapping[k] for k in ("price", "city")}):
        again = nysketch.Basis.fit(mixed, kinds=kinds, nulls="keep", landmarks=50)
        assert again.digest == made.digest


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (["price=logarithm"], ["'price'", "log", "'logarithm'"]),
        (["=log"], ["'=log'", "price=log"]),
        (["price"], ["'price'"]),
        (["price=log", "price=rank"], ["'price'", "twice"]),
        (["ts=hour,hour"], ["'ts'", "hour"]),
        (["cty=category"], ["'cty'", "'city'"]),
        (["x=time"], ["'x'", "times or dates", "double"]),
        (["city=log"], ["'city'", "string", "numbers"]),
        (["ts=category"], ["'ts'", "timestamp", "text, numbers or truth values"]),
    ],
)
def test_wrong_kinds_are_named_with_what_is_allowed(run_cli, tmp_path, mixed, kinds, words):
    flags = [part for kind in kinds for part in ("--kind", kind)]
    done = run_cli("sketch", mixed, "-o", tmp_path / "s.nysk", *flags)
    assert done.returncode in (2, 3, 4), done.stderr
    for word in words:
        assert word in done.stderr
    with pytest.raises((UsageError, SchemaError)):
        nysketch.sketch(mixed, kinds=kinds)


def test_a_basis_that_is_given_has_its_kinds(run_cli, tmp_path, mixed):
    basis, out = tmp_path / "b.nysk", tmp_path / "s.nysk"
    assert run_cli("basis", mixed, "-o", basis, "-m", 20, *KINDS, "--nulls", "keep").returncode == 0
    refused = run_cli("sketch", mixed, "-o", out, "--basis", basis, "--kind", "price=log")
    assert refused.returncode == 2
    assert "--kind: has no effect with --basis" in refused.stderr
    with pytest.raises(UsageError, match="`kinds`"):
        nysketch.sketch(mixed, basis=basis, kinds={"price": "log"})
    done = run_cli("sketch", mixed, "-o", out, "--basis", basis, "--nulls", "keep")
    assert done.returncode == 0, done.stderr
    assert nysketch.load(out).basis.digest == load_basis(basis).digest


def test_independence_takes_kinds(run_cli, mixed):
    groups = ("--group", "a=x,price", "--group", "b=city", "--nulls", "keep")
    done = run_cli("independence", mixed, *groups, "--kind", "city=category", "-m", 20, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == ROWS
    refused = run_cli("independence", mixed, *groups, "--kind", "ts=hour")
    assert refused.returncode == 2
    assert "'ts', which is not among" in refused.stderr


JOB = """
[job]
store = "store"
[inputs]
paths = "day-{date}.parquet"
nulls = "keep"
[basis]
landmarks = 20
kinds = { price = "log", city = "category", ts = ["hour", "weekday"] }
"""


def test_jobs_take_kinds(run_cli, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    for day in (1, 2):
        pq.write_table(table(seed=day), tmp_path / f"day-2024-03-0{day}.parquet")
    done = run_cli("run", job)
    assert done.returncode == 0, done.stderr
    basis = load_basis(tmp_path / "store" / "basis.nysk")
    assert kinds_of(basis)["ts"]["parts"] == ["hour", "weekday"]
    assert kinds_of(basis)["gap"]["missing"]
    shown = run_cli("run", job, "--show-config")
    assert 'price = "log"' in shown.stdout
    job.write_text(JOB.replace('"log"', '"rank"'))
    refused = run_cli("run", job)
    assert refused.returncode == 2
    assert "[basis] kinds was" in refused.stderr


def test_stores_made_before_have_no_kinds(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    now = load_job(tmp_path / "job.toml").fixed()
    before = now | {"basis": {key: value for key, value in now["basis"].items() if key != "kinds"}}
    (found,) = differences(before, now)
    assert found.startswith("[basis] kinds was not set, now")
    assert not differences(before, before | {"basis": now["basis"] | {"kinds": None}})


@pytest.mark.parametrize("kinds", ['"log"', "{}", "{ price = 3 }", '{ price = "logs" }'])
def test_wrong_kinds_of_a_job_are_refused(tmp_path, kinds):
    (tmp_path / "job.toml").write_text(JOB[: JOB.index("kinds")] + f"kinds = {kinds}\n")
    with pytest.raises(UsageError, match="kinds"):
        load_job(tmp_path / "job.toml").basis_options()
