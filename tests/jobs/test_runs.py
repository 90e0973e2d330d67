"""Runs: only what is new is done, and what is in the store is what a fresh start would put there."""

import contextlib
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nysketch
from nysketch._support.companions import checkpoint_path
from nysketch.engines.threads import Threads
from nysketch.errors import CorruptSketchError, InputError, UsageError
from nysketch.jobs import inputs
from nysketch.jobs.config import load_job
from nysketch.jobs.records import RUN
from nysketch.jobs.store_io import append_line, described, file_digest, pending, read_lines, write_json
from nysketch.passes import to_file
from nysketch.passes.execution import Execution
from nysketch.passes.to_file import Saving, sketch_to_file
from nysketch.sources.open import open_source
from tests.jobs.jobs import assert_windows_are_sums, day, sums_of


def test_a_first_run_makes_everything(nightly):
    summary = nightly.run()
    store = nightly.store
    assert summary.new == [day(1), day(2), day(3)] == [part.name for part in store.partitions()]
    assert summary.rows == 600 == sum(part.rows for part in store.partitions())
    assert (summary.windows, summary.models, summary.exit_code) == (["last-3", "all"], ["kinds"], 0)
    assert store.sketch(day(2)).basis == store.basis() == store.window_sketch("all").basis
    assert [name for name, _ in store.models()["kinds"]] == [day(3)]
    assert [len(found) for found in store.drift().values()] == [0, 1, 1]
    assert store.drift()[day(2)][0]["other"] == day(1)
    assert store.history()[0]["new"] == summary.new
    assert all(part.inputs[0]["path"] == f"data/{part.name}.parquet" for part in store.partitions())


