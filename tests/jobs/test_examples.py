"""The example jobs run, on data of our own and on the real ones; the page for operators is complete."""

import json
import re
import runpy
import shutil
import tomllib
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch.jobs.schema import LISTS, TABLES
from nysketch.jobs.store import Store
from tests.helpers import ROOT
from tests.jobs.jobs import assert_windows_are_sums

DATA = ROOT.parent / "shared" / "data" / "nyc_taxi_360k.parquet"


def write(path, names, seed, rows=800, shift=0.0):
    path.parent.mkdir(exist_ok=True)
    values = np.random.default_rng(seed).standard_normal((rows, len(names))) + shift
    pq.write_table(pa.table(dict(zip(names, values.T, strict=True))), path)


def run_example(run_cli, folder, name, *flags):
    job = shutil.copy(ROOT / "configs" / name, folder)
    result = run_cli("run", job, "--json", "--set", "job.threads=1", *flags)
    return result.returncode, json.loads(result.stdout)


@pytest.mark.slow
def test_the_daily_job_runs(tmp_path, run_cli):
    fast = ["--set", "inputs.settle=0", "--set", "basis.landmarks=50"]
    for number in range(9):
        name = date(2024, 1, 1) + timedelta(number)
        write(tmp_path / "logs" / f"{name}.parquet", "abc", number)
    assert run_example(run_cli, tmp_path, "nightly.toml", *fast)[0] == 0
    write(tmp_path / "logs" / "2024-01-10.parquet", "abc", 10, shift=2)
    code, summary = run_example(run_cli, tmp_path, "nightly.toml", *fast)
    assert code == 7 and {alarm["name"] for alarm in summary["alarms"]} == {"previous", "weekday"}
    store = Store.open(tmp_path / "store")
    assert store.windows()["last-7"].partitions[0] == "2024-01-04"
    assert_windows_are_sums(store)
    assert (tmp_path / "model.json").exists()


def test_young_files_wait_in_the_daily_job(tmp_path, run_cli):
    write(tmp_path / "logs" / "2024-01-01.parquet", "abc", 1)
    code, summary = run_example(run_cli, tmp_path, "nightly.toml")
    assert (code, summary["new"], summary["waiting"]) == (0, [], ["logs/2024-01-01.parquet"])


@pytest.mark.slow
def test_the_monthly_job_runs(tmp_path, run_cli):
    columns = tomllib.loads((ROOT / "configs" / "taxi.toml").read_text())["inputs"]["columns"]
    for number, month in enumerate(["2019-01", "2019-12", "2020-01"]):
        write(tmp_path / "trips" / f"{month}.parquet", columns, number)
    code, summary = run_example(run_cli, tmp_path, "taxi.toml", "--set", "basis.landmarks=50")
    assert code == 0 and len(summary["new"]) == 3
    found = Store.open(tmp_path / "taxi-store").drift()["2020-01"]
    assert [(each["name"], each["other"]) for each in found] == [("previous", "2019-12"), ("year", "2019-01")]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the taxi data are not there")
def test_the_spring_of_2020_is_an_alarm(tmp_path, run_cli):
    """Four months of the real data; all 36 are scripts/examples/taxi_nightly.py's."""
    script = runpy.run_path(str(ROOT / "scripts" / "examples" / "taxi_nightly.py"))
    (tmp_path / "trips").mkdir()
    for month, trips in script["months_of"](DATA):
        if month in ("2019-11", "2019-12", "2020-03", "2020-04"):
            pq.write_table(trips, tmp_path / "trips" / f"{month}.parquet")
    code, summary = run_example(run_cli, tmp_path, "taxi.toml")
    assert code == 7 and {alarm["partition"] for alarm in summary["alarms"]} == {"2020-04"}
    assert script["farthest_from_fresh"](Store(tmp_path / "taxi-store")) <= 1e-12


def test_the_page_on_settings_names_every_setting():
    text = (ROOT / "docs" / "reference" / "settings.md").read_text()
    for tables in (TABLES, LISTS):
        for table, keys in tables.items():
            assert f"[{table}]" in text or f"[{table} " in text or re.search(rf"\[{table}\] ", text), table
            assert all(f"`{key}`" in text or f"{key}`" in text for key in keys), table


def test_the_page_for_operators_names_every_exit_code():
    text = (ROOT / "docs" / "guides" / "jobs.md").read_text()
    table = text[text.index("| code |") : text.index("If several things")]
    found = {int(n) for cell in re.findall(r"^\| ([\d, ]+) \|", table, re.MULTILINE) for n in cell.split(",")}
    assert found == {0, 1, 2, 3, 4, 5, 6, 7, 75, 130, 143}
