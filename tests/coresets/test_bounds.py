"""Bounds on the MMD of a coreset against all pairs of rows, and the number of test functions by itself."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nysketch
from nysketch.coresets import bounds
from nysketch.coresets.bounds import choose_size
from nysketch.coresets.coreset import RowDistribution, choose_functions
from nysketch.errors import UsageError
from tests import naive
from tests.coresets.test_coresets import clusters


def exact_mmd(found, rows):
    return naive.mmd(
        found.basis.kernel,
        found.basis.transform(found.points),
        found.weights,
        found.basis.transform(rows),
    )


# ---- the bound -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mercer", "nystrom"])
@pytest.mark.parametrize("of_sketch", [False, True])
def test_residuals_are_those_of_the_definition(method, of_sketch):
    X = clusters(150)
    basis = nysketch.Basis.fit(X, landmarks=20)
    given_rows = nysketch.sketch(X, basis=basis, precision="float64") if of_sketch else X
    found = nysketch.coreset(given_rows, 6, method=method, basis=None if of_sketch else basis)
    kernel, Z = basis.kernel, basis.scaled_landmarks
    points, rows = basis.transform(found.points), basis.transform(X)
    by_functions = [
        [naive.left_by_functions(kernel, Z, found.functions.matrix, x) for x in some]
        for some in (points, rows)
    ]
    expected = found.weights @ by_functions[0], np.mean(by_functions[1])
    # Sampled rows are in float32.
    assert (found.bound.of_coreset, found.bound.of_rows) == pytest.approx(expected, abs=1e-5)
    assert found.bound.of_rows_se == 0
    assert found.bound.value == pytest.approx(sum(expected), abs=1e-5)
    by_landmarks = [[naive.left_by_landmarks(kernel, Z, x) for x in some] for some in (points, rows)]
    beyond = found.weights @ by_landmarks[0] + np.mean(by_landmarks[1])
    features = basis.to_features(basis.evaluate(points)), basis.to_features(basis.evaluate(rows))
    inside = np.linalg.norm(found.weights @ features[0] - features[1].mean(axis=0))
    assert found.distance.bound == pytest.approx(math.hypot(inside, beyond), abs=1e-5)
    assert exact_mmd(found, X) <= found.distance.bound + 1e-6
    facts = found.describe()
    assert facts["theorem_bound"] == found.bound.value and facts["bound"] == found.distance.bound
    assert facts["residual_of_coreset"] == found.bound.of_coreset


@settings(max_examples=40)
@given(
    rows=st.integers(1, 80),
    kinds=st.integers(1, 80),
    d=st.integers(1, 3),
    s=st.integers(1, 12),
    kernel=st.sampled_from(["gaussian", "laplacian-l1", "linear", "cosine"]),
    wild=st.booleans(),
    of_sketch=st.booleans(),
    seed=st.integers(0, 100),
)
def test_the_bounds_hold_for_any_table(rows, kinds, d, s, kernel, wild, of_sketch, seed):
    """Duplicates, constants, heavy tails, one wild value, more functions than rows."""
    random = np.random.default_rng(seed)
    X = random.standard_t(2, size=(kinds, d))[random.integers(kinds, size=rows)]
    if wild:
        X[0] = 1e4
    basis = nysketch.Basis.fit(X, landmarks=6, kernel=kernel, threads=1)
    source = nysketch.sketch(X, basis=basis, precision="float64", threads=1) if of_sketch else X
    found = nysketch.coreset(source, s, basis=None if of_sketch else basis, threads=1)
    scaled = basis.transform(X)
    size = math.sqrt(float(basis.kernel.diagonal(scaled).max()))
    exact = exact_mmd(found, X)
    rounding = 2e-6 * max(size, 1.0)
    assert exact <= found.distance.bound + rounding
    assert exact <= found.bound.value + rounding
    assert found.distance.bound <= found.bound.value + rounding  # functions span no more than landmarks


@pytest.mark.slow
def test_the_bounds_hold_where_only_a_sample_of_the_rows_is_known():
    """Functions and landmarks that leave much of the rows, weights of 2 to 7 rows: where it is narrowest."""
    for seed in range(6):
        X = clusters(5000, d=4, seed=seed)
        basis = nysketch.Basis.fit(X, landmarks=25, bandwidth="0.5*median", seed=seed)
        found = nysketch.coreset(X, 1 + seed, basis=basis)
        exact = exact_mmd(found, X)
        assert exact <= found.distance.bound <= found.bound.value
        everything = basis.transform(X)
        left = bounds._left(basis, found.functions, everything)
        assert abs(found.bound.of_rows - left.mean()) < 4 * found.bound.of_rows_se


def test_weights_may_break_the_inequality_of_the_paper_and_the_bound_knows():
    """(12): the mean residual of the coreset is at most that of the rows. Ours are chosen by the MMD."""
    found = []
    for seed in range(6):
        X = clusters(1500, d=8, seed=seed)
        found.append(nysketch.coreset(X, 10, landmarks=60, seed=seed))
        bound = found[-1].bound
        assert bound.value == pytest.approx(bound.of_coreset + bound.of_rows, abs=1e-6)
        assert exact_mmd(found[-1], X) <= bound.value
    assert {each.bound.keeps_inequality for each in found} == {False, True}


def test_no_bound_without_sampled_rows():
    made = nysketch.sketch(clusters(3000), landmarks=60, sample_rows=0)
    found = nysketch.coreset(made, 10)
    assert found.bound is None and found.distance.bound is None
    facts = found.describe()
    assert facts["bound"] is facts["theorem_bound"] is facts["residual_of_rows"] is None
    assert facts["sampling_error"] > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sampling_error_is_that_of_the_rows(weighted):
    X = clusters(1200)
    w = np.random.default_rng(0).exponential(size=1200) if weighted else np.ones(1200)
    table = pa.table({f"x{i}": column for i, column in enumerate(X.T)} | {"w": w})
    found = nysketch.coreset(table, 10, columns=["x0", "x1", "x2"], weights="w", landmarks=40)
    scaled, shares = found.basis.transform(X), w / w.sum()
    spread = 1 - shares @ found.basis.kernel(scaled, scaled) @ shares
    assert found.distance.sampling_error == pytest.approx(math.sqrt(spread * (shares**2).sum()), rel=1e-4)


# ---- how many test functions -----------------------------------------------------------------------


def test_the_number_is_the_smallest_whose_predicted_mmd_is_below_the_sampling_error():
    X = clusters(900)
    basis = nysketch.Basis.fit(X, landmarks=80)
    scaled = basis.transform(X)
    functions, _ = choose_functions(basis, 79, None, RowDistribution(sampled=scaled))
    chosen = choose_size(basis, functions, 900, sampled=scaled)
    values = functions.of(basis.evaluate(scaled))
    spread = 1 - basis.kernel(scaled, scaled).mean()
    assert chosen.target == pytest.approx(math.sqrt(spread / 900), rel=1e-4)

    def predicted(s):
        return math.sqrt((1 - (values[:, :s] ** 2).sum(axis=1)).mean() / (s + 1))

    s = chosen.functions
    assert 1 < s < 79 and chosen.reached
    assert chosen.predicted_mmd == pytest.approx(predicted(s), rel=1e-6)
    assert predicted(s) <= chosen.target < predicted(s - 1)
    # More rows have a smaller sampling error, and need more.
    more = choose_size(basis, functions, 90_000, sampled=scaled)
    assert more.functions > s and more.target == pytest.approx(chosen.target / 10)


def test_without_sampled_rows_the_strengths_tell():
    made = nysketch.sketch(clusters(5000), landmarks=80, sample_rows=0, sampling="uniform")
    moments = nysketch.sketch(clusters(5000), basis=made.basis, sample_rows=0, second_moments=True)
    plain = nysketch.sketch(clusters(5000), basis=made.basis)
    found = [nysketch.coreset(sketch, "auto") for sketch in (made, moments, plain)]
    assert [each.functions.method for each in found] == ["nystrom", "mercer", "mercer"]
    sizes = [each.chosen.functions for each in found]
    assert max(sizes) <= 1.5 * min(sizes)
    for each in found[1:]:
        assert each.chosen.target == pytest.approx(found[2].distance.sampling_error, rel=0.05)


@pytest.mark.parametrize("of_sketch", [False, True])
def test_auto_is_as_near_as_all_rows_are_to_where_they_come_from(of_sketch):
    X = clusters(8000, d=2)
    made = nysketch.sketch(X, landmarks=150)
    found = nysketch.coreset(made, "auto") if of_sketch else nysketch.coreset(X, "auto", basis=made)
    assert found.chosen.functions == found.wanted == len(found.functions) < 60
    assert len(found) <= found.wanted + 1 and found.notes == ()
    assert found.distance.mmd <= found.chosen.predicted_mmd <= found.chosen.target
    assert found.chosen.target == pytest.approx(found.distance.sampling_error, rel=0.05)
    assert exact_mmd(found, X) <= found.distance.sampling_error
    facts = found.describe()["auto"]
    assert facts["functions"] == found.wanted and facts["reached"] and facts["most"] <= 150


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_prediction_is_above_what_is_measured(d, seed):
    X = clusters(20_000, d=d, seed=seed)
    basis = nysketch.Basis.fit(X, landmarks=400, seed=seed)
    found = nysketch.coreset(X, "auto", basis=basis)
    assert found.distance.mmd + found.distance.standard_error <= found.chosen.predicted_mmd
    assert found.distance.mmd <= found.distance.sampling_error and not found.notes


def test_auto_says_so_where_it_stops(monkeypatch):
    X = clusters(20_000, d=10)
    basis = nysketch.Basis.fit(X, landmarks=100)
    monkeypatch.setattr(bounds, "MOST_FUNCTIONS", 8)
    found = nysketch.coreset(X, "auto", basis=basis)
    assert found.wanted == 8 and not found.chosen.reached
    assert '`functions="auto"` stopped at 8' in found.notes[0] and "a number of `functions`" in found.notes[0]
    monkeypatch.undo()
    few = nysketch.Basis.fit(X, landmarks=12)
    found = nysketch.coreset(X, "auto", basis=few)
    assert found.wanted <= 12 and "more `landmarks`" in found.notes[0]


def test_auto_on_ugly_tables():
    random = np.random.default_rng(0)
    tables = {
        "one row": np.ones((1, 2)),
        "constant": np.ones((500, 2)),
        "two kinds": np.repeat([[0.0, 1.0], [5.0, 2.0]], 300, axis=0),
        "heavy tails": random.standard_cauchy(size=(3000, 3)),
        "one wild value": np.concatenate([clusters(2000), [[1e9, 0, 0]]]),
        "sorted": np.sort(clusters(3000), axis=0),
    }
    for name, X in tables.items():
        found = nysketch.coreset(X, "auto", landmarks=min(50, len(X)))
        assert (found.weights > 0).all() and abs(found.weights.sum() - 1) < 1e-12, name
        assert exact_mmd(found, X) <= found.distance.bound + 1e-6, name
        assert found.chosen.functions >= 1, name


def test_a_number_or_auto():
    X = clusters(100)
    for wrong in ("many", "", "12"):
        with pytest.raises(UsageError, match="a number or 'auto'"):
            nysketch.coreset(X, wrong, landmarks=10)
    stream = pa.RecordBatchReader.from_batches(
        pa.schema([(f"x{i}", pa.float64()) for i in range(3)]), iter([])
    )
    basis = nysketch.Basis.fit(pa.table({f"x{i}": c for i, c in enumerate(X.T)}), landmarks=10)
    with pytest.raises(UsageError, match="a stream does not tell"):
        nysketch.coreset(stream, "auto", basis=basis)


def test_a_known_measure_tells_the_functions_and_rows_their_number():
    X = clusters(3000)
    basis = nysketch.Basis.fit(X, landmarks=60)
    values = basis.values(X)
    found = nysketch.coreset(X, "auto", basis=basis, measure=values.T @ values / 3000)
    assert found.learned_from == "second moments of a known distribution" and found.chosen.reached
    bare = nysketch.sketch(X, basis=basis, sample_rows=0)
    assert nysketch.coreset(X, "auto", basis=bare).chosen.reached


def test_on_the_command_line(tmp_path, run_cli):
    X = clusters(4000, d=2)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="x,y", comments="")
    args = ["coreset", tmp_path / "x.csv", "-m", 80, "-s", "auto"]
    printed = run_cli(*args, "-o", tmp_path / "c.csv")
    assert printed.returncode == 0, printed.stderr
    assert "by the theorem)" in printed.stdout and "of 4,000 rows" in printed.stdout
    assert "for a predicted MMD of" in printed.stdout
    facts = json.loads(run_cli(*args, "-o", tmp_path / "d.csv", "--json").stdout)
    assert facts["auto"]["functions"] == facts["functions"] == facts["rows"] - 1
    assert facts["mmd"] <= facts["auto"]["predicted_mmd"] <= facts["auto"]["target"]
    assert facts["mmd"] < facts["bound"] < facts["theorem_bound"]
    refused = run_cli("coreset", tmp_path / "x.csv", "-s", "some", "-o", tmp_path / "e.csv")
    assert refused.returncode == 2 and "neither a number of test functions nor 'auto'" in refused.stderr
