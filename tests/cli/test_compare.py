"""`nysketch compare`, as a real process: what it prints, what it refuses, and with which exit code."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.basis.base import Basis
from tests.cli.test_learn import refusal


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Sketches of four days at one basis: the third is unlike the others, the last has eight bad rows.

    `alien` has another kernel, `sorted` is in order, `linear1` and `linear2` have the linear kernel.
    """
    folder = tmp_path_factory.mktemp("days")
    random = np.random.default_rng(0)

    def table(n=2000, shift=0.0):
        made = random.normal(size=(n, 3)) * [1, 10, 100]
        made[:, 1] += 10 * shift
        return made

    def as_table(rows):
        return pa.table(dict(zip("abc", rows.T, strict=True)))

    basis = Basis.fit(as_table(table()), landmarks=50)
    linear = Basis.fit(as_table(table()), landmarks=10, kernel="linear")
    rows = {"1": table(), "2": table(4000), "3": table(shift=0.4), "4": table()}
    rows["sorted"] = rows["1"][np.argsort(rows["1"][:, 0])]
    for name, data in rows.items():
        pq.write_table(as_table(data), folder / f"{name}.parquet")
        made = nysketch.sketch(folder / f"{name}.parquet", basis=basis, threads=1)
        nysketch.save(made, folder / f"{name}.nysk")
    bad = rows["4"].copy()
    bad[::250] = 1e8
    for name, data in (("linear1", rows["1"]), ("linear2", rows["3"]), ("linear3", bad)):
        nysketch.save(nysketch.sketch(as_table(data), basis=linear, threads=1), folder / f"{name}.nysk")
    alien = nysketch.sketch(as_table(rows["2"]), landmarks=10, kernel="laplacian-l1", threads=1)
    nysketch.save(alien, folder / "alien.nysk")
    nysketch.save(basis, folder / "basis.nysk")
    return folder


def json_of(result, code=0):
    assert result.returncode == code, result.stderr
    return json.loads(result.stdout)


def test_two_sketches(run_cli, days):
    found = json_of(run_cli("compare", "1.nysk", "3.nysk", "--json", cwd=days))
    library = nysketch.compare(nysketch.load(days / "1.nysk"), nysketch.load(days / "3.nysk")).describe()
    expected = library | {"first": "1.nysk", "second": "3.nysk", "schema_version": 1}
    assert found == json.loads(json.dumps(expected))
    assert found["rejected"] and found["p_value"] == pytest.approx(1 / 1001)
    assert found["mmd"] > found["threshold"] > 0 and found["standard_error"] > 0
    assert (found["test"], found["tested_blocks"], found["blocks"]) == ("permutation", [64, 64], "random")
    assert found["explanation"]["shifts"][0]["feature"] == "b"


def test_what_people_read(run_cli, days):
    result = run_cli("compare", "1.nysk", "3.nysk", cwd=days)
    assert (result.returncode, result.stderr) == (0, "")
    for words in (
        "1.nysk and 3.nysk",
        "2,000 and 2,000",
        "permutation of 64 and 64 random blocks, 1,000 draws",
        "different at level 0.05",
        "; unbiased ",
        "variance ratio",
        "shifts of column means, in standard deviations (all rows)",
        "3.nysk has more rows near",
    ):
        assert words in result.stdout
    same = run_cli("compare", "1.nysk", "2.nysk", "--no-explain", "--test", "none", cwd=days)
    assert same.returncode == 0 and "shifts of column" not in same.stdout
    assert [line.split() for line in same.stdout.splitlines()][-1] == ["test", "none"]


@pytest.mark.parametrize(("names", "code"), [(("1", "3"), 7), (("1", "2"), 0)])
def test_an_alarm_is_exit_code_7(run_cli, days, names, code):
    result = run_cli("compare", *(f"{name}.nysk" for name in names), "--alarm", cwd=days)
    assert result.returncode == code and result.stdout
    assert run_cli("compare", *(f"{name}.nysk" for name in names), cwd=days).returncode == 0


def test_an_alarm_that_cannot_tell_is_a_failure(run_cli, days, tmp_path):
    for name in ("1", "3"):
        made = nysketch.sketch(days / f"{name}.parquet", basis=days / "basis.nysk", blocks=1, spans=0)
        nysketch.save(made, tmp_path / f"{name}.nysk")
    assert run_cli("compare", "1.nysk", "3.nysk", cwd=tmp_path).returncode == 0
    result = run_cli("compare", "1.nysk", "3.nysk", "--alarm", cwd=tmp_path)
    assert result.returncode == 1 and "MMD" in result.stdout
    assert "1.nysk and 3.nysk cannot be tested, so --alarm has no answer" in result.stderr


