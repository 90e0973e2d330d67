"""`nysketch learn`, as a real process: what it writes, prints and refuses, and with which exit code."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch import learn_gmm, learn_kmeans
from nysketch.models.files import load_model
from tests import naive
from tests.learning.decode.examples import blobs, paired

QUICK = ["--decoder", "cells", "--trials", "2"]


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def refusal(result, code):
    """Check that a command failed properly, and return its message."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert "Traceback" not in result.stderr and "internal error" not in result.stderr
    return result.stderr


def success(result):
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def rows_of(number):
    """The rows of a file of the shelf, and the centres of their three clusters."""
    rows, centres = blobs(n=1000, seed=number)
    return rows * [1, 100], centres * [1, 100]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """Two Parquet files with three clusters, and their sketches at one basis; for reading only.

    `ab` is of both, `alien` has another basis, `bare` neither cells nor a sample, `broken` is damaged.
    """
    folder = tmp_path_factory.mktemp("clusters")
    for number, name in enumerate("ab"):
        rows, _ = rows_of(number)
        columns = {"x": rows[:, 0], "y": rows[:, 1], "w": np.ones(1000)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=300)
    a, b = (str(folder / f"{name}.parquet") for name in "ab")
    options = {"columns": ["x", "y"], "threads": 1}
    first = nysketch.sketch(a, landmarks=40, **options)
    second = nysketch.sketch(b, basis=first.basis, threads=1)
    for name, made in {
        "a": first,
        "b": second,
        "ab": first + second,
        "alien": nysketch.sketch(b, landmarks=10, **options),
        "bare": nysketch.sketch(a, basis=first.basis, threads=1, cells=False, sample_rows=0),
    }.items():
        nysketch.save(made, folder / f"{name}.nysk")
    content = bytearray((folder / "a.nysk").read_bytes())
    content[-100] ^= 1
    (folder / "broken.nysk").write_bytes(content)
    return folder


# ---- models ----------------------------------------------------------------------------------------


def test_centroids_as_json(run_cli, clusters, tmp_path):
    output = tmp_path / "model.json"
    printed = success(run_cli("learn", "kmeans", "a.nysk", "-k", "3", "-o", output, cwd=clusters))
    assert "3 centroids of 2 features from 1,000 rows" in printed and "certified bound" in printed
    rows, centres = rows_of(0)
    model = json.loads(output.read_text())
    assert (model["kind"], model["columns"], model["schema_version"]) == ("kmeans", ["x", "y"], 1)
    centroids = np.array(model["centroids"])
    assert centroids.shape == (3, 2) and paired(centroids / [1, 100], centres / [1, 100]) < 0.3
    assert np.isclose(sum(model["shares"]), 1) and len(model["shares"]) == 3
    true = naive.mean_squared_distance(rows, centroids, scale=np.array(model["scale"]))
    assert model["certified_bound"] >= true and model["rows"] == 1000 and model["seed"] == 0
    assert model["mean_squared_distance"] == pytest.approx(true, rel=0.05)
    assert listing(tmp_path) == ["model.json"]


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_mixtures_as_json(run_cli, clusters, tmp_path, covariance):
    command = ["learn", "gmm", "a.nysk", "-k", "3", "-o", tmp_path / "model.json"]
    if covariance != "diag":  # which is the default
        command += ["--covariance", covariance]
    report = json.loads(success(run_cli(*command, "--json", cwd=clusters)))
    model = json.loads((tmp_path / "model.json").read_text())
    assert (model["kind"], model["columns"], model["covariance_type"]) == ("gmm", ["x", "y"], covariance)
    assert len(model["weights"]) == 3 and np.isclose(sum(model["weights"]), 1)
    assert np.array(model["means"]).shape == (3, 2)
    shape = (3, 2, 2) if covariance == "full" else (3, 2)
    assert np.array(model["covariances"]).shape == shape
    assert (report["kind"], report["k"], report["output"]) == ("gmm", 3, str(tmp_path / "model.json"))
    assert report["mean_log_likelihood"] == model["mean_log_likelihood"]
    assert report["sweep"] is None and report["bytes"] == (tmp_path / "model.json").stat().st_size


@pytest.mark.parametrize(("output", "options"), [("model.parquet", []), ("model.dat", ["--to", "npz"])])
def test_other_formats_by_suffix_or_by_name(run_cli, clusters, tmp_path, output, options):
    command = ["learn", "gmm", "a.nysk", "-k", "3", *QUICK, *options, "-o", tmp_path / output]
    printed = success(run_cli(*command, cwd=clusters))
    assert "3 diag Gaussians of 2 features" in printed and "nats per row, measured on sampled rows" in printed
    assert (tmp_path / output).read_bytes().startswith(b"PK" if options else b"PAR1")
    model = load_model(tmp_path / output)
    assert (model.kind, model.k, model.covariance_type) == ("gmm", 3, "diag")
    if not options:
        names = pq.read_table(tmp_path / output).column_names
        assert names == ["weight", "x", "y", "var:x", "var:y"]


