"""Tables of Delta Lake and Iceberg: the rows of their current version, whatever files lie around."""

import json
import os
import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

import nysketch
from nysketch.errors import InputError, UnreadableError
from nysketch.files.format import sketch_parts
from nysketch.sources.expand import expand
from nysketch.sources.open import open_source
from nysketch.sources.table_formats import newest_metadata
from tests.sources.helpers import read_all, write_parquet


def rows(first, stop):
    x = np.arange(float(first), float(stop))
    return pa.table({"x": x, "y": -x, "year": (2020 + x // 10).astype(np.int64)})


def x_of(source):
    return sorted(read_all(source)[:, 0].tolist())


def files_below(folder):
    return sorted(path.name for path in folder.rglob("*.parquet"))


# ---- Delta Lake --------------------------------------------------------------------------------------


@pytest.fixture
def delta(tmp_path):
    """A Delta table of which files were replaced: 30 rows of 60 are left, in 2 of 5 files or more."""
    path = tmp_path / "delta"
    write_deltalake(path, rows(0, 30))
    write_deltalake(path, rows(30, 60), mode="append")
    DeltaTable(path).delete("x < 20 or x >= 50")
    return path


def test_a_delta_table_has_the_rows_of_its_current_version(delta):
    source = open_source(delta, columns=["x"])
    assert x_of(source) == list(range(20, 50))
    read = {item.path.rpartition("/")[2] for item in source.inputs()}
    assert read == {uri.rpartition("/")[2] for uri in DeltaTable(delta).file_uris()}
    assert len(read) < len(files_below(delta))
    assert all(item.path.startswith(f"{delta}/") for item in source.inputs())


@pytest.mark.parametrize("spelling", ["{0}", "{0}/", "file://{0}", "{1}/d*"])
def test_a_delta_table_can_be_spelled_in_many_ways(delta, spelling):
    assert x_of(open_source(spelling.format(delta, delta.parent), columns=["x"])) == list(range(20, 50))


def test_a_delta_table_after_overwriting_has_only_the_new_rows(delta):
    write_deltalake(delta, rows(100, 103), mode="overwrite")
    assert x_of(open_source(delta, columns=["x"])) == [100, 101, 102]
    DeltaTable(delta).create_checkpoint()
    DeltaTable(delta).optimize.compact()
    assert x_of(open_source(delta, columns=["x"])) == [100, 101, 102]


def test_the_sketch_of_a_delta_table_is_that_of_its_files_and_the_command_makes_it(delta, tmp_path, run_cli):
    files = [location.name for location in expand([str(delta)])]
    done = run_cli("sketch", delta, "-m", 5, "-o", tmp_path / "table.nysk")
    assert done.returncode == 0, done.stderr
    nysketch.save(nysketch.sketch(files, landmarks=5), tmp_path / "files.nysk")
    table, listed = (nysketch.load(tmp_path / f"{name}.nysk") for name in ("table", "files"))
    assert table.rows == 30
    assert table.kernel_sums.tobytes() == listed.kernel_sums.tobytes()
    assert table.provenance == listed.provenance


def test_keys_of_a_delta_table_are_those_of_its_log(tmp_path):
    names = ["a b", "ü/=%", "x", None]
    table = pa.table({"x": np.arange(8.0), "name": names * 2, "year": [2020] * 4 + [2021] * 4})
    write_deltalake(tmp_path / "t", table, partition_by=["name", "year"])
    source = open_source(tmp_path / "t", columns=["x", "year"], keep=["name"])
    found = []
    for fragment in source.fragments():
        (batch,), (kept,) = source.read(fragment, 100), source.read_kept(fragment, 100)
        found += zip(*(values.tolist() for values in batch.values), kept["name"].to_pylist(), strict=True)
    expected = zip(*(table[name].to_pylist() for name in ("x", "year", "name")), strict=True)
    assert sorted(found) == sorted(expected)
    assert source.left_out.get("name") is None or "partition key" in source.left_out["name"]
    copy = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(read_all(copy), read_all(source))


def test_a_part_of_a_delta_table_is_refused(tmp_path):
    write_deltalake(tmp_path / "t", rows(0, 20), partition_by=["year"])
    for part in (tmp_path / "t/year=2020", f"file://{tmp_path}/t/year=2020"):
        with pytest.raises(InputError, match=r"year=2020: is inside a Delta or Iceberg table.*Give the"):
            open_source(part)


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_directory_with_a_table_in_it_is_refused(delta, tmp_path, prefix):
    with pytest.raises(InputError, match=r"contains a Delta table, .*/delta\. Give each table"):
        open_source(f"{prefix}{tmp_path}")


def test_several_tables_and_files_make_one_source(delta, tmp_path):
    write_deltalake(tmp_path / "e", rows(200, 202))
    path = write_parquet(tmp_path / "f/x.parquet", rows(300, 301))
    source = open_source([delta, tmp_path / "e", path], columns=["x"])
    assert x_of(source) == [*range(20, 50), 200, 201, 300]


def test_a_delta_table_without_rows_is_said(delta):
    DeltaTable(delta).delete()
    with pytest.raises(InputError, match="delta: the table has no rows"):
        open_source(delta)


def test_a_delta_table_needs_its_package(delta, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(InputError, match=r"delta: is a Delta table.* pip install 'nysketch\[delta\]'"):
        open_source(delta)


def test_a_delta_log_that_is_damaged_is_an_error(delta):
    for path in (delta / "_delta_log").iterdir():
        path.write_text("{nonsense")
    with pytest.raises(UnreadableError, match="delta: cannot read the log of this Delta table"):
        open_source(delta)


def with_protocol(path, *, features=(), reader=3, **configuration):
    """Change what the first entry of the log demands of readers."""
    first = path / "_delta_log" / f"{0:020}.json"
    lines = []
    for line in first.read_text().splitlines():
        entry = json.loads(line)
        if "protocol" in entry:
            known = {"minReaderVersion": reader, "minWriterVersion": 7, "writerFeatures": list(features)}
            entry["protocol"] = known | ({"readerFeatures": list(features)} if reader == 3 else {})
        if "metaData" in entry:
            entry["metaData"]["configuration"] |= {
                f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()
            }
        lines.append(json.dumps(entry))
    first.write_text("\n".join(lines))


@pytest.mark.parametrize("features", [[], ["timestampNtz"], ["v2Checkpoint"], ["deletionVectors"]])
def test_features_that_leave_files_as_they_are_do_no_harm(tmp_path, features):
    write_deltalake(tmp_path / "t", rows(0, 5))
    with_protocol(tmp_path / "t", features=features)
    assert x_of(open_source(tmp_path / "t", columns=["x"])) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": ["columnMapping"], "columnMapping_mode": "name"}, "uses column mapping"),
        ({"features": ["typeWidening"]}, r"uses typeWidening, which is not supported"),
    ],
)
def test_features_that_change_what_files_mean_are_refused(tmp_path, settings, message):
    write_deltalake(tmp_path / "t", rows(0, 5))
    with_protocol(tmp_path / "t", **settings)
    with pytest.raises(InputError, match=f"t: .*({message}|cannot read the log)"):
        open_source(tmp_path / "t")


def test_deletion_vectors_are_refused(tmp_path, monkeypatch):
    write_deltalake(tmp_path / "t", rows(0, 5))
    with_protocol(tmp_path / "t", features=["deletionVectors"])
    deleted = pa.RecordBatch.from_pydict({"filepath": ["x"], "selection_vector": [[True]]})
    monkeypatch.setattr(DeltaTable, "deletion_vectors", lambda self: iter([deleted]))
    with pytest.raises(InputError, match=r"deletion vectors.*REORG TABLE … APPLY \(PURGE\)"):
        open_source(tmp_path / "t")


# ---- Iceberg -----------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path):
    made = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    made.create_namespace("space")
    yield made
    made.engine.dispose()


@pytest.fixture
def iceberg(catalog, tmp_path):
    """An Iceberg table of which files were replaced, and its directory: 30 rows of 60 are left."""
    table = catalog.create_table("space.t", schema=rows(0, 1).schema)
    table.append(rows(0, 30))
    table.append(rows(30, 60))
    table.delete("x < 20 or x >= 50")
    return table, tmp_path / "lake/space/t"


def test_an_iceberg_table_has_the_rows_of_its_current_version(iceberg):
    table, path = iceberg
    newest = table.metadata_location
    for spelling in (path, f"{path}/", f"file://{path}", newest, newest.removeprefix("file://")):
        source = open_source(spelling, columns=["x"])
        assert x_of(source) == list(range(20, 50)), spelling
    assert len(source.inputs()) < len(files_below(path))
    assert open_source(path).inputs()[0].path.startswith(f"{path}/data/")
    copy = pickle.loads(pickle.dumps(open_source(path, columns=["x"])))
    assert x_of(copy) == list(range(20, 50))


@pytest.mark.slow
def test_an_iceberg_table_is_found_by_its_catalog(iceberg, tmp_path, run_cli):
    settings = {
        "PYICEBERG_CATALOG__C__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__C__WAREHOUSE": f"file://{tmp_path}/lake",
        "PYICEBERG_CATALOG__C__TYPE": "sql",
    }
    done = run_cli("sketch", "iceberg:c.space.t", "-m", 5, "-o", tmp_path / "s.nysk", env=settings)
    assert done.returncode == 0, done.stderr
    _, arrays = sketch_parts(nysketch.load(tmp_path / "s.nysk"))
    _, expected = sketch_parts(nysketch.sketch(iceberg[1], landmarks=5))
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    for name, message in (("c.space.u", "u"), ("c.t", "write iceberg:CATALOG.NAMESPACE.TABLE")):
        done = run_cli("sketch", f"iceberg:{name}", "-m", 5, "-o", tmp_path / "t.nysk", env=settings)
        assert done.returncode == 3
        assert f"iceberg:{name}: " in done.stderr
        assert message in done.stderr


def test_an_iceberg_table_by_number_or_hint(iceberg):
    table, path = iceberg
    versions = sorted((path / "metadata").glob("*.metadata.json"))
    for number, version in enumerate(versions, 1):
        version.rename(path / "metadata" / f"v{number}.metadata.json")
    assert x_of(open_source(path, columns=["x"])) == list(range(20, 50))
    (path / "metadata/version-hint.text").write_text("2\n")
    assert x_of(open_source(path, columns=["x"])) == list(range(30))
    del table


def test_two_newest_metadata_files_are_refused():
    with pytest.raises(InputError, match=r"two metadata files of version 10: 00010-a\S*, 00010-b"):
        newest_metadata(
            [f"t/metadata/{name}.metadata.json" for name in ("00009-z", "00010-b", "00010-a")], None, "t"
        )


def test_a_part_of_an_iceberg_table_is_refused(iceberg, tmp_path):
    with pytest.raises(InputError, match="data: is inside a Delta or Iceberg table"):
        open_source(iceberg[1] / "data")
    with pytest.raises(InputError, match="contains an Iceberg table"):
        open_source(tmp_path / "lake")


def test_columns_that_were_dropped_are_not_read(iceberg):
    table, path = iceberg
    with table.update_schema() as update:
        update.delete_column("y")
    assert [column.name for column in open_source(path).columns] == ["x", "year"]
    with pytest.raises(InputError, match="no column 'y'"):
        open_source(path, columns=["y"])
    with pytest.raises(InputError, match="no column 'y'"):
        open_source(path, columns=["x"], keep=["y"])


def test_columns_that_were_added_are_missing_in_older_files(iceberg):
    table, path = iceberg
    with table.update_schema() as update:
        update.add_column("z", DoubleType())
    table.append(rows(60, 61).append_column("z", pa.array([1.0])))
    assert len(read_all(open_source(path, columns=["x"]))) == 31
    with pytest.raises(InputError, match="no column 'z'"):
        open_source(path, columns=["z"])


def test_columns_that_were_renamed_or_made_anew_are_refused(catalog, tmp_path):
    renamed = catalog.create_table("space.r", schema=rows(0, 1).schema)
    renamed.append(rows(0, 3))
    with renamed.update_schema() as update:
        update.rename_column("y", "z")
    with pytest.raises(InputError, match="column 'z' of this Iceberg table was called 'y'"):
        open_source(tmp_path / "lake/space/r")
    anew = catalog.create_table("space.a", schema=rows(0, 1).schema)
    anew.append(rows(0, 3))
    with anew.update_schema() as update:
        update.delete_column("y")
    with anew.update_schema() as update:
        update.add_column("y", DoubleType())
    with pytest.raises(InputError, match="once had another column 'y'"):
        open_source(tmp_path / "lake/space/a")


def test_partitions_of_an_iceberg_table(catalog, tmp_path):
    schema = Schema(
        NestedField(1, "x", DoubleType(), required=False), NestedField(2, "year", LongType(), required=False)
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "era"))
    table = catalog.create_table("space.p", schema=schema, partition_spec=spec)
    table.append(pa.table({"x": np.arange(4.0), "year": [1, 1, 2, 3]}))
    path = tmp_path / "lake/space/p"
    assert any("era=" in os.fspath(file) for file in path.rglob("*.parquet"))
    for _ in range(2):
        source = open_source(path, columns=["x", "year"])
        assert sorted(map(tuple, read_all(source).tolist())) == [(0, 1), (1, 1), (2, 2), (3, 3)]
        assert "era" not in source.left_out  # the name of a directory is no column of the table
        for file in path.rglob("*.parquet"):  # files that came from elsewhere need not hold their keys
            pq.write_table(pq.ParquetFile(file).read(["x"]), file)


def test_deletes_in_files_of_their_own_are_refused(iceberg, monkeypatch):
    from pyiceberg.table import DataScan

    plan = DataScan.plan_files

    def with_deletes(self):
        tasks = list(plan(self))
        tasks[0].delete_files.add(tasks[0].file)
        return tasks

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(InputError, match=r"merge-on-read.*Compact it first"):
        open_source(iceberg[1])


def test_an_iceberg_table_needs_its_package(iceberg, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(InputError, match=r"t: is an Iceberg table.* pip install 'nysketch\[iceberg\]'"):
        open_source(iceberg[1])


def test_damaged_metadata_is_an_error(iceberg):
    table, path = iceberg
    for version in (path / "metadata").glob("*.metadata.json"):
        version.write_text("{nonsense")
    with pytest.raises(InputError, match="t: cannot read this Iceberg table"):
        open_source(path)
    del table


# ---- on a server -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["environment", "uri"])
def test_tables_are_read_from_a_bucket(s3, bucket, tmp_path, monkeypatch, how):
    options = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3.port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    write_deltalake(f"s3://{bucket}/delta", rows(0, 30), storage_options=options)
    DeltaTable(f"s3://{bucket}/delta", storage_options=options).delete("x < 20")
    properties = {
        "s3.endpoint": f"http://127.0.0.1:{s3.port}",
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
        "s3.region": "us-east-1",
    }
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"s3://{bucket}/lake", **properties)
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=rows(0, 1).schema)
    table.append(rows(0, 30))
    table.delete("x < 20")
    catalog.engine.dispose()
    user, query = "", ""
    if how == "uri":
        for variable in s3.environment():
            monkeypatch.delenv(variable)
        user = "test:test@"
        query = f"?endpoint_override=127.0.0.1:{s3.port}&scheme=http&region=us-east-1"
    for path in ("delta", "lake/n/t", table.metadata_location.removeprefix(f"s3://{bucket}/")):
        source = open_source(f"s3://{user}{bucket}/{path}{query}", columns=["x"])
        assert x_of(source) == list(range(20, 30))
        assert x_of(pickle.loads(pickle.dumps(source))) == list(range(20, 30))
        for item in source.inputs():
            assert item.path.startswith(f"s3://{bucket}/{'delta' if path == 'delta' else 'lake'}/")
            assert "?" not in item.path
    with pytest.raises(InputError, match=r"contains an? (Delta|Iceberg) table"):
        open_source(f"s3://{user}{bucket}{query}")
