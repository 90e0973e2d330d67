"""A default that changes makes nothing be read again: outputs, checkpoints, parts and stores stay."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import CheckpointMismatchError, StaleOutputError
from nysketch.passes.execution import Execution
from nysketch.passes.shards import Shard
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests.jobs.jobs import JOB, Nightly

# What was the default before there was "auto".
BEFORE = {"scaling": "standard", "bandwidth": "median"}


@pytest.fixture
def table(tmp_path):
    """Rows that "auto" takes another scale and other bandwidths for."""
    random = np.random.default_rng(0)
    rows = random.integers(4, size=(1000, 1)) * 100.0 + 0.1 * random.standard_normal((1000, 2))
    rows[3, 1] = 1e6
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1]}), path, row_group_size=100)
    return path


def run(table, output, *, shard=None, progress=None, basis=None, nulls="error", **saving):
    return sketch_to_file(
        open_source(table),
        output,
        BasisOptions(m=10, **(basis or {})),
        PassOptions(blocks=4, nulls=nulls),
        shard=shard,
        saving=Saving(**saving),
        execution=Execution(Threads(1), progress=progress),
    )


def test_auto_differs_where_it_should(table, tmp_path):
    before = run(table, tmp_path / "a.nysk", basis=BEFORE).sketch.basis
    now = run(table, tmp_path / "b.nysk").sketch.basis
    assert (before.scale != now.scale).any()
    assert len(now.kernel.bandwidths) > 1


def test_an_output_of_before_is_up_to_date(table, tmp_path):
    output = tmp_path / "s.nysk"
    run(table, output, basis=BEFORE)
    bytes_before = output.read_bytes()
    assert run(table, output, if_exists="skip").skipped
    assert output.read_bytes() == bytes_before
    for other in ({"scaling": "robust"}, {"bandwidth": "2*median"}, {"scaling": "none"}):
        with pytest.raises(StaleOutputError, match="basis"):
            run(table, output, basis=other, if_exists="skip")


def test_an_output_of_now_is_not_one_of_before(table, tmp_path):
    output = tmp_path / "s.nysk"
    run(table, output)
    assert run(table, output, if_exists="skip").skipped
    with pytest.raises(StaleOutputError, match="basis"):
        run(table, output, basis=BEFORE, if_exists="skip")


@pytest.mark.parametrize("nulls", ["error", "drop"])
def test_a_checkpoint_of_before_is_continued_at_its_basis(table, tmp_path, nulls):
    whole, output = tmp_path / "whole.nysk", tmp_path / "s.nysk"
    run(table, whole, basis=BEFORE, nulls=nulls)

    def stop(done, total):
        if done >= 500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(table, output, basis=BEFORE, progress=stop, checkpoint_every=0.0)
    assert checkpoint_path(output).exists()
    with pytest.raises(CheckpointMismatchError, match="scaling 'standard', now 'robust'"):
        run(table, output, basis={"scaling": "robust"})
    outcome = run(table, output, nulls=nulls)
    assert outcome.resumed_fragments > 0
    assert output.read_bytes() == whole.read_bytes()


def test_parts_of_before_and_of_now_are_of_one_basis_where_rows_are_ordinary(tmp_path):
    rows = np.random.default_rng(0).standard_normal((1000, 2))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": rows[:, 0], "y": rows[:, 1]}), path, row_group_size=100)
    run(path, tmp_path / "1.nysk", shard=Shard(1, 2), basis=BEFORE)
    run(path, tmp_path / "2.nysk", shard=Shard(2, 2))
    run(path, tmp_path / "whole.nysk")
    merged = nysketch.merge([tmp_path / "1.nysk", tmp_path / "2.nysk"])
    assert merged.rows == 1000
    assert merged.basis == nysketch.load(tmp_path / "whole.nysk").basis


def test_parts_of_before_and_of_now_that_differ_are_refused_and_continued_with_their_basis(table, tmp_path):
    first, second = tmp_path / "1.nysk", tmp_path / "2.nysk"
    run(table, first, shard=Shard(1, 2), basis=BEFORE)
    run(table, second, shard=Shard(2, 2))
    with pytest.raises(nysketch.NysketchError, match="same `basis`"):
        nysketch.merge([first, second])
    nysketch.sketch(table, part="2/2", basis=str(first), blocks=4, output=second, if_exists="overwrite")
    assert nysketch.merge([first, second]).rows == 1000


def nightly(folder, basis=""):
    return Nightly(folder, JOB.replace("landmarks = 10", f"landmarks = 10\n{basis}")).with_days(1, 2, 3)


def test_a_store_of_before_goes_on(tmp_path):
    work = nightly(tmp_path / "work", 'scale = "standard"\nbandwidth = "median"')
    assert len(work.run().new) == 3
    store = work.folder / "store"
    made = {path: path.read_bytes() for path in [store / "basis.nysk", *store.glob("partitions/*")]}
    fixed = json.loads((store / "store.json").read_text())["settings"]
    assert fixed["basis"]["scale"] == "standard"
    work.job.write_text(JOB)
    work.with_days(4)
    summary = work.run()
    assert (len(summary.new), summary.changed, summary.unchanged) == (1, [], 3)
    assert {path: path.read_bytes() for path in made} == made
    assert json.loads((store / "store.json").read_text())["settings"] == fixed


def test_a_store_of_another_scale_does_not_go_on(tmp_path):
    work = nightly(tmp_path / "work", 'scale = "robust"')
    work.run()
    work.job.write_text(JOB)
    with pytest.raises(nysketch.NysketchError, match='scale was "robust", now "auto"'):
        work.run()
