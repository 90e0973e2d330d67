"""What `info` and `verify` say of models, sketches and bases, and what they do not do for it."""

import json
import subprocess
import sys

import numpy as np
import pytest

import nysketch
from nysketch import Column
from nysketch.errors import CorruptSketchError, UsageError
from nysketch.models.inspection import describe_file, describe_model, verify_file
from nysketch.models.kmeans import KMeansModel
from nysketch.models.mixture import MixtureModel


def mixture(shape, k=3, d=2):
    rng = np.random.default_rng(0)
    scale = np.arange(1.0, d + 1)
    variances = {
        "spherical": rng.uniform(1, 2, (k, 1)) * scale**2,
        "diag": rng.uniform(1, 2, (k, d)),
        "full": np.stack([np.eye(d) * (i + 1) + 0.5 for i in range(k)]),
    }[shape]
    weights = np.arange(1.0, k + 1)
    return MixtureModel(
        columns=(Column("x"), Column("v", d - 1)),
        scale=scale,
        weights=weights / weights.sum(),
        means=rng.normal(size=(k, d)),
        covariances=variances,
        covariance_type=shape,
        facts={"basis_digest": "ab" * 32, "rows": 1234, "mean_log_likelihood": -1.5},
    )


def centroids(k=3, d=2):
    rng = np.random.default_rng(1)
    return KMeansModel(
        columns=tuple(Column(f"column {i}") for i in range(d)),
        scale=np.ones(d),
        centroids=rng.normal(size=(k, d)) * 1000,
        shares=np.full(k, 1 / k),
    )


@pytest.mark.parametrize("shape", ["spherical", "diag", "full"])
def test_a_mixture_is_described_in_the_units_of_the_data(shape):
    model = mixture(shape, d=3)
    facts = describe_model(model)
    assert (facts["kind"], facts["k"], facts["features"], facts["covariance"]) == ("gmm", 3, 3, shape)
    assert facts["columns"][1] == {"name": "v", "type": "number", "width": 2}
    for number, cluster in enumerate(facts["clusters"]):
        covariance = model.covariances[number]
        variances = np.diag(covariance) if shape == "full" else covariance
        assert cluster["cluster"] == number and cluster["share"] == model.weights[number]
        assert cluster["centre"] == model.means[number].tolist()
        assert np.allclose(np.square(cluster["deviation"]), variances, rtol=1e-12)
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("suffix", ["json", "parquet", "npz"])
@pytest.mark.parametrize("model", [centroids(), mixture("full")], ids=["kmeans", "gmm"])
def test_files_of_models_are_described_and_verified(tmp_path, model, suffix):
    path = tmp_path / f"model.{suffix}"
    nysketch.save_model(model, path)
    expected = describe_model(model) | {"bytes": path.stat().st_size, "path": str(path)}
    assert describe_file(str(path))[1] == nysketch.info(str(path)) == expected
    assert nysketch.info(model) == describe_model(model)
    assert nysketch.verify(path) == [
        {"basis_digest": model.facts.get("basis_digest"), "ok": True, "path": str(path)}
    ]
    with pytest.raises(UsageError, match="a model has no rows"):
        nysketch.info(path, against=path)


def test_a_broken_model_is_found(tmp_path):
    path = tmp_path / "model.json"
    nysketch.save_model(centroids(), path)
    text = json.loads(path.read_text())
    text["shares"][0] = 2.0
    path.write_text(json.dumps(text))
    verified = verify_file(path)
    assert isinstance(verified.found, CorruptSketchError) and "sum to 1" in verified.describe()["error"]


def test_info_prints_the_clusters_of_a_model(run_cli, tmp_path):
    model = centroids()
    nysketch.save_model(model, tmp_path / "model.json")
    lines = run_cli("info", "model.json", cwd=tmp_path).stdout.splitlines()
    table = lines[lines.index("clusters, in the units of the data") + 1 :]
    assert table[0].split("  ")[1:3] == ["cluster", "share"]
    assert len(table) == 4
    for number, line in enumerate(table[1:]):
        cells = line.split()
        assert cells[:2] == [str(number), "0.333"]
        assert cells[2:] == [f"{value:.4g}" for value in model.centroids[number]]
    result = run_cli("verify", "model.json", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "model.json: ok, model (kmeans), k = 3, 2 features\n")