def test_a_reference_is_not_compared_with_itself(run_cli, days):
    found = json_of(run_cli("compare", "?.nysk", "--reference", "1.nysk", "--json", cwd=days))
    assert [c["second"] for c in found["comparisons"]] == ["2.nysk", "3.nysk", "4.nysk"]


def test_landmarks_show_list_columns(run_cli, tmp_path):
    random = np.random.default_rng(0)
    for name, shift in (("a", 0.0), ("b", 1.0)):
        lists = pa.FixedSizeListArray.from_arrays(random.normal(size=2000) + shift, 2)
        pq.write_table(pa.table({"z": random.normal(size=1000), "emb": lists}), tmp_path / f"{name}.parquet")
    run_cli("sketch", "a.parquet", "-m", "20", "-o", "a.nysk", cwd=tmp_path)
    run_cli("sketch", "b.parquet", "--basis", "a.nysk", "-o", "b.nysk", cwd=tmp_path)
    shown = run_cli("compare", "a.nysk", "b.nysk", cwd=tmp_path).stdout
    assert "\n  emb [" in shown and "emb[0]" in shown


def test_all_with_each_other(run_cli, days):
    names = [f"{i}.nysk" for i in range(1, 5)]
    found = json_of(run_cli("compare", *names, "--json", cwd=days))
    assert (found["adjustment"], found["rejected"], found["sketches"]) == ("holm", True, names)
    assert len(found["comparisons"]) == 6
    different = {(c["first"], c["second"]) for c in found["comparisons"] if c["rejected"]}
    assert different == {("1.nysk", "3.nysk"), ("2.nysk", "3.nysk"), ("3.nysk", "4.nysk")}
    assert all(c["p_value_adjusted"] >= c["p_value"] for c in found["comparisons"])
    assert all(c["explanation"] is None for c in found["comparisons"])
    shown = run_cli("compare", *names, cwd=days).stdout
    assert "3 of 6 differences are significant at level 0.05, with Holm's adjustment" in shown
    assert shown.count("*") == 3 and shown.count("p ") >= 6


def test_each_with_a_reference(run_cli, days):
    names = ["2.nysk", "3.nysk", "4.nysk"]
    found = json_of(run_cli("compare", *names, "--reference", "1.nysk", "--json", "--adjust", "bh", cwd=days))
    assert [(c["first"], c["second"]) for c in found["comparisons"]] == [("1.nysk", name) for name in names]
    assert found["adjustment"] == "bh"
    one = json_of(run_cli("compare", "2.nysk", "--reference", "1.nysk", "--json", cwd=days))
    assert (one["first"], one["second"]) == ("1.nysk", "2.nysk")


def test_each_with_the_one_before(run_cli, days):
    names = [f"{i}.nysk" for i in range(1, 5)]
    result = run_cli("compare", *names, "--chain", "--explain", cwd=days)
    assert result.returncode == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [(line[0], line[2]) for line in lines[1:4]] == [
        ("1.nysk", "2.nysk"), ("2.nysk", "3.nysk"), ("3.nysk", "4.nysk")
    ]  # fmt: skip
    assert [("different" in line) for line in lines[1:4]] == [False, True, True]
    assert lines[2][-2:][0] == "b"  # the largest shift


def test_sorted_rows_are_warned_of(run_cli, days):
    result = run_cli("compare", "sorted.nysk", "2.nysk", "--json", cwd=days)
    found = json_of(result)
    assert found["blocks"] == "consecutive" and found["variance_ratios"][0]["ratio"] > 2
    assert "warning: sorted.nysk: rows depend on their neighbours or are sorted" in result.stderr
    again = json_of(run_cli("compare", "sorted.nysk", "2.nysk", "--json", "--blocks", "random", cwd=days))
    assert again["blocks"] == "random"


def test_rows_that_both_have_are_warned_of(run_cli, days, tmp_path):
    merged = tmp_path / "both.nysk"
    assert run_cli("merge", "1.nysk", "2.nysk", "-o", merged, cwd=days).returncode == 0
    result = run_cli("compare", "2.nysk", merged, cwd=days)
    assert result.returncode == 0 and "2.parquet is in 2.nysk and in" in result.stderr
    assert "is in" not in run_cli("compare", "1.nysk", "2.nysk", cwd=days).stderr


