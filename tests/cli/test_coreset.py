"""`nysketch coreset`, as a real process: files, what it prints, what it refuses, and with which exit code."""

import json
import signal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import nysketch
from tests.cli.test_learn import refusal
from tests.disturbances import PATIENCE, endless, wait_for

COLUMNS = ["--columns", "x,y"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Parquet files a and b with x, y, id and name; `holed` has nulls; sketches of a and b, and a basis."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(0)

    def write(name, n, holes=0):
        x, y = random.normal(size=(2, n))
        x[:holes] = np.nan
        columns = {"x": pa.array(x, from_pandas=True), "y": y, "id": np.arange(n, dtype=np.int64) + 2**60}
        table = pa.table(columns | {"name": [f"{name}{i}" for i in range(n)]})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=400)

    write("a", 3000)
    write("b", 2000)
    write("holed", 500, holes=7)
    (folder / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    basis = nysketch.Basis.fit(folder / "a.parquet", columns=["x", "y"], landmarks=60)
    nysketch.save(basis, folder / "basis.nysk")
    for name in "ab":
        made = nysketch.sketch(folder / f"{name}.parquet", basis=basis, threads=1, second_moments=name == "a")
        nysketch.save(made, folder / f"{name}.nysk")
    return folder


def json_of(result, code=0):
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


def test_rows_weights_and_what_is_said_of_them(tables, tmp_path, run_cli):
    out = tmp_path / "c.parquet"
    inputs = [tables / "a.parquet", tables / "b.parquet"]
    facts = json_of(
        run_cli("coreset", *inputs, *COLUMNS, "-m", 60, "-s", 20, "--keep", "id,name", "-o", out, "--json")
    )
    made = pq.read_table(out)
    assert made.column_names == ["row", "weight", "x", "y", "id", "name"]
    assert made["id"].type == pa.int64() and len(made) == facts["rows"] == 21
    assert facts["of_rows"] == 5000 and facts["functions"] == 20 and facts["method"] == "mercer"
    assert facts["mismatch"] < 1e-12 and facts["mmd"] < facts["random_mmd"] / 5
    assert abs(sum(made["weight"].to_pylist()) - 1) < 1e-12
    both = pa.concat_tables([pq.read_table(path) for path in inputs])
    taken = both.take(made["row"])
    for name in ("x", "y", "id", "name"):
        assert made[name].to_pylist() == taken[name].to_pylist()
    assert json.loads(made.schema.metadata[b"nysketch"])["mmd"] == facts["mmd"]


def test_the_same_bytes_whatever_the_threads(tables, tmp_path, run_cli):
    made = []
    for threads in ("1", "3"):
        out = tmp_path / f"{threads}.parquet"
        args = [tables / "a.parquet", *COLUMNS, "-m", 60, "-s", 20, "--threads", threads, "-o", out, "-q"]
        assert run_cli("coreset", *args).stdout == ""
        made.append(out.read_bytes())
    assert made[0] == made[1]


def test_the_words(tables, tmp_path, run_cli):
    result = run_cli("coreset", tables / "a.parquet", *COLUMNS, "-m", 60, "-s", 20, "-o", tmp_path / "c.csv")
    assert result.returncode == 0
    assert "21 rows for 3,000 rows" in result.stdout and "MMD to the data" in result.stdout
    assert "random rows" in result.stdout and "means agree to" in result.stdout
    assert result.stderr == ""
    assert pacsv.read_csv(tmp_path / "c.csv").column_names == ["row", "weight", "x", "y"]


def test_from_sketches_alone(tables, tmp_path, run_cli):
    out = tmp_path / "c.arrow"
    facts = json_of(run_cli("coreset", tables / "a.nysk", tables / "b.nysk", "-s", 15, "-o", out, "--json"))
    made = feather.read_table(out)
    assert made.column_names == ["landmark", "weight", "x", "y"] and facts["of_landmarks"]
    assert facts["of_rows"] == 5000 and facts["functions_from"] == "2,000 sampled rows"
    landmarks = nysketch.load(tables / "a.nysk").basis.landmarks[made["landmark"].to_numpy()]
    assert made["x"].to_pylist() == landmarks[:, 0].tolist()
    alone = json_of(run_cli("coreset", tables / "a.nysk", "-s", 15, "-o", tmp_path / "d.csv", "--json"))
    assert alone["functions_from"] == "second moments of 3,000 rows"


def test_a_given_basis_lends_its_second_moments_or_nothing(tables, tmp_path, run_cli):
    for name, words in (
        ("a", "second moments of 3,000 rows"),
        ("b", "2,000 sampled rows"),
        ("basis", "sampled rows"),
    ):
        args = [
            tables / "b.parquet",
            "--basis",
            tables / f"{name}.nysk",
            "-s",
            9,
            "-o",
            tmp_path / f"{name}.csv",
        ]
        facts = json_of(run_cli("coreset", *args, "--json"))
        assert words in facts["functions_from"] and facts["mismatch"] < 1e-12


def test_standard_input(tables, tmp_path, run_cli):
    table = pq.read_table(tables / "a.parquet")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    args = ["-", "--basis", tables / "a.nysk", "-s", 9, "--keep", "name", "-o", tmp_path / "c.parquet"]
    result = run_cli("coreset", *args, input=sink.getvalue().to_pybytes(), text=False)
    assert result.returncode == 0, result.stderr
    made = pq.read_table(tmp_path / "c.parquet")
    assert made["name"].to_pylist() == [f"a{i}" for i in made["row"].to_pylist()]


def test_what_there_is_already_stays(tables, tmp_path, run_cli):
    out = tmp_path / "c.csv"
    out.write_text("mine")
    args = ["coreset", tables / "a.parquet", *COLUMNS, "-m", 30, "-s", 5, "-o", out]
    assert "exists already" in refusal(run_cli(*args), 1)
    assert out.read_text() == "mine"
    assert run_cli(*args, "--if-exists", "overwrite").returncode == 0
    assert out.read_text() != "mine"


def test_rows_with_nulls(tables, tmp_path, run_cli):
    args = ["coreset", tables / "holed.parquet", *COLUMNS, "-m", 30, "-s", 5, "-o", tmp_path / "c.csv"]
    assert "column 'x' has 7 nulls" in refusal(run_cli(*args, "--nulls", "error"), 3)
    assert not (tmp_path / "c.csv").exists()
    result = run_cli(*args, "--nulls", "drop")
    assert result.returncode == 0 and "(7 dropped)" in result.stdout


def test_unreadable_inputs_are_skipped_if_asked(tables, tmp_path, run_cli):
    args = [
        tables / "a.parquet",
        tables / "broken.parquet",
        *COLUMNS,
        "-m",
        30,
        "-s",
        5,
        "-o",
        tmp_path / "c.csv",
    ]
    assert "broken.parquet" in refusal(run_cli("coreset", *args), 3)
    facts = json_of(run_cli("coreset", *args, "--skip-unreadable", "--json"), code=6)
    assert facts["of_rows"] == 3000 and "broken.parquet" in facts["skipped_inputs"][0]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["a.parquet", "a.nysk", "-o", "c.csv"], 2, "cannot be combined"),
        (["a.nysk", "-o", "c.csv", "--threads", "2"], 2, "--threads: applies to data only"),
        (["a.nysk", "-o", "c.csv", "--keep", "id"], 2, "--keep: applies to data only"),
        (["a.nysk", "-o", "c.csv", "-m", "10"], 2, "applies to data only"),
        (["a.parquet", "-o", "c.xyz"], 2, "cannot tell the format"),
        (["a.parquet", "-o", "c.csv", "-s", "0"], 2, "'-s'"),
        (["a.parquet", "-o", "a.parquet", "--if-exists", "overwrite"], 2, "is an input"),
        (["a.parquet", "-o", "c.csv", "--keep", "nam"], 3, "did you mean 'name'?"),
        (["a.parquet", "-o", "c.csv", "--weight-as", "x"], 2, "the data already has a column 'x'"),
        (["a.parquet", "-o", "c.csv", "--row-as", "weight"], 2, "cannot both be called"),
        (["a.parquet", "-o", "c.csv", "--basis", "basis.nysk", "-m", "5"], 2, "has no effect with --basis"),
        (["a.parquet", "-o", "c.csv", "--memory", "100MB"], 2, "Allow more with --memory"),
        (["a.parquet", "-o", "c.csv", "--features", "fourier"], 2, "a coreset needs landmarks"),
        (["none.nysk", "-o", "c.csv"], 3, "none.nysk"),
        (["basis.nysk", "-o", "c.csv"], 3, "is a basis file"),
        (["-", "-o", "c.csv"], 2, "can be read only once"),
    ],
)  # fmt: skip
def test_what_is_refused(tables, run_cli, args, code, words):
    options = [] if args[0].endswith(".nysk") or "--basis" in args or "--features" in args else COLUMNS
    empty = pa.BufferOutputStream()
    with pa.ipc.new_stream(empty, pa.schema([("x", pa.float64()), ("y", pa.float64())])):
        pass
    result = run_cli("coreset", *args, *options, cwd=tables, input=empty.getvalue().to_pybytes(), text=False)
    assert result.returncode == code, result.stderr
    assert words in result.stderr.decode() and not (tables / "c.csv").exists()
    assert b"Traceback" not in result.stderr


