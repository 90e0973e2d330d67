"""Labels and scores of rows: aligned with their rows, whatever the files, formats, threads and nulls."""

import csv
import decimal
import json
import math
import os
import signal
import threading
import time
from contextlib import closing

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from nysketch.columns import Column
from nysketch.engines.threads import Threads, run_in_order
from nysketch.errors import InputError, OutputError, SchemaError, UsageError
from nysketch.models import apply
from nysketch.models.apply import assign, assign_to_file
from nysketch.models.files import save_model
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel
from nysketch.models.score import score
from nysketch.sources.open import open_source
from tests.cli.test_commands import listing, refusal
from tests.disturbances import PATIENCE, endless, wait_for
from tests.models.test_models import TYPES, mixture_model

KMEANS = KMeansModel(
    columns=(Column("x"), Column("y")),
    centroids=np.array([[-2.0, 0.0], [0.0, 1.0], [3.0, -1.0]]),
    scale=np.array([1.0, 2.0]),
    shares=np.array([0.5, 0.25, 0.25]),
    facts={"certified_bound": 1.5},
)
MIXTURE = MixtureModel(
    columns=(Column("y"), Column("x")),
    weights=np.array([0.5, 0.25, 0.25]),
    means=np.array([[-2.0, 0.0], [0.0, 1.0], [3.0, -1.0]]),
    covariances=np.array([[1.0, 2.0], [0.5, 0.5], [2.0, 1.0]]),
    covariance_type="diag",
    scale=np.ones(2),
)


def rows_of(table, model):
    return np.column_stack([np.asarray(table[column.name], float) for column in model.columns])


def naive_labels(model, rows):
    return (((rows[:, None] - model.centroids) / model.scale) ** 2).sum(axis=2).argmin(axis=1)


