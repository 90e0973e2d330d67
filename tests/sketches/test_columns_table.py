"""The table of columns: kinds, reasons and shares, in words."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.basis.layout import Layout
from nysketch.files.validate import check_basis
from nysketch.passes.pilot import read_pilot
from nysketch.sketches.columns_table import ColumnFacts, columns_table, lines_of, percent
from nysketch.sketches.describe import describe
from nysketch.sources.open import open_source
from nysketch.sources.options import ReadOptions

ROWS = 3000


def table(seed=0):
    random = np.random.default_rng(seed)
    gap = np.where(random.random(ROWS) < 0.1, np.nan, random.normal(size=ROWS))
    return pa.table(
        {
            "x": random.normal(size=ROWS),
            "price": np.exp(3 * random.normal(size=ROWS)),
            "gap": pa.array(gap, from_pandas=True),
            "city": np.array(["Oslo", "Bonn", "Rome"])[random.integers(0, 3, ROWS)],
            "word": [f"w{i}" for i in (random.pareto(0.5, ROWS)).astype(int)],
            "ts": np.datetime64("2024-03-01T00", "s")
            + random.integers(0, 720, ROWS).astype("timedelta64[h]"),
            "name": ["n" + str(i) for i in range(ROWS)],
        }
    )


KINDS = {"city": "category", "word": "category", "ts": "time"}


@pytest.fixture(scope="module")
def basis():
    with pytest.warns(nysketch.NysketchWarning):
        return nysketch.Basis.fit(table(), kinds=KINDS, exclude=["name"], nulls="keep", landmarks=30)


def test_every_column_is_named_with_its_kind(basis):
    found = {one.name: one for one in columns_table(basis)}
    assert list(found) == ["x", "price", "gap", "city", "word", "ts", "name"]
    assert found["x"].kind == "number" and not found["x"].about
    assert found["price"].about.startswith("log would help: ")
    assert "of its variance" in found["price"].about
    assert found["gap"].about.endswith("% missing")
    assert (found["city"].kind, found["city"].about) == ("category", "3 values (100 % of rows)")
    assert found["word"].about.startswith("200 values (") and "100 %" not in found["word"].about
    assert (found["ts"].kind, found["ts"].about) == ("time", "hour, weekday")
    assert found["name"] == ColumnFacts("name", "left out", "excluded")


def test_shares_are_those_of_distances_between_pilot_rows(basis):
    source = open_source(table(), ReadOptions().for_basis(basis))
    rows = read_pilot(source, ROWS, nulls="keep")[:600]
    rows = np.where(np.isnan(rows), np.broadcast_to(basis.fill, rows.shape), rows)
    scaled = basis.transform(rows)
    apart = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).mean(axis=(0, 1))
    places = Layout.of(basis.columns).places
    slow = {place.column.name: apart[place.features].sum() / apart.sum() for place in places}
    shares = {one.name: one.share for one in columns_table(basis) if one.share is not None}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
    for name in ("gap", "city", "word", "ts"):
        # Of 600 rows, and of all; without price, whose tail decides what is left for others.
        assert shares[name] / (1 - shares["price"]) == pytest.approx(
            slow[name] / (1 - slow["price"]), rel=0.15
        )


def test_plain_numbers_have_no_shares_and_the_same_bytes():
    plain = nysketch.Basis.fit(table().select(["x", "price"]), landmarks=30, scale="standard")
    assert "pilot_columns" not in plain.origin
    assert [one.share for one in columns_table(plain)] == [None, None]


def test_the_command_line_shows_the_table(run_cli, tmp_path):
    path, out = tmp_path / "t.parquet", tmp_path / "s.nysk"
    pq.write_table(table(), path)
    flags = [f for c, k in KINDS.items() for f in ("--kind", f"{c}={k}")]
    done = run_cli("sketch", path, "-o", out, "-m", 30, "--nulls", "keep", "--exclude", "name", *flags)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("nysketch:   ")]
    assert [line.split()[1] for line in lines] == ["x", "price", "gap", "city", "word", "ts", "name"]
    assert "city   category" in done.stderr
    again = tmp_path / "again.nysk"
    done = run_cli("sketch", path, "-o", again, "--basis", out, "--nulls", "keep", "--json")
    found = json.loads(done.stdout)["columns"]
    assert [one["kind"] for one in found][:6] == [
        "number",
        "number",
        "number",
        "category",
        "category",
        "time",
    ]
    assert "nysketch:   city" not in done.stderr  # it was said when the basis was made
    shown = run_cli("info", out).stdout
    assert "share: of the mean squared distance" in shown and "3 values (100 % of rows)" in shown
    facts = {one["name"]: one for one in json.loads(run_cli("info", out, "--json").stdout)["columns"]}
    assert facts["ts"]["kind"] == "time" and 0 < facts["ts"]["share"] < 1


def test_a_name_cannot_write_to_the_terminal(run_cli, tmp_path):
    path = tmp_path / "t.parquet"
    odd = "a\x1b[31m\nb"
    pq.write_table(pa.table({"x": np.arange(99.0) ** 2, odd: ["u", "v", "w"] * 33}), path)
    done = run_cli("basis", path, "-o", tmp_path / "b.nysk", "-m", 5, "--kind", f"{odd}=category")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr and "\\x1b" in done.stderr


def test_long_tables_are_cut():
    many = [ColumnFacts(f"c{i}", "number", "", 0.001) for i in range(100)]
    lines = lines_of(many)
    assert len(lines) == 31 and lines[-1] == "and 70 more"
    assert lines_of([]) == []
    assert len(lines_of([ColumnFacts("n" * 500, "number", "")])[0]) < 60


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (0.031, "3.1 %"),
        (0.98, "98 %"),
        (0.9999, "more than 99.9 %"),
        (1e-9, "less than 0.1 %"),
        (0.0996, "10 %"),
        (0.995, "99.5 %"),
    ],
)
def test_shares_in_words(share, words):
    assert percent(share) == words


def test_forged_shares_are_refused(basis):
    facts = describe(basis)["origin"]["pilot_columns"]
    assert nysketch.from_bytes(nysketch.to_bytes(basis)).origin["pilot_columns"] == facts
    for wrong in ({"share": "much"}, {"share": 2.0}, {"share": True}, {"other": 0.5}, [1]):
        forged = replace(basis, origin=basis.origin | {"pilot_columns": {"x": wrong}})
        with pytest.raises(ValueError, match="shares"):
            check_basis(forged)
