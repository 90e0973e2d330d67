"""Memory does not grow with the rows: peak RSS of the real command on a large and a small file."""

import json
import os
import re
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


def watched(*arguments, **environment):
    """Run a command, and return its process and its peak RSS in bytes."""
    command = [sys.executable, "-c", WATCHED, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    return run, int(run.stderr.splitlines()[-1]) * 1024


def peak_memory(path, *options, command="sketch", output=".nysk"):
    """Return the peak RSS in bytes, and the summary, of sketching a file with two threads."""
    run, peak = watched(
        command, str(path), "-o", f"{path}{output}", "--threads", "2", "-q", "--json", *options
    )
    assert run.returncode == 0, run.stderr
    return peak, json.loads(run.stdout)


@pytest.mark.slow
def test_two_gigabytes_take_no_more_memory_than_two_hundred_megabytes(tmp_path):
    peaks = {}
    for size in (200 * 10**6, 2 * 10**9):
        path = tmp_path / f"{size}.parquet"
        write_file(path, size)
        # Few landmarks: how many there are has nothing to do with rows, and made a third of the seconds.
        peaks[size], summary = peak_memory(path, "-m", "50")
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
    assert 0.5 * planned["memory_bytes"] < peak < planned["memory_bytes"] <= planned["memory_limit_bytes"]
    assert abs(summary["bytes"] / planned["sketch_bytes"] - 1) < 0.5
    assert planned["rows"] == summary["rows"]


# What was compiled in another process is loaded, which takes less than compiling it.
@pytest.mark.slow
def test_the_plan_holds_where_everything_is_compiled_anew(tmp_path):
    path = tmp_path / "rows.parquet"
    write_file(path, 30 * 10**6)
    options = ["-o", str(tmp_path / "s.nysk"), "-m", "50", "--threads", "1"]
    planned, _ = watched("sketch", str(path), *options, "--dry-run", "--json")
    run, peak = watched("sketch", str(path), *options, "-q", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert run.returncode == 0, run.stderr
    assert peak < json.loads(planned.stdout)["memory_bytes"]


def wide(path, columns, rows):
    """Write columns of which each has a dictionary and a page of its own size, by default."""
    random = np.random.default_rng(0)
    pq.write_table(pa.table({f"x{i}": random.normal(size=rows) for i in range(columns)}), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "options", "output"),
    [
        ("sketch", ["-m", "50"], "s.nysk"),
        ("coreset", ["-m", "50", "-s", "10"], "c.csv"),
    ],
)
def test_wide_files_stay_within_the_memory_allowed(tmp_path, command, options, output):
    path = tmp_path / "wide.parquet"
    wide(path, 150, 70_000)  # 300 MB of pages, if all were held at a time
    allowed = 450 * 10**6
    run, peak = watched(command, str(path), "-o", str(tmp_path / output), *options, "--memory", str(allowed))
    assert run.returncode == 0, run.stderr
    assert "blocks of rows" in run.stderr
    assert peak < allowed


@pytest.mark.slow
def test_what_does_not_fit_is_refused_with_a_number_that_does(tmp_path):
    path = tmp_path / "bomb.parquet"
    rows = 4_000_000
    column = np.zeros(rows, "f4")
    column[::7] = 1
    table = pa.table({f"x{i}": column for i in range(2)})
    pages = {"data_page_size": 1 << 30, "write_batch_size": 1 << 26, "max_rows_per_page": 1 << 26}
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False, compression="zstd", **pages)
    assert path.stat().st_size < 10**6
    arguments = ["sketch", str(path), "-o", str(tmp_path / "s.nysk"), "-m", "20", "--spans", "0", "--memory"]
    refused, peak = watched(*arguments, "370MB")
    assert refused.returncode == 2 and peak < 200 * 10**6
    assert f"for each thread that reads {path}, row group 0 (its largest page has 17 MB)" in refused.stderr
    needed = int(re.search(r"takes about (\d+) MB", refused.stderr).group(1)) + 1
    run, peak = watched(*arguments, f"{needed}MB", "-q")
    assert run.returncode == 0, run.stderr
    assert peak < needed * 10**6 < 500 * 10**6