def test_an_unknown_suffix_is_refused_before_anything_is_learned(run_cli, clusters, tmp_path):
    result = run_cli("learn", "kmeans", "a.nysk", "-k", "3", "-o", tmp_path / "model.txt", cwd=clusters)
    assert "end it in .json, .parquet or .npz" in refusal(result, 2)
    assert listing(tmp_path) == []


# ---- several k, several sketches -------------------------------------------------------------------


def test_a_range_prints_a_table_and_keeps_the_best(run_cli, clusters, tmp_path):
    command = ["learn", "kmeans", "ab.nysk", "-k", "2:6", *QUICK, "-o", tmp_path / "model.json"]
    printed = success(run_cli(*command, cwd=clusters)).splitlines()
    assert "calinski harabasz" in printed[0]
    assert [line.split()[0] for line in printed[1:6]] == ["2", "3", "4", "5", "6"]
    marked = [line for line in printed if line.rstrip().endswith("best")]
    assert len(marked) == 1 and marked[0].split()[0] == "3"
    assert "3 centroids" in printed[6]
    assert load_model(tmp_path / "model.json").k == 3


def test_a_range_as_json(run_cli, clusters, tmp_path):
    command = ["learn", "gmm", "ab.nysk", "-k", "2:6", *QUICK, "-o", tmp_path / "model.json", "--json"]
    report = json.loads(success(run_cli(*command, cwd=clusters)))
    assert (report["k"], report["criterion"]) == (3, "bic")
    assert [entry["k"] for entry in report["sweep"]] == [2, 3, 4, 5, 6]
    assert all(np.isfinite(entry["bic"]) for entry in report["sweep"])
    model = load_model(tmp_path / "model.json")
    assert model.k == 3 and model.facts["sweep"] == report["sweep"]


def test_several_sketches_are_merged_first(run_cli, clusters, tmp_path):
    command = ["learn", "kmeans", "b.nysk", "a.nysk", "-k", "3", *QUICK, "-o", tmp_path / "model.json"]
    success(run_cli(*command, cwd=clusters))
    model = load_model(tmp_path / "model.json")
    expected = learn_kmeans(nysketch.load(clusters / "ab.nysk"), 3, decoder="cells", trials=2)
    assert model.describe() == expected.describe() and model.facts["rows"] == 2000


