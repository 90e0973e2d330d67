"""What learning says where a sketch cannot determine a model, or certify it: before it is believed."""

import json

import numpy as np
import pytest

import nysketch
from nysketch import learn_gmm, learn_kmeans
from nysketch.errors import NysketchWarning
from nysketch.learning.learner import Learner
from nysketch.learning.sweep import sweep
from tests import naive
from tests.learning.decode.examples import blobs, sketch

K, D = 4, 3
SUMS_ALONE = {"cells": False, "sample_rows": 0, "far_rows": 0}


@pytest.fixture(scope="module")
def rows():
    return blobs(n=4000, k=K, d=D, apart=6.0)[0]


def parameters(covariance, k=K, d=D):
    """Count what is free: centres and weights, which sum to 1 in a mixture."""
    if covariance is None:
        return k * (d + 1)
    return k * d + k - 1 + k * {"spherical": 1, "diag": d, "full": d * (d + 1) // 2}[covariance]


def learned(made, covariance=None, k=K, **options):
    if covariance is None:
        return learn_kmeans(made, k, **options), "mean_squared_distance"
    return learn_gmm(made, k, covariance=covariance, **options), "mean_log_likelihood"


@pytest.mark.parametrize("covariance", [None, "spherical", "diag", "full"])
def test_fewer_sums_than_parameters_are_a_warning_and_no_estimate(rows, covariance, tmp_path):
    count = parameters(covariance)
    made = sketch(rows, landmarks=count - 1, bandwidth="0.3*median", **SUMS_ALONE)
    assert made.rank == count - 1
    with pytest.warns(NysketchWarning, match=rf"{count} parameters, .* only {count - 1} independent") as said:
        model, name = learned(made, covariance, trials=1)
    assert [str(one.message) for one in said] == model.facts["notes"]
    assert f"at least {2 * count} landmarks" in model.facts["notes"][0]
    assert model.facts[name] is None and f"{count} parameters" in model.facts["not_estimated"]
    assert all(candidate["estimate"] is None for candidate in model.facts["candidates"])
    assert covariance is None or model.facts["bic"] is None
    assert model.facts["not_certified"] == "the sketch has no cells"
    nysketch.save_model(model, tmp_path / "model.json")
    assert nysketch.load_model(tmp_path / "model.json").facts == model.facts


@pytest.mark.parametrize("decoder", ["quadrature", "clomp"])
def test_with_enough_sums_the_estimate_is_near_the_truth(rows, decoder):
    made = sketch(rows, landmarks=10 * parameters(None), **SUMS_ALONE)
    model, _ = learned(made, decoder=decoder)
    assert model.facts["not_estimated"] is None and not model.facts["notes"]
    truth = naive.mean_squared_distance(rows, model.centroids, None, model.scale)
    assert model.facts["mean_squared_distance"] == pytest.approx(truth, rel=0.1)


def test_what_is_withheld_is_too_low(rows):
    """The reason for all this: a model of few sums has found what it looked for."""
    made = sketch(rows, landmarks=parameters(None) // 2, **SUMS_ALONE)
    learner = Learner(made)
    learner._why_unknown = lambda *_: None
    model = learner.model(K)
    truth = naive.mean_squared_distance(rows, model.centroids, None, model.scale)
    assert model.facts["mean_squared_distance"] < 0.85 * truth


def test_dependent_sums_do_not_count(rows):
    made = sketch(rows, landmarks=100, bandwidth="100*median", **SUMS_ALONE)
    assert made.rank < parameters(None)
    with pytest.warns(NysketchWarning, match=f"only {made.rank} independent kernel sums"):
        learned(made, trials=1)


def test_with_a_sample_there_is_an_estimate_but_the_model_is_as_doubtful(rows):
    made = sketch(rows, landmarks=parameters(None) - 4, cells=False, sample_rows=1000)
    with pytest.warns(NysketchWarning, match="do not determine the model"):
        model, _ = learned(made, trials=1)
    assert model.facts["judged_by"] == "sample" and model.facts["not_estimated"] is None
    truth = naive.mean_squared_distance(rows, model.centroids, None, model.scale)
    assert model.facts["mean_squared_distance"] == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("covariance", [None, "diag"])
def test_cells_are_never_too_few(rows, covariance):
    made = sketch(rows, landmarks=parameters(covariance) - 2)
    model, name = learned(made, covariance, trials=2)
    assert model.facts["decoder"] == "cells" and not model.facts["notes"]
    assert model.facts[name] is not None and model.facts["not_certified"] is None


def test_a_fit_that_misses_the_sums_is_not_believed():
    random = np.random.default_rng(0)
    tails = blobs(n=8000, k=K, d=D)[0] + 2 * random.standard_t(1.5, (8000, D))
    made = sketch(tails, landmarks=150, **SUMS_ALONE)
    model, name = learned(made)
    assert model.facts["objective"] > 2
    assert model.facts[name] is None and "does not match the kernel sums" in model.facts["not_estimated"]
    assert not model.facts["notes"]  # it is determined, and may be good


def test_of_several_k_one_that_can_be_judged_is_kept(rows):
    made = sketch(rows, landmarks=70, bandwidth="0.5*median", **SUMS_ALONE)
    for covariance, ks in ((None, [2, K, 15]), ("diag", [1, K, 10])):
        found = sweep(made, ks, covariance=covariance, trials=2)
        assert found.best.k == K and found.best.facts["not_estimated"] is None
        # One does not match the sums, the other matches anything.
        assert [model.facts["not_estimated"] is None for model in found.models] == [False, True, False]
        assert found.values[0] is None and found.values[2] is None


def test_if_no_k_can_be_judged_the_best_fit_of_those_that_are_determined_is_kept(rows):
    made = sketch(rows, landmarks=18, **SUMS_ALONE)  # of 4, 12, 16 and 32 parameters
    found = sweep(made, [1, 3, K, 8], trials=1)
    assert found.values == [None] * 4 and found.best.k == K and not found.best.facts["notes"]
    objectives = [model.facts["objective"] for model in found.models]
    assert min(objectives[:3]) == objectives[2]
    with pytest.warns(NysketchWarning, match="3 clusters .* do not determine") as said:
        found = sweep(sketch(rows, landmarks=8, **SUMS_ALONE), [3, K], trials=1)
    assert found.values == [None, None] and found.best.k == 3 and len(said) == 1


# ---- why there is no certificate -----------------------------------------------------------------------


def test_every_missing_certificate_has_its_reason(rows):
    whole = sketch(rows, landmarks=60)
    far = sketch(np.vstack([rows, [[1e300] * D], [[-1e300] * D]]), basis=whole.basis)
    one = sketch(np.vstack([rows, [[1e300] * D]]), basis=whole.basis)
    bare = sketch(rows, basis=whole.basis, cells=False)
    for made, covariance, reason in (
        (whole, None, None),
        (bare, None, "the sketch has no cells"),
        (far, None, "2 rows lie beyond all cells"),
        (one, "diag", "1 row lies beyond all cells"),
        (whole, "full", "cells do not know how columns vary together, and the covariances are full"),
    ):
        assert learned(made, covariance, trials=1, k=2)[0].facts["not_certified"] == reason
    robust, _ = learned(sketch(rows, landmarks=60, blocks=64), trials=1, k=2, robust=5)
    assert "a robust model does not use them" in robust.facts["not_certified"]


def test_refining_gives_other_reasons(rows):
    made = sketch(rows, landmarks=parameters("diag") - 1, **SUMS_ALONE)
    with pytest.warns(NysketchWarning, match="do not determine"):
        model = learn_gmm(made, K, trials=1, refine=1, data=rows, threads=1)
    assert model.facts["mean_log_likelihood"] is not None and model.facts["not_estimated"] is None
    assert model.facts["not_certified"] == "the mixture was refined on data since it was learned"
    assert model.facts["notes"] == []


def test_the_command_says_all_of_it(run_cli, rows, tmp_path):
    nysketch.save(sketch(rows, landmarks=10, **SUMS_ALONE), tmp_path / "few.nysk")
    arguments = ["learn", "kmeans", "few.nysk", "-k", str(K), "--trials", "1", "-o"]
    result = run_cli(*arguments, "a.json", cwd=tmp_path)
    assert result.returncode == 0
    assert "warning: 4 clusters of 3 features have 16 parameters, and the sketch has only 10" in result.stderr
    assert "mean squared distance  none: the sketch has neither cells nor a sample" in result.stdout
    assert "certified bound        none: the sketch has no cells" in result.stdout
    facts = json.loads(run_cli(*arguments, "b.json", "--json", cwd=tmp_path).stdout)
    assert facts["mean_squared_distance"] is None and facts["not_certified"] == "the sketch has no cells"
    assert "10 independent kernel sums are too few for 16 parameters" in facts["not_estimated"]
    assert len(facts["notes"]) == 1
    printed = run_cli("info", "a.json", cwd=tmp_path).stdout
    assert facts["notes"][0] in printed and "the sketch has no cells" in printed
