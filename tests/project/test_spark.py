"""The recipe for Spark, run by a local Spark where there is one: `pip install nysketch[spark]`, and Java."""

import importlib.util
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import nysketch
from tests.helpers import ROOT

SCRIPT = ROOT / "scripts" / "examples" / "spark_sketch.py"

MISSING = [name for name in ("pyspark", "pandas") if importlib.util.find_spec(name) is None]
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    MISSING.append("Java")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")


def run(folder, *arguments):
    # Spark's own python3 may be another one, without nysketch.
    environment = os.environ | dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder / "spark")}
    command = [sys.executable, SCRIPT, *map(str, arguments), "--master", "local[2]"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of uneven size; no row of the last one is taken."""
    folder = tmp_path_factory.mktemp("spark")
    random = np.random.default_rng(0)
    for day, rows in enumerate((3000, 500, 1200, 80)):
        values = random.normal(size=(rows, 3))
        values[:, 1] += day
        values[random.random(rows) < 0.02, 2] = np.nan
        columns = {name: values[:, i] for i, name in enumerate("xyz")}
        table = pa.table(columns | {"w": random.uniform(0.5, 2, rows), "day": np.full(rows, day)})
        pq.write_table(table, folder / f"{day}.parquet", row_group_size=400)
    nysketch.save(
        nysketch.Basis.fit(folder / "0.parquet", landmarks=50, columns=["x", "y", "z"], nulls="drop"),
        folder / "basis.nysk",
    )
    return folder


def test_partitions_add_up_to_the_sketch_of_the_same_rows(folder):
    taken = ["--where", "day < 3", "--drop-nulls", "--weights", "w", "--partitions", "5"]
    files = [f"{day}.parquet" for day in range(4)]
    printed = run(folder, *files, "--basis", "basis.nysk", "-o", "s.nysk", *taken)
    table = pa.concat_tables(pq.read_table(folder / name) for name in files)
    table = table.filter((pc.field("day") < 3) & ~pc.is_nan(pc.field("z")))
    here = nysketch.sketch(table, basis=folder / "basis.nysk", weights="w")
    there = nysketch.load(folder / "s.nysk")
    assert there.rows == here.rows == len(table)
    assert f"{here.rows:,} rows from 5 partitions" in printed
    assert np.allclose(there.kernel_sums, here.kernel_sums, rtol=1e-12, atol=0)
    assert there.total_weight == pytest.approx(here.total_weight, rel=1e-12)
    assert np.array_equal(there.cells.rows, here.cells.rows)
    assert there.basis == here.basis
    assert all(np.array_equal(*pair) for pair in zip(there.column_ranges, here.column_ranges, strict=True))


def test_empty_partitions_add_nothing_and_a_basis_can_be_made_from_a_sample(folder):
    taken = pq.read_table(folder / "1.parquet").filter(pc.field("w") > 1.98)
    assert 3 < len(taken) < 15
    how = ["--where", "w > 1.98", "--columns", "x,y", "-m", "3", "--partitions", "20"]
    run(folder, "1.parquet", "-o", "t.nysk", *how)
    there = nysketch.load(folder / "t.nysk")
    here = nysketch.sketch(taken, basis=there)
    assert (there.rows, there.basis.m) == (here.rows, 3) == (len(taken), 3)
    assert np.allclose(there.kernel_sums, here.kernel_sums, rtol=1e-12, atol=0)
