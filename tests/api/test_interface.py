"""Each function of the Python interface does what its command does, to the last bit."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import (
    IncompatibleError,
    NysketchWarning,
    OutputError,
    UsageError,
    WrongKindError,
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Two tables, their sketches at one basis, and a model."""
    folder = tmp_path_factory.mktemp("shelf")
    random = np.random.default_rng(0)
    for name, shift in (("a", 0.0), ("b", 0.5)):
        centres = np.array([[-4.0, 0], [4, 0], [0, 6]])[random.integers(3, size=900)]
        rows = centres + random.normal(size=(900, 2)) + shift
        table = pa.table({"x": rows[:, 0], "y": rows[:, 1], "id": [f"{name}{i}" for i in range(900)]})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=300)
    basis = nysketch.Basis.fit(folder / "a.parquet", columns=["x", "y"], landmarks=40, scale="none")
    nysketch.save(basis, folder / "basis.nysk")
    for name in "ab":
        made = nysketch.sketch(folder / f"{name}.parquet", basis=basis)
        nysketch.save(made, folder / f"{name}.nysk")
    nysketch.save_model(nysketch.learn_kmeans(nysketch.load(folder / "a.nysk"), 3), folder / "model.json")
    return folder


@pytest.fixture
def pair(shelf):
    return nysketch.load(shelf / "a.nysk"), nysketch.load(shelf / "b.nysk")


def bits(sketch):
    return nysketch.to_bytes(sketch)


# ---- sketch ---------------------------------------------------------------------------------------


def test_a_sketch_into_a_file_is_that_of_the_command(shelf, tmp_path, run_cli):
    options = ["--basis", shelf / "basis.nysk", "-o", tmp_path / "command.nysk"]
    assert run_cli("sketch", shelf / "a.parquet", *options).returncode == 0
    made = nysketch.sketch(
        str(shelf / "a.parquet"), basis=shelf / "basis.nysk", output=tmp_path / "python.nysk", memory="1GB"
    )
    assert (tmp_path / "python.nysk").read_bytes() == (tmp_path / "command.nysk").read_bytes() == bits(made)


def test_an_output_that_exists_is_kept(shelf, tmp_path):
    options = {"basis": shelf / "basis.nysk", "output": tmp_path / "s.nysk"}
    first = nysketch.sketch(shelf / "a.parquet", **options)
    with pytest.raises(OutputError, match="exists") as caught:
        nysketch.sketch(shelf / "b.parquet", **options)
    assert "if_exists" in caught.value.options
    assert bits(nysketch.sketch(shelf / "a.parquet", if_exists="skip", **options)) == bits(first)
    other = nysketch.sketch(shelf / "b.parquet", if_exists="overwrite", **options)
    assert bits(nysketch.load(tmp_path / "s.nysk")) == bits(other) != bits(first)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"if_exists": "skip"}, "are for an `output`"),
        ({"restart": True}, "are for an `output`"),
        ({"memory": "much"}, "`memory`: 'much' is not a size"),
        ({"memory": "1MB"}, "Allow more with `memory`"),
        ({"landmarks": "some"}, "`landmarks`"),
        ({"scale": "log"}, "`scale` must be one of"),
        ({"permutations": -1}, "`permutations`"),
        ({"spans": -1}, "`spans`"),
        ({"exclude": ["x", "y", "id"]}, "columns"),
    ],
)
def test_wrong_options_are_refused_by_their_names_in_python(shelf, options, says):
    with pytest.raises(nysketch.NysketchError, match=says) as caught:
        nysketch.sketch(shelf / "a.parquet", **options)
    assert " --" not in str(caught.value)


def test_a_basis_excludes_how_to_make_one(shelf):
    with pytest.raises(UsageError, match="the basis determines landmarks"):
        nysketch.sketch(shelf / "a.parquet", basis=shelf / "basis.nysk", landmarks=10)


# ---- files ----------------------------------------------------------------------------------------


