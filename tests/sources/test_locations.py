"""A file: what it is taken for, and what is said of it."""

import os

import h5py
import numpy as np
import pytest

from nysketch.errors import InputError
from nysketch.sources.open import open_source
from tests.sources.helpers import read_all, write_parquet

ONE = {"x": [1.0, 2.0, 3.0]}


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "e.parquet").touch()
    with pytest.raises(InputError, match=r"e\.parquet: the file is empty \(0 bytes\)"):
        open_source(str(tmp_path / "e.parquet"))


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"p\.parquet: is a pipe.*as -"):
        open_source(str(tmp_path / "p.parquet"))


def test_the_first_bytes_decide_the_format_not_the_name(tmp_path):
    path = write_parquet(tmp_path / "really.parquet", ONE)
    (tmp_path / "really.h5").write_bytes((tmp_path / "really.parquet").read_bytes())
    (tmp_path / "noname").write_bytes((tmp_path / "really.parquet").read_bytes())
    for name in (path, tmp_path / "really.h5", tmp_path / "noname"):
        np.testing.assert_array_equal(read_all(open_source(name))[:, 0], [1, 2, 3])


def test_an_hdf5_file_with_a_user_block_is_known_by_its_name(tmp_path):
    with h5py.File(tmp_path / "u.h5", "w", userblock_size=512) as file:
        file["x"] = np.ones((3, 2))
    assert open_source(str(tmp_path / "u.h5")).rows == 3
