"""Quality: every figure against its definition on all pairs, and the standard error against the truth."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import pdist
from threadpoolctl import threadpool_limits

import nysketch
from nysketch.basis import quality
from nysketch.basis.base import Basis
from nysketch.basis.nystrom import RANK_CUTOFF
from nysketch.basis.quality import FourierQuality, Quality, measure
from nysketch.errors import IncompatibleError, InputError, UsageError
from nysketch.sketches.coverage import GROWN, UNCOVERED_SHARE, coverage


def mixture(rows, d, seed, *, spread=3.0, clusters=4):
    random = np.random.default_rng([3, seed])
    centres = spread * random.standard_normal((clusters, d))
    return centres[random.integers(clusters, size=rows)] + random.standard_normal((rows, d))


def words(rows, seed=0):
    random = np.random.default_rng(seed)
    made = np.empty(rows, object)
    made[:] = ["".join(random.choice(list("abcd"), random.integers(1, 9))) for _ in range(rows)]
    return made


KERNELS = {
    "gaussian": {},
    "two bandwidths": {"bandwidth": "0.3*median,median"},
    "laplacian-l1": {"kernel": "laplacian-l1"},
    "matern32": {"kernel": "matern32"},
    "polynomial": {"kernel": "polynomial"},
    "linear": {"kernel": "linear"},
    "cosine": {"kernel": "cosine"},
    "groups": {"groups": {"a": ["x0"], "b": ["x1", "x2"]}, "kernel": {"a": "matern52", "b": "gaussian"}},
    "spectrum": {"kernel": "spectrum", "length": 2},
}


def fitted(name, rows=300, m=25, seed=0):
    """A basis, and all scaled rows of the table it was made from."""
    options = KERNELS[name]
    if name == "spectrum":
        data = words(rows, seed)
        basis = Basis.fit(pa.table({"t": data.tolist()}), landmarks=m, **options)
        return basis, data
    data = mixture(rows, 3, seed)
    table = pa.table({f"x{i}": column for i, column in enumerate(data.T)})
    basis = Basis.fit(table, landmarks=m, **options)
    return basis, basis.transform(data)


def naive_h(basis, X):
    """K and k(x,y) − k(x,Z) K⁺ k(Z,y) for all pairs, with the cut-off of the eigenvalues."""
    Z = basis.scaled_landmarks
    K, C = basis.kernel(X, X), basis.kernel(X, Z)
    gram = basis.kernel(Z, Z)
    lengths = np.sqrt(np.diag(gram))
    inverse = np.where(lengths > 0, 1 / np.where(lengths > 0, lengths, 1), 0)
    values, vectors = eigh(gram * inverse[:, None] * inverse)
    good = values > RANK_CUTOFF * values[-1]
    C = (C * inverse) @ vectors[:, good]
    return K, K - (C / values[good]) @ C.T


# ---- the whole table -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_where_the_sample_is_the_table_the_error_is_exact(name):
    basis, X = fitted(name)
    found = measure(basis, X, None, of_rows=len(X))
    K, h = naive_h(basis, X)
    n = len(X)
    scale = max(1.0, np.sqrt(np.diag(K).mean()))
    assert found.projection_error == pytest.approx(np.sqrt(max(h.mean(), 0)), abs=1e-6 * scale)
    assert found.projection_error_se == 0
    residuals = np.sqrt(np.maximum(np.diag(h), 0))
    # The root of a rounding error of 1e-14 is 1e-7.
    assert found.mean_residual == pytest.approx(residuals.mean(), abs=1e-6 * scale)
    assert found.mean_residual_se == 0
    expected = np.quantile(residuals, [0.5, 0.95, 0.99, 1.0], method="inverted_cdf")
    assert list(found.residual_quantiles) == ["median", "95%", "99%", "max"]
    assert list(found.residual_quantiles.values()) == pytest.approx(expected.tolist(), abs=2e-6 * scale)
    off = (K.sum() - np.trace(K)) / (n * (n - 1))
    assert found.mean_kernel == pytest.approx(off, rel=1e-9, abs=1e-12)
    assert found.mean_norm == pytest.approx(np.sqrt(np.diag(K)).mean())
    sampling = np.sqrt((np.diag(K).mean() - off) / n)
    assert found.sampling_error == pytest.approx(sampling, rel=1e-9)
    ridge = np.trace(K) / n / n * np.eye(n)  # λ = k(x,x)/n of C = K/n
    dimension = np.trace(np.linalg.solve(K / n + ridge, K / n))
    assert found.effective_dimension == pytest.approx(dimension, rel=1e-6)
    assert (found.rows, found.of_rows, found.landmarks, found.rank) == (n, n, basis.m, basis.rank)


def test_two_thousand_rows_are_measured_in_steps_that_do_not_show():
    basis, X = fitted("gaussian", rows=1999, m=60)
    found = measure(basis, X, None, of_rows=1999, effective_dimension=False)
    _, h = naive_h(basis, X)
    assert found.projection_error == pytest.approx(np.sqrt(h.mean()), abs=1e-6)
    assert (found.projection_error_se, found.effective_dimension) == (0, None)


def test_the_sample_of_a_small_sketch_is_the_table():
    data = mixture(700, 4, 1)
    made = nysketch.sketch(data, landmarks=30, sample_rows=2000)
    found = made.quality()
    _, h = naive_h(made.basis, made.basis.transform(data))
    assert (found.rows, found.of_rows) == (700, 700)
    assert found.projection_error == pytest.approx(np.sqrt(h.mean()), abs=1e-6)  # rows are in float32
    assert found.projection_error_se == 0


def test_the_projection_error_is_the_distance_to_what_the_sketch_says():
    """|μ̂ − Σ α_j φ(z_j)|, with α from the sums of the sketch."""
    data = mixture(700, 3, 2)
    made = nysketch.sketch(data, landmarks=30, precision="float64")
    X, Z, alpha = made.basis.transform(data), made.basis.scaled_landmarks, made.embedding_weights()
    kernel = made.basis.kernel
    squared = kernel(X, X).mean() - 2 * kernel(X, Z).mean(axis=0) @ alpha + alpha @ kernel(Z, Z) @ alpha
    assert made.quality().projection_error == pytest.approx(np.sqrt(squared), abs=1e-6)


# ---- weights ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted():
    basis, X = fitted("gaussian", rows=400, m=20)
    return basis, X, np.random.default_rng(5).integers(1, 6, 400).astype(float)


def test_weights_are_like_repeated_rows(weighted):
    basis, X, w = weighted
    found = measure(basis, X, w, of_rows=len(X))
    repeated = measure(basis, np.repeat(X, w.astype(int), axis=0), None, of_rows=int(w.sum()))
    assert found.mean_residual == pytest.approx(repeated.mean_residual, rel=1e-9)
    assert found.residual_quantiles == pytest.approx(repeated.residual_quantiles, abs=1e-6)
    assert found.mean_norm == pytest.approx(repeated.mean_norm)
    # Repeated rows are pairs of different rows, too: 1/n of all.
    assert found.mean_kernel == pytest.approx(repeated.mean_kernel, abs=2 / len(X))
    assert found.projection_error == pytest.approx(repeated.projection_error, rel=0.05)


def test_weights_against_naive_formulas(weighted):
    basis, X, w = weighted
    found = measure(basis, X, w, of_rows=len(X))
    K, h = naive_h(basis, X)
    residuals = np.sqrt(np.maximum(np.diag(h), 0))
    pairs = np.outer(w, w) * (1 - np.eye(len(w)))
    mean_kernel = (pairs * K).sum() / pairs.sum()
    assert found.mean_kernel == pytest.approx(mean_kernel)
    assert found.mean_residual == pytest.approx((w * residuals).sum() / w.sum())
    others = (pairs * K).sum(axis=1) / pairs.sum(axis=1)
    spreads = 1 - 2 * others + mean_kernel  # |φ(x) − μ|², from pairs of different rows
    assert found.sampling_error == pytest.approx(np.sqrt((w**2 * spreads).sum()) / w.sum())
    order = np.argsort(residuals)
    median = residuals[order][np.searchsorted(np.cumsum(w[order]), w.sum() / 2)]
    assert found.residual_quantiles["median"] == pytest.approx(median)
    C = K * np.sqrt(np.outer(w, w)) / w.sum()
    dimension = np.trace(np.linalg.solve(C + np.trace(C) / len(X) * np.eye(len(X)), C))
    assert found.effective_dimension == pytest.approx(dimension, rel=1e-6)


@pytest.mark.parametrize("weights", ["some", "large where residuals are"])
def test_the_weighted_error_of_the_whole_table_is_exact(weighted, weights):
    basis, X, w = weighted
    _, h = naive_h(basis, X)
    if weights != "some":
        w = np.exp(5 * np.diag(h) / np.diag(h).max())
    found = measure(basis, X, w, of_rows=len(X))
    assert found.projection_error == pytest.approx(np.sqrt(w @ h @ w) / w.sum(), abs=1e-6)


def test_equal_weights_are_none(weighted):
    basis, X, _ = weighted
    assert measure(basis, X, np.full(len(X), 7.5), of_rows=900) == measure(basis, X, None, of_rows=900)


def test_rows_of_weight_zero_might_as_well_be_missing(weighted):
    basis, X, w = weighted
    w = np.where(np.arange(len(w)) % 2, w, 0.0)
    found = measure(basis, X, w, of_rows=400)
    without = measure(basis, X[1::2], w[1::2], of_rows=200)
    assert found.sampling_error == pytest.approx(without.sampling_error)
    assert found.projection_error == pytest.approx(without.projection_error)
    assert found.projection_error_se == 0


def test_a_weighted_sketch_is_measured_with_its_weights():
    data = mixture(500, 3, 4)
    w = np.random.default_rng(0).uniform(0.5, 2, 500)
    table = pa.table({"a": data[:, 0], "b": data[:, 1], "c": data[:, 2], "w": w})
    made = nysketch.sketch(table, landmarks=20, weights="w")
    expected = measure(made.basis, made.basis.transform(data), w, of_rows=500)
    assert made.quality().mean_residual == pytest.approx(expected.mean_residual, rel=1e-4)
    assert made.quality().projection_error == pytest.approx(expected.projection_error, rel=1e-3)


# ---- the promise: the standard error is one --------------------------------------------------------


def deviations(seeds, landmarks=(50, 200), rows=5000):
    """True error, estimate and standard error, for each number of landmarks: seeds × 3."""
    found = {m: np.empty((len(seeds), 3)) for m in landmarks}
    for i, seed in enumerate(seeds):
        data = mixture(rows, 3 + seed % 3, seed)
        # One pilot for both: scaling and bandwidth are the same, and so is the mean over all pairs.
        bases = [Basis.fit(data, landmarks=m, seed=seed, pilot_rows=2000, threads=1) for m in landmarks]
        assert len({(str(b.kernel), *b.center, *b.scale) for b in bases}) == 1
        X, width = bases[0].transform(data), bases[0].kernel.bandwidth
        distances = pdist(X, "sqeuclidean")
        distances *= -0.5 / width**2
        everything = (2 * np.exp(distances, out=distances).sum() + rows) / rows**2
        for basis in bases:
            made = nysketch.sketch(data, basis=basis, threads=1, blocks=4)
            features = basis.to_features(basis.evaluate(X).mean(axis=0))
            measured = made.quality(effective_dimension=False)
            assert (measured.rows, measured.of_rows) == (2000, rows)
            true = np.sqrt(everything - features @ features)
            found[basis.m][i] = true, measured.projection_error, measured.projection_error_se
    return found


def check_promise(found):
    for m, (true, estimate, se) in ((m, values.T) for m, values in found.items()):
        share = (np.abs(estimate - true) <= 2 * se).mean()
        assert share >= 0.9, (m, share)
        # Nor does it promise nothing: these errors are well resolved.
        assert np.median(se / true) < 0.5
        assert np.median(np.abs(estimate - true)) > 0.2 * np.median(se)


@pytest.mark.slow
def test_estimates_are_within_two_standard_errors_of_the_truth():
    with threadpool_limits(1):
        check_promise(deviations(range(30)))


@pytest.mark.slow
def test_estimates_are_within_two_standard_errors_of_the_truth_a_hundred_times():
    with threadpool_limits(1):
        check_promise(deviations(range(100)))


def test_the_standard_error_of_the_mean_residual_is_one():
    data = mixture(20_000, 3, 0)
    basis = Basis.fit(data, landmarks=40)
    X = basis.transform(data)
    true = measure(basis, X[:4000], None, of_rows=4000, effective_dimension=False).mean_residual
    random = np.random.default_rng(0)
    scores = []
    for _ in range(60):
        some = random.choice(4000, 500, replace=False)
        found = measure(basis, X[some], None, of_rows=4000, effective_dimension=False)
        scores.append((found.mean_residual - true) / found.mean_residual_se)
    assert 0.7 < np.std(scores) < 1.3
    assert np.mean(np.abs(scores) <= 2) >= 0.9


# ---- verdicts and advice ---------------------------------------------------------------------------


def test_enough_too_few_or_cannot_tell():
    data = mixture(4000, 3, 6)
    basis = Basis.fit(data, landmarks=30, pilot_rows=2000)
    X = basis.transform(data[2000:])

    def verdict(of_rows):
        return measure(basis, X, None, of_rows=of_rows, effective_dimension=False)

    huge = verdict(10**8)
    assert huge.enough is False
    assert huge.advice()[0].startswith("Too few landmarks: the projection error ")
    few = verdict(2000)
    assert few.enough is True
    assert few.advice()[0].startswith("Enough landmarks: ")
    assert "of 2,000 rows." in few.advice()[0]
    # So many rows that the one error is as large as the other.
    equal = verdict(int((1 - huge.mean_kernel) / huge.projection_error**2))
    assert equal.sampling_error == pytest.approx(equal.projection_error, rel=0.05)
    assert equal.enough is None
    assert equal.advice()[0].startswith("Borderline number of landmarks: ")
    assert equal.landmarks_needed is None
    assert few.sampling_error / huge.sampling_error == pytest.approx((10**8 / 2000) ** 0.5)


def test_all_landmarks_leave_nothing():
    data = mixture(200, 3, 7)
    basis = Basis.fit(data, landmarks=200, sampling="uniform", bandwidth=0.3)
    found = measure(basis, basis.transform(data), None, of_rows=200)
    assert found.projection_error < 1e-6
    assert found.mean_residual < 1e-5
    assert found.enough is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "d", "of_rows", "start"),
    [("matern32", 3, 20_000, 50), ("matern32", 5, 20_000, 100), ("gaussian", 5, 10**6, 50)],
)
def test_the_number_of_landmarks_that_would_be_enough(kernel, d, of_rows, start):
    data = mixture(20_000, d, 1, clusters=5)

    def found(m):
        basis = Basis.fit(data, landmarks=m, kernel=kernel, pilot_rows=8000)
        X = basis.transform(data[::10])
        return measure(basis, X, None, of_rows=of_rows, effective_dimension=False)

    first = found(start)
    assert first.enough is False
    assert f"(`landmarks={first.landmarks_needed}`)" in first.advice()[0]
    m = start
    while (now := found(m)).projection_error > now.sampling_error:
        m = int(m * 1.25)
    assert m / 3 <= first.landmarks_needed <= 3 * m


def test_a_number_is_not_said_where_none_is_known():
    data = mixture(5000, 8, 8)
    basis = Basis.fit(data, landmarks=20, kernel="laplacian-l2", bandwidth="0.2*median")
    found = measure(basis, basis.transform(data[:2000]), None, of_rows=10**9)
    assert (found.enough, found.landmarks_needed) == (False, None)
    assert "decreases too slowly with m to extrapolate" in found.advice()[0]


def test_half_of_the_landmarks_may_be_worth_nothing():
    random = np.random.default_rng(0)
    data = np.zeros((5000, 5))
    data[random.choice(5000, 300, replace=False)] = 1 + 0.3 * random.standard_normal((300, 5))
    basis = Basis.fit(data, landmarks=16, kernel="cosine", scale="none", sampling="uniform")
    landmarks = np.concatenate([np.zeros((14, 5)), data[data.any(axis=1)][:2]])
    basis = dataclasses.replace(basis, landmarks=landmarks, origin={})
    found = measure(basis, data[:2000], None, of_rows=10**9, effective_dimension=False)
    assert found.enough is False
    assert found.landmarks_needed is None or found.landmarks_needed > 16


def advice(data, **options):
    basis = Basis.fit(data, **options)
    return measure(basis, basis.transform(data), None, of_rows=10**5).advice()


def test_advice_about_the_bandwidth():
    data = mixture(600, 3, 9)
    assert any(
        "hardly distinguishes rows" in s and "smaller `bandwidth`" in s
        for s in advice(data, bandwidth=50, landmarks=20)
    )
    assert any(
        "unlike all landmarks" in s and "larger `bandwidth`" in s
        for s in advice(data, bandwidth=0.02, landmarks=20)
    )
    low = advice(data, bandwidth=4, landmarks=300)
    assert any("landmarks span only" in s and "fewer would do" in s for s in low)
    assert len(advice(data, landmarks=50)) == 1
    assert not any("bandwidth" in s for s in advice(data, landmarks=50))


def test_a_kernel_of_low_rank_is_told_its_rank():
    data = mixture(600, 3, 9)
    assert any("span only 3 dimensions" in s for s in advice(data, kernel="linear", landmarks=20))


def test_too_few_landmarks_are_not_too_many():
    random = np.random.default_rng(0)
    rows = mixture(20_000, 6, 13)
    rows = rows[np.where(random.uniform(size=20_000) < 0.7, 0, np.arange(20_000))]
    basis = Basis.fit(rows, landmarks=130, sampling="uniform", kernel="laplacian-l2")
    found = measure(basis, basis.transform(rows[:2000]), None, of_rows=10**7, effective_dimension=False)
    assert (found.enough, found.rank < found.landmarks / 2) == (False, True)
    assert not any("fewer would do" in sentence for sentence in found.advice())


def test_sentences_are_sentences_and_values_are_json():
    import json

    for name in KERNELS:
        basis, X = fitted(name)
        described = measure(basis, X, None, of_rows=10**6).describe()
        json.dumps(described, allow_nan=False)
        assert all(s[0].isupper() and s.endswith((".", ")")) for s in described["advice"])


@pytest.mark.parametrize("rows", [0, 1, 19])
def test_too_few_rows_say_nothing(rows):
    basis, X = fitted("gaussian")
    assert measure(basis, X[:rows], None, of_rows=300) is None
    weights = np.zeros(300)
    weights[:rows] = 1
    assert measure(basis, X, weights, of_rows=300) is None


def test_twenty_rows_say_something():
    basis, X = fitted("gaussian")
    found = measure(basis, X[:20], None, of_rows=300)
    assert isinstance(found, Quality) and found.rows == 20
    assert np.isfinite([found.projection_error, found.projection_error_se, found.sampling_error]).all()


@pytest.mark.parametrize("kernel", ["gaussian", "linear", "cosine", "polynomial"])
def test_constant_tables_have_no_error(kernel):
    data = np.full((100, 2), 3.0)
    basis = Basis.fit(data, landmarks=5, kernel=kernel)
    found = measure(basis, basis.transform(data), None, of_rows=10**6)
    assert found.projection_error < 1e-6
    assert found.enough is not False


# ---- Fourier features ------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", ["gaussian", "adapted-radius"])
def test_fourier_features_are_measured_by_their_kernel(draw):
    data = mixture(300, 3, 10)
    basis = Basis.fit(data, landmarks=100, features="fourier", frequencies=draw)
    X = basis.transform(data)
    found = measure(basis, X, None, of_rows=300)
    assert isinstance(found, FourierQuality)
    features = basis.to_features(basis.evaluate(X))
    errors = (basis.kernel(X, X) - features @ features.T)[~np.eye(300, dtype=bool)]
    assert found.kernel_error == pytest.approx(np.sqrt((errors**2).mean()))
    assert ("off by" if draw == "gaussian" else "a different kernel") in found.advice()[0]


@pytest.mark.parametrize("draw", ["gaussian", "adapted-radius"])
def test_what_is_said_of_four_times_as_many_features_is_true(draw):
    data = mixture(1000, 3, 10)
    errors = []
    for m in (500, 2000):
        basis = Basis.fit(data, landmarks=m, features="fourier", frequencies=draw)
        measured = measure(basis, basis.transform(data), None, of_rows=1000)
        errors.append(measured.kernel_error)
    if any("four times as many features halve" in sentence for sentence in measured.advice()):
        assert 0.3 < errors[1] / errors[0] < 0.7


# ---- coverage --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def january():
    data = mixture(6000, 3, 11)
    return nysketch.sketch(data, landmarks=100, blocks=4)


def february(shift=0.0, seed=12, **options):
    """The same distribution as in January, shifted; with a basis of its own unless one is given."""
    random = np.random.default_rng([3, 11])
    centres = 3 * random.standard_normal((4, 3))
    random = np.random.default_rng(seed)
    data = centres[random.integers(4, size=5000)] + random.standard_normal((5000, 3)) + shift
    blocks = {"blocks": 4} | ({} if "basis" in options else {"landmarks": 30})
    return nysketch.sketch(data, **(blocks | options))


def test_rows_of_the_same_distribution_are_covered(january):
    for new in (february(basis=january), february(), february(scale="none"), february(scale="robust")):
        found = coverage(new, january)
        assert found.covered
        assert found.beyond_share < 0.03
        assert (found.rows_then, found.rows_now) == (1200, 2000)  # of the pilot, a fifth is held out
        assert found.residual_now == pytest.approx(found.residual_then, rel=0.1)
        assert "still cover" in found.advice()


def test_the_scaling_of_the_new_sketch_does_not_matter(january):
    found = [coverage(february(scale=scaling), january) for scaling in ("none", "standard", "robust")]
    for other in found[1:]:
        assert other.residual_now == pytest.approx(found[0].residual_now, rel=1e-5)
        assert other.beyond_share == pytest.approx(found[0].beyond_share, abs=0.001)


def test_shifted_rows_are_not_covered(january):
    # by 5 deviations
    shift = 5 * january.basis.scale
    for new in (february(shift), february(shift, basis=january), february(shift, scale="none")):
        found = coverage(new, january)
        assert not found.covered
        assert found.residual_now > 2 * found.residual_then
        assert found.beyond_share > 0.5
        assert "no longer cover" in found.advice() and "Make a new basis" in found.advice()


def test_a_new_cluster_of_a_tenth_of_the_rows_is_noticed(january):
    shift = np.zeros((5000, 3))
    shift[:500] = 8 * january.basis.scale
    found = coverage(february(shift), january)
    assert not found.covered
    assert found.beyond_share == pytest.approx(0.1, abs=0.03)


def test_a_covered_subset_is_covered(january):
    """One cluster of four gone: what is left is expressed as well as before."""
    scaled = january.tally.sample.scaled(january.basis.middle)
    data = scaled * january.basis.scale + january.basis.center
    left = data[data[:, 0] > np.quantile(data[:, 0], 0.25)]
    assert coverage(nysketch.sketch(left, landmarks=20), january).covered


def test_a_basis_remembers_the_residuals_of_the_rows_it_held_out(january, tmp_path):
    nysketch.save(january.basis, tmp_path / "basis.nysk")
    basis = nysketch.load(tmp_path / "basis.nysk")
    same, other = coverage(february(), basis), coverage(february(5 * basis.scale), basis)
    assert same.covered and not other.covered
    assert same.rows_then == basis.origin["held_out"]["rows"]


def test_against_what_has_no_residuals(january):
    bare = dataclasses.replace(january.basis, origin={})
    with pytest.raises(InputError, match="its own residuals are unknown"):
        coverage(january, bare)
    without = february(basis=bare, sample_rows=0)
    with pytest.raises(InputError, match="its own residuals are unknown"):
        coverage(january, without)
    with pytest.raises(InputError, match="sample of 0 rows with weight, too few"):
        coverage(without, january)


def test_a_sketch_without_a_sample_falls_back_on_its_basis(january):
    old = february(basis=january.basis, sample_rows=0)
    assert coverage(january, old).rows_then == january.basis.origin["held_out"]["rows"]


def test_other_columns_cannot_be_compared(january):
    random = np.random.default_rng(0)
    other = nysketch.sketch(random.standard_normal((100, 2)), landmarks=10)
    with pytest.raises(IncompatibleError, match="different columns"):
        coverage(other, january)
    named = nysketch.sketch(pa.table({name: random.standard_normal(100) for name in "abc"}), landmarks=10)
    with pytest.raises(IncompatibleError, match="different columns: a, b, c"):
        coverage(named, january)


def test_fourier_features_cover_nothing_but_can_be_covered(january):
    fourier = february(features="fourier", landmarks=40, sample_rows=2000)
    with pytest.raises(UsageError, match="needs landmarks"):
        coverage(january, fourier)
    assert coverage(fourier, january).covered


def test_coverage_of_text(tmp_path):
    then = pa.table({"t": words(3000).tolist()})
    now = pa.table({"t": words(1000, seed=1).tolist()})
    other = pa.table({"t": [text.upper() for text in words(1000, seed=1)]})
    old = nysketch.sketch(then, landmarks=60, kernel="spectrum", length=2)
    assert coverage(nysketch.sketch(now, landmarks=10, kernel="subsequence"), old).covered
    assert not coverage(nysketch.sketch(other, landmarks=10, kernel="spectrum"), old).covered


def test_coverage_counts_weights(january):
    """Half of the rows are far away, but of hardly any weight."""
    random = np.random.default_rng([3, 11])
    centres = 3 * random.standard_normal((4, 3))
    data = centres[random.integers(4, size=5000)] + random.standard_normal((5000, 3))
    data[::2] += 8 * january.basis.scale
    names = [column.name for column in january.basis.columns]
    table = dict(zip(names, data.T, strict=True))
    for light, covered in ((1e-6, True), (1.0, False)):
        w = np.where(np.arange(5000) % 2, 1.0, light)
        made = nysketch.sketch(pa.table(table | {"w": w}), weights="w", landmarks=20)
        assert coverage(made, january).covered == covered


def test_rows_without_any_weight_are_no_rows(january):
    names = [column.name for column in january.basis.columns]
    table = {name: np.random.default_rng(0).standard_normal(300) for name in names}
    made = nysketch.sketch(pa.table(table | {"w": np.zeros(300)}), weights="w", landmarks=20)
    with pytest.raises(InputError):
        coverage(made, january)


def test_quality_has_the_module_constants_it_is_documented_with():
    assert (quality.FEWEST_ROWS, UNCOVERED_SHARE, GROWN) == (20, 0.05, 1.25)


def test_weights_that_depend_on_the_rows_count_in_the_sampling_error():
    """300 rows in a tight cluster carry nearly all of the weight: they are all that varies."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((6000, 3))
    rows[:300] = 3 + 0.01 * random.standard_normal((300, 3))
    weights = np.where(np.arange(6000) < 300, 200.0, 1.0)
    basis = Basis.fit(rows, landmarks=60, scale="none")
    found = measure(basis, rows[::3], weights[::3], of_rows=6000, effective_dimension=False)
    draws = []
    for _ in range(300):  # the truth: draw the table anew, and look how far its embedding moves
        drawn = random.integers(6000, size=6000)
        draws.append(np.bincount(drawn, weights[drawn], minlength=6000) / weights[drawn].sum())
    moved = np.array(draws) - weights / weights.sum()
    features = basis.to_features(basis.evaluate(rows))
    truth = np.sqrt(((moved @ features) ** 2).sum(axis=1).mean())
    assert found.sampling_error == pytest.approx(truth, rel=0.1)