def test_sums_are_those_of_the_command_whatever_they_are_made_of(shelf, pair, tmp_path, run_cli):
    files = [shelf / "a.nysk", shelf / "b.nysk"]
    assert run_cli("merge", *files, "-o", tmp_path / "command.nysk").returncode == 0
    expected = (tmp_path / "command.nysk").read_bytes()
    made = nysketch.merge(files, output=tmp_path / "python.nysk")
    assert (tmp_path / "python.nysk").read_bytes() == expected == bits(made)
    assert bits(nysketch.merge(pair)) == bits(nysketch.merge(str(shelf / "?.nysk"))) == expected
    assert bits(nysketch.merge([pair[0], shelf / "b.nysk"])) == expected
    rest = nysketch.subtract(made, shelf / "b.nysk")
    assert (rest.kernel_sums == pair[0].kernel_sums).all() and rest.rows == pair[0].rows
    assert bits(nysketch.subtract(tmp_path / "python.nysk", [pair[1]])) == bits(rest)


def test_rows_are_not_counted_twice_unless_that_is_meant(pair):
    with pytest.raises(IncompatibleError, match=r"sketch 2: .* counted twice.*`force=True`"):
        nysketch.merge([pair[0], nysketch.from_bytes(bits(pair[0]))])
    with pytest.warns(NysketchWarning, match="counted twice"):
        assert nysketch.merge([pair[0], pair[0]], force=True).rows == 1800
    with pytest.raises(IncompatibleError, match="`force=True`"):
        nysketch.subtract(pair[0], pair[1])


def test_missing_parts_are_named(shelf):
    parts = [nysketch.sketch(shelf / "a.parquet", basis=shelf / "basis.nysk", part=f"{i}/3") for i in (1, 3)]
    with pytest.raises(IncompatibleError, match=r"part 2 of 3 .* is missing .*`partial=True`"):
        nysketch.merge(parts)
    with pytest.warns(NysketchWarning, match="part 2 of 3 of .* is missing"):
        assert nysketch.merge(parts, partial=True).rows == 600


def test_nothing_is_no_sketch():
    with pytest.raises(UsageError, match="no sketches were given"):
        nysketch.merge([])


def test_facts_are_those_that_the_command_prints(shelf, pair, run_cli):
    printed = json.loads(run_cli("info", "a.nysk", "--against", "b.nysk", "--json", cwd=shelf).stdout)
    found = nysketch.info(shelf / "a.nysk", against=shelf / "b.nysk")
    assert json.loads(json.dumps(found))["rows"] == printed["rows"] == 900
    assert {*found, "schema_version"} == {*printed}
    assert nysketch.info(pair[0])["kernel_text"] == printed["kernel_text"]
    with pytest.raises(UsageError, match="`against`"):
        nysketch.info(pair[0].basis, against=pair[1])


def test_files_are_verified_one_by_one(shelf, tmp_path):
    (tmp_path / "bad.nysk").write_bytes((shelf / "a.nysk").read_bytes()[:-1])
    good, bad = nysketch.verify([shelf / "a.nysk", tmp_path / "bad.nysk"])
    assert good["ok"] and good["basis_digest"] == nysketch.load(shelf / "basis.nysk").digest
    assert not bad["ok"] and "bad.nysk" in bad["error"]


def test_exports_are_those_of_the_command(shelf, pair, tmp_path, run_cli):
    assert run_cli("export", shelf / "a.nysk", "-o", tmp_path / "command.json").returncode == 0
    nysketch.export(shelf / "a.nysk", tmp_path / "file.json")
    nysketch.export(pair[0], tmp_path / "memory.dat", format="json")
    texts = {(tmp_path / name).read_text() for name in ("command.json", "file.json", "memory.dat")}
    assert len(texts) == 1
    with pytest.raises(OutputError, match="exists"):
        nysketch.export(pair[0], tmp_path / "file.json")


# ---- models ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_are_those_of_the_command(shelf, pair, tmp_path, run_cli):
    command = ["learn", "kmeans", shelf / "a.nysk", shelf / "b.nysk", "-k", "2:4", "-o", tmp_path / "m.json"]
    assert run_cli(*command, "--refine", 1, "--data", shelf / "?.parquet").returncode == 0
    expected = nysketch.load_model(tmp_path / "m.json")
    made = nysketch.learn_kmeans(pair, range(2, 5), refine=1, data=str(shelf / "?.parquet"))
    assert (made.centroids == expected.centroids).all()
    assert made.facts["certified_bound"] == expected.facts["certified_bound"]
    assert [one["k"] for one in made.facts["sweep"]] == [2, 3, 4]
    mixture = nysketch.learn_gmm(shelf / "?.nysk", 3, covariance="full")
    assert mixture.k == 3 and mixture.covariances.shape == (3, 2, 2)


