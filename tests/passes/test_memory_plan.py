import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.basis.options import BasisOptions
from nysketch.errors import UsageError
from nysketch.passes import memory
from nysketch.passes.memory import Size, plan
from nysketch.sources.open import open_source
from nysketch.sources.protocol import row_width

MB = 10**6


@pytest.fixture
def source():
    return open_source(np.zeros((1000, 16)))


def test_threads_are_as_many_as_fit(source, monkeypatch):
    monkeypatch.setattr(memory, "available_threads", lambda: 64)
    small = plan(source, Size(1000), blocks=64, memory=512 * MB)
    large = plan(source, Size(1000), blocks=64, memory=4000 * MB)
    assert 2 <= small.threads < large.threads == 64
    assert small.memory_bytes <= 512 * MB
    assert large.memory_bytes <= 4000 * MB


def test_more_of_anything_takes_more_memory(source):
    base = {"blocks": 64, "threads": 2, "memory": 10**12, "sample_rows": 0}
    least = plan(source, Size(1000), **base).memory_bytes
    for more in (
        {"blocks": 640},
        {"threads": 3},
        {"batch_rows": 10**6},
        {"sample_rows": 10**5},
        {"parts": 3},
        {"second_moments": True},
    ):
        assert plan(source, Size(1000), **base | more).memory_bytes > least, more
    assert plan(source, Size(1000), **base, far_rows=10**5).memory_bytes > least
    assert plan(source, Size(1000), **base, runs=64).memory_bytes > least
    assert plan(source, Size(1000), **base, cells=False).memory_bytes < least
    for larger in (Size(1500), Size(20_000)):
        assert plan(source, larger, **base).memory_bytes > least, larger


def test_a_basis_that_is_made_takes_memory_for_its_pilot():
    source = open_source(np.zeros((100_000, 16)))
    limits = {"blocks": 64, "threads": 1, "memory": 10**12}
    given = plan(source, Size(1000), **limits).memory_bytes
    wide = plan(source, Size(1000, 10**5, "kmeans++"), **limits).memory_bytes
    assert given < wide < plan(source, Size(1000, 10**5, "greedy"), **limits).memory_bytes


def test_what_does_not_fit_is_refused_with_a_remedy(source):
    with pytest.raises(UsageError, match=r"more than the 100 MB allowed.*--memory"):
        plan(source, Size(1000), blocks=64, memory=100 * MB)
    with pytest.raises(UsageError, match="or --threads"):
        plan(source, Size(1000), blocks=64, threads=100, memory=512 * MB)


@pytest.mark.parametrize("weights", [None, "w"])
def test_second_moments_are_planned_for(weights, tmp_path):
    table = pa.table({name: np.random.default_rng(0).uniform(size=30_000) for name in "abcdw"})
    base = {"blocks": 8, "threads": 1, "second_moments": True}
    planned = plan(open_source(table, weights=weights), Size(300), memory=10**12, **base)
    nysketch.save(nysketch.sketch(table, m=300, weights=weights, **base), tmp_path / "s.nysk")
    assert 0.55 < (tmp_path / "s.nysk").stat().st_size / planned.sketch_bytes < 1.05
    # Of every thread a matrix, which limits their number, and of all of them the sums.
    least, more = (
        plan(open_source(table), Size(3000), memory=10**12, **base | {"threads": 2, "second_moments": there})
        for there in (False, True)
    )
    assert more.memory_bytes > least.memory_bytes + 2 * 8 * 3000**2
    with pytest.raises(UsageError, match="leave out --second-moments"):
        plan(open_source(table), Size(3000), memory=512 * MB, **base)


def test_wide_rows_are_planned_for():
    wide = open_source(pa.table({f"c{i}": [0.0] for i in range(3000)}))
    assert plan(wide, Size(1000), blocks=64, threads=1, memory=10**12).memory_bytes > 512 * MB


def test_long_strings_are_planned_for():
    long, short = (open_source(pa.table({"t": ["x" * length] * 5000}), text=True) for length in (20_000, 20))
    limits = {"blocks": 64, "threads": 1, "memory": 10**12}
    sizes = [Size.of(BasisOptions(m=100, kernel="spectrum"), row_width(source)) for source in (long, short)]
    assert sizes[0].pilot_rows < sizes[1].pilot_rows
    large, small = (plan(source, size, **limits) for source, size in zip((long, short), sizes, strict=True))
    assert large.memory_bytes > small.memory_bytes + 20 * MB
    assert large.sketch_bytes > 100 * 20_000


@pytest.mark.parametrize("runs", [0, 64])
@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("d", [2, 40])
def test_the_size_of_the_file_is_planned(cells, runs, d, tmp_path):
    rows = np.random.default_rng(0).standard_normal((30_000, d))
    options = {"blocks": 8, "threads": 1, "cells": cells, "runs": runs}
    planned = plan(open_source(rows), Size(300), memory=10**12, **options)
    nysketch.save(nysketch.sketch(rows, m=300, **options), tmp_path / "s.nysk")
    assert 0.55 < (tmp_path / "s.nysk").stat().st_size / planned.sketch_bytes < 1.05
