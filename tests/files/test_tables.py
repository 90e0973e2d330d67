"""Tables as CSV: what a spreadsheet would run is text, and numbers stay numbers."""

import csv

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import NysketchWarning
from nysketch.files.tables import table_writer

FORMULAS = ["=1+1", "+49 170", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("http://x")']
CALC = "=cmd|' /C calc'!A0"
HARMLESS = ["-5", "+1.5e-3", "-.5", "5", "-", "a=b", "", " =1", "'=1", "-5.", None]


def written(tmp_path, table):
    path = tmp_path / "t.csv"
    with path.open("wb") as file, table_writer(file, "csv", table.schema, path) as write:
        write(table)
    with path.open(newline="") as file:
        return list(csv.reader(file))


KINDS = [
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_formulas_are_written_as_text(tmp_path, kind):
    table = pa.table({"x": pa.array(FORMULAS + HARMLESS).cast(kind), "n": range(-9, 10)})
    with pytest.warns(NysketchWarning, match=r"were written with ' before them, in column x \(8\)\. Parquet"):
        _, *rows = written(tmp_path, table)
    assert [row[0] for row in rows] == ["'" + text for text in FORMULAS] + [text or "" for text in HARMLESS]
    assert [row[1] for row in rows] == [str(n) for n in range(-9, 10)]


def test_names_are_no_formulas_either(tmp_path):
    table = pa.table({'=HYPERLINK("http://x")': [1.5], "-1": [-2.5], "+a": [None], "x": [True]})
    assert written(tmp_path, table) == [
        ['\'=HYPERLINK("http://x")', "-1", "'+a", "x"],
        ["1.5", "-2.5", "", "true"],
    ]


def test_what_is_no_text_is_written_as_it_was(tmp_path):
    words = pa.array(["b", "a", "b"]).dictionary_encode()
    table = pa.table({"x": words, "y": pa.array([b"ab", b"=1", None], pa.binary(2)), "z": [-1.5, 2.0, -3e-9]})
    with pytest.warns(NysketchWarning, match=r"in column y \(1\)"):
        assert written(tmp_path, table)[1:] == [["b", "ab", "-1.5"], ["a", "'=1", "2"], ["b", "", "-3e-9"]]


def test_labels_and_coresets_have_no_formulas(run_cli, shelf, tmp_path):
    table = pq.read_table(shelf / "a.parquet").append_column(
        "=id", pa.array(["=cmd|' /C calc'!A0", "ok"] * 300)
    )
    pq.write_table(table, tmp_path / "a.parquet")
    for line in ("assign {shelf}/model.json a.parquet --keep =id", "coreset a.parquet -m 20 -s 5 --keep =id"):
        for output in ("out.csv", "out.parquet"):
            arguments = line.format(shelf=shelf).split()
            made = run_cli(*arguments, "-o", output, "--if-exists", "overwrite", cwd=tmp_path)
            assert made.returncode == 0, made.stderr
            assert ("would run as formulas" in made.stderr) == (output == "out.csv")
        with (tmp_path / "out.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["'=id"] for row in rows} <= {f"'{CALC}", "ok"}
        assert set(pq.read_table(tmp_path / "out.parquet")["=id"].to_pylist()) <= {CALC, "ok"}
        assert (
            any(float(row[name]) < 0 for row in rows for name in row if name in ("x", "y"))
            or "assign" in line
        )


def test_models_read_what_they_have_written(tmp_path):
    """Only texts are changed: the numbers of a coreset are read back from CSV."""
    found = nysketch.coreset({"x": [-1.0, 2.0, -3.0], "y": [1.0, -1.0, 0.0]}, 2, landmarks=2)
    table = pa.table({"weight": found.weights, "x": found.points[:, 0]})
    rows = written(tmp_path, table)[1:]
    assert [[float(cell) for cell in row] for row in rows] == [
        list(row) for row in zip(found.weights.tolist(), found.points[:, 0].tolist(), strict=True)
    ]
