"""Find the spring of 2020 in taxi trips: one sketch per month, each compared with the month before.

    python scripts/examples/taxi_drift.py --data DIR

DIR holds nyc_taxi_360k.parquet: 10,000 yellow-cab trips of each month from 2018 to 2020, with the month in
the column `file_month`. Everything is done by the commands that a nightly job would run: a basis from the
trips of 2018, one `nysketch sketch` per month, then one `nysketch compare --chain`. The months are ranked by
their MMD: that some differ by more than chance is no news; how much they do is. Takes a minute.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

# Not the hour and the day of the week, which follow the calendar; and without the surcharge of 2019.
COLUMNS = "duration_s,passenger_count,trip_distance,fare_amount,tip_amount,tolls_amount"


def nysketch(*arguments: str | Path, code: int = 0) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "nysketch", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}")
    return done.stdout


def split_by_month(table: Path, folder: Path) -> list[Path]:
    """Write one Parquet file per month, as they would arrive."""
    trips = pq.read_table(table)
    months = sorted(set(trips["file_month"].to_pylist()))
    files = [folder / f"{month}.parquet" for month in months]
    for month, file in zip(months, files, strict=True):
        pq.write_table(trips.filter(pc.equal(trips["file_month"], month)), file)
    return files


def drift(table: Path, folder: Path, landmarks: int) -> list[dict]:
    """Sketch every month, compare each with its predecessor, and return what `compare` found."""
    files = split_by_month(table, folder)
    basis = folder / "basis.nysk"
    first_year = [file for file in files if file.name.startswith("2018")]
    how = ["--columns", COLUMNS, "--scale", "robust", "--nulls", "drop", "-m", str(landmarks)]
    nysketch("basis", *first_year, *how, "-o", basis, "-q")
    for file in files:
        nysketch("sketch", file, "--basis", basis, "--nulls", "drop", "-o", file.with_suffix(".nysk"), "-q")
    sketches = [file.with_suffix(".nysk") for file in files]
    found = nysketch("compare", *sketches, "--chain", "--explain", "--json")
    return json.loads(found)["comparisons"]


def main() -> None:
    """Print the months by how much they differ from the month before."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--data", type=Path, required=True, help="folder with nyc_taxi_360k.parquet")
    parser.add_argument("-m", "--landmarks", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = drift(options.data / "nyc_taxi_360k.parquet", Path(folder), options.landmarks)
    for comparison in sorted(found, key=lambda c: -c["mmd"]):
        month = Path(comparison["second"]).stem
        error = comparison["standard_error"]
        moved = ", ".join(
            f"{shift['feature']} {shift['shift']:+.2f}" for shift in comparison["explanation"]["shifts"][:3]
        )
        verdict = "different" if comparison["rejected"] else ""
        print(f"{month[:4]}-{month[4:]}  {comparison['mmd']:.4f} ± {error:.4f}  {verdict:9}  {moved}")


if __name__ == "__main__":
    main()
