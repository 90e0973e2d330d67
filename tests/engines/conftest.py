import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nysketch.engines.dask.engine import DaskEngine
from nysketch.sources.open import open_source
from tests.disturbances import PATIENCE
from tests.engines import clusters, works

cloudpickle.register_pickle_by_value(works)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A cluster of two workers that no test kills."""
    with clusters.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def client(cluster):
    with clusters.connected(cluster) as client:
        yield client


@pytest.fixture
def engine(client):
    """An engine with small groups, so that there are many, and a deep tree."""
    return DaskEngine(client, patience=PATIENCE, seconds=0.02, fan_in=2)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Three Parquet files of very different size, 41 row groups of up to 100 rows."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(0)
    for name, rows in (("a", 2500), ("b", 7), ("c", 1450)):
        table = pa.table(
            {f"x{i}": random.normal(i, 1 + i, rows) for i in range(3)}
            | {"w": random.uniform(0.5, 2, rows), "name": [f"{name}{i}" for i in range(rows)]}
        )
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=100)
    return folder


@pytest.fixture
def source(files):
    return open_source(str(files), exclude=["w"])


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes").mkdir()
    return tmp_path / "notes"
