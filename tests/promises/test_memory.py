"""Memory does not grow with the rows: peak RSS of the real command on a large and a small file."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

D = 16
GROUP = 200_000
BUDGET = 512 * 2**20


def write_file(path, size):
    """Write incompressible float64 columns, the same row group again and again, until it has `size` bytes."""
    columns = np.random.default_rng(0).standard_normal((D, GROUP))
    table = pa.table({f"x{i}": column for i, column in enumerate(columns)})
    with pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(-(-size // table.nbytes)):
            writer.write_table(table)
    assert path.stat().st_size >= size


# The kernel's own high-water mark of the process; getrusage would include that of the parent before exec.
WATCHED = """
import atexit, re, sys
from pathlib import Path
from nysketch.cli import main
peak = lambda: re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)
atexit.register(lambda: print(peak(), file=sys.stderr))
main()
"""


def peak_memory(path, *options, command="sketch", output=".nysk"):
    """Return the peak RSS in bytes, and the summary, of sketching a file with two threads."""
    command = [sys.executable, "-c", WATCHED, command, str(path), "-o", f"{path}{output}", "--threads", "2"]
    run = subprocess.run([*command, "-q", "--json", *options], capture_output=True, check=True)
    return int(run.stderr) * 1024, json.loads(run.stdout)


@pytest.mark.slow
def test_two_gigabytes_take_no_more_memory_than_two_hundred_megabytes(tmp_path):
    peaks = {}
    for size in (200 * 10**6, 2 * 10**9):
        path = tmp_path / f"{size}.parquet"
        write_file(path, size)
        peaks[size], summary = peak_memory(path)
        assert summary["rows"] * D * 8 >= 0.99 * size
        path.unlink()
    small, large = peaks.values()
    assert large < 1.15 * small
    assert large < BUDGET


@pytest.mark.slow
def test_the_memory_of_a_coreset_does_not_grow_with_the_rows(tmp_path):
    peaks = []
    for size in (60 * 10**6, 600 * 10**6):
        path = tmp_path / f"{size}.parquet"
        write_file(path, size)
        peak, summary = peak_memory(path, "-s", "30", "-m", "100", command="coreset", output=".csv")
        assert summary["of_rows"] * D * 8 >= 0.99 * size and summary["rows"] == 31
        peaks.append(peak)
        path.unlink()
    assert peaks[1] < 1.15 * peaks[0]
    assert peaks[1] < BUDGET


@pytest.mark.slow
def test_the_plan_of_a_dry_run_bounds_the_real_peak(tmp_path):
    path = tmp_path / "rows.parquet"
    write_file(path, 60 * 10**6)
    command = [sys.executable, "-m", "nysketch", "sketch", str(path), "-o", str(tmp_path / "s.nysk")]
    planned = json.loads(
        subprocess.run(
            [*command, "--threads", "2", "--dry-run", "--json"], check=True, capture_output=True
        ).stdout
    )
    peak, summary = peak_memory(path)
    assert 0.5 * planned["memory_bytes"] < peak < planned["memory_bytes"]
    assert abs(summary["bytes"] / planned["sketch_bytes"] - 1) < 0.5
    assert planned["rows"] == summary["rows"]