def test_a_second_run_changes_no_byte_but_for_the_history(nightly):
    nightly.run()
    before = nightly.contents()
    times = {path: path.stat().st_mtime_ns for path in nightly.store.path.rglob("*.*") if path.is_file()}
    summary = nightly.run()
    assert summary.idle and "nothing to do, 3 partitions up to date" in summary.sentence()
    assert nightly.contents() == before
    changed = {path.name for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert changed == {"history.jsonl"}
    assert len(nightly.store.history()) == 2


def test_the_report_of_a_run_tells_of_this_run(nightly):
    summary = nightly.run("report.output=report.html")
    page = nightly.folder / "report.html"
    assert summary.report == "report.html" and nightly.store.history()[-1]["report"] == "report.html"
    assert day(3) in page.read_text() and summary.started[:16].replace("T", " ") in page.read_text()
    before = page.stat().st_mtime_ns
    assert nightly.run("report.output=report.html").idle and page.stat().st_mtime_ns == before
    nightly.write(4)
    nightly.run("report.output=report.html")
    assert day(4) in page.read_text()


def test_the_caller_writes_the_report_once_the_history_tells_of_the_run(nightly):
    calls = []

    def write(store, output):
        calls.append((store.path, output, len(store.history())))
        output.write_text("a report")

    nightly.run(write_report=write)
    assert calls == []  # the job asks for none
    for _ in range(2):  # the second time, nothing has changed
        nightly.run("report.output=report.html", write_report=write)
    assert calls == [(nightly.folder / "store", nightly.folder / "report.html", 2)]


def test_a_report_that_cannot_be_written_is_an_error_and_nothing_else(nightly):
    summary = nightly.run("report.output=nowhere/report.html")
    assert summary.exit_code == 1 and "[report]" in summary.errors[0]
    assert len(nightly.store.partitions()) == 3
    assert not nightly.run("report.output=report.html").errors and (nightly.folder / "report.html").exists()


@pytest.mark.slow
def test_night_by_night_windows_are_fresh_merges(nightly):
    nightly.run()
    for number in range(4, 12):
        nightly.write(number)
        summary = nightly.run()
        assert summary.new == [day(number)] and summary.windows == ["last-3", "all"]
        assert nightly.store.windows()["last-3"].partitions == [
            day(n) for n in (number - 2, number - 1, number)
        ]
        assert_windows_are_sums(nightly.store)
    assert nightly.store.windows()["all"].steps == 8
    assert nightly.store.windows()["last-3"].steps == 16
    assert [name for name, _ in nightly.store.models()["kinds"]] == [day(n) for n in range(3, 12)]


def test_windows_are_merged_afresh_every_so_many_steps(nightly):
    nightly.run("job.verify_every=4")
    steps = []
    for number in range(4, 8):
        nightly.write(number)
        nightly.run("job.verify_every=4")
        steps.append(nightly.store.windows()["last-3"].steps)
    assert steps == [2, 0, 2, 0]
    assert nightly.store.window_sketch("last-3").tally.ranges.exact


def test_a_window_that_is_no_sum_is_noticed_and_repaired(nightly):
    nightly.run()
    store = nightly.store
    path = store.window_file("all")
    wrong = nysketch.load(path) + store.sketch(day(1))
    nysketch.save(wrong, path)
    described = json.loads((path.parent / "all.json").read_text())
    write_json(path.parent / "all.json", described | {"digest": file_digest(path)})
    nightly.write(4)
    summary = nightly.run("job.verify_every=1")
    assert summary.exit_code == 5 and "all.nysk: differed from the sum of its partitions" in summary.errors[0]
    assert_windows_are_sums(nightly.store)
    assert nightly.run("job.verify_every=1").exit_code == 0


def test_a_changed_input_replaces_its_sketch_and_all_that_depends_on_it(nightly, tmp_path):
    nightly.with_days(4).run()
    before = nightly.contents()
    nightly.write(2, seed=99, rows=150)
    summary = nightly.run()
    assert (summary.changed, summary.new, summary.unchanged) == ([day(2)], [], 3)
    assert summary.compared == [day(2), day(3)]
    assert summary.rows == 150 and nightly.store.window_sketch("all").rows == 750
    assert_windows_are_sums(nightly.store)
    after = nightly.contents()
    different = {name for name in after if after[name] != before.get(name)}
    assert f"partitions/{day(4)}.nysk" not in different and f"drift/{day(4)}.json" not in different
    assert {"windows/all.nysk", "windows/last-3.nysk", f"models/kinds/{day(4)}.json"} <= different


def test_a_new_time_alone_does_nothing(nightly):
    nightly.run()
    before = nightly.contents()
    os.utime(nightly.input(2), (1, 1))
    assert nightly.run().idle
    after = nightly.contents()
    assert {name for name in after if after[name] != before[name]} == {f"partitions/{day(2)}.json"}
    assert nightly.store.partition(day(2)).inputs[0]["mtime_ns"] == 10**9


def test_an_input_that_is_overwritten_is_read_again_whatever_its_date(nightly, monkeypatch):
    nightly.run()
    old = nightly.input(2)
    before = old.stat()
    size, rows = before.st_size, 200
    nightly.write(9, seed=99, rows=rows)
    content = nightly.input(9).read_bytes()
    nightly.input(9).unlink()
    assert len(content) == size
    old.write_bytes(content)
    os.utime(old, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert nightly.run().changed == [day(2)]
    assert nightly.run().idle


def test_new_permissions_make_one_run_look_again_and_nothing_else(nightly, monkeypatch):
    nightly.run()
    before = nightly.contents()
    nightly.input(2).chmod(0o600)
    looked = []
    digest = inputs._digest
    monkeypatch.setattr(inputs, "_digest", lambda file, *how: looked.append(file.name) or digest(file, *how))
    assert nightly.run().idle and nightly.run().idle
    assert looked == [f"data/{day(2)}.parquet"] and nightly.contents() == before


def test_a_late_partition_is_put_into_its_place(nightly):
    nightly.input(2).unlink()
    nightly.run()
    nightly.write(2)
    summary = nightly.run()
    assert summary.new == [day(2)] and summary.compared == [day(2), day(3)]
    assert nightly.store.drift()[day(3)][0]["other"] == day(2)
    assert_windows_are_sums(nightly.store)


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_an_input_that_has_gone(nightly, policy):
    nightly.run()
    nightly.input(1).unlink()
    summary = nightly.run(f"removed.policy={policy}")
    left = [day(n) for n in ((1, 2, 3) if policy == "keep" else (2, 3))]
    assert summary.removed == ([] if policy == "keep" else [day(1)])
    assert nightly.store.partition_names() == left == nightly.store.windows()["all"].partitions
    assert summary.idle == (policy == "keep")
    assert_windows_are_sums(nightly.store)
    assert nightly.run(f"removed.policy={policy}").idle


def test_if_nothing_is_there_nothing_is_dropped(nightly):
    nightly.run()
    before = nightly.contents()
    (nightly.folder / "data").rename(nightly.folder / "unmounted")
    with pytest.raises(InputError, match="Is everything mounted"):
        nightly.run("removed.policy=drop")
    assert nightly.contents() == before
    assert nightly.store.history()[-1]["exit_code"] == 3


def test_a_path_that_matches_nothing_keeps_others_from_being_dropped(nightly):
    nightly.run('inputs.paths=["data/{date}.parquet", "more/{date}.parquet"]')
    nightly.input(1).unlink()
    summary = nightly.run(
        'inputs.paths=["data/{date}.parquet", "more/{date}.parquet"]', "removed.policy=drop"
    )
    assert summary.removed == [] and summary.unmatched == ["more/{date}.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("retired", ["sum", "forget"])
def test_retention(nightly, retired):
    changes = ["retention.partitions=3", f"retention.retired={retired}"]
    nightly.run(*changes)
    everything = nightly.store.window_sketch("all")
    for number in range(4, 7):
        nightly.write(number)
        summary = nightly.run(*changes)
        assert summary.retired == [day(number - 3)]
        everything = everything + nightly.store.sketch(day(number))
    store = nightly.store
    assert store.partition_names() == [day(4), day(5), day(6)] == sorted(store.drift())
    assert store.retired() == [day(1), day(2), day(3)]
    assert nightly.run(*changes).idle  # the inputs of retired partitions are still there
    window = store.window_sketch("all")
    if retired == "sum":
        assert window.rows == 1200 and store.windows()["all"].partitions == [day(n) for n in range(1, 7)]
        assert all(np.array_equal(a, sums_of(everything)[n]) for n, a in sums_of(window).items())
    else:
        assert window.rows == 600
        assert_windows_are_sums(store)
    for path in (store.path / "windows").iterdir():  # what is lost is merged again, retired ones included
        path.unlink()
    nightly.run(*changes)
    assert nightly.store.window_sketch("all").rows == window.rows


def test_the_first_run_reads_what_is_kept_or_summed_up(nightly):
    short = ["retention.partitions=1", "windows.last-3.last=1"]
    assert nightly.run(*short).new == [day(1), day(2), day(3)]
    assert [part.name for part in nightly.store.partitions()] == [day(3)]
    assert nightly.run("job.store=other", "retention.retired=forget", *short).new == [day(3)]


def test_settings_of_the_sketches_cannot_change(nightly):
    nightly.run()
    before = nightly.contents()
    for change, words in (
        ("basis.landmarks=11", r"\[basis\] landmarks was 10, now 11"),
        ("sketch.blocks=8", r"\[sketch\] blocks was 16, now 8"),
        ("inputs.exclude=y", r'\[inputs\] exclude was \[\], now \["y"\]'),
    ):
        with pytest.raises(UsageError, match=words + ".*name another store"):
            nightly.run(change)
    assert nightly.contents() == before
    assert nightly.run("inputs.nulls=drop").idle


def test_before_there_is_a_basis_all_settings_may_change(nightly):
    assert nightly.run("inputs.columns=z").exit_code == 3
    assert nightly.run().new == [day(1), day(2), day(3)]


def test_a_basis_that_is_given(nightly):
    rows = np.random.default_rng(0).standard_normal((100, 2))
    table = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    pq.write_table(table, nightly.folder / "pilot.parquet")
    basis = nysketch.Basis.fit(str(nightly.folder / "pilot.parquet"), landmarks=5)
    nysketch.save(basis, nightly.folder / "b.nysk")
    nightly.job.write_text(nightly.job.read_text().replace("landmarks = 10", 'file = "b.nysk"'))
    nightly.run()
    assert nightly.store.basis() == basis == nightly.store.sketch(day(1)).basis
    nysketch.save(
        nysketch.Basis.fit(str(nightly.folder / "pilot.parquet"), landmarks=6), nightly.folder / "b.nysk"
    )
    with pytest.raises(UsageError, match="Restore the old file"):
        nightly.run()
    (nightly.folder / "b.nysk").unlink()
    assert nightly.run().idle


def test_lost_and_damaged_files_are_made_again(nightly):
    nightly.run()
    before, root = nightly.contents(), nightly.store.path
    for name in (
        f"partitions/{day(2)}.json",
        f"partitions/{day(3)}.nysk",
        "windows/all.nysk",
        "windows/last-3.json",
        f"drift/{day(3)}.json",
        "models/kinds.json",
        f"models/kinds/{day(3)}.json",
        "basis.nysk",
        "alarms.json",
    ):
        (root / name).unlink()
        nightly.run()
        assert nightly.contents() == before, name
        if name.endswith(".json"):
            (root / name).write_bytes(b"{")
            nightly.run()
            assert nightly.contents() == before, name


def leave(nightly, number, *, of=None, checkpoint=False, content=None):
    """Leave what a run killed in the middle of a partition would: a sketch that waits, or a checkpoint."""
    store = nightly.store
    path = pending(store.partition_file(day(number)))
    if content is not None:
        (checkpoint_path(path) if checkpoint else path).write_bytes(content)
        return
    job = load_job(nightly.job, environment={})
    with contextlib.chdir(nightly.folder):
        source = open_source(f"data/{day(number if of is None else of)}.parquet")
        wanted = source, path, store.basis(), job.pass_options()
        if not checkpoint:
            sketch_to_file(*wanted, execution=Execution(Threads(1)))
            return

        def stop(done, total):
            if checkpoint_path(path).exists():
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            execution = Execution(Threads(1), progress=stop)
            sketch_to_file(*wanted, saving=Saving(checkpoint_every=0), execution=execution)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("left", [{}, {"of": 1}, {"content": b"garbage"}, {"content": b""}])
def test_what_a_killed_run_left_is_used_only_if_it_is_what_is_wanted(nightly, left, checkpoint):
    """A sketch or checkpoint of other rows, or a damaged one, is made again; in all cases the same bytes."""
    nightly.run()
    before = nightly.contents()
    for path in (nightly.store.partition_file(day(3)), described(nightly.store.partition_file(day(3)))):
        path.unlink()
    leave(nightly, 3, checkpoint=checkpoint, **left)
    summary = nightly.run()
    assert (summary.new, summary.skipped, summary.errors) == ([day(3)], {}, [])
    assert nightly.contents() == before


def test_a_sketch_that_a_killed_run_left_is_not_made_again(nightly, monkeypatch):
    nightly.run()
    described(nightly.store.partition_file(day(3))).unlink()
    nightly.store.partition_file(day(3)).rename(pending(nightly.store.partition_file(day(3))))
    monkeypatch.setattr(to_file, "run_pass", None)  # it may not be called
    assert nightly.run().new == [day(3)]


def test_a_partition_that_is_lost_with_its_inputs_is_an_error(nightly):
    nightly.run()
    nightly.input(2).unlink()
    nightly.store.partition_file(day(2)).unlink()
    summary = nightly.run()
    assert summary.exit_code == 5 and "the partition is lost" in summary.errors[0]
    assert nightly.store.windows()["all"].partitions == [day(1), day(3)]
    assert_windows_are_sums(nightly.store)
    assert nightly.run().idle


def test_a_damaged_sketch_is_named_and_made_again_once_it_is_removed(nightly):
    nightly.run()
    path = nightly.store.partition_file(day(3))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    nightly.write(4)
    summary = nightly.run()
    assert (
        summary.exit_code == 5
        and str(path.name) in summary.errors[0]
        and "Remove the file" in summary.errors[0]
    )
    path.unlink()
    assert nightly.run().exit_code == 0
    assert path.read_bytes() == content
    assert_windows_are_sums(nightly.store)


def test_a_bad_input_does_not_stop_the_others(nightly):
    nightly.input(1).write_bytes(b"PAR1 half a file")
    summary = nightly.run()
    assert summary.exit_code == 6 and summary.new == [day(2), day(3)]
    assert f"data/{day(1)}.parquet" in summary.skipped[day(1)]
    assert nightly.run().exit_code == 6
    nightly.write(1)
    assert nightly.run().new == [day(1)]
    nightly.input(2).write_bytes(b"PAR1 half a file")
    summary = nightly.run()
    assert summary.exit_code == 6 and nightly.store.partition_names() == [day(1), day(2), day(3)]
    assert nightly.run("inputs.ignore=*-02.parquet").exit_code == 0


def test_if_nothing_can_be_read_the_exit_code_is_that_of_inputs(nightly):
    for number in (1, 2, 3):
        nightly.input(number).write_bytes(b"PAR1 half a file")
    assert nightly.run().exit_code == 3


def test_a_model_that_cannot_be_learned_does_not_stop_the_rest(nightly):
    nightly.append('[[models]]\nname = "late"\nkind = "gmm"\nk = 2\nwindow = "all"\n')
    summary = nightly.run("models.kinds.decoder=cells", "models.kinds.robust=3")
    assert summary.exit_code == 2 and "[[models]] kinds" in summary.errors[0]
    assert summary.models == ["late"]


def test_a_copy_of_a_model_follows_it(nightly):
    nightly.run("models.kinds.output=model.json")
    copy = nightly.folder / "model.json"
    assert copy.read_bytes() == nightly.store.model_file("kinds").read_bytes()
    copy.unlink()
    assert nightly.run("models.kinds.output=model.json").models == ["kinds"]
    assert nysketch.load_model(copy).k == 2


def test_other_directories_are_left_alone(nightly):
    with pytest.raises(UsageError, match=r"contains \d.*no store\.json"):
        nightly.run("job.store=data")
    with pytest.raises(UsageError, match="not a directory"):
        nightly.run("job.store=job.toml")


def test_a_dry_run_writes_nothing(nightly):
    summary = nightly.run(dry_run=True)
    assert summary.new == [day(1), day(2), day(3)] and summary.windows == ["last-3", "all"]
    assert not (nightly.folder / "store").exists()
    nightly.run()
    assert nightly.run(dry_run=True).idle
    nightly.write(4)
    before = nightly.contents(history=True)
    summary = nightly.run(dry_run=True)
    assert (summary.new, summary.models) == ([day(4)], ["kinds"]) and "would do: 1 new" in summary.sentence()
    assert nightly.contents(history=True) == before


def test_a_history_that_was_cut_short_is_repaired(tmp_path):
    path = tmp_path / "history.jsonl"

    def rows():
        lines, damaged = read_lines(path, RUN)
        assert damaged == []
        return [line["rows"] for line in lines]

    append_line(path, {"rows": 1})
    first = path.read_bytes()
    path.write_bytes(first + b'{"rows": 2, "un')
    assert rows() == [1]
    append_line(path, {"rows": 3})
    assert rows() == [1, 3] and path.read_bytes().startswith(first + b'{"checksum": ')


def test_a_backlog_longer_than_the_retention_is_summed_up_all_the_same(nightly):
    settings = "retention.partitions=3"
    nightly.run(settings)
    nightly.with_days(4, 5, 6, 7, 8)
    summary = nightly.run(settings)
    assert summary.new == [day(n) for n in (4, 5, 6, 7, 8)]
    assert [part.name for part in nightly.store.partitions()] == [day(6), day(7), day(8)]
    assert nightly.store.window_sketch("all").rows == 8 * 200
    assert nightly.run(settings).idle


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "[]", '{"partitions": 5}', "{}"])
def test_the_sum_of_retired_partitions_is_not_overwritten_for_a_lost_description(nightly, damage):
    settings = "retention.partitions=3"
    nightly.run(settings)
    nightly.write(4)
    nightly.run(settings)
    note = nightly.folder / "store" / "retired.json"
    kept = nightly.store.retired_file.read_bytes()
    note.unlink() if damage == "missing" else note.write_text(damage)
    nightly.write(5)
    with pytest.raises(CorruptSketchError, match=r"retired\.json.*restore it from a copy"):
        nightly.run(settings)
    assert nightly.store.retired_file.read_bytes() == kept


def test_a_sketch_in_the_place_of_another_is_noticed(nightly):
    nightly.run()
    store = nightly.store
    store.partition_file(day(3)).write_bytes(store.partition_file(day(2)).read_bytes())
    store.window_file("all").unlink()
    summary = nightly.run()
    assert summary.exit_code == 5 and f"{day(3)}.nysk: is not the sketch that" in " ".join(summary.errors)


def test_what_others_put_into_the_store_is_left_alone(nightly):
    nightly.run()
    folder = nightly.folder / "store" / "partitions"
    (folder / "README").write_text("mine")
    (folder / "old").mkdir()
    nightly.write(4)
    assert nightly.run().exit_code == 0
    assert (folder / "README").read_text() == "mine" and (folder / "old").is_dir()


def test_settings_stay_fixed_if_the_basis_is_lost(nightly):
    nightly.run()
    nightly.store.basis_file.unlink()
    with pytest.raises(UsageError, match="blocks was 16, now 32"):
        nightly.run("sketch.blocks=32")
    assert nightly.run().exit_code == 0 and nightly.store.basis_file.exists()


def test_the_report_is_made_anew_if_inputs_are_skipped(nightly):
    nightly.run("report.output=report.html")
    before = (nightly.folder / "report.html").read_bytes()
    nightly.input(4).write_bytes(b"PAR1 no more")
    assert nightly.run("report.output=report.html").exit_code == 6
    assert (nightly.folder / "report.html").read_bytes() != before


def test_a_file_whose_name_is_too_long_does_not_stop_the_others(nightly):
    (nightly.folder / "data" / f"{'é' * 90}.parquet").write_bytes(nightly.input(1).read_bytes())
    summary = nightly.run('inputs.paths="data/*.parquet"')
    assert summary.exit_code == 6 and len(nightly.store.partitions()) == 3
    assert "exceed 200 bytes" in next(iter(summary.skipped.values()))
