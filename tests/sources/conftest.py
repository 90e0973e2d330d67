import itertools
import os

import numpy as np
import pyarrow as pa
import pytest

from tests.sources.servers import S3, Proxy, Silence

ROWS, WIDTH = 1000, 3
_numbers = itertools.count()


@pytest.fixture(scope="session")
def rows():
    return np.random.default_rng(1).normal(size=(ROWS, WIDTH))


@pytest.fixture(scope="session")
def table(rows):
    return pa.table({f"x{i}": rows[:, i] for i in range(WIDTH)})


@pytest.fixture
def small_pieces(monkeypatch):
    """Fragments of 256 rows and chunks of 64, so that a thousand rows have many of both."""
    monkeypatch.setattr("nysketch.sources.arrow.FRAGMENT_ROWS", 256)
    monkeypatch.setattr("nysketch.sources.arrays.FRAGMENT_ROWS", 256)
    monkeypatch.setattr("nysketch.sources.hdf5._FRAGMENT_BYTES", 8 * WIDTH * 256)
    monkeypatch.setattr("nysketch.passes.chunks.chunk_rows_for", lambda d: 64)


@pytest.fixture(scope="session")
def s3():
    """A server that speaks S3."""
    server = S3()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3, monkeypatch):
    """The name of a new bucket, in an environment in which it can be read."""
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    s3.client.create_bucket(Bucket=name)
    for variable, value in s3.environment().items():
        monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
def proxied(s3, bucket, monkeypatch):
    """Put a proxy before the server of the bucket: `proxied(share=0.05)`."""
    proxies = []

    def start(**options):
        proxy = Proxy(s3.port, **options)
        proxies.append(proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        return proxy

    yield start
    for proxy in proxies:
        proxy.stop()


@pytest.fixture
def silence():
    """A server that accepts connections and never answers."""
    server = Silence()
    yield server
    server.stop()


@pytest.fixture
def no_waits(monkeypatch):
    """Try again at once."""
    monkeypatch.setattr("nysketch.sources.retry._LONGEST_WAIT", 0.001)
