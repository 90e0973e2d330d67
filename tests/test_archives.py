"""Files written by every released format version stay readable, to the last bit."""

import json
from pathlib import Path

import numpy as np
import pytest

import nysketch

ARCHIVES = Path(__file__).parent / "archives"
CASES = [
    (version, name)
    for version in ("v1",)
    for name in ("basis.nysk", "float32.nysk", "weighted.nysk", "float64.nysk")
]


def expected(version, name):
    return json.loads((ARCHIVES / version / "expected.json").read_text())[name]


def test_no_archive_is_forgotten():
    kept = {(path.parent.name, path.name) for path in ARCHIVES.glob("*/*.nysk")}
    assert kept == set(CASES)
    assert all((ARCHIVES / version / name).stat().st_size < 5000 for version, name in CASES)


@pytest.mark.parametrize(("version", "name"), CASES)
def test_the_basis_is_read_as_it_was_written(version, name):
    thing = nysketch.load(ARCHIVES / version / name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    want = expected(version, name)
    assert basis.digest == want["basis_digest"]
    assert basis.kernel.bandwidth == want["bandwidth"]
    assert [str(column) for column in basis.columns] == ["x", "y"]
    assert (basis.m, basis.d) == (8, 2)


@pytest.mark.parametrize(("version", "name"), [case for case in CASES if case[1] != "basis.nysk"])
def test_the_sums_are_read_as_they_were_written(version, name):
    sketch = nysketch.load(ARCHIVES / version / name)
    want = expected(version, name)
    assert sketch.rows == want["rows"] == 1000
    assert sketch.block_rows.tolist() == want["block_rows"]
    assert sketch.kernel_sums.tolist() == want["kernel_sums"]
    assert sketch.total_weight == want["total_weight"]
    assert sketch.settings == want["settings"]
    inputs = [[item.path, item.rows, item.digest] for item, _ in sketch.provenance.inputs]
    assert inputs == want["inputs"]
    lower, upper = sketch.column_ranges
    assert (lower.tolist(), upper.tolist()) == (want["lower"], want["upper"])


def test_archived_sketches_still_add_and_agree():
    float32, float64 = (nysketch.load(ARCHIVES / "v1" / f"float{bits}.nysk") for bits in (32, 64))
    assert np.allclose(float32.kernel_sums, float64.kernel_sums, rtol=1e-6)
    assert (float32 + float64).rows == 2000
    assert ((float32 + float64) - float64).kernel_sums.tolist() == float32.kernel_sums.tolist()