def test_the_basis_is_no_output(tables, tmp_path, run_cli):
    basis = tmp_path / "b.parquet"
    basis.write_bytes((tables / "a.nysk").read_bytes())
    result = run_cli(
        "coreset", tables / "a.parquet", "--basis", basis, "-o", basis, "--if-exists", "overwrite"
    )
    assert "is an input" in refusal(result, 2) and basis.read_bytes() == (tables / "a.nysk").read_bytes()


def test_lists_are_refused_by_csv_before_anything_is_read(tmp_path, run_cli):
    lists = pa.FixedSizeListArray.from_arrays(np.arange(200.0), 2)
    pq.write_table(pa.table({"v": lists}), tmp_path / "v.parquet")
    args = ["coreset", tmp_path / "v.parquet", "-m", 20, "-s", 5]
    assert "CSV cannot store lists" in refusal(run_cli(*args, "-o", tmp_path / "c.csv"), 2)
    assert run_cli(*args, "-o", tmp_path / "c.arrow").returncode == 0


def test_an_interrupted_run_leaves_nothing(tmp_path, start_cli):
    rows = np.random.default_rng(0).normal(size=20_000)
    pq.write_table(pa.table({"x": rows}), tmp_path / "long.parquet", row_group_size=1000)
    args = ["coreset", "long.parquet", "-s", 100, "-m", 300, "-o", "c.csv"]
    process = start_cli(*args, cwd=tmp_path, prepare=endless(10, "FragmentRecombiner"))
    wait_for(lambda: list(tmp_path.glob(".c.csv*")), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "interrupted" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.parquet"]
