"""What commands say of columns and rows that are left out."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def planes(tmp_path):
    """A table with an id, a constant, a text, and a column that is hardly ever known."""
    random = np.random.default_rng(0)
    columns = {"id": 7 + 3 * np.arange(400), "one": np.ones(400), "maker": ["a", "b"] * 200}
    columns |= {name: random.normal(size=400) for name in ("year", "seats", "speed")}
    columns["speed"][:300] = np.nan
    pq.write_table(pa.table(columns), tmp_path / "planes.parquet")
    return tmp_path / "planes.parquet"


def test_dropped_rows_and_columns_are_named_and_nothing_reassures(run_cli, planes):
    output = planes.with_suffix(".nysk")
    made = run_cli("sketch", planes, "-m", "20", "--nulls", "drop", "-o", output)
    assert made.returncode == 0
    assert "left out: id (serial number), one (constant 1). To use them anyway" in made.stderr
    assert "--columns" in made.stderr
    assert "warning: 300 of 400 rows (75 %) were dropped" in made.stderr
    assert "Without speed, 300 of them would be kept: --exclude speed" in made.stderr
    assert "Enough landmarks" not in made.stdout
    told = run_cli("info", output).stdout
    assert "speed in 300 rows (300 alone)" in told
    assert "serial number" in told
    assert "Enough landmarks" not in told
    facts = json.loads(run_cli("info", output, "--json").stdout)
    assert facts["dropped_by_column"] == {"speed": {"alone": 300, "rows": 300}}
    assert facts["origin"]["left_out"] == {"id": "serial number", "one": "constant 1"}


def test_a_basis_of_few_rows_that_are_left_warns(run_cli, planes):
    basis = planes.with_suffix(".basis.nysk")
    made = run_cli("basis", planes, "-m", "20", "--nulls", "drop", "-o", basis)
    assert "of the pilot, 300 of 400 rows (75 %) were dropped" in made.stderr
    assert "Enough landmarks" not in made.stdout


def test_columns_that_are_named_are_taken(run_cli, planes):
    output = planes.with_suffix(".nysk")
    made = run_cli("sketch", planes, "--columns", "id,one", "-m", "5", "-o", output, "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["left_out"] == {}
    refused = run_cli(
        "sketch", planes, "--exclude", "maker,year,seats,speed", "-o", planes.with_suffix(".none.nysk")
    )
    assert refused.returncode == 3
    assert "no columns to sketch" in refused.stderr