def test_robust_tells_which_blocks_were_left_out(run_cli, days):
    clean = json_of(run_cli("compare", "linear1.nysk", "linear2.nysk", "--json", cwd=days))
    plain = json_of(run_cli("compare", "linear3.nysk", "linear2.nysk", "--json", cwd=days))
    robust = json_of(run_cli("compare", "linear3.nysk", "linear2.nysk", "--robust", "64", "--json", cwd=days))
    assert plain["mmd"] > 100 * clean["mmd"]
    assert robust["mmd"] == pytest.approx(clean["mmd"], rel=0.3)
    assert 1 <= len(robust["robust"]["left_out"]["first"]) <= 8 and not robust["robust"]["overwhelmed"]
    shown = run_cli("compare", "linear3.nysk", "linear2.nysk", "--robust", "64", cwd=days).stdout
    assert "over 64 groups of all blocks" in shown and "blocks of linear3.nysk (" in shown
    assert "however far off" in shown and "1 % of them moves the MMD by up to" in shown
    auto = json_of(run_cli("compare", "linear3.nysk", "linear2.nysk", "--json", "--robust", cwd=days))
    assert auto["mmd"] == robust["mmd"] and auto["robust"]["tolerates"] == 31
    warned = run_cli("compare", "linear3.nysk", "linear2.nysk", "--robust", "5", cwd=days)
    assert warned.returncode == 0 and "warning: Outlying blocks" in warned.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["1.nysk"], 2, "at least two sketches"),
        (
            ["1.nysk", "alien.nysk"],
            4,
            "1.nysk and alien.nysk: the sketches have different bases: kernel gaussian",
        ),
        (["1.nysk", "basis.nysk"], 3, "basis.nysk: is a basis file; expected a sketch file"),
        (["1.nysk", "none.nysk"], 3, "none.nysk: cannot read"),
        (["1.nysk", "2.nysk", "--chain", "--reference", "3.nysk"], 2, "cannot be combined"),
        (["1.nysk", "2.nysk", "--alarm", "--test", "none"], 2, "--alarm needs a test"),
        (["--robust", "1.nysk", "2.nysk"], 2, "write --robust auto"),
        (["1.nysk", "2.nysk", "--robust", "2"], 2, "--robust"),
        (["1.nysk", "2.nysk", "--alpha", "0"], 2, "--alpha"),
        (["1.nysk", "2.nysk", "--alpha", "1e-4", "--permutations", "100"], 2, "Use more --permutations"),
        (["1.nysk", "2.nysk", "--permutations", "0"], 2, "--permutations"),
        (["1.nysk", "2.nysk", "--blocks", "64"], 2, "--blocks"),
        (
            ["1.parquet", "2.nysk"],
            3,
            "1.parquet: this is data, not a sketch. Run `nysketch sketch 1.parquet -o 1.nysk` first",
        ),
    ],
)
def test_what_cannot_be_compared(run_cli, days, arguments, code, words):
    assert words in refusal(run_cli("compare", *arguments, cwd=days), code)


def test_different_landmarks_with_the_same_kernel(run_cli, days, tmp_path):
    for name, seed in (("1", 1), ("3", 2)):
        result = run_cli(
            "sketch", days / f"{name}.parquet", "-m", "40", "--scale", "none", "--bandwidth", "80",
            "--seed", seed, "-o", tmp_path / f"{name}.nysk",
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
    found = run_cli("compare", "1.nysk", "3.nysk", "--json", cwd=tmp_path)
    report = json_of(found)
    assert report["test"] == "bootstrap" and report["allowance"] > 0
    assert "The landmarks differ" in found.stderr


@pytest.mark.slow
def test_learning_without_bad_rows(run_cli, tmp_path):
    random = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    rows = centres[random.integers(0, 3, 6000)] + random.normal(size=(6000, 2))
    rows[::1000] = 1e7
    pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1]}), tmp_path / "a.parquet")
    made = run_cli("sketch", "a.parquet", "-m", "100", "--scale", "robust", "-o", "a.nysk", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    learn = ["learn", "kmeans", "a.nysk", "-k", "3", "--json"]
    robust = run_cli(*learn, "--robust", "33", "-o", "robust.json", cwd=tmp_path)
    report = json_of(robust)
    assert report["robust"]["groups"] == 33 and not report["robust"]["overwhelmed"]
    assert report["certified_bound"] is None
    found = nysketch.load_model(tmp_path / "robust.json").centroids
    assert all(np.linalg.norm(found - centre, axis=1).min() < 0.5 for centre in centres)
    plain = json_of(run_cli(*learn, "-o", "plain.json", cwd=tmp_path))
    assert plain["robust"] is None
    assert np.abs(nysketch.load_model(tmp_path / "plain.json").centroids).max() > 1e6
    assert "cells" in refusal(
        run_cli(*learn, "--robust", "33", "--decoder", "cells", "-o", "c.json", cwd=tmp_path), 2
    )
