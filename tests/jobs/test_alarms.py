"""Comparisons and alarms: raised once, and not forgotten."""

import json

import pytest

from nysketch.jobs.drift_step import UNDECIDED, UNTESTED, counterpart, verdict_beside
from nysketch.jobs.status import status
from nysketch.report.write import write_report
from tests.jobs.jobs import day


@pytest.mark.parametrize(
    ("against", "name", "expected"),
    [
        ("previous", "2024-01-08", "2024-01-07"),
        ("previous", "2023-01-08", None),
        ("weekday", "2024-01-15", "2024-01-08"),
        ("weekday", "2024-01-07", None),
        ("year", "2024-01-08", "2023-01-08"),
        ("year", "2024-01-07", None),
        ("reference", "2024-01-08", "typical"),
        ("reference", "typical", None),
    ],
)
def test_what_a_partition_is_compared_with(against, name, expected):
    names = ["2023-01-08", "2024-01-06", "2024-01-07", "2024-01-08", "2024-01-15"]
    assert counterpart({"against": against, "reference": "typical"}, name, names) == expected


def test_a_changed_night_is_an_alarm_once(nightly, run):
    assert run(nightly)["alarms"] == []
    nightly.write(4, shift=3)
    summary = run(nightly, code=7)
    assert [(a["partition"], a["other"]) for a in summary["alarms"]] == [(day(4), day(3))]
    assert f"alarm: {day(4)} differs from {day(3)} by an MMD of" in summary["stderr"]
    assert run(nightly)["alarms"] == []
    assert [line["exit_code"] for line in nightly.store.history()] == [0, 7, 0]
    shift = nightly.store.drift()[day(4)][0]["columns"][0]
    assert shift["shift"] > 2 and shift["error"] < 0.5


def test_without_alarm_a_difference_is_only_noted(nightly):
    nightly.write(4, shift=3)
    assert nightly.run("comparisons.previous.alarm=false").exit_code == 0
    assert nightly.store.drift()[day(4)][0]["rejected"]
    assert nightly.run().exit_code == 0  # asked for later: no alarm about old news


def test_a_difference_that_is_small_enough_is_no_alarm(nightly):
    nightly.write(4, shift=3)
    summary = nightly.run("comparisons.previous.at_least=1.4")
    assert summary.exit_code == 0
    found = nightly.store.drift()[day(4)][0]
    assert found["rejected"] and found["verdict"] == "different, but by less than at_least"


def test_a_changed_input_can_be_an_alarm_for_itself_and_for_the_next(nightly):
    nightly.run()
    nightly.write(2, shift=3)
    assert [a["partition"] for a in nightly.run().alarms] == [day(2), day(3)]


def test_a_new_comparison_says_nothing_of_old_partitions(nightly):
    nightly.write(4, shift=3)
    nightly.run()
    nightly.append(f'[[comparisons]]\nagainst = "reference"\nreference = "{day(1)}"\nalarm = true\n')
    summary = nightly.run()
    assert summary.compared == [day(2), day(3), day(4)] and not summary.alarms
    assert [found["other"] for found in nightly.store.drift()[day(4)]] == [day(3), day(1)]
    nightly.write(5, shift=6)
    assert [a["name"] for a in nightly.run().alarms] == ["previous", "reference"]


def test_a_reference_file(nightly):
    nightly.run()
    typical = nightly.folder / "typical.nysk"
    typical.write_bytes(nightly.store.window_file("all").read_bytes())
    nightly.append('[[comparisons]]\nagainst = "reference"\nreference = "typical.nysk"\n')
    nightly.run()
    assert nightly.store.drift()[day(3)][1]["rows"] == [600, 200]
    typical.write_bytes(nightly.store.partition_file(day(1)).read_bytes())
    assert len(nightly.run().compared) == 3
    typical.unlink()
    summary = nightly.run()
    assert summary.exit_code == 3 and "nor a file" in summary.errors[0]


