"""Interruptions at the worst moments, inside one process: what the checkpoint then holds."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.accumulators import blocks
from nysketch.accumulators.options import PassOptions
from nysketch.basis.options import BasisOptions
from nysketch.engines.threads import Threads
from nysketch.errors import InputError, OutputError
from nysketch.files.checkpoint import Checkpoint
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source

M = 10


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).standard_normal((1000, 3))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({f"x{i}": column for i, column in enumerate(rows.T)}), path, row_group_size=50)
    return path


def run(table, output, *, progress=None, **saving):
    return sketch_to_file(
        open_source(table),
        output,
        BasisOptions(m=M),
        PassOptions(blocks=4),
        saving=Saving(**saving),
        execution=Execution(Threads(1), progress=progress),
    )


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before adding", "after adding", "before saving", "after saving"])
@pytest.mark.parametrize("fragment", [1, 7, 19])
def test_an_interrupt_at_any_moment_counts_no_row_twice(table, tmp_path, monkeypatch, moment, fragment):
    run(table, tmp_path / "expected.nysk")
    calls = 0

    def interrupting(function, when):
        def wrapped(*args):
            nonlocal calls
            calls += 1
            if calls == fragment and when == "before":
                raise KeyboardInterrupt
            result = function(*args)
            if calls == fragment and when == "after":
                raise KeyboardInterrupt
            return result

        return wrapped

    when, what = moment.split()
    owner, name = (blocks._Running, "add") if what == "adding" else (Checkpoint, "save")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupting(getattr(owner, name), when))
        with pytest.raises(KeyboardInterrupt):
            run(table, tmp_path / "s.nysk", checkpoint_every=0.0)
    outcome = run(table, tmp_path / "s.nysk")
    assert outcome.sketch.rows == 1000
    assert (tmp_path / "s.nysk").read_bytes() == (tmp_path / "expected.nysk").read_bytes()
    if fragment > 1:
        assert outcome.resumed_fragments >= fragment - 1


def test_what_a_killed_process_left_is_cleared_away(table, tmp_path):
    output = tmp_path / "s.nysk"
    run(table, output)
    left = [tmp_path / f".s.nysk.{i}.tmp" for i in ("0123abcd", "checkpoint.00000000")]
    other = tmp_path / ".other.nysk.0123abcd.tmp"
    for path in (*left, other):
        path.write_text("half of it")
    checkpoint_path(output).write_text("superseded")
    assert run(table, output, if_exists="skip").skipped
    assert sorted(p.name for p in tmp_path.iterdir()) == [other.name, "rows.parquet", "s.nysk"]


def test_an_input_that_changes_during_the_pass_gives_no_sketch(table, tmp_path):
    output = tmp_path / "s.nysk"

    def touch(done, total):
        if done == total:
            Path(table).touch()

    with pytest.raises(InputError, match="changed while it was being read"):
        run(table, output, progress=touch)
    assert not output.exists()
    assert not checkpoint_path(output).exists()


def test_metadata_that_will_not_fit_is_refused_before_the_pass(tmp_path):
    path, output = tmp_path / "wide.parquet", tmp_path / "s.nysk"
    names = [f"{i:05d}_{'long' * 60}" for i in range(5000)]
    pq.write_table(pa.table({name: [1.0, 2.0] for name in names}), path)
    seen = []
    with pytest.raises(OutputError, match="Too many columns"):
        run(path, output, progress=lambda done, total: seen.append(done))
    assert not seen
    assert not output.exists()


def test_a_resumed_pass_reports_the_rows_it_need_not_read(table, tmp_path):
    calls = []

    def stop(done, total):
        if done >= 500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(table, tmp_path / "s.nysk", progress=stop)
    outcome = run(table, tmp_path / "s.nysk", progress=lambda done, total: calls.append((done, total)))
    # Rows of a fragment that was being read count as progress, but not as finished.
    assert 0 < outcome.resumed_fragments <= 10
    assert calls[0] == (50 * outcome.resumed_fragments, 1000)
    assert calls[-1] == (1000, 1000)
    assert nysketch.load(tmp_path / "s.nysk").rows == 1000


def test_the_advice_to_drop_nulls_can_be_followed_at_once(tmp_path):
    """Rows that were dropped only later in the file do not spoil what was finished before."""
    values = np.random.default_rng(1).standard_normal(1000)
    values[777] = np.nan
    path, output = tmp_path / "rows.parquet", tmp_path / "s.nysk"
    pq.write_table(pa.table({"x": values}), path, row_group_size=50)
    basis = nysketch.Basis.fit(values[:500], landmarks=M)
    basis = dataclasses.replace(basis, columns=(nysketch.Column("x"),))

    def attempt(output, nulls):
        options = PassOptions(blocks=4, nulls=nulls)
        return sketch_to_file(open_source(path), output, basis, options, execution=Execution(Threads(1)))

    with pytest.raises(InputError, match=r"1 NaN.*`nulls=.drop.`"):
        attempt(output, "error")
    resumed = attempt(output, "drop")
    assert resumed.resumed_fragments >= 15
    attempt(tmp_path / "fresh.nysk", "drop")
    assert output.read_bytes() == (tmp_path / "fresh.nysk").read_bytes()
    assert resumed.sketch.dropped_rows == 1
