"""Each command on its own: what it writes, what it refuses, and with which exit code."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch

SKETCH = ["sketch", "a.parquet", "-m", "20", "-o", "out.nysk"]


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def refusal(result, code):
    """Check that a command failed properly, and return its message."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert "Traceback" not in result.stderr and "internal error" not in result.stderr
    return result.stderr


def test_an_existing_output_is_kept_unless_told_otherwise(run_cli, parquet):
    folder = parquet.parent
    assert run_cli(*SKETCH, cwd=folder).returncode == 0
    written = (folder / "out.nysk").read_bytes()
    assert "exists already" in refusal(run_cli(*SKETCH, cwd=folder), 1)
    (folder / "out.nysk").write_bytes(b"something else")
    assert "exists already" in refusal(run_cli(*SKETCH, cwd=folder), 1)
    assert run_cli(*SKETCH, "--if-exists", "overwrite", cwd=folder).returncode == 0
    assert (folder / "out.nysk").read_bytes() == written


def test_skip_skips_only_what_is_up_to_date(run_cli, parquet, make_parquet):
    folder = parquet.parent
    os.utime(parquet, ns=(10**18, 10**18))  # written long before the sketch
    skip = [*SKETCH, "--if-exists", "skip", "--json"]
    reports = [json.loads(run_cli(*skip, cwd=folder).stdout) for _ in range(2)]
    assert [report["up_to_date"] for report in reports] == [False, True]
    written = (folder / "out.nysk").read_bytes()
    assert "options" in refusal(run_cli(*skip, "--seed", "1", cwd=folder), 1)
    make_parquet(parquet, seed=4)
    os.utime(parquet, ns=(10**18, 10**18))
    message = refusal(run_cli(*skip, cwd=folder), 1)
    assert "inputs differ" in message and "--if-exists overwrite" in message
    assert (folder / "out.nysk").read_bytes() == written


def test_an_existing_basis_is_kept_unless_told_otherwise(run_cli, parquet):
    basis = ["basis", "a.parquet", "-m", "5", "-o", "basis.nysk"]
    (parquet.parent / "basis.nysk").write_bytes(b"something else")
    message = refusal(run_cli(*basis, cwd=parquet.parent), 1)
    assert "basis.nysk: exists already; replace it with --if-exists overwrite" in message
    assert (parquet.parent / "basis.nysk").read_bytes() == b"something else"
    assert run_cli(*basis, "--if-exists", "overwrite", cwd=parquet.parent).returncode == 0
    assert nysketch.load(parquet.parent / "basis.nysk").m == 5


def test_a_dry_run_reads_no_rows_and_writes_nothing(run_cli, parquet):
    # Everything but the footer is overwritten: rows could not be read.
    content = parquet.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    parquet.write_bytes(content[:4] + b"\xff" * (len(content) - footer - 4) + content[-footer:])
    result = run_cli(*SKETCH, "--dry-run", "--json", cwd=parquet.parent)
    assert result.returncode == 0, result.stderr
    plan = json.loads(result.stdout)
    assert (plan["columns"], plan["rows"], plan["fragments"]) == (["x", "y", "w"], 600, 3)
    assert plan["memory_bytes"] > 0 and plan["sketch_bytes"] > 0
    assert listing(parquet.parent) == ["a.parquet"]
    assert "a.parquet, row group " in refusal(run_cli(*SKETCH, cwd=parquet.parent), 3)


@pytest.mark.parametrize("command", ["sketch", "basis"])
def test_what_does_not_fit_the_memory_is_refused(run_cli, shelf, tmp_path, command):
    arguments = [command, shelf / "a.parquet", "-m", "5", "-o", tmp_path / "out.nysk", "--memory", "1MB"]
    assert "1 MB allowed" in refusal(run_cli(*arguments), 2)
    assert listing(tmp_path) == []


