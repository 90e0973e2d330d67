"""Files on an S3 server: the same rows as from the same files here; and what is said when there are none."""

import pickle
import pickletools

import numpy as np
import pyarrow.fs as pafs
import pytest

import nysketch
from nysketch.errors import InputError, NoFilesError, UnreadableError, UsageError
from nysketch.files.format import sketch_parts
from nysketch.sources.expand import expand
from nysketch.sources.filesystems import hide_addresses
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, write_parquet
from tests.sources.kinds import (
    FILES,
    FRAMES,
    QUERIES,
    TEXT_FILES,
    arrow_table,
    csv,
    feather,
    hdf5_chunked,
    numpy_array,
    parquet,
    uri,
)
from tests.sources.servers import Folder

REMOTE = [make for make in FILES if make is not uri]
ONE = {"x": [1.0, 2.0, 3.0]}


@pytest.fixture
def stored(s3, bucket, tmp_path):
    """A function that makes the files of a kind, stores them in the bucket, and returns both inputs."""

    def store(make, table):
        local = make(table, tmp_path)
        s3.put_folder(bucket, tmp_path)

        def moved(path):
            return str(path).replace(str(tmp_path), f"s3://{bucket}")

        return local, [moved(path) for path in local] if isinstance(local, list) else moved(local)

    return store


def batches_of(source, batch_rows=100):
    return [
        (fragment, [np.asarray(values).tolist() for values in batch.values])
        for fragment in source.fragments()
        for batch in source.read(fragment, batch_rows)
    ]


@pytest.mark.parametrize("make", REMOTE, ids=lambda make: make.__name__)
def test_every_format_reads_the_same_from_afar(stored, table, rows, small_pieces, make):
    local, remote = stored(make, table)
    here, there = open_source(local), open_source(remote)
    np.testing.assert_array_equal(read_all(there), rows)
    assert there.columns == here.columns
    assert [f.rows for f in there.fragments()] == [f.rows for f in here.fragments()]
    assert [f.input_key for f in there.fragments()] == [f.input_key for f in here.fragments()]
    assert there.local_paths == []


@pytest.mark.parametrize("compression", ["gz", "bz2", "zst"])
def test_compressed_csv_is_read_from_afar(s3, bucket, tmp_path, compression):
    import pyarrow as pa

    path = tmp_path / f"one.csv.{compression}"
    with pa.output_stream(path, compression="detect") as file:
        file.write(b"x,y\n" + b"1,2\n" * 70_000)
    s3.put_folder(bucket, tmp_path)
    assert read_all(open_source(f"s3://{bucket}/one.csv.{compression}")).sum() == 210_000


def test_the_sketch_of_a_bucket_is_that_of_the_folder_but_for_the_names(s3, bucket, tmp_path, run_cli, table):
    for i in range(3):
        write_parquet(tmp_path / f"in/day={i}/x.parquet", table.slice(300 * i, 300), row_group_size=100)
    s3.put_folder(bucket, tmp_path / "in", "d/")
    outputs = [tmp_path / "here.nysk", tmp_path / "there.nysk"]
    for data, output in zip([tmp_path / "in", f"s3://{bucket}/d"], outputs, strict=True):
        done = run_cli("sketch", data, "-m", 20, "-o", output, env=s3.environment())
        assert done.returncode == 0, done.stderr
    here, there = map(nysketch.load, outputs)
    (told_here, ours), (told_there, theirs) = sketch_parts(here), sketch_parts(there)
    assert {name: array.tobytes() for name, array in ours.items()} == {
        name: array.tobytes() for name, array in theirs.items()
    }
    assert str(told_there).replace(f"s3://{bucket}/d", str(tmp_path / "in")) == str(told_here)