def test_a_sample_without_the_heavy_rows_says_nothing():
    random = np.random.default_rng(0)
    weights = np.ones(20_000)
    weights[random.integers(20_000)] = 1e9
    table = pa.table({"x": random.standard_normal(20_000), "w": weights})
    made = nysketch.sketch(table, weights="w", landmarks=20, sample_rows=100)
    assert made.tally.sample.weights.max() == 1
    assert made.quality() is None


def test_columns_far_from_zero_are_measured_as_well_as_others():
    random = np.random.default_rng(0)
    rows = random.standard_normal((5000, 3))
    near, far = (
        nysketch.sketch(rows + shift, landmarks=100, scale="none", bandwidth=2.0).quality()
        for shift in (0.0, 1e9)
    )
    assert far.mean_residual == pytest.approx(near.mean_residual, rel=0.3)  # rounded, others are drawn
    assert far.sampling_error == pytest.approx(near.sampling_error, rel=0.05)
    assert far.enough == near.enough


def test_a_large_sample_is_measured_in_part():
    rows = np.random.default_rng(0).standard_normal((9000, 2))
    made = nysketch.sketch(rows, landmarks=20, sample_rows=9000)
    assert len(made.tally.sample) == 9000
    assert made.quality().rows == quality.MEASURED_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("sample_rows", [None, 60])
