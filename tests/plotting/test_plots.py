"""`nysketch plot`: single pictures, through a real process and through the library."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import nysketch
from nysketch.columns import Column
from nysketch.errors import IncompatibleError, OutputError, UsageError
from nysketch.plotting.drawing import Path, Symbol, Words
from nysketch.plotting.plots import plot
from nysketch.plotting.projection import of_columns, of_landmarks, principal
from nysketch.plotting.scatter import Centre, Dot, cloud
from tests.report.stores import month

NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="session")
def sketch(store):
    return store / "partitions" / f"{month(0)}.nysk"


def words_of(path):
    return " ".join(t.text or "" for t in ET.parse(path).getroot().iter() if t.text)


@pytest.mark.slow
def test_a_sketch_by_density(run_cli, sketch, tmp_path):
    output = tmp_path / "x.svg"
    run = run_cli("plot", sketch, "-o", output)
    assert (run.returncode, run.stdout) == (
        0,
        f"{output}: {sketch.name}: 30 landmarks of 600 rows, darker where denser\n",
    )
    assert len(list(ET.parse(output).getroot().iter(f"{NAMESPACE}circle"))) >= 25
    assert "rows nearest to this landmark" in words_of(output)


def test_a_sketch_by_cluster_along_two_columns(run_cli, store, sketch, tmp_path):
    output, model = tmp_path / "x.svg", store / "models" / "kmeans.json"
    run = run_cli("plot", sketch, "--model", model, "--columns", "fare,tip", "-o", output, "--json")
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout)
    assert facts["title"].endswith("by cluster")
    assert facts["description"].count("of the rows") == 3
    assert {"fare →", "↑ tip"} <= {t.text for t in ET.parse(output).getroot().iter(f"{NAMESPACE}text")}


def test_models_and_their_ellipses(store, tmp_path):
    drawn = {}
    for name in ("kmeans", "gmm"):
        drawing = plot([store / "models" / f"{name}.json"], tmp_path / f"{name}.svg")
        drawn[name] = [m for m in drawing.marks if isinstance(m, Path) and m.style.startswith("area")]
        labels = [m.text for m in drawing.marks if isinstance(m, Words) and m.style == "centre-word"]
        assert [label[0] for label in sorted(labels)] == ["1", "2", "3"]
    assert drawn["kmeans"] == []
    assert len(drawn["gmm"]) == 6


def test_several_sketches_by_their_distances(run_cli, store, tmp_path):
    output = tmp_path / "x.svg"
    run = run_cli("plot", store / "partitions", "-o", output)
    assert run.stdout == f"{output}: Distances (MMD) of 10 sketches\n"
    first, second = (nysketch.load(store / "partitions" / f"{month(i)}.nysk") for i in (0, 1))
    shown = f"{nysketch.compare(first, second, test='none').mmd:.2g}"
    assert f"{month(1)}, {month(0)}: {shown}" in words_of(output)


def test_png_and_svg_are_the_same_every_time(store, sketch, tmp_path):
    pytest.importorskip("matplotlib")
    for suffix, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        outputs = [tmp_path / f"{i}.{suffix}" for i in range(2)]
        for output in outputs:
            plot([sketch], output, model=store / "models" / "gmm.json")
        contents = [output.read_bytes() for output in outputs]
        assert contents[0].startswith(start)
        assert contents[0] == contents[1]


def test_png_without_matplotlib_is_refused_with_a_remedy(run_cli, sketch, tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    import os

    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    run = run_cli("plot", sketch, "-o", tmp_path / "x.png", env={"PYTHONPATH": path})
    assert run.returncode == 2
    assert "pip install 'nysketch[report]'" in run.stderr
    assert not (tmp_path / "x.png").exists()


def test_outputs_are_kept_and_inputs_never_replaced(sketch, tmp_path):
    output = tmp_path / "x.svg"
    output.write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        plot([sketch], output)
    assert output.read_text() == "mine"
    copy = tmp_path / "sketch.svg"
    copy.write_bytes(sketch.read_bytes())
    with pytest.raises(UsageError, match="is an input"):
        plot([copy], copy, overwrite=True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{sketch}", "-o", "x.gif"], 2, "end it in .svg or .png"),
        (["{sketch}", "--columns", "fare", "-o", "x.svg"], 2, "--columns must name two columns, not 1"),
        (["{sketch}", "--columns", "fare,none", "-o", "x.svg"], 2, "no column 'none'; there are distance"),
        (["{model}", "--model", "{model}", "-o", "x.svg"], 2, "--model needs a sketch"),
        (["{sketch}", "{sketch}", "--columns", "a,b", "-o", "x.svg"], 2, "apply to one sketch"),
        (["{sketch}", "{store}/basis.nysk", "-o", "x.svg"], 2, "is a basis"),
        (["{store}/store.json", "-o", "x.svg"], 5, "not a usable model file"),
        (["none.nysk", "-o", "x.svg"], 3, "none.nysk"),
        (["-o", "x.svg"], 2, "FILE"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said(run_cli, store, sketch, tmp_path, arguments, code, message):
    given = [a.format(store=store, sketch=sketch, model=store / "models" / "gmm.json") for a in arguments]
    run = run_cli("plot", *given, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (code, "")
    assert message in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_basis_has_landmarks_and_no_rows(store, tmp_path):
    drawing = plot([store / "basis.nysk"], tmp_path / "x.svg")
    assert drawing.title == "basis.nysk: 30 landmarks"


def test_models_of_other_columns_and_features_without_points_are_refused(shelf, store, sketch, tmp_path):
    with pytest.raises(IncompatibleError, match="columns x, y, the sketch distance, fare"):
        plot([sketch], tmp_path / "x.svg", model=shelf / "model.json")
    fourier = nysketch.sketch(
        np.random.default_rng(0).normal(size=(100, 2)), landmarks=10, features="fourier"
    )
    nysketch.save(fourier, tmp_path / "fourier.nysk")
    with pytest.raises(UsageError, match="needs numeric landmarks"):
        plot([tmp_path / "fourier.nysk"], tmp_path / "x.svg")


@pytest.mark.parametrize("d", [1, 2, 30])
def test_sketches_of_any_width_can_be_drawn(tmp_path, d):
    rows = np.random.default_rng(0).normal(size=(300, d))
    made = nysketch.sketch(rows, landmarks=8)
    nysketch.save(made, tmp_path / "s.nysk")
    nysketch.save_model(nysketch.learn_gmm(made, 2), tmp_path / "m.json")
    plot([tmp_path / "s.nysk"], tmp_path / "s.svg", model=tmp_path / "m.json")
    plot([tmp_path / "m.json"], tmp_path / "m.svg")
    for name in ("s", "m"):
        assert "nan" not in (tmp_path / f"{name}.svg").read_text()


# ---- projections and clouds ---------------------------------------------------------------------------


def test_principal_directions_are_those_of_the_spread_and_outliers_do_not_turn_them():
    random = np.random.default_rng(0)
    rows = random.normal(size=(500, 3)) * [5, 2, 0.1]
    projection = principal(rows, np.zeros(3), np.ones(3), ["a", "b", "c"])
    assert np.abs(projection.axes @ projection.axes.T - np.eye(2)).max() < 1e-9
    assert np.abs(projection.axes[:, :2] - np.eye(2)).max() < 0.1
    assert projection.names[0].endswith(": a")
    rows[0] = [0, 0, 1e6]
    assert np.abs(principal(rows, np.zeros(3), np.ones(3), ["a", "b", "c"]).axes[:, 2]).max() < 0.1


def test_columns_are_drawn_in_their_own_units():
    projection = of_columns(["b", "a"], [Column(name) for name in "abc"])
    assert projection(np.array([[1.0, 2.0, 3.0]])).tolist() == [[2, 1]]
    covariance = np.diag([4.0, 9.0, 1.0])
    assert sorted(np.linalg.norm(projection.ellipse_axes(covariance), axis=1)) == pytest.approx([2, 3])


def test_landmarks_project_around_nothing(store):
    basis = nysketch.load(store / "basis.nysk")
    assert np.abs(of_landmarks(basis)(basis.landmarks).mean(axis=0)).max() < 0.5


def test_points_far_out_are_left_out_and_counted():
    dots = [Dot(float(i % 10), float(i // 10), 1.0, 0, None, "") for i in range(100)]
    dots.append(Dot(1e9, 0.0, 1.0, 0, None, ""))
    centre = Centre(3.0, 3.0, "1", "", 0)
    said = {"title": "", "description": "", "axis_names": ("x", "y"), "width": 800, "height": 600}
    drawing, missing = cloud(dots, [centre], **said)
    # The quantiles of so few points also cut the outermost columns of the grid.
    assert 1 <= missing <= 25
    places = [(m.x, m.y) for m in drawing.marks if isinstance(m, Symbol)]
    assert all(0 <= x <= 800 and 0 <= y <= 600 for x, y in places)
    assert cloud([], [], **said)[1] == 0