def test_an_alarm_of_a_run_that_was_killed_is_raised_by_the_next(nightly, run, run_cli):
    nightly.run()
    nightly.write(4, shift=3)
    # Killed when all is done but for telling about it.
    dying = (
        "import os, signal, nysketch.jobs.run as r;"
        "r.append_line = lambda *_: os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = run_cli("run", nightly.job, prepare=dying)
    assert killed.returncode == -9 and (nightly.store.drift_file(day(4))).exists()
    summary = run(nightly, code=7)
    assert summary["new"] == [] and [a["partition"] for a in summary["alarms"]] == [day(4)]
    assert run(nightly)["alarms"] == []


def test_the_alarm_beats_skipped_inputs_which_come_again(nightly, run):
    run(nightly)
    nightly.write(4, shift=3)
    nightly.input(5).write_bytes(b"PAR1 half a file")
    assert run(nightly, code=7)["skipped"].keys() == {day(5)}
    assert run(nightly, code=6)["alarms"] == []


def test_one_json_line_on_stderr(nightly, run_cli):
    result = run_cli("run", nightly.job, "--log-format", "json")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    summaries = [line["summary"] for line in lines if "summary" in line]
    assert result.returncode == 0 and result.stdout == "" and len(summaries) == 1
    assert summaries[0]["new"] == [day(1), day(2), day(3)]


def test_status(nightly, run_cli):
    nightly.write(6, shift=3)
    nightly.run()
    store = nightly.folder / "store"
    found = json.loads(run_cli("status", store, "--json").stdout)
    assert found["gaps"] == [day(4), day(5)] and found["rows"] == 800
    assert [(a["partition"], a["name"]) for a in found["alarms"]] == [(day(6), "previous")]
    assert found["models"]["kinds"] == {
        "k": 2,
        "kind": "kmeans",
        "newest": day(6),
        "rows": 600,
        "window": "last-3",
    }
    text = run_cli("status", store).stdout
    assert f"2: {day(4)}, {day(5)}" in text and "exit code 7" in text and f"{day(6)} (previous)" in text
    for path, code, words in (
        (nightly.folder / "none", 3, "no such directory"),
        (nightly.folder / "data", 2, "not a store"),
        (nightly.job, 2, "not a directory"),
    ):
        result = run_cli("status", path)
        assert result.returncode == code and words in result.stderr
    future = json.loads((store / "store.json").read_text()) | {"schema_version": 2}
    (store / "store.json").write_text(json.dumps(future))
    assert "Upgrade nysketch" in run_cli("status", store).stderr


REFERENCE = '[[comparisons]]\nagainst = "reference"\nreference = "ref.nysk"\nalarm = true\nalpha = 0.01\n'


def test_a_reference_that_is_missing_costs_no_other_comparison_and_no_alarm(nightly):
    nightly.append(REFERENCE)
    nightly.run("comparisons.reference.reference=2024-01-01")
    reference = nightly.folder / "ref.nysk"
    reference.write_bytes(nightly.store.partition_file(day(1)).read_bytes())
    nightly.run()
    reference.rename(nightly.folder / "away.nysk")
    nightly.write(4, shift=3)
    summary = nightly.run()
    assert summary.exit_code == 7 and [a["name"] for a in summary.alarms] == ["previous"]
    assert any("neither a partition (has it retired?) nor a file" in text for text in summary.errors)
    (nightly.folder / "away.nysk").rename(reference)
    found = nightly.run()
    assert [(a["partition"], a["name"]) for a in found.alarms] == [(day(4), "reference")]
    assert nightly.run().alarms == []


def test_a_damaged_partition_costs_no_alarm_about_others(nightly):
    nightly.run()
    nightly.store.partition_file(day(1)).write_bytes(b"nothing")
    nightly.write(4, shift=3)
    summary = nightly.run()
    assert [a["partition"] for a in summary.alarms] == [day(4)]


def test_comparisons_that_are_asked_for_later_raise_no_alarm_about_old_nights(nightly):
    text = nightly.job.read_text()
    nightly.job.write_text(text[: text.index("[[comparisons]]")])
    nightly.write(3, shift=3)
    nightly.run()
    nightly.job.write_text(text)
    summary = nightly.run()
    assert summary.exit_code == 0 and nightly.store.drift()[day(3)][0]["rejected"]
    nightly.write(4, shift=-3)
    assert [a["partition"] for a in nightly.run().alarms] == [day(4)]


def test_a_night_too_short_to_test_is_told(nightly):
    nightly.run()
    nightly.write(4, rows=1)
    summary = nightly.run()
    assert summary.exit_code != 0 and f"{day(4)} could not be tested against {day(3)}" in summary.errors[0]
    notes = nightly.store.drift()[day(4)][0]["notes"]
    assert any(note.endswith("sketch with more --blocks.") for note in notes)  # a store speaks flags


def test_notes_of_alarms_that_make_no_sense_are_written_anew(nightly):
    nightly.run()
    for nonsense in ('{"partitions": 5}', '{"partitions": {"2024-01-01": 3}}', "[]"):
        nightly.store.alarms_file.write_text(nonsense)
        nightly.run()
        assert set(json.loads(nightly.store.alarms_file.read_text())["partitions"]) == {
            day(1),
            day(2),
            day(3),
        }


def test_a_night_with_few_rows_is_undecided_not_alike(nightly, run):
    """Others find an MMD of some 0.1: not this one."""
    text = nightly.job.read_text()
    nightly.job.write_text(text.replace("alpha = 0.01", "alpha = 0.01\nat_least = 0.3"))
    for number in range(1, 6):
        nightly.write(number, rows=600)
    assert run(nightly)["undecided"] == []
    nightly.write(6, rows=24)
    summary = run(nightly)
    (found,) = summary["undecided"]
    assert summary["alarms"] == [] and found["partition"] == day(6) and found["unusual"]
    assert "may go unseen" in summary["stderr"]
    assert nightly.store.drift()[day(6)][0]["detectable"] == found["detectable"]
    shown = status(nightly.store)["drift"]
    assert [one["undecided"] for one in shown] == 4 * [False] + [True]
    assert shown[-1]["verdict"].startswith("undecided") and not shown[0]["verdict"].startswith("undecided")
    report = write_report(nightly.store, nightly.folder / "report.html")
    assert "too few rows to tell whether it differs from 2024-01-05" in report.headline
    assert "may go unseen" in report.headline


def test_a_difference_that_the_test_does_not_look_at_keeps_its_verdict():
    one = {"rejected": False, "p_value": 0.5, "undecided": True, "detectable": None, "name": "a"}
    for usual in ({}, {"a": 0.01}):
        assert verdict_beside(one | {"verdict": UNTESTED}, usual) == UNTESTED
        assert verdict_beside(one | {"verdict": UNDECIDED}, usual) == UNDECIDED
    told = one | {"undecided": False, "verdict": "no difference beyond chance"}
    assert verdict_beside(told, {}) == told["verdict"]
    assert verdict_beside(told | {"detectable": 0.1}, {"a": 0.01}) == UNDECIDED


def test_comparisons_without_what_could_be_found_stand(nightly):
    """As those of older stores, before they are made again."""
    nightly.run()
    path = nightly.store.drift_file(day(3))
    stored = json.loads(path.read_text())
    for key in ("detectable", "undecided", "mmd_projected", "outside_share"):
        del stored["comparisons"][0][key]
    del stored["checksum"]
    path.write_text(json.dumps(stored))
    assert status(nightly.store)["drift"][-1]["undecided"] is False
    report = write_report(nightly.store, nightly.folder / "report.html")
    assert "no relevant difference from" in report.headline
    stored["request"] = "of an older version"
    path.write_text(json.dumps(stored))
    summary = nightly.run()
    assert summary.compared == [day(3)] and not summary.new and not summary.alarms
    assert nightly.store.drift()[day(3)][0]["detectable"] > 0
