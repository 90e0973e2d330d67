"""Files of a store that are damaged, or of another shape: named, with what helps, and made again."""

import json

import pytest

from nysketch.errors import CorruptSketchError
from nysketch.jobs.records import MisfitError, file_name
from nysketch.jobs.status import status
from nysketch.jobs.store_io import write_json
from nysketch.report.write import write_report
from tests.jobs.jobs import day

REPORT = '\n[report]\noutput = "report.html"\n'

REMADE = {
    f"partitions/{day(2)}.json": "inputs",
    "windows/last-3.json": "members",
    f"drift/{day(3)}.json": "comparisons",
    "models/kinds.json": "nightly",
    f"models/kinds/{day(3)}.json": "nightly",
    "alarms.json": "partitions",
    "report.json": "state",
}


def sealed(path, change):
    """Change what a file tells, and compute its checksum anew, as somebody who knows how."""
    value = json.loads(path.read_text())
    change(value)
    write_json(path, value) if "checksum" in value else path.write_text(json.dumps(value))


def put(key, value):
    return lambda content: content.update({key: value})


@pytest.mark.parametrize("name", REMADE)
def test_a_file_of_another_shape_is_made_again(nightly, name):
    nightly.append(REPORT)
    nightly.run()
    before, path = nightly.contents(), nightly.store.path / name
    for value in (7, [[1]], {"x": "y"}):
        sealed(path, put(REMADE[name], value))
        assert nightly.run().exit_code == 0
        assert nightly.contents() == before


NONE = [
    *(b"[1]", b"3", b'{"rows": NaN}', b'{"rows": 1e999}', b"{", b'"\xff"', b'{"a": "\\ud800"}', b"{}", b""),
    *(b'{"a": ' + 500 * b"[" + 500 * b"]" + b"}", b'{"rows": ' + 5000 * b"9" + b"}"),
]


@pytest.mark.parametrize("name", [f"partitions/{day(2)}.json", f"drift/{day(3)}.json", "windows/all.json"])
def test_what_is_no_description_is_named_and_made_again(nightly, name):
    nightly.run()
    before, path = nightly.contents(), nightly.store.path / name
    for content in NONE:
        path.write_bytes(content)
        named = rf"{name}: damaged: .*the next `nysketch\.run` makes it again"
        with pytest.raises(CorruptSketchError, match=named):
            status(nightly.store)
    if "windows" not in name:  # of which a report does not tell
        problems = write_report(nightly.store, nightly.folder / "r.html").problems
        assert any(f"{name}: damaged" in problem for problem in problems)
    nightly.run()
    assert nightly.contents() == before


def test_a_changed_number_is_noticed_and_put_right(nightly):
    nightly.run()
    before, path = nightly.contents(), nightly.store.path / "partitions" / f"{day(2)}.json"
    path.write_text(path.read_text().replace('"rows": 200', '"rows": 900'))
    with pytest.raises(CorruptSketchError, match="its checksum does not match its content"):
        status(nightly.store)
    nightly.run()
    assert nightly.contents() == before
    for key in ("rows", "dropped_rows"):  # by somebody who computes the checksum, or a file that has none
        sealed(path, put(key, 900))
        with pytest.raises(CorruptSketchError, match=r"it tells of .*900.*, and its sketch of others"):
            status(nightly.store)
        nightly.run()
        assert nightly.contents() == before


def test_a_damaged_description_without_inputs_costs_no_sketch(nightly):
    """What cannot be made again is kept for somebody to look at."""
    nightly.run()
    path = nightly.store.partition_file(day(2))
    described = path.with_suffix(".json")
    content = described.read_bytes()
    nightly.input(2).unlink()
    described.write_bytes(b"{}")
    for _ in range(2):
        summary = nightly.run()
        assert summary.exit_code == 5 and "the partition is lost" in summary.errors[0]
        assert path.exists() and described.exists()
    described.write_bytes(content)
    assert nightly.run().exit_code == 0
    assert nightly.store.windows()["all"].partitions == [day(1), day(2), day(3)]


def test_a_name_that_leads_out_of_the_store_is_no_name(nightly):
    nightly.run()
    path = nightly.store.path / "windows" / "last-3.json"
    members = json.loads(path.read_text())["members"] | {"../../elsewhere": "0"}
    sealed(path, lambda value: value.update(members=members, partitions=sorted(members)))
    with pytest.raises(CorruptSketchError, match=r"partitions\[0\] must be the name of a file"):
        nightly.store.window("last-3")
    nightly.run()
    assert not (nightly.folder / "elsewhere.json").exists()


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a\0", "\ud800", "a" * 256, 5, None])
def test_names_of_files_are_names_of_files(name):
    with pytest.raises(MisfitError):
        file_name(name)


def test_damaged_lines_of_the_history_are_named_and_cost_only_themselves(nightly, caplog):
    nightly.run()
    nightly.run()
    path = nightly.store.history_file
    first, second = path.read_bytes().splitlines()
    changed = first.replace(b'"rows": 600', b'"rows": 900')
    assert changed != first
    for damage in (changed, b'{"errors": 5}', b"[]", b'{"exit_code": 1e999}'):
        path.write_bytes(damage + b"\n" + second + b"\n")
        caplog.clear()
        assert status(nightly.store)["runs"] == 1
        assert "history.jsonl, line 1: damaged" in caplog.text and "remove this line" in caplog.text
        report = write_report(nightly.store, nightly.folder / "r.html")
        assert any("history.jsonl, line 1" in problem for problem in report.problems)
        assert nightly.run().exit_code == 0


def test_the_sum_of_retired_partitions_must_be_the_one_described(nightly):
    settings = "retention.partitions=3"
    nightly.with_days(4).run(settings)
    nightly.store.retired_file.write_bytes(nightly.store.partition_file(day(3)).read_bytes())
    nightly.store.window_file("all").unlink()
    summary = nightly.run(settings)
    assert summary.exit_code == 5
    assert any("retired.nysk: is not the sketch that retired.json describes" in e for e in summary.errors)


def test_stores_without_checksums_stay_readable(nightly):
    nightly.run()
    before = status(nightly.store)
    for path in nightly.store.path.rglob("*.json"):
        value = json.loads(path.read_text())
        value.pop("checksum", None)
        path.write_text(json.dumps(value, sort_keys=True, indent=2) + "\n")
    after = status(nightly.store)
    assert {key: after[key] for key in after if key != "bytes"} == {
        key: before[key] for key in before if key != "bytes"
    }
    assert nightly.run().idle