def test_refining_takes_data_and_passes(pair, shelf):
    for wrong in ({"refine": 1}, {"data": shelf / "a.parquet"}):
        with pytest.raises(UsageError, match=r"`refine`.*`data`"):
            nysketch.learn_kmeans(pair[0], 2, **wrong)


def test_labels_are_those_of_the_command(shelf, tmp_path, run_cli):
    arguments = ["assign", shelf / "model.json", shelf / "a.parquet", "--keep", "id", "--distances"]
    assert run_cli(*arguments, "-o", tmp_path / "command.parquet").returncode == 0
    expected = pq.read_table(tmp_path / "command.parquet")
    options = {"keep": ["id"], "distances": True}
    found = nysketch.assign(shelf / "model.json", shelf / "a.parquet", **options)
    assert found.combine_chunks().equals(expected.combine_chunks())
    done = nysketch.assign(
        shelf / "model.json", shelf / "a.parquet", output=tmp_path / "python.parquet", memory="1GB", **options
    )
    assert done.rows == 900 and pq.read_table(tmp_path / "python.parquet").equals(expected)
    reordered = pq.read_table(shelf / "a.parquet").select(["id", "y", "x"])
    model = nysketch.load_model(shelf / "model.json")
    assert nysketch.assign(model, reordered)["label"].to_pylist() == expected["label"].to_pylist()
    with pytest.raises(UsageError, match="are for an `output`"):
        nysketch.assign(model, reordered, if_exists="overwrite")


def test_scores_are_those_of_the_command(shelf, run_cli):
    printed = json.loads(run_cli("score", "model.json", "b.parquet", "--json", cwd=shelf).stdout)
    found = nysketch.score(shelf / "model.json", pq.read_table(shelf / "b.parquet"))
    assert found.mean_cost == pytest.approx(printed["mean_squared_distance"], rel=1e-12)
    assert (found.rows, found.standard_error) == (900, pytest.approx(printed["mean_squared_distance_se"]))


# ---- tests ----------------------------------------------------------------------------------------


def test_comparisons_are_those_of_the_command(shelf, pair, run_cli):
    printed = json.loads(run_cli("compare", "a.nysk", "b.nysk", "--json", cwd=shelf).stdout)
    for found in (nysketch.compare(*pair), nysketch.compare(shelf / "a.nysk", shelf / "b.nysk")):
        assert (found.mmd, found.p_value) == (printed["mmd"], printed["p_value"])
        assert found.standard_error == printed["standard_error"]
    assert nysketch.compare(*pair).names == ("first", "second")
    assert nysketch.compare(shelf / "a.nysk", pair[1]).names == (str(shelf / "a.nysk"), "second")


def test_many_comparisons_are_adjusted(pair, shelf):
    three = {"a": pair[0], "b": shelf / "b.nysk", "again": pair[0]}
    pairs = [("a", "b"), ("a", "again"), ("b", "again")]
    found = nysketch.compare_all(three)
    assert [one.names for one in found.found] == pairs
    assert [one.names for one in nysketch.compare_all(three, chain=True).found] == [pairs[0], pairs[2]]
    against = nysketch.compare_all(three, reference="b")
    assert [one.names for one in against.found] == [("b", "a"), ("b", "again")]
    assert all(one.p_value_adjusted >= one.p_value for one in found.found)
    for wrong in ({"reference": "c"}, {"reference": 3}, {"reference": 0, "chain": True}):
        with pytest.raises(UsageError, match="`reference`"):
            nysketch.compare_all(three, **wrong)
    with pytest.raises(UsageError, match="two sketches or more"):
        nysketch.compare_all([pair[0]])


def test_independence_is_tested_from_a_file_too(shelf, tmp_path):
    groups = {"p": ["x"], "q": ["y"]}
    nysketch.sketch(shelf / "a.parquet", groups=groups, landmarks=50, output=tmp_path / "g.nysk")
    found = nysketch.independence(tmp_path / "g.nysk", permutations=199)
    assert found.p_value <= 0.05 and found.verdict.permutations == 199


