import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.accumulators.options import PassOptions
from nysketch.basis.nystrom import NystromBasis
from nysketch.basis.options import BasisOptions
from nysketch.errors import UsageError
from nysketch.kernels import Gaussian
from nysketch.passes import memory
from nysketch.passes.memory import Size, plan_pass
from nysketch.sources.open import open_source
from nysketch.sources.protocol import row_width
from tests.helpers import as_keywords

MB = 10**6


def basis_of(source, m):
    """Return a basis of m landmarks, all alike."""
    d = sum(column.width for column in source.columns)
    landmarks, zeros, ones = np.zeros((m, d)), np.zeros(d), np.ones(d)
    common = {"columns": source.columns, "scaling": "none", "center": zeros, "scale": ones}
    return NystromBasis(**common, kernel=Gaussian(1.0), landmarks=landmarks)


def plan(source, basis, *, threads=None, batch_rows=None, memory=10**12, **options):
    """Plan a pass at m landmarks, or at a basis to be made, without anything that is not asked for."""
    basis = basis_of(source, basis) if isinstance(basis, int) else basis
    options = PassOptions(**{"runs": 0} | options)
    return plan_pass(source, basis, options, threads=threads, batch_rows=batch_rows, memory=memory)


@pytest.fixture
def source():
    return open_source(np.zeros((1000, 16)))


def test_threads_are_as_many_as_fit(source, monkeypatch):
    monkeypatch.setattr(memory, "available_threads", lambda: 64)
    small = plan(source, 1000, blocks=64, memory=512 * MB)
    large = plan(source, 1000, blocks=64, memory=4000 * MB)
    assert 2 <= small.threads < large.threads == 64
    assert small.memory_bytes <= 512 * MB
    assert large.memory_bytes <= 4000 * MB


def test_more_of_anything_takes_more_memory(source):
    base = {"blocks": 64, "threads": 2, "memory": 10**12, "sample_rows": 0}
    least = plan(source, 1000, **base).memory_bytes
    for more in (
        {"blocks": 640},
        {"threads": 3},
        {"batch_rows": 10**6},
        {"sample_rows": 10**5},
        {"second_moments": True},
    ):
        assert plan(source, 1000, **base | more).memory_bytes > least, more
    assert plan(source, 1000, **base, far_rows=10**5).memory_bytes > least
    assert plan(source, 1000, **base, runs=64).memory_bytes > least
    assert plan(source, 1000, **base, cells=False).memory_bytes < least
    for larger in (1500, 20_000):
        assert plan(source, larger, **base).memory_bytes > least, larger


def test_groups_of_columns_take_more_memory():
    source = open_source(pa.table({name: [0.0] for name in "abc"}))
    groups = {"x": ["a"], "y": ["b"], "z": ["c"]}
    base = {"threads": 2, "sample_rows": 0, "shuffle_rows": 0}
    one, apart = BasisOptions(m=1000), BasisOptions(m=1000, groups=groups)
    planned = [
        plan(source, one, **base),
        plan(source, apart, **base),
        plan(source, apart, pairs=True, **base),
        plan(source, apart, pairs=True, **base | {"shuffle_rows": None}),  # rows to permute are in the file
    ]
    assert planned == sorted(planned, key=lambda plan: plan.sketch_bytes)
    assert len({plan.sketch_bytes for plan in planned}) == 4
    assert plan(source, apart, shuffles=0, **base) == planned[0]


def test_fourier_features_keep_neither_cells_nor_rows(source):
    plain, fourier = (plan(source, BasisOptions(m=1000, features=f)) for f in ("nystrom", "fourier"))
    assert fourier.sketch_bytes < plain.sketch_bytes
    assert plan(source, BasisOptions(m=1000, features="fourier"), cells=False, sample_rows=0) == fourier


def test_a_basis_that_is_made_takes_memory_for_its_pilot():
    source = open_source(np.zeros((100_000, 16)))
    limits = {"blocks": 64, "threads": 1, "memory": 10**12}
    given = plan(source, 1000, **limits).memory_bytes
    pilot = {"m": 1000, "pilot_rows": 10**5}
    wide = plan(source, BasisOptions(**pilot), **limits).memory_bytes
    assert given < wide < plan(source, BasisOptions(**pilot, sampling="greedy"), **limits).memory_bytes


def test_what_does_not_fit_is_refused_with_a_remedy(source):
    with pytest.raises(UsageError, match=r"more than the 100 MB allowed.*`memory`"):
        plan(source, 1000, blocks=64, memory=100 * MB)
    with pytest.raises(UsageError, match="or `threads`"):
        plan(source, 1000, blocks=64, threads=100, memory=512 * MB)


@pytest.mark.parametrize("weights", [None, "w"])
def test_second_moments_are_planned_for(weights, tmp_path):
    table = pa.table({name: np.random.default_rng(0).uniform(size=30_000) for name in "abcdw"})
    base = {"blocks": 8, "threads": 1, "second_moments": True}
    planned = plan(open_source(table, weights=weights), 300, weights=weights, **base)
    nysketch.save(nysketch.sketch(table, landmarks=300, weights=weights, **base), tmp_path / "s.nysk")
    assert 0.55 < (tmp_path / "s.nysk").stat().st_size / planned.sketch_bytes < 1.05
    # Of every thread a matrix, which limits their number, and of all of them the sums.
    least, more = (
        plan(open_source(table), 3000, memory=10**12, **base | {"threads": 2, "second_moments": there})
        for there in (False, True)
    )
    assert more.memory_bytes > least.memory_bytes + 2 * 8 * 3000**2
    with pytest.raises(UsageError, match="leave out `second_moments`"):
        plan(open_source(table), 3000, memory=512 * MB, **base)


def test_wide_rows_are_planned_for():
    wide = open_source(pa.table({f"c{i}": [0.0] for i in range(3000)}))
    assert plan(wide, 1000, blocks=64, threads=1, memory=10**12).memory_bytes > 512 * MB


def test_long_strings_are_planned_for():
    long, short = (open_source(pa.table({"t": ["x" * length] * 5000}), text=True) for length in (20_000, 20))
    limits = {"blocks": 64, "threads": 1, "memory": 10**12}
    options = BasisOptions(m=100, kernel="spectrum")
    sizes = [Size.of(options, row_width(source)) for source in (long, short)]
    assert sizes[0].pilot_rows < sizes[1].pilot_rows
    large, small = (plan(source, options, **limits) for source in (long, short))
    assert large.memory_bytes > small.memory_bytes + 20 * MB
    assert large.sketch_bytes > 100 * 20_000


@pytest.mark.slow
@pytest.mark.parametrize("runs", [0, 64])
@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("d", [2, 40])
def test_the_size_of_the_file_is_planned(cells, runs, d, tmp_path):
    rows = np.random.default_rng(0).standard_normal((30_000, d))
    options = {"blocks": 8, "threads": 1, "cells": cells, "runs": runs}
    planned = plan(open_source(rows), 300, memory=10**12, **options)
    nysketch.save(nysketch.sketch(rows, landmarks=300, **as_keywords(options)), tmp_path / "s.nysk")
    assert 0.55 < (tmp_path / "s.nysk").stat().st_size / planned.sketch_bytes < 1.05