def test_no_false_alarms_on_tables_as_small_as_their_pilot(sample_rows):
    alarms = 0
    for seed in range(10):
        random = np.random.default_rng(seed)
        old, new = (random.standard_normal((3000, 5)) for _ in range(2))
        made = nysketch.sketch(old, landmarks=300, sample_rows=sample_rows)
        alarms += not coverage(nysketch.sketch(new, basis=made, sample_rows=sample_rows), made).covered
    assert alarms == 0


# ---- clumps that the kernel does not see --------------------------------------------------------------


def clumps(rows=1500, narrow=0.2, seed=0):
    """Three clusters, one of which is narrow."""
    random = np.random.default_rng(seed)
    which = random.integers(3, size=rows)
    spread = np.array([narrow, 5.0, 20.0])[which, None]
    return np.array([[0, 0], [100, 0], [0, 100]])[which] + spread * random.standard_normal((rows, 2))


def reassuring(sentences):
    return [s for s in sentences if "Enough landmarks" in s or "fewer would do" in s]


@pytest.mark.parametrize("options", [{}, {"kernel": "matern52"}, {"features": "fourier"}])
def test_nobody_is_reassured_where_rows_lie_in_clumps_below_the_bandwidth(options):
    found = advice(clumps(), bandwidth="median", landmarks=100, **options)
    assert not reassuring(found)
    remedy = "a smaller `bandwidth`" if options else '`bandwidth="auto"`'
    assert "of the bandwidth: structure that fine is not seen" in found[0]
    assert found[0].endswith(f"Try {remedy}.")
    assert not any("not seen" in s for s in advice(clumps(), landmarks=100))  # auto does see it


