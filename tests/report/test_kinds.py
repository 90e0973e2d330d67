"""The report and pictures of sketches whose columns have kinds, with values that nobody may believe."""

import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.errors import UsageError
from nysketch.jobs.drift_step import _columns
from nysketch.plotting.landmark_map import dots_of, fits
from nysketch.plotting.projection import of_columns, of_landmarks
from nysketch.report.contents import read_contents
from nysketch.report.write import write_report
from nysketch.sketches.describe import describe_quality
from tests.report.stores import append_run, describe_partition, write_json
from tests.report.test_report import HOSTILE, QUOTED, Page

pytestmark = pytest.mark.filterwarnings("ignore::nysketch.NysketchWarning")
KINDS = {"city": "category", "price": "log", "ts": "hour"}
CITIES = [HOSTILE, QUOTED, "\x1b[31m\x00red", "x" * 100_000]


def table(seed, shares, rows=500):
    random = np.random.default_rng(seed)
    seconds = random.integers(0, 20, rows) * 86_400 + random.integers(8, 12, rows) * 3600
    return pa.table({
        "city": pa.array(random.choice(CITIES, rows, p=shares), mask=random.random(rows) < 0.1),
        "price": random.lognormal(size=rows),
        "x": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.1),
        "ts": pa.array(seconds).cast(pa.timestamp("s")),
    })  # fmt: skip


@pytest.fixture(scope="module")
def sketches():
    first = nysketch.sketch(table(1, [0.5, 0.3, 0.1, 0.1]), kinds=KINDS, nulls="keep", landmarks=30)
    data = table(2, [0.1, 0.3, 0.5, 0.1])
    return first, nysketch.sketch(data, basis=first.basis, nulls="keep")


@pytest.fixture(scope="module")
def store(sketches, tmp_path_factory):
    path = tmp_path_factory.mktemp("store")
    write_json(path / "store.json", {"schema_version": 1, "name": "mixed", "settings": {}})
    nysketch.save(sketches[0].basis, path / "basis.nysk")
    (path / "partitions").mkdir()
    for index, sketch in enumerate(sketches):
        key = f"day-{index}"
        file = path / "partitions" / f"{key}.nysk"
        nysketch.save(sketch, file)
        describe_partition(path, key, sketch.rows, 0, describe_quality(sketch), file)
        append_run(path, key, index)
    found = nysketch.compare(*sketches[::-1], permutations=99, explain=True)
    told = {
        "against": "previous", "other": "day-0", "mmd": found.mmd, "standard_error": 0.01,
        "threshold": 0.05, "p_value": 0.001, "rejected": True, "verdict": "different", "rows": [500, 500],
        "columns": _columns(found), "notes": [],
    }  # fmt: skip
    for name, learn in (("kmeans", nysketch.learn_kmeans), ("gmm", nysketch.learn_gmm)):
        (path / "models" / name).mkdir(parents=True)
        for index, sketch in enumerate(sketches):
            nysketch.save_model(learn(sketch, 2), path / "models" / name / f"day-{index}.json")
        nysketch.save_model(learn(sketches[-1], 2), path / "models" / f"{name}.json")
    write_json(path / "drift" / "day-1.json", {"partition": "day-1", "comparisons": [told]})
    return path


def test_the_report_says_what_moved_and_escapes_it(store, tmp_path):
    contents = read_contents(store)
    assert not contents.problems
    assert contents.compared["day-1"][0].columns[0].name == "city"
    write_report(store, tmp_path / "r.html")
    content = (tmp_path / "r.html").read_text()
    page = Page(content)
    assert "total variation" in page.text
    assert "missing" in page.text and "cluster 2" in page.text and "component 2" in page.text
    assert not {"script", "img"} & set(page.found)
    assert "\x1b" not in content and "\x00" not in content
    assert "<script>alert" in page.text
    assert len(content) < 400_000  # long values are cut


def test_maps_show_features_and_escape_them(sketches, tmp_path):
    for name, columns in (("all", None), ("two", ["price", "x"])):
        nysketch.plot(sketches[0], tmp_path / f"{name}.svg", columns=columns)
        words = [
            t.text or "" for t in ET.parse(tmp_path / f"{name}.svg").getroot().iter() if "style" not in t.tag
        ]
        assert max(map(len, words)) < 1000 and not any("\x1b" in word for word in words)
    assert {"log(price) →", "↑ x"} <= set(words)
    for column in ("city", "ts"):
        with pytest.raises(UsageError, match=f"'{column}' is a (category|time), which has no place"):
            nysketch.plot(sketches[0], tmp_path / "no.svg", columns=["x", column])
    with pytest.raises(UsageError, match="there is no column 'y'"):
        nysketch.plot(sketches[0], tmp_path / "no.svg", columns=["x", "y"])


def test_a_map_is_of_features(sketches):
    basis = sketches[0].basis
    landmarks = [dict(zip([c.name for c in basis.columns], row, strict=True)) for row in basis.landmarks]
    dots = dots_of(sketches[0], of_columns(["price", "x"], basis.columns))
    assert [dot.x for dot in dots] == pytest.approx([np.log1p(row["price"]) for row in landmarks])
    assert np.isfinite([(dot.x, dot.y) for dot in dots_of(sketches[0], of_landmarks(basis))]).all()


def test_a_map_by_cluster_has_the_nearest_centres(sketches):
    basis = sketches[0].basis
    model = nysketch.learn_kmeans(sketches[0], 3)
    dots = dots_of(sketches[0], of_landmarks(basis), model, [0, 1, 2])
    places = basis.scaled_landmarks[:, None] - (model.centroids - basis.center) / basis.scale
    assert [dot.series for dot in dots] == (places**2).sum(axis=2).argmin(axis=1).tolist()
    assert not fits(nysketch.learn_kmeans(sketch_of_others(), 2), basis)


def sketch_of_others():
    """Sketch a table with the same columns and other values."""
    data = table(1, [1, 0, 0, 0])
    cities = pa.array(["there", "elsewhere"] * 250)
    return nysketch.sketch(data.set_column(0, "city", cities), kinds=KINDS, nulls="keep", landmarks=30)


def test_distances_of_several(sketches, tmp_path):
    drawing = nysketch.plot(list(sketches), tmp_path / "d.svg")
    assert drawing is not None


def test_info_escapes_values(sketches, tmp_path, run_cli):
    nysketch.save(sketches[1], tmp_path / "s.nysk")
    printed = run_cli("info", tmp_path / "s.nysk").stdout
    assert "\x1b" not in printed and r"\x1b[31m" in printed and max(map(len, printed.splitlines())) < 300
    facts = nysketch.info(sketches[1])
    assert facts["unknown_by_column"].keys() == {"city", "x"}
    assert facts["columns"][0]["vocabulary"] == 3  # values that long are in no vocabulary
    assert facts["columns"][3]["min"] == "1970-01-01T08:00:00"
