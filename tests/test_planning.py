import numpy as np
import pyarrow as pa
import pytest

from nysketch import planning
from nysketch.errors import UsageError
from nysketch.planning import plan
from nysketch.sources import open_source

MB = 10**6


@pytest.fixture
def source():
    return open_source(np.zeros((1000, 16)))


def test_threads_are_as_many_as_fit(source, monkeypatch):
    monkeypatch.setattr(planning, "available_threads", lambda: 64)
    small = plan(source, m=1000, blocks=64, memory=512 * MB)
    large = plan(source, m=1000, blocks=64, memory=4000 * MB)
    assert 2 <= small.threads < large.threads == 64
    assert small.memory_bytes <= 512 * MB
    assert large.memory_bytes <= 4000 * MB


def test_more_of_anything_takes_more_memory(source):
    base = {"m": 1000, "blocks": 64, "threads": 2, "memory": 10**12}
    least = plan(source, **base).memory_bytes
    for more in ({"m": 5000}, {"blocks": 640}, {"threads": 3}, {"batch_rows": 10**6}, {"pilot_rows": 10**6}):
        assert plan(source, **base | more).memory_bytes > least, more


def test_what_does_not_fit_is_refused_with_a_remedy(source):
    with pytest.raises(UsageError, match=r"more than the 100 MB allowed.*--memory"):
        plan(source, m=1000, blocks=64, memory=100 * MB)
    with pytest.raises(UsageError, match="or --threads"):
        plan(source, m=1000, blocks=64, threads=100, memory=512 * MB)


def test_wide_rows_are_planned_for():
    wide = open_source(pa.table({f"c{i}": [0.0] for i in range(3000)}))
    assert plan(wide, m=1000, blocks=64, threads=1, memory=10**12).memory_bytes > 512 * MB