def table_of(rows, seed=0):
    """Rows with columns of many types, more than a model needs."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows) + 2**60,
            "name": [f"row {i}, of {seed}" if i % 7 else None for i in range(rows)],
            "x": random.normal(0, 2, rows),
            "when": pa.array(np.arange(rows), pa.timestamp("ms")),
            "w": random.uniform(0.5, 2, rows),
            "kind": pa.array([f"kind {i % 3}" for i in range(rows)]).dictionary_encode(),
            "price": pa.array([decimal.Decimal(i) / 4 for i in range(rows)], pa.decimal128(12, 2)),
            "tags": [[str(j) for j in range(i % 3)] for i in range(rows)],
            "y": random.normal(0, 2, rows),
        }
    )


@pytest.fixture
def folder(tmp_path):
    """Three Parquet files of several row groups each, and the models."""
    for seed, rows in enumerate((700, 33, 1500)):
        pq.write_table(table_of(rows, seed), tmp_path / f"part-{seed}.parquet", row_group_size=170)
    save_model(KMEANS, tmp_path / "kmeans.json")
    save_model(MIXTURE, tmp_path / "gmm.npz")
    return tmp_path


def whole(folder):
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("part-*.parquet")))


# ---- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 4])
def test_labels_are_aligned_with_the_rows_of_all_files(run_cli, folder, threads):
    command = ["assign", "kmeans.json", "part-*.parquet", "-o", "labels.parquet", "--threads", threads]
    result = run_cli(*command, "--keep", "id,name", "--distances", "--json", cwd=folder)
    assert result.returncode == 0, result.stderr
    table, labels = whole(folder), pq.read_table(folder / "labels.parquet")
    assert labels.schema.names == ["id", "name", "label", "distance"]
    assert labels.schema.field("label").type == pa.int32()
    assert labels["id"].equals(table["id"]) and labels["name"].equals(table["name"])
    rows = rows_of(table, KMEANS)
    assert np.array_equal(labels["label"], naive_labels(KMEANS, rows))
    nearest = KMEANS.centroids[labels["label"].to_numpy()]
    assert np.allclose(labels["distance"], np.linalg.norm((rows - nearest) / KMEANS.scale, axis=1))
    report = json.loads(result.stdout)
    assert (report["rows"], report["unlabelled_rows"]) == (2233, 0)
    assert report["label_rows"] == np.bincount(labels["label"]).tolist()
    assert report["bytes"] == (folder / "labels.parquet").stat().st_size
    assert "labels.parquet" not in listing(folder)[0] and not [n for n in listing(folder) if n[0] == "."]


def test_mixtures_write_responsibilities_unless_told_otherwise(run_cli, folder):
    table = whole(folder)
    rows = rows_of(table, MIXTURE)
    assert run_cli("assign", "gmm.npz", "part-*.parquet", "-o", "p.parquet", cwd=folder).returncode == 0
    labels = pq.read_table(folder / "p.parquet")
    assert labels.schema.names == ["label", "p0", "p1", "p2"]
    shares = np.column_stack([labels[f"p{j}"] for j in range(3)])
    assert shares.dtype == np.float32
    assert np.allclose(shares, MIXTURE.responsibilities(rows), atol=1e-6)
    assert np.array_equal(labels["label"], MIXTURE.labels(rows))
    command = ["assign", "gmm.npz", "part-*.parquet", "-o", "l.parquet", "--no-responsibilities"]
    assert run_cli(*command, cwd=folder).returncode == 0
    assert pq.read_table(folder / "l.parquet").equals(labels.select(["label"]))


def test_the_bytes_do_not_depend_on_threads(folder, monkeypatch):
    monkeypatch.setattr(apply, "_GROUP_BYTES", 5000)
    written = set()
    for threads in (1, 2, 5):
        source = open_source(folder / "part-*.parquet", like=MIXTURE.columns, keep=["name", "tags"])
        assign_to_file(MIXTURE, source, folder / "out.parquet", engine=Threads(threads), overwrite=True)
        written.add((folder / "out.parquet").read_bytes())
    assert len(written) == 1
    assert pq.ParquetFile(folder / "out.parquet").metadata.num_row_groups > 3


def test_rows_with_nulls_keep_their_place_without_a_label(run_cli, folder):
    table = table_of(400)
    x, y = table["x"].to_numpy().copy(), table["y"].to_numpy().copy()
    x[[3, 170]], y[200:210], y[399] = np.nan, np.inf, np.nan
    holes = pa.array(np.arange(400) == 7)
    table = table.set_column(2, "x", pa.array(x)).set_column(8, "y", pa.array(y, mask=np.asarray(holes)))
    pq.write_table(table, folder / "holes.parquet", row_group_size=90)
    command = ["assign", "gmm.npz", "holes.parquet", "--keep", "id", "-o", "out.parquet"]
    message = refusal(run_cli(*command, cwd=folder), 3)
    assert "holes.parquet, row group 0" in message and "--nulls drop" in message
    assert "out.parquet" not in listing(folder)
    result = run_cli(*command, "--nulls", "drop", "--json", cwd=folder)
    assert json.loads(result.stdout)["unlabelled_rows"] == 14
    labels = pq.read_table(folder / "out.parquet")
    assert labels["id"].equals(table["id"])
    missing = np.isin(np.arange(400), [3, 7, 170, *range(200, 210), 399])
    for name in ("label", "p0", "p2"):
        assert np.array_equal(labels[name].is_null(), missing)
    rows = np.column_stack([y, x])[~missing]
    assert np.array_equal(labels["label"].drop_null(), MIXTURE.labels(rows))
    shown = run_cli(*command, "--nulls", "drop", "--if-exists", "overwrite", cwd=folder).stdout
    assert "400 rows, 14 of them without a label" in shown


KEPT = ["kind", "id", "when", "price", "name"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "feather"])
def test_columns_of_any_type_pass_through_to_any_format(run_cli, folder, suffix):
    table, output = whole(folder), folder / f"out.{suffix}"
    keep = KEPT if suffix == "csv" else [*KEPT, "tags"]
    command = ["assign", "kmeans.json", "part-*.parquet", "--keep", ",".join(keep), "-o", output]
    result = run_cli(*command, cwd=folder)
    assert result.returncode == 0, result.stderr
    labels = naive_labels(KMEANS, rows_of(table, KMEANS))
    if suffix == "csv":
        with output.open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert [int(line["label"]) for line in lines] == labels.tolist()
        assert [int(line["id"]) for line in lines] == table["id"].to_pylist()
        assert [line["name"] or None for line in lines] == table["name"].to_pylist()
        assert [line["kind"] for line in lines] == table["kind"].to_pylist()
        return
    written = pq.read_table(output) if suffix == "parquet" else pa.feather.read_table(output)
    assert np.array_equal(written["label"], labels)
    for name in keep:
        assert written[name].to_pylist() == table[name].to_pylist()


def as_feather(table, path):
    pa.feather.write_feather(table, path, chunksize=170)


def as_csv(table, path):
    pa.csv.write_csv(table, path)


def as_hdf5(table, path):
    with h5py.File(path, "w") as file:
        for name in ("x", "y", "id"):
            file.create_dataset(name, data=table[name].to_numpy(), chunks=(96,))
        file["name"] = [text or "" for text in table["name"].to_pylist()]
        file["kind"] = np.array([text.encode() for text in table["kind"].to_pylist()])
        file["pair"] = np.arange(2 * len(table), dtype=">i4").reshape(-1, 2)


@pytest.mark.parametrize(
    ("write", "suffix"),
    [(as_feather, "feather"), (as_csv, "csv"), (as_hdf5, "h5")],
    ids=lambda x: str(x)[:12],
)
def test_columns_pass_through_from_other_formats(write, suffix, tmp_path):
    tables = [table_of(500, 1).drop(["tags"]), table_of(300, 2).drop(["tags"])]
    for i, table in enumerate(tables):
        write(table, tmp_path / f"{i}.{suffix}")
    keep = ["name", "id", "kind", *(["pair"] if suffix == "h5" else [])]
    datasets = ["x", "y"] if suffix == "h5" else []
    source = open_source(str(tmp_path / f"*.{suffix}"), like=KMEANS.columns, keep=keep, datasets=datasets)
    done = assign_to_file(KMEANS, source, tmp_path / "out.parquet", engine=Threads(3))
    table, written = pa.concat_tables(tables), pq.read_table(tmp_path / "out.parquet")
    assert done.rows == 800
    assert np.array_equal(written["label"], naive_labels(KMEANS, rows_of(table, KMEANS)))
    assert written["id"].equals(table["id"])  # to the last digit
    assert written["kind"].to_pylist() == table["kind"].to_pylist()
    assert [text or None for text in written["name"].to_pylist()] == table["name"].to_pylist()
    if suffix == "h5":
        assert written["pair"][501].as_py() == [2, 3]


def test_columns_pass_through_from_partitions_tables_and_streams(tmp_path):
    table = table_of(400)
    for year, part in ((2023, table.slice(0, 150)), (2024, table.slice(150))):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(part, tmp_path / f"year={year}" / "part.parquet", row_group_size=70)
    expected = naive_labels(KMEANS, rows_of(table, KMEANS))

    def labelled(data, keep):
        source = open_source(data, like=KMEANS.columns, keep=keep)
        with closing(assign(KMEANS, source, engine=Threads(2))) as parts:
            written = pa.concat_tables(parts)
        assert np.array_equal(written["label"], expected)
        return written

    years = ["2023"] * 150 + ["2024"] * 250
    assert labelled(str(tmp_path), ["year"])["year"].to_pylist() == years
    written = labelled(str(tmp_path), ["name", "year"])
    assert written["name"].equals(table["name"]) and written["year"].to_pylist() == years
    for data in (table, pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=37))):
        written = labelled(data, ["tags", "x", "kind"])
        assert written["tags"].equals(table["tags"]) and written["x"].equals(table["x"])
        assert written["kind"].to_pylist() == table["kind"].to_pylist()
    with pytest.raises(UsageError, match="no columns to keep"):
        open_source(np.zeros((3, 2)), like=KMEANS.columns, keep=["x"])


def test_files_may_differ_in_the_types_of_kept_columns_as_far_as_one_holds_both(tmp_path):
    for name, ids in (("a", [1, 2]), ("b", [1.5, None]), ("c", ["x", "y"])):
        pq.write_table(pa.table({"x": [0.0, 1.0], "y": [0.0, 1.0], "id": ids}), tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in "abc"]
    source = open_source(paths[:2], like=KMEANS.columns, keep=["id"])
    written = pa.concat_tables(assign(KMEANS, source))
    assert written["id"].to_pylist() == [1.0, 2.0, 1.5, None]
    with pytest.raises(SchemaError, match=r"c\.parquet: a column of `keep` has a different type"):
        open_source(paths, like=KMEANS.columns, keep=["id"])


def test_what_makes_no_sense_is_refused(run_cli, folder):
    assign = ["assign", "kmeans.json", "part-0.parquet"]
    cases = [
        ([*assign, "-o", "out.txt"], 2, "end it in .parquet"),
        ([*assign, "-o", "out.parquet", "--responsibilities"], 2, "only mixtures have --responsibilities"),
        (
            ["assign", "gmm.npz", "part-0.parquet", "-o", "o.csv", "--distances"],
            2,
            "only k-means models have --distances",
        ),
        ([*assign, "-o", "out.parquet", "--columns", "x,y"], 2, "No such option"),
        ([*assign, "-o", "out.parquet", "--keep", "nam"], 3, "did you mean 'name'?"),
        ([*assign, "-o", "out.parquet", "--keep", "id,id"], 2, "named twice"),
        ([*assign, "-o", "out.csv", "--keep", "tags"], 1, "Leave the column out of --keep"),
        ([*assign, "-o", "part-0.parquet", "--if-exists", "overwrite"], 2, "is an input"),
        (["assign", "part-1.parquet", "part-0.parquet", "-o", "o.csv"], 3, "this is data, not a model"),
        (["assign", "none.json", "part-0.parquet", "-o", "o.csv"], 3, "cannot read"),
        ([*assign, "-o", "out.csv", "--memory", "10MB"], 2, "Allow more with --memory"),
        (["score", "kmeans.json", "part-0.parquet", "--weights", "x"], 2, "cannot be --weights"),
    ]
    before = listing(folder)
    for command, code, message in cases:
        assert message in refusal(run_cli(*command, cwd=folder), code), command
    pq.write_table(pa.table({"x": [1.0], "z": [1.0]}), folder / "other.parquet")
    message = refusal(run_cli("assign", "kmeans.json", "other.parquet", "-o", "o.csv", cwd=folder), 3)
    assert "no column 'y'" in message
    pq.write_table(pa.table({"x": [1.0], "y": [1.0], "label": [7]}), folder / "other.parquet")
    command = ["assign", "kmeans.json", "other.parquet", "-o", "o.csv", "--keep", "label"]
    assert "'label' cannot be kept" in refusal(run_cli(*command, cwd=folder), 2)
    assert listing(folder) == sorted([*before, "other.parquet"])


def test_an_existing_output_is_kept_unless_told_otherwise(run_cli, folder):
    (folder / "out.csv").write_text("mine")
    command = ["assign", "kmeans.json", "part-0.parquet", "-o", "out.csv"]
    assert "exists already" in refusal(run_cli(*command, cwd=folder), 1)
    assert (folder / "out.csv").read_text() == "mine"
    result = run_cli(*command, "--if-exists", "overwrite", cwd=folder)
    assert result.returncode == 0 and "700 rows" in result.stdout
    assert run_cli(*command, "--if-exists", "overwrite", "-q", cwd=folder).stdout == ""


def test_unreadable_inputs_are_skipped_if_told_so(run_cli, folder):
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing")
    command = ["part-0.parquet", "bad.parquet", "--skip-unreadable", "--json"]
    for start in (["assign", "kmeans.json", *command, "-o", "out.parquet"], ["score", "gmm.npz", *command]):
        result = run_cli(*start, cwd=folder)
        assert result.returncode == 6 and "skipped bad.parquet" in result.stderr
        report = json.loads(result.stdout)
        assert report["rows"] == 700 and "bad.parquet" in report["skipped_inputs"][0]


def test_ctrl_c_leaves_nothing_behind(start_cli, tmp_path):
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=20_000), "y": random.normal(size=20_000)})
    pq.write_table(table, tmp_path / "long.parquet", row_group_size=1000)
    save_model(mixture_model("full", k=3, d=2), tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text()) | {"columns": ["x", "y"]}
    (tmp_path / "m.json").write_text(json.dumps(document))
    arguments = ["assign", "m.json", "long.parquet", "-o", "out.parquet"]
    process = start_cli(*arguments, cwd=tmp_path, prepare=endless(10, "_LabelTask"))
    wait_for(lambda: any(name.endswith(".tmp") for name in listing(tmp_path)), process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and "interrupted" in stderr
    assert listing(tmp_path) == ["long.parquet", "m.json"]


def test_standard_input_is_labelled(run_cli, folder):
    table = table_of(500).drop(["kind"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    command = ["assign", "kmeans.json", "-", "-o", "out.parquet", "--keep", "name"]
    result = run_cli(*command, cwd=folder, input=sink.getvalue().to_pybytes(), text=False)
    assert result.returncode == 0, result.stderr
    written = pq.read_table(folder / "out.parquet")
    assert written["name"].equals(table["name"])
    assert np.array_equal(written["label"], naive_labels(KMEANS, rows_of(table, KMEANS)))


# ---- the library -----------------------------------------------------------------------------------


def test_lists_single_columns_and_huge_offsets(tmp_path):
    random = np.random.default_rng(0)
    lists = random.standard_normal((300, 3))
    table = pa.table(
        {"t": 1e9 + 10 * random.integers(0, 3, 300) + random.normal(0, 1, 300), "e": lists.tolist()}
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=70)
    centroids = 1e9 + np.array([[0.0], [10.0], [20.0]])
    one = KMeansModel(columns=(Column("t"),), centroids=centroids, scale=[1.0], shares=np.full(3, 1 / 3))
    wide = KMeansModel(
        columns=(Column("e", 3), Column("t")),
        centroids=[[0.0, 0.0, 0.0, 1e9]],
        scale=np.ones(4),
        shares=[1.0],
    )
    for model, rows in ((one, table["t"].to_numpy()[:, None]), (wide, np.column_stack([lists, table["t"]]))):
        source = open_source(tmp_path / "t.parquet", like=model.columns)
        written = pa.concat_tables(assign(model, source, distances=True, engine=Threads(2)))
        differences = (rows[:, None] - model.centroids) / model.scale
        squares = (differences**2).sum(axis=2)
        assert np.array_equal(written["label"], squares.argmin(axis=1))
        assert np.allclose(written["distance"], np.sqrt(squares.min(axis=1)), rtol=1e-12)
        assert score(model, source).mean_cost == pytest.approx(squares.min(axis=1).mean(), rel=1e-12)


def test_sources_must_have_the_columns_of_the_model(folder):
    source = open_source(folder / "part-0.parquet", columns=["x", "w"])
    with pytest.raises(UsageError, match="columns of the model: x, y"):
        score(KMEANS, source)


def test_a_file_that_changes_while_it_is_read_gives_no_labels(folder):
    source = open_source(folder / "part-0.parquet", like=KMEANS.columns)

    def touch(done, total):
        os.utime(folder / "part-0.parquet", ns=(1, 1))

    with pytest.raises(InputError, match="changed while it was being read"):
        assign_to_file(KMEANS, source, folder / "out.parquet", progress=touch)
    with pytest.raises(InputError, match="changed while it was being read"):
        score(KMEANS, source, progress=lambda done, total: os.utime(folder / "part-0.parquet"))
    assert "out.parquet" not in listing(folder)


def test_a_full_disk_is_an_output_error(folder, monkeypatch):
    def full(self, table, *args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    source = open_source(folder / "part-0.parquet", like=KMEANS.columns)
    with pytest.raises(OutputError, match="No space left on device"):
        assign_to_file(KMEANS, source, folder / "out.parquet")
    assert not [name for name in listing(folder) if "out.parquet" in name]


def test_progress_counts_the_rows(folder):
    source = open_source(folder / "part-*.parquet", like=KMEANS.columns)
    for run in (
        lambda p: list(assign(KMEANS, source, progress=p)),
        lambda p: score(KMEANS, source, progress=p),
    ):
        seen = []
        run(lambda done, total, seen=seen: seen.append((done, total)))
        assert seen[0] == (0, 2233) and seen[-1] == (2233, 2233)
        assert seen == sorted(seen)


# ---- scores ----------------------------------------------------------------------------------------


def test_the_score_of_k_means_is_that_of_the_definition(run_cli, folder):
    table = whole(folder)
    rows, weights = rows_of(table, KMEANS), table["w"].to_numpy()
    nearest = KMEANS.centroids[naive_labels(KMEANS, rows)]
    costs = (((rows - nearest) / KMEANS.scale) ** 2).sum(axis=1)
    facts = json.loads(run_cli("score", "kmeans.json", "part-*.parquet", "--json", cwd=folder).stdout)
    assert (facts["rows"], facts["dropped_rows"], facts["total_weight"]) == (2233, 0, 2233)
    assert facts["mean_squared_distance"] == pytest.approx(costs.mean(), rel=1e-12)
    assert facts["sum_squared_distance"] == pytest.approx(costs.sum(), rel=1e-12)
    assert facts["mean_squared_distance_se"] == pytest.approx(costs.std() / math.sqrt(2233), rel=1e-9)
    unscaled = ((rows - nearest) ** 2).sum(axis=1).mean()
    assert facts["mean_squared_distance_data_units"] == pytest.approx(unscaled, rel=1e-12)
    assert facts["shares"] == pytest.approx(np.bincount(naive_labels(KMEANS, rows)) / 2233)
    assert facts["certified_bound"] == 1.5
    command = ["score", "kmeans.json", "part-*.parquet", "--weights", "w"]
    facts = json.loads(run_cli(*command, "--json", cwd=folder).stdout)
    assert facts["total_weight"] == pytest.approx(weights.sum())
    mean = np.average(costs, weights=weights)
    assert facts["mean_squared_distance"] == pytest.approx(mean, rel=1e-12)
    error = np.sqrt((weights**2 * (costs - mean) ** 2).sum()) / weights.sum()
    assert facts["mean_squared_distance_se"] == pytest.approx(error, rel=1e-9)
    shown = run_cli(*command, cwd=folder).stdout
    assert "certified bound" in shown and f"{mean:.6g} ± " in shown and "in data units" in shown


def test_the_score_of_a_mixture_is_that_of_the_definition(run_cli, folder):
    table = whole(folder)
    rows, weights = rows_of(table, MIXTURE), table["w"].to_numpy()
    densities = MIXTURE.log_densities(rows)
    facts = json.loads(run_cli("score", "gmm.npz", "part-*.parquet", "--json", cwd=folder).stdout)
    assert facts["mean_log_likelihood"] == pytest.approx(densities.mean(), rel=1e-12)
    assert facts["log_likelihood"] == pytest.approx(densities.sum(), rel=1e-12)
    assert facts["mean_log_likelihood_se"] == pytest.approx(densities.std() / math.sqrt(2233), rel=1e-9)
    assert facts["shares"] == pytest.approx(MIXTURE.responsibilities(rows).mean(axis=0))
    assert facts["bic"] == pytest.approx(-2 * densities.sum() + (2 + 6 + 6) * math.log(2233))
    command = ["score", "gmm.npz", "part-*.parquet", "--weights", "w"]
    facts = json.loads(run_cli(*command, "--json", cwd=folder).stdout)
    assert facts["mean_log_likelihood"] == pytest.approx(np.average(densities, weights=weights), rel=1e-12)
    assert facts["bic"] is None
    assert "nats per row" in run_cli(*command, cwd=folder).stdout


def test_scores_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    rows = random.standard_normal((4000, 3)) + 3 * random.integers(0, 2, (4000, 3))
    columns = tuple(Column(f"x{i}") for i in range(3))
    theirs = KMeans(6, n_init=1, random_state=0).fit(rows)
    ours = KMeansModel(
        columns=columns, centroids=theirs.cluster_centers_, scale=np.ones(3), shares=np.full(6, 1 / 6)
    )
    result = score(ours, open_source(rows, like=columns))
    assert result.total_cost == pytest.approx(theirs.inertia_, rel=1e-9)
    assert result.mean_squared_distance_data_units is None  # the same
    mixture = GaussianMixture(4, random_state=0, max_iter=10, tol=1e-1).fit(rows)
    ours = MixtureModel(
        columns=columns,
        weights=mixture.weights_,
        means=mixture.means_,
        covariances=mixture.covariances_,
        covariance_type="full",
        scale=np.ones(3),
    )
    result = score(ours, open_source(rows, like=columns))
    assert -result.mean_cost == pytest.approx(mixture.score(rows), rel=1e-10)
    assert result.bic == pytest.approx(mixture.bic(rows), rel=1e-10)


@pytest.mark.parametrize("covariance_type", ["kmeans", *TYPES])
def test_scores_do_not_depend_on_threads(folder, covariance_type):
    model = KMEANS if covariance_type == "kmeans" else mixture_model(covariance_type, d=2)
    for weights in (None, "w"):
        table = whole(folder).rename_columns(["id", "name", "x0", "when", "w", "kind", "price", "tags", "x1"])
        pq.write_table(table.drop(["kind"]), folder / "all.parquet", row_group_size=61)
        paths = folder / ("part-*.parquet" if model is KMEANS else "all.parquet")
        results = {
            score(model, open_source(paths, like=model.columns, weights=weights), engine=Threads(threads))
            for threads in (1, 2, 3, 7)
        }
        assert len(results) == 1


def test_scores_of_nothing_are_errors(tmp_path):
    table = pa.table({"x": [np.nan, np.nan], "y": [0.0, 0.0], "w": [0.0, 0.0]})
    with pytest.raises(InputError, match="no rows left: all 2 were dropped"):
        score(KMEANS, open_source(table, like=KMEANS.columns), nulls="drop")
    table = table.set_column(0, "x", pa.array([1.0, 2.0]))
    with pytest.raises(InputError, match="all weights in column 'w' are 0"):
        score(KMEANS, open_source(table, like=KMEANS.columns, weights="w"))


def test_sentinels_do_not_make_infinite_scores():
    rows = np.array([[0.0, 0.0], [1e308, -1e308], [3.4e38, 0.0]])
    for model in (KMEANS, MIXTURE):
        result = score(model, open_source(rows, like=model.columns))
        assert math.isfinite(result.mean_cost) and math.isfinite(result.standard_error)


# ---- the engine, in order --------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("most", [0, 3, 1000])
def test_pieces_come_in_order_however_little_may_wait(threads, most):
    def work(task, check):
        for i in range(task % 4):
            check()
            if i == 0:
                time.sleep(0.002 * (task % 3))
            yield task, i

    pieces = list(run_in_order(work, range(40), threads=threads, size=lambda piece: 1, most=most))
    assert pieces == [(task, i) for task in range(40) for i in range(task % 4)]


def test_only_so_much_waits_for_its_turn():
    made, most_waiting, taken = [], 0, 0
    gate = threading.Event()

    def work(task, check):
        if task == 0:
            gate.wait(PATIENCE)
        for i in range(100):
            made.append((task, i))
            yield task

    def pieces():
        with closing(run_in_order(work, range(10), threads=4, size=lambda piece: 10, most=50)) as run:
            yield from run

    def open_gate():
        while len(made) < 5:
            time.sleep(0.01)
        time.sleep(0.2)  # for more than may be
        gate.set()

    threading.Thread(target=open_gate, daemon=True).start()
    for _ in pieces():
        taken += 1
        most_waiting = max(most_waiting, len(made) - taken)
    assert taken == 1000
    # Five may wait; each worker holds one more in its hands, and so does the task whose turn it is.
    assert most_waiting <= 5 + 4 + 1


def test_an_error_comes_in_its_turn_and_stops_the_rest():
    stopped = threading.Event()

    def work(task, check):
        yield task
        if task == 3:
            raise ValueError("task 3")
        if task > 3:
            try:
                while True:
                    check()
                    time.sleep(0.001)
            finally:
                stopped.set()

    seen = []
    with (
        pytest.raises(ValueError, match="task 3"),
        closing(run_in_order(work, range(50), threads=4)) as pieces,
    ):
        seen.extend(pieces)
    assert seen == [0, 1, 2, 3] and stopped.is_set()
