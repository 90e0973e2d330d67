"""The report on a store: what it says, whatever the store holds or lacks."""

import base64
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

import nysketch
from nysketch._support import outputs
from nysketch._support.locks import output_lock
from nysketch.errors import InputError, LockedError, OutputError, UsageError
from nysketch.jobs.store import Store
from nysketch.report.cluster_tracking import same_features, tracks
from nysketch.report.contents import LATEST, read_contents
from nysketch.report.write import write_report
from tests.report.stores import (
    CHANGED,
    append_run,
    describe_partition,
    make_huge,
    make_store,
    month,
    write_json,
)

HOSTILE = "<script>alert(1)</script>"
QUOTED = "\"'><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """What a browser would make of a page: elements, text, and whether elements are closed in order."""

    VOID = ("meta", "br", "img", "link")

    def __init__(self, content):
        super().__init__()
        self.open, self.found, self.words, self.attributes = [], [], [], []
        self.feed(content)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)

    def ids(self):
        return [value for _, name, value in self.attributes if name == "id"]


def written(store, tmp_path, name="report.html"):
    report = write_report(store, tmp_path / name)
    content = (tmp_path / name).read_text()
    assert len(content.encode()) == report.bytes
    return report, Page(content)


def test_the_first_sentence_says_what_happened(store, tmp_path):
    report, page = written(store, tmp_path)
    assert report.newest == month(CHANGED)
    assert report.alarms == 2
    assert re.fullmatch(
        rf"{month(CHANGED)} brought 760 rows \(17 more were dropped\) and 2 alarms: it differs from "
        rf"{month(CHANGED - 1)} \(the previous partition\) and {month(0)} \(the reference\); "
        r"the largest shift is distance, \+\d\.\d\d standard deviations\.",
        report.headline,
    )
    assert report.headline in "".join(page.words)


def test_every_section_has_its_pictures_words_and_numbers(store, tmp_path):
    _, page = written(store, tmp_path)
    for section in ("drift", "columns", "models", "map", "volume", "quality", "runs", "partitions"):
        assert section in page.ids()
        assert ("a", "href", f"#{section}") in page.attributes
    for words in (
        "MMD to the previous partition",
        "distance",
        "projection error",
        "Dropped rows",
        "cluster 3",
    ):
        assert words in page.text
    pictures = [value for tag, name, value in page.attributes if tag == "svg" and name == "role"]
    # Two sizes each of: drift, two heat maps, three for each of two models, two maps, two bars, quality.
    assert len(pictures) == 2 * (1 + 2 + 3 * 2 + 2 + 2 + 1)
    assert page.found.count("details") >= 12
    assert len(page.ids()) == len(set(page.ids()))


def test_words_name_what_pictures_show(store, tmp_path):
    _, page = written(store, tmp_path)
    labelled = [
        value for tag, name, value in page.attributes if name in ("aria-labelledby", "aria-describedby")
    ]
    assert set(labelled) <= set(page.ids())
    assert "Against the reference: 9 values from" in page.text


def test_the_page_needs_nothing_else_and_its_policy_says_so(report):
    content = report.read_text()
    page = Page(content)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.found)
    assert not [a for a in page.attributes if a[1] in ("src", "style") or a[1].startswith("on")]
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert "url(" not in content
    assert "@import" not in content
    sheet = re.search("<style>(.*?)</style>", content, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = next(
        value for tag, name, value in page.attributes if name == "content" and "default-src" in value
    )
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


def test_the_same_store_gives_the_same_bytes(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "elsewhere")
    for file in copy.glob("partitions/*.nysk"):
        file.unlink()
    (store_bytes, _), (copied, page) = written(store, tmp_path, "a.html"), written(copy, tmp_path, "b.html")
    again, _ = written(Store.open(store), tmp_path, "c.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "c.html").read_bytes()
    assert store_bytes == again
    assert copied.problems == [f"partitions/{month(CHANGED)}.nysk: cannot read: No such file or directory"]
    assert str(tmp_path) not in page.text


def test_names_from_data_are_text_wherever_they_come_from(tmp_path):
    store = make_store(
        tmp_path / "store",
        partitions=3,
        columns=[HOSTILE, QUOTED, "x"],
        m=12,
        models=("kmeans",),
        name=HOSTILE,
    )
    describe_partition(store, month(3), 10, 1, {"advice": [HOSTILE], "projection_error": 1}, name=HOSTILE)
    comparison = json.loads((store / "drift" / f"{month(2)}.json").read_text())["comparisons"][0]
    comparison |= {
        "against": HOSTILE,
        "other": QUOTED,
        "rejected": True,
        "verdict": HOSTILE,
        "notes": [QUOTED],
    }
    write_json(store / "drift" / f"{month(3)}.json", {"comparisons": [comparison | {"name": HOSTILE}]})
    shutil.copy(store / "models" / "kmeans.json", store / "models" / "a <b> & c.json")
    append_run(store, HOSTILE, 4, alarms=[HOSTILE], exit_code=3, errors=[HOSTILE, QUOTED])
    _, page = written(store, tmp_path)
    assert not {"script", "img", "b"} & set(page.found)
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert page.text.count(HOSTILE) > 20
    assert QUOTED in page.text


def test_a_store_with_nothing_in_it(tmp_path):
    write_json(tmp_path / "store" / "store.json", {"schema_version": 1, "name": "new", "settings": {}})
    report, page = written(tmp_path / "store", tmp_path)
    assert report.headline == "There are no partitions yet."
    assert (report.newest, report.rows, report.problems) == (None, 0, [])
    assert "No runs yet." in page.text


def test_one_partition_without_models_and_comparisons(tmp_path):
    store = make_store(tmp_path / "store", partitions=1, m=12, models=(), compare=False)
    report, page = written(store, tmp_path)
    assert report.headline == f"{month(0)} brought 600 rows; it was not compared."
    for words in (
        "No comparisons yet",
        "No comparison has column shifts",
        "No models yet",
        "principal directions",
    ):
        assert words in page.text


@pytest.mark.parametrize("options", [{"features": "fourier"}, {"columns": ["words"], "kernel": "spectrum"}])
def test_sketches_without_points_have_no_map(tmp_path, options):
    import pyarrow as pa

    random = np.random.default_rng(0)
    numbers = pa.table({"x": random.normal(size=200), "y": random.normal(size=200)})
    table = numbers if "features" in options else pa.table({"words": [f"word {i}" for i in range(200)]})
    write_json(tmp_path / "store" / "store.json", {"schema_version": 1, "name": "new", "settings": {}})
    file = tmp_path / "store" / "partitions" / "a.nysk"
    file.parent.mkdir()
    sketch = nysketch.sketch(table, landmarks=10, **options)
    nysketch.save(sketch, file)
    quality = {"kernel_error": 0.1, "advice": []} if "features" in options else None
    describe_partition(tmp_path / "store", "a", 200, 0, quality, file)
    report, page = written(tmp_path / "store", tmp_path)
    assert report.problems == []
    assert "no numeric landmarks to draw" in page.text


def test_what_is_missing_or_damaged_costs_only_itself(store, tmp_path):
    broken = shutil.copytree(store, tmp_path / "store")
    (broken / "partitions" / f"{month(2)}.json").write_text("{")
    (broken / "drift" / f"{month(3)}.json").write_text("[1]")
    (broken / "drift" / f"{month(4)}.json").unlink()
    (broken / "models" / "kmeans" / f"{month(5)}.json").write_text("{}")
    shutil.rmtree(broken / "models" / "gmm")
    (broken / "partitions" / f"{month(CHANGED)}.nysk").write_bytes(b"no sketch")
    with (broken / "history.jsonl").open("a") as file:
        file.write('{"started": "cut sho')
    report, page = written(broken, tmp_path)
    assert report.alarms == 2
    assert len(report.problems) == 4
    for problem in report.problems:
        assert problem in page.text
    assert "gmm: 3 components" in page.text  # the newest one is there still
    assert "The newest partition has no sketch." in page.text


def test_trouble_of_the_last_run_comes_first(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "store")
    append_run(copy, "x", 30, exit_code=3, errors=["data/x.parquet: truncated"])
    _, page = written(copy, tmp_path)
    assert page.text.index("data/x.parquet: truncated") < page.text.index("Drift")
    assert "input unreadable (3)" in page.text


@pytest.mark.slow
def test_thousands_of_partitions_make_a_page_of_bounded_size(tmp_path):
    sizes = []
    for partitions in (300, 1500):
        report, page = written(make_huge(tmp_path / str(partitions), partitions), tmp_path)
        assert report.partitions == partitions
        sizes.append(report.bytes)
    assert sizes[1] < 1.1 * sizes[0] < 1_000_000
    assert f"The latest {LATEST} of 1,500 partitions are shown." in page.text
    assert "day-00000 … day-00045" in page.text


def test_differences_that_are_too_small_for_the_job_are_no_alarms(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "store")
    path = copy / "drift" / f"{month(CHANGED)}.json"
    value = json.loads(path.read_text())
    for comparison in value["comparisons"]:
        comparison["at_least"] = 10.0
    value["comparisons"][0]["columns"][0]["shift"] = None  # it was constant before
    write_json(path, value)
    report, _ = written(copy, tmp_path)
    assert report.alarms == 0
    assert "no alarms: no relevant difference from" in report.headline
    assert read_contents(copy).compared[month(CHANGED)][0].threshold == 10.0


def test_outputs_are_html_files_and_kept_if_asked_to(store, tmp_path):
    with pytest.raises(UsageError, match=r"end its name in \.html"):
        write_report(store, store / "store.json")
    output = tmp_path / "report.html"
    output.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        write_report(store, output, overwrite=False)
    assert output.read_text() == "mine"
    write_report(store, output)
    assert output.read_text() != "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_report_has_one_writer_and_leaves_no_lock(store, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "BRIEF_WAIT", 0.2)
    output = tmp_path / "report.html"
    with (
        output_lock(output),
        pytest.raises(LockedError, match=r"report\.html: another process"),
    ):
        write_report(store, output)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".report.html.lock").touch()  # of a process that was killed
    write_report(store, output)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_no_report_replaces_its_store(store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "store.html")
    with pytest.raises(UsageError, match=r"store\.html: is a directory"):
        write_report(copy, copy)
    assert Store.open(copy).partitions()


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such directory"):
        write_report(tmp_path / "nowhere", tmp_path / "x.html")
    with pytest.raises(UsageError, match="not a store"):
        write_report(tmp_path, tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


# ---- the command --------------------------------------------------------------------------------------


def test_the_command_writes_a_report_and_says_so(run_cli, store, tmp_path):
    run = run_cli("report", store, "-o", tmp_path / "r.html")
    assert run.returncode == 0
    assert run.stdout.startswith(f"{tmp_path / 'r.html'}: {month(CHANGED)} brought 760 rows")
    again = run_cli("report", store, "-o", tmp_path / "r.html", "--json")
    facts = json.loads(again.stdout)
    assert (facts["alarms"], facts["partitions"], facts["problems"]) == (2, CHANGED + 1, [])
    assert facts["bytes"] == (tmp_path / "r.html").stat().st_size
    assert run_cli("report", store, "-o", tmp_path / "r.html", "-q").stdout == ""
    assert run_cli("report", store, "-o", tmp_path / "r.html", "--if-exists", "fail").returncode == 1
    assert run_cli("report", tmp_path, "-o", tmp_path / "r.html").returncode == 2
    assert run_cli("report", tmp_path / "none", "-o", tmp_path / "r.html").returncode == 3


# ---- clusters over time -------------------------------------------------------------------------------


def model_of(centroids, shares):
    centroids = np.array(centroids, float)
    columns = (nysketch.Column("x"), nysketch.Column("y"))
    from nysketch.models.kmeans import KMeansModel

    return KMeansModel(columns=columns, scale=np.ones(2), centroids=centroids, shares=np.array(shares))


def test_clusters_keep_their_number_however_learning_numbers_them():
    old = model_of([[0, 0], [10, 0], [0, 10]], [0.5, 0.3, 0.2])
    new = model_of([[0.5, 10], [0, 0.5], [10.5, 0]], [0.6, 0.3, 0.1])
    found = tracks([old, new])
    assert [track.numbers for track in found] == [[2, 0], [0, 1], [1, 2]]
    assert found[0].shares == [0.2, 0.6]
    assert found[0].moved(new.scale) == [0, 0.5]


def test_clusters_come_and_go():
    two = model_of([[0, 0], [10, 0]], [0.7, 0.3])
    three = model_of([[10, 0], [0, 10], [0, 0]], [0.2, 0.2, 0.6])
    assert [t.numbers for t in tracks([two, three])] == [[0, 2], [1, 0], [None, 1]]
    assert [t.numbers for t in tracks([three, two])] == [[2, 0], [0, 1], [1, None]]
    assert tracks([]) == []
    assert same_features([two, three]) == 2