def test_clumps_in_one_group_are_those_of_the_group():
    rows = np.column_stack([clumps(), np.random.default_rng(1).standard_normal(1500)])
    table = pa.table(dict(zip("abc", rows.T, strict=True)))
    basis = Basis.fit(table, landmarks=50, groups={"place": ["a", "b"], "other": ["c"]})
    found = measure(basis, basis.transform(rows), None, of_rows=10**5)
    assert found.clumps.group == "place"
    assert "of the bandwidth of group 'place'" in found.advice()[0]
    assert not reassuring(found.advice())


@pytest.mark.parametrize(
    "rows",
    [
        np.repeat(mixture(5, 2, 0), 300, axis=0),
        np.repeat(mixture(500, 2, 0), 3, axis=0),
        np.random.default_rng(0).poisson(1.0, (1500, 2)).astype(float),
        np.random.default_rng(0).choice([0.0, 1.0, 1000.0, 1001.0], (1500, 1)),
    ],
    ids=["copies", "every row three times", "counts", "few values"],
)
def test_equal_rows_are_no_clumps(rows):
    basis = Basis.fit(rows, landmarks=4)
    rows = np.random.default_rng(0).permutation(rows)
    found = measure(basis, basis.transform(rows), None, of_rows=len(rows))
    assert found.clumps is None
    assert not any("not seen" in s for s in found.advice())