# ---- where files are ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.parquet", "b.parquet", "d/c.parquet", "k=1/e.parquet"]),
        ("/", ["a.parquet", "b.parquet", "d/c.parquet", "k=1/e.parquet"]),
        ("/*.parquet", ["a.parquet", "b.parquet"]),
        ("/[ac].parquet", ["a.parquet"]),
        ("/**/*.parquet", ["a.parquet", "b.parquet", "d/c.parquet", "k=1/e.parquet"]),
        ("/d", ["d/c.parquet"]),
        ("/d/", ["d/c.parquet"]),
        ("/k=*/*", ["k=1/e.parquet"]),
    ],
)
def test_buckets_directories_and_globs_stand_for_their_files(s3, bucket, tmp_path, pattern, expected):
    for name in ("b.parquet", "a.parquet", "d/c.parquet", "k=1/e.parquet"):
        write_parquet(tmp_path / name, ONE)
    s3.put(bucket, "_SUCCESS", b"")
    s3.put_folder(bucket, tmp_path)
    found = expand([f"s3://{bucket}{pattern}"])
    assert [location.name for location in found] == [f"s3://{bucket}/{name}" for name in expected]


def test_keys_in_paths_are_columns(s3, bucket, tmp_path):
    for year in (2020, 2021):
        write_parquet(tmp_path / f"year={year}/a.parquet", ONE)
    s3.put_folder(bucket, tmp_path)
    source = open_source(f"s3://{bucket}", columns=["year", "x"])
    assert read_all(source)[:, 0].tolist() == [2020] * 3 + [2021] * 3


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("{0}/nope.parquet", InputError, r"s3://{0}/nope\.parquet: no such file"),
        ("{0}/nope/*.parquet", NoFilesError, r"nope/\*\.parquet: no files match"),
        ("{0}/*.parquet", NoFilesError, r"s3://{0}/\*\.parquet: no files match"),
        ("{0}", NoFilesError, r"s3://{0}: no data files"),
        ("no-such-bucket/x.parquet", InputError, r"s3://no-such-bucket/x\.parquet: no such file"),
    ],
)
def test_what_is_missing_is_said_at_once(s3, bucket, no_waits, caplog, path, kind, message):
    s3.put(bucket, "notes.txt", b"no data")
    with caplog.at_level("INFO"), pytest.raises(kind, match=message.format(bucket)) as error:
        open_source(f"s3://{path.format(bucket)}")
    assert not isinstance(error.value, UnreadableError)
    assert "trying again" not in caplog.text


def test_what_is_forbidden_is_said_at_once(s3, bucket, proxied, caplog):
    s3.put(bucket, "x.parquet", b"PAR1")
    proxy = proxied(broken=lambda *request: "403")
    with (
        caplog.at_level("INFO"),
        pytest.raises(InputError, match=r"x\.parquet: cannot open: .*HeadObject") as e,
    ):
        open_source(f"s3://{bucket}/x.parquet")
    assert not isinstance(e.value, UnreadableError)
    assert "trying again" not in caplog.text
    assert proxy.requests.total() < 5


def test_the_options_of_a_uri_are_used_and_never_shown(s3, bucket, monkeypatch, tmp_path, run_cli):
    for variable in s3.environment():
        monkeypatch.delenv(variable)
    write_parquet(tmp_path / "d/a.parquet", {"x": np.sqrt(np.arange(50.0))})
    s3.put_folder(bucket, tmp_path / "d")
    server = f"endpoint_override=127.0.0.1:{s3.port}&scheme=http&region=us-east-1"
    for path in ("a.parquet", "*.parquet", ""):
        uri = f"s3://AKIAKNOWN:verysecret@{bucket}/{path}?{server}"
        source = open_source(uri)
        assert source.rows == 50
        shown = repr((source.inputs(), source.state(), [f.where for f in source.fragments()]))
        for secret in ("AKIAKNOWN", "verysecret", "endpoint", str(s3.port)):
            assert secret not in shown
    done = run_cli("sketch", uri, "-m", 5, "-v", "-o", tmp_path / "s.nysk")
    assert done.returncode == 0, done.stderr
    stored = (tmp_path / "s.nysk").read_bytes()
    for secret in ("AKIAKNOWN", "verysecret", "endpoint", str(s3.port)):
        assert secret not in done.stderr + done.stdout
        assert secret.encode() not in stored
    missing = run_cli("sketch", uri.replace("/?", "/b.parquet?"), "-m", 5, "-v", "-o", tmp_path / "t.nysk")
    assert missing.returncode == 3
    assert f"s3://{bucket}/b.parquet: no such file" in missing.stderr
    assert "verysecret" not in missing.stderr


