"""`nysketch independence`, as a real process: what it prints, what it refuses, and with which exit code."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from tests.cli.test_learn import refusal

GROUPS = ["--group", "p=x", "--group", "q=y,u", "--group", "r=z"]
QUICK = ["-m", "20", "--permutations", "99"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory, run_cli):
    """Parquet files, and sketches of them; for reading only.

    In `a` and `b`, p and q depend on each other, and r on nothing; in `fair` nothing does. `holed` has a
    null, `broken` is no Parquet file. `plain` has no groups, `untold` no sums of them, `unpaired` none of
    pairs, `bare` no sampled rows, `heavy` weights.
    """
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(0)

    def write(name, n, strength, holes=0):
        x, y, u, z, w = random.normal(size=(5, n))
        columns = {"x": x, "y": y + strength * x, "u": u, "z": z, "w": np.exp(w)}
        columns["z"][:holes] = np.nan
        arrays = {key: pa.array(values, from_pandas=True) for key, values in columns.items()}
        pq.write_table(pa.table(arrays), folder / f"{name}.parquet", row_group_size=200)

    write("a", 500, 1.0)
    write("b", 400, 1.0)
    write("fair", 500, 0.0)
    write("holed", 300, 1.0, holes=1)
    (folder / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    basis = nysketch.Basis.fit(
        folder / "a.parquet", groups={"p": ["x"], "q": ["y", "u"], "r": ["z"]}, landmarks=20
    )
    nysketch.save(basis, folder / "basis.nysk")
    for name, of, options in (
        ("a", "a", {"pairs": True}),
        ("b", "b", {"pairs": True}),
        ("fair", "fair", {"pairs": True}),
        ("untold", "a", {"permutations": 0}),
        ("unpaired", "a", {}),
        ("bare", "a", {"permutation_rows": 0, "sample_rows": 0}),
        ("heavy", "a", {"weights": "w"}),
    ):
        made = nysketch.sketch(folder / f"{of}.parquet", basis=basis, threads=1, **options)
        nysketch.save(made, folder / f"{name}.nysk")
    plain = nysketch.sketch(folder / "a.parquet", columns=["x", "y"], landmarks=5, threads=1)
    nysketch.save(plain, folder / "plain.nysk")
    return folder


def json_of(result, code=0):
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("more", [[], ["--permutation-rows", "200"]], ids=["all rows", "a sample"])
def test_data_and_their_sketch_say_the_same(run_cli, tables, tmp_path, more):
    of_data = json_of(
        run_cli("independence", "a.parquet", "b.parquet", *GROUPS, *QUICK, *more, "--json", cwd=tables)
    )
    out = tmp_path / "made.nysk"
    # Of few rows, the sample that tells quality would be all of them.
    how = [*GROUPS, *QUICK, *more, "--sample-rows", "0", "--quiet", "-o", out]
    made = run_cli("sketch", "a.parquet", "b.parquet", *how, cwd=tables)
    assert made.returncode == 0, made.stderr
    of_sketch = json_of(run_cli("independence", out, "--json", cwd=tables))
    assert of_data == of_sketch
    assert of_data["rows"] == 900 and of_data["shuffles"] == 99 and of_data["rejected"]
    library = nysketch.independence(nysketch.load(out)).describe()
    assert of_data == json.loads(json.dumps(library | {"schema_version": 1, "skipped_inputs": []}))


def test_json_names_everything(run_cli, tables):
    found = json_of(run_cli("independence", "a.nysk", "--pairs", "--json", cwd=tables))
    usual = {
        "alpha", "blocks", "exact", "groups", "hsic", "hsic_at_landmarks", "hsic_squared", "normalised",
        "notes", "p_value", "rejected", "rows", "shuffled_rows", "shuffles", "standard_error", "statistic",
        "statistic_of", "threshold",
    }  # fmt: skip
    assert set(found) == usual | {"pairs", "schema_version", "skipped_inputs"}
    assert found["groups"] == ["p", "q", "r"] and found["exact"] and found["shuffled_rows"] == 500
    assert [pair["groups"] for pair in found["pairs"]] == [["p", "q"], ["p", "r"], ["q", "r"]]
    assert all(set(pair) == usual | {"p_value_adjusted"} for pair in found["pairs"])
    assert [pair["rejected"] for pair in found["pairs"]] == [True, False, False]


def test_what_people_read(run_cli, tables):
    result = run_cli("independence", "a.nysk", "--pairs", "-q", cwd=tables)
    assert (result.returncode, result.stderr) == (0, "")
    head, pairs = result.stdout.split("\npairs\n")
    for words in (
        "p, q, r\n",
        "500 permutations of all rows (exact)",
        "dependent at level 0.05",
        " (1 if the groups determine each other)",
    ):
        assert words in head
    lines = [line.split() for line in pairs.splitlines()]
    assert lines[0] == ["groups", "HSIC", "error", "normalised", "p-value", "adjusted", "verdict"]
    assert [line[:2] for line in lines[1:]] == [["p,", "q"], ["p,", "r"], ["q,", "r"]]
    assert [line[-1] == "dependent" for line in lines[1:]] == [True, False, False]
    fair = run_cli("independence", "fair.nysk", "-q", cwd=tables).stdout
    assert "no significant dependence at level 0.05" in fair and "pairs" not in fair
    untested = run_cli("independence", "a.nysk", "--permutations", "0", "-q", cwd=tables).stdout
    assert untested.splitlines()[-1].split() == ["test", "none"]
    sampled = run_cli(
        "independence", "a.parquet", *GROUPS, *QUICK, "--permutation-rows", "100", "-q", cwd=tables
    )
    assert sampled.returncode == 0


@pytest.mark.parametrize(("name", "code"), [("a", 7), ("fair", 0)])
def test_an_alarm_is_exit_code_7(run_cli, tables, name, code):
    result = run_cli("independence", f"{name}.nysk", "--alarm", cwd=tables)
    assert result.returncode == code and "HSIC" in result.stdout
    assert run_cli("independence", f"{name}.nysk", cwd=tables).returncode == 0
    of_data = run_cli("independence", f"{name}.parquet", *GROUPS, *QUICK, "--alarm", cwd=tables)
    assert of_data.returncode == code


def test_an_alarm_that_cannot_tell_is_a_failure(run_cli, tables):
    for name, note in (
        ("bare", "The sketch has no sampled rows to permute: no test. Sketch with more --permutation-rows."),
        ("heavy", "Rows have weights, and weighted rows cannot be permuted: no test."),
    ):
        result = run_cli("independence", f"{name}.nysk", cwd=tables)
        assert result.returncode == 0 and note in result.stderr and "HSIC" in result.stdout
        alarmed = run_cli("independence", f"{name}.nysk", "--alarm", cwd=tables)
        assert alarmed.returncode == 1 and "HSIC" in alarmed.stdout
        assert "the groups cannot be tested, so --alarm has no answer" in alarmed.stderr


def test_several_sketches_are_merged(run_cli, tables, tmp_path):
    found = json_of(run_cli("independence", "a.nysk", "b.nysk", "--json", cwd=tables))
    merged = tmp_path / "ab.nysk"
    assert run_cli("merge", "a.nysk", "b.nysk", "-o", merged, cwd=tables).returncode == 0
    assert found == json_of(run_cli("independence", merged, "--json", cwd=tables))
    assert found["rows"] == found["shuffled_rows"] == 900
    twice = refusal(run_cli("independence", "a.nysk", "a.nysk", cwd=tables), 4)
    assert "merge them first with `nysketch merge --force`" in twice


def test_a_part_without_sums_of_groups_is_named(run_cli, tables):
    said = refusal(run_cli("independence", "b.nysk", "untold.nysk", cwd=tables), 4)
    assert "untold.nysk has no sums of groups of columns: neither will the result" in said
    assert "Sketch the data again" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--landmarks", "5"], "--landmarks"),
        (
            ["--permutation-rows", "5"],
            "--permutation-rows: applies to data only; without --group the inputs are sketches",
        ),
        (["--columns", "x"], "--columns: applies to data only; without --group the inputs are sketches"),
        (["--nulls", "drop"], "--nulls: applies to data only; without --group the inputs are sketches"),
        (["--kernel", "linear"], "--kernel: applies to data only; without --group the inputs are sketches"),
        (["--skip-unreadable"], "--skip-unreadable: applies to data only"),
        (["--alarm", "--shuffles", "0"], "--alarm needs a test: leave out --permutations 0"),
        (["--shuffles", "10"], "with 10 permutations no p-value is below 0.091"),
        (["--alpha", "1"], "--alpha"),
        (["--permutations", "-1"], "--permutations"),
    ],
)
def test_what_makes_no_sense_with_sketches_is_refused(run_cli, tables, arguments, complaint):
    assert complaint in refusal(run_cli("independence", "a.nysk", *arguments, cwd=tables), 2)


def test_what_is_not_there_or_not_known(run_cli, tables):
    refusal(run_cli("independence", "none.nysk", cwd=tables), 3)
    refusal(run_cli("independence", "none.parquet", *GROUPS, cwd=tables), 3)
    refusal(run_cli("independence", "a.parquet", "--group", "p=x", "--group", "q=none", cwd=tables), 3)
    plain = refusal(run_cli("independence", "plain.nysk", cwd=tables), 4)
    assert "no groups of columns. Sketch the data with --group x=a,b --group y=c" in plain
    assert "made with --permutations 0" in refusal(run_cli("independence", "untold.nysk", cwd=tables), 4)
    unpaired = refusal(run_cli("independence", "unpaired.nysk", "--pairs", cwd=tables), 4)
    assert "no sums of pairs of groups. Sketch the data with --pairs" in unpaired
    refusal(run_cli("independence", "a.parquet", cwd=tables), 3)
    refusal(run_cli("independence", "basis.nysk", cwd=tables), 3)
    one = refusal(run_cli("independence", "a.parquet", "--group", "p=x,y", cwd=tables), 2)
    assert "give at least two groups: --group x=a,b --group y=c" in one


def test_pairs_of_data(run_cli, tables):
    found = json_of(
        run_cli("independence", "a.parquet", *GROUPS, "-m", "20", "--pairs", "--json", cwd=tables)
    )
    assert [pair["rejected"] for pair in found["pairs"]] == [True, False, False]


def test_unreadable_inputs_can_be_skipped(run_cli, tables):
    refusal(run_cli("independence", "a.parquet", "broken.parquet", *GROUPS, *QUICK, cwd=tables), 3)
    result = run_cli(
        "independence",
        "a.parquet",
        "broken.parquet",
        *GROUPS,
        *QUICK,
        "--skip-unreadable",
        "--json",
        cwd=tables,
    )
    found = json_of(result, 6)
    assert found["rows"] == 500 and len(found["skipped_inputs"]) == 1
    assert "broken.parquet" in found["skipped_inputs"][0] and "broken.parquet" in result.stderr


def test_nulls_are_kept_or_dropped_or_stop_it(run_cli, tables):
    refusal(run_cli("independence", "holed.parquet", *GROUPS, *QUICK, "--nulls", "error", cwd=tables), 3)
    kept = run_cli("independence", "holed.parquet", *GROUPS, *QUICK, "--json", cwd=tables)
    assert json_of(kept)["rows"] == 300
    found = json_of(
        run_cli("independence", "holed.parquet", *GROUPS, *QUICK, "--nulls", "drop", "--json", cwd=tables)
    )
    assert found["rows"] == 299 and found["exact"]


def test_nothing_is_left_behind(run_cli, tables):
    before = sorted(path.name for path in tables.iterdir())
    assert run_cli("independence", "a.parquet", *GROUPS, *QUICK, cwd=tables).returncode == 0
    assert sorted(path.name for path in tables.iterdir()) == before


def test_info_names_the_groups(run_cli, tables):
    shown = run_cli("info", "a.nysk", cwd=tables).stdout
    assert "p, q, r; test them with `nysketch independence`, also by pairs" in shown
    assert "also by pairs" not in run_cli("info", "unpaired.nysk", cwd=tables).stdout
    assert json_of(run_cli("info", "a.nysk", "--json", cwd=tables))["groups"] == {
        "names": ["p", "q", "r"],
        "pairs": True,
    }
    assert json_of(run_cli("info", "untold.nysk", "--json", cwd=tables))["groups"] is None


def test_a_sketch_with_other_sums_of_groups_is_not_up_to_date(run_cli, tables, tmp_path):
    out = tmp_path / "out.nysk"

    def make(*more):
        return run_cli(
            "sketch", "a.parquet", *GROUPS, "-m", "5", "--if-exists", "skip", "-o", out, *more, cwd=tables
        )

    assert make().returncode == 0
    first = out.read_bytes()
    assert make().returncode == 0
    for other in (["--pairs"], ["--permutations", "0"], ["--permutation-rows", "100"]):
        refused = make(*other)
        assert refused.returncode != 0 and out.read_bytes() == first
        assert refused.stderr
    assert "--pairs needs groups of columns" in refusal(
        run_cli("sketch", "a.parquet", "--pairs", "-o", tmp_path / "x.nysk", cwd=tables), 2
    )


def test_too_few_shuffles_are_refused_before_anything_is_read(run_cli, tmp_path):
    pq.write_table(pa.table({"x": [None, 1.0], "y": [1.0, 2.0], "z": [1.0, 2.0]}), tmp_path / "null.parquet")
    groups = ["--group", "p=x", "--group", "q=y", "--group", "r=z"]
    for more in (["--alpha", "0.001"], ["--pairs"]):
        result = run_cli("independence", "null.parquet", *groups, "--shuffles", "19", *more, cwd=tmp_path)
        assert result.returncode == 2 and "Use more --permutations" in result.stderr
    result = run_cli("independence", "null.parquet", cwd=tmp_path)
    assert result.returncode == 3 and "name groups of columns with --group" in result.stderr


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """Two random walks, which have nothing to do with each other."""
    path = tmp_path_factory.mktemp("walks") / "walks.parquet"
    steps = np.random.default_rng(3).normal(size=(2, 800)).cumsum(axis=1)
    pq.write_table(pa.table({"x": steps[0], "y": steps[1]}), path)
    return path


def test_series_raise_no_alarm_and_no_answer_is_a_failure(run_cli, walks):
    ask = ["independence", walks, "--group", "p=x", "--group", "q=y", *QUICK]
    alarmed = run_cli(*ask, "--alarm")
    assert alarmed.returncode == 1 and "the groups cannot be tested" in alarmed.stderr
    assert "Rows resemble their neighbours in p and q" in alarmed.stderr
    assert "use --blocks random" in alarmed.stderr
    found = json_of(run_cli(*ask, "--json"))
    assert found["rejected"] is found["p_value"] is found["blocks"] is None
    assert run_cli(*ask, "--blocks", "random", "--alarm").returncode == 7


def test_the_statistic_is_named(run_cli, tables):
    shown = run_cli("independence", "a.nysk", "-q", cwd=tables).stdout
    assert "V-HSIC (critical value" in shown
    shifted = run_cli("independence", "a.nysk", "-q", "--blocks", "consecutive", cwd=tables).stdout
    assert "500 shifts of all rows (exact)" in shifted
