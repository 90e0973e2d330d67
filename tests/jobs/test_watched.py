"""What a job does not watch: columns, files without a date, dropped rows; nothing without a word."""

import json
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import NysketchWarning
from nysketch.jobs.status import status
from nysketch.passes import pilot
from tests.jobs.jobs import Nightly, day


class Shop(Nightly):
    """Nights of a table with an id, a text, a time and a constant."""

    def write(self, number, *, rows=200, version=1, unknown=0.0, **options):
        random = np.random.default_rng(number)
        price = random.normal(size=rows)
        price[: int(unknown * rows)] = np.nan
        table = pa.table(
            {
                "id": 1000 * number + np.arange(rows),
                "x": random.normal(size=rows),
                "price": price,
                "version": np.full(rows, version),
                "kind": ["a", "b"] * (rows // 2),
                "ts": pa.array(np.arange(rows), pa.timestamp("s")),
            }
        )
        pq.write_table(table, self.input(number))


SHORT = "time of no full day, week or year"
WHY = {"id": "serial number", "version": "constant 1", "ts": SHORT}
TOLD = f"not watched: id (serial number), version (constant 1), ts ({SHORT})"


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path).with_days(1, 2, 3)


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


def test_a_first_run_says_which_columns_are_not_watched(shop, caplog):
    with caplog.at_level(logging.INFO, "nysketch"):
        summary = shop.run("report.output=report.html")
    assert summary.not_watched == WHY
    assert TOLD in messages(caplog)
    assert summary.exit_code == 0
    assert [column.name for column in shop.store.basis().columns] == ["x", "price", "kind"]
    assert status(shop.store)["not_watched"] == WHY
    page = (shop.folder / "report.html").read_text()
    assert "column id: serial number" in page
    assert "column ts: time" in page
    caplog.clear()
    shop.write(4)
    with caplog.at_level(logging.INFO, "nysketch"):
        assert shop.run().not_watched == {}
    assert TOLD not in messages(caplog)


def test_serial_numbers_raise_no_alarm(shop):
    assert shop.run().alarms == []
    assert shop.run('inputs.columns=["id","x"]', "job.store=other").alarms


def test_columns_that_the_job_excludes_are_its_own_business(shop):
    shop.run('inputs.exclude=["ts","kind","id"]')
    assert status(shop.store)["not_watched"] == {"version": "constant 1"}


def test_python_callers_get_warnings(shop):
    with pytest.warns(NysketchWarning, match="not watched: id"):
        nysketch.run(shop.job)


def test_files_without_a_date_are_named_once(shop, caplog):
    stray = shop.folder / "data" / "2024-10-27T02+0100.parquet"
    stray.write_bytes(shop.input(1).read_bytes())
    with caplog.at_level(logging.INFO, "nysketch"):
        summary = shop.run("report.output=report.html")
    name = "data/2024-10-27T02+0100.parquet"
    assert summary.ignored == [name]
    assert f"not read, since no date in [inputs] paths matches: {name}" in messages(caplog)
    assert status(shop.store)["ignored"] == [name]
    assert f"file {name}" in (shop.folder / "report.html").read_text()
    assert summary.new == [day(1), day(2), day(3)]
    caplog.clear()
    with caplog.at_level(logging.INFO, "nysketch"):
        again = shop.run("report.output=report.html")
    assert again.ignored == [name]
    assert again.idle
    assert not [text for text in messages(caplog) if name in text]
    assert shop.run('inputs.ignore=["*T02*"]').ignored == []


def test_a_constant_that_changes_is_reported_with_its_partition(shop, caplog):
    shop.run()
    shop.write(4, version=2)
    with caplog.at_level(logging.WARNING, "nysketch"):
        summary = shop.run("report.output=report.html")
    (note,) = summary.notes[day(4)]
    assert "'version' was constant (1)" in note
    assert "the value 2" in note
    assert f"{day(4)}: {note}" in messages(caplog)
    assert status(shop.store)["notes"] == {day(4): [note]}
    assert "was constant (1)" in (shop.folder / "report.html").read_text()


def test_a_night_of_dropped_rows_names_the_column(shop, caplog):
    nulls = "inputs.nulls=drop"
    shop.run(nulls)
    shop.write(4, unknown=0.7)
    with caplog.at_level(logging.WARNING, "nysketch"):
        summary = shop.run(nulls)
    (note,) = summary.notes[day(4)]
    assert "140 of 200 rows (70 %)" in note
    assert "price in 140" in note
    assert f"{day(4)}: {note}" in messages(caplog)
    quality = json.loads((shop.store.path / "partitions" / f"{day(4)}.json").read_text())["quality"]
    assert not [line for line in quality["advice"] if line.startswith("Enough landmarks")]


def test_a_store_keeps_the_columns_it_has(shop, monkeypatch):
    """As versions made it that left out no numbers, and had no kinds: the next run sketches nothing again."""
    with monkeypatch.context() as before:
        before.setattr(pilot, "_no_features", lambda source, drawn: ({"kind": "text", "ts": "time"}, {}))
        shop.run()
    contents = shop.contents()
    assert shop.run().idle
    assert shop.contents() == contents
    shop.write(4)
    assert shop.run().new == [day(4)]
    names = [column.name for column in shop.store.sketch(day(4)).basis.columns]
    assert names == ["id", "x", "price", "version"]