def test_clumps_are_stored_with_a_basis_and_checked(tmp_path):
    basis = Basis.fit(clumps(3000), landmarks=50, bandwidth="median")
    nysketch.save(basis, tmp_path / "b.nysk")
    back = nysketch.load(tmp_path / "b.nysk")
    assert back.origin["clumps"]["auto"] is True
    assert not reassuring(nysketch.info(back)["quality"]["advice"])
    assert nysketch.info(back)["quality"]["clumps"] == back.origin["clumps"]
    measured = quality.from_origin(back.origin)
    assert not reassuring(dataclasses.replace(measured, enough=True).advice_for(10**12))
    for broken in ({"share": -1.0}, {"auto": 1}, {"group": 3}, {"radius": "wide"}, {"more": 1}):
        forged = basis.origin | {"clumps": basis.origin["clumps"] | broken}
        with pytest.raises(ValueError, match="clumps are impossible"):
            quality.from_origin(forged)


def test_a_split_of_a_narrow_clump_is_seen():
    before, same, split = clumps(6000), clumps(6000, seed=1), clumps(6000, seed=2)
    narrow = np.linalg.norm(split, axis=1) < 2
    split[narrow, 0] += np.where(np.arange(narrow.sum()) % 2, 0.6, -0.6)
    basis = Basis.fit(before, landmarks=150)
    sketches = [nysketch.sketch(rows, basis=basis, cells=False) for rows in (before, same, split)]
    p = [
        nysketch.compare(sketches[0], other, explain=False, permutations=199).p_value
        for other in sketches[1:]
    ]
    assert p[0] > 0.05 >= 5 * p[1]


@pytest.mark.slow
def test_the_command_line_says_it_in_its_own_words(tmp_path, run_cli):
    rows = clumps(3000)
    rows[0, 0] = 1e7
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + "\n".join(f"{x!r},{y!r}" for x, y in rows.tolist()))
    found = run_cli("sketch", path, "-o", tmp_path / "a.nysk", "-m", "100", "--bandwidth", "median")
    assert found.returncode == 0
    assert "column 'x': 1 of 3,000 pilot rows holds nearly all of its variance" in found.stderr
    assert "--scale robust" in found.stderr
    assert "Try --bandwidth auto" in found.stdout + found.stderr
    assert not reassuring([found.stdout + found.stderr])
    again = run_cli("sketch", path, "-o", tmp_path / "b.nysk", "-m", "100")
    assert "mean over bandwidths" in run_cli("info", tmp_path / "b.nysk").stdout
    assert "not seen" not in again.stdout + again.stderr
