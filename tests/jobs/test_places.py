"""Where a run is started makes no difference: paths of a job are relative to its file."""

import contextlib
import shutil
import threading
from pathlib import Path

import pytest

import nysketch
from nysketch.errors import InputError
from nysketch.jobs.config import load_job
from tests.jobs.jobs import JOB, Nightly, day

OUTPUTS = """
[[comparisons]]
against = "reference"
reference = "typical.nysk"
[report]
output = "pages/report.html"
"""
MODEL = 'window = "last-3"\n'


@pytest.fixture
def relative(tmp_path):
    """A job with relative paths of all kinds, two days of data, and a basis beside it."""
    text = JOB.replace(MODEL, MODEL + 'output = "model.json"\n') + OUTPUTS
    text = text.replace("landmarks = 10", 'file = "./basis.nysk"')
    nightly = Nightly(tmp_path / "work", text).with_days(1, 2)
    (nightly.folder / "pages").mkdir()
    basis = nysketch.Basis.fit(str(nightly.input(1)), landmarks=10)
    nysketch.save(basis, nightly.folder / "basis.nysk")
    sketch = nysketch.sketch(str(nightly.input(1)), basis=basis, blocks=16)
    nysketch.save(sketch, nightly.folder / "typical.nysk")
    return nightly


def started_in(nightly, directory, job, **options):
    """Run with a directory as the working directory; it must stay that."""
    seen = set()

    def progress(name, done, total):
        seen.add(Path.cwd())

    with contextlib.chdir(directory):
        original, nightly.job = nightly.job, job
        try:
            return nightly.run(progress=progress, **options)
        finally:
            nightly.job = original
            assert seen <= {directory.resolve()} and Path.cwd() == directory.resolve()


PLACES = {
    "beside the job file": ("work", "job.toml"),
    "above it": (".", "work/job.toml"),
    "elsewhere": ("elsewhere", "../work/job.toml"),
    "by an absolute path": ("elsewhere", None),
}


def everything(nightly):
    """Return all files, and the history but for its times; the report shows these, too."""
    root = nightly.folder
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("history.jsonl", "report.html")
    }
    history = [line | {"started": None, "seconds": None} for line in nightly.store.history()]
    return files, history


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_run_leaves_the_same_wherever_it_is_started(relative, tmp_path, place):
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(relative.folder, tmp_path / "copy")  # with the times of files
    directory, job = PLACES[place]
    started_in(relative, tmp_path / directory, job or relative.job)
    found = everything(relative)
    shutil.rmtree(relative.folder)
    shutil.move(tmp_path / "copy", relative.folder)
    started_in(relative, relative.folder, "job.toml")
    expected = everything(relative)
    assert found[0].keys() == expected[0].keys() and found == expected
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert {"model.json", f"store/partitions/{day(2)}.nysk"} <= found[0].keys()
    assert (relative.folder / "pages" / "report.html").exists()
    inputs = relative.store.sketch(day(1)).provenance.inputs
    assert [item.path for item, _ in inputs] == [f"data/{day(1)}.parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_messages_name_files_as_the_job_file_does(relative, tmp_path, place):
    relative.run()
    (tmp_path / "elsewhere").mkdir()
    for path in (relative.store.partition_file(day(2)), relative.folder / "typical.nysk"):
        path.write_bytes(b"damaged")
    shutil.rmtree(relative.folder / "pages")
    relative.write(3)
    relative.input(4).write_bytes(b"PAR1 half a file")
    directory, job = PLACES[place]
    summary = started_in(relative, tmp_path / directory, job or relative.job)
    assert summary.store == "store" and summary.report == "pages/report.html"
    texts = [*summary.errors, *summary.skipped.values()]
    assert not [text for text in texts if str(tmp_path) in text or "work/" in text]
    named = (
        f"store/partitions/{day(2)}.nysk: ",
        "typical.nysk: ",
        "[report]: pages/report.html: cannot write here",
        f"data/{day(4)}.parquet: ",
    )
    assert [name for name in named if not any(name in text for text in texts)] == []
    assert relative.store.history()[-1]["errors"] + [summary.errors[-1]] == summary.errors


def test_errors_that_end_a_run_name_files_as_the_job_file_does(relative, tmp_path):
    (relative.folder / "basis.nysk").unlink()
    with pytest.raises(InputError, match=r"^basis\.nysk: cannot read: No such file"):
        relative.run()
    assert relative.store.history()[-1]["errors"][0].startswith("basis.nysk: cannot read")


def test_only_whole_paths_of_the_job_are_renamed(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)
    job = load_job(tmp_path / "job.toml", environment={})
    store = f"{tmp_path}/store"
    assert job.as_written(f"{store}/store.json: busy (lock {store}/x) '{store}'") == (
        "store/store.json: busy (lock store/x) 'store'"
    )
    for text in (f"/other{store}/x", f"{tmp_path}/job.toml: no", f"{tmp_path}/data/x: no"):
        assert job.as_written(text) == text


def test_two_jobs_run_in_two_threads(tmp_path):
    jobs = [Nightly(tmp_path / name).with_days(1, 2) for name in ("one", "two")]
    failed = []

    def run(nightly):
        try:
            for number in (3, 4, 5):
                nightly.write(number)
                assert nightly.run().exit_code in (0, 7)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[nightly]) for nightly in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    first, second = (nightly.store for nightly in jobs)
    for name in first.partition_names():
        assert first.partition_file(name).read_bytes() == second.partition_file(name).read_bytes()
    assert first.partition_names() == [day(number) for number in range(1, 6)]