@pytest.mark.parametrize(
    ("sketches", "code", "message"),
    [
        (["a.nysk", "ab.nysk"], 4, "counted twice"),
        (["a.nysk", "alien.nysk"], 4, "different bases"),
        (["a.nysk", "broken.nysk"], 5, "broken.nysk"),
        (["missing.nysk"], 3, "missing.nysk"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_sketches_that_cannot_be_used_leave_no_output(run_cli, clusters, tmp_path, sketches, code, message):
    result = run_cli("learn", "kmeans", *sketches, "-k", "3", "-o", tmp_path / "model.json", cwd=clusters)
    assert message in refusal(result, code)
    assert listing(tmp_path) == []


# ---- requests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "0"], "'0' is neither a number"),
        (["-k", "5:2"], "'5:2' is neither a number"),
        (["-k", "x"], "'x' is neither a number"),
        (["-k", "2:"], "'2:' is neither a number"),
        (["-k", "-3"], "'-3' is neither a number"),
        ([], "Missing option '-k'"),
        (["-k", "3", "--decoder", "magic"], "'magic'"),
        (["-k", "3", "--trials", "0"], "--trials"),
        (["-k", "3", "--seed", "-1"], "--seed"),
        (["-k", "3", "--refine", "2"], "--refine needs --data"),
        (["-k", "3", "--data", "a.parquet"], "--data needs --refine"),
        (["-k", "5000"], "-k 5000 exceeds"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_exits_with_2_and_writes_nothing(run_cli, clusters, tmp_path, arguments, message):
    command = ["learn", "kmeans", "a.nysk", *arguments, "-o", tmp_path / "model.json"]
    assert message in refusal(run_cli(*command, cwd=clusters), 2)
    assert listing(tmp_path) == []


def test_a_model_of_sums_alone_says_that_it_judges_itself(run_cli, clusters, tmp_path):
    command = ["learn", "kmeans", "bare.nysk", "-k", "3", "--trials", "2", "-o", tmp_path / "model.json"]
    printed = success(run_cli(*command, cwd=clusters))
    assert "neither cells nor a sample" in printed and "certified bound" in printed
    assert load_model(tmp_path / "model.json").facts["certified_bound"] is None


def test_an_existing_output_is_kept_unless_told_otherwise(run_cli, clusters, tmp_path):
    output = tmp_path / "model.json"
    output.write_text("something else")
    command = ["learn", "kmeans", "a.nysk", "-k", "3", *QUICK, "-o", output]
    assert "exists already; replace it with --if-exists overwrite" in refusal(
        run_cli(*command, cwd=clusters), 1
    )
    assert output.read_text() == "something else"
    success(run_cli(*command, "--if-exists", "overwrite", cwd=clusters))
    assert load_model(output).k == 3 and listing(tmp_path) == ["model.json"]


def test_a_sketch_is_not_overwritten_by_its_model(run_cli, clusters, tmp_path):
    content = (clusters / "a.nysk").read_bytes()
    (tmp_path / "a.nysk").write_bytes(content)
    command = [
        "learn",
        "kmeans",
        "a.nysk",
        "-k",
        "3",
        "--to",
        "json",
        "-o",
        "a.nysk",
        "--if-exists",
        "overwrite",
    ]
    assert "is an input" in refusal(run_cli(*command, cwd=tmp_path), 2)
    assert (tmp_path / "a.nysk").read_bytes() == content


def test_the_same_seed_gives_the_same_bytes(run_cli, clusters, tmp_path):
    outputs = {}
    for name, options, variables in (
        ("first", ["--seed", "5"], {}),
        ("variable", [], {"NYSKETCH_LEARN_KMEANS_SEED": "5", "NYSKETCH_LEARN_GMM_SEED": "6"}),
    ):
        command = ["learn", "kmeans", "a.nysk", "-k", "5", "--decoder", "cells", *options, "-q", "-o"]
        assert success(run_cli(*command, tmp_path / f"{name}.json", cwd=clusters, env=variables)) == ""
        outputs[name] = (tmp_path / f"{name}.json").read_bytes()
    assert outputs["first"] == outputs["variable"]
    assert json.loads(outputs["first"])["seed"] == 5


def test_settings_come_from_the_table_of_the_command(run_cli, clusters, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text(
        '[learn.kmeans]\nk = 4\ndecoder = "cells"\ntrials = 2\nseed = 9\n\n[learn.gmm]\nseed = 1\n'
    )
    command = ["--config", config, "learn", "kmeans", "a.nysk", "-o"]
    success(run_cli(*command, tmp_path / "model.json", "--seed", "3", cwd=clusters))
    model = load_model(tmp_path / "model.json")
    assert (model.k, model.facts["seed"]) == (4, 3)
    assert [entry["decoder"] for entry in model.facts["candidates"]] == ["cells"]
    for text, message in (
        ("[learn.kmeans]\nlandmarks = 3\n", "[learn.kmeans] has no option 'landmarks'"),
        ("[learn.medians]\nk = 3\n", "[learn] has no option 'medians'"),
    ):
        config.write_text(text)
        assert message in refusal(run_cli(*command, tmp_path / "x.json", cwd=clusters), 2)


# ---- refining --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["kmeans", "gmm"])
def test_refining_on_the_data_makes_the_model_better(run_cli, clusters, tmp_path, kind):
    # Seven clusters where there are three: a few landmarks cannot know where to put them.
    learn = learn_kmeans if kind == "kmeans" else learn_gmm
    before = learn(nysketch.load(clusters / "alien.nysk"), 7, trials=2)
    command = ["learn", kind, "alien.nysk", "-k", "7", "--trials", "2", "-o", tmp_path / "model.json"]
    refine = ["--refine", "3", "--data", "b.parquet", "--json"]
    report = json.loads(success(run_cli(*command, *refine, cwd=clusters)))
    after = load_model(tmp_path / "model.json")
    rows, _ = rows_of(1)
    assert after.costs(rows).mean() < before.costs(rows).mean()
    assert report["judged_by"] == "data" and 1 <= report["refined_passes"] <= 3
    if kind == "kmeans":
        assert report["mean_squared_distance"] == pytest.approx(after.costs(rows).mean(), rel=0.02)
        assert report["certified_bound"] >= after.costs(rows).mean()
    else:
        assert report["certified_log_likelihood"] is None


def test_rows_that_cannot_be_refined_on(run_cli, clusters, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing")
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "narrow.parquet")
    command = ["learn", "kmeans", "a.nysk", "-k", "3", *QUICK, "--refine", "1", "-o", tmp_path / "model.json"]
    assert "missing.parquet" in refusal(run_cli(*command, "--data", "missing.parquet", cwd=clusters), 3)
    result = run_cli(*command, "--data", tmp_path / "narrow.parquet", cwd=clusters)
    assert "no column 'y'" in refusal(result, 3)
    assert listing(tmp_path) == ["bad.parquet", "narrow.parquet"]
    both = ["--data", "a.parquet", "--data", tmp_path / "bad.parquet", "--skip-unreadable", "--json"]
    result = run_cli(*command, *both, cwd=clusters)
    assert result.returncode == 6 and "skipped" in result.stderr and "bad.parquet" in result.stderr
    assert "bad.parquet" in json.loads(result.stdout)["skipped_inputs"][0]
    assert load_model(tmp_path / "model.json").k == 3


# ---- help ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["learn"], ["learn", "kmeans"], ["learn", "gmm"]], ids=" ".join)
def test_help_works_and_ends_with_an_example(run_cli, command):
    short, long = (success(run_cli(*command, flag)) for flag in ("-h", "--help"))
    assert short == long
    assert long.rstrip().splitlines()[-1].startswith("  Example: nysketch learn ")


def test_an_unknown_kind_of_model_is_refused(run_cli, clusters):
    assert "No such command 'medians'" in refusal(run_cli("learn", "medians", "a.nysk", cwd=clusters), 2)
