"""Addresses that lead to other addresses, and those that fsspec does not understand."""

import json
import os

import fsspec
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.errors import UsageError
from nysketch.jobs.inputs import scan
from nysketch.jobs.schema import TABLES, checked
from nysketch.sources.filesystems import hide_secrets, without_secrets
from tests.conftest import small_table

REFUSED = [
    "reference://x.json",
    "reference::http://localhost/x.json",
    "simplecache::http://user:secret@localhost/x.parquet",
    "filecache::s3://bucket/*.parquet",
    "blockcache::file:///etc/hostname",
    "cached::file:///etc/hostname",
    "zip://*.parquet::http://localhost/x.zip",
    "tar://x::/tmp/x.tar",
    "memory://x::http://localhost/",
    "memory://[::http://localhost/]",
    "dask://x",
    "dir://x",
    "generic://file:///x",
]


@pytest.mark.parametrize("uri", REFUSED)
def test_an_address_that_leads_elsewhere_is_not_followed(uri, monkeypatch, run_cli):
    followed = []
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda *given, **options: followed.append(given))
    with pytest.raises(UsageError, match=r"leads to another one.*use `allow_external=True`") as error:
        nysketch.sketch(uri)
    assert not followed and "secret" not in str(error.value)
    assert str(error.value).startswith(f"{uri.replace('user:secret@', '')}: ")


def test_jobs_do_not_follow_them_either():
    settings = checked("[inputs]", {"paths": ["simplecache::memory://x.parquet"]}, TABLES["inputs"])
    with pytest.raises(UsageError, match="leads to another one"):
        scan(settings | {"partition": "file"})


def test_those_that_are_trusted_are_followed(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(small_table(), path)
    assert nysketch.sketch(f"simplecache::file://{path}", landmarks=5, allow_external=True).rows == 600
    listing = tmp_path / "references.json"
    listing.write_text(json.dumps({"b.parquet": [f"file://{path}"]}))
    uri = f"reference://b.parquet?fo={listing}"
    with pytest.raises(UsageError, match="leads to another one"):
        nysketch.sketch(uri, landmarks=5)
    settings = {"paths": [f"simplecache::file://{tmp_path}/*.parquet"], "allow_external": True}
    found = scan(checked("[inputs]", settings, TABLES["inputs"]) | {"partition": "file"})
    assert list(found.partitions) == ["a"]


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("nosuch://x", "ValueError: Protocol not known: nosuch"),
        ("jupyter://127.0.0.1:1/x", "TypeError: .* missing 1 required positional argument"),
        ("github://a/b", "TypeError: "),
        ("data://text/plain;base64,UEFSMQ==", "IndexError: list index out of range"),
    ],
)
def test_addresses_that_fsspec_does_not_understand_are_wrong_ones(run_cli, uri, reason):
    with pytest.raises(UsageError, match=f"fsspec cannot open such an address: {reason}"):
        nysketch.sketch(uri)
    result = run_cli("sketch", uri, "-o", os.devnull + "x")
    assert result.returncode == 2 and "internal" not in result.stderr


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("filecache::https://user:pass@host/x?sig=secret", "filecache::https://host/x"),
        ("zip://a.csv::s3://key:secret@b/y", "zip://a.csv::s3://b/y"),
        ("http://user:pass@[::1]:80/x?sig=secret", "http://[::1]:80/x"),
        ("http://user:pass@[::1/x?sig=secret", "http://[::1/x"),
    ],
)
def test_no_link_of_a_chain_shows_its_secrets(uri, shown):
    assert without_secrets(uri) == shown
    message = hide_secrets(f"no {uri}, no pass:word, no secret", uri)
    assert message.startswith(f"no {shown}, ")
    assert "secret" not in message.replace("no secret", "") or "[::1/" in uri
