"""Features Φ with Φ(x)·Φ(y) ≈ k(x, y): at landmarks, of Fourier frequencies, and in files."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import nysketch
from nysketch.basis.fourier import FourierBasis, draw_frequencies
from nysketch.kernels import Cosine, Gaussian, Linear, Polynomial
from nysketch.sketches.describe import describe
from tests.kernels.kinds import NUMERIC, basis_at, fourier_basis, numbers
from tests.tiles.test_summer import sums_of

# ---- landmarks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMERIC)
def test_features_have_the_kernel_at_landmarks(name):
    landmarks = numbers(25, 4)
    basis = basis_at(NUMERIC[name](4), landmarks, center=0.3, scale=1.7)
    K = basis.values(landmarks)
    features = basis.to_features(K)
    assert features.shape == (25, basis.rank)
    size = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    assert np.abs((features @ features.T - K) / size).max() < 1e-6


@pytest.mark.parametrize("name", NUMERIC)
def test_features_never_exceed_the_kernel(name):
    """Φ is a projection: what is left of k(x, x) is no less than 0."""
    basis = basis_at(NUMERIC[name](4), numbers(25, 4))
    rows = numbers(200, 4, seed=1)
    features = basis.to_features(basis.values(rows))
    own = basis.kernel.diagonal(rows)
    assert ((features**2).sum(axis=1) <= own * (1 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize(
    ("kernel", "rank"),
    [
        (Linear(), 3),
        (Cosine(), 3),
        (Polynomial(1.0, 1, 0.0), 3),
        (Polynomial(1.0, 1, 1.0), 4),
        (Polynomial(1.0, 2, 0.0), 6),
        (Polynomial(1.0, 2, 1.0), 10),
        (Polynomial(1.0, 3, 1.0), 20),
    ],
    ids=str,
)
def test_the_rank_is_the_number_of_monomials(kernel, rank):
    landmarks = numbers(40, 3)
    basis = basis_at(kernel, landmarks)
    assert basis.rank == rank
    rows = numbers(50, 3, seed=1)  # and then the features are exact everywhere
    features = basis.to_features(basis.values(rows))
    K = kernel(rows, rows)
    assert features @ features.T == pytest.approx(K, rel=1e-6, abs=1e-7 * np.abs(K).max())


def test_the_mean_features_of_the_linear_kernel_are_those_of_the_mean_row():
    rows = numbers(500, 3) + np.array([1, 2, 3])
    sketch = nysketch.sketch(rows, landmarks=20, kernel="linear", scale="none", threads=1)
    assert sketch.rank == 3
    mean = rows.mean(axis=0)
    assert sketch.mean_features() @ sketch.mean_features() == pytest.approx(mean @ mean, rel=1e-5)
    # the embedding Σ α_j z_j is the mean row itself
    assert sketch.embedding_weights() @ sketch.basis.landmarks == pytest.approx(mean, rel=1e-5)


def test_landmarks_that_are_all_zero_have_rank_0(tmp_path, run_cli):
    sketch = nysketch.sketch(np.full((100, 2), 3.0), landmarks=5, kernel="cosine", threads=1)
    assert sketch.rank == 0
    assert not sketch.kernel_sums.any()
    assert sketch.mean_features().shape == (0,)
    assert not sketch.embedding_weights().any()
    path = tmp_path / "zero.nysk"
    nysketch.save(sketch, path)
    assert nysketch.load(path) == sketch
    json.dumps(describe(sketch), allow_nan=False)
    run = run_cli("info", path)
    assert run.returncode == 0, run.stderr
    assert "rank" in run.stdout


def test_some_landmarks_that_are_zero_do_no_harm():
    landmarks = np.vstack([numbers(6, 3), np.zeros((2, 3))])
    for kernel in (Cosine(), Linear(), Polynomial(1.0, 3, 0.0)):
        basis = basis_at(kernel, landmarks)
        features = basis.to_features(basis.gram())
        assert np.isfinite(features).all()
        assert not features[-2:].any()
        assert features @ features.T == pytest.approx(basis.gram(), abs=1e-6 * np.abs(basis.gram()).max())


# ---- files -----------------------------------------------------------------------------------------

FITTED = [
    {"kernel": "gaussian"},
    {"kernel": "gaussian", "bandwidth": "0.5*median,2"},
    {"kernel": "laplacian-l1"},
    {"kernel": "laplacian-l2"},
    {"kernel": "matern32", "bandwidth": 2},
    {"kernel": "matern52"},
    {"kernel": "linear"},
    {"kernel": "polynomial", "degree": 3, "offset": 0.5},
    {"kernel": "cosine"},
    {"groups": {"a": ["x", "z"], "b": ["y"]}, "kernel": {"b": "linear"}},
    {"features": "fourier"},
    {"features": "fourier", "frequencies": "adapted-radius"},
]


def small_table(rows=300, seed=0):
    return pa.table(dict(zip("xyz", numbers(rows, 3, seed).T, strict=True)))


@pytest.mark.parametrize("options", FITTED, ids=str)
def test_sketches_of_every_kernel_are_saved_merged_and_subtracted(options, tmp_path):
    basis = nysketch.Basis.fit(small_table(), landmarks=12, threads=1, **options)
    nysketch.save(basis, tmp_path / "basis.nysk")
    loaded = nysketch.load(tmp_path / "basis.nysk")
    assert loaded == basis
    assert loaded.kernel == basis.kernel
    a = nysketch.sketch(small_table(), basis=basis, threads=1)
    b = nysketch.sketch(small_table(seed=1), basis=tmp_path / "basis.nysk", threads=1)
    nysketch.save(a + b, tmp_path / "both.nysk")
    both = nysketch.load(tmp_path / "both.nysk")
    assert both == b + a
    assert np.array_equal((both - b).kernel_sums, a.kernel_sums)
    json.dumps(describe(both), allow_nan=False)


@pytest.mark.parametrize(
    "options",
    [{"kernel": "polynomial", "offset": 1}, {"kernel": "polynomial", "offset": 0, "degree": 1}],
    ids=str,
)
def test_whole_numbers_as_options_can_be_read_again(options, tmp_path):
    sketch = nysketch.sketch(small_table(), landmarks=12, threads=1, **options)
    nysketch.save(sketch, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == sketch


def test_a_decay_of_1_can_be_read_again(tmp_path):
    table = pa.table({"s": ["abc", "abd", "xyz"] * 5})
    sketch = nysketch.sketch(table, kernel="subsequence", length=2, decay=1, landmarks=3, threads=1)
    nysketch.save(sketch, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == sketch


def test_numpy_numbers_are_options_too(tmp_path):
    sketch = nysketch.sketch(
        small_table(),
        landmarks=12,
        kernel="polynomial",
        degree=np.int64(2),
        offset=np.float64(0.5),
        threads=1,
    )
    nysketch.save(sketch, tmp_path / "s.nysk")
    assert nysketch.load(tmp_path / "s.nysk") == sketch


# ---- Fourier features ------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3, 20])
def test_fourier_features_have_the_kernel_up_to_the_root_of_their_number(d):
    rows = numbers(60, d, seed=d) * (2 / math.sqrt(d))
    kernel = Gaussian(1.3)
    K = kernel(rows, rows)
    pairs = np.triu_indices(60, 1)
    errors = {}
    for count in (100, 400, 1600):
        squares = []
        for seed in range(20):
            basis = fourier_basis(d, 2 * count, "gaussian", bandwidth=1.3, seed=seed)
            features = basis.to_features(basis.evaluate(rows))
            assert (features**2).sum(axis=1) == pytest.approx(1)
            squares.append(np.mean((features @ features.T - K)[pairs] ** 2))
        errors[count] = math.sqrt(np.mean(squares))
        # Var cos ω·δ = (1 + k(2δ))/2 − k(δ)², and k(2δ) = k(δ)⁴; 20 seeds tell the mean to some 10 %.
        expected = math.sqrt(np.mean((1 + K[pairs] ** 4) / 2 - K[pairs] ** 2) / count)
        assert errors[count] == pytest.approx(expected, rel=0.3)
    assert errors[100] / errors[1600] == pytest.approx(4, rel=0.35)


def kolmogorov_smirnov(values, cdf):
    values = np.sort(values)
    n, expected = len(values), cdf(np.sort(values))
    return max(np.max(np.arange(1, n + 1) / n - expected), np.max(expected - np.arange(n) / n))


def adapted_cdf(radii):
    fine = np.linspace(0, 12, 200_001)
    density = np.sqrt(fine**2 + fine**4 / 4) * np.exp(-(fine**2) / 2)
    steps = (density[1:] + density[:-1]) / 2
    cumulated = np.concatenate([[0], np.cumsum(steps)])
    return np.interp(radii, fine, cumulated / cumulated[-1])


@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_adapted_radii_follow_their_density_in_every_dimension(d):
    count = 20_000 if d < 100 else 5_000
    drawn = draw_frequencies(count, d, "adapted-radius", np.random.default_rng(0))
    radii = np.linalg.norm(drawn, axis=1)
    assert kolmogorov_smirnov(radii, adapted_cdf) < 1.95 / math.sqrt(count)  # 0.1 % by chance
    # and the directions are uniform: no mean, and all coordinates alike
    directions = drawn / radii[:, None]
    assert np.abs(directions.mean(axis=0)).max() < 4.5 / math.sqrt(count * d)
    assert (directions**2).mean(axis=0) == pytest.approx(1 / d, rel=0.1)


def test_the_radii_would_not_pass_for_gaussian_ones():
    gaussian = np.linalg.norm(draw_frequencies(20_000, 10, "gaussian", np.random.default_rng(0)), axis=1)
    assert kolmogorov_smirnov(gaussian, adapted_cdf) > 0.5


def test_gaussian_frequencies_are_standard_normal():
    drawn = draw_frequencies(5000, 3, "gaussian", np.random.default_rng(0))
    normal = np.vectorize(lambda t: 0.5 * (1 + math.erf(t / math.sqrt(2))))
    for k in range(3):
        assert kolmogorov_smirnov(drawn[:, k], normal) < 1.95 / math.sqrt(5000)


@pytest.mark.parametrize("draw", ["gaussian", "adapted-radius"])
def test_frequencies_come_back_from_a_file_bit_for_bit(draw, tmp_path):
    table = small_table()
    sketch = nysketch.sketch(table, landmarks=64, features="fourier", frequencies=draw, threads=1)
    nysketch.save(sketch, tmp_path / "f.nysk")
    loaded = nysketch.load(tmp_path / "f.nysk")
    assert isinstance(loaded.basis, FourierBasis)
    assert loaded.basis.draw == draw
    assert loaded.basis.frequencies.tobytes() == sketch.basis.frequencies.tobytes()
    assert loaded.basis.digest == sketch.basis.digest
    again = nysketch.sketch(table, basis=loaded, threads=1)
    assert again.kernel_sums.tobytes() == sketch.kernel_sums.tobytes()
    rows = numbers(300, 3)
    assert np.array_equal(sums_of(loaded.basis, rows)[0], sums_of(sketch.basis, rows)[0])
    assert sketch.kernel_sums == pytest.approx(sketch.basis.values(rows).sum(axis=0), abs=300 * 1e-6)


def test_frequencies_depend_on_the_seed_alone():
    options = {"landmarks": 20, "features": "fourier", "threads": 1, "scale": "none", "bandwidth": 2.0}
    a = nysketch.Basis.fit(small_table(), seed=3, **options)
    b = nysketch.Basis.fit(small_table(seed=9), seed=3, **options)
    c = nysketch.Basis.fit(small_table(), seed=4, **options)
    assert a == b
    assert a != c
    half = nysketch.Basis.fit(small_table(), seed=3, **options | {"bandwidth": 4.0})
    assert half.frequencies == pytest.approx(a.frequencies / 2)


def test_mean_features_tell_distances_between_distributions():
    """|mean Φ(P) − mean Φ(Q)|² of Gaussians is known: the squared MMD."""
    random = np.random.default_rng(0)
    p, q = random.normal(size=(20_000, 2)), random.normal([1.0, 0.0], 1.0, (20_000, 2))
    basis = fourier_basis(2, 4000, "gaussian", bandwidth=1.0)
    a, b = (nysketch.sketch(rows, basis=basis, threads=1) for rows in named(p, q))
    gap = a.mean_features() - b.mean_features()
    # ∫∫ k dN(μ, I) dN(ν, I) = (1/3)^(d/2) exp(−|μ − ν|²/6) at bandwidth 1
    assert gap @ gap == pytest.approx(2 / 3 * (1 - math.exp(-1 / 6)), rel=0.1)


def named(*arrays):
    return [pa.table({"x0": rows[:, 0], "x1": rows[:, 1]}) for rows in arrays]
