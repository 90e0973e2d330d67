"""Files written by every released format version stay readable, to the last bit."""

import json

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.errors import IncompatibleError
from tests.helpers import ARCHIVES

CASES = [("v1", name) for name in ("basis.nysk", "float32.nysk", "weighted.nysk", "float64.nysk")]
V2 = [
    f"{name}.{kind}.nysk"
    for name in ("gaussian", "sum", "product", "fourier", "text")
    for kind in ("basis", "sketch")
]

V3 = [
    f"{name}.{kind}.nysk"
    for name in ("gaussian", "plain", "product", "fourier", "text")
    for kind in ("basis", "sketch")
]

V4 = V3

V5 = [f"{name}.{kind}.nysk" for name in ("plain", "two", "three") for kind in ("basis", "sketch")]

V6 = [
    f"{name}.{kind}.nysk"
    for name in ("gaussian", "plain", "polynomial", "fourier", "text")
    for kind in ("basis", "sketch")
]

V7 = [f"{name}.nysk" for name in ("part", "rest", "several", "beside")]

V8 = [f"{name}.{kind}.nysk" for name in ("mixed", "weighted", "categories") for kind in ("basis", "sketch")]


def expected(version, name):
    return json.loads((ARCHIVES / version / "expected.json").read_text())[name]


def test_no_archive_is_forgotten():
    kept = {(path.parent.name, path.name) for path in ARCHIVES.glob("*/*.nysk")}
    later = {"v2": V2, "v3": V3, "v4": V4, "v5": V5, "v6": V6, "v7": V7, "v8": V8}
    assert kept == {*CASES, *((version, name) for version, names in later.items() for name in names)}
    assert all((ARCHIVES / version / name).stat().st_size < 8000 for version, name in kept)


def lengths(basis, features):
    """Return what every machine agrees on: lengths of the projections on eigenspaces.

    The sign of an eigenvector is up to LAPACK, and so are eigenvectors of an eigenvalue that occurs twice.
    """
    features = np.asarray(features)
    if not hasattr(basis, "nystrom"):
        return np.abs(features)
    eigenvalues = basis.nystrom.eigenvalues
    starts = np.flatnonzero(np.diff(eigenvalues, prepend=-np.inf) > 1e-6 * eigenvalues[-1])
    return np.sqrt(np.add.reduceat(features**2, starts))


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
    assert np.allclose(
        lengths(thing.basis, thing.mean_features()), lengths(thing.basis, want["mean_features"]), atol=1e-6
    )
    assert sample.keys.tolist() == want["sample_keys"]
    assert sample.rows.tolist() == want["sample_rows"]
    assert sample.weights.tolist() == want["sample_weights"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])


@pytest.mark.parametrize("name", V3)
def test_version_3_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v3" / name), expected("v3", name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert (basis.digest, str(basis.kernel)) == (want["basis_digest"], want["kernel"])
    if thing is basis:
        return
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    assert np.allclose(
        lengths(thing.basis, thing.mean_features()), lengths(thing.basis, want["mean_features"]), atol=1e-6
    )
    assert thing.tally.sample.keys.tolist() == want["sample_keys"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])
    cells = thing.cells
    assert (cells is None) == (want["cells"] is None) == name.startswith(("fourier", "text"))
    if cells is not None:
        assert want["cells"] == {
            "beyond": cells.beyond,
            "far_cells": cells.far.cells.tolist(),
            "far_offsets": cells.far.offsets.tolist(),
            "rows": cells.rows.tolist(),
            "squares": cells.squares.high.tolist(),
            "sums": cells.sums.high.tolist(),
            "weight": cells.weight.tolist(),
        }
        assert (cells.beyond, len(cells.far)) == (1, 7)


@pytest.mark.parametrize("name", V4)
def test_version_4_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v4" / name), expected("v4", name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert (basis.digest, str(basis.kernel)) == (want["basis_digest"], want["kernel"])
    if thing is basis:
        return
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    assert np.allclose(
        lengths(thing.basis, thing.mean_features()), lengths(thing.basis, want["mean_features"]), atol=1e-6
    )
    assert thing.tally.sample.keys.tolist() == want["sample_keys"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])
    assert want["cell_rows"] == (None if thing.cells is None else thing.cells.rows.tolist())
    runs = thing.spans
    assert want["runs"] == {
        "level": runs.level,
        "rows": runs.rows.tolist(),
        "sums": runs.sums.high.tolist(),
        "weight": runs.weight.tolist(),
        "where": runs.where.tolist(),
    }
    assert runs.level > 48 if name.startswith("text") else runs.level == 8


