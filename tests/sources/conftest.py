import numpy as np
import pyarrow as pa
import pytest

ROWS, WIDTH = 1000, 3


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
    monkeypatch.setattr("nysketch.reading.chunk_rows_for", lambda d: 64)
