"""HDF5 files from strangers: what points elsewhere or promises too much is refused, unless trusted."""

import h5py
import numpy as np
import pytest

from nysketch.errors import InputError, SchemaError
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all

VALUES = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def secret(tmp_path):
    """A file that nobody meant to give away."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = VALUES
    return tmp_path / "secret.h5"


def external_link(file, secret):
    file["x"] = h5py.ExternalLink(str(secret), "/x")


def soft_link(file, secret):
    file["elsewhere"] = VALUES
    file["x"] = h5py.SoftLink("/elsewhere")


def link_to_a_group(file, secret):
    file["g"] = h5py.ExternalLink(str(secret), "/")


def virtual(file, secret):
    layout = h5py.VirtualLayout(shape=VALUES.shape, dtype=float)
    layout[:] = h5py.VirtualSource(str(secret), "x", shape=VALUES.shape)
    file.create_virtual_dataset("x", layout)


def external_storage(file, secret):
    raw = secret.with_suffix(".raw")
    VALUES.tofile(raw)
    file.create_dataset("x", VALUES.shape, float, external=[(str(raw), 0, h5py.h5f.UNLIMITED)])


@pytest.fixture(params=[external_link, soft_link, link_to_a_group, virtual, external_storage])
def pointing(request, tmp_path, secret):
    """A file whose data are elsewhere, and the name they have in it."""
    with h5py.File(tmp_path / "pointing.h5", "w") as file:
        request.param(file, secret)
    return str(tmp_path / "pointing.h5"), "g/x" if request.param is link_to_a_group else "x"


def test_what_points_elsewhere_is_refused_with_the_flag_that_trusts_it(pointing):
    path, name = pointing
    with pytest.raises(InputError, match=r"pointing\.h5, data set .*`allow_external=True`") as error:
        open_source(path, datasets=[name])
    assert not isinstance(error.value, SchemaError)


def test_what_points_elsewhere_is_never_chosen_unasked(pointing, secret):
    path, _ = pointing
    try:
        source = open_source(path)
    except InputError:
        return
    assert [column.name for column in source.columns] == ["elsewhere"]


def test_what_points_elsewhere_is_read_if_trusted(pointing):
    path, name = pointing
    np.testing.assert_array_equal(read_all(open_source(path, datasets=[name], allow_external=True)), VALUES)


def test_links_are_listed_as_links_when_there_is_nothing_else(tmp_path, secret):
    with h5py.File(tmp_path / "l.h5", "w") as file:
        external_link(file, secret)
    with pytest.raises(SchemaError, match=r"There are: x \(a link\)"):
        open_source(str(tmp_path / "l.h5"))


@pytest.mark.parametrize("link", [h5py.SoftLink("/nowhere"), h5py.ExternalLink("/no/file.h5", "/x")])
def test_a_dangling_link_is_an_input_error_even_if_trusted(tmp_path, link):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"] = link
    for trusted in (False, True):
        with pytest.raises(InputError, match=r"d\.h5, data set 'x'"):
            open_source(str(tmp_path / "d.h5"), datasets=["x"], allow_external=trusted)


def test_weights_that_point_elsewhere_are_refused(tmp_path, secret):
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["x"] = VALUES
        file["w"] = h5py.ExternalLink(str(secret), "/x")
    with pytest.raises(InputError, match=r"data set 'w'.*`allow_external=True`"):
        open_source(str(tmp_path / "w.h5"), weights="w")


@pytest.mark.parametrize("options", [{"chunks": (1024, 2)}, {}], ids=["chunked", "contiguous"])
def test_terabytes_that_were_never_written_are_refused(tmp_path, options):
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        file.create_dataset("x", shape=(1 << 40, 2), dtype="f8", **options)
    with pytest.raises(InputError, match=r"huge\.h5, data set 'x': declares .*bytes\) but stores only"):
        open_source(str(tmp_path / "huge.h5"))


def test_unwritten_rows_are_zeros_if_trusted(tmp_path):
    with h5py.File(tmp_path / "u.h5", "w") as file:
        file.create_dataset("x", shape=(100, 2), dtype="f8", chunks=(10, 2))
    path = str(tmp_path / "u.h5")
    with pytest.raises(InputError, match="`allow_external=True`"):
        open_source(path)
    assert not read_all(open_source(path, allow_external=True)).any()


def test_well_compressed_data_are_no_lie(tmp_path):
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((200_000, 2)), chunks=(10_000, 2), compression="gzip")
    assert open_source(str(tmp_path / "z.h5")).rows == 200_000


def test_a_chunk_too_large_to_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("nysketch.sources.hdf5._MAX_CHUNK_BYTES", 1 << 16)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file.create_dataset("x", data=np.ones((10_000, 2)), chunks=(10_000, 2))
    path = str(tmp_path / "c.h5")
    with pytest.raises(InputError, match=r"chunks of 160,000 bytes.*h5repack.*`allow_external=True`"):
        open_source(path)
    assert open_source(path, allow_external=True).rows == 10_000


def test_groups_that_contain_themselves_end(tmp_path):
    with h5py.File(tmp_path / "o.h5", "w") as file:
        group = file.create_group("a/b")
        group["again"] = file["a"]
        group["top"] = file["/"]
        group["x"] = VALUES
    path = str(tmp_path / "o.h5")
    source = open_source(path)
    np.testing.assert_array_equal(read_all(source), VALUES)
    long_way = open_source(path, datasets=["a/b/again/b/top/a/b/x"])
    np.testing.assert_array_equal(read_all(long_way), VALUES)


def test_two_hard_links_to_one_data_set_are_one_candidate(tmp_path):
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["x"] = VALUES
        file["y"] = file["x"]
    assert [column.name for column in open_source(str(tmp_path / "h.h5")).columns] == ["x"]


def test_types_that_numpy_does_not_know_are_no_numbers(tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["x"] = VALUES
        kind = h5py.h5t.TypeID.copy(h5py.h5t.UNIX_D32LE)
        h5py.h5d.create(file.id, b"t", kind, h5py.h5s.create_simple((3,)))
    assert [column.name for column in open_source(str(tmp_path / "t.h5")).columns] == ["x"]
