"""What a job writes outside of its store: a report and copies of models, in the place of nothing else."""

import os
import shutil

import pytest

import nysketch
from nysketch.errors import UsageError
from tests.jobs.jobs import JOB, Nightly, day

MODEL = 'window = "last-3"\n'


def with_output(folder, output, report=None):
    text = JOB.replace(MODEL, f'{MODEL}output = "{output}"\n')
    return Nightly(folder / "work", text + (f'[report]\noutput = "{report}"\n' if report else ""))


@pytest.mark.parametrize(
    ("output", "report", "message"),
    [
        ("model.json", "report.txt", r"\[report\] output must be the name of an HTML file: end it in \.html"),
        ("model.toml", None, r"\[\[models\]\] kinds: output = model\.toml: .*end it in \.json"),
    ],
)
def test_a_wrong_suffix_is_refused_before_anything_is_done(tmp_path, output, report, message):
    nightly = with_output(tmp_path, output, report).with_days(1)
    with pytest.raises(UsageError, match=message):
        nightly.run()
    assert not (nightly.folder / "store").exists()


def test_two_models_have_two_outputs(tmp_path):
    nightly = with_output(tmp_path, "model.json")
    nightly.append('[[models]]\nname = "more"\nkind = "kmeans"\nk = 3\noutput = "./model.json"\n')
    with pytest.raises(UsageError, match=r"more: kinds has the same output, \./model\.json; choose another"):
        nightly.run()


@pytest.mark.parametrize("report", ["pipe.html", "job.html", "data.html"])
def test_a_report_takes_the_place_of_nothing_that_is_read(tmp_path, report):
    nightly = with_output(tmp_path, "model.json", report).with_days(1)
    os.mkfifo(nightly.folder / "pipe.html")
    (nightly.folder / "job.html").symlink_to("job.toml")
    (nightly.folder / "data.html").hardlink_to(nightly.input(1))
    with pytest.raises(UsageError, match=f"^{report}: is (an input|a pipe .*); choose another `output`"):
        nightly.run()
    assert not (nightly.folder / "store" / "partitions" / f"{day(1)}.nysk").exists()


def test_a_report_is_no_file_of_the_store(tmp_path):
    nightly = Nightly(tmp_path / "work").with_days(1)
    nightly.run()
    page = tmp_path / "page.html"
    page.hardlink_to(nightly.folder / "store" / "basis.nysk")
    before = nightly.contents()
    with pytest.raises(UsageError, match=r"page\.html: is an input"):
        nysketch.write_report(nightly.folder / "store", page)
    assert nightly.contents() == before
    inside = nightly.folder / "store" / "report.html"
    for _ in range(2):
        nysketch.write_report(nightly.folder / "store", inside)


def test_a_copy_of_a_model_replaces_its_own_and_no_other(tmp_path, shelf):
    nightly = with_output(tmp_path, "model.json").with_days(1)
    output = nightly.folder / "model.json"
    others = {"a model of somebody else": (shelf / "model.json").read_bytes(), "a list": b"[1, 2, 3]\n"}
    for content in others.values():
        output.write_bytes(content)
        summary = nightly.run()
        assert output.read_bytes() == content and summary.exit_code == 1
        assert summary.errors == [
            "[[models]] kinds: model.json: exists, and is no model of this store; move it away, or choose "
            "another output"
        ]
    output.unlink()
    assert nightly.run().exit_code == 0
    first = output.read_bytes()
    nightly.write(2)
    assert nightly.run().errors == []
    assert output.read_bytes() != first
    shutil.copy(nightly.store.model_file("kinds"), tmp_path)
    assert output.read_bytes() == (tmp_path / "kinds.json").read_bytes()
