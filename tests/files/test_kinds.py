"""What a file is, by its bytes, and what is said to those who give one kind for another."""

import io
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch.coresets.files import as_table
from nysketch.errors import CorruptSketchError, InputError, WrongKindError, in_shell
from nysketch.files.checkpoint import Checkpoint
from nysketch.files.find import sketch_files
from nysketch.files.format import load_sketch
from nysketch.files.kinds import _kind, kind_of, what_to_do


@pytest.fixture(scope="module")
def kinds(shelf, tmp_path_factory):
    """One file of each kind, by the name of its kind."""
    folder = tmp_path_factory.mktemp("kinds")
    sketch, model = nysketch.load(shelf / "a.nysk"), nysketch.load_model(shelf / "model.json")
    for name in ("a.nysk", "basis.nysk", "a.parquet", "job.toml"):
        shutil.copy(shelf / name, folder / name)
    pyarrow.feather.write_feather(pq.read_table(folder / "a.parquet"), folder / "a.feather")
    (folder / "a.csv").write_text("x,y\n1,2\n3,4\n")
    for suffix in ("json", "parquet", "npz"):
        nysketch.save_model(model, folder / f"model.{suffix}")
        nysketch.export(sketch, folder / f"export.{suffix}")
    (folder / "short.json").write_text(
        json.dumps(json.loads((folder / "model.json").read_text()), indent=None)
    )
    few = as_table(nysketch.coreset(sketch, 3))
    pq.write_table(few, folder / "few.parquet")
    pyarrow.feather.write_feather(few, folder / "few.feather")
    (folder / "store").mkdir()
    (folder / "store" / "store.json").write_text("{}")
    shutil.copy(shelf / "basis.nysk", folder / "store" / "basis.nysk")
    return folder


KINDS = {
    "a.nysk": "sketch",
    "basis.nysk": "sketch",
    "a.parquet": "data",
    "a.feather": "data",
    "a.csv": "data",
    "job.toml": "job",
    "model.json": "model",
    "model.parquet": "model",
    "model.npz": "model",
    "short.json": "model",
    "export.parquet": "export",
    "export.npz": "export",
    "few.parquet": "coreset",
    "few.feather": "coreset",
    "store": "store",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_every_kind_is_told_by_its_bytes(kinds, tmp_path, name, kind):
    assert kind_of(kinds / name) == kind
    if kind not in ("store", "job") and not name.endswith(".csv"):  # these have nothing else to be told by
        shutil.copy(kinds / name, tmp_path / "x")
        assert kind_of(tmp_path / "x") == kind


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_whoever_gives_another_kind_for_a_sketch_is_told_what_it_is(kinds, name, kind):
    if kind == "sketch":
        assert nysketch.load(kinds / name) is not None
        return
    with pytest.raises(WrongKindError) as caught:
        nysketch.load(kinds / name)
    message, words = str(caught.value), {"coreset": "weighted rows", "job": "a job file", "store": "a store"}
    assert message.startswith(f"{kinds / name}: this is ") and words.get(kind, kind) in message
    assert ", not a sketch. " in message
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("a.csv", "nysketch sketch a.csv -o a.nysk"),
        ("few.parquet", "nysketch sketch few.parquet --weights weight -o few.nysk"),
        ("a`b c.csv", "nysketch sketch 'a`b c.csv' -o 'a`b c.nysk'"),
    ],
)
def test_the_command_to_run_can_be_run(kinds, tmp_path, monkeypatch, run_cli, name, command):
    monkeypatch.chdir(tmp_path)
    shutil.copy(kinds / (name if (kinds / name).exists() else "a.csv"), tmp_path / name)
    said = in_shell(what_to_do(name, "sketch"))
    assert f"`{command}`" in said
    if name == "few.parquet":
        assert run_cli("sketch", name, "--weights", "weight", "-o", "few.nysk", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind not in ("model", "store")])
def test_whoever_gives_another_kind_for_a_model_is_told_what_it_is(kinds, name):
    with pytest.raises(WrongKindError, match=r"this is .*, not a model\. "):
        nysketch.load_model(kinds / name)


def test_a_basis_or_a_checkpoint_is_no_sketch(kinds, tmp_path):
    with pytest.raises(
        WrongKindError, match=r"is a basis file; expected a sketch file. Sketch data with `basis"
    ):
        load_sketch(kinds / "basis.nysk")
    checkpoint = Checkpoint(tmp_path / "s.nysk", {"inputs": []}, every=1)
    checkpoint.save(nysketch.load(kinds / "a.nysk"), {0})
    with pytest.raises(WrongKindError, match=r"is a checkpoint file.* Finish the pass"):
        nysketch.load(checkpoint.path)


def test_the_files_of_a_store_are_not_taken_for_its_sketches(kinds):
    with pytest.raises(WrongKindError, match=r"this is a store, not a sketch. .*partitions.*\*\.nysk"):
        sketch_files([os.fspath(kinds / "store")])


def test_what_nobody_knows_is_called_damaged_as_before(kinds, tmp_path):
    whole = (kinds / "a.nysk").read_bytes()
    for name, content in (
        ("none", b""),
        ("cut.nysk", whole[:-9]),
        ("flipped.nysk", whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]),
        ("other.json", b'{"kind": "store"}'),
        ("archive", b"PK\x03\x04 and no more"),
        ("text", b"once upon a time"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorruptSketchError):
            nysketch.load(tmp_path / name)
    (tmp_path / "folder").mkdir()
    for name in ("missing", "folder", "nul\0"):
        assert kind_of(tmp_path / name) is None
    with pytest.raises(InputError, match="cannot read"):
        nysketch.load(tmp_path / "folder")


def test_a_pipe_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # so that opening it does not wait
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    try:
        os.write(writer, b"PAR1")
        assert kind_of(tmp_path / "pipe") is None
        assert os.read(reader, 4) == b"PAR1"
    finally:
        os.close(reader)
        os.close(writer)


def test_a_large_table_is_not_read_whole(tmp_path):
    rows = np.random.default_rng(0).normal(size=200_000)
    pq.write_table(pa.table({"x": rows}), tmp_path / "x.parquet")
    content = (tmp_path / "x.parquet").read_bytes()
    read = []

    class Counting(io.BytesIO):
        def read(self, count=-1):
            part = super().read(count)
            read.append(len(part))
            return part

    assert _kind("x.parquet", Counting(content), len(content)) == "data"
    assert sum(read) < 10_000 < len(content)
