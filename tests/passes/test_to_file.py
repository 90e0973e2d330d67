"""Outputs: when they are made again, what they may not replace, and what they remember."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.errors import (
    CheckpointMismatchError,
    CorruptCheckpointError,
    CorruptOutputError,
    InputError,
    OutputError,
    StaleOutputError,
    UsageError,
)
from nysketch.files.checkpoint import Checkpoint
from nysketch.passes.to_file import Saving, basis_to_file, sketch_to_file
from nysketch.sources.open import open_source


@pytest.fixture
def files(tmp_path):
    paths = []
    for i in range(2):
        rows = np.random.default_rng(i).standard_normal((300, 2)) + i
        paths.append(tmp_path / f"{i}.parquet")
        pq.write_table(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), paths[-1])
    return paths


def run(inputs, output, *, basis=None, m=10, if_exists="fail", **source_options):
    like = None if basis is None else basis.columns
    return sketch_to_file(
        open_source(inputs, like=like, **source_options),
        output,
        BasisOptions(m=m) if basis is None else basis,
        PassOptions(blocks=4),
        saving=Saving(if_exists),
    )


def test_a_sketch_made_with_another_basis_is_not_up_to_date(files, tmp_path):
    output = tmp_path / "s.nysk"
    other = nysketch.Basis.fit(files[1], landmarks=10)
    run(files[0], output, basis=other)
    assert run(files[0], output, basis=other, if_exists="skip").skipped
    with pytest.raises(OutputError, match="basis differ"):
        run(files[0], output, if_exists="skip")
    run(files[0], output, if_exists="overwrite")
    assert run(files[0], output, if_exists="skip").skipped
    with pytest.raises(OutputError, match="basis differ"):
        run(files[0], output, m=11, if_exists="skip")
    with pytest.raises(OutputError, match="inputs differ"):
        run(files, output, if_exists="skip")


def test_an_input_dated_in_the_future_is_no_news(files, tmp_path):
    output = tmp_path / "s.nysk"
    os.utime(files[0], (4e9, 4e9))
    run(files[0], output)
    assert run(files[0], output, if_exists="skip").skipped
    os.utime(files[0], (4e9, 4e9))  # whatever was done to it was done later
    with pytest.raises(OutputError, match="modification time of an input differ"):
        run(files[0], output, if_exists="skip")


def test_what_is_wrong_with_an_output_is_told_by_its_error(files, tmp_path):
    output = tmp_path / "s.nysk"
    run(files[0], output)
    with pytest.raises(StaleOutputError, match="made differently"):
        run(files[1], output, if_exists="skip")
    output.write_bytes(output.read_bytes()[:-1])
    with pytest.raises(CorruptOutputError, match=r"s\.nysk: not a usable sketch file"):
        run(files[0], output, if_exists="skip")
    assert run(files[0], output, if_exists="overwrite").sketch.rows == 300


def test_what_is_wrong_with_a_checkpoint_is_told_by_its_error(files, tmp_path):
    output = tmp_path / "s.nysk"
    path = checkpoint_path(output)
    made = run(files[0], tmp_path / "other.nysk").sketch
    Checkpoint(output, {"inputs": [["0.parquet", 1]]}, every=0).save(made, {0})
    with pytest.raises(CheckpointMismatchError, match=r"s\.nysk\.checkpoint: left by a run with different"):
        Checkpoint(output, {"inputs": [["1.parquet", 1]]}, every=0)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        CorruptCheckpointError, match=r"unusable checkpoint: .* Start over with `restart=True`"
    ):
        Checkpoint(output, {"inputs": [["0.parquet", 1]]}, every=0)
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointMismatchError, match="cannot read: Is a directory"):
        Checkpoint(output, {"inputs": [["0.parquet", 1]]}, every=0)


@pytest.mark.parametrize("spelling", ["{}", "file://{}"])
def test_no_output_replaces_its_input(files, spelling):
    before = files[0].read_bytes()
    source = open_source(spelling.format(files[0]))
    with pytest.raises(UsageError, match="is an input"):
        run(spelling.format(files[0]), files[0], if_exists="overwrite")
    with pytest.raises(UsageError, match="is an input"):
        basis_to_file(source, files[0], BasisOptions(m=5), overwrite=True)
    assert files[0].read_bytes() == before


@pytest.mark.parametrize("to_file", [True, False])
@pytest.mark.parametrize("put_back", [True, False])
def test_an_input_may_not_change_during_a_pass(tmp_path, to_file, put_back):
    """Whatever the sums are for: a file, a sketch in memory, a test."""
    path, output = tmp_path / "x.parquet", tmp_path / "s.nysk"
    plain = {"compression": "none", "use_dictionary": False, "row_group_size": 100}
    pq.write_table(pa.table({"x": np.random.default_rng(0).random(500)}), tmp_path / "new", **plain)
    pq.write_table(pa.table({"x": np.random.default_rng(1).random(500)}), path, **plain)
    basis, new, before = nysketch.Basis.fit(path, landmarks=5), (tmp_path / "new").read_bytes(), path.stat()
    assert len(new) == before.st_size

    def overwrite(done, total):
        with path.open("r+b") as file:  # never shorter than it was
            file.write(new)
        if put_back:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    where = {"output": output} if to_file else {}
    with pytest.raises(InputError, match=r"changed while it was being read, so the (sums|result) match"):
        nysketch.sketch(path, basis=basis, threads=1, progress=overwrite, **where)
    assert not output.exists()


def test_a_link_stays_a_link(files, tmp_path):
    target, link = tmp_path / "target.nysk", tmp_path / "link.nysk"
    link.symlink_to(target)
    run(files[0], link)
    assert link.is_symlink()
    assert nysketch.load(target).rows == 300


def test_skipped_inputs_are_told_again_when_there_is_nothing_to_do(files, tmp_path):
    bad, output = tmp_path / "bad.parquet", tmp_path / "s.nysk"
    bad.write_bytes(b"PAR1 but no more")
    inputs = [files[0], bad]
    for if_exists, skipped in (("fail", False), ("skip", True)):
        outcome = run(inputs, output, if_exists=if_exists, skip_unreadable=True)
        assert outcome.skipped == skipped
        assert len(outcome.unreadable) == 1
        assert "bad.parquet" in outcome.unreadable[0]


def test_a_sketch_remembers_how_its_basis_was_asked_for(files):
    made = nysketch.sketch(files[0], landmarks=7)
    assert made.settings["basis"]["m"] == 7
    assert nysketch.sketch(files[1], basis=made).settings["basis"] is None


def test_values_too_large_to_scale_name_their_column():
    table = pa.table({"fine": [1.0, 2.0, 3.0], "huge": [1e200, -1e200, 1.7e308]})
    with pytest.raises(InputError, match=r"'huge' has values too large.*`scale=.none.`"):
        nysketch.sketch(table, landmarks=2)
    with pytest.raises(InputError, match=r"values beyond 1e\+100.*`exclude`"):
        nysketch.sketch(table, landmarks=2, scale="none", bandwidth=1.0)
    assert nysketch.sketch(table, landmarks=2, exclude=["huge"]).rows == 3


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range_are_refused(files, seed):
    with pytest.raises(UsageError, match="`seed` must be between"):
        nysketch.Basis.fit(files[0], landmarks=5, seed=seed)
    with pytest.raises(UsageError, match="`seed` must be between"):
        nysketch.sketch(files[0], landmarks=5, seed=seed)


@pytest.mark.parametrize("given", [False, True])
def test_the_file_is_the_sketch_that_the_library_makes(files, tmp_path, given):
    basis = nysketch.Basis.fit(files[1], landmarks=10) if given else None
    run(files[0], tmp_path / "s.nysk", basis=basis)
    made = nysketch.sketch(files[0], blocks=4, **({"basis": basis} if given else {"landmarks": 10}))
    assert (made.settings["basis"] is None) is given
    assert (tmp_path / "s.nysk").read_bytes() == nysketch.to_bytes(made)


def test_ways_to_save_that_do_not_exist_are_refused():
    with pytest.raises(UsageError, match="`if_exists` must be one of fail, skip, overwrite, not 'replace'"):
        Saving("replace")


def test_nobody_who_gives_a_basis_may_say_how_to_make_one(files):
    basis = nysketch.Basis.fit(files[0], landmarks=10)
    with pytest.raises(UsageError, match="the basis determines landmarks"):
        nysketch.sketch(files[0], basis=basis, landmarks=9)
    with pytest.raises(UsageError, match="the basis determines landmarks"):
        nysketch.coreset(files[0], 3, basis=basis, bandwidth=2.0)