def test_a_file_given_twice_is_refused_afar_too(s3, bucket, tmp_path):
    write_parquet(tmp_path / "a.parquet", ONE)
    s3.put_folder(bucket, tmp_path)
    with pytest.raises(UsageError, match="given twice"):
        open_source([f"s3://{bucket}", f"s3://{bucket}/a.parquet"])


def test_a_job_keeps_a_store_of_what_is_in_a_bucket(s3, bucket, tmp_path, run_cli, table):
    for day in ("2024-01-01", "2024-01-02"):
        write_parquet(tmp_path / f"in/{day}.parquet", table)
    s3.put_folder(bucket, tmp_path / "in", "in/")
    server = f"endpoint_override=127.0.0.1:{s3.port}&scheme=http&region=us-east-1"
    job = f"""[job]\nstore = "store"\n[inputs]\npaths = "s3://a:b@{bucket}/in/{{date}}.parquet?{server}"
    retries = 1\ntimeout = 5\n[basis]\nlandmarks = 5\n"""
    (tmp_path / "job.toml").write_text(job)
    for made in ("2 new", "2 partitions up to date"):
        done = run_cli("run", tmp_path / "job.toml", env={"AWS_ENDPOINT_URL": ""})
        assert done.returncode == 0, done.stderr
        assert made in done.stdout, done.stdout
    shown = run_cli(
        "run", tmp_path / "job.toml", "--set", f"inputs.paths=s3://a:hidden@{bucket}/x/*?{server}"
    )
    assert shown.returncode == 3
    assert "hidden" not in shown.stderr
    assert "endpoint" not in shown.stderr


# ---- copies in other processes -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("place", ["here", "there"])
@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_a_pickled_source_reads_the_same_batches(stored, table, small_pieces, monkeypatch, make, place):
    local, remote = stored(make, table)
    source = open_source(local if place == "here" or make is uri else remote)
    expected = batches_of(source)
    data = pickle.dumps(source)
    with monkeypatch.context() as patch:
        # Unpickling opens nothing.
        patch.setattr("nysketch.sources.locations.Location.open", None)
        patch.setattr("nysketch.sources.locations.Location.open_for_python", None)
        patch.setattr("nysketch.sources.locations.Location.info", None)
        copy = pickle.loads(data)
    assert batches_of(copy) == expected
    assert copy.columns == source.columns
    assert copy.inputs() == source.inputs()
    assert copy.state() == source.state()
    assert len(data) < 10_000


@pytest.mark.parametrize("make", TEXT_FILES, ids=lambda make: make.__name__)
def test_a_pickled_source_of_text_reads_the_same_batches(tmp_path, make):
    import pyarrow as pa

    texts = pa.table({"t": [f"text {i}" for i in range(500)]})
    source = open_source(make(texts, tmp_path), text=True)
    assert batches_of(pickle.loads(pickle.dumps(source))) == batches_of(source)


def test_a_pickled_source_keeps_columns_that_pass_through(stored, table):
    _, remote = stored(parquet, table)
    source = open_source(remote, columns=["x0"], keep=["x1"])
    copy = pickle.loads(pickle.dumps(source))
    for fragment in source.fragments():
        assert list(copy.read_kept(fragment, 64)) == list(source.read_kept(fragment, 64))


def test_a_source_in_use_is_pickled_without_what_is_open(stored, table):
    _, remote = stored(parquet, table)
    source = open_source(remote)
    reading = source.read(next(iter(source.fragments())), 10)
    next(reading)
    names = {arg for _, arg, _ in pickletools.genops(pickle.dumps(source)) if isinstance(arg, str)}
    assert not {"RetryingFile", "PythonFile", "NativeFile", "ParquetReader", "_thread"} & names
    list(reading)


@pytest.mark.parametrize("make", (numpy_array, arrow_table, *FRAMES), ids=lambda make: make.__name__)
def test_sources_in_memory_can_be_pickled(table, tmp_path, make):
    source = open_source(make(table, tmp_path))
    assert batches_of(pickle.loads(pickle.dumps(source))) == batches_of(source)


