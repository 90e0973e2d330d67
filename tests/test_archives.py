"""Files written by every released format version stay readable, to the last bit."""

import json
from pathlib import Path

import numpy as np
import pytest

import nysketch

ARCHIVES = Path(__file__).parent / "archives"
CASES = [("v1", name) for name in ("basis.nysk", "float32.nysk", "weighted.nysk", "float64.nysk")]
V2 = [
    f"{name}.{kind}.nysk"
    for name in ("gaussian", "sum", "product", "fourier", "text")
    for kind in ("basis", "sketch")
]


def expected(version, name):
    return json.loads((ARCHIVES / version / "expected.json").read_text())[name]


def test_no_archive_is_forgotten():
    kept = {(path.parent.name, path.name) for path in ARCHIVES.glob("*/*.nysk")}
    assert kept == {*CASES, *(("v2", name) for name in V2)}
    assert all((ARCHIVES / version / name).stat().st_size < 8000 for version, name in kept)


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


@pytest.mark.parametrize("name", V2)
def test_version_2_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v2" / name), expected("v2", name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert (basis.digest, str(basis.kernel)) == (want["basis_digest"], want["kernel"])
    if thing is basis:
        return
    sample = thing.tally.sample
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    # Through eigenvectors, whose last digits and signs are those of the machine's LAPACK.
    assert np.allclose(np.abs(thing.mean_features()), np.abs(want["mean_features"]), atol=1e-6)
    assert sample.keys.tolist() == want["sample_keys"]
    assert sample.rows.tolist() == want["sample_rows"]
    assert sample.weights.tolist() == want["sample_weights"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])


def test_versions_can_be_told_apart_and_a_file_without_a_sample_has_none():
    old = nysketch.load(ARCHIVES / "v1" / "float32.nysk")
    assert (len(old.tally.sample), old.tally.sample.capacity) == (0, 0)
    assert len(nysketch.load(ARCHIVES / "v2" / "gaussian.sketch.nysk").tally.sample) > 0