def test_info_of_a_large_model_is_short_and_its_json_whole(run_cli, tmp_path):
    model = centroids(k=100, d=60)
    nysketch.save_model(model, tmp_path / "model.npz")
    printed = run_cli("info", "model.npz", cwd=tmp_path).stdout
    assert printed.count("\n") < 40 and max(map(len, printed.splitlines())) < 200
    assert "… 80 more clusters and 52 more features: see --json" in printed
    facts = json.loads(run_cli("info", "model.npz", "--json", cwd=tmp_path).stdout)
    assert np.array_equal([cluster["centre"] for cluster in facts["clusters"]], model.centroids)


def test_info_of_a_model_with_strange_facts(run_cli, tmp_path):
    nysketch.save_model(mixture("diag"), tmp_path / "model.json")
    text = json.loads((tmp_path / "model.json").read_text())
    text |= {"rows": [1], "decoder": {"a": 1}, "mean_log_likelihood": True, "notes": "all", "basis_digest": 7}
    (tmp_path / "model.json").write_text(json.dumps(text))
    for command in ("info", "verify"):
        result = run_cli(command, "model.json", cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")


# ---- sketches: what was measured when the basis was made, unless it is asked for ------------------------

HEAVY = ("scipy", "pyarrow", "numba", "sklearn", "h5py")
ALONE = f"""
import json, sys
import numpy as np
from nysketch.cli import execute
for name in ("eigh", "eigvalsh", "svd"):
    setattr(np.linalg, name, None)
sys.argv = ["nysketch", *sys.argv[1:]]
code = execute()
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(json.dumps([code, loaded]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "a.nysk"],
        ["info", "a.nysk", "--json"],
        ["info", "basis.nysk"],
        ["info", "model.json"],
        ["verify", "a.nysk", "b.nysk", "basis.nysk", "model.json"],
        ["merge", "a.nysk", "b.nysk", "-o"],
        ["subtract", "ab.nysk", "b.nysk", "-o"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_small_answers_load_nothing_heavy(shelf, tmp_path, arguments):
    given = [*arguments, str(tmp_path / "out.nysk")] if arguments[-1] == "-o" else arguments
    command = [sys.executable, "-c", ALONE, *given]
    result = subprocess.run(command, cwd=shelf, capture_output=True, text=True, check=True)
    assert json.loads(result.stderr) == [0, []]


def test_quality_is_measured_if_asked_for(run_cli, shelf):
    sketch = nysketch.load(shelf / "a.nysk")
    stored = nysketch.info(sketch)
    assert stored["quality"]["measured_on"] == "pilot" and stored["rank"] == sketch.rank
    measured = nysketch.info(sketch, quality=True)
    assert measured["quality"]["measured_on"] == "sample"
    assert measured["quality"]["mean_residual"] == sketch.quality().mean_residual
    assert {**measured, "quality": 0} == {**stored, "quality": 0}
    printed = run_cli("info", "a.nysk", cwd=shelf).stdout
    assert "when the basis was made" in printed and "--quality does that" in printed
    printed = run_cli("info", "a.nysk", "--quality", cwd=shelf).stdout
    assert "when the basis was made" not in printed and "effective dimension" in printed


def test_without_anything_stored_info_says_how_to_measure(run_cli, tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    nysketch.save(nysketch.sketch(rows, landmarks=50, threads=1), tmp_path / "s.nysk")
    facts = nysketch.info(tmp_path / "s.nysk")
    assert facts["quality"] is None and facts["rank"] is None
    printed = run_cli("info", "s.nysk", cwd=tmp_path).stdout
    assert "rank       not computed; see --quality" in printed
    assert "unknown: it was not measured when the basis was made; see --quality" in printed
    measured = nysketch.info(tmp_path / "s.nysk", quality=True)
    assert measured["rank"] > 0 and measured["quality"]["measured_on"] == "sample"


def test_a_verdict_for_few_rows_is_not_passed_on_to_many():
    rows = np.random.default_rng(0).normal(size=(3000, 3))
    small = nysketch.sketch(rows, landmarks=60, threads=1)
    stored = nysketch.info(small)["quality"]
    assert stored["enough"] and stored["advice"][0].startswith("Enough landmarks: ")
    many = small
    for _ in range(12):
        many = many + many
    assert many.rows == 12_288_000
    advice = nysketch.info(many)["quality"]["advice"][0]
    assert advice.startswith("Enough landmarks for 3,000 rows, but perhaps not for 12,288,000")
    assert "`nysketch.info(quality=True)`" in advice
    two = nysketch.info(small + small)["quality"]
    assert two["advice"] == stored["advice"]