@pytest.mark.parametrize("name", V5)
def test_version_5_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v5" / name), expected("v5", name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert (basis.digest, str(basis.kernel)) == (want["basis_digest"], want["kernel"])
    if thing is basis:
        return
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    assert thing.tally.sample.keys.tolist() == want["sample_keys"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])
    assert thing.cells.rows.tolist() == want["cell_rows"]
    assert thing.spans.rows.tolist() == want["run_rows"]
    groups = thing.groups
    assert (groups is None) == (want["groups"] is None) == name.startswith("plain")
    if groups is not None:
        assert want["groups"] == {
            "high": groups.sums.high.tolist(),
            "low": groups.sums.low.tolist(),
            "parts": [list(part) for part in groups.parts],
        }
        assert groups.pairs == thing.weighted == (len(groups.parts) == 6) == name.startswith("three")
        assert nysketch.independence(thing).hsic_at_landmarks == pytest.approx(want["hsic"], rel=1e-6)


@pytest.mark.parametrize("name", V6)
def test_version_6_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v6" / name), expected("v6", name)
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert (basis.digest, str(basis.kernel)) == (want["basis_digest"], want["kernel"])
    if thing is basis:
        return
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    assert thing.tally.sample.keys.tolist() == want["sample_keys"]
    assert (thing.settings, thing.total_weight) == (want["settings"], want["total_weight"])
    assert want["cell_rows"] == (None if thing.cells is None else thing.cells.rows.tolist())
    assert thing.spans.rows.tolist() == want["run_rows"]
    moments = thing.second_moments
    assert (moments is None) == (want["moments"] is None) == name.startswith("plain")
    if moments is not None:
        assert want["moments"] == {"high": moments.sums.high.tolist(), "low": moments.sums.low.tolist()}
        assert moments.matrix()[0].tolist() == want["moments"]["high"][:6]
        assert thing.weighted == name.startswith("polynomial")


@pytest.mark.parametrize("name", V7)
def test_version_7_is_read_as_it_was_written(name):
    thing, want = nysketch.load(ARCHIVES / "v7" / name), expected("v7", name)
    assert thing.basis.digest == want["basis_digest"]
    assert thing.block_rows.tolist() == want["block_rows"]
    assert thing.kernel_sums.tolist() == want["kernel_sums"]
    assert thing.total_weight == want["total_weight"]
    provenance = thing.provenance
    assert [[item.path, item.rows, times] for item, times in provenance.inputs] == want["inputs"]
    assert [[whole.of, [list(s) for s in held]] for whole, held in provenance.parts] == want["held"]
    missing = [[whole.of, [list(s) for s in parts]] for whole, parts in provenance.missing_parts()]
    assert missing == want["missing"]
    wholes = [
        [whole.digest, [[item.path, item.rows, times] for item, times in whole.inputs]]
        for whole, _ in provenance.parts
    ]
    assert wholes == want["wholes"]


def test_archived_parts_still_add_up():
    part, rest = (nysketch.load(ARCHIVES / "v7" / f"{name}.nysk") for name in ("part", "rest"))
    assert not (part + rest).provenance.parts
    assert (part + rest).rows == 1000
    assert ((part + rest) - part).provenance == rest.provenance


