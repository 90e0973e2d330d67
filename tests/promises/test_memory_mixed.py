"""The peak memory of whole processes that read mixed tables is within `memory`."""

import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import clean_environment

pytestmark = pytest.mark.slow

PROGRAM = """
import re, sys
import nysketch
path, budget, columns = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
kinds = dict.fromkeys(columns, "category")
made = nysketch.sketch(path, kinds=kinds, nulls="keep", memory=budget, landmarks=1000, sampling="uniform")
print(made.rows, re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""


def many_values(path):
    """Ten categories of more values than vocabularies hold, and ten numbers with holes."""
    random, rows = np.random.default_rng(0), 400_000
    names = np.array([f"value {i}" for i in range(400)])
    numbers = {
        f"x{i}": np.where(random.random(rows) < 0.1, np.nan, random.normal(size=rows)) for i in range(10)
    }
    pq.write_table(
        pa.table(numbers | {f"c{i}": names[random.zipf(1.2, rows) % 400] for i in range(10)}), path
    )
    return [f"c{i}" for i in range(10)]


def long_strings(path):
    """Strings of 1 kB, no two the same, as plain text."""
    rows, filler = 100_000, "x" * 1000
    table = pa.table({"id": [f"{i}{filler}" for i in range(rows)], "x": np.arange(rows) % 97.0})
    pq.write_table(table, path, use_dictionary=False)
    return ["id"]


@pytest.mark.parametrize("make", [many_values, long_strings])
def test_the_peak_is_within_the_budget_or_the_number_that_a_refusal_names(make, tmp_path):
    path, budget = tmp_path / "rows.parquet", 600
    columns = make(path)
    for _ in range(2):
        command = [sys.executable, "-c", PROGRAM, str(path), f"{budget}MB", ",".join(columns)]
        run = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
        if run.returncode == 0:
            break
        budget = int(re.search(r"takes about ([\d,]+) MB", run.stderr).group(1).replace(",", ""))
    rows, peak = map(int, run.stdout.split())
    assert rows == pq.read_metadata(path).num_rows
    assert 1024 * peak <= 1e6 * budget, (peak, budget)
