import os
import stat
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

import nysketch
from nysketch._support.atomic import atomic_file
from nysketch._support.exact import ExactSum
from nysketch.accumulators.blocks import BlockSums
from nysketch.errors import CorruptSketchError, InputError, OutputError, UsageError, WrongKindError
from nysketch.files.checkpoint import Checkpoint
from nysketch.files.container import FORMAT_VERSION, MAX_HEADER_BYTES
from nysketch.files.format import load_basis, load_sketch
from tests.helpers import canonical, parted_sketch, seal, small_sketch, unseal


@pytest.fixture(scope="module")
def sketch():
    return small_sketch()


@pytest.fixture(scope="module")
def saved(sketch, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "small.nysk"
    nysketch.save(sketch, path)
    return path


def same(a, b):
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name]) for name in a
    )


@pytest.mark.parametrize(
    "options", [{}, {"weights": "w"}, {"precision": "float64"}, {"blocks": 1, "landmarks": 1}]
)
def test_a_sketch_comes_back_as_it_was(tmp_path, options):
    sketch = small_sketch(**options)
    nysketch.save(sketch, tmp_path / "s.nysk")
    back = nysketch.load(tmp_path / "s.nysk")
    assert same(back.tally.arrays(), sketch.tally.arrays())
    assert same(back.basis.arrays(), sketch.basis.arrays())
    assert back.basis.digest == sketch.basis.digest
    assert back.basis.origin == sketch.basis.origin
    assert (back.settings, back.provenance) == (sketch.settings, sketch.provenance)


def test_a_basis_comes_back_as_it_was(sketch, tmp_path):
    nysketch.save(sketch.basis, tmp_path / "b.nysk")
    back = nysketch.load(tmp_path / "b.nysk")
    assert isinstance(back, nysketch.Basis)
    assert back.digest == sketch.basis.digest == load_basis(tmp_path / "b.nysk").digest


def test_the_basis_of_a_sketch_file_can_be_taken(sketch, saved):
    assert load_basis(saved).digest == sketch.basis.digest


def test_the_same_sketch_gives_the_same_bytes(sketch, saved, tmp_path):
    nysketch.save(small_sketch(), tmp_path / "again.nysk")
    nysketch.save(nysketch.load(saved), tmp_path / "reread.nysk")
    assert (tmp_path / "again.nysk").read_bytes() == saved.read_bytes()
    assert (tmp_path / "reread.nysk").read_bytes() == saved.read_bytes()


def test_the_layout_is_the_documented_one(saved):
    _, metadata, arrays = unseal(saved.read_bytes())
    assert seal(canonical(metadata), arrays) == saved.read_bytes()


def test_the_safetensors_library_reads_the_same_arrays(sketch, saved):
    arrays = load_file(saved)
    assert same(arrays, sketch.basis.arrays() | sketch.tally.arrays())


def test_permissions_follow_the_umask(sketch, tmp_path):
    for mask, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            nysketch.save(sketch, tmp_path / "s.nysk")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "s.nysk").stat().st_mode) == expected


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "old.nysk"
    path.write_bytes(b"old")
    with pytest.raises((type(error), OutputError)), atomic_file(path) as file:
        file.write(b"new")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_an_output_error(sketch, tmp_path):
    with pytest.raises(OutputError, match="No such file or directory"):
        nysketch.save(sketch, tmp_path / "missing" / "s.nysk")


def test_a_header_beyond_the_cap_is_not_written(sketch, tmp_path):
    basis = replace(sketch.basis, origin={"note": "x" * MAX_HEADER_BYTES})
    with pytest.raises(OutputError, match="more than the format's"):
        nysketch.save(basis, tmp_path / "b.nysk")
    assert list(tmp_path.iterdir()) == []


def test_a_header_beyond_the_cap_is_not_read(saved, tmp_path):
    _, metadata, arrays = unseal(saved.read_bytes())
    metadata["basis"]["origin"]["note"] = "x" * MAX_HEADER_BYTES
    (tmp_path / "long.nysk").write_bytes(seal(canonical(metadata), arrays))
    with pytest.raises(CorruptSketchError, match="header is incomplete"):
        nysketch.load(tmp_path / "long.nysk")


@pytest.mark.parametrize(
    ("low", "stored"),
    [(0.0, None), (2.0**-60, np.float32), (2.0**-60 * (1 + 2.0**-30), np.float64)],
)
def test_the_low_part_takes_no_more_bytes_than_it_needs(sketch, tmp_path, low, stored):
    sums = ExactSum(sketch.block_kernel_sums + 64.0, np.full_like(sketch.block_kernel_sums, low))
    ranges = replace(sketch.tally.ranges, exact=False)  # after a subtraction, sums may be anything
    tally = sketch.tally.replacing(BlockSums(sums, sketch.block_rows, None), ranges)
    nysketch.save(replace(sketch, tally=tally), tmp_path / "s.nysk")
    arrays = load_file(tmp_path / "s.nysk")
    assert (arrays["blocks.sums.low"].dtype if stored else "blocks.sums.low" in arrays) == (stored or False)
    assert np.array_equal(load_sketch(tmp_path / "s.nysk").tally.blocks.sums.low, sums.low)