# ---- pictures and stores --------------------------------------------------------------------------


def test_pictures_are_those_of_the_command(shelf, pair, tmp_path, run_cli):
    for what, options in (("a.nysk", ["--model", "model.json"]), ("model.json", [])):
        output = tmp_path / f"{what}.svg"
        assert run_cli("plot", what, *options, "-o", output, cwd=shelf).returncode == 0
        model = shelf / "model.json" if options else None
        picture = nysketch.plot(shelf / what, tmp_path / f"python.{what}.svg", model=model)
        assert output.read_text() == picture._repr_svg_() == (tmp_path / f"python.{what}.svg").read_text()
    several = nysketch.plot(pair)
    assert "sketch 1" in several._repr_svg_() and repr(several).startswith("<Picture: ")
    with pytest.raises(UsageError, match="`model` and `columns` apply to one sketch"):
        nysketch.plot(pair, columns=["x", "y"])


def test_a_job_runs_and_its_store_is_described(shelf, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        f'[job]\nstore = "store"\n[inputs]\npaths = "{shelf}/?.parquet"\ncolumns = ["x", "y"]\n'
        "[basis]\nlandmarks = 20\n"
    )
    done = nysketch.run(job, dry_run=True)
    assert done.new and not (tmp_path / "store" / "store.json").exists()
    done = nysketch.run(job, set={"basis.landmarks": 15})
    assert done.exit_code == 0 and len(done.new) == 2
    assert nysketch.status(tmp_path / "store")["rows"] == 1800
    report = nysketch.write_report(tmp_path / "store", tmp_path / "report.html")
    assert report.rows == 1800 and (tmp_path / "report.html").stat().st_size == report.bytes
    with pytest.raises(OutputError, match="exists"):
        nysketch.write_report(tmp_path / "store", tmp_path / "report.html", if_exists="fail")


def test_files_of_something_else_are_called_so(shelf):
    with pytest.raises(WrongKindError, match=r"this is data.*`nysketch\.sketch\(.*output="):
        nysketch.compare(shelf / "a.parquet", shelf / "b.nysk")
    with pytest.raises(WrongKindError, match=r"this is a model, not a sketch"):
        nysketch.merge([shelf / "a.nysk", shelf / "model.json"])
    with pytest.raises(WrongKindError, match=r"this is a sketch or a basis, not a model.*learn_kmeans"):
        nysketch.load_model(shelf / "a.nysk")
    with pytest.raises(WrongKindError, match=r"this is a sketch or a basis, not data"):
        nysketch.sketch(shelf / "a.nysk", landmarks=5)


def test_data_where_sketches_are_expected_are_called_so(shelf, pair):
    table = pq.read_table(shelf / "a.parquet")
    for call in (
        lambda: nysketch.compare(table, table),
        lambda: nysketch.learn_kmeans(table.to_pandas(), 3),
        lambda: nysketch.merge([pair[0], table]),
    ):
        with pytest.raises(UsageError, match=r"is data\. Sketch it first: `nysketch\.sketch`"):
            call()
    with pytest.raises(UsageError, match="is a basis, without rows"):
        nysketch.merge([pair[0].basis])


def test_a_sketch_of_a_table_in_memory_is_not_added_to_itself(shelf):
    made = nysketch.sketch(pq.read_table(shelf / "a.parquet", columns=["x", "y"]), landmarks=10)
    with pytest.raises(IncompatibleError, match=r"sketch 2 is sketch 1.*`force=True`"):
        nysketch.merge([made, made])
    assert nysketch.merge([made, made], force=True).rows == 1800


def test_rows_without_a_label_are_told(shelf):
    table = pa.table({"x": [0.0, None, 1.0], "y": [1.0, 2.0, 3.0]})
    with pytest.warns(NysketchWarning, match="1 of 3 rows have no label"):
        found = nysketch.assign(shelf / "model.json", table, nulls="drop")
    assert found["label"].null_count == 1


def test_numbers_of_clusters_are_no_text(pair):
    with pytest.raises(
        UsageError, match=r"`k` must be a number, or several such as range\(2, 21\), not '2:5'"
    ):
        nysketch.learn_kmeans(pair[0], "2:5")