@pytest.mark.parametrize(
    ("version", "name"),
    [("v1", "float32.nysk")]
    + [(f"v{number}", "product.sketch.nysk") for number in (2, 3, 4)]
    + [("v5", "plain.sketch.nysk"), ("v6", "plain.sketch.nysk")],
)
def test_older_versions_have_no_second_moments_and_neither_has_a_sum_with_them(version, name, tmp_path):
    old = nysketch.load(ARCHIVES / version / name)
    assert old.second_moments is None
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=100), "y": random.normal(size=100), "w": random.random(100)})
    weights = old.settings["weights"]
    options = {"weights": weights, "blocks": len(old.block_rows), "second_moments": True}
    new = nysketch.sketch(table, basis=old, **options)
    assert new.second_moments.m == old.basis.m
    assert old + new == new + old
    assert (old + new).second_moments is None
    assert ((old + new) - new).second_moments is None
    nysketch.save(old + new, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == old + new


@pytest.mark.parametrize("version", ["v2", "v3", "v4"])
def test_older_versions_have_no_sums_of_groups_and_neither_has_a_sum_with_them(version, tmp_path):
    old = nysketch.load(ARCHIVES / version / "product.sketch.nysk")
    assert old.groups is None
    with pytest.raises(IncompatibleError, match="Sketch the data again"):
        nysketch.independence(old)
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=100), "y": random.normal(size=100), "w": random.random(100)})
    new = nysketch.sketch(table, basis=old, weights=old.settings["weights"], blocks=len(old.block_rows))
    assert new.groups.parts == ((0,), (1,))
    assert old + new == new + old
    assert (old + new).groups is None
    assert (old + new).rows == old.rows + 100
    nysketch.save(old + new, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == old + new


@pytest.mark.parametrize(
    ("version", "name"),
    [("v1", "float32.nysk"), ("v2", "gaussian.sketch.nysk"), ("v3", "gaussian.sketch.nysk")],
)
def test_older_versions_have_no_runs_and_neither_has_a_sum_with_them(version, name, tmp_path):
    old = nysketch.load(ARCHIVES / version / name)
    assert old.spans is None
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=100), "y": random.normal(size=100), "w": random.random(100)})
    new = nysketch.sketch(table, basis=old, weights=old.settings["weights"], blocks=len(old.block_rows))
    assert new.spans.rows.sum() == 100
    assert old + new == new + old
    assert (old + new).spans is None
    nysketch.save(old + new, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == old + new


@pytest.mark.parametrize(("version", "name"), [("v1", "float32.nysk"), ("v2", "gaussian.sketch.nysk")])
def test_older_versions_have_no_cells_and_neither_has_a_sum_with_them(version, name, tmp_path):
    old = nysketch.load(ARCHIVES / version / name)
    assert old.cells is None
    random = np.random.default_rng(0)
    table = pa.table({"x": random.normal(size=100), "y": random.normal(size=100), "w": random.random(100)})
    new = nysketch.sketch(table, basis=old, weights=old.settings["weights"], blocks=len(old.block_rows))
    assert new.cells.rows.sum() == 100
    assert old + new == new + old
    assert (old + new).cells is None
    nysketch.save(old + new, tmp_path / "both.nysk")
    assert nysketch.load(tmp_path / "both.nysk") == old + new


def test_versions_can_be_told_apart_and_a_file_without_a_sample_has_none():
    old = nysketch.load(ARCHIVES / "v1" / "float32.nysk")
    assert (len(old.tally.sample), old.tally.sample.capacity) == (0, 0)
    assert len(nysketch.load(ARCHIVES / "v2" / "gaussian.sketch.nysk").tally.sample) > 0


# ---- version 8 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", V8)
def test_kinds_are_read_as_they_were_written(name):
    thing, want = nysketch.load(ARCHIVES / "v8" / name), expected("v8", name.split(".")[0])
    basis = thing if isinstance(thing, nysketch.Basis) else thing.basis
    assert basis.digest == want["basis_digest"]
    assert [column.describe() for column in basis.columns] == want["kinds"]
    assert list(basis.columns[0].kind.values) == want["vocabulary"]
    landmarks = np.array(want["landmarks"], float)
    assert np.array_equal(basis.landmarks, landmarks, equal_nan=True)
    # Logarithms and cosines may have other last digits on other machines.
    assert np.allclose(basis.scaled_landmarks, want["scaled"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in V8 if "sketch" in name])
def test_sketches_of_kinds_are_read_as_they_were_written(name):
    content = (ARCHIVES / "v8" / name).read_bytes()
    sketch, want = nysketch.from_bytes(content), expected("v8", name.split(".")[0])
    assert sketch.kernel_sums.tolist() == want["kernel_sums"]
    rows, sums, squares = want["cells"]
    assert sketch.cells.rows.tolist() == rows
    assert np.allclose(sketch.cells.sums.high, sums, rtol=1e-14)
    assert np.allclose(sketch.cells.squares.high, squares, rtol=1e-14)
    assert nysketch.to_bytes(sketch) == content
    both = sketch + sketch
    assert np.array_equal((both - sketch).cells.values.high, sketch.cells.values.high)