def test_a_file_from_the_future_asks_for_an_upgrade(saved, tmp_path):
    _, metadata, arrays = unseal(saved.read_bytes())
    metadata["format_version"] = FORMAT_VERSION + 1
    (tmp_path / "new.nysk").write_bytes(seal(canonical(metadata), arrays))
    with pytest.raises(CorruptSketchError, match=rf"format version {FORMAT_VERSION + 1}.*Upgrade"):
        nysketch.load(tmp_path / "new.nysk")


def test_a_file_from_the_future_asks_for_an_upgrade_whatever_types_it_has(saved, tmp_path):
    _, metadata, arrays = unseal(saved.read_bytes())
    metadata["format_version"] = FORMAT_VERSION + 1
    arrays["new"] = np.zeros(3, np.int32)  # a type that this version does not know
    (tmp_path / "new.nysk").write_bytes(seal(canonical(metadata), arrays))
    with pytest.raises(CorruptSketchError, match="Upgrade"):
        nysketch.load(tmp_path / "new.nysk")


def test_kinds_are_not_confused(sketch, saved, tmp_path):
    nysketch.save(sketch.basis, tmp_path / "b.nysk")
    with pytest.raises(WrongKindError, match="is a basis file; expected a sketch file"):
        load_sketch(tmp_path / "b.nysk")
    checkpoint = Checkpoint(tmp_path / "s.nysk", {"inputs": []}, every=1)
    checkpoint.save(sketch, {0})
    with pytest.raises(WrongKindError, match="is a checkpoint file"):
        nysketch.load(checkpoint.path)
    (tmp_path / "t.nysk.checkpoint").write_bytes(saved.read_bytes())
    with pytest.raises(
        CorruptSketchError, match=r"is a sketch file; expected a checkpoint file.*`restart=True`"
    ):
        Checkpoint(tmp_path / "t.nysk", {"inputs": []}, every=1)


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        nysketch.load(tmp_path / "missing.nysk")
    with pytest.raises(InputError, match="directory"):
        nysketch.load(tmp_path)


def test_what_could_not_be_loaded_is_not_saved(sketch, tmp_path):
    with pytest.raises(UsageError, match="row counts are impossible"):
        nysketch.save(sketch - (sketch + sketch), tmp_path / "negative.nysk")
    sums = ExactSum(sketch.block_kernel_sums * np.nan, np.zeros_like(sketch.block_kernel_sums))
    tally = sketch.tally.replacing(BlockSums(sums, sketch.block_rows, None))
    with pytest.raises(UsageError, match="not finite numbers"):
        nysketch.save(replace(sketch, tally=tally), tmp_path / "nan.nysk")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_holds_more_inputs_than_fit_a_header(sketch, tmp_path):
    request = {"inputs": [[f"some/long/directory/part-{i:06}.parquet", i, i, i] for i in range(20_000)]}
    Checkpoint(tmp_path / "s.nysk", request, every=1).save(sketch, {0, 5})
    assert Checkpoint(tmp_path / "s.nysk", request, every=1).resumed == 2
    request["inputs"][7][1] = 8
    with pytest.raises(InputError, match=r"part-000007\.parquet changed"):
        Checkpoint(tmp_path / "s.nysk", request, every=1)


@pytest.mark.parametrize("make", [small_sketch, parted_sketch, lambda: small_sketch().basis])
def test_bytes_are_those_of_the_file(make, tmp_path):
    thing = make()
    nysketch.save(thing, tmp_path / "s.nysk")
    data = nysketch.to_bytes(thing)
    assert data == (tmp_path / "s.nysk").read_bytes()
    for given in (data, bytearray(data), memoryview(data)):
        assert nysketch.from_bytes(given) == thing


def test_bytes_are_checked_like_files(sketch, saved):
    data = saved.read_bytes()
    for damaged in (data[:-1], data[:5], b"", data[:-1] + bytes([data[-1] ^ 1]), data + b"0"):
        with pytest.raises(CorruptSketchError, match=r"^these bytes: not a usable sketch file"):
            nysketch.from_bytes(damaged)
    _, metadata, arrays = unseal(data)
    metadata["kind"] = "checkpoint"
    with pytest.raises(WrongKindError, match="these bytes: is a checkpoint file"):
        nysketch.from_bytes(seal(canonical(metadata), arrays))
    metadata["kind"], metadata["dropped_rows"] = "sketch", -1
    with pytest.raises(CorruptSketchError, match="these bytes: its parts are inconsistent"):
        nysketch.from_bytes(seal(canonical(metadata), arrays))
    with pytest.raises(UsageError, match="row counts are impossible"):
        nysketch.to_bytes(sketch - (sketch + sketch))


def test_only_files_with_parts_need_the_newest_version(sketch):
    versions = [
        unseal(nysketch.to_bytes(thing))[1]["format_version"]
        for thing in (sketch, sketch.basis, parted_sketch())
    ]
    assert versions == [6, 6, 7]