@pytest.mark.parametrize("make", QUERIES, ids=lambda make: make.__name__)
def test_a_pickled_query_reads_fragments_that_carry_their_rows(table, tmp_path, make):
    source = open_source(make(table, tmp_path))
    copy, fragments = pickle.loads(pickle.dumps(source)), list(source.fragments())
    for fragment in fragments:
        ours, theirs = (next(iter(one.read(fragment, fragment.rows))) for one in (source, copy))
        assert all(np.array_equal(a, b) for a, b in zip(ours.values, theirs.values, strict=True))


def test_time_outs_and_attempts_survive_pickling(bucket):
    location = expand([f"s3://{bucket}/x.parquet"])[0]
    copy = pickle.loads(pickle.dumps(location))
    assert type(copy.filesystem) is type(location.filesystem) is not pafs.S3FileSystem
    assert copy.filesystem.__reduce__()[1] == location.filesystem.__reduce__()[1]
    assert copy.retry == location.retry


# ---- the web -----------------------------------------------------------------------------------------


@pytest.fixture
def web(tmp_path):
    """A function that serves the folder."""
    servers = []

    def serve(**options):
        servers.append(Folder(tmp_path, **options))
        return f"http://127.0.0.1:{servers[-1].port}"

    yield serve
    for server in servers:
        server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("make", [parquet, feather, csv, hdf5_chunked], ids=lambda make: make.__name__)
def test_files_on_a_web_server_are_read(web, table, rows, tmp_path, small_pieces, make):
    path = make(table, tmp_path)
    source = open_source(path.replace(str(tmp_path), web()))
    np.testing.assert_array_equal(read_all(source), rows)
    assert batches_of(pickle.loads(pickle.dumps(source))) == batches_of(source)


def test_the_query_of_a_web_address_is_sent_but_never_shown(web, table, tmp_path):
    parquet(table, tmp_path)
    address = web(key="verysecret")
    source = open_source(f"{address}/one.parquet?key=verysecret")
    assert source.rows == len(table)
    assert source.inputs()[0].path == f"{address}/one.parquet"
    for path, key in (("two.parquet", "verysecret"), ("one.parquet", "wrongsecret")):
        with pytest.raises(InputError) as error:
            open_source(f"{address}/{path}?key={key}")
        assert not isinstance(error.value, UnreadableError)
        assert "secret" not in str(error.value)
        assert str(error.value).startswith(f"{address}/{path}: ")


def test_a_scheme_without_its_package_is_refused_with_its_name():
    with pytest.raises(
        InputError, match=r"smb://host/x\.parquet: a package is missing for smb://: .*smbprotocol"
    ):
        open_source("smb://host/x.parquet")


def test_without_fsspec_other_schemes_are_refused_with_the_command(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(InputError, match=r"memory://x\.parquet: .* pip install 'nysketch\[remote\]'"):
        open_source("memory://x.parquet")


def test_the_name_of_a_container_is_shown_but_not_its_key():
    from nysketch.sources.filesystems import without_secrets

    assert without_secrets("abfss://box:key@acc.dfs.core.windows.net/a") == (
        "abfss://box@acc.dfs.core.windows.net/a"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("500, url='https://host/a.parquet?X-Sig=AK/2024'", "500, url='https://host/a.parquet'"),
        ("https://user:pass@host/x and s3://key:secret@b/y?z=1", "https://host/x and s3://b/y"),
        ("abfss://box@account.net/x?sig=1 is gone", "abfss://box@account.net/x is gone"),
        ("nothing to hide? no", "nothing to hide? no"),
    ],
)
def test_addresses_in_messages_show_no_secrets(text, shown):
    assert hide_addresses(text) == shown


def test_a_web_server_in_trouble_while_a_file_is_opened_is_asked_again(
    web, table, tmp_path, no_waits, monkeypatch
):
    """fsspec itself would say that there is no such file."""
    import fsspec.implementations.http as http

    parquet(table, tmp_path)
    opened, failed = http.HTTPFileSystem._open, []

    def failing(self, *args, **kwargs):
        if len(failed) < 2:
            failed.append(args)
            raise OSError("503, message='try later'")
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(http.HTTPFileSystem, "_open", failing)
    monkeypatch.setattr(http.HTTPFileSystem, "isfile", lambda self, path: False)
    assert open_source(f"{web()}/one.parquet").rows == len(table)
    assert len(failed) == 2