def test_inputs_can_come_from_a_list(run_cli, shelf, tmp_path):
    (tmp_path / "list").write_text(f"# days\n{shelf / 'b.parquet'}\n\n")
    output = tmp_path / "out.nysk"
    result = run_cli(
        "sketch", shelf / "a.parquet", "--from-file", tmp_path / "list",
        "--basis", shelf / "basis.nysk", "-o", output,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert nysketch.load(output).rows == 1200
    result = run_cli("sketch", "--from-file", tmp_path / "missing", "-o", output)
    assert "cannot read the list" in refusal(result, 3)


@pytest.mark.parametrize(
    ("flag", "value"),
    [("-m", "20"), ("--landmarks", "5"), ("--scale", "none"), ("--bandwidth", "2"), ("--pilot-rows", "100")],
)
def test_a_basis_that_is_given_is_not_made(run_cli, shelf, tmp_path, flag, value):
    given = ["sketch", shelf / "a.parquet", "--basis", shelf / "basis.nysk", "-o", tmp_path / "out.nysk"]
    message = refusal(run_cli(*given, flag, value), 2)
    assert flag in message and "--basis" in message
    name = {"-m": "--landmarks"}.get(flag, flag).strip("-")
    variable = f"NYSKETCH_SKETCH_{name}".replace("-", "_").upper()
    message = refusal(run_cli(*given, env={variable: value}), 2)
    assert variable in message
    assert listing(tmp_path) == []
    # In a settings file they are what to do where no basis is given.
    (tmp_path / "settings.toml").write_text(f"[sketch]\n{name} = '{value}'\n")
    result = run_cli("--config", tmp_path / "settings.toml", *given)
    assert (result.returncode, result.stderr) == (0, "")
    assert nysketch.load(tmp_path / "out.nysk").basis.m == 20


def test_standard_input_needs_a_basis(run_cli, shelf, tmp_path):
    table = pq.read_table(shelf / "a.parquet")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream, output = sink.getvalue().to_pybytes(), tmp_path / "out.nysk"
    result = run_cli(
        "sketch", "-", "--basis", shelf / "basis.nysk", "-o", output, "--json", input=stream, text=False
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows"] == 600
    sums = nysketch.load(output).kernel_sums
    assert np.allclose(sums, nysketch.load(shelf / "a.nysk").kernel_sums, rtol=1e-6)
    output.unlink()
    result = run_cli("sketch", "-", "-o", output, input=stream, text=False)
    assert result.returncode == 2 and b"--basis" in result.stderr
    result = run_cli("sketch", "-", "-o", output, "--dry-run", input=stream, text=False)
    assert (result.returncode, result.stdout) == (2, b"") and b"--basis" in result.stderr
    result = run_cli("sketch", "-", "--basis", shelf / "basis.nysk", "-o", output, input=b"x,y\n", text=False)
    assert result.returncode == 3 and b"not an Arrow IPC stream" in result.stderr
    assert listing(tmp_path) == []


def test_unreadable_inputs_exit_with_3_or_are_skipped_with_6(run_cli, parquet):
    folder = parquet.parent
    assert "none.parquet" in refusal(run_cli("sketch", "none.parquet", "-o", "x.nysk", cwd=folder), 3)
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing")
    assert "bad.parquet" in refusal(run_cli(*SKETCH, "bad.parquet", cwd=folder), 3)
    result = run_cli(*SKETCH, "bad.parquet", "--skip-unreadable", "--json", cwd=folder)
    assert result.returncode == 6
    report = json.loads(result.stdout)
    assert report["rows"] == 600 and "bad.parquet" in report["skipped_inputs"][0]
    assert "skipped bad.parquet" in result.stderr
    basis = [
        "basis",
        "a.parquet",
        "bad.parquet",
        "--skip-unreadable",
        "-m",
        "5",
        "-o",
        "basis.nysk",
        "--json",
    ]
    result = run_cli(*basis, cwd=folder)
    assert result.returncode == 6 and "skipped bad.parquet" in result.stderr
    assert "bad.parquet" in json.loads(result.stdout)["skipped_inputs"][0]
    assert "no column 'z'" in refusal(run_cli(*SKETCH, "--columns", "x,z", cwd=folder), 3)


def test_merging_does_not_depend_on_the_order(run_cli, shelf, tmp_path):
    for name, order in (("ab", ["a.nysk", "b.nysk"]), ("ba", ["b.nysk", "a.nysk"])):
        result = run_cli("merge", *order, "-o", tmp_path / name, "--json", cwd=shelf)
        assert json.loads(result.stdout)["rows"] == 1200
        assert result.stderr == ""
    assert (tmp_path / "ab").read_bytes() == (tmp_path / "ba").read_bytes()
    assert (tmp_path / "ab").read_bytes() == (shelf / "ab.nysk").read_bytes()


@pytest.fixture
def days(shelf, tmp_path):
    """A directory with sketches a and b, and with what is none: a hidden file, another one, a directory."""
    folder = tmp_path / "[days]"
    (folder / "deeper.nysk").mkdir(parents=True)
    for name in ("b.nysk", "a.nysk"):
        shutil.copy(shelf / name, folder)
    (folder / ".hidden.nysk").write_bytes(b"not for us")
    (folder / "notes.txt").write_bytes(b"not for us")
    return folder


@pytest.mark.parametrize("given", ["[days]", "[[]days]/*.nysk", "**/*.nysk"])
def test_globs_and_directories_of_sketches_are_merged_and_verified(run_cli, shelf, days, given):
    folder = days.parent
    result = run_cli("merge", given, "-o", "all", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert (folder / "all").read_bytes() == (shelf / "ab.nysk").read_bytes()
    result = run_cli("verify", given, "--json", cwd=folder)
    assert (result.returncode, result.stderr) == (0, "")
    names = [file["path"] for file in json.loads(result.stdout)["files"]]
    assert names == ["[days]/a.nysk", "[days]/b.nysk"]


@pytest.mark.parametrize("command", [["merge", "-o", "x.nysk"], ["verify"]], ids=["merge", "verify"])
def test_globs_and_directories_without_sketches_exit_with_3(run_cli, days, command):
    folder = days / "deeper.nysk"
    assert "*.csv: no files match" in refusal(run_cli(*command, "*.csv", cwd=days), 3)
    assert "deeper.nysk: no *.nysk files" in refusal(run_cli(*command, folder), 3)
    assert refusal(run_cli(*command, "", cwd=days), 3)
    assert refusal(run_cli(*command, "a" * 5000, cwd=days), 3)


@pytest.mark.parametrize("others", [["*.nysk"], ["."], ["./a.nysk", "."]], ids=" ".join)
def test_what_a_glob_brings_may_not_be_given_again(run_cli, days, others):
    message = refusal(run_cli("merge", "a.nysk", *others, "-o", "../x.nysk", cwd=days), 2)
    assert f"a.nysk: given twice; {others[-1]} includes it" in message


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ("alien.nysk", "kernel"),
        ("blocks.nysk", "numbers of blocks: 64 and 4"),
        ("weighted.nysk", "row weights: None and w"),
    ],
)
def test_what_does_not_belong_together_is_not_merged(run_cli, shelf, tmp_path, other, differs):
    message = refusal(run_cli("merge", "a.nysk", other, "-o", tmp_path / "x.nysk", cwd=shelf), 4)
    assert other in message and differs in message
    assert listing(tmp_path) == []


def test_merging_the_same_rows_twice_is_refused_unless_forced(run_cli, shelf, tmp_path):
    shutil.copy(shelf / "a.nysk", tmp_path / "copy.nysk")
    merge = ["merge", "a.nysk", tmp_path / "copy.nysk", "-o", tmp_path / "x.nysk"]
    assert "would be counted twice" in refusal(run_cli(*merge, cwd=shelf), 4)
    result = run_cli(*merge, "--force", cwd=shelf)
    assert result.returncode == 0
    assert "a.parquet is an input of several sketches: its rows are counted more than once" in result.stderr


def test_a_nightly_merge_does_not_add_its_own_output(run_cli, shelf, tmp_path):
    for name in ("a.nysk", "b.nysk"):
        shutil.copy(shelf / name, tmp_path / name)
    for inputs in (["a.nysk", "b.nysk"], ["."], ["*.nysk"]):
        result = run_cli("merge", *inputs, "-o", "week.nysk", "--if-exists", "overwrite", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    expanded = ["a.nysk", "b.nysk", "week.nysk"]  # as a shell would
    result = run_cli("merge", *expanded, "-o", "week.nysk", "--if-exists", "overwrite", cwd=tmp_path)
    assert "week.nysk: is an input; choose another -o" in refusal(result, 2)
    parts = [nysketch.load(tmp_path / name).rows for name in ("a.nysk", "b.nysk")]
    assert nysketch.load(tmp_path / "week.nysk").rows == sum(parts)


def test_nothing_is_subtracted_twice(run_cli, shelf, tmp_path):
    once, twice = tmp_path / "once.nysk", tmp_path / "twice.nysk"
    assert run_cli("subtract", "ab.nysk", "a.nysk", "-o", once, cwd=shelf).returncode == 0
    message = refusal(run_cli("subtract", once, "a.nysk", "-o", twice, cwd=shelf), 4)
    assert "was subtracted already" in message


def test_merging_something_else_exits_with_3(run_cli, shelf, tmp_path):
    result = run_cli("merge", "a.nysk", "basis.nysk", "-o", tmp_path / "x.nysk", cwd=shelf)
    assert "is a basis file; expected a sketch file" in refusal(result, 3)
    result = run_cli("merge", "a.nysk", "a.parquet", "-o", tmp_path / "x.nysk", cwd=shelf)
    assert (
        "a.parquet: this is data, not a sketch. Run `nysketch sketch a.parquet -o a.nysk` first"
        in refusal(result, 3)
    )
    result = run_cli("merge", "a.nysk", "missing.nysk", "-o", tmp_path / "x.nysk", cwd=shelf)
    assert "missing.nysk: cannot read" in refusal(result, 3)


def test_subtracting_gives_back_what_was_added_to(run_cli, shelf, tmp_path):
    result = run_cli("subtract", "ab.nysk", "b.nysk", "-o", tmp_path / "rest.nysk", "--json", cwd=shelf)
    assert json.loads(result.stdout)["rows"] == 600
    rest, a = nysketch.load(tmp_path / "rest.nysk"), nysketch.load(shelf / "a.nysk")
    assert rest.kernel_sums.tobytes() == a.kernel_sums.tobytes()
    assert rest.provenance == a.provenance


@pytest.mark.parametrize("part", ["b.nysk", "ab.nysk"])
def test_what_is_not_contained_is_not_subtracted(run_cli, shelf, tmp_path, part):
    message = refusal(run_cli("subtract", "a.nysk", part, "-o", tmp_path / "x.nysk", cwd=shelf), 4)
    assert part in message and "b.parquet, which is not among the inputs of a.nysk" in message
    forced = run_cli("subtract", "a.nysk", part, "-o", tmp_path / "x.nysk", "--force", cwd=shelf)
    assert "not contained in a.nysk" in refusal(forced, 4)
    assert listing(tmp_path) == []


def test_a_sketch_of_no_rows_has_info_but_no_features(run_cli, shelf, tmp_path):
    empty = tmp_path / "empty.nysk"
    assert run_cli("subtract", "a.nysk", "a.nysk", "-o", empty, cwd=shelf).returncode == 0
    facts = json.loads(run_cli("info", empty, "--json").stdout)
    assert (facts["rows"], facts["total_weight"], facts["inputs"]) == (0, 0, [])
    assert "rows       0\n" in run_cli("info", empty).stdout
    for name in ("x.npz", "x.json", "x.parquet"):
        message = refusal(run_cli("export", empty, "-o", tmp_path / name), 3)
        assert "empty.nysk: the sketch has no rows" in message
    assert listing(tmp_path) == ["empty.nysk"]


def test_info_tells_what_a_sketch_holds(run_cli, shelf):
    facts = json.loads(run_cli("info", "weighted.nysk", "--json", cwd=shelf).stdout)
    sketch = nysketch.load(shelf / "weighted.nysk")
    assert facts["kind"] == "sketch"
    assert (facts["rows"], facts["landmarks"], facts["features"]) == (600, 20, 2)
    assert (facts["weights"], facts["total_weight"]) == ("w", sketch.total_weight)
    assert facts["bytes"] == (shelf / "weighted.nysk").stat().st_size
    assert [column["name"] for column in facts["columns"]] == ["x", "y"]
    assert facts["columns"][0]["min"] == sketch.column_ranges[0][0]
    assert facts["inputs"][0]["path"].endswith("a.parquet")
    shown = run_cli("info", "weighted.nysk", cwd=shelf).stdout
    assert "treat this file like a sample" in shown and "a.parquet" in shown


def test_info_tells_ranges_from_bounds(run_cli, shelf, tmp_path):
    assert run_cli("subtract", "ab.nysk", "b.nysk", "-o", tmp_path / "rest.nysk", cwd=shelf).returncode == 0
    for path, ranges in ((shelf / "ab.nysk", "exact"), (tmp_path / "rest.nysk", "bounds")):
        assert json.loads(run_cli("info", path, "--json").stdout)["ranges"] == ranges
        remark = "\ncolumns (ranges are bounds: rows were subtracted)\n" in run_cli("info", path).stdout
        assert remark == (ranges == "bounds")


def test_info_tells_what_a_basis_holds(run_cli, shelf):
    facts = json.loads(run_cli("info", "basis.nysk", "--json", cwd=shelf).stdout)
    assert (facts["kind"], facts["landmarks"], facts["format_version"]) == ("basis", 20, 6)
    assert facts["basis_digest"] == nysketch.load(shelf / "a.nysk").basis.digest
    assert "bandwidth" in run_cli("info", "basis.nysk", cwd=shelf).stdout


def test_export_writes_the_numbers_of_a_sketch(run_cli, shelf, tmp_path):
    for name in ("a.npz", "a.json", "a.parquet"):
        assert run_cli("export", "a.nysk", "-o", tmp_path / name, cwd=shelf).returncode == 0
    sketch = nysketch.load(shelf / "a.nysk")
    means = sketch.basis.scaled_landmarks + sketch.cells.sums.high / sketch.cells.rows[:, None]
    cell_means = means * sketch.basis.scale + sketch.basis.center
    expected = {
        "block_kernel_sums": sketch.block_kernel_sums,
        "block_rows": sketch.block_rows,
        "cell_means": cell_means,
        "cell_rows": sketch.cells.rows,
        "center": sketch.basis.center,
        "embedding_weights": sketch.embedding_weights(),
        "kernel_sums": sketch.kernel_sums,
        "landmarks": sketch.basis.landmarks,
        "mean_features": sketch.mean_features(),
        "scale": sketch.basis.scale,
    }
    with np.load(tmp_path / "a.npz") as arrays:
        assert set(arrays) == set(expected) | {"columns", "kernel"}
        assert json.loads(str(arrays["kernel"])) == sketch.basis.kernel.describe()
        assert arrays["columns"].tolist() == [column.name for column in sketch.basis.columns]
        assert all(np.allclose(arrays[name], expected[name], rtol=1e-15) for name in expected)
        assert all(np.array_equal(arrays[name], expected[name]) for name in expected if name != "cell_means")
        expected["cell_means"] = arrays["cell_means"]
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["rows"] == 600
    arrays = document["arrays"]
    assert json.loads(arrays.pop("kernel")) == document["kernel"]
    assert arrays.pop("columns") == [column["name"] for column in document["columns"]]
    assert arrays == {name: array.tolist() for name, array in expected.items()}
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["x", "y", "kernel_sum", "embedding_weight", "cell_rows"]
    assert np.array_equal(table["y"], sketch.basis.landmarks[:, 1])
    assert np.array_equal(table["kernel_sum"], sketch.kernel_sums)
    assert np.array_equal(table["cell_rows"], sketch.cells.rows)


def test_export_writes_the_landmarks_of_a_basis(run_cli, shelf, tmp_path):
    arguments = ["export", "basis.nysk", "-o", tmp_path / "x", "--to", "parquet"]
    assert run_cli(*arguments, cwd=shelf).returncode == 0
    assert pq.read_table(tmp_path / "x").column_names == ["x", "y"]
    assert "exists already" in refusal(run_cli(*arguments, cwd=shelf), 1)


def test_export_does_not_drop_a_column_for_one_of_its_own(run_cli, tmp_path):
    table = pa.table({"kernel_sum": [1.0, 2.0, 4.0]})
    nysketch.save(nysketch.sketch(table, landmarks=2), tmp_path / "s.nysk")
    message = refusal(run_cli("export", "s.nysk", "-o", "s.parquet", cwd=tmp_path), 2)
    assert "'kernel_sum'" in message and "--format npz" in message
    assert listing(tmp_path) == ["s.nysk"]


def test_verify_checks_all_files_and_reports_the_first_problem(run_cli, shelf, tmp_path):
    result = run_cli("verify", "a.nysk", "basis.nysk", cwd=shelf)
    assert result.returncode == 0
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["a.nysk", "basis.nysk"]
    (tmp_path / "cut.nysk").write_bytes((shelf / "a.nysk").read_bytes()[:-1])
    result = run_cli("verify", tmp_path / "cut.nysk", "missing.nysk", "a.nysk", "--json", cwd=shelf)
    assert result.returncode == 5
    report = json.loads(result.stdout)
    assert [file["ok"] for file in report["files"]] == [False, False, True]
    assert len(result.stderr.splitlines()) == 2
    assert run_cli("verify", "missing.nysk", tmp_path / "cut.nysk", cwd=shelf).returncode == 3
